"""The doctor's probes, in the order of their weight: earlier ones explain later ones.

A probe is a function of an `Exam` that returns its findings. Its docstring is the
question it answers. To add one, write it where it belongs in that order:

    @probe("run", "attentions")  # what it needs, see NEEDS; costly=True: not if quick
    def rows_that_see_nothing(exam):
        "Does every query see some key?"
        for attention in exam.attentions:
            if (attention.used.sum(-1) == 0).any():
                title = "A query sees no key at all"
                yield found("nan / precision", "warning", title, "its row is zero",
                            "leave one key open", attention.row)
"""

import functools
import math
import os
import re

import torch
from axes import tensors_in
from exam import Finding, differ, reseed
from flow import PASSES, PRODUCTS, REARRANGES, memory
from influence import (
    ACTIVATIONS,
    apart_where_real,
    batch_first_for_sure,
    branches,
    called_modules,
    change_of_padding,
    compares_ids,
    deaf_output,
    depth,
    filled_attributes,
    float_mask,
    gradients,
    heads,
    inner_width,
    is_table_sum,
    leak_between_samples,
    means_to_be_causal,
    meeting,
    merged,
    model_width,
    modes_changed,
    norm_like,
    normalised,
    other_samples,
    real_queries,
    rows_are_dead,
    scores,
    tables,
    triangle,
    unused_steps,
    view_of_padding,
    way_around,
    weak_fill,
    weights_after,
)
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

NEEDS = {
    "run": lambda exam: "the call raised" if exam.raised else "",
    "root": lambda exam: "" if exam.root is not None else "it is no nn.Module",
    "attentions": lambda exam: "" if exam.attentions else "no softmax weighs values",
    "sequence": lambda exam: "" if exam.sequence else "no input looks like tokens",
    "batch": lambda exam: (
        "" if exam.sequence.n_samples > 1 else "the batch holds one sample"
    ),
    "pads": lambda exam: "" if exam.pads is not None else "the inputs have no padding",
    "output": lambda exam: "" if exam.outputs else "it returns no floating tensor",
    "numbers": lambda exam: "it is on meta: no numbers" if exam.on_meta else "",
}
PROBES = []


def probe(*needs, costly=False):
    """Register a probe; it runs where all its NEEDS are met, else it is skipped."""

    def register(function):
        @functools.wraps(function)
        def run(exam):
            return list(function(exam) or [])

        run.needs = lambda exam: next(filter(None, (NEEDS[n](exam) for n in needs)), "")
        run.costly = costly
        PROBES.append(run)
        return run

    return register


def found(kind, severity, title, evidence, fix="", row=None) -> Finding:
    return Finding(kind, severity, title, evidence, place(row), fix)


def place(row) -> str:
    if row is None or not row.file:
        return ""
    return f"{os.path.basename(row.file)}:{row.line}  {row.code}"


