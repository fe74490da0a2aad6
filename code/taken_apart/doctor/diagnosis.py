"""The diagnosis: all findings, as text and as a table of a notebook."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .finding import SEVERITIES, Finding

if TYPE_CHECKING:
    from .exam import Exam

MARKS = {"fault": "✗", "warning": "!", "note": "·"}
CELL = "text-align:left;vertical-align:top;white-space:normal"


class Diagnosis:
    """The findings, most likely first: iterate, index, `print`, or show in a notebook.

    `.faults` are the surely wrong ones; `.checked` lists what was looked at, `.skipped`
    pairs of what could not be and why; `.forwards` counts the calls that it took.
    """

    def __init__(self, module: str, exam: Exam) -> None:
        unique = {(f.kind, f.severity, f.title, f.where): f for f in exam.findings}
        # The sort keeps the order of the probes: what explains others comes first.
        self.findings = sorted(
            unique.values(), key=lambda f: SEVERITIES.index(f.severity)
        )
        self.module, self.forwards = module, exam.forwards
        self.checked, self.skipped = exam.checked, exam.skipped

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity == "fault"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, index: int) -> Finding:
        return self.findings[index]

    def __repr__(self) -> str:
        return f"Diagnosis({self.module}: {self.summary()})"

    def summary(self) -> str:
        """Count the findings by severity: "1 fault, 2 warnings"."""
        counts = {s: sum(f.severity == s for f in self.findings) for s in SEVERITIES}
        words = [f"{n} {s}{'s' * (n != 1)}" for s, n in counts.items() if n]
        return ", ".join(words) or "nothing found"

    def __str__(self) -> str:
        lines = [f"{self.module}: {self.summary()}"]
        for finding in self.findings:
            lines += ["", *paragraph(finding)]
        return "\n".join([*lines, "", *self.unchecked()])

    def unchecked(self) -> list[str]:
        """Say what could not be checked, in a line for each reason.

        It counts nothing: a stored output must outlive the next new question.
        """
        by_reason: dict[str, list[str]] = {}
        for question, why in self.skipped:
            by_reason.setdefault(why, []).append(question)
        lines = []
        for why, questions in by_reason.items():
            few = len(questions) < 4
            what = " ".join(questions) if few else "many questions, see .skipped."
            lines.append(f"Not checked, for {why}: {what}")
        return [*lines, "All else was checked." if self.checked else "That is all."]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": diagnosis_table(self)}


def paragraph(finding: Finding, width: int = 88) -> list[str]:
    """Lay a finding out as lines of text."""
    head = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    parts = [f"{finding.title}.", f"Evidence: {finding.evidence}."]
    parts += [f"Where: {finding.where}"] * bool(finding.where)
    parts += [f"Fix: {finding.fix}."] * bool(finding.fix)
    parts.append(f"Read: chapters/{finding.chapter}.ipynb")
    indent = "    "
    wrapper = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent
    )
    return [head, *(line for part in parts for line in wrapper.wrap(part))]


def diagnosis_table(diagnosis: Diagnosis) -> str:
    """Lay a diagnosis out as a plain table, without scripts, ids or colours."""
    rows = "".join(row_of(finding) for finding in diagnosis)
    heads = "".join(
        f'<th style="{CELL}">{head}</th>' for head in ("Finding", "Evidence, cure")
    )
    body = f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>" if rows else ""
    summary = html.escape(f"{diagnosis.module}: {diagnosis.summary()}")
    about = "<br>".join(html.escape(line) for line in diagnosis.unchecked())
    return (
        f"<div><p><strong>{summary}</strong></p><table>{body}</table>"
        f"<p>{about}</p></div>"
    )


def row_of(finding: Finding) -> str:
    escape = html.escape
    mark = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    what = f"<strong>{escape(mark)}</strong><br>{escape(finding.title)}"
    why = escape(finding.evidence)
    why += f"<br><code>{escape(finding.where)}</code>" * bool(finding.where)
    why += f"<br>Fix: {escape(finding.fix)}" * bool(finding.fix)
    cells = "".join(f'<td style="{CELL}">{cell}</td>' for cell in (what, why))
    return f"<tr>{cells}</tr>"
