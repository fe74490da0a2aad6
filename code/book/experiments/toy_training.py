"""How the first page's encoder came to its words: its training, with more seeds.

`python code/book record-toy-training` trains it three times, in some minutes, and
writes `toy_training.json`: means of the loss over 100 steps, and at some steps the
share of blanked words guessed right, in sentences of training and in those held out.
Seed 0 is the encoder that `toy_language.json` holds, before its weights were rounded.
"""

import json
from functools import partial
from pathlib import Path

import torch
from train import Reader, train

from ..models import toy_language
from .recording import record_side_by_side
from .trainings import seeded, thinned

RECORDS = Path(__file__).with_name("toy_training.json")
STEPS, SEEDS, MEAN = 10_000, (0, 1, 2), 100  # steps in one stored mean
ASKED = (250, 500, 1000, 2000, 4000, 10_000)  # when the shares are taken


def run(seed: int = 0, until: int = STEPS) -> dict:
    """Train with the schedule of the whole run, and stop after `until` steps."""
    seen, unseen = toy_language.split_sentences()
    ids, is_pad = toy_language.encode(seen)
    sides = {"seen": seen[:: len(seen) // 200], "unseen": unseen}
    torch.manual_seed(seed)
    draw = partial(toy_language.draw_batch, ids, is_pad, seeded(seed))
    model, shares = toy_language.build(), {}

    def watch(step: int, loss: float) -> bool:
        if step in ASKED:
            shares[step] = [share(model, side) for side in sides.values()]
        return step >= until

    losses = train(model, draw, STEPS, watch=watch)
    return {"seed": seed, "losses": thinned(losses, until, MEAN), "shares": shares}


def share(model: Reader, texts: list[str]) -> float:
    return round(toy_language.share_right(model, texts), 4)


def load(path: Path = RECORDS) -> dict[int, tuple[list[float], dict[int, list[float]]]]:
    """Return by seed the losses, and by step the shares right, seen and unseen."""
    return {
        run["seed"]: (
            run["losses"],
            {int(s): both for s, both in run["shares"].items()},
        )
        for run in json.loads(path.read_text())
    }


def draw(records: dict[int, tuple[list[float], dict[int, list[float]]]]) -> None:
    """Draw what `load` returns: losses, and below them shares right by step."""
    from matplotlib import pyplot  # only a drawing needs it

    size = 4.6, 4.2  # its letters are as large as a phone's
    _, (upper, lower) = pyplot.subplots(
        2, figsize=size, sharex=True, layout="constrained"
    )
    for losses, shares in records.values():
        (line,) = upper.plot(range(MEAN, STEPS + 1, MEAN), losses, linewidth=1)
        look = {"color": line.get_color(), "markersize": 3}
        for side, style in enumerate(("o--", "o-")):  # seen, unseen
            told = [both[side] for both in shares.values()]
            lower.plot(list(shares), told, style, **look)
    upper.set(ylabel="loss", xscale="log", ylim=(0, 4))
    lower.set(xlabel="step", ylabel="share right")
    lower.set(ylim=(0, 1.05))
    lower.legend(lower.lines[:2], ["training", "held out"], loc="lower right")


def main() -> None:
    record_side_by_side(RECORDS, run, SEEDS)
