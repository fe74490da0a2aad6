"""The exercises that `exercises.check` knows, each with the mistakes it recognises.

An exercise is a reference, named inputs, and mutants: wrong solutions, each under the
sentence that a reader who wrote one is told. Inputs come from generators of their own
and have prime sizes, so that no axis is mistaken for another.
"""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

import encoder
import torch
from torch import nn
from torch.nn import functional

from ..pitfalls import PITFALLS, exhibit


@dataclass(frozen=True)
class Exercise:
    """What is asked, and what may go wrong.

    `cases()` returns the arguments of each call under a name that reads well after
    "right on". `judged` is what counts in a result, where more than one is right.
    """

    call: str
    reference: Callable
    cases: Callable[[], dict[str, tuple]]
    mutants: dict[str, Callable]
    judged: Callable = field(default=lambda result: result)


EXERCISES: dict[str, Exercise] = {}


def numbers(*shape, seed=0, dtype=torch.float32):
    """Return normal numbers that leave the global generator alone."""
    own = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=own, dtype=torch.float64).to(dtype)


def padding(*lengths):
    """Return the padding mask (B, T) of sentences of these lengths, True = padding."""
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


# Chapter 1: the table of positions


def table(n_positions, d_model, base=10000.0, start=0, step=2, parts="sc"):
    """The table, with a handle for each thing that may be wrong with it."""
    t = torch.arange(start, n_positions + start, dtype=torch.float64)[:, None]
    columns = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = t / base ** (columns * step / 2 / d_model)
    made = {"s": angle.sin(), "c": angle.cos()}
    return torch.stack([made[part] for part in parts], dim=-1).flatten(1)


def own_angle_for_each_column(n_positions, d_model):
    t = torch.arange(n_positions, dtype=torch.float64)[:, None]
    column = torch.arange(d_model)
    angle = t / 10000.0 ** (column / d_model)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def halves(n_positions, d_model):
    made = table(n_positions, d_model)
    return torch.cat((made[:, 0::2], made[:, 1::2]), dim=1)


EXERCISES["positions"] = Exercise(
    call="positions(n_positions, d_model)",
    reference=encoder.sinusoidal_positions,
    cases=lambda: {
        "seven places": (7, 22),
        "a single pair of columns": (5, 2),
        "five hundred places": (503, 14),
    },
    mutants={
        "You took powers of 1000 where 10000 stands.": partial(table, base=1000.0),
        "You exchanged sine and cosine.": partial(table, parts="cs"),
        "You put a sine into every column.": partial(table, parts="ss"),
        "You put a cosine into every column.": partial(table, parts="cc"),
        "You put all the sines first, and the cosines behind them.": halves,
        "You gave every column an angle of its own; two share one.": (
            own_angle_for_each_column
        ),
        "You counted the places from 1; the first is place 0.": partial(table, start=1),
        "You left the 2 out of the exponent 2i/D.": partial(table, step=1),
        "You doubled the exponent: column 2i already holds the 2.": (
            partial(table, step=4)
        ),
        "You multiplied by the power of 10000; it divides.": partial(table, step=-2),
        "You gave every place a column; it is a row.": lambda n, d: table(n, d).T,
    },
)


# Chapter 2: attention, and what a map is

LOWEST = "lowest"  # the lowest number of the format, whatever the format


def attend(query, key, value, blocked, divide=math.sqrt, dim=-1, fill=LOWEST, zero=1):
    """Attention, with a handle for each thing that may be wrong with it."""
    scores = query / divide(query.shape[-1]) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    scores = scores.masked_fill(blocked, lowest if fill == LOWEST else fill)
    weights = scores.softmax(dim=dim)
    return (weights.masked_fill(blocked, 0.0) if zero else weights) @ value


def careless_softmax(query, key, value, blocked):
    grown = (query / math.sqrt(query.shape[-1]) @ key.transpose(-2, -1)).exp()
    grown = grown * ~blocked
    return grown / grown.sum(dim=-1, keepdim=True).clamp(min=1e-9) @ value


def weights_added_up_to_less(query, key, value, blocked):
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-2, -1)
    return scores.softmax(dim=-1) * ~blocked @ value


def mask_added(query, key, value, blocked):
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-2, -1)
    return (scores + blocked).softmax(dim=-1) @ value


def attention_cases():
    roles, wide = numbers(3, 2, 3, 5, 7), numbers(2, 3, 11, 7, seed=1)
    nothing, all_keys = torch.zeros(5, 5).bool(), torch.ones(5, 5).bool()
    some = torch.ones(2, 1, 5, 5).bool().triu(2) | padding(5, 3)[:, None, None]
    large = 300 * roles.double()
    return {
        "a plain batch": (*roles, nothing),
        "blocked keys": (*roles, some),
        "queries that may see no key": (*roles, all_keys),
        "more keys than queries": (roles[0], wide, wide, torch.zeros(5, 11).bool()),
        "large scores": (large[0], large[1], roles[2].double(), some),
        "float16": (*roles.half(), some | ~all_keys.triu()),
    }


