"""Probes of attention: heads, projections, softmax and scale."""

from __future__ import annotations

import itertools
import math

from ..evidence.attentions import (
    Attention,
    inner_width,
    model_width,
    normalised,
    products_in_scores,
    scores,
)
from ..evidence.side_effects import gradients
from ..evidence.tensor_flow import REARRANGES, Step
from ..evidence.token_labels import followed, is_of_tokens, merged
from ..exam import Exam
from ..finding import Severity
from ..inputs import HIDDEN
from ..numbers import differ
from .kit import Findings, dims, found, probe

# --- heads and projections -----------------------------------------------------------


@probe("run", "numbers", "attentions", "sequence")
def scrambled_merge(exam: Exam) -> Findings:
    """Does each token get its own heads back at the merge?"""
    for attention in exam.attentions:
        if attention.is_recomputed or not is_of_tokens(exam, attention):
            continue
        labels, steps, read = merged(exam, attention)
        if not steps or not read:
            continue
        mixed = (labels != labels[..., :1]).any(-1)
        if mixed.any():
            step = steps[-1]
            yield found(
                "head split/merge",
                "fault",
                title="The merge of the heads mixes tokens",
                evidence=(
                    f"{dims(step.inputs[0])} -> {dims(step.outputs[0])}: "
                    f"{int(mixed.sum())} of {mixed.numel()} rows hold several tokens"
                ),
                fix="transpose(1, 2) before the reshape: (B, T, H, K) -> (B, T, D)",
                at=step.row,
            )
            return


@probe("run", "numbers", "attentions", "sequence")
def heads_mixed(exam: Exam) -> Findings:
    """Does a projection mix the heads after the merge?"""
    for attention in exam.attentions:
        if attention.is_recomputed or attention.n_heads < 2 or attention.value is None:
            continue
        labels, steps, users = followed(exam.flow, attention.mix, attention.mix.value)
        ends = not users or all(user.op in ("add", "layer_norm") for user in users)
        if ends and labels.shape[-1] == attention.n_heads * attention.value.shape[-1]:
            yield found(
                "projections",
                "warning",
                title="No projection follows the merge: heads never mix",
                evidence=(
                    f"{attention.n_heads} heads lie side by side in {dims(labels)}"
                ),
                fix="end attention with a linear map from d_model to d_model",
                at=attention.row,
            )
            return


@probe("run", "attentions", "sequence")
def narrow_heads(exam: Exam) -> Findings:
    """Do the heads together have the width of the model?"""
    for attention in exam.attentions[:1]:
        layer = attention.source("query")
        if attention.is_recomputed or layer is None or layer.op != "linear":
            continue
        inner, width = inner_width(attention), layer.inputs[1].shape[1]
        n_heads = inner // attention.width if inner else 0
        if n_heads > 1 and inner < width < inner + n_heads and width % n_heads:
            yield found(
                "head split/merge",
                "fault",
                title=f"d_model = {width} is not divisible by {n_heads} heads",
                evidence=(
                    f"floor division leaves {n_heads} heads of {attention.width}: "
                    f"attention is {inner} wide in a model that is {width} wide"
                ),
                fix="choose a number of heads that divides d_model, and check it",
                at=layer.row,
            )


DECLARED = ("n_heads", "num_heads", "n_head", "nhead", "heads", "h")


@probe("run", "attentions")
def declared_heads(exam: Exam) -> Findings:
    """Are there as many heads as the module says, and not as many as a head is wide?"""
    parts = dict(exam.modules)
    for attention in [a for a in exam.attentions[:1] if a.has_scores]:
        owner = parts.get(attention.row.module)
        for name in DECLARED:
            declared, seen = getattr(owner, name, None), attention.n_heads
            if attention.weights.dim() != 4 or type(declared) is not int:
                continue  # heads folded into the batch are not seen
            if declared == attention.width != seen:
                shape = dims(attention.weights)
                yield found(
                    "head split/merge",
                    "fault",
                    title=(
                        f"There are {seen} heads, each {declared} wide: the two are "
                        "swapped"
                    ),
                    evidence=f"{name} is {declared}, and the weights are {shape}",
                    fix=f"unflatten(-1, ({name}, -1)): heads first, then their width",
                    at=attention.row,
                )
                return