def size(tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


# --- the call itself -----------------------------------------------------------------


@probe()
def failure(exam):
    """Does the call run at all?"""
    if exam.raised:
        row, trace = exam.flow.recording.rows[-1], exam.failure
        kind = kind_of_failure(exam, row, str(exam.flow.error))
        title = f"{row.op} raises {type(exam.flow.error).__name__}"
        evidence = first_line(exam.flow.error)
        evidence += f" ({trace.mismatch})" if trace.mismatch else ""
        yield found(kind, "fault", title, evidence, trace.cause, row)


def first_line(error) -> str:
    try:
        return (str(error).strip().split("\n") or [""])[0][:300]
    except Exception:
        return type(error).__name__


def kind_of_failure(exam, row, text) -> str:
    """Sort an error by the operation, what met in it, and torch's message."""
    text = text.lower()
    for kind, fits in FAILURES:
        if fits(exam, row, text):
            return kind
    return "batch/sequence layout"


def says(*words):
    return lambda exam, row, text: any(word in text for word in words)


def at_op(*ops):
    return lambda exam, row, text: row.op.rstrip("_") in ops


def wrong_type(exam, row, text):
    words = (
        "dtype",
        "scalar type",
        "must be bool",
        "only supports boolean",
        "to be bool",
    )
    return any(word in text for word in words) or (
        "expected" in text and "type" in text and "tensor" in text
    )


def of_positions(exam, row, text):
    """Say whether what failed has to do with a table of positions."""
    words = "position", "max_len", "too long", "sequence length"
    if row.op.startswith("raise") and any(word in text for word in words):
        return True
    if row.op == "embedding":
        return counts_up(exam, row)
    waves = any(s.op in ("sin", "cos") for s in exam.flow.steps[-6:])
    if row.op.startswith("setitem") and waves:
        return True
    return row.op in ("add", "iadd") and table_too_short(exam, row)


def counts_up(exam, row):
    """Say whether the ids of a failed look-up are positions: made by arange or the like."""
    made = [s.op for s in exam.flow.steps[-8:]]
    ids = row.inputs[0] if row.inputs else ()
    given = {tuple(t.shape) for t in exam.tensors if not t.is_floating_point()}
    counted = any(op in ("arange", "cumsum", "linspace") for op in made)
    return counted or (len(ids) == 1 and tuple(ids) not in given)


def table_too_short(exam, row):
    if len(row.inputs) != 2 or not row.inputs[0] or not row.inputs[1]:
        return False
    left, right = row.inputs
    alike = left[-1] == right[-1] and len(left) > 1 and len(right) > 1
    return alike and left[-2] != right[-2] and not of_scores(exam, row)


def of_scores(exam, row) -> bool:
    """Say whether the operation that failed was about scores of attention."""
    products = [s for s in exam.flow.steps if s.op in PRODUCTS]
    shapes = {tuple(s.outputs[0].shape) for s in products}
    square = [s for s in row.inputs if len(s) > 2 and s[-1] == s[-2]]
    return bool(square) or any(tuple(s) in shapes for s in row.inputs[:1])


def of_masks(exam, row, text):
    masked = row.op.rstrip("_") in ("masked_fill", "where") or "mask" in text
    sdpa = row.op == "scaled_dot_product_attention"
    added = row.op in ("add", "iadd", "mul", "imul", "sub") and of_scores(exam, row)
    return masked or sdpa or added


def swapped_axes(exam, row, text):
    """Say whether a layer was given features in another axis than the last."""
    if row.op not in ("linear", "layer_norm", "conv1d") or len(row.inputs) < 2:
        return False
    given, weight = row.inputs[:2]
    wanted = weight[1] if row.op == "conv1d" else weight[-1]
    return wanted in given


FAILURES = [
    ("nan / precision", says("without overflow", "overflow")),
    ("registration / sharing", says("on the same device", "on device", "meta tensor")),
    ("positional encoding", of_positions),
    ("mask axis/shape", lambda e, r, t: of_masks(e, r, t) and not wrong_type(e, r, t)),
    ("dtype / compile", wrong_type),
    ("dtype / compile", at_op("embedding")),
    ("batch/sequence layout", swapped_axes),
    ("norm / residual / FFN", at_op("layer_norm", "batch_norm", "rms_norm")),
    ("norm / residual / FFN", says("inplace operation")),
    ("head split/merge", says("divisible", "num_heads", "n_heads", "stride", "einsum")),
    ("head split/merge", at_op("view", "reshape", "unflatten", "einsum", "matmul")),
    ("head split/merge", at_op("linear", "rmatmul", "bmm")),
    ("attention weights", says("'nonetype' object")),
    ("norm / residual / FFN", at_op("add", "iadd")),
]


@probe("numbers")
def inputs_with_nan(exam):
    """Are the inputs numbers?"""
    for tensor in exam.tensors:
        if tensor.is_floating_point() and tensor.isnan().any():
            count = int(tensor.isnan().sum())
            evidence = f"{count} of {tensor.numel()} numbers of {size(tensor)} are nan"
            evidence += "; a hidden key has weight 0, but 0 * nan is nan"
            title = "The input holds nan, and no mask can keep it out"
            fix = "write 0 where there is no data before the module sees it"
            yield found("nan / precision", "fault", title, evidence, fix)


@probe("run", "numbers", "output")
def finite_outputs(exam):
    """Are the outputs finite, on torch's fast path too?"""
    if exam.has("nan / precision"):
        return
    if all(bool(out.isfinite().all()) for out in exam.outputs):
        yield from finite_when_fast(exam)
        return
    step = first_nonfinite(exam)
    count = sum(int((~out.isfinite()).sum()) for out in exam.outputs)
    evidence = f"{count} numbers of the output are nan or infinite"
    if step is not None and step.op == "softmax":
        rows = int(step.value.isnan().any(-1).sum())
        title = "A row of scores is all -inf: its softmax is nan"
        evidence += f"; {rows} rows of the softmax are nan"
        fix = "leave every query a key it may see (check the diagonal of the mask)"
        yield found("nan / precision", "fault", title, evidence, fix, step.row)
    else:
        title = f"{step.op if step else 'The module'} makes numbers that are not finite"
        fix = "keep its input in the range that it can take"
        row = step.row if step else None
        yield found("nan / precision", "fault", title, evidence, fix, row)


def first_nonfinite(exam):
    """Return the first step with nan (or else infinity) that its inputs had not."""
    for bad in (Tensor.isnan, Tensor.isinf):
        for step in exam.flow.steps:
            made = [v for v in step.values if v.is_floating_point()]
            if (
                step.op in ("masked_fill", "full", "zeros", "where", "setitem")
                or not made
            ):
                continue
            if any(bool(bad(value).any()) for value in made):
                return step
    return None


def finite_when_fast(exam):
    fast = exam.run()
    if fast is not None and not all(bool(out.isfinite().all()) for out in fast):
        count = sum(int((~out.isfinite()).sum()) for out in fast)
        title = "nan in inference only: on torch's fast path"
        evidence = f"{count} numbers are nan under eval() and no_grad(), none otherwise"
        samples = (
            [] if exam.pads is None else exam.pads.all(1).nonzero().flatten().tolist()
        )
        evidence += f"; samples without a real token: {samples}" if samples else ""
        fix = "drop samples that are all padding, or leave one of their keys open"
        yield found("nan / precision", "fault", title, evidence, fix)


@probe("run", "numbers", "attentions")
def blind_rows(exam):
    """Does every query see some key?"""
    if exam.has("nan / precision"):
        return
    for attention in exam.attentions:
        values = scores(exam, attention)
        if values is None:
            continue
        dead = (values < -1e4).all(-1)
        if dead.any() and not dead.all():
            evidence = (
                f"{int(dead.sum())} of {dead.numel()} rows of scores are all hidden"
            )
            title = "Some queries may see no key: their weights mean nothing"
            real = real_queries(exam, dead)
            severity = "warning" if real else "note"
            fix = "leave every query a key it may see"
            yield found(
                "nan / precision", severity, title, evidence, fix, attention.row
            )
            return


# --- what belongs to the module ------------------------------------------------------


@probe("root")
def modules_in_lists(exam):
    """Are all parts registered, so that they are trained, saved and moved?"""
    registered = {id(m) for m in exam.root.modules()}
    lost = [(p, m) for p, m in exam.modules if id(m) not in registered]
    lost = [(p, m) for p, m in lost if list(m.parameters())]
    if lost:
        count = sum(p.numel() for p in {p for _, m in lost for p in m.parameters()})
        own = sum(p.numel() for p in exam.root.parameters())
        names = ", ".join(path for path, _ in lost[:3])
        title = f"Parts hang in plain Python attributes: {names}"
        evidence = f"{count:,} parameters are missing among the {own:,} of parameters()"
        fix = "hold them in an nn.ModuleList or nn.ModuleDict"
        yield found("registration / sharing", "fault", title, evidence, fix)


@probe("run", "root")
def strangers(exam):
    """Do only parts of this module run?"""
    if exam.has("registration / sharing"):
        return
    own = {id(p) for p in exam.root.parameters()}
    for step in exam.flow.steps:
        for tensor in step.inputs:
            leaf = isinstance(tensor, nn.Parameter) and tensor.is_leaf
            if leaf and id(tensor) not in own:
                title = "A parameter runs that is not one of this module's"
                evidence = f"{size(tensor)} is used, but missing in parameters()"
                fix = "create it in __init__ as an attribute, and use that attribute"
                kind = "registration / sharing"
                yield found(kind, "fault", title, evidence, fix, step.row)
                return


@probe("root")
def plain_tensors(exam):
    """Do all tensors move and save with the module?"""
    registered = {id(t) for t in [*exam.root.parameters(), *exam.root.buffers()]}
    used = {memory(t) for s in exam.flow.steps for t in s.inputs}
    for path, module in exam.modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in tensors_in(value):
                if id(tensor) in registered or memory(tensor) not in used:
                    continue
                trained = isinstance(tensor, nn.Parameter) or tensor.requires_grad
                title = f"{path + '.' * bool(path)}{name} is a plain tensor attribute"
                evidence = f"{size(tensor)} is used, but .to() and state_dict() miss it"
                fix = "self.register_buffer(...), or an nn.Parameter if it is trained"
                severity = "fault" if trained else "warning"
                yield found("registration / sharing", severity, title, evidence, fix)


@probe("root")
def repeated_objects(exam):
    """Are the layers of a list different layers?"""
    for path, module in exam.modules:
        if not isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
            continue
        parts = [p for p in module._modules.values() if p is not None]
        parts = [p for p in parts if list(p.parameters())]
        if len({id(p) for p in parts}) < len(parts):
            numbers = [p.numel() for p in parts[0].parameters()]
            title = f"{path or 'The list'} holds the same object more than once"
            evidence = f"{len(parts)} names, {len({id(p) for p in parts})} objects: "
            evidence += f"{sum(numbers):,} parameters do the work of all"
            fix = "[Layer() for _ in range(n)], not [layer] * n"
            yield found("registration / sharing", "fault", title, evidence, fix)


DISCARDED = {
    "masked_fill": "mask meaning",
    "layer_norm": "norm / residual / FFN",
    "add": "norm / residual / FFN",
    "transpose": "batch/sequence layout",
    "permute": "batch/sequence layout",
    "dropout": "train/eval and fast path",
    "relu": "norm / residual / FFN",
    "gelu": "norm / residual / FFN",
}


@probe("run", "output")
def discarded_results(exam):
    """Is everything that is computed used?"""
    for step in unused_steps(exam):
        kind = DISCARDED.get(step.op)
        if kind is None:
            continue
        if step.op == "add" and is_table_sum(exam, step):
            kind = "positional encoding"
        title = f"The result of {step.op} is thrown away"
        evidence = f"{size(step.outputs[0])} is computed, and nothing uses it"
        fix = "assign it: x = ..."
        yield found(kind, "fault", title, evidence, fix, step.row)
        return


# --- attention weights ---------------------------------------------------------------


@probe("run", "numbers", "attentions", "output")
def returned_weights(exam):
    """Are returned attention weights those of each head?"""
    for out in exam.outputs:
        for attention in exam.attentions:
            weights = attention.weights
            many = weights.dim() == 4 and weights.shape[1] > 1
            if out.dim() >= 3 and many and out.shape == weights.mean(1).shape:
                if not differ(out, weights.mean(1)).any():
                    heads = weights.shape[1]
                    title = f"The returned weights are means over {heads} heads"
                    evidence = f"{size(out)} equals the mean of {size(weights)}"
                    fix = "average_attn_weights=False gives one map a head"
                    row = attention.row
                    yield found(
                        "attention weights", "warning", title, evidence, fix, row
                    )
                    return


@probe("run", "root", "attentions")
def caught_weights(exam):
    """Do attributes that forward fills hold weights, and those of this call?"""
    for name, values in filled_attributes(exam):
        if values and all(value is None for value in values):
            title = f"{name} is filled with None: no weights were asked for"
            evidence = f"{len(values)} times None after a call"
            fix = "need_weights=True (and average_attn_weights=False) in the attention"
            yield found("attention weights", "fault", title, evidence, fix)
            return


@probe("run", "root", "numbers", "output")
def unused_parameters(exam):
    """Does every parameter reach the output?"""
    if gradients(exam).error or exam.has("registration / sharing"):
        return
    names = gradients(exam).unused
    if not names or all(g is None for g in gradients(exam).by_name.values()):
        return
    module = names[0].rpartition(".")[0]
    kind = kind_of_unused(exam, names)
    doubles = twice_called(exam, module)
    title = f"{module or names[0]} is registered but has no part in the output"
    evidence = f"no gradient reaches {', '.join(names[:4])}" + ", ..." * (
        len(names) > 4
    )
    evidence += f"; {doubles} runs twice" if doubles else ""
    severity = "fault" if doubles else "warning"
    yield found(kind, severity, title, evidence, "use it in forward, or remove it")


def twice_called(exam, module) -> str:
    """Return the sibling of an idle layer that runs twice: a slip of the pen."""
    count = {}
    for step in exam.flow.steps:
        if step.op == "linear" and not step.row.depth:
            count[step.row.module] = count.get(step.row.module, 0) + 1
    parent = module.rpartition(".")[0]
    twice = [m for m, n in count.items() if n > 1 and m.rpartition(".")[0] == parent]
    calls = min(count.values(), default=0)
    return next((m for m in twice if count[m] > calls), "")


def kind_of_unused(exam, names) -> str:
    parts = dict(exam.modules)
    owner = parts.get(names[0].rpartition(".")[0])
    parameter = dict(exam.root.named_parameters())[names[0]]
    if isinstance(owner, nn.MultiheadAttention):
        return "registration / sharing"
    if (
        isinstance(owner, nn.Embedding)
        or parameter.squeeze().dim() >= 2
        and (not isinstance(owner, nn.Linear))
    ):
        return "positional encoding"
    if isinstance(owner, nn.Linear):
        return "projections"
    return "norm / residual / FFN"


@probe("run", "root", "numbers", "output")
def unused_third(exam):
    """Is every part of a fused projection used?"""
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


# --- who meets whom ------------------------------------------------------------------


@probe("run", "numbers", "sequence", "attentions")
def channels_as_tokens(exam):
    """After a convolution, is attention over time and not over channels?"""
    passes = PASSES | {"linear", "layer_norm"} | ACTIVATIONS
    for attention in exam.attentions[:1]:
        name = "key" if "key" in attention.sources else "query"
        line = attention.sources.get(name, [])
        start = line[-1] if line else attention.step
        tensor = start.inputs[0] if start.inputs else None
        path = tensor is not None and exam.flow.back(
            tensor, start.index, lambda s: s.op == "conv1d", passes
        )
        if not path:
            continue
        axis = 1
        for step in path[-2::-1]:
            axis = moved_axis(step, axis)
        if axis is not None and axis != path[0].outputs[0].dim() - 1:
            conv = path[-1]
            title = "Channels of the convolution are taken for tokens"
            evidence = (
                f"it returns {size(conv.outputs[0])} = (B, channels, T), and the "
            )
            evidence += "layer after it reads the last axis as features"
            fix = "transpose(1, 2) between the convolution and the encoder"
            kind = "batch/sequence layout"
            yield found(kind, "fault", title, evidence, fix, conv.row)


def moved_axis(step, axis):
    if axis is not None and step.row.detail and step.op in REARRANGES:
        return step.row.detail.index(axis)
    return axis


@probe("run", "numbers", "sequence", "attentions", "batch")
def attended_axis(exam):
    """Does attention run over the tokens of a sample, not over samples or heads?"""
    first = meeting(exam)
    if first is None or first.axis == "tokens":
        return
    row, seq = first.attention.row, exam.sequence
    n, t = seq.n_samples, seq.n_tokens
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
        evidence = f"the weights are {size(first.attention.weights)} for {t} tokens"
        fix = "transpose(1, 2) after the split into heads: (B, H, T, K)"
        yield found("head split/merge", "fault", title, evidence, fix, row)


@probe("run", "numbers", "sequence", "attentions", "batch")
def scrambled_split(exam):
    """Does each head hold whole tokens after the split?"""
    first = meeting(exam)
    if first is None or first.axis != "scrambled" or first.guilty is None:
        return
    step = first.guilty
    heads = step.op in REARRANGES and first.projected
    if step.op in STATISTICS:
        kind, title = "norm / residual / FFN", "A norm mixes the tokens of a sample"
        fix = "take mean and variance over the last axis only"
    elif step.op not in REARRANGES:
        return
    elif heads:
        kind = "head split/merge"
        title = "The split into heads mixes tokens"
        fix = "view(B, T, H, K).transpose(1, 2): split the last axis, then move it"
    else:
        kind, title = "batch/sequence layout", "A reshape mixes samples and tokens"
        fix = "move axes with transpose or permute, not with view or reshape"
    shapes = f"{size(step.inputs[0])} -> {size(step.outputs[0])}"
    evidence = f"one changed token was one row before {step.op} {shapes}, and is "
    evidence += "spread over several rows after it"
    yield found(kind, "fault", title, evidence, fix, step.row)


STATISTICS = set("mean var std var_mean std_mean layer_norm instance_norm".split())
STATISTICS |= {"batch_norm", "group_norm", "sub", "div", "mul", "pow", "rsqrt"}


@probe("run", "numbers", "attentions", "sequence")
def scrambled_merge(exam):
    """Does each token get its own heads back at the merge?"""
    for attention in exam.attentions:
        if attention.opened:
            continue
        labels, steps, end = merged(exam, attention)
        if not steps or end is None or labels.dim() < 2:
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


@probe("run", "numbers", "sequence", "output", "batch")
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
        if what == "mask":
            kind, title = "mask axis/shape", "A sample's mask acts on other samples"
            fix = "keep the mask's batch axis on the batch: mask[:, None, None, :]"
        elif step is not None and step.op in ("batch_norm", "instance_norm"):
            kind, title = "norm / residual / FFN", "A norm mixes samples"
            fix = "use nn.LayerNorm"
        else:
            kind, title = "batch/sequence layout", "Samples of a batch see each other"
            fix = "keep the batch axis apart: no reshape or mean across it"
        evidence = f"a change of sample 0 moves other samples' outputs by {far:.3g}"
        row = step.row if step is not None else None
        yield found(kind, "fault", title, evidence, fix, row)
        return


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
            fix = "drop one of the two"
            yield found("softmax / scale", "fault", title, evidence, fix, step.row)
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
        if abs(ratio - 1) < 0.03:
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
        (n_heads**-0.5, "divided by sqrt(H), not sqrt(K)", "warning"),
        (model**0.5, "multiplied by sqrt(d_model), not divided", "fault"),
    ]
    for value, name, severity in known:
        if abs(factor / value - 1) < 0.03:
            return name, severity
    return "scaled by an unusual number", "warning" if factor > 0 else "fault"


