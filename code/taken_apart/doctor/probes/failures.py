"""The probe of calls that raise: what did not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ...errors import first_line
from ...tracer import Row
from ..evidence.attentions import PRODUCTS
from ..exam import Exam
from ..finding import Finding
from .kit import Findings, found, probe


@probe()
def failure(exam: Exam) -> Findings:
    """Does the call run at all?"""
    error = exam.flow.error
    if isinstance(error, SystemExit):
        yield found(
            "notebook / display",
            "fault",
            title="The call ends the program",
            evidence="it raises SystemExit",
            fix="raise ValueError",
        )
    elif error is not None:
        yield raised(exam, exam.flow.rows[-1], error)


def raised(exam: Exam, row: Row, error: BaseException) -> Finding:
    """Say which operation raised what, and the likely cause."""
    traced, kind = exam.failed_row, kind_of_failure(exam, row, str(error))
    part = f" in {row.module}" if row.module else ""
    mismatch = f" ({traced.mismatch})" if traced and traced.mismatch else ""
    fix = traced.cause if traced else ""
    if kind == "positional encoding" and row.op.startswith("setitem"):
        fix = "an odd width has one sine more than cosines: cos(...)[:, : d // 2]"
    name = type(error).__name__
    does = (
        f"{name} is raised" if row.op == f"raise {name}" else f"{row.op} raises {name}"
    )
    return found(
        kind,
        "fault",
        title=f"{does}{part}",
        evidence=first_line(error) + mismatch,
        fix=fix,
        at=row,
    )


def kind_of_failure(exam: Exam, row: Row, text: str) -> str:
    """Sort an error by the operation, what met in it, and torch's message."""
    text = text.lower()
    for cause in CAUSES:
        if cause.fits(exam, row, text):
            return cause.kind
    return "batch/sequence layout"


Fits = Callable[[Exam, Row, str], bool]  # given the operation that raised, and the text


def says(*words: str) -> Fits:
    return lambda exam, row, text: any(word in text for word in words)


def at_op(*ops: str) -> Fits:
    return lambda exam, row, text: row.op.rstrip("_") in ops


# What torch says where types, and not shapes, do not fit.
WRONG_TYPE = "dtype", "scalar type", "must be bool", "supports boolean", "only bool"
WRONG_TYPE += "to be bool", "bool tensor", "not implemented for", "should be the same"


def wrong_type(exam: Exam, row: Row, text: str) -> bool:
    return any(word in text for word in WRONG_TYPE) or (
        "expected" in text and "type" in text and "tensor" in text
    )


def ids_of_wrong_type(exam: Exam, row: Row, text: str) -> bool:
    return row.op == "embedding" and wrong_type(exam, row, text)


def of_positions(exam: Exam, row: Row, text: str) -> bool:
    """Say whether what failed has to do with a table of positions."""
    text = re.sub(r"(positional|keyword) arguments?", "", text)  # said of any call
    words = "position", "max_len", "too long", "sequence length"
    if row.op.startswith("raise") and any(word in text for word in words):
        return True
    if row.op == "embedding":
        return counts_up(exam, row)
    waves = any(s.op in ("sin", "cos") for s in exam.flow.steps[-6:])
    if row.op.startswith("setitem") and waves:
        return True
    return row.op in ("add", "iadd") and runs_past_table(exam, row)


def counts_up(exam: Exam, row: Row) -> bool:
    """Say whether the ids of a failed look-up are positions, made by counting."""
    made = [s.op for s in exam.flow.steps[-8:]]
    ids = row.inputs[0] if row.inputs else ()
    given = {tuple(t.shape) for t in exam.tensors if not t.is_floating_point()}
    counted = any(op in ("arange", "cumsum", "linspace") for op in made)
    return counted or (len(ids) == 1 and tuple(ids) not in given)


def runs_past_table(exam: Exam, row: Row) -> bool:
    """Say whether features were added to a table of the same width and other length."""
    if len(row.inputs) != 2 or not row.inputs[0] or not row.inputs[1]:
        return False
    left, right = row.inputs
    same_width = left[-1] == right[-1] and len(left) > 1 and len(right) > 1
    return same_width and left[-2] != right[-2] and not of_scores(exam, row)


def of_scores(exam: Exam, row: Row) -> bool:
    """Say whether the operation that failed was about scores of attention."""
    products = [s for s in exam.flow.steps if s.op in PRODUCTS]
    shapes = {tuple(s.outputs[0].shape) for s in products}
    square = [s for s in row.inputs if len(s) > 2 and s[-1] == s[-2]]
    return bool(square) or any(tuple(s) in shapes for s in row.inputs[:1])


def of_masks(exam: Exam, row: Row, text: str) -> bool:
    masked = row.op.rstrip("_") in ("masked_fill", "where") or "mask" in text
    fused = row.op == "scaled_dot_product_attention" and len(row.inputs) > 3
    added = row.op in ("add", "iadd", "mul", "imul", "sub") and of_scores(exam, row)
    return (masked or fused or added) and not wrong_type(exam, row, text)


def swapped_axes(exam: Exam, row: Row, text: str) -> bool:
    """Say whether a layer was given features in another axis than the last."""
    if row.op not in ("linear", "layer_norm", "conv1d") or len(row.inputs) < 2:
        return False
    given, weight = row.inputs[:2]
    wanted = weight[1] if row.op == "conv1d" else weight[-1]
    return wanted in given


UNREGISTERED = "before module.__init__", "loading state_dict", "cannot assign"
UNREGISTERED += "on the same device", "on device", "meta tensor", "deepcopy protocol"


class Cause(NamedTuple):
    """A kind of error, and whether an operation, its shapes and its message fit it."""

    kind: str
    fits: Fits


# The first that fits is taken: what a message says plainly comes before what an
# operation suggests.
CAUSES = [
    Cause("nan / precision", says("without overflow", "overflow")),
    Cause("registration / sharing", says(*UNREGISTERED)),
    Cause("attention weights", says("'nonetype' object", "'tuple'", "not tuple")),
    Cause("dtype / compile", ids_of_wrong_type),
    Cause("positional encoding", of_positions),
    Cause("mask axis/shape", of_masks),
    Cause("dtype / compile", wrong_type),
    Cause("dtype / compile", at_op("embedding")),
    Cause("softmax / scale", at_op("softmax")),
    Cause("batch/sequence layout", swapped_axes),
    Cause("norm / residual / FFN", at_op("layer_norm", "batch_norm", "rms_norm")),
    Cause("norm / residual / FFN", says("inplace operation", "in-place operation")),
    Cause("head split/merge", says("divisible", "num_heads", "n_heads")),
    Cause("head split/merge", says("stride", "einsum")),
    Cause(
        "head split/merge", at_op("view", "reshape", "unflatten", "einsum", "matmul")
    ),
    Cause("head split/merge", at_op("linear", "rmatmul", "bmm")),
    Cause("head split/merge", at_op("scaled_dot_product_attention")),
    Cause("norm / residual / FFN", at_op("add", "iadd")),
    Cause("registration / sharing", says("object has no attribute")),
]
