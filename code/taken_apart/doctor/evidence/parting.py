"""Where two runs of one module part: the first step whose numbers differ."""

from __future__ import annotations

from ...tracer import Row
from ..numbers import differ
from .tensor_flow import Flow


def first_parting(left: Flow, right: Flow) -> Row | None:
    """Return the row of the first step at which two calls differ, None if at none.

    Where they do not run the same operations, that is the first one they do not share.
    """
    for one, two in zip(left.steps, right.steps, strict=False):
        if one.op != two.op or one.value.shape != two.value.shape:
            return one.row
        if one.value.is_floating_point() and differ(one.value, two.value).any():
            return one.row
    if len(left.steps) != len(right.steps):
        longer = max(left.steps, right.steps, key=len)
        return longer[min(len(left.steps), len(right.steps))].row
    return None
