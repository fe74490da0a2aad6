"""Probes of attention: heads, projections, softmax and scale."""

import math

from ..evidence.side_effects import gradients
from ..evidence.tensor_flow import REARRANGES
from ..evidence.token_changes import (
    followed,
    heads,
    inner_width,
    is_of_tokens,
    merged,
    model_width,
    normalised,
    scores,
)
from ..exam import differ
from .kit import found, probe, size

# --- heads and projections -----------------------------------------------------------


@probe("run", "numbers", "attentions", "sequence")
def scrambled_merge(exam):
    """Does each token get its own heads back at the merge?"""
    for attention in exam.attentions:
        if attention.opened or not is_of_tokens(exam, attention):
            continue
        labels, steps, read = merged(exam, attention)
        if not steps or not read:
            continue
        mixed = (labels != labels[..., :1]).any(-1)
        if mixed.any():
            step = steps[-1]
            title = "The merge of the heads mixes tokens"
            evidence = f"{size(step.inputs[0])} -> {size(step.outputs[0])}: "
            evidence += (
                f"{int(mixed.sum())} of {mixed.numel()} rows hold several tokens"
            )
            fix = "transpose(1, 2) before the reshape: (B, T, H, K) -> (B, T, D)"
            yield found("head split/merge", "fault", title, evidence, fix, step.row)
            return


@probe("run", "numbers", "attentions", "sequence")
def heads_mixed(exam):
    """Does a projection mix the heads after the merge?"""
    for attention in exam.attentions:
        if attention.opened or heads(attention) < 2 or attention.value is None:
            continue
        labels, steps, users = followed(exam.flow, attention.mix, attention.mix.value)
        ends = not users or all(user.op in ("add", "layer_norm") for user in users)
        if ends and labels.shape[-1] == heads(attention) * attention.value.shape[-1]:
            title = "No projection follows the merge: heads never mix"
            evidence = f"{heads(attention)} heads lie side by side in {size(labels)}"
            fix = "end attention with a linear map from d_model to d_model"
            yield found("projections", "warning", title, evidence, fix, attention.row)
            return


@probe("run", "attentions", "sequence")
def narrow_heads(exam):
    """Do the heads together have the width of the model?"""
    for attention in exam.attentions[:1]:
        line = attention.sources.get("query") or []
        if attention.opened or not line or line[-1].op != "linear":
            continue
        weight = line[-1].inputs[1]
        inner, width = inner_width(attention), weight.shape[1]
        heads = inner // attention.width if inner else 0
        if heads > 1 and inner < width < inner + heads and width % heads:
            title = f"d_model = {width} is not divisible by {heads} heads"
            evidence = f"floor division leaves {heads} heads of {attention.width}: "
            evidence += f"attention is {inner} wide in a model that is {width} wide"
            fix = "choose a number of heads that divides d_model, and check it"
            kind = "head split/merge"
            yield found(kind, "fault", title, evidence, fix, line[-1].row)


DECLARED = ("n_heads", "num_heads", "n_head", "nhead", "heads", "h")


@probe("run", "attentions")
def declared_heads(exam):
    """Are there as many heads as the module says, and not as many as a head is wide?"""
    parts = dict(exam.modules)
    for attention in [a for a in exam.attentions[:1] if a.query is not None]:
        owner = parts.get(attention.row.module)
        for name in DECLARED:
            said, seen = getattr(owner, name, None), heads(attention)
            folded = attention.weights.dim() != 4  # then their number is not seen
            if type(said) is int and said == attention.width != seen and not folded:
                title = f"There are {seen} heads, each {said} wide: the two are swapped"
                shape = size(attention.weights)
                evidence = f"{name} is {said}, and the weights are {shape}"
                fix = f"unflatten(-1, ({name}, -1)): heads first, then their width"
                kind = "head split/merge"
                yield found(kind, "fault", title, evidence, fix, attention.row)
                return


