"""Check what a reader wrote, without giving the answer away.

    check("attention", my_attention)

The reader's function and the reference meet on the same inputs. Where they differ, the
verdict names the input; where the reader's results are those of a known mistake, it
names the mistake. The exercises and their mistakes are in `workbook.py`.
"""

from copy import deepcopy
from dataclasses import dataclass
from textwrap import fill

import torch
from torch import Tensor

from .workbook import EXERCISES, Exercise

NOT_YET = (None, ..., NotImplemented)
# Half precision keeps three digits, and correct solutions round in different places.
TOLERANCE = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-9}


@dataclass(frozen=True)
class Verdict:
    """What is said of a solution: `passed`, and the sentences that a notebook shows."""

    passed: bool
    text: str

    def __repr__(self):
        return fill(self.text, width=76)

    def __bool__(self):
        return self.passed


@dataclass(frozen=True)
class Raised:
    """The error that took the place of a result."""

    kind: str
    message: str

    def __str__(self):
        return f"{self.kind}: {self.message}" if self.message else self.kind


def check(name: str, yours) -> Verdict:
    """Compare a function with the reference of an exercise, and say how it did.

    Errors of the function become part of the verdict; its arguments and the global
    random numbers stay as they are. An unknown name is a ValueError.
    """
    if name not in EXERCISES:
        known = ", ".join(EXERCISES)
        raise ValueError(f"there is no exercise {name!r}, only {known}")
    exercise = EXERCISES[name]
    with torch.random.fork_rng(devices=[]):
        passed, text = judge(exercise, yours)
    return Verdict(passed, f"{name}: {text}")


def judge(exercise: Exercise, yours) -> tuple[bool, str]:
    if any(yours is nothing for nothing in NOT_YET):
        return False, "not yet"
    if not callable(yours):
        return False, f"give the function itself, not what it returns ({kind(yours)})."
    cases = exercise.cases()
    results = [outcome(yours, args) for args in cases.values()]
    if not_yet(results[0]):
        return False, "not yet"
    faults = find_faults(exercise, cases, results)
    if not any(faults):
        return True, f"right. Tried on {listed(cases)}."
    if mistake := recognise(exercise, cases, results, faults):
        return False, f"not right yet. {mistake}"
    return False, describe(cases, faults)


def outcome(function, args):
    """Call a function on copies: return its result, or what it raised instead."""
    copies = deepcopy(args)
    try:
        result = function(*copies)
    except NotImplementedError:
        return NotImplemented
    except Exception as error:  # whatever a reader's function does, it is said
        message = str(error).strip().split("\n")[0]
        return Raised(type(error).__name__, message[:200].rstrip())
    return Raised("in place", "") if changed(copies, args) else result


def changed(copies, args):
    pairs = [pair for pair in zip(copies, args) if isinstance(pair[1], Tensor)]
    return not all(torch.equal(copy, arg) for copy, arg in pairs)


def not_yet(result):
    return any(result is nothing for nothing in NOT_YET)


def find_faults(exercise, cases, results) -> list[str]:
    """Return what is wrong with the result of each case, "" where it is right."""
    wanted = [exercise.reference(*deepcopy(args)) for args in cases.values()]
    return [fault(exercise, *pair) for pair in zip(results, wanted)]


def fault(exercise, result, wanted) -> str:
    if isinstance(result, Raised):
        return complaint(exercise, result)
    if said := misfit(result, wanted):
        return said
    same = alike(exercise.judged(result), exercise.judged(wanted))
    return "" if same else difference(result, wanted)


def complaint(exercise, raised) -> str:
    if raised.kind == "in place":
        return "the function changes its arguments: work on a copy"
    return f"the call {exercise.call} raised {raised}"


def misfit(result, wanted) -> str:
    """Say in which way a result has not the form of the wanted one, or ""."""
    if isinstance(wanted, tuple):
        if not isinstance(result, tuple | list) or len(result) != len(wanted):
            return f"you returned {kind(result)}, wanted {kind(wanted)}"
        return first_said(misfit, result, wanted)
    if isinstance(wanted, Tensor) and isinstance(result, Tensor):
        if result.shape != wanted.shape:
            shapes = tuple(result.shape), tuple(wanted.shape)
            return "you returned shape {}, wanted {}".format(*shapes)
    elif type(plain(result)) is not type(wanted):
        return f"you returned {kind(result)}, wanted {kind(wanted)}"
    return ""


def difference(result, wanted) -> str:
    """Say what is wrong with a result of the right form, or ""."""
    if alike(result, wanted):
        return ""
    if isinstance(wanted, tuple):
        return first_said(difference, result, wanted)
    if isinstance(wanted, Tensor):
        if result.dtype != wanted.dtype:
            return f"you returned {result.dtype}, wanted {wanted.dtype}"
        if result.isnan().any():
            return "the result holds nan"
    return "the result is another"


def first_said(compare, results, wanted) -> str:
    """Return what `compare` says of the first part that it says something of."""
    said = enumerate(map(compare, results, wanted))
    return next((f"of result {i}, {words}" for i, words in said if words), "")


def alike(one, other) -> bool:
    """Are these two outcomes the same, up to rounding and with nan equal to nan?"""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, Raised) and isinstance(other, Raised):
        return one.kind == other.kind
    one, other = plain(one), plain(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        near = TOLERANCE.get(one.dtype, 0.0)
        return torch.allclose(one, other, rtol=near, atol=near, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def plain(result):
    """Return the Python number in a tensor without axes, and any tensor on the CPU."""
    if isinstance(result, Tensor):
        return result.cpu() if result.dim() else result.item()
    return result


def kind(value) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Tensor):
        return "a tensor"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def recognise(exercise, cases, results, faults) -> str:
    """Return the known mistake that gives these results, or ""."""
    same = {
        mistake: [
            alike(result, outcome(mutant, args))
            for result, args in zip(results, cases.values())
        ]
        for mistake, mutant in exercise.mutants.items()
    }
    for mistake, agreed in same.items():
        if all(agreed):
            return mistake
    return among_others(cases, results, faults, same)


def among_others(cases, results, faults, same) -> str:
    """Return the known mistake in the first wrong result, if it has others beside it.

    A tensor does not agree by chance, as a number or a truth value may.
    """
    case, at = next((case, i) for i, case in enumerate(cases) if faults[i])
    found = [mistake for mistake, agreed in same.items() if agreed[at]]
    if not found or not isinstance(results[at], Tensor | tuple | list):
        return ""
    nearest = max(found, key=lambda mistake: sum(same[mistake]))
    return f"There is more than one mistake. On {case}: {nearest}"


def describe(cases, faults) -> str:
    right = [case for case, said in zip(cases, faults) if not said]
    case, said = next(pair for pair in zip(cases, faults) if pair[1])
    good = f"Right on {listed(right)}, but on " if right else "On "
    return f"not right yet. {good}{case}, {said}."


def listed(names) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def kill_table() -> list[tuple[str, str, str]]:
    """Return (exercise, mistake, the input that gives it away) for every mistake."""
    with torch.random.fork_rng(devices=[]):
        return [
            (name, mistake, given_away(exercise, mutant))
            for name, exercise in EXERCISES.items()
            for mistake, mutant in exercise.mutants.items()
        ]


def given_away(exercise, mutant) -> str:
    """Return the first input on which a mutant is not the reference, or ""."""
    cases = exercise.cases()
    results = [outcome(mutant, args) for args in cases.values()]
    faults = find_faults(exercise, cases, results)
    return next((case for case, said in zip(cases, faults) if said), "")
