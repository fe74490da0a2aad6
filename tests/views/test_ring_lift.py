"""Promises of the ring lift, and of the three views of its chapters on one page."""

import itertools

import numpy as np
import pytest
import torch
from book.views import AxisJuggler, RingLift, RowEditor
from book.views.ring_lift import turned
from common import violations
from encoder import FeedForward, MultiHeadAttention
from views.shared import each_look

ANGLE = np.linspace(0, 2 * np.pi, 60, endpoint=False)


CIRCLE = np.stack((np.cos(ANGLE), np.sin(ANGLE)), axis=1)


POINTS = np.concatenate((CIRCLE, 2 * CIRCLE))


LABELS = np.arange(120) >= 60


THIRDS = np.radians([90, 210, 330])


WEIGHT = np.stack((np.cos(THIRDS), np.sin(THIRDS))) * [1.0, 2.0, 0.5]


BIAS = np.array([-0.7, -1.4, -0.35])


TOKENS = ["tom", "ate", "soup"]


def units(weight=WEIGHT, bias=BIAS):
    return RingLift(POINTS, LABELS, weight, bias).state["units"]


@pytest.mark.parametrize("bend", [0.0, 0.25, 1.0])
def test_units_lift_as_numpy_does(js, bend):
    body = "return module.lifted(data.points, data.units, data.bend)"
    data = {"points": POINTS.tolist(), "units": units(), "bend": bend}
    heights = POINTS @ (WEIGHT / np.linalg.norm(WEIGHT, axis=0)) + np.array([-0.7] * 3)
    wanted = np.where(heights < 0, (1 - bend) * heights, heights)
    np.testing.assert_allclose(js("ring_lift_math.js", body, data), wanted, atol=1e-3)


def test_two_units_leave_the_third_axis_empty(js):
    body = "return module.lifted(data.points, data.units, 1)"
    made = js("ring_lift_math.js", body, {"points": [[1, 2]], "units": units()[:2]})
    assert made[0][2] == 0


PLANE = """const plane = module.bestPlane(data.spots, data.labels);
return [plane.right, plane.normal, plane.at]"""


def sorted_right(spots, labels, normal, at):
    return int(((spots @ np.array(normal) > at) == labels).sum())


def best_of_all_lines(points, labels):
    """Try the line through every two points, moved a little to either side."""
    best = 0
    for a, b in itertools.combinations(points, 2):
        normal = np.array([a[1] - b[1], b[0] - a[0]])
        if not normal.any():
            continue
        heights = points @ normal
        for at in (normal @ a + 1e-9, normal @ a - 1e-9):
            right = ((heights > at) == labels).sum()
            best = max(best, right, len(labels) - right)
    return best


def test_a_plane_that_sorts_all_points_is_found(js):
    generator = np.random.default_rng(0)
    for _ in range(5):
        spots, normal = generator.normal(size=(80, 3)), generator.normal(size=3)
        labels = spots @ normal > 0.3
        spots[labels] += 0.1 * normal / np.linalg.norm(normal)
        data = {"spots": spots.tolist(), "labels": labels.astype(int).tolist()}
        right, normal, at = js("ring_lift_math.js", PLANE, data)
        assert right == 80 == sorted_right(spots, labels, normal, at)


def test_what_the_plane_sorts_is_what_it_says(js):
    generator = np.random.default_rng(1)
    for _ in range(5):
        spots, labels = generator.normal(size=(40, 3)), generator.random(40) < 0.4
        data = {"spots": spots.tolist(), "labels": labels.astype(int).tolist()}
        right, normal, at = js("ring_lift_math.js", PLANE, data)
        assert (
            right
            == sorted_right(spots, labels, normal, at)
            >= max(labels.sum(), 40 - labels.sum())
        )


def test_no_plane_beats_the_best_line_where_nothing_bends(js):
    flat = np.pad(POINTS, ((0, 0), (0, 1)))
    data = {"spots": flat.tolist(), "labels": LABELS.astype(int).tolist()}
    right, normal, at = js("ring_lift_math.js", PLANE, data)
    exact = best_of_all_lines(POINTS, LABELS)
    assert sorted_right(flat, LABELS, normal, at) == right
    assert exact - 2 <= right <= exact == 80


def test_a_cut_sorts_from_either_side_and_never_parts_equal_numbers(js):
    body = "return data.map(([numbers, labels]) => module.bestCut(numbers, labels))"
    cases = [[1, 1, 1], [0, 1, 0]], [[3, 1, 2], [1, 0, 0]], [[3, 1, 2], [0, 1, 1]]
    same, above, below = js("ring_lift_math.js", body, cases)
    assert same["right"] == 2
    assert (above["right"], above["at"], above["sign"]) == (3, 2.5, 1)
    assert (below["right"], below["at"], below["sign"]) == (3, 2.5, -1)


