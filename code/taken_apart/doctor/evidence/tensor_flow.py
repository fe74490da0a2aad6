"""The flow of tensors through one call, and the attentions in it, for `doctor.py`.

`observe(call, *inputs)` runs a call under the tracer's recorder and keeps each step's
tensors, so that a probe can ask where a tensor came from, where it went, and what it
held at the time. `attentions(flow)` finds each softmax that weighs values.
"""

import contextlib
import string
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ...tensors import tensors_in
from ...tracer import MOVES, Row, record

SYNONYMS = {"truediv": "div", "divide": "div", "true_divide": "div", "divide_": "div"}
SYNONYMS |= {"multiply": "mul", "subtract": "sub", "iadd": "add", "radd": "add"}
SYNONYMS |= {"isub": "sub", "imul": "mul", "rmul": "mul", "itruediv": "div"}
SYNONYMS |= {"masked_fill_": "masked_fill", "rtruediv": "reciprocal"}

RESHAPES = set("reshape view flatten unflatten unsqueeze squeeze contiguous".split())
RESHAPES |= set("clone view_as reshape_as expand expand_as".split())
CASTS = set("to float half double bfloat16 type type_as detach".split())
PARTS = set("chunk split unbind getitem select narrow tensor_split".split())
POINTWISE = CASTS | set("mul div neg add sub masked_fill where setitem dropout".split())
POINTWISE |= set("tanh clamp nan_to_num tril triu alpha_dropout".split())
REARRANGES = MOVES | RESHAPES
PASSES = POINTWISE | REARRANGES | PARTS
PRODUCTS = set("matmul rmatmul bmm mm einsum baddbmm".split())
SOFTMAXES = {"softmax", "log_softmax"}
SDPA = "scaled_dot_product_attention"
LIMIT = 2**26  # numbers kept; what a larger call computes is not copied


