"""The diagnosis: all findings, as text and as a table of a notebook."""

from __future__ import annotations

import html
import os
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..target import EXAMPLE
from .finding import SEVERITIES, Finding
from .reasons import ADVICE, DO_NOT_ARISE

if TYPE_CHECKING:
    from .exam import Exam

MARKS = {"fault": "✗", "warning": "!", "note": "·"}
CELL = "text-align:left;vertical-align:top;white-space:normal"


class Diagnosis:
    """The findings, most likely first: iterate, index, `print`, or show in a notebook.

    `.faults` are the surely wrong ones; `.checked` lists what was looked at, `.skipped`
    pairs of what could not be and why; `.asked` of `.of` questions have an answer, and
    `.complete` says whether all have that arise. `.forwards` counts the calls that it
    took. `.misuse` is a sentence where there was nothing to examine.
    """

    def __init__(self, module: str, exam: Exam) -> None:
        unique = {(f.kind, f.severity, f.title, f.where): f for f in exam.findings}
        # The sort keeps the order of the probes: what explains others comes first.
        self.findings = sorted(
            unique.values(), key=lambda f: SEVERITIES.index(f.severity)
        )
        self.module, self.forwards = module, exam.forwards
        self.checked, self.skipped = exam.checked, exam.skipped
        self.misuse = exam.misuse

    @property
    def asked(self) -> int:
        return len(self.checked)

    @property
    def of(self) -> int:
        return len(self.checked) + len(self.skipped)

    @property
    def complete(self) -> bool:
        """Whether every question has an answer that arises for this call."""
        missing = [why for _, why in self.skipped if why not in DO_NOT_ARISE]
        return bool(self.checked) and not missing and not self.misuse

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

    def to_dict(self) -> dict[str, Any]:
        """Return all of it in plain values, for a program to read."""
        return {
            "module": self.module,
            "summary": self.summary(),
            "asked": self.asked,
            "of": self.of,
            "complete": self.complete,
            "misuse": self.misuse,
            "findings": [finding.to_dict() for finding in self.findings],
            "skipped": [{"question": what, "why": why} for what, why in self.skipped],
        }

    def annotations(self) -> list[str]:
        """Return a line for each finding that GitHub shows beside the code."""
        return [annotation(finding) for finding in self.findings]

    def summary(self) -> str:
        """Count the findings by severity: "1 fault, 2 warnings".

        Where questions are open, say how many have an answer: a stored output of a
        whole examination must outlive the next new question.
        """
        counts = {s: sum(f.severity == s for f in self.findings) for s in SEVERITIES}
        words = [f"{n} {s}{'s' * (n != 1)}" for s, n in counts.items() if n]
        if self.misuse:
            return "nothing to examine"
        much = "" if self.complete else f" in {self.asked} of {self.of} questions"
        return (", ".join(words) or "nothing found") + much

    def __str__(self) -> str:
        lines = [f"{self.module}: {self.summary()}"]
        for finding in self.findings:
            lines += ["", *paragraph(finding)]
        return "\n".join([*lines, "", *self.unchecked()])

    def unchecked(self) -> list[str]:
        """Say what could not be checked, why, and what would help: a line a reason."""
        if self.misuse:
            return [f"{self.misuse}.", "", EXAMPLE]
        by_reason: dict[str, list[str]] = {}
        for question, why in self.skipped:
            by_reason.setdefault(why, []).append(question)
        lines = []
        for why, questions in by_reason.items():
            few = len(questions) < 4
            what = " ".join(questions) if few else "many questions, see .skipped."
            advice = f" To have them asked, {ADVICE[why]}." if why in ADVICE else ""
            lines.append(f"Not checked, for {why}: {what}{advice}")
        end = "All else was checked."
        if not self.complete:
            end = f"{self.asked} of {self.of} questions have an answer."
        return [*lines, end]

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": diagnosis_table(self)}


def paragraph(finding: Finding, width: int = 88) -> list[str]:
    """Lay a finding out as lines of text."""
    head = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    parts = [f"{finding.title}.", f"Evidence: {finding.evidence}."]
    parts += [f"Where: {finding.where}"] * bool(finding.where)
    parts += [f"Part: {finding.part}"] * bool(finding.part)
    parts += [f"Fix: {finding.fix}."] * bool(finding.fix)
    parts.append(f"Read: chapters/{finding.chapter}.ipynb")
    indent = "    "
    wrapper = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent
    )
    return [head, *(line for part in parts for line in wrapper.wrap(part))]


ANNOTATED_AS = {"fault": "error", "warning": "warning", "note": "notice"}


def annotation(finding: Finding) -> str:
    """Write a finding as a command of GitHub's workflows."""
    place = ""
    if finding.file:
        place = f"file={os.path.relpath(finding.file)},line={finding.line},"
    title = escaped(f"{finding.kind}: {finding.title}")
    title = title.replace(",", "%2C").replace(":", "%3A")
    text = escaped(f"{finding.evidence}. Fix: {finding.fix}".removesuffix(" Fix: "))
    return f"::{ANNOTATED_AS[finding.severity]} {place}title={title}::{text}"


def escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


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


def marked(finding: Finding) -> str:
    """Write a finding's line for a page, the part of it that matters marked."""
    if not finding.part or finding.part not in finding.where:
        return html.escape(finding.where)
    before, part, after = map(html.escape, finding.where.partition(finding.part))
    return f"{before}<mark>{part}</mark>{after}"


def row_of(finding: Finding) -> str:
    escape = html.escape
    mark = f"{MARKS[finding.severity]} {finding.severity}, {finding.kind}"
    what = f"<strong>{escape(mark)}</strong><br>{escape(finding.title)}"
    why = escape(finding.evidence)
    why += f"<br><code>{marked(finding)}</code>" * bool(finding.where)
    why += f"<br>Fix: {escape(finding.fix)}" * bool(finding.fix)
    cells = "".join(f'<td style="{CELL}">{cell}</td>' for cell in (what, why))
    return f"<tr>{cells}</tr>"
