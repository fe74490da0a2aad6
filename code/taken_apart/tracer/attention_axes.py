"""Name axes outwards from the attention: T, Tk, H and K, then D, F and V around it.

The scores that a softmax turns into weights are a product of queries and keys. What
that product sums over is K; the rows of the scores are T and their columns Tk, or T
too where they are one axis; the axis before is H. The map that gave the queries reads
D. A map from D whose result a map to D reads makes F.
"""

import contextlib
from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple

from .axis_flow import (
    FUSED_ATTENTION,
    MATRIX_PRODUCTS,
    REGROUPINGS,
    AxisGroups,
    Node,
    letters_of_einsum,
    nodes,
    size,
)
from .fast_path import FAST_PATHS
from .rows import Row, Shape

SCORES = {*MATRIX_PRODUCTS, "einsum"}
LINEAR_MAPS = {"linear", "conv1d", "addmm"}
# What queries and weights may pass on their way without losing what they are.
CARRIERS = {"getitem", "chunk", "split", "unbind", "stack", "cat", "repeat_interleave"}
CARRIERS |= {*REGROUPINGS, "transpose", "permute", "movedim", "mT", "T", "expand"}
CARRIERS |= {"unsqueeze", "squeeze", "contiguous", "tensor_split", "swapaxes"}


class Heads(NamedTuple):
    """The axes of one attention, and the row that has its queries."""

    rows: Node
    columns: Node
    before: list[Node]  # what stands before rows and columns in the scores
    width: Node
    query: int  # the tensor's number
    values: Node | None = None  # the width of what is mixed


def find_letters(
    rows: Sequence[Row], groups: AxisGroups, given: Set[int]
) -> dict[str, Node]:
    """Return a node for each letter that the attention of the rows gives a meaning.

    What stands at the same place in another attention, and is as large, is joined.
    `given` are the numbers of the input tensors.
    """
    found = [heads for heads in heads_in(rows, groups) if size(heads.rows) > 1]
    if not found:
        return opaque_letters(rows, groups, given)
    main = next((h for h in found if is_square(h, groups)), found[0])
    letters = {"T": main.rows}
    if (other := second_length(found, main, groups)) is not None:
        letters["Tk"] = other
    for heads in (main, *found):
        parts = ("K", heads.width), ("H", head_axis(heads, groups)), ("K", heads.values)
        for name, node in parts:
            if node is not None:
                groups.join(letters.setdefault(name, node), node)
    letters |= stream_letters(rows, main, groups, given)
    width, inner = letters.get("D"), letters.get("K")
    if width and inner and groups.leader(width) == groups.leader(inner):
        del letters["K"]  # no map made the queries: they are as wide as the model
    return letters


def second_length(
    found: Sequence[Heads], main: Heads, groups: AxisGroups
) -> Node | None:
    """Return an axis of scores that is not T, but of another length."""
    for heads in found:
        for node in (heads.columns, heads.rows):
            if groups.leader(node) == groups.leader(main.rows):
                continue
            if is_square(heads, groups) and is_square(main, groups):
                groups.join(main.rows, node)
            elif size(node) > 1:
                return node
    return None


def is_square(heads: Heads, groups: AxisGroups) -> bool:
    if groups.leader(heads.rows) == groups.leader(heads.columns):
        return True
    return size(heads.rows) == size(heads.columns)


def opaque_letters(
    rows: Sequence[Row], groups: AxisGroups, given: Set[int]
) -> dict[str, Node]:
    for row in rows:
        if row.op in FAST_PATHS and row.inputs and len(row.inputs[0]) == 3:
            _, tokens, width = nodes(row.inputs[0])
            return {"T": tokens, "D": width} | letters_around(
                width, rows, groups, given
            )
    return {}


