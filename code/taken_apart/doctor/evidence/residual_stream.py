"""The stream of tokens through a module: what joins it, what goes around what."""

from dataclasses import dataclass

from torch import Tensor, nn

from ...tensors import tensors_in
from ..exam import differ
from .tensor_flow import PASSES, PRODUCTS, Step, attentions, memory
from .token_changes import (
    ACTIVATIONS,
    ANY,
    FUSED,
    LAYERS,
    alike,
    changed_flows,
    meeting,
    model_width,
    once,
    pins,
)

# --- what is added that no token changes: positions ----------------------------------


@dataclass
class Table:
    """Something added to the tokens that does not depend on them."""

    step: Step
    added: Tensor
    rows: Tensor | None  # (positions, D), the whole table where it could be found
    learnt: bool
    token_axis: int | None  # of the sum

    @property
    def is_of_stream(self) -> bool:
        """Whether it joins (B, T, D), and not queries or keys of each head."""
        return self.step.outputs[0].dim() == 3

    @property
    def is_zero(self) -> bool:
        return not bool(self.added.any())

    def axes_that_vary(self) -> list[int]:
        """Return the axes of the sum along which what is added has differing rows."""
        rank = self.step.outputs[0].dim()
        full = self.added.view([1] * (rank - self.added.dim()) + list(self.added.shape))
        wide = range(rank - 1)
        return [a for a in wide if bool(differ(full, full.narrow(a, 0, 1)).any())]


@once
def tables(exam) -> list[Table]:
    """Find sums of the tokens with something that stays when all tokens change."""
    other = exam.observe({exam.sequence.tensor: exam.other_content()})
    if not alike(exam.flow, other):
        return []
    scores_of = {id(s) for a in exam.attentions for s in a.path}
    found = []
    for step, twin in zip(exam.flow.steps, other.steps):
        if step.op != "add" or len(step.inputs) != 2 or id(step) in scores_of:
            continue
        values = [exam.flow.value(t, step.index) for t in step.inputs]
        twins = [other.value(t, twin.index) for t in twin.inputs]
        if any(v.shape != t.shape for v, t in zip(values, twins)):
            continue
        moves = [bool(differ(v, t).any()) for v, t in zip(values, twins)]
        if sorted(moves) != [False, True] or step.value.dim() < 2:
            continue
        side = moves.index(False)
        if not hears_tokens(exam, step.inputs[side], step.index):
            found += table_of(exam, step, side, values)
    return found[:4]


CUTS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "arange"}


def hears_tokens(exam, tensor, before) -> bool:
    """Say whether a tensor was computed from the tokens, however little they change."""
    pairs = zip(exam.flow.given, exam.tensors)
    tokens = {id(copy) for copy, own in pairs if own is exam.sequence.tensor}
    seen, todo = set(), [(tensor, before)]
    while todo:
        tensor, index = todo.pop()
        if id(tensor) in tokens:
            return True
        step = exam.flow.producer(tensor, index)
        if step is None or step.index in seen or step.op in CUTS:
            continue
        seen.add(step.index)
        only_shape = step.op in ("expand_as", "view_as", "reshape_as", "type_as")
        inputs = step.inputs[:1] if only_shape else step.inputs
        todo += [(t, step.index) for t in inputs]
    return False


def table_of(exam, step, side, values) -> list[Table]:
    added, tensor = values[side], step.inputs[side]
    wide = added.dim() > 1 and added.shape[-1] == step.value.shape[-1] > 1
    if not wide or step.value.dim() < 2 or is_score(exam, step):
        return []
    stored = stored_table(exam, step, tensor)
    learnt = stored is not None and stored.requires_grad
    rows = stored if stored is not None else added
    rows = rows.detach().squeeze()
    rows = rows if rows.dim() == 2 else None
    return [Table(step, added, rows, learnt, token_axis_of(exam, step))]


def is_score(exam, step) -> bool:
    """Say whether a sum is one of scores and a mask."""
    made = [exam.flow.producer(t, step.index) for t in step.inputs]
    return any(s is not None and s.op in PRODUCTS - {"einsum"} for s in made)


def stored_table(exam, step, tensor) -> Tensor | None:
    """Find the parameter, buffer or attribute that the added rows were read from."""
    line = exam.flow.line(tensor, step.index)
    sources = [tensor] + [t for s in line for t in s.inputs]
    spots = {memory(t) for t in sources}
    for _, module in exam.modules:
        for held in tensors_in([v for v in vars(module).values()]):
            large = held.dim() > 1 and held.is_floating_point()
            if large and memory(held) in spots and held.shape[-1] == tensor.shape[-1]:
                return held
    return None


