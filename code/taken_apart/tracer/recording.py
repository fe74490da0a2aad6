"""Record what a call runs: a `TorchFunctionMode` that notes a row an operation."""

import contextlib
import functools
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from ..tensors import held, tensors_in
from .fast_path import FAST_PATHS, eager, fast_path_kept
from .places import Guide, callers
from .rows import Row, Shape, shape_of
from .torch_attention import (
    ATTENTION_ARGUMENTS,
    attention_parts,
    attention_steps,
    without_samples,
)

MOVES = {
    *("transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"),
    *("T", "mT", "t", "adjoint"),
}
NORMALISES = "softmax", "log_softmax"

Watch = Callable[[Row, Callable, tuple, dict, Any], object]


def record(
    call: Callable,
    *inputs: Any,
    watch: Watch | None = None,
    inside: bool = False,
    **kwargs: Any,
) -> "Recorder":
    """Call once under a Recorder: `.result`, `.rows`, and `.error` where it raised.

    `watch(row, func, args, kwargs, output)` is handed every operation with its live
    tensors, recording off; it must not change them, and should not keep them.
    """
    recorder = Recorder(call, watch, inside)
    with eager(), fast_path_kept(), recorder:
        try:
            recorder.result = call(*inputs, **kwargs)
        except Exception as error:
            recorder.error = error
    for row in recorder.rows:
        if row.error is not None and row.error is not recorder.error:
            row.error, row.note = None, "raised, and was caught"  # keep no frames alive
    if recorder.error is not None:
        recorder.end_with(recorder.error)
    elif not recorder.rows:
        name, given = type(call).__name__, recorder.shapes((inputs, kwargs))
        note, result = "opaque: no operation could be seen inside", recorder.result
        recorder.rows.append(Row(name, given, recorder.shapes(result), note=note))
    return recorder


class Recorder(TorchFunctionMode):
    """Note a row for each torch operation; see `record`.

    Attention inside `nn.MultiheadAttention` is recomputed, on the live tensors where
    somebody watches, on shapes alone otherwise.
    """

    def __init__(
        self, call: Callable, watch: Watch | None = None, inside: bool = False
    ):
        super().__init__()
        self.call, self.watch, self.inside = call, watch, inside
        self.keeps_fast_path = not inside
        self.opening = False  # while torch's attention is being retold
        self.rows: list[Row] = []
        self.numbers, self.next_number = WeakTensorKeyDictionary(), 1
        self.generators: list[torch.Generator] = []
        self.result: Any = None
        self.error: Exception | None = None
        root = owner(call)
        self.guide = Guide([] if root is None else [*held(root)], root)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, op_name(func)
        in_place = name.endswith("_") or name == "setitem"
        before = self.shapes((args, kwargs)) if in_place else None
        try:
            output = func(*args, **kwargs)
        except Exception as error:
            row = self.add(name, before or self.shapes((args, kwargs)), [], error)
            row.detail = failure_detail(name, args)
            raise
        if func is Tensor.__iter__:
            name, output = "unbind", tuple(output)
        outputs = self.shapes(args[0] if name == "setitem" else output)
        if outputs:
            row = self.add(name, before or self.shapes((args, kwargs)), outputs)
            self.look_closer(row, func, args, kwargs, output)
        return iter(output) if func is Tensor.__iter__ else output

    def shapes(self, value: Any) -> list[Shape]:
        """Return the shapes of the tensors in a value; each tensor has its number."""
        shapes = []
        for tensor in tensors_in(value):
            if (number := self.numbers.get(tensor)) is None:
                number, self.next_number = self.next_number, self.next_number + 1
                self.numbers[tensor] = number
            shapes.append(shape_of(tensor, number))
        return shapes

    def add(
        self,
        name: str,
        inputs: list[Shape],
        outputs: list[Shape],
        error: Exception | None = None,
    ) -> Row:
        place = self.guide.locate(callers(sys._getframe(2), record.__code__))
        row = Row(name, inputs, outputs, error, place.spot, place.via)
        row.module, row.depth = place.path or "", place.depth
        if self.opening:
            row.depth, row.note = row.depth + 1, "recomputed to show each head"
        elif name in FAST_PATHS:
            row.note = "torch's fast path, opaque: trace(..., inside=True) opens it"
        self.rows.append(row)
        return row

    def look_closer(
        self, row: Row, func: Callable, args: tuple, kwargs: dict, output: Any
    ) -> None:
        if isinstance(kwargs.get("generator"), torch.Generator):
            self.generators.append(kwargs["generator"])
        row.detail = axis_detail(row.op, func, args, kwargs)
        plain = len(row.inputs) == 1 and args and isinstance(args[0], Tensor)
        if plain and row.output != row.inputs[0] and func is not Tensor.__iter__:
            row.replay = functools.partial(call_again, func, args[1:], kwargs)
        if self.watch is not None:
            self.watch(row, func, args, kwargs, output)
        if row.op in ATTENTION_ARGUMENTS and not self.opening:
            self.open_attention(row.op, args, kwargs)

    def open_attention(self, name: str, args: tuple, kwargs: dict) -> None:
        """Add the rows of each head's attention; without a watcher at no cost.

        A batch of no samples has all the other sizes, and needs no arithmetic.
        """
        n_rows, self.opening = len(self.rows), True
        try:
            parts = attention_parts(name, args, kwargs)
            batch = len(parts["inputs"][0])
            if self.watch is None:
                parts = without_samples(parts)
            with torch.no_grad(), self:
                attention_steps(**parts)
            for row in self.rows[n_rows:]:
                row.inputs = [shape.filled(batch) for shape in row.inputs]
                row.outputs = [shape.filled(batch) for shape in row.outputs]
        # An option that is not retold: the closed row stands alone.
        except Exception:
            del self.rows[n_rows:]
        self.opening = False

    def end_with(self, error: Exception) -> None:
        """End the rows with the line that raised, when that was no torch operation."""
        if self.rows and self.rows[-1].error is error:
            return
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        frames = frames[:0:-1]  # from the inside out, without `record`
        place = self.guide.locate(frames)
        row = Row(f"raise {type(error).__name__}", [], [], error, place.spot, place.via)
        row.module, row.depth = place.path or "", place.depth
        own = [f for f in frames if place.spot and f.f_code is place.spot.code]
        if own:
            row.inputs = self.shapes(list(own[0].f_locals.values()))
        called = frames[0].f_locals.get("self") if frames else self.call
        if isinstance(error, TypeError) and not in_forward(frames):
            row.detail = wanted_call(called)
        self.rows.append(row)


