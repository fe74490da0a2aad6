"""Promises of the checker: it fails every known mistake, by name, and nothing right."""

import math
import random
import re
from copy import deepcopy

import numpy as np
import pytest
import torch
from book.exercises import EXERCISES, check, kill_table
from book.exercises.verdict import attempt, same_outcome
from common import CHAPTERS, NUMBERED, ROOT
from decoder import generate, next_word
from encoder import (
    EncoderLayer,
    FeedForward,
    TransformerEncoder,
    layers_from_torch,
)
from notebooks import code_cells, prose
from torch import nn
from torch.nn import functional

MUTANTS = [(name, mistake) for name in EXERCISES for mistake in EXERCISES[name].mutants]

each_exercise = pytest.mark.parametrize("name", EXERCISES)


# Every known mistake


@pytest.mark.parametrize(("name", "mistake"), MUTANTS)
def test_a_known_mistake_is_failed_and_named(name, mistake):
    verdict = check(name, EXERCISES[name].mutants[mistake])
    assert not verdict
    assert verdict.text == f"{name}: not right yet. {mistake}"


@each_exercise
def test_an_exercise_publishes_at_least_eight_mistakes(name):
    assert len(EXERCISES[name].mutants) >= 8


@each_exercise
def test_references_and_mistakes_leave_their_arguments_alone(name):
    """The checker relies on it: only a reader's function gets copies."""
    exercise = EXERCISES[name]
    for function in (exercise.reference, *exercise.mutants.values()):
        cases, untouched = exercise.cases(), exercise.cases()
        for args in cases.values():
            attempt(function, args)
        assert all(map(equal_arguments, cases.values(), untouched.values()))


def equal_arguments(args, others):
    """Compare tensors, and modules by state and mode; other arguments have no state."""
    for one, other in zip(args, others, strict=True):
        if isinstance(one, torch.Tensor) and not torch.equal(one, other):
            return False
        if isinstance(one, nn.Module):
            states = one.state_dict(), other.state_dict()
            same = all(map(torch.equal, *(state.values() for state in states)))
            if not same or one.training != other.training:
                return False
    return True


@each_exercise
def test_no_two_mistakes_of_an_exercise_give_the_same_results(name):
    exercise = EXERCISES[name]
    calls = exercise.cases().values()
    results = [
        [attempt(mutant, args) for args in calls]
        for mutant in exercise.mutants.values()
    ]
    for i, one in enumerate(results):
        assert not any(all(map(same_outcome, one, other)) for other in results[:i])


def test_the_kill_table_leaves_no_mutant_alive():
    before = torch.get_rng_state()
    rows = kill_table()
    assert torch.equal(torch.get_rng_state(), before)
    assert [row[:2] for row in rows] == MUTANTS
    for name, _, case in rows:
        assert case in EXERCISES[name].cases()


def test_a_known_mistake_is_named_among_others():
    def twice_wrong(query, key, value, blocked):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(blocked, -60000.0)
        return scores.softmax(dim=-2) @ value

    text = check("attention", twice_wrong).text
    assert "more than one mistake. On a plain batch: You normalised over the q" in text


def test_another_wrong_design_is_told_which_mistake_it_is_like():
    def forward(places):
        eye = torch.eye(places.shape[1])
        fit = torch.linalg.lstsq(places[:-1], places[1:], driver="gelsd").solution
        return 300 * fit, eye

    assert (
        "finds its right neighbour: it steps" in check("left_neighbour", forward).text
    )
    odd = check("left_neighbour", lambda places: torch.ones(2, *[places.shape[1]] * 2))
    assert not odd
    zeros = check("left_neighbour", lambda places: [torch.zeros(16, 8)] * 2)
    assert "of result 0, you returned shape (16, 8), wanted (16, 16)" in zeros.text


def test_a_number_that_may_be_chance_is_not_named():
    text = check("separate", lambda stack: 2).text
    assert text.endswith("but on one layer six times, the result is another.")


# Everything right


