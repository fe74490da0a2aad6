"""Probes of attention: who meets whom, heads, projections, softmax, weights."""

import math

import torch
from exam import differ
from flow import PRODUCTS, REARRANGES, letters, operands
from influence import (
    batch_first_for_sure,
    followed,
    heads,
    inner_width,
    is_of_tokens,
    leak_between_samples,
    meeting,
    meeting_of_places,
    merged,
    model_width,
    moved_along,
    normalised,
    other_samples,
    scores,
)
from probing import found, probe, size
from stream import (
    gradients,
)

# --- who meets whom ------------------------------------------------------------------


READERS = {"linear", "layer_norm", "multi_head_attention_forward"}


@probe("run", "numbers", "attentions")
def channels_as_tokens(exam):
    """After a convolution, are channels the features of each place?"""
    for conv in exam.flow.steps:
        if conv.op not in ("conv1d", "conv2d"):
            continue
        places = torch.arange(conv.value[0, 0].numel()).view(conv.value[0, 0].shape)
        labels, steps, users = followed(exam.flow, conv, places.expand_as(conv.value))
        read = any(user.op in READERS for user in users)
        if read and bool((labels != labels[..., :1]).any()):
            end = (steps[-1] if steps else conv).outputs[0]
            title = "Channels of a convolution are not the features of its places"
            evidence = f"{size(conv.value)} = (B, channels, places) is read as "
            evidence += f"{size(end)}, whose last axis runs over places"
            fix = "flatten(2).transpose(1, 2) between the convolution and the encoder"
            kind = "batch/sequence layout"
            yield found(kind, "fault", title, evidence, fix, conv.row)
            return


@probe("run", "numbers")
def pieces_of_images(exam):
    """Does each token hold one piece of its image, with all channels of its places?"""
    for image, given in zip(exam.tensors, exam.flow.given):
        if any(image is known for known in exam.images):
            yield from pieces(exam, image, given, -1)
    for step in exam.flow.steps:
        if step.op in ("conv2d", "conv3d"):
            yield from pieces(exam, step.value, step.outputs[0], step.index)


def pieces(exam, image, given, after):
    """Follow the entries of an image to who reads rows of them."""
    labels = torch.arange(image.numel()).view(image.shape)
    labels, steps, users = moved_along(exam.flow, given, after, labels)
    for user in users if steps else ():
        axis = read_along(user, steps[-1].outputs[0])
        rows = () if axis is None else labels.movedim(axis, -1).flatten(0, -2)
        row = next((row for row in rows if not is_box(row, image)), None)
        if row is not None:
            step, places = steps[-1], torch.unravel_index(row, image.shape)
            apart = [len(place.unique()) for place in places]
            title = "Tokens do not hold whole pieces of their images"
            evidence = f"{len(row)} features of one token of {size(step.outputs[0])} "
            evidence += f"are strewn over {tuple(apart)} places of {size(image)}"
            fix = "split axes with reshape, order them with permute, then join them"
            kind = "batch/sequence layout"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return


def read_along(user, tensor) -> int | None:
    """Return the axis along which a step reads a tensor as features."""
    if user.op in READERS:
        return -1
    spelt = letters(user) if user.op in PRODUCTS else None
    if spelt is None:
        return None
    mine, other = spelt[:2] if operands(user)[0] is tensor else spelt[1::-1]
    shared = [c for c in mine if c in other and c not in spelt[2]]
    return mine.index(shared[0]) if len(shared) == 1 else None


def is_box(labels, image) -> bool:
    """Say whether numbered entries of an image fill a box: all of some of each axis."""
    places = torch.unravel_index(labels, image.shape)
    return math.prod(len(place.unique()) for place in places) == len(labels)


@probe("run", "numbers", "samples", "attentions")
def attended_axis(exam):
    """Does attention run over the tokens of a sample, not over samples or heads?"""
    first = meeting(exam) if exam.sequence else meeting_of_places(exam)
    if first is None or first.axis == "tokens":
        return
    row, seq, n = first.attention.row, exam.samples, exam.samples.n_samples
    if first.axis == "samples":
        shape = size(exam.output) if exam.output is not None else "nothing"
        title = "Attention runs over the batch: samples see each other"
        evidence = f"the weights are {size(first.attention.weights)}: with inputs "
        evidence += f"{size(seq.tensor)} they pair the axis of size {n}; tokens of one "
        evidence += f"sample never meet; the output is {shape}"
        fix = "batch_first=True, or transpose(0, 1) before and after"
        severity = "fault" if batch_first_for_sure(exam) else "warning"
        yield found("batch/sequence layout", severity, title, evidence, fix, row)
    elif first.axis == "features":
        title = "Attention runs over heads or features: tokens never meet"
        evidence = f"the weights are {size(first.attention.weights)}: each token pairs "
        evidence += "its own heads, and a change of it reaches no other"
        fix = "transpose(1, 2) after the split into heads: (B, H, T, K)"
        yield found("head split/merge", "fault", title, evidence, fix, row)


