"""Find the names of axes by experiment.

A name is a hypothesis. A stand-in of the module is made in which D, H, K and F have
other sizes, and its inputs are made again with another B and T: distinct primes,
doubled where the size was even, for encoders often need even sizes. If the same lines
run twice in that way, the axis of size 4, then 10, then 14 is H in all three runs: the
simplest product of names that fits every run is the name. The module itself is never
run again; a stand-in has parameters and buffers of its own.

An axis reads "B", "B*H", "3*D", "K/2", "T+1", "3" (a size that never varied), or "12?"
(a size that several names fit equally well, or none).
"""

import contextlib
import copy
import functools
import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from ..untouched import left_untouched

# Two sets of distinct primes. T stays small, for a table of positions may be short.
PRIMES = {"B": (7, 3), "T": (3, 5), "Tk": (2, 11), "D": (5, 7), "H": (5, 7)}
PRIMES |= {"K": (11, 13), "F": (13, 17), "V": (17, 19)}
SPARE_PRIMES = (29, 31), (37, 41), (43, 47), (53, 59), (61, 67)

# What varies, in the order tried: less and less, until the same lines run. "*" stands
# for the names that the reader gave.
VARIED = ["B T Tk D H K F V *", "B T Tk D K F V *", "B D H K F V", "T Tk D H K F V"]
VARIED += ["B T Tk", "D H K F V", "B", "T Tk"]

ALIASES = {  # attributes that say a size, most telling first
    "D": "d_model embed_dim hidden_size n_embd emb_dim model_dim",
    "H": "n_heads num_heads nhead num_attention_heads n_head nheads heads n_h h",
    "K": "d_head head_dim d_k dim_head attention_head_size head_size qk_head_dim",
    "F": "d_ff dim_feedforward ffn_dim intermediate_size d_hid mlp_dim d_hidden",
    "V": "vocab_size n_vocab",
}
RARE = "K", "H", "T", "Tk"  # names that weights do not have unless there is need
NAME_OF = {alias: name for name, text in ALIASES.items() for alias in text.split()}

FIRST_FORMS = {1: ["T"], 2: ["B", "T"], 3: ["B", "T", "D"], 4: ["B", "H", "T", "K"]}
# How further inputs are read, by rank, once the first has said what B and T are.
FORMS = {
    1: "B T",
    2: "B,T T,T T,Tk B,Tk T,D B,D",
    3: "B,T,D B,Tk,D T,B,D Tk,B,D B,T,T B,T,Tk B*H,T,T B*H,T,Tk B,1,T 1,T,D",
    4: "B,H,T,K B,H,Tk,K B,H,T,T B,1,T,T B,1,1,T B,H,T,Tk B,1,T,Tk B,1,1,Tk 1,1,T,T",
}


@dataclass
class Subject:
    """What was called and how, without its activations: enough to call a stand-in."""

    call: Callable
    root: nn.Module | None
    inputs: tuple | None  # args and kwargs, their tensors empty; None if not copyable
    record: Callable  # record(call, *args, **kwargs) returns the rows that ran
    rows: list
    given: dict[str, int]
    strangers: list = field(default_factory=list)  # modules that ran but are not held
    generators: list = field(default_factory=list)

    def __post_init__(self):
        self.modules = [] if self.root is None else [m for _, m in held(self.root)]
        self.modes = [module.training for module in self.modules]
        self.grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        tensors = list(tensors_in([vars(module) for module in self.modules]))
        self.device = "meta" if any(t.is_meta for t in tensors) else "cpu"


