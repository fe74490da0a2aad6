"""The exam: a module, the reader's inputs, and the runs that probes ask for.

An `Exam` calls the module again and again on variants of the reader's own inputs, each
time from the same random state, and puts everything back.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ..tensors import held, tensors_in
from ..tracer import Row, trace
from ..tracer.fast_path import eager
from ..untouched import Snapshot, left_untouched, reseed
from .evidence.attentions import Attention, attentions
from .evidence.hiding import ends_samples, is_used, mask_makers, separates
from .evidence.tensor_flow import Flow, observe
from .finding import CHAPTERS, Finding, Severity
from .inputs import (
    Sequence,
    beyond,
    find_sequence,
    given_tensors,
    looks_like_mask,
    needed,
    padding_of_ids,
    read_padding,
    replaced,
)
from .numbers import floats, rounding
from .reasons import TIME_UP
from .subject import module_behind

Answer = TypeVar("Answer")
Swap = dict[Tensor, Tensor]  # another tensor in the place of some inputs


class Unvaried(LookupError):
    """An input cannot be varied: what rests on variants cannot be asked."""


class Postponed(Exception):
    """A question needs more than the one recorded call, which is all for now."""


class TimeUp(Exception):
    """No time is left for a further call."""


COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}


class Exam:
    """A module, the reader's inputs, and all that has been found out so far.

    `modules` are pairs of path and module, those in plain lists included; `root` is
    missing for a function. What is read off the call itself, like `flow` (its
    operations), `attentions` and `padding`, is found out when it is first asked for.
    What may be missing is told by `has_root`, `has_padding` and so on; to ask for it
    all the same is a LookupError.
    """

    def __init__(
        self,
        module: Callable,
        args: tuple,
        kwargs: dict[str, Any],
        quick: bool = False,
    ) -> None:
        self.call, self.args, self.kwargs, self.quick = module, args, kwargs, quick
        self.root_if_any = module_behind(module, args, kwargs)
        self.modules = list(held(self.root)) if self.has_root else []
        self.tensors = list({id(t): t for t in given_tensors((args, kwargs))}.values())

        self.findings: list[Finding] = []
        self.checked: list[str] = []
        self.skipped: list[tuple[str, str]] = []  # what, and why
        self.forwards = 0
        self.warned: list[str] = []
        self.printed = ""
        self.answers: dict[Callable, Any] = {}  # of functions under `once`
        self.misuse = ""  # a sentence, where there is nothing to examine
        self.reads_only = False  # nothing but the recorded call may be asked
        self.time_left: Callable[[], float] = lambda: math.inf
        self.ranks: dict[int, int] = {}  # of findings by id: the places of their probes

    def has(self, *kinds: str, severity: Severity = "fault") -> bool:
        """Say whether a finding of these kinds, or of any, stands already.

        Then its echoes can rest: one cause, one finding.
        """
        kinds = kinds or tuple(CHAPTERS)
        return any(f.kind in kinds and f.severity == severity for f in self.findings)

    def skip(self, what: str, why: str) -> None:
        self.skipped.append((what, why))

    def add(self, findings: Iterable[Finding], rank: int = 0) -> None:
        """Note findings, in the order of the probes that made them."""
        for finding in findings:
            self.findings.append(finding)
            self.ranks[id(finding)] = rank
        self.findings.sort(key=lambda finding: self.ranks.get(id(finding), 0))

    def take_over(self, other: Exam) -> None:
        """Go on with what another exam of the same module has found."""
        self.findings, self.ranks = other.findings, other.ranks
        self.checked, self.skipped = other.checked, other.skipped
        self.forwards += other.forwards if other is not self else 0

    @functools.cached_property
    def on_meta(self) -> bool:
        own = tensors_in([vars(module) for _, module in self.modules])
        return any(t.is_meta for t in [*self.tensors, *own])

    # The module

    @functools.cached_property
    def before(self) -> Snapshot:
        """What the module holds, to be put back after each call."""
        return Snapshot(self.root_if_any)

    @property
    def has_root(self) -> bool:
        return self.root_if_any is not None

    @property
    def root(self) -> nn.Module:
        return needed(self.root_if_any, "module")

    # Runs

    def inputs(self, swap: Swap | None = None) -> tuple[tuple, dict[str, Any]]:
        """Copy the inputs, with other tensors in place of some: {old: new}."""
        by_id: dict[int, Any] = {id(t): t.detach().clone() for t in self.tensors}
        # Cloned: a call may write into its input, and a variant may be a view of ours.
        by_id |= {id(old): new.clone() for old, new in (swap or {}).items()}
        try:
            copies = copy.deepcopy((self.args, self.kwargs), dict(by_id))
        except Exception:
            copies = replaced(self.args, by_id), replaced(self.kwargs, by_id)
        arrived = {id(tensor) for tensor in given_tensors(copies)}
        if any(id(by_id[id(old)]) not in arrived for old in swap or {}):
            raise Unvaried("an input cannot be exchanged for another")
        return copies

    def call_with(
        self,
        how: Callable,
        swap: Swap | None = None,
        *,
        grad: bool = False,
        train: bool = False,
        seed: int = 0,
    ) -> Any:
        """Return `how(module, *inputs)`, or None if that raised; see `inputs`.

        The module's state is put back. `train` is the mode of all its parts.
        """
        if self.reads_only:
            raise Postponed
        if self.time_left() < 0:
            raise TimeUp(TIME_UP)
        (args, kwargs), before = self.inputs(swap), self.before
        self.forwards += 1
        with self.quiet(), eager(), torch.set_grad_enabled(grad):
            set_modes(self.modules, train)
            reseed(seed)
            try:
                return how(self.call, *args, **kwargs)
            except (Exception, SystemExit):
                return None
            finally:
                before.restore()

    def run(
        self, swap: Swap | None = None, how: Callable | None = None, **options: Any
    ) -> list[Tensor] | None:
        """Return the floating outputs of a call, or None if it raised.

        `how` calls the module in another way; `options` are those of `call_with`.
        """

        def floats_of(call: Callable, *args: Any, **kwargs: Any) -> list[Tensor]:
            return floats(how(call, *args, **kwargs) if how else call(*args, **kwargs))

        return self.call_with(floats_of, swap, **options)

    def observe(self, swap: Swap | None = None, **options: Any) -> Flow:
        """Record the operations of a call, on torch's slow path; see `call_with`."""
        flow = self.call_with(observe, swap, **options)
        return flow or Flow(error=RuntimeError("the call could not be recorded"))

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        """Keep what is printed and warned of, and the random numbers."""
        with left_untouched() as said:
            yield
        self.warned += said.warned
        self.printed = self.printed or said.printed

    # One plain call

    @functools.cached_property
    def flow(self) -> Flow:
        return self.observe()

    @functools.cached_property
    def raised(self) -> bool:
        return self.flow.error is not None

    @functools.cached_property
    def failed_row(self) -> Row | None:
        """The operation that raised, traced: what did not fit, and the likely cause."""
        args, kwargs = self.inputs()
        with self.quiet():
            rows = trace(self.call, *args, **kwargs).rows
        return rows[-1] if rows else None

    @functools.cached_property
    def attentions(self) -> list[Attention]:
        return attentions(self.flow)

    @functools.cached_property
    def outputs(self) -> list[Tensor]:
        """The floating outputs on torch's slow path, for which attention is seen."""
        return floats(self.flow.result)

    @property
    def output(self) -> Tensor:
        return needed(next(iter(self.outputs), None), "output")

    @functools.cached_property
    def fast_outputs(self) -> list[Tensor] | None:
        """The outputs under eval and no_grad, where torch takes its fast path."""
        return self.run()

    # What the inputs are

    @functools.cached_property
    def tokens_guess(self) -> Sequence | None:
        """What looks like tokens at first sight; `sequence` knows its axes."""
        return find_sequence(self.tensors)

    @property
    def has_sequence(self) -> bool:
        return self.sequence_if_any is not None

    @property
    def sequence(self) -> Sequence:
        """The tokens and their axes, as the call reads them."""
        return needed(self.sequence_if_any, "sequence of tokens")

    @functools.cached_property
    def sequence_if_any(self) -> Sequence | None:
        guess = self.tokens_guess
        if guess and guess.tensor.dim() == 3 and self.adds_batch_axis(guess.tensor):
            return None

        convolved = {
            id(t) for s in self.flow.steps if s.op == "conv1d" for t in s.inputs
        }
        channels_first = any(id(tensor) in convolved for tensor in self.flow.given)
        sequence = find_sequence(self.tensors, channels_first)

        # Features (T, B, D) look like (B, T, D) until a mask or lengths say otherwise.
        if sequence and not sequence.is_ids and sequence.batch_axis == 0:
            shape = tuple(sequence.tensor.shape[:2])
            time_first = any(tuple(mask.shape) == shape[::-1] for mask in self.masks)
            if self.lengths is not None:
                time_first |= len(self.lengths) == shape[1]
            if time_first and shape[0] != shape[1]:
                sequence.batch_axis, sequence.token_axis = 1, 0
        return sequence

    def adds_batch_axis(self, tokens: Tensor) -> bool:
        """Say whether the call itself puts a batch axis in front of the tokens."""
        given = next((passed for own, passed in self.pairs if own is tokens), None)
        if given is None:
            return False
        users = self.flow.users(given, -1)
        views = [s for s in users if s.op in ("getitem", "unsqueeze") and s.outputs]
        return any(s.outputs[0].shape[1:] == given.shape for s in views)

    @property
    def has_samples(self) -> bool:
        samples = self.samples_if_any
        return samples is not None and samples.n_samples > 1

    @property
    def samples(self) -> Sequence:
        """The tokens, or else a batch of images: samples in axis 0, no tokens yet."""
        return needed(self.samples_if_any, "batch of samples")

    @functools.cached_property
    def samples_if_any(self) -> Sequence | None:
        images = [t for t in self.images if len(t) > 1]
        alone = Sequence(images[0], 0, None) if images else None
        return self.sequence_if_any or alone

    @property
    def images(self) -> list[Tensor]:
        floating = [t for t in self.tensors if t.is_floating_point()]
        return [t for t in floating if t.dim() in (4, 5) and not looks_like_mask(t)]

    @functools.cached_property
    def tolerance(self) -> float:
        """How far numbers may lie apart by rounding, in the coarsest type there is."""
        own = list(tensors_in([vars(module) for _, module in self.modules]))
        return rounding([t.dtype for t in self.tensors + own if t.is_floating_point()])

    @functools.cached_property
    def like_masks(self) -> list[Tensor]:
        """The inputs that look like masks, and are neither tokens nor looked up."""
        tokens = self.tokens_guess.tensor if self.tokens_guess else None
        ids = {id(t) for s in self.flow.steps if s.op == "embedding" for t in s.inputs}
        looked_up = [own for own, given in self.pairs if id(given) in ids]
        others = [t for t in self.tensors if not any(t is own for own in looked_up)]
        return [t for t in others if t is not tokens and looks_like_mask(t)]

    @functools.cached_property
    def masks(self) -> list[Tensor]:
        """Those of them that the call reads: who ignores an input has another mask."""
        return [t for t in self.like_masks if self.reads(t)]

    @property
    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of an input and of the copy that the recorded call was given."""
        return list(zip(self.tensors, self.flow.given, strict=False))

    def reads(self, tensor: Tensor) -> bool:
        """Say whether a step of the call computes with an input."""
        given = next((copy for own, copy in self.pairs if own is tensor), tensor)
        return is_used(self.flow, given, self.reached)

    @functools.cached_property
    def reached(self) -> set[int]:
        """The indices of the steps that the result depends on."""
        return self.flow.reached()

    @functools.cached_property
    def lengths(self) -> Tensor | None:
        """A number of tokens for each sample, if an input looks like that."""
        tokens = self.tokens_guess.tensor if self.tokens_guess else None
        if tokens is None or tokens.dim() < 2:
            return None
        counts = [t for t in self.tensors if t.dim() == 1 and len(t) > 1]
        for count in counts:
            whole = not count.is_floating_point()
            fits = whole and len(count) in tokens.shape[:2] and count.min() >= 1
            if fits and int(count.max()) in tokens.shape[:2]:
                return count
        return None

    @functools.cached_property
    def pad_ids(self) -> list[int]:
        """The ids that the module itself compares with, or gives a fixed vector."""
        tables = [m for _, m in self.modules if isinstance(m, nn.Embedding)]
        fixed = [m.padding_idx for m in tables if m.padding_idx is not None]
        known = list(dict.fromkeys([*self.compared_ids(), *fixed]))
        tokens = self.tokens_guess.tensor if self.tokens_guess else None
        if tokens is None or tokens.dim() != 2 or tokens.is_floating_point():
            return known
        # A word may be compared with by mistake: what ends samples comes first.
        return sorted(known, key=lambda pad: not ends_samples(tokens == pad))

    def compared_ids(self) -> Iterator[int]:
        """Yield what ids are compared with to tell padding, and not to find a word."""
        _, masking = mask_makers(self.flow, self.attentions)
        for step in self.flow.steps:
            if step.op not in ("eq", "ne", "gt") or len(step.args) < 2:
                continue
            ids, number = step.args[:2]
            whole = isinstance(ids, Tensor) and not ids.is_floating_point()
            if whole and isinstance(number, int) and not looks_like_mask(ids):
                told = step.value if step.op == "eq" else ~step.value
                if step.index in masking or (told.dim() == 2 and ends_samples(told)):
                    yield number

    @property
    def has_padding(self) -> bool:
        return self.padding_if_any is not None

    @property
    def padding(self) -> Tensor:
        """(B, T), True = padding, read off the inputs."""
        return needed(self.padding_if_any, "padding")

    @functools.cached_property
    def padding_if_any(self) -> Tensor | None:
        sequence = self.sequence_if_any
        if sequence is None or sequence.batch_axis is None:
            return None
        for padding in self.believed_masks(sequence):
            return padding
        if self.lengths is not None:
            ended = beyond(self.lengths, sequence.n_tokens)
            if self.computes(ended):
                return ended
        return (
            padding_of_ids(sequence.tensor, self.pad_ids) if sequence.is_ids else None
        )

    def believed_masks(self, sequence: Sequence) -> Iterator[Tensor]:
        """Yield the padding (B, T) that masks tell of: first those put on scores.

        Any other input of 0 and 1 is believed only if it looks like padding: it may
        be a kind of token, or what a model should fill in.
        """
        masking, _ = mask_makers(self.flow, self.attentions)
        on_scores = {id(own) for own, given in self.pairs if id(given) in masking}
        for mask in sorted(self.masks, key=lambda m: id(m) not in on_scores):
            padding = read_padding(mask, sequence)
            if padding is None or not padding.any():
                continue
            masks = id(mask) in on_scores or ends_samples(padding)
            if masks and not separates(padding, self.attentions):
                yield padding

    def computes(self, mask: Tensor) -> bool:
        """Say whether a step of the call compares something and gets this mask."""
        made = [s.value for s in self.flow.steps if s.op in COMPARISONS]
        made = [m.squeeze() for m in made if m.numel() == mask.numel()]
        made = [m.T if m.shape != mask.shape else m for m in made]
        return any(m.tolist() in (mask.tolist(), (~mask).tolist()) for m in made)

    # Variants of the inputs

    def other_content(self, seed: int = 1) -> Tensor:
        """Return tokens that differ from the given ones everywhere.

        Ids take one another's places: padding stays padding, and no id is new.
        """
        x = self.samples.tensor
        if x.is_floating_point():
            generator = torch.Generator().manual_seed(seed)
            noise = torch.randn(x.shape, generator=generator).to(x)
            return x.nan_to_num(0.0) + noise
        known = [i for i in x.unique().tolist() if i not in self.pad_ids]
        if self.has_padding:
            known = [i for i in known if i not in x[self.padding].unique().tolist()]
        shift = 1 + seed % max(len(known) - 1, 1)
        after = dict(zip(known, known[shift:] + known[:shift], strict=True))
        new = [after.get(i, i) for i in x.flatten().tolist()]
        return torch.tensor(new, dtype=x.dtype, device=x.device).view_as(x)

    def changed_at(
        self, sample: int | None = None, token: int | None = None, seed: int = 1
    ) -> Swap:
        """Return a swap with other content at one sample, one token, or one of both."""
        seq = self.samples
        where = torch.ones(seq.tensor.shape, dtype=torch.bool)
        for axis, index in ((seq.batch_axis, sample), (seq.token_axis, token)):
            if index is not None and axis is not None:
                keep = torch.zeros(seq.tensor.shape[axis], dtype=torch.bool)
                keep[index] = True
                shape = [1] * where.dim()
                shape[axis] = -1
                where &= keep.view(shape)
        where = where.to(seq.tensor.device)
        return {seq.tensor: torch.where(where, self.other_content(seed), seq.tensor)}

    def is_change(self, swap: Swap) -> bool:
        """Say whether a variant differs: two ids are sometimes all there is."""
        return any(not torch.equal(old, new) for old, new in swap.items())


def set_modes(modules: Iterable[tuple[str, nn.Module]], train: bool) -> None:
    for _, module in modules:
        module.training = train


def once(function: Callable[[Exam], Answer]) -> Callable[[Exam], Answer]:
    """Keep the answer in the exam: several probes ask the same question."""

    @functools.wraps(function)
    def remembered(exam: Exam) -> Answer:
        if function not in exam.answers:
            exam.answers[function] = function(exam)
        return exam.answers[function]

    return remembered
