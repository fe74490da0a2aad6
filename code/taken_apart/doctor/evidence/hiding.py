"""What hides keys: the tensors that mask scores, and the inputs they are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import torch
from torch import Tensor

from ..inputs import looks_like_mask
from .attentions import SDPA, Attention
from .tensor_flow import CONVOLUTIONS, FUSED, LAYERS, Flow, Step

HIDES = {"masked_fill", "where", "setitem", "add", "sub", "mul"}
Operand = tuple[Tensor, int]  # a tensor, and the index of the step that reads it

# What looks at a tensor's shape only, or at nothing.
NEW_TENSORS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones"}
NEW_TENSORS |= {"arange", "empty_like", "rand_like", "randn_like", "new_full"}
SHAPED_LIKE = {"expand_as", "view_as", "reshape_as", "type_as"}


def mask_operands(attention: Attention) -> list[Operand]:
    """Return what is put on the scores on their way to the softmax."""
    step = attention.step
    if step.op == SDPA:
        mask = step.given(3, "attn_mask")
        return [(mask, step.index)] if isinstance(mask, Tensor) else []
    carried = {id(t) for s in attention.path for t in s.outputs}
    return [
        (tensor, step.index)
        for step in attention.path[:-1]
        if step.op in HIDES
        for tensor in step.inputs
        if id(tensor) not in carried
    ]


def strong_fills(flow: Flow) -> list[Operand]:
    """Return what fills any numbers with one so low that it can only hide."""
    fills = [s for s in flow.steps if s.op == "masked_fill" and len(s.inputs) > 1]
    return [
        (step.inputs[1], step.index)
        for step in fills
        if float(step.given(2, "value", 0.0)) < -1e3
    ]


def makers(
    flow: Flow, operands: Iterable[Operand], stop: Collection[str] = ()
) -> tuple[set[int], set[int]]:
    """Return what tensors were computed from: (ids of tensors, indices of steps).

    A tensor of which only the shape counts is left out, and so is all that is behind
    an operation in `stop`.
    """
    tensors: set[int] = set()
    steps: set[int] = set()
    todo = list(operands)
    while todo:
        tensor, index = todo.pop()
        tensors.add(id(tensor))
        step = flow.producer(tensor, index)
        if step is None or step.index in steps or step.op in {*NEW_TENSORS, *stop}:
            continue
        steps.add(step.index)
        inputs = step.inputs[:1] if step.op in SHAPED_LIKE else step.inputs
        todo += [(t, step.index) for t in inputs]
    return tensors, steps


def mask_makers(flow: Flow, known: list[Attention]) -> tuple[set[int], set[int]]:
    """Return of what all masks of a call are made, not through layers; see `makers`."""
    operands = [operand for a in known for operand in mask_operands(a)]
    return makers(flow, operands + strong_fills(flow), LAYERS)


def masked_by_inputs(flow: Flow, known: list[Attention]) -> bool:
    """Say whether a mask that is made of an input is put on any scores."""
    operands = [operand for a in known for operand in mask_operands(a)]
    masks = [o for o in operands if looks_like_mask(flow.value(*o))]
    tensors, _ = makers(flow, masks)
    return any(id(given) in tensors for given in flow.given)


def is_used(flow: Flow, given: Tensor, reached: Collection[int]) -> bool:
    """Say whether an input is computed with: it meets numbers, or reaches the result.

    To look at its shape or its type, to move or compare it for nothing, is no use.
    """
    todo, seen = [(given, -1)], set()
    while todo:
        tensor, index = todo.pop()
        for step in flow.users(tensor, index):
            meets = len(step.inputs) > 1 and meets_numbers(step)
            if meets or step.index in reached:
                return True
            if step.index not in seen:
                seen.add(step.index)
                todo += [(t, step.index) for t in step.outputs]
    return False


def meets_numbers(step: Step) -> bool:
    return bool(step.outputs) and step.outputs[0].is_floating_point()


def is_of_raw_input(flow: Flow, step: Step) -> bool:
    """Say whether no layer stands before a step: it prepares what came in."""
    _, before = makers(flow, [(tensor, step.index) for tensor in step.inputs[:1]])
    return not any(flow.steps[i].op in LAYERS | CONVOLUTIONS | FUSED for i in before)


# --- does a mask mark padding? -------------------------------------------------------


def ends_samples(padding: Tensor) -> bool:
    """Say whether (B, T) is True at the ends of samples alone, in some and not in all.

    Padding stands behind all samples or in front of all, and the longest has none.
    """
    if not padding.any() or bool(padding.all()):
        return False
    behind = all_behind(padding) or all_behind(padding.flip(1))
    return behind and bool((~padding).all(1).any())


def all_behind(padding: Tensor) -> bool:
    return torch.equal(padding, padding.long().cummax(1).values.bool())


def separates(padding: Tensor, known: list[Attention]) -> bool:
    """Say whether tokens marked so see one another alone: they are another segment."""
    n, t = padding.shape
    for attention in known:
        used = attention.used
        if used.shape[-2:] != (t, t) or len(used) % n or used.dim() < 3:
            continue
        sees = used.detach().nan_to_num(0).reshape(n, -1, t, t).amax(1) > 1e-9
        other = padding[:, :, None] != padding[:, None, :]
        inside = padding[:, :, None] & padding[:, None, :]
        if not sees[other].any() and sees[inside].any():
            return True
    return False
