"""The attentions of a call: each softmax whose weights are multiplied with values.

They are recognised by what they compute, whatever the code looks like: by matmul, bmm,
einsum or torch's fused attention, with any order of axes, with a softmax by hand.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ...tracer import Row
from .tensor_flow import PASSES, PIECES, REARRANGES, Flow, Step

PRODUCTS = {"matmul", "rmatmul", "bmm", "mm", "einsum", "baddbmm"}
SOFTMAXES = {"softmax", "log_softmax"}
SDPA = "scaled_dot_product_attention"


@dataclass(repr=False, eq=False)
class Attention:
    """One softmax whose weights were multiplied with values.

    `weights` left the softmax and `used` met the values, perhaps after dropout: both
    have the queries in axis -2 and the keys in axis -1. Additive attention has no
    `query` and no `key`: see `has_scores`.
    """

    step: Step  # the softmax
    mix: Step  # the product of weights and values; for fused attention, both are one
    weights: Tensor
    used: Tensor
    query_axis: int  # in what `mix` returns
    over_keys: bool = True  # does the softmax run over the keys?
    product: Step | None = None  # of queries and keys
    value: Tensor | None = None  # (..., Tk, Kv)
    multiplied: dict[str, Tensor] = field(default_factory=dict)  # "query", "key"
    # "query", "key", "value" -> the steps that made it, the last first, back to a layer
    sources: dict[str, list[Step]] = field(default_factory=dict)
    path: list[Step] = field(default_factory=list)  # from the softmax back to `product`
    factor: float | None = None  # all scalars between the projections and the softmax

    @property
    def has_scores(self) -> bool:
        """Whether its scores are products of queries and keys."""
        return bool(self.multiplied)

    @property
    def query(self) -> Tensor:
        """The queries (..., Tq, K) as they met the keys."""
        return self.multiplied["query"]

    @property
    def key(self) -> Tensor:
        """The keys (..., Tk, K) as they met the queries."""
        return self.multiplied["key"]

    @property
    def width(self) -> int:
        """K, the features of one head; 0 for additive attention."""
        return self.query.shape[-1] if self.has_scores else 0

    @property
    def n_heads(self) -> int:
        """H, as far as the weights show it: 1 where heads are in the batch."""
        return self.weights.shape[1] if self.weights.dim() == 4 else 1

    @property
    def row(self) -> Row:
        return self.step.row

    @property
    def is_recomputed(self) -> bool:
        """Whether it ran inside torch's own module, and the recorder ran it again."""
        return self.row.note.startswith("recomputed")

    def source(self, side: str) -> Step | None:
        """Return the layer that made "query", "key" or "value", if one was found."""
        line = self.sources.get(side)
        return line[-1] if line else None

    def last_step(self, side: str) -> Step | None:
        """Return the step that "query", "key" or "value" left."""
        line = self.sources.get(side)
        return line[0] if line else None


def attentions(flow: Flow) -> list[Attention]:
    """Find all attentions of a call, in the order in which they ran."""
    found = []
    for step in flow.steps:
        if step.op in SOFTMAXES or softmax_by_hand(flow, step) is not None:
            found.append(from_softmax(flow, step))
        elif step.op == SDPA:
            found.append(from_fused(flow, step))
    return [attention for attention in found if attention is not None]


def model_width(attention: Attention) -> int:
    """Return d_model: what the projection of the query reads."""
    layer = attention.source("query")
    if layer is not None and layer.op == "linear":
        return layer.inputs[1].shape[-1]
    return attention.width * attention.n_heads


def inner_width(attention: Attention) -> int:
    """Return H * K, all heads together, read off the context; 0 if it is unclear."""
    context = attention.mix.outputs[0]
    return attention.n_heads * attention.width if context.dim() == 4 else 0