EXERCISES["attention"] = Exercise(
    call="attention(query, key, value, blocked)",
    reference=lambda *args: encoder.attention(*args)[0],
    cases=attention_cases,
    mutants={
        "You did not divide the scores.": partial(attend, divide=lambda width: 1),
        "You divided by K; its root is wanted.": (
            partial(attend, divide=lambda width: width)
        ),
        "You divided by the root of D; a head is only K wide.": (
            lambda q, *rest: attend(
                q, *rest, divide=lambda width: math.sqrt(width * q.shape[1])
            )
        ),
        "You normalised over the queries; a query shares itself among keys.": (
            partial(attend, dim=-2)
        ),
        "You normalised over the heads.": partial(attend, dim=1),
        "You exchanged query and key.": lambda q, k, *rest: attend(k, q, *rest),
        "You read the mask the wrong way round: True is blocked.": (
            lambda q, k, v, blocked: attend(q, k, v, ~blocked)
        ),
        "You did not use the mask.": (
            lambda q, k, v, blocked: attend(q, k, v, torch.zeros_like(blocked))
        ),
        "You blocked queries, rows of the map; keys are its columns.": (
            lambda q, k, v, blocked: attend(q, k, v, blocked.transpose(-2, -1))
        ),
        "You blocked after the softmax: what is left adds up to less than 1.": (
            weights_added_up_to_less
        ),
        "You added the mask to the scores: True counts as 1, and 1 blocks nothing.": (
            mask_added
        ),
        "You filled with 0, which is a score like any other.": partial(attend, fill=0),
        "A query that may see no key gets nan: a row of -inf has no softmax.": (
            partial(attend, fill=-math.inf, zero=0)
        ),
        "A query that may see no key gets the mean of all values; it wants zeros.": (
            partial(attend, zero=0)
        ),
        "You filled with -1e9, which float16 does not hold.": partial(
            attend, fill=-1e9
        ),
        "You raised e to the scores as they are: take each row's maximum off first.": (
            careless_softmax
        ),
    },
)


def one(sums, off=1e-5):
    return bool(((sums - 1).abs() < off).all())


def is_map(weights):
    return bool((weights >= 0).all()) and one(weights.sum(dim=-1))


def map_cases():
    # Powers of two: their sums are exact on every machine, whatever the order.
    row = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625])
    turns = [0, 2, 1, 1, 4, 3, 3, 0, 2, 4, 1, 0, 2, 2, 3]
    right = torch.stack([row.roll(turn) for turn in 2 * turns]).unflatten(0, (2, 3, 5))
    one_bad, one_low = right.clone(), right.clone()
    one_bad[1, 2, 4] *= 0.5
    one_low[1, 2, 4, :2] += torch.tensor([1.0, -1.0])
    uneven = right * torch.tensor([0.5, 1.5, 1, 1, 1])[:, None]
    rounded = torch.tensor([[[[0.5, 0.5 + 2**-22], [0.5, 0.5]]]])  # in float32
    scores = numbers(2, 3, 5, 5)
    return {
        "positive weights that share out 1": (right,),
        "a map with blocked keys": (right.where(right != 0.5, 0.0).mul(2),),
        "a sum that rounding left beside 1": (rounded,),
        "a softmax over the queries": (scores.softmax(dim=-2),),
        "a softmax over the heads": (scores.softmax(dim=1),),
        "a weight below zero": (one_low,),
        "a single row of sum 0.5": (one_bad,),
        "sums that are 1 on the average": (uneven,),
        "weights of half the size": (right / 2,),
        "sums of 0.99": (right * 0.99,),
        "positive numbers": (scores.exp(),),
    }


EXERCISES["is_map"] = Exercise(
    call="is_map(weights)",
    reference=is_map,
    cases=map_cases,
    mutants={
        "You test the sums of the rows, and let weights below zero pass.": (
            lambda w: one(w.sum(dim=-1))
        ),
        "You test the signs, and not the sums.": lambda w: bool((w >= 0).all()),
        "You test that weights lie between 0 and 1, and not their sums.": (
            lambda w: bool(((w >= 0) & (w <= 1)).all())
        ),
        "You sum over the queries; a query shares itself among keys.": (
            lambda w: bool((w >= 0).all()) and one(w.sum(dim=-2))
        ),
        "You sum over the heads.": (
            lambda w: bool((w >= 0).all()) and one(w.sum(dim=1))
        ),
        "You want sums of exactly 1; rounding leaves them a hair beside it.": (
            lambda w: bool((w >= 0).all()) and bool((w.sum(dim=-1) == 1).all())
        ),
        "You want every weight above zero; a blocked key has exactly 0.": (
            lambda w: bool((w > 0).all()) and one(w.sum(dim=-1))
        ),
        "You test the average of the sums; every row has to add up to 1.": (
            lambda w: bool((w >= 0).all()) and one(w.sum(dim=-1).mean())
        ),
        "You look at the first head of the first sentence only.": (
            lambda w: is_map(w[0, 0])
        ),
        "You allow sums a hundredth beside 1, far more than rounding does.": (
            lambda w: bool((w >= 0).all()) and one(w.sum(dim=-1), off=0.02)
        ),
        "You say True to everything.": lambda w: True,
        "You say False to everything.": lambda w: False,
    },
)


# Chapter 3: splitting and merging


def split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


EXERCISES["split_heads"] = Exercise(
    call="split_heads(x, n_heads)",
    reference=split,
    cases=lambda: {
        "three heads": (numbers(2, 5, 21), 3),
        "one head": (numbers(2, 5, 7), 1),
        "heads as wide as they are many": (numbers(2, 5, 49), 7),
    },
    mutants={
        "You reshaped straight to (B, H, T, K): cut the rows first, then move.": (
            lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1)
        ),
        "You cut and did not move: heads stand before tokens.": (
            lambda x, n: x.unflatten(-1, (n, -1))
        ),
        "You cut the row into K heads of width H.": (
            lambda x, n: split(x, x.shape[-1] // n)
        ),
        "You dealt the features out like cards; a head gets neighbours.": (
            lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2)
        ),
        "You moved heads in front of the batch.": (
            lambda x, n: x.unflatten(-1, (n, -1)).permute(2, 0, 1, 3)
        ),
        "You turned every head over, to (K, T).": lambda x, n: split(x, n).mT,
        "You folded the heads into the batch.": lambda x, n: split(x, n).flatten(0, 1),
        "You put the heads in the opposite order.": lambda x, n: split(x, n).flip(1),
        "You gave every head the whole row.": (
            lambda x, n: x[:, None].expand(-1, n, -1, -1)
        ),
    },
)

