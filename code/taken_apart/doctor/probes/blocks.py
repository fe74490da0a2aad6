"""Probes of the blocks: norms, residuals, the feed-forward."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...untouched import reseed
from ..evidence.hiding import is_of_raw_input
from ..evidence.places import misplaced_sum
from ..evidence.residual_stream import (
    Branch,
    branches,
    bypass_carries_attention,
    depends_on,
    has_bypass,
    is_linear,
)
from ..evidence.skips import Skip, ends_in_norm, skips
from ..evidence.tensor_flow import ANY, CONVOLUTIONS, FUSED, LAYERS, NORMS, Flow, Step
from ..exam import Exam
from ..finding import Finding, Severity
from ..numbers import differ
from .kit import Findings, Wording, dims, found, probe


@probe("run")
def doubled_stream(exam: Exam) -> Findings:
    """Does each addition join two different things?"""
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        if len(tensors) < 2 or tensors[0].dim() < 2:
            continue
        if finding := added_twice(exam, step):
            yield finding
            return


def added_twice(exam: Exam, step: Step) -> Finding | None:
    """Say what a sum holds twice: its two sides, or a stream further up in them."""
    kind, fix = "norm / residual / FFN", "keep the block's input: x = x + f(x)"
    left, right = step.inputs[:2]
    if left is right:
        return found(
            kind,
            "fault",
            title="A tensor is added to itself where the residual should join",
            evidence=f"both sides of the sum are the same {dims(left)}",
            fix=fix,
            at=step.row,
        )
    leaves = summands(exam, step)
    if any(leaves.count(leaf) > 1 for leaf in leaves):
        return found(
            kind,
            "warning",
            title="The same stream joins twice in one sum",
            evidence=f"{len(leaves)} summands, {len(set(leaves))} of them different",
            fix=fix,
            at=step.row,
        )
    return None


def summands(exam: Exam, step: Step) -> list[int]:
    """Return what a sum of sums adds up, by identity."""
    leaves: list[int] = []
    for tensor in step.inputs[:2]:
        made = exam.flow.producer(tensor, step.index)
        while made is not None and made.op == "dropout":
            tensor = made.inputs[0]
            made = exam.flow.producer(tensor, made.index)
        if made is not None and made.op == "add" and len(made.inputs) > 1:
            leaves += summands(exam, made)
        else:
            leaves.append(id(tensor))
    return leaves


@probe("run", "numbers", "root")
def home_made_norms(exam: Exam) -> Findings:
    """Does each home-made norm normalise each token by itself?"""
    for path, module in norm_like(exam):
        problem = tried_norm(module)
        if problem is None:
            continue
        first = next(s for s in exam.flow.steps if s.row.module == path)
        severity = problem.severity
        if severity == "warning" and exam.has_padding:
            severity = "fault"  # then padding enters the statistics
        if problem.over_tokens and is_of_raw_input(exam.flow, first):
            severity = "note"
        yield found(
            problem.kind,
            severity,
            title=f"{path or type(module).__name__} {problem.does}",
            evidence=problem.evidence,
            fix="(x - mean) / sqrt(variance + eps), last axis",
            at=first.row,
        )


def norm_like(exam: Exam) -> Iterator[tuple[str, nn.Module]]:
    """Yield (path, module) of home-made modules that look like a norm of (.., D).

    They hold vectors of one length and nothing else, and take a mean or the like.
    """
    ops: dict[str, set[str]] = {}
    for step in exam.flow.steps:
        ops.setdefault(step.row.module, set()).add(step.op)
    for path, module in exam.modules:
        shapes = {tuple(p.shape) for p in module.parameters()}
        of_torch = type(module).__module__.startswith("torch.")
        if len(shapes) != 1 or of_torch or list(module.children()):
            continue
        shape = shapes.pop()
        vectors = len(shape) == 1 and shape[0] > 1
        if vectors and ops.get(path, set()) & NORM_STATISTICS:
            yield path, module


NORM_STATISTICS = {"mean", "var", "std", "var_mean", "norm", "layer_norm"}


class NormProblem(NamedTuple):
    severity: Severity
    does: str
    evidence: str
    kind: str = "norm / residual / FFN"
    over_tokens: bool = False


def tried_norm(module: nn.Module) -> NormProblem | None:
    """Try a norm; None also for one that wants more than its input."""
    with contextlib.suppress(Exception):
        return norm_problem(module)
    return None


def norm_problem(module: nn.Module) -> NormProblem | None:
    """Try a norm on random tokens (2, 5, D), larger ones, and one without spread."""
    reseed(3)
    gain = next(module.parameters())
    x = torch.randn(2, 5, gain.numel()).to(gain)
    with torch.no_grad():
        y, larger, level = module(x), module(x * 10), module(torch.ones_like(x))
        x[:, 0] += 3 * torch.randn_like(x[:, 0])
        moved = differ(module(x)[:, 1:], y[:, 1:]).any()
    if moved:
        return NormProblem(
            "warning",
            does="takes its statistics over tokens, not over features",
            evidence="a change of token 0 moves the output of the others",
            over_tokens=True,
        )
    if problem := grows_with_input(y, larger):
        return problem
    if not level.isfinite().all():
        return NormProblem(
            "warning",
            does="divides by zero where a token has no spread",
            evidence="a token whose features are all 1 comes out as nan",
            kind="nan / precision",
        )
    return None


def grows_with_input(y: Tensor, larger: Tensor) -> NormProblem | None:
    """Compare what a norm makes of tokens, and of tokens 10 times as large."""
    grows = (larger.std(-1) / y.std(-1)).mean().item()
    if 0.9 < grows < 1.1:
        return None
    spread = y.std(-1, unbiased=False)
    return NormProblem(
        "fault",
        does="does not normalise",
        evidence=(
            f"input 10 times as large makes output {grows:.3g} times as large, "
            f"and tokens have a spread of {spread.min():.2g} ... {spread.max():.2g}"
        ),
    )


@probe("run")
def norms_over_tokens(exam: Exam) -> Findings:
    """Are statistics taken over the features of one token?"""
    for step in exam.flow.steps:
        rank = step.inputs[0].dim() if step.inputs else 0
        shape = dims(step.inputs[0]) if step.inputs else ""
        if step.op == "batch_norm" and rank == 3:
            title = "Batch norm over tokens: padding and other samples count"
            evidence = f"in training its statistics are over batch and time of {shape}"
        elif step.op == "layer_norm" and len(step.given(1, "normalized_shape", ())) > 1:
            title = "A layer norm over several axes: tokens mix"
            evidence = f"it normalises {tuple(step.given(1, 'normalized_shape'))}"
        elif step.op in NORMS and is_transposed(exam.flow, step):
            title = "A norm runs along tokens: its input was transposed"
            evidence = f"it normalises the last axis of {shape}, which holds tokens"
        elif step.op in ("instance_norm", "group_norm") and rank == 3:
            title, evidence = f"{step.op} takes statistics over tokens", f"of {shape}"
        else:
            continue
        yield found(
            "norm / residual / FFN",
            harm_of_norm(exam, step),
            title=title,
            evidence=evidence,
            fix="nn.LayerNorm(d_model)",
            at=step.row,
        )
        return


def harm_of_norm(exam: Exam, step: Step) -> Severity:
    """Say how bad statistics over tokens are: padding would enter them."""
    words = exam.has_sequence and exam.sequence.is_ids
    by_design = step.op == "batch_norm" and not words and not exam.has_padding
    if by_design or prepares(exam.flow, step):
        return "note"
    return "fault" if exam.has_padding else "warning"


def prepares(flow: Flow, step: Step) -> bool:
    """Say whether a norm works on what came in, or on what a convolution returned."""
    made = flow.line(step.inputs[0], step.index) if step.inputs else []
    convolved = bool(made) and made[-1].op in CONVOLUTIONS
    return convolved or is_of_raw_input(flow, step)


def is_transposed(flow: Flow, step: Step) -> bool:
    """Say whether the last axis of what a norm reads was another one in the stream."""
    axis = step.inputs[0].dim() - 1
    made = flow.producer(step.inputs[0], step.index)
    while made is not None and made.order:
        axis = made.order[axis]
        made = flow.producer(made.inputs[0], made.index)
    if made is None or made.op not in LAYERS | FUSED | {"add"}:
        return False
    return axis != made.outputs[0].dim() - 1


@probe("run", "attentions", "sequence")
def residual_paths(exam: Exam) -> Findings:
    """Is there a way around each attention and each feed-forward?"""
    if exam.has("norm / residual / FFN"):
        return
    for branch in branches(exam):
        if problem := missing_residual(exam, branch):
            kind, row = "norm / residual / FFN", branch.step.row
            yield found(kind, "warning", **problem, at=row)
            return


def missing_residual(exam: Exam, branch: Branch) -> Wording | None:
    """Say what does not get around a branch: the stream, or the attention before it."""
    if not has_bypass(exam, branch):
        return Wording(
            title=f"There is no residual around {branch.name}",
            evidence=(
                f"nothing of {dims(branch.stream)} reaches the output but through it"
            ),
            fix="x = x + f(x)",
        )
    feed_forward = branch.name == "the feed-forward"
    if feed_forward and not bypass_carries_attention(exam, branch):
        return Wording(
            title="The residual around the feed-forward leaves out the attention",
            evidence="what attention returned reaches the output only through it",
            fix="add what goes into the feed-forward, not what went into the layer",
        )
    return None


@probe("run")
def linear_on_linear(exam: Exam) -> Findings:
    """Is there an activation inside each feed-forward?"""
    for step in exam.flow.steps:
        if step.op != "linear" or step.inputs[0].dim() < 3:
            continue
        before = exam.flow.back(step.inputs[0], step.index, is_linear, {"dropout"})
        if before is None or before[-1].row.note or step.row.note:
            continue
        if finding := one_map_in_two(exam, before[-1], step):
            yield finding
            return


def one_map_in_two(exam: Exam, inner: Step, outer: Step) -> Finding | None:
    """Say what two maps without anything between them are meant to be."""
    wide, narrow = inner.inputs[1], outer.inputs[1]
    if of_projection(exam, inner, outer):
        return found(
            "projections",
            "warning",
            title="A projection follows a projection: two maps are one map",
            evidence=f"{dims(wide)} and {dims(narrow)}, with nothing between them",
            fix="drop one of the two",
            at=outer.row,
        )
    if wide.shape[0] > wide.shape[1] and narrow.shape[0] == wide.shape[1]:
        return found(
            "norm / residual / FFN",
            "fault",
            title="The feed-forward has no activation: two maps are one map",
            evidence=f"{dims(wide)} and {dims(narrow)} follow each other directly",
            fix="put a ReLU or GELU between them",
            at=outer.row,
        )
    return None


def of_projection(exam: Exam, inner: Step, outer: Step) -> bool:
    """Say whether two maps, the first for the second alone, make queries, keys, values.

    A narrow first one makes a projection of low rank, which one map is not.
    """
    alone = len(exam.flow.users(inner.outputs[0], inner.index)) == 1
    full = len(inner.inputs[1]) >= min(inner.inputs[1].shape[1], len(outer.inputs[1]))
    layers = [a.source(side) for a in exam.attentions for side in a.sources]
    return alone and full and any(layer is outer for layer in layers)


@probe("run", "attentions")
def attention_to_the_stream(exam: Exam) -> Findings:
    """Does each layer's attention read what the layers before it have made?"""
    flow, mixes = exam.flow, [a.mix for a in exam.attentions]
    for i, attention in enumerate(exam.attentions):
        mix, earlier = attention.mix, mixes[:i]
        layers = [attention.source(side) for side in ("query", "key", "value")]
        if not earlier or attention.is_recomputed:
            continue
        if any(layer is None or layer.op != "linear" for layer in layers):
            continue
        path = flow.ahead(mix.outputs[0], mix.index, lambda s: s.op == "add", ANY)
        if path is None or len(path[-1].inputs) < 2:
            continue
        join = path[-1]
        added = [depends_on(flow, t, join.index, earlier) for t in join.inputs]
        reads = [(s.inputs[0], s.index) for s in layers if s is not None]
        if any(added) and not any(depends_on(flow, *read, earlier) for read in reads):
            yield found(
                "norm / residual / FFN",
                "fault",
                title="A later layer's attention reads the input of the first again",
                evidence="what it returns is added to a stream that it has not seen",
                fix="x = layer(x), with one x for all",
                at=attention.row,
            )
            return


