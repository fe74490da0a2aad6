"""Twelve encoders that the doctor was not built on, each with a cured twin.

One person wrote them, who had skimmed the museum: kinds of faults that it knows, in
other words, and from torch's own parts where a learner would take those. One case was
rewritten before the doctor saw any, and the doctor was not changed afterwards. A case
is a function of `cured`: the broken and the cured one differ in one expression, and
share their weights.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS = 29, 24, 3


class Unseen(NamedTuple):
    """A fault: its kind, one of the doctor's, and how to build the two twins."""

    kind: str
    make: Callable[[bool], nn.Module]

    def build(self, cured: bool = False) -> nn.Module:
        """Build the broken one, or its cured twin, from the same weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.make(cured).eval()


UNSEEN: dict[str, Unseen] = {}


def unseen(kind: str) -> Callable:
    """Register a function that builds a pair of twins under its name."""

    def register(make):
        UNSEEN[make.__name__.replace("_", " ")] = Unseen(kind, make)
        return make

    return register


def four_sentences() -> Tensor:
    """Return ids (4, 9) of sentences with 9, 6, 1 and no words; 0 is padding."""
    own = torch.Generator().manual_seed(5)
    ids = torch.randint(1, VOCABULARY, (4, 9), generator=own)
    return ids.masked_fill(torch.arange(9) >= torch.tensor([[9], [6], [1], [0]]), 0)


class Mixer(nn.Module):
    """Attention from one packed map; a case gives one of its steps anew."""

    def __init__(self, scale=None, mask=None, share=None, join=None):
        super().__init__()
        self.packed = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.scale = scale or (lambda q, k: q @ k.mT / math.sqrt(WIDTH // HEADS))
        self.mask = mask or (lambda pad: pad[:, None, None])
        self.share = share or (lambda scores: scores.softmax(-1))
        self.join = join or (lambda heads: heads.transpose(1, 2).flatten(2))

    def forward(self, x, pad):
        q, k, v = self.packed(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = self.scale(q, k).masked_fill(self.mask(pad), -1e9)
        return self.out(self.join(self.share(scores) @ v))


class TorchMixer(nn.Module):
    """torch's attention; a case says how it is called."""

    def __init__(self, call, **options):
        super().__init__()
        options = {"batch_first": True} | options
        self.inner, self.call = nn.MultiheadAttention(WIDTH, HEADS, **options), call

    def forward(self, x, pad):
        return self.call(self.inner, x, pad)


class Block(nn.Module):
    """Pre-LN, as most write it today."""

    def __init__(self, mixer, norm=nn.LayerNorm, drop=None):
        super().__init__()
        self.mixer, self.norm_a, self.norm_b = mixer, norm(WIDTH), norm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 52), nn.GELU(), nn.Linear(52, WIDTH))
        self.drop = drop or (lambda x, training: x)

    def forward(self, x, pad):
        x = x + self.drop(self.mixer(self.norm_a(x), pad), self.training)
        return x + self.drop(self.mlp(self.norm_b(x)), self.training)


class Tagger(nn.Module):
    """Words and learned places, two blocks, a norm, and five classes a word."""

    def __init__(self, block, place=None):
        super().__init__()
        self.words, self.places = (
            nn.Embedding(VOCABULARY, WIDTH),
            nn.Embedding(16, WIDTH),
        )
        self.blocks = nn.ModuleList(block() for _ in range(2))
        self.last, self.tags = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5)
        self.place = place or (lambda ids: torch.arange(ids.shape[1]).expand_as(ids))

    def forward(self, ids):
        x, pad = self.words(ids) + self.places(self.place(ids)), ids == 0
        for block in self.blocks:
            x = block(x, pad)
        return self.tags(self.last(x))


@unseen("mask meaning")
def words_hidden_from_torch(cured):
    def call(inner, x, pad):
        hidden = pad if cured else ~pad
        return inner(x, x, x, key_padding_mask=hidden, need_weights=False)[0]

    return Tagger(lambda: Block(TorchMixer(call)))


