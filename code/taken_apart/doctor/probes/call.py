"""Probes of the call: does it run, in numbers, types and modes."""

import re

import torch
from torch import Tensor

from ...errors import first_line
from ..evidence.padding import real_queries
from ..evidence.side_effects import gradients
from ..evidence.tensor_flow import PRODUCTS, memory
from ..evidence.token_changes import scores
from ..exam import CHAPTERS, differ
from .kit import found, probe, size

# --- errors --------------------------------------------------------------------------


@probe()
def failure(exam):
    """Does the call run at all?"""
    if exam.flow is None:
        title, evidence = "The call ends the program", "it raises SystemExit"
        yield found("notebook / display", "fault", title, evidence, "raise ValueError")
    elif exam.raised:
        row, trace = exam.flow.recording.rows[-1], exam.failure
        kind = kind_of_failure(exam, row, str(exam.flow.error))
        part = f" in {row.module}" if row.module else ""
        title = f"{row.op} raises {type(exam.flow.error).__name__}{part}"
        evidence = first_line(exam.flow.error)
        evidence += f" ({trace.mismatch})" if trace.mismatch else ""
        fix = trace.cause
        if kind == "positional encoding" and row.op.startswith("setitem"):
            fix = "an odd width has one sine more than cosines: cos(...)[:, : d // 2]"
        yield found(kind, "fault", title, evidence, fix, row)


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


# What torch says where types, and not shapes, do not fit.
WRONG_TYPE = "dtype", "scalar type", "must be bool", "supports boolean", "only bool"
WRONG_TYPE += "to be bool", "bool tensor", "not implemented for", "should be the same"


def wrong_type(exam, row, text):
    return any(word in text for word in WRONG_TYPE) or (
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
    """Say whether the ids of a failed look-up are positions, made by counting."""
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
    fused = row.op == "scaled_dot_product_attention" and len(row.inputs) > 3
    added = row.op in ("add", "iadd", "mul", "imul", "sub") and of_scores(exam, row)
    return (masked or fused or added) and not wrong_type(exam, row, text)


def swapped_axes(exam, row, text):
    """Say whether a layer was given features in another axis than the last."""
    if row.op not in ("linear", "layer_norm", "conv1d") or len(row.inputs) < 2:
        return False
    given, weight = row.inputs[:2]
    wanted = weight[1] if row.op == "conv1d" else weight[-1]
    return wanted in given


UNREGISTERED = "before module.__init__", "loading state_dict", "cannot assign"
UNREGISTERED += "on the same device", "on device", "meta tensor", "deepcopy protocol"

# The first that fits: (kind, does it fit the operation, its shapes and the message).
FAILURES = [
    ("nan / precision", says("without overflow", "overflow")),
    ("registration / sharing", says(*UNREGISTERED)),
    ("attention weights", says("'nonetype' object", "'tuple'", "not tuple")),
    ("dtype / compile", lambda e, r, t: r.op == "embedding" and wrong_type(e, r, t)),
    ("positional encoding", of_positions),
    ("mask axis/shape", of_masks),
    ("dtype / compile", wrong_type),
    ("dtype / compile", at_op("embedding")),
    ("softmax / scale", at_op("softmax")),
    ("batch/sequence layout", swapped_axes),
    ("norm / residual / FFN", at_op("layer_norm", "batch_norm", "rms_norm")),
    ("norm / residual / FFN", says("inplace operation", "in-place operation")),
    ("head split/merge", says("divisible", "num_heads", "n_heads", "stride", "einsum")),
    ("head split/merge", at_op("view", "reshape", "unflatten", "einsum", "matmul")),
    ("head split/merge", at_op("linear", "rmatmul", "bmm")),
    ("head split/merge", at_op("scaled_dot_product_attention")),
    ("norm / residual / FFN", at_op("add", "iadd")),
    ("registration / sharing", says("object has no attribute")),
]


# --- numbers and types ---------------------------------------------------------------


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
    too_large = step is not None and overflowed(exam, step)
    if too_large:
        title = f"Scores are too large for {step.value.dtype}"
        fix = "scale the queries before the product, not the scores after it"
        yield found("nan / precision", "fault", title, evidence, fix, step.row)
    elif step is not None and step.op == "softmax":
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


def overflowed(exam, step) -> bool:
    """Say whether a softmax was given scores that are infinite upwards."""
    if step.op != "softmax":
        return False
    return bool((exam.flow.value(step.inputs[0], step.index) == torch.inf).any())


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


@probe("run", "root", "numbers", "output", costly=True)
def other_precision(exam):
    """Does the module run in double precision, too?"""
    if exam.has(*CHAPTERS) or not list(exam.root.parameters()):
        return
    wider = {t: t.double() for t in exam.tensors if t.dtype == torch.float32}
    states = [(t, t.data) for t in tensors_of(exam.root) if t.dtype == torch.float32]
    try:
        for tensor, data in states:
            tensor.data = data.double()
        flow = exam.observe(wider)
    finally:
        for tensor, data in states:
            tensor.data = data
    types = r"dtype|scalar type"
    if flow is not None and flow.error and re.search(types, str(flow.error)):
        title = "It runs in float32 alone: a type is written down somewhere"
        fix = "make new tensors with the type of x: .to(x.dtype)"
        row = flow.steps[-1].row if flow.steps else None
        kind, evidence = "dtype / compile", f"in float64: {first_line(flow.error)}"
        yield found(kind, "warning", title, evidence, fix, row)


def tensors_of(module):
    return [*module.parameters(), *module.buffers()]


@probe()
def flipped_integers(exam):
    """Is ~ applied to truth values only?"""
    for step in exam.flow.steps:
        flips = step.op in ("invert", "bitwise_not")
        if flips and step.inputs[0].dtype != torch.bool:
            title = "~ flips the bits of integers: both 0 and 1 become true"
            evidence = f"~ of a mask of {step.inputs[0].dtype}"
            kind, fix = "dtype / compile", "mask.bool() first"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return


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


# --- what comes out ------------------------------------------------------------------


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


@probe()
def shows_itself(exam):
    """Can the module be shown, and does it keep quiet?"""
    kind = "notebook / display"
    try:
        with exam.quiet():
            repr(exam.call)
    except Exception as error:
        title = "The module cannot be shown: its repr raises"
        evidence = f"{type(error).__name__}: {first_line(error)}"
        yield found(kind, "warning", title, evidence, "repair __repr__ or extra_repr")
    if exam.printed:
        title = "Each call prints: a notebook's output depends on how often it ran"
        line = exam.printed.partition("\n")[0]
        evidence = f"{len(exam.printed)} characters, {line[:60]!r}"
        yield found(kind, "warning", title, evidence, "return values, or use logging")
