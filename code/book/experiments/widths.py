"""The first page's encoder, trained again with a hidden layer of another width.

`python code/book record-widths` runs the trainings, nine of a minute or two each on a
quiet core, and writes `widths.json`. Width 0 leaves of each feed-forward network
nothing but the bias of its second map: one vector, the same for every token.
"""

import json
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from train import Reader

from ..models import toy_language as lab
from . import trainings
from .recording import record_side_by_side

RECORDS = Path(__file__).with_name("widths.json")
WIDTHS, SEEDS, STEPS, MEAN = (0, 8, 32), (0, 1, 2), 10_000, 100
RUNS = [*product(WIDTHS, SEEDS)]


def build(width: int, seed: int) -> Reader:
    """Return the untrained model, without PyTorch's warning of maps to 0 numbers."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        return lab.build(d_ff=width)


def run(
    width: int, seed: int, watch: Callable[[int, float], bool | None] | None = None
) -> tuple[Reader, list[float]]:
    """Train with the recipe of the first page; return the model and all losses."""
    model = build(width, seed)
    losses = lab.teach(model, STEPS, seed, watch=watch)
    return model.eval(), losses


def record(width: int, seed: int) -> dict:
    """Return means of the losses, and the share right on held-out sentences."""
    model, losses = run(width, seed)
    right = lab.share_right(model, lab.split_sentences()[1])
    means = trainings.thinned(losses, STEPS, MEAN)
    return {"width": width, "seed": seed, "right": round(right, 4), "losses": means}


def load(path: Path = RECORDS) -> dict[tuple[int, int], tuple[float, list[float]]]:
    """Return the share right and the mean losses of each run, by width and seed."""
    stored = json.loads(path.read_text())
    return {(r["width"], r["seed"]): (r["right"], r["losses"]) for r in stored}


def main() -> None:
    record_side_by_side(RECORDS, record, *zip(*RUNS, strict=True))
