"""Probes of masks: padding, causality, rows that do not sum to one."""

from __future__ import annotations

from torch import Tensor

from ...tracer import Row
from ..evidence.attentions import Attention
from ..evidence.hiding import masked_by_inputs
from ..evidence.padding import (
    PaddingView,
    adds_float_mask,
    effect_of_padding,
    first_token_only,
    masks_weights,
    means_to_be_causal,
    multiplies_mask,
    padding_view,
    rows_are_dead,
    tokens_axis,
    triangle,
    weak_fill,
)
from ..evidence.tensor_flow import CONVOLUTIONS, Step
from ..exam import Exam
from ..finding import Finding, Severity
from .kit import Findings, Reason, drops, found, probe


@probe("run", "numbers", "attentions")
def rows_sum_to_one(exam: Exam) -> Findings:
    """Do the weights of each query sum to 1 when they meet the values?"""
    dropping = any(drops(step) for step in exam.flow.steps)
    if dropping or exam.has("softmax / scale", "nan / precision"):
        return
    for attention in exam.attentions:
        sums = attention.used.float().sum(-1)
        wrong = (sums - 1).abs() > 1e-2
        # Rows of zeros that were more than a row before: a whole query was masked.
        wrong &= ~((sums == 0) & (attention.weights.float().sum(-1) > 2))
        if wrong.any() and not rows_are_dead(attention, wrong):
            yield changed_weights(attention, sums)
            return


def changed_weights(attention: Attention, sums: Tensor) -> Finding:
    """Say what became of weights whose rows sum to 1 no longer."""
    evidence = f"rows sum to {sums.min().item():.2f} ... {sums.max().item():.2f}"
    zeroed = (attention.used == 0) & (attention.weights > 0)
    if zeroed.any():
        return found(
            "mask meaning",
            "fault",
            title="The mask is applied after the softmax",
            evidence=(
                f"{evidence}; {int(zeroed.sum())} weights were set to 0 afterwards"
            ),
            fix="fill the scores with -inf before the softmax",
            at=attention.row,
        )
    return found(
        "softmax / scale",
        "fault",
        title="Weights do not sum to 1",
        evidence=evidence,
        fix="let nothing come between the softmax and the values",
        at=attention.row,
    )


# --- padding -------------------------------------------------------------------------


@probe("run", "numbers", "attentions", "sequence", "padding")
def padding_is_hidden(exam: Exam) -> Findings:
    """Is padding hidden as a key, in every layer, and nothing else?"""
    views = [padding_view(exam, a) for a in exam.attentions]
    clear = [view for view in views if view is not None]
    leaky = [view for view in clear if view.on_padding > 1e-4]
    if not leaky or exam.has("batch/sequence layout", "softmax / scale"):
        return
    view = leaky[0]
    reason = why_padding_is_seen(exam, view, in_some_layers=len(leaky) < len(clear))
    fill = weak_fill(view.attention)
    filled = f"; scores are filled with {fill:g}" if fill is not None else ""
    yield found(
        reason.kind,
        reason.severity,
        title=reason.title,
        evidence=(
            f"real queries give {view.on_padding:.0%} of their weight to padding "
            f"({len(leaky)} of {len(clear)} attentions){filled}"
        ),
        fix=reason.fix,
        at=view.attention.row,
    )


def why_padding_is_seen(exam: Exam, view: PaddingView, in_some_layers: bool) -> Reason:
    """Choose the reason that explains most: how it was masked, then what it hides."""
    reason = misused_on_scores(view.attention) or misplaced_mask(view)
    if reason := reason or compared_with_a_word(exam):
        return reason
    if masks_weights(view.attention):
        return Reason(
            "mask meaning",
            title="The mask is applied after the softmax",
            fix="fill the scores with -inf before the softmax",
        )
    if in_some_layers:
        return Reason(
            "mask meaning",
            title="The mask does not reach every layer",
            fix="pass the mask to each layer",
        )
    if view.n_hidden > 0:
        return Reason(
            "mask axis/shape",
            title=(
                "The mask hides the wrong keys: its axes do not line up with the scores"
            ),
            fix="make it (B, 1, 1, T): mask[:, None, None, :]",
        )
    return filled_too_little(view.attention) or unused_mask(exam)


def misused_on_scores(attention: Attention) -> Reason | None:
    """Say which operation brings the mask to the scores without hiding anything."""
    if adds_float_mask(attention):
        return Reason(
            "mask meaning",
            title="A float mask of 0 and 1 is added to the scores: it hides nothing",
            fix="use a bool mask, or 0 and -inf",
        )
    if multiplies_mask(attention):
        return Reason(
            "mask meaning",
            title="Scores are multiplied by the mask: 0 is a score like any other",
            fix="fill hidden scores with -inf",
        )
    return None


