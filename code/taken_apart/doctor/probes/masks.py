"""Probes of masks: padding, causality, rows that do not sum to one."""

import math

from ..evidence.padding import (
    change_of_padding,
    compares_ids,
    deaf_output,
    float_mask,
    means_to_be_causal,
    rows_are_dead,
    times_mask,
    triangle,
    view_of_padding,
    weak_fill,
    weights_after,
)
from .kit import found, probe
from .modes import drops


@probe("run", "numbers", "attentions")
def rows_sum_to_one(exam):
    """Do the weights of each query sum to 1 when they meet the values?"""
    dropping = any(drops(step) for step in exam.flow.steps)
    if dropping or exam.has("softmax / scale", "nan / precision"):
        return
    for attention in exam.attentions:
        sums = attention.used.float().sum(-1)
        wrong = (sums - 1).abs() > 1e-2
        wrong &= ~((sums == 0) & (attention.weights.float().sum(-1) > 2))
        if wrong.any() and not rows_are_dead(attention, wrong):
            low, high = sums.min().item(), sums.max().item()
            zeroed = (attention.used == 0) & (attention.weights > 0)
            evidence = f"rows sum to {low:.2f} ... {high:.2f}"
            if zeroed.any():
                kind, title = "mask meaning", "The mask is applied after the softmax"
                evidence += f"; {int(zeroed.sum())} weights were set to 0 afterwards"
                fix = "fill the scores with -inf before the softmax"
            else:
                kind, title = "softmax / scale", "Weights do not sum to 1"
                fix = "let nothing come between the softmax and the values"
            yield found(kind, "fault", title, evidence, fix, attention.row)
            return


@probe("run", "numbers", "attentions", "sequence", "pads")
def padding_is_hidden(exam):
    """Is padding hidden as a key, in every layer, and nothing else?"""
    views = [view_of_padding(exam, a) for a in exam.attentions]
    views = [view for view in views if view is not None]
    leaky = [view for view in views if view.on_pads > 1e-4]
    if not leaky or exam.has("batch/sequence layout", "softmax / scale"):
        return
    view = leaky[0]
    reason = next(r for r in REASONS if r[0](exam, view, len(leaky) < len(views)))
    _, kind, severity, title, fix = reason
    evidence = f"real queries give {view.on_pads:.0%} of their weight to padding "
    evidence += f"({len(leaky)} of {len(views)} attentions)"
    weak = weak_fill(view.attention)
    evidence += f"; scores are filled with {weak:g}" if weak is not None else ""
    yield found(kind, severity, title, evidence, fix, view.attention.row)


def between(low, high):
    """Say whether hidden scores are filled with a number of that size."""

    def fits(exam, view, partly):
        value = weak_fill(view.attention)
        return value is not None and low <= value < high

    return fits


# Why padding is seen: (does it apply, given whether only some attentions leak, ...).
REASONS = [
    (
        lambda exam, view, partly: float_mask(view.attention),
        *("mask meaning", "fault"),
        "A float mask of 0 and 1 is added to the scores: it hides nothing",
        "use a bool mask, or 0 and -inf",
    ),
    (
        lambda exam, view, partly: times_mask(view.attention),
        *("mask meaning", "fault"),
        "Scores are multiplied by the mask: 0 is a score like any other",
        "fill hidden scores with -inf",
    ),
    (
        lambda exam, view, partly: view.on_pads > 0.99,
        *("mask meaning", "fault"),
        "The mask is inverted: real tokens attend to padding only",
        "negate the mask (~mask)",
    ),
    (
        lambda exam, view, partly: view.queries_hidden,
        *("mask axis/shape", "fault"),
        "The mask hides queries, not keys",
        "put the mask on the last axis: mask[:, None, None, :]",
    ),
    (
        lambda exam, view, partly: weights_after(view.attention),
        *("mask meaning", "fault"),
        "The mask is applied after the softmax",
        "fill the scores with -inf before the softmax",
    ),
    (
        lambda exam, view, partly: partly,
        *("mask meaning", "fault"),
        "The mask does not reach every layer",
        "pass the mask to each layer",
    ),
    (
        lambda exam, view, partly: view.hidden > 0,
        *("mask axis/shape", "fault"),
        "The mask hides the wrong keys: its axes do not line up with the scores",
        "make it (B, 1, 1, T): mask[:, None, None, :]",
    ),
    (
        between(-math.inf, -1),
        *("nan / precision", "fault"),
        "Hidden scores are filled with a number that hides little",
        "fill with -inf or torch.finfo(dtype).min",
    ),
    (
        between(-1, math.inf),
        *("mask meaning", "fault"),
        "Hidden scores are filled with a number that hides nothing",
        "fill with -inf or torch.finfo(dtype).min",
    ),
    (
        lambda exam, view, partly: exam.masks or compares_ids(exam),
        *("mask meaning", "fault"),
        "There is a mask, and it hides no padding",
        "make it from the ids, and use what the masking returns",
    ),
    (
        lambda exam, view, partly: True,
        *("mask meaning", "note"),
        "The inputs seem to have padding, and there is no mask",
        "hide it: key_padding_mask = ids == pad_id",
    ),
]


# Faults by which padding reaches the output in other ways than by pooling.
MIXERS = "mask meaning", "mask axis/shape", "nan / precision", "softmax / scale"
MIXERS += "batch/sequence layout", "head split/merge", "norm / residual / FFN"


@probe("run", "numbers", "sequence", "pads", "output", costly=True)
def padding_content(exam):
    """Is the output the same whatever the padding holds?"""
    if exam.has(*MIXERS) or exam.has("mask meaning", severity="note"):
        return
    change = change_of_padding(exam)
    if change is None or change[0] < 1e-4:
        return
    far, pooled = change
    row = None
    if pooled:
        row = next((s.row for s in reversed(exam.flow.steps) if pools(s)), None)
        kind, title = "loss and training", "Padding enters the pooled output"
        evidence = "attention hides it, yet other content of it moves the output by "
        fix = "divide the sum over real tokens by their number"
    else:
        kind = "mask meaning"
        title = "The content of padding moves the output of real tokens"
        evidence, fix = "by up to ", "hide padding from all that mixes tokens"
    yield found(kind, "fault", title, f"{evidence}{far:.3g}", fix, row)


def pools(step) -> bool:
    return step.op in ("mean", "sum", "amax", "max") and step.inputs[0].dim() == 3


@probe("run", "numbers", "attentions", "sequence")
def causality(exam):
    """May each token see the tokens after it?"""
    views = [triangle(a) for a in exam.attentions]
    views = [view for view in views if view]
    if not views or len(set(views)) > 1:
        return
    attention = exam.attentions[0]
    shape, deaf = views[0], deaf_output(exam)
    if shape == "peeks":
        title = "A causal mask that is off by one: each token sees the next"
        evidence = "weights are 0 from the second token to the right on"
        fix = "triu(diagonal=1) for what is hidden"
        yield found("mask meaning", "fault", title, evidence, fix, attention.row)
        return
    title = "Attention is causal: no token sees a later one"
    evidence = "all weights above the diagonal are 0"
    if shape == "reversed":
        title = "Attention is causal backwards: no token sees an earlier one"
        evidence = "all weights below the diagonal are 0"
    evidence += f"; {deaf}" if deaf else ""
    severity = "fault" if deaf else "note" if means_to_be_causal(exam) else "warning"
    fix = "no causal mask in an encoder (is_causal=False)"
    yield found("mask meaning", severity, title, evidence, fix, attention.row)
