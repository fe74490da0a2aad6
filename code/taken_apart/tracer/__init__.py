"""`trace(module, *inputs)`: what ran, line by line, with shapes and axis names.

A `TorchFunctionMode` sees every torch operation that the module calls and notes the
reader's own line, the module, the shapes and the dtypes: no tensor is kept, no hook is
set, no result changes. `axes.py` finds the names of the axes, on first use, by running
a stand-in of the module at other sizes.

Shapes use one legend everywhere: B batch, T tokens, Tk tokens of a second sequence,
D = d_model, H heads, K = d_head, F = d_ff, V vocabulary.

    print(trace(encoder, token_ids))
    python code/tracer.py my_model.py:build
"""

import argparse
import contextlib
import copy
import functools
import importlib.util
import inspect
import itertools
import linecache
import math
import os
import re
import sys
import sysconfig
import threading
import traceback
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ..errors import first_line
from ..tensors import held, tensors_in
from .axis_names import Subject, find_names
from .error_causes import explain


def trace(module, *inputs, axes=None, inside=False, raises=False, **kwargs) -> "Trace":
    """Call `module(*inputs, **kwargs)` once and return what ran; see `Trace`.

    `module` is any callable. `axes` names sizes, as in {"S": 7}. `inside=True` keeps
    torch's encoder on its slow path, which can be seen; its fast path is one row.
    If the call raises, the trace holds the error, or with `raises=True` raises it.
    """
    if not callable(module):
        raise TypeError(f"trace wants a module or function, got {type(module)}")
    for name, size in (axes or {}).items():
        if not str(name).isidentifier() or type(size) is not int or size < 1:
            raise ValueError(f'axes wants names and sizes, {{"T": 7}}, got {axes!r}')
    template = without_values((inputs, kwargs))
    recording = record(module, *inputs, inside=inside, **kwargs)
    if raises and recording.error is not None:
        raise recording.error
    return Trace(recording, template, dict(axes or {}))


class Trace:
    """What one call ran: `.rows`, and where it raised, `.error` with a likely `.cause`.

    `print(t)` shows a table, a notebook the ShapeTracer view. `.path` says whether
    torch's fast path ran, `.naming` how the names of the axes were found, `.sizes` what
    they stand for. `.to_dict()` is all of that in plain values.
    """

    def __init__(self, recording, inputs, given):
        self.error, self.path = recording.error, path_taken(recording)
        self.module = getattr(recording.call, "__name__", type(recording.call).__name__)
        self._rows = recording.rows
        # A module made for one call, nn.Softmax(dim=-1)(x), can be made again.
        strangers = recording.strangers.values()
        self._subject = Subject(
            call=recording.call,
            root=owner(recording.call),
            inputs=inputs,
            record=functools.partial(rows_of, inside=recording.inside),
            rows=recording.rows,
            given=given,
            strangers=[m for m in strangers if [*m.parameters(), *m.buffers()]],
            generators=recording.generators,
        )
        if self.error is not None:
            drop_frames(self.error)

    @functools.cached_property
    def names(self) -> dict:
        """Find the names of all axes, at first use: `sizes`, `relations`, `naming`."""
        names, self._subject = find_names(self._subject), None
        if self.error is not None and self._rows:
            self._rows[-1].explain()
        return names

    @property
    def rows(self) -> list["Row"]:
        _ = self.names  # rows are handed out with the names of their axes
        return self._rows

    @property
    def sizes(self) -> dict[str, int]:
        return self.names["sizes"]

    @property
    def naming(self) -> str:
        return self.names["naming"]

    @property
    def cause(self) -> str:
        return self.rows[-1].cause if self.error is not None and self.rows else ""

    def to_dict(self) -> dict:
        told = {"module": self.module, "path": self.path, **self.names}
        rows, error = [row.to_dict() for row in self.rows], None
        if self.error is not None:
            error = {
                "type": type(self.error).__name__,
                "message": first_line(self.error),
            }
            error |= {"axis": self.rows[-1].mismatch, "cause": self.cause}
        return told | {"rows": rows, "error": error}

    def __str__(self):
        return table(self)

    def __repr__(self):
        ended = f", {type(self.error).__name__}" if self.error is not None else ""
        return f"Trace({self.module}: {count(self._rows)}{ended})"

    def _repr_mimebundle_(self, **kwargs):
        try:
            from ..views import ShapeTracer
        except ImportError:  # the file alone: text is what we have
            return {"text/plain": str(self)}
        return ShapeTracer(self)._repr_mimebundle_(**kwargs)


