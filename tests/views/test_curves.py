"""Promises of the Curves view, to whoever fills it and to whoever touches it."""

import itertools
import json
import math
import re

import numpy as np
import pytest
import torch
from common import JS, violations
from taken_apart.views import bundle
from taken_apart.views.base import SHARED_STYLES
from taken_apart.views.curves import Curves
from views.shared import each_look

AT = list(range(20, 201, 20))
LOSSES = {
    "as it is": [0.7 * 0.7**i for i in range(10)],
    "no mask": [0.7 * 0.8**i for i in range(10)],
    "no warm-up": [0.7, 0.9, 3.5] + [math.nan] * 7,
    "a coin": [0.7] * 10,
}
DEEP = {
    (order, depth, warm): [float(1 + i + 10 * place) for i in range(depth)]
    for place, order in enumerate(("Pre-LN", "Post-LN", "no norm"))
    for depth in (3, 7)
    for warm in ("no", "yes")
}
PLOT, CURVE = ".eta-plot", ".eta-plot .eta-curve"


def losses(**options):
    told = {"at": AT, "reference": "as it is", "lines": {"ln 2": math.log(2)}}
    return Curves(LOSSES, **{**told, **options})


def deep(**options):
    settings = ("order", "layers", "warm-up")
    told = {"reference": "Pre-LN", "log": True, "picked": {"layers": 7}}
    return Curves(DEEP, "layer", "gradient", settings=settings, **{**told, **options})


# --- Python --------------------------------------------------------------------------


def test_curves_say_what_they_hold_and_stay_the_same():
    assert repr(losses()) == "Curves(loss over step: 4 curves, 40 values)"
    told = "gradient over layer: 3 curves, 2 layers, 2 warm-up, 60 values"
    assert repr(deep()) == f"Curves({told})"
    assert losses().html() == losses().html()
    html = losses().html().replace("http://www.w3.org/2000/svg", "")  # a mere name
    assert not re.search(r"\sid=|0x[0-9a-f]{6}|https?:|\bsrc=", html)


def test_a_page_pays_less_than_23_kb_for_ten_curves_beyond_what_views_share():
    view = Curves({f"curve {i}": np.linspace(i, 2, 30) for i in range(10)})
    modules = "controls.js", "dom.js", "page.js", "shim.js"
    shared = sum(len(bundle.es_module(JS[name])) for name in modules)
    shared += len(bundle.style(SHARED_STYLES))
    assert len(view.html()) - shared < 23_000


def test_values_of_every_kind_of_number_arrive_with_four_digits():
    kinds = {
        "list": [1, 2.71828182],
        "numpy": np.array([1, np.e], dtype=np.float32),
        "torch": torch.tensor([1, math.e]),
        "scalars": [np.float64(1), torch.tensor(math.e)],
    }
    view = Curves(kinds)
    assert [values for _, values in view.state["curves"]] == [[1, 2.718]] * 4


def test_a_run_that_diverged_is_a_result():
    values = [1, math.inf, -math.inf, math.nan, 2]
    view = Curves({"wild": values, "calm": [1, 1, 1, 1, 1]})
    assert view.state["curves"][0][1] == [1, "inf", "-inf", "nan", 2]
    json.dumps(view.state, allow_nan=False)
    assert "<td>1<td>stopped<td>stopped" in view.still()


