"""The ledger keeps its word: all claims once, and evidence for every verdict."""

import json
import re

import pytest
from book.claims import MIME, VERDICTS, ledger
from book.views import Ledger
from book.views.ledger import html_row
from common import NUMBERED, ROOT, violations

ROWS = ledger.read()
CHAPTERS = {
    *("01_inputs", "02_attention", "03_multi_head", "04_feed_forward"),
    *("05_layer_norm", "06_masks", "07_encoder", "08_training", "09_pitfalls"),
    "11_decoder",
    *(f"evidence_{number:02}" for number in range(1, 10)),
    "beyond",
}
ARTICLES = {"build guide", "lesson", "BERT walk", "minimal encoder"}
UNUSED = {"B058", "B059"}


def having(kind):
    return [row for row in ROWS if row["evidence"] == kind]


def references():
    return {row["reference"] for row in ROWS if "reference" in row}


# The rows


def test_every_claim_of_the_sources_has_one_row_in_order():
    numbers = [f"A{n:03}" for n in range(1, 162)] + [f"B{n:03}" for n in range(1, 113)]
    assert [row["id"] for row in ROWS] == [n for n in numbers if n not in UNUSED]
    assert len(ROWS) == 271


def test_a_claim_is_one_short_sentence_said_once():
    texts = [row["text"] for row in ROWS]
    assert [text for text in texts if not 10 <= len(text) <= 160] == []
    assert [text for text in texts if text != text.strip() or text[-1] == "."] == []
    assert len(set(texts)) == len(texts)


def test_a_row_names_its_chapter_its_article_and_the_section():
    assert {row["chapter"] for row in ROWS} <= CHAPTERS
    assert {path.stem for path in NUMBERED} <= CHAPTERS
    assert {row["source"].split(",")[0] for row in ROWS} == ARTICLES
    assert [row["id"] for row in ROWS if not re.search(r", \w", row["source"])] == []


def test_verdict_and_evidence_go_together():
    allowed = {
        "executed": set(VERDICTS),
        "cited": set(VERDICTS) - {"open"},
        "to come": {"open"},
        "not checkable": {"not checkable"},
    }
    assert tuple(allowed) == ledger.EVIDENCE
    for row in ROWS:
        assert row["verdict"] in allowed[row["evidence"]], row


def test_only_executed_rows_carry_figures_of_ours():
    for row in ROWS:
        assert bool(row["measured"]) == (row["evidence"] == "executed"), row["id"]


def test_a_cited_row_names_a_reference_of_the_book_and_what_it_says():
    keys = re.findall(r"@\w+\{(\w+),", (ROOT / "chapters/references.bib").read_text())
    for row in having("cited"):
        assert row["reference"] in keys, row
        assert len(row["note"]) >= 10, row


def test_what_cannot_be_checked_says_what_is_missing():
    assert [row["id"] for row in having("not checkable") if not row["note"]] == []


# Ledger and notebooks, both ways


@pytest.fixture(scope="module")
def settled():
    return ledger.settled()


def test_every_settled_claim_has_its_row_with_the_same_verdict_and_figures(settled):
    rows = {row["id"]: row for row in ROWS}
    for number, found in settled.items():
        kept = {name: rows[number].get(name, "") for name in found}
        assert kept == found, "run `python code/book ledger`"
        assert rows[number]["evidence"] == "executed", "run `python code/book ledger`"


def test_every_executed_row_has_its_cell(settled):
    assert {row["id"] for row in having("executed")} == set(settled)


def test_every_row_leads_to_the_table_that_its_chapter_stores(settled):
    for number, found in settled.items():
        notebook = (ROOT / f"chapters/{found['chapter']}.ipynb").read_text()
        assert notebook.count(rf"id=\"claim-{number}\"") == 1