def without_values(inputs):
    """Copy arguments with empty tensors in place of theirs; None if that fails."""
    empty = {id(t): to_meta(t) for t in tensors_in(inputs)}
    with contextlib.suppress(Exception):
        return copy.deepcopy(inputs, empty)


def to_meta(value):
    if not isinstance(value, Tensor):
        return value
    empty = torch.empty(value.shape, dtype=value.dtype, device="meta")
    return empty.requires_grad_(value.requires_grad and value.is_leaf)


def rows_of(call, *inputs, inside, **kwargs) -> list["Row"]:
    return record(call, *inputs, inside=inside, **kwargs).rows


def drop_frames(error):
    """Forget the frames of an error: they would keep the tensors of the call alive."""
    while error is not None:
        error.__traceback__, error = None, error.__cause__ or error.__context__


def path_taken(recording) -> str:
    fast = [row.module or "it" for row in recording.rows if row.op in FAST_PATHS]
    if fast:
        return (
            f"torch's fast path, one opaque row each: {', '.join(dict.fromkeys(fast))}"
        )
    if any(row.op == "multi_head_attention_forward" for row in recording.rows):
        asked = ", to look inside: the plain call may take the fast one"
        return "torch's slow path" + asked * recording.inside
    return "the lines of the module itself"


# --- rows ----------------------------------------------------------------------------


class Shape(tuple):
    """The shape of one tensor: a tuple of sizes that knows its `.dtype` and `.axes`."""

    dtype, axes = None, ()

    @property
    def bytes(self) -> int:
        return math.prod(self) * self.dtype.itemsize

    def filled(self, batch) -> "Shape":
        """Return the shape with its batch of no samples as large as it really is."""
        full = Shape(batch if size == 0 else size for size in self)
        full.dtype = self.dtype
        return full

    def __str__(self):
        return f"({', '.join(self.axes or map(str, self))})"

    def to_dict(self):
        dtype = str(self.dtype).removeprefix("torch.")
        shape = {"shape": list(self), "axes": list(self.axes)}
        return shape | {"dtype": dtype, "bytes": self.bytes}


@dataclass
class Row:
    """One operation: where it was called, on which shapes, and what it did to axes."""

    op: str
    inputs: list[Shape]
    outputs: list[Shape]
    error: Exception | None = None
    place: tuple = ()  # code object, instruction, line: the reader's own
    via: tuple = ()  # the same for the line inside torch's module that called it
    module: str = ""
    depth: int = 0  # 0 = called from the reader's line, more = inside torch's modules
    note: str = ""
    detail: object = None  # order of axes, softmax's axis, einsum's equation, id range
    event: dict | None = None  # see axes.event_of
    mismatch: str = ""  # of the row that raised: the axes that do not fit ...
    cause: str = ""  # ... and the likely cause

    @property
    def output(self) -> Shape | None:
        return self.outputs[0] if self.outputs else None

    @property
    def axes(self) -> tuple[str, ...]:
        return self.outputs[0].axes if self.outputs else ()

    @property
    def input_axes(self) -> list[tuple[str, ...]]:
        return [shape.axes for shape in self.inputs]

    @property
    def file(self) -> str:
        return self.place[0].co_filename if self.place else ""

    @property
    def line(self) -> int:
        return self.place[2] if self.place else 0

    @property
    def code(self) -> str:
        return source(*self.place) if self.place else ""

    @property
    def part(self) -> str:
        """The piece of the line that is this operation, or of torch's line."""
        return source(*self.via, part=True) if self.via else ""

    def explain(self):
        self.mismatch, self.cause = explain(self)

    def to_dict(self):
        row = {"file": os.path.basename(self.file)}
        for name in "line code part op module depth note event".split():
            row[name] = getattr(self, name)
        for side in ("inputs", "outputs"):
            row[side] = [shape.to_dict() for shape in getattr(self, side)]
        return row


