"""Is the gradient of backward that of the loss? Measured by small steps, in float64."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...tensors import tensors_in
from ...untouched import reseed
from ..exam import Exam, Unvaried


class Slope(NamedTuple):
    """How the loss changes along one direction: by backward, and by two small steps."""

    by_backward: float
    by_steps: list[float]

    @property
    def differs(self) -> bool:
        """Whether both steps agree with each other, and not with backward."""
        near, far = self.by_steps
        size = max(abs(near), abs(far), abs(self.by_backward))
        steady = abs(near - far) < 1e-3 * size
        moves = near != 0 and size > 1e-9  # 0: rounded away, in a coarser type
        return moves and steady and abs(near - self.by_backward) > 1e-2 * size


@contextlib.contextmanager
def in_double(module: nn.Module) -> Iterator[None]:
    """Hold a module's float32 numbers in float64; afterwards all are as they were."""
    states = [(t, t.data) for t in [*module.parameters(), *module.buffers()]]
    for tensor, data in states:
        if data.dtype == torch.float32:
            tensor.data = data.double()
    try:
        yield
    finally:
        for tensor, data in states:
            tensor.data = data


def mix(tensor: Tensor) -> Tensor:
    """Return fixed numbers between -1 and 1, one for each of a tensor's."""
    return torch.sin(torch.arange(tensor.numel()) + 1.0).view(tensor.shape).to(tensor)


def loss_of(result: Any) -> Tensor:
    """Mix the outputs in double precision into one number."""
    outs = [t for t in tensors_in(result) if t.dtype == torch.float64]
    return functools.reduce(torch.add, [(t * mix(t)).sum() for t in outs])


def slope(exam: Exam) -> Slope | None:
    """Compare the gradient with small steps of all parameters but tables of ids.

    In train mode; None if there are none. Raises Unvaried where float64 does not run.
    """
    tables = {id(m.weight) for _, m in exam.modules if isinstance(m, nn.Embedding)}
    moved = [p for p in exam.root.parameters() if p.requires_grad and p.numel()]
    moved = [p for p in moved if id(p) not in tables]
    wider = {t: t.double() for t in exam.tensors if t.dtype == torch.float32}
    answer: list[Slope] = []

    def measure(call: Callable, *args: Any, **kwargs: Any) -> None:
        def loss() -> Tensor:
            reseed(3)
            return loss_of(call(*args, **kwargs))

        answer.append(measured(loss, moved))

    if not moved:
        return None
    with in_double(exam.root):
        exam.call_with(measure, wider, grad=True, train=True)
    if not answer:
        raise Unvaried("it does not run in float64")
    return answer[0]


def measured(loss: Callable[[], Tensor], moved: list[nn.Parameter]) -> Slope:
    """Take the derivative of a loss along one direction, in both ways."""
    ways = [mix(p) * (p.detach().abs().mean() + 1e-3) for p in moved]
    slopes = torch.autograd.grad(loss(), moved, allow_unused=True)
    pairs = zip(slopes, ways, strict=True)
    by_backward = sum(float((g * w).sum()) for g, w in pairs if g is not None)
    starts = [p.detach().clone() for p in moved]

    def at(step: float) -> float:
        for p, start, way in zip(moved, starts, ways, strict=True):
            p.data = start + step * way  # not in place: a graph may wait for backward
        with torch.no_grad():
            return float(loss())

    return Slope(by_backward, [(at(h) - at(-h)) / (2 * h) for h in (1e-6, 4e-6)])
