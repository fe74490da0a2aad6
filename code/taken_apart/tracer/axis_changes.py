"""What an operation does to axes: split, merge, move, cut, join, sum over them .."""

import math
from collections.abc import Sequence

from .axis_flow import MATRIX_PRODUCTS, REGROUPINGS, letters_of_einsum
from .rows import Row

Numbers = tuple[int, ...]  # the sizes of one axis, one a run


def change_of(row: Row, others: Sequence[Row]) -> dict | None:
    """Say what the row does to its axes; None if it leaves them as they are."""
    if row.output is None or not row.inputs:
        return None
    runs = (row, *others)
    before, after = [r.inputs[0] for r in runs], [r.output for r in runs]
    names, new = list(row.inputs[0].axes), list(row.output.axes)
    if row.op in REGROUPINGS:
        return reshape_change(
            names, list(zip(*before, strict=True)), new, list(zip(*after, strict=True))
        )
    if row.op in ("softmax", "log_softmax") and row.detail is not None:
        text = f"sums to 1 along axis {row.detail}, {names[row.detail]}"
        return {"kind": "normalise", "axis": row.detail, "text": text}
    if row.op == "layer_norm" and names:
        text = f"mean 0 and spread 1 along {names[-1]}"
        return {"kind": "standardise", "axis": len(names) - 1, "text": text}
    if row.op == "linear" or row.op == "einsum" or row.op in MATRIX_PRODUCTS:
        return product_change(row)
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
        return cut_change(row, names, new)
    return None


def cut_change(row: Row, names: list[str], new: list[str]) -> dict:
    sizes = zip(row.inputs[0], row.outputs[0], strict=False)
    cut = next((i for i, (a, b) in enumerate(sizes) if a != b), len(names) - 1)
    if isinstance(row.detail, int):  # the axis that an unbind takes apart
        cut = row.detail % len(names)
    into = new[cut : cut + 1] if len(new) == len(names) else []
    text = f"cut ({', '.join(names)}) into {len(row.outputs)} pieces"
    pieces = {"from": [names[cut]], "into": into, "pieces": len(row.outputs)}
    return {"kind": "cut", **pieces, "text": text}


def product_change(row: Row) -> dict | None:
    """Say what a product of two tensors sums over, and whose rows and columns stay."""
    plain = row.op != "einsum" or len(row.inputs) == 2 and isinstance(row.detail, str)
    if len(row.inputs) < 2 or not plain:
        return None
    left, right = (shape.axes for shape in row.inputs[-2:])
    rows, inner, columns = left[-2:-1], left[-1:], right[-1:]
    if row.op == "linear":
        rows, inner = row.inputs[0].axes[-2:-1], row.inputs[0].axes[-1:]
        columns = row.outputs[0].axes[-1:]
    elif row.op == "einsum":
        (one, two), made = letters_of_einsum(row)
        names = dict(zip(one + two, left + right, strict=True))
        rows = [names[x] for x in made if x in one and x not in two][-1:]
        columns = [names[x] for x in made if x in two and x not in one][-1:]
        inner = [names[x] for x in one if x in two and x not in made]
    if not (rows and inner and columns and row.outputs[0]):
        return None
    over = "*".join(inner)
    axes = {"from": [*rows, over], "by": [over, *columns], "into": [*rows, *columns]}
    return {"kind": "product", **axes, "text": f"sums over {over}"}


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