def source(code, instruction, line, part=False) -> str:
    """Return the text of the line that an instruction is on, or of its expression."""
    spots = itertools.islice(code.co_positions(), instruction // 2, None)
    first, last, start, end = next(spots, (None,) * 4)
    if None in (first, last, start, end) or first > line:
        first, last, start, end = line, line, 0, None
    texts = [linecache.getline(code.co_filename, n) for n in range(first, last + 1)]
    if part:
        texts[-1] = texts[-1].encode()[:end].decode()
        texts[0] = texts[0].encode()[start:].decode()
    return " ".join(" ".join(texts).split())


def shapes_in(value) -> list[Shape]:
    return [shape_of(tensor) for tensor in tensors_in(value)]


def shape_of(tensor) -> Shape:
    # A nested tensor has one size only, the number of its rows.
    shape = Shape((tensor.size(0),) if tensor.is_nested else tensor.shape)
    shape.dtype = tensor.dtype
    return shape


# --- recording -----------------------------------------------------------------------


def record(call, *inputs, watch=None, inside=False, **kwargs) -> "Recorder":
    """Call once under a Recorder: `.result`, `.rows`, and `.error` where it raised.

    `watch(row, func, args, kwargs, output)` is handed every operation with its live
    tensors, recording off; it must not change them, and should not keep them.
    """
    recorder = Recorder(call, watch, inside)
    with eager(), fast_path_kept(), recorder:
        try:
            recorder.result = call(*inputs, **kwargs)
        except Exception as error:
            recorder.error = error
    for row in recorder.rows:
        if row.error is not None and row.error is not recorder.error:
            row.error, row.note = None, "raised, and was caught"  # keep no frames alive
    if recorder.error is not None:
        end_with_raise(recorder)
    elif not recorder.rows:
        name, given = type(call).__name__, shapes_in((inputs, kwargs))
        note = "opaque: no operation could be seen inside"
        recorder.rows.append(Row(name, given, shapes_in(recorder.result), note=note))
    return recorder


class Recorder(TorchFunctionMode):
    """Note a row for each torch operation; see `record`.

    Attention inside `nn.MultiheadAttention` is recomputed, on the live tensors where
    somebody watches, on shapes alone otherwise.
    """

    def __init__(self, call, watch=None, inside=False):
        super().__init__()
        self.call, self.watch, self.inside, self.opening = call, watch, inside, False
        self.rows, self.generators, self.strangers = [], [], {}
        self.result = self.error = None
        root = owner(call)
        modules = [] if root is None else held(root)
        self.known = {id(m): describe(path, m, m is root) for path, m in modules}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = kwargs or {}, op_name(func)
        in_place = name.endswith("_") or name == "setitem"
        before = shapes_in((args, kwargs)) if in_place else None
        try:
            output = func(*args, **kwargs)
        except Exception as error:
            row = self.add(name, before or shapes_in((args, kwargs)), [], error)
            row.detail = failure_detail(name, args)
            raise
        if func is Tensor.__iter__:
            name, output = "unbind", tuple(output)
        outputs = shapes_in(args[0] if name == "setitem" else output)
        if outputs:
            row = self.add(name, before or shapes_in((args, kwargs)), outputs)
            self.look_closer(row, func, args, kwargs, output)
        return iter(output) if func is Tensor.__iter__ else output

    def add(self, name, inputs, outputs, error=None) -> Row:
        row = Row(name, inputs, outputs, error, *self.locate(callers(sys._getframe(2))))
        if self.opening:
            row.depth, row.note = row.depth + 1, "recomputed to show each head"
        elif name in FAST_PATHS:
            row.note = "torch's fast path: one opaque operation"
        self.rows.append(row)
        return row

    def look_closer(self, row, func, args, kwargs, output):
        if isinstance(kwargs.get("generator"), torch.Generator):
            self.generators.append(kwargs["generator"])
        if row.op in MOVES or row.op in NORMALISES:
            row.detail = axis_detail(row.op, func, args, kwargs)
        if self.watch is not None:
            self.watch(row, func, args, kwargs, output)
        if row.op in ATTENTION_ARGUMENTS and not self.opening:
            self.open_attention(row.op, args, kwargs)

    def open_attention(self, name, args, kwargs):
        """Add the rows of each head's attention; without a watcher at no cost.

        A batch of no samples has all the other sizes, and needs no arithmetic.
        """
        n_rows, self.opening = len(self.rows), True
        try:
            parts = attention_parts(dict(zip(ATTENTION_ARGUMENTS[name], args)) | kwargs)
            batch = len(parts["inputs"][0])
            if self.watch is None:
                parts = without_samples(parts)
            with torch.no_grad(), self:
                attention_steps(**parts)
            for row in self.rows[n_rows:]:
                row.inputs = [shape.filled(batch) for shape in row.inputs]
                row.outputs = [shape.filled(batch) for shape in row.outputs]
        except (
            Exception
        ):  # an option that we do not retell: the closed row stands alone
            del self.rows[n_rows:]
        self.opening = False

    def locate(self, frames) -> tuple:
        """Walk up the stack: the reader's line, torch's, the module and its depth."""
        place = via = spare = path = None
        depth, best = 0, LAYER_FILE
        for frame in frames:
            code = frame.f_code
            if code is CALL_MODULE:
                name, leaf, composite = self.look_up(frame.f_locals["self"])
                path, depth = name if path is None else path, depth + composite
                via, spare = (None, via or spare) if leaf else (via, spare)
            else:
                kind = file_kind(code.co_filename)
                spot = code, frame.f_lasti, frame.f_lineno
                place, best = (spot, kind) if kind < best else (place, best)
                via = spot if via is None and kind <= LAYER_FILE else via
        via = via or spare or ()
        return place or via, via, path or "", depth

    def look_up(self, module):
        if id(module) not in self.known:
            self.strangers[id(module)] = module  # kept, or its id may be used again
            self.known[id(module)] = describe(type(module).__name__, module, False)
        return self.known[id(module)]


def end_with_raise(recorder):
    """End the rows with the line that raised, when that was no torch operation."""
    error, rows = recorder.error, recorder.rows
    if rows and rows[-1].error is error:
        return
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    frames = frames[:0:-1]  # from the inside out, without `record`
    spot = recorder.locate(frames)
    rows.append(Row(f"raise {type(error).__name__}", [], [], error, *spot))
    own = [frame for frame in frames if spot[0] and frame.f_code is spot[0][0]]
    if own:
        rows[-1].inputs = shapes_in(list(own[0].f_locals.values()))


def callers(frame):
    """Yield the frames that led to an operation, from inside, as far as `record`."""
    while frame is not None and frame.f_code is not RECORD:
        yield frame
        frame = frame.f_back


def op_name(func) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":
        return getattr(func.__self__, "__name__", name)
    return name.strip("_") if name.startswith("__") else name


def owner(call) -> nn.Module | None:
    """Return the module that a call belongs to: itself, or the owner of a method."""
    call = getattr(call, "__self__", call)
    return call if isinstance(call, nn.Module) else None


def describe(path, module, is_root) -> tuple[str, bool, bool]:
    """Return the path, and whether torch's module is one step, or many and nested."""
    of_torch = type(module).__module__.startswith("torch.nn.modules")
    many = of_torch and bool(module._modules) and not is_root
    containers = nn.Sequential, nn.ModuleList, nn.ModuleDict
    path = path.replace("_orig_mod.", "")  # what torch.compile puts in between
    leaf = of_torch and not module._modules
    return path, leaf, many and not isinstance(module, containers)


RECORD, CALL_MODULE = record.__code__, nn.Module.__call__.__code__
READERS_FILE, INSTALLED_FILE, LAYER_FILE, TORCH_FILE = range(4)


@functools.cache
def file_kind(name: str) -> int:
    """Say whose a source file is: the reader's first, torch's and Python's last."""
    folder = os.path.dirname(torch.__file__) + os.sep
    layers = os.path.join(folder, "nn", "modules")
    if name.startswith((layers, os.path.dirname(__file__) + os.sep)):
        return LAYER_FILE
    if name.startswith((folder, "<frozen")):
        return TORCH_FILE
    if "site-packages" in name or "dist-packages" in name:
        return INSTALLED_FILE
    python = sysconfig.get_paths()["stdlib"] + os.sep
    return TORCH_FILE if name.startswith(python) else READERS_FILE


def eager():
    """Let compiled parts run as they are written: their kernels could not be seen."""
    if "torch._dynamo" not in sys.modules:  # then nothing can be compiled
        return contextlib.nullcontext()
    return torch.compiler.set_stance("force_eager")


FAST_PATHS = "_transformer_encoder_layer_fwd", "_native_multi_head_attention"
_has_torch_function = torch.overrides.has_torch_function
_lock, _users = threading.Lock(), []


@contextlib.contextmanager
def fast_path_kept():
    """Let torch's encoder take its fast path although a Recorder is watching.

    The encoder asks `has_torch_function` and keeps off while any mode is active, so
    tracing would change what runs. While a trace runs, a Recorder does not count.
    """
    with _lock:
        _users.append(1)
        torch.overrides.has_torch_function = overridden
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                torch.overrides.has_torch_function = _has_torch_function


def overridden(values) -> bool:
    modes = torch.overrides._get_current_function_mode_stack()
    if any(not isinstance(mode, Recorder) or mode.inside for mode in modes):
        return _has_torch_function(values)
    plain = Tensor, nn.Parameter
    return any(isinstance(v, Tensor) and type(v) not in plain for v in values)


MOVES = set(
    "transpose permute swapaxes swapdims movedim moveaxis T mT t adjoint".split()
)
NORMALISES = "softmax", "log_softmax"


def axis_detail(name, func, args, kwargs):
    """Return the order of axes after a move, found by moving, or softmax's axis."""
    with contextlib.suppress(Exception):  # bookkeeping must not break the call
        if name in NORMALISES:
            axis = kwargs["dim"] if "dim" in kwargs else args[1]
            return axis % args[0].dim()
        numbers = torch.empty(tuple(range(2, 2 + args[0].dim())), device="meta")
        return [size - 2 for size in func(numbers, *args[1:], **kwargs).shape]


def failure_detail(name, args):
    """Return what shapes do not tell: an einsum's equation, ids, a wanted shape."""
    with contextlib.suppress(Exception):
        if name == "einsum":
            return args[0]
        if name == "embedding":
            return int(args[0].min()), int(args[0].max())
        sizes = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
        return tuple(size for size in sizes if type(size) is int)


# --- inside nn.MultiheadAttention ----------------------------------------------------

ATTENTION_ARGUMENTS = {
    "multi_head_attention_forward": tuple(
        inspect.signature(functional.multi_head_attention_forward).parameters
    ),
    "_native_multi_head_attention": (
        *("query", "key", "value", "embed_dim", "num_heads", "in_proj_weight"),
        *("in_proj_bias", "out_proj_weight", "out_proj_bias", "packed_mask"),
    ),
}


def attention_parts(given) -> dict:
    """Sort the arguments of torch's two attention functions; inputs go batch first.

    Raises ValueError for the options that `attention_steps` does not retell.
    """
    odd = "bias_k", "static_k", "static_v", "packed_mask"
    if any(given.get(key) is not None for key in odd) or given.get("add_zero_attn"):
        raise ValueError("extra keys and packed masks are not retold")
    inputs = [given[key] for key in ("query", "key", "value")]
    if "embed_dim_to_check" in given:  # the Python function: time first, or one sample
        inputs = [x.transpose(0, 1) if x.dim() == 3 else x[None] for x in inputs]
    weights, biases = given.get("in_proj_weight"), given.get("in_proj_bias")
    if given.get("use_separate_proj_weight"):
        weights = [given[f"{kind}_proj_weight"] for kind in "qkv"]
    else:
        weights = weights.chunk(3)
    biases = (None,) * 3 if biases is None else biases.chunk(3)
    output = given["out_proj_weight"], given.get("out_proj_bias")
    padding, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if padding is not None:
        padding = padding.reshape(len(inputs[0]), 1, 1, -1)
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (len(inputs[0]), given["num_heads"]))
    maps, masks = [*zip(weights, biases), output], (padding, mask)
    return dict(inputs=inputs, maps=maps, n_heads=given["num_heads"], masks=masks)