def test_the_page_shows_the_rows_of_today():
    page = ROOT / "chapters/ledger.ipynb"
    cells = json.loads(page.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    html = "".join("".join(o.get("data", {}).get("text/html", "")) for o in outputs)
    assert Ledger(ROWS).still() in html, "run `make execute`"


def test_the_page_lists_the_references_that_its_rows_cite():
    page = (ROOT / "chapters/ledger.ipynb").read_text()
    filtered = re.search(r":filter: key in \{(.*?)\}", page)[1]
    assert set(re.findall(r"\w+\d{4}\w*", filtered)) == references()


# Collecting


def settling(verdict="holds", number="A001", **more):
    """Return a cell whose stored output settles one claim."""
    measured = [["z first", True], ["a last", 1.5]]
    claim = {"id": number, "text": "Said", "verdict": verdict, "measured": measured}
    claim |= more
    data = {MIME: {"claims": [claim]}}
    return {"cell_type": "code", "outputs": [{"data": data}]}


def folder_of(path, *notebooks):
    """Store two open rows and notebooks of one cell each in a folder, and return it."""
    rows = [{"id": n, "text": "Said", **ledger.OPEN} for n in ("A001", "A002")]
    ledger.write([row | {"chapter": "beyond"} for row in rows], path)
    for number, cell in enumerate(notebooks, start=1):
        text = json.dumps({"cells": [cell]})
        (path / f"0{number}_chapter.ipynb").write_text(text)
    return path


def test_collecting_takes_verdict_figures_and_place_from_the_notebook(tmp_path):
    first, second = ledger.collect(folder_of(tmp_path, settling("refuted")))
    assert (first["verdict"], first["evidence"]) == ("refuted", "executed")
    assert list(first["measured"].items()) == [("z first", True), ("a last", 1.5)]
    assert first["chapter"] == "01_chapter"
    assert (second["verdict"], second["chapter"]) == ("open", "beyond")


def test_the_wording_on_the_page_is_the_ledgers(tmp_path):
    cell = settling("depends", text="Said better", condition="at night")
    row = ledger.collect(folder_of(tmp_path, cell))[0]
    assert (row["text"], row["condition"]) == ("Said better", "at night")


def test_evidence_pages_settle_claims_of_their_chapter(tmp_path):
    folder = folder_of(tmp_path, settling())
    notebook = json.dumps({"cells": [settling("refuted", "A002", text="<i>")]})
    (folder / "evidence_01.ipynb").write_text(notebook)
    ledger.write(ledger.collect(folder), folder)
    table = ledger.contents("01", folder)
    assert repr(table) == "A001 holds: Said\nA002 refuted: <i>"
    html = table._repr_html_()
    assert 'href="01_chapter.html#claim-A001"' in html
    assert 'href="#claim-A002"' in html
    assert "&lt;i&gt;" in html
    with pytest.raises(ValueError, match="no executed claim .* chapter '02'"):
        ledger.contents("02", folder)


def test_a_row_whose_cell_is_gone_is_open_again(tmp_path):
    folder = folder_of(tmp_path, settling())
    ledger.write(ledger.collect(folder), folder)
    (folder / "01_chapter.ipynb").unlink()
    row = ledger.collect(folder)[0]
    assert {name: row[name] for name in ledger.OPEN} == ledger.OPEN


def test_a_claim_settled_twice_or_without_a_row_is_refused(tmp_path):
    with pytest.raises(ValueError, match="one cell, .*{'A001': '02_chapter'}"):
        ledger.collect(folder_of(tmp_path, settling(), settling()))
    with pytest.raises(ValueError, match=r"no row for \['B999'\]"):
        ledger.collect(folder_of(tmp_path, settling(), settling(number="B999")))


# The table


def test_hostile_text_stays_text():
    row = ROWS[0] | {"text": "<img src=x>", "note": "a & <b>", "source": '"lesson", 1'}
    html = html_row(row)
    assert [bad for bad in ("<img", "& <b>", 'source=""') if bad in html] == []


def test_a_ledger_has_no_live_form_and_says_so():
    with pytest.raises(TypeError, match="has no live form"):
        Ledger(ROWS).live()


@pytest.fixture
def page(show):
    """The ledger on a phone, with nothing around it."""
    page = show(Ledger(ROWS), width=390)
    page.wait_for_selector(".eta-ledger output")
    return page


def shown(page):
    rows = page.locator(".eta-claims tbody tr:visible")
    return rows.evaluate_all("rows => rows.map((row) => row.id)")


def expected(**facets):
    return {r["id"] for r in ROWS if all(r[k] == v for k, v in facets.items())}


def test_choices_narrow_one_another_and_all_come_back(page):
    assert len(shown(page)) == len(ROWS)
    page.get_by_label("Verdict").select_option("refuted")
    assert set(shown(page)) == expected(verdict="refuted")
    page.locator('select[name="evidence"]').select_option("cited")
    cited = expected(verdict="refuted", evidence="cited")
    assert set(shown(page)) == cited
    assert page.locator("output").inner_text() == f"{len(cited)} of 271 claims"
    page.get_by_text("Show all").click()
    assert len(shown(page)) == len(ROWS)


def test_the_search_wants_every_word_and_no_order(page):
    search = page.get_by_label("Search")
    search.fill("A070")
    assert shown(page) == ["A070"]
    search.fill("VANISH  dropout")
    assert {"A077", "A031"} & {*shown(page)} == {"A077"}
    search.fill("no such words")
    assert shown(page) == []


def test_the_filters_are_reached_and_worked_by_keys_alone(page):
    page.get_by_label("Search").focus()
    page.keyboard.type("norm")
    few = len(shown(page))
    page.keyboard.press("Tab")
    page.keyboard.type("refuted")
    assert 0 < len(shown(page)) < few


def test_what_is_chosen_stands_in_the_address_and_comes_back_from_it(page):
    page.get_by_label("Verdict").select_option("refuted")
    page.get_by_label("Search").fill("norm")
    assert page.evaluate("location.hash") == "#search=norm&verdict=refuted"
    few = shown(page)
    page.get_by_text("Show all").click()
    assert page.evaluate("location.hash") == ""
    page.evaluate("location.hash = 'verdict=refuted&search=norm'")
    page.wait_for_function("document.querySelector('select').value == 'refuted'")
    assert 0 < len(few) < len(ROWS)
    assert shown(page) == few


def test_a_linked_row_comes_into_sight_whatever_was_chosen(page):
    page.get_by_label("Verdict").select_option("refuted")
    holds = next(row["id"] for row in ROWS if row["verdict"] == "holds")
    page.evaluate(f"location.hash = '{holds}'")
    page.wait_for_function("document.querySelector('select').value == ''")
    assert page.locator(f"#{holds}").is_visible()


def test_the_table_fits_a_phone_and_can_be_read_by_all(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page) == []


def test_what_is_cited_is_listed_and_what_is_listed_is_cited():
    entries = (ROOT / "chapters/references.bib").read_text()
    listed = re.findall(r"^@\w+\{(\w+),", entries, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    pages = [*ROOT.glob("chapters/*.ipynb"), *ROOT.glob("chapters/*.md")]
    text = "\n".join(page.read_text() for page in pages)
    keys = ",".join(re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text)).split(",")
    cited = {key.strip() for key in keys}
    cited |= {row["reference"] for row in ROWS if row.get("reference")}
    assert cited == set(listed)
