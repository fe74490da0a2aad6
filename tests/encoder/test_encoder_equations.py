"""The encoder computes the paper's equations, and what torch's own parts compute."""

import math
from unittest.mock import patch

import encoder
import numpy as np
import pytest
import reference
import torch
from small import (
    DEVICES,
    LAYER,
    MODEL,
    B,
    D,
    F,
    H,
    K,
    L,
    T,
    V,
    assert_near,
    build,
    ragged,
    random_ids,
)
from torch import nn
from torch.nn import functional

ORDERS = pytest.mark.parametrize("norm_first", [False, True])
ACTIVATIONS = pytest.mark.parametrize("activation", ["relu", "gelu"])
MASKS = pytest.mark.parametrize("mask", [None, ragged()])


def test_position_table_by_hand():
    # Columns 0 and 1 turn by t / 10000^0 = t, columns 2 and 3 by t / 10000^(2/4)
    # = t / 100; sine first. Row 2 is therefore sin 2, cos 2, sin 0.02, cos 0.02.
    row = [0.9092974268, -0.4161468365, 0.0199986667, 0.9998000067]
    assert_near(encoder.sinusoidal_positions(3, 4)[2], torch.tensor(row).double(), 1e-7)
    assert encoder.sinusoidal_positions(3, 4)[0].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("width", [1, 2, D, D + 1])
def test_position_table_is_the_formula_at_every_width(width):
    ours = encoder.sinusoidal_positions(T, width)
    assert ours.dtype == torch.float64
    assert_near(ours, reference.sinusoidal_positions(T, width), 1e-14)


def test_attention_by_hand():
    # K = 4, so scores are divided by 2. Query (2, 0, 0, 0) meets the keys (ln 3, ...)
    # and 0: scores 2 ln 3 / 2 = ln 3 and 0, exponentials 3 and 1, weights 3/4 and 1/4,
    # output 3/4 * 8 + 1/4 * 4 = 7. The query 0 weighs both alike: (8 + 4) / 2 = 6.
    query, key = torch.zeros(2, 1, 1, 2, 4)
    query[..., 0, 0], key[..., 0, 0] = 2.0, math.log(3)
    value = torch.tensor([[[[8.0], [4.0]]]])
    output, weights = encoder.attention(query, key, value)
    assert_near(weights, torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]))
    assert_near(output, torch.tensor([[[[7.0], [6.0]]]]))


@pytest.mark.parametrize(
    ("norm_first", "expected"),
    # Queries and keys are 0, so each token sees the mean of what it may see: token 0
    # alone, since token 1 is padding. Value and output maps are the identity. The
    # feed-forward gives (0, 3 relu(first number)). With two numbers a LayerNorm is
    # (+1, -1), the larger one up. The tokens are (2, 0) and (0, 4).
    [
        # Pre-LN: normed (1, -1), (-1, 1); both see (1, -1); sums (3, -1), (1, 3);
        # normed (1, -1), (-1, 1); feed-forward (0, 3), (0, 0); sums (3, 2), (1, 3).
        (True, [[3.0, 2.0], [1.0, 3.0]]),
        # Post-LN: both see (2, 0); sums (4, 0), (2, 4); normed (1, -1), (-1, 1);
        # feed-forward (0, 3), (0, 0); sums (1, 2), (-1, 1); normed (-1, 1) twice.
        (False, [[-1.0, 1.0], [-1.0, 1.0]]),
    ],
)
def test_layer_by_hand(norm_first, expected):
    layer = encoder.EncoderLayer(2, 1, 1, norm_first=norm_first).eval()
    layer.norm1.eps = layer.norm2.eps = 0.0
    weights = {name: torch.zeros(2, 2) for name in ("query", "key")}
    weights |= {name: torch.eye(2) for name in ("value", "output")}
    for name, weight in weights.items():
        layer.attention.get_submodule(name).weight.data = weight
    layer.feed_forward.up.weight.data = torch.tensor([[1.0, 0.0]])
    layer.feed_forward.down.weight.data = torch.tensor([[0.0], [3.0]])
    x = torch.tensor([[[2.0, 0.0], [0.0, 4.0]]])
    padding = torch.tensor([[False, True]])
    assert_near(layer(x, padding)[0], torch.tensor([expected]))
    assert_near(layer(x, padding, need_weights=True)[0], torch.tensor([expected]))


