"""How padding and order are seen: by each attention, and by the output."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..exam import Exam, Swap
from ..inputs import HIDDEN
from ..numbers import differ
from .attentions import SDPA, Attention, scores
from .position_tables import position_tables
from .token_changes import inner_order, token_pairing
from .token_labels import sample_marks

# --- what attention does with padding ------------------------------------------------


@dataclass
class PaddingView:
    """How one attention treats padding."""

    attention: Attention
    on_padding: float  # the share of real queries' weight that padded keys get
    n_hidden: int  # how many weights between real queries and real keys are 0
    hides_queries: bool


def padding_view(exam: Exam, attention: Attention) -> PaddingView | None:
    """Measure how much real queries look at padding; None where axes are unclear."""
    if not attention.has_scores and attention.used.shape[-1] != exam.padding.shape[1]:
        return None  # a softmax over something else than tokens, like a kernel's taps
    weights, padded_keys = by_sample(exam, attention), padding_of_keys(exam, attention)
    if weights is None or padded_keys is None:
        return None
    keys = padded_keys[:, None, None, :]  # as weights: (B, H, Tq, Tk)
    real = torch.ones_like(weights[:, :1, :, :1], dtype=torch.bool)
    if weights.shape[-2] == exam.padding.shape[1]:
        real = ~exam.padding[:, None, :, None]

    on_padding = (weights * keys).sum(-1, keepdim=True)
    # Samples without padding, or with nothing else, would only dilute the mean.
    partly = exam.padding.any(1) & ~exam.padding.all(1)
    usable = real & partly[:, None, None, None] & (weights.sum(-1, keepdim=True) > 0)
    if not usable.any():
        return None
    return PaddingView(
        attention,
        on_padding=on_padding[usable.expand_as(on_padding)].mean().item(),
        n_hidden=int((weights[(real & ~keys).expand_as(weights)] < 1e-12).sum()),
        hides_queries=some_row_hidden(exam, attention)
        and queries_without_choice(weights, exam.padding),
    )


def queries_without_choice(weights: Tensor, padding: Tensor) -> bool:
    """Say whether padded queries, and only they, have the same weight on all keys."""
    if weights.shape[-2] != padding.shape[1]:
        return False
    uniform = weights.float().nan_to_num(0).std(-1) < 1e-6
    rows = padding[:, None, :].expand_as(uniform)
    return bool(uniform[rows].all()) and not bool(uniform[~rows].any())


def some_row_hidden(exam: Exam, attention: Attention) -> bool:
    """Say whether a mask hides all keys from some query: one of zeros only blurs it."""
    entered = scores(exam.flow, attention)
    if entered is None:
        mask = attention.step.given(3, "attn_mask")
        if not isinstance(mask, Tensor):
            return False
        hidden = ~mask if mask.dtype == torch.bool else mask < HIDDEN / 2
        return bool(hidden.all(-1).any())
    return bool((entered < HIDDEN / 2).all(-1).any())


def by_sample(exam: Exam, attention: Attention) -> Tensor | None:
    """Return the weights that met the values as (B, H, Tq, Tk), or None.

    In the order of the inputs, whatever their order was inside.
    """
    weights, order = by_place(exam, attention), inner_order(exam)
    return weights if weights is None or order is None else weights[order]


def by_place(exam: Exam, attention: Attention) -> Tensor | None:
    """Return the weights as (B, H, Tq, Tk), samples as they stand inside, or None."""
    used, n = attention.used.float(), exam.sequence.n_samples
    if used.dim() == 2 and n == 1:
        return used[None, None]
    if used.dim() == 3 and len(used) % n == 0:
        if len(used) > n and heads_in_front(exam, attention):
            return used.unflatten(0, (-1, n)).transpose(0, 1)
        return used.unflatten(0, (n, -1))
    if used.dim() == 4 and n in used.shape[:2]:
        return used if len(used) == n else used.transpose(0, 1)
    return None


def heads_in_front(exam: Exam, attention: Attention) -> bool:
    """Say whether heads were folded into axis 0 in front of samples, not behind."""
    if exam.sequence.n_samples < 2 or attention.mix.value.dim() != 3:
        return False
    return sample_marks(exam, attention, 0)[:2].tolist() == [1, 2]


def padding_of_keys(exam: Exam, attention: Attention) -> Tensor | None:
    """Return padding (B, Tk); further keys, like CLS or registers, are no padding."""
    front, back = extra_keys(exam, attention)
    if front < 0 or back < 0:
        return None
    return nn.functional.pad(exam.padding, (front, back), value=False)


def extra_keys(exam: Exam, attention: Attention) -> tuple[int, int]:
    """Return how many keys stand in front of the tokens, and how many behind them."""
    extra = attention.used.shape[-1] - exam.sequence.n_tokens
    pairing = token_pairing(exam) if exam.sequence.n_samples > 1 else None
    front = extra  # most often it is one token, put in front of all
    if pairing is not None and pairing.axis == "tokens":
        front = pairing.shift
    return front, extra - front


# --- how it is masked ----------------------------------------------------------------


def adds_float_mask(attention: Attention) -> bool:
    """Say whether a mask of zeros and ones was added to the scores."""
    if attention.step.op == SDPA:
        added = [attention.step.given(3, "attn_mask")]
    else:
        added = [t for s in attention.path[:-1] if s.op == "add" for t in s.inputs]
    added = [t for t in added if t is not None and t.is_floating_point()]
    return any(t.detach().unique().tolist() in ([0, 1], [1]) for t in added)


def multiplies_mask(attention: Attention) -> bool:
    """Say whether scores were multiplied by truth values."""
    factors = [t for s in attention.path[:-1] if s.op == "mul" for t in s.inputs]
    factors = [t.detach() for t in factors if t.dim() > 1]
    return any(t.unique().tolist() in ([0, 1], [False, True]) for t in factors)


def masks_weights(attention: Attention) -> bool:
    """Say whether weights were set to 0 between the softmax and the values."""
    if attention.used is attention.weights:
        return False
    return bool(((attention.used == 0) & (attention.weights > 0)).any())


def weak_fill(attention: Attention) -> float | None:
    """Return the number that hides too little, if scores are filled with one."""
    for step in attention.path[:-1]:
        value = step.given(2, "value")
        if step.op == "masked_fill" and isinstance(value, Tensor):
            value = value.item()
        if step.op == "masked_fill" and value is not None and value > HIDDEN * 100:
            filled = step.value == value
            return float(value) if filled.any() else None
    return None


# --- what the output does with padding -----------------------------------------------


def effect_of_padding(exam: Exam) -> float:
    """Return how far the outputs of real tokens move under other padding."""
    plain = exam.fast_outputs  # by the same path as the variants
    for swap in padding_variants(exam):
        out = exam.run(swap)
        if not out or not plain or out[0].shape != plain[0].shape:
            continue
        distance = apart_where_real(exam, plain[:1], out[:1])
        if distance:
            return distance
    return 0.0


def padding_variants(exam: Exam) -> Iterator[Swap]:
    """Yield swaps that change what padding holds, or how much of it there is."""
    seq, padding, x = exam.sequence, exam.padding, exam.sequence.tensor
    if not seq.is_ids:
        where = padding.T if seq.batch == 1 else padding
        where = where.unsqueeze(1 if seq.token == 2 else 2).expand_as(x)
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).to(x)
        yield {x: torch.where(where, 3 * noise, x)}
        return
    unreal = {*exam.pad_ids, *x[padding].unique().tolist()}
    real = [i for i in x.unique().tolist() if i not in unreal]
    if list(exam.believed_masks(seq)):
        if real and not list(exam.compared_ids()):
            yield {x: torch.where(padding, torch.full_like(x, real[0]), x)}
    else:  # the module makes its own mask: give it more padding
        pad = int(x[padding][0])
        left = bool(padding[:, 0].any()) and not bool(padding[:, -1].any())
        if left and position_tables(exam):
            return  # more of it would move the tokens to other positions
        yield {x: nn.functional.pad(x, (3, 0) if left else (0, 3), value=pad)}


def tokens_axis(exam: Exam, out: Tensor) -> int | None:
    """Return the axis of an output that has one entry a token, None if it is pooled."""
    seq = exam.sequence
    longer = seq.n_tokens
    if exam.attentions:
        longer += max(0, sum(extra_keys(exam, exam.attentions[0])))
    for length in (seq.n_tokens, longer):
        for axis in (seq.token, 1, 0, 2):
            there = out.dim() > max(1, axis) and axis != seq.batch_axis
            if there and out.shape[axis] == length:
                return axis
    return None


def apart_where_real(exam: Exam, left: list[Tensor], right: list[Tensor]) -> float:
    """Return how far outputs lie apart at real tokens, 0 if only by rounding."""
    far = 0.0
    for one, two in zip(left, right, strict=False):
        if one.shape != two.shape:
            return math.inf
        moved = differ(one, two, exam.tolerance)
        if moved.any() and exam.has_sequence:
            moved = moved & real_entries(exam, one).to(moved.device)
        if moved.any():
            far = max(far, (one - two).abs()[moved].max().item())
    return far


def real_entries(exam: Exam, out: Tensor) -> Tensor:
    """Return where an output is of real tokens, in a shape that fits to it."""
    all_of_it = torch.ones([1] * out.dim(), dtype=torch.bool)
    batch, axis = exam.sequence.batch_axis, tokens_axis(exam, out)
    if batch is None:
        return all_of_it
    padding = exam.padding_if_any
    if axis is None or padding is None:  # attention may know which keys are real
        axis, padding = (0 if batch == 1 else 1), hidden_keys(exam)
        if out.dim() < 3 or padding is None or padding.shape[1] != out.shape[axis]:
            return all_of_it
    keep = ~padding
    if out.shape[axis] > keep.shape[1]:
        keep = nn.functional.pad(keep, extra_keys(exam, exam.attentions[0]), value=True)
    shape = [1] * out.dim()
    shape[batch], shape[axis] = keep.shape
    return (keep.T if batch > axis else keep).reshape(shape)


def hidden_keys(exam: Exam) -> Tensor | None:
    """Return (B, Tk), True where no query of the first attention sees a key."""
    weights = by_sample(exam, exam.attentions[0]) if exam.attentions else None
    return None if weights is None else (weights < 1e-12).all(1).all(1)


def real_queries(exam: Exam, dead: Tensor) -> bool:
    """Say whether queries without a key are more than those of padding."""
    if not exam.has_sequence or not exam.has_padding:
        return True
    if dead.shape[-1] != exam.padding.shape[1] or len(dead) % len(exam.padding):
        return True
    rows = dead.reshape(len(exam.padding), -1, dead.shape[-1]).any(1)
    order = inner_order(exam)
    rows = rows if order is None else rows[order]
    return bool((rows & ~exam.padding).any())


def rows_are_dead(attention: Attention, wrong: Tensor) -> bool:
    """Say whether the rows that do not sum to 1 are those of queries without keys."""
    return bool((attention.used[wrong] == 0).all())


# --- causality -----------------------------------------------------------------------


def triangle(attention: Attention) -> str:
    """Return "causal", "reversed" or "peeks" where weights have that shape, else ""."""
    weights = attention.used.float().nan_to_num(0)
    n = weights.shape[-1]
    if weights.shape[-2] != n or n < 4:
        return ""
    seen = (weights.abs() > 0).reshape(-1, n, n).any(0)
    above, below = seen.triu(1).any(), seen.tril(-1).any()
    if below and not above:
        return "causal"
    if above and not below:
        return "reversed"
    far = seen.triu(2).any()
    low = seen.tril(1).sum() > 0.8 * torch.ones(n, n).tril(1).sum()
    return "peeks" if above and below and not far and bool(low) else ""


def first_token_only(exam: Exam) -> bool:
    """Say whether a pooled output depends on no token but the first."""
    if not exam.outputs or tokens_axis(exam, exam.output) is not None:
        return False
    n, plain = exam.sequence.n_tokens, exam.fast_outputs
    for token in (1, n // 2, n - 1):
        out = exam.run(exam.changed_at(token=token))
        if out and plain and not torch.equal(out[0], plain[0]):
            return False
    return True


def means_to_be_causal(exam: Exam) -> bool:
    """Say whether the module's own words promise causality."""
    words = [type(m).__name__ for _, m in exam.modules] + list(exam.kwargs)
    words += [name for _, m in exam.modules for name in vars(m)]
    return any(re.search("causal|decoder|gpt|autoregress", w, re.I) for w in words)