def positions_by_loops(n_positions, d_model):
    made = torch.zeros(n_positions, d_model, dtype=torch.float64)
    for t in range(n_positions):
        for column in range(d_model):
            angle = t / 10000 ** (column // 2 * 2 / d_model)
            made[t, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return made


def positions_by_complex_numbers(n_positions, d_model):
    turn = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angle = torch.outer(torch.arange(n_positions).double(), 10000.0**-turn)
    spun = torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(spun)[..., [1, 0]].flatten(1)


def positions_by_logarithm(n_positions, d_model):
    made = torch.empty(n_positions, d_model, dtype=torch.float64)
    t = torch.arange(n_positions, dtype=torch.float64).unsqueeze(1)
    column = torch.arange(0, d_model, 2, dtype=torch.float64)
    rate = torch.exp(column * (-math.log(10000.0) / d_model))
    made[:, 0::2], made[:, 1::2] = torch.sin(t * rate), torch.cos(t * rate)
    return made


def ratios_of_drawn_words(bound, d_model):
    """Measure words that lie evenly between the bounds."""
    words = torch.linspace(-bound, bound, 100_001, dtype=torch.float64)
    size = words.square().mean().sqrt() / math.sqrt(0.5)
    return torch.stack((size, size * d_model**0.5)).float()


def ratios_by_squares(bound, d_model):
    squares = torch.tensor([1, d_model]) * bound**2 / 3 * 2
    return squares.sqrt()


def embed_by_loops(token_ids, table):
    made = torch.empty(*token_ids.shape, table.shape[1])
    for b, t in np.ndindex(*token_ids.shape):
        word = table[token_ids[b, t]] * math.sqrt(table.shape[1])
        place = positions_by_loops(t + 1, table.shape[1])[t]
        made[b, t] = word + place.float()
    return made


def embed_with_modules(token_ids, table):
    n_words, d_model = table.shape
    encoder = TransformerEncoder(n_words, d_model=d_model, n_heads=1, dropout=0)
    encoder.embedding = nn.Embedding.from_pretrained(table)
    return encoder.embed(token_ids)


def embed_as_product(token_ids, table):
    places = positions_by_logarithm(token_ids.shape[1], table.shape[1])
    one_hot = functional.one_hot(token_ids, len(table)).to(table)
    return torch.add(places.to(table), one_hot @ table, alpha=table.shape[1] ** 0.5)


def fused_attention(query, key, value, blocked):
    return functional.scaled_dot_product_attention(query, key, value, ~blocked)


def attention_with_infinity(query, key, value, blocked):
    scores = torch.einsum("bhqk,bhsk->bhqs", query, key) * query.shape[-1] ** -0.5
    scores = torch.where(blocked, float("-inf"), scores)
    return torch.nan_to_num(scores.softmax(dim=-1)) @ value


def attention_by_loops(query, key, value, blocked):
    blocked = blocked.expand(*query.shape[:-1], key.shape[-2])
    made = query.new_zeros(*query.shape[:-1], value.shape[-1])
    for b, h, i in np.ndindex(*query.shape[:-1]):
        seen = (~blocked[b, h, i]).nonzero().flatten()
        if len(seen):
            scores = key[b, h, seen] @ query[b, h, i] / math.sqrt(query.shape[-1])
            made[b, h, i] = scores.softmax(dim=0) @ value[b, h, seen]
    return made


def is_map_by_loops(weights):
    for row in weights.flatten(0, -2).tolist():
        if min(row) < 0 or abs(sum(row) - 1) > 1e-4:
            return False
    return True


def is_map_as_tensor(weights):
    ones = torch.isclose(weights.sum(dim=-1), torch.tensor(1.0), atol=1e-5)
    return (weights >= 0).all() & ones.all()


def neighbour_by_least_squares(places):
    fit = torch.linalg.lstsq(places[1:], places[:-1], driver="gelsd").solution
    return 200 * fit, torch.eye(places.shape[1])


def neighbour_by_steps_of_keys(places):
    fit = torch.linalg.lstsq(places[:-1], places[1:], driver="gelsd").solution
    return torch.eye(places.shape[1]), 200 * fit


def neighbour_half_and_half(places):
    """Step half a place back with the queries, and half a place ahead with the keys."""
    angle = 0.5 * 10000 ** (-torch.arange(0, places.shape[1], 2) / places.shape[1])
    turns = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], dim=1)
    half = torch.block_diag(*turns.unflatten(1, (2, 2)))
    return 100 * half, half.mT