@probe("run", "attentions", "sequence")
def heads_cut_first(exam: Exam) -> Findings:
    """Does each head read all features of a token?"""
    for attention in exam.attentions[:1]:
        for name in ("query", "key", "value") if attention.has_scores else ():
            step = attention.source(name)
            if attention.is_recomputed or step is None or step.op != "linear":
                continue
            given, weight = step.inputs[:2]
            cut = exam.flow.producer(given, step.index)
            small = weight.shape[1] == attention.width == weight.shape[0]
            if given.dim() >= 4 and small and cut is not None and cut.op in REARRANGES:
                yield found(
                    "projections",
                    "fault",
                    title="Tokens are cut into heads before they are projected",
                    evidence=(
                        f"one {dims(weight)} matrix serves all heads of {dims(given)}: "
                        "each head reads its own slice of the features only"
                    ),
                    fix="project d_model to d_model first, then split into heads",
                    at=step.row,
                )
                return


@probe("run", "numbers", "attentions")
def same_projection(exam: Exam) -> Findings:
    """Are query, key and value three different projections?"""
    if exam.has("nan / precision"):
        return
    for attention in exam.attentions[:1]:
        sides = [s for s in ("query", "key", "value") if attention.sources.get(s)]
        for left, right in itertools.combinations(sides, 2):
            yield from compared(attention, left, right)


def compared(attention: Attention, left: str, right: str) -> Findings:
    """Compare two of query, key and value where both are learnt projections."""
    ends = [attention.sources[side][-1] for side in (left, right)]
    if any(end.op not in LEARNT for end in ends) or attention.is_recomputed:
        return
    sides = attention.multiplied | {"value": attention.value}
    one, two = sides.get(left), sides.get(right)
    if one is None or two is None or one.shape != two.shape:
        return
    weights = [{id(t) for t in end.inputs[1:] if t.dim() > 1} for end in ends]
    equal = not differ(one / one.std(), two / two.std(), 1e-5).any()
    same_input = ends[0].inputs[0] is ends[1].inputs[0] and ends[0] is not ends[1]
    if equal or (weights[0] == weights[1] and same_input):
        yield found(
            "projections",
            "warning",
            title=f"{left.capitalize()} and {right} come from the same projection",
            evidence="their numbers are equal" if equal else "one weight made both",
            fix=f"give {right} its own projection",
            at=ends[1].row,
        )


LEARNT = {"linear", "einsum", "matmul", "addmm", "conv1d"}


@probe("run", "root", "numbers", "output")
def unused_third(exam: Exam) -> Findings:
    """Is every part of a fused projection used?"""
    if exam.has("nan / precision"):
        return
    for name, gradient in gradients(exam).by_name.items():
        if gradient is None or name not in fused_weights(exam):
            continue
        dead = [not bool(part.any()) for part in gradient.chunk(3)]
        if 0 < sum(dead) < 3 and gradient.shape[0] >= 6:
            yield found(
                "projections",
                "fault",
                title=f"A third of {name} has no part in the output",
                evidence=f"rows of part {dead.index(True)} get no gradient",
                fix="use query, key and value, one third each",
            )


def fused_weights(exam: Exam) -> set[str]:
    """Return the names of matrices that make query, key and value in one product."""
    wide = {id(s.inputs[1]) for s in exam.flow.steps if s.op == "linear"}
    named = exam.root.named_parameters()
    return {n for n, p in named if id(p) in wide and p.shape[0] == 3 * p.shape[1]}


# --- softmax and scale ---------------------------------------------------------------


@probe("run", "attentions")
def softmax_axis(exam: Exam) -> Findings:
    """Does each softmax run over the keys?"""
    for attention in exam.attentions:
        if not attention.over_keys:
            axis = attention.step.row.detail
            yield found(
                "softmax / scale",
                "fault",
                title="Softmax does not run over the keys",
                evidence=(
                    f"it normalises axis {axis} of {dims(attention.step.outputs[0])}, "
                    "the product with the values sums over another"
                ),
                fix="softmax(dim=-1) on scores whose last axis are the keys",
                at=attention.row,
            )
            return


