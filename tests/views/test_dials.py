"""Promises of the views of chapters 1 and 2: two square roots, the order of words."""

import math
import re

import anywidget
import numpy as np
import pytest
import torch
from book.views import InitDial, ScaleDial, WidthDial, WordOrder
from book.views.width_dial import normals
from common import violations
from encoder import sinusoidal_positions
from views.shared import each_look

WORDS = ["the", "dog", "saw", "the", "cat"]
WIDTHS = [16, 64, 512]
QUERY = np.array([[0.0, 0, 2, 0], [2, 1, 0, 0], [1, 0, 1, 0]])
KEY = np.array([[2.0, 0, 0, 1], [0, 0, 2, 0], [0, 2, 0, 1]])
VALUE = np.array([[10.0, 0], [5, 5], [0, 10]])
COLUMNS = ["animal", "drink", "action", "thing"]


def drawn(scale):
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(50, d, generator=generator) * scale(d) for d in WIDTHS]


TABLES = {"large": drawn(lambda d: 1.0), "right": drawn(lambda d: d**-0.5)}
PLACES = [sinusoidal_positions(5, width) for width in WIDTHS]


def init_dial(**options):
    return InitDial(TABLES, PLACES, WORDS, **options)


def word_order(**options):
    vectors = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    return WordOrder(WORDS, vectors[[0, 1, 2, 0, 3]], PLACES[0][:, :6], **options)


def scale_dial(**options):
    options = {"value": VALUE, "value_columns": ["living", "wet"], **options}
    return ScaleDial(QUERY, KEY, ["cat", "drinks", "milk"], COLUMNS, **options)


VIEWS = [init_dial, word_order, scale_dial, WidthDial]


# --- Python --------------------------------------------------------------------------


def test_the_views_say_what_they_hold_and_stay_small():
    assert repr(init_dial()) == "InitDial(2 initialisations, D = 16 to 512)"
    assert repr(word_order()) == "WordOrder(the dog saw the cat)"
    assert repr(scale_dial(cell=(1, 0))) == "ScaleDial(drinks asks cat, divided by 2)"
    assert repr(WidthDial(64, "√K")) == "WidthDial(K = 64, divided by √K)"
    for make in VIEWS:
        html = make().html()
        assert html == make().html()
        assert len(html) < 25_000
        elsewhere = html.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"\sid=|https?:|\bsrc=", elsewhere)


@pytest.mark.parametrize("make", VIEWS)
def test_a_live_view_has_its_state_as_traits(make):
    view = make()
    widget = view.live()
    for name, value in view.state.items():
        assert not hasattr(anywidget.AnyWidget, name)
        assert getattr(widget, name) == value


def test_the_dial_measures_whole_tables_and_draws_the_words_rows():
    state = init_dial().state
    for measured, table in zip(state["rms"][1], TABLES["right"], strict=True):
        assert measured == pytest.approx(table.pow(2).mean().sqrt().item(), rel=1e-3)
    assert state["place_rms"] == [0.7071] * 3
    assert state["row_of"] == [0, 1, 2, 0, 3]
    row, fast = state["words"][0][2][1], TABLES["large"][2][1]
    np.testing.assert_allclose([row[0], row[1], row[-1]], fast[[0, 1, 511]], rtol=5e-3)
    assert [len(line) for line in state["places"][0]] == [16] * 5


def test_the_still_dial_tells_the_ratios():
    wanted = TABLES["right"][2].pow(2).mean().sqrt().item() * math.sqrt(2)
    cell = f"<td>{wanted:.2g} → {wanted * math.sqrt(512):.2g}</td>"
    assert cell in init_dial().still()


def test_the_still_order_counts_the_rows_that_are_new():
    still = word_order().still()
    assert "without positions 0 of 5, with positions 4 of 5" in still


def test_the_still_scale_shows_torchs_weights():
    scores = torch.tensor(QUERY[1] @ KEY.T)
    still = scale_dial(cell=(1, 0)).still()
    for divisor in (0.5, 2, 8):
        for weight in (scores / divisor).softmax(dim=-1).tolist():
            assert f">{weight:.2f}</td>" in still


