"""Promises of views that hold still: what is pressed stays, and says what it does."""

import re

import torch
from book.views import AxisJuggler, EncoderLab
from common import ROOT
from taken_apart.views import AttentionMap, Curves
from views.shared import softmax_weights
from views.test_encoder_lab_browser import says, word
from views.test_mask_lab_browser import choose, lab, preset, verdicts

RIGHT = "the right step"
SHARED = ROOT / "code/taken_apart/views/js/shared"
VERDICTS = ("holds", "depends", "refuted")


def top(page, selector):
    """Return where a node begins, from the top of the page."""
    place = "(node) => Math.round(node.getBoundingClientRect().top + scrollY)"
    return page.locator(selector).first.evaluate(place)


def test_the_juggler_is_led_to_its_end_by_pressing_at_one_spot(show):
    for width in (820, 390):
        x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
        page = show(AxisJuggler(x, 2, ["emma", "ate", "the", "soup"]), width=width)
        box = page.get_by_role("button", name=RIGHT).bounding_box()
        options, seen = page.locator(".jug-options"), []
        for _ in range(5):
            seen.append(round(options.bounding_box()["y"]))
            page.mouse.click(box["x"] + 9, box["y"] + 9)
        assert page.locator(".jug-told").inner_text().startswith("Right"), width
        assert max(seen) - min(seen) <= 8, width


def colours(text, selector):
    return re.findall(rf"{selector}[^{{]*\{{ color: var\(--(\w+)", text)


def test_a_verdict_has_one_colour_everywhere_and_no_axis_has_it():
    sheet = (SHARED / "colours.css").read_text()
    tokens = dict(re.findall(r"--([\w-]+): (#\w+)", sheet.split("/* The dark")[0]))
    axes = {colour for name, colour in tokens.items() if name.startswith("axis")}
    assert len(axes) == 8
    assert not axes & {tokens[name] for name in (*VERDICTS, "mark", "hand")}
    kinds = {colour for name, colour in tokens.items() if name.startswith("kind")}
    assert len(kinds) == 6
    assert not axes & kinds
    chapters = (ROOT / "chapters/_static/book.css").read_text()
    ledger = (ROOT / "code/book/views/js/ledger/ledger.css").read_text()
    for verdict in VERDICTS:
        assert colours(chapters, rf"tr\.{verdict} ") == [verdict]
        assert colours(ledger, rf'data-verdict="{verdict}"') == [verdict]


def test_the_mask_lab_shows_the_fill_that_counts_and_a_row_that_sees_nothing(show):
    page = show(lab())
    fill = page.get_by_label("fill", exact=True)
    places = [top(page, ".mask-choices"), top(page, ".mask-code")]
    assert not fill.is_enabled()
    assert fill.input_value() == "lowest of the format"
    choose(page, "handed to", "F.scaled_dot_product_attention")
    assert fill.input_value() == "−inf"
    choose(page, "handed to", "masked_fill by hand")
    assert fill.is_enabled()
    choose(page, "fill", "−inf")
    assert page.locator(".mask-panel:nth-child(2) td").nth(4).inner_text() == "−∞"
    choose(page, "handed to", "attention of this book")
    assert not fill.is_enabled()
    for name in ("causal + padding", "cross", "nobody for one"):
        preset(page, name)
        assert [top(page, ".mask-choices"), top(page, ".mask-code")] == places, name
    assert verdicts(page)[1].startswith("≈")
    assert "sees nothing" in verdicts(page)[1]
    assert page.locator(".mask-verdict").nth(1).get_attribute("data-kind") == "open"


def test_the_lab_shows_where_it_looks_counts_any_right_answer_and_holds_still(show):
    page = show(EncoderLab())
    word(page, 0).select_option("paul")
    assert says(page)[0] == "he"
    bars = page.locator(".lab-word").first.locator(".lab-share").all_inner_texts()
    assert max(int(text.split()[0]) for text in bars) > 50  # one head finds Paul
    done = page.locator(".lab-tasks li[data-done]")
    assert done.count() == 1
    page.locator(".lab-wire").nth(2).click()
    assert says(page)[0] not in ("he", "she")
    assert done.count() == 2
    line = page.get_by_role("textbox", name="type a sentence")
    line.fill("Paul ate the Soup, because ___ was “hungry”.")
    line.press("Enter")
    assert page.locator(".lab-message").inner_text() == ""
    assert page.locator(".lab-word select").nth(7).input_value() == "hungry"
    below = top(page, ".lab-two")
    for stage in ("1.scores", "1.weights", "guess", "input", "1.hidden"):
        page.locator(f'[data-stage="{stage}"]').click()
        assert top(page, ".lab-two") == below, stage
    page.locator('[data-stage="1.scores"]').click()
    grids = page.locator(".lab-panel .lab-grid:visible").all()
    assert len({round(grid.bounding_box()["y"]) for grid in grids}) == 1
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator('[data-stage="1.query"]').click()
    assert page.locator(".lab-panel .lab-scroll[data-cut]").count() == 1


def test_curves_tell_what_has_changed_and_keep_their_ticks_off_the_title(show):
    page = show(Curves({"a": [1e4, 2e4], "b": [3e4, 1]}, log=True))
    said = page.get_by_role("status")
    assert said.inner_text() == "2 of 2 curves, in powers of ten"
    ticks = page.locator(".eta-plot text[text-anchor=end]").all()
    title = page.locator(".eta-plot .eta-name").last.bounding_box()
    edge = min(tick.bounding_box()["x"] for tick in ticks)
    assert title["x"] + title["width"] <= edge
    page.get_by_role("button", name="all out").click()
    assert said.inner_text() == "0 of 2 curves, in powers of ten"


def test_a_list_of_pairs_shows_its_names_whole(show):
    tokens = ["emma", "ate", "because", "soup", "hungry"]
    page = show(AttentionMap(softmax_weights(2, 2, 5, 5), tokens), width=688)
    cut = page.locator(".eta-rank span:first-child").evaluate_all(
        "(nodes) => nodes.filter((node) => node.scrollWidth > node.clientWidth).length"
    )
    assert cut == 0
