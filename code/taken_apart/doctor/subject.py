"""What is examined: the module behind a lambda, a partial, a bound method, an object.

A function has no modes to set and no parameters to ask about; the module that it calls
has. It is looked for in what the function encloses, is bound to and names, and at last
among the modules that a call of it runs.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from ..target import error_text, is_target
from ..untouched import Snapshot, left_untouched


def uncompiled(module: nn.Module) -> nn.Module:
    """Return the module that torch.compile wraps; another comes back as it is."""
    return getattr(module, "_orig_mod", module) if is_compiled(module) else module


def module_behind(call: Callable, args: tuple, kwargs: dict) -> nn.Module | None:
    """Return the module that a callable runs; None if there is none.

    Several are held together in an `nn.ModuleDict`, by their names.
    """
    if isinstance(call, nn.Module):
        return uncompiled(call)
    found = dict(modules_reached(call, "module", set()))
    if len(found) != 1:
        called = outermost_called(call, args, kwargs)
        found = {n: m for n, m in found.items() if id(m) in called} or {
            f"module{i}": module for i, module in enumerate(called.values())
        }
    if len(found) > 1:
        return nn.ModuleDict({n.replace(".", "_"): m for n, m in found.items()})
    return next(iter(found.values()), None)


def prepared(
    module: Callable, inputs: tuple, kwargs: dict[str, Any]
) -> tuple[Callable, tuple, dict[str, Any], str]:
    """Call a function that builds what is to be examined, if it is one and succeeds.

    The last result is a sentence where it builds nothing that can be examined.
    """
    if not isinstance(module, types.FunctionType) or inputs or kwargs:
        return module, inputs, kwargs, ""
    name, built = module.__name__, None
    try:
        with left_untouched():
            built = module()
    except (OSError, ImportError) as error:
        return module, (), {}, f"{name}() raised {error_text(error)}"
    except (Exception, SystemExit):
        return module, (), {}, ""
    if is_target(built):
        return built[0], tuple(built[1]), dict(*built[2:]), ""
    first = built[0] if isinstance(built, tuple) and built else built
    wrong = f"{name}() must return (module, (inputs, ...)[, kwargs])"
    return module, (), {}, wrong if isinstance(first, nn.Module) else ""


def misuse_of(call: Callable, args: tuple, kwargs: dict[str, Any]) -> str:
    """Say which argument of a call is missing or too many, "" if they fit."""
    is_module = isinstance(call, nn.Module)
    called, given = call, args
    if is_module:
        called, given = (
            inspect.getattr_static(type(call), "forward", None),
            (call, *args),
        )
        hooked = vars(call).get("_forward_pre_hooks")  # it may add arguments
        if hooked or not isinstance(called, types.FunctionType):
            return ""
    try:
        signature = inspect.signature(called)
    except Exception:
        return ""
    try:
        signature.bind(*given, **kwargs)
    except TypeError as error:
        name = f"{type(call).__name__}.forward" if is_module else name_in_words(call)
        return f"{name}() cannot be called so: {error}"
    return ""


def name_in_words(call: Callable) -> str:
    return getattr(call, "__name__", type(call).__name__)


def is_compiled(module: nn.Module) -> bool:
    """Say whether `torch.compile` wrapped a module; asks nothing of the module."""
    return type(module).__name__ == "OptimizedModule"


def modules_reached(
    value: Any, name: str, seen: set[int], depth: int = 5
) -> Iterator[tuple[str, nn.Module]]:
    """Yield (name, module) for each module that a callable holds, outermost only."""
    if id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    if isinstance(value, nn.Module):
        yield name, value
        return
    for part, held in what_is_held(value):
        yield from modules_reached(held, part, seen, depth - 1)


def what_is_held(value: Any) -> Iterable[tuple[str, Any]]:
    """Return (name, content) of what a callable, a container or an object holds."""
    if isinstance(value, functools.partial):
        arguments = enumerate([value.func, *value.args, *value.keywords.values()])
        return [(f"argument{i}", argument) for i, argument in arguments]
    if isinstance(value, types.MethodType):
        return [("owner", value.__self__), ("function", value.__func__)]
    if isinstance(value, types.FunctionType):
        return [*enclosed(value), *named_globals(value)]
    if isinstance(value, (list, tuple)):
        return [(f"item{i}", item) for i, item in enumerate(value)]
    if isinstance(value, dict):
        return [(str(key), item) for key, item in value.items()]
    plain = not isinstance(value, (type, types.ModuleType, Tensor, str))
    return list(getattr(value, "__dict__", {}).items()) if plain else []


def enclosed(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (name, content) of a closure's cells and of a function's defaults."""
    cells = function.__closure__ or ()
    for name, cell in zip(function.__code__.co_freevars, cells, strict=False):
        with contextlib.suppress(ValueError):  # an empty cell
            yield name, cell.cell_contents
    for i, default in enumerate(function.__defaults__ or ()):
        yield f"default{i}", default
    yield from (function.__kwdefaults__ or {}).items()


def named_globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the modules and the functions of its own file that a function names."""
    todo = [function.__code__]
    while todo:
        code = todo.pop()
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            own = getattr(value, "__globals__", None) is function.__globals__
            if isinstance(value, (nn.Module, functools.partial)) or own:
                yield name, value


def outermost_called(call: Callable, args: tuple, kwargs: dict) -> dict[int, nn.Module]:
    """Return, by id, the modules that a call runs and that are there at the next, too.

    Only those that no other module called; one without parameters and parts says
    nothing.
    """
    runs: list[dict[int, nn.Module]] = []
    for _ in range(2):
        called: dict[int, nn.Module] = {}
        survived = contextlib.suppress(Exception, SystemExit)
        with left_untouched(args, kwargs), watching(called), survived:
            call(*args, **kwargs)
        runs.append(called)
    return {key: module for key, module in runs[0].items() if key in runs[1]}


@contextlib.contextmanager
def watching(called: dict[int, nn.Module]) -> Iterator[None]:
    """Note the outermost modules that are called inside, and put their state back."""
    open_calls: list[nn.Module] = []
    before: list[Snapshot] = []

    def enter(module: nn.Module, given: Any) -> None:
        if not open_calls and any(True for _ in module.parameters()):
            if id(module) not in called:
                before.append(Snapshot(module))
            called[id(module)] = module
        open_calls.append(module)

    def leave(module: nn.Module, given: Any, result: Any) -> None:
        if module in open_calls:
            del open_calls[open_calls.index(module) :]

    hooks = [
        nn.modules.module.register_module_forward_pre_hook(enter),
        nn.modules.module.register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        for snapshot in reversed(before):
            snapshot.restore()
