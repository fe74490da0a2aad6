"""Promises of the axis juggler: its steps are torch's, its verdicts are true."""

import numpy as np
import pytest
import torch
from book.views import AxisJuggler
from book.views.axis_juggler import STEP_NAMES
from common import violations
from encoder import attention
from views.shared import each_look

T, D, H = 4, 6, 2
TOKENS = ["emma", "ate", "the", "soup"]
RIGHT = ["split", "move", "attend", "move", "flatten"]
WAYS = {
    "right": RIGHT,
    "no attention": ["split", "move", "move", "flatten"],
    "view in": ["view", "attend", "move", "flatten"],
    "view in, reshape out": ["view", "attend", "out"],
    "reshape in": ["split", "recut", "attend", "move", "flatten"],
    "reshape out": ["split", "move", "attend", "out"],
    "reshape out, not in order": ["split", "move", "out"],
    "view out": ["split", "move", "move", "viewout"],
    "dealt": ["deal", "move", "attend", "move", "flatten"],
    "dealt, reshaped": ["deal", "recut", "attend", "out"],
}


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(1, T, D, dtype=torch.float64).round(decimals=3)


def taken(x, steps, n_heads=H):
    """Take the steps in torch; return every tensor on the way."""
    B, T, D = x.shape
    K, way = D // n_heads, [x]
    step_of = {
        "split": lambda x: x.unflatten(-1, (n_heads, K)),
        "deal": lambda x: x.unflatten(-1, (K, n_heads)),
        "view": lambda x: x.view(B, n_heads, T, K),
        "move": lambda x: x.transpose(1, 2),
        "recut": lambda x: x.reshape(B, x.shape[2], T, x.shape[3]),
        "attend": lambda x: attention(x, x, x)[0],
        "out": lambda x: x.reshape(B, T, D),
        "viewout": lambda x: x.view(B, T, D),
        "flatten": lambda x: x.flatten(-2),
    }
    for step in steps:
        way.append(step_of[step](way[-1]))
    return way


FOLLOW = """return module.follow(data.values, data.heads, data.steps).map((tensor) => ({
  ...tensor, ordered: module.inOrder(tensor),
  values: module.listed(tensor).map((number) => number.value),
}))"""


@pytest.mark.parametrize("steps", WAYS.values(), ids=WAYS)
def test_shapes_strides_and_numbers_are_those_of_torch(js, x, steps):
    data = {"values": x[0].tolist(), "heads": H, "steps": steps}
    made = js("axis_juggler_math.js", FOLLOW, data)
    assert len(made) == len(steps) + 1
    for ours, theirs in zip(made, taken(x, steps), strict=True):
        assert ours["shape"] == list(theirs.shape)
        assert ours["strides"] == list(theirs.stride())
        assert ours["ordered"] == theirs.is_contiguous()
        np.testing.assert_allclose(ours["values"], theirs.flatten(), atol=1e-12)
        memory = [number["value"] for number in ours["memory"]]
        theirs_memory = torch.as_strided(theirs, (T * D,), (1,), 0)
        np.testing.assert_allclose(memory, theirs_memory, atol=1e-12)


def test_view_is_refused_where_torch_refuses_it(js, x):
    steps = ["split", "move", "attend", "move", "viewout"]
    data = {"values": x[0].tolist(), "heads": H, "steps": steps}
    assert len(js("axis_juggler_math.js", FOLLOW, data)) == len(steps)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        taken(x, steps)


