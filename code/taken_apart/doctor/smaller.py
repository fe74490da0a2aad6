"""Examine less of a large model: fewer samples, tokens and layers show the same faults.

One recorded call of all layers is read as it is; what needs further calls is asked of
a few layers. Rows are chosen so that both a padded and a full sample stay, columns from
both ends, so that the padding stays.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..tensors import held
from .inputs import find_sequence, given_tensors, looks_like_mask, replaced

SAMPLES, FRONT, BACK = 3, 12, 4  # how many rows and columns are kept
LAYERS_KEPT = 2
WORK = 2**30  # parameters times places: about a tenth of a second a call


def is_large(root: nn.Module | None, given: tuple) -> bool:
    """Say whether a call would work on too much to be repeated forty times."""
    if root is None:
        return False
    sized = [p.numel() for p in root.parameters() if not nn.parameter.is_lazy(p)]
    places = max((places_of(t) for t in given_tensors(given)), default=0)
    return sum(sized) * places > WORK


def places_of(tensor: Tensor) -> int:
    """Estimate how many tokens a tensor holds: patches are of some hundred numbers."""
    if tensor.dim() < 3:
        return tensor.numel()
    return tensor.numel() // (tensor.shape[-1] if tensor.dim() == 3 else 256)


def fewer_inputs(args: tuple, kwargs: dict) -> tuple[tuple, dict[str, Any]]:
    """Copy a call's inputs with fewer samples and tokens; the same if none fits."""
    tensors = list({id(t): t for t in given_tensors((args, kwargs))}.values())
    by_id: dict[int, Any] = {id(t): fewer(t, tensors) for t in tensors}
    try:
        return copy.deepcopy((args, kwargs), by_id)
    except Exception:
        return replaced(args, by_id), replaced(kwargs, by_id)


def fewer(tensor: Tensor, tensors: list[Tensor]) -> Tensor:
    """Return the chosen rows and columns of one of a call's tensors."""
    sequence = find_sequence(tensors)
    if sequence is not None and is_time_first(sequence.tensor, tensors):
        sequence.batch_axis, sequence.token_axis = 1, 0
    if sequence is None:
        n_samples = max((len(t) for t in tensors if t.dim() > 3), default=0)
        there = tensor.dim() > 0 and len(tensor) == n_samples
        return tensor[:SAMPLES].clone() if there else tensor.clone()
    n, length = sequence.n_samples, sequence.n_tokens
    rows, columns = chosen_rows(tensors, n), chosen_columns(length)
    small = tensor.detach()
    batch = sequence.batch_axis if tensor is sequence.tensor else 0
    if batch is not None and small.dim() > batch and small.shape[batch] == n != length:
        if small.dim() == 1 and is_length(small, length):
            return (columns < small[rows][:, None]).sum(1).to(small)
        small = small.index_select(batch, rows.to(small.device))
    for axis in range(small.dim()):
        features = tensor.is_floating_point() and axis == 2 and small.dim() == 3
        other = tensor is sequence.tensor and axis != sequence.token_axis
        other |= axis == batch and n == length
        if small.shape[axis] == length and not other and not features:
            small = small.index_select(axis, columns.to(small.device))
    return small.clone()


def is_time_first(tokens: Tensor, tensors: list[Tensor]) -> bool:
    """Say whether lengths or a mask (B, T) tell features (T, B, D) from (B, T, D)."""
    length, n = tokens.shape[0], tokens.shape[1] if tokens.dim() == 3 else 0
    if length == n or tokens.dim() != 3:
        return False
    counts = [t for t in tensors if t.shape == (n,) and is_length(t, length)]
    return bool(counts) or any(t.shape == (n, length) for t in tensors)


def is_length(counts: Tensor, longest: int) -> bool:
    """Say whether numbers may be lengths of sequences."""
    whole = not counts.is_floating_point() and counts.dtype != torch.bool
    return whole and int(counts.min()) >= 1 and int(counts.max()) <= longest


def chosen_columns(length: int) -> Tensor:
    """Return the places to keep: of a long sequence those at both ends."""
    places = torch.arange(length)
    if length <= FRONT + BACK:
        return places
    return torch.cat([places[:FRONT], places[-BACK:]])


def chosen_rows(tensors: list[Tensor], n_samples: int) -> Tensor:
    """Return the samples to keep: the shortest, the longest, and the first."""
    if n_samples <= SAMPLES:
        return torch.arange(n_samples)
    flat = [t for t in tensors if t.dim() == 2 and len(t) == n_samples]
    masks = [t.float().sum(1) for t in flat if looks_like_mask(t)]
    ids = [tail_lengths(t).float() for t in flat if not t.is_floating_point()]
    counts = [t.float() for t in tensors if t.shape == (n_samples,)]
    by = next(
        (c for c in masks + counts + ids if c.min() < c.max()), torch.zeros(n_samples)
    )
    order = [int(by.argmin()), int(by.argmax()), *range(n_samples)]
    return torch.tensor(sorted(list(dict.fromkeys(order))[:SAMPLES]))


def tail_lengths(ids: Tensor) -> Tensor:
    """Return how often each row (B, T) repeats its last id at its end."""
    return (ids == ids[:, -1:]).flip(1).long().cumprod(1).sum(1)


# --- layers --------------------------------------------------------------------------


@contextlib.contextmanager
def few_layers(root: nn.Module) -> Iterator[bool]:
    """Leave the first two layers of each stack in a module; yield whether any went."""
    cut: list[tuple[nn.Module, dict]] = []
    for _, module in list(held(root)):
        if isinstance(module, (nn.ModuleList, nn.Sequential)):
            kept = without_repeats(module)
            if len(kept) < len(module._modules):
                cut.append((module, dict(module._modules)))
                module._modules.clear()
                module._modules.update(kept)
    try:
        yield bool(cut)
    finally:
        for module, whole in cut:
            module._modules.clear()
            module._modules.update(whole)


def without_repeats(stack: nn.Module) -> dict[str, nn.Module]:
    """Return a stack's modules, of four or more alike in a row only the first two."""
    kept: list[tuple[str, nn.Module]] = []
    items = list(stack.named_children())
    kinds = [type(module) for _, module in items]
    for i, (name, module) in enumerate(items):
        before = next((j for j in range(i, -1, -1) if kinds[j] is not kinds[i]), -1)
        after = next(
            (j for j in range(i, len(kinds)) if kinds[j] is not kinds[i]), None
        )
        alike = (len(kinds) if after is None else after) - before - 1
        if alike < 4 or i - before <= LAYERS_KEPT:
            kept.append((name, module))
    if isinstance(stack, nn.ModuleList):
        return {str(i): module for i, (_, module) in enumerate(kept)}
    return dict(kept)
