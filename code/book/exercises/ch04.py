"""Exercises of chapter 4: its share of a layer; the part; what a bend can do."""

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


def share(D, F, maps=4, widths=2, norms=4, biases=1):
    """Return the part's share of a layer, with a handle for each thing to count."""
    feed_forward = widths * D * F + biases * (F + D)
    attention = maps * (D * D + biases * D)
    return feed_forward / (feed_forward + attention + norms * D)


SHARE = Exercise(
    name="share",
    call="share(d_model, d_ff)",
    reference=share,
    judged=lambda made: round(float(made), 9),
    cases=lambda: {
        "the widths of the first page's encoder": (16, 32),
        "the widths of the paper": (512, 2048),
        "an unusual pair of widths": (7, 13),
    },
    mutants={
        "You left out biases and norms: a good estimate, not a count.": (
            partial(share, norms=0, biases=0)
        ),
        "You left out the biases.": partial(share, biases=0),
        "You left out the norms.": partial(share, norms=0),
        "You counted one norm; a layer has two.": partial(share, norms=2),
        "You counted three maps in attention: the output map is the fourth.": (
            partial(share, maps=3)
        ),
        "You counted one matrix in the feed-forward network; it goes up and down.": (
            partial(share, widths=1)
        ),
        "You took F to be four times D.": lambda D, F: share(D, 4 * D),
        "You exchanged D and F.": lambda D, F: share(F, D),
        "That is the share of all the rest; the feed-forward network's is asked.": (
            lambda D, F: 1 - share(D, F)
        ),
        "You divided by the rest of the layer, not by the whole layer.": (
            lambda D, F: share(D, F) / (1 - share(D, F))
        ),
        "That is a percentage; a share lies between 0 and 1.": (
            lambda D, F: 100 * share(D, F)
        ),
    },
)

# Three facts, each two features that are asked for together and one that is answered.
FEATURES = ("cat", "dog", "bird", "drinks", "eats", "milk", "bone", "seed")
FACTS = ("cat drinks milk", "dog eats bone", "bird eats seed")


def token(*features):
    """Return a vector (8,) with ones for these features."""
    return torch.tensor([float(name in features) for name in FEATURES])


ASKS = torch.stack([token(*fact.split()[:2]) for fact in FACTS])  # (F, D)
WRITES = torch.stack([token(fact.split()[2]) for fact in FACTS], dim=1)  # (D, F)
WHO, DOES = ASKS * token("cat", "dog", "bird"), ASKS * token("drinks", "eats")


def remember(x, asks=ASKS, bias=-1.0, writes=WRITES, bend=torch.relu):
    """Let a unit a fact ask for both features, and write the third."""
    return bend(x @ asks.T + bias) @ writes.T


def memory_cases():
    subjects, verbs = FEATURES[:3], FEATURES[3:5]
    known = [fact.split()[:2] for fact in FACTS]
    others = [[a, b] for a in subjects for b in verbs if [a, b] not in known]
    return {
        name: (torch.stack([token(*features) for features in rows]),)
        for name, rows in {
            "the three facts": known,
            "pairs of which there is no fact": others,
            "half a fact": [[name] for name in FEATURES[:5]],
            "a token without features": [[]],
        }.items()
    }


MEMORY = Exercise(
    name="memory",
    call="memory(x)",
    reference=remember,
    cases=memory_cases,
    mutants={
        "Without a bias half a fact is enough to wake a unit.": (
            partial(remember, bias=0.0)
        ),
        "A bias of -2 keeps every unit asleep, even where both features are there.": (
            partial(remember, bias=-2.0)
        ),
        "With a bias of -1/2 half a fact gets half an answer.": (
            partial(remember, bias=-0.5)
        ),
        "You left out the bend: what is missing counts against the answer.": (
            partial(remember, bend=lambda h: h)
        ),
        "You took the absolute value; ReLU gives zero below zero.": (
            partial(remember, bend=torch.abs)
        ),
        "You bent with GELU, which is not zero below zero.": (
            partial(remember, bend=functional.gelu)
        ),
        "Your units ask for the subject alone.": partial(remember, asks=WHO, bias=0.0),
        "Your units ask for the verb alone.": partial(remember, asks=DOES, bias=0.0),
        "One unit asks for all three facts, and cannot tell which it met.": (
            partial(
                remember, asks=ASKS.sum(0, keepdim=True), writes=WRITES.sum(1)[:, None]
            )
        ),
        "Each unit writes the answer of the next fact.": (
            partial(remember, writes=WRITES.roll(1, dims=1))
        ),
        "Your units write the whole fact; only the answer is wanted.": (
            partial(remember, writes=WRITES + ASKS.T)
        ),
        "You put a softmax in place of ReLU.": (
            partial(remember, bend=lambda h: h.softmax(dim=-1))
        ),
        "You added the input; the residual is the layer's business.": (
            lambda x: x + remember(x)
        ),
    },
)