def split_by_loop(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def unpack_by_index(weight, n_heads, layout):
    rows = torch.arange(len(weight)).reshape(
        (3, n_heads, -1) if layout == "roles first" else (n_heads, 3, -1)
    )
    if layout == "heads first":
        rows = rows.transpose(0, 1)
    return [weight[role.flatten()] for role in rows]


def unpack_by_loop(weight, n_heads, layout):
    if layout == "roles first":
        return weight.chunk(3)
    heads = [head.chunk(3) for head in weight.chunk(n_heads)]
    return tuple(torch.cat(role) for role in zip(*heads, strict=True))


def unpack_as_one_tensor(weight, n_heads, layout):
    first, second = (3, n_heads) if layout == "roles first" else (n_heads, 3)
    cut = weight.unflatten(0, (first, second, -1))
    cut = cut if layout == "roles first" else cut.movedim(1, 0)
    return tuple(cut.reshape(3, -1, weight.shape[1]).unbind())


def neighbours_by_roll(x):
    word = x[..., : x.shape[-1] // 2]
    return torch.cat((word.roll(1, dims=1), word.roll(-1, dims=1)), dim=-1)


def neighbours_by_matrices(x):
    word, place = x.chunk(2, dim=-1)
    ring = torch.eye(x.shape[1]).roll(1, dims=0)
    rows = [(80 * place @ ring.T).softmax(-1), (80 * place @ ring).softmax(-1)]
    return torch.cat([weights @ word for weights in rows[::-1]], dim=-1)


def neighbours_by_loops(x):
    part, n = nn.MultiheadAttention(x.shape[-1], 2, batch_first=True), x.shape[1]
    packed = torch.zeros(3, 2, n, 2 * n)  # roles, heads, rows, features
    for k in range(n):
        packed[0, 0, k, n + (k + 1) % n] = packed[0, 1, k, n + (k - 1) % n] = 90
        packed[1, :, k, n + k] = 1
        packed[2, :, k, k] = 1
    part.in_proj_weight.data = packed.flatten(0, 2)
    part.out_proj.weight.data = torch.eye(2 * n)
    return part(x, x, x)[0]


def norm_with_moments(x, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps)


def norm_by_loops(x, eps):
    made = torch.empty_like(x)
    for place in np.ndindex(*x.shape[:-1]):
        row = x[place].numpy()
        made[place] = torch.tensor((row - row.mean()) / np.sqrt(row.var() + eps))
    return made


def norm_as_module(x, eps):
    return nn.LayerNorm(x.shape[-1], eps=eps, elementwise_affine=False)(x)


def layer_in_steps(x, attend, feed, norm1, norm2, norm_first):
    for part, norm in ((attend, norm1), (feed, norm2)):
        x = x + part(norm(x)) if norm_first else norm(x + part(x))
    return x


def layer_inside_out(x, attend, feed, norm1, norm2, norm_first):
    def around(part, norm):
        before, after = (norm, nn.Identity()) if norm_first else (nn.Identity(), norm)
        return lambda y: after(y + part(before(y)))

    return around(feed, norm2)(around(attend, norm1)(x))


def layer_in_one_line(x, a, f, n1, n2, pre):
    if pre:
        return (x + a(n1(x))) + f(n2(x + a(n1(x))))
    return n2(n1(x + a(x)) + f(n1(x + a(x))))


def places_by_loops(is_pad):
    rows = []
    for row in is_pad.tolist():
        count = iter(range(len(row)))
        rows.append([0 if hidden else next(count) for hidden in row])
    return torch.tensor(rows)


def places_by_product(is_pad):
    words = (~is_pad).long()
    return words * (words.cumsum(-1) - 1)


def places_by_triangle(is_pad):
    before = torch.ones(is_pad.shape[1], is_pad.shape[1]).tril(-1)
    counted = (~is_pad).float() @ before.mT
    return torch.where(is_pad, 0, counted.long())


def packed_one_by_one(layers, x, segments):
    made = x.new_zeros(len(x), segments.max(), x.shape[2])
    for b, row in enumerate(segments):
        for sentence in row[row > 0].unique().tolist():
            words = x[b, row == sentence][None]
            for layer in layers:
                words, _ = layer(words)
            made[b, sentence - 1] = words[0].mean(dim=0)
    return made


def packed_by_scatter(layers, x, segments):
    apart = segments.unsqueeze(1) != segments.unsqueeze(2)
    for layer in layers:
        x, _ = layer(x, segments == 0, blocked=apart.unsqueeze(1))
    every = functional.one_hot(segments, int(segments.max()) + 1)[..., 1:].float()
    return torch.einsum("bts,btd->bsd", every, x) / every.sum(1).clamp(1)[..., None]


def packed_by_bias(layers, x, segments):
    same = segments[:, None, :, None] == segments[:, None, None, :]
    bias = torch.where(same, 0.0, -torch.inf)
    for layer in layers:
        x = layer(x, bias=bias)[0]
    sentences = range(1, int(segments.max()) + 1)
    belongs = torch.stack([segments == s for s in sentences], dim=1)
    means = (belongs[..., None] * x[:, None]).sum(2) / belongs.sum(2)[..., None]
    return means.nan_to_num()


def convert_by_where(attention_mask):
    seen = attention_mask.bool()
    lowest = torch.finfo(torch.float32).min
    added = torch.where(seen, 0.0, lowest)
    return seen.logical_not(), seen[:, None, None, :], added[:, None, None, :]


def convert_by_product(attention_mask):
    wide = attention_mask.unsqueeze(1).unsqueeze(2)
    added = (1.0 - wide) * torch.finfo(torch.float32).min
    return attention_mask == 0, wide > 0, added


def convert_as_list(attention_mask):
    is_pad = attention_mask.lt(1)
    wide = is_pad.reshape(len(is_pad), 1, 1, -1)
    added = wide.float().mul(torch.finfo().min)
    return [is_pad, ~wide, added]


def max_by_loops(hidden, is_pad):
    return torch.stack(
        [h[~p].max(dim=0).values for h, p in zip(hidden, is_pad, strict=True)]
    )


def max_by_where(hidden, is_pad):
    return torch.where(is_pad.unsqueeze(-1), -torch.inf, hidden).max(1)[0]


def max_by_sorting(hidden, is_pad):
    low = hidden.masked_fill(is_pad[..., None], torch.finfo(hidden.dtype).min)
    return low.sort(dim=1).values[:, -1]


def parameters_of_torch(d_model, d_ff):
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(d_model, 1, d_ff)
    return sum(p.numel() for p in layer.parameters())


def same_box_many_times(ours, theirs):
    for seed in range(3):
        own = torch.Generator().manual_seed(seed)
        x = torch.randn(3, 5, 64, generator=own)
        is_pad = torch.arange(5) >= torch.tensor([[5], [4], [2]])
        gap = (ours(x, is_pad)[0] - theirs(x, is_pad)[0]).masked_fill(
            is_pad[..., None], 0.0
        )
        if gap.abs().max() > 1e-4:
            return False
    return True


def same_box_with_torch(ours, theirs):
    x, is_pad = torch.randn(2, 11, 64), torch.zeros(2, 11, dtype=torch.bool)
    is_pad[1, 8:] = True
    one, other = ours(x, is_pad)[0][~is_pad], theirs(x, is_pad)[0][~is_pad]
    return torch.allclose(one, other, atol=1e-4)


def same_box_by_sentence(ours, theirs):
    x, is_pad = torch.ones(1, 7, 64).cumsum(1).sin(), torch.arange(7)[None] > 4
    x = x * torch.arange(64).cos()
    rows = [box(x, is_pad)[0][0, :5] for box in (ours, theirs)]
    return (rows[0] - rows[1]).abs().max() < 1e-4


def stack_of_torch(theirs, x, padding):
    out = theirs(x, src_key_padding_mask=padding)
    return out.masked_fill(padding[..., None], 0.0)


def stack_by_functions(theirs, x, padding):
    for layer in theirs.layers:
        heads = layer.self_attn

        def attend(x, heads=heads):
            return heads(x, x, x, key_padding_mask=padding, need_weights=False)[0]

        def feed(x, layer=layer):
            return layer.linear2(layer.activation(layer.linear1(x)))

        if layer.norm_first:
            x = x + attend(layer.norm1(x))
            x = x + feed(layer.norm2(x))
        else:
            x = layer.norm1(x + attend(x))
            x = layer.norm2(x + feed(x))
    x = x if theirs.norm is None else theirs.norm(x)
    return x * ~padding[..., None]


def stack_from_torch(theirs, x, padding):
    layers, norm = layers_from_torch(theirs)
    for layer in layers:
        x = layer(x, padding)[0]
    return torch.where(padding[..., None], 0.0, norm(x))


def separate_by_list(stack):
    seen = []
    for layer in stack:
        weight = layer.attention.query.weight
        seen += [weight] * all(weight is not other for other in seen)
    return len(seen)


def share_of_a_layer(d_model, d_ff):
    layer = EncoderLayer(d_model, 1, d_ff)
    part, whole = (
        sum(p.numel() for p in module.parameters())
        for module in (layer.feed_forward, layer)
    )
    return part / whole


def memory_as_module(x):
    part = FeedForward(d_model=8, d_ff=3)
    with torch.no_grad():
        for parameter in part.parameters():
            parameter.zero_()
        part.up.bias -= 1
        for unit, (who, does, what) in enumerate([(0, 3, 5), (1, 4, 6), (2, 4, 7)]):
            part.up.weight[unit, [who, does]] = 1
            part.down.weight[what, unit] = 1
    return part(x)


def memory_by_lines(x):
    made = torch.zeros_like(x)
    for who, does, what in [(0, 3, 5), (1, 4, 6), (2, 4, 7)]:
        made[..., what] = (x[..., who] + x[..., does] - 1).clamp(min=0)
    return made


def memory_in_halves(x):
    """Ask half as loud, and write twice as much."""
    asks, writes = torch.zeros(3, 8), torch.zeros(8, 3)
    asks[[0, 1, 2], [0, 1, 2]] = asks[[0, 1, 2], [3, 4, 4]] = 0.5
    writes[[5, 6, 7], [0, 1, 2]] = 2
    return functional.linear(
        functional.linear(x, asks, -torch.ones(3) / 2).relu(), writes
    )


def turned(*degrees):
    angle = torch.tensor(degrees) * math.pi / 180
    return lambda: torch.stack((torch.cos(angle), torch.sin(angle)))


def words_of(model, ids, is_pad):
    with torch.no_grad():
        return model(ids, is_pad)[0][~is_pad]


def leaks_by_noise(model, ids, is_pad):
    noise = torch.randint_like(ids, 1, 23)
    other = torch.where(is_pad, noise, ids)
    same = torch.allclose(
        words_of(model, ids, is_pad), words_of(model, other, is_pad), atol=1e-4
    )
    return not same


def leaks_by_sentence(model, ids, is_pad):
    for row, hidden in zip(ids, is_pad, strict=True):
        rows, masks = row.repeat(len(ids), 1), hidden.repeat(len(ids), 1)
        other = rows.masked_fill(masks, 7)
        pair = words_of(model, rows, masks), words_of(model, other, masks)
        if (pair[0] - pair[1]).abs().max() > 1e-4:
            return True
    return False


def leaks_by_index(model, ids, is_pad):
    other = ids.clone()
    other[is_pad] = 13
    far = words_of(model, ids, is_pad) - words_of(model, other, is_pad)
    return far.abs().max().item() > 1e-4


def alone_by_list(model, ids, is_pad):
    pairs = zip(ids.split(1), is_pad.split(1), strict=True)
    apart = torch.cat([words_of(model, *pair) for pair in pairs])
    return torch.allclose(words_of(model, ids, is_pad), apart, rtol=0, atol=1e-4)


def alone_by_growth(model, ids, is_pad):
    whole = model(ids, is_pad)[0].detach()
    ends = [model(ids[i:][:1], is_pad[i:][:1])[0].detach() for i in range(len(ids))]
    far = (whole - torch.cat(ends)).masked_fill(is_pad[..., None], 0.0)
    return bool(far.abs().max() < 1e-4)


def alone_by_any(model, ids, is_pad):
    whole = model(ids, is_pad)[0]
    return not any(
        (whole[i] - model(ids[[i]], is_pad[[i]])[0][0])[~is_pad[i]].abs().max() > 1e-4
        for i in range(len(ids))
    )


def feed_by_tokens(x, up, up_bias, down, down_bias):
    rows = [down @ (up @ row + up_bias).clamp(min=0) + down_bias for row in flat(x)]
    return torch.stack(rows).reshape(x.shape)


def flat(x):
    return x.reshape(-1, x.shape[-1])


def feed_as_convolution(x, up, up_bias, down, down_bias):
    hidden = functional.conv1d(flat(x).mT[None], up[..., None], up_bias).relu()
    return functional.conv1d(hidden, down[..., None], down_bias)[0].mT.reshape(x.shape)


def feed_by_mask(x, up, up_bias, down, down_bias):
    hidden = torch.einsum("...d,fd->...f", x, up) + up_bias
    return (hidden * (hidden > 0)) @ down.mT + down_bias


def culprits_from_a_dict():
    told = {1: "softmax", 2: "mask", 3: "norm"}
    told |= {4: "positions", 5: "value map", 6: "residual"}
    return tuple(told.values())


def layer_by_einsum(x, is_pad, part):
    q, k, v = (part[n](x).unflatten(2, (4, 3)) for n in ("query", "key", "value"))
    scores = torch.einsum("bqhk,bshk->bhqs", q, k) / math.sqrt(3)
    shares = scores.masked_fill(is_pad[:, None, None], -math.inf).softmax(-1)
    mixed = torch.einsum("bhqs,bshk->bqhk", shares, v).flatten(2)
    x = part["norm1"](x + part["output"](mixed))
    return part["norm2"](x + part["down"](part["up"](x).clamp(min=0)))


def layer_by_heads(x, is_pad, part):
    heads = []
    for h in range(4):
        q, k, v = (part[n](x).chunk(4, -1)[h] for n in ("query", "key", "value"))
        heads.append(functional.scaled_dot_product_attention(q, k, v, ~is_pad[:, None]))
    x = part["norm1"](x + part["output"](torch.cat(heads, dim=-1)))
    return part["norm2"](x + part["down"](part["up"](x).relu()))


def layer_of_views(x, is_pad, part):
    b, t, d = x.shape
    parts = [part[n](x) for n in ("query", "key", "value")]
    q, k, v = (p.view(b, t, 4, 3).permute(0, 2, 1, 3) for p in parts)
    mixed = functional.scaled_dot_product_attention(q, k, v, ~is_pad[:, None, None])
    x = part["norm1"](x + part["output"](mixed.permute(0, 2, 1, 3).reshape(b, t, d)))
    return part["norm2"](x + part["down"](part["up"](x).relu()))


def faults_by_noise(encoder, ids, is_pad):
    noise = torch.where(is_pad, torch.randint_like(ids, 1, 32), ids)
    one, two = words_of(encoder, ids, is_pad), words_of(encoder, noise, is_pad)
    return not torch.allclose(one, two, atol=1e-4), *deaf_and_stuck(
        encoder, ids, is_pad
    )


def faults_one_by_one(encoder, ids, is_pad):
    far = 0.0
    for b, t in is_pad.nonzero().tolist():
        other = ids.clone()
        other[b, t] = 29
        gap = words_of(encoder, ids, is_pad) - words_of(encoder, other, is_pad)
        far = max(far, gap.abs().max().item())
    return far > 1e-4, *deaf_and_stuck(encoder, ids, is_pad)


def faults_as_list(encoder, ids, is_pad):
    two = words_of(encoder, ids + 3 * is_pad, is_pad)
    far = (words_of(encoder, ids, is_pad) - two).abs().max()
    return [far > 1e-4, *deaf_and_stuck(encoder, ids, is_pad)]


def deaf_and_stuck(encoder, ids, is_pad):
    n = int((~is_pad[0]).sum())
    alone, none = ids[:1, :n].clone(), is_pad[:1, :n]
    other = alone.clone()
    other[0, -1] = 31 - other[0, -1]
    pair = encoder(alone, none)[0][0, 0], encoder(other, none)[0][0, 0]
    encoder.zero_grad()
    encoder(ids, is_pad)[0][~is_pad][..., 0].square().sum().backward()
    grads = {name: p.grad for name, p in encoder.named_parameters()}
    missed = [
        g is None or g.abs().sum() == 0 for n, g in grads.items() if "y.b" not in n
    ]
    return torch.allclose(*pair, atol=1e-5), any(missed)


def prefix_mask_by_places(n_source, n_tokens):
    place = torch.arange(n_tokens)
    return (place > place[:, None]) & (place >= n_source)


def prefix_mask_by_loops(n_source, n_tokens):
    rows = range(n_tokens)
    blocked = [[key > max(query, n_source - 1) for key in rows] for query in rows]
    return torch.tensor(blocked)


def prefix_mask_in_two(n_source, n_tokens):
    within = torch.zeros(n_tokens, n_tokens, dtype=torch.bool)
    within[:n_source, :n_source] = True
    return torch.ones(n_tokens, n_tokens).triu(1).bool() & ~within


def beam_step_by_sorting(totals, log_shares, width):
    every = [
        (float(totals[w] + log_shares[w, v]), w, v)
        for w in range(len(totals))
        for v in range(log_shares.shape[1])
    ]
    best = sorted(every, key=lambda each: -each[0])[:width]
    return tuple(torch.tensor(part) for part in zip(*best, strict=True))


def beam_step_by_shares(totals, log_shares, width):
    best = (totals.exp()[:, None] * log_shares.exp()).flatten().topk(width)
    rows, columns = torch.unravel_index(best.indices, log_shares.shape)
    return best.values.log(), rows, columns


def beam_step_in_two(totals, log_shares, width):
    n_each = min(width, log_shares.shape[1])
    each = log_shares.topk(n_each, dim=1)
    best = (totals[:, None] + each.values).flatten().topk(width)
    return best.values, best.indices // n_each, each.indices.flatten()[best.indices]


def translate_by_generate(pair, source, is_pad, start, end, longest):
    step = next_word(pair.decoder, pair.encoder(source, is_pad)[0], is_pad)
    return generate(step, torch.tensor([[start]]), longest, end)[0, 1:].tolist()


def translate_with_a_cache(pair, source, is_pad, start, end, longest):
    memory, _ = pair.encoder(source, is_pad)
    words, cache = [start], None
    masks = {"memory_padding_mask": is_pad}
    while len(words) - 1 < longest and end not in words[1:]:
        ids = torch.tensor([words])
        hidden, _, cache = pair.decoder(ids, memory, **masks, cache=cache)
        words.append(pair.decoder.score(hidden)[0, -1].argmax().item())
    return words[1:]


def translate_by_the_whole(pair, source, is_pad, start, end, longest):
    words = [start]
    for _ in range(longest):
        scores, _ = pair(source, torch.tensor([words]), is_pad)
        words += scores[:, -1].argmax(dim=-1).tolist()
        if words[-1] == end:
            break
    return words[1:]


RIGHT = {
    "prefix_mask": [prefix_mask_by_places, prefix_mask_by_loops, prefix_mask_in_two],
    "beam_step": [beam_step_by_sorting, beam_step_by_shares, beam_step_in_two],
    "translate": [
        translate_by_generate,
        translate_with_a_cache,
        translate_by_the_whole,
    ],
    "culprits": [
        culprits_from_a_dict,
        lambda: ("softmax", "mask", "norm", "positions", "value" + " map", "residual"),
        lambda: ["softmax", "mask", "norm", "positions", "value map", "residual"],
    ],
    "mended": [layer_by_einsum, layer_by_heads, layer_of_views],
    "faults": [faults_by_noise, faults_one_by_one, faults_as_list],
    "leaks": [leaks_by_noise, leaks_by_sentence, leaks_by_index],
    "alone": [alone_by_list, alone_by_growth, alone_by_any],
    "positions": [
        positions_by_loops,
        positions_by_complex_numbers,
        positions_by_logarithm,
    ],
    "ratios": [
        ratios_of_drawn_words,
        ratios_by_squares,
        lambda bound, d: bound * (2 / 3) ** 0.5 * torch.tensor([1, d**0.5]),
    ],
    "embed": [embed_by_loops, embed_with_modules, embed_as_product],
    "attention": [fused_attention, attention_with_infinity, attention_by_loops],
    "is_map": [
        is_map_by_loops,
        is_map_as_tensor,
        lambda w: min(w.min().item(), -abs(w.sum(-1) - 1).max().item() + 1e-4) >= 0,
    ],
    "left_neighbour": [
        neighbour_by_least_squares,
        neighbour_by_steps_of_keys,
        neighbour_half_and_half,
    ],
    "split_heads": [
        split_by_loop,
        lambda x, n: x.reshape(*x.shape[:2], n, -1).permute(0, 2, 1, 3),
        lambda x, n: torch.stack(torch.tensor_split(x, n, dim=2)).movedim(0, 1),
    ],
    "merge_heads": [
        lambda heads: torch.cat(heads.unbind(1), dim=-1),
        lambda heads: heads.permute(0, 2, 1, 3).reshape(len(heads), heads.shape[2], -1),
        lambda heads: heads.movedim(1, 2).contiguous().flatten(-2),
    ],
    "unpack": [unpack_by_index, unpack_by_loop, unpack_as_one_tensor],
    "before_and_after": [
        neighbours_by_roll,
        neighbours_by_matrices,
        neighbours_by_loops,
    ],
    "feed_forward": [feed_by_tokens, feed_as_convolution, feed_by_mask],
    "rings": [turned(0, 120, 240), turned(20, 150, 265), turned(270, 30, 150)],
    "share": [
        share_of_a_layer,
        lambda D, F: (2 * D * F + F + D) / (4 * D * D + 2 * D * F + 9 * D + F),
        lambda D, F: 1 - (4 * D + 8) / (4 * D + 9 + F * (2 + 1 / D)),
    ],
    "memory": [memory_as_module, memory_by_lines, memory_in_halves],
    "layer_norm": [norm_with_moments, norm_by_loops, norm_as_module],
    "start_at_zero": [
        lambda names: {"attention.output.weight", "feed_forward.down.weight"},
        lambda names: {
            n for n in names if n.startswith(("attention.output", "feed_forward.down"))
        },
        lambda names: {"attention.value.weight", "feed_forward.down.weight"},
    ],
    "branch_factor": [
        lambda n_layers: 1 / math.sqrt(2 * n_layers),
        lambda n_layers: math.exp(-math.log(2 * n_layers) / 2),
        lambda n_layers: torch.tensor(2.0 * n_layers, dtype=torch.float64).rsqrt(),
    ],
    "encoder_layer": [layer_in_steps, layer_inside_out, layer_in_one_line],
    "places": [places_by_loops, places_by_product, places_by_triangle],
    "packed_means": [packed_one_by_one, packed_by_scatter, packed_by_bias],
    "convert": [convert_by_where, convert_by_product, convert_as_list],
    "max_of_words": [max_by_loops, max_by_where, max_by_sorting],
    "parameters": [
        parameters_of_torch,
        lambda D, F: D * (4 * D + 2 * F + 9) + F,
        lambda D, F: sum(n * m + m for n, m in [(D, D)] * 4 + [(D, F), (F, D)]) + 4 * D,
    ],
    "same_box": [same_box_many_times, same_box_with_torch, same_box_by_sentence],
    "run_stack": [stack_of_torch, stack_by_functions, stack_from_torch],
    "separate": [
        separate_by_list,
        lambda stack: len({next(layer.parameters()) for layer in stack}),
        lambda stack: len({layer.norm2.bias.data_ptr() for layer in stack}),
    ],
}


@each_exercise
def test_the_reference_passes(name):
    verdict = check(name, EXERCISES[name].reference)
    assert verdict
    assert verdict.text.startswith(f"{name}: right. Tried on ")


@each_exercise
def test_three_other_solutions_pass(name):
    assert len(RIGHT[name]) == 3
    for solution in RIGHT[name]:
        assert check(name, solution), (solution, check(name, solution))


# Starters


def untouched(*args):
    """Your turn."""


def unwritten(*args):
    raise NotImplementedError("your turn")


@each_exercise
@pytest.mark.parametrize(
    "starter",
    [untouched, unwritten, lambda *args: ..., None, ..., NotImplemented],
)
def test_an_untouched_starter_is_told_not_yet(name, starter):
    assert str(check(name, starter)) == f"{name}: not yet"


# Functions that misbehave


def raises(*args):
    raise ZeroDivisionError("seven by nothing\nand a second line")


def recurses(*args):
    return recurses(*args)


def flattens(*args):
    return EXERCISES["split_heads"].reference(*args).flatten()


def writes(x, n_heads):
    return EXERCISES["split_heads"].reference(x.mul_(1), n_heads).mul_(2)


def halves(*args):
    return EXERCISES["split_heads"].reference(*args).half()


def spoils(*args):
    return EXERCISES["split_heads"].reference(*args) * math.nan


def stumbles(x, n_heads):
    if n_heads == 1:
        raise ValueError("one head is none")
    return EXERCISES["split_heads"].reference(x, n_heads)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raises, "split_heads(x, n_heads) raised ZeroDivisionError: seven by nothing."),
        (recurses, "raised RecursionError: maximum recursion depth exceeded"),
        (lambda x: x, "raised TypeError: "),
        (lambda x, n: x.tolist(), "you returned a list of 2, wanted a tensor."),
        (lambda x, n: x.numpy(), "you returned a value of type ndarray, wanted a te"),
        (lambda x, n: "x", "you returned a value of type str, wanted a tensor."),
        (flattens, "you returned shape (210,), wanted (2, 3, 5, 7)."),
        (halves, "you returned torch.float16, wanted torch.float32."),
        (spoils, "On three heads, the result holds nan."),
        (lambda x, n: x.zero_(), "the function changes its arguments: work on a copy."),
        (writes, "On three heads, the function changes its arguments: work on a copy."),
        (
            stumbles,
            "Right on three heads and heads as wide as they are many, but on one head, "
            "the call split_heads(x, n_heads) raised ValueError: one head is none.",
        ),
        (split_by_loop(torch.zeros(2, 5, 21), 3), "give the function itself, not"),
    ],
)
def test_what_went_wrong_is_said_in_a_sentence(function, said):
    verdict = check("split_heads", function)
    assert not verdict
    assert said in verdict.text
    assert "\n" not in verdict.text


