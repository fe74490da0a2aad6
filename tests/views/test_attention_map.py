"""Promises of the attention map: what it takes, what it shows, how it is touched."""

import re
from base64 import b64encode

import numpy as np
import pytest
import torch
from encoder import TransformerEncoder
from taken_apart.views import AttentionMap
from taken_apart.views.attention_map import EXACT_ZERO
from views.shared import HOSTILE, each_theme, softmax_weights, words

# --- Python --------------------------------------------------------------------------


def decoded(view):
    """Return the weights that a page gets, and where they are exactly zero."""
    low, high = np.frombuffer(view.state["weights"], np.uint8).reshape(2, -1)
    codes = low.astype(int) + 256 * high.astype(int)
    exact_zero = codes == EXACT_ZERO
    values = np.where(exact_zero, 0, codes) / 10 ** view.state["digits"]
    shape = view.state["shape"]
    return values.reshape(shape), exact_zero.reshape(shape)


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


# --- The mathematics of the page, against NumPy --------------------------------------


def encoded(weights):
    """Return a view's weights as the page has them, and their decimals."""
    state = AttentionMap(weights).state
    data = {"weights": b64encode(state["weights"]).decode(), "shape": state["shape"]}
    return data | {"digits": state["digits"], "exactZero": state["exact_zero"]}


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


# --- In a browser --------------------------------------------------------------------


MAP, HEADS, FACT = ".eta-field >> nth=0", ".eta-heads .eta-stack", ".eta-fact"


WEIGHTS = softmax_weights(3, 5, 7, 7)


TOKENS = ["the", "cat", "sat", "on", "the", "mat", "."]


def attention(**options):
    return AttentionMap(WEIGHTS, TOKENS, **options)


def point_at(page, query, key, field=MAP):
    """Move the mouse to the middle of a cell of the map and return where that is."""
    box = page.locator(field).bounding_box()
    x = box["x"] + (key + 0.5) / WEIGHTS.shape[-1] * box["width"]
    y = box["y"] + (query + 0.5) / WEIGHTS.shape[-2] * box["height"]
    page.mouse.move(x, y)
    return x, y


def fact(page):
    return page.locator(FACT).first.text_content()


def selects(page):
    """Return what the choices of the first view show: layer, head."""
    return [
        page.get_by_label(name, exact=True).first.input_value()
        for name in ("layer", "head")
    ]


def test_the_mouse_finds_the_exact_weight_of_every_cell(show):
    page = show(attention(layer=1, head=2))
    for query, key in ((0, 0), (3, 5), (6, 6)):
        point_at(page, query, key)
        weight = WEIGHTS[1, 2, query, key]
        assert fact(page) == f"“{TOKENS[query]}” gives “{TOKENS[key]}” {weight:.4f}"


def test_a_weight_that_rounds_to_zero_is_not_called_zero(show):
    page = show(AttentionMap(np.array([[1.0 - 1e-9, 1e-9]]), ["a"], ["x", "y"]))
    page.locator(MAP).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert fact(page) == "“a” gives “y” less than 0.00005"


def test_a_single_map_offers_no_heads_to_choose(show):
    page = show(AttentionMap(WEIGHTS[0, 0], TOKENS))
    page.locator(MAP).wait_for()
    assert not page.locator(HEADS).is_visible()
    assert page.get_by_role("button").all_text_contents() == ["copy values"]
    assert not page.get_by_label("head", exact=True).is_visible()


def test_a_click_pins_a_cell_and_a_second_click_frees_it(show):
    page = show(attention())
    page.mouse.click(*point_at(page, 2, 4))
    pinned = fact(page)
    point_at(page, 5, 1)
    assert fact(page) == pinned
    assert pinned.startswith("“sat” gives “the”")
    page.mouse.click(*point_at(page, 2, 4))
    point_at(page, 5, 1)
    assert fact(page).startswith("“mat” gives “cat”")


def test_the_keys_move_pin_and_change_the_head(show):
    page = show(attention())
    page.locator(MAP).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert fact(page).startswith("“the” gives “cat”")
    page.keyboard.press("Enter")
    page.keyboard.press("PageDown")
    assert selects(page) == ["0", "1"]
    assert fact(page).endswith(f"{WEIGHTS[0, 1, 0, 1]:.4f}")
    page.keyboard.press("Escape")
    assert fact(page) == "layer 0, head 1"


def test_the_small_maps_choose_and_compare_heads(show):
    page = show(attention())
    box = page.locator(HEADS).bounding_box()
    tile = {"x": box["width"] * 3.5 / 5, "y": box["height"] * 1.5 / 3}
    page.locator(HEADS).click(position=tile)
    assert selects(page) == ["1", "3"]
    other = {"x": box["width"] * 0.5 / 5, "y": box["height"] * 2.5 / 3}
    page.locator(HEADS).click(position=other, modifiers=["Shift"])
    point_at(page, 4, 2)
    first, second = WEIGHTS[1, 3, 4, 2], WEIGHTS[2, 0, 4, 2]
    assert fact(page).endswith(f"{first:.4f} beside {second:.4f}")
    assert page.locator(".eta-field").nth(1).is_visible()


