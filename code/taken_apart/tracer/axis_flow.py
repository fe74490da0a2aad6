"""Follow axes through a call: which axes, of which tensors, are one and the same.

A matrix product makes the last axis of its left side one with the last but one of its
right side; a sum makes axes one from the right; a reshape says that products of sizes
are equal. So an axis is known by where it comes from and goes to, never by its size:
an image as high as the model is wide has an axis of its own. What a rule does not know
joins nothing.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence

import torch

from .rows import Row, Shape

Node = tuple[int, tuple[int, ...], int]  # a tensor's number, its shape, an axis of it
Factors = list[Node | int]

REGROUPINGS = {"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as"}
MATRIX_PRODUCTS = {"matmul", "bmm", "mm", "mv", "rmatmul", "baddbmm", "addmm", "addbmm"}
FUSED_ATTENTION = "scaled_dot_product_attention"
# What takes numbers from places, so that shapes alone do not tell whose axes are whose.
PICKS = {"setitem", "gather", "index_select", "take_along_dim", "scatter", "index_add"}
PICKS |= {"scatter_add", "index_copy", "index_fill", "cdist", "outer", "searchsorted"}


def nodes(shape: Shape) -> list[Node]:
    return [(shape.number, tuple(shape), axis) for axis in range(len(shape))]


def size(factor: Node | int) -> int:
    return factor if isinstance(factor, int) else factor[1][factor[2]]


class AxisGroups:
    """Groups of axes that are one and the same, and products of axes that are equal."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.leaders: dict[Node, Node] = {}
        self.products: list[tuple[Factors, Factors]] = []
        for i, row in enumerate(rows):
            if row.inputs and row.outputs:
                with contextlib.suppress(Exception):  # a form of it that no rule knows
                    rule_of(row)(row, self)
                if row.op in TORCH_ATTENTION:
                    join_retold(row, rows[i + 1 :], self)

    def leader(self, node: Node) -> Node:
        """Return what stands for the whole group of an axis."""
        while (above := self.leaders.get(node, node)) != node:
            node = above
        return node

    def join(self, one: Node, other: Node) -> None:
        """Make two axes one; an axis of size 1 may meet any, and says nothing."""
        one, other = self.leader(one), self.leader(other)
        if one != other and size(one) == size(other) > 1:
            self.leaders[other] = one

    def align(self, left: Sequence[Node], right: Sequence[Node]) -> None:
        """Join axes in pairs, counted from the right."""
        for one, other in zip(reversed(left), reversed(right), strict=False):
            self.join(one, other)

    def equate(self, left: Factors, right: Factors) -> None:
        self.products.append((left, right))


def rule_of(row: Row) -> Callable[[Row, AxisGroups], None]:
    name = row.op.rstrip("_")
    if name in REGROUPINGS:
        return join_regrouped
    if isinstance(row.detail, list):
        return join_moved
    if name in JOINS:
        return JOINS[name]
    if name in PICKS:
        return join_nothing
    return join_replayed if len(row.inputs) == 1 else join_broadcast


def join_regrouped(row: Row, groups: AxisGroups) -> None:
    """Match axes from the left, by equal products of sizes."""
    old = [node for node in nodes(row.inputs[0]) if size(node) > 1]
    new = [node for node in nodes(row.outputs[0]) if size(node) > 1]
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        while (ratio := numbers_in(left) - numbers_in(right)) and (old or new):
            grows, rest = (
                (left, old) if (ratio < 0 and old) or not new else (right, new)
            )
            grows.append(rest.pop(0))
        if len(left) == len(right) == 1:
            groups.join(left[0], right[0])
        else:
            groups.equate([*left], [*right])


def numbers_in(axes: Sequence[Node]) -> int:
    return math.prod(map(size, axes))


def join_moved(row: Row, groups: AxisGroups) -> None:
    before, after = nodes(row.inputs[0]), nodes(row.outputs[0])
    groups.align([before[axis] for axis in row.detail], after)


def join_nothing(row: Row, groups: AxisGroups) -> None:
    pass


def join_broadcast(row: Row, groups: AxisGroups) -> None:
    """Join from the right, where the result has the shape that broadcasting gives."""
    for out in row.outputs:
        columns = itertools.zip_longest(*(x[::-1] for x in row.inputs), fillvalue=1)
        if [max(column) for column in columns] == list(out[::-1]):
            for shape in row.inputs:
                groups.align(nodes(shape), nodes(out))
        else:
            join_in_place(row.inputs[0], out, groups)


def join_in_place(before: Shape, after: Shape, groups: AxisGroups) -> None:
    """Join axes that kept their places and sizes."""
    if len(before) == len(after):
        for one, other in zip(nodes(before), nodes(after), strict=True):
            groups.join(one, other)