def test_a_result_of_several_parts_is_told_which_part_does_not_fit():
    verdict = check("convert", lambda mask: (mask == 0, mask == 1, mask))
    assert "of result 1, you returned shape (3, 5), wanted (3, 1, 1, 5)" in verdict.text
    assert (
        "a tuple of 2, wanted a tuple of 3" in check("convert", lambda m: (m, m)).text
    )


def test_numbers_and_truth_values_are_not_mixed_up():
    said = check("parameters", lambda d_model, d_ff: 3.5).text
    assert "you returned a value of type float, wanted a value of type int" in said
    assert not check("is_map", lambda weights: 1)


def test_an_unknown_exercise_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="no exercise 'attn', only positions, ratios"):
        check("attn", untouched)


def test_what_a_function_prints_stays_visible(capsys):
    def chatty(x, n_heads):
        print("cutting")
        return split_by_loop(x, n_heads)

    assert check("split_heads", chatty)
    assert capsys.readouterr().out == "cutting\n" * 3


# Discretion


@each_exercise
def test_the_answer_is_never_told(name):
    exercise = EXERCISES[name]
    wanted = exercise.reference(*next(iter(exercise.cases().values())))
    near = wanted * 1.5 if isinstance(wanted, torch.Tensor) else 17
    for wrong in (near, torch.full((2, 3), 0.5), "?", (1, 2, 3), True, False):
        text = check(name, lambda *args, wrong=wrong: wrong).text
        text = text.replace("sum 0.5", "").replace("sums of 0.99", "")  # of inputs
        assert not re.search(r"\d\.\d|tensor\(", text)
        assert name != "parameters" or f"{wanted}" not in text


