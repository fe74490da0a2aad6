"""Exercises of chapter 1: the table of positions, sizes, and the encoder's input."""

from functools import partial

import torch
from encoder import sinusoidal_positions
from torch import Tensor

from .exercise import Exercise, numbers


def sines(n_positions, d_model, base=10000.0, start=0, step=2, parts="sc"):
    """The table, with a handle for each thing that may be wrong with it."""
    t = torch.arange(start, n_positions + start, dtype=torch.float64)[:, None]
    columns = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = t / base ** (columns * step / 2 / d_model)
    made = {"s": angle.sin(), "c": angle.cos()}
    return torch.stack([made[part] for part in parts], dim=-1).flatten(1)


def own_angle_for_each_column(n_positions, d_model):
    t = torch.arange(n_positions, dtype=torch.float64)[:, None]
    column = torch.arange(d_model)
    angle = t / 10000.0 ** (column / d_model)
    return torch.where(column % 2 == 0, angle.sin(), angle.cos())


def halves(n_positions, d_model):
    made = sines(n_positions, d_model)
    return torch.cat((made[:, 0::2], made[:, 1::2]), dim=1)


POSITIONS = Exercise(
    name="positions",
    call="positions(n_positions, d_model)",
    reference=sinusoidal_positions,
    cases=lambda: {
        "seven places": (7, 22),
        "a single pair of columns": (5, 2),
        "five hundred places": (503, 14),
    },
    mutants={
        "You took powers of 1000 where 10000 stands.": partial(sines, base=1000.0),
        "You exchanged sine and cosine.": partial(sines, parts="cs"),
        "You put a sine into every column.": partial(sines, parts="ss"),
        "You put a cosine into every column.": partial(sines, parts="cc"),
        "You put all the sines first, and the cosines behind them.": halves,
        "You gave every column an angle of its own; two share one.": (
            own_angle_for_each_column
        ),
        "You counted the places from 1; the first is place 0.": partial(sines, start=1),
        "You left the 2 out of the exponent 2i/D.": partial(sines, step=1),
        "You doubled the exponent: column 2i already holds the 2.": (
            partial(sines, step=4)
        ),
        "You multiplied by the power of 10000; it divides.": partial(sines, step=-2),
        "You gave every place a column; it is a row.": lambda n, d: sines(n, d).T,
    },
)


def two_ratios(bound: float, d_model: int, place=0.5**0.5, size=3**-0.5, factor=0.5):
    """Words over places, without and with the root, and a handle for each mistake."""
    plain = bound * size / place
    return torch.tensor([plain, plain * d_model**factor])


RATIOS = Exercise(
    name="ratios",
    call="ratios(bound, d_model)",
    reference=two_ratios,
    cases=lambda: {
        "a narrow bound at 512 columns": (0.1, 512),
        "a bound of 1 at 7 columns": (1.0, 7),
        "a wider bound at 64 columns": (0.3, 64),
    },
    mutants={
        "You took the bound itself for the RMS of a word.": partial(two_ratios, size=1),
        "You took the mean size, half the bound; the RMS is larger.": (
            partial(two_ratios, size=1 / 2)
        ),
        "You divided by 3, which belongs to the mean square: take the root.": (
            partial(two_ratios, size=1 / 3)
        ),
        "You left the size of the places out.": partial(two_ratios, place=1),
        "You divided by the mean square of the places, not by its root.": (
            partial(two_ratios, place=1 / 2)
        ),
        "You multiplied by the size of the places; divide by it.": (
            partial(two_ratios, place=2**0.5)
        ),
        "You multiplied by D, not by its root.": partial(two_ratios, factor=1),
        "You divided by the root of D; it multiplies.": (
            partial(two_ratios, factor=-0.5)
        ),
        "You gave the ratio with the root first.": lambda b, d: two_ratios(b, d).flip(
            0
        ),
        "You divided the places by the words.": lambda b, d: 1 / two_ratios(b, d),
    },
)


def sums(
    token_ids: Tensor, table: Tensor, factor="D", place_factor=0, start=0, dtype=None
) -> Tensor:
    """The encoder's input, with a handle for each thing that may be wrong with it."""
    length, d_model = token_ids.shape[1], table.shape[1]
    counts = {"none": 1, "D": d_model, "V": len(table), "T": length}
    scale = counts[factor] ** 0.5
    places = sinusoidal_positions(length + start, d_model)[start:]
    places = places.to(dtype or table.dtype) * scale**place_factor
    return table[token_ids] * scale + places


def places_along_the_batch(token_ids: Tensor, table: Tensor) -> Tensor:
    return sums(token_ids.T, table).transpose(0, 1)


def by_id(token_ids: Tensor, table: Tensor) -> Tensor:
    places = sinusoidal_positions(*table.shape).to(table.dtype)
    return (table * table.shape[1] ** 0.5 + places)[token_ids]


def root_for_places(token_ids: Tensor, table: Tensor) -> Tensor:
    root = table.shape[1] ** 0.5
    return sums(token_ids, table / root, place_factor=1)


def without_places(token_ids: Tensor, table: Tensor) -> Tensor:
    return table[token_ids] * table.shape[1] ** 0.5


def a_root_too_many(token_ids: Tensor, table: Tensor) -> Tensor:
    return sums(token_ids, table * table.shape[1] ** 0.5)


def divided(token_ids: Tensor, table: Tensor) -> Tensor:
    return sums(token_ids, table / table.shape[1])


def blank_padding(token_ids: Tensor, table: Tensor) -> Tensor:
    return sums(token_ids, table).masked_fill(token_ids[..., None] == 0, 0.0)


EMBED = Exercise(
    name="embed",
    call="embed(token_ids, table)",
    reference=sums,
    cases=lambda: {
        "a batch of three sentences": (
            torch.tensor([[5, 3, 7, 2, 11], [1, 7, 7, 4, 0], [2, 9, 0, 0, 0]]),
            numbers(13, 22),
        ),
        "a single sentence": (torch.tensor([[4, 1, 2, 4, 3, 6, 1]]), numbers(7, 14)),
        "more sentences than tokens": (
            torch.arange(22).view(11, 2) % 17,
            numbers(17, 6, seed=1),
        ),
    },
    mutants={
        "You left the root out.": partial(sums, factor="none"),
        "You took the root of V, the number of words; it is of D.": (
            partial(sums, factor="V")
        ),
        "You took the root of T, the number of tokens; it is of D.": (
            partial(sums, factor="T")
        ),
        "You multiplied by D, not by its root.": a_root_too_many,
        "You divided by the root of D; it multiplies.": divided,
        "You multiplied the sum; only the words are multiplied.": (
            partial(sums, place_factor=1)
        ),
        "You multiplied the places by the root, and not the words.": root_for_places,
        "You left the positions out.": without_places,
        "You counted the places from 1; the first is place 0.": partial(sums, start=1),
        "You added positions along the batch: every sentence starts at place 0.": (
            places_along_the_batch
        ),
        "You looked the position up by the word's id, not by its place.": by_id,
        "You set padded rows to zero; the mask sees to them, not the input.": (
            blank_padding
        ),
        "The positions' float64 spread to the sum: keep the dtype of the table.": (
            partial(sums, dtype=torch.float64)
        ),
    },
)