def normalised(attention: Attention) -> bool:
    """Say whether queries or keys are normalised: then any factor may be right."""
    for side in ("query", "key"):
        line = attention.sources.get(side) or []
        divided = [s for s in line[:-1] if s.op == "div" and len(s.args) > 1]
        by_tensor = [s.args[1] for s in divided if isinstance(s.args[1], Tensor)]
        if any(tensor.numel() > 1 for tensor in by_tensor):
            return True
        if line and line[-1].op in ("layer_norm", "rms_norm", "normalize"):
            return True
    return False


def products_in_scores(flow: Flow, attention: Attention) -> int:
    """Count the products that are added up to scores: of content, of positions."""
    sums = [s for s in attention.path[:-1] if s.op == "add"]
    carried = {id(t) for s in attention.path for t in s.outputs}
    others = [(t, s.index) for s in sums for t in s.inputs if id(t) not in carried]
    ways, products = BEFORE_SOFTMAX | {"gather"}, set()
    while others:
        tensor, index = others.pop()
        step = flow.producer(tensor, index)
        if step is not None and is_product(step):
            products.add(step.index)
        elif step is not None and step.op in ways:
            others += [(t, step.index) for t in step.inputs]
    return 1 + len(products)


def scores(flow: Flow, attention: Attention) -> Tensor | None:
    """Return the scores as they entered the softmax; None for fused attention."""
    if attention.step.op == SDPA:
        return None
    return flow.value(attention.step.inputs[0], attention.step.index).float()


# --- products ------------------------------------------------------------------------


def operands(step: Step) -> list[Tensor]:
    """Return the two tensors that a product multiplies, left one first."""
    tensors = step.inputs[1:] if step.op == "baddbmm" else step.inputs
    return tensors[::-1] if step.op == "rmatmul" else tensors


class Letters(NamedTuple):
    """A product spelt as einsum would: one letter for each axis.

    Then one rule reads all products: a letter of both sides that the output lacks was
    summed over, one that only one side has is that tensor's own.
    """

    left: str
    right: str
    output: str


def letters(step: Step) -> Letters | None:
    """Spell a product, None if it is an unusual one."""
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
    return Letters(start[0] + "ik", start[1] + "kj", lead + "ij")


def einsum_letters(equation: object, tensors: list[Tensor]) -> Letters | None:
    """Write an equation's ... out as capitals, aligned at the right as broadcast is."""
    if not isinstance(equation, str):
        return None
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if not output or len(terms) != 2:
        return None
    extra = [
        tensor.dim() - len(term.replace("...", ""))
        for term, tensor in zip(terms, tensors, strict=True)
    ]
    dots = string.ascii_uppercase[: max(extra)]
    left, right, out = (
        term.replace("...", dots[len(dots) - n :])
        for term, n in zip([*terms, output], [*extra, len(dots)], strict=True)
    )
    return Letters(left, right, out)


def is_product(step: Step) -> bool:
    return step.op in PRODUCTS and letters(step) is not None


# --- from a softmax ------------------------------------------------------------------


def softmax_by_hand(flow: Flow, step: Step) -> Step | None:
    """Return the sum of exponentials by which a step divides one, as a softmax does."""
    if step.op != "div" or len(step.inputs) != 2:
        return None
    above, below = (flow.producer(t, step.index) for t in step.inputs)
    exponential = above is not None and above.op == "exp"
    return below if exponential and below is not None and below.op == "sum" else None


BEFORE_SOFTMAX = PASSES - PIECES | {"exp"}


