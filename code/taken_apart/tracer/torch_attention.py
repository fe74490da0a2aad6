"""Retell what torch's attention functions compute inside, one operation at a time.

`nn.MultiheadAttention` is one call of a function of forty arguments. A trace shows the
steps it stands for: they are computed again, as `attention_steps`, from its arguments.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ATTENTION_ARGUMENTS = {
    "multi_head_attention_forward": tuple(
        inspect.signature(functional.multi_head_attention_forward).parameters
    ),
    "_native_multi_head_attention": (
        *("query", "key", "value", "embed_dim", "num_heads", "in_proj_weight"),
        *("in_proj_bias", "out_proj_weight", "out_proj_bias", "packed_mask"),
    ),
}

linear = functional.linear


def attention_parts(name: str, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Sort the arguments of an attention function for `attention_steps`, batch first.

    Raises ValueError for the options that `attention_steps` does not retell.
    """
    # The call may give fewer arguments than there are, and none twice.
    given = dict(zip(ATTENTION_ARGUMENTS[name], args, strict=False)) | kwargs
    odd = "bias_k", "static_k", "static_v", "packed_mask"
    if any(given.get(key) is not None for key in odd) or given.get("add_zero_attn"):
        raise ValueError("extra keys and packed masks are not retold")
    inputs = [given[key] for key in ("query", "key", "value")]
    if "embed_dim_to_check" in given:  # the Python function: time first, or one sample
        inputs = [x.transpose(0, 1) if x.dim() == 3 else x[None] for x in inputs]
    output = given["out_proj_weight"], given.get("out_proj_bias")
    n_heads = given["num_heads"]
    return {
        "inputs": inputs,
        "maps": [*input_maps(given), output],
        "n_heads": n_heads,
        "masks": broadcastable_masks(given, len(inputs[0]), n_heads),
    }


def input_maps(given: dict[str, Any]) -> list[tuple[Tensor, Tensor | None]]:
    """Return weight and bias of the maps to query, key and value."""
    biases = given.get("in_proj_bias")
    biases = (None,) * 3 if biases is None else biases.chunk(3)
    if given.get("use_separate_proj_weight"):
        weights = [given[f"{kind}_proj_weight"] for kind in "qkv"]
    else:
        weights = given["in_proj_weight"].chunk(3)
    return list(zip(weights, biases, strict=True))


def broadcastable_masks(
    given: dict[str, Any], n_samples: int, n_heads: int
) -> tuple[Tensor | None, Tensor | None]:
    """Return padding and mask in shapes that broadcast to (B, H, T, Tk)."""
    padding, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if padding is not None:
        padding = padding.reshape(n_samples, 1, 1, -1)
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (n_samples, n_heads))
    return padding, mask


def without_samples(parts: dict[str, Any]) -> dict[str, Any]:
    """Keep all sizes but the batch: then the steps need no arithmetic."""
    masks = [m if m is None or m.dim() < 3 else m[:0] for m in parts["masks"]]
    return parts | {"inputs": [x[:0] for x in parts["inputs"]], "masks": masks}


def attention_steps(
    inputs: Sequence[Tensor],
    maps: Sequence[tuple[Tensor, Tensor | None]],
    n_heads: int,
    masks: Sequence[Tensor | None],
) -> Tensor:
    """What nn.MultiheadAttention computes from `in_proj`, one line an equation."""
    *inner, output = maps
    query, key, value = (linear(x, *own) for x, own in zip(inputs, inner, strict=True))
    query = query.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, H, T, K)
    key = key.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    value = value.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    for mask in masks:
        scores = scores if mask is None else hide(scores, mask)
    weights = scores.softmax(dim=-1)  # (B, H, T, Tk)
    context = (weights @ value).transpose(1, 2).flatten(2)  # (B, T, D)
    return linear(context, *output)


def hide(scores: Tensor, mask: Tensor) -> Tensor:
    boolean = mask.dtype == torch.bool
    return scores.masked_fill(mask, -math.inf) if boolean else scores + mask
