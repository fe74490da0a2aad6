"""Any size and any mask work; anything else is refused in a sentence that helps."""

import encoder
import numpy as np
import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import LAYER, MODEL, B, D, H, K, T, V, assert_near, build, ragged, random_ids

examples = settings(max_examples=30, deadline=None, derandomize=True, database=None)


def attend(query=(B, H, T, K), key=(B, H, T, K), value=(B, H, T, K), blocked=None):
    blocked = blocked and torch.zeros(blocked, dtype=torch.bool)
    return encoder.attention(*map(torch.zeros, (query, key, value)), blocked)


def model(ids, padding=None):
    return encoder.TransformerEncoder(**MODEL)(ids, padding)


def part(x, padding=None, **masks):
    return encoder.MultiHeadAttention(D, H)(x, padding, **masks)


def no_padding(*shape, dtype=torch.bool):
    return torch.zeros(shape, dtype=dtype)


REFUSED = {
    "ids without a batch": (
        lambda: model(torch.zeros(T, dtype=torch.long)),
        ValueError,
        ["token_ids", "(B, T)", "(11,)"],
    ),
    "ids with three axes": (
        lambda: model(torch.zeros(B, T, 1, dtype=torch.long)),
        ValueError,
        ["token_ids", "(B, T)", "(5, 11, 1)"],
    ),
    "ids longer than the table": (
        lambda: model(random_ids(B, 20)),
        ValueError,
        ["max_length = 19", "(5, 20)"],
    ),
    "ids that are floats": (
        lambda: model(torch.zeros(B, T)),
        TypeError,
        ["token_ids", "int64 or int32", "torch.float32"],
    ),
    "ids that are bool": (
        lambda: model(no_padding(B, T)),
        TypeError,
        ["token_ids", "int64 or int32", "torch.bool"],
    ),
    "id one too high": (
        lambda: model(torch.tensor([[0, V]])),
        ValueError,
        ["0..16", "got 0..17"],
    ),
    "id below 0": (
        lambda: model(torch.tensor([[-1, V - 1]])),
        ValueError,
        ["0..16", "got -1..16"],
    ),
    "padding of another length": (
        lambda: model(random_ids(), no_padding(B, T - 1)),
        ValueError,
        ["key_padding_mask", "(B, T) = (5, 11)", "got (5, 10)"],
    ),
    "padding for one row": (
        lambda: model(random_ids(), no_padding(T)),
        ValueError,
        ["key_padding_mask", "(B, T) = (5, 11)", "got (11,)"],
    ),
    "padding with a head axis": (
        lambda: model(random_ids(), no_padding(B, 1, 1, T)),
        ValueError,
        ["key_padding_mask", "(B, T) = (5, 11)", "got (5, 1, 1, 11)"],
    ),
    "padding that would broadcast": (
        lambda: model(random_ids(), no_padding(1, T)),
        ValueError,
        ["key_padding_mask", "(B, T) = (5, 11)", "got (1, 11)"],
    ),
    "padding in float": (
        lambda: model(random_ids(), no_padding(B, T, dtype=torch.float32)),
        TypeError,
        ["key_padding_mask", "bool", "torch.float32"],
    ),
    "padding in 0 and 1": (
        lambda: model(random_ids(), no_padding(B, T, dtype=torch.long)),
        TypeError,
        ["key_padding_mask", "bool", "torch.int64"],
    ),
    "x without a batch": (
        lambda: part(torch.zeros(T, D)),
        ValueError,
        ["x must be (B, T, 14)", "(11, 14)"],
    ),
    "x of another width": (
        lambda: part(torch.zeros(B, T, D + 1)),
        ValueError,
        ["x must be (B, T, 14)", "(5, 11, 15)"],
    ),
    "x of integers": (
        lambda: part(torch.zeros(B, T, D, dtype=torch.long)),
        TypeError,
        ["x", "floating-point", "torch.int64"],
    ),
    "query and key of different K": (
        lambda: attend(query=(B, H, T, K + 1)),
        ValueError,
        ["(.., Tq, K), (.., Tk, K)", "(5, 2, 11, 8)"],
    ),
    "key and value of different Tk": (
        lambda: attend(value=(B, H, T + 1, K)),
        ValueError,
        ["(.., Tk, K), (.., Tk, Kv)", "(5, 2, 12, 7)"],
    ),
    "blocked that cannot broadcast": (
        lambda: attend(blocked=(B, T)),
        ValueError,
        ["blocked", "(5, 2, 11, 11)", "got (5, 11)"],
    ),
    "blocked with an axis too many": (
        lambda: attend(blocked=(1, B, H, T, T)),
        ValueError,
        ["blocked", "(5, 2, 11, 11)", "got (1, 5, 2, 11, 11)"],
    ),
    "blocked in float": (
        lambda: encoder.attention(*torch.zeros(3, T, K), torch.zeros(T, T)),
        TypeError,
        ["blocked", "bool", "torch.float32"],
    ),
    "bias that cannot broadcast": (
        lambda: encoder.attention(*torch.zeros(3, T, K), bias=torch.zeros(T, T - 1)),
        ValueError,
        ["bias must broadcast", "(11, 11)", "got (11, 10)"],
    ),
    "bias of bools": (
        lambda: encoder.attention(*torch.zeros(3, T, K), bias=no_padding(T, T)),
        TypeError,
        ["bias", "floating-point", "torch.bool"],
    ),
    "blocked of the wrong shape, in the fused form": (
        lambda: part(torch.zeros(B, T, D), blocked=no_padding(B, T)),
        ValueError,
        ["blocked", "(5, 2, 11, 11)", "got (5, 11)"],
    ),
    "blocked in float, beside padding": (
        lambda: part(torch.zeros(B, T, D), no_padding(B, T), blocked=torch.zeros(T, T)),
        TypeError,
        ["blocked", "bool", "torch.float32"],
    ),
    "bias of the wrong shape, in the fused form": (
        lambda: part(torch.zeros(B, T, D), bias=torch.zeros(1, B, H, T, T)),
        ValueError,
        ["bias", "(5, 2, 11, 11)", "got (1, 5, 2, 11, 11)"],
    ),
    "bias of integers, in the fused form": (
        lambda: part(torch.zeros(B, T, D), bias=torch.zeros(T, T).long()),
        TypeError,
        ["bias", "floating-point", "torch.int64"],
    ),
    "blocked given to the whole encoder": (
        lambda: encoder.TransformerEncoder(**MODEL)(
            random_ids(), blocked=no_padding(3)
        ),
        ValueError,
        ["blocked", "(5, 2, 11, 11)", "got (3,)"],
    ),
    "heads that do not divide the width": (
        lambda: encoder.MultiHeadAttention(D, 4),
        ValueError,
        ["n_heads=4", "d_model=14"],
    ),
    "no heads": (
        lambda: encoder.MultiHeadAttention(D, 0),
        ValueError,
        ["n_heads=0", "d_model=14"],
    ),
    "fewer than no heads": (
        lambda: encoder.MultiHeadAttention(D, -2),
        ValueError,
        ["n_heads=-2", "d_model=14"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_a_sentence(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error) as caught:
        call()
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(("rows", "tokens"), [(0, T), (B, 0), (B, 1), (B, 19)])
@pytest.mark.parametrize("need_weights", [False, True])
def test_empty_and_shortest_and_longest_batches_work(need_weights, rows, tokens):
    encode = build(encoder.TransformerEncoder, **MODEL)
    padding = no_padding(rows, tokens)
    hidden, maps = encode(random_ids(rows, tokens), padding, need_weights)
    assert hidden.shape == (rows, tokens, D)
    assert hidden.isfinite().all()
    assert not need_weights or maps[0].shape == (rows, H, tokens, tokens)


def test_ids_may_be_int32():
    encode, ids = build(encoder.TransformerEncoder, **MODEL), random_ids()
    assert torch.equal(encode(ids.int())[0], encode(ids)[0])


@st.composite
def models_and_batches(draw):
    """Any small model in eval mode, ids for it, and padding at any places."""
    rows, tokens, n_layers = (draw(st.integers(low, 5)) for low in (0, 1, 0))
    heads, width, d_ff = (draw(st.integers(1, 5)) for _ in range(3))
    options = {"d_model": heads * width, "n_heads": heads, "d_ff": d_ff}
    options |= {
        "n_layers": n_layers,
        "max_length": 5,
        "norm_first": draw(st.booleans()),
    }
    encode = build(encoder.TransformerEncoder, vocab_size=V, **options)
    torch.manual_seed(draw(st.integers(0, 2**16)))
    return encode, options, random_ids(rows, tokens), torch.rand(rows, tokens) < 0.4


@examples
@given(models_and_batches())
def test_any_size_and_any_mask_equal_the_reference(drawn):
    encode, options, ids, padding = drawn
    encode = encode.double()
    hidden, maps = encode(ids, padding, need_weights=True)
    shared = {name: options[name] for name in ("n_heads", "norm_first")}
    expected, expected_maps = reference.encoder(
        encode.state_dict(), ids, key_padding_mask=padding, **shared
    )
    # A LayerNorm over two nearly equal numbers magnifies rounding, layer by layer.
    for form in (hidden, encode(ids, padding)[0]):
        assert_near(form, expected, 1e-9)
    for ours, theirs in zip(maps, expected_maps, strict=True):
        assert_near(ours, theirs, 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@examples
@given(models_and_batches())
def test_any_size_and_any_mask_stay_finite_in_any_dtype(dtype, drawn):
    encode, _, ids, padding = drawn
    hidden, maps = encode.to(dtype)(ids, padding, need_weights=True)
    for each in (hidden, encode(ids, padding)[0], *maps):
        assert each.dtype == dtype
        assert each.isfinite().all()
    for weights in maps:
        seen = (~padding).any(dim=1).double()[:, None, None].expand(weights.shape[:3])
        assert_near(weights.double().sum(dim=-1), seen, 4 * torch.finfo(dtype).eps)
        assert (weights.masked_select(padding[:, None, None]) == 0).all()


@examples
@given(
    st.lists(st.sampled_from([0, 1, 2, B, H, T]), max_size=5),
    st.sampled_from([torch.bool, torch.uint8, torch.int64, torch.float32]),
)
def test_blocked_is_taken_exactly_where_it_broadcasts(shape, dtype):
    blocked = torch.zeros(shape, dtype=dtype)
    query, key, value = torch.zeros(3, B, H, T, K)
    try:
        fits = torch.broadcast_shapes(shape, (B, H, T, T)) == (B, H, T, T)
    except RuntimeError:
        fits = False
    if fits and dtype == torch.bool:
        assert encoder.attention(query, key, value, blocked)[0].shape == (B, H, T, K)
    else:
        with pytest.raises(ValueError if dtype == torch.bool else TypeError):
            encoder.attention(query, key, value, blocked)


@examples
@given(st.lists(st.integers(-3, V + 2), min_size=1, max_size=19))
def test_ids_are_taken_exactly_where_the_vocabulary_has_them(ids):
    encode = build(encoder.TransformerEncoder, **MODEL | {"n_layers": 0})
    if set(ids) <= set(range(V)):
        assert encode(torch.tensor([ids]))[0].shape == (1, len(ids), D)
    else:
        with pytest.raises(ValueError, match=f"0..16, got {min(ids)}..{max(ids)}"):
            encode(torch.tensor([ids]))


@pytest.mark.parametrize("n_heads", range(1, D + 1))
def test_every_divisor_of_the_width_works_as_head_count(n_heads):
    if D % n_heads:
        with pytest.raises(ValueError, match=f"n_heads={n_heads} must divide"):
            encoder.EncoderLayer(**LAYER | {"n_heads": n_heads})
    else:
        layer = build(encoder.EncoderLayer, **LAYER | {"n_heads": n_heads})
        x = torch.randn(B, T, D)
        weights = layer(x, ragged(), need_weights=True)[1]
        assert weights.shape == (B, n_heads, T, T)
        options = {"n_heads": n_heads, "key_padding_mask": ragged()}
        expected = reference.encoder_layer(layer.state_dict(), x, **options)[0]
        assert_near(layer(x, ragged())[0], np.asarray(expected))
