"""Promises of the museum's views: the table of symptoms, and the game."""

import json
import re

import pytest
from book.pitfalls import PITFALLS, SIGNS, healthy
from book.pitfalls import game as rounds
from book.pitfalls.game import ROUNDS
from book.views import SpotTheBug, Symptoms
from book.views.symptoms import anchor
from bs4 import BeautifulSoup
from common import violations
from taken_apart.tracer import trace
from taken_apart.views import ShapeTracer

each_theme = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture(scope="module")
def table():
    return Symptoms()


@pytest.fixture(scope="module")
def game():
    return SpotTheBug()


# --- Python --------------------------------------------------------------------------


def test_views_say_what_they_hold_and_stay_the_same(table, game):
    assert repr(table) == f"Symptoms({len(PITFALLS)} exhibits, {len(SIGNS)} signs)"
    assert repr(game) == f"SpotTheBug({len(ROUNDS)} rounds)"
    assert table.html() == Symptoms().html()
    assert game.html() == SpotTheBug().html()
    for html in (table.html(), game.html()):
        plain = html.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"0x[0-9a-f]{6}|https?:|\bsrc=", plain)


def test_every_exhibit_has_a_row_that_leads_to_its_lines(table):
    page = BeautifulSoup(table.still(), "html.parser")
    rows = page.select("tbody tr")
    links = [row.select_one("a")["href"] for row in rows]
    assert len(rows) == len(PITFALLS)
    assert len(set(links)) == len(links)
    for link, row in zip(links, rows, strict=True):
        shown = page.select_one(f"details[id={link[1:]}]")
        case = next(p for p in PITFALLS.values() if anchor(p) == link[1:])
        assert shown.pre.text == case.code()
        assert case.where in shown.text
        assert row["data-kind"] == case.kind
        assert row["data-sign"] == case.sign
        assert row.code.text == case.diagnosis
        assert case.fix in row.text


def test_rows_come_in_the_order_of_what_is_seen(table):
    signs = [case.sign for case in table.pitfalls]
    assert signs == sorted(signs, key=SIGNS.index)


def test_the_table_has_no_live_form(table):
    with pytest.raises(TypeError, match="no live form"):
        table.live()


def test_a_round_has_four_choices_of_which_one_is_right(game):
    for (name, others), asked in zip(ROUNDS.items(), game.state["rounds"], strict=True):
        names = [choice for choice, _ in asked["choices"]]
        assert sorted(names) == names == sorted({name, *others})
        assert len(names) == 4
        assert names[asked["right"]] == name
    places = [asked["right"] for asked in game.state["rounds"]]
    assert len(set(places)) > 2  # the answer does not always stand in one place


def test_every_round_is_told_from_the_right_encoder_by_what_is_drawn(game):
    right = game.state["right"]
    for asked in game.state["rounds"]:
        drawn = [name for name in ("map", "moved") if asked[name] != right[name]]
        assert drawn, asked["choices"][asked["right"]]


def test_no_two_rounds_show_the_same(game):
    shown = [
        json.dumps([r["map"], r["moved"], r["losses"]]) for r in game.state["rounds"]
    ]
    assert len(set(shown)) == len(shown)


def test_recorded_losses_are_complete_and_the_right_encoder_learned():
    recorded = json.loads(rounds.LOSSES.read_text())
    assert recorded.keys() == {"right", *ROUNDS}
    n = rounds.TRAINING_STEPS // rounds.PER_POINT
    assert all(len(losses) == n for losses in recorded.values())
    assert recorded["right"][-1] < 0.05
    learned = [name for name, losses in recorded.items() if losses[-1] < 0.1]
    assert len(learned) > 3  # a loss that falls tells little: the point of the game


def test_a_run_can_be_recorded_again(monkeypatch):
    monkeypatch.setattr(rounds, "TRAINING_STEPS", rounds.PER_POINT)
    losses = rounds.losses_of(
        healthy(**rounds.TRAINED | {"vocab_size": 32, "max_length": 12})
    )
    recorded = json.loads(rounds.LOSSES.read_text())["right"]
    assert len(losses) == 1
    assert abs(losses[0] - recorded[0]) < 0.2


