"""`blocked` and `bias` reach every score, beside the padding and in both forms."""

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
    H,
    K,
    L,
    T,
    assert_near,
    build,
    ragged,
    random_ids,
)
from torch.nn import functional

ORDERS = pytest.mark.parametrize("norm_first", [False, True])
FORMS = pytest.mark.parametrize("need_weights", [False, True])
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
PLACES = [device for device in DEVICES if device != "mps"]  # which has no float64
SHAPES = [(), (1,), (T,), (T, 1), (T, T), (H, T, T), (H, 1, 1), (B, 1, 1, T)]
SHAPES += [(B, H, T, T), (1, 1, T, T), (B, 1, T, 1)]
PAIRS = [(shape, SHAPES[3 * n % len(SHAPES)]) for n, shape in enumerate(SHAPES)]


def build_model(**options):
    return build(encoder.TransformerEncoder, **MODEL, **options)


def build_attention():
    return build(encoder.MultiHeadAttention, d_model=D, n_heads=H)


def causal():
    return torch.ones(T, T, dtype=torch.bool).triu(1)


def slopes():
    """The bias of ALiBi (Press et al., 2022): the farther a key, the lower its score"""
    distance = (torch.arange(T) - torch.arange(T)[:, None]).abs()
    return -distance * torch.tensor([0.25, 0.5])[:, None, None]  # (H, T, T)


@FORMS
@pytest.mark.parametrize(("blocked_shape", "bias_shape"), PAIRS)
def test_any_two_shapes_that_broadcast_equal_the_reference(
    blocked_shape, bias_shape, need_weights
):
    part, x, padding = build_attention().double(), torch.randn(B, T, D), ragged()
    x, bias = x.double(), torch.randn(bias_shape)
    blocked = torch.rand(blocked_shape) < 0.3
    masks = {"key_padding_mask": padding, "blocked": blocked, "bias": bias}
    expected, expected_maps = reference.multi_head_attention(
        part.state_dict(), x.numpy(), n_heads=H, **masks
    )
    mixed, maps = part(x, need_weights=need_weights, **masks)
    assert_near(mixed, expected, 1e-12)
    if need_weights:
        assert_near(maps, expected_maps, 1e-12)


@FORMS
@ORDERS
def test_the_whole_encoder_equals_the_reference(norm_first, need_weights):
    model, ids = build_model(norm_first=norm_first).double(), random_ids()
    masks = {"key_padding_mask": ragged(), "blocked": causal(), "bias": slopes()}
    hidden, maps = model(ids, need_weights=need_weights, **masks)
    expected, expected_maps = reference.encoder(
        model.state_dict(), ids, n_heads=H, norm_first=norm_first, **masks
    )
    assert_near(hidden, expected, 1e-12)
    if need_weights:
        assert_near(torch.stack(maps), np.stack(expected_maps), 1e-12)


@FORMS
@ORDERS
def test_each_of_the_three_masks_counts(norm_first, need_weights):
    model, ids = build_model(norm_first=norm_first), random_ids()
    masks = {"key_padding_mask": ragged(), "blocked": causal().T, "bias": slopes()}
    whole = model(ids, need_weights=need_weights, **masks)[0]
    for name in masks:
        others = {other: mask for other, mask in masks.items() if other != name}
        less = model(ids, need_weights=need_weights, **others)[0]
        assert (less - whole)[~ragged()].abs().max() > 1e-3, name


@FORMS
@ORDERS
def test_a_causal_encoder_cannot_see_what_comes_later(norm_first, need_weights):
    model, ids = build_model(norm_first=norm_first), random_ids(1)
    whole = model(ids, need_weights=need_weights, blocked=causal())[0]
    for t in range(1, T + 1):
        before = {"need_weights": need_weights, "blocked": causal()[:t, :t]}
        assert_near(model(ids[:, :t], **before)[0], whole[:, :t])


@FORMS
def test_a_bias_is_added_to_scores_that_are_already_scaled(need_weights):
    # Scores 0 and 0 with a bias of ln 3 and 0: weights 3/4 and 1/4.
    query, value = torch.zeros(1, 1, 1, 4), torch.tensor([[[[8.0], [4.0]]]])
    key, bias = torch.zeros(1, 1, 2, 4), torch.tensor([math.log(3), 0.0])
    output, weights = encoder.attention(query, key, value, bias=bias)
    assert_near(weights, torch.tensor([[[[0.75, 0.25]]]]))
    fused = build_attention().attend(query, key, value, None, need_weights, bias)[0]
    for each in (output, fused):
        assert_near(each, torch.tensor([[[[7.0]]]]))


def test_a_bias_counts_in_training_where_weights_are_dropped():
    layer = build(encoder.EncoderLayer, **LAYER, dropout=0.0).train()
    layer.attention.dropout = 1e-9
    x = torch.randn(B, T, D)
    expected = layer.eval()(x, blocked=causal(), bias=slopes())[0]
    assert_near(layer.train()(x, blocked=causal(), bias=slopes())[0], expected)


