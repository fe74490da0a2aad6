"""Promises of the shape tracer: to whoever made the trace and whoever resizes it."""

import copy

import numpy as np
import pytest
import torch
from encoder import TransformerEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_apart.tracer import trace
from taken_apart.views import ShapeTracer
from views.shared import traced

# --- Python --------------------------------------------------------------------------


def test_layers_that_ran_alike_are_shown_once():
    one, three = ShapeTracer(traced(1)), ShapeTracer(traced(3))
    assert len(one.rows) == len(three.rows)
    assert "L" not in one.state["sizes"]
    assert three.state["sizes"]["L"] == 3


def test_layers_that_differ_are_all_shown():
    recorded = copy.deepcopy(traced().to_dict())
    second = [row for row in recorded["rows"] if row["module"].startswith("layers.1")]
    second[-1]["op"] = "another"
    view = ShapeTracer(recorded)
    assert len(view.rows) == len(recorded["rows"])
    assert "L" not in view.state["sizes"]


def test_a_trace_and_its_plain_form_give_the_same_view():
    assert ShapeTracer(traced()).html() == ShapeTracer(traced().to_dict()).html()


def test_the_still_table_of_a_trace_holds_every_row():
    view = ShapeTracer(traced())
    still = view.still()
    assert still.count("<tr>") == len(view.rows) + 1
    assert "(B, T, D) → (B, T, H, K)" in still
    assert "unflatten" in still


def test_a_failed_trace_opens_at_the_row_that_raised():
    class Broken(torch.nn.Module):
        def forward(self, x):
            return x.relu() @ x

    view = ShapeTracer(trace(Broken(), torch.zeros(2, 3, 5)))
    assert view.state["step"] == len(view.rows) - 1
    assert "raised" in view.still()
    assert view.state["error"]["message"] in view.still()


def test_sliders_start_at_the_sizes_given():
    state = ShapeTracer(traced(), T=128, B=32).state
    assert (state["sizes"]["T"], state["sizes"]["B"], state["sizes"]["H"]) == (
        128,
        32,
        2,
    )


@pytest.mark.parametrize("sizes", [{"Q": 3}, {"T": 0}, {"T": 2.5}, {"D": 16}])
def test_sizes_that_no_slider_has_are_refused(sizes):
    with pytest.raises(
        ValueError, match="sizes must be whole numbers from 1 for names"
    ):
        ShapeTracer(traced(), **sizes)


@pytest.mark.parametrize("trace", [None, [], {}, {"rows": []}, "trace"])
def test_what_is_no_trace_is_refused(trace):
    with pytest.raises(TypeError, match="wants a trace with rows"):
        ShapeTracer(trace)


def test_a_traced_encoder_stays_below_26_kilobytes():
    assert len(ShapeTracer(traced()).html().encode()) <= 26_000


# --- The mathematics of the page -----------------------------------------------------


SIZES = {"B": 2, "T": 5, "H": 3, "K": 8, "F": 11, "Tk": 7, "D": 999}


AXES = {
    "B": 2, "Tk": 7, "B*H": 6, "3*H": 9, "K/2": 4, "T+1": 6, "2*T-1": 9, "B*T*H": 30,
    "3": 3, "12?": 12, "D": 24, "2*D/4": 12, "T - 1": 4, "3*D": 72,
}  # fmt: skip


def test_axes_have_the_sizes_that_their_names_say(js):
    got = js(
        "shape_math.js",
        "return data[0].map((axis) => module.sizeOf(axis, data[1], { D: 'H*K' }))",
        [list(AXES), SIZES],
    )
    assert got == list(AXES.values())


def test_a_name_holds_the_names_that_it_is_made_of(js):
    body = """const relations = { D: "H*K", E: "2*D" };
    const inside = ["E", "B"].map((name) => module.namesInside(name, relations));
    return [module.namesIn("2*Tk+B"), ...inside]"""
    assert js("shape_math.js", body) == [["Tk", "B"], ["D", "H", "K"], []]