@dataclass(repr=False, eq=False)
class Step:
    """One operation with its live tensors, and copies of what it returned."""

    index: int
    op: str
    row: Row
    func: object
    args: tuple
    kwargs: dict
    inputs: list[Tensor]
    outputs: list[Tensor]
    values: list[Tensor]

    @property
    def value(self) -> Tensor:
        return self.values[0]

    def given(self, position, name, default=None):
        """Return an argument by position or by name."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)


@dataclass(repr=False, eq=False)
class Flow:
    """All steps of one call, and what the call returned or raised."""

    steps: list[Step]
    recording: object
    given: list[Tensor]
    made: dict = field(default_factory=dict)
    used: dict = field(default_factory=dict)

    def __post_init__(self):
        for step in self.steps:
            for tensor in step.outputs:
                self.made.setdefault(id(tensor), []).append(step)
            for tensor in step.inputs:
                self.used.setdefault(id(tensor), []).append(step)
        self.by_memory = {}
        for step in self.steps:
            for tensor in step.outputs:
                self.by_memory.setdefault(memory(tensor), []).append(step)

    @property
    def result(self):
        return self.recording.result

    @property
    def error(self):
        return self.recording.error

    def producer(self, tensor, before) -> Step | None:
        """Return the last step before an index that made or changed a tensor."""
        made = self.made.get(id(tensor))
        if made is None and memory(tensor) is not None:
            # A view that was made out of the recorder's sight shares its memory.
            made = self.by_memory.get(memory(tensor))
        return next((s for s in reversed(made or []) if s.index < before), None)

    def users(self, tensor, after) -> list[Step]:
        return [s for s in self.used.get(id(tensor), []) if s.index > after]

    def value(self, tensor, before) -> Tensor:
        """Return what a tensor held just before a step."""
        step = self.producer(tensor, before)
        for made, value in zip(step.outputs, step.values) if step else ():
            if made is tensor:
                return value
        return tensor.detach()

    def back(self, tensor, before, stop, passes=PASSES, depth=40) -> list[Step] | None:
        """Return the steps from a tensor back to the first where `stop(step)`."""
        step = self.producer(tensor, before)
        if step is None or depth == 0:
            return None
        if stop(step):
            return [step]
        for source in step.inputs if step.op in passes else ():
            path = self.back(source, step.index, stop, passes, depth - 1)
            if path is not None:
                return [step, *path]
        return None

    def line(self, tensor, before, passes=PASSES) -> list[Step]:
        """Return the steps back along the main input, as far as they only pass on."""
        steps, step = [], self.producer(tensor, before)
        while step is not None and len(steps) < 60:
            steps.append(step)
            if step.op not in passes or not step.inputs:
                break
            step = self.producer(main_input(step), step.index)
        return steps

    def ahead(self, tensor, after, stop, passes=PASSES, depth=40) -> list[Step] | None:
        """Return the steps from a tensor to the first user where `stop(step)`."""
        for step in self.users(tensor, after) if depth else ():
            if stop(step):
                return [step]
            for output in step.outputs if step.op in passes else ():
                path = self.ahead(output, step.index, stop, passes, depth - 1)
                if path is not None:
                    return [step, *path]
        return None

    def reached(self) -> set[int]:
        """Return the indices of the steps that the result depends on."""
        reached, todo = set(), [(t, len(self.steps)) for t in tensors_in(self.result)]
        while todo:
            tensor, before = todo.pop()
            step = self.producer(tensor, before)
            if step is None or step.index in reached:
                continue
            reached.add(step.index)
            todo += [(t, step.index) for t in step.inputs]
            todo += [(step.outputs[0], step.index)] * (step.op == "setitem")
        return reached


def memory(tensor):
    with contextlib.suppress(Exception):
        return tensor.untyped_storage().data_ptr() or None


def main_input(step) -> Tensor:
    wanted = step.outputs[0].numel()
    tensors = [t for t in step.inputs if t.dtype != torch.bool] or step.inputs
    return max(tensors, key=lambda t: (t.numel() == wanted, t.numel()))


def observe(call, *inputs, **kwargs) -> Flow:
    """Run a call once under the recorder, off torch's fast path, and keep its steps."""
    steps, kept = [], [0]

    def watch(row, func, args, kwargs, output):
        given = args[0] if row.op == "setitem" else output
        outputs = list(tensors_in(given))
        kept[0] += sum(t.numel() for t in outputs)
        values = [t.detach() for t in outputs]
        if kept[0] < LIMIT:
            values = [value.clone() for value in values]
        op = row.op.rstrip("_")
        op, inputs = SYNONYMS.get(op, op), list(tensors_in((args, kwargs)))
        given = row, func, args, kwargs, inputs, outputs, values
        steps.append(Step(len(steps), op, *given))

    recording = record(call, *inputs, watch=watch, inside=True, **kwargs)
    unique = {id(t): t for t in tensors_in((inputs, kwargs))}
    return Flow(steps, recording, list(unique.values()))


# --- products ------------------------------------------------------------------------


def operands(step) -> list[Tensor]:
    """Return the two tensors that a product multiplies, left one first."""
    tensors = step.inputs[1:] if step.op == "baddbmm" else step.inputs
    return tensors[::-1] if step.op == "rmatmul" else tensors


def letters(step) -> tuple[str, str, str] | None:
    """Return einsum's letters of a product: (left, right, output), None if unusual."""
    tensors = operands(step)
    if len(tensors) != 2:
        return None
    if step.op == "einsum":
        return einsum_letters(step.args[0], tensors)
    left, right = (t.dim() for t in tensors)
    if min(left, right) < 2:
        return None
    lead = string.ascii_uppercase[: max(left, right) - 2]
    start = [lead[len(lead) - rank + 2 :] for rank in (left, right)]
    return start[0] + "ik", start[1] + "kj", lead + "ij"


def einsum_letters(equation, tensors):
    if not isinstance(equation, str):
        return None
    terms, _, output = equation.replace(" ", "").partition("->")
    terms = terms.split(",")
    if not output or len(terms) != 2:
        return None
    full = []
    spare = [t.dim() - len(term.replace("...", "")) for term, t in zip(terms, tensors)]
    dots = string.ascii_uppercase[: max(spare)]
    for term, more in zip([*terms, output], [*spare, len(dots)]):
        full.append(term.replace("...", dots[len(dots) - more :]))
    return tuple(full)


# --- attentions ----------------------------------------------------------------------


