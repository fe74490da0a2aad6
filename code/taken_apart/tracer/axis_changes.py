"""What an operation does to axes: split, merge, regroup, move, cut, join, normalise."""

import math
from collections.abc import Sequence

from .rows import Row

Numbers = tuple[int, ...]  # the sizes of one axis, one a run

REGROUPINGS = {"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as"}


def change_of(row: Row, others: Sequence[Row]) -> dict | None:
    """Say what the row does to its axes: split, merge, regroup, move, cut, join."""
    if row.output is None or not row.inputs:
        return None
    before, after = (
        [same.inputs[0] for same in (row, *others)],
        [same.output for same in (row, *others)],
    )
    names, new = list(row.inputs[0].axes), list(row.output.axes)
    if row.op in REGROUPINGS:
        return reshape_change(
            names, list(zip(*before, strict=True)), new, list(zip(*after, strict=True))
        )
    if row.op in ("softmax", "log_softmax") and row.detail is not None:
        text = f"sums to 1 along axis {row.detail}, {names[row.detail]}"
        return {"kind": "normalise", "axis": row.detail, "text": text}
    if isinstance(row.detail, list) and row.detail != sorted(row.detail):
        return {
            "kind": "move",
            "order": row.detail,
            "text": move_text(names, row.detail),
        }
    return piece_change(row, names, new)


def move_text(names: Sequence[str], order: Sequence[int]) -> str:
    moved = [i for i, source in enumerate(order) if i != source]
    if len(moved) == 2:
        return f"swap {names[moved[0]]} and {names[moved[1]]}"
    return f"reorder to ({', '.join(names[i] for i in order)})"


def piece_change(row: Row, names: list[str], new: list[str]) -> dict | None:
    """Describe cat and stack, which join, and chunk, split and unbind, which cut."""
    if row.op in ("cat", "concat", "stack"):
        axis = "a new axis"
        if row.op != "stack":
            changed = (b for a, b in zip(names, new, strict=True) if a != b)
            axis = next(changed, new[-1] if new else "")
        text = f"join {len(row.inputs)} pieces along {axis}"
        return {"kind": "join", "from": names, "into": new, "text": text}
    if row.op in ("chunk", "split", "unbind", "tensor_split"):
        text = f"cut ({', '.join(names)}) into {len(row.outputs)} pieces"
        return {"kind": "cut", "from": names, "into": new, "text": text}
    return None


def reshape_change(
    names: Sequence[str],
    before: list[Numbers],
    new: Sequence[str],
    after: list[Numbers],
) -> dict | None:
    """Match the axes before and after from the left, by equal products in every run."""
    old = [pair for pair in zip(names, before, strict=True) if set(pair[1]) != {1}]
    out = [pair for pair in zip(new, after, strict=True) if set(pair[1]) != {1}]
    groups = []
    while old and out:
        left, right = [old.pop(0)], [out.pop(0)]
        while product(left) != product(right) and (old or out):
            grow = (
                left if old and (product(left) < product(right) or not out) else right
            )
            grow.append((old if grow is left else out).pop(0))
        groups.append(([name for name, _ in left], [name for name, _ in right]))
    changed = [group for group in groups if len(group[0]) + len(group[1]) > 2]
    if not changed:
        return None
    kinds = {(1, 0): "merge", (0, 1): "split", (1, 1): "regroup"}
    texts = []
    for left, right in changed:
        kind = kinds[len(left) > 1, len(right) > 1]
        texts.append(reshape_text(kind, " x ".join(left), " x ".join(right)))
    left, right = changed[0]
    kind = kinds[len(left) > 1, len(right) > 1]
    return {"kind": kind, "from": left, "into": right, "text": "; ".join(texts)}


def reshape_text(kind: str, left: str, right: str) -> str:
    if kind == "regroup":
        return f"regroup {left} as {right}: cuts across axes"
    return f"{kind} {left} into {right}"


def product(axes: Sequence[tuple[str, Numbers]]) -> tuple[int, ...]:
    return tuple(
        math.prod(sizes) for sizes in zip(*(sizes for _, sizes in axes), strict=True)
    )
