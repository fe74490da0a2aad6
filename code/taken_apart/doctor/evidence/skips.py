"""Where the skips of a block start: behind a norm, or before one."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ..exam import Exam
from .residual_stream import Branch, branches
from .tensor_flow import ANY, CASTS, NORMS, REARRANGES, Flow, Step


class Skip(NamedTuple):
    """A sum that ends a branch, and whether its skip starts before a norm."""

    branch: Branch
    end: Step
    before_norm: bool


def skips(exam: Exam) -> list[Skip]:
    """Return the skips around attentions and feed-forwards whose start is clear."""
    found = []
    for branch in branches(exam):
        skip = skip_around(exam.flow, branch)
        if skip is not None:
            found.append(skip)
    return sorted(found, key=lambda skip: skip.end.index)


def skip_around(flow: Flow, branch: Branch) -> Skip | None:
    """Find the sum behind a branch, and compare its other side with what went in."""
    _, step, stream = branch
    path = flow.ahead(step.outputs[0], step.index, lambda s: s.op == "add", ANY)
    if path is None or len(path[-1].inputs) < 2:
        return None
    end, carried = path[-1], {id(t) for s in [step, *path[:-1]] for t in s.outputs}
    others = [t for t in end.inputs if id(t) not in carried]
    if len(others) != 1:
        return None
    side = id(start_of(flow, others[0], end.index)[0])
    start, made_by = start_of(flow, stream, step.index)
    if side == id(start):
        return Skip(branch, end, before_norm=False)
    if made_by is not None and made_by.op in NORMS:
        raw, _ = start_of(flow, made_by.inputs[0], made_by.index)
        if side == id(raw):
            return Skip(branch, end, before_norm=True)
    return None


def start_of(flow: Flow, tensor: Tensor, before: int) -> tuple[Tensor, Step | None]:
    """Go back over moves, casts and dropout: (the tensor there, what made it)."""
    while True:
        step = flow.producer(tensor, before)
        passes = step is not None and step.op in REARRANGES | CASTS | {"dropout"}
        if step is None or not passes or not step.inputs:
            return tensor, step
        tensor, before = step.inputs[0], step.index


def ends_in_norm(flow: Flow, skip: Skip) -> bool:
    """Say whether nothing but a norm reads what a sum returns."""
    users = flow.users(skip.end.outputs[0], skip.end.index)
    return bool(users) and all(user.op in NORMS for user in users)