@unseen("mask axis/shape")
def masks_repeated_in_the_wrong_order(cured):
    def call(inner, x, pad):
        square = pad[:, None].expand(-1, x.shape[1], -1)
        times = (
            square.repeat_interleave(HEADS, 0) if cured else square.repeat(HEADS, 1, 1)
        )
        return inner(x, x, x, attn_mask=times, need_weights=False)[0]

    return Tagger(lambda: Block(TorchMixer(call)))


@unseen("batch/sequence layout")
def samples_read_as_tokens(cured):
    def call(inner, x, pad):
        hidden = pad if cured else None  # the mask did not fit, and was taken out
        return inner(x, x, x, key_padding_mask=hidden, need_weights=False)[0]

    return Tagger(lambda: Block(TorchMixer(call, batch_first=cured)))


@unseen("softmax / scale")
def scaled_twice(cured):
    root = math.sqrt(WIDTH // HEADS)

    def scale(q, k):
        return (q / root) @ k.mT / (1 if cured else root)

    return Tagger(lambda: Block(Mixer(scale=scale)))


@unseen("softmax / scale")
def shares_of_the_askers(cured):
    def share(scores):
        return functional.softmax(scores, dim=3 if cured else 2)

    return Tagger(lambda: Block(Mixer(share=share)))


@unseen("head split/merge")
def heads_laid_end_to_end(cured):
    def join(heads):
        heads = heads.permute(0, 2, 1, 3) if cured else heads
        return heads.reshape(heads.shape[0], -1, WIDTH)

    return Tagger(lambda: Block(Mixer(join=join)))


@unseen("positional encoding")
def one_place_for_all(cured):
    def place(ids):
        if cured:
            return torch.arange(ids.shape[1]).expand_as(ids)
        return torch.zeros_like(ids)

    return Tagger(lambda: Block(Mixer()), place)


class OverWords(nn.Module):
    """A norm by torch's instance norm, which counts along the last axis it is given."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return functional.instance_norm(x.mT).mT * self.gain


@unseen("norm / residual / FFN")
def instance_norm_for_layer_norm(cured):
    norm = nn.LayerNorm if cured else OverWords
    return Tagger(lambda: Block(Mixer(), norm=norm))


class Keeper(nn.Module):
    """Two feed-forward experts, kept in a dict or in a ModuleDict, and their mean."""

    def __init__(self, kept):
        super().__init__()
        made = {name: nn.Linear(WIDTH, WIDTH) for name in ("one", "two")}
        self.experts = kept(made)

    def forward(self, x, pad):
        return sum(expert(x).relu() for expert in self.experts.values()) / 2


@unseen("registration / sharing")
def experts_in_a_dict(cured):
    kept = nn.ModuleDict if cured else dict
    return Tagger(lambda: with_experts(kept))


def with_experts(kept):
    """Return a block whose mixer is followed by the experts."""
    block = Block(Mixer())
    block.mixer = Chain(block.mixer, Keeper(kept))
    return block


class Chain(nn.Module):
    """A mixer, and something that reads what it gives."""

    def __init__(self, mixer, then):
        super().__init__()
        self.first, self.then = mixer, then

    def forward(self, x, pad):
        return self.then(self.first(x, pad), pad)


@unseen("train/eval and fast path")
def dropout_without_a_switch(cured):
    def drop(x, training):
        return (
            functional.dropout(x, 0.1, training)
            if cured
            else functional.dropout(x, 0.1)
        )

    return Tagger(lambda: Block(Mixer(), drop=drop))


@unseen("nan / precision")
def minus_infinity_in_an_empty_row(cured):
    def share(scores):
        hidden = scores < -1e8
        return scores.masked_fill(hidden, -1e9 if cured else -math.inf).softmax(-1)

    return Tagger(lambda: Block(Mixer(share=share)))


@unseen("loss and training")
def scores_without_gradient(cured):
    def share(scores):
        return scores.softmax(-1) if cured else scores.softmax(-1).detach()

    return Tagger(lambda: Block(Mixer(share=share)))