def test_row_and_column_tell_who_looks_at_whom(show):
    page = show(attention())
    point_at(page, 2, 4)
    row, column = (x.inner_text() for x in page.locator(".eta-list").all())
    weights = WEIGHTS[0, 0]
    assert f"{np.sort(weights[2])[-1]:.4f}" in row
    assert f"{np.sort(weights[:, 4])[-1]:.4f}" in column
    entropy = -(weights[2] * np.log2(weights[2])).sum()
    assert f"entropy {entropy:.2f} of {np.log2(7):.2f} bits, sum 1.000" in row
    assert f"mean {weights[:, 4].mean():.4f}" in column


def test_a_token_shows_its_row_and_its_column(show):
    page = show(attention())
    page.locator(".eta-queries span", has_text="mat").nth(1).hover()
    assert fact(page) == "“mat”, query 5"
    assert "“mat” is looked at by" in page.locator(".eta-list").nth(1).inner_text()


def pixel(page, x, y):
    """Return red, green, blue, alpha of the large map, x and y from 0 to 1."""
    return page.locator(f"{MAP} >> canvas").evaluate(
        """(canvas, [x, y]) => [...canvas.getContext("2d").getImageData(
        Math.floor(x * canvas.width), Math.floor(y * canvas.height), 1, 1).data]""",
        [x, y],
    )


@each_theme
def test_the_map_has_the_colours_of_the_legend_and_hatches_exact_zeros(show, theme):
    weights = np.array([[0.0, 1.0], [1.0 - 1e-9, 1e-9]])
    page = show(AttentionMap(weights, ["a", "b"]), theme=theme)
    low, high = (
        page.locator(".eta-box").evaluate(
            "(box, name) => getComputedStyle(box).getPropertyValue(name)", name
        )
        for name in ("--seq-0", "--seq-8")
    )
    rgb = [
        [int(text[i : i + 2], 16) for i in (1, 3, 5)] + [255] for text in (low, high)
    ]
    assert pixel(page, 0.75, 0.25) == pixel(page, 0.25, 0.75) == rgb[1]
    assert pixel(page, 0.75, 0.75) == rgb[0]
    assert pixel(page, 0.25, 0.25)[3] == 0
    point_at(page, 0, 0)
    assert fact(page) == "“a” gives “a” exactly 0"


def test_the_map_follows_the_theme_of_the_page(show):
    page = show(AttentionMap(np.eye(3), list("abc")))
    before = pixel(page, 0.1, 0.1)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert before == [8, 48, 107, 255]
    assert pixel(page, 0.1, 0.1) == [240, 248, 255, 255]


def test_padding_is_hatched_and_its_share_is_told(show):
    mask = np.array([False] * 5 + [True] * 2)
    page = show(attention(key_padding_mask=mask))
    marked = page.locator(".eta-keys .eta-padding").all_text_contents()
    assert marked[:2] == ["mat", "."]
    share = WEIGHTS[0, 0][:, 5:].sum(axis=1).mean()
    shown = page.locator(".eta-list").nth(1).inner_text()
    assert abs(float(re.search(r"padding ([\d.]+)", shown)[1]) - share) < 2e-4


def test_rows_that_do_not_sum_to_one_are_marked(show):
    weights = WEIGHTS * np.linspace(0.4, 1.0, 7)[:, None]
    page = show(AttentionMap(weights, TOKENS))
    sums = page.locator(".eta-sums").first
    assert sums.locator("span").all_text_contents()[0] == "0.40"
    assert sums.locator(".eta-off").count() == 6


def test_another_sample_shows_its_own_tokens(show):
    weights = softmax_weights(2, 2, 3, 3)
    page = show(AttentionMap(weights, [list("abc"), list("xyz")]))
    page.get_by_label("sample").select_option(index=1)
    keys = page.locator(".eta-keys").first.locator("span")
    assert keys.all_text_contents() == ["x", "y", "z"]


def test_cross_attention_shows_queries_down_and_keys_across(show):
    page = show(AttentionMap(softmax_weights(2, 3, 2), list("abc"), ["x", "y"]))
    tokens = page.locator(".eta-map").nth(1)
    assert tokens.locator(".eta-queries span").all_text_contents() == list("abc")
    assert tokens.locator(".eta-keys span").all_text_contents() == ["x", "y"]


def test_hostile_tokens_stay_text(show):
    n = len(HOSTILE)
    page = show(AttentionMap(softmax_weights(n, n), HOSTILE))
    titles = page.locator(".eta-keys").first.locator("span")
    shown = titles.evaluate_all("(all) => all.map((span) => span.title)")
    assert shown == [token.encode("utf-8", "replace").decode() for token in HOSTILE]
    assert page.locator(".eta img, .eta b b").count() == 0


def test_values_are_copied_as_a_table(show):
    page = show(attention(layer=2, head=4))
    page.evaluate(
        """() => { window.copied = ""; document.addEventListener("copy", () => {
        copied = document.activeElement.value; }); }"""
    )
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="copy values").click()
    page.get_by_role("button", name="copied").wait_for()
    lines = [line.split("\t") for line in page.evaluate("copied").split("\n")]
    assert lines[0] == ["", *TOKENS]
    shown = np.array([[float(x) for x in line[1:]] for line in lines[1:]])
    np.testing.assert_allclose(shown, WEIGHTS[2, 4], atol=5.1e-5)
