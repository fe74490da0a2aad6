"""Probes of the parts: registration, positions, norms, residuals, what is unused."""

import math

import torch
from axes import tensors_in
from exam import Finding, differ
from flow import memory
from probing import found, probe, size
from stream import (
    after_attention,
    blind_to_order,
    branches,
    gradients,
    is_table_sum,
    norm_like,
    parameters_replaced,
    rotated,
    rows_differ,
    tables,
    unread_table,
    unused_steps,
    way_around,
)
from torch import nn
from undo import reseed

# --- what belongs to the module ------------------------------------------------------


@probe("root")
def modules_in_lists(exam):
    """Are all parts registered, so that they are trained, saved and moved?"""
    registered = {id(m) for m in exam.root.modules()}
    lost = [(p, m) for p, m in exam.modules if id(m) not in registered]
    lost = [(p, m) for p, m in lost if list(m.parameters())]
    if lost:
        count = sum(p.numel() for p in {p for _, m in lost for p in m.parameters()})
        own = sum(p.numel() for p in exam.root.parameters())
        names = ", ".join(path for path, _ in lost[:3])
        title = f"Parts hang in plain Python attributes: {names}"
        evidence = f"{count:,} parameters are missing among the {own:,} of parameters()"
        fix = "hold them in an nn.ModuleList or nn.ModuleDict"
        yield found("registration / sharing", "fault", title, evidence, fix)


@probe("run", "root")
def strangers(exam):
    """Do only parts of this module run?"""
    if exam.has("registration / sharing"):
        return
    own = {id(p) for p in exam.root.parameters()}
    for step in exam.flow.steps:
        for tensor in step.inputs:
            leaf = isinstance(tensor, nn.Parameter) and tensor.is_leaf
            if leaf and id(tensor) not in own:
                title = "A parameter runs that is not one of this module's"
                evidence = f"{size(tensor)} is used, but missing in parameters()"
                fix = "create it in __init__ as an attribute, and use that attribute"
                kind = "registration / sharing"
                yield found(kind, "fault", title, evidence, fix, step.row)
                return


@probe("root", "numbers", costly=True)
def parameters_made_anew(exam):
    """Do the parameters stay the same objects from call to call?"""
    lost = parameters_replaced(exam)
    if lost:
        title = f"forward replaces the parameter {lost[0]}"
        evidence = (
            f"{len(lost)} parameters are other objects after a call: an optimiser "
        )
        evidence += "would train the old ones"
        fix = "create parameters in __init__"
        yield found("registration / sharing", "fault", title, evidence, fix)


@probe("root")
def plain_tensors(exam):
    """Do all tensors move and save with the module?"""
    registered = {id(t) for t in [*exam.root.parameters(), *exam.root.buffers()]}
    used = {memory(t) for s in exam.flow.steps for t in s.inputs}
    for path, module in exam.modules:
        for name, value in list(vars(module).items()):
            if name.startswith("_") and name in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in tensors_in(value):
                if id(tensor) in registered or memory(tensor) not in used:
                    continue
                trained = isinstance(tensor, nn.Parameter) or tensor.requires_grad
                title = f"{path + '.' * bool(path)}{name} is a plain tensor attribute"
                evidence = f"{size(tensor)} is used, but .to() and state_dict() miss it"
                fix = "self.register_buffer(...), or an nn.Parameter if it is trained"
                severity = "fault" if trained else "warning"
                yield found("registration / sharing", severity, title, evidence, fix)


@probe("root")
def repeated_objects(exam):
    """Are the layers of a list different layers?"""
    for path, module in exam.modules:
        if not isinstance(module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)):
            continue
        parts = [p for p in module._modules.values() if p is not None]
        parts = [p for p in parts if list(p.parameters())]
        if len({id(p) for p in parts}) < len(parts):
            numbers = [p.numel() for p in parts[0].parameters()]
            title = f"{path or 'The list'} holds the same object more than once"
            evidence = f"{len(parts)} names, {len({id(p) for p in parts})} objects: "
            evidence += f"{sum(numbers):,} parameters do the work of all"
            fix = "[Layer() for _ in range(n)], not [layer] * n"
            yield found("registration / sharing", "fault", title, evidence, fix)


@probe("root", "numbers")
def cloned_values(exam):
    """Do layers start with different numbers?"""
    alike = {}
    for name, parameter in exam.root.named_parameters():
        if parameter.dim() > 1 and parameter.numel() > 3 and parameter.std() > 0:
            values = parameter.detach().double()
            key = (
                tuple(parameter.shape),
                values.sum().item(),
                values.square().sum().item(),
            )
            alike.setdefault(key, []).append(name)
    copies = [names for names in alike.values() if len(names) > 1]
    if copies:
        title = f"{len(copies)} matrices start as bit for bit copies of others"
        evidence = f"{copies[0][0]} equals {', '.join(copies[0][1:3])}"
        fix = "initialise the matrices again after building, or share one object"
        yield found("registration / sharing", "warning", title, evidence, fix)


