"""Promises of the views to whoever writes them into a notebook: the Python side."""

import base64
import copy
import functools
import json
import re
import zlib

import anywidget
import numpy as np
import pytest
import torch
from conftest import JS
from encoder import TransformerEncoder
from taken_apart.tracer import trace
from taken_apart.views import AttentionMap, ShapeTracer, View, bundle
from taken_apart.views.attention_map import EXACT_ZERO

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "&lt;b&gt;",
    "'`${x}\\",
    "🦉",
    "שלום",
    "注意力",
    "",
    "w" * 200,
    "\ud800",  # half of a character, as some tokenisers give it
    "<!--",
]
BUNDLES = sorted(p for p in JS.values() if "export default" in p.read_text())


class Plain(View):
    module = bundle.JS / "shape_tracer/shape_tracer.js"


def softmax_weights(*shape, seed=0):
    """Return random attention weights, float64, whose rows sum to 1."""
    scores = np.random.default_rng(seed).normal(size=shape) * 2
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@functools.cache
def traced(n_layers=3):
    """Return the trace of a small encoder."""
    model = TransformerEncoder(29, d_model=14, n_heads=2, d_ff=11, n_layers=n_layers)
    return trace(model.eval(), torch.zeros(3, 5, dtype=torch.int64))


def words(n):
    return [f"word{i}" for i in range(n)]


def read_state(html):
    """Return the state as the page reads it."""
    packed = re.search(r'<script type="text/eta">(.*?)</script>', html)[1]
    if packed.startswith("{"):
        return json.loads(packed)
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def decoded(view):
    """Return the weights that a page gets, and where they are exactly zero."""
    low, high = np.frombuffer(view.state["weights"], np.uint8).reshape(2, -1)
    codes = low.astype(int) + 256 * high.astype(int)
    exact_zero = codes == EXACT_ZERO
    values = np.where(exact_zero, 0, codes) / 10 ** view.state["digits"]
    shape = view.state["shape"]
    return values.reshape(shape), exact_zero.reshape(shape)


def every_view():
    return [
        AttentionMap(softmax_weights(2, 3, 5, 5), words(5)),
        AttentionMap(softmax_weights(2, 3, 17, 19), words(17), words(19)),
        ShapeTracer(traced()),
    ]


# --- what every view gives -----------------------------------------------------------


def test_a_view_is_the_same_at_every_run():
    for first, second in zip(every_view(), every_view(), strict=True):
        assert first._repr_mimebundle_() == second._repr_mimebundle_()


def test_a_view_holds_no_ids_no_addresses_and_nothing_from_elsewhere():
    for view in every_view():
        html = view.html()
        assert not re.search(r"\sid=|0x[0-9a-f]{6}|https?:|\bsrc=|@import", html)


def test_the_plain_text_says_what_the_view_holds():
    small, cross, shapes = map(repr, every_view())
    assert small == "AttentionMap(2 layers, 3 heads, 5 queries, 5 keys)"
    assert cross == "AttentionMap(2 layers, 3 heads, 17 queries, 19 keys)"
    assert shapes.startswith("ShapeTracer(TransformerEncoder, ")
    assert "B=3, T=5" in shapes
    assert "L=3" in shapes


def test_a_view_refuses_state_that_a_page_cannot_read():
    with pytest.raises(TypeError, match="JSON or bytes, got array"):
        Plain(weights=np.zeros(3)).html()


def test_bytes_of_the_state_reach_the_page_unchanged():
    data = bytes(range(256))
    packed = read_state(Plain(data=data).html())["data"]["$b"]
    assert base64.b64decode(packed) == data


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_joined_modules_share_no_name_and_import_nothing(path):
    sources = [bundle.source(file) for file in {*bundle.modules(path), JS["shim.js"]}]
    top = r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)"
    names = [found for text in sources for found in re.findall(top, text, re.MULTILINE)]
    assert "render" in names
    assert [name for name in set(names) if names.count(name) > 1] == []
    text = bundle.es_module(path)
    assert not re.search(r"\bimport\b[ ({]", text)
    assert text.count("export default") == 1
    assert "getElementById" not in text
    assert "</script" not in text


