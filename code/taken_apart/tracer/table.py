"""A trace as text for a terminal: each line of the reader, below it what it ran."""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import first_line
from .fast_path import FAST_PATHS
from .rows import Row

if TYPE_CHECKING:
    from . import Trace


def table(trace: "Trace", width: int = 100) -> str:
    """Lay a trace out in lines of about `width` characters."""
    sizes = "  ".join(f"{name}={size}" for name, size in trace.sizes.items())
    lines = [f"{trace.module}: {count(trace.rows)}, {trace.path}"]
    lines += [line for line in (sizes, trace.naming) if line] + [""]
    for rows, repeats in blocks(trace.rows):
        for _, group in itertools.groupby(rows, lambda row: (row.file, row.line)):
            lines += line_of_reader(list(group), width)
        if repeats:
            lines.append(f"  ... and the same {count(rows)} in {repeats}")
    if trace.error is not None:
        last, kind = trace.rows[-1], type(trace.error).__name__
        who = "" if last.op.startswith("raise ") else f"{last.op} "
        lines += ["", f"{who}raised {kind}: {first_line(trace.error)}"]
        lines += [f"  {text}" for text in (last.mismatch,) if text]
        lines += [f"  likely cause: {last.cause}"]
    return "\n".join(lines)


def count(rows: Sequence[Row]) -> str:
    return f"{len(rows)} operation{'s' * (len(rows) != 1)}"


def line_of_reader(rows: Sequence[Row], width: int) -> list[str]:
    first = rows[0]
    spot = f"{os.path.basename(first.file)}:{first.line}" if first.spot else "(unseen)"
    module = first.module + ", recomputed" * first.note.startswith("recomputed")
    module = f"  [{module.lstrip(', ')}]" if module else ""
    code = shorten(first.code, width - len(spot) - len(module) - 2)
    lines = [f"{spot}  {code}{module}"]
    for row in rows:
        op, shapes = "  " * row.depth + row.op, shapes_text(row)
        inner = row.part if row.depth and row.op not in FAST_PATHS else ""
        more = row.event["text"] if row.event else inner
        more = shorten(more, width - 20 - max(len(shapes), 36)) or row.note
        lines.append(f"    {op:<14}  {shapes:<36}  {more}".rstrip())
    return lines


def shapes_text(row: Row) -> str:
    sides = [
        " ".join([*map(str, shapes[:3]), *["..."] * (len(shapes) > 3)])
        for shapes in (row.inputs, row.outputs)
    ]
    return f"{sides[0]} -> {sides[1] or 'raised'}"


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def blocks(rows: Iterable[Row]) -> Iterator[tuple[list[Row], str]]:
    """Yield (rows, names of blocks that repeat them): layers.1 runs like layers.0."""
    kept: list[tuple[list[Row], list | None, list[str]]] = []
    for name, group in itertools.groupby(rows, lambda row: numbered(row.module)):
        block = list(group)
        steps = [(row.op, row.file, row.line, *map(str, row.inputs)) for row in block]
        if kept and name and kept[-1][1] == steps and block[-1].error is None:
            kept[-1][2].append(name)
        else:
            kept.append((block, steps if name else None, []))
    for block, _, names in kept:
        yield block, " to ".join(dict.fromkeys((*names[:1], *names[-1:])))


def numbered(path: str) -> str:
    found = re.match(r"(.*?\.)?\d+(?=\.|$)|.*?\[\d+\]", path)
    return found.group() if found else ""
