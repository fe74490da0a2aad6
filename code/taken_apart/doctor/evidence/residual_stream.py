"""The residual stream: what goes around attention and feed-forward, what joins it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from torch import Tensor

from ...tensors import tensors_in
from ..exam import Exam, once
from .hiding import makers
from .tensor_flow import (
    ACTIVATIONS,
    ANY,
    FUSED,
    LAYERS,
    NORMS,
    PASSES,
    PIECES,
    Flow,
    Step,
    memory,
)


class Branch(NamedTuple):
    """A part that the residual should go around."""

    name: str
    step: Step  # its last one, through which all of it goes
    stream: Tensor  # what goes into it


def branches(exam: Exam) -> Iterator[Branch]:
    """Yield the attentions and the feed-forwards of a call."""
    flow = exam.flow
    for step in mixing_steps(exam):
        stream = stream_into(exam, step)
        if stream is not None and is_in_block(exam, step):
            yield Branch("the attention", step, stream)
    for step in flow.steps:
        if step.op in ACTIVATIONS and step.value.dim() > 2:
            up = flow.back(step.inputs[0], step.index, is_linear, {"dropout"})
            down = flow.ahead(step.outputs[0], step.index, is_linear, PASSES)
            of_input = up and is_of_inputs(flow, up[-1])
            if up and down and of_input and is_feed_forward(exam, up[-1], down[-1]):
                yield Branch("the feed-forward", down[-1], up[-1].inputs[0])


def is_of_inputs(flow: Flow, step: Step) -> bool:
    """Say whether a map reads what came in, and not a table of the module's own."""
    made_of, _ = makers(flow, [(step.inputs[0], step.index)])
    return any(id(given) in made_of for given in flow.given)


def is_linear(step: Step) -> bool:
    return step.op == "linear"


def is_feed_forward(exam: Exam, up: Step, down: Step) -> bool:
    """Say whether two maps, wide and back, are a feed-forward and not a head on top."""
    back = down.value.shape == up.inputs[0].shape
    wide = up.value.shape[-1] > down.value.shape[-1]
    attends = any(step.index > down.index for step in mixing_steps(exam))
    norms = any(step.op == "layer_norm" for step in exam.flow.steps[down.index :])
    return back and wide and (attends or norms)


@once
def mixing_steps(exam: Exam) -> list[Step]:
    """Return, for each attention, the step through which all of it goes."""
    fused = [s for s in exam.flow.steps if s.op in FUSED]
    return fused + [a.mix for a in exam.attentions if not a.is_recomputed]


def stream_into(exam: Exam, step: Step) -> Tensor | None:
    """Return what an attention reads: what its values were projected from."""
    if step.op in FUSED:
        return step.inputs[0]
    attention = next((a for a in exam.attentions if a.mix is step), None)
    layer = attention.source("value") if attention else None
    return layer.inputs[0] if layer is not None and is_linear(layer) else None


def is_in_block(exam: Exam, step: Step) -> bool:
    """Say whether a norm or feed-forward follows: a bare attention has no residual."""
    later = exam.flow.steps[step.index :]
    maps = [s for s in later if is_linear(s) and not s.row.note]
    norm = any(s.op in NORMS for s in later)
    return norm or (len(maps) > 2 and any(s.op in ACTIVATIONS for s in later))


# --- ways around ---------------------------------------------------------------------


def has_bypass(exam: Exam, branch: Branch) -> bool:
    """Say whether the result depends on what goes into a branch by a way around it."""
    _, step, stream = branch
    streams = [stream, *query_stream(exam, step)]  # it may go around on either side
    goal = set().union(*(made_from(exam.flow, s, step.index) for s in streams))
    return result_depends_on(
        exam.flow,
        lambda tensor, _: (
            id(tensor) in goal or any(same_memory(tensor, s) for s in streams)
        ),
        without=step,
    )


def query_stream(exam: Exam, step: Step) -> list[Tensor]:
    """Return what the queries of an attention were projected from, if it is known."""
    if step.op in FUSED:
        return step.inputs[:1]
    layers = [a.source("query") for a in exam.attentions if a.mix is step]
    return [s.inputs[0] for s in layers if s is not None and is_linear(s)]


def bypass_carries_attention(exam: Exam, branch: Branch) -> bool:
    """Say whether what the attention before a branch returned finds a way around it."""
    _, step, stream = branch
    ends = mixing_steps(exam)
    path = exam.flow.back(stream, step.index, lambda s: s in ends, ANY)
    return path is None or result_depends_on(
        exam.flow, lambda _, made_by: made_by is path[-1], without=step
    )


def result_depends_on(
    flow: Flow, arrived: Callable[[Tensor, Step | None], bool], without: Step
) -> bool:
    """Search back from the result, but not through one step, until `arrived`."""
    seen, todo = set(), [(t, len(flow.steps)) for t in tensors_in(flow.result)]
    while todo:
        tensor, index = todo.pop()
        step = flow.producer(tensor, index)
        if arrived(tensor, step):
            return True
        if step is None or step is without or step.index in seen:
            continue
        seen.add(step.index)
        todo += [(t, step.index) for t in step.inputs if t.is_floating_point()]
    return False


def depends_on(flow: Flow, tensor: Tensor, before: int, steps: Container[Step]) -> bool:
    """Say whether a tensor depends on one of some steps."""
    seen, todo = set(), [(tensor, before)]
    while todo:
        tensor, index = todo.pop()
        step = flow.producer(tensor, index)
        if step is None or step.index in seen:
            continue
        if step in steps:
            return True
        seen.add(step.index)
        todo += [(t, step.index) for t in step.inputs]
    return False


def made_from(flow: Flow, stream: Tensor, before: int) -> set[int]:
    """Return the tensors of the stream's own size from which it was made, by id.

    A cast, a view or a norm of the stream is the stream: a residual may take any.
    """
    found, seen, todo = set(), set(), [(stream, before, stream.numel())]
    while todo:
        tensor, index, size = todo.pop()
        if tensor.numel() != size:
            continue
        found.add(id(tensor))
        step = flow.producer(tensor, index)
        if step is not None and step.index not in seen:  # a cast may return its input
            seen.add(step.index)
            joined = step.op in {"cat", "stack", *PIECES}  # parts may go around it
            sizes = [t.numel() if joined else size for t in step.inputs]
            indices = [step.index] * len(sizes)
            todo += list(zip(step.inputs, indices, sizes, strict=True))
    return found


def same_memory(left: Tensor, right: Tensor) -> bool:
    return left.numel() == right.numel() and memory(left) == memory(right)


def in_feed_forward(exam: Exam, step: Step) -> bool:
    """Say whether a linear map works on the stream after attention, not on heads."""
    ends = mixing_steps(exam)
    path = exam.flow.back(step.inputs[0], step.index, lambda s: s in ends, ANY)
    return path is not None and any(s.op in LAYERS | {"add"} for s in path[:-1])