@probe("run", "attentions", "sequence")
def heads_cut_first(exam):
    """Does each head read all features of a token?"""
    for attention in exam.attentions[:1]:
        for name in ("query", "key", "value") if attention.query is not None else ():
            line = attention.sources.get(name) or []
            step = line[-1] if line else None
            if attention.opened or step is None or step.op != "linear":
                continue
            given, weight = step.inputs[:2]
            cut = exam.flow.producer(given, step.index)
            small = weight.shape[1] == attention.width == weight.shape[0]
            if given.dim() >= 4 and small and cut is not None and cut.op in REARRANGES:
                title = "Tokens are cut into heads before they are projected"
                evidence = (
                    f"one {size(weight)} matrix serves all heads of {size(given)}: "
                )
                evidence += "each head reads its own slice of the features only"
                fix = "project d_model to d_model first, then split into heads"
                yield found("projections", "fault", title, evidence, fix, step.row)
                return


@probe("run", "numbers", "attentions")
def same_projection(exam):
    """Are query, key and value three different projections?"""
    if exam.has("nan / precision"):
        return
    for attention in exam.attentions[:1]:
        sides = [s for s in ("query", "key", "value") if attention.sources.get(s)]
        for i, left in enumerate(sides):
            for right in sides[i + 1 :]:
                yield from compared(exam, attention, left, right)


def compared(exam, attention, left, right):
    """Compare two of query, key and value where both are learnt projections."""
    ends = [attention.sources[side][-1] for side in (left, right)]
    if any(end.op not in LEARNT for end in ends) or attention.opened:
        return
    one, two = getattr(attention, left), getattr(attention, right)
    if one is None or two is None or one.shape != two.shape:
        return
    weights = [{id(t) for t in end.inputs[1:] if t.dim() > 1} for end in ends]
    equal = not differ(one / one.std(), two / two.std(), 1e-5).any()
    if equal or (weights[0] == weights[1] and ends[0] is not ends[1]):
        title = f"{left.capitalize()} and {right} come from the same projection"
        evidence = "their numbers are equal" if equal else "one weight made both"
        fix = f"give {right} its own projection"
        yield found("projections", "warning", title, evidence, fix, ends[1].row)


LEARNT = {"linear", "einsum", "matmul", "addmm", "conv1d"}


@probe("run", "root", "numbers", "output")
def unused_third(exam):
    """Is every part of a fused projection used?"""
    if exam.has("nan / precision"):
        return
    for name, gradient in gradients(exam).by_name.items():
        if gradient is None or name not in fused_weights(exam):
            continue
        dead = [not bool(part.any()) for part in gradient.chunk(3)]
        if 0 < sum(dead) < 3 and gradient.shape[0] >= 6:
            title = f"A third of {name} has no part in the output"
            evidence = f"rows of part {dead.index(True)} get no gradient"
            fix = "use query, key and value, one third each"
            yield found("projections", "fault", title, evidence, fix)


def fused_weights(exam) -> set[str]:
    """Return the names of matrices that make query, key and value in one product."""
    wide = {id(s.inputs[1]) for s in exam.flow.steps if s.op == "linear"}
    named = exam.root.named_parameters()
    return {n for n, p in named if id(p) in wide and p.shape[0] == 3 * p.shape[1]}


# --- softmax and scale ---------------------------------------------------------------


@probe("run", "attentions")
def softmax_axis(exam):
    """Does each softmax run over the keys?"""
    for attention in exam.attentions:
        if not attention.right_axis:
            axis = attention.step.row.detail
            title = "Softmax does not run over the keys"
            evidence = (
                f"it normalises axis {axis} of {size(attention.step.outputs[0])}, "
            )
            evidence += "the product with the values sums over another"
            fix = "softmax(dim=-1) on scores whose last axis are the keys"
            kind = "softmax / scale"
            yield found(kind, "fault", title, evidence, fix, attention.row)
            return


