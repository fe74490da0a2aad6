"""Labels that move as tensors move: which token does each entry come from?

Numbers are put in the place of an attention's context, one for each query, and every
transpose and reshape after it is done to them too. Where tokens are merged wrongly, one
row of the result holds several numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...tensors import tensors_in
from ..exam import Exam
from ..numbers import differ
from .attentions import Attention
from .tensor_flow import MOVES, RESHAPES, Flow, Step
from .token_changes import changed_flows, token_pairing

Followed = tuple[Tensor, list[Step], list[Step]]  # labels, moves, who reads the last


def followed(flow: Flow, step: Step, labels: Tensor) -> Followed:
    """Move labels as a step's output is moved: (labels, the steps, who reads it)."""
    return moved_along(flow, step.outputs[0], step.index, labels)


def moved_along(flow: Flow, tensor: Tensor, after: int, labels: Tensor) -> Followed:
    """Move labels as a tensor is moved: (labels, the steps, who reads it)."""
    steps: list[Step] = []
    while True:
        users = flow.users(tensor, after)
        moves = [s for s in users if s.op in MOVES | RESHAPES | {"unfold"}]
        # Of several, one whose result is read: others only look at a shape.
        moves = [s for s in moves if flow.users(s.outputs[0], s.index)] or moves
        if not moves:
            return labels, steps, users
        step = moves[0]
        labels = moved_alike(labels, step)
        tensor, after = step.outputs[0], step.index
        steps.append(step)


def moved_alike(labels: Tensor, step: Step) -> Tensor:
    """Do to labels what a step did; some functions take floating numbers only."""
    try:
        return step.func(labels, *step.args[1:], **step.kwargs)
    except NotImplementedError:
        return step.func(labels.double(), *step.args[1:], **step.kwargs).long()


def merged(exam: Exam, attention: Attention) -> tuple[Tensor, list[Step], bool]:
    """Follow labels of tokens to the merge: (labels, steps, whether rows are read)."""
    labels = context_labels(exam, attention)
    labels, steps, users = followed(exam.flow, attention.mix, labels)
    last = (steps[-1] if steps else attention.mix).outputs[0]
    returned = any(last is tensor for tensor in tensors_in(exam.flow.result))
    joins = any(s.op in ("linear", "matmul", "add", "dropout") for s in users)
    return labels, steps, joins or returned


def is_of_tokens(exam: Exam, attention: Attention) -> bool:
    """Say whether queries are tokens; attention among channels has others."""
    pairing = token_pairing(exam) if exam.sequence.n_samples > 1 else None
    length = attention.mix.outputs[0].shape[attention.query_axis]
    unclear = pairing is not None and pairing.axis in ("unclear", "scrambled")
    return not unclear or length == exam.sequence.n_tokens


def context_labels(exam: Exam, attention: Attention) -> Tensor:
    """Number what an attention returns by its query, and apart for samples 0 and 1."""
    context, axis = attention.mix.value, attention.query_axis
    labels = along(torch.arange(context.shape[axis]), axis, context.dim())
    labels = labels.expand(context.shape)
    for other in set(range(context.dim() - 1)) - {axis}:
        marks = sample_marks(exam, attention, other)
        labels = labels + 10_000 * along(marks, other, context.dim())
    return labels.contiguous()


def sample_marks(exam: Exam, attention: Attention, axis: int) -> Tensor:
    """Mark where samples 0 and 1 lie along an axis of a context, 0 elsewhere.

    All zeros if the axis holds no samples. It may hold heads as well, B * H in all.
    """
    context = attention.mix.value
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    hits = []
    for flow in flows or []:
        changed = differ(context, flow.steps[attention.mix.index].value)
        hits.append(changed.transpose(0, axis).flatten(1).any(1).cpu())
    share = context.shape[axis] / exam.sequence.n_samples
    disjoint = len(hits) == 2 and not (hits[0] & hits[1]).any()
    if disjoint and all(hit.sum() == share for hit in hits):
        return hits[0].long() + 2 * hits[1].long()
    return torch.zeros(context.shape[axis], dtype=torch.long)


def along(vector: Tensor, axis: int, rank: int) -> Tensor:
    """View a vector so that it lies along one axis of a tensor of some rank."""
    return vector.view([-1 if a == axis else 1 for a in range(rank)])
