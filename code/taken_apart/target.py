"""A reader's own module, built by a function of a file: `path/to/file.py:build`."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .errors import first_line

EXAMPLE = """\
Write, for example, in my_model.py:

    def build():
        return MyEncoder(), (torch.randint(1000, (8, 20)),)

and give my_model.py:build. A dict of keyword arguments may follow the inputs."""


class Target(NamedTuple):
    """What is to be called, and how."""

    module: Callable
    inputs: tuple
    kwargs: dict[str, Any]


def built(target: str) -> Target:
    """Call `build`, or the function named after the colon, and check what it returns.

    That is (module, (inputs, ...)) or (module, (inputs, ...), kwargs). Raises
    ValueError, with one sentence, for whatever goes wrong on the way.
    """
    path, colon, name = target.rpartition(":")
    path, name = (path, name) if colon and name.isidentifier() else (target, "build")
    build = getattr(loaded(path), name, None)
    if not callable(build):
        raise ValueError(f"{path} has no function {name!r}")
    try:
        parts: Any = build()
    except (Exception, SystemExit) as error:
        raise ValueError(f"{name}() raised {error_text(error)}") from error
    if not is_target(parts):
        raise ValueError(f"{name}() must return (module, (inputs, ...)[, kwargs])")
    return Target(parts[0], tuple(parts[1]), dict(*parts[2:]))


def is_target(parts: Any) -> bool:
    if not (isinstance(parts, tuple) and len(parts) in (2, 3) and callable(parts[0])):
        return False
    inputs, *kwargs = parts[1:]
    sorts = isinstance(inputs, (tuple, list)), all(isinstance(k, dict) for k in kwargs)
    return all(sorts) and any(map(len, parts[1:]))


def loaded(path: str) -> ModuleType:
    """Import a file by its path; its folder comes first where it imports others."""
    file = Path(path).resolve()
    if not file.is_file() or file.suffix != ".py":
        raise ValueError(f"wanted path/to/file.py:build, found no such file: {path!r}")
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.path.insert(0, str(file.parent))
    sys.modules.setdefault(file.stem, module)  # dataclasses look themselves up there
    try:
        exec(compile(file.read_bytes(), str(file), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{path} could not be imported: {error_text(error)}"
        ) from error
    return module


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
