"""Exercises of chapter 9: what an encoder must not notice."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from ..pitfalls import PITFALLS, exhibit, healthy
from .exercise import Exercise


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


LEAKS = Exercise(
    name="leaks",
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


ALONE = Exercise(
    name="alone",
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


# What each of the six patients of the chapter suffers from, in the order of its table.
CULPRITS = "softmax", "mask", "norm", "positions", "value map", "residual"


def others(**changes):
    """Return a mutant that names other parts: `case2="norm"` for case 2."""
    named = [changes.get(f"case{i}", part) for i, part in enumerate(CULPRITS, 1)]
    return lambda: tuple(named)


CULPRIT = Exercise(
    name="culprits",
    call="culprits()",
    reference=lambda: CULPRITS,
    cases=lambda: {"the six cases": ()},
    mutants={
        "Cases 2 and 3 both leak: in which has padding a weight in a map?": (
            others(case2="norm", case3="mask")
        ),
        "Padding has no weight in case 3, so a mask lets nothing through there.": (
            others(case3="mask")
        ),
        "Case 2: if a norm leaked, the maps would give padding no weight.": (
            others(case2="norm")
        ),
        "Cases 4 and 6: which of them does not notice the order of its words?": (
            others(case4="residual", case6="positions")
        ),
        "Case 1: a wrong mask would let padding in; there, rows have another sum.": (
            others(case1="mask")
        ),
        "Case 5: an idle parameter is one that nothing reads. A norm is always read.": (
            others(case5="norm")
        ),
        "Case 5: without a residual all parameters are still read.": (
            others(case5="residual", case6="value map")
        ),
        "Case 6: dropout would have answered a second call otherwise.": (
            others(case6="dropout")
        ),
        "Case 6: a norm keeps tokens apart; what was not added to makes them alike.": (
            others(case6="norm")
        ),
        "Case 4: dropout would have answered a second call otherwise.": (
            others(case4="dropout")
        ),
    },
)

N_HEADS = 4


def mending_cases():
    """Return tokens, padding and the parts of a layer, three times."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        part = nn.ModuleDict({name: nn.Linear(12, 12) for name in PROJECTIONS})
        part["up"], part["down"] = nn.Linear(12, 28), nn.Linear(28, 12)
        part["norm1"], part["norm2"] = nn.LayerNorm(12), nn.LayerNorm(12)
        for norm in (part["norm1"], part["norm2"]):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
        x = torch.randn(3, 7, 12)
    plain = torch.zeros(3, 7, dtype=torch.bool)
    padded = torch.arange(7) >= torch.tensor([[7], [4], [2]])
    part.requires_grad_(False)
    return {
        "sentences without padding": (x, plain, part),
        "sentences with padding": (x, padded, part),
        "a single word": (x[:, :1], plain[:, :1], part),
    }


PROJECTIONS = "query", "key", "value", "output"


def in_heads(x):
    return x.unflatten(-1, (N_HEADS, -1)).transpose(1, 2)


def mended(
    x,
    is_pad,
    part,
    mask=lambda is_pad: is_pad[:, None, None],
    scale=0.5,
    dim=-1,
    merge=lambda heads: heads.transpose(1, 2).flatten(2),
    keep=1.0,
    norms=("norm1", "norm2"),
    bend=torch.relu,
    second=1.0,
):
    """The layer of the last exercise as it should be, with a handle for each slip."""
    query, key, value = (in_heads(part[name](x)) for name in PROJECTIONS[:3])
    scores = query @ key.mT / query.shape[-1] ** scale
    weights = scores.masked_fill(mask(is_pad), -1e9).softmax(dim=dim)
    mixed = part["output"](merge(weights @ value))
    x = part[norms[0]](keep * x + mixed)
    return part[norms[1]](second * x + part["down"](bend(part["up"](x))))


def stacked(heads):
    """The fault of the exercise: the right shape, and another order."""
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


MENDED = Exercise(
    name="mended",
    call="mended(x, is_pad, part)",
    reference=mended,
    cases=mending_cases,
    mutants={
        "The heads are still merged without a transpose: tokens are mixed.": (
            partial(mended, merge=stacked)
        ),
        "You merge the features of a token in another order than they were split.": (
            partial(mended, merge=lambda heads: heads.permute(0, 2, 3, 1).flatten(2))
        ),
        "The mask was right; yours lies along the queries.": (
            partial(mended, mask=lambda is_pad: is_pad[:, None, :, None])
        ),
        "The mask was right; yours hides the words.": (
            partial(mended, mask=lambda is_pad: ~is_pad[:, None, None])
        ),
        "The mask has gone.": (
            partial(mended, mask=lambda is_pad: torch.zeros_like(is_pad[:, None, None]))
        ),
        "The softmax was right; yours runs over the queries.": partial(mended, dim=-2),
        "The scale was right; you no longer divide by the root.": (
            partial(mended, scale=0.0)
        ),
        "The first residual has gone.": partial(mended, keep=0.0),
        "The second residual has gone.": partial(mended, second=0.0),
        "The activation has gone.": partial(mended, bend=lambda inner: inner),
        "Both norms are the first one.": partial(mended, norms=("norm1", "norm1")),
    },
)