# --- masks ---------------------------------------------------------------------------


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


@probe("run", "root", "numbers", "output")
def fast_path(exam):
    """Does torch's fast path for inference agree with the slow one?"""
    if exam.has("nan / precision", "registration / sharing"):
        return
    slow, fast = exam.run(grad=True), exam.run()
    if slow is None or fast is None or exam.has("train/eval and fast path"):
        return
    far = apart_where_real(exam, slow, fast)
    if far:
        title = "Inference on torch's fast path gives other numbers than training"
        evidence = f"eval() with and without no_grad() differ by {far:.3g}"
        pooled = exam.pads is not None
        evidence += "; the fast path writes zeros at padding" if pooled else ""
        fix = "leave padding out of what follows the encoder, e.g. by a masked mean"
        yield found("train/eval and fast path", "fault", title, evidence, fix)


@probe("run", "numbers", "sequence", "pads", "output")
def padding_content(exam):
    """Is the output the same whatever the padding holds?"""
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
    elif exam.attentions and not exam.has("mask meaning", severity="note"):
        title = "The content of padding moves the output of real tokens"
        evidence = f"by up to {far:.3g}"
        fix = "hide padding from every layer that mixes tokens"
        yield found("mask meaning", "fault", title, evidence, fix)


@probe("run", "numbers", "output")
def types_kept(exam):
    """Do outputs keep the type, and masks agree in theirs?"""
    kinds = [p.dtype for p in exam.root.parameters()] if exam.root is not None else []
    kinds += [t.dtype for t in exam.tensors if t.is_floating_point()]
    kinds = [kind for kind in kinds if kind.is_floating_point]
    if kinds and exam.output.dtype not in kinds:
        title = (
            f"The output is {exam.output.dtype}, though all that goes in is {kinds[0]}"
        )
        step = next(
            (s for s in exam.flow.steps if s.value.dtype == exam.output.dtype), None
        )
        evidence = "one step promotes the numbers"
        row = step.row if step is not None else None
        fix = "make constants with the type of x"
        yield found("dtype / compile", "warning", title, evidence, fix, row)
    for text in dict.fromkeys(exam.warned):
        if "mismatched" in text or "dtype" in text.lower():
            title = "torch warns about types"
            fix = "give both masks one type (bool)"
            yield found("dtype / compile", "warning", title, text[:160], fix)
            return


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