def test_bytes_are_told_in_the_unit_that_fits(js):
    body = "return data.map(module.bytesText)"
    told = js("shape_math.js", body, [0, 640, 1024, 1536, 10240, 2621440, 5 * 2**30])
    assert told == [
        "0 B",
        "640 B",
        "1.0 KiB",
        "1.5 KiB",
        "10 KiB",
        "2.5 MiB",
        "5.0 GiB",
    ]


def test_the_drawn_blocks_are_what_numpy_makes_of_the_numbers(js):
    numbers = np.arange(6)
    row, block, pairs = (numbers.reshape(n, -1).tolist() for n in (1, 2, 3))
    turned = np.transpose(block).tolist()
    powers = np.exp([0, 1, 2])
    wanted = {
        "split": ([row], [block]),
        "merge": ([block], [row]),
        "join": ([block], [row]),
        "move": ([block], [turned]),
        "regroup": ([block], [pairs]),
        "cut": ([row], [[[0, 1]], [[2, 3]], [[4, 5]]]),
        "normalise": ([block], [[powers / powers.sum()] * 2]),
        "standardise": ([block], [[np.array([-1, 0, 1]) * 1.5**0.5] * 2]),
        "product": ([block, turned], [np.array(block) @ turned]),
        "of tomorrow": ([block], [block]),
    }
    body = "return data.map((kind) => module.illustrate({ kind, pieces: 3 }))"
    got = js("shape_math.js", body, [*wanted])
    for drawn, (before, after) in zip(got, wanted.values(), strict=True):
        assert drawn["before"] == before
        np.testing.assert_allclose(drawn["after"], after)


def test_two_pieces_are_drawn_as_two(js):
    drawn = js("shape_math.js", "return module.illustrate({ kind: 'cut', pieces: 2 })")
    assert drawn["after"] == [[[0, 1, 2]], [[3, 4, 5]]]


@settings(max_examples=10, deadline=None)
@given(st.lists(st.permutations(range(5)), min_size=20, max_size=20))
def test_the_drawn_axes_of_a_move_do_change_places(js, orders):
    orders = [order for order in orders if order != sorted(order)]
    pairs = js("shape_math.js", "return data.map(module.movedPair)", orders)
    for order, (first, second) in zip(orders, pairs, strict=True):
        assert first < second
        assert order.index(first) > order.index(second)


# --- In a browser --------------------------------------------------------------------


ROWS = ".eta-shapes tr:not(.eta-line)"


