"""Small measurements that tell a broken encoder from a right one, a number each.

Each takes a model that is called as `TransformerEncoder` is, or a part of one, and
leaves it in the mode it was in. The catalogue's diagnoses are written in them.
"""

import contextlib
import copy
import io
import math
from collections.abc import Callable
from typing import Any

import torch
from encoder import MultiHeadAttention, TransformerEncoder
from torch import Tensor, nn


def influence(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    """Return (T, T): how far output i of sample 0 moves when token j is another."""
    with torch.no_grad():
        usual = outputs(model, ids, padding)[0]
        moved = []
        for j in range(ids.shape[1]):
            changed = ids.clone()
            changed[0, j] = ids[0, j] % (ids.max() - 1) + 1
            far = (outputs(model, changed, padding)[0] - usual).abs()
            moved.append(far.flatten(1).amax(dim=1))
    return torch.stack(moved, dim=1)


def outputs(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    """Return what a model makes of ids, without the weights that it may add."""
    return first(model(ids, padding))


def first(result: Any) -> Tensor:
    """Return the first of several results, or the only one."""
    return result[0] if isinstance(result, tuple) else result


def padding_leak(model: nn.Module, ids: Tensor, padding: Tensor) -> float:
    """Return how far the words' outputs move when the padding holds other ids."""
    with torch.no_grad():
        other = ids.masked_fill(padding, int(ids.max()))
        far = (outputs(model, other, padding) - outputs(model, ids, padding)).abs()
    return (far[~padding] if far.shape[:2] == padding.shape else far).max().item()


def company_gap(model: nn.Module, ids: Tensor, padding: Tensor) -> float:
    """Return how far a sentence's output moves when it is alone in the batch.

    A normalisation over the batch shows in train mode only, so the model is asked in
    train mode, with every dropout at rest.
    """
    model = copy.deepcopy(model).train()
    for module in model.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    with torch.no_grad():
        alone = outputs(model, ids[:1], padding[:1])
        return (outputs(model, ids, padding)[:1] - alone).abs().max().item()


def maps(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> list[Tensor]:
    """Return the L attention maps (B, H, T, T) that the model hands out."""
    with torch.no_grad():
        return model(ids, padding, need_weights=True)[1]


def padding_share(weights: Tensor, padding: Tensor) -> float:
    """Return the mean share that rows of a map (B, H, T, T) spend on padded keys."""
    on_padding = weights * padding[:, None, None]  # (B, 1, 1, T)
    return on_padding.sum(dim=-1).mean().item()


def row_error(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> float:
    """Return how far rows of maps are from a sum of 1, or of 0 where all is hidden."""
    sums = torch.stack([w.sum(dim=-1) for w in maps(model, ids, padding)])
    return torch.minimum((sums - 1).abs(), sums.abs()).max().item()


def shuffle_gap(part: nn.Module, x: Tensor) -> float:
    """Return how far a part is from moving its tokens along when they are moved."""
    order = torch.arange(x.shape[1] - 1, -1, -1)
    with torch.no_grad():
        return (first(part(x[:, order])) - first(part(x))[:, order]).abs().max().item()


def divisor(attention: MultiHeadAttention, x: Tensor) -> float:
    """Return by what the scores were divided, read off the weights of an attention.

    Within a row, the logarithm of a weight is the score and a constant: its slope over
    query times key is one over the divisor. nan where weights are no such softmax.
    """
    with torch.no_grad():
        query = attention.split_heads(attention.query(x))
        key = attention.split_heads(attention.key(x))
        raw = query @ key.mT
        logs = attention(x, need_weights=True)[1].log()
        raw, logs = (s - s.mean(dim=-1, keepdim=True) for s in (raw, logs))
        return 1 / ((raw * logs).sum() / (raw * raw).sum()).item()


def undivided_scores(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
    """Return the scores (B, H, T, T) of PyTorch's layer, before they are divided.

    `x` is (B, T, D); the biases, which start at zero, are left out.
    """
    to_query, to_key, _ = layer.in_proj_weight.detach().chunk(3)
    shape = layer.num_heads, layer.head_dim
    query, key = ((x @ m.T).unflatten(-1, shape) for m in (to_query, to_key))
    return query.transpose(1, 2) @ key.permute(0, 2, 3, 1)


def features_read(attention: MultiHeadAttention, x: Tensor) -> int:
    """Return how many features of the input move the map of the first head."""
    with torch.no_grad():
        usual = attention(x, need_weights=True)[1][:, 0]
        moved = 0
        for feature in range(x.shape[-1]):
            other = x.clone()
            other[:, 0, feature] += 1.0
            again = attention(other, need_weights=True)[1][:, 0]
            moved += int((again - usual).abs().max() > 1e-6)
    return moved


def bend(part: nn.Module, x: Tensor) -> float:
    """Return how far a part is from a straight line: 0 for a linear map and a bias."""
    with torch.no_grad():
        there, back, start = part(x), part(-x), part(0 * x)
    return (there + back - 2 * start).abs().max().item()


def printed(call: Callable[[], Any]) -> str:
    """Return what a call writes to standard output."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        call()
    return said.getvalue()


def evenness(weights: Tensor) -> float:
    """Return the entropy of a row over its maximum, averaged: 1 is all alike."""
    entropy = torch.special.entr(weights).sum(dim=-1)
    return (entropy / math.log(weights.shape[-1])).mean().item()


def likeness(hidden: Tensor) -> float:
    """Return the mean cosine between tokens of one sentence: 1 is all alike."""
    unit = nn.functional.normalize(hidden.detach(), dim=-1)
    cosine = unit @ unit.mT
    n = cosine.shape[-1]
    return ((cosine.sum(dim=(-2, -1)) - n) / (n * n - n)).mean().item()


def idle(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> list[str]:
    """Return the parameters that no output listens to: they get no gradient."""
    model = copy.deepcopy(model)
    out = outputs(model, ids, padding)
    torch.manual_seed(0)
    if out.requires_grad:
        (out * torch.randn_like(out)).sum().backward()
    return [name for name, p in model.named_parameters() if p.grad is None]


def order_effect(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> float:
    """Return how much the order of tokens matters, beyond moving them along."""
    turned = None if padding is None else padding.flip(1)
    with torch.no_grad():
        moved = outputs(model, ids.flip(1), turned)
        usual = outputs(model, ids, padding).flip(1)
    return largest(moved, usual)


def neighbour_likeness(table: Tensor, apart: int = 1) -> float:
    """Return the mean cosine between rows of a table that are so far apart."""
    return nn.functional.cosine_similarity(table[apart:], table[:-apart]).mean().item()


def loudness(model: TransformerEncoder, ids: Tensor) -> float:
    """Return how loud words are beside the positions that are added to them."""
    with torch.no_grad():
        words_and_places = model.eval().embed(ids)
        places = model.positions.table[: ids.shape[1]]
        return ((words_and_places - places).std() / places.std()).item()


def largest(one: Tensor, other: Tensor) -> float:
    """Return the largest difference of two tensors."""
    return (one - other).abs().max().item()
