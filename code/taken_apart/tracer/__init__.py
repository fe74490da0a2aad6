"""`trace(module, *inputs)`: what ran, line by line, with shapes and axis names.

A `TorchFunctionMode` sees every torch operation that the module calls and notes the
reader's own line, the module, the shapes and the dtypes: no tensor is kept, no hook is
set, no result changes. `axis_names.py` finds the names of the axes, before `trace`
returns, by running stand-ins of the module at other sizes: a trace is plain data.

Shapes use one legend everywhere: B batch, T tokens, Tk tokens of a second sequence,
D = d_model, H heads, K = d_head, F = d_ff, V vocabulary.

    print(trace(encoder, token_ids))
    taken-apart trace my_model.py:build
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import first_line
from ..tensors import tensors_in
from ..untouched import random_states
from .axis_names import find_names
from .fast_path import FAST_PATHS
from .input_axes import Subject
from .recording import MOVES, Recorder, owner, record
from .rows import Row, Shape
from .table import count, table

__all__ = ["MOVES", "Row", "Shape", "Trace", "record", "trace"]


def trace(
    module: Callable,
    /,
    *inputs: Any,
    axes: Mapping[str, int] | None = None,
    inside: bool = False,
    raises: bool = False,
    names: bool = True,
    **kwargs: Any,
) -> "Trace":
    """Call `module(*inputs, **kwargs)` once and return what ran; see `Trace`.

    `module` is any callable. `axes` names sizes, as in {"S": 7}. `inside=True` keeps
    torch's encoder on its slow path, which can be seen; its fast path is one row.
    If the call raises, the trace holds the error, or with `raises=True` raises it.
    Then small copies of the module run, two as a rule and at most 48, to find the names
    of axes; with `names=False` none does, and axes are numbers.
    Raises TypeError if `module` cannot be called, ValueError for other `axes`.
    """
    if not callable(module):
        raise TypeError(f"trace wants a module or function, got {type(module)}")
    for name, size in (axes or {}).items():
        if not str(name).isidentifier() or type(size) is not int or size < 1:
            raise ValueError(f'axes wants names and sizes, {{"T": 7}}, got {axes!r}')
    tensors = {id(tensor): tensor for tensor in tensors_in((inputs, kwargs))}
    values = copies(tensors.values()) if names else []
    template, dice = without_values((inputs, kwargs)), [*random_states()]
    recording = record(module, *inputs, inside=inside, **kwargs)
    if raises and recording.error is not None:
        raise recording.error
    traced = Trace(recording)
    if names:
        arrays = recording.shapes([*tensors.values()])
        subject = subject_of(recording, template, arrays, values, dice)
        subject.given.update(axes or {})
        traced.name_axes(subject)
    return traced


class Trace:
    """What one call ran: `.rows`, and where it raised, `.error` with a likely `.cause`.

    `print(t)` shows a table, a notebook the ShapeTracer view. `.path` says whether
    torch's fast path ran, `.naming` how the names of the axes were found, `.sizes` what
    they stand for, `.relations` how they depend, as {"D": "H*K"}. `.to_dict()` is all
    of that in plain values. To read a trace runs nothing.
    """

    def __init__(self, recording: Recorder):
        self.error, self.path = recording.error, path_taken(recording)
        self.module = getattr(recording.call, "__name__", type(recording.call).__name__)
        self.rows, self.sizes, self.relations = recording.rows, {}, {}
        self.naming = "axes are numbers: names=False"
        if self.error is not None:
            drop_frames(self.error)

    def name_axes(self, subject: Subject) -> None:
        found = find_names(subject)
        self.sizes: dict[str, int] = found["sizes"]
        self.relations: dict[str, str] = found["relations"]
        self.naming: str = found["naming"]
        for row in self.rows:
            row.replay = None  # it was kept for this

    @property
    def cause(self) -> str:
        return self.rows[-1].cause if self.error is not None and self.rows else ""

    def to_dict(self) -> dict:
        told = {"module": self.module, "path": self.path, "sizes": self.sizes}
        told |= {"relations": self.relations, "naming": self.naming}
        rows, error = [row.to_dict() for row in self.rows], None
        if self.error is not None:
            error = {"type": type(self.error).__name__}
            error |= {"message": first_line(self.error)}
            error |= {"axis": self.rows[-1].mismatch, "cause": self.cause}
        return told | {"rows": rows, "error": error}

    def __str__(self) -> str:
        return table(self)

    def __repr__(self) -> str:
        ended = f", {type(self.error).__name__}" if self.error is not None else ""
        return f"Trace({self.module}: {count(self.rows)}{ended})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        from ..views import ShapeTracer  # here, for a trace alone needs no view

        return ShapeTracer(self)._repr_mimebundle_(**kwargs)


def subject_of(
    recording: Recorder,
    inputs: tuple | None,
    arrays: list[Shape],
    values: list[Tensor],
    dice: list,
) -> Subject:
    """Gather what an experiment needs of a recorded call."""
    # A module made for one call, nn.Softmax(dim=-1)(x), can be made again.
    strangers = recording.guide.strangers.values()
    return Subject(
        call=recording.call,
        root=owner(recording.call),
        inputs=inputs,
        record=functools.partial(rows_of, inside=recording.inside),
        rows=recording.rows,
        shapes_of=recording.shapes,
        arrays=arrays,
        values=values,
        dice=dice,
        strangers=[m for m in strangers if [*m.parameters(), *m.buffers()]],
        generators=recording.generators,
    )


def without_values(inputs: tuple) -> tuple | None:
    """Copy arguments with empty tensors in place of theirs; None if that fails."""
    empty: dict[int, Any] = {id(t): to_meta(t) for t in tensors_in(inputs)}
    with contextlib.suppress(Exception):
        return copy.deepcopy(inputs, empty)
    return None


def copies(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copy tensors, for a call may change them; an empty list if that fails."""
    with contextlib.suppress(Exception):
        return [
            x.detach().clone().requires_grad_(x.requires_grad and x.is_leaf)
            for x in tensors
        ]
    return []


def to_meta(tensor: Tensor) -> Tensor:
    empty = torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
    return empty.requires_grad_(tensor.requires_grad and tensor.is_leaf)


def rows_of(call: Callable, *inputs: Any, inside: bool, **kwargs: Any) -> list[Row]:
    return record(call, *inputs, inside=inside, **kwargs).rows


def drop_frames(error: BaseException) -> None:
    """Forget the frames of an error: they would keep the tensors of the call alive."""
    link: BaseException | None = error
    while link is not None:
        link.__traceback__, link = None, link.__cause__ or link.__context__


def path_taken(recording: Recorder) -> str:
    fast = [row.module or "it" for row in recording.rows if row.op in FAST_PATHS]
    if fast:
        names = ", ".join(dict.fromkeys(fast))
        return f"torch's fast path, one opaque row each: {names}"
    if any(row.op == "multi_head_attention_forward" for row in recording.rows):
        asked = ", to look inside: the plain call may take the fast one"
        return "torch's slow path" + asked * recording.inside
    return "the lines of the module itself"
