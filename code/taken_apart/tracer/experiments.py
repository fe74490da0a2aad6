"""Try which letters can have other sizes: what was tried, and ran, is what is tested.

First all letters at once. If that does not run, one after the other, each kept that
runs together with those before it. So two letters of equal numbers, D and the height of
an image, are told apart, and a letter that the module fixes is left out, not guessed.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .axis_flow import Node, size
from .axis_texts import Sizes
from .input_axes import Axes, Subject
from .rows import Row
from .stand_ins import Policy, StandIns, steps

# Distinct primes for two runs, and one more for where the traced size is one of them.
# T stays small, for a table of positions may be short.
PRIMES = {"B": (7, 3, 5), "T": (3, 5, 7), "Tk": (2, 11, 13), "D": (5, 7, 11)}
PRIMES |= {"H": (5, 7, 3), "K": (11, 13, 7), "F": (13, 17, 19), "V": (17, 19, 23)}
SPARE_PRIMES = (29, 31, 71), (37, 41, 73), (43, 47, 79), (53, 59, 83), (61, 67, 89)
PARITY = {"H": 2, "D": 2, "F": 2, "V": 2, "K": 2}  # encoders often need even sizes
ORDER = ("B", "K", "H", "D", "F", "V", "T", "Tk")  # in which letters are tried
MOST_RUNS = 40


class Tested(NamedTuple):
    """Rows of two stand-ins, the sizes of all three runs, or why there are none."""

    runs: list[list[Row]]
    tables: list[Sizes]
    why: str = ""

    @property
    def varied(self) -> set[str]:
        first, *others = self.tables
        return {
            x for x, n in first.items() if all(t[x] != n for t in others) and others
        }


class Attempt(NamedTuple):
    """Letters to vary, by which policy, and input axes to stretch for T."""

    names: tuple[str, ...]
    policy: Policy
    stretched: tuple[Node, ...] = ()


def experiment(subject: Subject, axes: Axes) -> Tested:
    """Run two stand-ins of other sizes, as many letters varied as can be."""
    nothing = Tested([], [axes.sizes])
    if subject.inputs is None or isinstance(subject.rows[-1].error, RecursionError):
        return nothing._replace(why="no stand-in of other sizes could be run")
    if subject.strangers:
        return nothing._replace(why="it calls modules that it does not hold")
    stand_ins = StandIns(subject, axes)
    names = [name for name in ORDER if name in axes.sizes]
    names += [name for name in axes.sizes if name not in ORDER]
    at_once = [names] if axes.is_input("T") else [names, [n for n in names if n != "T"]]
    for policy in stand_ins.policies:
        for together in at_once:
            attempt = Attempt(tuple(together), policy)
            if (found := both_runs(stand_ins, attempt)) is not None:
                return stretch(stand_ins, attempt, found)
        if policy is stand_ins.policies[0] and (why := unsteady(stand_ins)):
            return nothing._replace(why=why)
    return one_by_one(stand_ins, names) or nothing._replace(
        why="no stand-in of other sizes could be run"
    )


def unsteady(stand_ins: StandIns) -> str:
    """Say why a copy of the same sizes already takes other steps, if it does."""
    sizes, policy = stand_ins.axes.sizes, stand_ins.policies[0]
    traced = steps(stand_ins.subject.rows)
    if not (again := steps(stand_ins.call(sizes, policy))):
        return "no copy of the module could be run"
    if again != traced:
        return "its steps depend on the values of its inputs or weights"
    others = (steps(stand_ins.call(sizes, policy, seed=seed)) for seed in range(3))
    if any(other != traced for other in others):
        return "its steps change from call to call, by chance"
    return ""


def both_runs(stand_ins: StandIns, attempt: Attempt) -> Tested | None:
    """Run two stand-ins; None if one does not take the traced steps."""
    runs, tables = [], [stand_ins.axes.sizes]
    for k in (0, 1):
        new = resized(stand_ins.axes.sizes, attempt.names, k)
        factors = dict.fromkeys(attempt.stretched, k + 2)
        if attempt.stretched:
            rows = stand_ins.call(stand_ins.axes.sizes, attempt.policy, factors)
            n_tokens = stand_ins.met("T", rows)
            if n_tokens is None or n_tokens == stand_ins.axes.sizes["T"]:
                return None
            new["T"] = n_tokens
        rows = stand_ins.fits(new, attempt.policy, factors)
        if rows is None:
            return None
        runs, tables = [*runs, rows], [*tables, new]
    return Tested(runs, tables)


def one_by_one(stand_ins: StandIns, names: Sequence[str]) -> Tested | None:
    kept, best = None, None
    for name in names:
        for policy in stand_ins.policies:
            attempt = Attempt((*(kept.names if kept else ()), name), policy)
            if stand_ins.n_runs < MOST_RUNS and (
                found := both_runs(stand_ins, attempt)
            ):
                kept, best = attempt, found
                break
    if kept is None or best is None:
        return None
    return stretch(stand_ins, kept, best)


def stretch(stand_ins: StandIns, attempt: Attempt, found: Tested) -> Tested:
    """Vary T too where no input has it: where it is made of patches, or of frames."""
    axes = stand_ins.axes
    if "T" in attempt.names or axes.is_input("T"):
        return found
    for node in reversed([node for inputs in axes.inputs[:1] for node in inputs]):
        if axes.text(node) or size(node) < 2 or stand_ins.is_weight(node):
            continue
        for policy in dict.fromkeys((attempt.policy, *stand_ins.policies[:2])):
            again = attempt._replace(
                policy=policy, stretched=(axes.groups.leader(node),)
            )
            if stand_ins.n_runs < MOST_RUNS and (more := both_runs(stand_ins, again)):
                return more
    return found


def resized(sizes: Mapping[str, int], varied: Sequence[str], k: int) -> Sizes:
    """Choose the k-th set of other sizes for the names that vary."""
    new, spare = dict(sizes), iter(SPARE_PRIMES * 9)
    heads = sizes.get("D") == sizes.get("H", 0) * sizes.get("K", 0)
    for name, n in sizes.items():
        primes = PRIMES.get(name) or next(spare)
        if name in varied:
            factor = math.gcd(n, PARITY.get(name, 1))
            if name == "D" and "H" not in sizes:  # an unknown number must divide it
                factor = math.gcd(n, 48)
            others = (prime * factor for prime in primes)
            new[name] = [other for other in others if other != n][k]
    if heads:
        new["D"] = new["H"] * new["K"]
    return new