@probe("run", "numbers", "sequence", "attentions", "batch")
def scrambled_split(exam):
    """Does each head hold whole tokens after the split?"""
    first = meeting(exam)
    if first is None or first.guilty is None:
        return
    step, severity = first.guilty, "fault"
    if step.op in STATISTICS:
        kind, title = "norm / residual / FFN", "A norm mixes the tokens of a sample"
        fix = "take mean and variance over the last axis only"
        severity = "warning" if exam.pads is None else "fault"
    elif step.op not in REARRANGES:
        return
    elif first.projected:
        kind, title = "head split/merge", "The split into heads mixes tokens"
        fix = "view(B, T, H, K).transpose(1, 2): split the last axis, then move it"
    else:
        kind, title = "batch/sequence layout", "A reshape mixes samples and tokens"
        fix = "move axes with transpose or permute, not with view or reshape"
    evidence = f"one changed token was one row before {step.op} {size(step.inputs[0])} "
    evidence += f"-> {size(step.outputs[0])}, and is spread over several rows after it"
    yield found(kind, severity, title, evidence, fix, step.row)


STATISTICS = set("mean var std var_mean std_mean layer_norm instance_norm".split())
STATISTICS |= {"batch_norm", "group_norm", "sub", "div", "mul", "pow", "rsqrt"}


@probe("run", "numbers", "samples", "output")
def samples_heard(exam):
    """Does the output have an entry for each sample, made from that sample?"""
    kind, seq, shape = "batch/sequence layout", exam.samples, exam.output.shape
    known = exam.has(kind, "nan / precision")
    known |= exam.has(kind, "train/eval and fast path", severity="warning")
    if known or not exam.attentions:
        return
    if exam.sequence and seq.n_samples not in shape and seq.n_tokens in shape[:1]:
        title = "The output has an entry for each token and none for each sample"
        evidence = f"{size(seq.tensor)} goes in, {size(exam.output)} comes out"
        fix = "pool over the axis of tokens, not over the batch"
        yield found(kind, "fault", title, evidence, fix)
        return
    swap = exam.changed_at(seq.n_samples - 1)
    after = exam.run(swap) if exam.is_change(swap) else None
    before = exam.run() or []
    if after is not None and all(map(torch.equal, before, after)):
        title = "The last sample has no part in any output"
        evidence = "other content of it changes nothing"
        fix = "read along the axis of tokens: x[:, 0], not x[0]"
        yield found(kind, "fault", title, evidence, fix)


@probe("run", "sequence", "attentions")
def features_pooled(exam):
    """Does pooling run over tokens, and not over features?"""
    n_tokens, last = exam.sequence.n_tokens, max(a.mix.index for a in exam.attentions)
    for step in exam.flow.steps[last:]:
        pools = step.op in ("mean", "sum", "amax", "max") and step.inputs[0].dim() == 3
        if not pools or step.value.shape != step.inputs[0].shape[:2]:
            continue
        users = exam.flow.users(step.outputs[0], step.index)
        maps = [u for u in users if u.op == "linear"]
        if any(user.inputs[1].shape[-1] == n_tokens for user in maps):
            title = "Pooling averages features and keeps tokens"
            evidence = f"{size(step.inputs[0])} -> {size(step.outputs[0])}: one number "
            evidence += "a token is left, and the next map only fits this length"
            kind, fix = "batch/sequence layout", "pool over the tokens: x.mean(1)"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return


@probe("run", "numbers", "samples", "output", costly=True)
def samples_apart(exam):
    """Is each sample's output independent of the other samples?"""
    if exam.has("batch/sequence layout", "head split/merge", "nan / precision"):
        return
    if exam.has("batch/sequence layout", severity="warning"):
        return
    for what, swap in other_samples(exam):
        leak = leak_between_samples(exam, swap)
        if not leak:
            continue
        step, far = leak
        merge = step is not None and step.op in REARRANGES and of_heads(exam, step)
        if what == "mask":
            kind, title = "mask axis/shape", "A sample's mask acts on other samples"
            fix = "keep the mask's batch axis on the batch: mask[:, None, None, :]"
        elif step is not None and step.op in ("batch_norm", "instance_norm"):
            kind, title = "norm / residual / FFN", "A norm mixes samples"
            fix = "use nn.LayerNorm"
        elif merge:
            kind, title = "head split/merge", "The merge of the heads mixes samples"
            fix = "permute to (B, T, H, K) before the reshape to (B, T, D)"
        else:
            kind, title = "batch/sequence layout", "Samples of a batch see each other"
            fix = "keep the batch axis apart: no reshape or mean across it"
        evidence = f"a change of sample 0 moves other samples' outputs by {far:.3g}"
        row = step.row if step is not None else None
        yield found(kind, "fault", title, evidence, fix, row)
        return


def of_heads(exam, step) -> bool:
    """Say whether a step rearranges what attention returned, before anything else."""
    mixes = [a.mix for a in exam.attentions]
    path = exam.flow.back(step.inputs[0], step.index, lambda s: s in mixes)
    return path is not None


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
