"""Check what a reader wrote, without giving the answer away.

    check("attention", my_attention)

The reader's function and the reference meet on the same inputs. Where they differ, the
verdict names the input; where the reader's results are those of a known mistake, it
names the mistake. The exercises and their mistakes are in `ch01.py` to `ch11.py`.
"""

from typing import Any

import torch

from . import ch01, ch02, ch03, ch04, ch05, ch06, ch07, ch08, ch09, ch11
from .exercise import Exercise
from .verdict import Verdict, given_away, judge

__all__ = ["EXERCISES", "Exercise", "Verdict", "check", "kill_table"]

EXERCISES: dict[str, Exercise] = {
    exercise.name: exercise
    for exercise in (
        ch01.POSITIONS,
        ch01.RATIOS,
        ch01.EMBED,
        ch02.ATTENTION,
        ch02.IS_MAP,
        ch02.LEFT_NEIGHBOUR,
        ch03.SPLIT_HEADS,
        ch03.MERGE_HEADS,
        ch03.UNPACK,
        ch03.BEFORE_AND_AFTER,
        ch04.SHARE,
        ch04.FEED_FORWARD,
        ch04.RINGS,
        ch04.MEMORY,
        ch05.LAYER_NORM,
        ch05.START_AT_ZERO,
        ch05.BRANCH_FACTOR,
        ch05.ENCODER_LAYER,
        ch06.PLACES,
        ch06.CONVERT,
        ch06.MAX_OF_WORDS,
        ch06.PACKED_MEANS,
        ch07.PARAMETERS,
        ch07.SAME_BOX,
        ch07.SEPARATE,
        ch07.RUN_STACK,
        ch08.FAULTS,
        ch09.LEAKS,
        ch09.ALONE,
        ch09.CULPRIT,
        ch09.MENDED,
        ch11.PREFIX_MASK,
        ch11.BEAM_STEP,
        ch11.TRANSLATE,
    )
}


def check(name: str, yours: Any) -> Verdict:
    """Compare a function with the reference of an exercise, and say how it did.

    Errors of the function become part of the verdict; its arguments and the global
    random numbers stay as they are. An unknown name is a ValueError.
    """
    if name not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise ValueError(f"there is no exercise {name!r}, only {known}")
    with torch.random.fork_rng(devices=[]):
        return judge(EXERCISES[name], yours)


def kill_table() -> list[tuple[str, str, str]]:
    """Return (exercise, mistake, the input that gives it away) for every mistake."""
    with torch.random.fork_rng(devices=[]):
        return [
            (name, mistake, case)
            for name, exercise in EXERCISES.items()
            for mistake, case in given_away(exercise).items()
        ]
