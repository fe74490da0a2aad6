"""What keeps the recorded echo honest: more seeds, and stacks that cannot cheat.

`python code/book record-controls` runs the trainings, in half an hour on two quiet
cores, and writes `controls.json`. A stack learns the echo, or the task
`previous`: say the token before, which needs attention. A frozen stack keeps its layers
as they were drawn; only the embedding and what reads the output learn.
"""

import json
import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from encoder import TransformerEncoder
from tasks import Batch
from torch import nn
from train import Reader, train

from ..pitfalls import become
from . import trainings
from .recording import record_side_by_side

RECORDS = Path(__file__).with_name("controls.json")
SEEDS, MEAN = (0, 1, 2), 10  # steps in one stored mean


@dataclass(frozen=True)
class Run:
    """The settings of one training; `start` is Xavier's, or torch's own."""

    kind: str
    layers: int
    rate: float = 3e-3
    warmup: int = 100
    steps: int = 300
    task: str = "previous"
    frozen: bool = False
    start: str = "Xavier"
    seed: int = 0


def previous_batch(n_rows: int, generator: torch.Generator) -> Batch:
    """Draw sequences as for the echo; the label of a place is the token before it."""
    ids, is_pad, read_at, _ = trainings.echo_batch(n_rows, generator)
    read_at[:, 0] = False  # nothing stands before the first
    return Batch(ids, is_pad, read_at, ids.roll(1, dims=1)[read_at])


TASKS = {"echo": trainings.echo_batch, "previous": previous_batch}


def echo(*settings, **changes):
    return partial(Run, *settings, steps=200, task="echo", **changes)


SETTINGS = [
    *(partial(Run, *pair) for pair in product(trainings.STACKS, (2, 6))),
    *(partial(Run, kind, 24) for kind in ("Post-LN", "Pre-LN", "no norm")),
    *(partial(Run, kind, 6, start="torch's") for kind in trainings.STACKS),
    *(
        partial(Run, kind, 24, start="torch's")
        for kind in ("Post-LN", "Pre-LN", "no norm")
    ),
    *(partial(Run, kind, 6, frozen=True) for kind in trainings.STACKS),
    *(partial(Run, kind, 6, task="echo") for kind in trainings.STACKS),
    *(partial(Run, kind, 6, task="echo", frozen=True) for kind in trainings.STACKS),
    *(
        partial(Run, kind, 24, task="echo", frozen=True)
        for kind in ("Post-LN", "Pre-LN")
    ),
    *(echo(kind, 12, 1e-3, 0) for kind in ("Post-LN", "Pre-LN")),
    *(echo(kind, 12, 3e-3, 0) for kind in ("Post-LN", "Pre-LN", "no norm")),
    echo("Post-LN", 12, 3e-3, 100),
    *(echo("Post-LN", 24, 1e-3, warmup) for warmup in (0, 100)),
    echo("Post-LN", 24, 1e-3, 0, start="torch's"),
    *(echo(kind, 100, 1e-3, 0) for kind in ("Post-LN", "Pre-LN")),
]
RUNS = [setting(seed=seed) for setting in SETTINGS for seed in SEEDS]


def run(settings: Run) -> list[float]:
    """Train a stack until its loss is no number; return all losses."""
    torch.manual_seed(settings.seed)
    encoder = TransformerEncoder(
        trainings.ECHO_WORDS,
        d_model=32,
        n_heads=4,
        d_ff=64,
        n_layers=settings.layers,
        dropout=0.0,
        norm_first=settings.kind == "Pre-LN",
        max_length=trainings.ECHO_LENGTH,
    )
    if changed := trainings.STACKS[settings.kind]:
        become(encoder, changed)
    encoder.layers.requires_grad_(not settings.frozen)
    if settings.start == "torch's":
        trainings.start_maps(encoder, nn.Linear.reset_parameters)
    draw = partial(TASKS[settings.task], 32, trainings.seeded(settings.seed))
    model = Reader(encoder, trainings.ECHO_WORDS)
    watch = partial(trainings.is_over, until=settings.steps)
    given = settings.steps, settings.rate, settings.warmup
    return train(model, draw, *given, watch=watch)


def run_and_record(settings: Run) -> dict:
    """Return the settings of a run and means of its losses."""
    means = trainings.thinned(run(settings), settings.steps, MEAN)
    return asdict(settings) | {"losses": means}


def load(path: Path = RECORDS) -> dict[Run, list[float]]:
    """Return the stored losses of each run; one that was no number any more is nan."""
    found = {}
    for stored in json.loads(path.read_text()):
        losses = stored.pop("losses")
        found[Run(**stored)] = [math.nan if x is None else x for x in losses]
    return found


def ends(kind: str, layers: int, **settings) -> str:
    """Return the last stored loss of each seed: "0.13 0.57 0.08"."""
    stored, wanted = load(), Run(kind, layers, **settings)
    losses = [stored[replace(wanted, seed=seed)][-1] for seed in SEEDS]
    return " ".join(f"{loss:.2f}" for loss in losses)


def loss_without_order(n_rows: int = 5000) -> float:
    """Return the loss of who knows a sequence's tokens, but not where they stand.

    The best guess for any place is then each token's share of the sequence.
    """
    ids = previous_batch(n_rows, trainings.seeded(0)).token_ids  # (B, T)
    shares = (ids[:, :, None] == ids[:, None]).double().mean(dim=-1)  # (B, T)
    return -shares.log().mean().item()


def main() -> None:
    record_side_by_side(RECORDS, run_and_record, RUNS)