def without_samples(parts) -> dict:
    masks = [m if m is None or m.dim() < 3 else m[:0] for m in parts["masks"]]
    return parts | {"inputs": [x[:0] for x in parts["inputs"]], "masks": masks}


def attention_steps(inputs, maps, n_heads, masks):
    """What nn.MultiheadAttention computes from `in_proj`, one line an equation."""
    query, key, value = (linear(x, *own) for x, own in zip(inputs, maps))
    query = query.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, H, T, K)
    key = key.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    value = value.unflatten(-1, (n_heads, -1)).transpose(1, 2)
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    for mask in masks:
        scores = scores if mask is None else hide(scores, mask)
    weights = scores.softmax(dim=-1)  # (B, H, T, Tk)
    context = (weights @ value).transpose(1, 2).flatten(2)  # (B, T, D)
    return linear(context, *maps[3])


linear = functional.linear


def hide(scores, mask):
    boolean = mask.dtype == torch.bool
    return scores.masked_fill(mask, -math.inf) if boolean else scores + mask


# --- the table -----------------------------------------------------------------------


def table(trace, width=100) -> str:
    """Lay a trace out for a terminal: each line of the reader, below it what it ran."""
    sizes = "  ".join(f"{name}={size}" for name, size in trace.sizes.items())
    lines = [f"{trace.module}: {count(trace.rows)}, {trace.path}"]
    lines += [line for line in (sizes, trace.naming) if line] + [""]
    for rows, repeats in blocks(trace.rows):
        for _, group in itertools.groupby(rows, lambda row: (row.file, row.line)):
            lines += line_of_reader(list(group), width)
        if repeats:
            lines.append(f"  ... and the same {count(rows)} in {repeats}")
    if trace.error is not None:
        last, kind = trace.rows[-1], type(trace.error).__name__
        lines += ["", f"{last.op} raised {kind}: {first_line(trace.error)}"]
        lines += [f"  {text}" for text in (last.mismatch,) if text]
        lines += [f"  likely cause: {last.cause}"]
    return "\n".join(lines)