# --- positions -----------------------------------------------------------------------


@probe("run", "numbers", "sequence")
def positions(exam):
    """Does the table of positions tell positions apart, along the axis of tokens?"""
    for table in tables(exam):
        varies = table.axes_that_vary()
        if table.is_zero:
            severity = "note" if table.learnt else "fault"
            title, evidence = (
                "The table of positions is zero",
                "all numbers added are 0",
            )
            fix = "fill it, or train it"
        elif not varies:
            severity, title = "fault", "Every token gets the same position"
            evidence = f"what is added, {size(table.added)}, does not vary over tokens"
            fix = "look positions up with arange(T)"
        elif table.token_axis is not None and table.token_axis not in varies:
            severity, title = "fault", "Positions vary along the batch, not the tokens"
            evidence = f"{size(table.added)} is added to {size(table.step.outputs[0])}"
            fix = "slice and broadcast the table along the axis of tokens"
        else:
            yield from waves(table)
            continue
        kind = "positional encoding"
        yield found(kind, severity, title, evidence, fix, table.step.row)


def waves(table):
    """Check a fixed table as sines and cosines of falling frequency."""
    if table.learnt or table.rows is None or len(table.rows) < 4:
        return
    for fault in (wrong_frequencies, unlike_neighbours, equal_columns):
        said = fault(table.rows.double())
        if said:
            title, evidence, fix = said
            kind = "positional encoding"
            yield found(kind, "fault", title, evidence, fix, table.step.row)
            return


