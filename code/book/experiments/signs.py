"""Vital signs of a stack of layers: is its stream alive, and can its attention learn?

A stack is any sequence of layers that map tokens (B, T, D) to tokens, or to a pair that
begins with them, and whose `attention` has the maps `query` and `value`.
"""

import math
from collections.abc import Callable, Iterable
from itertools import product
from statistics import median

import torch
from encoder import EncoderLayer
from torch import Tensor, nn

from ..pitfalls.measurements import likeness

SIGNS = "difference", "size", "query share"
STARTS, SEEDS, DEPTH = ("Xavier", "torch's"), (0, 1, 2), 24
ROUNDING = 1e-12  # what lies below it is drawn there
Part = Callable[[Tensor], Tensor]
Join = Callable[[Part, nn.Module, Tensor], Tensor]  # part, norm, x (B, T, D)
Runs = dict[tuple[str, str], list[dict[str, list[float]]]]  # by kind, start; by seed


class Joined(EncoderLayer):
    """A layer of which `join(part, norm, x)` says how a part meets x (B, T, D)."""

    join: Join

    def forward(self, x: Tensor) -> Tensor:
        x = self.join(lambda x: self.attention(x)[0], self.norm1, x)
        return self.join(self.feed_forward, self.norm2, x)


def untrained(
    layer: type[nn.Module], start: str = "Xavier", seed: int = 0, depth: int = DEPTH
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


# --- Kinds of layers, compared -------------------------------------------------------


def stack(join: Join, start: str = "Xavier", seed: int = 0) -> nn.ModuleList:
    """Return 24 fresh layers whose parts are joined by `join(part, norm, x)`."""
    layers = untrained(Joined, start, seed)
    for layer in layers:
        layer.join = join
    return layers


def of_kinds(kinds: dict[str, Join]) -> Runs:
    """Measure a stack of each kind, by both rules of drawing weights, three seeds."""
    return {
        (kind, start): [vital_signs(stack(join, start, seed)) for seed in SEEDS]
        for (kind, join), start in product(kinds.items(), STARTS)
    }


def by_layer(run: dict[str, list[float]], sign: str) -> list[float]:
    """Return a sign at each of the 24 layers, at least what rounding leaves."""
    return [max(value, ROUNDING) for value in run[sign][-DEPTH:]]


def medians(runs: Runs) -> dict[tuple[str, str, str], list[float]]:
    """Return by kind, sign and start the median of the seeds at each layer."""
    return {
        (kind, sign, start): [
            median(values)
            for values in zip(*(by_layer(run, sign) for run in seeds), strict=True)
        ]
        for (kind, start), seeds in runs.items()
        for sign in SIGNS
    }


def span(runs: list[dict[str, list[float]]], sign: str) -> str:
    """Return the lowest and the highest value of a sign at the top: "0.11–0.14"."""
    tops = [run[sign][-1] for run in runs]
    return f"{min(tops):.2f}–{max(tops):.2f}"