def test_turning_is_a_rotation_and_the_same_in_python(js):
    spots = np.random.default_rng(2).normal(size=(7, 3))
    body = "return data.map((spot) => module.turned(spot, 33, -20))"
    seen = np.array(js("ring_lift_math.js", body, spots.tolist()))
    np.testing.assert_allclose(seen @ seen.T, spots @ spots.T, atol=1e-12)
    np.testing.assert_allclose(seen[:, :2], turned(spots, 33, -20), atol=1e-12)


def test_the_drawn_sheet_lies_on_the_plane_and_in_the_box(js):
    body = "return module.planeCorners(data.n, 0.4, [-1, -1, -1], [1, 2, 1])"
    normal = np.array([0.6, 0.48, 0.64])
    corners = np.array(js("ring_lift_math.js", body, {"n": normal.tolist()}))
    assert len(corners) >= 3
    np.testing.assert_allclose(corners @ normal, 0.4, atol=1e-9)
    assert (np.abs(corners) <= [1, 2, 1]).all()
    sides = np.diff(np.vstack((corners, corners[:1])), axis=0)
    turns = np.cross(sides, np.roll(sides, -1, axis=0)) @ normal
    assert (turns > -1e-9).all() or (turns < 1e-9).all()  # convex, in order


def test_a_line_dragged_to_a_place_goes_through_it(js):
    body = """const unit = { angle: 30, offset: 0.5 }, foot = module.footOf(unit);
    return [module.shiftedTo(unit, [1, 2]), foot, module.turnedTo(foot, [2, 2])]"""
    moved, foot, turned_unit = js("ring_lift_math.js", body)
    for unit, place in ((moved, [1, 2]), (turned_unit, foot)):
        turn = np.radians(unit["angle"])
        height = np.array([np.cos(turn), np.sin(turn)]) @ place + unit["offset"]
        assert abs(height) < 1e-9


def test_small_systems_are_solved_as_numpy_solves_them(js):
    matrix = np.random.default_rng(3).normal(size=(4, 4))
    matrix[0, 0] = 0  # wants a pivot
    body = "return module.solve(data.matrix, [1, 2, 3, 4])"
    made = js("ring_lift_math.js", body, {"matrix": matrix.tolist()})
    np.testing.assert_allclose(made, np.linalg.solve(matrix, [1, 2, 3, 4]), rtol=1e-8)


BAD = {
    "points": ((np.zeros((4, 3)), [0, 1, 0, 1], WEIGHT, BIAS), r"\(N, 2\), got \(4, 3"),
    "labels": ((np.zeros((4, 2)), [0, 1, 0], WEIGHT, BIAS), r"labels must be \(4,\)"),
    "units": ((POINTS, LABELS, np.ones((2, 4)), np.ones(4)), "F 2 or 3, got"),
    "bias": ((POINTS, LABELS, WEIGHT, BIAS[:2]), r"bias must be \(3,\), got \(2,\)"),
    "zero": ((POINTS, LABELS, WEIGHT * 0, BIAS), "no unit all zero"),
    "nan": ((POINTS * np.nan, LABELS, WEIGHT, BIAS), "points must be finite"),
}


@pytest.mark.parametrize(("given", "says"), BAD.values(), ids=BAD)
def test_what_cannot_be_lifted_is_refused_in_words(given, says):
    with pytest.raises(ValueError, match=says):
        RingLift(*given)


def test_the_still_drawings_hold_every_point():
    still = RingLift(POINTS, LABELS, WEIGHT, BIAS).still()
    assert still.count("<svg") == 2
    assert still.count("<circle") == 240


def parts():
    torch.manual_seed(0)
    return FeedForward(6, 24).eval(), MultiHeadAttention(6, 2).eval()


def lift():
    return RingLift(POINTS, LABELS, WEIGHT, BIAS)


def told(page):
    return page.get_by_role("status").inner_text()


def test_the_bend_decides_whether_a_plane_sorts_the_rings(show):
    page = show(lift())
    assert "3 units: the best plane found sorts 120 of 120" in told(page)
    page.get_by_role("button", name="ReLU").click()
    page.get_by_text("flat sheet. The best plane found sorts 80 of 120").wait_for()
    page.get_by_role("button", name="ReLU").click()
    page.get_by_text("With ReLU, 3 units").wait_for()
    page.get_by_role("button", name="2 units").click()
    assert "2 units" in told(page)
    assert "(83 %)" in told(page)


def test_reduced_motion_bends_at_once(show):
    page = show(lift(), reduced_motion="reduce")
    page.get_by_role("button", name="ReLU").click()
    assert "80 of 120" in told(page)