def in_forward(frames: Sequence[FrameType]) -> bool:
    """Say whether the innermost frame is more than torch's call of a module."""
    return bool(frames) and frames[0].f_code is not nn.Module._call_impl.__code__


def wanted_call(module: Any) -> str | None:
    """Say how a module wants to be called: "forward(x, mask=None)"."""
    with contextlib.suppress(TypeError, ValueError):
        forward = getattr(module, "forward", module)
        parameters = inspect.signature(forward).parameters.values()
        plain = [p.replace(annotation=p.empty) for p in parameters]
        return f"{forward.__name__}{inspect.Signature(plain)}"
    return None


def op_name(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return getattr(func.__self__, "__name__", name)
    return name.strip("_") if name.startswith("__") else name


def owner(call: Any) -> nn.Module | None:
    """Return the module that a call belongs to: itself, or the owner of a method."""
    call = getattr(call, "__self__", call)
    return call if isinstance(call, nn.Module) else None


def call_again(func: Callable, rest: tuple, kwargs: dict, tensor: Tensor) -> Any:
    return func(tensor, *rest, **kwargs)


def axis_detail(name: str, func: Callable, args: tuple, kwargs: dict) -> Any:
    """Return what shapes do not tell of an operation on axes.

    That is the order of axes after a move, found by moving, the axis of a softmax, of a
    stack and of an unbind, an einsum's equation, and whether a tensor is the index.
    """
    with contextlib.suppress(Exception):  # bookkeeping must not break the call
        if name in NORMALISES:
            axis = kwargs["dim"] if "dim" in kwargs else args[1]
            return axis % args[0].dim()
        if name in ("stack", "unbind"):
            return kwargs.get("dim", args[1] if len(args) > 1 else 0)
        if name == "einsum":
            return args[0]
        if name == "getitem":
            whole = isinstance(args[1], Tensor) and args[1].dtype != torch.bool
            return "tensor" if whole else None
        if name in MOVES:
            numbers = torch.empty(tuple(range(2, 2 + args[0].dim())), device="meta")
            return [n - 2 for n in func(numbers, *args[1:], **kwargs).shape]
    return None


def failure_detail(name: str, args: tuple) -> Any:
    """Return what shapes do not tell: an einsum's equation, ids, a wanted shape."""
    with contextlib.suppress(Exception):
        if name == "einsum":
            return args[0]
        if name == "embedding":
            return int(args[0].min()), int(args[0].max())
        sizes = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        return tuple(size for size in sizes if type(size) is int)
    return None
