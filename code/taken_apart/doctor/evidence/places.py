"""Which place does each row of a tensor belong to, from a layer to a residual's end?

Places are numbered where the first layer makes rows, and the numbers go through all
that moves rows; attention and layers leave a row where it is. Where both sides of a sum
come from one numbering, they should bear the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .attentions import PRODUCTS, SDPA
from .tensor_flow import (
    ACTIVATIONS,
    CASTS,
    CONVOLUTIONS,
    LAYERS,
    PIECES,
    REARRANGES,
    Flow,
    Step,
)

ELEMENTWISE = ACTIVATIONS | CASTS | {"mul", "div", "dropout", "masked_fill", "softmax"}
ELEMENTWISE |= {"layer_norm", "rms_norm", "batch_norm", "neg", "clamp", "nan_to_num"}
SHIFTS = {"roll", "pad", "flip", "cat", "stack", "getitem", "narrow", "chunk", "split"}


class Places(NamedTuple):
    """The number of each entry's row, and what numbered them and moved them last."""

    labels: Tensor  # as the tensor
    source: int
    moved: Step | None = None
    shifted: bool = False  # by a step that moves rows on purpose


def misplaced_sum(flow: Flow) -> tuple[Step, Places] | None:
    """Return the first sum whose sides are of other places, and how one side moved."""
    known: dict[int, Places] = {}
    for step in flow.steps:
        if step.op == "add" and len(step.inputs) == 2:
            sides = [known.get(id(t)) for t in step.inputs]
            if found := disagree(step, *sides):
                return step, found
        try:
            after = placed(step, known)
        except Exception:
            after = None
        for output in step.outputs:
            known.pop(id(output), None)
        if after is not None and after.labels.shape == step.value.shape:
            known[id(step.outputs[0])] = after
    return None


def disagree(step: Step, left: Places | None, right: Places | None) -> Places | None:
    """Return the side that moved, where two sides of a sum are of other places."""
    if left is None or right is None or left.source != right.source:
        return None
    same_shape = left.labels.shape == right.labels.shape == step.value.shape
    if not same_shape or left.shifted or right.shifted:
        return None
    if torch.equal(left.labels, right.labels):
        return None
    if any(mixed(side.labels) for side in (left, right)):
        return None
    sets = [side.labels.unique().tolist() for side in (left, right)]
    moved = max((left, right), key=lambda side: side.moved.index if side.moved else -1)
    return moved if sets[0] == sets[1] and moved.moved is not None else None


def mixed(labels: Tensor) -> bool:
    """Say whether rows hold several numbers: then another fault is told."""
    return bool((labels != labels[..., :1]).any())


def placed(step: Step, known: dict[int, Places]) -> Places | None:
    """Return the places of a step's output, from those of its inputs."""
    before = next((known[id(t)] for t in step.inputs if id(t) in known), None)
    if before is None:
        return rows_numbered(step)
    first = known.get(id(step.inputs[0]))
    if step.op in REARRANGES | PIECES | {"roll", "flip", "pad"} and first:
        labels = step.func(first.labels, *step.args[1:], **step.kwargs)
        labels = labels[0] if isinstance(labels, (tuple, list)) else labels
        moved = step if step.op in REARRANGES else first.moved
        return Places(labels, first.source, moved, first.shifted or step.op in SHIFTS)
    query = step.op in LAYERS | PRODUCTS | {SDPA, "multi_head_attention_forward"}
    if (query or step.op in {"softmax", "layer_norm"}) and first:
        if mixed(first.labels) or not same_rows(first.labels, step.value):
            return None
        return first._replace(labels=first.labels[..., :1].expand(step.value.shape))
    if step.op in ELEMENTWISE | {"add", "sub"}:
        fits = before.labels.shape == step.value.shape
        return before if fits else None
    return None


def same_rows(labels: Tensor, value: Tensor) -> bool:
    return labels.shape[:-1] == value.shape[:-1]


def rows_numbered(step: Step) -> Places | None:
    """Number the rows that a layer makes of what came in."""
    value = step.value if step.outputs else torch.empty(0)
    if value.dim() < 3 or not value.is_floating_point():
        return None
    if step.op in CONVOLUTIONS:
        shape = (len(value), 1, *value.shape[2:])
    elif step.op in ("linear", "embedding"):
        shape = (*value.shape[:-1], 1)
    else:
        return None
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    return Places(numbers.expand(value.shape), step.index)