def heads_in(rows: Sequence[Row], groups: AxisGroups) -> Iterator[Heads]:
    makers: dict[int, Row] = {}
    for i, row in enumerate(rows):
        if row.op.startswith(FUSED_ATTENTION) and len(row.inputs) > 1:
            query, key = map(nodes, row.inputs[:2])
            number = row.inputs[0].number
            values = nodes(row.outputs[0])[-1]
            yield Heads(query[-2], key[-2], query[:-2], query[-1], number, values)
        if row.op == "softmax" and isinstance(row.detail, int):
            scores = source_of(row.inputs[0], makers, SCORES)
            mixes = user_of(row, rows[i + 1 :])
            if scores is not None and mixes is not None:
                with contextlib.suppress(Exception):  # another kind of product
                    heads = with_columns(heads_of(scores), row, groups)
                    yield heads._replace(values=nodes(mixes.outputs[0])[-1])
        for shape in row.outputs:
            makers.setdefault(shape.number, row)


def source_of(
    shape: Shape, makers: dict[int, Row], wanted: set[str], depth: int = 24
) -> Row | None:
    """Return the wanted operation that a tensor comes from, by steps of one element."""
    row = makers.get(shape.number)
    if row is None or row.op in wanted or depth == 0:
        return row if row is not None and row.op in wanted else None
    like = [x for x in row.inputs if x == row.output]
    if not like and row.op in CARRIERS:
        like = row.inputs[:1]
    found = (source_of(x, makers, wanted, depth - 1) for x in like)
    return next((row for row in found if row is not None), None)


def user_of(row: Row, rows: Sequence[Row]) -> Row | None:
    """Return the product that a result enters: weights do, probabilities need not."""
    numbers = {shape.number for shape in row.outputs}
    for later in rows:
        if not any(shape.number in numbers for shape in later.inputs):
            continue
        if later.op in SCORES:
            return later if later.outputs else None
        if later.op in CARRIERS or any(x == later.output for x in later.inputs):
            numbers |= {shape.number for shape in later.outputs}
    return None


def heads_of(row: Row) -> Heads:
    """Read a product of queries and keys."""
    out = nodes(row.outputs[0])
    left, right = map(nodes, row.inputs[-2:])
    if row.op != "einsum":
        return Heads(out[-2], out[-1], out[:-2], left[-1], row.inputs[-2].number)
    (one, two), made = letters_of_einsum(row)
    inner = next(x for x in one if x in two and x not in made)
    first = next(x for x in made if x in one and x not in two)
    second = next(x for x in made if x in two and x not in one)
    before = [node for x, node in zip(made, out, strict=True) if x in one and x in two]
    columns, width = out[made.index(second)], left[one.index(inner)]
    return Heads(out[made.index(first)], columns, before, width, row.inputs[-2].number)


def with_columns(heads: Heads, softmax: Row, groups: AxisGroups) -> Heads:
    """Call columns what the softmax sums over: the keys."""
    summed = groups.leader(nodes(softmax.inputs[0])[softmax.detail])
    rows, columns = groups.leader(heads.rows), groups.leader(heads.columns)
    if summed == rows != columns:
        return heads._replace(rows=heads.columns, columns=heads.rows)
    return heads


def head_axis(heads: Heads, groups: AxisGroups) -> Node | None:
    """Return the axis of the heads: before the scores' own two, or merged into it."""
    if len(heads.before) > 1:
        return heads.before[-1]
    for node in heads.before:
        own = groups.leader(node)
        for left, right in groups.products:
            for one, parts in ((left, right), (right, left)):
                ends = [x for x in parts if not isinstance(x, int)]
                if len(one) == 1 and len(ends) == 2 and is_one(one[0], own, groups):
                    return ends[-1]
    return None


def is_one(factor: Node | int, own: Node, groups: AxisGroups) -> bool:
    return not isinstance(factor, int) and groups.leader(factor) == own


def stream_letters(
    rows: Sequence[Row], heads: Heads, groups: AxisGroups, given: Set[int]
) -> dict[str, Node]:
    """Find D, which the map to the queries reads, then F and V."""
    source = source_of_queries(heads.query, first_makers(rows))
    if source is None:
        return {}
    return {"D": source} | letters_around(source, rows, groups, given, heads.width)


