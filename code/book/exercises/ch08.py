"""Exercises of chapter 8: an encoder that is asked before it is trained."""

from copy import deepcopy
from functools import partial

import torch
from encoder import EncoderLayer, TransformerEncoder

from ..pitfalls import PITFALLS, become
from .exercise import Exercise, padding


class HearsItselfAlone(EncoderLayer):
    """A layer in which every token hears itself alone."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        T = x.shape[1]
        alone = ~torch.eye(T, dtype=torch.bool, device=x.device)
        return super().forward(x, key_padding_mask, need_weights, blocked=alone)


class CutOff(EncoderLayer):
    """A layer whose feed-forward network gets no gradient."""

    def told(self, added):
        return added.detach()

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm1(x + mixed)
        return self.norm2(x + self.told(self.feed_forward(x))), weights


class Zeroed(CutOff):
    """A layer whose feed-forward network gets a gradient of zeros."""

    def told(self, added):
        return added.detach() + 0 * added


def encoders():
    """Return encoders, right and broken, each with ids and padding."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2}
        right = TransformerEncoder(32, **sizes, max_length=11, dropout=0.0).eval()
    made = {"a right encoder": right}
    for name, fault in {
        "one without a mask": PITFALLS["mask not passed on"].apply,
        "encoder B": PITFALLS["softmax over queries"].apply,
        "one whose tokens hear themselves alone": partial(
            become, change=HearsItselfAlone
        ),
        "one with a part cut off": partial(become, change=CutOff),
        "one whose part gets zeros": partial(become, change=Zeroed),
        "one with a mask in its first layer only": (
            PITFALLS["mask in first layer only"].apply
        ),
    }.items():
        made[name] = deepcopy(right)
        fault(made[name])
    is_pad = padding(5, 7, 3)
    own = torch.Generator().manual_seed(5)
    ids = torch.randint(1, 18, is_pad.shape, generator=own) * ~is_pad
    return {name: (each, ids, is_pad) for name, each in made.items()}


def moved(encoder, ids, other, is_pad, read):
    """Return how far the outputs that are read move when ids become others."""
    with torch.no_grad():
        one, two = (encoder(each, is_pad)[0] for each in (ids, other))
    return (one - two)[read].abs().max().item()


def faults(
    encoder,
    ids,
    is_pad,
    near=1e-5,
    fill=19,
    everywhere=False,
    heard_at=0,
    last_word=True,
    no_gradient=lambda p: p.grad is None or not p.grad.any(),
):
    """Say whether padding matters, the encoder is deaf, and a tensor is stuck."""
    other = ids.masked_fill(is_pad, fill)
    read = torch.ones_like(is_pad) if everywhere else ~is_pad
    leaks = moved(encoder, ids, other, is_pad, read) > near

    changed = ids.clone()
    place = (~is_pad[0]).sum() - 1 if last_word else -1
    changed[0, place] = ids[0, place] % 31 + 1
    deaf = moved(encoder, ids, changed, is_pad, (0, heard_at)) <= near

    copied = deepcopy(encoder)
    copied(ids, is_pad)[0][~is_pad].pow(3).mean().backward()
    named = copied.named_parameters()
    asked = [p for name, p in named if not name.endswith("key.bias")]
    return leaks, deaf, any(map(no_gradient, asked))


def answers(change):
    """Return a mutant that changes the three right answers."""
    return lambda *args: change(*faults(*args))


FAULTS = Exercise(
    name="faults",
    call="faults(encoder, ids, is_pad)",
    reference=faults,
    cases=encoders,
    mutants={
        "You compare padded places too, and nobody reads those.": (
            partial(faults, everywhere=True)
        ),
        "You wrote what stood in the padding already: 0.": partial(faults, fill=0),
        "You allow a move that rounding does not make.": partial(faults, near=10.0),
        "You changed the last column; the last word of row 0 stands before it.": (
            partial(faults, last_word=False)
        ),
        "You asked whether the last word hears itself; position 0 was meant.": (
            partial(faults, heard_at=4)
        ),
        "You look for None only; a gradient of zeros moves nothing either.": (
            partial(faults, no_gradient=lambda p: p.grad is None)
        ),
        "You call it stuck only where no tensor at all has a gradient.": answers(
            lambda leaks, deaf, stuck: (leaks, deaf, False)
        ),
        "Your first answer is the opposite: True where padding matters.": answers(
            lambda leaks, deaf, stuck: (not leaks, deaf, stuck)
        ),
        "Your second answer is the opposite: True where nothing is heard.": answers(
            lambda leaks, deaf, stuck: (leaks, not deaf, stuck)
        ),
        "Your third answer is the opposite: True where a gradient is missing.": answers(
            lambda leaks, deaf, stuck: (leaks, deaf, not stuck)
        ),
        "You exchanged the first answer and the second.": answers(
            lambda leaks, deaf, stuck: (deaf, leaks, stuck)
        ),
    },
)
