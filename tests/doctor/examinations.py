"""All cases, each examined once in a run of the tests."""

import functools

import torch
from book.pitfalls import PITFALLS
from doctor_cases import BROKEN, RIGHT
from taken_apart.doctor import Diagnosis, diagnose

# The cases of this folder by their names, the museum's exhibits by theirs.
CASES = [*BROKEN, *RIGHT, *PITFALLS]


def kind_of(name: str) -> str:
    """The kind of fault that a case has; "" for a right one."""
    if name in RIGHT:
        return ""
    return PITFALLS[name].kind if name in PITFALLS else BROKEN[name].kind


def built(name: str) -> tuple:
    """Return (module, inputs, kwargs) of a case, the same at every call."""
    if name in PITFALLS:
        case = PITFALLS[name]
        return case.build(), case.inputs(), case.call
    torch.manual_seed(0)
    return RIGHT[name]() if name in RIGHT else BROKEN[name].build()


@functools.cache
def examined(name: str) -> Diagnosis:
    module, inputs, kwargs = built(name)
    return diagnose(module, *inputs, **kwargs)


def kinds_of(name: str) -> list[str]:
    """The kinds of the findings that call for action, most likely first."""
    return [finding.kind for finding in examined(name) if finding.severity != "note"]
