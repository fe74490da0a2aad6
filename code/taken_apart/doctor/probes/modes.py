"""Probes of modes: train against eval, the fast path against the slow one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode

from ...tracer import Row
from ...untouched import reseed
from ..evidence.padding import apart_where_real
from ..evidence.parting import first_parting
from ..evidence.side_effects import called_modules, modes_changed, numbers_changed
from ..evidence.tensor_flow import Flow, observe
from ..exam import Exam, set_modes
from ..numbers import apart
from .kit import Findings, drops, found, probe


@probe("run", "root", "numbers", "output")
def eval_is_deterministic(exam: Exam) -> Findings:
    """Do two calls in eval mode agree?"""
    if exam.has("registration / sharing"):
        return
    distance = spread_of_calls(exam)
    if not distance:
        return
    kind, evidence = "train/eval and fast path", f"by up to {distance:.3g}"
    step = next((s for s in exam.flow.steps if drops(s)), None)
    if step is None:
        yield found(
            kind,
            "note" if draws_tokens(exam) else "warning",
            title="Two calls in eval mode differ",
            evidence=evidence + "; it draws which tokens it sees" * draws_tokens(exam),
            fix="draw random numbers in train() only: if self.training and ...",
            at=place_of_chance(exam),
        )
    else:
        yield found(
            kind,
            "fault",
            title="Dropout stays on in eval mode",
            evidence=f"two calls differ {evidence}",
            fix="pass training=self.training",
            at=step.row,
        )


def place_of_chance(exam: Exam) -> Row | None:
    """Return where two calls in eval mode part."""
    for seed in (1, 2, 3):
        row = first_parting(exam.flow, exam.observe(seed=seed))
        if row is not None:
            return row
    return None


def draws_tokens(exam: Exam) -> bool:
    """Say whether random numbers are put in order: they choose tokens, by design."""
    draws = [s for s in exam.flow.steps if s.op in DRAWS]
    sorts = {"argsort", "sort", "topk"}
    return any(s.op == "randperm" for s in draws) or any(
        user.op in sorts
        for s in draws
        for user in exam.flow.users(s.outputs[0], s.index)
    )


DRAWS = {"rand", "randn", "randperm", "rand_like", "randn_like"}


def spread_of_calls(exam: Exam) -> float:
    """Return how far calls with other seeds are from the first; 0 if one raised."""
    calls = [exam.run(seed=seed) for seed in (1, 2, 3)]
    first, *others = [call for call in calls if call is not None] or [[]]
    if len(others) < 2:
        return 0.0
    return max(apart(first, call) for call in others)


@probe("run")
def much_dropout(exam: Exam) -> Findings:
    """Does dropout leave more than it takes?"""
    rates = {s: s.given(1, "p", 0.5) for s in exam.flow.steps if s.op == "dropout"}
    for step, rate in rates.items():
        if isinstance(rate, float) and 0.7 < rate < 1:
            yield found(
                "train/eval and fast path",
                "warning",
                title=f"Dropout drops {rate:.0%} of its input",
                evidence="torch takes the probability to drop, not that to keep",
                fix=f"p = {1 - rate:.2g}",
                at=step.row,
            )
            return


# --- train and eval ------------------------------------------------------------------


class NoDropout(TorchFunctionMode):
    """Run torch without dropout, so that train and eval can be compared."""

    # The place of the share to drop among the arguments.
    PLACE = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        place = self.PLACE.get(name, len(args))
        if place < len(args):
            args = (*args[:place], 0.0, *args[place + 1 :])
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def without_dropout(call: Callable, *args: Any, **kwargs: Any) -> Any:
    with NoDropout():
        return call(*args, **kwargs)


@probe("run", "root", "numbers", "output", costly=True)
def train_and_eval(exam: Exam) -> Findings:
    """Apart from dropout, do train and eval compute the same?"""
    batch_norm = any(s.op in ("batch_norm", "instance_norm") for s in exam.flow.steps)
    if batch_norm or exam.has("registration / sharing", "train/eval and fast path"):
        return
    evaluated = exam.run(how=without_dropout, grad=True)
    trained = exam.run(how=without_dropout, grad=True, train=True)
    again = exam.run(how=without_dropout, grad=True, train=True, seed=1)
    if evaluated is None or trained is None or again is None:
        return
    if apart(trained, again):
        return  # random in other ways than dropout, like a dropped path
    distance = apart(evaluated, trained)
    if distance:
        yield found(
            "train/eval and fast path",
            "warning",
            title="Train and eval mode compute different things",
            evidence=f"with dropout off they still differ by {distance:.3g}",
            fix="look for branches on self.training",
            at=first_parting(exam.flow, observed_in_training(exam)),
        )


def observed_in_training(exam: Exam) -> Flow:
    """Record a call in train mode without its dropout."""

    def look(call: Callable, *args: Any, **kwargs: Any) -> Flow:
        return observe(functools.partial(without_dropout, call), *args, **kwargs)

    return exam.call_with(look, train=True) or Flow()


@probe("run", "root", "numbers", "output", costly=True)
def eval_leaves_no_trace(exam: Exam) -> Findings:
    """Is training after a call in eval mode what it was before?"""
    if exam.has("registration / sharing"):
        return
    at_once, after_eval = (
        exam.run(how=training_call(exam, after_eval=first)) for first in (False, True)
    )
    if at_once is None or after_eval is None:
        return
    distance = apart(at_once, after_eval)
    if distance:
        evidence = f"with the same random numbers outputs differ by {distance:.3g}"
        changed = numbers_changed(exam)
        evidence += f"; {', '.join(changed[:2])}" if changed else ""
        yield found(
            "train/eval and fast path",
            "fault",
            title="A call in eval mode changes what training computes afterwards",
            evidence=evidence,
            fix="forward should not write attributes",
        )


def training_call(exam: Exam, after_eval: bool) -> Callable:
    """Make a call in train mode, after one in eval mode or at once."""

    def call_in_training(call: Callable, *args: Any, **kwargs: Any) -> Any:
        if after_eval:
            call(*args, **kwargs)
        set_modes(exam.modules, True)
        reseed(0)
        return call(*args, **kwargs)

    return call_in_training


@probe("run", "root", "numbers", "output")
def fast_path(exam: Exam) -> Findings:
    """Does torch's fast path for inference agree with the slow one?"""
    if exam.has("nan / precision", "registration / sharing"):
        return
    if exam.has("train/eval and fast path"):
        return
    slow, fast = exam.run(grad=True), exam.fast_outputs
    if slow is None or fast is None:
        return
    distance = apart_where_real(exam, slow, fast)
    if distance:
        evidence = f"eval() with and without no_grad() differ by {distance:.3g}"
        if exam.has_padding:
            evidence += "; the fast path writes zeros at padding"
        yield found(
            "train/eval and fast path",
            "fault",
            title="Inference on torch's fast path gives other numbers than training",
            evidence=evidence,
            fix="leave padding out of what follows the encoder, e.g. by a masked mean",
        )


@probe("run", "root", costly=True)
def modes_left_alone(exam: Exam) -> Findings:
    """Does forward leave the training mode alone?"""
    changed = modes_changed(exam)
    if changed:
        yield found(
            "train/eval and fast path",
            "fault",
            title=f"forward changes the training mode of {changed[0]}",
            evidence=f"{len(changed)} modules come back in another mode",
            fix="call train() and eval() outside",
        )


@probe("run", "root")
def idle_hooks(exam: Exam) -> Findings:
    """Is every module with a hook called?"""
    called = called_modules(exam)
    for path, module in exam.modules:
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
        if hooks and id(module) not in called:
            yield found(
                "train/eval and fast path",
                "fault",
                title=f"A hook on {path} never fires: the module is not called",
                evidence=(
                    "its weights are read by the module around it, in one function"
                ),
                fix="hook the module that is called (self_attn, or the layer)",
            )
            return
