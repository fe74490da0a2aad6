"""Leaving the padded rows out changes nothing but the work."""

import pytest
import torch
from encoder import EncoderLayer, TransformerEncoder
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import PackedEncoder, run_layers
from torch.testing import assert_close

VOCAB, TOKENS = 37, 11
SIZES = {"d_model": 14, "n_heads": 2, "d_ff": 23, "n_layers": 3, "max_length": 19}
ORDERS = pytest.mark.parametrize("norm_first", [False, True])
masks = st.lists(
    st.lists(st.booleans(), min_size=TOKENS, max_size=TOKENS), min_size=1, max_size=7
).map(torch.tensor)


def make_encoder(norm_first=False, dropout=0.0, **options):
    """An encoder whose biases are not zero, as they are after some training."""
    torch.manual_seed(3)
    options = SIZES | {"norm_first": norm_first, "dropout": dropout} | options
    encoder = TransformerEncoder(VOCAB, **options)
    for name, parameter in encoder.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return encoder


def make_ids(batch, n_tokens=TOKENS):
    generator = torch.Generator().manual_seed(5)
    return torch.randint(VOCAB, (batch, n_tokens), generator=generator)


def from_lengths(*lengths):
    """The mask of sequences that are padded at the end, (B, TOKENS)."""
    return torch.arange(TOKENS) >= torch.tensor(lengths)[:, None]


def gradients(encoder, hidden, mask):
    """All parameter gradients of a loss that reads the real tokens only, in a row."""
    loss = hidden[~mask].cos().sum()
    parts = torch.autograd.grad(loss, list(encoder.parameters()))
    return torch.cat([part.flatten() for part in parts])


def difference(ours, expected):
    """Greatest difference, in units of the greatest value."""
    return (ours - expected).abs().max() / expected.abs().max()


@ORDERS
@given(mask=masks)
@settings(max_examples=25, deadline=None)
def test_real_tokens_are_those_of_the_encoder_and_padding_is_zero(norm_first, mask):
    encoder, ids = make_encoder(norm_first).double(), make_ids(len(mask))
    expected, _ = encoder(ids, mask)
    hidden, weights = PackedEncoder(encoder)(ids, mask)
    assert weights is None
    assert_close(hidden[~mask], expected[~mask], atol=1e-12, rtol=0)
    assert (hidden[mask] == 0).all()


