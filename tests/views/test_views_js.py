"""Promises of the mathematics in the views' ES modules, run by node, against NumPy."""

import zlib
from base64 import b64encode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from taken_apart.views import AttentionMap
from taken_apart.views.base import packed
from test_views import softmax_weights


def encoded(weights):
    """Return a view's weights as the page has them, and their decimals."""
    state = AttentionMap(weights).state
    data = {"weights": b64encode(state["weights"]).decode(), "shape": state["shape"]}
    return data | {"digits": state["digits"], "exactZero": state["exact_zero"]}


# --- attention -----------------------------------------------------------------------


def test_the_page_decodes_the_weights_that_python_encoded(js):
    weights = softmax_weights(2, 3, 5, 7)
    weights[1, 2, 3] = [0, 0, 1, 0, 0, 0, 0]
    got = js(
        "attention_math.js",
        "return module.decodeWeights(bytes(data.weights), data.digits, data.exactZero)",
        encoded(weights),
    )
    np.testing.assert_allclose(got["values"], weights.ravel(), atol=5.1e-5)
    assert got["zero"] == (weights == 0).astype(int).ravel().tolist()


def test_a_head_is_found_among_samples_and_layers(js):
    layers = softmax_weights(3, 2, 5, 7, 11)  # L, B, H, Tq, Tk
    places = [[0, 0, 0], [1, 2, 4], [0, 1, 3]]  # sample, layer, head
    view = AttentionMap(list(layers), [list("abcdefg")] * 2, [list("abcdefghijk")] * 2)
    data = {"weights": b64encode(view.state["weights"]).decode(), "places": places}
    got = js(
        "attention_math.js",
        """const raw = bytes(data.weights);
        const decoded = module.decodeWeights(raw, data.digits, data.exactZero);
        return data.places.map(([s, l, h]) => {
          const map = module.headMap(decoded, data.shape, s, l, h);
          return [map.values, module.rowOf(map, 2), module.columnOf(map, 6)];
        })""",
        data
        | {"digits": view.state["digits"], "shape": view.state["shape"]}
        | {"exactZero": view.state["exact_zero"]},
    )
    for (sample, layer, head), (values, row, column) in zip(places, got, strict=True):
        wanted = layers[layer, sample, head]
        np.testing.assert_allclose(values, wanted.ravel(), atol=5.1e-5)
        np.testing.assert_allclose(row, wanted[2], atol=5.1e-5)
        np.testing.assert_allclose(column, wanted[:, 6], atol=5.1e-5)


def test_entropy_and_means_agree_with_numpy(js):
    weights = softmax_weights(13, 17)
    weights[3], weights[5] = np.eye(17)[4], 1 / 17
    got = js(
        "attention_math.js",
        """const map = { Q: 13, K: 17, values: data.flat() };
        return [data.map(module.entropy), module.columnMeans(map)]""",
        weights.tolist(),
    )
    logs = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    np.testing.assert_allclose(got[0], -(weights * logs).sum(axis=1), atol=1e-9)
    np.testing.assert_allclose(got[1], weights.mean(axis=0), atol=1e-6)
    assert got[0][3] == 0
    assert abs(got[0][5] - np.log2(17)) < 1e-9


def test_entropy_does_not_depend_on_the_sum_of_a_row(js):
    body = "return [module.entropy(data), module.entropy(data.map((w) => 3 * w))]"
    one, three = js("attention_math.js", body, [0.5, 0.25, 0.25, 0])
    assert one == three == 1.5


def test_the_strongest_come_in_order_and_zeros_never(js):
    body = "return data.map((row) => module.strongest(row, 3))"
    rows = [[0.1, 0.4, 0.4, 0.1], [0, 1, 0], [0, 0]]
    assert js("attention_math.js", body, rows) == [[1, 2, 0], [1], []]


def test_a_small_map_keeps_the_largest_weight_of_each_block(js):
    weights = softmax_weights(6, 9)
    weights[:2, :3] = 0
    got = js(
        "attention_math.js",
        """const zero = data.flat().map((weight) => Number(weight === 0));
        return module.pool({ Q: 6, K: 9, values: data.flat(), zero }, 3, 3)""",
        weights.tolist(),
    )
    blocks = weights.reshape(3, 2, 3, 3)
    np.testing.assert_allclose(
        got["values"], blocks.max(axis=(1, 3)).ravel(), rtol=1e-6
    )
    assert got["zero"] == [1] + [0] * 8