@each_exercise
def test_checking_leaves_the_global_random_numbers_alone(name):
    def state():
        legacy = np.random.get_state()  # noqa: NPY002
        return torch.get_rng_state().tolist(), random.getstate(), legacy[1].tolist()

    before = state()
    check(name, EXERCISES[name].reference)
    check(name, lambda *args: torch.rand(2, 3))
    assert state() == before


@each_exercise
def test_the_same_function_gets_the_same_verdict(name):
    mutant = next(iter(EXERCISES[name].mutants.values()))
    assert repr(check(name, mutant)) == repr(check(name, deepcopy(mutant)))


def test_a_verdict_fits_a_page_and_keeps_its_sentence():
    verdict = check("attention", EXERCISES["attention"].reference)
    assert max(map(len, repr(verdict).splitlines())) <= 76
    assert repr(verdict).replace("\n", " ") == verdict.text


# Solutions


@pytest.mark.parametrize("chapter", NUMBERED, ids=lambda path: path.stem)
def test_every_exercise_has_its_solution_in_the_same_order(chapter):
    solutions = chapter.with_name(f"solutions_{chapter.stem[:2]}.ipynb")
    asked = re.findall(r":label: (ex-[\w-]+)", "\n".join(prose(chapter)))
    answered = re.findall(r"\{solution\} (ex-[\w-]+)", "\n".join(prose(solutions)))
    assert asked == answered != []


def test_every_check_of_the_book_is_of_a_known_exercise():
    called = set()
    for path in CHAPTERS:
        for cell in code_cells(path):
            called |= set(re.findall(r'\bcheck\("(\w+)"', cell.source))
    assert called == set(EXERCISES)


def test_the_readme_counts_the_checkers():
    assert f" {len(EXERCISES)} checkers" in (ROOT / "README.md").read_text()