@ORDERS
@given(mask=masks.filter(lambda mask: not mask.all()))
@settings(max_examples=20, deadline=None)
def test_gradients_are_those_of_the_encoder(norm_first, mask):
    encoder, ids = make_encoder(norm_first).double(), make_ids(len(mask))
    expected = gradients(encoder, encoder(ids, mask)[0], mask)
    packed = gradients(encoder, PackedEncoder(encoder)(ids, mask)[0], mask)
    assert_close(packed, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("lengths", [(5, 0, 5), (0, 0, 3), (0, 0), (11, 11)])
def test_empty_sequences_and_empty_batches_have_gradients_too(lengths):
    encoder, mask = make_encoder(norm_first=True), from_lengths(*lengths)
    hidden, _ = PackedEncoder(encoder)(make_ids(len(mask)), mask)
    assert hidden.isfinite().all()
    assert (hidden[mask] == 0).all()
    hidden.sum().backward()
    assert all(p.grad.isfinite().all() for p in encoder.parameters())


@ORDERS
@pytest.mark.parametrize("lengths", [(7, 3, 7, 11, 3, 1), (5, 0, 5), (1,)])
def test_float32_differs_by_rounding_alone(norm_first, lengths):
    encoder = make_encoder(norm_first, d_model=62, d_ff=131)
    ids, mask = make_ids(len(lengths)), from_lengths(*lengths)
    expected, hidden = encoder(ids, mask)[0], PackedEncoder(encoder)(ids, mask)[0]
    assert difference(hidden[~mask], expected[~mask]) < 1e-6
    pair = (gradients(encoder, h, mask) for h in (hidden, expected))
    assert difference(*pair) < 1e-5


PAIRS = {
    "causal": lambda batch: {"blocked": torch.ones(TOKENS, TOKENS).triu(1).bool()},
    "a bias a head": lambda batch: {"bias": torch.randn(2, TOKENS, TOKENS).double()},
    "a mask a sequence": lambda batch: {
        "blocked": torch.rand(batch, 1, 1, TOKENS) < 0.5
    },
    "both, of all axes": lambda batch: {
        "blocked": torch.rand(batch, 2, TOKENS, TOKENS) < 0.5,
        "bias": torch.randn(batch, 2, TOKENS, TOKENS).double(),
    },
    "one row and one column": lambda batch: {
        "blocked": torch.rand(TOKENS) < 0.5,
        "bias": torch.randn(TOKENS, 1).double(),
    },
}


@ORDERS
@pytest.mark.parametrize("name", PAIRS)
@given(mask=masks)
@settings(max_examples=10, deadline=None, derandomize=True, database=None)
def test_blocked_and_bias_are_cut_to_the_real_rows(name, norm_first, mask):
    encoder, ids = make_encoder(norm_first).double(), make_ids(len(mask))
    pairs = PAIRS[name](len(mask))
    expected, _ = encoder(ids, mask, **pairs)
    hidden, _ = PackedEncoder(encoder)(ids, mask, **pairs)
    assert_close(hidden[~mask], expected[~mask], atol=1e-12, rtol=0)
    assert (hidden[mask] == 0).all()


@pytest.mark.parametrize("name", PAIRS)
def test_blocked_and_bias_count_without_padding_and_with_weights(name):
    encoder, ids, pairs = make_encoder().double(), make_ids(3), PAIRS[name](3)
    expected, maps = encoder(ids, need_weights=True, **pairs)
    x = encoder.embed(ids)
    assert_close(run_layers(encoder.layers, x, **pairs), expected, atol=1e-12, rtol=0)
    hidden, weights = PackedEncoder(encoder)(ids, None, True, **pairs)
    assert_close(hidden, expected, atol=1e-12, rtol=0)
    assert_close(weights, maps, atol=1e-12, rtol=0)


def test_a_real_query_without_keys_adds_the_output_bias_alone():
    encoder, mask = make_encoder(norm_first=True), from_lengths(3, 11)
    blocked = torch.zeros(2, 1, TOKENS, TOKENS, dtype=torch.bool)
    blocked[0, :, 1] = True
    layer, x = encoder.layers[0], torch.randn(2, TOKENS, SIZES["d_model"])
    mixed = x[0, 1] + layer.attention.output.bias
    expected = mixed + layer.feed_forward(layer.norm2(mixed))
    out = run_layers([layer], x, mask, blocked=blocked)
    assert_close(out[0, 1], expected)


def test_padded_rows_are_never_read_not_even_when_they_hold_nan():
    encoder, mask = make_encoder(), from_lengths(3, 11, 0, 7)
    x = torch.randn(4, TOKENS, SIZES["d_model"])
    clean = run_layers(encoder.layers, x, mask)
    poisoned = x.masked_fill(mask[..., None], float("nan")).requires_grad_()
    out = run_layers(encoder.layers, poisoned, mask)
    assert torch.equal(out, clean)
    out.square().sum().backward()
    assert (poisoned.grad[mask] == 0).all()
    assert poisoned.grad[~mask].isfinite().all()


@pytest.mark.parametrize("mask", [None, from_lengths(11, 11, 11)])
def test_without_padding_the_plain_layers_run(mask):
    encoder = make_encoder()
    calls = []
    for layer in encoder.layers:
        layer.register_forward_hook(lambda *_: calls.append(1))
    x = torch.randn(3, TOKENS, SIZES["d_model"])
    out = run_layers(encoder.layers, x, mask)
    assert len(calls) == SIZES["n_layers"]
    for layer in encoder.layers:
        x, _ = layer(x)
    assert torch.equal(out, x)


def test_work_is_done_on_real_rows_only():
    encoder, mask = make_encoder(), from_lengths(2, 11, 0, 5)
    rows = []
    for layer in encoder.layers:
        layer.feed_forward.register_forward_hook(lambda _, x, y: rows.append(y.shape))
    PackedEncoder(encoder)(make_ids(4), mask)
    assert rows == [(2 + 11 + 0 + 5, SIZES["d_model"])] * SIZES["n_layers"]


def test_parameters_are_shared_and_a_state_dict_fits_both():
    encoder = make_encoder(norm_first=True)
    packed = PackedEncoder(encoder)
    ours, theirs = dict(packed.named_parameters()), dict(encoder.named_parameters())
    assert ours.keys() == theirs.keys()
    assert all(ours[name] is theirs[name] for name in ours)
    assert packed.state_dict().keys() == encoder.state_dict().keys()
    encoder.load_state_dict(packed.state_dict())


def test_the_mode_is_shared_as_well():
    assert not PackedEncoder(make_encoder().eval()).training
    encoder = make_encoder()
    PackedEncoder(encoder).eval()
    assert not encoder.layers[0].training


@ORDERS
def test_weights_are_those_of_the_encoder_when_asked_for(norm_first):
    encoder, mask, ids = make_encoder(norm_first), from_lengths(3, 11, 7), make_ids(3)
    expected, maps = encoder(ids, mask, need_weights=True)
    hidden, packed_maps = PackedEncoder(encoder)(ids, mask, need_weights=True)
    assert_close(packed_maps, maps, atol=0, rtol=0)
    assert torch.equal(hidden, expected.masked_fill(mask[..., None], 0.0))


def test_dropout_is_random_in_training_and_absent_in_eval():
    packed = PackedEncoder(make_encoder(dropout=0.3))
    mask, ids = from_lengths(3, 11, 7), make_ids(3)
    first, second = packed(ids, mask)[0], packed(ids, mask)[0]
    assert not torch.equal(first, second)
    assert (first[mask] == 0).all()
    packed.eval()
    assert torch.equal(packed(ids, mask)[0], packed(ids, mask)[0])


def test_dropout_drops_attention_weights_at_its_rate_and_keeps_the_mean():
    # One key a sequence and an attention that passes its value on: a row's context is
    # then exactly 0 or 1 / (1 - rate), so zeros can be counted.
    rate, batch = 0.3, 4001
    layer = EncoderLayer(2, 1, 3, dropout=rate)
    for linear in (layer.attention.value, layer.attention.output):
        torch.nn.init.eye_(linear.weight)
    seen = []
    layer.attention.output.register_forward_hook(lambda _, x, y: seen.append(y))
    mask = torch.tensor([[False, True]]).expand(batch, -1)
    torch.manual_seed(7)
    run_layers([layer], torch.ones(batch, 2, 2), mask)
    context = seen[0].detach()
    assert_close(context.unique(), torch.tensor([0.0, 1 / (1 - rate)]))
    assert abs((context == 0).float().mean() - rate) < 0.03  # four standard deviations
    assert abs(context.mean() - 1) < 0.05


def test_dropout_of_attention_goes_through_the_explicit_form(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "encoder.attention", lambda *args: asked.append(args[-1]) or (args[2], None)
    )
    encoder, mask = make_encoder(dropout=0.3), from_lengths(3, 11, 7, 3)
    PackedEncoder(encoder)(make_ids(4), mask)
    assert asked == [0.3] * 3 * SIZES["n_layers"]  # lengths 3, 7 and 11, in each layer
    PackedEncoder(encoder.eval())(make_ids(4), mask)
    assert len(asked) == 3 * SIZES["n_layers"]


def test_autocast_packs_like_it_runs():
    encoder, mask, ids = make_encoder(norm_first=True), from_lengths(3, 11), make_ids(2)
    with torch.autocast("cpu", torch.bfloat16):
        expected, hidden = encoder(ids, mask)[0], PackedEncoder(encoder)(ids, mask)[0]
    assert hidden.dtype == expected.dtype
    assert_close(hidden[~mask], expected[~mask], atol=0.1, rtol=0.1)


BAD = [
    (torch.zeros(2, 3, 14), torch.zeros(2, 5, dtype=torch.bool), ValueError, "B, T"),
    (torch.zeros(2, 3, 14), torch.zeros(2, 3), TypeError, "bool"),
    (torch.zeros(2, 3, 13), torch.ones(2, 3, dtype=torch.bool), ValueError, "14"),
    (torch.zeros(2, 14), torch.ones(2, 14, dtype=torch.bool), ValueError, "14"),
    (torch.zeros(2, 3, 14, dtype=torch.int64), None, TypeError, "floating-point"),
]


BAD_PAIRS = [
    ({"blocked": torch.ones(3, 3).bool()}, ValueError, r"blocked .* \(2, 2, 11, 11\)"),
    ({"blocked": torch.ones(11, 11)}, TypeError, "blocked must be bool"),
    ({"bias": torch.ones(7, 1, 1)}, ValueError, r"bias .* \(2, 2, 11, 11\)"),
    ({"bias": torch.ones(11, 11).bool()}, TypeError, "bias must hold floating-point"),
]


@pytest.mark.parametrize(("pairs", "error", "message"), BAD_PAIRS)
@pytest.mark.parametrize("mask", [None, from_lengths(3, 7)])
def test_bad_blocked_and_bias_are_refused_in_words(mask, pairs, error, message):
    with pytest.raises(error, match=message):
        run_layers(make_encoder().layers, torch.zeros(2, TOKENS, 14), mask, **pairs)


def test_a_packed_encoder_that_was_on_meta_is_whole_after_loading():
    with torch.device("meta"):
        packed = PackedEncoder(make_encoder())
    encoder, mask = make_encoder(), from_lengths(3, 11)
    packed.load_state_dict(encoder.state_dict(), assign=True)
    hidden, _ = packed(make_ids(2), mask)
    assert_close(hidden[~mask], encoder(make_ids(2), mask)[0][~mask])


@pytest.mark.parametrize(("x", "mask", "error", "message"), BAD)
def test_bad_input_is_refused_in_words(x, mask, error, message):
    with pytest.raises(error, match=message):
        run_layers(make_encoder().layers, x, mask)


def test_bad_ids_are_refused_as_the_encoder_refuses_them():
    packed = PackedEncoder(make_encoder())
    with pytest.raises(ValueError, match="0..36"):
        packed(torch.full((2, TOKENS), VOCAB), from_lengths(3, 5))