def test_a_line_is_moved_by_keys_and_by_sliders(show):
    page = show(lift())
    page.locator(".lift-plane").focus()
    page.keyboard.press("2")
    for _ in range(10):
        page.keyboard.press("ArrowLeft")
    assert page.get_by_label("angle").input_value() == str((210 + 60) % 360)
    assert page.get_by_role("button", name="unit 2").get_attribute("aria-pressed")
    assert "120 of 120" not in told(page)
    page.get_by_label("offset").fill("-2")
    assert "ringed" in page.locator(".eta-lift").inner_text()
    page.get_by_role("button", name="start again").click()
    assert "120 of 120" in told(page)


def middle(locator):
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page, start, by):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(start[0] + by[0], start[1] + by[1], steps=4)
    page.mouse.up()


def foot_of_unit(page, unit):
    """Return where on the screen the arrow of a unit begins."""
    path = page.locator(".lift-arrow").nth(unit).get_attribute("d")
    x, y = (float(number) for number in path[1:].split("L")[0].split())
    box = page.locator(".lift-plane").bounding_box()
    return box["x"] + x / 300 * box["width"], box["y"] + y / 300 * box["height"]


def test_a_line_is_turned_and_shifted_by_the_mouse(show):
    page = show(lift())
    drag(page, middle(page.locator(".lift-tip").first), (60, 60))
    turned_to = float(page.get_by_label("angle").input_value())
    assert turned_to != 90
    assert "120 of 120" not in told(page)
    before = page.get_by_label("offset").input_value()
    drag(page, foot_of_unit(page, 1), (-30, 30))
    assert page.get_by_role("button", name="unit 2").get_attribute("aria-pressed")
    assert page.get_by_label("offset").input_value() != before


def test_the_lifted_points_turn_by_mouse_and_keys(show):
    page = show(lift())
    spot = page.locator(".lift-space circle").first
    seen = {spot.get_attribute("cx")}
    drag(page, middle(page.locator(".lift-space")), (40, 10))
    seen.add(page.locator(".lift-space circle").first.get_attribute("cx"))
    page.keyboard.press("ArrowLeft")
    seen.add(page.locator(".lift-space circle").first.get_attribute("cx"))
    assert len(seen) == 3
    assert "120 of 120" in told(page)  # looking changes nothing


STRUCK = """(space) => [...space.querySelectorAll(".lift-axes text")].filter((name) => {
    const [box, line] = [name.getBBox(), name.previousElementSibling];
    const length = line.getTotalLength();
    return [...Array(101).keys()].some((i) => {
        const { x, y } = line.getPointAtLength((length * i) / 100);
        const across = x > box.x && x < box.x + box.width;
        return across && y > box.y + 2 && y < box.y + box.height - 2;
    });
}).map((name) => name.textContent)"""


def test_no_axis_strikes_out_its_name_and_all_names_are_inside(show):
    page = show(lift())
    space = page.locator(".lift-space")
    frame = space.bounding_box()
    space.focus()
    for key in ["ArrowLeft"] * 12 + ["ArrowUp"] * 6:
        assert space.evaluate(STRUCK) == []
        for name in space.locator("text").all():
            box = name.bounding_box()
            assert frame["x"] <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]
            assert frame["y"] <= box["y"]
        page.keyboard.press(key)


def every_view():
    editor = RowEditor(torch.randn(3, 6), *parts(), TOKENS, push=[0, 1, 0])
    return lift(), editor, AxisJuggler(np.eye(4, 6), 2)


def test_without_scripts_and_in_print_the_still_content_is_read(show):
    page = show(*every_view(), java_script_enabled=False)
    assert all(still.is_visible() for still in page.locator(".eta-still").all())
    page = show(*every_view())
    stills = page.locator(".eta-still").all()
    assert [still.is_visible() for still in stills] == [False] * 3
    page.emulate_media(media="print")
    assert [still.is_visible() for still in stills] == [True] * 3


def test_the_views_of_both_chapters_leave_nothing_behind(show):
    page = show(*every_view())
    page.get_by_role("button", name="ReLU").click()  # the bend is under way
    left = page.locator(".eta-root").evaluate_all(
        """async (roots) => {
        let frames = 0;
        const ask = window.requestAnimationFrame;
        for (const root of roots) root.unmount();
        window.requestAnimationFrame = (work) => { frames += 1; return ask(work); };
        await new Promise((done) => setTimeout(done, 200));
        return [frames, ...roots.map((root) => root.childElementCount)];
        }"""
    )
    assert left == [0] * 4


def test_their_widgets_share_the_state_that_a_reader_changes():
    given = [{"relu": False}, {"push": [1.0, 0, 0]}, {"steps": ["split"]}]
    for view, changed in zip(every_view(), given, strict=True):
        widget = view.live()
        for name, value in changed.items():
            assert widget.traits()[name].metadata["sync"]
            setattr(widget, name, value)


@each_look
def test_both_views_are_accessible_and_fit(show, theme, width):
    editor = RowEditor(torch.randn(3, 6), *parts(), TOKENS, push=[0, 1, 0])
    page = show(lift(), editor, theme=theme, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