def test_colours_run_through_their_stops(js):
    body = """const ramp = module.colourRamp(["#f7fbff", "#6baed6", "#08306b"]);
    return new Uint8Array(ramp.buffer)"""
    ramp = np.array(js("attention_math.js", body)).reshape(256, 4)
    assert ramp[0].tolist() == [247, 251, 255, 255]
    assert ramp[255].tolist() == [8, 48, 107, 255]
    assert np.abs(ramp[127] - [107, 174, 214, 255]).max() <= 1
    assert (np.diff(ramp.sum(axis=1)) <= 0).all()


def test_shades_end_at_the_top(js):
    body = "return data.map(([weight, top]) => module.shade(weight, top))"
    pairs = [[0, 1], [0.5, 1], [1, 1], [2, 1], [0.25, 0.5], [0, 0]]
    assert js("attention_math.js", body, pairs) == [0, 128, 255, 255, 128, 0]


def test_copied_values_can_be_read_back_as_a_table(js):
    weights = softmax_weights(2, 3)
    body = """const map = { Q: 2, K: 3, values: Float32Array.from(data.flat()) };
    return module.toTable(map, ["a", "b\\tb"], ["x", "y\\n", "z"], 4)"""
    table = js("attention_math.js", body, weights.tolist())
    rows = [line.split("\t") for line in table.split("\n")]
    assert rows[0] == ["", "x", "y ", "z"]
    assert [r[0] for r in rows[1:]] == ["a", "b b"]
    shown = [[float(x) for x in row[1:]] for row in rows[1:]]
    np.testing.assert_allclose(shown, weights, atol=5.1e-5)


# --- shapes --------------------------------------------------------------------------

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
    kinds = ["split", "merge", "join", "move", "regroup"]
    body = "return data.map((kind) => module.illustrate({ kind }))"
    got = dict(zip(kinds, js("shape_math.js", body, kinds), strict=True))
    row, block = np.arange(6).reshape(1, 6), np.arange(6).reshape(2, 3)
    assert got["split"] == {"before": row.tolist(), "after": block.tolist()}
    assert (
        got["merge"] == got["join"] == {"before": block.tolist(), "after": row.tolist()}
    )
    assert got["move"]["after"] == np.array(got["move"]["before"]).T.tolist()
    assert (
        got["regroup"]["after"] == np.reshape(got["regroup"]["before"], (3, 2)).tolist()
    )


@settings(max_examples=10, deadline=None)
@given(st.lists(st.permutations(range(5)), min_size=20, max_size=20))
def test_the_drawn_axes_of_a_move_do_change_places(js, orders):
    orders = [order for order in orders if order != sorted(order)]
    pairs = js("shape_math.js", "return data.map(module.movedPair)", orders)
    for order, (first, second) in zip(orders, pairs, strict=True):
        assert first < second
        assert order.index(first) > order.index(second)


# --- the model of a static page ------------------------------------------------------


def test_the_model_tells_those_who_listen_and_only_of_changes(js):
    body = """const told = [], model = module.makeModel({ a: 1, b: 2 });
    const first = () => told.push(["first", model.get("a")]);
    const second = () => told.push(["second", model.get("a")]);
    model.on("change:a", first); model.on("change:a", second);
    model.set("a", 5); model.set("a", 5); model.set("b", 7);
    model.off("change:a", first); model.set("a", 6); model.save_changes();
    return told"""
    assert js("shim.js", body) == [["first", 5], ["second", 5], ["second", 6]]


@pytest.mark.parametrize("plain_size", [0, 9_999], ids=["deflated", "plain"])
def test_the_page_reads_the_state_that_python_packed(js, plain_size):
    state = {
        "tokens": ["<é🦉", "", "</script>"],
        "n": 3,
        "none": None,
        "bytes": bytes(range(256)) * 9,
    }
    body = """const state = await module.readState(data);
    return { ...state, bytes: new Uint8Array(state.bytes.buffer) }"""
    text = packed(state, plain_size)
    assert js("shim.js", body, text) == state | {"bytes": list(state["bytes"])}
    assert "<" not in text


def test_a_large_state_travels_small():
    state = {"bytes": bytes(range(256)) * 900}
    assert len(packed(state, 65_536)) < 2 * len(zlib.compress(state["bytes"]))