def join_replayed(row: Row, groups: AxisGroups) -> None:
    """Ask the operation itself, on a tensor without numbers whose sizes all differ."""
    before, outs = row.inputs[0], row.outputs
    if all(out == before for out in outs) or row.replay is None:
        for out in outs:
            join_in_place(before, out, groups)
        return
    primes = iter((1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061))
    odd = [12 * next(primes) if n > 1 else 1 for n in before]
    try:
        again = row.replay(torch.empty(odd, device="meta"))
    except Exception:  # it asks for certain sizes
        for out in outs:
            join_in_place(before, out, groups)
        return
    made = [again] if isinstance(again, torch.Tensor) else list(again)
    for out, other in zip(outs, made, strict=False):
        join_traced(before, odd, out, other.shape, groups)


def join_traced(
    before: Shape, odd: list[int], out: Shape, other: Sequence[int], groups: AxisGroups
) -> None:
    """Join the axes that kept their odd sizes; equate those that were multiplied."""
    came, left = nodes(before), nodes(out)
    if len(left) != len(other):
        return
    for i, j in itertools.product(range(len(came)), range(len(left))):
        large, small = max(odd[i], other[j]), max(1, min(odd[i], other[j]))
        more, rest = divmod(large, small)
        if odd[i] == 1 or rest or more > 12 or small < 13:
            continue
        if more == 1:
            groups.join(came[i], left[j])
        elif odd[i] == large:
            groups.equate([came[i]], [more, left[j]])
        else:
            groups.equate([left[j]], [more, came[i]])
    join_slice(came, left, odd, other, groups)


