"""The museum: broken encoders, each one small difference from `encoder.py`.

    broken = exhibit("softmax over queries")
    ids, padding = PITFALLS["softmax over queries"].inputs()

An exhibit has the weights of the right encoder, so that outputs can be compared. It is
a class, put in the place of the part that it derives from, or a function that changes a
model. Its docstring is the cause; its `diagnosis` is one line of Python, true of the
right encoder and false, or an error, of the exhibit. `where` says where it was met:
projects are named with the number of their issue or pull request.
"""

from typing import Any

from torch import nn

from . import (
    classifiers,
    dtype_and_display,
    heads,
    layers,
    masks,
    modes,
    positions,
    precision,
    registration,
    returned_weights,
    softmax,
)
from .catalogue import SIGNS, SIZES, Pitfall, become, exhibits_of, healthy
from .parts import Steps

__all__ = [
    "GALLERIES",
    "PITFALLS",
    "SIGNS",
    "SIZES",
    "Pitfall",
    "Steps",
    "become",
    "exhibit",
    "healthy",
]

# In the order in which a sentence passes an encoder; then what surrounds it.
GALLERIES = (
    heads,
    masks,
    precision,
    softmax,
    positions,
    layers,
    registration,
    modes,
    returned_weights,
    classifiers,
    dtype_and_display,
)
PITFALLS: dict[str, Pitfall] = {
    name: case for gallery in GALLERIES for name, case in exhibits_of(gallery).items()
}


def exhibit(name: str, **sizes: Any) -> nn.Module:
    """Build a broken encoder; `sizes` are those of `TransformerEncoder`.

    Raises ValueError for a name that is not in PITFALLS.
    """
    if name not in PITFALLS:
        raise ValueError(f"no exhibit {name!r}; they are {', '.join(PITFALLS)}")
    return PITFALLS[name].build(**sizes)
