"""How padding and order are seen: by each attention, by the output; for the probes."""

import math
import re
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..exam import PEN, differ
from .residual_stream import tables
from .tensor_flow import SDPA, Attention
from .token_changes import meeting, sample_marks

# --- what attention does with padding ------------------------------------------------


@dataclass
class View:
    """How one attention treats padding: shares of the weight of real queries."""

    attention: Attention
    on_pads: float
    hidden: int  # how many weights between real queries and real keys are 0
    queries_hidden: bool


def view_of_padding(exam, attention) -> View | None:
    """Measure how much real queries look at padding; None where axes are unclear."""
    weights, keys = by_sample(exam, attention), keys_of(exam, attention)
    if weights is None or keys is None:
        return None
    keys = keys[:, None, None, :]
    real = torch.ones_like(weights[:, :1, :, :1], dtype=torch.bool)
    if weights.shape[-2] == exam.pads.shape[1]:
        real = ~exam.pads[:, None, :, None]
    on_pads = (weights * keys).sum(-1, keepdim=True)
    partly = exam.pads.any(1) & ~exam.pads.all(1)
    usable = real & partly[:, None, None, None] & (weights.sum(-1, keepdim=True) > 0)
    if not usable.any():
        return None
    hidden = int((weights[(real & ~keys).expand_as(weights)] < 1e-12).sum())
    share = on_pads[usable.expand_as(on_pads)].mean().item()
    return View(attention, share, hidden, flat(weights, exam.pads))


def flat(weights, pads) -> bool:
    """Say whether padded queries, and only they, have no choice among keys."""
    if weights.shape[-2] != pads.shape[1]:
        return False
    spread = weights.float().nan_to_num(0).std(-1) < 1e-6
    rows = pads[:, None, :].expand_as(spread)
    return bool(spread[rows].all()) and not bool(spread[~rows].any())


def by_sample(exam, attention) -> Tensor | None:
    """Return the weights that met the values as (B, H, Tq, Tk), or None."""
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


def heads_in_front(exam, attention) -> bool:
    """Say whether heads were folded into axis 0 in front of samples, not behind."""
    if exam.sequence.n_samples < 2 or attention.mix.value.dim() != 3:
        return False
    return sample_marks(exam, attention, 0)[:2].tolist() == [1, 2]


def keys_of(exam, attention) -> Tensor | None:
    """Return padding (B, Tk); further keys, like CLS or registers, are no padding."""
    front, back = company(exam, attention)
    if front < 0 or back < 0:
        return None
    return nn.functional.pad(exam.pads, (front, back), value=False)


def company(exam, attention) -> tuple[int, int]:
    """Return how many keys stand in front of the tokens, and how many behind them."""
    spare = attention.used.shape[-1] - exam.sequence.n_tokens
    met = meeting(exam) if exam.sequence.n_samples > 1 else None
    front = met.shift if met is not None and met.axis == "tokens" else spare
    return front, spare - front


# --- how it is masked ----------------------------------------------------------------


def float_mask(attention) -> bool:
    """Say whether a mask of zeros and ones was added to the scores."""
    if attention.step.op == SDPA:
        added = [attention.step.given(3, "attn_mask")]
    else:
        added = [t for s in attention.path[:-1] if s.op == "add" for t in s.inputs]
    added = [t for t in added if t is not None and t.is_floating_point()]
    return any(t.detach().unique().tolist() in ([0, 1], [1]) for t in added)


def times_mask(attention) -> bool:
    """Say whether scores were multiplied by truth values."""
    factors = [t for s in attention.path[:-1] if s.op == "mul" for t in s.inputs]
    factors = [t.detach() for t in factors if t.dim() > 1]
    return any(t.unique().tolist() in ([0, 1], [False, True]) for t in factors)


def weights_after(attention) -> bool:
    """Say whether weights were set to 0 between the softmax and the values."""
    if attention.used is attention.weights:
        return False
    return bool(((attention.used == 0) & (attention.weights > 0)).any())


def weak_fill(attention) -> float | None:
    """Return the number that hides too little, if scores are filled with one."""
    for step in attention.path[:-1]:
        value = step.given(2, "value")
        if step.op == "masked_fill" and isinstance(value, Tensor):
            value = value.item()
        if step.op == "masked_fill" and value is not None and value > PEN * 100:
            filled = step.value == value
            return float(value) if filled.any() else None
    return None


def compares_ids(exam) -> bool:
    """Say whether the call makes a mask: compares something with a number."""
    return any(s.op in ("eq", "ne", "gt") for s in exam.flow.steps)


# --- what the output does with padding -----------------------------------------------


def change_of_padding(exam):
    """Return (how far real outputs move under other padding, are they pooled)."""
    variants = [swap for swap in padding_variants(exam) if swap]
    plain = exam.run()  # by the same path as the variants, fast where torch's is
    for swap in variants:
        out = exam.run(swap)
        if not out or not plain or out[0].shape != plain[0].shape:
            continue
        far = apart_where_real(exam, plain[:1], out[:1])
        pooled = tokens_axis(exam, exam.output) is None
        if far:
            return far, pooled
    return (0.0, False) if variants else None


