"""Probes of masks: padding, causality, rows that do not sum to one."""

from padding import (
    change_of_padding,
    compares_ids,
    deaf_output,
    float_mask,
    means_to_be_causal,
    rows_are_dead,
    triangle,
    view_of_padding,
    weak_fill,
    weights_after,
)
from probes_call import drops
from probing import found, probe


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
    if not views or exam.has("batch/sequence layout", "softmax / scale"):
        return
    leaky = [view for view in views if view.on_pads > 1e-4]
    if not leaky:
        return
    view = leaky[0]
    kind, severity, title, fix = judge_padding(exam, views, leaky)
    evidence = f"real queries give {view.on_pads:.0%} of their weight to padding "
    evidence += f"({len(leaky)} of {len(views)} attentions)"
    if float_mask(view.attention):
        evidence += "; a mask of 0 and 1 was added to the scores"
    yield found(kind, severity, title, evidence, fix, view.attention.row)


def judge_padding(exam, views, leaky):
    """Say why padding is seen: (kind, severity, title, fix)."""
    view = leaky[0]
    meaning, shape = "mask meaning", "mask axis/shape"
    if float_mask(view.attention):
        title = "A float mask of 0 and 1 is added to the scores: it hides nothing"
        return meaning, "fault", title, "use a bool mask, or 0 and -inf"
    if view.on_pads > 0.99:
        title = "The mask is inverted: real tokens attend to padding only"
        return meaning, "fault", title, "negate the mask (~mask)"
    if weights_after(view.attention):
        title = "The mask is applied after the softmax, or not at all"
        return meaning, "fault", title, "fill the scores with -inf before the softmax"
    if len(leaky) < len(views):
        title = "The mask does not reach every layer"
        return meaning, "fault", title, "pass the mask to each layer"
    if view.queries_hidden:
        title = "The mask hides queries, not keys"
        return (
            shape,
            "fault",
            title,
            "put the mask on the last axis: mask[:, None, None]",
        )
    if view.hidden > 0:
        title = "The mask hides the wrong keys: its axes do not line up with the scores"
        return shape, "fault", title, "make it (B, 1, 1, T): mask[:, None, None, :]"
    weak = weak_fill(view.attention)
    if weak is not None:
        title = f"Hidden scores are filled with {weak:g}, which hides little"
        kind = "nan / precision" if weak < -1 else meaning
        return kind, "fault", title, "fill with -inf or torch.finfo(dtype).min"
    if exam.masks or compares_ids(exam):
        title = "There is a mask, and it hides no padding"
        return meaning, "fault", title, "make it from the ids, and use what it returns"
    title = "The inputs seem to have padding, and there is no mask"
    return meaning, "note", title, "hide it: key_padding_mask = ids == pad_id"


@probe("run", "numbers", "sequence", "pads", "output", costly=True)
def padding_content(exam):
    """Is the output the same whatever the padding holds?"""
    if exam.has("mask meaning", severity="note"):
        return
    if exam.has(
        "mask meaning", "mask axis/shape", "nan / precision", "softmax / scale"
    ):
        return
    if exam.has("batch/sequence layout", "head split/merge", "norm / residual / FFN"):
        return
    change = change_of_padding(exam)
    if change is None:
        return
    far, pooled = change
    if far < 1e-4:
        return
    if pooled:
        title = "Padding enters the pooled output"
        evidence = "attention hides it, yet other content of it moves the output by "
        evidence += f"{far:.3g}"
        fix = "divide the sum over real tokens by their number"
        yield found("loss and training", "fault", title, evidence, fix)
    elif exam.attentions:
        title = "The content of padding moves the output of real tokens"
        evidence = f"by up to {far:.3g}"
        fix = "hide padding from every layer that mixes tokens"
        yield found("mask meaning", "fault", title, evidence, fix)


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
