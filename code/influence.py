"""Who depends on whom inside a module, measured by changing inputs; for `probes.py`."""

import functools
import math
import re
from dataclasses import dataclass

import torch
from axes import tensors_in
from exam import PEN, differ, floats
from flow import (
    MOVES,
    PASSES,
    PRODUCTS,
    RESHAPES,
    SDPA,
    Attention,
    Flow,
    Step,
    attentions,
    main_input,
    memory,
)
from torch import Tensor, nn

LAYERS = {"linear", "layer_norm", "embedding", "rms_norm", "einsum", "matmul", "addmm"}
ACTIVATIONS = set("relu gelu silu tanh leaky_relu elu sigmoid mish glu selu".split())
MASKED = {"masked_fill", "where", "setitem"}
FUSED = {"multi_head_attention_forward", "_native_multi_head_attention"}


def once(function):
    """Keep the answer in the exam: several probes ask the same question."""

    @functools.wraps(function)
    def remembered(exam):
        if function not in exam.known:
            exam.known[function] = function(exam)
        return exam.known[function]

    return remembered


# --- shapes of attention -------------------------------------------------------------


def scores(exam, attention) -> Tensor | None:
    """Return the scores as they entered the softmax; None for fused attention."""
    if attention.step.op == SDPA:
        return None
    return exam.flow.value(attention.step.inputs[0], attention.step.index).float()


def heads(attention) -> int:
    """Return the number of heads, as far as the weights show it."""
    return attention.weights.shape[1] if attention.weights.dim() == 4 else 1


def model_width(attention) -> int:
    """Return d_model: what the projection of the query reads."""
    last = attention.sources["query"][-1:] or [None]
    if last[0] is not None and last[0].op == "linear":
        return last[0].inputs[1].shape[-1]
    return attention.width * heads(attention)


def inner_width(attention) -> int:
    """Return H * K, all heads together, read off the context."""
    context = attention.mix.outputs[0]
    return heads(attention) * attention.width if context.dim() == 4 else 0


def normalised(attention) -> bool:
    """Say whether queries or keys are normalised: then any factor may be right."""
    for side in ("query", "key"):
        for step in attention.sources.get(side, [])[:-1]:
            if step.op == "div" and not math.isfinite(scalar_of(step)):
                return True
        last = attention.sources.get(side, [])[-1:]
        if last and last[0].op in ("layer_norm", "rms_norm", "normalize"):
            return True
    return False


def scalar_of(step) -> float:
    number = step.args[1] if len(step.args) > 1 else None
    if isinstance(number, Tensor):
        return number.item() if number.numel() == 1 else math.nan
    return float(number) if isinstance(number, (int, float)) else math.nan


# --- one changed token ---------------------------------------------------------------


@dataclass
class Meeting:
    """What the first attention pairs: "tokens", "samples", "features", "scrambled"."""

    attention: Attention
    axis: str
    guilty: Step | None = None
    projected: bool = False


def pins(changed) -> dict[int, int]:
    """Return {axis: index} for the axes along which all changes sit at one index."""
    found = {}
    for axis, length in enumerate(changed.shape):
        others = [a for a in range(changed.dim()) if a != axis]
        hit = changed.any(dim=others) if others else changed
        if length > 1 and int(hit.sum()) == 1:
            found[axis] = int(hit.nonzero())
    return found


def alike(left: Flow, right: Flow) -> bool:
    return (
        left is not None
        and right is not None
        and [s.op for s in left.steps] == [s.op for s in right.steps]
    )


@once
def changed_flows(exam) -> list[Flow] | None:
    """Observe the call with another token t in sample 0, and then in sample 1."""
    token = real_token(exam)
    flows = [exam.observe(exam.changed_at(sample, token)) for sample in (0, 1)]
    return flows if all(alike(exam.flow, flow) for flow in flows) else None


def real_token(exam) -> int:
    """Return a position that is not padding in samples 0 and 1, and not 0 or 1."""
    if exam.pads is None:
        return exam.sequence.n_tokens - 1
    real = (~exam.pads[:2].any(0)).nonzero().flatten()
    return int(real[-1]) if len(real) else 0


