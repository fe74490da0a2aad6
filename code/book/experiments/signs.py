"""Vital signs of a stack of layers: is its stream alive, and can its attention learn?

A stack is any sequence of layers that map tokens (B, T, D) to tokens, or to a pair that
begins with them, and whose `attention` has the maps `query` and `value`.
"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..pitfalls.measurements import likeness


def untrained(
    layer: type[nn.Module], start: str = "Xavier", seed: int = 0, depth: int = 24
) -> nn.ModuleList:
    """Return fresh layers of D = 64, in float64.

    `layer` is an EncoderLayer or a class that takes the same settings. Its maps start
    as the book's do, with Xavier weights, or as nn.Linear does by itself: "torch's".
    """
    torch.manual_seed(seed)
    layers = nn.ModuleList(layer(64, 4, 256, 0.0) for _ in range(depth))
    for part in layers.modules():
        if start == "torch's" and isinstance(part, nn.Linear):
            part.reset_parameters()
    return layers.double()


def difference(x: Tensor) -> float:
    """Return one minus the mean cosine of two tokens of a sentence, for (B, T, D)."""
    return 1 - likeness(x)


def stream(layers: Iterable[nn.Module], x: Tensor) -> list[Tensor]:
    """Return the tokens (B, T, D) at the bottom and after each layer."""
    passed = [x]
    for layer in layers:
        out = layer(passed[-1])
        passed.append(out[0] if isinstance(out, tuple) else out)
    return passed


def vital_signs(layers: nn.ModuleList) -> dict[str, list[float]]:
    """Send 16 random tokens through, and a random gradient back: each sign by layer.

    "size" and "difference" are of the stream, at the bottom and after each layer.
    "query share" is the gradient of a layer's query map over that of its value map, and
    "gradient" what arrives in the stream, as a share of what came from the top.
    """
    like = next(layers.parameters())
    x, push = torch.randn(2, 4, 16, like.shape[-1], dtype=like.dtype)
    passed = stream(layers, x.requires_grad_())
    queries, values = (
        [getattr(layer.attention, name).weight for layer in layers]
        for name in ("query", "value")
    )
    wanted = [*queries, *values, *passed]
    found = torch.autograd.grad((passed[-1] * push).sum(), wanted)
    norms = [gradient.norm().item() for gradient in found]
    L = len(layers)
    pairs = zip(norms[:L], norms[L : 2 * L], strict=True)
    return {
        "size": [x.std().item() for x in passed],
        "difference": [difference(x) for x in passed],
        "query share": [q / v if v else math.nan for q, v in pairs],
        "gradient": [norm / push.norm().item() for norm in norms[2 * L :]],
    }