def find_names(subject) -> dict:
    """Set `.names` of every shape, `.change` of every row; return what is to be told.

    The dict has `sizes` (name -> size in the traced call), `relations` ("D": "H*K") and
    `naming`, a sentence that says how the names were found.
    """
    sizes = known_sizes(subject)
    tensors = list({id(t): t for t in tensors_in(subject.inputs)}.values())
    readings = read_inputs(subject, tensors, sizes)
    found = experiment(subject, tensors, sizes, readings) or [([], [sizes])]
    namings = [name_rows(subject.rows, runs, tables) for runs, tables in found]
    for same in zip(*namings, strict=True):
        shape, names = same[0][0], zip(*(axes for _, axes in same), strict=True)
        shape.names = tuple(
            agreed(n, set(own)) for n, own in zip(shape, names, strict=True)
        )
    for row, *others in zip(subject.rows, *found[0][0], strict=True):
        row.change = change_of(row, others)
    return summary(subject, found[0][1])


def agreed(number, names) -> str:
    return names.pop() if len(names) == 1 else f"{number}?"


def summary(subject, tables) -> dict:
    shapes = [shape for row in subject.rows for shape in row.inputs + row.outputs]
    text = " ".join(axis for shape in shapes for axis in shape.names)
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    sizes, *others = tables
    relations = {}
    if "D" in sizes and sizes["D"] == sizes.get("H", 0) * sizes.get("K", 0):
        relations, words = {"D": "H*K"}, words | set("DHK")
    order = sorted(sizes, key=[*PRIMES, *sizes].index)
    used = {name: sizes[name] for name in order if name in words}
    naming = "names by equal numbers only: no stand-in of other sizes could be run"
    if subject.strangers:
        naming = "names by equal numbers only: it calls modules that it does not hold"
    if others and used:
        texts = [" ".join(f"{name}={new[name]}" for name in used) for new in others]
        naming = "names fit this run and two others: " + "; ".join(texts)
    return {"sizes": used, "relations": relations, "naming": naming}


# --- sizes, and how the inputs are to be read ----------------------------------------


def known_sizes(subject) -> dict[str, int]:
    """Collect sizes by name: those given, then what the modules themselves say."""
    modules, sizes = subject.modules + subject.strangers, dict(subject.given)
    holders = [part for m in modules for part in (m, vars(m).get("config"))]
    for alias, name in NAME_OF.items():
        for holder in holders:
            size = getattr(holder, "__dict__", {}).get(alias)
            if type(size) is int and size > 0:
                sizes.setdefault(name, size)
    read_layers(modules, sizes)
    return sizes


def read_layers(modules, sizes):
    """Read D from LayerNorm, V and D from Embedding, F from a pair of Linear maps."""
    for module in modules:
        if isinstance(module, nn.LayerNorm):
            sizes.setdefault("D", module.normalized_shape[-1])
    tables = [module for module in modules if isinstance(module, nn.Embedding)]
    if tables:
        sizes.setdefault("V", max(table.num_embeddings for table in tables))
        sizes.setdefault("D", tables[0].embedding_dim)
    maps = linear_maps(modules)
    for n_out, n_in in maps:
        if n_in == sizes.get("D") != n_out and (n_in, n_out) in maps:
            sizes.setdefault("F", n_out)
    for name in "FV":  # equal numbers cannot be told apart: the first name is shown
        if name in sizes and sizes[name] == sizes.get("D"):
            del sizes[name]


def linear_maps(modules) -> list[tuple[int, int]]:
    maps = [module for module in modules if isinstance(module, nn.Linear)]
    return [(linear.out_features, linear.in_features) for linear in maps]


def read_inputs(subject, tensors, sizes) -> list[tuple]:
    """Say which axis of which input is what: up to four readings, likeliest first.

    A reading has a list of axes, like ["B", "T", "3"], for each tensor. Sizes that the
    inputs tell are added to `sizes`.
    """
    if not tensors:
        complete_heads(sizes)
        return [()]
    first, *others = tensors
    if first.dim() == 3 and first.is_floating_point():
        sizes.setdefault("D", model_width(first.shape[2], subject.modules))
    image = any(isinstance(module, nn.Conv2d) for module in subject.modules)
    forms = first_form(first, sizes, image)
    if time_first(subject, tensors):
        forms[:2] = forms[1::-1]
    known = {size: name for name, size in subject.given.items()}
    first_axes = [
        known.get(n) or settle(name, n, sizes)
        for name, n in zip(forms, first.shape, strict=True)
    ]
    complete_heads(sizes)
    for other in others:
        if other.is_floating_point() and other.dim() == first.dim() > 2:
            settle_second(first_axes, first.shape, other.shape, sizes)
    choices = [[first_axes], *(further_forms(other.shape, sizes) for other in others)]
    return list(itertools.islice(itertools.product(*choices), 4))


