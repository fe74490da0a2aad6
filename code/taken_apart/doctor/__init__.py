"""`diagnose(module, *inputs)`: behavioural probes that name what is wrong, and where.

The doctor runs the module on variants of the reader's own inputs, watches its tensors
through the tracer, and judges by what they do. `probes.py` lists its questions, one
small function each, and says how to add one.

    print(diagnose(encoder, token_ids))
    python code/doctor.py my_model.py:build
"""

import argparse
import contextlib
import copy
import html
import re
import sys
import textwrap
import time
import types

import torch
from torch import nn
from torch.nn.parameter import UninitializedTensorMixin as Lazy

from ..tracer import loaded
from ..untouched import left_untouched
from .exam import SEVERITIES, Exam, Finding
from .probes import PROBES

__all__ = ["Diagnosis", "Finding", "diagnose"]

SECONDS = 8.0  # after so long no further probe is begun
MARKS = {"fault": "✗", "warning": "!", "note": "·"}


def diagnose(module, *inputs, quick=False, **kwargs) -> "Diagnosis":
    """Examine `module(*inputs, **kwargs)`; see `Diagnosis`.

    `module` is any callable. `quick=True` leaves out the costlier probes. It never
    raises because of the module, and leaves module, inputs and random state as they
    were. A function without arguments that returns (module, inputs[, kwargs]) is called
    first. Raises TypeError if `module` cannot be called.
    """
    if not callable(module):
        raise TypeError(f"diagnose wants a module or function, got {type(module)}")
    module, inputs, kwargs = unpacked(module, inputs, kwargs)
    if any(isinstance(p, Lazy) for p in parameters_of(module)):
        module = copy.deepcopy(
            module
        )  # a call gives lazy parameters their size for good
    exam = Exam(module, inputs, kwargs, quick)
    with left_untouched(module, inputs, kwargs):
        use_few_threads(module)
        take_all(exam)
    return Diagnosis(name_of(module), exam)


def name_of(module) -> str:
    plain = module if not isinstance(module, nn.Module) else type(module)
    return getattr(plain, "__name__", type(module).__name__)


def use_few_threads(module):
    """Use one thread for a small module, where a second one would only wait."""
    if sum(p.numel() for p in parameters_of(module) if not isinstance(p, Lazy)) < 2**22:
        torch.set_num_threads(1)


def parameters_of(module) -> list:
    return list(module.parameters()) if isinstance(module, nn.Module) else []


def unpacked(module, inputs, kwargs):
    """Call a function that builds what is to be examined, if it is one and succeeds."""
    if isinstance(module, types.FunctionType) and not inputs and not kwargs:
        with contextlib.suppress(Exception), left_untouched():
            parts = module()
            if isinstance(parts, tuple) and callable(parts[0]):
                return parts[0], tuple(parts[1]), dict(*parts[2:])
    return module, inputs, kwargs


def take_all(exam):
    began = time.monotonic()
    for probe in PROBES:
        if time.monotonic() - began > SECONDS:
            exam.skip(probe.__doc__, "the time was up")
        elif exam.quick and probe.costly:
            exam.skip(probe.__doc__, "left out by quick=True")
        else:
            take(exam, probe)


def take(exam, probe):
    """Run one probe; one that fails itself has checked nothing, and says so."""
    try:
        why = probe.needs(exam)
        if why:
            exam.skip(probe.__doc__, why)
            return
        exam.findings += probe(exam) or []
        exam.checked.append(probe.__doc__)
    except Exception as error:
        exam.skip(probe.__doc__, f"could not be done: {type(error).__name__}")


