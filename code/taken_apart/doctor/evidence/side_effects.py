"""What a call leaves behind: gradients, modes, attributes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ...tensors import tensors_in
from ..exam import Exam, once
from ..numbers import apart


@dataclass
class Gradients:
    """The gradient of a random mix of the outputs, by name of parameter."""

    by_name: dict[str, Tensor | None] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def unused(self) -> list[str]:
        return [name for name, gradient in self.by_name.items() if gradient is None]


@once
def gradients(exam: Exam) -> Gradients:
    """Differentiate once; nothing is written into `.grad`."""
    wanted = [(n, p) for n, p in exam.root.named_parameters() if p.numel()]
    named = {n: p for n, p in wanted if p.requires_grad}
    answer = Gradients()

    def differentiate(call: Callable, *args: Any, **kwargs: Any) -> None:
        outs = [t for t in tensors_in(call(*args, **kwargs)) if t.requires_grad]
        # A plain sum would hide a softmax: its rows always sum to 1.
        parts = [(t * torch.randn_like(t)).sum() for t in outs if t.is_floating_point()]
        if not parts:
            return
        total = functools.reduce(torch.add, parts)
        try:
            found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
            answer.by_name = dict(zip(named, found, strict=True))
        except Exception as error:
            answer.error = error

    exam.call_with(differentiate, grad=True)
    return answer


@once
def differs_by_chance(exam: Exam) -> bool:
    """Say whether two calls in eval mode with other seeds differ."""
    others = [exam.run(seed=seed) for seed in (1, 2)]
    plain = exam.fast_outputs or []
    return any(out is not None and apart(plain, out) > 0 for out in others)


def modes_changed(exam: Exam) -> list[str]:
    """Return the paths of modules that a call leaves in another mode."""
    changed: dict[str, None] = {}

    def look(call: Callable, *args: Any, train: bool, **kwargs: Any) -> None:
        call(*args, **kwargs)
        others = [path for path, m in exam.modules if m.training != train]
        changed.update(dict.fromkeys(path or "the module" for path in others))

    for train in (False, True):
        exam.call_with(functools.partial(look, train=train), train=train)
    return list(changed)


def numbers_changed(exam: Exam) -> list[str]:
    """Tell of attributes that hold another plain number after a call."""
    changed: list[str] = []

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        before = plain_numbers(exam)
        call(*args, **kwargs)
        after = plain_numbers(exam)
        both = [name for name in before if name in after]
        moved = [name for name in both if before[name] != after[name]]
        changed.extend(f"{n} goes from {before[n]} to {after[n]}" for n in moved)

    exam.call_with(look)
    return changed


def plain_numbers(exam: Exam) -> dict[str, float]:
    return {
        f"{path}.{name}".lstrip("."): value
        for path, module in exam.modules
        for name, value in vars(module).items()
        if isinstance(value, (bool, int, float))
    }


def called_modules(exam: Exam) -> set[int]:
    """Return the ids of the modules that a call calls, on the path that it takes."""
    called: set[int] = set()

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        hook = nn.modules.module.register_module_forward_pre_hook(
            lambda module, given: called.add(id(module))
        )
        try:
            call(*args, **kwargs)
        finally:
            hook.remove()

    exam.call_with(look)
    return called


def filled_attributes(exam: Exam) -> list[tuple[str, list]]:
    """Return (name, items) of what public attributes hold after a call."""
    filled: list[tuple[str, list]] = []

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        call(*args, **kwargs)
        for path, module in exam.modules:
            for name, value in vars(module).items():
                items = [] if name.startswith("_") else items_of(value)
                if items:
                    filled.append((f"{path}.{name}".lstrip("."), items))

    exam.call_with(look)
    return filled


def items_of(value: Any) -> list:
    if isinstance(value, Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def parameters_replaced(exam: Exam) -> list[str]:
    """Return the names of parameters that are other objects after a call."""
    before = {n: id(p) for n, p in exam.root.named_parameters()}
    replaced: list[str] = []

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        call(*args, **kwargs)
        after = {n: id(p) for n, p in exam.root.named_parameters()}
        replaced.extend(n for n in after if before.get(n) != after[n])

    exam.call_with(look)
    return replaced
