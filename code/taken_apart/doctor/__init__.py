"""`diagnose(module, *inputs)`: behavioural probes that name what is wrong, and where.

    print(diagnose(encoder, token_ids))
    taken-apart diagnose my_model.py:build

The doctor runs the module on variants of the reader's own inputs, watches its tensors
through the tracer, and judges by what they do. `README.md` beside this file tells how
an examination runs; `probes/__init__.py` lists the questions.
"""

import copy
import time
from collections.abc import Callable
from typing import Any

from torch import nn, set_num_threads

from ..untouched import left_untouched
from .diagnosis import Diagnosis, paragraph
from .exam import Exam, Postponed, TimeUp, Unvaried
from .finding import CHAPTERS, Finding
from .inner import inner_exam
from .probes import PROBES, urgency
from .probes.kit import Probe
from .progress import SignOfLife
from .reasons import NO_TOKENS, QUICK, TIME_UP
from .smaller import few_layers, fewer_inputs, is_large
from .subject import misuse_of, prepared, uncompiled

__all__ = ["CHAPTERS", "PROBES", "Diagnosis", "Finding", "diagnose", "paragraph"]

SECONDS = 20.0  # after so long no further call is begun; see `Clock`


def diagnose(
    module: Callable, /, *inputs: Any, quick: bool = False, **kwargs: Any
) -> Diagnosis:
    """Examine `module(*inputs, **kwargs)`; see `Diagnosis`.

    `module` is any callable. `quick=True` leaves out the costlier probes. It never
    raises because of the module, and leaves module, inputs and random state as they
    were. A function without arguments that returns (module, inputs[, kwargs]) is called
    first. Of a large model a few samples, tokens and layers are examined. Raises
    TypeError if `module` cannot be called.
    """
    if not callable(module):
        raise TypeError(f"diagnose wants a module or function, got {type(module)}")
    module, inputs, kwargs, misuse = prepared(module, inputs, kwargs)
    if any(map(nn.parameter.is_lazy, parameters_of(module))):
        # A call would give lazy parameters their size for good.
        module = copy.deepcopy(module)
    exam = Exam(module, inputs, kwargs, quick)
    exam.misuse = misuse or misuse_of(module, inputs, kwargs)
    if not exam.misuse:
        clock = Clock(SECONDS)
        before = exam.before
        with left_untouched(() if exam.has_root else module, inputs, kwargs):
            set_num_threads(1)  # others would mostly wait for one another
            exam = examined_at_length(exam, clock)
            ask_inside(exam, clock)
            before.restore(exactly=True)
        clock.progress.end()
    return Diagnosis(name_of(module), exam)


class Clock:
    """The time that an examination may still take, and what of it is shown.

    It counts seconds of work: on a busy machine they last up to three times as long.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.progress = seconds, SignOfLife()
        self.began, self.worked = time.monotonic(), time.process_time()

    def left(self) -> float:
        lasted, work = time.monotonic() - self.began, time.process_time() - self.worked
        return self.seconds - max(work, lasted / 3)


def examined_at_length(exam: Exam, clock: Clock) -> Exam:
    """Ask all questions, of a large model with less of it; return who holds answers."""
    exam.time_left = clock.left
    if not is_large(exam.root_if_any, (exam.args, exam.kwargs)):
        ask_all(exam, PROBES, clock)
        return exam
    whole = Exam(exam.call, *fewer_inputs(exam.args, exam.kwargs), exam.quick)
    if whole.raised and not exam.raised:
        whole = exam
    whole.time_left, whole.reads_only, whole.before = clock.left, True, exam.before
    later = ask_all(whole, PROBES, clock)
    whole.reads_only = False
    with few_layers(whole.root) as cut:
        part = Exam(whole.call, whole.args, whole.kwargs, whole.quick) if cut else whole
        if part.raised:
            part = whole
        part.take_over(whole)
        part.time_left = clock.left
        if part is not whole:
            ask_all(part, sorted(later, key=urgency, reverse=True), clock)
    if part is whole:  # its layers cannot be taken away
        ask_all(whole, sorted(later, key=urgency, reverse=True), clock)
    return part


def ask_inside(exam: Exam, clock: Clock) -> None:
    """Ask what needs tokens of the part that takes them, where no input holds any."""
    late = [p for p in PROBES if (p.question, NO_TOKENS) in exam.skipped]
    inner = inner_exam(exam) if late and clock.left() > 0 else None
    if inner is None:
        return
    exam.skipped[:] = [entry for entry in exam.skipped if entry[1] != NO_TOKENS]
    inner.take_over(exam)
    inner.time_left = clock.left
    ask_all(inner, late, clock)
    exam.forwards = inner.forwards


def ask_all(exam: Exam, probes: list[Probe], clock: Clock) -> list[Probe]:
    """Ask questions in turn, as long as there is time; return those for later."""
    later = []
    for i, probe in enumerate(probes):
        clock.progress(i, len(probes))
        if clock.left() < 0:
            exam.skip(probe.question, TIME_UP)
        elif exam.quick and probe.costly:
            exam.skip(probe.question, QUICK)
        elif not ask(exam, probe):
            later.append(probe)
    return later


def ask(exam: Exam, probe: Probe) -> bool:
    """Run one probe; one that fails itself has checked nothing, and says so.

    Returns False where it must wait, for it needs further calls.
    """
    try:
        why = probe.obstacle(exam)
        if why:
            exam.skip(probe.question, why)
            return True
        exam.add(probe(exam), PROBES.index(probe) if probe in PROBES else 0)
        exam.checked.append(probe.question)
    except Postponed:
        return False
    except (Unvaried, TimeUp) as error:
        exam.skip(probe.question, str(error))
    except Exception as error:
        exam.skip(probe.question, f"could not be done: {type(error).__name__}")
    return True


def parameters_of(module: Callable | None) -> list[nn.Parameter]:
    return list(module.parameters()) if isinstance(module, nn.Module) else []


def name_of(module: Callable) -> str:
    if isinstance(module, nn.Module):
        return type(uncompiled(module)).__name__
    return getattr(module, "__name__", type(module).__name__)