@probe("run")
def double_softmax(exam: Exam) -> Findings:
    """Is softmax applied once?"""
    for step in exam.flow.steps:
        if step.op != "softmax":
            continue
        line = exam.flow.line(step.inputs[0], step.index)
        if not line or line[-1].op not in ("softmax", "sigmoid", "log_softmax"):
            continue
        largest = step.value.amax(-1).mean().item()
        evidence = f"its largest weight is {largest:.2f} on average: nearly uniform"
        kind, fix = "softmax / scale", "drop one of the two"
        if is_only_shown(exam, line[-1], step):
            kind, fix = "attention weights", "return the weights that were used"
            evidence += "; what it makes is given out, the values met the first"
        yield found(
            kind,
            "fault",
            title=f"Softmax is applied to the result of {line[-1].op}",
            evidence=evidence,
            fix=fix,
            at=step.row,
        )
        return


def is_only_shown(exam: Exam, weights: Step, step: Step) -> bool:
    """Say whether the values met other weights than those of a second softmax."""
    used = any(a.step is weights for a in exam.attentions)
    return used and not any(a.step is step for a in exam.attentions)


@probe("run", "attentions")
def dropout_on_scores(exam: Exam) -> Findings:
    """Is dropout on weights, not on scores?"""
    for attention in exam.attentions:
        for step in attention.path[:-1]:
            if step.op == "dropout" and step.given(1, "p", 0.5) > 0:
                yield found(
                    "softmax / scale",
                    "warning",
                    title="Dropout is applied to the scores, before the softmax",
                    evidence="a dropped score is 0, which is no weight of 0",
                    fix="softmax first, then dropout",
                    at=step.row,
                )
                return


@probe("run", "numbers", "attentions")
def score_scale(exam: Exam) -> Findings:
    """Are scores divided by the square root of the head's width?"""
    for attention in exam.attentions:
        factor = attention.factor
        if attention.is_recomputed or factor is None or attention.width < 2:
            continue
        width, ratio = attention.width, abs(factor) * math.sqrt(attention.width)
        terms = products_in_scores(exam.flow, attention)
        if abs(ratio - 1) < 0.03 or normalised(attention):
            continue
        if abs(ratio * math.sqrt(terms) - 1) < 0.03:
            continue
        if starts_with_small_queries(attention, factor):
            continue
        name, severity = explain_scale(attention, factor)
        yield found(
            "softmax / scale",
            severity,
            title=f"Scores are {name}",
            evidence=scale_and_weights(exam, attention, factor),
            fix=f"divide by sqrt({width}), once",
            at=(attention.product or attention.step).row,
        )
        return


def scale_and_weights(exam: Exam, attention: Attention, factor: float) -> str:
    """Set the factor beside the wanted one, and say what weights it makes."""
    width, largest = attention.width, attention.weights.amax(-1).mean().item()
    evidence = (
        f"the factor is {factor:.4g}, 1 / sqrt(K) = {width**-0.5:.4g} with "
        f"K = {width}; the largest weight of a row is {largest:.2f} on average"
    )
    values = scores(exam.flow, attention)
    if values is not None:
        evidence += f", scores vary by {values[values > HIDDEN].std():.3g}"
    return evidence


def starts_with_small_queries(attention: Attention, factor: float) -> bool:
    """Say whether queries start so small that no factor is needed, as in T5."""
    query, key = (t.float().std().item() for t in (attention.query, attention.key))
    return factor == 1.0 and query < 1.5 * key * attention.width**-0.5


def explain_scale(attention: Attention, factor: float) -> tuple[str, Severity]:
    """Name a wrong factor: (what was done, severity)."""
    width, model = attention.width, model_width(attention)
    known: list[tuple[float, str, Severity]] = [
        (1.0, "not scaled at all", "warning"),
        (width**0.5, "multiplied by sqrt(K), not divided", "fault"),
        (model**-0.5, "divided by sqrt(d_model), not sqrt(K)", "warning"),
        (1 / width, "divided by K: scaled twice", "warning"),
        (float(width), "multiplied by K", "fault"),
        (
            attention.n_heads**-0.5,
            "divided by sqrt(H), not sqrt(K), or H and K are swapped",
            "warning",
        ),
        (model**0.5, "multiplied by sqrt(d_model), not divided", "fault"),
    ]
    for value, name, severity in known:
        if abs(factor / value - 1) < 0.03:
            return name, severity
    return "scaled by an unusual number", "warning" if factor > 0 else "fault"