@pytest.mark.parametrize(
    "line",
    [
        'import button from "./dom.js";',
        'import * as dom from "./dom.js";',
        'import "./dom.js";',
        'import { h } from "https://elsewhere/dom.js";',
        'export { h } from "./dom.js";',
        'export * from "./dom.js";',
        "export default function render() {}",
    ],
)
def test_a_module_that_the_joining_would_break_is_refused(tmp_path, line):
    file = tmp_path / "view.js"
    file.write_text(f"{line}\nexport default {{ render }};\n")
    with pytest.raises(ValueError, match=r"view\.js must import and export as in"):
        bundle.es_module(file)


@pytest.mark.parametrize("path", sorted(JS.values()), ids=lambda path: path.name)
def test_no_text_and_no_comment_reaches_over_the_end_of_a_line(path):
    """So that a line can lose its indentation, or be dropped, by its first letters."""
    text = path.read_text()
    assert [line for line in text.split("\n") if line.count("`") % 2] == []
    assert "/*" not in text


def test_lines_of_comment_go_and_no_line_is_touched_inside(tmp_path):
    code = [
        "const text = 'it  // is';  // kept",
        "const list = /a, ]/.test(`b ,  c`) && x ++ + ++ x;",
        "function render() {",
        "return { text ,list };",
        "}",
        "export default { render };",
    ]
    first, second, head, body, foot, last = code
    lines = [
        "// A view.",
        first,
        second,
        "",
        head,
        "  // Both.",
        f"    {body}",
        foot,
        last,
    ]
    file = tmp_path / "view.js"
    file.write_text("\n".join(lines) + "\n")
    assert bundle.es_module(file) == "\n".join(code)


def test_a_live_view_is_the_same_module_with_its_state_as_traits():
    for view in every_view():
        widget = view.live()
        assert widget._esm == bundle.es_module(view.module)
        for name, value in view.state.items():
            assert not hasattr(anywidget.AnyWidget, name)
            assert getattr(widget, name) == value
            assert widget.traits()[name].metadata["sync"]


# --- attention maps: what goes in ----------------------------------------------------


def test_weights_in_every_form_give_the_same_view():
    layers = softmax_weights(3, 2, 5, 5)  # (L, H, T, T)
    forms = [
        layers,
        list(layers),
        tuple(layers[:, None]),  # BERT-style: L of (B, H, T, T)
        torch.tensor(layers),
        [torch.tensor(layer, requires_grad=True) for layer in layers],
        [layer.tolist() for layer in layers],
    ]
    htmls = {AttentionMap(form, words(5)).html() for form in forms}
    assert len(htmls) == 1


def test_half_precision_weights_are_taken():
    for dtype in (torch.bfloat16, torch.float16):
        weights = torch.full((2, 3, 4, 4), 0.25, dtype=dtype)
        assert (decoded(AttentionMap(weights))[0] == 0.25).all()


def test_a_single_map_and_a_single_layer_are_taken():
    assert AttentionMap(softmax_weights(5, 7)).state["shape"] == [1, 1, 1, 5, 7]
    assert AttentionMap(softmax_weights(3, 5, 7)).state["shape"] == [1, 1, 3, 5, 7]


def test_rank_four_is_a_batch_where_the_tokens_are_one():
    weights = softmax_weights(2, 3, 5, 5)
    one, batch = AttentionMap(weights, words(5)), AttentionMap(weights, [words(5)] * 2)
    assert one.state["shape"] == [1, 2, 3, 5, 5]
    assert batch.state["shape"] == [2, 1, 3, 5, 5]


def test_layers_of_a_batch_keep_their_places():
    layers = softmax_weights(3, 2, 5, 7, 7)  # L, B, H, T, T
    view = AttentionMap(list(layers), [words(7)] * 2)
    values, _ = decoded(view)
    np.testing.assert_allclose(values, layers.transpose(1, 0, 2, 3, 4), atol=5.1e-5)


