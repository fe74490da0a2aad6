"""Exercises of chapter 3: splitting, merging, and two heads set by hand."""

from functools import partial

import torch
from encoder import MultiHeadAttention
from torch.nn.functional import one_hot

from .exercise import Exercise, numbers


def split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


SPLIT_HEADS = Exercise(
    name="split_heads",
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

MERGE_HEADS = Exercise(
    name="merge_heads",
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


UNPACK = Exercise(
    name="unpack",
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


def random_sentences(n_words, n_sentences, seed):
    """Return words drawn from n_words, and their places, as one-hot: (B, n, 2n)."""
    own = torch.Generator().manual_seed(seed)
    ids = torch.randint(n_words, (n_sentences, n_words), generator=own)
    places = torch.eye(n_words).expand(n_sentences, -1, -1)
    return torch.cat((one_hot(ids, n_words).float(), places), dim=-1)


def before_and_after(x, shifts=(-1, 1), heat=100.0, by="place", **changed):
    """Give head 0 the word before and head 1 the word after, in a ring.

    A shift of -1 makes row k of a query read place k + 1: what stands one further asks
    for it. `changed` maps a projection to a function of its weight.
    """
    n = x.shape[-1] // 2
    word, place = torch.eye(2 * n).split(n)  # (n, D) each: what reads words, and places
    asks = {"place": place, "word": word}[by]
    weights = {
        "query": heat * torch.cat([asks.roll(shift, dims=0) for shift in shifts]),
        "key": torch.cat((asks, asks)),
        "value": torch.cat((word, word)),
        "output": torch.eye(2 * n),
    }
    part = MultiHeadAttention(2 * n, n_heads=2)
    for name, weight in weights.items():
        change = changed.get(name, lambda same, place: same)
        getattr(part, name).weight.data = change(weight, place)
    return part(x)[0].detach()


def half(keep):
    """Zero the rows of one head."""
    return lambda weight, _: (
        weight * torch.tensor(keep).repeat_interleave(len(weight) // 2).unsqueeze(1)
    )


BEFORE_AND_AFTER = Exercise(
    name="before_and_after",
    call="before_and_after(x)",
    reference=before_and_after,
    cases=lambda: {
        "five words": (random_sentences(5, 3, seed=0),),
        "three words": (random_sentences(3, 2, seed=1),),
        "seven words": (random_sentences(7, 1, seed=2),),
    },
    mutants={
        "Head 0 brings the word after, head 1 the word before: a shift turned round.": (
            partial(before_and_after, shifts=(1, -1))
        ),
        "Both heads bring the word before.": partial(before_and_after, shifts=(-1, -1)),
        "Both heads bring the word after.": partial(before_and_after, shifts=(1, 1)),
        "Each word asks for its own place: shift the queries.": (
            partial(before_and_after, shifts=(0, 0))
        ),
        "Your heads look two places away.": partial(before_and_after, shifts=(-2, 2)),
        "Your weights are too even: the queries want a factor of 100.": (
            partial(before_and_after, heat=1.0)
        ),
        "You asked for words; a neighbour is found by its place.": (
            partial(before_and_after, by="word")
        ),
        "Your values pass on places; words were wanted.": partial(
            before_and_after, value=lambda _, place: torch.cat((place, place))
        ),
        "Head 1 passes on nothing: its half of the values is zero.": (
            partial(before_and_after, value=half((1.0, 0.0)))
        ),
        "Head 1 asks nothing: its half of the queries is zero.": (
            partial(before_and_after, query=half((1.0, 0.0)))
        ),
        "Each head asks for both neighbours, and brings a blend.": partial(
            before_and_after,
            query=lambda query, _: query + query.roll(len(query) // 2, dims=0),
        ),
        "Your output projection adds the two heads up; they stand side by side.": (
            partial(before_and_after, output=lambda w, _: w + w.roll(len(w) // 2, 0))
        ),
        "Your output projection is zero.": partial(
            before_and_after, output=lambda w, _: 0 * w
        ),
    },
)
