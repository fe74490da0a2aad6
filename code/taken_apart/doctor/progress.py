"""A sign of life on a terminal while an examination runs; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

QUIET = 1.0  # seconds before anything is shown


class SignOfLife:
    """Writes one line over and over, to a terminal alone, and wipes it at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.began, self.width = time.monotonic(), 0
        try:
            self.shown = self.stream.isatty()
        except Exception:
            self.shown = False

    def __call__(self, done: int, of: int) -> None:
        """Tell how many questions are done, of how many."""
        seconds = time.monotonic() - self.began
        if self.shown and seconds > QUIET:
            self.write(f"{done} of {of} questions, {seconds:.0f} s")

    def end(self) -> None:
        """Leave an empty line."""
        if self.width:
            self.write("")

    def write(self, text: str) -> None:
        self.stream.write("\r" + text.ljust(self.width) + "\r" * (not text))
        self.stream.flush()
        self.width = len(text)