@pytest.mark.parametrize(
    "mask_shape", [None, (T, T + 2), (1, T + 2), (B, 1, 1, T + 2), (B, H, T, T + 2)]
)
def test_attention_equals_torch_for_any_mask_shape(mask_shape):
    torch.manual_seed(0)
    query, key = torch.randn(B, H, T, K), torch.randn(B, H, T + 2, K)
    value = torch.randn(B, H, T + 2, K + 4)
    blocked = None if mask_shape is None else torch.rand(mask_shape) < 0.4
    output, weights = encoder.attention(query, key, value, blocked)
    visible = None if blocked is None else ~blocked
    fused = functional.scaled_dot_product_attention(query, key, value, visible)
    assert_near(output, fused)
    assert weights.shape == (B, H, T, T + 2)
    assert_near(
        weights, reference.attention(*map(np.asarray, (query, key, value)), blocked)[1]
    )


def torch_attention(ours):
    """Build torch's attention with our weights."""
    theirs = nn.MultiheadAttention(ours.d_model, ours.n_heads, batch_first=True)
    maps = ours.query, ours.key, ours.value
    theirs.in_proj_weight.data = torch.cat([each.weight for each in maps])
    theirs.in_proj_bias.data = torch.cat([each.bias for each in maps])
    theirs.out_proj.load_state_dict(ours.output.state_dict())
    return theirs.eval()


def torch_layer(ours, activation="relu", dropout=0.1):
    """Build torch's layer with our weights."""
    options = {"activation": activation, "norm_first": ours.norm_first}
    options |= {"batch_first": True, "dropout": dropout}
    theirs = nn.TransformerEncoderLayer(D, H, F, **options)
    theirs.self_attn = torch_attention(ours.attention)
    theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
    theirs.norm1.load_state_dict(ours.norm1.state_dict())
    theirs.norm2.load_state_dict(ours.norm2.state_dict())
    return theirs.eval()


def build_layer(**options):
    if isinstance(options.get("activation"), str):
        options["activation"] = getattr(functional, options["activation"])
    return build(encoder.EncoderLayer, **LAYER, **options)


@MASKS
def test_multi_head_attention_equals_torch(mask):
    ours = build(encoder.MultiHeadAttention, d_model=D, n_heads=H)
    x = torch.randn(B, T, D)
    options = {"key_padding_mask": mask, "average_attn_weights": False}
    output, weights = torch_attention(ours)(x, x, x, **options)
    assert_near(ours(x, mask)[0], output)
    assert_near(ours(x, mask, need_weights=True)[0], output)
    assert_near(ours(x, mask, need_weights=True)[1], weights)


@pytest.mark.parametrize("device", DEVICES)
@MASKS
@ACTIVATIONS
@ORDERS
def test_layer_equals_torch(norm_first, activation, mask, device):
    ours = build_layer(norm_first=norm_first, activation=activation)
    theirs = torch_layer(ours, activation).to(device)
    ours, x = ours.to(device), torch.randn(B, T, D, device=device)
    mask = None if mask is None else mask.to(device)
    tolerance = 1e-6 if device == "cpu" else 1e-5
    assert_near(ours(x, mask)[0], theirs(x, src_key_padding_mask=mask), tolerance)


@MASKS
@ACTIVATIONS
@ORDERS
def test_layer_equals_torchs_fast_path(norm_first, activation, mask):
    ours = build_layer(norm_first=norm_first, activation=activation)
    theirs, x = torch_layer(ours, activation), torch.randn(B, T, D)
    kernel = torch._transformer_encoder_layer_fwd
    with (
        torch.no_grad(),
        patch.object(torch, "_transformer_encoder_layer_fwd", wraps=kernel) as fast,
    ):
        assert_near(ours(x, mask)[0], theirs(x, src_key_padding_mask=mask))
    assert fast.call_count == 1


