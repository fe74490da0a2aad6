"""What an exercise is, and the inputs that its cases are made of.

An exercise is a reference, named inputs, and mutants: wrong solutions, each under the
sentence that a reader who wrote one is told. Inputs come from generators of their own
and have prime sizes, so that no axis is mistaken for another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


def as_it_is(result: Any) -> Any:
    return result


@dataclass(frozen=True)
class Exercise:
    """What is asked, and what may go wrong.

    `cases()` returns the arguments of each call under a name that reads well after
    "right on". `judged` is what counts in a result, where more than one is right; as a
    tensor it also tells which mistake a wrong one is like.
    """

    name: str
    call: str
    reference: Callable
    cases: Callable[[], dict[str, tuple]]
    mutants: dict[str, Callable]
    judged: Callable[[Any], Any] = as_it_is


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return normal numbers that leave the global generator alone."""
    own = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=own, dtype=torch.float64).to(dtype)


def padding(*lengths: int) -> Tensor:
    """Return the padding mask (B, T) of sentences of these lengths, True = padding."""
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
