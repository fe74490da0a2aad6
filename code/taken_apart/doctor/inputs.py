"""What the inputs are: which one holds the tokens, which are masks, what is padding."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, MutableMapping
from collections.abc import Sequence as Many
from dataclasses import dataclass, is_dataclass
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..tensors import tensors_in

Value = TypeVar("Value")
HIDDEN = -1e4  # a score below this hides a key for good


def needed(value: Value | None, what: str) -> Value:
    """Return a value; LookupError where there is none."""
    if value is None:
        raise LookupError(f"there is no {what}")
    return value


@dataclass
class Sequence:
    """The tensor that holds the tokens, and its axes of samples and of tokens.

    There is no `batch_axis` for a single sample, no `token_axis` for a batch of images.
    """

    tensor: Tensor
    batch_axis: int | None
    token_axis: int | None

    @property
    def batch(self) -> int:
        return needed(self.batch_axis, "axis of samples")

    @property
    def token(self) -> int:
        return needed(self.token_axis, "axis of tokens")

    @property
    def is_ids(self) -> bool:
        return not self.tensor.is_floating_point()

    @property
    def n_samples(self) -> int:
        return 1 if self.batch_axis is None else self.tensor.shape[self.batch_axis]

    @property
    def n_tokens(self) -> int:
        return self.tensor.shape[self.token]


def find_sequence(
    tensors: Many[Tensor], channels_first: bool = False
) -> Sequence | None:
    """Choose the tokens among the inputs: features (B, T, D), or else ids (B, T).

    Without a batch axis: ids (T,), or else features (T, D).
    """
    floats = [t for t in tensors if t.is_floating_point() and not looks_like_mask(t)]
    for tensor in floats:
        if tensor.dim() == 3:
            return Sequence(tensor, 0, 2 if channels_first else 1)

    ids = [t for t in tensors if t.dtype in (torch.long, torch.int)]
    ids = [t for t in ids if t.dim() in (1, 2)]
    # Ids of 0 and 1 alone look like a mask, but may be all the tokens that there are.
    ids = [t for t in ids if not looks_like_mask(t)] or ids
    if ids:
        batched = ids[0].dim() == 2
        return Sequence(ids[0], 0 if batched else None, 1 if batched else 0)

    matrices = [t for t in floats if t.dim() == 2]
    return Sequence(matrices[0], None, 0) if matrices else None


def looks_like_mask(tensor: Tensor) -> bool:
    """Say whether a tensor holds truth values, 0 and 1, or 0 and numbers like -inf."""
    if tensor.dtype == torch.bool or tensor.is_meta:
        return tensor.dtype == torch.bool
    if tensor.dim() < 2 or tensor.numel() == 0:
        return False
    values = tensor.detach().float().unique().tolist()
    return len(values) <= 2 and all(v in (0, 1) or v < HIDDEN / 2 for v in values)


# --- padding -------------------------------------------------------------------------


def read_padding(mask: Tensor, sequence: Sequence) -> Tensor | None:
    """Read (B, T), True = padding, off a mask of any shape and convention, or None.

    Masks come as bool or 0 and 1 in either sense, or as numbers to add, and with axes
    for heads and queries. A key counts as padding where no query may see it.
    """
    n, t = sequence.n_samples, sequence.n_tokens
    mask = mask.detach()
    additive = mask.is_floating_point() and bool((mask < HIDDEN / 2).any())
    mask = mask < HIDDEN / 2 if additive else mask.bool()
    shape = tuple(mask.shape)
    if shape in ((n, 1, 1, t), (n, 1, t)):
        mask = mask.reshape(n, t)
    elif mask.dim() >= 3 and shape[-2:] == (t, t) and shape[0] % n == 0:
        return padding_of_pairs(mask.reshape(n, -1, t, t), additive)
    elif mask.dim() == 2 and shape == (t, n) and t != n:
        mask = mask.T
    if tuple(mask.shape) != (n, t):
        return None
    return mask if additive or marks_padding(mask, sequence) else ~mask


def padding_of_pairs(mask: Tensor, additive: bool) -> Tensor | None:
    """Read padding off a mask (B, H, T, T) of pairs of query and key."""
    if not additive and mask.float().mean() > 0.5:
        mask = ~mask  # most pairs are visible: True meant that
    padding = mask[:, 0].all(dim=1)
    return padding if padding.any() else None


def marks_padding(mask: Tensor, sequence: Sequence) -> bool:
    """Say whether True marks padding, and not real tokens, in a mask (B, T).

    What is masked tells, if it is one id or all zeros. Else samples start together, at
    the left, so that most of the first column is real.
    """
    x = sequence.tensor
    if sequence.is_ids and mask.any() and tuple(x.shape) == tuple(mask.shape):
        one_id = [len(x[side].unique()) == 1 for side in (mask, ~mask)]
        if one_id[0] != one_id[1]:
            return one_id[0]
    if not sequence.is_ids and mask.any() and tuple(x.shape[:2]) == tuple(mask.shape):
        blank = [not x[s].nan_to_num(0).any() for s in (mask, ~mask) if s.any()]
        if len(blank) == 2 and blank[0] != blank[1]:
            return blank[0]
    return float(mask[:, 0].float().mean()) <= 0.5


def padding_of_ids(ids: Tensor, pad_ids: Many[int]) -> Tensor | None:
    """Return where ids (B, T) are padding: a known pad id, or 0s that end samples."""
    for pad in pad_ids:
        if (ids == pad).any():
            return ids == pad
    if len(ids.unique()) < 4:  # too few to tell padding from a word
        return None
    if 0 in ids[:, -1]:
        at_the_end = (ids == 0).flip(1).cumprod(1).flip(1).bool()
        inside = ((ids == 0) & ~at_the_end).any()
        if at_the_end.sum() >= 2 and not at_the_end[:, 0].all() and not inside:
            return at_the_end
    return None


def beyond(lengths: Tensor, n_tokens: int) -> Tensor:
    """Return (B, T), True where a sample of some length has ended."""
    return torch.arange(n_tokens, device=lengths.device) >= lengths[:, None]


# --- what is given -------------------------------------------------------------------


def given_tensors(value: Any, depth: int = 8) -> Iterator[Tensor]:
    """Yield the tensors of a call's arguments, those in a reader's own objects too."""
    if isinstance(value, Tensor) or (is_dataclass(value) and depth):
        yield from tensors_in(value)
        return
    for item in parts_of_objects(value) if depth else ():
        yield from given_tensors(item, depth - 1)


def parts_of_objects(value: Any) -> list:
    """Return what a container or an object holds; nothing of modules and classes."""
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, Mapping):
        return list(value.values())
    plain = not isinstance(value, (type, ModuleType, nn.Module)) and not callable(value)
    return list(getattr(value, "__dict__", {}).values()) if plain else []


def replaced(value: Any, by_id: dict[int, Any]) -> Any:
    """Rebuild inputs that cannot be deep-copied, with other tensors for some."""
    if isinstance(value, Tensor):
        return by_id.get(id(value), value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return type(value)(*(replaced(item, by_id) for item in value))
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(item, by_id) for item in value)
    if not parts_of_objects(value):
        return value
    other = copy.copy(value)
    if isinstance(other, MutableMapping):
        for key, item in value.items():
            other[key] = replaced(item, by_id)
    else:
        vars(other).update(replaced(dict(vars(value)), by_id))
    return other
