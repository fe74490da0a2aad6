"""Exercises of chapter 6: masks, and what is read under them."""

import math
from functools import partial

import torch

from .exercise import Exercise, numbers, padding

LOWEST = torch.finfo(torch.float32).min


def convert(attention_mask, value=LOWEST):
    """Return a tokenizer's mask (B, T) as padding, as visible keys, and to be added."""
    word = attention_mask == 1
    visible = word[:, None, None]  # (B, 1, 1, T)
    additive = torch.zeros(visible.shape).masked_fill(~visible, value)
    return ~word, visible, additive


def converted(change):
    """Return a mutant that changes the three right masks."""
    return lambda attention_mask: change(*convert(attention_mask))


CONVERT = Exercise(
    name="convert",
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


MAX_OF_WORDS = Exercise(
    name="max_of_words",
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