def wrong_frequencies(rows):
    """Compare the frequencies of the sines with a geometric fall from 1."""
    width = rows.shape[1]
    sines = [c for c in range(width) if abs(rows[0, c]) < 1e-6 and rows[:, c].any()]
    ones = [c for c in range(width) if abs(rows[0, c] - 1) < 1e-6]
    if len(sines) < 3 or len(sines) + len(ones) < 0.9 * width:
        return None
    steps = rows[1, sines].clamp(-1, 1).asin()
    aliased = (rows[2, sines] - (2 * steps).sin()).abs() > 1e-3
    fix = "position * exp(arange(0, d, 2) * (-log(10000) / d))"
    if aliased.float().mean() > 0.3:
        share = f"{int(aliased.sum())} of {len(sines)} sines turn more than a quarter"
        return "Frequencies rise instead of falling", share + " per position", fix
    if not ones:
        return "The table has sines only", f"row 0 is 0 in all {width} columns", fix
    base = (steps[0] / steps[-1]).item() ** (len(sines) / (len(sines) - 1))
    if not 1e3 <= base <= 2e6 and (steps > 0).all():
        flat = int((rows.std(0) < 1e-2).sum())
        said = f"from {steps[0]:.2g} to {steps[-1]:.2g} per position, as of base {base:.2g}"
        said += f" and not 10000; {flat} of {width} columns hardly change"
        return "Frequencies fall at the wrong rate", said, fix
    return None


