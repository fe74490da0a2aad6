"""The hidden units of the small trained encoder: what they answer, and what they cost.

A unit is named by its layer and its number. To silence one is to zero what it writes,
its column of the network's second map.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize
from train import Reader

from . import toy_language as lab


def pushed(layer: int, seed: int) -> Reader:
    """Return the trained model with what one network writes pushed off.

    Each vector that the network writes gets a random one of its own length added.
    """
    model, draw = lab.load(), torch.Generator().manual_seed(seed)

    def push(part, given, written):
        random = torch.randn(written.shape, generator=draw)
        return written + written.norm(dim=-1, keepdim=True) * normalize(random, dim=-1)

    model.encoder.layers[layer].feed_forward.register_forward_hook(push)
    return model


@torch.no_grad()
def answers(model: Reader, layer: int, given: Sequence[Tensor]) -> Tensor:
    """Return what the units of a layer answer at the blanks of `questions`, (N, F)."""
    kept: list[Tensor] = []
    part = model.encoder.layers[layer].feed_forward.down
    hook = part.register_forward_hook(lambda part, inputs, out: kept.extend(inputs))
    model(*given)
    hook.remove()
    places = given[2]
    return kept[0][places]


@torch.no_grad()
def chance_without(
    units: Iterable[tuple[int, int]], given: Sequence[Tensor], right: Tensor
) -> float:
    """Silence some units; return the mean chance that the model gives to right words.

    `given` and `right` (N, V) are those of `questions`.
    """
    model = lab.load()
    for layer, unit in units:
        model.encoder.layers[layer].feed_forward.down.weight[:, unit] = 0.0
    chances = model(*given).softmax(dim=1)
    return (chances * right).sum(dim=1).mean().item()
