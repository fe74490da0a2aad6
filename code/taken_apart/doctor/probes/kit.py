"""How a probe is made: what it needs, what it finds. The list is in `__init__.py`."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypedDict

from torch import Tensor

from ...tracer import Row
from ...tracer.places import INSTALLED_FILE, file_kind
from ...tracer.rows import source_line
from ..evidence.attentions import SDPA
from ..evidence.tensor_flow import Step
from ..exam import Exam
from ..finding import Finding, Severity
from ..reasons import NO_BATCH, NO_MODULE, NO_PADDING, NO_TOKENS, ONE_SAMPLE

# What a probe may need, and why an exam does not have it: "" where it does.
NEEDS: dict[str, Callable[[Exam], str]] = {
    "run": lambda exam: "the call raised" if exam.raised else "",
    "root": lambda exam: "" if exam.has_root else NO_MODULE,
    "attentions": lambda exam: "" if exam.attentions else "no softmax weighs values",
    "sequence": lambda exam: "" if exam.has_sequence else NO_TOKENS,
    "samples": lambda exam: "" if exam.has_samples else NO_BATCH,
    "batch": lambda exam: "" if exam.sequence.n_samples > 1 else ONE_SAMPLE,
    "padding": lambda exam: "" if exam.has_padding else NO_PADDING,
    "output": lambda exam: "" if exam.outputs else "it returns no floating tensor",
    "numbers": lambda exam: "it is on meta: no numbers" if exam.on_meta else "",
}

Findings = Iterator[Finding]


class Probe:
    """A question about a module. Called with an exam, it returns its findings."""

    def __init__(
        self,
        function: Callable[[Exam], Iterable[Finding] | None],
        needs: tuple[str, ...],
        costly: bool,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function, self.needs, self.costly = function, needs, costly
        self.question = function.__doc__ or function.__name__

    def __call__(self, exam: Exam) -> list[Finding]:
        return list(self.function(exam) or [])

    def obstacle(self, exam: Exam) -> str:
        """Say which of its needs an exam does not meet, in order; "" if none."""
        return next(filter(None, (NEEDS[need](exam) for need in self.needs)), "")


def probe(
    *needs: str, costly: bool = False
) -> Callable[[Callable[[Exam], Iterable[Finding] | None]], Probe]:
    """Make a probe of a function: it runs where all its NEEDS are met.

    The function's docstring is its question. A `costly` one is left out by quick=True.
    """
    return functools.partial(Probe, needs=needs, costly=costly)


class Wording(TypedDict):
    """What is said of a finding, where a function finds out what is wrong."""

    title: str
    evidence: str
    fix: str


class Reason(NamedTuple):
    """Why something is so, and what to do about it, where there are several reasons."""

    kind: str
    title: str
    fix: str
    severity: Severity = "fault"


def found(
    kind: str,
    severity: Severity,
    *,
    title: str,
    evidence: str,
    fix: str = "",
    at: Row | None = None,
) -> Finding:
    """Make a finding; `at` is the traced operation where the fault lies."""
    if at is None or not is_of_a_reader(at):
        return Finding(kind, severity, title, evidence, fix=fix)
    where = f"{os.path.basename(at.file)}:{at.line}  {at.code}"
    part = source_line(at.spot, part=True) if at.spot else ""
    part = "" if part == at.code else part
    return Finding(kind, severity, title, evidence, where, fix, part, at.file, at.line)


def is_of_a_reader(row: Row) -> bool:
    """Say whether a row has a line that its reader can change: not torch's nor ours."""
    return bool(row.file) and file_kind(row.file) <= INSTALLED_FILE


def dims(tensor: Tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def drops(step: Step) -> bool:
    """Say whether a step drops numbers at random."""
    if step.op == "dropout":
        return bool(step.given(2, "training", True)) and step.given(1, "p", 0.5) > 0
    dropout = step.given(4, "dropout_p", 0.0)
    return step.op == SDPA and dropout > 0
