"""Where an operation was called: the reader's line, torch's line, the module."""

import functools
import os
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import NamedTuple

import torch
from torch import nn

from .rows import Spot

CALL_MODULE = nn.Module.__call__.__code__
READERS_FILE, INSTALLED_FILE, HELPERS_FILE, LAYER_FILE, TORCH_FILE = range(5)
OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Part(NamedTuple):
    """A module on the way to an operation, and what it says about the depth."""

    path: str
    is_leaf: bool  # one step of torch's, such as nn.Linear
    is_composite: bool  # many steps of torch's, such as nn.TransformerEncoderLayer


@dataclass
class Place:
    """The place of one operation, found by walking the stack from the inside out.

    Readers rarely call an operation themselves: their line calls nn.MultiheadAttention,
    which calls many. So a place has two lines. `spot` is the innermost line that the
    reader wrote, for that is what the reader knows and can change. Where there is none,
    a line of the installed library that has the modules stands in, and where there is
    none of that, one of a library that helps it, such as einops. `via` is the innermost
    line of the reader or of torch's layers, and tells apart the operations that share a
    `spot`. What nn.Linear does inside says nothing that its name does not say, so its
    own line is `via` only where nothing calls it: that is what `inside_leaf` is for.
    """

    spot: Spot | None = None
    via: Spot | None = None
    path: str | None = None  # of the innermost module
    depth: int = 0  # torch's composite modules around the operation
    kind: int = LAYER_FILE  # whose file `spot` is in
    inside_leaf: Spot | None = None

    def pass_line(self, frame: FrameType, kind: int) -> None:
        if kind > LAYER_FILE:
            return
        spot = Spot(frame.f_code, frame.f_lasti, frame.f_lineno)
        if kind < self.kind:
            self.spot, self.kind = spot, kind
        if self.via is None and kind != HELPERS_FILE:
            self.via = spot

    def leave_module(self, part: Part) -> None:
        self.path = part.path if self.path is None else self.path
        self.depth += part.is_composite
        if part.is_leaf:
            self.inside_leaf, self.via = self.via or self.inside_leaf, None

    def arrive(self) -> None:
        self.via = self.via or self.inside_leaf
        self.spot = self.spot or self.via


class Guide:
    """Find the place of an operation; it knows the modules by their paths."""

    def __init__(
        self, modules: Sequence[tuple[str, nn.Module]], root: nn.Module | None
    ):
        self.known = {id(m): part_of(path, m, m is root) for path, m in modules}
        self.strangers: dict[int, nn.Module] = {}  # kept: an id may be used again
        named = [m for _, m in modules if m is root or m._modules or m._parameters]
        self.packages = {package_of(type(m).__module__) for m in named}

    def locate(self, frames: Iterable[FrameType]) -> Place:
        """Return the place that a stack leads to; its innermost frame comes first."""
        place = Place()
        for frame in frames:
            if frame.f_code is CALL_MODULE:
                place.leave_module(self.look_up(frame.f_locals["self"]))
            else:
                place.pass_line(frame, self.kind_of(frame))
        place.arrive()
        return place

    def kind_of(self, frame: FrameType) -> int:
        kind = file_kind(frame.f_code.co_filename)
        package = package_of(frame.f_globals.get("__name__", ""))
        helps = kind == INSTALLED_FILE and package not in self.packages
        return HELPERS_FILE if helps else kind

    def look_up(self, module: nn.Module) -> Part:
        if id(module) not in self.known:
            self.strangers[id(module)] = module
            self.known[id(module)] = part_of(type(module).__name__, module, False)
        return self.known[id(module)]


def package_of(name: str) -> str:
    return name.partition(".")[0]


def part_of(path: str, module: nn.Module, is_root: bool) -> Part:
    of_torch = type(module).__module__.startswith("torch.nn.modules")
    has_parts = bool(module._modules)
    container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))
    path = path.replace("_orig_mod.", "")  # what torch.compile puts in between
    composite = of_torch and has_parts and not is_root and not container
    return Part(path, of_torch and not has_parts, composite)


@functools.cache
def file_kind(name: str) -> int:
    """Say whose a source file is: the reader's first, torch's and Python's last.

    A file of these tools counts as a layer, installed or not: it stands between the
    reader's line and the operation, and is never the reader's own.
    """
    folder = os.path.dirname(torch.__file__) + os.sep
    layers = os.path.join(folder, "nn", "modules") + os.sep
    if name.startswith((layers, OWN_FOLDER)) and name != layers + "module.py":
        return LAYER_FILE
    if name.startswith((folder, "<frozen")):
        return TORCH_FILE
    if "site-packages" in name or "dist-packages" in name:
        return INSTALLED_FILE
    python = sysconfig.get_paths()["stdlib"] + os.sep
    return TORCH_FILE if name.startswith(python) else READERS_FILE


def callers(frame: FrameType | None, last: CodeType) -> Iterator[FrameType]:
    """Yield the frames that led to an operation, from inside, up to the code `last`."""
    while frame is not None and frame.f_code is not last:
        yield frame
        frame = frame.f_back
