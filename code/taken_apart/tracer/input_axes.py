"""What the inputs and the modules of a call say about its sizes, before any experiment.

An axis is written "B", "B*H", "3*D", "T+1" or "3". A reading says so for each axis of
each input: ["B", "T", "D"].
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from .rows import Row

Sizes = dict[str, int]  # name -> size
Reading = tuple[list[str], ...]

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
    record: Callable[..., list[Row]]  # it calls, and returns the rows that ran
    rows: list[Row]
    given: Sizes
    # Modules that ran but are not held, and generators that gave random numbers.
    strangers: list[nn.Module] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.modules = [] if self.root is None else [m for _, m in held(self.root)]
        self.modes = [module.training for module in self.modules]
        self.grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        tensors = list(tensors_in([vars(module) for module in self.modules]))
        self.device = "meta" if any(t.is_meta for t in tensors) else "cpu"


def known_sizes(subject: Subject) -> Sizes:
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


def read_layers(modules: Iterable[nn.Module], sizes: Sizes) -> None:
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


def linear_maps(modules: Iterable[nn.Module]) -> list[tuple[int, int]]:
    maps = [module for module in modules if isinstance(module, nn.Linear)]
    return [(linear.out_features, linear.in_features) for linear in maps]


def read_inputs(
    subject: Subject, tensors: Sequence[Tensor], sizes: Sizes
) -> list[Reading]:
    """Say which axis of which input is what: up to four readings, likeliest first.

    A reading has a list of axes, like ["B", "T", "3"], for each tensor. Sizes that the
    inputs tell are added to `sizes`.
    """
    if not tensors:
        complete_heads(sizes)
        return [()]
    first, *others = tensors
    if first.dim() == 3 and first.is_floating_point():
        sizes.setdefault("D", input_width(first.shape[2], subject.modules))
    image = any(isinstance(module, nn.Conv2d) for module in subject.modules)
    forms = first_form(first, sizes, image)
    if time_first(subject, tensors):
        forms[:2] = forms[1::-1]
    known = {size: name for name, size in subject.given.items()}
    first_axes = [
        known.get(n) or name_or_number(name, n, sizes)
        for name, n in zip(forms, first.shape, strict=True)
    ]
    complete_heads(sizes)
    for other in others:
        if other.is_floating_point() and other.dim() == first.dim() > 2:
            settle_second(first_axes, first.shape, other.shape, sizes)
    choices = [[first_axes], *(further_forms(other.shape, sizes) for other in others)]
    return list(itertools.islice(itertools.product(*choices), 4))


def input_width(n: int, modules: Iterable[nn.Module]) -> int:
    """Return the features of the input, or those of the Linear that lifts it to D."""
    maps = linear_maps(modules)
    inner = {n_in for n_out, n_in in maps if n_out in (n_in, 3 * n_in)}
    lifted = [n_out for n_out, n_in in maps if n_in == n and n_out in inner]
    return lifted[0] if lifted and n not in inner else n


def complete_heads(sizes: Sizes) -> None:
    for known, wanted in ("HK", "KH"):
        if {"D", known} <= sizes.keys() and sizes["D"] % sizes[known] == 0:
            sizes.setdefault(wanted, sizes["D"] // sizes[known])


def first_form(tensor: Tensor, sizes: Sizes, image: bool) -> list[str]:
    if tensor.dim() == 2 and tensor.is_floating_point():
        return ["T", "D"] if tensor.shape[1] == sizes.get("D") else ["B", "1"]
    heads = tensor.dim() == 4 and not image
    fits = heads and tensor.shape[1] == sizes.get("H", tensor.shape[1])
    forms = FIRST_FORMS[tensor.dim()] if tensor.dim() in (1, 2, 3) or fits else ["B"]
    return (forms + ["1"] * tensor.dim())[: tensor.dim()]


def time_first(subject: Subject, tensors: Sequence[Tensor]) -> bool:
    """Tell (T, B, D) from (B, T, D): torch's own default, or a mask the other way."""
    if type(subject.root).__module__.startswith("torch."):
        return any(getattr(m, "batch_first", None) is False for m in subject.modules)
    turned = tensors[0].shape[1::-1]
    masks = [t for t in tensors[1:] if t.dim() == 2 and t.dtype == torch.bool]
    return len(set(turned)) == 2 and any(mask.shape == turned for mask in masks)


def name_or_number(name: str, n: int, sizes: Sizes) -> str:
    """Let a free name stand for n; where it is taken, write n as it can be written."""
    free = name.isidentifier() and sizes.setdefault(name, n) == n
    return name if free else written(n, sizes, ("D", "F", "V"))


def settle_second(
    axes: Sequence[str], shape: Sequence[int], other: Sequence[int], sizes: Sizes
) -> None:
    """Call Tk the length of a second sequence, which differs where the first has T."""
    for name, n, size in zip(axes, shape, other, strict=True):
        if name == "T" and size != n:
            sizes.setdefault("Tk", size)


def further_forms(shape: Sequence[int], sizes: Sizes) -> list[list[str]]:
    if 0 in shape or not shape:
        return [[str(n) for n in shape]]
    forms = [form.split(",") for form in FORMS.get(len(shape), "").split()]
    fits = [
        form
        for form in forms
        if all(is_written(axis, n, sizes) for axis, n in zip(form, shape, strict=True))
    ]
    return fits or [[written(n, sizes, ("B", "T", "Tk", "D", "F", "V")) for n in shape]]


def written(n: int, sizes: Sizes, names: Iterable[str]) -> str:
    """Write a number as a name, as H*K or as a small multiple of D, or as it is."""
    longer = ("T+1", "T*D") if "T" in names else ()
    texts = *names, "H*K", "2*D", "3*D", "4*D", *longer
    fits = (text for text in texts if n > 1 and is_written(text, n, sizes))
    return next(fits, str(n))


def is_written(text: str, n: int, sizes: Sizes) -> bool:
    with contextlib.suppress(KeyError):
        return value(text, sizes) == n
    return False


def value(text: str, sizes: Sizes) -> int:
    """Work out an axis like "3*D" or "T+1"; KeyError where a name has no size."""
    product, _, more = text.partition("+")
    factors = [
        int(f) if f.lstrip("-").isdigit() else sizes[f] for f in product.split("*")
    ]
    return math.prod(factors) + int(more or 0)
