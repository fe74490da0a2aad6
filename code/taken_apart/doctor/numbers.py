"""Compare results: are two tensors the same, up to rounding?"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..tensors import tensors_in


def floats(result: Any) -> list[Tensor]:
    """Return the floating tensors in a nested result, detached."""
    return [t.detach() for t in tensors_in(result) if t.is_floating_point()]


def rounding(dtypes: Sequence[torch.dtype], tolerance: float = 1e-4) -> float:
    """Return how far numbers may lie apart by rounding, in the coarsest of dtypes."""
    return max([tolerance, *(4 * torch.finfo(dtype).eps for dtype in dtypes)])


def differ(left: Tensor, right: Tensor, tolerance: float = 1e-4) -> Tensor:
    """Return where two tensors of one shape differ by more than rounding.

    `tolerance` is a share of the largest number on the left, or of 1 if that is larger.
    nan differs from all but nan.
    """
    dtypes = [t.dtype for t in (left, right) if t.is_floating_point()]
    tolerance = rounding(dtypes, tolerance)
    left, right = left.detach().float(), right.detach().float()
    scale = left.nan_to_num(0, 0, 0).abs().max().clamp(min=1.0) if left.numel() else 1.0
    too_far = (left - right).abs() > tolerance * scale
    return too_far | (left.isnan() != right.isnan())


def equal(left: Tensor, right: Tensor) -> bool:
    """Say whether two tensors have one shape and agree up to rounding."""
    return left.shape == right.shape and not bool(differ(left, right).any())


def apart(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return how far outputs lie apart, 0 where they agree up to rounding."""
    if [t.shape for t in left] != [t.shape for t in right]:
        return math.inf
    pairs = list(zip(left, right, strict=True))
    if not any(bool(differ(a, b).any()) for a, b in pairs):
        return 0.0
    return max((a - b).abs().max().item() for a, b in pairs if a.numel())