def unlike_neighbours(rows):
    """Positions that are near should look more alike than positions far apart."""
    half = len(rows) // 2
    near = torch.cosine_similarity(rows[:-1], rows[1:]).mean().item()
    far = torch.cosine_similarity(rows[:-half], rows[half:]).mean().item()
    if near < 0.5 and near < far + 0.3:
        said = f"neighbours have cosine {near:.2f}, positions {half} apart {far:.2f}"
        return "Neighbouring positions look unrelated", said, "position * div_term"
    return None


def equal_columns(rows):
    pairs = [(c, c + 1) for c in range(0, rows.shape[1] - 1, 2)]
    moving = [(a, b) for a, b in pairs if rows[:, a].std() > 1e-3]
    equal = [(a, b) for a, b in moving if torch.allclose(rows[:, a], rows[:, b])]
    if len(equal) > len(pairs) // 2:
        said = f"{len(equal)} of {len(pairs)} pairs of columns are equal"
        return "Sines and cosines are the same", said, "sin in 0::2, cos in 1::2"
    return None


# --- norm, residual, feed-forward ----------------------------------------------------


@probe("run")
def doubled_stream(exam):
    """Does each addition join two different things?"""
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        if len(tensors) == 2 and tensors[0] is tensors[1] and tensors[0].dim() > 1:
            title = "A tensor is added to itself where the residual should join"
            evidence = f"both sides of the sum are the same {size(tensors[0])}"
            fix = "keep the block's input: x = x + f(x)"
            yield found(
                "norm / residual / FFN", "fault", title, evidence, fix, step.row
            )
            return