def test_cross_attention_has_its_own_key_tokens():
    view = AttentionMap(softmax_weights(2, 5, 3), words(5), ["a", "b", "c"])
    assert view.state["key_tokens"] == [["a", "b", "c"]]
    assert AttentionMap(softmax_weights(2, 5, 5), words(5)).state["key_tokens"] is None


def test_weights_keep_the_decimals_that_the_view_names():
    few, many = softmax_weights(2, 3, 5, 5), softmax_weights(12, 12, 32, 32)
    for weights, digits in ((few, 4), (many, 3)):
        view = AttentionMap(weights)
        assert view.state["digits"] == digits
        values = decoded(view)[0][0]
        assert np.abs(values - weights).max() <= 0.5001 * 10**-digits


def test_an_exact_zero_is_told_from_a_small_weight():
    weights = np.array([[1.0, 0.0], [1.0 - 1e-9, 1e-9]])
    values, exact_zero = decoded(AttentionMap(weights))
    assert exact_zero[0, 0, 0].tolist() == [[False, True], [False, False]]
    assert values[0, 0, 0].tolist() == [[1, 0], [1, 0]]


def test_row_sums_are_those_of_the_given_weights():
    weights = softmax_weights(1, 1, 3, 40) * np.array([[1.0], [0.5], [3.0]])
    sums = np.frombuffer(AttentionMap(weights).state["sums"], "<f4")
    np.testing.assert_allclose(sums, [1, 0.5, 3], atol=1e-4)


def test_padding_is_read_from_exact_zeros_of_the_encoder():
    model = TransformerEncoder(29, d_model=14, n_heads=2, n_layers=2).eval()
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    ids = torch.ones(2, 5, dtype=torch.int64)
    with torch.no_grad():
        _, weights = model(ids, mask, need_weights=True)
    view = AttentionMap(weights, [words(5)] * 2)
    assert view.state["padding"] == mask.int().tolist()


def test_a_given_mask_marks_padding_even_where_weight_leaks_into_it():
    weights, mask = softmax_weights(2, 3, 3), torch.tensor([False, False, True])
    assert AttentionMap(weights, key_padding_mask=mask).state["padding"] == [[0, 0, 1]]


def test_what_is_shown_first_counts_from_the_end_as_python_does():
    weights = softmax_weights(3, 5, 2, 2)
    state = AttentionMap(weights, layer=-1, head=-2, compare=(0, -1)).state
    assert (state["layer"], state["head"], state["compare"]) == (2, 3, [0, 4])


# --- attention maps: what is refused -------------------------------------------------

GOOD = softmax_weights(2, 3, 5, 5)
BAD_VALUES = {
    "nan": (np.full((2, 2), np.nan), "finite, got nan or inf"),
    "infinite": (np.full((2, 2), np.inf), "finite, got nan or inf"),
    "scores": (np.array([[-1.0, 2.0]]), r"before the softmax\?"),
    "logits": (np.array([[30.0, 2.0]]), r"before the softmax\?"),
    "no tokens": (np.zeros((2, 3, 0, 0)), "nothing empty"),
    "no layers": ([], "nothing empty"),
    "a vector": (np.ones(3), r"weights must be \(Tq, Tk\).* got \(3,\)"),
    "rank five": (np.ones((1, 1, 1, 2, 2)), r"or a list of layers, got \(1, 1, 1"),
    "layers of rank two": ([np.ones((2, 2))], r"each layer .* got \[\(2, 2\)\]"),
    "uneven layers": ([np.ones((1, 2, 2)), np.ones((1, 3, 3))], "one shape"),
    "no weights": ([None, None], "layer 0 of weights is None.*need_weights=True"),
}


