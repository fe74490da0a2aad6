"""A game: which fault does this encoder have? Its rounds, and what each one shows.

    python code/book record-game

trains the encoders of the game again and stores their losses, which takes minutes.
"""

import json
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tasks import match_batch
from torch import Tensor, nn
from train import Reader, train

from . import PITFALLS, Pitfall, healthy
from .measurements import influence, maps

Losses = dict[str, list[float | None]]  # by encoder; None after a loss of nan
LOSSES = Path(__file__).parent / "game.json"
TRAINING_STEPS, PER_POINT = 600, 20
TRAINED = {"d_model": 64, "n_heads": 2, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
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


def main() -> None:
    LOSSES.write_text(json.dumps(record_losses(), indent=0) + "\n")