@ORDERS
def test_stack_of_layers_equals_torchs_stack(norm_first):
    model = build(encoder.TransformerEncoder, **MODEL, norm_first=norm_first)
    norm = model.final_norm if norm_first else None
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H), L, norm, False)
    theirs.layers = nn.ModuleList(torch_layer(layer) for layer in model.layers)
    ids, mask = random_ids(), ragged()
    x = math.sqrt(D) * model.embedding(ids) + model.positions.table[:T]
    assert_near(model(ids, mask)[0], theirs(x, src_key_padding_mask=mask))


@MASKS
@ACTIVATIONS
@ORDERS
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)]
)
def test_model_equals_the_numpy_reference(
    dtype, tolerance, norm_first, activation, mask
):
    options = {"norm_first": norm_first, "activation": getattr(functional, activation)}
    model = build(encoder.TransformerEncoder, **MODEL, **options)
    model, ids = model.to(getattr(torch, dtype)), random_ids()
    options["activation"] = getattr(reference, activation)
    hidden, maps = reference.encoder(
        model.state_dict(), ids, n_heads=H, key_padding_mask=mask, **options
    )
    ours, our_maps = model(ids, mask, need_weights=True)
    assert_near(ours, hidden, tolerance)
    assert_near(model(ids, mask)[0], hidden, tolerance)
    assert_near(torch.stack(our_maps), np.stack(maps), tolerance)


def test_tokens_are_scaled_once_and_positions_added_once():
    model = build(encoder.TransformerEncoder, **MODEL | {"n_layers": 0})
    ids = random_ids()
    expected = model.embedding.weight[ids] * math.sqrt(D)
    expected = expected + encoder.sinusoidal_positions(T, D).float()
    assert_near(model(ids)[0], expected)
    assert model(ids, need_weights=True)[1] == []


def test_weights_come_one_tensor_a_layer_and_only_on_request():
    model, ids = build(encoder.TransformerEncoder, **MODEL), random_ids()
    hidden, maps = model(ids, need_weights=True)
    assert hidden.shape == (B, T, D)
    assert [each.shape for each in maps] == [(B, H, T, T)] * L
    assert model(ids)[1] is None
    for layer in (model.layers[0], model.layers[0].train()):
        assert layer(hidden)[1] is None
        assert layer.attention(hidden)[1] is None


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_fused_form_runs_where_nothing_needs_the_weights(
    dropout, need_weights, training
):
    part = build(encoder.MultiHeadAttention, d_model=D, n_heads=H, dropout=dropout)
    fused = functional.scaled_dot_product_attention
    with patch.object(functional, fused.__name__, wraps=fused) as spy:
        part.train(training)(torch.randn(B, T, D), None, need_weights)
    explicit = need_weights or (training and dropout > 0)
    assert spy.call_count == (0 if explicit else 1)


def test_every_token_id_has_its_own_row():
    model = build(encoder.TransformerEncoder, **MODEL | {"n_layers": 0})
    rows = model(torch.arange(V)[:, None])[0][:, 0]
    assert rows.unique(dim=0).shape == (V, D)


@ORDERS
def test_norm_eps_reaches_every_norm(norm_first):
    options = {"norm_first": norm_first, "norm_eps": 0.3}
    model = build(encoder.TransformerEncoder, **MODEL, **options).double()
    norms = [each for each in model.modules() if isinstance(each, nn.LayerNorm)]
    assert [each.eps for each in norms] == [0.3] * (2 * L + norm_first)
    ids = random_ids()
    expected, _ = reference.encoder(model.state_dict(), ids, n_heads=H, **options)
    assert_near(model(ids)[0], expected, 1e-12)
    assert encoder.EncoderLayer(**LAYER, norm_eps=0.2).norm2.eps == 0.2
