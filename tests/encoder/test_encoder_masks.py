"""Who can affect whom: padding cannot, every real token can, dead rows stay finite."""

import encoder
import pytest
import torch
from small import (
    DEVICES,
    LAYER,
    MODEL,
    B,
    D,
    H,
    K,
    T,
    V,
    assert_near,
    build,
    ragged,
    random_ids,
)
from torch.nn import functional

ORDERS = pytest.mark.parametrize("norm_first", [False, True])
FORMS = pytest.mark.parametrize("need_weights", [False, True])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


def build_model(**options):
    return build(encoder.TransformerEncoder, **MODEL, **options)


def build_attention():
    return build(encoder.MultiHeadAttention, d_model=D, n_heads=H)


@FORMS
@ORDERS
def test_padding_content_cannot_matter(norm_first, need_weights):
    model, padding, ids = build_model(norm_first=norm_first), ragged(), random_ids()
    other = torch.where(padding, (ids + 1) % V, ids)
    before, after = (model(each, padding, need_weights)[0] for each in (ids, other))
    assert_near(after[~padding], before[~padding])
    assert (after - before)[padding].abs().max() > 0.1


@FORMS
@ORDERS
def test_padding_amount_cannot_matter(norm_first, need_weights):
    model, padding, ids = build_model(norm_first=norm_first), ragged(), random_ids()
    longer = functional.pad(ids, (0, 5)), functional.pad(padding, (0, 5), value=True)
    before = model(ids, padding, need_weights)[0]
    after = model(*longer, need_weights)[0]
    assert_near(after[:, :T][~padding], before[~padding])


@FORMS
def test_no_mask_means_that_nothing_is_padding(need_weights):
    model, ids = build_model(), random_ids()
    no_padding = torch.zeros(B, T, dtype=torch.bool)
    masked = model(ids, no_padding, need_weights)[0]
    assert_near(masked, model(ids, None, need_weights)[0])


@FORMS
def test_rows_of_a_batch_cannot_affect_each_other(need_weights):
    model, padding, ids = build_model(), ragged(), random_ids()
    together = model(ids, padding, need_weights)[0]
    for row in range(B):
        one = slice(row, row + 1)
        assert_near(model(ids[one], padding[one], need_weights)[0], together[one])


def test_weights_are_shares_of_the_visible_keys():
    padding = ragged()
    for weights in build_model()(random_ids(), padding, need_weights=True)[1]:
        assert_near(weights.sum(dim=-1), torch.ones(B, H, T))
        assert (weights.masked_select(padding[:, None, None]) == 0).all()
        assert (weights.masked_select(~padding[:, None, None]) > 0).all()


@FORMS
@ORDERS
def test_every_real_token_reaches_every_other(norm_first, need_weights):
    layer = build(encoder.EncoderLayer, **LAYER, norm_first=norm_first)
    x, reach = torch.randn(1, T, D), torch.zeros(T, T, dtype=torch.bool)
    before = layer(x, None, need_weights)[0]
    for t in range(T):
        changed = x.clone()
        changed[0, t] = torch.randn(D)
        after = layer(changed, None, need_weights)[0]
        reach[t] = ((after - before)[0].abs() > 1e-4).any(dim=-1)
    assert reach.all()


def test_the_farthest_token_matters():
    model, longest = build_model(), MODEL["max_length"]
    ids = random_ids(1, longest)
    other = ids.clone()
    other[0, 0] = (ids[0, 0] + 1) % V
    assert (model(ids)[0] - model(other)[0])[0, -1].abs().max() > 1e-3


@FORMS
@ORDERS
def test_layers_alone_do_not_know_the_order_of_tokens(norm_first, need_weights):
    layers, padding = build_model(norm_first=norm_first).layers, ragged()
    x, order = torch.randn(B, T, D), torch.randperm(T)
    shuffled, moved = x[:, order], padding[:, order]
    for layer in layers:
        x = layer(x, padding, need_weights)[0]
        shuffled = layer(shuffled, moved, need_weights)[0]
    assert_near(shuffled, x[:, order], 2e-6)


@ORDERS
def test_positions_tell_the_order_of_tokens(norm_first):
    model, ids = build_model(norm_first=norm_first), random_ids()
    order = torch.arange(T).flip(0)
    difference = model(ids[:, order])[0] - model(ids)[0][:, order]
    assert difference.abs().max() > 0.1
    same = torch.zeros_like(ids)  # one word, T times: only positions tell them apart
    assert model(same)[0][0].unique(dim=0).shape == (T, D)


def test_positions_count_tokens_and_not_rows():
    model, ids = build_model(), random_ids(1).expand(B, T)
    assert_near(model(ids)[0], model(ids)[0][:1].expand(B, T, D))