def misplaced_mask(view: PaddingView) -> Reason | None:
    """Say what is hidden in place of the padding keys: real keys, or queries."""
    if view.on_padding > 0.99:
        return Reason(
            "mask meaning",
            title="The mask is inverted: real tokens attend to padding only",
            fix="negate the mask (~mask)",
        )
    if view.hides_queries:
        return Reason(
            "mask axis/shape",
            title="The mask hides queries, not keys",
            fix="put the mask on the last axis: mask[:, None, None, :]",
        )
    return None


def compared_with_a_word(exam: Exam) -> Reason | None:
    """Say whether the mask is made by comparing ids with another than the padding's."""
    if not exam.sequence.is_ids:
        return None
    padding = exam.sequence.tensor[exam.padding].unique().tolist()
    compared = list(exam.compared_ids())
    if not compared or set(compared) & set(padding):
        return None
    return Reason(
        "mask meaning",
        title=f"The mask hides id {compared[0]}, and the padding is {padding[0]}",
        fix=f"compare the ids with {padding[0]}, the padding_idx of the embedding",
    )


def filled_too_little(attention: Attention) -> Reason | None:
    """Say whether hidden scores are filled with a number that leaves them weight."""
    fill = weak_fill(attention)
    if fill is not None and fill < -1:
        return Reason(
            "nan / precision",
            title="Hidden scores are filled with a number that hides little",
            fix="fill with -inf or torch.finfo(dtype).min",
        )
    if fill is not None:
        return Reason(
            "mask meaning",
            title="Hidden scores are filled with a number that hides nothing",
            fix="fill with -inf or torch.finfo(dtype).min",
        )
    return None


def unused_mask(exam: Exam) -> Reason:
    """Say whether there is a mask at all, where none has an effect."""
    if exam.masks or masked_by_inputs(exam.flow, exam.attentions):
        return Reason(
            "mask meaning",
            title="There is a mask, and it hides no padding",
            fix="make it from the ids, and use what the masking returns",
        )
    return Reason(
        "mask meaning",
        title="The inputs seem to have padding, and there is no mask",
        fix="hide it: key_padding_mask = ids == pad_id",
        severity="note",
    )


# Faults by which padding reaches the output in other ways than by pooling.
MIXERS = "mask meaning", "mask axis/shape", "nan / precision", "softmax / scale"
MIXERS += "batch/sequence layout", "head split/merge", "norm / residual / FFN"


@probe("run", "numbers", "sequence", "padding", "output", costly=True)
def padding_content(exam: Exam) -> Findings:
    """Is the output the same whatever the padding holds?"""
    if exam.has(*MIXERS) or exam.has("mask meaning", severity="note"):
        return
    distance = effect_of_padding(exam)
    if distance < 1e-4:
        return
    if tokens_axis(exam, exam.output) is None:
        yield pooled_padding(exam, distance)
    else:
        convolves = any(s.op in CONVOLUTIONS for s in exam.flow.steps)
        yield found(
            "mask meaning",
            "note" if convolves else "fault",  # it reaches across the last real token
            title="The content of padding moves the output of real tokens",
            evidence=f"by up to {distance:.3g}",
            fix="hide padding from all that mixes tokens",
        )


def pooled_padding(exam: Exam, distance: float) -> Finding:
    row = next((s.row for s in reversed(exam.flow.steps) if pools(s)), None)
    return found(
        "loss and training",
        "fault",
        title="Padding enters the pooled output",
        evidence=(
            "attention hides it, yet other content of it moves the output by "
            f"{distance:.3g}"
        ),
        fix="divide the sum over real tokens by their number",
        at=row,
    )


def pools(step: Step) -> bool:
    return step.op in ("mean", "sum", "amax", "max") and step.inputs[0].dim() == 3


# --- causality -----------------------------------------------------------------------


@probe("run", "numbers", "attentions", "sequence")
def causality(exam: Exam) -> Findings:
    """May each token see the tokens after it?"""
    shapes = {triangle(a) for a in exam.attentions} - {""}
    if len(shapes) != 1:
        return
    shape, row = shapes.pop(), exam.attentions[0].row
    if shape == "peeks":
        yield found(
            "mask meaning",
            "fault",
            title="A causal mask that is off by one: each token sees the next",
            evidence="weights are 0 from the second token to the right on",
            fix="triu(diagonal=1) for what is hidden",
            at=row,
        )
    else:
        yield causal(exam, row, backwards=shape == "reversed")


def causal(exam: Exam, row: Row, backwards: bool) -> Finding:
    """Say how bad it is that tokens see one side only: as bad as it is unintended."""
    title = "Attention is causal: no token sees a later one"
    evidence = "all weights above the diagonal are 0"
    if backwards:
        title = "Attention is causal backwards: no token sees an earlier one"
        evidence = "all weights below the diagonal are 0"
    severity: Severity = "note" if means_to_be_causal(exam) else "warning"
    if first_token_only(exam):
        severity = "fault"
        evidence += "; the output does not depend on any token but the first"
    return found(
        "mask meaning",
        severity,
        title=title,
        evidence=evidence,
        fix="no causal mask in an encoder (is_causal=False)",
        at=row,
    )
