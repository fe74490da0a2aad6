"""What training needs: a sound start, gradients everywhere, dropout in its places."""

import math

import encoder
import pytest
import torch
from small import (
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

ORDERS = pytest.mark.parametrize("norm_first", [False, True])
FORMS = pytest.mark.parametrize("need_weights", [False, True])


def build_model(**options):
    return build(encoder.TransformerEncoder, **MODEL, **options)


@ORDERS
def test_parameter_count_is_the_formula(norm_first):
    model = encoder.TransformerEncoder(**MODEL, norm_first=norm_first)
    attention = 4 * (D * D + D)
    feed_forward = D * F + F + F * D + D
    norms = 2 * 2 * D
    expected = V * D + L * (attention + feed_forward + norms)
    expected += 2 * D if norm_first else 0  # Pre-LN ends with one more norm
    assert sum(each.numel() for each in model.parameters()) == expected


@ORDERS
def test_no_two_layers_or_maps_start_alike(norm_first):
    torch.manual_seed(0)
    model = encoder.TransformerEncoder(**MODEL, norm_first=norm_first)
    matrices = [each for each in model.parameters() if each.dim() == 2]
    assert len({each[0, 0].item() for each in matrices}) == len(matrices) == 1 + 6 * L


def test_tokens_start_with_rms_1_beside_positions_at_0_71():
    torch.manual_seed(0)
    width = 64
    model = encoder.TransformerEncoder(1009, d_model=width)
    tokens = model.embedding.weight * math.sqrt(width)
    positions = model.positions.table
    rms = [each.square().mean().sqrt().item() for each in (tokens, positions)]
    assert rms == pytest.approx([1.0, math.sqrt(0.5)], rel=0.02)
    assert rms[0] / rms[1] == pytest.approx(1.41, rel=0.02)


def test_linear_maps_start_with_xavier_weights_and_no_bias():
    torch.manual_seed(0)
    layer = encoder.EncoderLayer(64, 4, 256)
    for name, part in layer.named_modules():
        if isinstance(part, torch.nn.Linear):
            bound = math.sqrt(6 / (part.in_features + part.out_features))
            assert part.weight.abs().max() <= bound, name
            assert part.weight.abs().max() > 0.99 * bound, name
            assert (part.bias == 0).all(), name


@FORMS
@ORDERS
def test_every_parameter_gets_gradient(norm_first, need_weights):
    model = build_model(norm_first=norm_first)
    hidden, _ = model(torch.arange(V)[None], need_weights=need_weights)
    (hidden * torch.randn_like(hidden)).sum().backward()
    for name, parameter in model.named_parameters():
        largest = parameter.grad.abs().max()
        if name.endswith("key.bias"):
            # It adds the same number to a query's every score: softmax cannot see it.
            assert largest < 1e-5, name
        else:
            assert largest > 1e-4, name
    assert (model.embedding.weight.grad.abs().amax(dim=1) > 1e-4).all()


@FORMS
@ORDERS
def test_evaluation_ignores_dropout_and_repeats_itself(norm_first, need_weights):
    with_dropout = build_model(norm_first=norm_first, dropout=0.5)
    without = build_model(norm_first=norm_first, dropout=0.0)
    ids = random_ids()
    first = with_dropout(ids, ragged(), need_weights)[0]
    assert torch.equal(first, with_dropout(ids, ragged(), need_weights)[0])
    assert_near(first, without(ids, ragged(), need_weights)[0])


@FORMS
@ORDERS
def test_training_equals_evaluation_where_dropout_is_0(norm_first, need_weights):
    model, ids = build_model(norm_first=norm_first, dropout=0.0), random_ids()
    evaluated = model(ids, ragged(), need_weights)[0]
    assert torch.equal(model.train()(ids, ragged(), need_weights)[0], evaluated)


@FORMS
@ORDERS
def test_dropout_draws_anew_at_every_training_step(norm_first, need_weights):
    model, ids = build_model(norm_first=norm_first).train(), random_ids()
    first, second = (model(ids, None, need_weights)[0] for _ in range(2))
    assert not torch.equal(first, second)


# At dropout 1 a place that drops gives exactly 0: what is left shows every place.


def test_attention_drops_weights_and_returns_them_whole():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, B, H, T, K)
    whole, weights = encoder.attention(query, key, value)
    dropped, same = encoder.attention(query, key, value, dropout=1.0)
    assert torch.equal(same, weights)
    assert (dropped == 0).all()
    assert (whole != 0).any()


def test_dropped_weights_leave_the_others_scaled_up():
    # 4096 values of 1 shared alike: a kept weight 1/4096 counts 1 / (1 - 0.75) = 4
    # times, so the output stays near 1: its deviation is sqrt(3 / 4096) = 0.027.
    torch.manual_seed(0)
    query, value = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 4096, 1)
    output, _ = encoder.attention(query, torch.zeros_like(value), value, dropout=0.75)
    assert output.item() != 1.0
    assert output.item() == pytest.approx(1.0, abs=0.14)


@FORMS
def test_multi_head_attention_drops_weights_in_training_only(need_weights):
    part = build(encoder.MultiHeadAttention, d_model=D, n_heads=H, dropout=1.0)
    x = torch.randn(B, T, D)
    mixed, weights = part(x, None, need_weights)
    assert (mixed - part.output.bias).abs().max() > 0.01
    dropped, same = part.train()(x, None, need_weights)
    assert_near(dropped, part.output.bias.expand(B, T, D))
    if need_weights:
        assert_near(same, weights)


def test_feed_forward_drops_behind_the_activation():
    part = build(encoder.FeedForward, d_model=D, d_ff=F, dropout=1.0).train()
    x = torch.randn(B, T, D)
    assert_near(part(x), part.down.bias.expand(B, T, D))
    assert (part.eval()(x) - part.down.bias).abs().max() > 0.01


@ORDERS
def test_layer_drops_both_branches_and_keeps_both_residuals(norm_first):
    layer = build(encoder.EncoderLayer, **LAYER, dropout=1.0, norm_first=norm_first)
    x = torch.randn(B, T, D)
    expected = x if norm_first else layer.norm2(layer.norm1(x))
    assert_near(layer.train()(x)[0], expected)


def test_model_drops_tokens_and_positions_together():
    model = build_model(dropout=1.0, norm_first=True).train()
    bias = model.final_norm.bias  # all that is left of an input of zeros
    assert_near(model(random_ids())[0], bias.expand(B, T, D))


def test_dropout_rate_reaches_every_place():
    model = encoder.TransformerEncoder(**MODEL, dropout=0.3)
    rates = [each.p for each in model.modules() if isinstance(each, torch.nn.Dropout)]
    assert rates == [0.3] * (1 + 2 * L)
    assert [each.attention.dropout for each in model.layers] == [0.3] * L