def unread_table(exam) -> Tensor | None:
    """Find a stored table, a row for each place, that no step of the call reads."""
    read = {memory(t) for step in exam.flow.steps for t in step.inputs}
    with_query = [a for a in exam.attentions if a.query is not None]
    width = {model_width(attention) for attention in with_query}
    for _, module in exam.modules:
        for table in tensors_in([v for v in vars(module).values()]):
            rows = table.detach().squeeze()
            large = rows.dim() == 2 and len(rows) >= exam.sequence.n_tokens
            fits = large and table.is_floating_point() and rows.shape[1] in width
            if fits and not isinstance(module, nn.Linear) and memory(table) not in read:
                return table
    return None


def blind_to_order(exam) -> bool:
    """Say whether outputs move along with the tokens when these are turned round."""
    axis, x = exam.sequence.token, exam.sequence.tensor
    swap = {x: x.flip(axis)} | {m: m.flip(-1) for m in exam.masks if m.dim() == 2}
    turned, usual = exam.run(swap), exam.run()
    if not turned or not usual or turned[0].shape != usual[0].shape:
        return False
    if usual[0].dim() == 3:
        usual = [usual[0].flip(axis)]
    return not bool(differ(turned[0], usual[0]).any())


def token_axis_of(exam, step) -> int | None:
    """Return the axis of tokens in a step's output, by the two changed tokens."""
    flows = changed_flows(exam) if exam.sequence.n_samples > 1 else None
    if not flows:
        return None
    where = [pins(differ(step.value, f.steps[step.index].value)) for f in flows]
    both = [a for a in where[0] if where[1].get(a) == where[0][a]]
    moved = [a for a in where[0] if a in where[1] and where[1][a] != where[0][a]]
    return both[0] if len(both) == 1 and len(moved) == 1 else None


# --- all tokens equal ----------------------------------------------------------------


@once
def rotated(exam):
    """Return queries, keys and values where all tokens are equal; None if unclear."""
    seq, met = exam.sequence, meeting(exam) if exam.sequence.n_samples > 1 else None
    if met is None or met.axis != "tokens":
        return None
    first = seq.tensor.narrow(seq.token, 0, 1).expand_as(seq.tensor).clone()
    flow = exam.observe({seq.tensor: first})
    if not alike(exam.flow, flow) or tables(exam):
        return None
    attention = next((a for a in attentions(flow) if a.key is not None), None)
    if attention is None or attention.key.shape[-2] != seq.n_tokens:
        return None
    line = attention.sources.get("query") or [None]
    since = {step.index for step in since_projection(flow, line[0])}
    maps = [flow.producer(t, i) for i in since for t in flow.steps[i].inputs]
    into = [flow.value(m.inputs[0], m.index) for m in maps if m and m.op in LAYERS]
    return attention if all(all_alike(t, seq.n_tokens) for t in into) else None


def all_alike(tensor, length) -> bool:
    """Say whether entries are equal along an axis of that length, not the last."""
    axes = [a for a in range(tensor.dim() - 1) if tensor.shape[a] == length]
    return any(not differ(tensor, tensor.narrow(a, 0, 1)).any() for a in axes)


def since_projection(flow, step) -> list[Step]:
    """Return a step and those before it, back to where features were projected."""
    found, todo = {}, [step]
    while todo:
        step = todo.pop()
        if step is None or step.index in found or step.op in LAYERS:
            continue
        found[step.index] = step
        todo += [flow.producer(t, step.index) for t in step.inputs]
    return list(found.values())


def rows_differ(tensor) -> bool:
    return bool(differ(tensor, tensor[..., :1, :]).any())


# --- ways around ---------------------------------------------------------------------


def branches(exam):
    """Yield (what, its last step, what goes in) for attentions and feed-forwards."""
    flow = exam.flow
    for step in fused_or_mixed(exam):
        stream = stream_into(exam, step)
        if stream is not None and has_company(exam, step):
            yield "the attention", step, stream
    for step in flow.steps:
        if step.op in ACTIVATIONS and step.value.dim() > 2:
            up = flow.back(step.inputs[0], step.index, is_linear, {"dropout"})
            down = flow.ahead(step.outputs[0], step.index, is_linear, PASSES)
            if up and down and is_inside(exam, up[-1], down[-1]):
                yield "the feed-forward", down[-1], up[-1].inputs[0]


def is_linear(step) -> bool:
    return step.op == "linear"


def is_inside(exam, up, down) -> bool:
    """Say whether two maps, wide and back, are a feed-forward and not a head on top."""
    back = down.value.shape == up.inputs[0].shape
    wide = up.value.shape[-1] > down.value.shape[-1]
    attends = any(step.index > down.index for step in fused_or_mixed(exam))
    norms = any(step.op == "layer_norm" for step in exam.flow.steps[down.index :])
    return back and wide and (attends or norms)


@once
def fused_or_mixed(exam) -> list[Step]:
    """Return, for each attention, the step through which all of it goes."""
    fused = [s for s in exam.flow.steps if s.op in FUSED]
    return fused + [a.mix for a in exam.attentions if not a.opened]