def slider(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def row_of(page, op):
    return page.locator(ROWS, has_text=op).first


def test_a_slider_resizes_every_shape(show):
    page = show(ShapeTracer(traced()))
    slider(page, "H").fill("6")
    slider(page, "T").fill("11")
    assert "(3, 11, 6, 7)" in row_of(page, "unflatten").inner_text()
    assert "1,386 · 5.4 KiB × L" in row_of(page, "unflatten").inner_text()
    assert "1,386 · 5.4 KiB" in row_of(page, "embedding").inner_text()
    assert "× L" not in row_of(page, "embedding").inner_text()
    assert "D = H·K = 42" in page.locator(".eta-bar").first.inner_text()


def test_shapes_at_new_sizes_are_those_of_a_real_run(show):
    page = show(ShapeTracer(traced(1)))
    slider(page, "T").fill("4")
    slider(page, "B").fill("2")
    slider(page, "F").fill("13")
    slider(page, "K").fill("5")
    model = TransformerEncoder(29, d_model=10, n_heads=2, d_ff=13, n_layers=1)
    real = trace(model.eval(), torch.zeros(2, 4, dtype=torch.int64))
    wanted = [
        " ".join(f"({', '.join(map(str, x['shape']))})" for x in row["outputs"])
        for row in real.to_dict()["rows"]
    ]
    numbers = page.locator(f"{ROWS} td:nth-child(3) > div:nth-child(2)")
    shown = [text.split("→")[1].strip() for text in numbers.all_text_contents()]
    assert shown == wanted


def test_an_axis_lights_up_wherever_it_lives(show):
    page = show(ShapeTracer(traced()))
    slider(page, "H").focus()
    lit = page.locator(".eta-lit").all_text_contents()
    assert lit
    assert {*lit} <= {"H", "H·K"}
    inner = page.locator(".eta-lit-inner").all_text_contents()
    assert inner
    assert {*inner} == {"D"}
    assert len(lit) == page.locator("[data-axis~='H']").count()


def test_the_keys_step_forward_and_back(show):
    page = show(ShapeTracer(traced()))
    stage = page.locator(".eta-stage")
    page.locator(f"{ROWS}[aria-current]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "step 3 of" in stage.inner_text()
    page.keyboard.press("ArrowUp")
    assert "step 2 of" in stage.inner_text()
    assert page.evaluate("document.activeElement.hasAttribute('aria-current')")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert "step 1 of" in stage.inner_text()


class Fused(torch.nn.Module):
    """What a learner's lines do, in one module: cut, stacked, joined, taken apart."""

    def __init__(self):
        super().__init__()
        self.qkv, self.norm = torch.nn.Linear(6, 18), torch.nn.LayerNorm(6)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        weights = torch.einsum("btd,bsd->bts", q, k).softmax(dim=-1)
        first, second = (weights @ v).unbind(0)
        both = torch.stack([first, second])
        return torch.cat([both, x], dim=-1).transpose(0, 1).flatten(1).sum()


def own_attention():
    x = torch.randn(2, 3, 6)
    mha = torch.nn.MultiheadAttention(6, 2, batch_first=True)
    return trace(mha, x, x, x)


SHOWN = {
    "encoder": traced,
    "fused": lambda: trace(Fused(), torch.randn(2, 3, 6)),
    "torch": own_attention,
}


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [390, 820])
def test_every_row_of_a_trace_can_be_stepped_through_and_is_drawn(show, name, width):
    view = ShapeTracer(SHOWN[name]())
    page = show(view, width=width)
    opens = page.get_by_role("button", name="torch's own lines")
    if opens.is_visible():
        opens.click()
    heights, stage = set(), page.locator(".eta-stage")
    for step in range(len(view.rows)):
        assert f"step {step + 1} of {len(view.rows)}" in stage.inner_text()
        assert stage.locator(".eta-cells").count() >= 1
        assert "NaN" not in stage.inner_text()
        current = page.locator(f"{ROWS}[aria-current]")
        assert current.evaluate(IN_SIGHT)
        heights.add(stage.evaluate("node => node.getBoundingClientRect().height"))
        page.get_by_role("button", name="forward").click()
    assert max(heights) - min(heights) <= 40
    assert page.evaluate("document.documentElement.scrollWidth") <= width


IN_SIGHT = """row => {
    const box = row.closest(".eta-scroll").getBoundingClientRect();
    const own = row.getBoundingClientRect();
    return own.top >= box.top - 1 && own.bottom <= box.bottom + 1;
}"""


@pytest.mark.parametrize(
    ("op", "names"),
    [
        ("linear", ["T", "D", "D", "F", "T", "F"]),
        ("matmul", ["T", "K", "K", "T", "T", "T"]),
        ("softmax", ["T", "T", "T", "T"]),
        ("layer_norm", ["T", "D", "T", "D"]),
        ("add", ["T", "D"]),
    ],
)
def test_the_blocks_are_named_by_the_axes_that_meet(show, op, names):
    model = TransformerEncoder(29, d_model=14, n_heads=2, d_ff=11, n_layers=1)
    ran = trace(model.eval(), torch.zeros(3, 5, dtype=torch.int64), need_weights=True)
    page = show(ShapeTracer(ran))
    place = "F" if op == "linear" else ""
    page.locator(ROWS, has_text=op).filter(has_text=place).first.click()
    drawn = page.locator(".eta-stage .eta-block b").all_text_contents()
    assert sorted(drawn) == sorted(names)


def test_a_softmax_is_drawn_as_bars_that_fill_to_one(show):
    page = show(ShapeTracer(own := SHOWN["fused"]()))
    assert any(row.op == "softmax" for row in own.rows)
    row_of(page, "softmax").click()
    parts = page.locator(".eta-part").all_text_contents()
    assert parts == [".09", ".24", ".67"] * 2


def test_a_slider_has_the_colour_of_its_axis(show):
    page = show(ShapeTracer(traced()))
    colours = {
        name: slider(page, name).evaluate("x => getComputedStyle(x).accentColor")
        for name in "BTHKF"
    }
    assert len(set(colours.values())) == 5
    for name, colour in colours.items():
        label = page.locator(".eta-bar label", has=slider(page, name)).locator("b")
        assert label.evaluate("x => getComputedStyle(x).color") == colour


def test_the_steps_are_no_sizes(show):
    page = show(ShapeTracer(traced()))
    sizes, steps = page.locator(".eta-bar").all()
    assert sizes.locator("button").count() == 0
    assert steps.locator("input").count() == 0


def test_a_usual_name_of_an_operation_stays_whole_on_a_phone(show):
    page = show(ShapeTracer(traced()), width=390)
    lines = """x => {
        const range = document.createRange();
        range.selectNodeContents(x);
        return range.getClientRects().length;
    }"""
    assert row_of(page, "embedding").locator("th").evaluate(lines) == 1
    assert row_of(page, "unflatten").locator("th").evaluate(lines) == 1


def test_a_long_call_takes_three_lines(show):
    page = show(ShapeTracer(own_attention()), width=390)
    page.get_by_role("button", name="torch's own lines").click()
    row_of(page, "multi_head_attention_forward").click()
    heights = [
        code.evaluate(
            "x => x.clientHeight / parseFloat(getComputedStyle(x).lineHeight)"
        )
        for code in page.locator(".eta-line code").all()
    ]
    assert round(max(heights), 1) == 3


def test_a_long_operation_does_not_lie_on_its_shapes(show):
    page = show(ShapeTracer(own_attention()), width=390)
    page.get_by_role("button", name="torch's own lines").click()
    row = row_of(page, "multi_head_attention_forward")
    name, shapes = (row.locator(x).bounding_box() for x in ("th", "td >> nth=1"))
    assert row.locator("th").evaluate("x => x.scrollWidth <= x.clientWidth + 1")
    assert name["x"] + name["width"] <= shapes["x"] + 1


def test_a_split_is_drawn_on_a_block_of_numbers(show):
    page = show(ShapeTracer(traced()))
    row_of(page, "unflatten").click()
    cells = page.locator(".eta-cells").all()
    columns = [
        cell.evaluate("x => x.style.getPropertyValue('--columns')") for cell in cells
    ]
    assert columns == ["6", "3"]
    assert "split D into H" in page.locator(".eta-stage").inner_text()


def test_the_piece_of_the_line_that_ran_is_underlined(show):
    page = show(ShapeTracer(traced()))
    row_of(page, "unflatten").click()
    assert page.locator(".eta-shapes u").all_text_contents() == [
        "x.unflatten(-1, (self.n_heads, -1))"
    ]


def test_a_failed_trace_says_what_met_and_why(show):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down = torch.nn.Linear(24, 16)

        def forward(self, x):
            return self.down(x)

    page = show(ShapeTracer(trace(Broken(), torch.zeros(2, 5, 16))))
    told = page.locator(".eta-stage.eta-fault").inner_text()
    assert "cannot be multiplied" in told
    assert "24" in told
    assert "error" in page.locator(f"{ROWS}[aria-current]").inner_text()
