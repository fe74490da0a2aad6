"""Trainings that take longer than a page may: run once, stored, run again in part.

`python code/book record-trainings` runs them all, in half an hour on two cores, and
writes `trainings.json`. The chapters draw that file, run some of it again and compare.

`parts` are encoders of two layers on the match task of `tasks.py`, each with one part
changed. `stacks` are deep ones on the easiest task there is, the echo: say every token
again. A stack that cannot learn it lets nothing through.
"""

import json
import math
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

import torch
from encoder import EncoderLayer, FeedForward, TransformerEncoder
from tasks import MATCH_CLASSES, MATCH_VOCAB, Batch, match_batch
from torch import nn
from train import HELD_OUT_SEED, Reader, evaluate, train

from ..pitfalls import PITFALLS, Steps, become

RECORDS = Path(__file__).with_name("trainings.json")

# --- One part changed: the match task, two layers ------------------------------------

PART_SIZES = {"d_model": 64, "n_heads": 2, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
PART_STEPS, PART_SEEDS, PART_MEAN = 600, (7, 8, 9), 20  # steps in one stored mean


class NoResidual(EncoderLayer):
    """Norms after both parts, and nothing added."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        x, weights = self.attention(x, key_padding_mask, need_weights)
        return self.norm2(self.feed_forward(self.norm1(x))), weights


class NoNorm(EncoderLayer):
    """Both parts added, and nothing normalised."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = x + mixed
        return x + self.feed_forward(x), weights


class NoFeedForward(FeedForward):
    """A part that adds nothing."""

    def forward(self, x):
        return 0 * x


class NoSoftmax(Steps):
    """The scores themselves are the weights, of either sign."""

    def weigh(self, scores, blocked):
        return scores if blocked is None else scores.masked_fill(blocked, 0.0)


@torch.no_grad()
def shrink_embedding(encoder: TransformerEncoder) -> None:
    encoder.embedding.weight /= math.sqrt(encoder.embedding.weight.shape[1])


def start_maps(
    encoder: TransformerEncoder, start: Callable[[nn.Linear], object]
) -> None:
    """Draw the weights of all linear maps anew; `start` takes a map."""
    for part in encoder.layers.modules():
        if isinstance(part, nn.Linear):
            start(part)


# What is changed in a right encoder, in place; where it is a pitfall, the museum's.
PARTS: dict[str, Callable[[TransformerEncoder], object]] = {
    "as it is": lambda encoder: None,
    "no feed-forward": partial(become, change=NoFeedForward),
    "no norms": partial(become, change=NoNorm),
    "no residual": partial(become, change=NoResidual),
    "no positions": PITFALLS["positions forgotten"].apply,
    "no warm-up": lambda encoder: None,
    "no embedding scale": shrink_embedding,
    "wide embedding": PITFALLS["embedding too loud"].apply,
    "softmax over queries": PITFALLS["softmax over queries"].apply,
    "no softmax": partial(become, change=NoSoftmax),
    "no scale": PITFALLS["scale forgotten"].apply,
    "start: N(0, 0.02)": partial(
        start_maps, start=lambda part: nn.init.normal_(part.weight, std=0.02)
    ),
    "start: He": partial(
        start_maps, start=lambda part: nn.init.kaiming_normal_(part.weight)
    ),
    "start: torch's": partial(start_maps, start=nn.Linear.reset_parameters),
}


@torch.no_grad()
def silence(encoder: TransformerEncoder) -> None:
    """Set what makes queries, keys and values to zero."""
    for layer in encoder.layers:
        for part in (layer.attention.query, layer.attention.key, layer.attention.value):
            part.weight.zero_()


# Starts that only an evidence page draws: the classroom's, beside those in PARTS.
ZEROS: dict[str, Callable[[TransformerEncoder], object]] = {
    "start: Q, K, V at 0": silence,
    "start: all maps at 0": partial(
        start_maps, start=lambda part: nn.init.zeros_(part.weight)
    ),
}
CHANGES = PARTS | ZEROS


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def run_part(
    part: str, seed: int = 7, until: int = PART_STEPS
) -> tuple[Reader, list[float]]:
    """Train a fresh encoder with one part changed; return its reader and its losses.

    `until` ends it earlier, with the learning rates of the whole run.
    """
    torch.manual_seed(seed)
    encoder = TransformerEncoder(MATCH_VOCAB, **PART_SIZES, max_length=12)
    CHANGES[part](encoder)
    model = Reader(encoder, MATCH_CLASSES)
    warmup = 0 if part == "no warm-up" else 50
    draw = partial(match_batch, 64, seeded(seed))
    watch = partial(is_over, until=until)
    return model, train(model, draw, PART_STEPS, warmup=warmup, watch=watch)


def is_over(step: int, loss: float, until: int) -> bool:
    return step >= until or not math.isfinite(loss)


def record_part(part: str, seed: int, until: int = PART_STEPS) -> dict:
    """Return means of the losses, and the accuracy on sequences held out."""
    model, losses = run_part(part, seed, until)
    held_out = match_batch(2000, seeded(HELD_OUT_SEED), held_out=True)
    accuracy = round(evaluate(model, [held_out]).accuracy, 3)
    means = thinned(losses, until, PART_MEAN)
    return {"part": part, "seed": seed, "accuracy": accuracy, "losses": means}


# --- Deep stacks: the echo task ------------------------------------------------------

ECHO_WORDS, ECHO_LENGTH = 16, 12
STACK_STEPS, STACK_MEAN = 200, 5
STACKS = {"Post-LN": None, "Pre-LN": None, "no norm": NoNorm, "no residual": NoResidual}
DEPTHS, RATES, WARMUPS = (6, 12, 24, 100), (3e-4, 1e-3, 3e-3), (0, 100)


def echo_batch(n_rows: int, generator: torch.Generator) -> Batch:
    """Draw sequences of 15 tokens' kinds; the label of every place is its own token."""
    shape = n_rows, ECHO_LENGTH
    ids = torch.randint(1, ECHO_WORDS, shape, generator=generator)
    return Batch(ids, ids == 0, ids > 0, ids.flatten())


def run_stack(
    kind: str,
    layers: int,
    rate: float,
    warmup: int,
    seed: int = 0,
    until: int = STACK_STEPS,
) -> list[float]:
    """Train a stack on echoes, until its loss is no number; return all losses.

    `until` ends it earlier, with the learning rates of the whole run.
    """
    torch.manual_seed(seed)
    encoder = TransformerEncoder(
        ECHO_WORDS,
        d_model=32,
        n_heads=4,
        d_ff=64,
        n_layers=layers,
        dropout=0.0,
        norm_first=kind == "Pre-LN",
        max_length=ECHO_LENGTH,
    )
    if changed := STACKS[kind]:
        become(encoder, changed)
    model, draw = Reader(encoder, ECHO_WORDS), partial(echo_batch, 32, seeded(seed))
    watch = partial(is_over, until=until)
    return train(model, draw, STACK_STEPS, rate, warmup, watch=watch)


def record_stack(
    kind: str, layers: int, rate: float, warmup: int, until: int = STACK_STEPS
) -> dict:
    """Return means of a stack's losses, and its settings."""
    losses = run_stack(kind, layers, rate, warmup, until=until)
    told = {"kind": kind, "layers": layers, "rate": rate, "warmup": warmup}
    return told | {"losses": thinned(losses, until, STACK_MEAN)}


# --- The stored records --------------------------------------------------------------


def thinned(losses: list[float], steps: int, every: int) -> list[float | None]:
    """Return means of so many steps each; None after a loss that was no number."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    means = [mean(finite[i : i + every]) for i in range(0, len(finite), every)]
    kept = [float(f"{x:.3g}") for x in means]
    return kept + [None] * (steps // every - len(kept))


def load(path: Path = RECORDS) -> dict[str, dict]:
    """Return the records: `parts` and `zeros` by (part, seed), `stacks` by settings.

    Each of the first two is (losses, accuracy), each of `stacks`, which has four
    settings, its losses; a loss that was no number any more is nan.
    """
    stored = json.loads(path.read_text())
    runs = {
        (run["part"], run["seed"]): (run["losses"], run["accuracy"])
        for run in stored["parts"]
    }
    zeros = {key: run for key, run in runs.items() if key[0] in ZEROS}
    parts = {key: run for key, run in runs.items() if key not in zeros}
    stacks = {
        (run["kind"], run["layers"], run["rate"], run["warmup"]): [
            math.nan if loss is None else loss for loss in run["losses"]
        ]
        for run in stored["stacks"]
    }
    return {"parts": parts, "zeros": zeros, "stacks": stacks}


def store(parts: list[dict], stacks: list[dict], path: Path = RECORDS) -> None:
    """Write the records, one run a line."""
    lines = {
        name: ",\n".join(json.dumps(run) for run in runs)
        for name, runs in {"parts": parts, "stacks": stacks}.items()
    }
    body = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lines.items())
    path.write_text(f"{{{body}}}\n")


def main() -> None:
    torch.set_num_threads(1)  # a run is small; the runs go side by side
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(record_part, *run) for run in product(CHANGES, PART_SEEDS)]
        settings = product(STACKS, DEPTHS, RATES, WARMUPS)
        deep = [pool.submit(record_stack, *setting) for setting in settings]
        store([run.result() for run in runs], [run.result() for run in deep])