@probe("run", "numbers", "root")
def home_made_norms(exam):
    """Does each home-made norm normalise each token by itself?"""
    for path, module in norm_like(exam):
        width = next(iter(module.parameters())).numel()
        reseed(3)
        x = torch.randn(2, 5, width)
        with torch.no_grad():
            y, bigger = module(x), module(x * 10)
            x[:, 0] += 3 * torch.randn(2, width)
            moved = differ(module(x)[:, 1:], y[:, 1:]).any()
        spread = y.std(-1, unbiased=False)
        grows = (bigger.std(-1) / y.std(-1)).mean().item()
        title = ""
        if moved:
            title = "takes its statistics over tokens, not over features"
            evidence = "a change of token 0 moves the output of the others"
        elif not 0.9 < grows < 1.1:
            title = "does not normalise"
            evidence = (
                f"an input 10 times as large gives an output {grows:.3g} times as "
            )
            evidence += f"large; tokens have a spread of {spread.min():.2g} ... "
            evidence += f"{spread.max():.2g}, not 1"
        if title:
            fix = "(x - mean) / sqrt(variance + eps), over the last axis"
            name = f"{path or type(module).__name__} {title}"
            row = next((s.row for s in exam.flow.steps if s.row.module == path), None)
            yield found("norm / residual / FFN", "fault", name, evidence, fix, row)


@probe("run")
def norms_over_tokens(exam):
    """Are statistics taken over the features of one token?"""
    for step in exam.flow.steps:
        rank = step.inputs[0].dim() if step.inputs else 0
        if step.op == "batch_norm" and rank == 3:
            title = "Batch norm over tokens: padding and other samples count"
            severity = "fault" if exam.pads is not None else "warning"
            evidence = f"statistics over batch and time of {size(step.inputs[0])} when "
            evidence += "training, others in eval()"
        elif step.op == "layer_norm" and len(step.given(1, "normalized_shape", ())) > 1:
            title, severity = "A layer norm over several axes: tokens mix", "warning"
            evidence = f"it normalises {tuple(step.given(1, 'normalized_shape'))}"
        elif step.op in ("instance_norm", "group_norm") and rank == 3:
            title, severity = f"{step.op} takes statistics over tokens", "warning"
            evidence = f"of {size(step.inputs[0])}"
        else:
            continue
        fix = "nn.LayerNorm(d_model)"
        yield found("norm / residual / FFN", severity, title, evidence, fix, step.row)
        return


@probe("run", "attentions", "sequence")
def residual_paths(exam):
    """Is there a way around each attention and each feed-forward?"""
    if exam.has("norm / residual / FFN"):
        return
    for what, step, stream in branches(exam):
        if not way_around(exam, step, stream):
            title = f"There is no residual around {what}"
            evidence = f"nothing of {size(stream)} reaches the output but through it"
            severity = "fault" if depth(exam) > 1 else "warning"
            fix = "x = x + f(x)"
            kind = "norm / residual / FFN"
            yield found(kind, severity, title, evidence, fix, step.row)
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
        if wide.shape[0] > wide.shape[1] and narrow.shape[0] == wide.shape[1]:
            title = "The feed-forward has no activation: two maps are one map"
            evidence = f"{size(wide)} and {size(narrow)} follow each other directly"
            fix = "put a ReLU or GELU between them"
            yield found(
                "norm / residual / FFN", "fault", title, evidence, fix, step.row
            )
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


# --- modes and paths -----------------------------------------------------------------


@probe("run", "numbers", "output")
def eval_is_still(exam):
    """Do two calls in eval mode agree?"""
    if exam.has("registration / sharing"):
        return
    one, two = exam.run(seed=1), exam.run(seed=2)
    if one is None or two is None or not apart(one, two):
        return
    step = next((s for s in exam.flow.steps if drops(s)), None)
    title = "Two calls in eval mode differ"
    if step is not None:
        title = "Dropout stays on in eval mode"
    evidence = f"by up to {apart(one, two):.3g}"
    fix = "pass training=self.training, or use nn.Dropout made in __init__"
    row = step.row if step is not None else None
    yield found("train/eval and fast path", "fault", title, evidence, fix, row)


def drops(step) -> bool:
    if step.op == "dropout":
        return bool(step.given(2, "training", True)) and step.given(1, "p", 0.5) > 0
    dropout = step.given(4, "dropout_p", 0.0)
    return step.op == "scaled_dot_product_attention" and dropout > 0


def apart(left, right) -> float:
    """Return how far outputs lie apart, 0 where they agree up to rounding."""
    if [t.shape for t in left] != [t.shape for t in right]:
        return math.inf
    far = [(a - b).abs().max().item() for a, b in zip(left, right) if a.numel()]
    moved = any(bool(differ(a, b).any()) for a, b in zip(left, right))
    return max(far, default=0.0) if moved else 0.0


class NoDropout(TorchFunctionMode):
    """Run torch without dropout, so that train and eval can be compared."""

    PLACE = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        place = self.PLACE.get(name, len(args))
        if place < len(args):
            args = (*args[:place], 0.0, *args[place + 1 :])
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def without_dropout(call, *args, **kwargs):
    with NoDropout():
        return call(*args, **kwargs)