@pytest.mark.parametrize("steps", WAYS.values(), ids=WAYS)
def test_the_verdict_counts_what_torch_puts_in_other_rows(js, x, steps):
    body = "return module.verdict(data.values, data.heads, data.steps)"
    data = {"values": x[0].tolist(), "heads": H, "steps": steps}
    said = js("axis_juggler_math.js", body, data)
    places = torch.arange(T * D).view(1, T, D)
    moved = taken(places, [step for step in steps if step != "attend"])[-1]
    assert said["astray"] == int((moved // D != places // D).sum())
    right = RIGHT if "attend" in steps else WAYS["no attention"]
    gap = (taken(x, steps)[-1] - taken(x, right)[-1]).abs().max().item()
    assert abs(said["gap"] - gap) < 1e-12


def test_the_ways_differ_as_the_chapter_says(js, x):
    body = """return data.ways.map((steps) => {
      const { astray, gap } = module.verdict(data.values, 2, steps);
      return [astray > 0, gap > 0.01];
    })"""
    data = {"values": x[0].tolist(), "ways": list(WAYS.values())}
    said = dict(zip(WAYS, js("axis_juggler_math.js", body, data), strict=True))
    assert said["right"] == said["no attention"] == [False, False]
    assert said["view in, reshape out"] == said["dealt"] == [False, True]
    assert said["reshape out"] == said["view in"] == [True, True]


def test_every_step_of_the_page_can_be_given_in_python(js):
    body = "return [...new Set(Object.values(module.CHOICES).flat())]"
    assert sorted(js("axis_juggler_math.js", body)) == sorted(STEP_NAMES)


# --- what the Python side refuses and shows ------------------------------------------

BAD = {
    "rank": (torch.zeros(2, 4, 6), 2, {}, r"x must be \(T, D\).* got \(2, 4, 6\)"),
    "long": (np.zeros((7, 6)), 2, {}, "1 to 6 tokens"),
    "wide": (np.zeros((4, 9)), 3, {}, r"1 to 8 features, got \(4, 9\)"),
    "heads": (np.zeros((4, 6)), 4, {}, "n_heads=4 must divide D=6"),
    "nan": (np.full((4, 6), np.nan), 2, {}, "finite"),
    "tokens": (np.zeros((4, 6)), 2, {"tokens": ["a"]}, "tokens must name"),
    "steps": (np.zeros((4, 6)), 2, {"steps": ["jump"]}, r"got \['jump'\]"),
}


@pytest.mark.parametrize(("x", "heads", "options", "says"), BAD.values(), ids=BAD)
def test_what_cannot_be_juggled_is_refused_in_words(x, heads, options, says):
    with pytest.raises(ValueError, match=says):
        AxisJuggler(x, heads, **options)


def test_the_still_tables_are_the_tensors_of_torch(x):
    still = AxisJuggler(x, H, TOKENS).still()
    tables = {
        table.split("</caption>")[0].removeprefix("<table><caption>"): table
        for table in still.split("</table>")
    }
    wrong = taken(torch.arange(T * D).view(1, T, D), ["split", "move", "out"])[-1]
    for row, places in zip(
        tables["reshaped without moving back"].split("<tr>")[1:], wrong[0], strict=True
    ):
        tags = [f"<small>{place // D},{place % D}</small>" for place in places.tolist()]
        assert [row.find(tag) for tag in tags] == sorted(map(row.find, tags))
        assert -1 not in map(row.find, tags)


# --- in a browser --------------------------------------------------------------------


def juggler(x, **options):
    return AxisJuggler(x, H, TOKENS, **options)


def press(page, *keys):
    page.locator(".jug-block").focus()
    for key in keys:
        page.keyboard.press(key)


def told(page):
    return page.locator(".jug-told").inner_text()


def code(page):
    return page.locator(".jug-code li > :first-child").all_inner_texts()


def test_the_right_way_by_mouse_ends_well(show, x):
    page = show(juggler(x))
    for text in ("unflatten(-1, (2, 3))", "transpose(1, 2)", "attention", "transpose"):
        page.get_by_role("button", name=text).click()
    assert page.locator(".jug-told").get_attribute("data-kind") == ""
    page.get_by_role("button", name="flatten(-2)").click()
    assert told(page).startswith("Right: every number is back")
    assert page.locator(".jug-cross").count() == 0
    values = page.locator(".jug-number > span").all_inner_texts()
    wanted = taken(x, RIGHT)[-1].flatten().tolist()
    shown = [float(value.replace("−", "-")) for value in values]
    np.testing.assert_allclose(shown, wanted, atol=0.0501)


def test_a_wrong_way_by_keyboard_is_named_and_undone(show, x):
    page = show(juggler(x))
    press(page, "2", "1", "2", "1")  # split, move, attend, reshape without moving back
    assert told(page).startswith("Wrong, and the shape is right. 4 of 4 rows")
    assert "“emma” holds numbers of “emma” and “ate”" in told(page)
    assert page.locator(".jug-cross").count() == 4
    press(page, "Backspace", "2", "1")
    assert "view size is not compatible" in told(page)
    press(page, "2")
    assert told(page).startswith("Right")
    assert code(page)[-1] == ".flatten(-2)"


def test_two_wrongs_put_every_number_back_and_are_still_wrong(show, x):
    page = show(juggler(x, steps=["view", "attend"]))
    assert "hold numbers of another token" in told(page)
    press(page, "1")
    gap = taken(x, WAYS["view in, reshape out"])[-1] - taken(x, RIGHT)[-1]
    assert f"off by up to {gap.abs().max():.2f}" in told(page)


def test_heads_and_width_exchanged_are_told(show, x):
    page = show(juggler(x))
    press(page, "3", "1")
    assert "3 “heads” of 2 numbers, where 2 of 3 were wanted" in told(page)


def test_a_number_says_where_it_comes_from_and_where_it_lies(show, x):
    page = show(juggler(x, steps=["split", "move"]))
    page.locator(".jug-number").nth(10).hover()  # x[1, 4]
    value = f"{x[0, 1, 4]:.2f}".replace("-", "−")
    fact = page.locator(".jug-fact").inner_text()
    assert fact.startswith(f"{value}: x[1, 4], of “ate”, head 1. ")
    assert fact.endswith("Now at [0, 1, 1, 1]; memory 0·24 + 1·3 + 1·6 + 1·1 = 10.")
    press(page, "ArrowUp")
    assert "x[0, 4]" in page.locator(".jug-fact").inner_text()
    assert page.locator("[data-chosen]").count() == 2


def test_a_number_that_moves_under_a_resting_mouse_takes_no_focus(show, x):
    page = show(juggler(x, steps=["split"]))
    page.locator(".jug-number").nth(10).hover()
    press(page, "ArrowLeft", "1")  # x[1, 3], then transpose
    page.wait_for_timeout(900)
    assert "x[1, 3]" in page.locator(".jug-fact").inner_text()


def test_the_numbers_stand_where_the_shape_says(show, x):
    page = show(juggler(x, steps=["split", "move", "attend", "out"]), width=390)
    page.wait_for_timeout(800)  # until they have arrived
    boxes = [cell.bounding_box() for cell in page.locator(".jug-number").all()]
    places = sorted(range(T * D), key=lambda i: (boxes[i]["y"], boxes[i]["x"]))
    wrong = taken(torch.arange(T * D).view(1, T, D), ["split", "move", "out"])[-1]
    assert places == wrong.flatten().tolist()


def test_marks_stand_beside_the_rows_that_are_wrong(show, x):
    four = ["split", "recut"]
    for steps in (["split", "move", "attend", "out"], four):
        page = show(juggler(x, steps=steps))
        lines = {row.bounding_box()["y"] for row in page.locator(".jug-row").all()}
        crosses = [
            mark.bounding_box()["y"] for mark in page.locator(".jug-cross").all()
        ]
        assert crosses
        assert set(crosses) <= lines


@each_look
def test_the_juggler_is_accessible_and_fits(show, x, theme, width):
    page = show(juggler(x), juggler(x, steps=["deal"]), theme=theme, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