def first_makers(rows: Sequence[Row]) -> dict[int, Row]:
    """Map the number of each tensor to the row that made it."""
    pairs = [(shape.number, row) for row in rows for shape in row.outputs]
    return dict(reversed(pairs))


def letters_around(
    stream: Node,
    rows: Sequence[Row],
    groups: AxisGroups,
    given: Set[int],
    head: Node | None = None,
) -> dict[str, Node]:
    """Find F, between two maps from and to D, and V, the rows of a table of words."""
    letters: dict[str, Node] = {}
    width = groups.leader(stream)
    for node in inner_widths(rows, width, groups):
        if head is None or not holds(groups, node, head):
            groups.join(letters.setdefault("F", node), node)
    makers, tables = first_makers(rows), []
    for row in rows:
        if row.op == "embedding" and origin(row.inputs[0].number, makers) in given:
            tables.append(nodes(row.inputs[1])[0])
    if tables:
        letters["V"] = max(tables, key=size)
    return letters


def origin(number: int, makers: dict[int, Row]) -> int:
    """Return the tensor that another was made of, step by step by first inputs."""
    for _ in range(24):
        row = makers.get(number)
        if row is None or not row.inputs or row.inputs[0].number == number:
            break
        number = row.inputs[0].number
    return number


def source_of_queries(number: int, makers: dict[int, Row]) -> Node | None:
    """Go back from the queries to the map that made them; return what it reads."""
    for _ in range(24):
        row = makers.get(number)
        if row is None:
            return None
        if row.op in LINEAR_MAPS:
            x = nodes(row.inputs[-2 if row.op == "addmm" else 0])
            return x[-2 if row.op == "conv1d" else -1]
        if row.op in SCORES:
            return summed_width(row) if len(row.inputs) > 1 else None
        number = row.inputs[0].number
    return None


def summed_width(row: Row) -> Node | None:
    left = nodes(row.inputs[-2])
    if row.op != "einsum":
        return left[-1]
    if len(row.inputs) != 2 or not isinstance(row.detail, str):
        return None
    (one, two), made = letters_of_einsum(row)
    inner = [x for x in one if x in two and x not in made]
    return left[one.index(inner[0])] if inner else None


def inner_widths(
    rows: Sequence[Row], width: Node, groups: AxisGroups
) -> Iterator[Node]:
    """Yield what maps from D to D have in between."""
    maps = [
        (nodes(r.inputs[0]), nodes(r.outputs[0]), r.op)
        for r in rows
        if r.op in LINEAR_MAPS
    ]
    ends = [
        (x[-2], out[-2]) if op == "conv1d" else (x[-1], out[-1]) for x, out, op in maps
    ]
    leaders = [(groups.leader(n_in), groups.leader(n_out)) for n_in, n_out in ends]
    starts = {n_out for n_in, n_out in leaders if n_in == width}
    starts |= {part for one in starts for part in parts_of_axis(groups, one)}
    for n_in, n_out in leaders:
        if n_out == width != n_in and n_in in starts:
            yield n_in


def parts_of_axis(groups: AxisGroups, node: Node) -> Iterator[Node]:
    """Yield what an axis was cut into, by equal parts: 2 * F gives F."""
    for left, right in groups.products:
        if (
            len(left) == 1
            and is_one(left[0], node, groups)
            and isinstance(right[0], int)
        ):
            yield from (groups.leader(x) for x in right if not isinstance(x, int))


def holds(groups: AxisGroups, node: Node, part: Node) -> bool:
    """Say whether an axis was merged from, or split into, a certain one."""
    part = groups.leader(part)
    for left, right in groups.products:
        for one, many in ((left, right), (right, left)):
            held = any(is_one(x, part, groups) for x in many)
            if held and len(one) == 1 and is_one(one[0], node, groups):
                return True
    return False
