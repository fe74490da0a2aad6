"""`diagnose(module, *inputs)`: behavioural probes that name what is wrong, and where.

    print(diagnose(encoder, token_ids))
    taken-apart diagnose my_model.py:build

The doctor runs the module on variants of the reader's own inputs, watches its tensors
through the tracer, and judges by what they do. `README.md` beside this file tells how
an examination runs; `probes/__init__.py` lists the questions.
"""

import contextlib
import copy
import time
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..untouched import left_untouched
from .diagnosis import Diagnosis, paragraph
from .exam import Exam, Unvaried
from .finding import CHAPTERS, Finding
from .probes import PROBES
from .probes.kit import Probe

__all__ = ["CHAPTERS", "PROBES", "Diagnosis", "Finding", "diagnose", "paragraph"]

SECONDS = 8.0  # after so long no further probe is begun


def diagnose(
    module: Callable, /, *inputs: Any, quick: bool = False, **kwargs: Any
) -> Diagnosis:
    """Examine `module(*inputs, **kwargs)`; see `Diagnosis`.

    `module` is any callable. `quick=True` leaves out the costlier probes. It never
    raises because of the module, and leaves module, inputs and random state as they
    were. A function without arguments that returns (module, inputs[, kwargs]) is called
    first. Raises TypeError if `module` cannot be called.
    """
    if not callable(module):
        raise TypeError(f"diagnose wants a module or function, got {type(module)}")
    module, inputs, kwargs = prepared(module, inputs, kwargs)
    if any(map(nn.parameter.is_lazy, parameters_of(module))):
        # A call would give lazy parameters their size for good.
        module = copy.deepcopy(module)
    exam = Exam(module, inputs, kwargs, quick)
    with left_untouched(module, exam.root_if_any, inputs, kwargs):
        use_few_threads(exam.root_if_any)
        ask_all(exam)
    return Diagnosis(name_of(module), exam)


def prepared(
    module: Callable, inputs: tuple, kwargs: dict[str, Any]
) -> tuple[Callable, tuple, dict[str, Any]]:
    """Call a function that builds what is to be examined, if it is one and succeeds."""
    if isinstance(module, types.FunctionType) and not inputs and not kwargs:
        with contextlib.suppress(Exception), left_untouched():
            parts = module()
            if isinstance(parts, tuple) and callable(parts[0]):
                return parts[0], tuple(parts[1]), dict(*parts[2:])
    return module, inputs, kwargs


def ask_all(exam: Exam) -> None:
    """Ask every question in turn, as long as there is time."""
    began = time.monotonic()
    for probe in PROBES:
        if time.monotonic() - began > SECONDS:
            exam.skip(probe.question, "the time was up")
        elif exam.quick and probe.costly:
            exam.skip(probe.question, "left out by quick=True")
        else:
            ask(exam, probe)


def ask(exam: Exam, probe: Probe) -> None:
    """Run one probe; one that fails itself has checked nothing, and says so."""
    try:
        why = probe.obstacle(exam)
        if why:
            exam.skip(probe.question, why)
            return
        exam.findings += probe(exam)
        exam.checked.append(probe.question)
    except Unvaried as error:
        exam.skip(probe.question, str(error))
    except Exception as error:
        exam.skip(probe.question, f"could not be done: {type(error).__name__}")


def use_few_threads(module: Callable | None) -> None:
    """Use one thread for a small module, where a second one would only wait."""
    sized = [p for p in parameters_of(module) if not nn.parameter.is_lazy(p)]
    if sum(p.numel() for p in sized) < 2**22:
        torch.set_num_threads(1)


def parameters_of(module: Callable | None) -> list[nn.Parameter]:
    return list(module.parameters()) if isinstance(module, nn.Module) else []


def name_of(module: Callable) -> str:
    plain = type(module) if isinstance(module, nn.Module) else module
    return getattr(plain, "__name__", type(module).__name__)