def test_the_still_scale_names_evenness_and_slope_of_each_row():
    still = scale_dial(cell=(1, 0)).still()
    scores = torch.tensor(QUERY[1] @ KEY.T) / 2
    weights = scores.softmax(dim=-1)
    even = torch.special.entr(weights).sum() / math.log(3)
    steep = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores).norm()
    row = re.search(r"divided by 2</th>(.*?)</tr>", still)[1]
    cells = [float(cell) for cell in re.findall(r">([\d.]+)</td>", row)]
    np.testing.assert_allclose(cells[3:], [even, steep], atol=0.005)
    assert re.findall(r'col">(evenness|slope)<', still) == ["evenness", "slope"]


def test_random_scores_spread_like_the_root_of_the_width():
    dial = WidthDial(n_queries=400)
    for width, scores in zip(dial.state["widths"], dial.scores(), strict=True):
        assert scores.var() / width == pytest.approx(1, abs=0.1)
    drawn = normals(7, 20_000)
    assert drawn.mean() == pytest.approx(0, abs=0.03)
    assert drawn.var() == pytest.approx(1, abs=0.03)
    neighbours = np.corrcoef(drawn[1:], drawn[:-1])[0, 1]
    assert abs(neighbours) < 0.03


def test_the_still_width_tells_what_each_divisor_leaves():
    still = WidthDial().still()
    rows = dict(re.findall(r'row">K = (\d+)</th>(.*?)</tr>', still))
    wide = [float(cell) for cell in re.findall(r">([\d.]+)</td>", rows["256"])]
    narrow = [float(cell) for cell in re.findall(r">([\d.]+)</td>", rows["4"])]
    assert wide[0] < 0.2 < narrow[0]
    assert wide[1] == pytest.approx(narrow[1], abs=0.03)
    assert wide[2] > 0.98 > narrow[2]


REFUSED = {
    "width": (lambda: init_dial(d_model=32), r"one of \[16, 64, 512\], got 32"),
    "init": (lambda: init_dial(init=2), "init must lie in -2..1, got 2"),
    "widths": (
        lambda: InitDial({"a": drawn(abs)[:2]}, PLACES, WORDS),
        r"'a' must have widths \[16, 64, 512\], got \[16, 64\]",
    ),
    "few rows": (
        lambda: InitDial({"a": [t[:3] for t in drawn(abs)]}, PLACES, WORDS),
        "a row for each of",
    ),
    "places": (
        lambda: InitDial(TABLES, PLACES, WORDS[:4]),
        r"places must have 4 rows, as tokens, got \[5, 5, 5\]",
    ),
    "order": (
        lambda: WordOrder(WORDS, np.ones((5, 2)), np.ones((5, 3))),
        r"two arrays \(5, n\).* got \(5, 2\), \(5, 3\)",
    ),
    "key": (
        lambda: ScaleDial(QUERY, KEY[:2], ["a", "b", "c"]),
        r"key must be \(T, K\) = \(3, 4\), got \(2, 4\)",
    ),
    "divisor": (lambda: scale_dial(divisor=0), "lie in 0.25..32, got 0"),
    "value": (
        lambda: scale_dial(value=np.ones((3, 4))),
        r"value must be \(T, 2\) = \(3, 2\), got \(3, 4\)",
    ),
    "random width": (lambda: WidthDial(5), r"one of \[4, 8, .*, 256\], got 5"),
    "rule": (lambda: WidthDial(rule="D"), r"one of \['1', '√K', 'K'\], got 'D'"),
    "cell": (lambda: scale_dial(cell=(0, 3)), "cell must lie in -3..2, got 3"),
}


