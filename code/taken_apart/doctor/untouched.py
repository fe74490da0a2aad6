"""Leave a module, its inputs and the random numbers as they were; for `doctor.py`.

Lists, dicts, sets, tensors, modules, and what functions enclose are remembered by what
they hold. A reader's own kinds of objects are not looked into.
"""

import contextlib
import copy
import functools
import random
import sys
import types

import torch
from torch import Tensor, nn


@contextlib.contextmanager
def left_as_it_was(*things):
    """Put back state, modes, gradients, hooks, inputs and random numbers at the end."""
    undo, seen = [], set()
    for thing in things:
        remember(thing, undo, seen)
    generators = random_states()
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        yield
    finally:
        for put_back in undo:
            with contextlib.suppress(Exception):
                put_back()
        restore_random(generators)
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)


def remember(value, undo, seen, depth=200):
    """Note how to undo whatever may happen to a value and to all that it holds."""
    if id(value) in seen or depth == 0:
        return
    kinds = Tensor, nn.Module, list, dict, set, tuple, types.FunctionType
    if not isinstance(value, kinds):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        remember_tensor(value, undo)
        return
    for held_value in contents(value):
        remember(held_value, undo, seen, depth - 1)
    if isinstance(value, list):
        undo.append(functools.partial(value.__setitem__, slice(None), list(value)))
    elif isinstance(value, (dict, set)):
        undo.append(functools.partial(refill, value, copy.copy(value)))


def contents(value):
    if isinstance(value, nn.Module):
        return [vars(value)]
    if isinstance(value, types.FunctionType):
        cells = value.__closure__ or ()
        return [c.cell_contents for c in cells if not is_empty(c)]
    return list(value.values()) if isinstance(value, dict) else list(value)


def is_empty(cell) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


def refill(holder, content):
    holder.clear()
    holder.update(content)


def remember_tensor(tensor, undo):
    if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
        return
    with contextlib.suppress(Exception):
        kept = tensor.detach().clone()
        grad = tensor.grad if tensor.is_leaf else None
        needed = tensor.requires_grad
        old = None if grad is None else grad.detach().clone()
        undo.append(functools.partial(restore_tensor, tensor, kept, needed, grad, old))


def restore_tensor(tensor, kept, needed, grad, old):
    # Written only where it differs: a graph may wait for backward with this tensor.
    if tensor.shape != kept.shape or tensor.dtype != kept.dtype:
        tensor.data = kept
    elif not same(tensor.detach(), kept):
        tensor.detach().copy_(kept)
    if tensor.is_leaf:
        tensor.requires_grad_(needed)
        tensor.grad = grad
        if grad is not None and not same(grad, old):
            grad.copy_(old)


def same(left, right) -> bool:
    """Say whether two tensors of one shape and type are equal, nan where nan is."""
    return torch.equal(left.nan_to_num(3.25), right.nan_to_num(3.25))


def random_states():
    numpy = sys.modules.get("numpy")
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    own = numpy.random.get_state() if numpy else None
    return torch.get_rng_state(), cuda, random.getstate(), own


def restore_random(states):
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state_all(states[1])
    random.setstate(states[2])
    if states[3] is not None:
        sys.modules["numpy"].random.set_state(states[3])


def reseed(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
