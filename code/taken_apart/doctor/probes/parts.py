"""Probes of the parts: what is registered, what is shared, what is used."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from ...tensors import tensors_in
from ..evidence.attentions import model_width
from ..evidence.branches import is_idle_expert, is_left_out
from ..evidence.position_tables import position_tables, stored_tensors
from ..evidence.residual_stream import in_feed_forward
from ..evidence.side_effects import gradients, parameters_replaced
from ..evidence.tensor_flow import FUSED, Step, memory
from ..exam import Exam
from ..finding import Finding
from .kit import Findings, dims, found, probe

# --- what belongs to the module ------------------------------------------------------


@probe("root")
def modules_in_lists(exam: Exam) -> Findings:
    """Are all parts registered, so that they are trained, saved and moved?"""
    registered = {id(m) for m in exam.root.modules()}
    lost = [(p, m) for p, m in exam.modules if id(m) not in registered]
    lost = [(p, m) for p, m in lost if list(m.parameters())]
    if lost:
        count = sum(p.numel() for p in {p for _, m in lost for p in m.parameters()})
        own = sum(p.numel() for p in exam.root.parameters())
        names = ", ".join(path for path, _ in lost[:3])
        yield found(
            "registration / sharing",
            "fault",
            title=f"Parts hang in plain Python attributes: {names}",
            evidence=(
                f"{count:,} parameters are missing among the {own:,} of parameters()"
            ),
            fix="hold them in an nn.ModuleList or nn.ModuleDict",
        )


@probe("run", "root")
def foreign_parameters(exam: Exam) -> Findings:
    """Do only parts of this module run?"""
    if exam.has("registration / sharing"):
        return
    own = {id(p) for p in exam.root.parameters()}
    for step in exam.flow.steps:
        for tensor in step.inputs:
            leaf = isinstance(tensor, nn.Parameter) and tensor.is_leaf
            if leaf and id(tensor) not in own:
                yield found(
                    "registration / sharing",
                    "fault",
                    title="A parameter runs that is not one of this module's",
                    evidence=f"{dims(tensor)} is used, but missing in parameters()",
                    fix="create it in __init__ as an attribute, and use that attribute",
                    at=step.row,
                )
                return


@probe("root", "numbers", costly=True)
def parameters_made_anew(exam: Exam) -> Findings:
    """Do the parameters stay the same objects from call to call?"""
    lost = parameters_replaced(exam)
    if lost:
        yield found(
            "registration / sharing",
            "fault",
            title=f"forward replaces the parameter {lost[0]}",
            evidence=(
                f"{len(lost)} parameters are other objects after a call: an optimiser "
                "would train the old ones"
            ),
            fix="create parameters in __init__",
        )


@probe("root")
def plain_tensors(exam: Exam) -> Findings:
    """Do all tensors move and save with the module?"""
    registered = {id(t) for t in [*exam.root.parameters(), *exam.root.buffers()]}
    used = {memory(t) for s in exam.flow.steps for t in s.inputs}
    for path, module in exam.modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in tensors_in(value):
                if id(tensor) in registered or memory(tensor) not in used:
                    continue
                trained = isinstance(tensor, nn.Parameter) or tensor.requires_grad
                place = f"{path}.{name}".lstrip(".")
                yield found(
                    "registration / sharing",
                    "fault" if trained else "warning",
                    title=f"{place} is a plain tensor attribute",
                    evidence=(
                        f"{dims(tensor)} is used, but .to() and state_dict() miss it"
                    ),
                    fix=(
                        "self.register_buffer(...), or an nn.Parameter if it is trained"
                    ),
                )


@probe("root")
def repeated_objects(exam: Exam) -> Findings:
    """Are the layers of a list different layers?"""
    for path, module in exam.modules:
        if not isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
            continue
        parts = [p for p in module._modules.values() if p is not None]
        parts = [p for p in parts if list(p.parameters())]
        if len({id(p) for p in parts}) < len(parts):
            numbers = [p.numel() for p in parts[0].parameters()]
            yield found(
                "registration / sharing",
                "fault",
                title=f"{path or 'The list'} holds the same object more than once",
                evidence=(
                    f"{len(parts)} names, {len({id(p) for p in parts})} objects: "
                    f"{sum(numbers):,} parameters do the work of all"
                ),
                fix="[Layer() for _ in range(n)], not [layer] * n",
            )


@probe("root", "numbers")
def cloned_values(exam: Exam) -> Findings:
    """Do layers start with different numbers?"""
    copies = equal_matrices(exam.root)
    if not copies:
        return
    stacks = [p for p, m in exam.modules if isinstance(m, nn.TransformerEncoder)]
    known = [n for n in copies if any(of_stack(name, stacks) for name in n)]
    own = [names for names in copies if names not in known]
    shown = (own or known)[0]
    count = len(own or known)
    yield found(
        "registration / sharing",
        "warning" if own else "note",
        title=(
            f"{count} matrices start as bit for bit copies of others"
            if count > 1
            else "A matrix starts as a bit for bit copy of another"
        ),
        evidence=f"{shown[0]} equals {', '.join(shown[1:3])}"
        + "; nn.TransformerEncoder copies its layer" * (not own),
        fix="initialise the matrices again after building, or share one object",
    )


def of_stack(name: str, stacks: list[str]) -> bool:
    return any(name.startswith(f"{path}.layers.".lstrip(".")) for path in stacks)


def equal_matrices(module: nn.Module) -> list[list[str]]:
    """Return groups of names of equal parameters; constants copy nothing."""
    by_content: dict[tuple, list[str]] = {}
    for name, parameter in module.named_parameters():
        values = parameter.detach().flatten()
        if parameter.dim() < 2 or len(values) < 4:
            continue
        some = values[:: max(1, len(values) // 32)].tolist()
        by_content.setdefault((tuple(parameter.shape), *some), []).append(name)
    groups = [names for names in by_content.values() if len(names) > 1]
    return [alike for names in groups if len(alike := all_equal(module, names)) > 1]


def all_equal(module: nn.Module, names: list[str]) -> list[str]:
    """Return which parameters equal the first bit for bit; none if it is constant."""
    first = module.get_parameter(names[0])
    if len(first.detach().unique()) < 4:
        return []
    return [n for n in names if torch.equal(first, module.get_parameter(n))]


# --- what is used --------------------------------------------------------------------


@probe("run", "root", "numbers", "output")
def unused_parameters(exam: Exam) -> Findings:
    """Does every parameter reach the output?"""
    if gradients(exam).error or exam.has("registration / sharing"):
        return
    idle = gradients(exam).unused
    if not idle or all(g is None for g in gradients(exam).by_name.values()):
        return
    names = [n for n in idle if not is_left_out(exam, n)]
    names = [n for n in names if not is_idle_expert(exam, n, idle)]
    if not names:
        yield left_out(idle)
        return
    cut = cut_gradient(exam, names) or without_gradient(exam, names)
    yield cut or unused(exam, names)


def unused(exam: Exam, names: list[str]) -> Finding:
    """Tell of parameters that nothing uses, by the first of them."""
    part = names[0].rpartition(".")[0]
    kind = kind_of_unused(exam, names[0])
    name = part if is_idle_layer(exam, part, names) else names[0]
    title = f"{name} is registered but has no part in the output"
    whole = idle_part(exam, names)
    if whole:
        kind = "registration / sharing"
        title = f"{whole} is registered and never runs: something else runs instead"
    sibling = twice_called_sibling(exam, part)
    return found(
        kind,
        "fault" if sibling else "warning",
        title=title,
        evidence=unreached(names, sibling),
        fix="use it in forward, or remove it",
    )


def is_idle_layer(exam: Exam, path: str, names: list[str]) -> bool:
    """Say whether one layer of torch's has no other parameters than unused ones."""
    layer = dict(exam.modules).get(path) if path else None
    if layer is None or not type(layer).__module__.startswith("torch.nn"):
        return False
    return {f"{path}.{name}" for name, _ in layer.named_parameters()} <= {*names}


