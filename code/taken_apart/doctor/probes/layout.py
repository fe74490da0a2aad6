"""Probes of the layout: who meets whom, samples, tokens, places of images."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..evidence.attentions import (
    PRODUCTS,
    SDPA,
    Attention,
    is_product,
    letters,
    operands,
)
from ..evidence.hiding import is_of_raw_input
from ..evidence.sample_leaks import leak_between_samples, other_samples
from ..evidence.tensor_flow import REARRANGES, Flow, Step, same_operations
from ..evidence.token_changes import (
    batch_first_for_sure,
    changed_flows,
    confined_axes,
    image_pairing,
    real_token,
    token_pairing,
)
from ..evidence.token_labels import followed, moved_along
from ..exam import Exam
from ..finding import Finding, Severity
from ..numbers import differ
from .kit import Findings, Reason, dims, found, probe

READERS = {"linear", "layer_norm", "multi_head_attention_forward"}


@probe("run", "numbers", "attentions")
def channels_as_tokens(exam: Exam) -> Findings:
    """After a convolution, are channels the features of each place?"""
    for conv in exam.flow.steps:
        if conv.op not in ("conv1d", "conv2d"):
            continue
        places = torch.arange(conv.value[0, 0].numel()).view(conv.value[0, 0].shape)
        labels, steps, users = followed(exam.flow, conv, places.expand_as(conv.value))
        read = any(user.op in READERS for user in users)
        if read and bool((labels != labels[..., :1]).any()):
            end = (steps[-1] if steps else conv).outputs[0]
            yield found(
                "batch/sequence layout",
                "fault",
                title="Channels of a convolution are not the features of its places",
                evidence=(
                    f"{dims(conv.value)} = (B, channels, places) is read as "
                    f"{dims(end)}, whose last axis runs over places"
                ),
                fix=(
                    "flatten(2).transpose(1, 2) between the convolution and the encoder"
                ),
                at=conv.row,
            )
            return


@probe("run", "numbers")
def pieces_of_images(exam: Exam) -> Findings:
    """Does each token hold one piece of its image, with all channels of its places?"""
    for image, given in zip(exam.tensors, exam.flow.given, strict=False):
        if any(image is known for known in exam.images):
            yield from pieces(exam, image, given, -1)
    for step in exam.flow.steps:
        if step.op in ("conv2d", "conv3d"):
            yield from pieces(exam, step.value, step.outputs[0], step.index)


def pieces(exam: Exam, image: Tensor, given: Tensor, after: int) -> Findings:
    """Follow the entries of an image to who reads rows of them."""
    labels = torch.arange(image.numel()).view(image.shape)
    labels, steps, users = moved_along(exam.flow, given, after, labels)
    for user in users if steps else ():
        axis = read_along(user, steps[-1].outputs[0])
        rows = () if axis is None else labels.movedim(axis, -1).flatten(0, -2)
        row = next((row for row in rows if not is_box(row, image)), None)
        if row is not None:
            step, places = steps[-1], torch.unravel_index(row, image.shape)
            spread = tuple(len(place.unique()) for place in places)
            yield found(
                "batch/sequence layout",
                "fault",
                title="Tokens do not hold whole pieces of their images",
                evidence=(
                    f"{len(row)} features of one token of {dims(step.outputs[0])} "
                    f"are strewn over {spread} places of {dims(image)}"
                ),
                fix="split axes with reshape, order them with permute, then join them",
                at=step.row,
            )
            return


def read_along(user: Step, tensor: Tensor) -> int | None:
    """Return the axis along which a step reads a tensor as features."""
    if user.op in READERS:
        return -1
    spelt = letters(user) if user.op in PRODUCTS else None
    if spelt is None:
        return None
    mine, other = spelt[:2] if operands(user)[0] is tensor else spelt[1::-1]
    shared = [c for c in mine if c in other and c not in spelt[2]]
    return mine.index(shared[0]) if len(shared) == 1 else None


def is_box(labels: Tensor, image: Tensor) -> bool:
    """Say whether numbered entries of an image fill a box: all of some of each axis."""
    places = torch.unravel_index(labels, image.shape)
    return math.prod(len(place.unique()) for place in places) == len(labels)


@probe("run", "numbers", "samples", "attentions")
def attended_axis(exam: Exam) -> Findings:
    """Does attention run over the tokens of a sample, not over samples or heads?"""
    first = token_pairing(exam) if exam.has_sequence else image_pairing(exam)
    if first is None or first.axis == "tokens":
        return
    if first.axis == "samples":
        yield attention_over_samples(exam, first.attention)
    elif first.axis == "features":
        yield found(
            "head split/merge",
            "fault",
            title="Attention runs over heads or features: tokens never meet",
            evidence=(
                f"the weights are {dims(first.attention.weights)}: each token pairs "
                "its own heads, and a change of it reaches no other"
            ),
            fix="transpose(1, 2) after the split into heads: (B, H, T, K)",
            at=first.attention.row,
        )


def attention_over_samples(exam: Exam, attention: Attention) -> Finding:
    seq, shape = exam.samples, dims(exam.output) if exam.outputs else "nothing"
    return found(
        "batch/sequence layout",
        "fault" if batch_first_for_sure(exam) else "warning",
        title="Attention runs over the batch: samples see each other",
        evidence=(
            f"the weights are {dims(attention.weights)}: with inputs "
            f"{dims(seq.tensor)} they pair the axis of size {seq.n_samples}; tokens of "
            f"one sample never meet; the output is {shape}"
        ),
        fix="batch_first=True, or transpose(0, 1) before and after",
        at=attention.row,
    )


@probe("run", "numbers", "sequence", "batch")
def tokens_meet(exam: Exam) -> Findings:
    """Do weights carry what one token holds to the others?"""
    flows = changed_flows(exam)
    known = [a.step for a in exam.attentions]  # these weigh values
    softmaxes = [s for s in exam.flow.steps if s.op == "softmax" and s not in known]
    ends = [exam.flow.ahead(s.outputs[0], s.index, is_product) for s in softmaxes]
    ends = [path[-1] for path in ends if path and path[-1].op != SDPA]
    if not ends or not flows or exam.has("head split/merge"):
        return
    # Under a causal mask one end of the sequence moves itself alone, but not both.
    first = exam.observe(exam.changed_at(0, 0))
    runs = [(flows[0], real_token(exam)), (first, 0)]
    if all(moves_itself_only(exam, ends[0], flow, token) for flow, token in runs):
        yield found(
            "head split/merge",
            "fault",
            title="Weights are computed, and no token hears another by them",
            evidence=(
                "past the product with the values a changed token moves itself only"
            ),
            fix="sum over the keys: the values' token letter is that of the keys",
            at=ends[0].row,
        )


def moves_itself_only(exam: Exam, step: Step, flow: Flow, token: int) -> bool:
    """Say whether another token in sample 0 moves its own place alone in a step."""
    if not same_operations(exam.flow, flow):
        return False
    where = confined_axes(differ(step.value, flow.steps[step.index].value))
    n_tokens = exam.sequence.n_tokens
    return any(
        index == token and step.value.shape[axis] == n_tokens
        for axis, index in where.items()
    )


NORM_MIXES = Reason(
    "norm / residual / FFN",
    title="A norm mixes the tokens of a sample",
    fix="take mean and variance over the last axis only",
)
SPLIT_MIXES = Reason(
    "head split/merge",
    title="The split into heads mixes tokens",
    fix="view(B, T, H, K).transpose(1, 2): split the last axis, then move it",
)
RESHAPE_MIXES = Reason(
    "batch/sequence layout",
    title="A reshape mixes samples and tokens",
    fix="move axes with transpose or permute, not with view or reshape",
)


@probe("run", "numbers", "sequence", "attentions", "batch")
def scrambled_split(exam: Exam) -> Findings:
    """Does each head hold whole tokens after the split?"""
    first = token_pairing(exam)
    if first is None or first.scrambling_step is None:
        return
    step = first.scrambling_step
    if step.op in STATISTICS:
        severity: Severity = "fault" if exam.has_padding else "warning"
        if is_of_raw_input(exam.flow, step):
            severity = "note"  # each series is brought to one scale, by design
        reason = NORM_MIXES._replace(severity=severity)
    elif step.op in REARRANGES:
        reason = SPLIT_MIXES if first.projected else RESHAPE_MIXES
    else:
        return
    yield found(
        reason.kind,
        reason.severity,
        title=reason.title,
        evidence=(
            f"one changed token was one row before {step.op} {dims(step.inputs[0])} "
            f"-> {dims(step.outputs[0])}, and is spread over several rows after it"
        ),
        fix=reason.fix,
        at=step.row,
    )


# What a norm consists of, by hand or by torch.
STATISTICS = {"mean", "var", "std", "var_mean", "std_mean"}
STATISTICS |= {"layer_norm", "instance_norm", "batch_norm", "group_norm"}
STATISTICS |= {"sub", "div", "mul", "pow", "rsqrt"}


@probe("run", "numbers", "samples", "output")
def samples_in_output(exam: Exam) -> Findings:
    """Does the output have an entry for each sample, made from that sample?"""
    kind, seq, shape = "batch/sequence layout", exam.samples, exam.output.shape
    known = exam.has(kind, "nan / precision")
    known |= exam.has(kind, "train/eval and fast path", severity="warning")
    if known or not exam.attentions:
        return
    if exam.has_sequence and seq.n_samples not in shape and seq.n_tokens in shape[:1]:
        yield found(
            kind,
            "fault",
            title="The output has an entry for each token and none for each sample",
            evidence=f"{dims(seq.tensor)} goes in, {dims(exam.output)} comes out",
            fix="pool over the axis of tokens, not over the batch",
        )
        return
    if changes_nothing(exam, seq.n_samples - 1) and not changes_nothing(exam, None):
        yield found(
            kind,
            "fault",
            title="The last sample has no part in any output",
            evidence="other content of it changes nothing",
            fix="read along the axis of tokens: x[:, 0], not x[0]",
        )


def changes_nothing(exam: Exam, sample: int | None) -> bool:
    """Say whether other content of a sample, or of all, changes no output."""
    swap = exam.changed_at(sample)
    after = exam.run(swap) if exam.is_change(swap) else None
    before = exam.fast_outputs or []
    return after is not None and all(map(torch.equal, before, after))


@probe("run", "numbers", "sequence", "output", costly=True)
def batch_of_one(exam: Exam) -> Findings:
    """Does the output keep its axes when the batch is one sample, or two?"""
    seq, swap = exam.sequence, {}
    if seq.batch_axis is None:
        return
    for tensor in exam.tensors:
        if tensor.dim() > seq.batch and tensor.shape[seq.batch] == seq.n_samples:
            one = tensor.narrow(seq.batch, 0, 1)
            swap[tensor] = (
                one if seq.n_samples > 1 else torch.cat([one, one], seq.batch)
            )
    other = exam.run(swap) if swap else None
    if other and other[0].dim() != exam.output.dim():
        few, many = sorted([other[0], exam.output], key=Tensor.dim)
        yield found(
            "batch/sequence layout",
            "fault",
            title="A batch of one sample loses its axis",
            evidence=f"one sample gives {dims(few)}, several give {dims(many)}",
            fix="squeeze(1), or x[:, 0], and not squeeze()",
        )


@probe("run", "sequence", "attentions")
def features_pooled(exam: Exam) -> Findings:
    """Does pooling run over tokens, and not over features?"""
    n_tokens, last = exam.sequence.n_tokens, max(a.mix.index for a in exam.attentions)
    for step in exam.flow.steps[last:]:
        pools = step.op in ("mean", "sum", "amax", "max") and step.inputs[0].dim() == 3
        if not pools or step.value.shape != step.inputs[0].shape[:2]:
            continue
        users = exam.flow.users(step.outputs[0], step.index)
        maps = [u for u in users if u.op == "linear"]
        if any(user.inputs[1].shape[-1] == n_tokens for user in maps):
            yield found(
                "batch/sequence layout",
                "fault",
                title="Pooling averages features and keeps tokens",
                evidence=(
                    f"{dims(step.inputs[0])} -> {dims(step.outputs[0])}: one number "
                    "a token is left, and the next map only fits this length"
                ),
                fix="pool over the tokens: x.mean(1)",
                at=step.row,
            )
            return


@probe("run", "numbers", "samples", "output", costly=True)
def samples_apart(exam: Exam) -> Findings:
    """Is each sample's output independent of the other samples?"""
    if exam.has("batch/sequence layout", "head split/merge", "nan / precision"):
        return
    if exam.has("batch/sequence layout", severity="warning"):
        return
    for what, swap in other_samples(exam):
        leak = leak_between_samples(exam, swap)
        if not leak:
            continue
        reason = explain_leak(exam, what, leak.step)
        yield found(
            reason.kind,
            "fault",
            title=reason.title,
            evidence=(
                "a change of sample 0 moves other samples' outputs by "
                f"{leak.distance:.3g}"
            ),
            fix=reason.fix,
            at=leak.step.row if leak.step is not None else None,
        )
        return


def explain_leak(exam: Exam, what: str, step: Step | None) -> Reason:
    """Name how samples meet, by the step that first carries it."""
    if what == "mask":
        return Reason(
            "mask axis/shape",
            title="A sample's mask acts on other samples",
            fix="keep the mask's batch axis on the batch: mask[:, None, None, :]",
        )
    if step is not None and step.op in ("batch_norm", "instance_norm"):
        return Reason(
            "norm / residual / FFN",
            title="A norm mixes samples",
            fix="use nn.LayerNorm",
        )
    if step is not None and step.op in REARRANGES and of_heads(exam, step):
        return Reason(
            "head split/merge",
            title="The merge of the heads mixes samples",
            fix="permute to (B, T, H, K) before the reshape to (B, T, D)",
        )
    return Reason(
        "batch/sequence layout",
        title="Samples of a batch see each other",
        fix="keep the batch axis apart: no reshape or mean across it",
    )


def of_heads(exam: Exam, step: Step) -> bool:
    """Say whether a step rearranges what attention returned, before anything else."""
    mixes = [a.mix for a in exam.attentions]
    path = exam.flow.back(step.inputs[0], step.index, lambda s: s in mixes)
    return path is not None
