"""What the doctor's probes ask about a module: runs, inputs, padding; for `doctor.py`.

An `Exam` calls the module again and again on variants of the reader's own inputs, each
time from the same random state, and puts everything back.
"""

import contextlib
import copy
import functools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from ..tracer import trace
from ..untouched import left_untouched, reseed
from .evidence.tensor_flow import Flow, attentions, observe

PEN = -1e4  # a score below this hides a key for good


# --- inputs --------------------------------------------------------------------------


@dataclass
class Sequence:
    """The tensor that holds the tokens, and its axes of samples and of tokens."""

    tensor: Tensor
    batch: int | None
    token: int | None

    @property
    def is_ids(self) -> bool:
        return not self.tensor.is_floating_point()

    @property
    def n_samples(self) -> int:
        return 1 if self.batch is None else self.tensor.shape[self.batch]

    @property
    def n_tokens(self) -> int:
        return self.tensor.shape[self.token]


def find_sequence(tensors, channels_first=False) -> Sequence | None:
    """Choose the tokens among the inputs: features (B, T, D), or else ids (B, T)."""
    floats = [t for t in tensors if t.is_floating_point() and not looks_like_mask(t)]
    for tensor in floats:
        if tensor.dim() == 3:
            return Sequence(tensor, 0, 2 if channels_first else 1)
    ids = [
        t for t in tensors if t.dtype in (torch.long, torch.int) and t.dim() in (1, 2)
    ]
    ids = [t for t in ids if not looks_like_mask(t)] or ids
    if ids:
        return (
            Sequence(ids[0], 0, 1) if ids[0].dim() == 2 else Sequence(ids[0], None, 0)
        )
    flat = [t for t in floats if t.dim() == 2]
    return Sequence(flat[0], None, 0) if flat else None


def looks_like_mask(tensor) -> bool:
    """Say whether a tensor holds truth values, 0 and 1, or 0 and numbers like -inf."""
    if tensor.dtype == torch.bool or tensor.is_meta:
        return tensor.dtype == torch.bool
    if tensor.dim() < 2 or tensor.numel() == 0:
        return False
    values = tensor.detach().float().unique()
    return len(values) <= 2 and all(v in (0, 1) or v < PEN / 2 for v in values.tolist())


def padded_keys(mask, sequence) -> Tensor | None:
    """Read (B, T), True = padding, off a mask of any shape and convention, or None.

    Of two readings of 0 and 1 that one is right under which samples start together, at
    the left. A key counts as padding where no query may see it.
    """
    n, t = sequence.n_samples, sequence.n_tokens
    mask = mask.detach()
    additive = mask.is_floating_point() and bool((mask < PEN / 2).any())
    mask = mask < PEN / 2 if additive else mask.bool()
    shape = tuple(mask.shape)
    if shape in ((n, 1, 1, t), (n, 1, t)):
        mask = mask.reshape(n, t)
    elif mask.dim() >= 3 and shape[-2:] == (t, t) and shape[0] % n == 0:
        return padded_of_square(mask.reshape(n, -1, t, t), additive)
    elif mask.dim() == 2 and shape == (t, n) and t != n:
        mask = mask.T
    if tuple(mask.shape) != (n, t):
        return None
    return mask if additive or reads_as_padding(mask, sequence) else ~mask


COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}


def beyond(lengths, n_tokens) -> Tensor:
    """Return (B, T), True where a sample of some length has ended."""
    return torch.arange(n_tokens, device=lengths.device) >= lengths[:, None]


def padded_of_square(mask, additive):
    if not additive and mask.float().mean() > 0.5:
        mask = ~mask
    padded = mask[:, 0].all(dim=1)
    return padded if padded.any() else None


def reads_as_padding(mask, sequence) -> bool:
    """Say whether True marks padding: by its content, or as the tokens start left."""
    x = sequence.tensor
    if sequence.is_ids and mask.any() and tuple(x.shape) == tuple(mask.shape):
        alike = [len(x[side].unique()) == 1 for side in (mask, ~mask)]
        if alike[0] != alike[1]:
            return alike[0]
    if not sequence.is_ids and mask.any() and tuple(x.shape[:2]) == tuple(mask.shape):
        blank = [not x[s].nan_to_num(0).any() for s in (mask, ~mask) if s.any()]
        if len(blank) == 2 and blank[0] != blank[1]:
            return blank[0]
    full = [bool(row[0]) for row in mask.tolist() if len(set(row)) == 1]
    if full and not all(full) and any(full):
        return not mask[:, 0].float().mean() > 0.5
    return float(mask[:, 0].float().mean()) <= 0.5