def count(rows) -> str:
    return f"{len(rows)} operation{'s' * (len(rows) != 1)}"


def line_of_reader(rows, width) -> list[str]:
    first = rows[0]
    place = (
        f"{os.path.basename(first.file)}:{first.line}" if first.place else "(unseen)"
    )
    module = first.module + ", recomputed" * first.note.startswith("recomputed")
    module = f"  [{module.lstrip(', ')}]" if module else ""
    code = shorten(first.code, width - len(place) - len(module) - 2)
    lines = [f"{place}  {code}{module}"]
    for row in rows:
        op, shapes = "  " * row.depth + row.op, shapes_text(row)
        more = row.event["text"] if row.event else row.part if row.depth else row.note
        room = width - 20 - max(len(shapes), 36)
        lines.append(f"    {op:<14}  {shapes:<36}  {shorten(more, room)}".rstrip())
    return lines


def shapes_text(row) -> str:
    inputs = [str(shape) for shape in row.inputs[:3]] + ["..."] * (len(row.inputs) > 3)
    outputs = [str(shape) for shape in row.outputs[:3]] + ["..."] * (
        len(row.outputs) > 3
    )
    return f"{' '.join(inputs)} -> {' '.join(outputs) or 'raised'}"


def shorten(text, width) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def blocks(rows):
    """Yield (rows, names of blocks that repeat them): layers.1 runs like layers.0."""
    kept = []  # [rows, signature, names of repeats]
    for name, group in itertools.groupby(rows, lambda row: numbered(row.module)):
        group = list(group)
        steps = [(row.op, row.file, row.line, *map(str, row.inputs)) for row in group]
        if kept and name and kept[-1][1] == steps and group[-1].error is None:
            kept[-1][2].append(name)
        else:
            kept.append((group, steps if name else None, []))
    for group, _, names in kept:
        yield group, " to ".join(dict.fromkeys((*names[:1], *names[-1:])))


