"""What a call says about its sizes before any experiment: letters, and their sizes.

Where there is attention, letters come outwards from it (`attention_axes.py`). Where
there is none, the form of the first input and the attributes of the modules tell.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from .attention_axes import find_letters, letters_around
from .axis_flow import AxisGroups, Node, nodes, size
from .axis_texts import Sizes, is_multiple, texts_of_groups, written
from .rows import Row, Shape

ALIASES = {  # attributes that say a size, most telling first
    "D": "d_model embed_dim hidden_size n_embd emb_dim model_dim",
    "H": "n_heads num_heads nhead num_attention_heads n_head nheads heads n_h h",
    "K": "d_head head_dim d_k dim_head attention_head_size head_size qk_head_dim d_kv",
    "F": "d_ff dim_feedforward ffn_dim intermediate_size d_hid mlp_dim d_hidden",
    "V": "vocab_size n_vocab",
}
RARE = "K", "H", "T", "Tk"  # names that attributes do not have unless there is need
NAME_OF = {alias: name for name, text in ALIASES.items() for alias in text.split()}
CONFIGS = "config", "cfg", "args"

FIRST_FORMS = {1: ["T"], 2: ["B", "T"], 3: ["B", "T", "D"], 4: ["B", "H", "T", "K"]}


@dataclass
class Subject:
    """What was called and how, without its activations: enough to call a stand-in."""

    call: Callable
    root: nn.Module | None
    inputs: tuple | None  # args and kwargs, their tensors empty; None if not copyable
    record: Callable[..., list[Row]]  # it calls, and returns the rows that ran
    rows: list[Row]
    shapes_of: Callable[[object], list[Shape]]  # with the numbers that rows know
    arrays: list[Shape]  # the shapes of the input tensors, each tensor once
    values: list[Tensor]  # copies of the input tensors
    dice: list[Callable[[], object]]  # these put back the random numbers it began with
    given: Sizes = field(default_factory=dict)  # names that the reader gave
    # Modules that ran but are not held, and generators that gave random numbers.
    strangers: list[nn.Module] = field(default_factory=list)
    generators: list[torch.Generator] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.modules = [] if self.root is None else [m for _, m in held(self.root)]
        self.modes = [module.training for module in self.modules]
        self.grad = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        tensors = list(tensors_in([vars(module) for module in self.modules]))
        self.device = "meta" if any(t.is_meta for t in tensors) else "cpu"


class Axes:
    """The axes of a call: letters with their nodes and sizes, and what follows."""

    def __init__(self, subject: Subject):
        self.rows = [row for row in subject.rows if row.outputs]
        self.groups = AxisGroups(self.rows)
        self.given = {shape.number for shape in subject.arrays}
        self.letters = find_letters(self.rows, self.groups, self.given)
        self.by_attention = bool(self.letters)
        self.inputs = [nodes(shape) for shape in subject.arrays]
        self.sizes: Sizes = {}
        if self.by_attention:
            self.name_samples()
        else:
            read_forms(subject, self)
        self.rename(subject.given)
        self.sizes |= {name: size(node) for name, node in self.letters.items()}
        read_attributes(subject, self.sizes)
        for name in set("FV") - self.letters.keys() & self.sizes.keys():
            if self.by_attention or self.sizes.get(name) == self.sizes.get("D"):
                self.sizes.pop(name, None)  # no axis has it, or it cannot be told apart
        self.texts = texts_of_groups(self.groups, self.letters)
        if not self.is_input("T"):
            # T = 24 patches are made of the 48 columns of an image: those are not 2*T.
            texts = self.texts.items()
            self.texts = {n: text for n, text in texts if not is_multiple(text, "T")}

    def name_samples(self) -> None:
        """Call B the first axis of the first input, or the second if T is first."""
        known = {self.groups.leader(node) for node in self.letters.values()}
        for node in [node for axes in self.inputs[:1] for node in axes[:2]]:
            if self.groups.leader(node) not in known:
                self.letters["B"] = node
                return

    def rename(self, given: Sizes) -> None:
        """Let the reader's own names stand for the axes that have their sizes."""
        for name, n in given.items():
            fits = [k for k, node in self.letters.items() if size(node) == n]
            if name in self.letters and name not in fits:
                del self.letters[name]
            axes = [
                node for axes in self.inputs[:1] for node in axes if size(node) == n
            ]
            if fits and name not in fits:
                self.letters[name] = self.letters.pop(fits[0])
            elif axes and not fits:
                self.letters[name] = axes[0]
            self.sizes[name] = n

    def text(self, node: Node) -> str:
        """Write an axis by the group that it is in; "" if no letter is tied to that."""
        return self.texts.get(self.groups.leader(node), "")

    def is_input(self, name: str) -> bool:
        """Say whether a letter is an axis of an input, or known by its number only."""
        texts = [self.text(node) for axes in self.inputs for node in axes]
        return name not in self.letters or name in texts

    def reading(self, by_number: bool) -> list[list[str]]:
        """Write each axis of each input."""
        read = []
        for k, axes in enumerate(self.inputs):
            names = ("B", "T", "Tk", "D") if k and by_number else ()
            pair = list(map(size, axes)) == [self.sizes.get(x) for x in "BT"]
            forms = ["B", "T"] if pair and k else [""] * len(axes)
            read.append(
                [
                    self.text(node) or form or written(size(node), self.sizes, names)
                    for node, form in zip(axes, forms, strict=True)
                ]
            )
        return read


