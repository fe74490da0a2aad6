"""Probes of the weights that a module gives out, returned or kept."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from torch import Tensor, nn

from ..evidence.attentions import Attention, scores
from ..evidence.side_effects import filled_attributes
from ..exam import Exam
from ..finding import Finding
from ..numbers import equal
from .kit import Findings, Wording, dims, found, probe


@probe("run", "numbers", "attentions", "output")
def returned_weights(exam: Exam) -> Findings:
    """Are returned attention weights those of each head?"""
    for out in exam.outputs:
        for attention in exam.attentions:
            problem = misread_weights(exam, attention, out)
            if problem:
                documented = isinstance(exam.root, nn.MultiheadAttention)
                yield found(
                    "attention weights",
                    "note" if documented else "warning",
                    **problem,
                    at=attention.row,
                )
                return


@probe("run", "numbers", "attentions", "output")
def missing_weights(exam: Exam) -> Findings:
    """Are weights given where they were asked for?"""
    kind, row = "attention weights", exam.attentions[0].row
    given_out = any(equal(o, a.weights) for o in exam.outputs for a in exam.attentions)
    if asked_for_weights(exam) and not given_out and holds_none(exam.flow.result):
        yield found(
            kind,
            "warning",
            title="Weights were asked for and are None",
            evidence=f"{asked_for_weights(exam)}=True, and the result holds None",
            fix="hand the request on",
            at=row,
        )
    elif holds_only_none(exam.flow.result):
        yield found(
            kind,
            "warning",
            title="A list of nothing but None is returned",
            evidence="one None for each of what should have given weights",
            fix="hand the weights on",
            at=row,
        )


@probe("run", "numbers", "attentions", "output")
def repeated_weights(exam: Exam) -> Findings:
    """Are the weights of each layer its own?"""
    own = [a.weights for a in exam.attentions]
    given = [w for w in own if any(equal(out, w) for out in exam.outputs)]
    copies = [out for out in exam.outputs if any(equal(out, w) for w in own)]
    if len(given) < len(copies) == len(own):
        yield found(
            "attention weights",
            "fault",
            title="The returned weights are those of one layer, several times",
            evidence=f"{len(copies)} maps are returned, {len(given)} of them different",
            fix="keep each layer's own",
            at=exam.attentions[0].row,
        )


def asked_for_weights(exam: Exam) -> str:
    """Return the keyword by which the call asked for weights, or ""."""
    asks = [k for k, v in exam.kwargs.items() if v is True]
    return next((k for k in asks if "weight" in k or "attention" in k), "")


def holds_none(result: Any) -> bool:
    if items_in(result):
        return any(map(holds_none, items_in(result)))
    return result is None


def holds_only_none(result: Any) -> bool:
    """Say whether a list or tuple within a result consists of None alone."""
    parts = items_in(result)
    if isinstance(result, (tuple, list)) and parts and not any(map(items_in, parts)):
        return all(part is None for part in parts)
    return any(map(holds_only_none, parts))


def items_in(result: Any) -> list:
    if dataclasses.is_dataclass(result):
        result = vars(result)
    if isinstance(result, dict):
        return list(result.values())
    return list(result) if isinstance(result, (tuple, list)) else []


@probe("run", "root", "numbers", "attentions", "output", costly=True)
def weights_in_training(exam: Exam) -> Findings:
    """Are returned weights those before dropout, in training too?"""
    maps = [
        i
        for i, out in enumerate(exam.outputs)
        if out.dim() > 2 and any(equal(out, a.weights) for a in exam.attentions)
    ]
    trained = exam.run(train=True) if maps else None
    if not trained or len(trained) != len(exam.outputs):
        return
    sums = trained[maps[0]].float().sum(-1)
    if bool(((sums - 1).abs() > 1e-2).any() and (sums > 0).all()):
        yield found(
            "attention weights",
            "note",  # torch's own does so too
            title="In training the returned weights have been through dropout",
            evidence=f"their rows sum to {sums.min():.2f} ... {sums.max():.2f}",
            fix="look at maps in eval mode, or return them as before dropout",
            at=exam.attentions[0].row,
        )


def misread_weights(exam: Exam, attention: Attention, out: Tensor) -> Wording | None:
    """Say what an output is that looks like an attention's weights and is not."""
    weights, entered = attention.weights, scores(exam.flow, attention)
    if weights.dim() == 4 and weights.shape[1] > 1 and equal(out, weights.mean(1)):
        return Wording(
            title=f"The returned weights are means over {weights.shape[1]} heads",
            evidence=f"{dims(out)} equals the mean of {dims(weights)} over its heads",
            fix="average_attn_weights=False gives one map a head",
        )
    if entered is not None and equal(out, entered) and not equal(out, weights):
        sums = out.float().sum(-1)
        return Wording(
            title="Scores are returned as if they were weights",
            evidence=(
                f"rows of {dims(out)} sum to {sums.min():.2f} ... {sums.max():.2f}"
            ),
            fix="return what leaves the softmax",
        )
    if equal(out, weights.transpose(-1, -2)) and not equal(out, weights):
        return Wording(
            title="The returned weights are transposed",
            evidence="columns sum to 1, not rows",
            fix="queries in axis -2",
        )
    return None


@probe("run", "root", "numbers", "attentions")
def caught_weights(exam: Exam) -> Findings:
    """Do attributes that should hold weights hold those of this call?"""
    for name, values in filled_attributes(exam):
        tensors = [v for v in values if isinstance(v, Tensor)]
        if values and all(value is None for value in values):
            yield found(
                "attention weights",
                "fault",
                title=f"{name} is filled with None: no weights were asked for",
                evidence=f"{len(values)} times None after a call",
                fix=(
                    "need_weights=True (and average_attn_weights=False) in the "
                    "attention"
                ),
            )
            return
        pairs = itertools.product(tensors, exam.attentions)
        problems = (wrongly_kept(exam, name, *pair) for pair in pairs)
        if problem := next(filter(None, problems), None):
            yield problem
            return


def wrongly_kept(
    exam: Exam, name: str, tensor: Tensor, attention: Attention
) -> Finding | None:
    """Say whether an attribute's tensor is something else of an attention, or stale."""
    kind, problem = "attention weights", misread_weights(exam, attention, tensor)
    if problem:
        title = problem["title"]
        problem["title"] = f"{name}: {title[0].lower()}{title[1:]}"
        return found(kind, "warning", **problem, at=attention.row)
    if is_stale(exam, tensor):
        return found(
            kind,
            "fault",
            title=f"{name} holds the weights of an earlier call",
            evidence=f"{dims(tensor)} are weights, but not those of this input",
            fix="return the weights instead of keeping them",
        )
    return None


def is_stale(exam: Exam, tensor: Tensor) -> bool:
    """Say whether a tensor has the form of weights, and is no attention's of now."""
    now = [a.weights for a in exam.attentions] + [a.used for a in exam.attentions]
    now += [w.mean(1) for w in now if w.dim() == 4]
    same_form = [w for w in now if w.shape == tensor.shape]
    if not same_form or any(equal(tensor.float(), w.float()) for w in same_form):
        return False
    sums = tensor.float().sum(-1)
    return bool(((sums - 1).abs() < 1e-3).all())
