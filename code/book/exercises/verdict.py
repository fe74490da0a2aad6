"""What is said of a solution: right, a known mistake by its name, or where it fails.

`outcome` calls a reader's function on copies of a case, `find_faults` compares results
with the reference's, `recognise` looks for a known mistake that gives the same. Our own
functions, references and mistakes, leave their arguments alone and get no copies.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import torch
from taken_apart.errors import first_line
from torch import Tensor

from .exercise import Exercise, as_it_is

Cases = dict[str, tuple]  # the arguments of each call, by the name of the case
Results = dict[str, Any]  # what a function made of each
NOT_YET = (None, ..., NotImplemented)
FORM = "you returned", "of result"  # how a fault of the form begins
# Half precision keeps three digits, and correct solutions round in different places.
TOLERANCE = {torch.float16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-9}


@dataclass(frozen=True)
class Verdict:
    """What is said of a solution: `passed`, and the sentences that a notebook shows."""

    passed: bool
    text: str

    def __repr__(self) -> str:
        return fill(self.text, width=76)

    def __bool__(self) -> bool:
        return self.passed


@dataclass(frozen=True)
class Raised:
    """The error that took the place of a result."""

    kind: str
    message: str

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.message}" if self.message != self.kind else self.kind
        )


def judge(exercise: Exercise, yours: Any) -> Verdict:
    """Try a solution on all cases of an exercise, and say how it did."""
    passed, said = assess(exercise, yours)
    return Verdict(passed, f"{exercise.name}: {said}")


def assess(exercise: Exercise, yours: Any) -> tuple[bool, str]:
    if not_yet(yours):
        return False, "not yet"
    if not callable(yours):
        return False, f"give the function itself, not what it returns ({kind(yours)})."
    cases = exercise.cases()
    results = {case: outcome(yours, args) for case, args in cases.items()}
    if not_yet(next(iter(results.values()))):
        return False, "not yet"
    faults = find_faults(exercise, cases, results)
    if not any(faults.values()):
        return True, f"right. Tried on {listed(cases)}."
    if mistake := recognise(exercise, cases, results, faults):
        return False, f"not right yet. {mistake}"
    return False, first_fault(faults)


def outcome(function: Callable, args: tuple) -> Any:
    """Call a reader's function on copies: return its result, or what went wrong."""
    copies = deepcopy(args)
    result = attempt(function, copies)
    if isinstance(result, Raised) or result is NotImplemented:
        return result
    return Raised("in place", "") if changed(copies, args) else result


def attempt(function: Callable, args: tuple) -> Any:
    """Call a function: return its result, or what it raised instead."""
    try:
        return function(*args)
    except NotImplementedError:
        return NotImplemented
    except Exception as error:  # whatever a reader's function does, it is said
        return Raised(type(error).__name__, first_line(error))


def changed(copies: tuple, args: tuple) -> bool:
    pairs = zip(copies, args, strict=True)
    return any(not torch.equal(c, a) for c, a in pairs if isinstance(a, Tensor))


def not_yet(result: Any) -> bool:
    return any(result is nothing for nothing in NOT_YET)


def find_faults(exercise: Exercise, cases: Cases, results: Results) -> dict[str, str]:
    """Return what is wrong with the result of each case, "" where it is right."""
    wanted = {case: exercise.reference(*args) for case, args in cases.items()}
    return {case: fault(exercise, results[case], wanted[case]) for case in cases}


def fault(exercise: Exercise, result: Any, wanted: Any) -> str:
    if isinstance(result, Raised):
        return complaint(exercise, result)
    if said := misfit(result, wanted):
        return said
    if same_outcome(exercise.judged(result), exercise.judged(wanted)):
        return ""
    if exercise.judged is not as_it_is:  # there is no one right result to differ from
        return "the result does not do what is asked"
    return discrepancy(result, wanted)


def complaint(exercise: Exercise, raised: Raised) -> str:
    if raised.kind == "in place":
        return "the function changes its arguments: work on a copy"
    return f"the call {exercise.call} raised {raised}"


def misfit(result: Any, wanted: Any) -> str:
    """Say in which way a result has not the form of the wanted one, or ""."""
    if isinstance(wanted, tuple):
        if not isinstance(result, tuple | list) or len(result) != len(wanted):
            return f"you returned {kind(result)}, wanted {kind(wanted)}"
        return first_said(misfit, result, wanted)
    if isinstance(wanted, Tensor) and isinstance(result, Tensor):
        if result.shape != wanted.shape:
            shapes = tuple(result.shape), tuple(wanted.shape)
            return "you returned shape {}, wanted {}".format(*shapes)
    elif type(unwrapped(result)) is not type(wanted):
        return f"you returned {kind(result)}, wanted {kind(wanted)}"
    return ""