@probe("run", "attentions")
def norms_of_all_three(exam: Exam) -> Findings:
    """Do query, key and value see the same stream, all of them normalised or none?"""
    for attention in exam.attentions:
        layers = [attention.source(side) for side in ("query", "key", "value")]
        layers = [layer for layer in layers if layer and layer.op == "linear"]
        if len(layers) < 3 or attention.is_recomputed:
            continue
        given = [layer.inputs[0] for layer in layers]
        for layer in layers:
            norm = exam.flow.producer(layer.inputs[0], layer.index)
            if norm is None or norm.op not in NORMS:
                continue
            if any(other is norm.inputs[0] for other in given):
                yield found(
                    "norm / residual / FFN",
                    "warning",
                    title="Only some of query, key and value are normalised",
                    evidence=(
                        f"{norm.row.module or 'a norm'} stands before one of them, "
                        "another reads the stream as it came"
                    ),
                    fix="x = norm(x) before all three",
                    at=norm.row,
                )
                return


@probe("run", "attentions")
def skips_start_alike(exam: Exam) -> Findings:
    """Do the skips of a block start all before a norm, or all behind one?"""
    if exam.has("norm / residual / FFN"):
        return
    pairs = [pair for pair in itertools.pairwise(skips(exam)) if is_block(*pair)]
    mixed = [pair for pair in pairs if pair[0].before_norm != pair[1].before_norm]
    early = [one if one.before_norm else two for one, two in mixed]
    # One block alone may be followed by the norm that ends a Pre-LN stack.
    if len(mixed) < 2 or not all(ends_in_norm(exam.flow, skip) for skip in early):
        return
    yield found(
        "norm / residual / FFN",
        "warning",
        title="One skip of a block starts before a norm, the other behind one",
        evidence=(
            f"in {len(mixed)} blocks the skip around {early[0].branch.name} holds what "
            "the norm has not seen, though its sum is normalised again"
        ),
        fix="x = norm1(x + attention(x)); x = norm2(x + feed_forward(x))",
        at=early[0].end.row,
    )


