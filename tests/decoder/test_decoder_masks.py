"""Who can hear whom in a decoder: nobody the future, nobody padding, all the source."""

import decoder
import pytest
import torch
from encoder import TransformerEncoder
from small import MODEL, B, D, F, H, L, T, V, assert_near, build, ragged, random_ids
from torch.nn import functional

S = 5
FORMS = pytest.mark.parametrize("need_weights", [False, True])
ORDERS = pytest.mark.parametrize("norm_first", [False, True])


def build_decoder(**options):
    return build(decoder.TransformerDecoder, **MODEL, **options)


def source():
    padding = torch.arange(S) >= torch.tensor([S, 4, 3, 2, 1])[:, None]
    return torch.randn(B, S, D), padding


def test_causal_blocks_what_comes_later_and_nothing_else():
    assert decoder.causal_mask(3).tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert decoder.causal_mask(3).dtype == torch.bool


@FORMS
@ORDERS
def test_a_token_reaches_itself_and_all_later_ones_and_no_earlier(
    norm_first, need_weights
):
    model, (memory, _) = build_decoder(norm_first=norm_first), source()
    ids, reach = random_ids(1), torch.zeros(T, T, dtype=torch.bool)
    before, _, _ = model(ids, memory[:1], need_weights=need_weights)
    for t in range(T):
        other = ids.clone()
        other[0, t] = (ids[0, t] + 1) % V
        after, _, _ = model(other, memory[:1], need_weights=need_weights)
        reach[t] = ((after - before)[0].abs() > 1e-6).any(dim=-1)
    assert torch.equal(reach, ~decoder.causal_mask(T).T)


def test_without_causality_a_token_reaches_the_earlier_ones_too():
    model, (memory, _), ids = build_decoder(causal=False), source(), random_ids(1)
    other = ids.clone()
    other[0, -1] = (ids[0, -1] + 1) % V
    moved = (model(ids, memory[:1])[0] - model(other, memory[:1])[0])[0]
    assert (moved.abs().amax(dim=-1) > 1e-5).all()


@FORMS
def test_padding_of_the_source_cannot_matter(need_weights):
    model, ids, (memory, padding) = build_decoder(), random_ids(), source()
    other = torch.where(padding[..., None], torch.randn(B, S, D), memory)
    masks = {"memory_padding_mask": padding, "need_weights": need_weights}
    before, after = (model(ids, each, **masks)[0] for each in (memory, other))
    assert_near(after, before)
    assert (model(ids, other)[0] - before).abs().max() > 0.1


@FORMS
def test_padding_of_the_text_cannot_matter(need_weights):
    # On the left, as prompts of several lengths have it: on the right nobody looks.
    model, ids, (memory, _) = build_decoder(), random_ids(), source()
    padding = ragged().flip(1)
    other = torch.where(padding, (ids + 1) % V, ids)
    masks = {"key_padding_mask": padding, "need_weights": need_weights}
    before, after = (model(each, memory, **masks)[0] for each in (ids, other))
    assert_near(after[~padding], before[~padding])
    assert (model(other, memory)[0] - before)[~padding].abs().max() > 0.1


def test_every_token_of_the_source_matters_to_every_word():
    model, ids, (memory, _) = build_decoder(), random_ids(1), source()
    before = model(ids, memory[:1])[0]
    for s in range(S):
        other = memory[:1].clone()
        other[0, s] += torch.randn(D)
        moved = (model(ids, other)[0] - before)[0].abs().amax(dim=-1)
        assert (moved > 1e-4).all()


def test_weights_are_shares_of_what_may_be_seen():
    model, ids, (memory, padding) = build_decoder(), random_ids(), source()
    masks = {"key_padding_mask": ragged(), "memory_padding_mask": padding}
    _, maps, _ = model(ids, memory, **masks, need_weights=True)
    assert len(maps) == L
    hidden = decoder.causal_mask(T) | ragged()[:, None, None]  # (B, 1, T, T)
    for own, of_source in maps:
        assert_near(own.sum(dim=-1), torch.ones(B, H, T))
        assert_near(of_source.sum(dim=-1), torch.ones(B, H, T))
        assert torch.equal(own == 0, hidden.expand_as(own))
        assert torch.equal(of_source == 0, padding[:, None, None].expand_as(of_source))


def test_no_weights_are_returned_unless_they_are_wanted():
    model, (memory, _) = build_decoder(), source()
    assert model(random_ids(), memory)[1] is None
    assert model.layers[0](torch.randn(B, T, D), memory)[1] is None


@pytest.mark.parametrize("shape", [(T,), (1, T), (T, T), (H, T, T), (B, 1, T, T)])
def test_more_can_be_blocked_than_causality_does(shape):
    model, ids, (memory, _) = build_decoder(), random_ids(), source()
    blocked = torch.rand(shape) < 0.3
    _, maps, _ = model(ids, memory, need_weights=True, blocked=blocked)
    expected = (blocked | decoder.causal_mask(T)).expand(B, H, T, T)
    assert all(torch.equal(own == 0, expected) for own, _ in maps)


def test_what_of_the_source_is_blocked_gets_no_weight():
    model, ids, (memory, padding) = build_decoder(), random_ids(), source()
    blocked = torch.rand(H, T, S) < 0.3
    masks = {"memory_blocked": blocked, "memory_padding_mask": padding}
    _, maps, _ = model(ids, memory, need_weights=True, **masks)
    expected = blocked | padding[:, None, None]
    assert all(torch.equal(of_source == 0, expected) for _, of_source in maps)


