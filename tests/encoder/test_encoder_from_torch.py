"""A layer, or a stack, of torch's becomes ours: same numbers, nothing shared."""

import encoder
import pytest
import torch
from small import DEVICES, B, D, F, H, L, T, assert_near, build, ragged
from torch import nn
from torch.nn import functional

ORDERS = pytest.mark.parametrize("norm_first", [False, True])
BIASES = pytest.mark.parametrize("bias", [False, True])
FORMS = pytest.mark.parametrize("need_weights", [False, True])
SIZES = {"d_model": D, "nhead": H, "dim_feedforward": F, "batch_first": True}


def torch_layer(**options):
    return build(nn.TransformerEncoderLayer, **SIZES, **options)


def torch_stack(norm=None, **options):
    layer = nn.TransformerEncoderLayer(**SIZES, **options)
    stack = nn.TransformerEncoder(layer, L, norm, enable_nested_tensor=False)
    return build(lambda: stack)


@FORMS
@BIASES
@ORDERS
@pytest.mark.parametrize("activation", ["relu", "gelu", nn.GELU(approximate="tanh")])
def test_a_layer_computes_the_same(activation, norm_first, bias, need_weights):
    theirs = torch_layer(activation=activation, norm_first=norm_first, bias=bias)
    ours, x = encoder.EncoderLayer.from_torch(theirs), torch.randn(B, T, D)
    expected = theirs(x, src_key_padding_mask=ragged())
    assert_near(ours(x, ragged(), need_weights)[0], expected)


@BIASES
def test_every_weight_comes_along_and_no_other(bias):
    theirs = torch_layer(bias=bias)
    ours = encoder.EncoderLayer.from_torch(theirs)
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in (ours, theirs)]
    assert sizes[0] == sizes[1]
    assert all(name.endswith("bias") <= bias for name in ours.state_dict())
    for part in ours.modules():
        if isinstance(part, nn.Linear):
            assert part.weight.shape == (part.out_features, part.in_features)


@pytest.mark.parametrize("training", [False, True])
def test_every_setting_comes_along(training):
    theirs = nn.TransformerEncoderLayer(
        **SIZES,
        dropout=0.3,
        activation=functional.gelu,
        norm_first=True,
        dtype=torch.float64,
    )
    theirs.norm1.eps = 0.01
    theirs.norm2.eps = 0.02
    ours = encoder.EncoderLayer.from_torch(theirs.train(training))
    assert ours.norm_first
    assert ours.feed_forward.activation is functional.gelu
    assert (ours.norm1.eps, ours.norm2.eps) == (0.01, 0.02)
    assert ours.attention.n_heads == H
    dropouts = ours.dropout.p, ours.feed_forward.dropout.p, ours.attention.dropout
    assert dropouts == (0.3, 0.3, 0.3)
    assert {each.dtype for each in ours.parameters()} == {torch.float64}
    assert {part.training for part in ours.modules()} == {training}


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_a_layer_stays_on_its_device(device):
    theirs = nn.TransformerEncoderLayer(**SIZES).to(device)
    ours = encoder.EncoderLayer.from_torch(theirs)
    assert {each.device.type for each in ours.parameters()} == {device}


@pytest.mark.parametrize("frozen", ["self_attn", "linear", "norm", "bias", "nothing"])
@torch.no_grad()  # where a slice of a parameter looks as if it did not learn
def test_what_is_frozen_stays_frozen_and_what_learns_learns(frozen):
    theirs = nn.TransformerEncoderLayer(**SIZES)
    for name, parameter in theirs.named_parameters():
        parameter.requires_grad_(frozen not in name)
    ours = encoder.EncoderLayer.from_torch(theirs)
    numbers = [
        sum(each.numel() for each in layer.parameters() if each.requires_grad)
        for layer in (ours, theirs)
    ]
    assert numbers[0] == numbers[1] > 0
    part = {"self_attn": "attention", "linear": "feed_forward"}.get(frozen, frozen)
    for name, parameter in ours.named_parameters():
        assert parameter.requires_grad == (part not in name), name


def test_nothing_is_shared():
    theirs = nn.TransformerEncoderLayer(**SIZES)
    ours = encoder.EncoderLayer.from_torch(theirs)
    storages = {each.untyped_storage().data_ptr() for each in theirs.parameters()}
    for name, parameter in ours.named_parameters():
        assert parameter.untyped_storage().data_ptr() not in storages, name
        assert parameter.untyped_storage().nbytes() == 4 * parameter.numel(), name
        assert parameter.is_leaf, name


def test_a_subclass_makes_one_of_its_own():
    class Ours(encoder.EncoderLayer):
        pass

    assert type(Ours.from_torch(torch_layer())) is Ours


def test_tokens_first_are_refused():
    theirs = nn.TransformerEncoderLayer(D, H, F)
    with pytest.raises(ValueError, match="wants batch_first=True, got batch_first=F"):
        encoder.EncoderLayer.from_torch(theirs)
    with pytest.raises(ValueError, match="wants batch_first=True, got batch_first=F"):
        encoder.layers_from_torch(nn.TransformerEncoder(theirs, 1))


@pytest.mark.parametrize("other", [nn.Linear(2, 2), torch_stack()])
def test_what_is_no_layer_is_refused(other):
    name = type(other).__name__
    with pytest.raises(TypeError, match=f"wants an nn.*layers_from_torch.*got {name}"):
        encoder.EncoderLayer.from_torch(other)


@BIASES
@ORDERS
@pytest.mark.parametrize("ends_with_norm", [False, True])
def test_a_stack_computes_the_same(ends_with_norm, norm_first, bias):
    norm = nn.LayerNorm(D, eps=0.1) if ends_with_norm else None
    theirs = torch_stack(norm, norm_first=norm_first, bias=bias)
    layers, final_norm = encoder.layers_from_torch(theirs)
    assert len(layers) == L
    x = torch.randn(B, T, D)
    expected = theirs(x, src_key_padding_mask=ragged())
    for layer in layers:
        x, _ = layer(x, ragged())
    assert_near(final_norm(x), expected)


def test_a_stack_takes_the_place_of_an_encoders_own():
    theirs = torch_stack(nn.LayerNorm(D))
    model = build(encoder.TransformerEncoder, vocab_size=7, d_model=D, n_heads=H)
    model.layers, model.final_norm = encoder.layers_from_torch(theirs)
    ids = torch.randint(7, (B, T))
    assert_near(model(ids)[0], theirs(model.embed(ids)))


@pytest.mark.parametrize("training", [False, True])
def test_a_stack_keeps_the_modes_of_its_parts_and_shares_nothing(training):
    theirs = torch_stack(nn.LayerNorm(D)).train(training)
    theirs.layers[1].train(not training)
    layers, final_norm = encoder.layers_from_torch(theirs)
    modes = [part.training for part in (layers, *layers, final_norm)]
    assert modes == [training, training, not training, training, training]
    ours = {each.data_ptr() for each in (*layers.parameters(), final_norm.weight)}
    assert ours.isdisjoint(each.data_ptr() for each in theirs.parameters())
