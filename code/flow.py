"""The flow of tensors through one call, and the attentions in it, for `doctor.py`.

`observe(call, *inputs)` runs a call under the tracer's recorder and keeps each step's
tensors, so that a probe can ask where a tensor came from, where it went, and what it
held at the time. `attentions(flow)` finds each softmax that weighs values.
"""

import contextlib
import string
from dataclasses import dataclass, field

import torch
from axes import tensors_in
from torch import Tensor
from tracer import MOVES, Row, record

SYNONYMS = {"truediv": "div", "divide": "div", "true_divide": "div", "divide_": "div"}
SYNONYMS |= {"multiply": "mul", "subtract": "sub", "iadd": "add", "radd": "add"}
SYNONYMS |= {"isub": "sub", "imul": "mul", "rmul": "mul", "itruediv": "div"}
SYNONYMS |= {"masked_fill_": "masked_fill", "rtruediv": "reciprocal"}

RESHAPES = set("reshape view flatten unflatten unsqueeze squeeze contiguous".split())
RESHAPES |= set("clone view_as reshape_as expand expand_as".split())
CASTS = set("to float half double bfloat16 type type_as detach".split())
SCALES = {"mul", "div", "neg"}
PARTS = set("chunk split unbind getitem select narrow tensor_split".split())
POINTWISE = CASTS | SCALES | set("add sub masked_fill where setitem dropout".split())
POINTWISE |= set("tanh clamp nan_to_num tril triu alpha_dropout sum".split()) - {"sum"}
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
    right_axis: bool = True
    product: Step | None = None
    query: Tensor | None = None  # (..., Tq, K)
    key: Tensor | None = None  # (..., Tk, K)
    value: Tensor | None = None  # (..., Tk, Kv)
    sources: dict = field(default_factory=dict)  # "query" -> steps back along its line
    path: list = field(default_factory=list)  # from the softmax back to the product
    context_axes: tuple = ()  # in the output of `mix`: the axis of queries
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
        if step.op in SOFTMAXES:
            found.append(from_softmax(flow, step))
        elif step.op == SDPA:
            found.append(from_sdpa(flow, step))
    return [attention for attention in found if attention is not None]


def is_product(step) -> bool:
    return step.op in PRODUCTS and letters(step) is not None


def from_softmax(flow, step) -> Attention | None:
    """Read an attention off a softmax: the product before it, the product after it."""
    after = flow.ahead(step.outputs[0], step.index, is_product, PASSES - PARTS)
    if after is None:
        return None
    mix = after[-1]
    carrier = after[-2].outputs[0] if len(after) > 1 else step.outputs[0]
    side = 0 if operands(mix)[0] is carrier else 1
    spelt = letters(mix)
    mine, other, output = spelt[side], spelt[1 - side], spelt[2]
    key_letter = [c for c in mine if c in other and c not in output]
    query_letter = [c for c in mine if c in output and c not in other]
    if len(key_letter) != 1 or len(query_letter) != 1:
        return None
    key_axis, query_axis = mine.index(key_letter[0]), mine.index(query_letter[0])
    used = flow.value(carrier, mix.index)
    moved = carried_axis(after[:-1], step.row.detail, step.outputs[0])
    made = Attention(
        step, mix, step.value, used.movedim((query_axis, key_axis), (-2, -1))
    )
    made.right_axis = moved is None or moved == key_axis
    made.weights = (
        made.used if len(after) == 1 else aligned(step.value, after[:-1], mine)
    )
    made.value = canonical(flow, mix, 1 - side, key_letter[0])
    made.sources["value"] = flow.line(operands(mix)[1 - side], mix.index)
    made.context_axes = (output.index(query_letter[0]),)
    before = flow.back(step.inputs[0], step.index, is_product, PASSES - PARTS)
    if before is not None and before[-1] is not mix:
        add_scores(flow, made, before)
    return made


def aligned(weights, steps, mine):
    """Put the softmax's output in the order of axes in which it met the values."""
    for step in steps:
        if step.op in REARRANGES:
            with contextlib.suppress(Exception):
                weights = step.func(weights, *step.args[1:], **step.kwargs)
    return weights


def carried_axis(steps, axis, tensor):
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


