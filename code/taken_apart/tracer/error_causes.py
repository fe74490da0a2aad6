"""Why an operation raised: the axes that do not fit, and the likely cause.

`explain(row, error)` is asked about the row of an operation that raised. Each of
`REASONS` looks at the operation, the shapes that met and torch's message, and answers
(axes, cause), or None where the error is of another kind.
"""

import contextlib
import math
import os
from typing import TYPE_CHECKING

from ..errors import first_line

if TYPE_CHECKING:
    from .rows import Row, Shape

Misfit = tuple[str, str] | None  # the axes that do not fit, and the likely cause


def explain(row: "Row", error: Exception) -> tuple[str, str]:
    """Return the axes that do not fit, and a sentence with the likely cause."""
    message = first_line(error)
    if row.op.startswith("raise"):
        place = f"{os.path.basename(row.file)}:{row.line}" if row.line else ""
        if isinstance(row.detail, str):  # how the module wants to be called
            line = f"the call at {place}" if place else "the call of the module"
            return "", f"{line} does not fit {row.detail}"
        return "", f"refused at {place}: {message}" if place else message
    for reason in REASONS:
        with contextlib.suppress(IndexError):  # an operand with fewer axes than usual
            found = reason(row, message)
            if found is not None:
                return found
    return "", message


def sized(shape: "Shape", axis: int) -> str:
    """Write one axis of a shape: "axis -1 of (B, T, D) is D = 24"."""
    name = f"{shape.axes[axis]} = " if shape.axes[axis].isidentifier() else ""
    return f"axis {axis} of {shape} is {name}{shape[axis]}"


def types_differ(row: "Row", message: str) -> Misfit:
    text = message.lower()
    kinds = [str(shape.dtype).removeprefix("torch.") for shape in row.inputs]
    if "masked_fill" in row.op and "bool" in text:
        return "", f"the mask holds {kinds[-1]}, and must be bool: mask.bool()"
    if "without overflow" in text:
        return "", f"the fill value does not fit {kinds[0]}: use torch.finfo(dtype).min"
    if any(word in text for word in ("dtype", "scalar type", "device")):
        return "", f"inputs of {', '.join(dict.fromkeys(kinds))}: {message}"
    return None


def ids_out_of_range(row: "Row", message: str) -> Misfit:
    if row.op != "embedding" or not isinstance(row.detail, tuple):
        return None
    (low, high), rows = row.detail, row.inputs[1][0]
    if low >= 0 and high < rows:
        return None
    fit = f"ids lie in {low}..{high}, the table has rows 0..{rows - 1}"
    outside = low if low < 0 else high
    short = "the vocabulary, or the table of positions, is shorter than that"
    return fit, f"id {outside} has no row: {'ids start at 0' if low < 0 else short}"


def products_differ(row: "Row", message: str) -> Misfit:
    """Explain linear, matmul and bmm, which want equal inner sizes."""
    if row.op not in LINEAR + MATMUL or len(row.inputs) < 2:
        return None
    left, right = row.inputs[:2]
    inner = -1 if row.op in LINEAR or len(right) == 1 else -2
    if left[-1] == right[inner]:
        return None
    wanted = f"{sized(left, -1)}, {sized(right, inner)}"
    if row.op in LINEAR:
        cause = f"the layer wants {right[-1]} features in the last axis, got {left[-1]}"
        swapped = right[-1] in left[:-1]
        return wanted, cause + ": was an axis moved or flattened before?" * swapped
    if left[-1] == right[-1]:
        return wanted, "the second is not transposed: use .transpose(-2, -1)"
    return wanted, "the inner sizes of a product must be equal"


def mask_has_other_shape(row: "Row", message: str) -> Misfit:
    if row.op != "multi_head_attention_forward" or "mask" not in message:
        return None
    given = f"{row.inputs[-1]} = {tuple(row.inputs[-1])}"
    wanted = "attn_mask wants (T, Tk) or (B*H, T, Tk), key_padding_mask (B, Tk)"
    return f"the mask is {given}", wanted


def numbers_do_not_fit(row: "Row", message: str) -> Misfit:
    """Explain view and its like: other element count, or memory not in that order."""
    if row.op not in ("view", "reshape", "unflatten") or not row.inputs:
        return None
    if "stride" in message or "contiguous" in message:
        return "", "view needs the numbers in memory in that order: use reshape"
    count, wanted = math.prod(row.inputs[0]), row.detail
    shape = f"{row.inputs[0]} = {tuple(row.inputs[0])}"
    return f"{shape} holds {count} numbers", f"they cannot be arranged as {wanted}"


def norm_has_other_size(row: "Row", message: str) -> Misfit:
    if row.op != "layer_norm" or len(row.inputs) < 2:
        return None
    given, weight = row.inputs[:2]
    cause = f"LayerNorm is over {tuple(weight)}, the input ends in {given[-1]}"
    return f"{sized(given, -1)}, the weight is {weight}", cause


def letters_differ(row: "Row", message: str) -> Misfit:
    if row.op != "einsum" or not isinstance(row.detail, str):
        return None
    terms, sizes = row.detail.replace(" ", "").split("->")[0].split(","), {}
    # Not strict: that the equation and the operands do not match may be the error.
    for term, shape in zip(terms, row.inputs, strict=False):
        for letter, size in zip(term, shape, strict=False):
            if sizes.setdefault(letter, size) != size:
                fit = f"letter {letter} is {sizes[letter]} and {size}"
                return fit, f"in {row.detail!r} {fit}: one letter, one size"
    return None


def sizes_do_not_broadcast(row: "Row", message: str) -> Misfit:
    """Explain add, masked_fill and their like: sizes, from the right, equal or 1."""
    if row.op in ("cat", "stack") or len(row.inputs) < 2:
        return None
    left, right = row.inputs[:2]
    for axis in range(-1, -min(len(left), len(right)) - 1, -1):
        if left[axis] != right[axis] and 1 not in (left[axis], right[axis]):
            cause = "sizes must be equal or 1, counted from the right"
            if len(left) == 4 and right == (left[0], left[-1]):
                cause = "a (B, T) mask meets (B, H, T, T) scores: mask[:, None, None]"
            return f"{sized(left, axis)}, {sized(right, axis)}", cause
    return None


LINEAR, MATMUL = ("linear",), ("matmul", "bmm", "mm", "rmatmul", "baddbmm")
REASONS = (
    types_differ,
    ids_out_of_range,
    products_differ,
    mask_has_other_shape,
    numbers_do_not_fit,
    norm_has_other_size,
    letters_differ,
    sizes_do_not_broadcast,
)
