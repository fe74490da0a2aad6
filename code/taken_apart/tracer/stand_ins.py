"""Call a stand-in: a copy of a module, and of its inputs, of other sizes.

The module itself is not run: a stand-in has parameters and buffers of its own. It
counts only if it takes the same steps as the traced call, and if each letter has its
new size where the traced call had the old one.
"""

import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from ..untouched import left_untouched, reseed
from .axis_flow import Node, nodes, size
from .axis_texts import Sizes, value, written
from .input_axes import CONFIGS, NAME_OF, RARE, Axes, Subject
from .rows import Row


class Policy(NamedTuple):
    """Which letters an attribute, or an axis that no other is tied to, may hold."""

    names: tuple[str, ...]
    axes: tuple[str, ...]
    inputs: bool = False  # whether that goes for inputs too
    aliases: bool = True


class StandIns:
    """Stand-ins of one subject; `n_runs` counts how often one was called."""

    def __init__(self, subject: Subject, axes: Axes):
        self.subject, self.axes, self.n_runs = subject, axes, 0
        given, common = tuple(subject.given), ("D", "F", "V")
        everything = (*given, *common, *RARE)
        loose = () if axes.by_attention else (Policy((*given, *common), common),)
        self.policies = (
            Policy((*given, *common), given),
            *loose,
            Policy(everything, everything, inputs=True),
            Policy(given, given, aliases=False),
        )
        self.places = {
            name: place
            for name, node in axes.letters.items()
            if (place := self.place_of(node)) is not None
        }

        self.weights = {
            axes.groups.leader(node)
            for shape in subject.shapes_of([vars(m) for m in subject.modules])
            for node in nodes(shape)
        }

    def is_weight(self, node: Node) -> bool:
        """Say whether an axis is one that a parameter or a buffer has."""
        return self.axes.groups.leader(node) in self.weights

    def place_of(self, node: Node) -> tuple[int, int, int] | None:
        """Return (row, its n-th shape, axis) where a group of axes first appears."""
        own = self.axes.groups.leader(node)
        for i, row in enumerate(self.subject.rows):
            for k, shape in enumerate(row.inputs + row.outputs):
                for axis, other in enumerate(nodes(shape)):
                    if self.axes.groups.leader(other) == own:
                        return i, k, axis
        return None

    def call(
        self,
        new: Sizes,
        policy: Policy,
        stretched: Mapping[Node, int] | None = None,
        seed: int | None = None,
    ) -> list[Row]:
        """Run a stand-in of the new sizes, and return its rows; none if it cannot be.

        An input axis that is `stretched` is so many times as long. Random numbers are
        those of the traced call, or begin with a seed.
        """
        self.n_runs += 1
        subject = self.subject
        unseen = left_untouched(generators=subject.generators)
        with contextlib.suppress(Exception), unseen, modes_of(subject):
            call = self.twin(new, policy)
            memo = self.new_inputs(new, policy, stretched or {})
            assert subject.inputs is not None  # else there is no experiment
            args, kwargs = copy.deepcopy(subject.inputs, memo)
            for put_back in subject.dice:
                put_back()
            if seed is not None:
                reseed(seed)
            return subject.record(call, *args, **kwargs)
        return []

    def fits(
        self, new: Sizes, policy: Policy, stretched: Mapping[Node, int] | None = None
    ) -> list[Row] | None:
        """Return the rows of a stand-in that takes the traced steps at new sizes."""
        rows = self.call(new, policy, stretched)
        if not rows or steps(rows) != steps(self.subject.rows):
            return None
        met = (self.met(name, rows) == new[name] for name in self.places)
        return rows if all(met) else None

    def met(self, name: str, rows: Sequence[Row]) -> int | None:
        """Return the size of a letter in the rows of a stand-in, if they got there."""
        i, k, axis = self.places[name]
        if i >= len(rows) or rows[i].op != self.subject.rows[i].op:
            return None
        shapes = rows[i].inputs + rows[i].outputs
        return shapes[k][axis] if k < len(shapes) and axis < len(shapes[k]) else None

    def new_inputs(
        self, new: Sizes, policy: Policy, stretched: Mapping[Node, int]
    ) -> dict[int, Any]:
        tensors = {id(t): t for t in tensors_in(self.subject.inputs)}
        reading, memo = self.axes.reading(policy.inputs), {}
        known = zip(
            tensors, self.subject.values, reading, self.axes.inputs, strict=True
        )
        for key, tensor, texts, axes in known:
            shape = [
                value(text, new) * stretched.get(self.axes.groups.leader(node), 1)
                for text, node in zip(texts, axes, strict=True)
            ]
            memo[key] = resampled(tensor, shape, self.subject.device)
        return memo

    def twin(self, new: Sizes, policy: Policy) -> Callable:
        """Copy the module with every size that has a letter replaced, without hooks."""
        subject, sizes, memo = self.subject, self.axes.sizes, {}
        if subject.root is None:
            return subject.call
        for tensor in tensors_in([vars(module) for module in subject.modules]):
            (array,) = subject.shapes_of(tensor)
            texts = [
                self.axes.text(node) or written(size(node), sizes, policy.axes)
                for node in nodes(array)
            ]
            shape = [value(text, new) for text in texts]
            memo[id(tensor)] = resize(tensor, shape, subject.device)
        twin = copy.deepcopy(subject.root, memo)
        for (_, module), mode in zip(held(twin), subject.modes, strict=True):
            resize_attributes(module, sizes, new, policy)
            for kind in ("forward", "forward_pre", "backward", "backward_pre"):
                getattr(module, f"_{kind}_hooks").clear()
            module.training = mode
        bound = subject.call is not subject.root
        return getattr(twin, subject.call.__name__) if bound else twin


