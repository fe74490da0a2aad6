"""What a call leaves behind: gradients, modes, attributes; for the probes."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...tensors import tensors_in
from .token_changes import once


@dataclass
class Gradients:
    """The gradient of a random mix of the outputs, by name of parameter."""

    by_name: dict
    error: Exception | None = None

    @property
    def unused(self) -> list[str]:
        return [name for name, gradient in self.by_name.items() if gradient is None]


@once
def gradients(exam) -> Gradients:
    """Differentiate once; nothing is written into `.grad`."""
    named = [(n, p) for n, p in exam.root.named_parameters() if p.requires_grad]
    answer = Gradients({})

    def differentiate(call, *args, **kwargs):
        outs = [t for t in tensors_in(call(*args, **kwargs)) if t.requires_grad]
        total = sum(
            (t * torch.randn_like(t)).sum() for t in outs if t.is_floating_point()
        )
        if not isinstance(total, Tensor):
            return
        try:
            found = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
            answer.by_name = dict(zip([n for n, _ in named], found))
        except Exception as error:
            answer.error = error

    exam.run(how=differentiate, grad=True, whole=True)
    return answer


def modes_changed(exam) -> list[str]:
    """Return the paths of modules that a call leaves in another mode."""
    changed = {}

    def look(call, *args, train=False, **kwargs):
        call(*args, **kwargs)
        others = [path for path, m in exam.modules if m.training != train]
        changed.update(dict.fromkeys(path or "the module" for path in others))

    for train in (False, True):
        exam.run(how=functools.partial(look, train=train), train=train, whole=True)
    return list(changed)


def numbers_changed(exam) -> list[str]:
    """Tell of attributes that hold another plain number after a call."""
    changed = []

    def look(call, *args, **kwargs):
        before = plain_numbers(exam)
        call(*args, **kwargs)
        after = plain_numbers(exam)
        both = [name for name in before if name in after]
        moved = [name for name in both if before[name] != after[name]]
        changed.extend(f"{n} goes from {before[n]} to {after[n]}" for n in moved)

    exam.run(how=look, whole=True)
    return changed


def plain_numbers(exam) -> dict:
    return {
        f"{path}.{name}".lstrip("."): value
        for path, module in exam.modules
        for name, value in vars(module).items()
        if isinstance(value, (bool, int, float))
    }


def called_modules(exam) -> set[int]:
    """Return the ids of the modules that a call calls, on the path that it takes."""
    called = set()

    def look(call, *args, **kwargs):
        note = nn.modules.module.register_module_forward_pre_hook(
            lambda module, given: called.add(id(module))
        )
        try:
            call(*args, **kwargs)
        finally:
            note.remove()

    exam.run(how=look, whole=True)
    return called


def filled_attributes(exam) -> list[tuple[str, list]]:
    """Return (name, items) of what public attributes hold after a call."""
    found = []

    def look(call, *args, **kwargs):
        call(*args, **kwargs)
        for path, module in exam.modules:
            for name, value in vars(module).items():
                if not name.startswith("_"):
                    found.append((f"{path}.{name}".lstrip("."), items_of(value)))

    exam.run(how=look, whole=True)
    return [(name, items) for name, items in found if items]


def items_of(value) -> list:
    if isinstance(value, Tensor):
        return [value.detach().clone()]
    if isinstance(value, dict):
        value = list(value.values())
    return list(value) if isinstance(value, (list, tuple)) else []


def parameters_replaced(exam) -> list[str]:
    """Return the names of parameters that are other objects after a call."""
    before, lost = {n: id(p) for n, p in exam.root.named_parameters()}, []

    def look(call, *args, **kwargs):
        call(*args, **kwargs)
        after = {n: id(p) for n, p in exam.root.named_parameters()}
        lost.extend(n for n in after if before.get(n) != after[n])

    exam.run(how=look, whole=True)
    return lost