# --- what is used --------------------------------------------------------------------


@probe("run", "root", "numbers", "output")
def unused_parameters(exam):
    """Does every parameter reach the output?"""
    if gradients(exam).error or exam.has("registration / sharing"):
        return
    names = gradients(exam).unused
    if not names or all(g is None for g in gradients(exam).by_name.values()):
        return
    cut = cut_gradient(exam, names)
    if cut is not None:
        yield cut
        return
    module = names[0].rpartition(".")[0]
    kind = kind_of_unused(exam, names)
    doubles = twice_called(exam, module)
    title = f"{module or names[0]} is registered but has no part in the output"
    evidence = f"no gradient reaches {', '.join(names[:4])}" + ", ..." * (
        len(names) > 4
    )
    evidence += f"; {doubles} runs twice" if doubles else ""
    severity = "fault" if doubles else "warning"
    if (whole := idle_part(exam, names)) is not None:
        kind = "registration / sharing"
        title = f"{whole} is registered and never runs: something else runs instead"
    yield found(kind, severity, title, evidence, "use it in forward, or remove it")


def cut_gradient(exam, names) -> Finding | None:
    """Tell of parameters that are used, but behind a step that stops gradients."""
    used = {id(t) for s in exam.flow.steps for t in s.inputs}
    named, reached = dict(exam.root.named_parameters()), exam.flow.reached()
    stops = [s for s in exam.flow.steps if s.op in ("detach", "argmax", "round")]
    stops = [s for s in stops if s.index in reached]
    if not stops or not any(id(named[name]) in used for name in names):
        return None
    title = f"{stops[0].op} stops the gradient of what comes before it"
    evidence = f"no gradient reaches {', '.join(names[:4])}, though they are used"
    kind, fix = "loss and training", "take it out of the way from input to output"
    return found(kind, "fault", title, evidence, fix, stops[0].row)


def idle_part(exam, names) -> str | None:
    """Return the path of an attention or a layer of which nothing at all is used."""
    idle, parts = set(names), dict(exam.modules)
    path = names[0].rpartition(".")[0].rpartition(".")[0]
    own = [f"{path}.{name}" for name, _ in parts[path].named_parameters()]
    several = len(list(parts[path].children())) > 1
    return path if path and several and idle.issuperset(own) else None


def twice_called(exam, module) -> str:
    """Return the sibling of an idle layer that runs twice: a slip of the pen."""
    count = {}
    for step in exam.flow.steps:
        if step.op == "linear" and not step.row.depth:
            count[step.row.module] = count.get(step.row.module, 0) + 1
    parent = module.rpartition(".")[0]
    twice = [m for m, n in count.items() if n > 1 and m.rpartition(".")[0] == parent]
    calls = min(count.values(), default=0)
    return next((m for m in twice if count[m] > calls), "")


def kind_of_unused(exam, names) -> str:
    parts = dict(exam.modules)
    owner = parts.get(names[0].rpartition(".")[0])
    parameter = dict(exam.root.named_parameters())[names[0]]
    if isinstance(owner, nn.MultiheadAttention):
        return "registration / sharing"
    if (
        isinstance(owner, nn.Embedding)
        or parameter.squeeze().dim() >= 2
        and (not isinstance(owner, nn.Linear))
    ):
        return "positional encoding"
    if isinstance(owner, nn.Linear):
        return "projections"
    return "norm / residual / FFN"


DISCARDED = {
    "masked_fill": "mask meaning",
    "layer_norm": "norm / residual / FFN",
    "add": "norm / residual / FFN",
    "transpose": "batch/sequence layout",
    "permute": "batch/sequence layout",
    "dropout": "train/eval and fast path",
    "relu": "norm / residual / FFN",
    "gelu": "norm / residual / FFN",
    "linear": "norm / residual / FFN",
}


@probe("run", "output")
def discarded_results(exam):
    """Is everything that is computed used?"""
    for step in unused_steps(exam):
        kind = DISCARDED.get(step.op)
        if kind is None:
            continue
        if step.op == "add" and is_table_sum(exam, step):
            kind = "positional encoding"
        if step.op == "linear" and not after_attention(exam, step):
            kind = "projections"
        title = f"The result of {step.op} is thrown away"
        evidence = f"{size(step.outputs[0])} is computed, and nothing uses it"
        fix = "assign it: x = ..."
        yield found(kind, "fault", title, evidence, fix, step.row)
        return