@pytest.mark.parametrize(("weights", "says"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_weights_that_are_none_are_refused_in_words(weights, says):
    with pytest.raises(ValueError, match=says):
        AttentionMap(weights)


BAD_OPTIONS = {
    "few tokens": ({"tokens": words(4)}, ValueError, r"name 1 x 5.*got \[4\]"),
    "no tokens": ({"tokens": []}, ValueError, r"got \[0\]"),
    "two samples": ({"tokens": [words(5)] * 3}, ValueError, "name 2 x 5"),
    "few key tokens": ({"key_tokens": ["a"]}, ValueError, "key_tokens must name"),
    "float mask": ({"key_padding_mask": np.zeros(5)}, TypeError, "bool, True = pad"),
    "long mask": ({"key_padding_mask": np.zeros(6, bool)}, ValueError, r"got \(6,\)"),
    "layer": ({"layer": 2}, ValueError, r"layer must lie in -2..1, got 2"),
    "head": ({"head": -4}, ValueError, r"head must lie in -3..2, got -4"),
    "compare": ({"compare": (0, 9)}, ValueError, r"head must lie in -3..2, got 9"),
}


@pytest.mark.parametrize(
    ("options", "error", "says"), BAD_OPTIONS.values(), ids=BAD_OPTIONS
)
def test_options_that_do_not_fit_are_refused_in_words(options, error, says):
    with pytest.raises(error, match=says):
        AttentionMap(GOOD, **options)


# --- attention maps: what comes out --------------------------------------------------


@pytest.mark.parametrize("n", [len(HOSTILE), len(HOSTILE) + 13], ids=["table", "map"])
def test_hostile_tokens_cannot_leave_the_text(n):
    tokens = (HOSTILE * 3)[:n]
    html = AttentionMap(softmax_weights(1, 2, n, n), tokens).html()
    assert html.count("</script>") == 2
    assert html.count("<script") == 2
    assert "alert(1)<" not in html
    assert "<img" not in html
    assert "<!--" not in html
    html.encode("utf-8")


def test_the_still_table_shows_every_weight_of_a_small_map():
    weights = softmax_weights(2, 3, 5, 5)
    still = AttentionMap(weights, words(5), layer=1, head=2).still()
    shown = [float(x) for x in re.findall(r">(\d\.\d\d)<", still)]
    np.testing.assert_allclose(shown, weights[1, 2].ravel(), atol=0.00501)
    assert "layer 1, head 2" in still


def test_the_still_drawing_shows_every_cell_of_even_attention():
    n = 23
    still = AttentionMap(np.full((n, n), 1 / n), words(n)).still()
    assert still.count("h1") == n * n
    assert 'role="img"' in still


def test_the_still_list_names_the_strongest_key_of_every_query():
    weights = np.eye(19)[::-1]
    still = AttentionMap(weights, words(19)).still()
    assert '<th scope="row">word0</th><td>word18 1.00</td>' in still


def test_a_page_with_a_large_model_stays_below_a_quarter_megabyte():
    html = AttentionMap(softmax_weights(12, 12, 32, 32), words(32)).html()
    assert len(html.encode()) <= 250_000


def test_a_live_map_asks_for_new_weights_when_the_reader_masks_a_key():
    asked = []

    def recompute(mask):
        asked.append(mask)
        return np.where(mask[:, None, None], 0.0, softmax_weights(1, 2, 3, 3))

    view = AttentionMap(recompute(np.zeros((1, 3), bool)))
    widget = view.live(recompute)
    before = widget.weights
    widget.padding = [[0, 1, 0]]
    assert widget.editable
    assert asked[-1].tolist() == [[False, True, False]]
    assert widget.weights != before
    view.state["weights"] = widget.weights
    assert (decoded(view)[1][..., 1]).all()


def test_a_live_map_refuses_new_weights_of_another_shape():
    widget = AttentionMap(softmax_weights(2, 3, 3)).live(lambda mask: np.ones((2, 2)))
    with pytest.raises(ValueError, match="recompute must return weights"):
        widget.padding = [[0, 0, 1]]


# --- traced shapes -------------------------------------------------------------------


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


def test_a_traced_encoder_stays_below_23_kilobytes():
    assert len(ShapeTracer(traced()).html().encode()) <= 23_000