@probe("run", "root", "numbers", "output")
def train_and_eval(exam):
    """Apart from dropout, do train and eval compute the same?"""
    batch_norm = any(s.op in ("batch_norm", "instance_norm") for s in exam.flow.steps)
    if batch_norm or exam.has("registration / sharing", "train/eval and fast path"):
        return
    still = exam.run(how=without_dropout, grad=True)
    moving = exam.run(how=without_dropout, grad=True, train=True)
    if still is not None and moving is not None and apart(still, moving):
        title = "Train and eval mode compute different things"
        evidence = f"with dropout off they still differ by {apart(still, moving):.3g}"
        fix = "look for branches on self.training"
        yield found("train/eval and fast path", "warning", title, evidence, fix)


@probe("run", "root")
def modes_left_alone(exam):
    """Does forward leave the training mode alone?"""
    changed = modes_changed(exam)
    if changed:
        title = f"forward changes the training mode of {changed[0]}"
        evidence = f"{len(changed)} modules come back in another mode"
        fix = "call train() and eval() outside"
        yield found("train/eval and fast path", "fault", title, evidence, fix)


@probe("run", "root")
def hooks_that_sleep(exam):
    """Is every module with a hook called?"""
    called = called_modules(exam)
    for path, module in exam.modules:
        hooks = len(module._forward_hooks) + len(module._forward_pre_hooks)
        if hooks and id(module) not in called:
            title = f"A hook on {path} never fires: the module is not called"
            evidence = "its weights are read by the module around it, in one function"
            fix = "hook the module that is called (self_attn, or the layer)"
            yield found("train/eval and fast path", "fault", title, evidence, fix)
            return


# --- heads on top, types, gradients --------------------------------------------------


@probe("run", "numbers", "output")
def probabilities_out(exam):
    """Are outputs logits?"""
    kept = exam.flow.steps[-1] if exam.flow.steps else None
    if kept is None or kept.op not in ("softmax", "sigmoid"):
        return
    if any(kept is a.step for a in exam.attentions) or exam.output.dim() > 2:
        return
    if kept.outputs[0].shape == exam.output.shape:
        title = "The module returns probabilities"
        evidence = "cross_entropy takes logits, and would apply softmax again"
        fix = "return the scores before the softmax"
        yield found("loss and training", "warning", title, evidence, fix, kept.row)


@probe("run", "numbers", "sequence")
def inputs_kept(exam):
    """Are the inputs left as they were?"""
    for before, after in zip(exam.tensors, exam.flow.given):
        if before.shape == after.shape and differ(before.float(), after.float()).any():
            title = "The call changes its input in place"
            evidence = f"{size(before)} holds other numbers afterwards"
            step = next((s for s in exam.flow.steps if writes(s, after)), None)
            row = step.row if step is not None else None
            fix = "x = x + ..., not x += ..."
            yield found("norm / residual / FFN", "fault", title, evidence, fix, row)
            return


def writes(step, tensor) -> bool:
    target = step.inputs[0] if step.inputs else None
    in_place = step.row.op.endswith("_") or step.row.op.startswith(("i", "setitem"))
    return in_place and target is not None and memory(target) == memory(tensor)


@probe("run", "root", "numbers", "output")
def backward_runs(exam):
    """Does backward run, with finite gradients?"""
    error = gradients(exam).error
    if error is not None and "inplace" in first_line(error):
        step = next(
            (s for s in exam.flow.steps if re.match(r"i(add|mul|sub)", s.row.op)), 0
        )
        title = "Backward fails: a tensor that it needs was changed in place"
        fix = "x = x + ..., not x += ..."
        row = step.row if step else None
        kind = "norm / residual / FFN"
        yield found(kind, "fault", title, first_line(error), fix, row)
    elif error is not None:
        title = "Backward fails"
        yield found("loss and training", "fault", title, first_line(error))
    bad = [
        n for n, g in gradients(exam).by_name.items() if g is not None and bad_grad(g)
    ]
    if bad and not exam.has("nan / precision"):
        title = "Gradients are nan"
        evidence = f"of {len(bad)} parameters, {bad[0]} first; the outputs are finite"
        fix = "keep sqrt, log and division away from 0 before where() or a mask"
        yield found("nan / precision", "fault", title, evidence, fix)


def bad_grad(gradient) -> bool:
    return not bool(gradient.isfinite().all())


@probe("run", "root", "numbers", costly=False)
def cloned_values(exam):
    """Do layers start with different numbers?"""
    for path, module in exam.modules:
        if not isinstance(module, (nn.ModuleList, nn.Sequential)) or len(module) < 2:
            continue
        first, *others = (dict(part.named_parameters()) for part in module)
        for name, parameter in first.items():
            if parameter.dim() < 2 or parameter.std() == 0:
                continue
            twins = [o[name] for o in others if name in o and o[name] is not parameter]
            twins = [t for t in twins if t.shape == parameter.shape]
            if twins and all(torch.equal(parameter, twin) for twin in twins):
                title = (
                    f"The {len(module)} layers of {path} start as copies of each other"
                )
                evidence = f"{name} is bit for bit the same in all"
                fix = "initialise the matrices again after building the stack"
                yield found("registration / sharing", "warning", title, evidence, fix)
                return
