"""What a trace is made of: a `Row` for each operation, a `Shape` for each tensor."""

import functools
import itertools
import linecache
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .error_causes import explain


class Spot(NamedTuple):
    """An instruction of a source file, on a line."""

    code: CodeType
    instruction: int
    line: int


class Shape(tuple[int, ...]):
    """The shape of one tensor: a tuple of sizes that knows its `.dtype` and `.axes`.

    Two shapes with one `number` are those of the same tensor.
    """

    dtype: torch.dtype
    number: int = 0
    axes: tuple[str, ...] = ()  # their names, once they have been looked for

    @property
    def bytes(self) -> int:
        return math.prod(self) * self.dtype.itemsize

    def filled(self, batch: int) -> "Shape":
        """Return the shape with its batch of no samples as large as it really is."""
        full = Shape(batch if size == 0 else size for size in self)
        full.dtype, full.number = self.dtype, self.number
        return full

    def __str__(self) -> str:
        return f"({', '.join(self.axes or map(str, self))})"

    def to_dict(self) -> dict:
        dtype = str(self.dtype).removeprefix("torch.")
        axes = self.axes or map(str, self)
        shape = {"shape": list(self), "axes": list(axes)}
        return shape | {"dtype": dtype, "bytes": self.bytes}


@dataclass
class Row:
    """One operation: where it was called, on which shapes, and what it did to axes."""

    op: str
    inputs: list[Shape]
    outputs: list[Shape]
    error: Exception | None = None
    spot: Spot | None = None  # the reader's own line
    via: Spot | None = None  # the line inside torch's module that called it
    module: str = ""
    depth: int = 0  # 0 = called from the reader's line, more = inside torch's modules
    note: str = ""
    detail: Any = None  # order of axes, an axis, einsum's equation, id range
    replay: Callable | None = None  # the operation, to be asked about other sizes
    event: dict | None = None  # split, merge, move .. of axes, once they have names

    @property
    def output(self) -> Shape | None:
        return self.outputs[0] if self.outputs else None

    @property
    def axes(self) -> tuple[str, ...]:
        return self.outputs[0].axes if self.outputs else ()

    @property
    def input_axes(self) -> list[tuple[str, ...]]:
        return [shape.axes for shape in self.inputs]

    @property
    def file(self) -> str:
        return self.spot.code.co_filename if self.spot else ""

    @property
    def line(self) -> int:
        return self.spot.line if self.spot else 0

    @property
    def code(self) -> str:
        return source_line(self.spot) if self.spot else ""

    @property
    def part(self) -> str:
        """The piece of the line that is this operation, or of torch's line."""
        return source_line(self.via, part=True) if self.via else ""

    @functools.cached_property
    def explanation(self) -> tuple[str, str]:
        return ("", "") if self.error is None else explain(self, self.error)

    @property
    def mismatch(self) -> str:
        """The axes that do not fit, in a row that raised."""
        return self.explanation[0]

    @property
    def cause(self) -> str:
        """The likely cause, in a row that raised."""
        return self.explanation[1]

    def to_dict(self) -> dict:
        names = "line", "code", "part", "op", "module", "depth", "note", "event"
        return {
            "file": os.path.basename(self.file),
            **{name: getattr(self, name) for name in names},
            "inputs": [shape.to_dict() for shape in self.inputs],
            "outputs": [shape.to_dict() for shape in self.outputs],
        }


def source_line(spot: Spot, part: bool = False) -> str:
    """Return the text of the line that an instruction is on, or of its expression."""
    spots = itertools.islice(spot.code.co_positions(), spot.instruction // 2, None)
    first, last, start, end = next(spots, (None,) * 4)
    if first is None or last is None or end is None or first > spot.line:
        first, last, start, end = spot.line, spot.line, 0, None
    numbers = range(first, last + 1)
    texts = [linecache.getline(spot.code.co_filename, n) for n in numbers]
    if part:
        texts[-1] = texts[-1].encode()[:end].decode()
        texts[0] = texts[0].encode()[start:].decode()
    return " ".join(" ".join(texts).split())


def shape_of(tensor: Tensor, number: int) -> Shape:
    # A nested tensor has one size only, the number of its rows.
    shape = Shape((tensor.size(0),) if tensor.is_nested else tensor.shape)
    shape.dtype, shape.number = tensor.dtype, number
    return shape
