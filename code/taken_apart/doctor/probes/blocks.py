"""Probes of the blocks: norms, residuals, the feed-forward."""

import torch

from ...untouched import reseed
from ..evidence.residual_stream import (
    branches,
    carries_attention,
    heard,
    norm_like,
    way_around,
)
from ..evidence.tensor_flow import MOVES
from ..evidence.token_changes import ANY, FUSED, LAYERS
from ..exam import differ
from .kit import found, probe, size


@probe("run")
def doubled_stream(exam):
    """Does each addition join two different things?"""
    kind, fix = "norm / residual / FFN", "keep the block's input: x = x + f(x)"
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        if len(tensors) < 2 or tensors[0].dim() < 2:
            continue
        if tensors[0] is tensors[1]:
            title = "A tensor is added to itself where the residual should join"
            evidence = f"both sides of the sum are the same {size(tensors[0])}"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return
        leaves = summands(exam, step)
        if any(leaves.count(leaf) > 1 for leaf in leaves):
            title = "The same stream joins twice in one sum"
            evidence = f"{len(leaves)} summands, {len(set(leaves))} of them different"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


def summands(exam, step) -> list[int]:
    """Return what a sum of sums adds up, by identity."""
    leaves = []
    for tensor in step.inputs[:2]:
        made = exam.flow.producer(tensor, step.index)
        while made is not None and made.op == "dropout":
            tensor = made.inputs[0]
            made = exam.flow.producer(tensor, made.index)
        nested = made is not None and made.op == "add" and len(made.inputs) > 1
        leaves += summands(exam, made) if nested else [id(tensor)]
    return leaves


@probe("run", "numbers", "root")
def home_made_norms(exam):
    """Does each home-made norm normalise each token by itself?"""
    kind, fix = "norm / residual / FFN", "(x - mean) / sqrt(variance + eps), last axis"
    for path, module in norm_like(exam):
        said = ill_normed(module)
        if said:
            severity, what, evidence = said
            if severity == "warning" and exam.pads is not None:
                severity = "fault"  # then padding enters the statistics
            title = f"{path or type(module).__name__} {what}"
            kind = "nan / precision" if "zero" in what else kind
            row = next((s.row for s in exam.flow.steps if s.row.module == path), None)
            yield found(kind, severity, title, evidence, fix, row)


def ill_normed(module):
    """Try a norm on random tokens: (severity, what it does, evidence) or None."""
    reseed(3)
    gain = next(module.parameters())
    x = torch.randn(2, 5, gain.numel()).to(gain)
    with torch.no_grad():
        y, larger, level = module(x), module(x * 10), module(torch.ones_like(x))
        x[:, 0] += 3 * torch.randn_like(x[:, 0])
        moved = differ(module(x)[:, 1:], y[:, 1:]).any()
    if moved:
        what = "takes its statistics over tokens, not over features"
        return "warning", what, "a change of token 0 moves the output of the others"
    grows = (larger.std(-1) / y.std(-1)).mean().item()
    if not 0.9 < grows < 1.1:
        spread = y.std(-1, unbiased=False)
        evidence = f"input 10 times as large makes output {grows:.3g} times as large, "
        evidence += (
            f"and tokens have a spread of {spread.min():.2g} ... {spread.max():.2g}"
        )
        return "fault", "does not normalise", evidence
    if not level.isfinite().all():
        evidence = "a token whose features are all 1 comes out as nan"
        return "warning", "divides by zero where a token has no spread", evidence
    return None


@probe("run")
def norms_over_tokens(exam):
    """Are statistics taken over the features of one token?"""
    kind, fix = "norm / residual / FFN", "nn.LayerNorm(d_model)"
    severity = "fault" if exam.pads is not None else "warning"
    for step in exam.flow.steps:
        rank = step.inputs[0].dim() if step.inputs else 0
        shape = size(step.inputs[0]) if step.inputs else ""
        if step.op == "batch_norm" and rank == 3:
            title = "Batch norm over tokens: padding and other samples count"
            evidence = f"in training its statistics are over batch and time of {shape}"
        elif step.op == "layer_norm" and len(step.given(1, "normalized_shape", ())) > 1:
            title = "A layer norm over several axes: tokens mix"
            evidence = f"it normalises {tuple(step.given(1, 'normalized_shape'))}"
        elif step.op in ("layer_norm", "rms_norm") and turned(exam.flow, step):
            title = "A norm runs along tokens: its input was transposed"
            evidence = f"it normalises the last axis of {shape}, which holds tokens"
        elif step.op in ("instance_norm", "group_norm") and rank == 3:
            title, evidence = f"{step.op} takes statistics over tokens", f"of {shape}"
        else:
            continue
        yield found(kind, severity, title, evidence, fix, step.row)
        return


def turned(flow, step) -> bool:
    """Say whether the last axis of what a norm reads was another one in the stream."""
    axis = step.inputs[0].dim() - 1
    made = flow.producer(step.inputs[0], step.index)
    while made is not None and made.op in MOVES and made.row.detail:
        axis = made.row.detail[axis]
        made = flow.producer(made.inputs[0], made.index)
    of_stream = made is not None and made.op in LAYERS | FUSED | {"add"}
    return of_stream and axis != made.outputs[0].dim() - 1


