"""Ours equals torch's decoder with all masks, in both orders and both precisions."""

import decoder
import pytest
import torch
from small import DEVICES, B, D, F, H, L, T, assert_near, build, ragged
from torch import nn
from torch.nn import functional

S = 5  # tokens of the source
ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BIASES = pytest.mark.parametrize("bias", [False, True])
FORMS = pytest.mark.parametrize("need_weights", [False, True])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
SIZES = {"d_model": D, "nhead": H, "dim_feedforward": F, "batch_first": True}

# What may be blocked, as ours and as torch calls it; each query keeps a key to see.
LATER = torch.ones(T, T, dtype=torch.bool).triu(1)
PAIRS = (torch.arange(T)[:, None] + torch.arange(S)) % 3 == 0
SOURCE_PADDING = torch.arange(S) >= torch.tensor([S, 4, 3, 2, 2])[:, None]
MASKS = {
    "blocked": ("tgt_mask", LATER),
    "key_padding_mask": ("tgt_key_padding_mask", ragged()),
    "memory_padding_mask": ("memory_key_padding_mask", SOURCE_PADDING),
    "memory_blocked": ("memory_mask", PAIRS),
}
SETS = pytest.mark.parametrize(
    "names", [(), *((name,) for name in MASKS), tuple(MASKS)], ids=" ".join
)


def torch_layer(**options):
    return build(nn.TransformerDecoderLayer, **SIZES, **options)


def torch_stack(norm=None, **options):
    layer = nn.TransformerDecoderLayer(**SIZES, **options)
    return build(lambda: nn.TransformerDecoder(layer, L, norm))


def inputs(dtype=torch.float32):
    return torch.randn(B, T, D, dtype=dtype), torch.randn(B, S, D, dtype=dtype)


def both_masks(names):
    ours = {name: MASKS[name][1] for name in names}
    return ours, dict(MASKS[name] for name in names)


@SETS
@FORMS
@ORDERS
@DTYPES
def test_a_layer_computes_the_same(dtype, norm_first, need_weights, names):
    dtype = getattr(torch, dtype)
    theirs = torch_layer(norm_first=norm_first, dtype=dtype)
    ours, (x, memory) = decoder.DecoderLayer.from_torch(theirs), inputs(dtype)
    our_masks, their_masks = both_masks(names)
    output, _, _ = ours(x, memory, need_weights=need_weights, **our_masks)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-14
    assert_near(output, theirs(x, memory, **their_masks), tolerance)


@BIASES
@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu", nn.GELU(approximate="tanh")])
def test_activations_and_missing_biases_come_along(activation, norm_first, bias):
    theirs = torch_layer(activation=activation, norm_first=norm_first, bias=bias)
    ours, (x, memory) = decoder.DecoderLayer.from_torch(theirs), inputs()
    assert_near(ours(x, memory)[0], theirs(x, memory))
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in (ours, theirs)]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("training", [False, True])
def test_every_setting_comes_along(training):
    options = {"dropout": 0.3, "activation": functional.gelu, "norm_first": True}
    theirs = nn.TransformerDecoderLayer(**SIZES, **options, dtype=torch.float64)
    for n in (1, 2, 3):
        getattr(theirs, f"norm{n}").eps = 0.01 * n
    ours = decoder.DecoderLayer.from_torch(theirs.train(training))
    assert ours.norm_first
    assert ours.feed_forward.activation is functional.gelu
    assert (ours.norm1.eps, ours.norm2.eps, ours.norm3.eps) == (0.01, 0.02, 0.03)
    attentions = ours.self_attention, ours.cross_attention
    assert [part.n_heads for part in attentions] == [H, H]
    assert [part.dropout for part in attentions] == [0.3, 0.3]
    assert (ours.dropout.p, ours.feed_forward.dropout.p) == (0.3, 0.3)
    assert {each.dtype for each in ours.parameters()} == {torch.float64}
    assert {part.training for part in ours.modules()} == {training}


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_a_layer_stays_on_its_device(device):
    theirs = nn.TransformerDecoderLayer(**SIZES).to(device)
    ours = decoder.DecoderLayer.from_torch(theirs)
    assert {each.device.type for each in ours.parameters()} == {device}


