"""A game: which fault does this encoder have? Its rounds, and what each one shows.

    python code/book record-game

trains the encoders of the game and those of the chapter's two cases, and stores what
came of them, which takes minutes.
"""

import json
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from encoder import TransformerEncoder
from tasks import Batch, match_batch
from torch import Tensor, nn
from train import Reader, evaluate, train

from . import PITFALLS, Pitfall, healthy
from .measurements import influence, maps

Losses = dict[str, list[float | None]]  # by encoder; None after a loss of nan
LOSSES = Path(__file__).parent / "game.json"
TRAINING_STEPS, PER_POINT = 600, 20
TRAINED = {"d_model": 64, "n_heads": 2, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
PATIENT, TRIALS = Path(__file__).parent / "patient.json", range(3)
CASES = "mask in first layer only", "residual forgotten"  # of the chapter
LEVELS = 99  # weights and influences travel as whole numbers, 0 to 99
# Each round: the fault, and three others that one might take it for.
ROUNDS = {
    "causal by habit": ("queries masked", "softmax over queries", "mask added as ones"),
    "mask the wrong way round": (
        "queries masked",
        "mask not passed on",
        "softmax twice",
    ),
    "softmax over queries": ("scale forgotten", "softmax over heads", "softmax twice"),
    "batch taken for time": (
        "heads in place of tokens",
        "merge without transpose",
        "positions along the batch",
    ),
    "softmax twice": ("scale of the model", "positions forgotten", "value from key"),
    "queries masked": ("mask not passed on", "mask after softmax", "causal by habit"),
    "scale upside down": ("scale of the model", "softmax twice", "residual forgotten"),
    "heads in place of tokens": (
        "batch taken for time",
        "merge without transpose",
        "causal by habit",
    ),
    "mask in first layer only": (
        "mask not passed on",
        "mask the wrong way round",
        "filled with nothing",
    ),
    "residual forgotten": ("residual twice", "norm over tokens", "scale forgotten"),
    "merge without transpose": (
        "value from key",
        "scale of the model",
        "query from key",
    ),
}


def sentence() -> tuple[Tensor, Tensor]:
    """Return ids (3, 7) and padding (3, 7): the first sentence has five words."""
    ids = torch.tensor(
        [[4, 9, 4, 17, 12, 0, 0], [3, 8, 11, 2, 20, 5, 6], [7, 1] + [0] * 5]
    )
    return ids, ids == 0


def one_round(case: Pitfall, others: Iterable[str], recorded: Losses) -> dict[str, Any]:
    """Return a round: its behaviour, four choices in a fixed order, and the answer."""
    choices = sorted((case.name, *others))
    return behaviour(case, recorded) | {
        "choices": [[name, PITFALLS[name].cause] for name in choices],
        "right": choices.index(case.name),
        "why": case.symptom,
        "fix": case.fix,
    }


def behaviour(case: Pitfall | None, recorded: Losses) -> dict[str, list]:
    """Measure a fault, or the right encoder: map, influence and recorded losses."""
    ids, padding = sentence()
    model = healthy() if case is None else case.build()
    with torch.no_grad():
        weights = maps(model, ids, padding)[0][0, 0]
        moved = influence(model, ids, padding)
    return {
        "map": levels(weights),
        "moved": levels(moved / moved.max()),
        "losses": recorded["right" if case is None else case.name],
    }


def levels(square: Tensor) -> list[list[int]]:
    return (square.clamp(0, 1) * LEVELS).round().int().tolist()


def losses_of(model: nn.Module) -> list[float | None]:
    """Train a model on the match task; return the mean loss of each 20 steps."""
    torch.manual_seed(1)
    own = torch.Generator().manual_seed(7)
    losses = train(
        Reader(model, 2).train(), partial(match_batch, 64, own), TRAINING_STEPS
    )
    means = torch.tensor(losses).unflatten(0, (-1, PER_POINT)).mean(dim=1)
    return [round(v, 3) if math.isfinite(v) else None for v in means.tolist()]


def record_losses() -> Losses:
    sizes = TRAINED | {"vocab_size": 32, "max_length": 12}
    made = {"right": healthy(**sizes)}
    made |= {name: PITFALLS[name].build(**sizes) for name in ROUNDS}
    return {name: losses_of(model) for name, model in made.items()}


def train_patient(name: str, seed: int) -> tuple[Reader, list[float]]:
    """Train an encoder with a fault, or the "right" one, from a seed of its own."""
    torch.manual_seed(seed)
    model = TransformerEncoder(32, max_length=20, **TRAINED)
    if name != "right":
        PITFALLS[name].apply(model)
    reader, own = Reader(model, 2), torch.Generator().manual_seed(seed)
    losses = train(reader, partial(match_batch, 64, own), TRAINING_STEPS)
    return reader.eval(), losses


def record_patients() -> list[dict[str, Any]]:
    """Train the right encoder and the chapter's two cases; return how they did."""
    held_out = match_batch(2000, torch.Generator().manual_seed(0), held_out=True)
    rows = []
    for encoder in ("right", *CASES):
        for seed in TRIALS:
            reader, losses = train_patient(encoder, seed)
            means = torch.tensor(losses).unflatten(0, (-1, PER_POINT)).mean(dim=1)
            rows.append(
                {
                    "encoder": encoder,
                    "seed": seed,
                    "losses": [round(loss, 3) for loss in means.tolist()],
                    "accuracy": round(evaluate(reader, [held_out]).accuracy, 3),
                    "changed": round(changed_by_pads(reader, held_out), 4),
                }
            )
    return rows


def changed_by_pads(reader: Reader, batch: Batch, more: int = 6) -> float:
    """Return the share of answers that become others with more padding behind."""
    ids, padding, read_at, _ = batch
    ids = nn.functional.pad(ids, (0, more))
    padding = nn.functional.pad(padding, (0, more), value=True)
    read_at = nn.functional.pad(read_at, (0, more))
    with torch.no_grad():
        usual, padded = reader(*batch[:3]), reader(ids, padding, read_at)
    return (usual.argmax(1) != padded.argmax(1)).float().mean().item()


def main() -> None:
    LOSSES.write_text(json.dumps(record_losses(), indent=0) + "\n")
    PATIENT.write_text(json.dumps(record_patients(), indent=0) + "\n")