def from_softmax(flow: Flow, step: Step) -> Attention | None:
    """Read an attention off a softmax: the product before it, the product after it."""
    after = flow.ahead(step.outputs[0], step.index, is_product, PASSES - PIECES)
    if after is None:
        return None
    *between, mix = after
    spelt = letters(mix)
    carrier = between[-1].outputs[0] if between else step.outputs[0]
    side = 0 if operands(mix)[0] is carrier else 1
    axes = contracted(spelt, side) if spelt else None
    if spelt is None or axes is None:
        return None

    query_axis, key_axis, out_axis = axes
    used = flow.value(carrier, mix.index).movedim((query_axis, key_axis), (-2, -1))
    weights = aligned(step.value, between) if between else used
    attention = Attention(step, mix, weights, used, query_axis=out_axis)
    axis = axis_of_softmax(softmax_by_hand(flow, step) or step)
    axis = carried_axis(between, axis)
    attention.over_keys = axis is None or axis == key_axis
    attention.value = values_of(flow, mix, spelt, 1 - side)
    attention.sources["value"] = flow.line(operands(mix)[1 - side], mix.index)

    before = flow.back(step.inputs[0], step.index, is_product, BEFORE_SOFTMAX)
    if before is not None and before[-1] is not mix:
        add_scores(flow, attention, before)
    return attention


def contracted(spelt: Letters, side: int) -> tuple[int, int, int] | None:
    """Return the axes of queries and of keys in the weights, and of queries after.

    The keys are what the product sums over; the queries only the weights have.
    """
    mine, other, output = spelt[side], spelt[1 - side], spelt[2]
    keys = [c for c in mine if c in other and c not in output]
    queries = [c for c in mine if c in output and c not in other]
    if len(keys) != 1 or len(queries) != 1:
        return None
    return mine.index(queries[0]), mine.index(keys[0]), output.index(queries[0])


def axis_of_softmax(step: Step) -> int | None:
    """Return the axis of a softmax, torch's old choice too where none was given."""
    if step.op == "sum":
        axis = step.given(1, "dim")
        return axis % step.inputs[0].dim() if isinstance(axis, int) else None
    if step.row.detail is not None:
        return cast("int", step.row.detail)
    return 0 if step.outputs[0].dim() in (0, 1, 3) else 1


def aligned(weights: Tensor, steps: list[Step]) -> Tensor:
    """Move the softmax's output as it was moved on its way to the values."""
    for step in steps:
        if step.op in REARRANGES:
            weights = step.func(weights, *step.args[1:], **step.kwargs)
    return weights


def carried_axis(steps: list[Step], axis: int | None) -> int | None:
    """Follow one axis of a tensor through moves; None where it is lost."""
    for step in steps:
        if axis is None:
            return None
        if step.order:
            axis = step.order.index(axis)
        elif step.outputs[0].shape != step.inputs[0].shape:
            # A reshape keeps an axis if all behind it, itself included, stays.
            old, new = step.inputs[0].shape, step.outputs[0].shape
            from_end = axis - len(old)
            axis = len(new) + from_end if old[from_end:] == new[from_end:] else None
    return axis


def values_of(flow: Flow, mix: Step, spelt: Letters, side: int) -> Tensor | None:
    """Return the values that meet the weights: tokens in axis -2, features last."""
    own, other = spelt[side], spelt[1 - side]
    token = next(c for c in own if c in other and c not in spelt[2])
    features = [c for c in own if c not in other]
    if not features:
        return None
    value = flow.value(operands(mix)[side], mix.index)
    return value.movedim((own.index(token), own.index(features[-1])), (-2, -1))


def add_scores(flow: Flow, attention: Attention, path: list[Step]) -> None:
    """Add query, key and all scalar factors, read off the product before a softmax."""
    product = path[-1]
    attention.path, attention.product = path, product
    spelt = letters(product)
    if spelt is None:
        return
    left, right, output = spelt
    feature, own = head_letters(spelt)
    if feature is None:
        return

    # q @ k.T is usual, but k @ q.T with the axes exchanged later computes the same.
    names = ["query", "key"]
    if left_is_key(attention, output.index(own[0][-1]), len(output)):
        names.reverse()
    for name, tensor, axes_of, tokens in zip(
        names, operands(product), (left, right), own, strict=True
    ):
        axes = axes_of.index(tokens[-1]), axes_of.index(feature)
        value = flow.value(tensor, product.index)
        attention.multiplied[name] = value.movedim(axes, (-2, -1))
        attention.sources[name] = flow.line(tensor, product.index)

    # A scale may stand on the queries, the keys or the scores: all of them multiply.
    lines = attention.sources["query"] + attention.sources["key"]
    attention.factor = scalar_factor(lines + path[:-1])