def stream_into(exam, step) -> Tensor | None:
    if step.op in FUSED:
        return step.inputs[0]
    mixed = next((a for a in exam.attentions if a.mix is step), None)
    line = mixed.sources.get("value") or [] if mixed else []
    return line[-1].inputs[0] if line and line[-1].op == "linear" else None


def has_company(exam, step) -> bool:
    """Say whether a norm or feed-forward follows: a bare attention has no residual."""
    later = exam.flow.steps[step.index :]
    linears = [s for s in later if s.op == "linear" and not s.row.note]
    norm = any(s.op in ("layer_norm", "rms_norm") for s in later)
    return norm or (len(linears) > 2 and any(s.op in ACTIVATIONS for s in later))


def way_around(exam, blocked, stream) -> bool:
    """Say whether the result depends on a tensor by a way that avoids one step."""
    goal = upstream(exam.flow, stream, blocked.index)
    return found_without(
        exam.flow,
        blocked,
        lambda tensor, step: id(tensor) in goal or same_memory(tensor, stream),
    )


def carries_attention(exam, blocked, stream) -> bool:
    """Say whether what the attention before a step returned finds a way around it."""
    ends = fused_or_mixed(exam)
    path = exam.flow.back(stream, blocked.index, lambda step: step in ends, ANY)
    return path is None or found_without(
        exam.flow, blocked, lambda tensor, step: step is path[-1]
    )


def found_without(flow, blocked, arrived) -> bool:
    """Search back from the result, but not through one step, until `arrived`."""
    seen, todo = set(), [(t, len(flow.steps)) for t in tensors_in(flow.result)]
    while todo:
        tensor, index = todo.pop()
        step = flow.producer(tensor, index)
        if arrived(tensor, step):
            return True
        if step is None or step is blocked or step.index in seen:
            continue
        seen.add(step.index)
        todo += [(t, step.index) for t in step.inputs if t.is_floating_point()]
    return False


def same_memory(left, right) -> bool:
    return left.numel() == right.numel() and memory(left) == memory(right)


def upstream(flow, stream, before) -> set[int]:
    """Return the tensors of the stream's own size from which it was made, by id."""
    found, seen, todo = set(), set(), [(stream, before)]
    while todo:
        tensor, index = todo.pop()
        if tensor.numel() != stream.numel():
            continue
        found.add(id(tensor))
        step = flow.producer(tensor, index)
        if step is not None and step.index not in seen:  # a cast may return its input
            seen.add(step.index)
            todo += [(t, step.index) for t in step.inputs]
    return found


def heard(flow, tensor, before, ends) -> bool:
    """Say whether a tensor depends on one of some steps."""
    seen, todo = set(), [(tensor, before)]
    while todo:
        tensor, index = todo.pop()
        step = flow.producer(tensor, index)
        if step is None or step.index in seen:
            continue
        if step in ends:
            return True
        seen.add(step.index)
        todo += [(t, step.index) for t in step.inputs]
    return False


def in_feed_forward(exam, step) -> bool:
    """Say whether a linear map works on the stream after attention, not on heads."""
    ends = fused_or_mixed(exam)
    path = exam.flow.back(step.inputs[0], step.index, lambda s: s in ends, ANY)
    return path is not None and any(s.op in LAYERS | {"add"} for s in path[:-1])


# --- what nothing uses ---------------------------------------------------------------


def unused_steps(exam):
    """Yield steps of the reader's own lines whose results nothing uses."""
    reached = exam.flow.reached()
    stored = {
        id(t) for _, m in exam.modules for t in tensors_in(list(vars(m).values()))
    }
    for step in exam.flow.steps:
        idle = step.index not in reached and not step.row.note and not step.row.depth
        if not idle or step.row.op.endswith("_") or not step.value.is_floating_point():
            continue
        used = any(exam.flow.users(t, step.index) for t in step.outputs)
        if not used and not any(id(t) in stored for t in step.outputs):
            yield step


def is_table_sum(exam, step) -> bool:
    return any(table.step is step for table in tables(exam)) if exam.sequence else False


# --- home-made norms -----------------------------------------------------------------


STATISTICS = {"mean", "var", "std", "var_mean", "norm", "layer_norm"}


def norm_like(exam):
    """Yield (path, module) of home-made modules that look like a norm of (.., D)."""
    ops = {}
    for step in exam.flow.steps:
        ops.setdefault(step.row.module, set()).add(step.op)
    for path, module in exam.modules:
        own = list(module.parameters())
        of_torch = type(module).__module__.startswith("torch.")
        flat = own and all(p.dim() == 1 and len(p) == len(own[0]) for p in own)
        statistics = ops.get(path, set()) & STATISTICS
        plain = flat and len(own[0]) > 1 and not of_torch and not module._modules
        if plain and statistics:
            yield path, module
