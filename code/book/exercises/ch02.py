"""Exercises of chapter 2: attention, what a map is, and matrices that find a place."""

import math
from functools import partial

import torch
from encoder import attention, sinusoidal_positions

from .exercise import Exercise, numbers, padding


def attend(query, key, value, blocked, divide=math.sqrt, dim=-1, fill=None, zero=1):
    """Attention, with a handle for each thing that may be wrong with it."""
    scores = query / divide(query.shape[-1]) @ key.transpose(-2, -1)
    lowest = torch.finfo(scores.dtype).min
    scores = scores.masked_fill(blocked, lowest if fill is None else fill)
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


ATTENTION = Exercise(
    name="attention",
    call="attention(query, key, value, blocked)",
    reference=lambda *args: attention(*args)[0],
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


IS_MAP = Exercise(
    name="is_map",
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


N_PLACES = 10


def walk(d_model, by=-1, speed=lambda column: 10000.0**-column):
    """Return the matrix (D, D) that turns the row of place t into that of t + by."""
    made = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        angle = by * speed(i / d_model)
        made[i, i] = made[i + 1, i + 1] = math.cos(angle)
        made[i + 1, i] = math.sin(angle)
        made[i, i + 1] = -math.sin(angle)
    return made


def neighbour(places, by=-1, strength=100.0, key_by=0, columns=None, **turn):
    """Return W_Q and W_K that find the place at a distance, with handles for faults."""
    d_model = places.shape[1]
    query, key = walk(d_model, by, **turn), walk(d_model, key_by)
    query[:, columns or d_model :] = 0.0
    return strength * query, key


def heard(made):
    """Return whom each place but the first hears most (T - 1), and over 0.9 or not."""
    query, key = (matrix.double() for matrix in made)
    places = sinusoidal_positions(N_PLACES, len(query))
    weights = attention(places @ query, places @ key, places)[1][1:]
    most = weights.max(dim=-1)
    return torch.stack((most.indices, most.values > 0.9))


def all_hear_the_first(places):
    query, key = torch.zeros(2, *[places.shape[1]] * 2)
    query[-1] = 1000 * places[0]  # the last clock's cosine is about 1 everywhere
    return query, key + torch.eye(len(key))


LEFT_NEIGHBOUR = Exercise(
    name="left_neighbour",
    call="left_neighbour(places)",
    reference=neighbour,
    judged=heard,
    cases=lambda: {
        f"{N_PLACES} places of {width} columns": (
            sinusoidal_positions(N_PLACES, width).float(),
        )
        for width in (16, 8, 32)
    },
    mutants={
        "Each place finds itself: let it ask with the row of the place before.": (
            partial(neighbour, by=0)
        ),
        "Each place finds its right neighbour: it steps forward, not back.": (
            partial(neighbour, by=1)
        ),
        "Each place finds the one two steps back.": partial(neighbour, by=-2),
        "Queries and keys both step back, so that each place finds itself.": (
            partial(neighbour, key_by=-1)
        ),
        "The keys step back, not the queries: each place finds its right neighbour.": (
            partial(neighbour, by=0, key_by=-1)
        ),
        "The left neighbour is largest, but under 0.9: make the scores larger.": (
            partial(neighbour, strength=3.0)
        ),
        "Each place hears most the one that fits least: a sign is turned.": (
            partial(neighbour, strength=-100.0)
        ),
        "You turned the first two columns alone: that clock is round in six places.": (
            partial(neighbour, columns=2)
        ),
        "You turned all clocks by one angle; each has a speed of its own.": (
            partial(neighbour, speed=lambda column: 1.0)
        ),
        "All places hear the first one: their queries are all the same.": (
            all_hear_the_first
        ),
        "All scores are zero: every place hears every other alike.": (
            partial(neighbour, strength=0.0)
        ),
    },
)
