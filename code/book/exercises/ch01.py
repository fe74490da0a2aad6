"""Exercises of chapter 1: the table of positions."""

from functools import partial

import torch
from encoder import sinusoidal_positions

from .exercise import Exercise


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
