"""What one changed token tells: what attention pairs, and where tokens get mixed.

Another token is put into sample 0, and then into sample 1. Wherever only one row of a
tensor changes, that row is the token; the index at which it sits, in both runs, tells
the axis of tokens from that of samples, whatever their order and sizes are.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..exam import Exam, once
from ..inputs import Sequence
from ..numbers import differ
from .attentions import Attention, attentions
from .tensor_flow import LAYERS, PASSES, Flow, Step, main_input, same_operations


@dataclass
class Pairing:
    """What the first attention pairs: "tokens", "samples", "features", "scrambled".

    "unclear" where none of them fits.
    """

    attention: Attention
    axis: str
    shift: int = 0  # how many keys stand in front of the tokens
    scrambling_step: Step | None = None
    projected: bool = False  # has a layer worked on it before it was scrambled?


def confined_axes(changed: Tensor) -> dict[int, int]:
    """Return {axis: index} for the axes along which all changes sit at one index."""
    confined = {}
    for axis, length in enumerate(changed.shape):
        others = [a for a in range(changed.dim()) if a != axis]
        hit = changed.any(dim=others) if others else changed
        if length > 1 and int(hit.sum()) == 1:
            confined[axis] = int(hit.nonzero())
    return confined


@once
def changed_flows(exam: Exam) -> list[Flow] | None:
    """Observe the call with another token t in sample 0, and then in sample 1.

    None where the call then does something else, so that steps cannot be compared.
    """
    token = real_token(exam)
    flows = [exam.observe(exam.changed_at(sample, token)) for sample in (0, 1)]
    return flows if all(same_operations(exam.flow, flow) for flow in flows) else None


def real_token(exam: Exam) -> int:
    """Return a position that is not padding in samples 0 and 1, and not 0 or 1.

    At 0 or 1 it could not be told from the index of the sample.
    """
    if not exam.has_padding:
        return exam.sequence.n_tokens - 1
    real = (~exam.padding[:2].any(0)).nonzero().flatten()
    return int(real[-1]) if len(real) else 0


@once
def token_pairing(exam: Exam) -> Pairing | None:
    """Find out what the first attention pairs, by changing one token."""
    flows = changed_flows(exam)
    first = next((a for a in exam.attentions if a.has_scores), None)
    if flows is None or first is None or exam.sequence.n_tokens < 2:
        return None
    place = exam.attentions.index(first)
    keys = [attentions(flow)[place].key for flow in flows]
    changed = [differ(first.key, key).any(-1) for key in keys]
    if not all(c.any() for c in changed):
        return None
    axis, index = paired_axis(changed)
    if index is not None:
        return Pairing(first, axis, shift=index - real_token(exam))
    if axis == "unclear":
        step, projected = first_scramble(exam, first, flows[0])
        return Pairing(first, "scrambled" if step else axis, 0, step, projected)
    return Pairing(first, axis)


@once
def inner_order(exam: Exam) -> list[int] | None:
    """Return at which place of the batch each sample stands inside; None if at its own.

    A batch may be sorted on the way in and put back on the way out.
    """
    first = next((a for a in exam.attentions if a.has_scores), None)
    flows, n = changed_flows(exam), exam.sequence.n_samples
    if first is None or flows is None or len(first.key) != n:
        return None
    places = [place_of_change(exam, first, flow) for flow in flows]
    if None in places or places == [0, 1]:
        return None
    for sample in range(2, n):
        flow = exam.observe(exam.changed_at(sample))
        same = same_operations(exam.flow, flow)
        places.append(place_of_change(exam, first, flow) if same else None)
    known = [place for place in places if place is not None]
    return known if sorted(known) == list(range(n)) else None


def place_of_change(exam: Exam, attention: Attention, flow: Flow) -> int | None:
    """Return the one entry of axis 0 of the keys that differs in another run."""
    key = attentions(flow)[exam.attentions.index(attention)].key
    hit = differ(attention.key, key).flatten(1).any(1).nonzero().flatten()
    return int(hit) if len(hit) == 1 else None


def paired_axis(changed: list[Tensor]) -> tuple[str, int | None]:
    """Tell what runs along the keys' axis: what changed for sample 0, and for 1.

    The same key changes in both runs if keys are tokens. If they are samples, the next
    one does. If all keys change, each token was split over them: they are features.
    """
    where = [confined_axes(c) for c in changed]
    last = changed[0].dim() - 1
    if last in where[0] and last in where[1]:
        apart = where[1][last] - where[0][last]
        return {0: "tokens", 1: "samples"}.get(apart, "unclear"), where[0][last]
    one_token = len(where[0]) >= 2 and changed[0].shape[last] > 1
    return ("features" if one_token else "unclear"), None


@once
def image_pairing(exam: Exam) -> Pairing | None:
    """Find out what the first attention to an image pairs, by changing one number."""
    first = next((a for a in exam.attentions if a.has_scores), None)
    if first is None:
        return None
    changed, image = [], exam.samples.tensor
    for sample in (0, 1):
        other = image.clone()
        other[sample].view(-1)[-1] += 3
        flow = exam.observe({image: other})
        if not same_operations(exam.flow, flow):
            return None
        key = attentions(flow)[exam.attentions.index(first)].key
        changed.append(differ(first.key, key).any(-1))
    if not all(c.any() for c in changed):
        return None
    axis, _ = paired_axis(changed)
    return None if axis == "unclear" else Pairing(first, axis)


# What a step on the way from the input to a key may be, norms by hand included.
ON_THE_WAY = PASSES | LAYERS | {"mean", "var", "std", "pow", "sqrt", "rsqrt"}


def first_scramble(
    exam: Exam, attention: Attention, flow: Flow
) -> tuple[Step | None, bool]:
    """Return the step after which one token is no more one row, on the key's line.

    And whether a projection came before it. `flow` is a run with one token changed.
    """
    line: list[Step] = []
    step = attention.last_step("key")
    while step is not None and len(line) < 80:
        line.append(step)
        if step.op not in ON_THE_WAY or not step.inputs:
            break
        # A layer's input comes first; elsewhere the main input is the largest one.
        source = step.inputs[0] if step.op in LAYERS else main_input(step)
        step = exam.flow.producer(source, step.index)

    projected, was_row = False, enters_as_row(exam, line[-1], flow) if line else False
    for step in reversed(line):
        changed = differ(step.value, flow.steps[step.index].value)
        if changed.any() and not is_row(changed, exam.sequence):
            # Behind the projection of the keys nothing else maps them.
            later = [s.op for s in line[: line.index(step)]]
            projected &= not any(op in MAPS for op in later)
            return step if was_row else None, projected
        was_row |= bool(changed.any())
        projected |= step.op in MAPS
    return None, projected


MAPS = {"linear", "einsum", "matmul", "addmm"}


def enters_as_row(exam: Exam, step: Step, flow: Flow) -> bool:
    """Say whether the changed token is one row of what a step reads."""
    twin = flow.steps[step.index]
    pairs = zip(step.inputs[:1], twin.inputs[:1], strict=False)
    values = [
        (exam.flow.value(a, step.index), flow.value(b, twin.index)) for a, b in pairs
    ]
    return any(
        a.shape == b.shape and is_row(differ(a, b), exam.sequence) for a, b in values
    )


def is_row(changed: Tensor, sequence: Sequence) -> bool:
    """Say whether changes fill one token of one sample, whatever the order of axes.

    Then they sit at one index of two axes, or of one axis of all B * T tokens.
    """
    confined = confined_axes(changed)
    if len(confined) >= 2:
        return True
    n_rows = sequence.n_samples * sequence.n_tokens
    return len(confined) == 1 and any(n == n_rows for n in changed.shape)


@once
def batch_first_for_sure(exam: Exam) -> bool:
    """Say whether axis 0 must be the batch: ids, a mask, or a pooled output say so."""
    seq = exam.sequence
    if seq.is_ids or any(m.shape[:1] == seq.tensor.shape[:1] for m in exam.masks):
        return True
    return (
        bool(exam.outputs)
        and exam.output.shape[:1] == (seq.n_samples,)
        and exam.output.dim() == 2
    )
