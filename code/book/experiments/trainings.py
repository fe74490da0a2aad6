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
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

import torch
from encoder import EncoderLayer, TransformerEncoder, attention
from tasks import MATCH_CLASSES, MATCH_VOCAB, Batch, match_batch
from torch import nn
from train import HELD_OUT_SEED, Reader, evaluate, train

STORED = Path(__file__).with_name("trainings.json")

# --- One part changed: the match task, two layers ------------------------------------

PART_SIZES = dict(d_model=64, n_heads=2, d_ff=128, n_layers=2, dropout=0.0)
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


class Nothing(nn.Module):
    def forward(self, x):
        return 0 * x


def over_queries(query, key, value, blocked, need_weights):
    """Attend with a softmax over the wrong axis: queries share each key."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(blocked, -1e9).softmax(dim=-2)
    return weights @ value, weights


def without_softmax(query, key, value, blocked, need_weights):
    """Attend with the scores themselves as weights, of either sign."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    weights = scores.masked_fill(blocked, 0.0)
    return weights @ value, weights


def without_scale(query, key, value, blocked, need_weights):
    return attention(query * math.sqrt(query.shape[-1]), key, value, blocked)


def set_attend(encoder, attend):
    for layer in encoder.layers:
        layer.attention.attend = attend


def set_class(encoder, kind):
    for layer in encoder.layers:
        layer.__class__ = kind


def drop_feed_forward(encoder):
    for layer in encoder.layers:
        layer.feed_forward = Nothing()


def drop_positions(encoder):
    encoder.positions.forward = lambda x: x


def scale_embedding(encoder, factor):
    encoder.embedding.weight.data *= factor


def start_maps(encoder, start):
    """Draw the weights of all linear maps anew; `start` takes a map."""
    for part in encoder.layers.modules():
        if isinstance(part, nn.Linear):
            start(part)


ROOT_D = math.sqrt(PART_SIZES["d_model"])
PARTS = {
    "as it is": lambda encoder: None,
    "no feed-forward": drop_feed_forward,
    "no norms": partial(set_class, kind=NoNorm),
    "no residual": partial(set_class, kind=NoResidual),
    "no positions": drop_positions,
    "no warm-up": lambda encoder: None,
    "no embedding scale": partial(scale_embedding, factor=1 / ROOT_D),
    "wide embedding": partial(scale_embedding, factor=ROOT_D),
    "softmax over queries": partial(set_attend, attend=over_queries),
    "no softmax": partial(set_attend, attend=without_softmax),
    "no scale": partial(set_attend, attend=without_scale),
    "start: N(0, 0.02)": partial(
        start_maps, start=lambda part: nn.init.normal_(part.weight, std=0.02)
    ),
    "start: He": partial(
        start_maps, start=lambda part: nn.init.kaiming_normal_(part.weight)
    ),
    "start: torch's": partial(start_maps, start=nn.Linear.reset_parameters),
}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def run_part(part, seed=7) -> tuple[Reader, list[float]]:
    """Train a fresh encoder with one part changed; return its reader and its losses."""
    torch.manual_seed(seed)
    encoder = TransformerEncoder(MATCH_VOCAB, **PART_SIZES, max_length=12)
    PARTS[part](encoder)
    model = Reader(encoder, MATCH_CLASSES)
    warmup = 0 if part == "no warm-up" else 50
    draw = partial(match_batch, 64, seeded(seed))
    return model, train(model, draw, PART_STEPS, warmup=warmup)


def record_part(part, seed) -> dict:
    """Return means of the losses, and the accuracy on sequences held out."""
    model, losses = run_part(part, seed)
    held_out = match_batch(2000, seeded(HELD_OUT_SEED), held_out=True)
    accuracy = round(evaluate(model, [held_out]).accuracy, 3)
    means = thinned(losses, PART_STEPS, PART_MEAN)
    return {"part": part, "seed": seed, "accuracy": accuracy, "losses": means}


# --- Deep stacks: the echo task ------------------------------------------------------

ECHO_WORDS, ECHO_LENGTH = 16, 12
STACK_STEPS, STACK_MEAN = 200, 5
STACKS = {"Post-LN": None, "Pre-LN": None, "no norm": NoNorm, "no residual": NoResidual}
DEPTHS, RATES, WARMUPS = (6, 12, 24, 100), (3e-4, 1e-3, 3e-3), (0, 100)


def echo_batch(n_rows, generator) -> Batch:
    """Draw sequences of 15 tokens' kinds; the label of every place is its own token."""
    shape = n_rows, ECHO_LENGTH
    ids = torch.randint(1, ECHO_WORDS, shape, generator=generator)
    return Batch(ids, ids == 0, ids > 0, ids.flatten())


def run_stack(kind, layers, rate, warmup, seed=0, steps=STACK_STEPS) -> list[float]:
    """Train a stack on echoes, until its loss is no number; return all losses."""
    torch.manual_seed(seed)
    sizes = dict(d_model=32, n_heads=4, d_ff=64, n_layers=layers, dropout=0.0)
    order = {"norm_first": kind == "Pre-LN", "max_length": ECHO_LENGTH}
    encoder = TransformerEncoder(ECHO_WORDS, **sizes, **order)
    set_class(encoder, STACKS[kind] or EncoderLayer)

    def stop(step, loss):
        if not math.isfinite(loss):
            raise KeyboardInterrupt  # the way to end a training early

    model, draw = Reader(encoder, ECHO_WORDS), partial(echo_batch, 32, seeded(seed))
    return train(model, draw, steps, rate, warmup, watch=stop)


def record_stack(kind, layers, rate, warmup) -> dict:
    losses = run_stack(kind, layers, rate, warmup)
    told = {"kind": kind, "layers": layers, "rate": rate, "warmup": warmup}
    return told | {"losses": thinned(losses, STACK_STEPS, STACK_MEAN)}


# --- The stored records --------------------------------------------------------------


def thinned(losses, steps, every) -> list[float | None]:
    """Return means of so many steps each; None after a loss that was no number."""
    finite = [loss for loss in losses if math.isfinite(loss)]
    means = [mean(finite[i : i + every]) for i in range(0, len(finite), every)]
    kept = [float(f"{x:.3g}") for x in means]
    return kept + [None] * (steps // every - len(kept))


def load(path=STORED) -> dict[str, dict]:
    """Return the records: `parts` by (part, seed), `stacks` by their four settings.

    Each of `parts` is (losses, accuracy), each of `stacks` its losses; a loss that was
    no number any more is nan.
    """
    stored = json.loads(path.read_text())
    parts = {
        (run["part"], run["seed"]): (run["losses"], run["accuracy"])
        for run in stored["parts"]
    }
    stacks = {
        (run["kind"], run["layers"], run["rate"], run["warmup"]): [
            math.nan if loss is None else loss for loss in run["losses"]
        ]
        for run in stored["stacks"]
    }
    return {"parts": parts, "stacks": stacks}


def store(parts, stacks, path=STORED):
    """Write the records, one run a line."""
    lines = {
        name: ",\n".join(json.dumps(run) for run in runs)
        for name, runs in {"parts": parts, "stacks": stacks}.items()
    }
    body = ",\n".join(f'"{name}": [\n{text}\n]' for name, text in lines.items())
    path.write_text(f"{{{body}}}\n")


def main():
    torch.set_num_threads(1)  # a run is small; the runs go side by side
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        parts = pool.map(record_part, *zip(*product(PARTS, PART_SEEDS)))
        settings = product(STACKS, DEPTHS, RATES, WARMUPS)
        stacks = pool.map(record_stack, *zip(*settings))
        store([*parts], [*stacks])