@probe("run", "attentions", "sequence")
def residual_paths(exam):
    """Is there a way around each attention and each feed-forward?"""
    if exam.has("norm / residual / FFN"):
        return
    for what, step, stream in branches(exam):
        if not way_around(exam, step, stream):
            title = f"There is no residual around {what}"
            evidence = f"nothing of {size(stream)} reaches the output but through it"
            fix = "x = x + f(x)"
            kind = "norm / residual / FFN"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return
        if what == "the feed-forward" and not carries_attention(exam, step, stream):
            title = "The residual around the feed-forward leaves out the attention"
            evidence = "what attention returned reaches the output only through it"
            fix = "add what goes into the feed-forward, not what went into the layer"
            kind = "norm / residual / FFN"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


@probe("run")
def linear_on_linear(exam):
    """Is there an activation inside each feed-forward?"""
    for step in exam.flow.steps:
        if step.op != "linear" or step.inputs[0].dim() < 3:
            continue
        before = exam.flow.back(
            step.inputs[0], step.index, lambda s: s.op == "linear", {"dropout"}
        )
        if before is None or before[-1].row.note or step.row.note:
            continue
        wide, narrow = before[-1].inputs[1], step.inputs[1]
        if of_projection(exam, before[-1], step):
            title = "A projection follows a projection: two maps are one map"
            evidence = f"{size(wide)} and {size(narrow)}, with nothing between them"
            kind, fix = "projections", "drop one of the two"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return
        if wide.shape[0] > wide.shape[1] and narrow.shape[0] == wide.shape[1]:
            title = "The feed-forward has no activation: two maps are one map"
            evidence = f"{size(wide)} and {size(narrow)} follow each other directly"
            fix = "put a ReLU or GELU between them"
            yield found(
                "norm / residual / FFN", "fault", title, evidence, fix, step.row
            )
            return


def of_projection(exam, inner, outer) -> bool:
    """Say whether two maps, the first for the second alone, make queries, keys, values.

    A narrow first one makes a projection of low rank, which one map is not.
    """
    alone = len(exam.flow.users(inner.outputs[0], inner.index)) == 1
    full = len(inner.inputs[1]) >= min(inner.inputs[1].shape[1], len(outer.inputs[1]))
    lines = [line for a in exam.attentions for line in a.sources.values() if line]
    return alone and full and any(line[-1] is outer for line in lines)


@probe("run", "attentions")
def attention_to_the_stream(exam):
    """Does each layer's attention read what the layers before it have made?"""
    flow, mixes = exam.flow, [a.mix for a in exam.attentions]
    for mix, attention in zip(mixes[1:], exam.attentions[1:]):
        line = attention.sources.get("query") or []
        if attention.opened or not line or line[-1].op != "linear":
            continue
        given = line[-1].inputs[0]
        joins = flow.ahead(mix.outputs[0], mix.index, lambda s: s.op == "add", ANY)
        if joins is None or len(joins[-1].inputs) < 2:
            continue
        earlier = mixes[: mixes.index(mix)]
        sides = [heard(flow, t, joins[-1].index, earlier) for t in joins[-1].inputs]
        if any(sides) and not heard(flow, given, line[-1].index, earlier):
            title = "A later layer's attention reads the input of the first again"
            evidence = "what it returns is added to a stream that it has not seen"
            kind, fix = "norm / residual / FFN", "x = layer(x), with one x for all"
            yield found(kind, "fault", title, evidence, fix, attention.row)
            return


@probe("run", "attentions")
def norms_of_all_three(exam):
    """Do query, key and value see the same stream, all of them normalised or none?"""
    for attention in exam.attentions:
        lines = [attention.sources.get(side) for side in ("query", "key", "value")]
        ends = [line[-1] for line in lines if line]
        if len(ends) < 3 or attention.opened or any(e.op != "linear" for e in ends):
            continue
        given = [end.inputs[0] for end in ends]
        for side, end in enumerate(ends):
            norm = exam.flow.producer(given[side], end.index)
            if norm is None or norm.op not in ("layer_norm", "rms_norm"):
                continue
            if any(other is norm.inputs[0] for other in given):
                title = "Only some of query, key and value are normalised"
                evidence = f"{norm.row.module or 'a norm'} stands before one of them, "
                evidence += "another reads the stream as it came"
                kind, fix = "norm / residual / FFN", "x = norm(x) before all three"
                yield found(kind, "warning", title, evidence, fix, norm.row)
                return


@probe("run", "root")
def shared_norms(exam):
    """Has each place of a block its own norm?"""
    calls = {}
    for step in exam.flow.steps:
        if step.op == "layer_norm" and step.row.module:
            calls.setdefault(step.row.module, []).append(step)
    for path, steps in calls.items():
        lines = {s.row.line for s in steps}
        if len(steps) > 1 and len(lines) > 1:
            title = f"{path} is used in {len(lines)} places"
            evidence = f"lines {', '.join(map(str, sorted(lines)))} share its weights"
            fix = "make one norm for each place"
            kind = "norm / residual / FFN"
            yield found(kind, "warning", title, evidence, fix, steps[0].row)
            return