@probe("run")
def double_softmax(exam):
    """Is softmax applied once?"""
    for step in exam.flow.steps:
        line = (
            exam.flow.line(step.inputs[0], step.index) if step.op == "softmax" else []
        )
        if line and line[-1].op in ("softmax", "sigmoid", "log_softmax"):
            title = f"Softmax is applied to the result of {line[-1].op}"
            spread = step.value.amax(-1).mean().item()
            evidence = f"its largest weight is {spread:.2f} on average: nearly uniform"
            kind, fix = "softmax / scale", "drop one of the two"
            if is_only_shown(exam, line[-1], step):
                kind, fix = "attention weights", "return the weights that were used"
                evidence += "; what it makes is given out, the values met the first"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return


def is_only_shown(exam, weights, step) -> bool:
    """Say whether the values met other weights than those of a second softmax."""
    used = any(a.step is weights for a in exam.attentions)
    return used and not any(a.step is step for a in exam.attentions)


@probe("run", "attentions")
def dropout_on_scores(exam):
    """Is dropout on weights, not on scores?"""
    for attention in exam.attentions:
        for step in attention.path[:-1]:
            if step.op == "dropout" and step.given(1, "p", 0.5) > 0:
                title = "Dropout is applied to the scores, before the softmax"
                evidence = "a dropped score is 0, which is no weight of 0"
                fix = "softmax first, then dropout"
                kind = "softmax / scale"
                yield found(kind, "warning", title, evidence, fix, step.row)
                return


@probe("run", "numbers", "attentions")
def score_scale(exam):
    """Are scores divided by the square root of the head's width?"""
    for attention in exam.attentions:
        factor = attention.factor
        if attention.opened or factor is None or attention.width < 2:
            continue
        if normalised(attention) or attention.query is None:
            continue
        width, ratio = attention.width, abs(factor) * math.sqrt(attention.width)
        if abs(ratio - 1) < 0.03 or scaled_at_the_start(attention, factor):
            continue
        name, severity = explain_scale(exam, attention, factor)
        values = scores(exam, attention)
        spread = attention.weights.amax(-1).mean().item()
        title = f"Scores are {name}"
        evidence = f"the factor is {factor:.4g}, 1 / sqrt(K) = {width**-0.5:.4g} with "
        evidence += (
            f"K = {width}; the largest weight of a row is {spread:.2f} on average"
        )
        if values is not None:
            evidence += f", scores vary by {values[values > -1e4].std():.3g}"
        fix = f"divide by sqrt({width}), once"
        row = (attention.product or attention.step).row
        yield found("softmax / scale", severity, title, evidence, fix, row)
        return


def scaled_at_the_start(attention, factor) -> bool:
    """Say whether queries start so small that no factor is needed, as in T5."""
    query, key = (t.float().std().item() for t in (attention.query, attention.key))
    return factor == 1.0 and query < 1.5 * key * attention.width**-0.5


def explain_scale(exam, attention, factor) -> tuple[str, str]:
    """Name a wrong factor: (what was done, severity)."""
    width, model = attention.width, model_width(attention)
    n_heads = heads(attention)
    known = [
        (1.0, "not scaled at all", "warning"),
        (width**0.5, "multiplied by sqrt(K), not divided", "fault"),
        (model**-0.5, "divided by sqrt(d_model), not sqrt(K)", "warning"),
        (1 / width, "divided by K: scaled twice", "warning"),
        (float(width), "multiplied by K", "fault"),
        (
            n_heads**-0.5,
            "divided by sqrt(H), not sqrt(K), or H and K are swapped",
            "warning",
        ),
        (model**0.5, "multiplied by sqrt(d_model), not divided", "fault"),
    ]
    for value, name, severity in known:
        if abs(factor / value - 1) < 0.03:
            return name, severity
    return "scaled by an unusual number", "warning" if factor > 0 else "fault"
