"""One task, three wirings, and a decoder whose mask is missing: chapter 11's trainings.

`python code/book record-translations` trains each from three seeds, in a minute or so,
and writes `wirings.json`: means of the loss over 50 steps, and of the held-out
sentences the share translated rightly, by how many right translations they have; the
share of next words right when the words before are fed; what one sentence becomes; and,
where there is attention to the source, how often its strongest weight is on the word
being translated.
"""

import json
from itertools import product
from pathlib import Path

import torch

from ..models import mirror_language as mirror
from ..models.toy_language import split_sentences
from . import trainings
from .recording import record_side_by_side

RECORDS = Path(__file__).with_name("wirings.json")
NO_MASK = "both, no mask"
EXAMPLE = "emma lost her ball because she was sad"  # held out
KINDS, SEEDS, MEAN = (*mirror.WIRINGS, NO_MASK), (0, 1, 2), 50
RUNS = [*product(KINDS, SEEDS)]


def build(kind: str, seed: int) -> mirror.Translator:
    """Return the untrained translator of a kind."""
    torch.manual_seed(seed)
    if kind == NO_MASK:
        return mirror.ReadsAndWrites(causal=False)
    return mirror.build(kind)


def run(kind: str, seed: int) -> dict:
    """Train, ask, and return what is stored of a run."""
    model, sentences = build(kind, seed), split_sentences()[1]
    losses = mirror.fit(model, seed)
    told = {"kind": kind, "seed": seed}
    told["losses"] = trainings.thinned(losses, mirror.STEPS, MEAN)
    right = mirror.share_right(model, sentences)
    told["right"] = [round(share, 3) for share in right.values()]
    said = model.translate(mirror.encode_sources([EXAMPLE]))
    told["says"] = " ".join(mirror.in_words(said[0].tolist()))
    told["forced"] = round(mirror.share_forced(model, sentences), 3)
    if isinstance(model, mirror.ReadsAndWrites):
        told["aligned"] = round(mirror.share_aligned(model, sentences), 3)
    return told


def load(path: Path = RECORDS) -> dict[tuple[str, int], dict]:
    """Return the runs by kind and seed."""
    return {(run["kind"], run["seed"]): run for run in json.loads(path.read_text())}


def main() -> None:
    record_side_by_side(RECORDS, run, *zip(*RUNS, strict=True))