# --- positions -----------------------------------------------------------------------


@probe("run", "numbers", "sequence")
def positions(exam):
    """Does the table of positions tell positions apart, along the axis of tokens?"""
    placed = any(t.token_axis in t.axes_that_vary() for t in tables(exam))
    for table in tables(exam):
        varies = table.axes_that_vary()
        if placed and not varies:
            continue  # a kind of token, a bias: something else tells positions apart
        severity, row = "fault", table.step.row
        if table.is_zero:
            said = "The table of positions is zero", "all that is added is 0", "fill it"
            severity = "note" if table.learnt else "fault"
        elif not varies:
            evidence = f"what is added, {size(table.added)}, does not vary over tokens"
            said = "Every token gets the same position", evidence, "look up arange(T)"
        elif table.token_axis is not None and table.token_axis not in varies:
            title = "Positions vary along the batch, not the tokens"
            evidence = f"{size(table.added)} is added to {size(table.step.outputs[0])}"
            said = title, evidence, "slice and broadcast along the axis of tokens"
        else:
            said = misshapen_waves(table)
        if said:
            yield found("positional encoding", severity, *said, row)


@probe("run", "root", "numbers", "sequence", "attentions", "output", costly=True)
def idle_table(exam):
    """Does the order of tokens matter, where a table of positions is held?"""
    tensor = unread_table(exam)
    if tensor is None or tables(exam) or not blind_to_order(exam):
        return
    title = "A table of positions is held, and the order of tokens makes no difference"
    evidence = f"no step reads {size(tensor)}; shuffled tokens give shuffled outputs"
    fix = "x + table[: x.shape[1]], and return the sum"
    yield found("positional encoding", "warning", title, evidence, fix)


@probe("run", "numbers", "sequence")
def positions_and_words(exam):
    """Are positions as large as what they are added to, and fixed if they are waves?"""
    kind = "positional encoding"
    for table in tables(exam):
        words = table.step.value.float() - table.added.float()
        ratio = (table.added.float().std() / words.std()).item()
        if 10 < ratio < math.inf:
            title = "Positions drown the tokens"
            evidence = f"what is added is {ratio:.3g} times as large as the embeddings"
            fix = "multiply the embeddings by sqrt(d_model), or start them larger"
            yield found(kind, "warning", title, evidence, fix, table.step.row)
        if ratio < 0.2 and not table.is_zero and not table.learnt:
            title = "Tokens drown their positions"
            evidence = f"the embeddings are {1 / ratio:.3g} times as large as positions"
            fix = "start embeddings with std d_model**-0.5, or leave out sqrt(d_model)"
            yield found(kind, "warning", title, evidence, fix, table.step.row)
        first = [] if table.rows is None else table.rows[0].unique().tolist()
        if table.learnt and first == [0, 1]:
            title, fix = "A table of sines and cosines is trained", "register_buffer"
            evidence = f"{size(table.rows)} is a parameter, and starts as waves"
            yield found(kind, "warning", title, evidence, fix, table.step.row)


@probe("run", "numbers", "sequence", "attentions", costly=True)
def rotations(exam):
    """Do rotated queries and keys see only the distance between tokens?"""
    attention = rotated(exam)
    if attention is None or not rows_differ(attention.query):
        return
    if attention.query.shape[-2] != attention.key.shape[-2]:
        return
    products = attention.query.float() @ attention.key.float().transpose(-2, -1)
    shifted = differ(products[..., 1:, 1:], products[..., :-1, :-1], 1e-3)
    kind, row = "positional encoding", (attention.product or attention.step).row
    if shifted.any():
        title = "Rotations do not cancel: scores depend on where a pair stands"
        evidence = "with all tokens equal, scores should depend on the distance alone"
        fix = "rotate queries and keys by the same angles, in the same direction"
        yield found(kind, "fault", title, evidence, fix, row)
    elif attention.value is not None and rows_differ(attention.value):
        title = "Values are rotated too"
        evidence = "with all tokens equal, values differ between positions"
        yield found(
            kind, "warning", title, evidence, "rotate queries and keys only", row
        )


@probe("run", "sequence")
def positions_of_ids(exam):
    """Are positions looked up by place and not by token?"""
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        made = [exam.flow.producer(t, step.index) for t in tensors]
        looked_up = len(made) == 2 and all(m and m.op == "embedding" for m in made)
        if looked_up and torch.equal(made[0].inputs[0], made[1].inputs[0]):
            title = "Two tables are looked up with the same ids, and added"
            evidence = "if one holds positions, every token has that of its id"
            fix, kind = "look positions up with arange(T)", "positional encoding"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