@once
def meeting(exam) -> Meeting | None:
    """Find out what the first attention pairs, by changing one token; None if unclear."""
    flows = changed_flows(exam)
    first = next((a for a in exam.attentions if a.key is not None), None)
    if flows is None or first is None or exam.sequence.n_tokens < 2:
        return None
    index = exam.attentions.index(first)
    others = [attentions(flow)[index].key for flow in flows]
    changed = [differ(first.key, other).any(-1) for other in others]
    if not all(c.any() for c in changed):
        return None
    where = [pins(c) for c in changed]
    last = changed[0].dim() - 1
    if last in where[0] and last in where[1]:
        return Meeting(
            first, "tokens" if where[0][last] == where[1][last] else "samples"
        )
    if len(where[0]) >= 2 and changed[0].shape[last] > 1:
        return Meeting(first, "features")
    guilty, projected = first_scramble(exam, first, flows[0])
    return Meeting(first, "scrambled" if guilty else "unclear", guilty, projected)


def first_scramble(exam, attention, flow):
    """Return the step on the key's line after which one token is no more one row."""
    line, step = [], (attention.sources.get("key") or [None])[0]
    while step is not None and len(line) < 80:
        line.append(step)
        through = PASSES | LAYERS | {"mean", "var", "std", "pow", "sqrt", "rsqrt"}
        if step.op not in through or not step.inputs:
            break
        step = exam.flow.producer(main_input(step), step.index)
    projected = False
    for step in reversed(line):
        changed = differ(step.value, flow.steps[step.index].value)
        whole = changed.any() and is_row(changed, exam.sequence)
        if not whole and changed.any():
            return step, projected
        projected |= step.op in ("linear", "einsum", "matmul", "addmm")
    return None, projected


def is_row(changed, sequence) -> bool:
    """Say whether changes fill one token of one sample, whatever the order of axes."""
    if len(pins(changed)) >= 2:
        return True
    flat = sequence.n_samples * sequence.n_tokens
    return len(pins(changed)) == 1 and any(n == flat for n in changed.shape)


@once
def batch_first_for_sure(exam) -> bool:
    """Say whether axis 0 must be the batch: ids, a mask, or a pooled output say so."""
    seq, out = exam.sequence, exam.output
    if seq.is_ids or any(m.shape[:1] == seq.tensor.shape[:1] for m in exam.masks):
        return True
    return out is not None and out.dim() == 2 and len(out) == seq.n_samples


def merged(exam, attention):
    """Follow labels of tokens from the context through moves: (labels, steps, end).

    The label of an element is its token, and its sample as far as samples are known.
    """
    tensor, index = attention.mix.outputs[0], attention.mix.index
    labels = context_labels(exam, attention)
    steps = []
    while True:
        users = [s for s in exam.flow.users(tensor, index) if s.op in MOVES | RESHAPES]
        others = [s for s in exam.flow.users(tensor, index) if s not in users]
        if not users:
            break
        step = users[0]
        moved = step.func(labels, *step.args[1:], **step.kwargs)
        if moved.shape != step.outputs[0].shape:
            break
        labels, tensor, index = moved, step.outputs[0], step.index
        steps.append(step)
    end = others[0] if others else None
    final = any(tensor is t for t in tensors_in(exam.flow.result))
    joins = end is not None and end.op in ("linear", "matmul", "add", "dropout")
    return labels, steps, joins or final or None


def context_labels(exam, attention) -> Tensor:
    shape = attention.mix.outputs[0].shape
    axis = attention.context_axes[0]
    view = [1] * len(shape)
    view[axis] = -1
    labels = torch.arange(shape[axis]).view(view).expand(shape)
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    for sample, flow in enumerate(flows or []):
        step = flow.steps[attention.mix.index]
        changed = differ(attention.mix.value, step.value)
        along = [a for a in range(len(shape)) if a != axis]
        for a in along:
            hit = changed.any(dim=[b for b in range(len(shape)) if b != a])
            if hit.any() and not hit.all() and a != len(shape) - 1:
                view = [1] * len(shape)
                view[a] = -1
                labels = labels + hit.long().view(view) * 10_000 * (sample + 1)
    return labels.contiguous()


# --- samples -------------------------------------------------------------------------


def other_samples(exam):
    """Yield (what, swap): other content in sample 0, and another mask for sample 0."""
    yield "content", exam.changed_at(0)
    for mask in exam.masks:
        if len(mask) == exam.sequence.n_samples:
            other = mask.clone()
            other[0] = mask[-1] if not torch.equal(mask[0], mask[-1]) else mask[1]
            yield "mask", {mask: other}
    x = exam.sequence.tensor
    if exam.sequence.is_ids and exam.pads is not None:
        row = next((i for i in range(1, len(x)) if pads_differ(exam, i)), None)
        if row is not None:
            other = x.clone()
            other[0] = x[row]
            yield "mask", {x: other}