@pytest.mark.parametrize("device", PLACES)
@FORMS
@DTYPES
def test_a_query_without_keys_stays_zero_whatever_its_bias(dtype, need_weights, device):
    dtype = getattr(torch, dtype)
    torch.manual_seed(0)
    inputs = torch.randn(3, B, H, T, K, dtype=dtype, device=device)
    bias = torch.randn(B, H, T, T, dtype=dtype, device=device)
    blocked = torch.rand(B, 1, T, T, device=device) < 0.5
    blocked[:, :, 4] = True  # query 4 may see nothing
    bias[:, :, 6] = -math.inf  # nor may query 6
    blocked[3, :, 7, :5], bias[3, :, 7, 5:] = True, -math.inf  # nor 7, for two reasons
    dead = (blocked | (bias == -math.inf)).all(dim=-1, keepdim=True)
    query, key, value = (each.requires_grad_() for each in inputs.unbind())
    bias.requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        attend = build_attention().attend
        output, weights = attend(query, key, value, blocked, need_weights, bias)
        output.float().square().sum().backward()
    assert output.isfinite().all()
    assert (output.masked_select(dead) == 0).all()
    assert dead[3, :, 7].all()
    assert not dead[3, :, 8].any()
    assert not need_weights or (weights.masked_select(dead) == 0).all()
    for each in (query, bias):
        assert (each.grad.masked_select(dead) == 0).all()
    for each in (query, key, value, bias):
        assert each.grad.isfinite().all()
        assert each.grad[0].abs().max() > 0


@FORMS
@DTYPES
def test_a_bias_of_minus_infinity_alone_leaves_no_nan(dtype, need_weights):
    torch.manual_seed(0)
    inputs = torch.randn(3, B, H, T, K, dtype=getattr(torch, dtype))
    query, key, value = (each.requires_grad_() for each in inputs.unbind())
    bias = torch.zeros(T, T)
    bias[4] = -math.inf
    with torch.autograd.set_detect_anomaly(True):
        attend = build_attention().attend
        output, _ = attend(query, key, value, None, need_weights, bias)
        output.float().square().sum().backward()
    assert (output[:, :, 4] == 0).all()
    assert (query.grad[:, :, 4] == 0).all()
    assert all(each.grad.isfinite().all() for each in (query, key, value))


@DTYPES
def test_both_forms_agree_whatever_the_dtype_of_the_bias(dtype):
    dtype = getattr(torch, dtype)
    part, x = build_attention().to(dtype), torch.randn(B, T, D, dtype=dtype)
    masks = {"key_padding_mask": ragged(), "blocked": causal()}
    masks["blocked"][3] = True
    tolerance = max(1e-6, 4 * torch.finfo(dtype).eps)
    for bias in (slopes(), slopes().double(), slopes().bfloat16()):
        fused, explicit = (part(x, need_weights=n, bias=bias, **masks) for n in (0, 1))
        assert fused[0].dtype == explicit[0].dtype == explicit[1].dtype == dtype
        assert_near(fused[0], explicit[0], tolerance)


@FORMS
def test_autocast_takes_a_float32_bias(need_weights):
    model, ids = build_model(), random_ids()
    masks = {"blocked": causal(), "bias": slopes(), "need_weights": need_weights}
    with torch.autocast("cpu", torch.bfloat16):
        hidden, _ = model(ids, ragged(), **masks)
    assert_near(hidden, model(ids, ragged(), **masks)[0], 0.05)


def test_a_bias_that_is_learned_gets_gradient_in_both_forms():
    part, x = build_attention(), torch.randn(B, T, D)
    gradients = []
    for need_weights in (False, True):
        bias = torch.nn.Parameter(slopes())
        part(x, ragged(), need_weights, bias=bias)[0].square().sum().backward()
        gradients.append(bias.grad)
    assert gradients[0].abs().max() > 1e-3
    assert_near(*gradients, 1e-5)


@FORMS
def test_a_call_changes_none_of_its_masks(need_weights):
    masks = {"blocked": causal(), "bias": slopes()}
    copies = {name: mask.clone() for name, mask in masks.items()}
    build_model()(random_ids(), ragged(), need_weights, **masks)
    for name, mask in masks.items():
        assert torch.equal(mask, copies[name])


def test_no_mask_at_all_takes_the_fused_form_without_one():
    fused = functional.scaled_dot_product_attention
    with patch.object(functional, fused.__name__, wraps=fused) as spy:
        build_model()(random_ids())
    assert [call.args[3] for call in spy.call_args_list] == [None] * L


def test_a_layer_that_knows_no_blocked_serves_while_nobody_asks_for_it():
    class Plain(encoder.EncoderLayer):
        def forward(self, x, key_padding_mask=None, need_weights=False):
            mixed, weights = self.attention(x, key_padding_mask, need_weights)
            return self.norm1(x + mixed), weights

    model = build_model()
    for layer in model.layers:
        layer.__class__ = Plain
    assert model(random_ids(), ragged())[0].shape == (B, T, D)
    with pytest.raises(TypeError, match="blocked"):
        model(random_ids(), blocked=causal())


def test_an_attention_that_knows_no_bias_serves_while_nobody_asks_for_it():
    def means(query, key, value, blocked, need_weights):
        return value.mean(dim=2, keepdim=True).expand(query.shape), None

    part = build_attention()
    part.attend = means
    assert part(torch.randn(B, T, D), blocked=causal())[0].shape == (B, T, D)
    with pytest.raises(TypeError):
        part(torch.randn(B, T, D), bias=slopes())
