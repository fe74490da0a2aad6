"""Probes of positions: tables that are added, waves, rotations."""

import math

import torch

from ..evidence.residual_stream import (
    blind_to_order,
    hears_tokens,
    rotated,
    rows_differ,
    since_projection,
    tables,
    unread_table,
)
from ..evidence.token_changes import meeting
from ..exam import differ
from .kit import found, probe, size


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
        elif table.is_of_stream and table.token_axis not in (None, *varies):
            title = "Positions vary along the batch, not the tokens"
            evidence = f"{size(table.added)} is added to {size(table.step.outputs[0])}"
            said = title, evidence, "slice and broadcast along the axis of tokens"
        elif rows_in_common(table):
            kind = "nan / precision"
            yield found(kind, severity, *rows_in_common(table), row)
            continue
        else:
            said = misshapen_waves(table)
        if said:
            yield found("positional encoding", severity, *said, row)


def rows_in_common(table):
    """Say which neighbours share a position, as counting in half precision makes."""
    rows = table.added.squeeze()
    coarse = rows.is_floating_point() and torch.finfo(rows.dtype).bits < 32
    if table.learnt or rows.dim() != 2 or not coarse:
        return None
    same = int((rows[1:] == rows[:-1]).all(-1).sum())
    if not same:
        return None
    evidence = f"{same} of {len(rows)} positions equal the one before, in {rows.dtype}"
    fix = "count and take sines in float32, then convert"
    return "Neighbouring positions are rounded to the same numbers", evidence, fix


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


@probe("run", "numbers", "sequence", "pads")
def positions_of_padding(exam):
    """Do the tokens get the positions, and not the padding?"""
    for step in exam.flow.steps:
        tensors = step.inputs if step.op == "add" and len(step.inputs) == 2 else []
        for tensor in tensors:
            added = exam.flow.value(tensor, step.index)
            if added.shape[:2] != exam.pads.shape or added.dim() != 3:
                continue
            there = added.bool().any(-1)
            if there[exam.pads].all() and not there[~exam.pads].any():
                title = "Padding gets the positions, and the tokens get none"
                evidence = f"what is added is 0 at all {int((~exam.pads).sum())} tokens"
                kind, fix = "positional encoding", "negate the mask (~mask)"
                yield found(kind, "fault", title, evidence, fix, step.row)
                return


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
        fix = "rotate queries and keys only"
        yield found(kind, "warning", title, evidence, fix, row)


@probe("run", "numbers", "sequence", "attentions", costly=True)
def rotated_axis(exam):
    """Do rotations turn with the tokens, and not with the heads?"""
    attention = rotated(exam)
    alike = attention is not None and not rows_differ(attention.query)
    step = turned_elsewhere(exam) if alike else None
    if step is not None:
        title = "Queries are rotated along another axis than that of the tokens"
        evidence = "with all tokens equal, rotated queries are equal too; "
        evidence += f"the angles vary over an axis of {size(step.outputs[0])}"
        fix = "rotate (B, H, T, K), or give the angles an axis for heads"
        kind = "positional encoding"
        yield found(kind, "fault", title, evidence, fix, step.row)


def turned_elsewhere(exam):
    """Return a step that multiplies queries by a table of angles, not of tokens."""
    line = meeting(exam).attention.sources.get("query") or [None]
    for step in since_projection(exam.flow, line[0]):
        tables = [t for t in step.inputs if step.op == "mul" and t.dim() > 1]
        tables = [t for t in tables if not t.requires_grad]
        for table in tables:
            rows = table.detach().reshape(-1, table.shape[-1])
            angles = rows_differ(rows) and rows_differ(rows.T)
            if angles and not hears_tokens(exam, table, step.index):
                return step
    return None


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