EXERCISES["merge_heads"] = Exercise(
    call="merge_heads(heads)",
    reference=lambda heads: heads.transpose(1, 2).flatten(2),
    cases=lambda: {
        "three heads": (numbers(2, 3, 5, 7),),
        "one head": (numbers(2, 1, 5, 7),),
        "as many heads as tokens": (numbers(2, 5, 5, 3),),
    },
    mutants={
        "You reshaped without moving the heads back: rows of two tokens mix.": (
            lambda h: h.reshape(h.shape[0], h.shape[2], -1)
        ),
        "You moved the features in front of the heads: heads interleave.": (
            lambda h: h.permute(0, 2, 3, 1).flatten(2)
        ),
        "You joined tokens and features; heads and features go together.": (
            lambda h: h.flatten(2)
        ),
        "You moved the heads back and did not join them.": lambda h: h.transpose(1, 2),
        "You joined the heads behind one another as tokens.": lambda h: h.flatten(1, 2),
        "You added the heads up; they stand side by side.": lambda h: h.sum(dim=1),
        "You took the mean of the heads; they stand side by side.": (
            lambda h: h.mean(dim=1)
        ),
        "You put the heads in the opposite order.": (
            lambda h: h.flip(1).transpose(1, 2).flatten(2)
        ),
        "You exchanged tokens and features.": lambda h: h.transpose(1, 2).flatten(2).mT,
    },
)


def unpack(weight, n_heads, layout, rows_of_a_head=None):
    """Cut 3D rows into query, key and value, roles first or heads first."""
    if layout == "roles first":
        return weight.chunk(3)
    cut = weight.unflatten(0, (rows_of_a_head or n_heads, 3, -1))  # (H, 3, K, D)
    return tuple(cut.transpose(0, 1).flatten(1, 2))


def in_order(*order):
    return lambda *args: tuple(unpack(*args)[i] for i in order)


