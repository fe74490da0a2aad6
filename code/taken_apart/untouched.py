"""Run other people's code and leave everything as it was.

`left_untouched(*things)` remembers what things hold: lists, dicts, sets, tensors,
modules, and what functions enclose. It does not look into a reader's other objects.
"""

import contextlib
import functools
import io
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Said:
    """What the code inside `left_untouched` printed and warned of, unseen."""

    output: io.StringIO
    caught: list[warnings.WarningMessage]

    @property
    def printed(self) -> str:
        return self.output.getvalue()

    @property
    def warned(self) -> list[str]:
        return [str(warning.message) for warning in self.caught]


@contextlib.contextmanager
def left_untouched(
    *things: Any, generators: Iterable[torch.Generator] = ()
) -> Iterator[Said]:
    """Put back, at the end, whatever the code inside may have changed.

    That is the state, modes, gradients and hooks of `things`, all random numbers (those
    of `generators` too), torch's grad mode, default dtype and number of threads. Output
    and warnings are kept from the screen; the `Said` it yields has them.
    """
    undo = [Snapshot(*things).restore, *random_states(), *torch_modes()]
    undo += [functools.partial(g.set_state, g.get_state()) for g in generators]
    with (
        contextlib.redirect_stdout(io.StringIO()) as output,
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            yield Said(output, caught)
        finally:
            for put_back in undo:
                put_back()


class Snapshot:
    """What things hold; `restore()` puts it back, as often as it is asked.

    Of a large tensor only some numbers are compared, unless it is asked `exactly`:
    one that was written to has another version, unless it was written behind torch's
    back.
    """

    def __init__(self, *things: Any) -> None:
        self.undo: list[Callable[[], object]] = []
        self.tensors: list[Kept] = []
        seen: set[int] = set()
        for thing in things:
            remember_contents(thing, self, seen)

    def restore(self, exactly: bool = False) -> None:
        for put_back in self.undo:
            with contextlib.suppress(Exception):
                put_back()
        for kept in self.tensors:
            with contextlib.suppress(Exception):
                kept.restore(exactly)


def remember_contents(
    value: Any, into: Snapshot, seen: set[int], depth: int = 200
) -> None:
    """Note how to undo whatever may happen to a value and to all that it holds."""
    if id(value) in seen or depth == 0:
        return
    kinds = Tensor, nn.Module, list, dict, set, tuple, types.FunctionType
    if not isinstance(value, kinds):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        if not nn.parameter.is_lazy(value) and not value.is_meta:
            with contextlib.suppress(Exception):
                into.tensors.append(Kept(value))
        return
    for content in held_values(value):
        remember_contents(content, into, seen, depth - 1)
    if isinstance(value, list):
        into.undo.append(functools.partial(value.__setitem__, slice(None), list(value)))
    elif isinstance(value, (dict, set)):
        content = dict(value) if isinstance(value, dict) else set(value)
        into.undo.append(functools.partial(refill, value, content))


def held_values(value: Any) -> list:
    if isinstance(value, nn.Module):
        return [vars(value)]
    if isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        return [c.cell_contents for c in cells if not is_empty(c)]
    return list(value.values()) if isinstance(value, dict) else list(value)


def is_empty(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def refill(holder: dict | set, content: Any) -> None:
    holder.clear()
    holder.update(content)


class Kept:
    """A tensor and a copy of what it held, of its gradient too."""

    LARGE = 2**20  # numbers

    def __init__(self, tensor: Tensor) -> None:
        self.tensor, self.copy = tensor, tensor.detach().clone()
        self.grad = tensor.grad if tensor.is_leaf else None
        self.needed = tensor.requires_grad
        self.old = None if self.grad is None else self.grad.detach().clone()
        self.version = version_of(tensor)

    def restore(self, exactly: bool) -> None:
        # Written only where it differs: a graph may wait for backward with this tensor.
        tensor = self.tensor
        if tensor.shape != self.copy.shape or tensor.dtype != self.copy.dtype:
            tensor.data = self.copy.clone()
        elif not self.is_unchanged(exactly):
            tensor.detach().copy_(self.copy)
            self.version = version_of(tensor)
        if tensor.is_leaf:
            tensor.requires_grad_(self.needed)
            tensor.grad, old = self.grad, self.old
            if tensor.grad is not None and old is not None:
                tensor.grad.copy_(old)

    def is_unchanged(self, exactly: bool) -> bool:
        now, then = self.tensor.detach(), self.copy
        if exactly or now.numel() < self.LARGE or version_of(now) != self.version:
            return same(now, then)
        now, then = now.flatten(), then.flatten()
        step = len(now) // 4096
        ends = torch.equal(now[:4096], then[:4096]) and torch.equal(now[-9:], then[-9:])
        return ends and same(now[::step], then[::step])


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor was written to, as far as torch counts it."""
    return -1 if tensor.is_inference() else tensor._version


def same(left: Tensor, right: Tensor) -> bool:
    """Say whether two tensors of one shape and type are equal, nan where nan is."""
    return torch.equal(left, right) or torch.equal(
        left.nan_to_num(3.25), right.nan_to_num(3.25)
    )


def random_states() -> Iterator[Callable[[], object]]:
    """Yield what puts back the random numbers of torch, Python and NumPy."""
    yield functools.partial(torch.set_rng_state, torch.get_rng_state())
    if torch.cuda.is_initialized():
        states = torch.cuda.get_rng_state_all()
        yield functools.partial(torch.cuda.set_rng_state_all, states)
    yield functools.partial(random.setstate, random.getstate())
    if numpy := sys.modules.get("numpy"):
        yield functools.partial(numpy.random.set_state, numpy.random.get_state())


def torch_modes() -> Iterator[Callable[[], object]]:
    """Yield what puts back torch's grad mode, default dtype and number of threads."""
    yield functools.partial(torch.set_grad_enabled, torch.is_grad_enabled())
    yield functools.partial(torch.set_default_dtype, torch.get_default_dtype())
    threads = torch.get_num_threads()
    yield lambda: threads == torch.get_num_threads() or torch.set_num_threads(threads)


def reseed(seed: int) -> None:
    """Begin the random numbers of torch, Python and NumPy anew."""
    # Not torch.manual_seed: it notes a call, with its stack, for each idle device.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