@FORMS
def test_a_bias_is_added_to_the_scores(need_weights):
    part = build(decoder.CrossAttention, d_model=D, n_heads=H)
    x, (memory, _) = torch.randn(B, T, D), source()
    bias = torch.zeros(S)
    bias[1] = -torch.inf
    kept = part.project(memory[:, [0, 2, 3, 4]])
    biased, _ = part(x, part.project(memory), None, need_weights, bias=bias)
    assert_near(biased, part(x, kept)[0])


def test_a_source_of_padding_gives_no_nan_forward_or_backward():
    model, ids, (memory, padding) = build_decoder(), random_ids(), source()
    padding[2] = True
    with torch.autograd.set_detect_anomaly(True):
        hidden, _, _ = model(ids, memory, memory_padding_mask=padding)
        hidden.square().sum().backward()
    assert hidden.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# --- The three wirings ----------------------------------------------------------------


def without_cross(norm_first=False, causal=True):
    """A decoder without a source, and an encoder with the same parameters."""
    order = {"norm_first": norm_first}
    ours = build_decoder(cross_attention=False, causal=causal, **order)
    theirs = TransformerEncoder(**MODEL, **order).eval()
    names = {"self_attention": "attention", "norm3": "norm2"}
    state = {}
    for name, value in ours.state_dict().items():
        for one, other in names.items():
            name = name.replace(one, other)
        state[name] = value
    state.pop("word_bias")
    theirs.load_state_dict(state)
    return ours, theirs


@FORMS
@ORDERS
def test_without_a_source_a_decoder_is_an_encoder_with_a_causal_mask(
    norm_first, need_weights
):
    ours, theirs = without_cross(norm_first=norm_first)
    ids = random_ids()
    hidden, maps, _ = ours(ids, need_weights=need_weights)
    expected, their_maps = theirs(
        ids, None, need_weights, blocked=torch.ones(T, T).triu(1).bool()
    )
    assert_near(hidden, expected)
    for ours_of, theirs_of in zip(maps or [], their_maps or [], strict=True):
        assert ours_of.source is None
        assert_near(ours_of.own, theirs_of)


def test_without_causality_too_it_is_the_encoder():
    ours, theirs = without_cross(causal=False)
    ids = random_ids()
    assert_near(ours(ids)[0], theirs(ids)[0])


@FORMS
def test_encoder_and_decoder_together(need_weights):
    encoder, writer = build(TransformerEncoder, **MODEL), build_decoder()
    both = decoder.EncoderDecoder(encoder, writer)
    source_ids, ids = random_ids(tokens=S), random_ids()
    padding, own_padding = source()[1], ragged().flip(1)
    scores, maps = both(source_ids, ids, padding, own_padding, need_weights)
    memory, _ = encoder(source_ids, padding)
    hidden, their_maps, _ = writer(ids, memory, own_padding, padding, need_weights)
    assert_near(scores, hidden @ writer.embedding.weight.T + writer.word_bias)
    assert (maps is None) == (not need_weights)
    for ours_of, theirs_of in zip(maps or [], their_maps or [], strict=True):
        assert_near(ours_of.source, theirs_of.source)


@pytest.mark.parametrize("cross_attention", [False, True])
def test_every_parameter_gets_a_gradient_and_has_been_counted(cross_attention):
    model, (memory, _) = build_decoder(cross_attention=cross_attention), source()
    ids = random_ids()
    given = (memory,) if cross_attention else ()
    hidden, _, _ = model(decoder.shift_right(ids, 0), *given)
    decoder.next_word_loss(model.score(hidden), ids).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # A key's bias adds the same to all scores of a query: softmax does not see it.
        assert parameter.grad.any() or name.endswith("key.bias"), name
    attentions, norms = (2, 3) if cross_attention else (1, 2)
    of_layer = attentions * 4 * (D * D + D) + 2 * D * F + D + F + norms * 2 * D
    total = sum(p.numel() for p in model.parameters())
    assert total == V * D + V + L * of_layer


def test_layers_differ_at_the_start():
    model = decoder.TransformerDecoder(**MODEL)
    weights = {layer.feed_forward.up.weight.sum().item() for layer in model.layers}
    assert len(weights) == L


@pytest.mark.parametrize("part", ["attention", "cross", "inner", "sum"])
def test_dropout_reaches_every_part_in_training_alone(part):
    layer = build(
        decoder.DecoderLayer, d_model=D, n_heads=H, d_ff=F, dropout=0.0
    ).train()
    x, (memory, _) = torch.randn(B, T, D), source()
    expected = layer(x, memory)[0]
    assert_near(layer(x, memory)[0], expected)
    if part in ("inner", "sum"):
        (layer.feed_forward if part == "inner" else layer).dropout.p = 0.5
    else:
        name = "self_attention" if part == "attention" else "cross_attention"
        getattr(layer, name).dropout = 0.5
    assert (layer(x, memory)[0] - expected).abs().max() > 0.01
    assert_near(layer.eval()(x, memory)[0], expected)


def test_options_reach_the_layers():
    options = {"dropout": 0.3, "norm_eps": 0.01, "activation": functional.gelu}
    model = decoder.TransformerDecoder(**MODEL, **options, norm_first=True)
    for layer in model.layers:
        assert layer.norm_first
        assert layer.feed_forward.activation is functional.gelu
        eps = {each.eps for each in (layer.norm1, layer.norm2, layer.norm3)}
        assert eps == {0.01}
        parts = layer.self_attention, layer.cross_attention
        assert [each.dropout for each in parts] == [0.3, 0.3]
        assert layer.feed_forward.dropout.p == layer.dropout.p == 0.3
        assert {each.n_heads for each in parts} == {H}
    assert model.dropout.p == 0.3
    assert model.final_norm.eps == 0.01
    assert model.positions.table.shape == (MODEL["max_length"], D)
    post = decoder.TransformerDecoder(**MODEL)
    assert isinstance(post.final_norm, torch.nn.Identity)
