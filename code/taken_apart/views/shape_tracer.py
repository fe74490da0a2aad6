"""The shape tracer: the lines that ran, to step through at other sizes."""

import math
import re
from collections.abc import Set
from typing import Any

from .base import View
from .bundle import JS
from .html import html_text

LAYER = re.compile(r"(?P<path>(.*?\.)??)(?P<number>\d+)(\.(?P<rest>.*))?$")

RowData = dict[str, Any]  # one of the rows in `Trace.to_dict()`


class ShapeTracer(View):
    """The lines that ran, with the shapes that met there, to resize and step through.

    `trace` is a `tracer.Trace`, or what its `to_dict()` returns. Sizes given by name,
    as in `T=128`, are where the sliders start; else they start at the traced sizes.
    Raises TypeError for anything else, ValueError for names or sizes that do not fit.
    """

    module = JS / "shape_tracer/shape_tracer.js"
    plain_size = 0  # its text deflates to a third
    styles = (JS / "shape_tracer/shape_tracer.css",)

    def __init__(self, trace: Any, **sizes: int):
        trace = trace.to_dict() if hasattr(trace, "to_dict") else trace
        if not isinstance(trace, dict) or not trace.get("rows"):
            raise TypeError(f"ShapeTracer wants a trace with rows, got {trace!r:.60}")
        self.rows, n_layers = fold_layers(trace["rows"])
        self.name, error = trace["module"], trace["error"]
        known = trace["sizes"] | ({"L": n_layers} if n_layers > 1 else {})
        check_sizes(sizes, known.keys() - trace["relations"].keys())
        super().__init__(
            sizes=known | sizes,
            relations=trace["relations"],
            error=error,
            step=len(self.rows) - 1 if error else 0,
            **encode_rows(self.rows),
        )

    def summary(self) -> str:
        sizes = ", ".join(f"{name}={n}" for name, n in self.state["sizes"].items())
        return f"{self.name}, {len(self.rows)} rows, {sizes}"

    def still(self) -> str:
        """Return the rows as a table: line, code, operation, shapes, elements."""
        body, before = [], None
        for row in self.rows:
            line = (row["line"], row["code"])
            body.append(still_row(row, line if line != before else ("", "")))
            before = line
        names = ("line", "code", "operation", "shapes", "elements")
        head = "".join(f"<th>{name}" for name in names)
        error = self.state["error"]
        why = f"<p>{html_text(error['message'])}</p>" if error else ""
        return f"<table><tr>{head}{''.join(body)}</table>{why}"


def still_row(row: RowData, line: tuple) -> str:
    """Return one table row; HTML lets its cells end where the next begins."""
    inputs = " ".join(axes_text(x["axes"]) for x in row["inputs"])
    outputs = " ".join(axes_text(x["axes"]) for x in row["outputs"])
    counts = ", ".join(f"{math.prod(x['shape']):,}" for x in row["outputs"])
    cells = (*line, row["op"], f"{inputs} → {outputs or 'raised'}", counts)
    return "<tr>" + "".join(f"<td>{html_text(cell)}" for cell in cells)


def axes_text(axes: list[str]) -> str:
    return f"({', '.join(map(str, axes))})".replace("*", "·")


def check_sizes(sizes: dict[str, int], names: Set[str]):
    for name, size in sizes.items():
        if name not in names or type(size) is not int or size < 1:
            wanted = f"whole numbers from 1 for names among {sorted(names)}"
            raise ValueError(f"sizes must be {wanted}, got {name}={size!r}")


def fold_layers(rows: list[RowData]) -> tuple[list[RowData], int]:
    """Keep the first of several layers that ran alike; return also how many ran."""
    layers = {}  # (path, number) of a layer -> what ran in it
    for row in rows:
        if layer := LAYER.match(row["module"]):
            axes = [x["axes"] for x in row["inputs"] + row["outputs"]]
            ran = (layer["rest"], row["line"], row["part"], row["op"], axes)
            layers.setdefault(layer.group("path", "number"), []).append(ran)
    path = next(iter(layers), ("",))[0]
    alike = [ran for (other, _), ran in layers.items() if other == path]
    if len(alike) < 2 or any(ran != alike[0] for ran in alike):
        return rows, 1
    first = next(iter(layers))
    inside = [LAYER.match(row["module"]) for row in rows]
    keys = [layer and layer.group("path", "number") for layer in inside]
    kept = [
        row | {"repeated": key == first}
        for row, key in zip(rows, keys, strict=True)
        if key in (None, first) or key[0] != path
    ]
    return kept, len(alike)


def encode_rows(rows: list[RowData]) -> dict[str, list]:
    """Name each line of source and each array once, and the rows by their places."""
    lines, arrays = {}, {}  # in order: a dict keeps it

    def number(known: dict, key: Any) -> int:
        return known.setdefault(key, len(known))

    def array(x: dict) -> int:
        return number(arrays, f"{x['dtype']} {','.join(x['axes'])}")

    coded = [
        [
            number(lines, (row["file"], row["line"], row["code"])),
            row["part"],
            row["op"],
            row["module"],
            int(row["depth"] > 0),
            [array(x) for x in row["inputs"]],
            [array(x) for x in row["outputs"]],
            row["note"],
            row["event"],
            int(row.get("repeated", False)),
        ]
        for row in rows
    ]
    return {"lines": [list(x) for x in lines], "arrays": [*arrays], "rows": coded}
