"""Which lines a call ran: a part that is used under an `if` is not a forgotten one."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import nn

from ..exam import Exam, once

Line = tuple[str, int]  # of a file
# Methods that fill parameters: to be named there is not to be used.
STARTS = re.compile(r"_*init(_|$)|initiali[sz]e|reset_parameters")


@once
def lines_run(exam: Exam) -> set[Line]:
    """Return the lines that one call runs, of the files that define its modules."""
    classes = {cls for _, m in exam.modules for cls in readers_classes(type(m))}
    files = {inspect.getsourcefile(cls) for cls in classes}
    ran: set[Line] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> Callable | None:
        return note if frame.f_code.co_filename in files else None

    def note(frame: FrameType, event: str, argument: Any) -> Callable:
        ran.add((frame.f_code.co_filename, frame.f_lineno))
        return note

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        before = sys.gettrace()
        sys.settrace(enter)
        try:
            call(*args, **kwargs)
        finally:
            sys.settrace(before)

    exam.call_with(look)
    return ran


def readers_classes(cls: type) -> list[type]:
    """Return a class and its bases, as far as they are not torch's."""
    known = [c for c in cls.__mro__ if issubclass(c, nn.Module)]
    return [c for c in known if not c.__module__.startswith("torch.")]


@functools.cache
def lines_that_read(cls: type, attribute: str) -> frozenset[Line]:
    """Return the lines on which a class reads `self.attribute`, but where it starts."""
    found = set()
    for base in readers_classes(cls):
        try:
            lines, first = inspect.getsourcelines(base)
            tree = ast.parse(textwrap.dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            continue
        file = inspect.getsourcefile(base) or ""
        methods = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for method in methods:
            if not STARTS.match(method.name):
                nodes = ast.walk(method)
                found |= {
                    (file, first - 1 + node.lineno)
                    for node in nodes
                    if isinstance(node, ast.Attribute) and node.attr == attribute
                }
    return frozenset(found)


def is_left_out(exam: Exam, name: str) -> bool:
    """Say whether a parameter is read on lines that this call did not run.

    It is looked for from the outside in: a part that no line reads is forgotten.
    """
    owner: nn.Module = exam.root
    for attribute in name.split("."):
        if readers_classes(type(owner)):
            lines = lines_that_read(type(owner), attribute)
            if lines and not lines & lines_run(exam):
                return True
            if not lines:
                return False
        inner = owner._modules.get(attribute)
        if inner is None:
            return False
        owner = inner
    return False


def is_idle_expert(exam: Exam, name: str, idle: list[str]) -> bool:
    """Say whether a parameter is one choice of several, of which a call takes a few."""
    chooses = any(
        s.op in ("topk", "argmax", "one_hot", "multinomial") for s in exam.flow.steps
    )
    chooses |= any(s.op == "max" and len(s.outputs) > 1 for s in exam.flow.steps)
    parts = name.split(".")
    for i, part in enumerate(parts):
        if part.isdigit() and chooses:
            ending, start = parts[i + 1 :], ".".join(parts[:i])
            others = [
                other
                for other, _ in exam.root.named_parameters()
                if other.startswith(f"{start}.") and other.split(".")[i + 1 :] == ending
            ]
            if any(other not in idle for other in others):
                return True
    return False
