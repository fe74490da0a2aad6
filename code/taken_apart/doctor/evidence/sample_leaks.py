"""What one changed sample moves: nothing but its own part of the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from ..exam import Exam, Swap
from ..numbers import differ, floats
from .tensor_flow import RESHAPES, Flow, Step, same_operations
from .token_changes import confined_axes


class Leak(NamedTuple):
    """A change of sample 0 that reaches others: the first step, and how far."""

    step: Step | None
    distance: float


def other_samples(exam: Exam) -> Iterator[tuple[str, Swap]]:
    """Yield (what, swap): other content in sample 0, and another mask for sample 0."""
    yield "content", exam.changed_at(0)
    for mask in exam.masks:
        if len(mask) == exam.samples.n_samples:
            other = mask.clone()
            other[0] = mask[-1] if not torch.equal(mask[0], mask[-1]) else mask[1]
            yield "mask", {mask: other}
    ids, padding = exam.samples.tensor, exam.padding_if_any
    if exam.samples.is_ids and padding is not None:
        # The module makes its mask of the ids: a row with other padding changes it.
        for row in range(1, len(ids)):
            if not torch.equal(padding[0], padding[row]):
                other = ids.clone()
                other[0] = ids[row]
                yield "mask", {ids: other}
                return


def leak_between_samples(exam: Exam, swap: Swap) -> Leak | None:
    """Return how a change of sample 0 moves the outputs of others, if it does."""
    flow = exam.observe(swap)
    seq = exam.samples
    for left, right in zip(exam.outputs, floats(flow.result), strict=False):
        axis = seq.batch if left.dim() > seq.batch else 0
        if left.shape != right.shape or left.shape[axis : axis + 1] != (seq.n_samples,):
            continue
        if left.shape == (seq.n_samples, seq.n_samples):
            continue  # pairs of samples
        one, two = (t.narrow(axis, 1, seq.n_samples - 1) for t in (left, right))
        if differ(one, two).any():
            distance = (one - two).abs().nan_to_num(0).max().item()
            steps = [first_scatter(exam, flow), first_spread(exam, flow)]
            known = [step for step in steps if step is not None]
            return Leak(min(known, key=lambda s: s.index, default=None), distance)
    return None


def first_scatter(exam: Exam, flow: Flow) -> Step | None:
    """Return the first reshape of a context after which one sample is no more one."""
    mixes = [a.mix for a in exam.attentions] if same_operations(exam.flow, flow) else []
    for step in exam.flow.steps if mixes else ():
        if step.op not in RESHAPES or not step.inputs:
            continue
        given, other = step.inputs[0], flow.steps[step.index]
        before = exam.flow.value(given, step.index)
        changed = differ(before, flow.value(other.inputs[0], other.index))
        was_one = confined_axes(changed)
        if not was_one or confined_axes(differ(step.value, other.value)):
            continue
        if exam.flow.back(given, step.index, lambda s: s in mixes):
            return step
    return None


def first_spread(exam: Exam, flow: Flow) -> Step | None:
    """Return the first step in which more has changed than one sample can hold."""
    if not same_operations(exam.flow, flow):
        return None
    share = 1 / exam.samples.n_samples + 1e-6
    for step, other in zip(exam.flow.steps, flow.steps, strict=True):
        floating = step.value.is_floating_point() and step.value.numel() > 1
        if not floating or step.value.shape != other.value.shape:
            continue
        if differ(step.value, other.value).float().mean() > share:
            return step
    return None
