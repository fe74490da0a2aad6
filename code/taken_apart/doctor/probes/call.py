"""Probes of the call: does it run, in numbers, types and modes."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from ...errors import first_line
from ..evidence.attentions import scores
from ..evidence.padding import real_queries
from ..evidence.side_effects import gradients
from ..evidence.tensor_flow import Step, memory
from ..exam import Exam
from ..finding import Finding
from ..inputs import HIDDEN
from ..numbers import differ
from .kit import Findings, Wording, dims, found, probe

# --- numbers and types ---------------------------------------------------------------


@probe("numbers")
def inputs_with_nan(exam: Exam) -> Findings:
    """Are the inputs numbers?"""
    for tensor in exam.tensors:
        if tensor.is_floating_point() and tensor.isnan().any():
            count = int(tensor.isnan().sum())
            yield found(
                "nan / precision",
                "fault",
                title="The input holds nan, and no mask can keep it out",
                evidence=(
                    f"{count} of {tensor.numel()} numbers of {dims(tensor)} are nan"
                    "; a hidden key has weight 0, but 0 * nan is nan"
                ),
                fix="write 0 where there is no data before the module sees it",
            )


@probe("run", "numbers", "output")
def finite_outputs(exam: Exam) -> Findings:
    """Are the outputs finite, on torch's fast path too?"""
    if exam.has("nan / precision"):
        return
    if all(bool(out.isfinite().all()) for out in exam.outputs):
        yield from finite_when_fast(exam)
        return
    step = first_nonfinite(exam)
    problem = why_nonfinite(exam, step)
    row = step.row if step else None
    yield found("nan / precision", "fault", **problem, at=row)


def why_nonfinite(exam: Exam, step: Step | None) -> Wording:
    """Say what a step does that makes the first numbers which are not finite."""
    evidence = f"{n_nonfinite(exam.outputs)} numbers of the output are nan or infinite"
    if step is not None and overflowed(exam, step):
        return Wording(
            title=f"Scores are too large for {step.value.dtype}",
            evidence=evidence,
            fix="scale the queries before the product, not the scores after it",
        )
    if step is not None and step.op == "softmax":
        rows = int(step.value.isnan().any(-1).sum())
        return Wording(
            title="A row of scores is all -inf: its softmax is nan",
            evidence=f"{evidence}; {rows} rows of the softmax are nan",
            fix="leave every query a key it may see (check the diagonal of the mask)",
        )
    name = step.op if step else "The module"
    return Wording(
        title=f"{name} makes numbers that are not finite",
        evidence=evidence,
        fix="keep its input in the range that it can take",
    )


def overflowed(exam: Exam, step: Step) -> bool:
    """Say whether a softmax was given scores that are infinite upwards."""
    if step.op != "softmax":
        return False
    return bool((exam.flow.value(step.inputs[0], step.index) == torch.inf).any())


def n_nonfinite(tensors: list[Tensor]) -> int:
    return sum(int((~tensor.isfinite()).sum()) for tensor in tensors)


# These put infinities into scores on purpose.
FILLS = {"masked_fill", "full", "zeros", "where", "setitem"}


def first_nonfinite(exam: Exam) -> Step | None:
    """Return the first step with nan, or else with infinity, that is no filling."""
    for bad in (Tensor.isnan, Tensor.isinf):
        for step in exam.flow.steps:
            made = [v for v in step.values if v.is_floating_point()]
            if step.op not in FILLS and any(bool(bad(v).any()) for v in made):
                return step
    return None


def finite_when_fast(exam: Exam) -> Findings:
    count = n_nonfinite(exam.fast_outputs or [])
    if count:
        evidence = f"{count} numbers are nan under eval() and no_grad(), none otherwise"
        if exam.has_padding and exam.padding.all(1).any():
            samples = exam.padding.all(1).nonzero().flatten().tolist()
            evidence += f"; samples without a real token: {samples}"
        yield found(
            "nan / precision",
            "fault",
            title="nan in inference only: on torch's fast path",
            evidence=evidence,
            fix="drop samples that are all padding, or leave one of their keys open",
        )


@probe("run", "numbers", "attentions")
def queries_without_keys(exam: Exam) -> Findings:
    """Does every query see some key?"""
    if exam.has("nan / precision"):
        return
    for attention in exam.attentions:
        values = scores(exam.flow, attention)
        if values is None:
            continue
        dead = (values < HIDDEN).all(-1)
        if dead.any() and not dead.all():
            real = real_queries(exam, dead)
            yield found(
                "nan / precision",
                "warning" if real else "note",
                title="Some queries may see no key: their weights mean nothing",
                evidence=(
                    f"{int(dead.sum())} of {dead.numel()} rows of scores are all hidden"
                ),
                fix="leave every query a key it may see",
                at=attention.row,
            )
            return


@probe("run", "root", "numbers", "output")
def backward_runs(exam: Exam) -> Findings:
    """Does backward run, with finite gradients?"""
    error = gradients(exam).error
    if error is not None:
        yield failed_backward(exam, first_line(error))
    known = {n: g for n, g in gradients(exam).by_name.items() if g is not None}
    bad = [name for name, gradient in known.items() if n_nonfinite([gradient])]
    if bad and not exam.has("nan / precision"):
        yield found(
            "nan / precision",
            "fault",
            title="Gradients are nan",
            evidence=(
                f"of {len(bad)} parameters, {bad[0]} first; the outputs are finite"
            ),
            fix="keep sqrt, log and division away from 0 before where() or a mask",
        )