def is_block(one: Skip, two: Skip) -> bool:
    """Say whether two skips are those around an attention and its feed-forward."""
    names = one.branch.name, two.branch.name
    return names == ("the attention", "the feed-forward")


@probe("run", "attentions")
def sums_of_one_place(exam: Exam) -> Findings:
    """Do both sides of a residual stand at the same places?"""
    if exam.has("batch/sequence layout", "head split/merge"):
        return
    found_at = misplaced_sum(exam.flow)
    if found_at is None:
        return
    step, side = found_at
    labels = side.labels[..., 0].flatten()
    yield found(
        "batch/sequence layout",
        "fault",
        title="A residual adds what was computed at one place to another",
        evidence=(
            f"of {len(labels)} rows of {dims(step.value)} some come back in another "
            "order than they went in"
        ),
        fix="undo a permute by its inverse permute, before the reshape",
        at=side.moved.row if side.moved else step.row,
    )


@probe("run", "root")
def shared_norms(exam: Exam) -> Findings:
    """Has each place of a block its own norm?"""
    calls: dict[str, list[Step]] = {}
    for step in exam.flow.steps:
        if step.op == "layer_norm" and step.row.module:
            calls.setdefault(step.row.module, []).append(step)
    for path, steps in calls.items():
        lines = sorted({s.row.line for s in steps})
        if len(lines) > 1:
            yield found(
                "norm / residual / FFN",
                "warning",
                title=f"{path} is used in {len(lines)} places",
                evidence=f"lines {', '.join(map(str, lines))} share its weights",
                fix="make one norm for each place",
                at=steps[0].row,
            )
            return