def numbered(path) -> str:
    found = re.match(r"(.*?\.)?\d+(?=\.|$)|.*?\[\d+\]", path)
    return found.group() if found else ""


# --- the command ---------------------------------------------------------------------


def main(arguments=None) -> int:
    """Print the trace of a reader's own module: 0 it ran, 1 it raised, 2 no module."""
    parser = argparse.ArgumentParser(
        description="Trace the module that a function of a file builds."
    )
    parser.add_argument("target", help="path/to/file.py:build")
    parser.add_argument("--inside", action="store_true", help="off torch's fast path")
    options = parser.parse_args(arguments)
    try:
        module, inputs, kwargs = built(options.target)
    except Exception as error:  # whatever the reader's file raises
        print(f"tracer: {type(error).__name__}: {first_line(error)}", file=sys.stderr)
        return 2
    recorded = trace(module, *inputs, inside=options.inside, **kwargs)
    print(recorded)
    return 1 if recorded.error is not None else 0


def built(target) -> tuple:
    """Call `build` of a file, which returns (module, inputs) or (.., .., kwargs)."""
    path, name = re.fullmatch(r"(.*?)(?::(\w+))?", target).groups("build")
    build = getattr(loaded(path), name, None)
    if not callable(build):
        raise ValueError(f"{path} has no function {name!r}")
    parts = build()
    wanted = isinstance(parts, tuple) and len(parts) in (2, 3) and callable(parts[0])
    if not wanted or not isinstance(parts[1], (tuple, list)):
        raise ValueError(f"{name}() must return (module, (inputs, ...)[, kwargs])")
    return parts[0], tuple(parts[1]), dict(*parts[2:])


def loaded(path):
    """Import a file by its path; its folder comes first where it imports others."""
    if not Path(path).is_file() or not path.endswith(".py"):
        raise ValueError(f"wanted path/to/file.py:build, found no such file: {path!r}")
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    file = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(file)
    return file


if __name__ == "__main__":
    sys.exit(main())