def failed_backward(exam: Exam, message: str) -> Finding:
    """Say why backward raised: it names changes in place, and no others."""
    if "inplace" not in message:
        title = "Backward fails"
        return found("loss and training", "fault", title=title, evidence=message)
    in_place = [s for s in exam.flow.steps if re.match("i(add|mul|sub)", s.row.op)]
    return found(
        "norm / residual / FFN",
        "fault",
        title="Backward fails: a tensor that it needs was changed in place",
        evidence=message,
        fix="x = x + ..., not x += ...",
        at=in_place[0].row if in_place else None,
    )


@probe("run", "numbers", "output")
def types_kept(exam: Exam) -> Findings:
    """Do outputs keep the type, and masks agree in theirs?"""
    kinds = [p.dtype for p in exam.root.parameters()] if exam.has_root else []
    kinds += [t.dtype for t in exam.tensors if t.is_floating_point()]
    kinds = [kind for kind in kinds if kind.is_floating_point]
    out = exam.output.dtype
    if kinds and out not in kinds:
        rows = [s.row for s in exam.flow.steps if s.value.dtype == out]
        yield found(
            "dtype / compile",
            "warning",
            title=f"The output is {out}, though all that goes in is {kinds[0]}",
            evidence="one step promotes the numbers",
            fix="make constants with the type of x",
            at=rows[0] if rows else None,
        )
    for text in dict.fromkeys(exam.warned):
        if "mismatched" in text or "dtype" in text.lower():
            yield found(
                "dtype / compile",
                "warning",
                title="torch warns about types",
                evidence=text[:160],
                fix="give both masks one type (bool)",
            )
            return


@probe("run", "root", "numbers", "output", costly=True)
def other_precision(exam: Exam) -> Findings:
    """Does the module run in double precision, too?"""
    if exam.has() or not list(exam.root.parameters()):
        return
    wider = {t: t.double() for t in exam.tensors if t.dtype == torch.float32}
    states = [(t, t.data) for t in tensors_of(exam.root) if t.dtype == torch.float32]
    try:
        for tensor, data in states:
            tensor.data = data.double()
        flow = exam.observe(wider)
    finally:
        for tensor, data in states:
            tensor.data = data
    if flow.error and re.search("dtype|scalar type", str(flow.error)):
        yield found(
            "dtype / compile",
            "warning",
            title="It runs in float32 alone: a type is written down somewhere",
            evidence=f"in float64: {first_line(flow.error)}",
            fix="make new tensors with the type of x: .to(x.dtype)",
            at=flow.steps[-1].row if flow.steps else None,
        )


def tensors_of(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]


@probe()
def flipped_integers(exam: Exam) -> Findings:
    """Is ~ applied to truth values only?"""
    for step in exam.flow.steps:
        flips = step.op in ("invert", "bitwise_not")
        if flips and step.inputs[0].dtype != torch.bool:
            yield found(
                "dtype / compile",
                "fault",
                title="~ flips the bits of integers: both 0 and 1 become true",
                evidence=f"~ of a mask of {step.inputs[0].dtype}",
                fix="mask.bool() first",
                at=step.row,
            )
            return


@probe("run", "numbers", "sequence")
def inputs_kept(exam: Exam) -> Findings:
    """Are the inputs left as they were?"""
    for before, after in zip(exam.tensors, exam.flow.given, strict=False):
        if before.shape == after.shape and differ(before.float(), after.float()).any():
            rows = [s.row for s in exam.flow.steps if writes(s, after)]
            yield found(
                "norm / residual / FFN",
                "fault",
                title="The call changes its input in place",
                evidence=f"{dims(before)} holds other numbers afterwards",
                fix="x = x + ..., not x += ...",
                at=rows[0] if rows else None,
            )
            return


def writes(step: Step, tensor: Tensor) -> bool:
    """Say whether a step changes a tensor, or a view of it, in place."""
    target = step.inputs[0] if step.inputs else None
    in_place = step.row.op.endswith("_") or step.row.op.startswith(("i", "setitem"))
    return in_place and target is not None and memory(target) == memory(tensor)


# --- what comes out ------------------------------------------------------------------


@probe("run", "numbers", "output")
def probabilities_out(exam: Exam) -> Findings:
    """Are outputs logits?"""
    kept = exam.flow.steps[-1] if exam.flow.steps else None
    if kept is None or kept.op not in ("softmax", "sigmoid"):
        return
    if any(kept is a.step for a in exam.attentions) or exam.output.dim() > 2:
        return
    if kept.outputs[0].shape == exam.output.shape:
        yield found(
            "loss and training",
            "warning",
            title="The module returns probabilities",
            evidence="cross_entropy takes logits, and would apply softmax again",
            fix="return the scores before the softmax",
            at=kept.row,
        )


@probe()
def shows_itself(exam: Exam) -> Findings:
    """Can the module be shown, and does it keep quiet?"""
    kind = "notebook / display"
    try:
        with exam.quiet():
            repr(exam.call)
    except Exception as error:
        yield found(
            kind,
            "warning",
            title="The module cannot be shown: its repr raises",
            evidence=f"{type(error).__name__}: {first_line(error)}",
            fix="repair __repr__ or extra_repr",
        )
    if exam.printed:
        line = exam.printed.partition("\n")[0]
        yield found(
            kind,
            "warning",
            title="Each call prints: a notebook's output depends on how often it ran",
            evidence=f"{len(exam.printed)} characters, {line[:60]!r}",
            fix="return values, or use logging",
        )