def left_out(names: list[str]) -> Finding:
    """Tell of parameters that another call would use."""
    return found(
        "registration / sharing",
        "note",
        title=f"This call makes no use of {names[0]}",
        evidence=f"{len(names)} parameters are read on lines that it did not run, "
        "or were not chosen",
        fix="diagnose a call that uses them as well",
    )


def unreached(names: list[str], sibling: str) -> str:
    """List parameters without a gradient, and the module that runs in their place."""
    more = ", ..." if len(names) > 4 else ""
    instead = f"; {sibling} runs twice" if sibling else ""
    return f"no gradient reaches {', '.join(names[:4])}{more}{instead}"


def cut_gradient(exam: Exam, names: list[str]) -> Finding | None:
    """Tell of parameters that are used, but behind a step that stops gradients."""
    used = {id(t) for s in exam.flow.steps for t in s.inputs}
    named, reached = dict(exam.root.named_parameters()), exam.flow.reached()
    stops = [s for s in exam.flow.steps if s.op in ("detach", "argmax", "round")]
    stops = [s for s in stops if s.index in reached]
    if not stops or not any(id(named[name]) in used for name in names):
        return None
    return found(
        "loss and training",
        "fault",
        title=f"{stops[0].op} stops the gradient of what comes before it",
        evidence=f"no gradient reaches {', '.join(names[:4])}, though they are used",
        fix="take it out of the way from input to output",
        at=stops[0].row,
    )