def discrepancy(result: Any, wanted: Any) -> str:
    """Say what is wrong with a result of the right form, or ""."""
    if same_outcome(result, wanted):
        return ""
    if isinstance(wanted, tuple):
        return first_said(discrepancy, result, wanted)
    if isinstance(wanted, Tensor):
        if result.dtype != wanted.dtype:
            return f"you returned {result.dtype}, wanted {wanted.dtype}"
        if result.isnan().any():
            return "the result holds nan"
    return "the result is another"


def first_said(compare: Callable, results: tuple, wanted: tuple) -> str:
    """Return what `compare` says of the first part that it says something of."""
    said = enumerate(map(compare, results, wanted))
    return next((f"of result {i}, {words}" for i, words in said if words), "")


def same_outcome(one: Any, other: Any) -> bool:
    """Are these two outcomes the same, up to rounding and with nan equal to nan?"""
    if isinstance(one, tuple | list) and isinstance(other, tuple | list):
        return len(one) == len(other) and all(map(same_outcome, one, other))
    if isinstance(one, Raised) and isinstance(other, Raised):
        return one.kind == other.kind
    one, other = unwrapped(one), unwrapped(other)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        near = TOLERANCE.get(one.dtype, 0.0)
        return torch.allclose(one, other, rtol=near, atol=near, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def unwrapped(result: Any) -> Any:
    """Return the Python number in a tensor without axes, and any tensor on the CPU."""
    if isinstance(result, Tensor):
        return result.cpu() if result.dim() else result.item()
    return result


def kind(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, Tensor):
        return "a tensor"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def recognise(
    exercise: Exercise, cases: Cases, results: Results, faults: dict[str, str]
) -> str:
    """Return the known mistake that gives these results, or gives the first wrong one.

    Where many results are right, many are wrong: if no mistake gives the same results,
    one may give results of the same look, in so far as a look is a tensor.
    """
    if said := named(exercise, cases, results, faults):
        return said
    formless = (isinstance(r, Raised) for r in results.values())
    if any(formless) or any(said.startswith(FORM) for said in faults.values()):
        return ""
    looks = {case: exercise.judged(result) for case, result in results.items()}
    if not all(isinstance(look, Tensor) for look in looks.values()):
        return ""
    return named(exercise, cases, looks, faults, look=exercise.judged)


def named(
    exercise: Exercise,
    cases: Cases,
    results: Results,
    faults: dict[str, str],
    look: Callable[[Any], Any] = lambda result: result,
) -> str:
    """Return the mistake whose results, or their looks, are these: all, or one wrong.

    A mistake that gives the first wrong result and not the others has company. A tensor
    does not agree with it by chance, as a number or a truth value may.
    """
    wrong = next(case for case, said in faults.items() if said)

    def agreed(mistake: str, among: Iterable[str]) -> list[bool]:
        mutant = exercise.mutants[mistake]
        made = {case: attempt(mutant, cases[case]) for case in among}
        made = {c: attempt(look, (r,)) for c, r in made.items()}
        return [same_outcome(results[case], made[case]) for case in made]

    found = {
        mistake: sum(agreed(mistake, cases))
        for mistake in exercise.mutants
        if all(agreed(mistake, [wrong]))
    }
    for mistake, n_agreed in found.items():
        if n_agreed == len(cases):
            return mistake
    if not found or not isinstance(results[wrong], Tensor | tuple | list):
        return ""
    nearest = max(found, key=found.get)
    return f"There is more than one mistake. On {wrong}: {nearest}"


def first_fault(faults: dict[str, str]) -> str:
    right = [case for case, said in faults.items() if not said]
    case, said = next(pair for pair in faults.items() if pair[1])
    good = f"Right on {listed(right)}, but on " if right else "On "
    return f"not right yet. {good}{case}, {said}."


def listed(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def given_away(exercise: Exercise) -> dict[str, str]:
    """Return for each known mistake the first case where it is not right, or ""."""
    cases = exercise.cases()
    wanted = {case: exercise.reference(*args) for case, args in cases.items()}

    def is_wrong(mutant: Callable, case: str) -> bool:
        return bool(fault(exercise, attempt(mutant, cases[case]), wanted[case]))

    return {
        mistake: next((case for case in cases if is_wrong(mutant, case)), "")
        for mistake, mutant in exercise.mutants.items()
    }