def misshapen_waves(table):
    """Check a fixed table as sines and cosines: (title, evidence, fix), or None."""
    if table.learnt or table.rows is None or len(table.rows) < 4:
        return None
    checks = wrong_frequencies, unlike_neighbours, equal_columns
    return next(filter(None, (check(table.rows.double()) for check in checks)), None)


def wrong_frequencies(rows):
    """Compare the frequencies of the sines with a geometric fall from 1."""
    width = rows.shape[1]
    sines = [c for c in range(width) if abs(rows[0, c]) < 1e-6 and rows[:, c].any()]
    ones = [c for c in range(width) if abs(rows[0, c] - 1) < 1e-6]
    if len(sines) < 3 or len(sines) + len(ones) < 0.9 * width:
        return None
    steps = rows[1, sines].clamp(-1, 1).asin()
    aliased = (rows[2, sines] - (2 * steps).sin()).abs() > 1e-3
    fix = "position * exp(arange(0, d, 2) * (-log(10000) / d))"
    if aliased.float().mean() > 0.3:
        share = f"{int(aliased.sum())} of {len(sines)} sines turn more than a quarter"
        return "Frequencies rise instead of falling", share + " per position", fix
    if not ones:
        return "The table has sines only", f"row 0 is 0 in all {width} columns", fix
    base = (steps[0] / steps[-1]).item() ** (len(sines) / (len(sines) - 1))
    if not 1e3 <= base <= 2e6 and (steps > 0).all():
        flat = int((rows.std(0) < 1e-2).sum())
        said = f"from {steps[0]:.2g} to {steps[-1]:.2g} per position, as of base "
        said += f"{base:.2g}, not 10000; {flat} of {width} columns hardly change"
        return "Frequencies fall at the wrong rate", said, fix
    return None


def unlike_neighbours(rows):
    """Positions that are near should look more alike than positions far apart."""
    half = len(rows) // 2
    near = torch.cosine_similarity(rows[:-1], rows[1:]).mean().item()
    far = torch.cosine_similarity(rows[:-half], rows[half:]).mean().item()
    if near < 0.5 and near < far + 0.3:
        said = f"neighbours have cosine {near:.2f}, positions {half} apart {far:.2f}"
        return "Neighbouring positions look unrelated", said, "position * div_term"
    return None


def equal_columns(rows):
    pairs = [(c, c + 1) for c in range(0, rows.shape[1] - 1, 2)]
    moving = [(a, b) for a, b in pairs if rows[:, a].std() > 1e-3]
    equal = [(a, b) for a, b in moving if torch.allclose(rows[:, a], rows[:, b])]
    if len(equal) > len(pairs) // 2:
        said = f"{len(equal)} of {len(pairs)} pairs of columns are equal"
        return "Sines and cosines are the same", said, "sin in 0::2, cos in 1::2"
    return None


# --- norm, residual, feed-forward ----------------------------------------------------


@probe("run")
def doubled_stream(exam):
    """Does each addition join two different things?"""
    kind, fix = "norm / residual / FFN", "keep the block's input: x = x + f(x)"
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        if len(tensors) < 2 or tensors[0].dim() < 2:
            continue
        if tensors[0] is tensors[1]:
            title = "A tensor is added to itself where the residual should join"
            evidence = f"both sides of the sum are the same {size(tensors[0])}"
            yield found(kind, "fault", title, evidence, fix, step.row)
            return
        leaves = summands(exam, step)
        if any(leaves.count(leaf) > 1 for leaf in leaves):
            title = "The same stream joins twice in one sum"
            evidence = f"{len(leaves)} summands, {len(set(leaves))} of them different"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


def summands(exam, step) -> list[int]:
    """Return what a sum of sums adds up, by identity."""
    leaves = []
    for tensor in step.inputs[:2]:
        made = exam.flow.producer(tensor, step.index)
        while made is not None and made.op == "dropout":
            tensor = made.inputs[0]
            made = exam.flow.producer(tensor, made.index)
        nested = made is not None and made.op == "add" and len(made.inputs) > 1
        leaves += summands(exam, made) if nested else [id(tensor)]
    return leaves


@probe("run", "numbers", "root")
def home_made_norms(exam):
    """Does each home-made norm normalise each token by itself?"""
    kind, fix = "norm / residual / FFN", "(x - mean) / sqrt(variance + eps), last axis"
    for path, module in norm_like(exam):
        said = ill_normed(module)
        if said:
            severity, what, evidence = said
            if severity == "warning" and exam.pads is not None:
                severity = "fault"  # then padding enters the statistics
            title = f"{path or type(module).__name__} {what}"
            kind = "nan / precision" if "zero" in what else kind
            row = next((s.row for s in exam.flow.steps if s.row.module == path), None)
            yield found(kind, severity, title, evidence, fix, row)