def padding_of_ids(ids, pad_ids) -> Tensor | None:
    """Return where ids are padding: a known pad id, or one id that ends the samples."""
    for pad in pad_ids:
        if (ids == pad).any():
            return ids == pad
    last = ids[:, -1]
    if len(ids.unique()) < 4:
        return None
    for pad in last.unique().tolist():
        padded = (ids == pad).flip(1).cumprod(1).flip(1).bool()
        inside = ((ids == pad) & ~padded).any()
        if padded.sum() >= 2 and not padded[:, 0].all() and pad == 0 and not inside:
            return padded
    return None


# --- findings ------------------------------------------------------------------------

CHAPTERS = {
    "head split/merge": "03_multi_head",
    "projections": "03_multi_head",
    "batch/sequence layout": "07_encoder",
    "mask meaning": "06_masks",
    "mask axis/shape": "06_masks",
    "nan / precision": "06_masks",
    "softmax / scale": "02_attention",
    "positional encoding": "01_inputs",
    "norm / residual / FFN": "05_layer_norm",
    "registration / sharing": "07_encoder",
    "train/eval and fast path": "08_training",
    "attention weights": "02_attention",
    "loss and training": "08_training",
    "dtype / compile": "06_masks",
    "notebook / display": "09_pitfalls",
}
SEVERITIES = "fault", "warning", "note"


@dataclass(frozen=True)
class Finding:
    """One thing found: what, how surely, measured how, where, and the smallest cure."""

    kind: str
    severity: str
    title: str
    evidence: str
    where: str = ""
    fix: str = ""

    def __post_init__(self):
        if self.kind not in CHAPTERS or self.severity not in SEVERITIES:
            raise ValueError(f"no such kind or severity: {self.kind}, {self.severity}")

    @property
    def chapter(self) -> str:
        return CHAPTERS[self.kind]


# --- the exam ------------------------------------------------------------------------