def head_letters(spelt: Letters) -> tuple[str | None, tuple[list, list]]:
    """Return the letter of a head's features, if there is one, and those of tokens.

    One letter is summed over: the features of a head. What only one operand has is
    its tokens. Additive attention, or a product of matrices of weights, has others.
    """
    left, right, output = spelt
    features = [c for c in left if c in right and c not in output]
    own = [c for c in left if c not in right], [c for c in right if c not in left]
    return features[0] if len(features) == 1 and all(own) else None, own


def left_is_key(attention: Attention, axis: int, rank: int) -> bool:
    """Say whether the left operand's tokens, in `axis` of the scores, became keys."""
    for step in reversed(attention.path[:-1]):
        if step.order:
            axis = step.order.index(axis)
    plain = attention.mix.op != "einsum" and attention.used.dim() == rank
    return plain and axis == rank - 1


# --- factors -------------------------------------------------------------------------


def scalar_factor(steps: Iterable[Step]) -> float | None:
    """Multiply all plain numbers that scale a line; None where one is learnt."""
    factor = 1.0
    for step in steps:
        number = scale_of(step) if step.op in ("mul", "div") else 1.0
        if number is None:
            return None
        factor *= number
    return factor


def scale_of(step: Step) -> float | None:
    """Return the number by which a step multiplies, None if it is not a fixed one.

    A tensor that is not one number rotates or masks: it does not change the scale.
    """
    number = next(iter([*step.args[1:], *step.kwargs.values()]), None)
    if isinstance(number, Tensor) and isinstance(step.args[0], (int, float)):
        number = step.args[0]  # 0.5 * x
    if isinstance(number, Tensor):
        # A few trained numbers are a temperature; as many as features are a gain.
        if number.requires_grad and number.numel() * 64 < step.outputs[0].numel():
            return None
        number = number.item() if number.numel() == 1 else 1.0
    if not isinstance(number, (int, float)) or number == 0:
        return None
    return number if step.op == "mul" else 1 / number


# --- from torch's fused attention ----------------------------------------------------


def from_fused(flow: Flow, step: Step) -> Attention:
    """Compute the weights that torch's fused attention does not show."""
    names = "query", "key", "value"
    tensors = [step.given(i, name) for i, name in enumerate(names)]
    query, key, value = (flow.value(tensor, step.index) for tensor in tensors)
    scale = step.kwargs.get("scale") or query.shape[-1] ** -0.5
    if query.dim() == 4 and key.shape[-3] != query.shape[-3]:  # grouped queries
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    products = query.float() @ key.float().transpose(-2, -1) * scale
    weights = masked(step, products).softmax(-1).nan_to_num()

    attention = Attention(step, step, weights, weights, query_axis=query.dim() - 2)
    attention.product, attention.value = step, value
    attention.multiplied = {"query": query, "key": key}
    for name, tensor in zip(names, tensors, strict=True):
        attention.sources[name] = flow.line(tensor, step.index)
    lines = attention.sources["query"] + attention.sources["key"]
    factor = scalar_factor(lines)
    attention.factor = None if factor is None else factor * scale
    return attention


def masked(step: Step, products: Tensor) -> Tensor:
    """Apply what a call of scaled_dot_product_attention hides: True may be seen."""
    mask = step.given(3, "attn_mask")
    if step.given(5, "is_causal", False):
        mask = torch.ones_like(products, dtype=torch.bool).tril()
    if mask is None:
        return products
    if mask.dtype == torch.bool:
        return products.masked_fill(~mask, -torch.inf)
    return products + mask