def without_gradient(exam: Exam, names: list[str]) -> Finding | None:
    """Tell of parameters that reach the output, and get no gradient back."""
    named = {id(p): n for n, p in exam.root.named_parameters()}
    steps = [
        s for s in exam.flow.steps if s.index in exam.reached and s.op not in FUSED
    ]
    used = {
        named[id(t)]: s for s in reversed(steps) for t in s.inputs if id(t) in named
    }
    cut = [name for name in names if name in used]
    if len(cut) * 2 < len(names):
        return None
    return found(
        "registration / sharing",
        "warning",
        title=f"No gradient comes back to {common_owner(cut)}, though it is used",
        evidence=(
            f"{len(cut)} parameters require gradients and get none: "
            f"{', '.join(cut[:3])}"
        ),
        fix="take no_grad away from forward, or freeze with requires_grad_(False)",
        at=used[cut[0]].row,
    )


def common_owner(names: list[str]) -> str:
    """Return the path of the innermost module that holds all of some parameters."""
    parts = [name.split(".") for name in names]
    shared = [level[0] for level in zip(*parts, strict=False) if len({*level}) == 1]
    return ".".join(shared) or "most of it"


def idle_part(exam: Exam, names: list[str]) -> str:
    """Return the path of an attention or a layer of which nothing is used, or ""."""
    idle, parts = set(names), dict(exam.modules)
    path = names[0].rpartition(".")[0].rpartition(".")[0]
    own = [f"{path}.{name}" for name, _ in parts[path].named_parameters()]
    several = len(list(parts[path].children())) > 1
    return path if several and idle.issuperset(own) else ""


def twice_called_sibling(exam: Exam, path: str) -> str:
    """Return the sibling of an idle layer that runs twice, or "": a slip of the pen."""
    count: dict[str, int] = {}
    for step in exam.flow.steps:
        if step.op == "linear" and not step.row.depth:
            count[step.row.module] = count.get(step.row.module, 0) + 1
    parent = path.rpartition(".")[0]
    twice = [m for m, n in count.items() if n > 1 and m.rpartition(".")[0] == parent]
    calls = min(count.values(), default=0)
    return next((m for m in twice if count[m] > calls), "")


def kind_of_unused(exam: Exam, name: str) -> str:
    """Guess from its owner and its shape what an unused parameter was for."""
    owner = dict(exam.modules).get(name.rpartition(".")[0])
    parameter = exam.root.get_parameter(name)
    if isinstance(owner, nn.MultiheadAttention):
        return "registration / sharing"
    if isinstance(owner, nn.Linear):
        return "projections"
    if isinstance(owner, nn.Embedding) or may_hold_positions(exam, parameter):
        return "positional encoding"
    if parameter.dim() > 1:  # one vector, held as a token
        return "registration / sharing"
    return "norm / residual / FFN"


def may_hold_positions(exam: Exam, parameter: nn.Parameter) -> bool:
    """Say whether a matrix has a row for each token, and the width of the model."""
    shape = parameter.squeeze().shape
    widths = {model_width(a) for a in exam.attentions if a.has_scores}
    enough = len(shape) == 2 and (
        not exam.has_sequence or shape[0] >= exam.sequence.n_tokens
    )
    return enough and shape[1] in (widths or {shape[1]})


# The kind of fault where the result of an operation is not used.
DISCARDED = {
    "masked_fill": "mask meaning",
    "layer_norm": "norm / residual / FFN",
    "add": "norm / residual / FFN",
    "transpose": "batch/sequence layout",
    "permute": "batch/sequence layout",
    "dropout": "train/eval and fast path",
    "relu": "norm / residual / FFN",
    "gelu": "norm / residual / FFN",
    "linear": "norm / residual / FFN",
}


@probe("run", "output")
def discarded_results(exam: Exam) -> Findings:
    """Is everything that is computed used?"""
    for step in unused_steps(exam):
        kind = DISCARDED.get(step.op)
        if kind is None:
            continue
        if step.op == "add" and adds_positions(exam, step):
            kind = "positional encoding"
        if step.op == "linear" and not in_feed_forward(exam, step):
            kind = "projections"
        yield found(
            kind,
            "fault",
            title=f"The result of {step.op} is thrown away",
            evidence=f"{dims(step.outputs[0])} is computed, and nothing uses it",
            fix="assign it: x = ...",
            at=step.row,
        )
        return


def unused_steps(exam: Exam) -> Iterator[Step]:
    """Yield steps of the reader's own lines whose results nothing uses."""
    reached = exam.flow.reached()
    stored = {id(tensor) for _, tensor in stored_tensors(exam)}
    for step in exam.flow.steps:
        own = not step.row.note and not step.row.depth
        in_place = step.row.op.endswith("_")
        if step.index in reached or not own or in_place:
            continue
        if not step.value.is_floating_point():
            continue
        used = any(exam.flow.users(t, step.index) for t in step.outputs)
        if not used and not any(id(t) in stored for t in step.outputs):
            yield step


def adds_positions(exam: Exam, step: Step) -> bool:
    if not exam.has_sequence:
        return False
    return any(table.step is step for table in position_tables(exam))