def ill_normed(module):
    """Try a norm on random tokens: (severity, what it does, evidence) or None."""
    reseed(3)
    gain = next(module.parameters())
    x = torch.randn(2, 5, gain.numel()).to(gain)
    with torch.no_grad():
        y, larger, level = module(x), module(x * 10), module(torch.ones_like(x))
        x[:, 0] += 3 * torch.randn_like(x[:, 0])
        moved = differ(module(x)[:, 1:], y[:, 1:]).any()
    if moved:
        what = "takes its statistics over tokens, not over features"
        return "warning", what, "a change of token 0 moves the output of the others"
    grows = (larger.std(-1) / y.std(-1)).mean().item()
    if not 0.9 < grows < 1.1:
        spread = y.std(-1, unbiased=False)
        evidence = f"input 10 times as large makes output {grows:.3g} times as large, "
        evidence += (
            f"and tokens have a spread of {spread.min():.2g} ... {spread.max():.2g}"
        )
        return "fault", "does not normalise", evidence
    if not level.isfinite().all():
        evidence = "a token whose features are all 1 comes out as nan"
        return "warning", "divides by zero where a token has no spread", evidence
    return None


@probe("run")
def norms_over_tokens(exam):
    """Are statistics taken over the features of one token?"""
    kind, fix = "norm / residual / FFN", "nn.LayerNorm(d_model)"
    severity = "fault" if exam.pads is not None else "warning"
    for step in exam.flow.steps:
        rank = step.inputs[0].dim() if step.inputs else 0
        shape = size(step.inputs[0]) if step.inputs else ""
        if step.op == "batch_norm" and rank == 3:
            title = "Batch norm over tokens: padding and other samples count"
            evidence = f"in training its statistics are over batch and time of {shape}"
        elif step.op == "layer_norm" and len(step.given(1, "normalized_shape", ())) > 1:
            title = "A layer norm over several axes: tokens mix"
            evidence = f"it normalises {tuple(step.given(1, 'normalized_shape'))}"
        elif step.op in ("instance_norm", "group_norm") and rank == 3:
            title, evidence = f"{step.op} takes statistics over tokens", f"of {shape}"
        else:
            continue
        yield found(kind, severity, title, evidence, fix, step.row)
        return


@probe("run", "attentions", "sequence")
def residual_paths(exam):
    """Is there a way around each attention and each feed-forward?"""
    if exam.has("norm / residual / FFN"):
        return
    for what, step, stream in branches(exam):
        if not way_around(exam, step, stream):
            title = f"There is no residual around {what}"
            evidence = f"nothing of {size(stream)} reaches the output but through it"
            fix = "x = x + f(x)"
            kind = "norm / residual / FFN"
            yield found(kind, "warning", title, evidence, fix, step.row)
            return


@probe("run")
def linear_on_linear(exam):
    """Is there an activation inside each feed-forward?"""
    for step in exam.flow.steps:
        if step.op != "linear" or step.inputs[0].dim() < 3:
            continue
        before = exam.flow.back(
            step.inputs[0], step.index, lambda s: s.op == "linear", {"dropout"}
        )
        if before is None or before[-1].row.note or step.row.note:
            continue
        wide, narrow = before[-1].inputs[1], step.inputs[1]
        if wide.shape[0] > wide.shape[1] and narrow.shape[0] == wide.shape[1]:
            title = "The feed-forward has no activation: two maps are one map"
            evidence = f"{size(wide)} and {size(narrow)} follow each other directly"
            fix = "put a ReLU or GELU between them"
            yield found(
                "norm / residual / FFN", "fault", title, evidence, fix, step.row
            )
            return


@probe("run", "root")
def shared_norms(exam):
    """Has each place of a block its own norm?"""
    calls = {}
    for step in exam.flow.steps:
        if step.op == "layer_norm" and step.row.module:
            calls.setdefault(step.row.module, []).append(step)
    for path, steps in calls.items():
        lines = {s.row.line for s in steps}
        if len(steps) > 1 and len(lines) > 1:
            title = f"{path} is used in {len(lines)} places"
            evidence = f"lines {', '.join(map(str, sorted(lines)))} share its weights"
            fix = "make one norm for each place"
            kind = "norm / residual / FFN"
            yield found(kind, "warning", title, evidence, fix, steps[0].row)
            return