def test_the_still_game_can_be_played(game):
    page = BeautifulSoup(game.still(), "html.parser")
    assert len(page.select("li")) == len(ROUNDS)
    for item, name in zip(page.select("li"), ROUNDS, strict=True):
        assert name in item.details.text
        assert name in item.p.text
        assert len(item.select("svg")) == 2


# --- The mathematics of the page -----------------------------------------------------


def test_shades_are_eight_and_zero_is_none(js):
    body = "return module.shades(data, 99)"
    assert js("spot_the_bug.js", body, [[0, 1, 12, 13, 50, 99]]) == [[0, 1, 1, 2, 5, 8]]


def test_a_curve_fills_its_box_and_ends_at_the_first_nan(js):
    body = "return module.points(data, 2, 100, 50)"
    got = js("spot_the_bug.js", body, [2, 1, 0, 9, None, 1])
    assert got == [[0, 0], [20, 25], [40, 50], [60, 0]]


def test_the_score_counts_right_answers_only(js):
    body = "return module.scoreOf(data.rounds, data.answers)"
    data = {"rounds": [{"right": 1}, {"right": 0}, {"right": 3}, {"right": 2}]}
    assert js("spot_the_bug.js", body, data | {"answers": [1, 2, None, 2]}) == 2


def test_the_course_of_a_curve_is_told_in_words(js):
    body = "return data.map(module.courseOf)"
    told = js("spot_the_bug.js", body, [[0.7, 0.2], [0.7, 0.69], [0.7, None]])
    assert told[0] == "falls and ends at 0.20"
    assert told[2] == "ends in nan"
    assert told[1] == "stays above 0.35 and ends at 0.69"


def test_a_row_is_kept_by_every_word_and_every_choice(js):
    body = """return [["padding", "mask"], ["padding", "x"]].map((words) =>
      module.matches(data, { kind: "", sign: "nan" }, words))"""
    row = {"text": "a mask of padding", "kind": "k", "sign": "nan"}
    assert js("rows.js", body, row) == [True, False]


# --- The table, touched --------------------------------------------------------------


def shown_rows(page):
    return page.locator(".eta-symptoms tbody tr:visible").count()


def test_the_table_is_searched_and_filtered(show, table):
    page = show(table)
    status = page.locator(".eta-ledger output")
    n = len(PITFALLS)
    assert status.inner_text() == f"{n} of {n} exhibits"
    page.get_by_label("Search").fill("padding denominator")
    assert shown_rows(page) == 0
    page.get_by_label("Search").fill("nan softmax")
    found = shown_rows(page)
    assert 1 <= found <= 9
    assert status.inner_text() == f"{found} of {n} exhibits"
    assert page.locator(".eta-exhibits details:visible").count() == found
    page.get_by_role("button", name="Show all").click()
    assert page.locator(".eta-exhibits details:visible").count() == n
    page.get_by_label("What you see").select_option("nan or inf")
    wanted = sum(case.sign == "nan or inf" for case in PITFALLS.values())
    assert shown_rows(page) == wanted
    page.get_by_label("Kind").select_option("softmax / scale")
    assert shown_rows(page) == 0


def test_a_link_opens_its_exhibit_by_mouse_and_by_keyboard(show, table):
    page = show(table)
    for name, act in (
        ("scale forgotten", lambda link: link.click()),
        ("causal by habit", lambda link: link.press("Enter")),
    ):
        page.get_by_label("Search").fill(name)
        act(page.locator(f'a[href="#exhibit-{name.replace(" ", "-")}"]'))
        opened = page.locator(f"details#exhibit-{name.replace(' ', '-')}")
        assert opened.locator("pre").is_visible()
        assert "class" in opened.locator("pre").inner_text()
        assert page.evaluate("document.activeElement.textContent") == name


