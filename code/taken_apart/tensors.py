"""Find tensors in nested values, and modules in modules: what all tools start from."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, nn


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors in nested tuples, lists, mappings and dataclasses, in order.

    Lazy parameters are left out: they have no shape yet.
    """
    if isinstance(value, Tensor):
        if not nn.parameter.is_lazy(value):
            yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Mapping):
        yield from tensors_in(list(value.values()))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from tensors_in([getattr(value, part.name) for part in fields(value)])


def held(
    root: nn.Module, path: str = "", seen: set[int] | None = None
) -> Iterator[tuple[str, nn.Module]]:
    """Yield (path, module) for a module and all it holds, each once.

    Unlike `named_modules`, it looks into plain lists, tuples and dicts as well.
    """
    seen = set() if seen is None else seen
    if id(root) in seen:
        return
    seen.add(id(root))
    yield path, root
    for name, value in list(vars(root).items()):
        for part, item in parts_of(name, value):
            if isinstance(item, nn.Module):
                yield from held(item, f"{path}.{part}".lstrip("."), seen)


def parts_of(name: str, value: Any) -> list[tuple[str, Any]]:
    """Name what an attribute holds: its items, where it is a list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        return [(f"{name}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, dict):
        brackets = "{}" if name == "_modules" else name + "[{}]"
        return [(brackets.format(key), item) for key, item in value.items()]
    return [(name, value)]
