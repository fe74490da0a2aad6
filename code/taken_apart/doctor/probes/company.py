"""Probes of a sample by itself, and of each input by itself."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor

from ..evidence.company import counts_from_the_left, hides_padding_alone, partings
from ..evidence.padding import padding_view
from ..evidence.position_tables import position_tables
from ..evidence.side_effects import differs_by_chance
from ..evidence.tensor_flow import CONVOLUTIONS
from ..exam import Exam
from ..finding import Finding
from ..inputs import looks_like_mask, read_padding
from .kit import Findings, dims, found, probe

# Faults by which a sample is not alone, and which are told by themselves.
MIX_SAMPLES = "batch/sequence layout", "mask meaning", "mask axis/shape"
MIX_SAMPLES += "nan / precision", "head split/merge", "norm / residual / FFN"
MIX_SAMPLES += "softmax / scale", "loss and training", "positional encoding"


def explains_itself(exam: Exam) -> bool:
    """Say whether it is known already why a sample depends on its company."""
    warned = exam.has("batch/sequence layout", severity="warning")
    unmasked = exam.has("mask meaning", severity="note")
    return exam.has(*MIX_SAMPLES) or warned or unmasked or differs_by_chance(exam)


@probe("run", "numbers", "sequence", "batch", "output", costly=True)
def alone_and_in_company(exam: Exam) -> Findings:
    """Does a sample give alone what it gives in its batch?"""
    parting = None if explains_itself(exam) else next(partings(exam, cut=False), None)
    if parting is None:
        return
    evidence = (
        f"alone, sample {parting.sample} gives outputs that are "
        f"{parting.distance:.3g} away from those in the batch"
    )
    if exam.has_padding and not hides_padding_alone(exam, parting):
        yield found(
            "mask meaning",
            "fault",
            title="The mask is left out when a sample is alone in its batch",
            evidence=evidence + "; its padding is then seen",
            fix="apply the mask whatever the size of the batch",
        )
        return
    yield found(
        "batch/sequence layout",
        "fault",
        title="What a sample gives depends on the others in its batch",
        evidence=evidence,
        fix="keep the batch axis apart, and branch on nothing that it decides",
    )


@probe("run", "numbers", "sequence", "batch", "padding", "output", costly=True)
def without_its_padding(exam: Exam) -> Findings:
    """Does a sample give the same without its padding?"""
    if explains_itself(exam):
        return
    views = [padding_view(exam, a) for a in exam.attentions]
    hidden = [view.on_padding < 1e-4 for view in views if view is not None]
    if not hidden or not all(hidden):
        return  # no word of a mask: who knows what is padding?
    for parting in partings(exam, cut=True):
        yield explained(exam, parting.sample, parting.distance)
        return


def explained(exam: Exam, sample: int, distance: float) -> Finding:
    """Say what reaches a sample's outputs from its padding, though it is hidden."""
    evidence = (
        f"cut to its real tokens, sample {sample} gives outputs {distance:.3g} away"
    )
    tables = [t for t in position_tables(exam) if t.axes_that_vary()]
    if counts_from_the_left(exam.padding) and tables:
        return found(
            "positional encoding",
            "fault",
            title="Padding at the left moves the tokens to other positions",
            evidence=evidence + "; positions are counted from the first column",
            fix="positions = (keep.cumsum(1) - 1).clamp(min=0), keep True at words",
            at=tables[0].step.row,
        )
    convolves = any(s.op in CONVOLUTIONS for s in exam.flow.steps)
    return found(
        "mask meaning",
        "note" if convolves else "warning",
        title="The amount of padding moves the output",
        evidence=evidence,
        fix="hide padding from all that mixes tokens, pooling and norms included",
    )


@probe("run", "numbers", "output")
def inputs_with_effect(exam: Exam) -> Findings:
    """Does every input make a difference?"""
    if exam.has():
        return
    for tensor in exam.tensors:
        if exam.reads(tensor) or tensor.numel() < 2:
            continue
        name = name_of_input(exam, tensor)
        if shows_padding_that_is_seen(exam, tensor):
            yield found(
                "mask meaning",
                "fault",
                title=f"{name} is a mask that nothing reads, and its padding is seen",
                evidence=f"{dims(tensor)} goes in, and no step computes with it",
                fix="hand it on to the attention",
            )
        else:
            truth = looks_like_mask(tensor) or not tensor.is_floating_point()
            yield found(
                "batch/sequence layout",
                "note" if truth else "warning",
                title=f"{name} makes no difference",
                evidence=f"{dims(tensor)} goes in, and no step computes with it",
                fix="use it in forward, or take it out of the arguments",
            )


def shows_padding_that_is_seen(exam: Exam, tensor: Tensor) -> bool:
    """Say whether an input marks the ends of samples, to which real tokens attend."""
    if not exam.has_sequence or exam.sequence.batch_axis is None:
        return False
    marks = tensor.dim() == 2 and looks_like_mask(tensor)
    padding = read_padding(tensor, exam.sequence) if marks else None
    if padding is None or not padding.any():
        return False
    known = exam.padding_if_any
    if known is None or not torch.equal(known, padding):
        return False
    views = [padding_view(exam, a) for a in exam.attentions]
    return any(view is not None and view.on_padding > 1e-4 for view in views)


def name_of_input(exam: Exam, tensor: Tensor) -> str:
    """Return the name under which an input was given, or its number."""
    for name, value in exam.kwargs.items():
        if value is tensor:
            return name
    place = next((i for i, value in enumerate(exam.args) if value is tensor), None)
    if place is None:
        return "An input"
    try:
        called = exam.root.forward if exam.call is exam.root else exam.call
        names = list(inspect.signature(called).parameters)
        return names[place]
    except Exception:
        return f"Input {place + 1}"