def padding_variants(exam):
    """Yield swaps that change what padding holds, or how much of it there is."""
    seq, pads = exam.sequence, exam.pads
    x = seq.tensor
    if not seq.is_ids:
        where = pads.T if seq.batch == 1 else pads
        where = where.unsqueeze(1 if seq.token == 2 else 2).expand_as(x)
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).to(x)
        yield {x: torch.where(where, 3 * noise, x)}
        return
    unreal = {*exam.pad_ids, *x[pads].unique().tolist()}
    real = [i for i in x.unique().tolist() if i not in unreal]
    if exam.masks and real:
        other = torch.where(pads, torch.full_like(x, real[0]), x)
        yield {x: other}
    elif not exam.masks:  # the module makes its own mask: give it more padding
        pad = int(x[pads][0])
        left = bool(pads[:, 0].any()) and not bool(pads[:, -1].any())
        if left and tables(exam):
            return  # more of it would move the tokens to other positions
        yield {x: nn.functional.pad(x, (3, 0) if left else (0, 3), value=pad)}


def tokens_axis(exam, out) -> int | None:
    """Return the axis of an output that has one entry a token, None if it is pooled."""
    seq = exam.sequence
    longer = seq.n_tokens
    if exam.attentions:
        longer += max(0, sum(company(exam, exam.attentions[0])))
    for length in (seq.n_tokens, longer):
        for axis in (seq.token, 1, 0, 2):
            there = 1 < out.dim() > axis != seq.batch
            if there and out.shape[axis] == length:
                return axis
    return None


def apart_where_real(exam, left, right) -> float:
    """Return how far outputs lie apart at real tokens, 0 if only by rounding."""
    far = 0.0
    for one, two in zip(left, right):
        if one.shape != two.shape:
            return math.inf
        moved = differ(one, two, exam.tolerance)
        if moved.any() and exam.sequence is not None:
            moved = moved & real_entries(exam, one).to(moved.device)
        if moved.any():
            far = max(far, (one - two).abs()[moved].max().item())
    return far


def real_entries(exam, out) -> Tensor:
    """Return where an output is of real tokens, in a shape that fits to it."""
    axis, batch, pads = tokens_axis(exam, out), exam.sequence.batch, exam.pads
    if axis is None or pads is None:  # attention may know which keys are real
        axis, pads = (1 - batch if batch in (0, 1) else 0), keys_hidden(exam)
        if out.dim() < 3 or pads is None or pads.shape[1] != out.shape[axis]:
            return torch.ones([1] * out.dim(), dtype=torch.bool)
    keep = ~pads
    if out.shape[axis] > keep.shape[1]:
        keep = nn.functional.pad(keep, company(exam, exam.attentions[0]), value=True)
    shape = [1] * out.dim()
    shape[batch], shape[axis] = keep.shape
    return (keep.T if batch > axis else keep).reshape(shape)


def keys_hidden(exam) -> Tensor | None:
    """Return (B, Tk), True where no query of the first attention sees a key."""
    weights = by_sample(exam, exam.attentions[0]) if exam.attentions else None
    return None if weights is None else (weights < 1e-12).all(1).all(1)


def real_queries(exam, dead) -> bool:
    """Say whether queries without a key are more than those of padding."""
    if exam.sequence is None or exam.pads is None:
        return True
    if dead.shape[-1] != exam.pads.shape[1] or len(dead) % len(exam.pads):
        return True
    rows = dead.reshape(len(exam.pads), -1, dead.shape[-1]).any(1)
    return bool((rows & ~exam.pads).any())


def rows_are_dead(attention, wrong) -> bool:
    """Say whether the rows that do not sum to 1 are those of queries without keys."""
    return bool((attention.used[wrong] == 0).all())


# --- causality -----------------------------------------------------------------------


def triangle(attention) -> str:
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


def deaf_output(exam) -> str:
    """Say which tokens a pooled output cannot hear; "" if it hears all."""
    if exam.output is None or tokens_axis(exam, exam.output) is not None:
        return ""
    n = exam.sequence.n_tokens
    heard = 0
    for token in (1, n // 2, n - 1):
        out = exam.run(exam.changed_at(token=token))
        heard += bool(out) and not torch.equal(out[0], exam.run()[0])
    return "" if heard else "the output does not depend on any token but the first"


def means_to_be_causal(exam) -> bool:
    """Say whether the module's own words promise causality."""
    words = [type(m).__name__ for _, m in exam.modules] + list(exam.kwargs)
    words += [name for _, m in exam.modules for name in vars(m)]
    return any(re.search(r"causal|decoder|gpt|autoregress", w, re.I) for w in words)
