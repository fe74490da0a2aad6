"""Exercises of chapter 4: the part itself; what a bend separates."""

import math
from functools import partial

import torch
from torch.nn import functional

from .exercise import Exercise, numbers


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


FEED_FORWARD = Exercise(
    name="feed_forward",
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


RINGS = Exercise(
    name="rings",
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
