"""The heads of the small trained encoder: what is lost without each of them.

Asked of the held-out sentences that give a reason, such as "emma ate the soup because
she was hungry". Their last eight words are of the eight KINDS, in this order, and one
of them is blanked in every sentence.
"""

from functools import cache

import torch
from torch import Tensor
from train import Reader

from . import toy_language as lab

KINDS = ("who", "verb", "the/her", "thing", "because", "she/he", "was", "reason")


@cache
def held_out() -> tuple[Tensor, Tensor]:
    """Return ids and padding, both (N, T), of the sentences asked."""
    texts = lab.split_sentences()[1]
    return lab.encode(text for text in texts if "because" in text)


def place_of(kind: str) -> Tensor:
    """Return where the word of a kind stands in each sentence, (N, 1)."""
    lengths = (~held_out()[1]).sum(dim=1, keepdim=True)
    return lengths - len(KINDS) + KINDS.index(kind)


@torch.no_grad()
def right(model: Reader, kind: str) -> float:
    """Return the share of blanks of a kind that the model fills as the language may."""
    ids, padding = held_out()
    place = place_of(kind)
    asked = torch.zeros_like(padding).scatter(
        1, place, torch.ones_like(place, dtype=bool)
    )
    guess = model(ids.scatter(1, place, 0), padding, asked).argmax(dim=1, keepdim=True)
    filled = ids.scatter(1, place, guess).tolist()
    return sum(tuple(row) in language() for row in filled) / len(filled)


def filled(model: Reader) -> tuple[float, str, float]:
    """Return the share of all blanks filled rightly, the worst kind, and its share."""
    shares = {kind: right(model, kind) for kind in KINDS}
    worst = min(shares, key=shares.get)
    return sum(shares.values()) / len(shares), worst, shares[worst]


@cache
def language() -> frozenset[tuple[int, ...]]:
    ids, _ = lab.encode(lab.sentences())
    return frozenset(map(tuple, ids.tolist()))


def without(layer: int, columns: slice | list[int]) -> Reader:
    """Return the trained model with columns of one output projection set to zero."""
    model = lab.load()
    model.encoder.layers[layer].attention.output.weight.data[:, columns] = 0.0
    return model


def without_head(layer: int, head: int) -> Reader:
    """Return the trained model without one head: its eight columns are read no more."""
    d_head = lab.ENCODER["d_model"] // lab.ENCODER["n_heads"]
    return without(layer, slice(d_head * head, d_head * (head + 1)))


@torch.no_grad()
def largest_counts_most(model: Reader) -> Tensor:
    """Return (N, T) bool: does the word with the largest weight also count most?

    Asked at each of the T = 10 places of the longest sentences. Weights are means over
    the heads of the last layer. What counts most moves the output of a place furthest
    when it is hidden from all.
    """
    ids, _ = lab.encode(text for text in lab.sentences() if text.count(" ") == 9)
    usual, layers = model.encoder(ids, need_weights=True)

    hidden = torch.eye(ids.shape[1]).bool()[:, None].expand(-1, *ids.shape)
    moved = [model.encoder(ids, words)[0] - usual for words in hidden]
    counts_most = torch.stack(moved).norm(dim=-1).argmax(dim=0)
    return layers[-1].mean(dim=1).argmax(dim=-1) == counts_most


@torch.no_grad()
def roles(model: Reader, ids: Tensor, *, layer: int, head: int) -> tuple[Tensor, ...]:
    """Return the queries, keys and values of one head, (T, K) each.

    `ids` is one sentence, (1, T). The model's norms follow its parts (Post-LN), so what
    a layer hands on is what the next one multiplies by its matrices.
    """
    x = model.encoder.embed(ids)
    for below in model.encoder.layers[:layer]:
        x, _ = below(x)
    part = model.encoder.layers[layer].attention
    made = part.query(x), part.key(x), part.value(x)
    return tuple(part.split_heads(each)[0, head] for each in made)
