"""The reader of the match task, watched: what it attends to, and which head it needs.

`python code/book record-match-reader` trains it from three seeds, in some minutes, and
writes `match_reader.json`. Every 20 steps it is asked where the weight of position 0
goes in held-out rows that do not match: on the other copy of the first token, and on
the last token. At the end each head in turn is silenced at position 0.

Shapes: B rows, T tokens, L layers, H heads.
"""

import json
import math
from functools import partial
from pathlib import Path
from statistics import mean

import torch
from encoder import TransformerEncoder
from tasks import MATCH_CLASSES, MATCH_VOCAB, Batch, match_batch
from torch import Tensor
from train import HELD_OUT_SEED, Reader, train

from . import trainings
from .recording import record_side_by_side

RECORDS = Path(__file__).with_name("match_reader.json")
SEEDS, STEPS, EVERY = trainings.PART_SEEDS, trainings.PART_STEPS, trainings.PART_MEAN
CURVES = {  # what of a record is drawn, under which name, in which colour
    "losses": ("loss", "#808080"),
    "copy": ("weight on copy", "#c85200"),
    "end": ("weight on end", "#0078b8"),
}


def held_out(n_rows: int = 2000) -> Batch:
    return match_batch(n_rows, trainings.seeded(HELD_OUT_SEED), held_out=True)


@torch.no_grad()
def looks(model: Reader, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the weight of position 0 on copy and end, (L, H) each, without matches."""
    ids, is_pad, _, labels = batch
    _, maps = model.encoder(ids, is_pad, need_weights=True)
    weights = torch.stack(maps)[..., 0, :]  # (L, B, H, T)
    place, length = torch.arange(ids.shape[1]), (~is_pad).sum(dim=1)
    copy = (ids == ids[:, :1]) & (place > 0)  # (B, T)
    end = place == length[:, None] - 1
    on_both = [(weights * where[:, None]).sum(dim=-1) for where in (copy, end)]
    copy, end = (on[:, labels == 0].mean(dim=1) for on in on_both)
    return copy, end


@torch.no_grad()
def silenced(model: Reader, batch: Batch, layer: int, head: int) -> list[float]:
    """Return the share right where ends differ and where they match, without a head.

    What it writes at position 0 is replaced by its mean over all rows.
    """
    output = model.encoder.layers[layer].attention.output
    width = output.in_features // model.encoder.layers[layer].attention.n_heads
    columns = slice(head * width, (head + 1) * width)

    def silence(part, given):
        context = given[0].clone()  # (B, T, D)
        context[:, 0, columns] = context[:, 0, columns].mean(dim=0)
        return (context,)

    hook = output.register_forward_pre_hook(silence)
    try:
        right = (model(*batch[:3]).argmax(dim=1) == batch.labels).double()
    finally:
        hook.remove()
    return [right[batch.labels == label].mean().item() for label in (0, 1)]


def run(seed: int, until: int = STEPS) -> dict:
    """Train as the part "as it is" of `trainings`, and watch."""
    torch.manual_seed(seed)
    encoder = TransformerEncoder(MATCH_VOCAB, **trainings.PART_SIZES, max_length=12)
    model = Reader(encoder, MATCH_CLASSES)
    batch, told = held_out(), {"copy": [], "end": []}

    def watch(step: int, loss: float) -> bool:
        if step % EVERY == 0:
            for name, on in zip(told, looks(model, held_out(500)), strict=True):
                told[name].append(round(on.max().item(), 3))
        return step >= until

    draw = partial(match_batch, 64, trainings.seeded(seed))
    losses = train(model, draw, STEPS, watch=watch)
    means = trainings.thinned(losses, until, EVERY)
    return {"seed": seed, "losses": means, **told, "heads": judged_heads(model, batch)}


def judged_heads(model: Reader, batch: Batch) -> list[dict]:
    """Return of each head where it looks, and what is right without it."""
    copy, end = looks(model, batch)
    return [
        {
            "layer": layer,
            "head": head,
            "copy": round(copy[layer, head].item(), 3),
            "end": round(end[layer, head].item(), 3),
            "right": [round(x, 3) for x in silenced(model, batch, layer, head)],
        }
        for layer in range(len(copy))
        for head in range(len(copy[0]))
    ]


def load(path: Path = RECORDS) -> dict[int, dict]:
    """Return the records by seed."""
    return {record["seed"]: record for record in json.loads(path.read_text())}


def draw(records: dict[int, dict]) -> None:
    """Draw losses, and the weights on copy and end, in one panel for each seed."""
    from matplotlib import pyplot  # only a drawing needs it

    size = 4.6, 1.6 * len(records)  # its letters are as large as a phone's
    figure, panels = pyplot.subplots(
        len(records), figsize=size, sharex=True, layout="constrained"
    )
    for axes, (seed, told) in zip(panels, records.items(), strict=True):
        for key, (name, color) in CURVES.items():
            steps = range(EVERY, STEPS + 1, EVERY)
            axes.plot(steps, told[key], color=color, label=name)
        axes.axhline(math.log(2), linestyle=":", color="gray", linewidth=1)
        axes.set(ylabel=f"seed {seed}", ylim=(0, 0.8))
    panels[-1].set(xlabel="step")
    marks = panels[0].get_legend_handles_labels()
    figure.legend(*marks, loc="outside upper center", ncols=len(CURVES))


def compare_heads(heads: list[dict]) -> dict[str, float]:
    """Return by head the share right without it, the head that finds the copy first.

    `heads` are those of a record. A share is the mean of two: of the rows whose ends
    differ and of those whose ends match.
    """
    finder = max(heads, key=lambda head: head["copy"])
    ordered = sorted(heads, key=lambda head: head is not finder)
    names = ["the finder"]
    for head in ordered[1:]:
        beside = head["layer"] == finder["layer"]
        name = "the other" if beside else f"head {head['head']}"
        names.append(f"layer {head['layer']}, {name}")
    return {name: mean(h["right"]) for name, h in zip(names, ordered, strict=True)}


def main() -> None:
    record_side_by_side(RECORDS, run, SEEDS)