def test_nothing_is_shared_and_what_is_frozen_stays_frozen():
    theirs = nn.TransformerDecoderLayer(**SIZES)
    theirs.multihead_attn.requires_grad_(False)
    ours = decoder.DecoderLayer.from_torch(theirs)
    storages = {each.data_ptr() for each in theirs.parameters()}
    for name, parameter in ours.named_parameters():
        assert parameter.data_ptr() not in storages, name
        assert parameter.requires_grad == ("cross_attention" not in name), name


@SETS
@ORDERS
@pytest.mark.parametrize("ends_with_norm", [False, True])
def test_a_stack_computes_the_same(ends_with_norm, norm_first, names):
    norm = nn.LayerNorm(D, eps=0.1) if ends_with_norm else None
    theirs = torch_stack(norm, norm_first=norm_first).double()
    layers, final_norm = decoder.decoder_layers_from_torch(theirs)
    assert len(layers) == L
    x, memory = inputs(torch.float64)
    our_masks, their_masks = both_masks(names)
    expected = theirs(x, memory, **their_masks)
    for layer in layers:
        x, _, _ = layer(x, memory, **our_masks)
    assert_near(final_norm(x), expected, 1e-13)


def test_a_decoder_of_ours_runs_a_stack_of_theirs_with_a_causal_mask():
    theirs = torch_stack(nn.LayerNorm(D))
    ours = build(decoder.TransformerDecoder, vocab_size=7, d_model=D, n_heads=H)
    ours.layers, ours.final_norm = decoder.decoder_layers_from_torch(theirs)
    ids, memory = torch.randint(7, (B, T)), torch.randn(B, S, D)
    expected = theirs(ours.embed(ids), memory, tgt_mask=LATER)
    assert_near(ours(ids, memory)[0], expected)


@pytest.mark.parametrize("training", [False, True])
def test_a_stack_keeps_the_modes_of_its_parts(training):
    theirs = torch_stack(nn.LayerNorm(D)).train(training)
    theirs.layers[1].train(not training)
    layers, final_norm = decoder.decoder_layers_from_torch(theirs)
    modes = [part.training for part in (layers, *layers, final_norm)]
    assert modes == [training, training, not training, training, training]
    assert final_norm.weight.data_ptr() != theirs.norm.weight.data_ptr()


def test_torchs_weights_of_the_source_are_ours():
    theirs = torch_layer()
    ours = decoder.DecoderLayer.from_torch(theirs).cross_attention
    x, memory = inputs()
    options = {"average_attn_weights": False, "key_padding_mask": SOURCE_PADDING}
    expected = theirs.multihead_attn(x, memory, memory, **options)
    output, weights = ours(x, ours.project(memory), SOURCE_PADDING, True)
    assert_near(output, expected[0])
    assert_near(weights, expected[1])


def test_tokens_first_are_refused():
    theirs = nn.TransformerDecoderLayer(D, H, F)
    with pytest.raises(ValueError, match="wants batch_first=True, got batch_first=F"):
        decoder.DecoderLayer.from_torch(theirs)
    with pytest.raises(ValueError, match="wants batch_first=True, got batch_first=F"):
        decoder.decoder_layers_from_torch(nn.TransformerDecoder(theirs, 1))


@pytest.mark.parametrize("other", [nn.Linear(2, 2), torch_stack()])
def test_what_is_no_layer_is_refused(other):
    name = type(other).__name__
    wanted = f"wants an nn.TransformerDecoderLayer .*stack.*got {name}"
    with pytest.raises(TypeError, match=wanted):
        decoder.DecoderLayer.from_torch(other)


def test_what_is_no_stack_is_refused():
    with pytest.raises(TypeError, match="nn.TransformerDecoder, got TransformerDeco"):
        decoder.decoder_layers_from_torch(torch_layer())