def pads_differ(exam, row) -> bool:
    return not torch.equal(exam.pads[0], exam.pads[row])


def leak_between_samples(exam, swap):
    """Return (first step that carries it, how far) where others than sample 0 move."""
    flow = exam.observe(swap)
    before, after = exam.outputs, floats(flow.result)
    seq = exam.sequence
    for left, right in zip(before, after):
        axis = seq.batch if left.dim() > seq.batch else 0
        if left.shape != right.shape or left.shape[axis] != seq.n_samples:
            continue
        rest = [t.narrow(axis, 1, seq.n_samples - 1) for t in (left, right)]
        if differ(*rest).any():
            far = (rest[0] - rest[1]).abs().nan_to_num(0).max().item()
            return first_spread(exam, flow), far
    return None


def first_spread(exam, flow) -> Step | None:
    """Return the first step in which more has changed than one sample can hold."""
    if not alike(exam.flow, flow):
        return None
    share = 1 / exam.sequence.n_samples + 1e-6
    for step, other in zip(exam.flow.steps, flow.steps):
        floating = step.value.is_floating_point() and step.value.numel() > 1
        if not floating or step.value.shape != other.value.shape:
            continue
        if differ(step.value, other.value).float().mean() > share:
            return step
    return None


# --- padding -------------------------------------------------------------------------


@dataclass
class View:
    """How one attention treats padding: shares of the weight of real queries."""

    attention: Attention
    on_pads: float
    hidden: int  # how many weights between real queries and real keys are 0
    queries_hidden: bool


def view_of_padding(exam, attention) -> View | None:
    """Measure how much real queries look at padding; None where axes are unclear."""
    weights, pads = by_sample(exam, attention), keys_of(exam, attention)
    if weights is None or pads is None:
        return None
    real = ~pads[:, None, :, None] if weights.shape[-2] == pads.shape[1] else None
    if real is None:
        real = torch.ones_like(weights[..., :1], dtype=torch.bool)
    on_pads = (weights * pads[:, None, None, :]).sum(-1, keepdim=True)
    usable = real.expand_as(on_pads) & (weights.sum(-1, keepdim=True) > 0)
    usable &= ~pads.all(1)[:, None, None, None]
    if not usable.any():
        return None
    rows = (real & ~pads[:, None, None, :]).expand_as(weights)
    hidden = int((weights[rows] < 1e-12).sum())
    return View(attention, on_pads[usable].mean().item(), hidden, flat(weights, pads))


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
    if used.dim() == 2:
        return used[None, None] if n == 1 else None
    if used.dim() == 3:
        return used.unflatten(0, (n, -1)) if len(used) % n == 0 else None
    if used.dim() != 4:
        return None
    return (
        used if len(used) == n else used.transpose(0, 1) if used.shape[1] == n else None
    )


def keys_of(exam, attention) -> Tensor | None:
    """Return padding (B, Tk); keys that stand in front, like CLS, are no padding."""
    pads, n_keys = exam.pads, attention.used.shape[-1]
    front = n_keys - pads.shape[1]
    if front < 0:
        return None
    return nn.functional.pad(pads, (front, 0), value=False)


def masking_steps(attention):
    return [
        s
        for s in attention.path[:-1]
        if s.op in MASKED or s.op in ("add", "sub", "mul")
    ]


def float_mask(attention) -> bool:
    """Say whether a mask of zeros and ones was added to the scores."""
    if attention.step.op == SDPA:
        mask = attention.step.given(3, "attn_mask")
        added = [mask] if mask is not None and mask.is_floating_point() else []
    else:
        adds = [s for s in attention.path[:-1] if s.op == "add"]
        added = [t for s in adds for t in s.inputs if not t.is_floating_point() or s]
    for tensor in added:
        values = (
            set(tensor.detach().float().unique().tolist()) if tensor.numel() else {}
        )
        if values and values <= {0.0, 1.0} and 1.0 in values:
            return True
    return False


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
            return float(value)
    return None


def compares_ids(exam) -> bool:
    """Say whether the call makes a mask: compares something with a number."""
    return any(s.op in ("eq", "ne", "gt") for s in exam.flow.steps)