@pytest.mark.parametrize("device", DEVICES)
@FORMS
@DTYPES
def test_a_query_without_keys_gives_zero_and_sends_back_zero(
    dtype, need_weights, device
):
    torch.manual_seed(0)
    inputs = torch.randn(3, B, H, T, K, dtype=getattr(torch, dtype), device=device)
    blocked = torch.rand(B, 1, T, T, device=device) < 0.5
    blocked[:, :, 4] = True  # query 4 may see nothing
    blocked[2] = True  # in row 2 nobody may see anything
    dead = blocked.all(dim=-1, keepdim=True)
    query, key, value = (each.requires_grad_() for each in inputs.unbind())
    with torch.autograd.set_detect_anomaly(True):
        if need_weights:
            output, weights = encoder.attention(query, key, value, blocked)
            assert (weights.masked_select(dead) == 0).all()
        else:
            part = build_attention()
            output, _ = part.attend(query, key, value, blocked, need_weights)
        output.float().square().sum().backward()
    assert output.isfinite().all()
    assert (output.masked_select(dead) == 0).all()
    assert (query.grad.masked_select(dead) == 0).all()
    for each in (query, key, value):
        assert each.grad.isfinite().all()
        assert (each.grad[2] == 0).all()
        assert each.grad[0].abs().max() > 0


@pytest.mark.parametrize("device", DEVICES)
@FORMS
@ORDERS
@DTYPES
def test_a_row_of_padding_is_finite_forward_and_backward(
    dtype, norm_first, need_weights, device
):
    model = build_model(norm_first=norm_first).to(device, getattr(torch, dtype))
    ids, padding = random_ids().to(device), ragged().to(device)
    padding[2] = True
    hidden, maps = model(ids, padding, need_weights)
    hidden.float().square().sum().backward()
    assert hidden.isfinite().all()
    assert all(each.grad.isfinite().all() for each in model.parameters())
    if need_weights:
        assert (torch.stack(maps)[:, 2] == 0).all()


@FORMS
def test_a_row_of_padding_hides_no_nan_on_the_way_back(need_weights):
    # A nan that a later 0 wipes out leaves the gradients finite: autograd sees it.
    layer, padding = build(encoder.EncoderLayer, **LAYER), ragged()
    padding[2] = True
    with torch.autograd.set_detect_anomaly(True):
        output, _ = layer(torch.randn(B, T, D), padding, need_weights)
        output.square().sum().backward()


@FORMS
def test_a_row_of_padding_gets_the_output_bias_alone(need_weights):
    part, padding = build_attention(), ragged()
    padding[2] = True
    mixed = part(torch.randn(B, T, D), padding, need_weights)[0]
    assert_near(mixed[2], part.output.bias.expand(T, D))


def test_dead_rows_do_not_change_living_ones():
    model, ids, padding = build_model(), random_ids(), ragged()
    before = model(ids, padding)[0]
    padding[2] = True
    after = model(ids, padding)[0]
    assert_near(after[[0, 1, 3, 4]], before[[0, 1, 3, 4]])


@DTYPES
def test_both_forms_agree_with_and_without_dead_rows(dtype):
    part = build_attention().to(getattr(torch, dtype))
    x, padding = torch.randn(B, T, D, dtype=part.query.weight.dtype), ragged()
    padding[2] = True
    tolerance = 1e-6 if dtype == "float32" else 4 * torch.finfo(x.dtype).eps
    for mask in (None, ragged(), padding):
        assert_near(part(x, mask)[0], part(x, mask, True)[0], tolerance)


@pytest.mark.parametrize("size", [1e3, 6e4])
def test_large_half_precision_scores_never_beat_the_mask(size):
    query = torch.full((1, 1, 1, 1), -1.0, dtype=torch.float16)
    key = torch.tensor([[[[size], [1.0]]]], dtype=torch.float16)
    blocked = torch.tensor([False, True])  # what may be seen scores far below 0
    weights = encoder.attention(query, key, key, blocked)[1]
    assert weights.flatten().tolist() == [1.0, 0.0]


def test_half_precision_scores_do_not_overflow_before_they_are_scaled():
    # 64 products of 40 * 40 sum to 102400, above float16's 65504; scaled, 12800 fits.
    query, key = torch.full((2, 1, 1, 3, 64), 40.0, dtype=torch.float16)
    output, weights = encoder.attention(query, key, key)
    assert_near(weights, torch.full((1, 1, 3, 3), 1 / 3), 1e-3)
    assert output.isfinite().all()


@FORMS
def test_a_call_changes_none_of_its_inputs(need_weights):
    model, ids, padding = build_model(), random_ids(), ragged()
    copies = ids.clone(), padding.clone()
    first, second = (model(ids, padding, need_weights)[0] for _ in range(2))
    assert torch.equal(ids, copies[0])
    assert torch.equal(padding, copies[1])
    assert torch.equal(first, second)