@dataclass(repr=False, eq=False)
class Attention:
    """One softmax whose weights were multiplied with values.

    `weights` left the softmax and `used` met the values: both have the queries in axis
    -2 and the keys in axis -1. `query` and `key` are None for additive attention.
    """

    step: Step
    mix: Step
    weights: Tensor
    used: Tensor
    query_axis: int  # in what `mix` returns
    right_axis: bool = True
    product: Step | None = None
    query: Tensor | None = None  # (..., Tq, K)
    key: Tensor | None = None  # (..., Tk, K)
    value: Tensor | None = None  # (..., Tk, Kv)
    sources: dict = field(default_factory=dict)  # "query" -> steps back along its line
    path: list = field(default_factory=list)  # from the softmax back to the product
    factor: float | None = None  # all scalars between the projections and the softmax

    @property
    def width(self) -> int:
        return self.query.shape[-1]

    @property
    def row(self) -> Row:
        return self.step.row

    @property
    def opened(self) -> bool:
        return self.row.note.startswith("recomputed")


def attentions(flow) -> list[Attention]:
    found = []
    for step in flow.steps:
        if step.op in SOFTMAXES or by_hand(flow, step) is not None:
            found.append(from_softmax(flow, step))
        elif step.op == SDPA:
            found.append(from_sdpa(flow, step))
    return [attention for attention in found if attention is not None]


def is_product(step) -> bool:
    return step.op in PRODUCTS and letters(step) is not None


def by_hand(flow, step) -> Step | None:
    """Return the sum of exponentials by which a step divides one, as a softmax does."""
    if step.op != "div" or len(step.inputs) != 2:
        return None
    above, below = (flow.producer(t, step.index) for t in step.inputs)
    exponential = above is not None and above.op == "exp"
    return below if exponential and below is not None and below.op == "sum" else None


def from_softmax(flow, step) -> Attention | None:
    """Read an attention off a softmax: the product before it, the product after it."""
    after = flow.ahead(step.outputs[0], step.index, is_product, PASSES - PARTS)
    if after is None:
        return None
    *between, mix = after
    carrier = between[-1].outputs[0] if between else step.outputs[0]
    side = 0 if operands(mix)[0] is carrier else 1
    axes = contracted(letters(mix), side)
    if axes is None:
        return None
    query_axis, key_axis, out_axis = axes
    used = flow.value(carrier, mix.index).movedim(axes[:2], (-2, -1))
    weights = aligned(step.value, between) if between else used
    made = Attention(step, mix, weights, used, query_axis=out_axis)
    moved = carried_axis(between, softmax_axis(by_hand(flow, step) or step))
    made.right_axis = moved is None or moved == key_axis
    made.value = values_of(flow, mix, 1 - side)
    made.sources["value"] = flow.line(operands(mix)[1 - side], mix.index)
    passes = PASSES - PARTS | {"exp"}
    before = flow.back(step.inputs[0], step.index, is_product, passes)
    if before is not None and before[-1] is not mix:
        add_scores(flow, made, before)
    return made


def contracted(spelt, side) -> tuple[int, int, int] | None:
    """Return the axes of queries and of keys in the weights, and of queries after."""
    mine, other, output = spelt[side], spelt[1 - side], spelt[2]
    keys = [c for c in mine if c in other and c not in output]
    queries = [c for c in mine if c in output and c not in other]
    if len(keys) != 1 or len(queries) != 1:
        return None
    return mine.index(queries[0]), mine.index(keys[0]), output.index(queries[0])


def softmax_axis(step) -> int | None:
    """Return the axis of a softmax, torch's old choice too where none was given."""
    if step.op == "sum":
        axis = step.given(1, "dim")
        return axis % step.inputs[0].dim() if isinstance(axis, int) else None
    if step.row.detail is not None:
        return step.row.detail
    return 0 if step.outputs[0].dim() in (0, 1, 3) else 1


def aligned(weights, steps) -> Tensor:
    """Move the softmax's output as it was moved on its way to the values."""
    for step in steps:
        if step.op in REARRANGES:
            weights = step.func(weights, *step.args[1:], **step.kwargs)
    return weights


def carried_axis(steps, axis) -> int | None:
    """Follow one axis of a tensor through moves; None where it is lost."""
    for step in steps:
        if axis is None:
            return None
        if step.op in MOVES and step.row.detail:
            axis = step.row.detail.index(axis)
        elif step.outputs[0].shape != step.inputs[0].shape:
            old, new = step.inputs[0].shape, step.outputs[0].shape
            from_end = axis - len(old)
            axis = len(new) + from_end if old[from_end:] == new[from_end:] else None
    return axis