EXERCISES["unpack"] = Exercise(
    call="unpack(weight, n_heads, layout)",
    reference=unpack,
    cases=lambda: {
        "roles first": (numbers(63, 21), 3, "roles first"),
        "heads first": (numbers(63, 21), 3, "heads first"),
        "one head": (numbers(21, 7), 1, "heads first"),
    },
    mutants={
        "You read both layouts as roles first.": lambda w, n, _: w.chunk(3),
        "You read both layouts as heads first.": (
            lambda w, n, _: unpack(w, n, "heads first")
        ),
        "You exchanged the two layouts.": (
            lambda w, n, layout: unpack(
                w, n, {"roles first": ""}.get(layout, "roles first")
            )
        ),
        "You exchanged query and key.": in_order(1, 0, 2),
        "You exchanged key and value.": in_order(0, 2, 1),
        "You returned the matrices in the opposite order.": in_order(2, 1, 0),
        "You turned the matrices over.": lambda *args: tuple(
            m.mT for m in unpack(*args)
        ),
        "You took every third row; a role's rows come in blocks.": (
            lambda w, n, _: (w[0::3], w[1::3], w[2::3])
        ),
        "You cut the columns; the roles lie in the rows.": (
            lambda w, n, _: w.chunk(3, dim=1)
        ),
        "You cut heads first into K heads of width H.": (
            lambda w, n, layout: unpack(w, n, layout, w.shape[1] // n)
        ),
        "You left heads and rows as two axes: flatten them.": (
            lambda w, n, layout: tuple(
                m.unflatten(0, (n, -1)) for m in unpack(w, n, layout)
            )
        ),
    },
)


# Chapter 4: the part itself


def feed(x, up, up_bias, down, down_bias, bend=torch.relu):
    """Widen each token, bend, come back: torch's layout, a row makes one number."""
    return functional.linear(bend(functional.linear(x, up, up_bias)), down, down_bias)


def feed_cases():
    def arguments(d_model, d_ff, *shape):
        sizes = (*shape, d_model), (d_ff, d_model), d_ff, (d_model, d_ff), d_model
        return tuple(
            numbers(*(size if isinstance(size, tuple) else (size,)), seed=seed)
            for seed, size in enumerate(sizes)
        )

    return {
        "a batch": arguments(7, 11, 2, 5),
        "one sentence": arguments(7, 11, 5),
        "one token": arguments(7, 11, 1, 1),
    }


EXERCISES["feed_forward"] = Exercise(
    call="feed_forward(x, up, up_bias, down, down_bias)",
    reference=feed,
    cases=feed_cases,
    mutants={
        "You left out the bend: the two maps are one.": partial(feed, bend=lambda h: h),
        "You bent after the second map; the bend stands between the two.": (
            lambda x, *maps: feed(x, *maps, bend=lambda h: h).relu()
        ),
        "You bent before the first map; the bend stands between the two.": (
            lambda x, *maps: feed(x.relu(), *maps, bend=lambda h: h)
        ),
        "You kept what is negative and cut what is positive.": (
            partial(feed, bend=lambda h: h.clamp(max=0))
        ),
        "You took the absolute value; ReLU gives zero below zero.": (
            partial(feed, bend=torch.abs)
        ),
        "You bent with GELU, not with ReLU.": partial(feed, bend=functional.gelu),
        "You bent with a sigmoid, not with ReLU.": partial(feed, bend=torch.sigmoid),
        "You put a softmax in place of ReLU.": (
            partial(feed, bend=lambda h: h.softmax(dim=-1))
        ),
        "You forgot the bias of the first map.": (
            lambda x, up, _, *rest: feed(x, up, None, *rest)
        ),
        "You forgot the bias of the second map.": (
            lambda x, up, bias, down, _: feed(x, up, bias, down, None)
        ),
        "You added the first bias after the bend; it decides what is bent.": (
            lambda x, up, bias, *rest: feed(
                x, up, None, *rest, bend=lambda h: h.relu() + bias
            )
        ),
        "You added the input; the residual is the layer's business.": (
            lambda x, *maps: x + feed(x, *maps)
        ),
        "You averaged over the tokens; each is to be treated alone.": (
            lambda x, *maps: feed(x.mean(dim=-2, keepdim=True).expand_as(x), *maps)
        ),
    },
)


# Chapter 4: what a bend separates


def affine(n_in, n_out, seed):
    """Return a linear map with a bias that is not zero."""
    weight, bias = numbers(n_out, n_in, seed=seed), numbers(n_out, seed=seed + 1)
    return lambda x: functional.linear(x, weight.to(x), bias.to(x))


def two_maps(d_model, d_ff):
    return affine(d_model, d_ff, seed=2), affine(d_ff, d_model, seed=4)


def arrows(*degrees, lengths=(1, 1, 1)):
    """Return three directions in the plane, as the columns of (2, 3)."""
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack((angle.cos(), angle.sin())) * torch.tensor(lengths)


def separate_rings(directions):
    """Do three ReLU units and a sum put the outer ring above the inner one?"""
    angle = torch.arange(720, dtype=torch.float64) * math.pi / 360
    circle = torch.stack((angle.cos(), angle.sin()), dim=1)
    inner = (circle @ directions.to(circle)).relu().sum(dim=1)
    return bool(2 * inner.min() > inner.max() + 1e-6)  # the outer is twice as large


EXERCISES["rings"] = Exercise(
    call="rings()",
    reference=partial(arrows, 90, 210, 330),
    judged=lambda made: separate_rings(made),
    cases=lambda: {"both rings": ()},
    mutants={
        "Your arrows point the same way: half the plane is not seen.": (
            partial(arrows, 90, 90, 90)
        ),
        "Your arrows at 0, 90 and 180 degrees leave the points below unseen.": (
            partial(arrows, 0, 90, 180)
        ),
        "Your arrows at 90, 180 and 270 degrees leave points to the right unseen.": (
            partial(arrows, 90, 180, 270)
        ),
        "Your arrows at 0, 60 and 120 degrees share out half a turn, not one.": (
            partial(arrows, 0, 60, 120)
        ),
        "One of your arrows points the opposite way.": partial(arrows, 90, 210, 150),
        "You gave degrees to functions that want radians.": (
            partial(arrows, *map(math.degrees, (90, 210, 330)))
        ),
        "One of your arrows is three times as long as the others.": (
            partial(arrows, 90, 210, 330, lengths=(3, 1, 1))
        ),
        "Two opposite arrows see one direction, and nothing across it.": (
            partial(arrows, 90, 270, 0, lengths=(1, 1, 0))
        ),
        "Your arrows have no length.": partial(arrows, 0, 0, 0, lengths=(0, 0, 0)),
        "Your arrows are the rows; they are wanted as columns, (2, 3).": (
            lambda: arrows(90, 210, 330).mT
        ),
    },
)


# Chapter 5: the norm, and where it stands


def norm(x, eps, dim=-1, divisor=lambda size: size, centre=True, power=0.5):
    """LayerNorm, with a handle for each thing that may be wrong with it."""
    size = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    centred = x - x.mean(dim=dim, keepdim=True)
    squares = (centred if centre else x).square().sum(dim=dim, keepdim=True)
    variance = squares / divisor(size)
    return (centred if centre else x) / (variance + eps) ** power


def spread(x):
    return x.std(dim=-1, keepdim=True, correction=0)


def norm_cases():
    x = numbers(2, 5, 13, dtype=torch.float64)
    return {
        "a plain batch": (x, 1e-5),
        "numbers around 100": (x + 100, 1e-5),
        "numbers near zero": (x / 1000, 1e-5),
        "a large eps": (x, 0.1),
        "tokens of equal numbers": (torch.full_like(x, 2.0), 1e-5),
    }


EXERCISES["layer_norm"] = Exercise(
    call="layer_norm(x, eps)",
    reference=lambda x, eps: functional.layer_norm(x, x.shape[-1:], eps=eps),
    cases=norm_cases,
    mutants={
        "You divided the variance by D - 1; LayerNorm divides by D.": (
            partial(norm, divisor=lambda size: size - 1)
        ),
        "You did not divide the sum of squares by D.": (
            partial(norm, divisor=lambda size: 1)
        ),
        "You put eps outside the root; it is added to the variance.": (
            lambda x, eps: (x - x.mean(dim=-1, keepdim=True)) / (spread(x) + eps)
        ),
        "You left eps out: a token of equal numbers is divided by zero.": (
            lambda x, eps: norm(x, 0.0)
        ),
        "You did not use the eps that was given.": lambda x, eps: norm(x, 1e-5),
        "You did not take the mean off: this is RMSNorm.": partial(norm, centre=False),
        "You took the mean off and did not divide.": (
            lambda x, eps: x - x.mean(dim=-1, keepdim=True)
        ),
        "You divided by the variance; its root is wanted.": partial(norm, power=1),
        "You took the mean over the tokens; each token has its own.": (
            partial(norm, dim=-2)
        ),
        "You took the mean over the batch: that is near BatchNorm.": (
            partial(norm, dim=(0, 1))
        ),
        "You took one mean for all tokens of a sentence.": partial(norm, dim=(1, 2)),
        "You divided, and forgot that the mean goes off first.": (
            lambda x, eps: x / (spread(x) ** 2 + eps).sqrt()
        ),
    },
)


def layer(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        x = x + attend(norm1(x))
        return x + feed(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + feed(x))


def with_order(order):
    return lambda *args: layer(*args[:-1], order(args[-1]))


def without_residual(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return feed(norm2(attend(norm1(x))))
    return norm2(feed(norm1(attend(x))))


def residual_behind_the_norm(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return layer(x, attend, feed, norm1, norm2, True)
    x = x + norm1(attend(x))
    return x + norm2(feed(x))


def residual_of_the_normed(x, attend, feed, norm1, norm2, norm_first):
    if not norm_first:
        return layer(x, attend, feed, norm1, norm2, False)
    x = norm1(x)
    x = norm2(x + attend(x))
    return x + feed(x)


def side_by_side(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return x + attend(norm1(x)) + feed(norm2(x))
    return norm2(norm1(x + attend(x)) + feed(x))


def layer_cases():
    gains = [numbers(7, seed=seed).exp() for seed in (2, 4, 6, 8)]
    norm1 = partial(scaled_norm, gain=gains[0], shift=gains[1])
    norm2 = partial(scaled_norm, gain=gains[2], shift=gains[3])
    mixing, up, down = numbers(5, 5, seed=3), *two_maps(7, 11)
    parts = (lambda x: mixing @ x), (lambda x: down(up(x).relu())), norm1, norm2
    x = numbers(2, 5, 7)
    return {"Post-LN": (x, *parts, False), "Pre-LN": (x, *parts, True)}


def scaled_norm(x, gain, shift):
    return functional.layer_norm(x, x.shape[-1:]) * gain + shift


EXERCISES["encoder_layer"] = Exercise(
    call="encoder_layer(x, attend, feed, norm1, norm2, norm_first)",
    reference=layer,
    cases=layer_cases,
    mutants={
        "You built Post-LN both times.": with_order(lambda norm_first: False),
        "You built Pre-LN both times.": with_order(lambda norm_first: True),
        "You exchanged Post-LN and Pre-LN.": with_order(
            lambda norm_first: not norm_first
        ),
        "You left out both residuals.": without_residual,
        "In Post-LN you normed the part; the sum is normed.": residual_behind_the_norm,
        "In Pre-LN you added the normed tokens; the bare ones are added.": (
            residual_of_the_normed
        ),
        "The feed-forward network got the layer's input, not what attention left.": (
            side_by_side
        ),
        "The feed-forward network came first.": (
            lambda x, attend, feed, *rest: layer(x, feed, attend, *rest)
        ),
        "You exchanged the two norms.": (
            lambda x, attend, feed, norm1, norm2, first: layer(
                x, attend, feed, norm2, norm1, first
            )
        ),
        "You used the first norm twice.": (
            lambda x, attend, feed, norm1, norm2, first: layer(
                x, attend, feed, norm1, norm1, first
            )
        ),
        "You normed the output of Pre-LN: the last norm belongs to the stack.": (
            lambda x, attend, feed, norm1, norm2, first: (
                norm2(layer(x, attend, feed, norm1, norm2, first))
                if first
                else layer(x, attend, feed, norm1, norm2, first)
            )
        ),
        "You left out attention.": (
            lambda x, attend, *rest: layer(x, torch.zeros_like, *rest)
        ),
    },
)


# Chapter 6: masks, and what is read under them


def convert(attention_mask, value=torch.finfo(torch.float32).min):
    """Return a tokenizer's mask (B, T) as padding, as visible keys, and to be added."""
    word = attention_mask == 1
    visible = word[:, None, None]  # (B, 1, 1, T)
    additive = torch.zeros(visible.shape).masked_fill(~visible, value)
    return ~word, visible, additive


def converted(change):
    """Return a mutant that changes the three right masks."""
    return lambda attention_mask: change(*convert(attention_mask))


EXERCISES["convert"] = Exercise(
    call="convert(attention_mask)",
    reference=convert,
    cases=lambda: {
        "sentences of unequal length": ((~padding(5, 3, 2)).long(),),
        "a batch without padding": ((~padding(7, 7)).long(),),
    },
    mutants={
        "Your key_padding_mask is the wrong way round: True is padding.": (
            converted(lambda is_pad, visible, added: (~is_pad, visible, added))
        ),
        "Your second mask is the wrong way round: there, True is seen.": (
            converted(lambda is_pad, visible, added: (is_pad, ~visible, added))
        ),
        "Both of your boolean masks are the wrong way round.": (
            converted(lambda is_pad, visible, added: (~is_pad, ~visible, added))
        ),
        "All three of your masks are the wrong way round.": lambda m: convert(1 - m),
        "Your third mask hides the words.": (
            lambda m: (*convert(m)[:2], convert(1 - m)[2])
        ),
        "You add -inf: where all is padding, the softmax is nan.": (
            partial(convert, value=-math.inf)
        ),
        "You add -1e9: take the lowest number of the format.": (
            partial(convert, value=-1e9)
        ),
        "You add 1 for a word and 0 for padding, which hides nothing.": (
            lambda m: (*convert(m)[:2], m[:, None, None].float())
        ),
        "You add -1 for padding, which hides next to nothing.": (
            partial(convert, value=-1.0)
        ),
        "Your masks lie along the queries; padding is a key: (B, 1, 1, T).": (
            converted(lambda is_pad, visible, added: (is_pad, visible.mT, added.mT))
        ),
        "Your masks lack the axes of heads and queries: (B, 1, 1, T).": (
            converted(
                lambda is_pad, visible, added: (
                    is_pad,
                    visible[:, 0, 0],
                    added[:, 0, 0],
                )
            )
        ),
        "Your key_padding_mask holds integers; it must be bool.": (
            converted(lambda is_pad, visible, added: (is_pad.long(), visible, added))
        ),
    },
)


def pooling_cases():
    hidden = numbers(3, 7, 5)
    return {
        "a batch without padding": (hidden, padding(7, 7, 7)),
        "sentences of unequal length": (hidden, padding(7, 4, 1)),
        "padding in front": (hidden, padding(7, 4, 1).flip(1)),
        "entries around -20": (hidden - 20, padding(7, 4, 2)),
        "large numbers in the padded places": (
            hidden.masked_fill(padding(7, 4, 2)[..., None], 1000.0),
            padding(7, 4, 2),
        ),
    }


def highest(hidden, is_pad, fill=-math.inf):
    return hidden.masked_fill(is_pad[..., None], fill).amax(dim=1)


EXERCISES["max_of_words"] = Exercise(
    call="max_of_words(hidden, is_pad)",
    reference=highest,
    cases=pooling_cases,
    mutants={
        "You took the maximum of all places.": lambda h, p: h.amax(dim=1),
        "You took the maximum of the padded places.": lambda h, p: highest(h, ~p),
        "You filled with 0, and a word's entry may be below it.": (
            partial(highest, fill=0.0)
        ),
        "You filled with -10; some entry will be lower.": partial(highest, fill=-10.0),
        "You filled with 1e9, which is always the largest.": partial(highest, fill=1e9),
        "You took the minimum.": (
            lambda h, p: h.masked_fill(p[..., None], math.inf).amin(dim=1)
        ),
        "You took the maximum over the features.": (
            lambda h, p: h.masked_fill(p[..., None], -math.inf).amax(dim=2)
        ),
        "You took the entry of the largest size and lost its sign.": (
            lambda h, p: h.abs().masked_fill(p[..., None], 0.0).amax(dim=1)
        ),
        "You took the places of the maxima; their values are wanted.": (
            lambda h, p: h.masked_fill(p[..., None], -math.inf).argmax(dim=1)
        ),
        "You took one maximum over the words of all sentences.": (
            lambda h, p: highest(h, p).amax(dim=0).expand(len(h), -1)
        ),
        "You returned values and places: max gives both, amax the values alone.": (
            lambda h, p: tuple(h.masked_fill(p[..., None], -math.inf).max(dim=1))
        ),
    },
)


# Chapter 7: counting, comparing, sharing


def parameters(D, F, maps=4, widths=2, norms=4, biases=1, output_bias=1):
    """Count a layer, with a handle for each thing that may be wrong with it."""
    in_attention = maps * (D * D + biases * D)
    in_feed_forward = widths * D * F + biases * (F + output_bias * D)
    return in_attention + in_feed_forward + norms * D


EXERCISES["parameters"] = Exercise(
    call="parameters(d_model, d_ff)",
    reference=parameters,
    cases=lambda: {
        "a width of 64": (64, 256),
        "the widths of the paper": (512, 2048),
        "an unusual pair of widths": (7, 13),
    },
    mutants={
        "You left out the biases.": partial(parameters, biases=0),
        "You left out the norms.": partial(parameters, norms=0),
        "You counted one norm; a layer has two.": partial(parameters, norms=2),
        "You counted three norms; a layer has two.": partial(parameters, norms=6),
        "You counted three maps in attention: the output map is the fourth.": (
            partial(parameters, maps=3)
        ),
        "You counted one matrix in the feed-forward network; it goes up and down.": (
            partial(parameters, widths=1)
        ),
        "You left out the bias of the map down.": partial(parameters, output_bias=0),
        "You left out biases and norms: a good estimate, not a count.": (
            partial(parameters, biases=0, norms=0)
        ),
        "You took F to be four times D.": lambda D, F: parameters(D, 4 * D),
        "You forgot attention.": partial(parameters, maps=0),
        "You forgot the feed-forward network.": lambda D, F: 4 * (D * D + D) + 4 * D,
        "You exchanged D and F.": lambda D, F: parameters(F, D),
    },
)


class Altered(nn.Module):
    """A layer whose output is changed on its way out, by f(output, padding)."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x, key_padding_mask=None, need_weights=False):
        out, weights = self.inner(x, key_padding_mask, need_weights)
        return self.change(out, key_padding_mask), weights


def clear(out, is_pad):
    return out if is_pad is None else out.masked_fill(is_pad[..., None], 0.0)


class Deaf(encoder.EncoderLayer):
    """A layer that does not listen to its mask."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        return super().forward(x, None, need_weights)


def a_layer(make=encoder.EncoderLayer, **changes):
    """Return a layer of the chapter's sizes with weights that no start would give."""
    made = make(64, 4, 256, **changes).eval().requires_grad_(False)
    for seed, parameter in enumerate(made.parameters()):
        parameter.copy_(numbers(*parameter.shape, seed=seed) / 8)
    return made


def layer_pairs():
    ours = a_layer()
    copies = {"a copy": deepcopy(ours), "one with query and value exchanged": a_layer()}
    copies["one that does not listen to the mask"] = a_layer(Deaf)
    copies["one in the other order"] = a_layer(norm_first=True)
    copies["one with GELU"] = a_layer(activation=functional.gelu)
    for theirs in copies.values():
        theirs.load_state_dict(ours.state_dict())
    heads = copies["one with query and value exchanged"].attention
    heads.query, heads.value = heads.value, heads.query
    copies["a copy that rounds otherwise"] = Altered(ours, lambda out, _: out + 1e-6)
    copies["a copy that clears the padded places"] = Altered(ours, clear)
    copies["one that is off by 0.01"] = Altered(ours, lambda out, _: out + 0.01)
    return {name: (ours, theirs) for name, theirs in copies.items()}


def same_box(ours, theirs, lengths=(11, 7), near=1e-5, everywhere=False):
    is_pad = padding(*lengths)
    x = numbers(*is_pad.shape, 64)
    one, other = (box(x, is_pad)[0] for box in (ours, theirs))
    read = torch.ones_like(is_pad) if everywhere else ~is_pad
    gap = (one - other)[read].abs()
    return bool(gap.max() <= near)


def same_weights(ours, theirs):
    one, other = ours.state_dict(), theirs.state_dict()
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


def same_shape(ours, theirs):
    x = numbers(2, 11, 64)
    return ours(x)[0].shape == theirs(x)[0].shape


EXERCISES["same_box"] = Exercise(
    call="same_box(ours, theirs)",
    reference=same_box,
    cases=layer_pairs,
    mutants={
        "You compare shapes, and all of these layers have the same.": same_shape,
        "You compare weights: what is done with them may differ.": same_weights,
        "Your input has no padding, so nobody has to listen to a mask.": (
            partial(same_box, lengths=(11, 11))
        ),
        "You compare padded places too, and nobody reads those.": (
            partial(same_box, everywhere=True)
        ),
        "You want equal numbers; rounding leaves them a hair apart.": (
            partial(same_box, near=0.0)
        ),
        "You allow a difference that rounding does not make.": partial(
            same_box, near=0.1
        ),
        "You compare the average of the outputs, where differences cancel.": (
            lambda ours, theirs: abs(average(ours) - average(theirs)) < 0.005
        ),
        "You compare the classes.": lambda ours, theirs: type(ours) is type(theirs),
        "You look for the same object.": lambda ours, theirs: ours is theirs,
    },
)


def average(box):
    return box(numbers(2, 11, 64), padding(11, 7))[0].mean().item()


def small_layer(seed):
    made = encoder.EncoderLayer(4, 2, 8)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(numbers(*parameter.shape, seed=seed))
    return made


def stacks():
    a, b, c = map(small_layer, (1, 2, 3))
    sharing = small_layer(4)
    for name in ("attention", "feed_forward", "norm1", "norm2"):
        setattr(sharing, name, getattr(a, name))
    lists = {
        "one layer six times": [a] * 6,
        "six copies": [deepcopy(a) for _ in range(6)],
        "three layers that start apart": [a, b, c],
        "a layer that comes back later": [a, b, a],
        "two layers of which one comes twice": [a, b, b],
        "two layers that hold the same parameters": [a, sharing, c],
        "a single layer": [b],
    }
    return {name: (nn.ModuleList(layers),) for name, layers in lists.items()}


def first(layer):
    return next(layer.parameters())


def separate(stack):
    return len({id(first(layer)) for layer in stack})


EXERCISES["separate"] = Exercise(
    call="separate(stack)",
    reference=separate,
    cases=stacks,
    mutants={
        "You counted the layers, shared or not.": len,
        "You compared values: copies are equal and not the same.": (
            lambda stack: len({str(first(layer).tolist()) for layer in stack})
        ),
        "You compared each layer with the one before it only.": (
            lambda stack: (
                1 + sum(first(a) is not first(b) for a, b in zip(stack, stack[1:]))
            )
        ),
        "You compared each layer with the first one only.": (
            lambda stack: 1 + sum(first(each) is not first(stack[0]) for each in stack)
        ),
        "You compared layers; two of them may hold the same parameters.": (
            lambda stack: len(set(stack))
        ),
        "You counted parameters; layers were asked for.": (
            lambda stack: len(set(stack.parameters()))
        ),
        "You counted the layers that are shared.": (
            lambda stack: len(stack) - separate(stack)
        ),
        "You counted numbers; layers were asked for.": (
            lambda stack: sum(p.numel() for p in stack.parameters())
        ),
        "You counted names: a shared layer has one for each of its places.": (
            lambda stack: len(stack.state_dict())
        ),
        "You counted one layer whatever came.": lambda stack: 1,
    },
)


# Chapter 9: what an encoder must not notice


class Hears(nn.Module):
    """An encoder to which something of the padded tokens is added on the way out."""

    def __init__(self, inner, how, share):
        super().__init__()
        self.inner, self.how, self.share = inner, how, share

    def forward(self, ids, padding=None):
        out, weights = self.inner(ids, padding)
        x = self.inner.embedding(ids)
        return out + self.share * self.how(x, padding), weights


def next_token(x, padding):
    return functional.pad(x[:, 1:], (0, 0, 0, 1))


def mean_of_padding(x, padding):
    blank = torch.zeros_like(x[..., :1]) if padding is None else padding[..., None]
    return (x * blank).mean(dim=1, keepdim=True)


def healthy():
    return PITFALLS["queries masked"].right()


def hears(how, share):
    return Hears(healthy(), how, share).eval()


def leak_cases():
    ids, is_pad = PITFALLS["queries masked"].inputs()
    names = "mask the wrong way round", "mask in first layer only", "queries masked"
    models = {"the right encoder": healthy()}
    models |= {f"the exhibit '{name}'": exhibit(name) for name in names}
    models["one in which tokens hear the next"] = hears(next_token, 1.0)
    models["one that leaks a little"] = hears(mean_of_padding, 0.1)
    models["one that rounds otherwise"] = hears(mean_of_padding, 1e-6)
    cases = {name: (model, ids, is_pad) for name, model in models.items()}
    full = ids.clamp(min=1), torch.zeros_like(is_pad)
    return cases | {"a batch without padding": (exhibit("mask added as ones"), *full)}


def out_of(model, ids, is_pad):
    with torch.no_grad():
        return model(ids, is_pad)[0]


def leaks(model, ids, is_pad, change=22, read=None, near=1e-4, mask=True, words=0):
    """Do words notice what padding holds? A handle for each thing that may be wrong."""
    other = ids.masked_fill(is_pad, change)
    other = other.roll(words, dims=1) if words else other
    given = is_pad if mask else None
    far = (out_of(model, ids, given) - out_of(model, other, given)).abs()
    far = far.amax(dim=-1)[~is_pad if read is None else read(is_pad)]
    return bool(far.amax() > near)


EXERCISES["leaks"] = Exercise(
    call="leaks(model, ids, is_pad)",
    reference=leaks,
    cases=leak_cases,
    mutants={
        "You compare padded places too, which may change: nobody reads them.": (
            partial(leaks, read=torch.ones_like)
        ),
        "You look at the first word of each sentence; a later one may hear more.": (
            partial(leaks, read=lambda is_pad: first_words(is_pad))
        ),
        "You wrote what stood there already: padding is 0.": partial(leaks, change=0),
        "You moved the words, too: only the padding may change.": (
            partial(leaks, words=1)
        ),
        "You gave no mask, so that the padding counts as words.": (
            partial(leaks, mask=False)
        ),
        "You want equal numbers; rounding leaves them a hair apart.": (
            partial(leaks, near=0.0)
        ),
        "You allow a difference that rounding does not make.": partial(leaks, near=0.5),
        "You answer the opposite: True is a leak.": lambda *args: not leaks(*args),
        "You returned how far outputs move; True or False is wanted.": (
            lambda model, ids, is_pad: (
                (out_of(model, ids, is_pad) - out_of(model, ids | 1, is_pad))
                .abs()
                .max()
            )
        ),
    },
)


def first_words(is_pad):
    return (torch.arange(is_pad.shape[1]) == 0).expand_as(is_pad)


def company_cases():
    ids, is_pad = PITFALLS["queries masked"].inputs()
    names = "batch taken for time", "norm over the batch", "positions along the batch"
    models = {"the right encoder": healthy()}
    models |= {f"the exhibit '{name}'": exhibit(name) for name in names}
    models["the exhibit 'norm over tokens'"] = exhibit("norm over tokens")
    models["one that hears its neighbours a little"] = Company(healthy(), 0.01).eval()
    models["one that rounds otherwise"] = Company(healthy(), 1e-6).eval()
    cases = {name: (model, ids, is_pad) for name, model in models.items()}
    return cases | {
        "a batch of one": (exhibit("norm over the batch"), ids[:1], is_pad[:1])
    }


class Company(nn.Module):
    """An encoder to which a share of the batch's spread is added."""

    def __init__(self, inner, share):
        super().__init__()
        self.inner, self.share = inner, share

    def forward(self, ids, padding=None):
        out, weights = self.inner(ids, padding)
        return out + self.share * (out - out.mean(dim=0, keepdim=True)), weights


def alone(model, ids, is_pad, rows=slice(None), near=1e-4, cut=False):
    """Is each sentence read as if it were alone? With a handle for each slip."""
    together = out_of(model, ids, is_pad)
    for i in range(len(ids))[rows]:
        n = int((~is_pad[i]).sum()) if cut else ids.shape[1]
        one = out_of(model, ids[i : i + 1, :n], is_pad[i : i + 1, :n])[0]
        words = ~is_pad[i, :n]
        if (together[i, :n] - one)[words].abs().amax() > near:
            return False
    return True


def beside(change):
    """Return a mutant that compares with another batch, not with one sentence."""

    def compare(model, ids, is_pad):
        one, other = (
            out_of(model, *pair) for pair in ((ids, is_pad), change(ids, is_pad))
        )
        return bool(
            (one - change(other, is_pad)[0][: len(ids)])[~is_pad].abs().max() < 1e-4
        )

    return compare


def without_mask(model, ids, is_pad):
    together = out_of(model, ids, is_pad)
    apart = torch.cat([out_of(model, row[None], None) for row in ids])
    return bool((together - apart)[~is_pad].abs().max() < 1e-4)


EXERCISES["alone"] = Exercise(
    call="alone(model, ids, is_pad)",
    reference=alone,
    cases=company_cases,
    mutants={
        "You answer the opposite: True is a sentence left alone.": (
            lambda *args: not alone(*args)
        ),
        "You look at the first sentence only.": partial(alone, rows=slice(0, 1)),
        "You cut each sentence to its words, and so change its padding too.": (
            partial(alone, cut=True)
        ),
        "You gave no mask, so that the padding counts as words.": without_mask,
        "You compare with the batch twice over, whose statistics are the same.": (
            beside(lambda ids, is_pad: (torch.cat((ids, ids)), is_pad.repeat(2, 1)))
        ),
        "You compare with the batch in reverse, whose statistics are the same.": (
            beside(lambda ids, is_pad: (ids.flip(0), is_pad.flip(0)))
        ),
        "You allow a difference that rounding does not make.": partial(alone, near=0.5),
        "You returned how far they lie apart; True or False is wanted.": (
            lambda model, ids, is_pad: (
                (out_of(model, ids, is_pad)[:1] - out_of(model, ids[:1], is_pad[:1]))
                .abs()
                .max()
            )
        ),
    },
)