def read_forms(subject: Subject, axes: Axes) -> None:
    """Name the axes of the first input by their places, where there is no attention."""
    if not subject.arrays:
        return
    first, modules = subject.arrays[0], subject.modules + subject.strangers
    sizes: Sizes = {}
    read_attributes(subject, sizes)
    read_layers(modules, sizes)
    if len(first) == 3 and first.dtype.is_floating_point:
        sizes.setdefault("D", input_width(first[2], subject.modules))
    forms = first_form(first, sizes, any(isinstance(m, nn.Conv2d) for m in modules))
    if time_first(subject):
        forms[:2] = forms[1::-1]
    for name, node in zip(forms, axes.inputs[0], strict=True):
        if name.isidentifier() and sizes.get(name, size(node)) == size(node):
            axes.letters.setdefault(name, node)
    stream = axes.letters.get("D") or stream_of(axes.rows, sizes.get("D"))
    if stream is not None:
        axes.letters["D"] = stream
        for row in axes.rows:  # a map to as many features gives the same D
            if row.op == "linear":
                axes.groups.join(stream, nodes(row.outputs[0])[-1])
        around = letters_around(stream, axes.rows, axes.groups, axes.given)
        axes.letters |= {k: v for k, v in around.items() if k not in axes.letters}
    axes.sizes |= sizes


def stream_of(rows: Iterable[Row], n: int | None) -> Node | None:
    """Return where an axis of size D first leaves a map, a norm or a table."""
    for row in rows:
        if row.op in ("linear", "layer_norm", "embedding") and row.outputs[0][-1] == n:
            return nodes(row.outputs[0])[-1]
    return None


def read_attributes(subject: Subject, sizes: Sizes) -> None:
    """Add sizes that attributes of the modules or of their configs say."""
    modules = subject.modules + subject.strangers
    holders = [p for m in modules for p in (m, *(vars(m).get(c) for c in CONFIGS))]
    for alias, name in NAME_OF.items():
        for holder in holders:
            n = getattr(holder, "__dict__", {}).get(alias)
            if type(n) is int and n > 0:
                sizes.setdefault(name, n)
    for known, wanted in ("HK", "KH"):
        if {"D", known} <= sizes.keys() and sizes["D"] % sizes[known] == 0:
            sizes.setdefault(wanted, sizes["D"] // sizes[known])


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


def linear_maps(modules: Iterable[nn.Module]) -> list[tuple[int, int]]:
    maps = [module for module in modules if isinstance(module, nn.Linear)]
    return [(linear.out_features, linear.in_features) for linear in maps]


def input_width(n: int, modules: Iterable[nn.Module]) -> int:
    """Return the features of the input, or those of the Linear that lifts it to D."""
    maps = linear_maps(modules)
    inner = {n_in for n_out, n_in in maps if n_out in (n_in, 3 * n_in)}
    lifted = [n_out for n_out, n_in in maps if n_in == n and n_out in inner]
    return lifted[0] if lifted and n not in inner else n


def first_form(first: Shape, sizes: Sizes, image: bool) -> list[str]:
    rank = len(first)
    if rank == 2 and first.dtype.is_floating_point:
        return ["T", "D"] if first[1] == sizes.get("D") else ["B", "1"]
    fits = rank == 4 and not image and first[1] == sizes.get("H", first[1])
    forms = FIRST_FORMS[rank] if rank in (1, 2, 3) or fits else ["B"]
    return (forms + ["1"] * rank)[:rank]


def time_first(subject: Subject) -> bool:
    """Tell (T, B, D) from (B, T, D): torch's own default, or a mask the other way."""
    if type(subject.root).__module__.startswith("torch."):
        return any(getattr(m, "batch_first", None) is False for m in subject.modules)
    turned = subject.arrays[0][1::-1]
    masks = [x for x in subject.arrays[1:] if len(x) == 2 and x.dtype == torch.bool]
    return len(set(turned)) == 2 and any(mask == turned for mask in masks)