def change_of_padding(exam):
    """Return (how far real outputs move, whether they are pooled) under other padding."""
    variants = [swap for swap in padding_variants(exam) if swap]
    for swap in variants:
        out = exam.run(swap)
        if out is None or not out or out[0].shape != exam.output.shape:
            continue
        far = apart_where_real(exam, exam.outputs[:1], out[:1])
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
        if seq.token == 2:
            where = pads[:, None, :].expand_as(x)
        else:
            where = where[..., None].expand_as(x)
        noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(5)).to(x)
        yield {x: torch.where(where, 3 * noise, x)}
        return
    real = [i for i in x.unique().tolist() if i not in exam.pad_ids]
    if exam.masks and real:
        other = torch.where(pads, torch.full_like(x, real[0]), x)
        yield {x: other}
    elif not exam.masks:  # the module makes its own mask: give it more padding
        pad = int(x[pads][0])
        left = bool(pads[:, 0].any()) and not bool(pads[:, -1].any())
        yield {x: nn.functional.pad(x, (3, 0) if left else (0, 3), value=pad)}


def tokens_axis(exam, out) -> int | None:
    """Return the axis of an output that has one entry a token, None if it is pooled."""
    seq = exam.sequence
    for axis in (seq.token, 1, 0, 2):
        if axis < out.dim() and out.shape[axis] == seq.n_tokens and axis != seq.batch:
            if out.dim() > 2 or (out.dim() == 2 and seq.batch is None):
                return axis
    return None


def apart_where_real(exam, left, right) -> float:
    """Return how far outputs lie apart at real tokens, 0 if only by rounding."""
    far = 0.0
    for one, two in zip(left, right):
        if one.shape != two.shape:
            return math.inf
        moved = differ(one, two)
        axis = tokens_axis(exam, one) if exam.sequence else None
        if axis is not None and exam.pads is not None and moved.any():
            keep = (~exam.pads).to(moved.device)
            shape = [1] * one.dim()
            shape[exam.sequence.batch], shape[axis] = exam.pads.shape
            keep = (keep.T if exam.sequence.batch > axis else keep).reshape(shape)
            moved = moved & keep
        if moved.any():
            far = max(far, (one - two).abs()[moved].max().item())
    return far


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


# --- order ---------------------------------------------------------------------------


def triangle(attention) -> str:
    """Return "causal", "reversed" or "peeks" where weights have that shape, else ""."""
    weights = attention.used.float().nan_to_num(0)
    n = weights.shape[-1]
    if weights.shape[-2] != n or n < 4:
        return ""
    seen = (
        (weights.abs().flatten(0, -3) > 0).any(0) if weights.dim() > 2 else weights > 0
    )
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
        heard += bool(out) and bool(differ(out[0], exam.output).any())
    return "" if heard else "the output does not depend on any token but the first"


def means_to_be_causal(exam) -> bool:
    """Say whether the module's own words promise causality."""
    words = [type(m).__name__ for _, m in exam.modules] + list(exam.kwargs)
    words += [name for _, m in exam.modules for name in vars(m)]
    return any(re.search(r"causal|decoder|gpt|autoregress", w, re.I) for w in words)


# --- positions -----------------------------------------------------------------------


@dataclass
class Table:
    """Something added to the tokens that does not depend on them."""

    step: Step
    added: Tensor
    rows: Tensor | None  # (positions, D), the whole table where it could be found
    learnt: bool
    token_axis: int | None  # of the sum

    @property
    def is_zero(self) -> bool:
        return not bool(self.added.any())

    def axes_that_vary(self) -> list[int]:
        """Return the axes of the sum along which what is added has differing rows."""
        rank = self.step.outputs[0].dim()
        full = self.added.view([1] * (rank - self.added.dim()) + list(self.added.shape))
        wide = range(rank - 1)
        return [a for a in wide if bool(differ(full, full.narrow(a, 0, 1)).any())]


@once
def tables(exam) -> list[Table]:
    """Find sums of the tokens with something that stays when all tokens change."""
    other = exam.observe({exam.sequence.tensor: exam.other_content()})
    if not alike(exam.flow, other):
        return []
    scores_of = {id(s) for a in exam.attentions for s in a.path}
    found = []
    for step, twin in zip(exam.flow.steps, other.steps):
        if step.op != "add" or len(step.inputs) != 2 or id(step) in scores_of:
            continue
        values = [exam.flow.value(t, step.index) for t in step.inputs]
        twins = [other.value(t, twin.index) for t in twin.inputs]
        if any(v.shape != t.shape for v, t in zip(values, twins)):
            continue
        moves = [bool(differ(v, t).any()) for v, t in zip(values, twins)]
        if sorted(moves) == [False, True] and step.value.dim() > 1:
            found += table_of(exam, step, moves.index(False), values)
    return found[:2]


def table_of(exam, step, side, values) -> list[Table]:
    added, tensor = values[side], step.inputs[side]
    wide = added.dim() > 1 and added.shape[-1] == step.value.shape[-1] > 1
    if not wide or step.value.dim() < 2 or is_score(exam, step):
        return []
    stored = stored_table(exam, step, tensor)
    learnt = stored is not None and stored.requires_grad
    rows = stored if stored is not None else added
    rows = rows.detach().squeeze()
    rows = rows if rows.dim() == 2 else None
    return [Table(step, added, rows, learnt, token_axis_of(exam, step))]


def is_score(exam, step) -> bool:
    """Say whether a sum is one of scores and a mask: its twin is a product of tokens."""
    made = [exam.flow.producer(t, step.index) for t in step.inputs]
    return any(s is not None and s.op in PRODUCTS - {"einsum"} for s in made)


def stored_table(exam, step, tensor) -> Tensor | None:
    """Find the parameter, buffer or attribute that the added rows were read from."""
    line = exam.flow.line(tensor, step.index)
    sources = [tensor] + [t for s in line for t in s.inputs]
    spots = {memory(t) for t in sources}
    for _, module in exam.modules:
        for held in tensors_in([v for v in vars(module).values()]):
            large = held.dim() > 1 and held.is_floating_point()
            if large and memory(held) in spots and held.shape[-1] == tensor.shape[-1]:
                return held
    return None


def token_axis_of(exam, step) -> int | None:
    """Return the axis of tokens in a step's output, by the two changed tokens."""
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    if not flows:
        return None
    where = [pins(differ(step.value, f.steps[step.index].value)) for f in flows]
    both = [a for a in where[0] if where[1].get(a) == where[0][a]]
    moved = [a for a in where[0] if a in where[1] and where[1][a] != where[0][a]]
    return both[0] if len(both) == 1 and len(moved) == 1 else None


# --- the stream past each part -------------------------------------------------------


def norm_like(exam):
    """Yield (path, module) of home-made modules that look like a norm of (.., D)."""
    ops = {}
    for step in exam.flow.steps:
        ops.setdefault(step.row.module, set()).add(step.op)
    for path, module in exam.modules:
        own = list(module.parameters())
        of_torch = type(module).__module__.startswith("torch.")
        flat = own and all(p.dim() == 1 and len(p) == len(own[0]) for p in own)
        statistics = ops.get(path, set()) & {"mean", "var", "std", "var_mean", "norm"}
        if flat and not of_torch and not module._modules and statistics:
            yield path, module


def branches(exam):
    """Yield (what, step that ends it, what goes in) for attentions and feed-forwards."""
    flow = exam.flow
    for step in fused_or_mixed(exam):
        stream = stream_into(exam, step)
        if stream is not None and has_company(exam, step):
            yield "the attention", step, stream
    for step in flow.steps:
        if step.op not in ACTIVATIONS or step.value.dim() < 3:
            continue
        up = flow.back(
            step.inputs[0], step.index, lambda s: s.op == "linear", {"dropout"}
        )
        down = flow.ahead(
            step.outputs[0], step.index, lambda s: s.op == "linear", PASSES
        )
        if up and down and down[-1].value.shape == up[-1].inputs[0].shape:
            later = [a for a in fused_or_mixed(exam) if a.index > step.index]
            norm = [s for s in flow.steps[step.index :] if s.op == "layer_norm"]
            if up[-1].value.shape[-1] > down[-1].value.shape[-1] and (later or norm):
                yield "the feed-forward", down[-1], up[-1].inputs[0]


@once
def fused_or_mixed(exam) -> list[Step]:
    """Return, for each attention, the step through which all of it goes."""
    fused = [s for s in exam.flow.steps if s.op in FUSED]
    return fused + [a.mix for a in exam.attentions if not a.opened]


def stream_into(exam, step) -> Tensor | None:
    if step.op in FUSED:
        return step.inputs[0]
    mixed = next((a for a in exam.attentions if a.mix is step), None)
    line = mixed.sources.get("value") or [] if mixed else []
    return line[-1].inputs[0] if line and line[-1].op == "linear" else None


def has_company(exam, step) -> bool:
    """Say whether a norm or feed-forward follows: a bare attention has no residual."""
    later = exam.flow.steps[step.index :]
    linears = [s for s in later if s.op == "linear" and not s.row.note]
    norm = any(s.op in ("layer_norm", "rms_norm") for s in later)
    return norm or (len(linears) > 2 and any(s.op in ACTIVATIONS for s in later))


