"""A sample alone: by itself in the batch, and without its padding.

It needs no theory of how a module masks: what a sample gives must not depend on what
stands beside it, nor on how far it was filled up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ..exam import Exam, Swap, Unvaried
from ..inputs import Sequence, looks_like_mask
from ..numbers import differ
from .padding import tokens_axis


class Parting(NamedTuple):
    """One sample gives something else alone: which, in which run, and how far."""

    sample: int
    swap: Swap
    distance: float


def samples_to_try(exam: Exam) -> list[int]:
    """Return two samples, those with the most padding first."""
    n = exam.sequence.n_samples
    if not exam.has_padding:
        return list(range(min(n, 2)))
    counts = exam.padding.sum(1)
    partly = [i for i in range(n) if 0 < counts[i] < exam.padding.shape[1]]
    return sorted(partly, key=lambda i: -int(counts[i]))[:2] or [0]


def one_sample(exam: Exam, sample: int) -> Swap | None:
    """Return a swap that leaves one sample of all inputs; None if axes are unclear."""
    seq, swap = exam.sequence, {}
    if seq.batch_axis is None or seq.n_samples == seq.n_tokens:
        return None
    for tensor in exam.tensors:
        axis = seq.batch if tensor is seq.tensor else 0
        if tensor.dim() > axis and tensor.shape[axis] == seq.n_samples:
            swap[tensor] = tensor.narrow(axis, sample, 1)
        elif tensor.dim() > 1 and len(tensor) % seq.n_samples == 0:
            return None  # several rows a sample, in an order that is not known
    return swap


def without_padding(exam: Exam, swap: Swap, sample: int) -> Swap | None:
    """Cut the one sample of a swap to its real columns, if these are in one piece."""
    seq, real = exam.sequence, (~exam.padding[sample]).nonzero().flatten()
    count = len(real)
    if count < 2 or int(real[-1] - real[0]) + 1 != count:
        return None
    first = int(real[0])
    cut = {}
    for tensor, one in swap.items():
        for axis in token_axes(tensor, seq):
            one = one.narrow(axis, first, count)
        cut[tensor] = one.clamp(max=count) if tensor is exam.lengths else one
    for tensor in exam.tensors:
        if tensor not in swap and seq.n_tokens in tensor.shape:
            return None  # made for this length
    return cut


def token_axes(tensor: Tensor, seq: Sequence) -> list[int]:
    if tensor is seq.tensor:
        return [seq.token]
    axes = [a for a in range(1, tensor.dim()) if tensor.shape[a] == seq.n_tokens]
    return axes if tensor.dim() < 3 or looks_like_mask(tensor) else axes[:1]


def partings(exam: Exam, cut: bool) -> Iterator[Parting]:
    """Yield the samples that alone, or without their padding, give something else.

    Raises Unvaried if no output of any could be compared.
    """
    plain, compared = exam.fast_outputs or [], False
    for sample in samples_to_try(exam):
        swap = one_sample(exam, sample)
        if swap and cut:
            swap = without_padding(exam, swap, sample)
        out = exam.run(swap) if swap else None
        for whole, one in zip(plain, out or [], strict=False):
            pair = comparable(exam, whole, one, sample)
            compared |= pair is not None
            if pair is not None and differ(*pair, exam.tolerance).any():
                distance = (pair[0] - pair[1]).abs().nan_to_num(0).max().item()
                yield Parting(sample, swap or {}, distance)
                break
    if not compared:
        raise Unvaried("no sample could be run by itself")


def comparable(
    exam: Exam, whole: Tensor, one: Tensor, sample: int
) -> tuple[Tensor, Tensor] | None:
    """Return what both outputs hold of one sample, its real tokens alone."""
    seq = exam.sequence
    batch = seq.batch if whole.dim() > 2 else 0
    if whole.dim() != one.dim() or whole.shape[batch] != seq.n_samples:
        return None
    if one.shape[batch] != 1:
        return None
    whole, axis = whole.narrow(batch, sample, 1), tokens_axis(exam, whole)
    if exam.has_padding and axis is not None:
        real = (~exam.padding[sample]).nonzero().flatten()
        if whole.shape[axis] == seq.n_tokens:
            whole = whole.index_select(axis, real)
        if one.shape[axis] == seq.n_tokens:
            one = one.index_select(axis, real)
    # Pairs of tokens have a second axis of them; what is cut has one of its own.
    return (whole, one) if whole.shape == one.shape else None


def hides_padding_alone(exam: Exam, parting: Parting) -> bool:
    """Say whether a sample's own run hides its padding, as far as weights show it."""
    from .attentions import attentions

    padding = exam.padding[parting.sample]
    for attention in attentions(exam.observe(parting.swap)):
        used = attention.used
        if used.shape[-1] == len(padding):
            on_padding = used.float()[..., padding].sum(-1)
            rows = (
                on_padding[..., ~padding]
                if used.shape[-2] == len(padding)
                else on_padding
            )
            if bool((rows > 1e-4).any()):
                return False
    return True


def counts_from_the_left(padding: Tensor) -> bool:
    """Say whether padding (B, T) stands in front of samples."""
    return bool(padding[:, 0].any()) and not bool(torch.any(padding[:, -1]))