@pytest.mark.parametrize(
    ("curves", "options", "complaint"),
    [
        ({}, {}, "must map names to values, got {}"),
        ([1, 2], {}, r"must map names to values, got \[1, 2\]"),
        ({"a": []}, {}, "'a' must hold 1 to 1000 values, got 0"),
        ({"a": range(1001)}, {}, "'a' must hold 1 to 1000 values, got 1001"),
        ({"a": ["x"]}, {}, "'a' must hold numbers, got 'x'"),
        ({"a": [[1]]}, {}, r"'a' must hold numbers, got \[1\]"),
        ({str(i): [1] for i in range(17)}, {}, "at most 16 curves to switch, got 17"),
        ({1: [1], "1": [1]}, {}, "a name of its own"),
        ({"a": [1, 2]}, {"at": [5]}, "an x for 2 values, got 1"),
        ({"a": [1, 2]}, {"at": [5, 5]}, "grow"),
        ({"a": [1, 2]}, {"at": [5, math.nan]}, "finite"),
        ({"a": [1, 0]}, {"log": True}, "above 0, got 0"),
        ({"a": [1]}, {"log": True, "lines": {"zero": 0}}, "above 0, got 0"),
        ({"a": [1]}, {"reference": "b"}, "'b' is none of the curves: a"),
        ({"a": [1]}, {"shown": ["b"]}, "'b' is none of the curves: a"),
        ({"a": [1]}, {"settings": ["depth"]}, "two names or more"),
        ({"a": [1]}, {"settings": ["depth", "order"]}, "must tell .*, got 'a'"),
        ({("a", 1, 2): [1]}, {"settings": ["depth", "order"]}, "must tell"),
        ({("a", 6): [1]}, {"settings": "ol", "picked": {"l": 7}}, "7 is none .*: 6"),
        ({("a", 6): [1]}, {"settings": "ol", "picked": {"o": "a"}}, "picked must name"),
    ],
)  # fmt: skip
def test_curves_refuse_what_they_cannot_draw_and_say_why(curves, options, complaint):
    with pytest.raises((ValueError, TypeError), match=complaint):
        Curves(curves, **options)


def test_the_still_figure_names_every_curve_and_its_values():
    still = deep().still()
    assert still.count("<polyline") == 3  # those that are shown at first
    assert "Post-LN, layers 3, warm-up yes" in still
    assert "27" in still
    hostile = Curves({"<b>&": [1, 2]}, x="<x>", lines={"<l>": 1})
    assert "&lt;b&gt;&amp;" in hostile.still()
    assert "<b>" not in hostile.html()


# --- The mathematics of the page -----------------------------------------------------


def test_scales_agree_with_numpy(js):
    values = [0.013, 0.5, 1.0, 7.7, 120.0]
    body = """const scale = (log) => module.scaleOf([0.013, 120], [300, 12], log);
    return [data.map(scale(false)), data.map(scale(true))]"""
    straight, bent = js("curve_math.js", body, values)
    np.testing.assert_allclose(straight, np.interp(values, [0.013, 120], [300, 12]))
    logs = np.log10(values)
    np.testing.assert_allclose(bent, np.interp(logs, logs[[0, -1]], [300, 12]))


def test_ticks_are_round_inside_the_range_and_not_too_many(js):
    ranges = [[0, 1], [0.2, 0.69], [-3, 8], [0.013, 0.014], [20, 600], [1, 1], [0, 7e5]]
    found = js("curve_math.js", "return data.map((r) => module.ticks(...r))", ranges)
    for (low, high), ticks in zip(ranges, found, strict=True):
        assert 1 <= len(ticks) <= 6
        slack = 1e-9 * max(1, high)
        assert all(low - slack <= tick <= high + slack for tick in ticks)
        assert len({round(b - a, 9) for a, b in itertools.pairwise(ticks)}) <= 1


def test_ticks_of_a_logarithmic_scale_are_powers_of_ten(js):
    body = "return data.map((r) => module.logTicks(...r))"
    wide, narrow, huge = js("curve_math.js", body, [[0.02, 300], [2, 7], [1e-30, 1e30]])
    assert wide == [0.1, 1, 10, 100]
    assert narrow == [2, 3, 4, 5, 6, 7]
    assert len(huge) <= 6
    assert all(math.log10(t) == round(math.log10(t)) for t in huge)


def test_a_curve_ends_before_the_first_value_that_is_no_number(js):
    curves = [[1, 2, "nan", 900], ["inf"], [3]]
    body = "return [data.map(module.stopOf), module.rangeOf(data), module.rangeOf([])]"
    assert js("curve_math.js", body, curves) == [[2, 0, 1], [1, 3], [0, 1]]


def test_labels_move_apart_and_keep_their_order(js):
    body = "return data.map((places) => module.spread(places, 15, 0, 100))"
    close, apart, low = js(
        "curve_math.js", body, [[50, 50, 48], [5, 90], [99, 100, 98]]
    )
    assert sorted(close) == [close[2], close[0], close[1]]
    assert np.diff(sorted(close)).min() >= 15
    assert apart == [5, 90]
    assert max(low) <= 100
    assert np.diff(sorted(low)).min() >= 15