def values_of(flow, mix, side) -> Tensor | None:
    """Return the values that meet the weights: tokens in axis -2, features last."""
    spelt = letters(mix)
    own, other = spelt[side], spelt[1 - side]
    token = next(c for c in own if c in other and c not in spelt[2])
    features = [c for c in own if c not in other]
    if not features:
        return None
    value = flow.value(operands(mix)[side], mix.index)
    return value.movedim((own.index(token), own.index(features[-1])), (-2, -1))


def add_scores(flow, made, before):
    """Add query, key and all scalar factors, read off the product before a softmax."""
    made.path, made.product = before, before[-1]
    left, right, output = letters(made.product)
    shared = [c for c in left if c in right and c not in output]
    only = [c for c in left if c not in right], [c for c in right if c not in left]
    if len(shared) != 1 or not all(only):
        return
    names = ["query", "key"]
    turned = transposed(made, output.index(only[0][-1]), len(output))
    for side, name in enumerate(reversed(names) if turned else names):
        tensor, own = operands(made.product)[side], (left, right)[side]
        value = flow.value(tensor, made.product.index)
        axes = own.index(only[side][-1]), own.index(shared[0])
        setattr(made, name, value.movedim(axes, (-2, -1)))
        made.sources[name] = flow.line(tensor, made.product.index)
    made.factor = scalar_factor(
        made.sources["query"] + made.sources["key"] + before[:-1]
    )


def transposed(made, axis, rank) -> bool:
    """Say whether the left operand's tokens, in `axis` of the scores, became keys."""
    for step in reversed(made.path[:-1]):
        if step.op in MOVES and step.row.detail:
            axis = step.row.detail.index(axis)
    return axis == rank - 1 and made.mix.op != "einsum" and made.used.dim() == rank


def scalar_factor(steps) -> float | None:
    """Multiply all plain numbers that scale a line; None where one is learnt."""
    factor = 1.0
    for step in steps:
        number = scale_of(step) if step.op in ("mul", "div") else 1.0
        if number is None:
            return None
        factor *= number
    return factor


def scale_of(step) -> float | None:
    """Return the number by which a step multiplies, None if it is not a fixed one.

    A tensor that is not one number rotates or masks: it does not change the scale.
    """
    number = next(iter([*step.args[1:], *step.kwargs.values()]), None)
    if isinstance(number, Tensor) and isinstance(step.args[0], (int, float)):
        number = step.args[0]
    if isinstance(number, Tensor):
        if number.requires_grad and number.numel() * 64 < step.outputs[0].numel():
            return None
        number = number.item() if number.numel() == 1 else 1.0
    if not isinstance(number, (int, float)) or number == 0:
        return None
    return number if step.op == "mul" else 1 / number


def from_sdpa(flow, step) -> Attention | None:
    """Compute the weights that torch's fused attention does not show."""
    names = "query", "key", "value"
    tensors = [step.given(i, name) for i, name in enumerate(names)]
    query, key, value = (flow.value(tensor, step.index) for tensor in tensors)
    scale = step.kwargs.get("scale") or query.shape[-1] ** -0.5
    if query.dim() == 4 and key.shape[-3] != query.shape[-3]:  # grouped queries
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = query.float() @ key.float().transpose(-2, -1) * scale
    weights = masked(step, scores).softmax(-1).nan_to_num()
    made = Attention(step, step, weights, weights, query_axis=query.dim() - 2)
    made.product, made.query, made.key, made.value = step, query, key, value
    for name, tensor in zip(names, tensors):
        made.sources[name] = flow.line(tensor, step.index)
    factor = scalar_factor(made.sources["query"] + made.sources["key"])
    made.factor = None if factor is None else factor * scale
    return made


def masked(step, scores) -> Tensor:
    """Apply what a call of scaled_dot_product_attention hides: True may be seen."""
    mask = step.given(3, "attn_mask")
    if step.given(5, "is_causal", False):
        mask = torch.ones_like(scores, dtype=torch.bool).tril()
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask
