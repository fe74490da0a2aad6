"""Who depends on whom inside a module, measured by changing inputs; for the probes."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from ...tensors import tensors_in
from ..exam import differ, floats
from .tensor_flow import (
    MOVES,
    PASSES,
    RESHAPES,
    SDPA,
    Attention,
    Flow,
    Step,
    attentions,
    main_input,
)

LAYERS = {"linear", "layer_norm", "embedding", "rms_norm", "einsum", "matmul", "addmm"}

ACTIVATIONS = set("relu gelu silu tanh leaky_relu elu sigmoid mish glu selu".split())

FUSED = {"multi_head_attention_forward", "_native_multi_head_attention"}

ANY = PASSES | LAYERS | ACTIVATIONS


def once(function):
    """Keep the answer in the exam: several probes ask the same question."""

    @functools.wraps(function)
    def remembered(exam):
        if function not in exam.known:
            exam.known[function] = function(exam)
        return exam.known[function]

    return remembered


# --- what one attention is -----------------------------------------------------------


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
        *steps, last = attention.sources.get(side) or [None]
        divided = [s for s in steps if s.op == "div" and len(s.args) > 1]
        by_tensor = [s.args[1] for s in divided if isinstance(s.args[1], Tensor)]
        if any(tensor.numel() > 1 for tensor in by_tensor):
            return True
        if last is not None and last.op in ("layer_norm", "rms_norm", "normalize"):
            return True
    return False


# --- one changed token ---------------------------------------------------------------


@dataclass
class Meeting:
    """What the first attention pairs: "tokens", "samples", "features", "scrambled"."""

    attention: Attention
    axis: str
    shift: int = 0  # how many keys stand in front of the tokens
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
    """Say whether two calls ran the same operations, so that steps can be compared."""
    if left is None or right is None:
        return False
    return [s.op for s in left.steps] == [s.op for s in right.steps]


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
    """Find out what the first attention pairs, by changing one token."""
    flows = changed_flows(exam)
    first = next((a for a in exam.attentions if a.key is not None), None)
    if flows is None or first is None or exam.sequence.n_tokens < 2:
        return None
    index = exam.attentions.index(first)
    others = [attentions(flow)[index].key for flow in flows]
    changed = [differ(first.key, other).any(-1) for other in others]
    if not all(c.any() for c in changed):
        return None
    axis, index = paired_axis(changed)
    if axis == "unclear" and index is None:
        guilty, projected = first_scramble(exam, first, flows[0])
        axis = "scrambled" if guilty else axis
        return Meeting(first, axis, 0, guilty, projected)
    return Meeting(first, axis, 0 if index is None else index - real_token(exam))


def paired_axis(changed) -> tuple[str, int | None]:
    """Tell what runs along the keys' axis: what changed for sample 0, and for 1."""
    where = [pins(c) for c in changed]
    last = changed[0].dim() - 1
    if last in where[0] and last in where[1]:
        step = where[1][last] - where[0][last]  # 1 if the axis is that of samples
        axis = {0: "tokens", 1: "samples"}.get(step, "unclear")
        return axis, where[0][last]
    heads_met = len(where[0]) >= 2 and changed[0].shape[last] > 1
    return ("features" if heads_met else "unclear"), None


@once
def meeting_of_places(exam) -> Meeting | None:
    """Find out what the first attention to an image pairs, by changing one number."""
    first = next((a for a in exam.attentions if a.key is not None), None)
    changed, image = [], exam.samples.tensor
    for sample in (0, 1) if first is not None else ():
        other = image.clone()
        other[sample].view(-1)[-1] += 3
        flow = exam.observe({image: other})
        if not alike(exam.flow, flow):
            return None
        key = attentions(flow)[exam.attentions.index(first)].key
        changed.append(differ(first.key, key).any(-1))
    if not changed or not all(c.any() for c in changed):
        return None
    axis, _ = paired_axis(changed)
    return None if axis == "unclear" else Meeting(first, axis)


def first_scramble(exam, attention, flow):
    """Return the step on the key's line after which one token is no more one row."""
    line, step = [], (attention.sources.get("key") or [None])[0]
    while step is not None and len(line) < 80:
        line.append(step)
        through = PASSES | LAYERS | {"mean", "var", "std", "pow", "sqrt", "rsqrt"}
        if step.op not in through or not step.inputs:
            break
        source = step.inputs[0] if step.op in LAYERS else main_input(step)
        step = exam.flow.producer(source, step.index)
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


# --- labels that follow the moves ----------------------------------------------------


def followed(flow, step, labels):
    """Move labels as a step's output is moved: (labels, the steps, who reads it)."""
    return moved_along(flow, step.outputs[0], step.index, labels)


def moved_along(flow, tensor, after, labels):
    """Move labels as a tensor is moved: (labels, the steps, who reads it)."""
    steps = []
    while True:
        users = flow.users(tensor, after)
        moves = [s for s in users if s.op in MOVES | RESHAPES | {"unfold"}]
        moves = [s for s in moves if flow.users(s.outputs[0], s.index)] or moves
        if not moves:
            return labels, steps, users
        step = moves[0]
        labels = step.func(labels, *step.args[1:], **step.kwargs)
        tensor, after = step.outputs[0], step.index
        steps.append(step)


def merged(exam, attention):
    """Follow labels of tokens to the merge: (labels, steps, whether rows are read)."""
    labels = context_labels(exam, attention)
    labels, steps, users = followed(exam.flow, attention.mix, labels)
    last = (steps[-1] if steps else attention.mix).outputs[0]
    final = any(last is tensor for tensor in tensors_in(exam.flow.result))
    joins = any(s.op in ("linear", "matmul", "add", "dropout") for s in users)
    return labels, steps, joins or final


def is_of_tokens(exam, attention) -> bool:
    """Say whether queries are tokens; attention among channels has others."""
    met = meeting(exam) if exam.sequence.n_samples > 1 else None
    length = attention.mix.outputs[0].shape[attention.query_axis]
    unclear = met is not None and met.axis in ("unclear", "scrambled")
    return not unclear or length == exam.sequence.n_tokens


def context_labels(exam, attention) -> Tensor:
    """Number what an attention returns by its query, and apart for samples 0 and 1."""
    context, axis = attention.mix.value, attention.query_axis
    labels = along(torch.arange(context.shape[axis]), axis, context.dim())
    labels = labels.expand(context.shape)
    for other in set(range(context.dim() - 1)) - {axis}:
        marks = sample_marks(exam, attention, other)
        labels = labels + 10_000 * along(marks, other, context.dim())
    return labels.contiguous()


def sample_marks(exam, attention, axis) -> Tensor:
    """Mark where samples 0 and 1 lie along an axis of a context, 0 elsewhere."""
    context = attention.mix.value
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    hits = []
    for flow in flows or []:
        changed = differ(context, flow.steps[attention.mix.index].value)
        hits.append(changed.transpose(0, axis).flatten(1).any(1).cpu())
    share = context.shape[axis] / exam.sequence.n_samples
    apart = len(hits) == 2 and not (hits[0] & hits[1]).any()
    if apart and all(hit.sum() == share for hit in hits):
        return hits[0].long() + 2 * hits[1].long()
    return torch.zeros(context.shape[axis], dtype=torch.long)


def along(vector, axis, rank) -> Tensor:
    """View a vector so that it lies along one axis of a tensor of some rank."""
    return vector.view([-1 if a == axis else 1 for a in range(rank)])


# --- one changed sample --------------------------------------------------------------


def other_samples(exam):
    """Yield (what, swap): other content in sample 0, and another mask for sample 0."""
    yield "content", exam.changed_at(0)
    for mask in exam.masks:
        if len(mask) == exam.samples.n_samples:
            other = mask.clone()
            other[0] = mask[-1] if not torch.equal(mask[0], mask[-1]) else mask[1]
            yield "mask", {mask: other}
    x = exam.samples.tensor
    if exam.samples.is_ids and exam.pads is not None:
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
    seq = exam.samples
    for left, right in zip(before, after):
        axis = seq.batch if left.dim() > seq.batch else 0
        if left.shape != right.shape or left.shape[axis : axis + 1] != (seq.n_samples,):
            continue
        if left.shape == (seq.n_samples, seq.n_samples):
            continue  # pairs of samples
        rest = [t.narrow(axis, 1, seq.n_samples - 1) for t in (left, right)]
        if differ(*rest).any():
            far = (rest[0] - rest[1]).abs().nan_to_num(0).max().item()
            steps = [first_scatter(exam, flow), first_spread(exam, flow)]
            steps = [step for step in steps if step is not None]
            return min(steps, key=lambda step: step.index, default=None), far
    return None


def first_scatter(exam, flow) -> Step | None:
    """Return the first reshape of a context after which one sample is no more one."""
    mixes = [a.mix for a in exam.attentions] if alike(exam.flow, flow) else []
    for step in exam.flow.steps if mixes else ():
        if step.op not in RESHAPES or not step.inputs:
            continue
        given = step.inputs[0]
        before = exam.flow.value(given, step.index)
        other = flow.steps[step.index]
        left = pins(differ(before, flow.value(other.inputs[0], other.index)))
        if not left or pins(differ(step.value, other.value)):
            continue
        if exam.flow.back(given, step.index, lambda s: s in mixes):
            return step
    return None


def first_spread(exam, flow) -> Step | None:
    """Return the first step in which more has changed than one sample can hold."""
    if not alike(exam.flow, flow):
        return None
    share = 1 / exam.samples.n_samples + 1e-6
    for step, other in zip(exam.flow.steps, flow.steps):
        floating = step.value.is_floating_point() and step.value.numel() > 1
        if not floating or step.value.shape != other.value.shape:
            continue
        if differ(step.value, other.value).float().mean() > share:
            return step
    return None
