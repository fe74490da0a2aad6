"""Probes of modes: train against eval, the fast path against the slow one."""

from ...untouched import reseed
from ..evidence.padding import apart_where_real
from ..evidence.side_effects import called_modules, modes_changed, numbers_changed
from ..exam import set_modes
from .kit import apart, found, probe, without_dropout


@probe("run", "numbers", "output")
def eval_is_still(exam):
    """Do two calls in eval mode agree?"""
    if exam.has("registration / sharing"):
        return
    calls = [exam.run(seed=seed) for seed in (1, 2, 3)]
    far = 0.0 if None in calls else max(apart(calls[0], call) for call in calls[1:])
    if not far:
        return
    kind, evidence = "train/eval and fast path", f"by up to {far:.3g}"
    step = next((s for s in exam.flow.steps if drops(s)), None)
    if step is None:
        title, fix = (
            "Two calls in eval mode differ",
            "draw random numbers in train() only",
        )
        yield found(kind, "warning", title, evidence, fix)
    else:
        title, fix = "Dropout stays on in eval mode", "pass training=self.training"
        yield found(kind, "fault", title, f"two calls differ {evidence}", fix, step.row)


@probe("run")
def much_dropout(exam):
    """Does dropout leave more than it takes?"""
    rates = {s: s.given(1, "p", 0.5) for s in exam.flow.steps if s.op == "dropout"}
    for step, rate in rates.items():
        if isinstance(rate, float) and 0.7 < rate < 1:
            title = f"Dropout drops {rate:.0%} of its input"
            evidence = "torch takes the probability to drop, not that to keep"
            kind, fix = "train/eval and fast path", f"p = {1 - rate:.2g}"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


def drops(step) -> bool:
    if step.op == "dropout":
        return bool(step.given(2, "training", True)) and step.given(1, "p", 0.5) > 0
    dropout = step.given(4, "dropout_p", 0.0)
    return step.op == "scaled_dot_product_attention" and dropout > 0


@probe("run", "root", "numbers", "output", costly=True)
def train_and_eval(exam):
    """Apart from dropout, do train and eval compute the same?"""
    batch_norm = any(s.op in ("batch_norm", "instance_norm") for s in exam.flow.steps)
    if batch_norm or exam.has("registration / sharing", "train/eval and fast path"):
        return
    still = exam.run(how=without_dropout, grad=True)
    moving = exam.run(how=without_dropout, grad=True, train=True)
    again = exam.run(how=without_dropout, grad=True, train=True, seed=1)
    if None in (still, moving, again) or apart(moving, again):
        return  # random in other ways than dropout, like a dropped path
    if apart(still, moving):
        title = "Train and eval mode compute different things"
        evidence = f"with dropout off they still differ by {apart(still, moving):.3g}"
        fix = "look for branches on self.training"
        yield found("train/eval and fast path", "warning", title, evidence, fix)


@probe("run", "root", "numbers", "output", costly=True)
def eval_leaves_no_trace(exam):
    """Is training after a call in eval mode what it was before?"""
    if exam.has("registration / sharing"):
        return
    calls = [exam.run(how=training_call(exam, first)) for first in (False, True)]
    if None not in calls and apart(*calls):
        title = "A call in eval mode changes what training computes afterwards"
        evidence = f"with the same random numbers outputs differ by {apart(*calls):.3g}"
        changed = numbers_changed(exam)
        evidence += f"; {', '.join(changed[:2])}" if changed else ""
        kind, fix = "train/eval and fast path", "forward should not write attributes"
        yield found(kind, "fault", title, evidence, fix)


def training_call(exam, after_eval):
    """Make a call in train mode, after one in eval mode or at once."""

    def call_in_training(call, *args, **kwargs):
        if after_eval:
            call(*args, **kwargs)
        set_modes(exam.modes, True)
        reseed(0)
        return call(*args, **kwargs)

    return call_in_training


@probe("run", "root", "numbers", "output")
def fast_path(exam):
    """Does torch's fast path for inference agree with the slow one?"""
    if exam.has("nan / precision", "registration / sharing"):
        return
    slow, fast = exam.run(grad=True), exam.run()
    if slow is None or fast is None or exam.has("train/eval and fast path"):
        return
    far = apart_where_real(exam, slow, fast)
    if far:
        title = "Inference on torch's fast path gives other numbers than training"
        evidence = f"eval() with and without no_grad() differ by {far:.3g}"
        pooled = exam.pads is not None
        evidence += "; the fast path writes zeros at padding" if pooled else ""
        fix = "leave padding out of what follows the encoder, e.g. by a masked mean"
        yield found("train/eval and fast path", "fault", title, evidence, fix)


@probe("run", "root", costly=True)
def modes_left_alone(exam):
    """Does forward leave the training mode alone?"""
    changed = modes_changed(exam)
    if changed:
        title = f"forward changes the training mode of {changed[0]}"
        evidence = f"{len(changed)} modules come back in another mode"
        fix = "call train() and eval() outside"
        yield found("train/eval and fast path", "fault", title, evidence, fix)


@probe("run", "root")
def hooks_that_sleep(exam):
    """Is every module with a hook called?"""
    called = called_modules(exam)
    for path, module in exam.modules:
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
        if hooks and id(module) not in called:
            title = f"A hook on {path} never fires: the module is not called"
            evidence = "its weights are read by the module around it, in one function"
            fix = "hook the module that is called (self_attn, or the layer)"
            yield found("train/eval and fast path", "fault", title, evidence, fix)
            return