def test_an_address_with_a_fragment_opens_its_exhibit(show, table):
    page = show(table)
    page.evaluate("location.hash = '#exhibit-softmax-twice'")
    page.locator("details#exhibit-softmax-twice pre").wait_for()


def test_without_scripts_all_rows_are_read_and_exhibits_open(show, table):
    page = show(table, java_script_enabled=False)
    assert shown_rows(page) == len(PITFALLS)
    page.locator("details#exhibit-scale-forgotten summary").click()
    assert page.locator("details#exhibit-scale-forgotten pre").is_visible()


# --- The game, played ----------------------------------------------------------------

CHOICES, STATUS, VERDICT = ".eta-choices button", ".eta-spot output", ".eta-verdict"


def test_the_game_is_played_with_the_mouse(show, game):
    page, asked = show(game), game.state["rounds"][0]
    assert page.locator(CHOICES).count() == 4
    assert page.locator(VERDICT).inner_text() == ""
    page.locator(CHOICES).nth(asked["right"]).click()
    assert page.locator(VERDICT).inner_text().startswith("Right.")
    assert "1 of 1 right" in page.locator(STATUS).inner_text()
    page.get_by_role("button", name="Next").click()
    wrong = (game.state["rounds"][1]["right"] + 1) % 4
    page.locator(CHOICES).nth(wrong).click()
    name = list(ROUNDS)[1]
    assert page.locator(VERDICT).inner_text().startswith(f"No: {name}.")
    assert "1 of 2 right" in page.locator(STATUS).inner_text()


def test_the_game_is_played_with_the_keyboard(show, game):
    page = show(game)
    page.locator(CHOICES).first.focus()
    for i, asked in enumerate(game.state["rounds"]):
        page.keyboard.press(str(asked["right"] + 1))
        assert f"{i + 1} of {i + 1} right" in page.locator(STATUS).inner_text()
        page.keyboard.press("n")
    assert page.locator(STATUS).inner_text().startswith("Round 1 of")
    page.get_by_role("button", name="Start again").press("Enter")
    assert "0 of 0 right" in page.locator(STATUS).inner_text()


def test_a_second_answer_changes_nothing(show, game):
    page, right = show(game), game.state["rounds"][0]["right"]
    page.locator(CHOICES).nth((right + 1) % 4).click()
    page.locator(CHOICES).nth(right).click(force=True)
    assert "0 of 1 right" in page.locator(STATUS).inner_text()


def test_the_answer_leads_to_its_exhibit_in_the_table(show, game, table):
    page = show(table, game)
    page.locator(CHOICES).first.click()
    page.locator(f"{VERDICT} a").click()
    name = list(ROUNDS)[0].replace(" ", "-")
    page.locator(f"details#exhibit-{name} pre").wait_for()


@pytest.mark.parametrize(("theme", "width"), [("light", 820), ("dark", 390)])
def test_the_views_are_accessible_and_fit(show, table, game, theme, width):
    page = show(table, game, theme=theme, width=width)
    page.locator(CHOICES).first.click()
    page.locator("details#exhibit-scale-forgotten summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


@each_theme
def test_a_fault_that_was_traced_can_be_read(show, theme):
    case = PITFALLS["mask without its axes"]
    view = ShapeTracer(trace(case.build(), *case.inputs()))
    page = show(view, theme=theme)
    assert "masked_fill" in page.locator(".eta-fault").inner_text()
    assert violations(page) == []


def test_without_scripts_the_game_is_a_list_with_folded_answers(show, game):
    page = show(game, java_script_enabled=False)
    first = page.locator(".eta-still li").first
    assert first.is_visible()
    assert not first.locator("details p").is_visible()
    first.locator("summary").click()
    assert list(ROUNDS)[0] in first.locator("details p").inner_text()


def test_print_shows_the_still_game(show, game):
    page = show(game)
    page.emulate_media(media="print")
    assert page.locator(".eta-still").is_visible()
    assert not page.locator(".eta-root").is_visible()


def test_the_game_runs_in_the_kernel_too(game):
    widget = game.live()
    assert widget.round == 0
    assert len(widget.answers) == len(ROUNDS)
