"""Call a stand-in: a copy of a module, and of its inputs, of other sizes.

The module itself is not run: a stand-in has parameters and buffers of its own. It
counts only if it takes the same steps as the traced call, twice.
"""

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from ..untouched import left_untouched
from .input_axes import NAME_OF, RARE, Reading, Sizes, Subject, value, written
from .rows import Row

# Two sets of distinct primes. T stays small, for a table of positions may be short.
PRIMES = {"B": (7, 3), "T": (3, 5), "Tk": (2, 11), "D": (5, 7), "H": (5, 7)}
PRIMES |= {"K": (11, 13), "F": (13, 17), "V": (17, 19)}
SPARE_PRIMES = (29, 31), (37, 41), (43, 47), (53, 59), (61, 67)

# What varies, in the order tried: less and less, until the same lines run. "*" stands
# for the names that the reader gave.
VARIED = ["B T Tk D H K F V *", "B T Tk D K F V *", "B D H K F V", "T Tk D H K F V"]
VARIED += ["B T Tk", "D H K F V", "B", "T Tk"]


def experiment(
    subject: Subject, tensors: Sequence[Tensor], sizes: Sizes, readings: list[Reading]
) -> list[tuple[list[list[Row]], list[Sizes]]]:
    """Return (rows of two runs, three tables of sizes) for each reading that survives.

    A stand-in survives if both runs take the same steps as the traced call.
    """
    endless = isinstance(subject.rows[-1].error, RecursionError)
    if subject.inputs is None or subject.strangers or endless:
        return []
    few = *subject.given, "D", "F", "V"
    for level, varied in enumerate(VARIED):
        tables = [resized(sizes, varied.split(), k) for k in (0, 1)]
        found = []
        for reading in readings[: 1 if level else 4]:
            for names in (few, (*few, *RARE)):
                runs = [
                    repeat(subject, tensors, reading, sizes, new, names)
                    for new in tables
                ]
                if None not in runs:
                    found.append((runs, [sizes, *tables]))
                    break
        if found:
            return found
    return []


def resized(sizes: Sizes, varied: Sequence[str], k: int) -> Sizes:
    """Choose the k-th set of other sizes for the names that vary."""
    new, spare = dict(sizes), iter(SPARE_PRIMES * 9)
    for name, size in sizes.items():
        primes = PRIMES.get(name) or next(spare)
        if name in varied or name not in PRIMES and "*" in varied:
            even = size % 2 == 0 and name not in ("B", "T", "Tk")
            new[name] = primes[k] * (2 if even else 1)
    if sizes.get("D") == sizes.get("H", 0) * sizes.get("K", 0):
        new["D"] = new["H"] * new["K"]
    elif "D" in sizes and "D" in varied:  # an unknown number of heads must divide it
        new["D"] = math.gcd(sizes["D"], 48) * PRIMES["D"][k]
    return new


def repeat(
    subject: Subject,
    tensors: Sequence[Tensor],
    reading: Reading,
    sizes: Sizes,
    new: Sizes,
    names: Sequence[str],
) -> list[Row] | None:
    """Run a stand-in of the new sizes; None if it takes other steps or cannot run."""
    unseen = left_untouched(generators=subject.generators)
    with contextlib.suppress(Exception), unseen, modes_of(subject):
        call = stand_in(subject, sizes, new, names)
        memo = {
            id(tensor): resize(
                tensor, [value(axis, new) for axis in axes], subject.device
            )
            for tensor, axes in zip(tensors, reading, strict=True)
        }
        assert subject.inputs is not None  # else there is no experiment
        args, kwargs = copy.deepcopy(subject.inputs, memo)
        rows = subject.record(call, *args, **kwargs)
        return rows if steps(rows) == steps(subject.rows) else None


def steps(rows: Iterable[Row]) -> list[tuple]:
    return [
        (row.op, row.line, [len(s) for s in row.inputs], [len(s) for s in row.outputs])
        for row in rows
    ]


def stand_in(
    subject: Subject, sizes: Sizes, new: Sizes, names: Sequence[str]
) -> Callable:
    """Copy the module with every size that has a name replaced, and without hooks."""
    if subject.root is None:
        return subject.call
    memo = {}
    for tensor in tensors_in(
        [list(vars(module).values()) for module in subject.modules]
    ):
        shape = [value(written(n, sizes, names), new) for n in tensor.shape]
        memo[id(tensor)] = resize(tensor, shape, subject.device)
    twin = copy.deepcopy(subject.root, memo)
    for (_, module), mode in zip(held(twin), subject.modes, strict=True):
        for holder in (module, vars(module).get("config")):
            resize_numbers(getattr(holder, "__dict__", {}), sizes, new, names)
        for kind in ("forward", "forward_pre", "backward", "backward_pre"):
            getattr(module, f"_{kind}_hooks").clear()
        module.training = mode
    bound = subject.call is not subject.root
    return getattr(twin, subject.call.__name__) if bound else twin


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


def resize_numbers(
    attributes: dict[str, Any], sizes: Sizes, new: Sizes, names: Sequence[str]
) -> None:
    for attribute, n in list(attributes.items()):
        if isinstance(n, tuple) and n and all(type(item) is int for item in n):
            attributes[attribute] = tuple(
                value(written(i, sizes, names), new) for i in n
            )
        elif type(n) is int and n > 1:
            known = NAME_OF.get(attribute, "")
            counts = attribute.startswith(("n_", "num_"))  # of layers, of classes
            usual = [name for name in names if name not in RARE]
            text = str(n) if counts else written(n, sizes, usual)
            attributes[attribute] = value(known if sizes.get(known) == n else text, new)


@contextlib.contextmanager
def modes_of(subject: Subject) -> Iterator[None]:
    """Run in the grad and inference mode of the traced call."""
    grad, inference = subject.grad
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        yield