def canonical(flow, step, side, token_letter) -> Tensor | None:
    """Return an operand with its tokens in axis -2 and its features last."""
    own = letters(step)[side]
    rest = [c for c in own if c != token_letter and c not in letters(step)[1 - side]]
    feature = rest[-1:] or [own[-1]]
    if feature[0] == token_letter:
        return None
    value = flow.value(operands(step)[side], step.index)
    return value.movedim((own.index(token_letter), own.index(feature[0])), (-2, -1))


def add_scores(flow, made, before):
    """Add query, key and all scalar factors, read off the product before a softmax."""
    made.path, made.product = before, before[-1]
    spelt = letters(made.product)
    shared = [c for c in spelt[0] if c in spelt[1] and c not in spelt[2]]
    only = [
        [c for c in own if c not in other] for own, other in (spelt[:2], spelt[1::-1])
    ]
    if len(shared) != 1 or not only[0] or not only[1]:
        return
    values = []
    for side in (0, 1):
        tensor, own = operands(made.product)[side], spelt[side]
        value = flow.value(tensor, made.product.index)
        axes = own.index(only[side][-1]), own.index(shared[0])
        values.append(value.movedim(axes, (-2, -1)))
    names = ["query", "key"]
    if values[0].shape[-2] != made.used.shape[-2] or transposed(made, spelt, only):
        names.reverse()
    for side, name in enumerate(names):
        setattr(made, name, values[side])
        tensor = operands(made.product)[side]
        made.sources[name] = flow.line(tensor, made.product.index)
    lines = made.sources["query"] + made.sources["key"] + before[:-1]
    made.factor = scalar_factor(lines)


def transposed(made, spelt, only) -> bool:
    """Say whether the left operand's tokens became the columns of the weights."""
    axis, rank = spelt[2].index(only[0][-1]), len(spelt[2])
    moves = [s for s in reversed(made.path[:-1]) if s.op in MOVES and s.row.detail]
    for step in moves:
        axis = step.row.detail.index(axis)
    return axis == rank - 1 and made.mix.op != "einsum" and made.used.dim() == rank


def scalar_factor(steps) -> float | None:
    """Multiply all plain numbers that scale a line; None where tensors scale it."""
    factor = 1.0
    for step in steps:
        if step.op not in SCALES or step.op == "neg":
            continue
        others = [a for a in step.args[1:]] + list(step.kwargs.values())
        number = others[0] if others else None
        if isinstance(number, Tensor) and isinstance(step.args[0], (int, float)):
            number = step.args[0]
        if isinstance(number, Tensor):
            if number.numel() > 1 and number.numel() < step.outputs[0].numel() // 64:
                return None
            if number.numel() > 1:
                continue
            if number.requires_grad:
                return None
            number = number.item()
        if not isinstance(number, (int, float)) or number == 0:
            return None
        factor *= number if step.op == "mul" else 1 / number
    return factor


def from_sdpa(flow, step) -> Attention | None:
    """Compute the weights that torch's fused attention does not show."""
    query, key, value = (
        (flow.value(step.args[i], step.index) for i in range(3))
        if len(step.args) > 2
        else (step.kwargs.get(name) for name in ("query", "key", "value"))
    )
    if value is None:
        return None
    scale = step.kwargs.get("scale") or query.shape[-1] ** -0.5
    if query.dim() == 4 and key.shape[-3] != query.shape[-3]:  # grouped queries
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = (query.float() @ key.float().transpose(-2, -1)) * scale
    mask = step.given(3, "attn_mask")
    if step.given(5, "is_causal", False):
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().to(scores.device)
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, -torch.inf)
            if mask.dtype == torch.bool
            else (scores + mask)
        )
    weights = scores.softmax(-1).nan_to_num()
    made = Attention(step, step, weights, weights, query=query, key=key, value=value)
    made.product, made.context_axes = step, (step.outputs[0].dim() - 2,)
    for name, tensor in zip(("query", "key", "value"), step.inputs):
        made.sources[name] = flow.line(tensor, step.index)
    lines = made.sources["query"] + made.sources["key"]
    factor = scalar_factor(lines)
    made.factor = None if factor is None else factor * scale
    return made
