"""Where no input is a sequence: examine the part that takes tokens, on its own inputs.

An image or a series becomes tokens inside. The outermost part that is handed (B, T, D)
and holds the most attentions is examined on its own, with the inputs of that call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .exam import Exam
from .inputs import given_tensors

Given = tuple[tuple, dict[str, Any]]


def inner_exam(exam: Exam) -> Exam | None:
    """Return an exam of the part that takes tokens, None if there is none."""
    if not exam.has_root or not exam.attentions or not exam.has_samples:
        return None
    given, parts = captured(exam), dict(exam.modules)
    n_samples = exam.samples.n_samples
    counts = {
        path: attentions_within(exam, path)
        for path, inputs in given.items()
        if takes_tokens(inputs, n_samples)
    }
    most = max(counts.values(), default=0)
    path = next((p for p, count in counts.items() if count == most), "")
    if not most:
        return None
    inner = Exam(parts[path], *given[path], exam.quick)
    return inner if inner.has_sequence and inner.attentions else None


def captured(exam: Exam) -> dict[str, Given]:
    """Return what each part is given at its first call, by its path."""
    paths = {id(module): path for path, module in exam.modules if path}
    given: dict[str, Given] = {}

    def note(module: nn.Module, args: tuple, kwargs: dict) -> None:
        path = paths.get(id(module))
        if path is not None and path not in given:
            given[path] = args, kwargs

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        hooks = [
            module.register_forward_pre_hook(note, with_kwargs=True)
            for _, module in exam.modules
        ]
        try:
            call(*args, **kwargs)
        finally:
            for hook in hooks:
                hook.remove()

    exam.call_with(look)
    return given


def takes_tokens(inputs: Given, n_samples: int) -> bool:
    """Say whether the first tensor of a call is (B, T, D)."""
    first = next(given_tensors(inputs), None)
    return is_tokens(first) and first is not None and len(first) == n_samples


def is_tokens(tensor: Tensor | None) -> bool:
    if tensor is None or tensor.dim() != 3 or not tensor.is_floating_point():
        return False
    return min(tensor.shape[1:]) > 1 and not torch.isnan(tensor).any()


def attentions_within(exam: Exam, path: str) -> int:
    """Count the attentions that ran in a part or in its parts."""
    rows = [a.row.module for a in exam.attentions]
    return sum(row == path or row.startswith(f"{path}.") for row in rows)
