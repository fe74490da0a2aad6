"""Measure how much each chapter asks of its reader: `make budgets` prints the table.

The setup cell counts nowhere, and what belongs to an exercise (its text, its hints) is
no story. A cell has as many lines as it shows, blank ones too. Reading is estimated at
130 words and 16 lines of code a minute, and four minutes a view: so eight readers who
had not seen the book told, who took 40 to 50 minutes a chapter.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import nbformat
from tabulate import tabulate

CHAPTERS = Path(__file__).parent.parent / "chapters"
LIMITS = {
    "words": (1500, 2500),
    "cells": (1, 22),
    "median": (1, 8),
    "lines": (1, 260),
    "sections": (5, 7),
    "claims": (0, 3),
    "true_false": (0, 1),
}
NO_STORY = [
    r"(?ms)^:::+\{(exercise|admonition)\}.*?^:::+ *$",  # exercises, and the objectives
    r"(?s)<details>.*?</details>",
    r"(?ms)^```\{?\w.*?^``` *$",
]
ENDS = {"Exercises", "Summary", "Where next", "References"}


@dataclass(frozen=True)
class Budget:
    """What one chapter asks. Times are minutes: estimated, and what its page says."""

    words: int
    cells: int
    median: float
    lines: int
    sections: int
    claims: int
    true_false: int
    views: int
    reading: int
    says_reading: int | None
    exercises: int
    says_exercises: int | None

    def exceeded(self) -> list[str]:
        """Return a sentence for each limit that the chapter breaks."""
        broken = [
            f"{name} is {getattr(self, name)}, wanted {low} to {high}"
            for name, (low, high) in LIMITS.items()
            if not low <= getattr(self, name) <= high
        ]
        if self.says_reading is None or abs(self.says_reading - self.reading) > 5:
            broken.append(
                f"the page says {self.says_reading} minutes of reading, "
                f"the estimate is {self.reading}"
            )
        if self.says_exercises != self.exercises:
            broken.append(
                f"the page says {self.says_exercises} minutes of exercises, "
                f"their own times add up to {self.exercises}"
            )
        return broken


def measure(path: Path) -> Budget:
    """Return what the chapter at `path` asks, as it is stored."""
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(c.source for c in cells if c.cell_type == "markdown")
    code = [c for c in cells if c.cell_type == "code"]
    code = [c for c in code if "book-setup" not in c.metadata.get("tags", [])]
    lengths = [len(c.source.splitlines()) for c in code]
    outputs = ["\n".join(map(output_text, c.outputs)) for c in code]
    words = len(re.findall(r"\w[\w'’-]*", story(text)))
    views = sum("eta-root" in output for output in outputs)
    titles = set(re.findall(r"(?m)^## +(.+?) *$", text))
    minutes = re.findall(r"(?m)^\*Difficulty.*?(\d+) minutes", text)
    says = re.search(r"reading (\d+) minutes, exercises (\d+) minutes", text)
    return Budget(
        words=words,
        cells=len(code),
        median=median(lengths),
        lines=sum(lengths),
        sections=len(titles - ENDS),
        claims=sum(c.source.count("claim(\n") for c in code),
        true_false=sum(bool(re.search(r"\b(True|False)\b", o)) for o in outputs),
        views=views,
        reading=round(words / 130 + sum(lengths) / 16 + 4 * views),
        says_reading=int(says[1]) if says else None,
        exercises=sum(map(int, minutes)),
        says_exercises=int(says[2]) if says else None,
    )


def story(text: str) -> str:
    """Return the markdown of a chapter without exercises, objectives and references."""
    for pattern in NO_STORY:
        text = re.sub(pattern, " ", text)
    return text


def output_text(output) -> str:
    """Return what an output shows: a stream's text, or a value as text and as HTML."""
    data = output.get("data", {})
    shown = output.get("text", "") or data.get("text/plain", "")
    html = data.get("text/html", "")
    return shown + ("eta-root" if "eta-root" in html else html)


def main() -> int:
    chapters = {
        path.stem: measure(path) for path in sorted(CHAPTERS.glob("[0-9]*.ipynb"))
    }
    rows = [[name, *vars(budget).values()] for name, budget in chapters.items()]
    heads = [name.replace("_", "\n") for name in Budget.__dataclass_fields__]
    print(tabulate(rows, headers=["chapter", *heads]))
    broken = [(name, line) for name, b in chapters.items() for line in b.exceeded()]
    for name, line in broken:
        print(f"{name}: {line}")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