def model_width(n, modules) -> int:
    """Return the features of the input, or those of the Linear that lifts it to D."""
    maps = linear_maps(modules)
    inner = {n_in for n_out, n_in in maps if n_out in (n_in, 3 * n_in)}
    lifted = [n_out for n_out, n_in in maps if n_in == n and n_out in inner]
    return lifted[0] if lifted and n not in inner else n


def complete_heads(sizes):
    for known, wanted in ("HK", "KH"):
        if {"D", known} <= sizes.keys() and sizes["D"] % sizes[known] == 0:
            sizes.setdefault(wanted, sizes["D"] // sizes[known])


def first_form(tensor, sizes, image) -> list[str]:
    if tensor.dim() == 2 and tensor.is_floating_point():
        return ["T", "D"] if tensor.shape[1] == sizes.get("D") else ["B", "1"]
    heads = tensor.dim() == 4 and not image
    fits = heads and tensor.shape[1] == sizes.get("H", tensor.shape[1])
    forms = FIRST_FORMS[tensor.dim()] if tensor.dim() in (1, 2, 3) or fits else ["B"]
    return (forms + ["1"] * tensor.dim())[: tensor.dim()]


def time_first(subject, tensors) -> bool:
    """Tell (T, B, D) from (B, T, D): torch's own default, or a mask the other way."""
    if type(subject.root).__module__.startswith("torch."):
        return any(getattr(m, "batch_first", None) is False for m in subject.modules)
    turned = tensors[0].shape[1::-1]
    masks = [t for t in tensors[1:] if t.dim() == 2 and t.dtype == torch.bool]
    return len(set(turned)) == 2 and any(mask.shape == turned for mask in masks)


def settle(name, n, sizes) -> str:
    """Let a free name stand for n; where it is taken, write n as it can be written."""
    free = name.isidentifier() and sizes.setdefault(name, n) == n
    return name if free else written(n, sizes, ("D", "F", "V"))


def settle_second(axes, shape, other, sizes):
    """Call Tk the length of a second sequence, which differs where the first has T."""
    for name, n, size in zip(axes, shape, other, strict=True):
        if name == "T" and size != n:
            sizes.setdefault("Tk", size)


def further_forms(shape, sizes) -> list[list[str]]:
    if 0 in shape or not shape:
        return [[str(n) for n in shape]]
    forms = [form.split(",") for form in FORMS.get(len(shape), "").split()]
    fits = [
        form
        for form in forms
        if all(value(axis, sizes) == n for axis, n in zip(form, shape, strict=True))
    ]
    return fits or [[written(n, sizes, ("B", "T", "Tk", "D", "F", "V")) for n in shape]]


def written(n, sizes, names) -> str:
    """Write a number as a name, as H*K or as a small multiple of D, or as it is."""
    longer = ("T+1", "T*D") if "T" in names else ()
    texts = *names, "H*K", "2*D", "3*D", "4*D", *longer
    return next((text for text in texts if n > 1 and value(text, sizes) == n), str(n))


def value(text, sizes) -> int | None:
    """Work out an axis like "3*D" or "T+1"; None where a name has no size."""
    product, _, more = text.partition("+")
    factors = [
        int(f) if f.lstrip("-").isdigit() else sizes.get(f) for f in product.split("*")
    ]
    return None if None in factors else math.prod(factors) + int(more or 0)


# --- the experiment ------------------------------------------------------------------


def experiment(subject, tensors, sizes, readings) -> list[tuple]:
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


def resized(sizes, varied, k) -> dict[str, int]:
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


def repeat(subject, tensors, reading, sizes, new, names) -> list | None:
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
        args, kwargs = copy.deepcopy(subject.inputs, memo)
        rows = subject.record(call, *args, **kwargs)
        return rows if steps(rows) == steps(subject.rows) else None


def steps(rows) -> list[tuple]:
    return [
        (row.op, row.line, [len(s) for s in row.inputs], [len(s) for s in row.outputs])
        for row in rows
    ]


def stand_in(subject, sizes, new, names) -> Callable:
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


def resize(tensor, shape, device) -> Tensor:
    """Make a tensor of another shape: a corner of the old values where there is one."""
    corner = all(new <= old for new, old in zip(shape, tensor.shape, strict=True))
    if corner and not tensor.is_meta and not isinstance(tensor, nn.Parameter):
        return tensor.detach()[tuple(slice(n) for n in shape)].clone().to(device)
    fill = 0.01 if tensor.is_floating_point() else tensor.dtype != torch.bool
    filled = torch.full((), fill, dtype=tensor.dtype, device=device).expand(shape)
    if isinstance(tensor, nn.Parameter):  # one number, seen through: needs no memory
        return nn.Parameter(filled, requires_grad=tensor.requires_grad)
    return filled.clone().requires_grad_(tensor.requires_grad)


def resize_numbers(attributes, sizes, new, names):
    for attribute, n in list(attributes.items()):
        if isinstance(n, tuple) and n and all(type(item) is int for item in n):
            attributes[attribute] = tuple(
                value(written(i, sizes, names), new) for i in n
            )
        elif type(n) is int and n > 1:
            known = NAME_OF.get(attribute)
            counts = attribute.startswith(("n_", "num_"))  # of layers, of classes
            usual = [name for name in names if name not in RARE]
            text = str(n) if counts else written(n, sizes, usual)
            attributes[attribute] = value(known if sizes.get(known) == n else text, new)


@contextlib.contextmanager
def modes_of(subject):
    """Run in the grad and inference mode of the traced call."""
    grad, inference = subject.grad
    with torch.inference_mode(inference), torch.set_grad_enabled(grad):
        yield


# --- numbers to names ----------------------------------------------------------------


def name_rows(rows, runs, tables) -> list[tuple]:
    """Pair each shape of the rows with the names of its axes."""
    vectors = {name: tuple(sizes[name] for sizes in tables) for name in tables[0]}
    name, named = namer(vectors), []
    for same in zip(rows, *runs, strict=True):
        for shapes in zip(*(row.inputs + row.outputs for row in same), strict=True):
            axes = tuple(name(numbers) for numbers in zip(*shapes, strict=True))
            named.append((shapes[0], axes))
    return named


def namer(vectors) -> Callable:
    """Return a function from an axis' sizes, one a run, to the simplest name."""
    n_runs = len(next(iter(vectors.values()), ()))
    longest = 3 if n_runs > 1 else 1
    groups = [
        group
        for length in range(longest + 1)
        for group in itertools.combinations_with_replacement(vectors, length)
    ]
    products = [
        (group, [math.prod(vectors[name][k] for name in group) for k in range(n_runs)])
        for group in groups
    ]

    @functools.cache
    def name(numbers) -> str:
        fits = [fit for group in products for fit in fitting(numbers, *group)]
        cost = min((cost for cost, _ in fits), default=0)
        best = [text for c, text in fits if c == cost]
        return best[0] if len(best) == 1 else f"{numbers[0]}?"

    return name


def fitting(numbers, group, products):
    """Yield (cost, text) for each way in which a product of names gives the numbers."""
    fixed = len(set(numbers)) == 1
    if not group:
        if fixed:
            yield 1.5, str(numbers[0])  # dearer than a name, cheaper than a product
        return
    for more in (0, 1, -1) if len(numbers) > 1 else (0,):
        pairs = [(n - more, p) for n, p in zip(numbers, products, strict=True)]
        (n, p), text = pairs[0], "*".join(group)
        if n < 1 or any(n * other != p * number for number, other in pairs):
            continue
        if n % p and p % n or more and p > n or len(numbers) == 1 and n != p:
            continue
        text = text if n == p else f"{n // p}*{text}" if n > p else f"{text}/{p // n}"
        yield (
            len(group) + (n != p) + 2 * abs(more),
            text + (f"{more:+d}" if more else ""),
        )


# --- what happens to axes ------------------------------------------------------------

RESHAPES = {"view", "reshape", "unflatten", "flatten", "view_as", "reshape_as"}


def change_of(row, others) -> dict | None:
    """Say what the row does to its axes: split, merge, regroup, move, cut, join."""
    if row.output is None or not row.inputs:
        return None
    before, after = (
        [same.inputs[0] for same in (row, *others)],
        [same.output for same in (row, *others)],
    )
    names, new = list(row.inputs[0].names), list(row.output.names)
    if row.op in RESHAPES:
        return reshape_event(
            names, list(zip(*before, strict=True)), new, list(zip(*after, strict=True))
        )
    if row.op in ("softmax", "log_softmax") and row.detail is not None:
        text = f"sums to 1 along axis {row.detail}, {names[row.detail]}"
        return {"kind": "normalise", "axis": row.detail, "text": text}
    if isinstance(row.detail, list) and row.detail != sorted(row.detail):
        return {
            "kind": "move",
            "order": row.detail,
            "text": move_text(names, row.detail),
        }
    return piece_event(row, names, new)


def move_text(names, order) -> str:
    moved = [i for i, source in enumerate(order) if i != source]
    if len(moved) == 2:
        return f"swap {names[moved[0]]} and {names[moved[1]]}"
    return f"reorder to ({', '.join(names[i] for i in order)})"


def piece_event(row, names, new) -> dict | None:
    """Describe cat and stack, which join, and chunk, split and unbind, which cut."""
    if row.op in ("cat", "concat", "stack"):
        axis = "a new axis"
        if row.op != "stack":
            changed = (b for a, b in zip(names, new, strict=True) if a != b)
            axis = next(changed, new[-1] if new else "")
        text = f"join {len(row.inputs)} pieces along {axis}"
        return {"kind": "join", "from": names, "into": new, "text": text}
    if row.op in ("chunk", "split", "unbind", "tensor_split"):
        text = f"cut ({', '.join(names)}) into {len(row.outputs)} pieces"
        return {"kind": "cut", "from": names, "into": new, "text": text}
    return None


def reshape_event(names, before, new, after) -> dict | None:
    """Match the axes before and after from the left, by equal products in every run."""
    old = [pair for pair in zip(names, before, strict=True) if set(pair[1]) != {1}]
    out = [pair for pair in zip(new, after, strict=True) if set(pair[1]) != {1}]
    groups = []
    while old and out:
        left, right = [old.pop(0)], [out.pop(0)]
        while product(left) != product(right) and (old or out):
            grow = (
                left if old and (product(left) < product(right) or not out) else right
            )
            grow.append((old if grow is left else out).pop(0))
        groups.append(([name for name, _ in left], [name for name, _ in right]))
    changed = [group for group in groups if len(group[0]) + len(group[1]) > 2]
    if not changed:
        return None
    kinds = {(1, 0): "merge", (0, 1): "split", (1, 1): "regroup"}
    texts = []
    for left, right in changed:
        kind = kinds[len(left) > 1, len(right) > 1]
        texts.append(reshape_text(kind, " x ".join(left), " x ".join(right)))
    left, right = changed[0]
    kind = kinds[len(left) > 1, len(right) > 1]
    return {"kind": kind, "from": left, "into": right, "text": "; ".join(texts)}


def reshape_text(kind, left, right) -> str:
    if kind == "regroup":
        return f"regroup {left} as {right}: cuts across axes"
    return f"{kind} {left} into {right}"


def product(axes) -> tuple[int, ...]:
    return tuple(
        math.prod(sizes) for sizes in zip(*(sizes for _, sizes in axes), strict=True)
    )