def way_around(exam, blocked, stream) -> bool:
    """Say whether the result depends on a tensor by a way that avoids one step."""
    flow = exam.flow
    source = flow.producer(stream, blocked.index)
    goal = {id(stream)}
    seen, todo = set(), [(t, len(flow.steps)) for t in tensors_in(flow.result)]
    before = stream_line(flow, stream, blocked.index)
    goal |= before
    while todo:
        tensor, index = todo.pop()
        if id(tensor) in goal or same_memory(tensor, stream):
            return True
        step = flow.producer(tensor, index)
        if step is None or step is blocked or step.index in seen:
            continue
        seen.add(step.index)
        todo += [(t, step.index) for t in step.inputs if t.is_floating_point()]
    return source is None and not seen


def same_memory(left, right) -> bool:
    return left.numel() == right.numel() and memory(left) == memory(right)


def stream_line(flow, stream, before) -> set[int]:
    """Return the tensors that a stream was made of token by token: through norms."""
    line = flow.line(stream, before, PASSES | {"layer_norm", "rms_norm"} - {"add"})
    found = set()
    for step in line:
        if step.op in MOVES | RESHAPES | {"layer_norm", "rms_norm", "dropout", "mul"}:
            found |= {id(main_input(step))}
        else:
            found |= {id(t) for t in step.outputs}
            break
    return found


def depth(exam) -> int:
    return len(exam.attentions)


def unused_steps(exam):
    """Yield steps of the reader's own lines whose results nothing uses."""
    reached = exam.flow.reached()
    stored = {
        id(t) for _, m in exam.modules for t in tensors_in(list(vars(m).values()))
    }
    for step in exam.flow.steps:
        idle = step.index not in reached and not step.row.note and not step.row.depth
        if not idle or step.row.op.endswith("_") or not step.value.is_floating_point():
            continue
        used = any(exam.flow.users(t, step.index) for t in step.outputs)
        if not used and not any(id(t) in stored for t in step.outputs):
            yield step


def is_table_sum(exam, step) -> bool:
    return any(table.step is step for table in tables(exam)) if exam.sequence else False


# --- gradients, modes, attributes ----------------------------------------------------


@dataclass
class Gradients:
    """The gradient of a random mix of the outputs, by name of parameter."""

    by_name: dict
    error: Exception | None = None

    @property
    def unused(self) -> list[str]:
        return [name for name, gradient in self.by_name.items() if gradient is None]


@once
def gradients(exam) -> Gradients:
    """Differentiate once; nothing is written into `.grad`."""
    named = [(n, p) for n, p in exam.root.named_parameters() if p.requires_grad]
    answer = Gradients({})

    def differentiate(call, *args, **kwargs):
        outs = [t for t in tensors_in(call(*args, **kwargs)) if t.requires_grad]
        total = sum(
            (t * torch.randn_like(t)).sum() for t in outs if t.is_floating_point()
        )
        if not isinstance(total, Tensor):
            return
        try:
            found = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
            answer.by_name = dict(zip([n for n, _ in named], found))
        except Exception as error:
            answer.error = error

    exam.run(how=differentiate, grad=True, whole=True)
    return answer


def modes_changed(exam) -> list[str]:
    """Return the paths of modules that a call leaves in another mode."""
    changed = []

    def look(call, *args, **kwargs):
        call(*args, **kwargs)
        changed.extend(p or "the module" for p, m in exam.modules if m.training)

    exam.run(how=look, whole=True)
    return changed


def called_modules(exam) -> set[int]:
    """Return the ids of the modules that a call calls, on the path that it takes."""
    called = set()

    def look(call, *args, **kwargs):
        note = nn.modules.module.register_module_forward_pre_hook(
            lambda module, given: called.add(id(module))
        )
        try:
            call(*args, **kwargs)
        finally:
            note.remove()

    exam.run(how=look, whole=True)
    return called


def filled_attributes(exam) -> list[tuple[str, list]]:
    """Return (name, items) of lists and dicts of the modules that a call fills."""
    found = []

    def look(call, *args, **kwargs):
        call(*args, **kwargs)
        for path, module in exam.modules:
            for name, value in vars(module).items():
                public = isinstance(value, (list, dict)) and not name.startswith("_")
                if public:
                    items = (
                        list(value.values()) if isinstance(value, dict) else list(value)
                    )
                    found.append((f"{path}.{name}".lstrip("."), items))

    exam.run(how=look, whole=True)
    return found