@pytest.mark.parametrize(("make", "says"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_in_words(make, says):
    with pytest.raises(ValueError, match=says):
        make()


# --- The mathematics of the page -----------------------------------------------------


def test_the_share_of_the_word_is_that_of_a_measured_sum(js):
    words, places = TABLES["large"][2] / 2, sinusoidal_positions(50, 512)
    total = (words + places).pow(2).sum()
    share = js("init_dial.js", "return module.wordShare(...data)", [0.5, 0.5**0.5])
    assert share == pytest.approx((words.pow(2).sum() / total).item(), abs=0.02)


def test_sizes_are_multiplied_by_the_root_and_told_in_words(js):
    body = "return [module.scaled(...data), module.scaled(0.02, 512, false)]"
    np.testing.assert_allclose(
        js("init_dial.js", body, [0.02, 512, True]), [0.02 * 512**0.5, 0.02]
    )
    told = js("init_dial.js", "return data.map(module.judge)", [32.0, 1.4, 0.028])
    assert [text.split(": ")[1] for text in told] == [
        "the places drown",
        "both are heard",
        "the words drown",
    ]
    assert [text.split(" ")[0] for text in told] == ["32", "1.4", "36"]


def test_equal_factors_are_equal_ways_in_the_drawing(js):
    body = """const { x, y } = module.spots([16, 64, 1024], -2, 2);
    return [[16, 64, 256, 1024].map(x), [0.01, 0.1, 1, 10, 100].map(y)]"""
    across, down = js("init_dial.js", body)
    np.testing.assert_allclose(np.diff(across, 2), 0, atol=1e-9)
    np.testing.assert_allclose(np.diff(down, 2), 0, atol=1e-9)
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)


def test_names_of_lines_stand_apart_in_their_order_and_none_sinks_too_low(js):
    body = "return data.map((levels) => module.spread(levels, 12, 100))"
    apart, near, low = js("init_dial.js", body, [[50, 10], [13, 10, 40], [99, 10, 98]])
    assert apart == [50, 10]
    assert near == [22, 10, 40]
    assert low == [100, 10, 88]


def test_every_line_of_the_dial_has_a_name(show):
    page = show(init_dial(d_model=512))
    names = page.locator(".dial-name").all_text_contents()
    assert names == [*TABLES, "places", "without × √D"]
    page.get_by_role("button", name="× √D").click()
    assert page.locator(".dial-name").last.text_content() == "with × √D"


def test_a_row_belongs_to_the_word_and_with_positions_to_the_place_too(js):
    state = word_order().state
    body = """const { words, places } = data, start = [0, 1, 2, 3, 4];
    const rows = (order, add) => module.rowsOf(words, places, order, add);
    const hits = (order, add) => module.known(rows(order, add), rows(start, add));
    const back = [4, 3, 2, 1, 0];
    return [hits(back, false), hits(back, true), hits([3, 1, 2, 0, 4], true),
      rows(back, true)]"""
    plain, placed, articles, rows = js("word_order.js", body, state)
    assert plain == [True] * 5
    assert placed == [False, False, True, False, False]
    assert articles == [True] * 5  # the two "the" are one word
    words, places = np.array(state["words"]), np.array(state["places"])
    np.testing.assert_allclose(rows, words[::-1] + places)


def test_a_set_of_rows_looks_the_same_in_any_order(js):
    rows = [[0.5, 1.0], [2.0, 0.0], [0.5, -1.0]]
    body = """return [data, data.toReversed()].map((rows) =>
      module.sorted(rows).map((i) => rows[i]))"""
    assert js("word_order.js", body, rows) == [[rows[1], rows[0], rows[2]]] * 2


def test_a_shuffle_is_another_order_of_the_same_words(js):
    body = """const next = (keys) => module.shuffled(data, () => keys.shift());
    return [next([3, 1, 2]), next([1, 2, 3]), module.moved(data, 0, 1)]"""
    assert js("word_order.js", body, [5, 6, 7]) == [[6, 7, 5], [6, 7, 5], [6, 5, 7]]


@pytest.mark.parametrize("divisor", [0.25, 2, 32])
def test_weights_evenness_and_slope_agree_with_torch(js, divisor):
    body = """const weights = module.weightsOf(data.query, data.keys, data.divisor);
    return [weights, module.evenness(weights), module.slope(weights),
      module.terms(data.query, data.keys[0]), module.dot(data.query, data.keys[0])]"""
    generator = torch.Generator().manual_seed(7)
    query, keys = torch.randn(2, 5, 8, generator=generator, dtype=torch.float64)
    data = {"query": query[0].tolist(), "keys": keys.tolist(), "divisor": divisor}
    weights, even, slope, terms, dot = js("scale_math.js", body, data)
    scores = keys @ query[0] / divisor
    wanted = scores.softmax(dim=-1)
    np.testing.assert_allclose(weights, wanted, rtol=1e-9)
    entropy = torch.special.entr(wanted).sum() / math.log(5)
    assert even == pytest.approx(entropy.item(), abs=1e-9)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert slope == pytest.approx(jacobian.norm().item(), abs=1e-7)
    np.testing.assert_allclose(terms, query[0] * keys[0])
    assert dot == pytest.approx((query[0] @ keys[0]).item())


def test_a_huge_score_is_no_nan(js):
    body = "return module.softmax([4000, 0, 2000])"
    assert js("scale_math.js", body) == [1, 0, 0]


def test_the_output_is_the_values_shared_out(js):
    weights = [0.5, 0.25, 0.25]
    body = "return module.mixed(...data)"
    np.testing.assert_allclose(
        js("scale_math.js", body, [weights, VALUE.tolist()]), weights @ VALUE
    )


def test_the_page_draws_the_same_random_numbers_as_python(js):
    dial = WidthDial(widths=(4, 8, 31), n_queries=3, seed=5)
    body = """return [module.drawScores(data), module.measured([[1, 0], [9, 0]], 2),
      [0, 1, 2].map((i) => module.normal(5, i))]"""
    scores, found, first = js("width_math.js", body, dial.state)
    np.testing.assert_allclose(scores, dial.scores(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(first, normals(5, 3), rtol=1e-12)
    rows = torch.tensor([[1.0, 0], [9, 0]], dtype=torch.float64)
    even = torch.special.entr((rows / 2).softmax(-1)).sum(-1) / math.log(2)
    assert found["evenness"] == pytest.approx(even.mean().item())
    assert found["spread"] == pytest.approx(rows.pow(2).mean().sqrt().item())
    assert found["closed"] == 0  # 4.5 apart: 0.989


# --- In the page ---------------------------------------------------------------------


def says(page):
    return page.locator(".dial-says").inner_text()


def test_the_dial_turns_by_keys_and_by_mouse(show):
    page = show(init_dial(d_model=512))
    assert "Words are 32 times as large as places: the places drown." in says(page)
    page.get_by_role("button", name="× √D").click()
    assert "Words are 1.4 times as large as places: both are heard." in says(page)
    page.get_by_label("embedding drawn from").select_option("right")
    assert "times smaller than places: the words drown." in says(page)
    page.get_by_role("slider", name="d_model").focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".dial-width").inner_text() == "64"
    box = page.locator(".dial-chart").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 30, box["y"] + 60)
    page.mouse.up()
    assert page.locator(".dial-width").inner_text() == "16"
    page.get_by_role("button", name="× √D").press("Enter")
    assert "both are heard" in says(page)


def test_the_picture_and_the_chart_follow_the_dial(show):
    page = show(init_dial(d_model=512))

    def colours(block):
        cells = page.locator(".dial-block").nth(block).locator("i")
        styles = [cell.get_attribute("style") for cell in cells.all()]
        sign = {"neg": -1, "pos": 1}
        found = [re.search(r"--(neg|pos)\) (\d+)%", style).groups() for style in styles]
        return np.array([sign[hue] * int(n) for hue, n in found]).reshape(5, 16)

    words, places, sums = map(colours, range(3))
    assert (words[0] == words[3]).all()
    assert abs(words).max() > 90
    drawn_words = np.array(init_dial().state["words"][0][2])[[0, 1, 2, 0, 3]]
    assert (words * drawn_words >= 0).all()  # the sign of a number is its colour
    assert abs(sums - words).max() < 5
    assert abs(places).max() < 5
    page.get_by_label("embedding drawn from").select_option("right")
    page.get_by_role("button", name="× √D").click()
    words, places, sums = map(colours, range(3))
    assert abs(sums - places).max() < 15
    assert abs(places).max() > 80
    assert abs(sums[0] - sums[3]).max() > 50  # "the" twice, and two rows
    label = page.locator(".dial-chart").get_attribute("aria-label")
    assert label.endswith("word 0.044, place 0.71")


def verdict(page):
    return page.locator(".eta-order p").inner_text()


def order(page):
    return page.locator(".order-word").all_inner_texts()


def test_words_move_by_keys_and_keep_the_focus(show):
    page = show(word_order())
    page.locator(".order-word").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert order(page) == ["dog", "saw", "the", "the", "cat"]
    assert verdict(page).startswith("The same 5 rows in another order")
    page.get_by_role("button", name="add positions").click()
    assert verdict(page).startswith("3 of 5 rows are new")
    assert page.locator(".order-mark", has_text="new").count() == 3
    page.get_by_role("button", name="as it was").click()
    assert order(page) == WORDS
    assert "as it was" in verdict(page)


def test_a_word_is_dragged_and_the_set_tells_whether_anything_has_changed(show):
    page = show(word_order())

    def drag(start, end):
        grips = [grip.bounding_box() for grip in page.locator(".order-word").all()]
        middles = [(g["x"] + 10, g["y"] + g["height"] / 2) for g in grips]
        page.mouse.move(*middles[start])
        page.mouse.down()
        page.mouse.move(*middles[end], steps=8)
        page.mouse.up()

    def rows():
        return page.locator(".order-set").inner_html().replace(' data-lit=""', "")

    before = rows()
    drag(4, 1)
    assert order(page) == ["the", "cat", "dog", "saw", "the"]
    page.locator(".order-list .eta-strip").nth(2).hover()  # dog's
    lit = page.locator(".order-set small:has(+ [data-lit])")
    assert lit.all_inner_texts() == ["dog"]
    assert rows() == before
    page.get_by_role("button", name="add positions").click()
    placed = rows()
    drag(1, 4)
    assert order(page) == WORDS
    assert rows() != placed


def test_a_shuffle_keeps_the_words(show):
    page = show(word_order(add=True))
    page.get_by_role("button", name="shuffle").click()
    assert order(page) != WORDS
    assert sorted(order(page)) == sorted(WORDS)
    assert re.match(r"[2-5] of 5 rows are new|The same 5 rows", verdict(page))


def cell(page):
    return page.locator(".scale-cell").inner_text()


def measure(page, name):
    bar = page.locator(".scale-bar", has=page.get_by_text(name, exact=True))
    return float(bar.locator(".eta-num").inner_text())


def test_a_cell_is_spelled_out_term_by_term(show):
    page = show(scale_dial(cell=(1, 0)))
    assert "“drinks” asks “cat”" in cell(page)
    for line in ("4 + 0 + 0 + 0 = 4", "4 / 2.00 = 2.000", "7.389, of 11.11"):
        assert line in cell(page)
    assert "share: 0.665" in cell(page)
    page.get_by_role("button", name="next cell").click()
    assert "“drinks” asks “drinks”" in cell(page)
    assert "share: 0.090" in cell(page)
    page.locator(".scale-map td[aria-selected]").nth(6).click()
    assert "“milk” asks “cat”" in cell(page)
    assert "share: 0.422" in cell(page)


def test_the_keys_walk_through_the_map(show):
    page = show(scale_dial(cell=(1, 0)))
    page.locator(".scale-map td[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert "“cat” asks “milk”" in cell(page)
    assert page.evaluate("document.activeElement.textContent") == "0.1070"


def test_the_divisor_changes_map_row_and_measures(show):
    page = show(scale_dial(cell=(1, 0)))
    open_slope = measure(page, "slope")
    page.get_by_label("divisor", exact=True).focus()
    page.keyboard.press("Home")
    assert page.locator(".scale-value").inner_text() == "0.25"
    assert measure(page, "cat") == 1
    assert measure(page, "evenness") < 0.01
    assert measure(page, "slope") < 0.01 < open_slope
    page.get_by_role("button", name="divide by K").click()
    scores = torch.tensor(QUERY[1] @ KEY.T) / 4
    assert measure(page, "milk") == round(scores.softmax(-1)[2].item(), 3)
    weights = page.locator(".scale-map td[aria-selected] b").all_inner_texts()
    wanted = (torch.tensor(QUERY @ KEY.T) / 4).softmax(dim=-1)
    np.testing.assert_allclose([float(w) for w in weights], wanted.flatten(), atol=6e-4)
    root = page.get_by_role("button", name="divide by √K")
    root.press("Enter")
    assert root.get_attribute("aria-pressed") == "true"


def test_the_output_moves_between_the_values(show):
    page = show(scale_dial(cell=(1, 0)))
    output, spots = page.locator(".scale-output"), page.locator(".scale-plane g circle")
    said = page.locator(".scale-output-pane p")

    def place(node):
        return np.array([float(node.get_attribute(name)) for name in ("cx", "cy")])

    cat, middle = place(spots.nth(0)), place(spots.nth(1))
    assert said.inner_text() == "living 7.103, wet 2.897"
    page.get_by_label("divisor", exact=True).focus()
    page.keyboard.press("Home")
    assert said.inner_text() == "living 9.997, wet 0.003"
    np.testing.assert_allclose(place(output), cat, atol=0.2)
    page.keyboard.press("End")
    assert said.inner_text() == "living 5.107, wet 4.893"
    np.testing.assert_allclose(place(output), middle, atol=4)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.ariaLabel") == "divisor"


def test_without_values_there_is_no_output(show):
    page = show(scale_dial(value=None))
    assert page.locator(".scale-output-pane").count() == 0
    assert page.locator(".scale-row").count() == 1


def test_the_width_dial_shows_that_only_the_root_keeps_a_row_as_it_is(show):
    page = show(WidthDial())
    slider = page.get_by_label("width K", exact=True)

    def evenness(rule, key):
        page.get_by_role("button", name=f"divide by {rule}", exact=True).click()
        slider.press(key)
        return measure(page, "evenness")

    narrow, wide = evenness("1", "Home"), evenness("1", "End")
    assert wide < 0.15 < 0.6 < narrow
    assert "scores spread by 15.6, divided by 1.0: 15.57" in told_spread(page)
    assert abs(evenness("√K", "Home") - evenness("√K", "End")) < 0.02
    assert "divided by 16.0: 0.97" in told_spread(page)
    assert evenness("K", "End") > 0.99
    first = page.locator(".width-key").first.inner_text()
    page.get_by_role("button", name="another query").press("Enter")
    assert page.locator(".width-key").first.inner_text() != first
    assert "query 2" in page.locator(".scale-row strong").first.inner_text()


def told_spread(page):
    return page.locator(".width-spread").inner_text()


@each_look
def test_the_views_are_accessible_and_fit(show, theme, width):
    page = show(*(make() for make in VIEWS), theme=theme, width=width)
    page.get_by_role("button", name="add positions").click()
    page.get_by_role("button", name="shuffle").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_the_views_leave_nothing_behind_and_print_their_stills(show):
    page = show(*(make() for make in VIEWS))
    page.emulate_media(media="print")
    stills = page.locator(".eta-still").all()
    assert [still.is_visible() for still in stills] == [True] * 4
    ends = "root => (root.unmount(), root.childElementCount)"
    roots = page.locator(".eta-root")
    assert [roots.nth(i).evaluate(ends) for i in range(4)] == [0] * 4