class Exam:
    """A module, the reader's inputs, and all that has been found out so far."""

    def __init__(self, module, args, kwargs, quick=False):
        self.call, self.args, self.kwargs, self.quick = module, args, kwargs, quick
        bare = isinstance(module, nn.Module)  # its getattr may do anything
        root = module if bare else getattr(module, "__self__", module)
        self.root = root if isinstance(root, nn.Module) else None
        self.modules = [] if self.root is None else list(held(self.root))
        self.tensors = list({id(t): t for t in tensors_in((args, kwargs))}.values())
        self.findings, self.skipped, self.checked = [], [], []
        self.forwards, self.warned, self.printed, self.known = 0, [], "", {}
        self.modes = [(m, m.training) for _, m in self.modules]

    def has(self, *kinds, severity="fault") -> bool:
        """Say whether a finding of these kinds stands already: its echoes can rest."""
        return any(f.kind in kinds and f.severity == severity for f in self.findings)

    def skip(self, what, why):
        self.skipped.append((what, why))

    @property
    def on_meta(self) -> bool:
        held_tensors = tensors_in([vars(module) for _, module in self.modules])
        return any(t.is_meta for t in [*self.tensors, *held_tensors])

    @functools.cached_property
    def failure(self):
        """The trace of the call that raised: what did not fit, and the likely cause."""
        args, kwargs = self.inputs()
        with self.quiet():
            traced = trace(self.call, *args, **kwargs)
            return traced.rows and traced.rows[-1]

    # Runs

    def inputs(self, swap=None):
        """Copy the inputs, with other tensors in place of some: {old: new}."""
        memo = {id(t): t.detach().clone() for t in self.tensors}
        memo |= {id(old): new for old, new in (swap or {}).items()}
        try:
            return copy.deepcopy((self.args, self.kwargs), memo)
        except Exception:
            return replaced(self.args, memo), replaced(self.kwargs, memo)

    def run(self, swap=None, *, grad=False, train=False, seed=0, how=None, whole=False):
        """Call the module: its floating outputs, or None if it raised; see `inputs`.

        `how(call, *args, **kwargs)` does it instead; `whole` returns all of its result.
        """
        args, kwargs = self.inputs(swap)
        self.forwards += 1
        how = how or (lambda call, *a, **k: call(*a, **k))
        with self.quiet(self.root):
            set_modes(self.modes, train)
            reseed(seed)
            with torch.set_grad_enabled(grad):
                try:
                    result = how(self.call, *args, **kwargs)
                except (Exception, SystemExit):
                    return None
        return result if whole else floats(result)

    @contextlib.contextmanager
    def quiet(self, *things):
        """Leave no mark on things; keep what was printed and warned of."""
        with left_untouched(*things) as said:
            yield
        self.warned += said.warned
        self.printed = self.printed or said.printed

    def observe(self, swap=None, **how) -> Flow:
        return self.run(swap, how=observe, whole=True, **how)

    @functools.cached_property
    def flow(self) -> Flow:
        return self.observe()

    @functools.cached_property
    def raised(self) -> bool:
        return self.flow is None or self.flow.error is not None

    @functools.cached_property
    def attentions(self) -> list:
        return attentions(self.flow)

    @functools.cached_property
    def outputs(self) -> list[Tensor]:
        return floats(self.flow.result)

    @property
    def output(self) -> Tensor | None:
        return self.outputs[0] if self.outputs else None

    # Inputs

    @functools.cached_property
    def sequence(self) -> Sequence | None:
        first = {id(t) for s in self.flow.steps if s.op == "conv1d" for t in s.inputs}
        conv = any(id(tensor) in first for tensor in self.flow.given)
        if self.found and self.found.tensor.dim() == 3 and self.is_wrapped():
            return None
        found = find_sequence(self.tensors, conv)
        if found and not found.is_ids and found.batch == 0:
            shape = tuple(found.tensor.shape[:2])
            turned = any(tuple(mask.shape) == shape[::-1] for mask in self.masks)
            if self.lengths is not None:
                turned |= len(self.lengths) == shape[1]
            if turned and shape[0] != shape[1]:
                found.batch, found.token = 1, 0
        return found

    def is_wrapped(self) -> bool:
        """Say whether the call itself puts a batch axis in front of the tokens."""
        given = [g for g, t in zip(self.flow.given, self.tensors) if self.is_token(t)]
        users = self.flow.users(given[0], -1) if given else []
        wide = [s for s in users if s.op in ("getitem", "unsqueeze") and s.outputs]
        return any(s.outputs[0].shape[1:] == given[0].shape for s in wide)

    def is_token(self, tensor) -> bool:
        return self.found is not None and tensor is self.found.tensor

    @functools.cached_property
    def samples(self) -> Sequence | None:
        """The tokens, or else a batch of images: samples in axis 0, no tokens yet."""
        images = [t for t in self.images if len(t) > 1]
        alone = Sequence(images[0], 0, None) if images else None
        return self.sequence or alone

    @property
    def images(self) -> list[Tensor]:
        floating = [t for t in self.tensors if t.is_floating_point()]
        return [t for t in floating if t.dim() in (4, 5) and not looks_like_mask(t)]

    @functools.cached_property
    def tolerance(self) -> float:
        """How far numbers may lie apart by rounding, in the coarsest type there is."""
        held_tensors = list(tensors_in([vars(module) for _, module in self.modules]))
        kinds = {t.dtype for t in self.tensors + held_tensors if t.is_floating_point()}
        return max([1e-4, *(4 * torch.finfo(kind).eps for kind in kinds)])

    @functools.cached_property
    def masks(self) -> list[Tensor]:
        tokens = self.found.tensor if self.found else None
        ids = {id(t) for s in self.flow.steps if s.op == "embedding" for t in s.inputs}
        read = [own for own, t in zip(self.tensors, self.flow.given) if id(t) in ids]
        others = [t for t in self.tensors if not any(t is own for own in read)]
        return [t for t in others if t is not tokens and looks_like_mask(t)]

    @functools.cached_property
    def found(self) -> Sequence | None:
        """What looks like tokens at first sight; `sequence` knows its axes."""
        return find_sequence(self.tensors)

    @functools.cached_property
    def pad_ids(self) -> list[int]:
        """The ids that the module itself compares with, or gives a fixed vector."""
        found = []
        for step in self.flow.steps:
            if step.op in ("eq", "ne", "gt") and len(step.args) > 1:
                ids, number = step.args[:2]
                whole = isinstance(ids, Tensor) and not ids.is_floating_point()
                if whole and isinstance(number, int):
                    found.append(number)
        tables = [m for _, m in self.modules if isinstance(m, nn.Embedding)]
        return found + [m.padding_idx for m in tables if m.padding_idx is not None]

    @functools.cached_property
    def pads(self) -> Tensor | None:
        """(B, T), True = padding, read off the inputs; None if there is none."""
        if self.sequence is None or self.sequence.batch is None:
            return None
        for mask in self.masks:
            padded = padded_keys(mask, self.sequence)
            if padded is not None and padded.any():
                return padded
        if self.lengths is not None and self.makes_mask():
            return beyond(self.lengths, self.sequence.n_tokens)
        if self.sequence.is_ids:
            return padding_of_ids(self.sequence.tensor, self.pad_ids)
        return None

    @functools.cached_property
    def lengths(self) -> Tensor | None:
        """A number of tokens for each sample, if an input looks like that."""
        counts = [t for t in self.tensors if t.dim() == 1 and len(t) > 1]
        counts = [t for t in counts if not t.is_floating_point()]
        tokens = self.found.tensor if self.found else None
        for count in counts if tokens is not None and tokens.dim() > 1 else ():
            fits = len(count) in tokens.shape[:2] and count.min() >= 1
            if fits and int(count.max()) in tokens.shape[:2]:
                return count
        return None

    def makes_mask(self) -> bool:
        """Say whether the call turns the lengths into a mask."""
        padded = beyond(self.lengths, self.sequence.n_tokens)
        made = [s.value for s in self.flow.steps if s.op in COMPARISONS]
        made = [m.squeeze() for m in made if m.numel() == padded.numel()]
        made = [m.T if m.shape != padded.shape else m for m in made]
        return any(m.tolist() in (padded.tolist(), (~padded).tolist()) for m in made)

    # Variants

    def other_content(self, seed=1) -> Tensor:
        """Return tokens that differ from the given ones everywhere."""
        x = self.samples.tensor
        generator = torch.Generator().manual_seed(seed)
        if x.is_floating_point():
            noise = torch.randn(x.shape, generator=generator).to(x)
            return x.nan_to_num(0.0) + noise
        known = [i for i in x.unique().tolist() if i not in self.pad_ids]
        if self.pads is not None:
            known = [i for i in known if i not in x[self.pads].unique().tolist()]
        step = 1 + seed % max(len(known) - 1, 1)
        after = dict(zip(known, known[step:] + known[:step]))
        new = [after.get(i, i) for i in x.flatten().tolist()]
        return torch.tensor(new, dtype=x.dtype, device=x.device).view_as(x)

    def changed_at(self, sample=None, token=None, seed=1) -> dict:
        """Return a swap with other content at one sample, one token, or one of both."""
        seq = self.samples
        where = torch.ones(seq.tensor.shape, dtype=torch.bool)
        for axis, index in ((seq.batch, sample), (seq.token, token)):
            if index is not None and axis is not None:
                keep = torch.zeros(seq.tensor.shape[axis], dtype=torch.bool)
                keep[index] = True
                shape = [1] * where.dim()
                shape[axis] = -1
                where &= keep.view(shape)
        new = torch.where(
            where.to(seq.tensor.device), self.other_content(seed), seq.tensor
        )
        return {seq.tensor: new}

    def is_change(self, swap) -> bool:
        """Say whether a variant differs: two ids are sometimes all there is."""
        return any(not torch.equal(old, new) for old, new in swap.items())


def replaced(value, memo):
    """Rebuild nested inputs that cannot be copied, with other tensors."""
    if isinstance(value, Tensor):
        return memo.get(id(value), value)
    if isinstance(value, (tuple, list)):
        return type(value)(replaced(item, memo) for item in value)
    if isinstance(value, dict):
        return {key: replaced(item, memo) for key, item in value.items()}
    return value


def set_modes(modes, train):
    for module, training in modes:
        module.training = training if train is None else train


def floats(result) -> list[Tensor]:
    return [t.detach() for t in tensors_in(result) if t.is_floating_point()]


def differ(left, right, tolerance=1e-4) -> Tensor:
    """Return where two tensors of one shape differ by more than rounding."""
    kinds = [t.dtype for t in (left, right) if t.is_floating_point()]
    tolerance = max([tolerance, *(4 * torch.finfo(kind).eps for kind in kinds)])
    left, right = left.detach().float(), right.detach().float()
    size = left.nan_to_num(0, 0, 0).abs().max().clamp(min=1.0) if left.numel() else 1.0
    apart = (left - right).abs() > tolerance * size
    return apart | (left.isnan() != right.isnan())