def test_values_are_told_as_the_data_have_them(js):
    values = [0.6931, 0, -2.5, 123456, 1.5e-7, 1e30, "nan", None]
    told = ["0.6931", "0", "-2.5", "1.23456e5", "1.5e-7", "1e30", "nan", ""]
    assert js("curve_math.js", "return data.map(module.valueText)", values) == told


# --- In the page ---------------------------------------------------------------------


def switch(page, name):
    return page.locator(".eta-switch", has_text=re.compile(rf"^{name}"))


def told(page, name):
    return switch(page, name).locator("span").last.inner_text()


def test_a_curve_is_switched_out_and_in_by_mouse_and_by_keys(show):
    page = show(losses())
    assert page.locator(CURVE).count() == 4
    switch(page, "no mask").click()
    assert page.locator(CURVE).count() == 3
    assert switch(page, "no mask").get_attribute("aria-pressed") == "false"
    assert "no mask" not in page.locator(PLOT).inner_html()
    page.keyboard.press("ArrowRight")  # to the next switch
    page.keyboard.press("Enter")
    assert switch(page, "no warm-up").get_attribute("aria-pressed") == "false"
    page.get_by_role("button", name="all out").click()
    assert page.locator(CURVE).count() == 1  # the reference stays
    page.get_by_role("button", name="all in").click()
    assert page.locator(CURVE).count() == 4


def test_the_reference_cannot_be_switched_out(show):
    page = show(losses())
    assert switch(page, "as it is").evaluate("node => node.tagName") == "DIV"
    alone = show(losses(shown=[]))
    assert alone.locator(CURVE).count() == 1


def test_the_cursor_reads_exact_values_by_keys_and_by_mouse(show):
    page = show(losses())
    assert told(page, "a coin") == "0.7"
    assert told(page, "no warm-up") == "stopped (nan)"
    page.locator(PLOT).focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert told(page, "as it is") == "0.49"
    assert told(page, "no mask") == "0.56"
    assert page.locator(PLOT).get_attribute("aria-valuenow") == "40"
    spoken = page.locator(PLOT).get_attribute("aria-valuetext")
    assert spoken == "40: as it is 0.49, no mask 0.56, no warm-up 0.9, a coin 0.7"
    labels = page.locator(f"{PLOT} text")
    box = labels.get_by_text("200", exact=True).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 100)
    assert page.locator(PLOT).get_attribute("aria-valuenow") == "200"


def test_a_curve_that_diverged_says_where_it_stopped(show):
    page = show(losses())
    assert page.locator(PLOT).get_by_text("stopped here").count() == 1
    switch(page, "no warm-up").click()
    assert page.locator(PLOT).get_by_text("stopped here").count() == 0


def test_settings_are_picked_by_mouse_and_by_arrow_keys(show):
    page = show(deep())
    assert told(page, "Post-LN") == "17"
    assert page.locator(CURVE).count() == 3
    page.get_by_label("3", exact=True).click()
    assert told(page, "Post-LN") == "none"  # it has no seventh layer
    page.locator(PLOT).focus()
    page.keyboard.press("Home")
    assert told(page, "Post-LN") == "11"
    page.get_by_label("no", exact=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_label("yes", exact=True).is_checked()


def test_two_views_of_one_page_pick_for_themselves(show):
    page = show(deep(), deep())
    page.get_by_label("3", exact=True).nth(1).click()
    picked = [box.is_checked() for box in page.get_by_label("7", exact=True).all()]
    assert picked == [True, False]


def test_powers_of_ten_are_offered_where_values_allow(show):
    page = show(losses(), Curves({"signed": [-1, 0, 1]}))
    buttons = page.locator("button", has_text="powers of ten")
    assert [button.is_visible() for button in buttons.all()] == [True, False]
    before = page.locator(CURVE).first.get_attribute("d")
    buttons.first.click()
    assert page.locator(CURVE).first.get_attribute("d") != before


@each_look
def test_curves_are_accessible_and_fit(show, theme, width):
    page = show(losses(), deep(), theme=theme, width=width)
    switch(page, "no mask").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_print_shows_the_still_figure(show):
    page = show(losses())
    page.emulate_media(media="print")
    assert page.locator(".eta-still svg").is_visible()
    assert "stopped" in page.locator(".eta-still").inner_text()
