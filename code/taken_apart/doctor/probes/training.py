"""Probes of training: does each mode run, is the gradient that of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ...errors import first_line
from ..evidence.side_effects import gradients
from ..evidence.slopes import slope
from ..exam import Exam
from .kit import Findings, found, probe

MODES = {"eval mode": (False, True), "eval mode with no_grad": (False, False)}
MODES |= {"train mode": (True, True)}
# A batch norm refuses a batch that is too small to train on: nothing is wrong.
REFUSED = "more than 1 value per channel"


@probe("run", "root", "numbers")
def every_mode_runs(exam: Exam) -> Findings:
    """Does it run in train and in eval mode, with and without gradients?"""
    for mode, (train, grad) in MODES.items():
        error = error_in(exam, train, grad)
        if error is not None and REFUSED not in str(error):
            yield found(
                "train/eval and fast path",
                "fault",
                title=f"The call raises in {mode}, and runs in another",
                evidence=f"{type(error).__name__}: {first_line(error)}",
                fix="look for what is set or made in one mode only",
            )
            return


def error_in(exam: Exam, train: bool, grad: bool) -> Exception | None:
    """Return what a call raises in one mode."""
    errors: list[Exception] = []

    def look(call: Callable, *args: Any, **kwargs: Any) -> None:
        try:
            call(*args, **kwargs)
        except Exception as error:
            errors.append(error)

    exam.call_with(look, train=train, grad=grad)
    return errors[0].with_traceback(None) if errors else None


@probe("run", "root", "numbers", "output", costly=True)
def gradient_of_the_loss(exam: Exam) -> Findings:
    """Is the gradient of backward that of the loss?"""
    if exam.has("loss and training", "nan / precision", "train/eval and fast path"):
        return
    if exam.has("registration / sharing") or gradients(exam).error is not None:
        return
    measured = slope(exam)
    if measured is None or not measured.differs:
        return
    stops = [s for s in exam.flow.steps if s.op == "detach" and s.index in exam.reached]
    yield found(
        "loss and training",
        "note" if stops or cut_on_purpose(exam) else "fault",
        title="Backward gives the gradient of another function than the loss",
        evidence=(
            f"along one direction the loss rises by {measured.by_steps[0]:.4g}, and by "
            f"the gradient by {measured.by_backward:.4g} (float64, one seed)"
        ),
        fix=(
            "look at checkpoint (preserve_rng_state=True), at autograd.Function, "
            "and at .data"
        ),
        at=stops[0].row if stops else None,
    )


def cut_on_purpose(exam: Exam) -> bool:
    """Say whether parameters are without a gradient, which is told by itself."""
    return bool(gradients(exam).unused)


# --- attributes that torch reads elsewhere -------------------------------------------


@probe("root")
def attributes_of_modules(exam: Exam) -> Findings:
    """Are requires_grad and training set where torch reads them?"""
    for path, module in exam.modules:
        name, own = path or type(module).__name__, vars(module)
        trained = sum(p.requires_grad for p in module.parameters())
        wanted = own.get("requires_grad")
        if type(wanted) is bool and not wanted and trained:
            yield found(
                "registration / sharing",
                "fault",
                title=f"{name}.requires_grad = False freezes nothing: it is a module",
                evidence=f"{trained} of its parameters still require gradients",
                fix=f"{name}.requires_grad_(False)",
            )
            return
        if asleep_alone(module):
            yield found(
                "train/eval and fast path",
                "warning",
                title=f"{name} is in eval mode, and all its parts are in train mode",
                evidence="training was set as an attribute, which no part hears of",
                fix=f"{name}.eval()",
            )
            return


def asleep_alone(module: nn.Module) -> bool:
    """Say whether a module sleeps while each of its parts with parts is awake."""
    parts = [m for m in module.modules() if m is not module]
    return bool(parts) and not module.training and all(m.training for m in parts)