class Diagnosis:
    """The findings, most likely first: iterate, index, `print`, or show in a notebook.

    `.faults` are the surely wrong ones; `.checked` lists what was looked at, `.skipped`
    pairs of what could not be and why; `.forwards` counts the calls that it took.
    """

    def __init__(self, module, exam):
        unique = {(f.kind, f.severity, f.title, f.where): f for f in exam.findings}
        rank = SEVERITIES.index
        self.findings = sorted(unique.values(), key=lambda f: rank(f.severity))
        self.module, self.forwards = module, exam.forwards
        self.checked, self.skipped = exam.checked, exam.skipped

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "fault"]

    def __iter__(self):
        return iter(self.findings)

    def __len__(self):
        return len(self.findings)

    def __getitem__(self, index):
        return self.findings[index]

    def __repr__(self):
        return f"Diagnosis({self.module}: {self.summary()})"

    def summary(self) -> str:
        counts = [sum(f.severity == s for f in self.findings) for s in SEVERITIES]
        words = [f"{n} {s}{'s' * (n != 1)}" for n, s in zip(counts, SEVERITIES) if n]
        return ", ".join(words) or "nothing found"

    def __str__(self):
        lines = [f"{self.module}: {self.summary()}"]
        for finding in self.findings:
            lines += ["", *paragraph(finding)]
        return "\n".join([*lines, "", *self.left()])

    def left(self) -> list[str]:
        """Say what could not be checked, in a line for each reason.

        It counts nothing: a stored output must outlive the next new question.
        """
        by_reason = {}
        for what, why in self.skipped:
            by_reason.setdefault(why, []).append(what)
        lines = []
        for why, asked in by_reason.items():
            few = " ".join(asked) if len(asked) < 4 else "many questions, see .skipped."
            lines.append(f"Not checked, for {why}: {few}")
        return [*lines, "All else was checked." if self.checked else "That is all."]

    def _repr_mimebundle_(self, **kwargs):
        return {"text/plain": str(self), "text/html": table(self)}


def paragraph(finding, width=88) -> list[str]:
    head = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    parts = [f"{finding.title}.", f"Evidence: {finding.evidence}."]
    parts += [f"Where: {finding.where}"] * bool(finding.where)
    parts += [f"Fix: {finding.fix}."] * bool(finding.fix)
    parts.append(f"Read: chapters/{finding.chapter}.ipynb")
    room = {"initial_indent": "    ", "subsequent_indent": "    ", "width": width}
    return [head] + [line for p in parts if p for line in textwrap.wrap(p, **room)]


CELL = "text-align:left;vertical-align:top;white-space:normal"


def table(diagnosis) -> str:
    """Lay a diagnosis out as a plain table, without scripts, ids or colours."""
    rows = [row_of(finding) for finding in diagnosis]
    heads = "".join(
        f'<th style="{CELL}">{h}</th>' for h in ("Finding", "Evidence, cure")
    )
    body = (
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody>" if rows else ""
    )
    summary = html.escape(f"{diagnosis.module}: {diagnosis.summary()}")
    about = f"<p>{'<br>'.join(html.escape(line) for line in diagnosis.left())}</p>"
    return f"<div><p><strong>{summary}</strong></p><table>{body}</table>{about}</div>"


def row_of(finding) -> str:
    said = html.escape
    mark = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    left = f"<strong>{said(mark)}</strong><br>{said(finding.title)}"
    right = said(finding.evidence)
    right += f"<br><code>{said(finding.where)}</code>" * bool(finding.where)
    right += f"<br>Fix: {said(finding.fix)}" * bool(finding.fix)
    cells = "".join(f'<td style="{CELL}">{cell}</td>' for cell in (left, right))
    return f"<tr>{cells}</tr>"


# --- the command ---------------------------------------------------------------------


def main(arguments=None) -> int:
    """Diagnose a module of a file: 0 no fault, 1 a fault, 2 there is no such module."""
    parser = argparse.ArgumentParser(
        description="Examine the module that a function of a file builds."
    )
    parser.add_argument("target", help="path/to/file.py:build")
    parser.add_argument("--quick", action="store_true", help="leave out costly probes")
    options = parser.parse_args(arguments)
    path, name = re.fullmatch(r"(.*?)(?::(\w+))?", options.target).groups("build")
    try:
        build = getattr(loaded(path), name)
    except Exception as error:
        print(f"doctor: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    found = diagnose(build, quick=options.quick)
    print(found)
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
