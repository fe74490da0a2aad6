"""What positions add to the tokens: tables, and rotations of queries and keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from ...tensors import tensors_in
from ..exam import Exam, once
from ..numbers import differ
from .attentions import PRODUCTS, Attention, attentions, model_width
from .hiding import makers
from .tensor_flow import LAYERS, Flow, Step, memory, same_operations
from .token_changes import changed_flows, confined_axes, token_pairing

# --- tables that are added -----------------------------------------------------------


@dataclass
class PositionTable:
    """Something added to the tokens that does not depend on them."""

    step: Step  # the sum
    added: Tensor
    rows: Tensor | None  # (positions, D), the whole table where it could be found
    learnt: bool
    token_axis: int | None  # of the sum

    @property
    def is_of_stream(self) -> bool:
        """Whether it joins (B, T, D), and not queries or keys of each head."""
        return self.step.outputs[0].dim() == 3

    @property
    def is_long(self) -> bool:
        """Whether it holds a row for each token: a kind of token has fewer."""
        tokens = self.step.outputs[0].shape[-2]
        return self.rows is not None and len(self.rows) >= tokens > 1

    @property
    def is_zero(self) -> bool:
        return not bool(self.added.any())

    def axes_that_vary(self) -> list[int]:
        """Return the axes of the sum along which what is added has differing rows."""
        rank = self.step.outputs[0].dim()
        full = self.added.view([1] * (rank - self.added.dim()) + list(self.added.shape))
        return [a for a in range(rank - 1) if not constant_along(full, a)]


def constant_along(tensor: Tensor, axis: int) -> bool:
    """Say whether all entries along an axis are equal."""
    return not bool(differ(tensor, tensor.narrow(axis, 0, 1)).any())


@once
def position_tables(exam: Exam) -> list[PositionTable]:
    """Find sums of the tokens with something that stays when all tokens change.

    A pure function of the length stays; so does a bias, and a kind of token: who asks
    looks at the axes along which the table varies.
    """
    other = exam.observe({exam.sequence.tensor: exam.other_content()})
    if not same_operations(exam.flow, other):
        return []
    of_scores = {id(s) for a in exam.attentions for s in a.path}
    tables = []
    for step, twin in zip(exam.flow.steps, other.steps, strict=True):
        if step.op != "add" or len(step.inputs) != 2 or id(step) in of_scores:
            continue
        values = [exam.flow.value(t, step.index) for t in step.inputs]
        changed = [other.value(t, twin.index) for t in twin.inputs]
        pairs = list(zip(values, changed, strict=True))
        if any(old.shape != new.shape for old, new in pairs):
            continue
        moves = [bool(differ(old, new).any()) for old, new in pairs]
        if sorted(moves) != [False, True] or step.value.dim() < 2:
            continue
        side = moves.index(False)
        # A part of the tokens may happen not to move: a mask made of them, a count.
        if not depends_on_tokens(exam, step.inputs[side], step.index):
            table = table_of(exam, step, step.inputs[side], values[side])
            tables += [table] if table else []
    return tables[:4]


def depends_on_tokens(exam: Exam, tensor: Tensor, before: int) -> bool:
    """Say whether a tensor was computed from the tokens, however little they change."""
    made_of, _ = makers(exam.flow, [(tensor, before)])
    tokens = [given for own, given in exam.pairs if own is exam.sequence.tensor]
    return any(id(given) in made_of for given in tokens)


def table_of(
    exam: Exam, step: Step, tensor: Tensor, added: Tensor
) -> PositionTable | None:
    """Describe what a sum adds to the tokens; None if it is no row a position."""
    wide = added.dim() > 1 and added.shape[-1] == step.value.shape[-1] > 1
    if not wide or is_score(exam, step):
        return None
    stored = stored_table(exam, step, tensor)
    learnt = any(map(is_learnt, [stored, *read_from(exam.flow, step, tensor)]))
    rows = (stored if stored is not None else added).detach().squeeze()
    return PositionTable(
        step,
        added,
        rows=rows if rows.dim() == 2 else None,
        learnt=learnt,
        token_axis=token_axis_of(exam, step),
    )


def is_score(exam: Exam, step: Step) -> bool:
    """Say whether a sum is one of scores and a mask."""
    made = [exam.flow.producer(t, step.index) for t in step.inputs]
    return any(s is not None and s.op in PRODUCTS - {"einsum"} for s in made)


def stored_tensors(exam: Exam) -> Iterator[tuple[nn.Module, Tensor]]:
    """Yield (module, tensor) of all parameters, buffers and plain attributes."""
    for _, module in exam.modules:
        for tensor in tensors_in(list(vars(module).values())):
            yield module, tensor


def read_from(flow: Flow, step: Step, tensor: Tensor) -> list[Tensor]:
    """Return a tensor that a step reads, and what the steps on its line read."""
    line = flow.line(tensor, step.index)
    return [tensor, *(t for s in line for t in s.inputs)]


def is_learnt(tensor: Tensor | None) -> bool:
    """Say whether a table is trained, or was: a frozen one holds what it learnt."""
    return isinstance(tensor, nn.Parameter) or (
        tensor is not None and tensor.is_leaf and tensor.requires_grad
    )


def stored_table(exam: Exam, step: Step, tensor: Tensor) -> Tensor | None:
    """Find the parameter, buffer or attribute that the added rows were read from."""
    # A slice or a view of the table shares its memory.
    read = {memory(t) for t in read_from(exam.flow, step, tensor)}
    for _, stored in stored_tensors(exam):
        large = stored.dim() > 1 and stored.is_floating_point()
        if large and memory(stored) in read and stored.shape[-1] == tensor.shape[-1]:
            return stored
    return None


def unread_table(exam: Exam) -> Tensor | None:
    """Find a stored table, a row for each place, that no step of the call reads."""
    read = {memory(t) for step in exam.flow.steps for t in step.inputs}
    widths = {model_width(a) for a in exam.attentions if a.has_scores}
    for module, table in stored_tensors(exam):
        rows = table.detach().squeeze()
        large = rows.dim() == 2 and len(rows) >= exam.sequence.n_tokens
        fits = large and table.is_floating_point() and rows.shape[1] in widths
        if fits and not isinstance(module, nn.Linear) and memory(table) not in read:
            return table
    return None


def token_axis_of(exam: Exam, step: Step) -> int | None:
    """Return the axis of tokens in a step's output, by the two changed tokens.

    Along the tokens both sit at one index, along the samples at two.
    """
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    if not flows:
        return None
    where = [
        confined_axes(differ(step.value, flow.steps[step.index].value))
        for flow in flows
    ]
    same = [a for a in where[0] if where[1].get(a) == where[0][a]]
    moved = [a for a in where[0] if a in where[1] and where[1][a] != where[0][a]]
    return same[0] if len(same) == 1 and len(moved) == 1 else None


def ignores_order(exam: Exam) -> bool:
    """Say whether outputs move along with the tokens when these are turned round."""
    axis, x = exam.sequence.token, exam.sequence.tensor
    swap = {x: x.flip(axis)} | {m: m.flip(-1) for m in exam.masks if m.dim() == 2}
    turned, usual = exam.run(swap), exam.fast_outputs
    if not turned or not usual or turned[0].shape != usual[0].shape:
        return False
    expected = usual[0].flip(axis) if usual[0].dim() == 3 else usual[0]
    return not bool(differ(turned[0], expected).any())


# --- rotations -----------------------------------------------------------------------


@once
def with_equal_tokens(exam: Exam) -> Attention | None:
    """Return the first attention in a call with all tokens equal; None if unclear.

    What differs between its rows then comes from positions, and from nothing else. It
    is unclear where something was added, or where rows differ before the projections.
    """
    seq = exam.sequence
    pairing = token_pairing(exam) if seq.n_samples > 1 else None
    if pairing is None or pairing.axis != "tokens":
        return None
    first = seq.tensor.narrow(seq.token, 0, 1).expand_as(seq.tensor).clone()
    flow = exam.observe({seq.tensor: first})
    if not same_operations(exam.flow, flow) or position_tables(exam):
        return None
    attention = next((a for a in attentions(flow) if a.has_scores), None)
    if attention is None or attention.key.shape[-2] != seq.n_tokens:
        return None

    inputs = []
    for step in since_projection(flow, attention.last_step("query")):
        layers = [flow.producer(t, step.index) for t in step.inputs]
        inputs += [
            flow.value(layer.inputs[0], layer.index)
            for layer in layers
            if layer is not None and layer.op in LAYERS
        ]
    equal = all(tokens_are_equal(tensor, seq.n_tokens) for tensor in inputs)
    return attention if equal else None


def tokens_are_equal(tensor: Tensor, n_tokens: int) -> bool:
    """Say whether entries are equal along an axis of that length, not the last."""
    axes = [a for a in range(tensor.dim() - 1) if tensor.shape[a] == n_tokens]
    return any(constant_along(tensor, axis) for axis in axes)


def since_projection(flow: Flow, step: Step | None) -> list[Step]:
    """Return a step and those before it, back to where features were projected."""
    found: dict[int, Step] = {}
    todo = [step]
    while todo:
        step = todo.pop()
        if step is None or step.index in found or step.op in LAYERS:
            continue
        found[step.index] = step
        todo += [flow.producer(t, step.index) for t in step.inputs]
    return list(found.values())


def rows_differ(tensor: Tensor) -> bool:
    """Say whether the rows of (..., T, K) differ from the first."""
    return not constant_along(tensor, tensor.dim() - 2)
