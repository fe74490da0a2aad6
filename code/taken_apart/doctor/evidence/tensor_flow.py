"""The flow of tensors through one call: what made each, who read it, what it held.

`observe(call, *inputs)` runs a call under the tracer's recorder and keeps each step's
tensors, so that a probe can ask where a tensor came from, where it went, and what it
held at the time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from ...tensors import tensors_in
from ...tracer import MOVES, Row, record
from ..inputs import given_tensors

# Operations by what they do, under one name each: see `SYNONYMS`.
SYNONYMS = {"truediv": "div", "divide": "div", "true_divide": "div", "divide_": "div"}
SYNONYMS |= {"multiply": "mul", "subtract": "sub", "iadd": "add", "radd": "add"}
SYNONYMS |= {"isub": "sub", "imul": "mul", "rmul": "mul", "itruediv": "div"}
SYNONYMS |= {"masked_fill_": "masked_fill", "rtruediv": "reciprocal"}

RESHAPES = {"reshape", "view", "flatten", "unflatten", "unsqueeze", "squeeze"}
RESHAPES |= {"contiguous", "clone", "view_as", "reshape_as", "expand", "expand_as"}
CASTS = {"to", "float", "half", "double", "bfloat16", "type", "type_as", "detach"}
PIECES = {"chunk", "split", "unbind", "getitem", "select", "narrow", "tensor_split"}
POINTWISE = CASTS | {"mul", "div", "neg", "add", "sub", "masked_fill", "where"}
POINTWISE |= {"setitem", "dropout", "alpha_dropout", "tanh", "clamp", "nan_to_num"}
POINTWISE |= {"tril", "triu"}
REARRANGES = MOVES | RESHAPES
PASSES = POINTWISE | REARRANGES | PIECES  # its main input goes through, changed or not
NORMS = {"layer_norm", "rms_norm"}
LAYERS = NORMS | {"linear", "embedding", "einsum", "matmul", "addmm"}
CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
ACTIVATIONS = {"relu", "gelu", "silu", "tanh", "leaky_relu", "elu", "sigmoid", "mish"}
ACTIVATIONS |= {"glu", "selu"}
FUSED = {"multi_head_attention_forward", "_native_multi_head_attention"}
ANY = PASSES | LAYERS | ACTIVATIONS
LIMIT = 2**26  # numbers kept; what a larger call computes is not copied


@dataclass(repr=False, eq=False)
class Step:
    """One operation with its live tensors, and copies of what it returned."""

    index: int
    op: str
    row: Row
    func: Callable
    args: tuple
    kwargs: dict[str, Any]
    inputs: list[Tensor]
    outputs: list[Tensor]
    values: list[Tensor]

    @property
    def value(self) -> Tensor:
        return self.values[0]

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of the input in the order of the output; () if none was moved."""
        return cast("tuple", self.row.detail or ()) if self.op in MOVES else ()

    def given(self, position: int, name: str, default: Any = None) -> Any:
        """Return an argument by position or by name."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)


Stop = Callable[[Step], bool]


@dataclass(repr=False, eq=False)
class Flow:
    """All steps of one call, what it was given, and what it returned or raised."""

    steps: list[Step] = field(default_factory=list)
    given: list[Tensor] = field(default_factory=list)
    result: Any = None
    error: BaseException | None = None
    rows: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        # A tensor may be changed in place, by several steps: they are found in order.
        self.made: dict[int, list[Step]] = {}
        self.used: dict[int, list[Step]] = {}
        self.by_memory: dict[int | None, list[Step]] = {}
        for step in self.steps:
            for tensor in step.outputs:
                self.made.setdefault(id(tensor), []).append(step)
                self.by_memory.setdefault(memory(tensor), []).append(step)
            for tensor in step.inputs:
                self.used.setdefault(id(tensor), []).append(step)

    def producer(self, tensor: Tensor, before: int) -> Step | None:
        """Return the last step before an index that made or changed a tensor."""
        made = self.made.get(id(tensor))
        if made is None and memory(tensor) is not None:
            # A view that was made out of the recorder's sight shares its memory.
            made = self.by_memory.get(memory(tensor))
        return next((s for s in reversed(made or []) if s.index < before), None)

    def users(self, tensor: Tensor, after: int) -> list[Step]:
        """Return the steps after an index that read a tensor."""
        return [s for s in self.used.get(id(tensor), []) if s.index > after]

    def value(self, tensor: Tensor, before: int) -> Tensor:
        """Return what a tensor held just before a step."""
        step = self.producer(tensor, before)
        if step is not None:
            for made, value in zip(step.outputs, step.values, strict=True):
                if made is tensor:
                    return value
        return tensor.detach()

    def back(
        self,
        tensor: Tensor,
        before: int,
        stop: Stop,
        passes: Container[str] = PASSES,
        depth: int = 40,
    ) -> list[Step] | None:
        """Return the steps from a tensor back to the first where `stop(step)`."""
        step = self.producer(tensor, before)
        if step is None or depth == 0:
            return None
        if stop(step):
            return [step]
        for source in step.inputs if step.op in passes else ():
            path = self.back(source, step.index, stop, passes, depth - 1)
            if path is not None:
                return [step, *path]
        return None

    def line(
        self, tensor: Tensor, before: int, passes: Container[str] = PASSES
    ) -> list[Step]:
        """Return the steps back along the main input, as far as they only pass on."""
        steps: list[Step] = []
        step = self.producer(tensor, before)
        while step is not None and len(steps) < 60:
            steps.append(step)
            if step.op not in passes or not step.inputs:
                break
            step = self.producer(main_input(step), step.index)
        return steps

    def ahead(
        self,
        tensor: Tensor,
        after: int,
        stop: Stop,
        passes: Container[str] = PASSES,
        depth: int = 40,
    ) -> list[Step] | None:
        """Return the steps from a tensor to the first user where `stop(step)`."""
        for step in self.users(tensor, after) if depth else ():
            if stop(step):
                return [step]
            for output in step.outputs if step.op in passes else ():
                path = self.ahead(output, step.index, stop, passes, depth - 1)
                if path is not None:
                    return [step, *path]
        return None

    def reached(self) -> set[int]:
        """Return the indices of the steps that the result depends on."""
        reached, todo = set(), [(t, len(self.steps)) for t in tensors_in(self.result)]
        while todo:
            tensor, before = todo.pop()
            step = self.producer(tensor, before)
            if step is None or step.index in reached:
                continue
            reached.add(step.index)
            todo += [(t, step.index) for t in step.inputs]
            # x[i] = y keeps the rest of x: what made it before counts as well.
            todo += [(step.outputs[0], step.index)] * (step.op == "setitem")
        return reached


def step_of(
    index: int,
    row: Row,
    func: Callable,
    args: tuple,
    kwargs: dict,
    outputs: list[Tensor],
) -> Step:
    op = row.op.rstrip("_")
    return Step(
        index=index,
        op=SYNONYMS.get(op, op),
        row=row,
        func=func,
        args=args,
        kwargs=kwargs,
        inputs=list(tensors_in((args, kwargs))),
        outputs=outputs,
        values=[t.detach() for t in outputs],
    )


def observe(call: Callable, *inputs: Any, **kwargs: Any) -> Flow:
    """Run a call once under the recorder, off torch's fast path, and keep its steps."""
    steps: list[Step] = []
    n_kept = 0

    def watch(row: Row, func: Callable, args: tuple, kwargs: dict, output: Any) -> None:
        nonlocal n_kept
        outputs = list(tensors_in(args[0] if row.op == "setitem" else output))
        n_kept += sum(t.numel() for t in outputs)
        step = step_of(len(steps), row, func, args, kwargs, outputs)
        if n_kept < LIMIT:  # a later step may write into what this one returned
            step.values = [value.clone() for value in step.values]
        steps.append(step)

    given = list({id(t): t for t in given_tensors((inputs, kwargs))}.values())
    try:
        recording = record(call, *inputs, watch=watch, inside=True, **kwargs)
    except SystemExit as error:
        return Flow(steps, given, error=error)
    return Flow(steps, given, recording.result, recording.error, recording.rows)


def same_operations(left: Flow, right: Flow) -> bool:
    """Say whether two calls ran the same operations, so that steps can be compared."""
    return [s.op for s in left.steps] == [s.op for s in right.steps]


def memory(tensor: Tensor) -> int | None:
    """Return the address of a tensor's storage, which its views share."""
    with contextlib.suppress(Exception):
        return tensor.untyped_storage().data_ptr() or None
    return None


def main_input(step: Step) -> Tensor:
    """Return the input that a step passes on: one as large as its output."""
    wanted = step.outputs[0].numel()
    tensors = [t for t in step.inputs if t.dtype != torch.bool] or step.inputs
    return max(tensors, key=lambda t: (t.numel() == wanted, t.numel()))