def steps(rows: Iterable[Row]) -> list[tuple]:
    return [
        (row.op, row.module, row.line, *map(len, (*row.inputs, *row.outputs)))
        for row in rows
    ]


def resize(tensor: Tensor, shape: Sequence[int], device: str) -> Tensor:
    """Make a tensor of another shape: a corner of the old values where there is one."""
    corner = all(new <= old for new, old in zip(shape, tensor.shape, strict=True))
    if corner and not tensor.is_meta and not isinstance(tensor, nn.Parameter):
        return tensor.detach()[tuple(slice(n) for n in shape)].clone().to(device)
    fill = 0.01 if tensor.is_floating_point() else tensor.dtype != torch.bool
    filled = torch.full((), fill, dtype=tensor.dtype, device=device).expand(shape)
    if isinstance(tensor, nn.Parameter):  # one number, seen through: needs no memory
        return nn.Parameter(filled, requires_grad=tensor.requires_grad)
    return filled.clone().requires_grad_(tensor.requires_grad)


def resampled(tensor: Tensor, shape: Sequence[int], device: str) -> Tensor:
    """Make an input of another shape: padding stays at the end, ids become 0, 1 and 2.

    Where steps depend on values, such as on whether a mask hides anything, they are to
    be those of the traced call; and a stand-in may know few words.
    """
    needed, tensor = tensor.requires_grad, tensor.detach().to(device)
    if not tensor.is_floating_point() and tensor.dtype != torch.bool:
        tensor = tensor.clamp(max=2)
    for axis, (new, old) in enumerate(zip(shape, tensor.shape, strict=True)):
        places = torch.arange(new, device=device) * old // max(new, 1)
        tensor = tensor.index_select(axis, places)
    return tensor.requires_grad_(needed)


def resize_attributes(
    module: nn.Module, sizes: Sizes, new: Sizes, policy: Policy
) -> None:
    """Give a module, and its config, the numbers that its new sizes ask for."""
    attributes, weight = vars(module), getattr(module, "weight", None)
    if isinstance(module, nn.MultiheadAttention):
        width = module.out_proj.weight.shape[0]
        heads = (
            new.get("H", 1) if sizes.get("H") == module.num_heads else module.num_heads
        )
        known = {"embed_dim": width, "num_heads": heads, "head_dim": width // heads}
        same = module._qkv_same_embed_dim
        attributes.update(known, **({"kdim": width, "vdim": width} if same else {}))
    elif "normalized_shape" in attributes and isinstance(weight, Tensor):
        attributes["normalized_shape"] = tuple(weight.shape)
    elif not isinstance(module, FIXED):
        for holder in (module, *(attributes.get(name) for name in CONFIGS)):
            resize_numbers(getattr(holder, "__dict__", {}), sizes, new, policy)


# torch's layers that take their sizes from their weights, or have none to change.
FIXED = (nn.Linear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.GroupNorm)


def resize_numbers(
    attributes: dict[str, Any], sizes: Sizes, new: Sizes, policy: Policy
) -> None:
    for attribute, n in list(attributes.items()):
        if isinstance(n, tuple) and n and all(type(item) is int for item in n):
            attributes[attribute] = tuple(
                value(written(i, sizes, policy.names), new) for i in n
            )
        elif type(n) is int and n > 1:
            known = NAME_OF.get(attribute, "") if policy.aliases else ""
            usual = [name for name in policy.names if not is_count(attribute, name)]
            text = known if sizes.get(known) == n else written(n, sizes, usual)
            attributes[attribute] = value(text, new)


def is_count(attribute: str, name: str) -> bool:
    """Say whether a number counts what the letter does not: layers, or classes."""
    if not attribute.startswith(("n_", "num_")):
        return False
    tokens = ("patch", "token", "pos", "len", "seq", "frame")
    return name not in ("T", "Tk") or not any(part in attribute for part in tokens)


@contextlib.contextmanager
def modes_of(subject: Subject) -> Iterator[None]:
    """Run in the grad and inference mode of the traced call."""
    grad, inference = subject.grad
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        yield