def join_slice(
    came: list[Node],
    left: list[Node],
    odd: list[int],
    other: Sequence[int],
    groups: AxisGroups,
) -> None:
    """Join x[:, :n] where n is all of the axis; equate it where n is an equal part."""
    used = [i for i, n in enumerate(odd) if n not in other]
    cut = [j for j, n in enumerate(other) if n not in odd and 1 < n == size(left[j])]
    if len(used) == len(cut) == 1:
        whole, part = came[used[0]], left[cut[0]]
        groups.join(whole, part)
        if size(part) < size(whole) <= 4 * size(part) and size(whole) % size(part) == 0:
            groups.equate([whole], [size(whole) // size(part), part])


def join_unbound(row: Row, groups: AxisGroups) -> None:
    """Join what is left when one axis, `detail`, is taken apart."""
    before = nodes(row.inputs[0])
    del before[row.detail if isinstance(row.detail, int) else 0]
    for out in row.outputs:
        groups.align(before, nodes(out))


def join_stacked(row: Row, groups: AxisGroups) -> None:
    after = nodes(row.outputs[0])
    del after[row.detail if isinstance(row.detail, int) else 0]
    for shape in row.inputs:
        groups.align(nodes(shape), after)


def join_concatenated(row: Row, groups: AxisGroups) -> None:
    out, n = row.outputs[0], len(row.inputs)
    for shape in row.inputs:
        join_in_place(shape, out, groups)
    changed = [axis for axis, k in enumerate(row.inputs[0]) if k != out[axis]]
    if len(changed) == 1 and len(set(row.inputs)) == 1:
        axis = changed[0]
        groups.equate([nodes(out)[axis]], [n, nodes(row.inputs[0])[axis]])
        for shape in row.inputs[1:]:
            groups.join(nodes(row.inputs[0])[axis], nodes(shape)[axis])


def join_linear(row: Row, groups: AxisGroups) -> None:
    x, weight, *bias = map(nodes, row.inputs)
    out = nodes(row.outputs[0])
    groups.align(x[:-1], out[:-1])
    groups.join(x[-1], weight[-1])
    for other in (weight[:1], *bias):
        groups.align(other, out)


def join_product(row: Row, groups: AxisGroups) -> None:
    *added, left, right = map(nodes, row.inputs)
    out = nodes(row.outputs[0])
    for term in added:
        groups.align(term, out)
    groups.join(left[-1], right[-2] if len(right) > 1 else right[-1])
    if len(right) == 1:
        groups.align(left[:-1], out)
        return
    groups.join(right[-1], out[-1])
    groups.align(right[:-2], out[:-2])
    groups.align(left[:-1], out[:-1])


def join_einsum(row: Row, groups: AxisGroups) -> None:
    terms, out = letters_of_einsum(row)
    seen: dict[str, Node] = {}
    shapes = zip((*terms, out), (*row.inputs, row.outputs[0]), strict=True)
    for letters, shape in shapes:
        for letter, node in zip(letters, nodes(shape), strict=True):
            groups.join(seen.setdefault(letter, node), node)


def letters_of_einsum(row: Row) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; "..." becomes digits."""
    left, arrow, right = row.detail.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        letters = "".join(terms).replace(".", "")
        right = "..." * ("..." in left)
        right += "".join(sorted(x for x in set(letters) if letters.count(x) == 1))

    def written(term: str, shape: Shape) -> str:
        more = len(shape) - len(term.replace("...", ""))
        return term.replace("...", "".join(str(k) for k in range(more))[::-1])

    pairs = zip(terms, row.inputs, strict=True)
    return [written(*pair) for pair in pairs], written(right, row.outputs[0])


def join_embedding(row: Row, groups: AxisGroups) -> None:
    ids, table = map(nodes, row.inputs[:2])
    groups.align([*ids, table[-1]], nodes(row.outputs[0]))


def join_indexed(row: Row, groups: AxisGroups) -> None:
    """Follow x[...] where no tensor is in the brackets, or where one is all of it."""
    if len(row.inputs) == 1:
        join_replayed(row, groups)
    elif len(row.inputs) == 2 and row.detail == "tensor":
        table, ids = map(nodes, row.inputs)
        groups.align([*ids, *table[1:]], nodes(row.outputs[0]))


def join_convolution(row: Row, groups: AxisGroups) -> None:
    x, weight, *bias = map(nodes, row.inputs)
    out, channels = nodes(row.outputs[0]), -len(weight) + 1
    alone = size(weight[1]) == 1 < size(x[channels]) == size(out[channels])
    groups.join(x[channels], out[channels] if alone else weight[1])
    groups.join(weight[0], out[channels])
    for other in bias:
        groups.join(other[0], out[channels])
    groups.align(x[:channels], out[:channels])
    groups.align(x[channels + 1 :], out[channels + 1 :])


def join_channel_norm(row: Row, groups: AxisGroups) -> None:
    x, *others = map(nodes, row.inputs)
    for other in others:
        groups.join(x[1], other[0])
    groups.align(x, nodes(row.outputs[0]))


def join_fused(row: Row, groups: AxisGroups) -> None:
    query, key, value, *masks = map(nodes, row.inputs)
    out = nodes(row.outputs[0])
    for other in (out, key, value):
        groups.align(query[:-2], other[:-2])
    groups.join(query[-1], key[-1])
    groups.join(key[-2], value[-2])
    groups.align([query[-2], value[-1]], out[-2:])
    for mask in masks:
        groups.align(mask, [*query[:-1], key[-2]])


def join_torch_attention(row: Row, groups: AxisGroups) -> None:
    """torch's own attention: the result is like the query, its maps are D wide."""
    query, key, value, *others = map(nodes, row.inputs)
    groups.align(query, nodes(row.outputs[0]))
    groups.align(key[:-1], value[:-1])
    width, time_first = query[-1], row.op == TORCH_ATTENTION[0]
    ends = [i + 1 for i, shape in enumerate(others) if len(shape) == 1]
    maps, masks = others[: max(ends, default=2)], others[max(ends, default=2) :]
    for node in (axis for shape in maps for axis in shape):
        if size(node) == 3 * size(width):
            groups.equate([node], [3, width])
        groups.join(width, node)
    if len(maps[0]) == 1:  # no common map: those of query, key and value come last
        masks, own = masks[:-3], masks[-3:]
        for (n_out, n_in), x in zip(own, (query, key, value), strict=True):
            groups.join(width, n_out)
            groups.join(x[-1], n_in)
    padding = [query[1 if time_first else 0], key[0 if time_first else 1]]
    for mask in masks:
        if list(map(size, mask)) == list(map(size, padding)):
            groups.align(mask, padding)


def join_retold(row: Row, rows: Sequence[Row], groups: AxisGroups) -> None:
    """Join torch's attention with the steps that are told below it, batch first."""
    told = itertools.takewhile(lambda r: r.note.startswith("recomputed"), rows)
    maps = [r for r in told if r.op == "linear"]
    if len(maps) != 4:
        return
    pairs = [(a, b.inputs[0]) for a, b in zip(row.inputs, maps, strict=False)][:3]
    for outer, inner in (*pairs, (row.outputs[0], maps[3].outputs[0])):
        axes = nodes(outer)
        if row.op == TORCH_ATTENTION[0] and len(axes) == 3:
            axes[:2] = axes[1::-1]
        groups.align(axes, nodes(inner))


TORCH_ATTENTION = "multi_head_attention_forward", "_native_multi_head_attention"
JOINS: dict[str, Callable[[Row, AxisGroups], None]] = {
    **dict.fromkeys(MATRIX_PRODUCTS, join_product),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), join_convolution),
    **dict.fromkeys(("batch_norm", "group_norm", "instance_norm"), join_channel_norm),
    **dict.fromkeys(TORCH_ATTENTION, join_torch_attention),
    **dict.fromkeys(("cat", "concat", "concatenate"), join_concatenated),
    FUSED_ATTENTION: join_fused,
    "linear": join_linear,
    "einsum": join_einsum,
    "embedding": join_embedding,
    "getitem": join_indexed,
    "stack": join_stacked,
    "unbind": join_unbound,
}
