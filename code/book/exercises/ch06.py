"""Exercises of chapter 6: masks, and what is read under them."""

import math
from functools import partial

import torch

from ..models import toy_language
from .exercise import Exercise, numbers, padding

LOWEST = torch.finfo(torch.float32).min


def places(is_pad, first=0, blank=0):
    """Return the number (B, T) of each word among the words of its row."""
    return ((~is_pad).cumsum(dim=1) - 1 + first).masked_fill(is_pad, blank)


def every_place(is_pad):
    return torch.arange(is_pad.shape[1]).expand(is_pad.shape)


def moved_to_the_front(is_pad):
    """Count from the first word on, also over a gap."""
    lead = is_pad.long().cumprod(dim=1).sum(dim=1, keepdim=True)
    return (every_place(is_pad) - lead).masked_fill(is_pad, 0)


def along_the_batch(is_pad):
    return ((~is_pad).cumsum(dim=0) - 1).masked_fill(is_pad, 0)


def over_all_rows(is_pad):
    counted = (~is_pad).flatten().cumsum(dim=0).view(is_pad.shape)
    return (counted - 1).masked_fill(is_pad, 0)


def place_cases():
    gaps = padding(7, 5, 3)
    gaps[0, 2:4] = True
    return {
        "padding at the end": (padding(7, 5, 2),),
        "padding in front": (padding(7, 5, 2).flip(1),),
        "padding between words": (gaps,),
        "a batch without padding": (padding(5, 5),),
    }


PLACES = Exercise(
    name="places",
    call="places(is_pad)",
    reference=places,
    cases=place_cases,
    mutants={
        "You count from the start of the row, padding and all.": every_place,
        "You count the padding as well, and clear it afterwards.": (
            lambda p: every_place(p).masked_fill(p, 0)
        ),
        "Your first word has the number 1; the table of positions begins at 0.": (
            partial(places, first=1)
        ),
        "You count the padding instead of the words.": lambda p: places(~p),
        "You left padding as it came out of the count, -1 where it stands in front.": (
            lambda p: (~p).cumsum(dim=1) - 1
        ),
        "You gave padding -1, and the table has no row of that number.": (
            partial(places, blank=-1)
        ),
        "You let padding keep the number of the word before it; give it 0.": (
            lambda p: ((~p).cumsum(dim=1) - 1).clamp(min=0)
        ),
        "You shifted by the padding in front, and missed a gap between words.": (
            moved_to_the_front
        ),
        "You counted down the batch; count along the row.": along_the_batch,
        "You counted on from one sentence to the next.": over_all_rows,
        "You counted from the last word.": lambda p: places(p.flip(1)).flip(1),
        "You returned floats; a table is asked with whole numbers.": (
            lambda p: places(p).float()
        ),
    },
)


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


def packed_cases():
    """Return trained layers, vectors (B, T, D), and the sentence of each place."""
    layers = toy_language.load().encoder.layers.requires_grad_(False)
    x = numbers(3, 11, 16)
    one = torch.tensor([1] * 7 + [0] * 4)
    two = torch.tensor([1] * 4 + [2] * 5 + [0] * 2)
    three = torch.tensor([0] + [1] * 2 + [2] * 5 + [0] + [3] * 2)
    loud = x.masked_fill((three == 0)[:, None], 100.0)
    return {
        "two sentences in a row": (layers, x, two.expand(3, -1)),
        "three, and large numbers in the padding": (layers, loud, three.expand(3, -1)),
        "one sentence in a row": (layers, x, one.expand(3, -1)),
        "rows of one, two and three": (layers, x, torch.stack((one, two, three))),
    }


def strangers(segments):
    """Block the keys of every other sentence: (B, 1, T, T)."""
    return (segments[:, :, None] != segments[:, None, :])[:, None]


def members(segments, first=1):
    """Return 1 where a place belongs to a sentence, (B, S, T)."""
    count = torch.arange(first, segments.max() + 1)
    return (segments[:, None] == count[:, None]).float()


def means(x, segments, least=1, first=1):
    """Average each sentence, (B, S, D): zeros for one that a row has not."""
    belongs = members(segments, first)
    return belongs @ x / belongs.sum(dim=-1, keepdim=True).clamp(min=least)


def highest_words(x, segments):
    outside = (members(segments) == 0)[..., None]  # (B, S, T, 1)
    return x[:, None].masked_fill(outside, -1e9).amax(dim=2) * ~outside.all(dim=2)


def packed_means(layers, x, segments, rule=strangers, average=means, deaf=0):
    """Let words hear their own sentence alone, and return each sentence's mean."""
    blocked = rule(segments)
    for i, layer in enumerate(layers):
        x, _ = layer(x, blocked=None if i < deaf else blocked)
    return average(x, segments)


def under(rule):
    """Return a mutant with another rule of who may not see whom."""
    return partial(packed_means, rule=rule)


def averaged(average):
    """Return a mutant that makes something else of what comes out."""
    return partial(packed_means, average=average)


PACKED_MEANS = Exercise(
    name="packed_means",
    call="packed_means(layers, x, segments)",
    reference=packed_means,
    cases=packed_cases,
    mutants={
        "Every place hears every other; block the other sentences.": under(
            lambda segments: None
        ),
        "You blocked the padding alone: the sentences hear each other.": under(
            lambda segments: (segments == 0)[:, None, None]
        ),
        "Your rule is the wrong way round: words hear the other sentences only.": under(
            lambda segments: ~strangers(segments)
        ),
        "Your words hear the sentences before their own.": under(
            lambda s: (s[:, :, None] < s[:, None, :])[:, None]
        ),
        "Your words hear the sentences after their own.": under(
            lambda s: (s[:, :, None] > s[:, None, :])[:, None]
        ),
        "Each word hears itself alone; it may hear its sentence.": under(
            lambda segments: ~torch.eye(segments.shape[1], dtype=torch.bool)
        ),
        "Your rule lacks the axis of heads: (B, 1, T, T).": under(
            lambda segments: strangers(segments)[:, 0]
        ),
        "You gave the rule to the last layer only.": partial(packed_means, deaf=1),
        "You averaged what goes into the layers; send it through them first.": (
            lambda layers, x, segments: means(x, segments)
        ),
        "You divided by all places of the row.": averaged(
            lambda x, segments: members(segments) @ x / x.shape[1]
        ),
        "You summed; divide by the number of words.": averaged(
            lambda x, segments: members(segments) @ x
        ),
        "You took the largest words; the mean is wanted.": averaged(highest_words),
        "A sentence that a row has not became nan; let it be zeros.": averaged(
            partial(means, least=0)
        ),
        "You counted the padding as a sentence.": averaged(partial(means, first=0)),
        "You returned one mean a row, of all its words.": averaged(
            lambda x, segments: means(x, segments.clamp(max=1))
        ),
    },
)
