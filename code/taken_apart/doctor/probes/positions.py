"""Probes of positions: tables that are added, waves, rotations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..evidence.attentions import Attention
from ..evidence.position_tables import (
    PositionTable,
    depends_on_tokens,
    ignores_order,
    position_tables,
    rows_differ,
    since_projection,
    unread_table,
    with_equal_tokens,
)
from ..evidence.tensor_flow import Step
from ..evidence.token_changes import token_pairing
from ..exam import Exam
from ..finding import Severity
from ..numbers import differ
from .kit import Findings, Wording, dims, found, probe


@probe("run", "numbers", "sequence")
def positions(exam: Exam) -> Findings:
    """Does the table of positions tell positions apart, along the axis of tokens?"""
    placed = any(t.token_axis in t.axes_that_vary() for t in position_tables(exam))
    for table in position_tables(exam):
        varies = table.axes_that_vary()
        if not varies and (placed or not (table.is_long or table.is_zero)):
            continue  # a kind of token, a bias: something else tells positions apart
        kind, problem = "positional encoding", equal_positions(table)
        if problem is None and (problem := rounded_positions(table)):
            kind = "nan / precision"
        if problem := problem or misshapen_waves(table):
            # A table of zeros may learn to be another.
            learns = table.is_zero and table.learnt
            severity: Severity = "note" if learns else "fault"
            yield found(kind, severity, **problem, at=table.step.row)


def equal_positions(table: PositionTable) -> Wording | None:
    """Say why all tokens of a sample get the same, where they do."""
    varies = table.axes_that_vary()
    if table.is_zero:
        return Wording(
            title="The table of positions is zero",
            evidence="all that is added is 0",
            fix="fill it",
        )
    if not varies:
        return Wording(
            title="Every token gets the same position",
            evidence=f"what is added, {dims(table.added)}, does not vary over tokens",
            fix="look up arange(T)",
        )
    if table.is_of_stream and table.token_axis not in (None, *varies):
        return Wording(
            title="Positions vary along the batch, not the tokens",
            evidence=f"{dims(table.added)} is added to {dims(table.step.outputs[0])}",
            fix="slice and broadcast along the axis of tokens",
        )
    return None


def rounded_positions(table: PositionTable) -> Wording | None:
    """Say which neighbours share a position, as counting in half precision makes."""
    rows = table.added.squeeze()
    coarse = rows.is_floating_point() and torch.finfo(rows.dtype).bits < 32
    if table.learnt or rows.dim() != 2 or not coarse:
        return None
    same = int((rows[1:] == rows[:-1]).all(-1).sum())
    if not same:
        return None
    return Wording(
        title="Neighbouring positions are rounded to the same numbers",
        evidence=(
            f"{same} of {len(rows)} positions equal the one before, in {rows.dtype}"
        ),
        fix="count and take sines in float32, then convert",
    )


@probe("run", "root", "numbers", "sequence", "attentions", "output", costly=True)
def unused_table(exam: Exam) -> Findings:
    """Does the order of tokens matter, where a table of positions is held?"""
    tensor = unread_table(exam)
    if tensor is None or position_tables(exam) or not ignores_order(exam):
        return
    yield found(
        "positional encoding",
        "warning",
        title=(
            "A table of positions is held, and the order of tokens makes no difference"
        ),
        evidence=f"no step reads {dims(tensor)}; shuffled tokens give shuffled outputs",
        fix="x + table[: x.shape[1]], and return the sum",
    )


@probe("run", "attentions")
def one_row_for_all(exam: Exam) -> Findings:
    """Is more than one row read of a table that has one for each token?"""
    if exam.has("positional encoding"):
        return
    for step in exam.flow.steps:
        row, table = step.given(1, "index"), step.given(0, "input")
        if step.op != "getitem" or type(row) is not int:
            continue
        if not isinstance(table, nn.Parameter) or step.value.numel() != table.shape[-1]:
            continue
        users = exam.flow.users(step.outputs[0], step.index)
        sums = [s for s in users if s.op == "add" and s.value.dim() == 3]
        if any(1 < max(s.value.shape[:-1]) <= len(table) for s in sums):
            yield found(
                "positional encoding",
                "fault",
                title="One row of a table of positions is added to every token",
                evidence=f"row {row} of {dims(table)}, for {dims(sums[0].value)}",
                fix="table[:T], a slice, and not table[T]",
                at=step.row,
            )
            return


@probe("run", "numbers", "sequence", "padding")
def positions_of_padding(exam: Exam) -> Findings:
    """Do the tokens get the positions, and not the padding?"""
    for step in exam.flow.steps:
        tensors = step.inputs if step.op == "add" and len(step.inputs) == 2 else []
        for tensor in tensors:
            added = exam.flow.value(tensor, step.index)
            if added.shape[:2] != exam.padding.shape or added.dim() != 3:
                continue
            there = added.bool().any(-1)
            if there[exam.padding].all() and not there[~exam.padding].any():
                n_tokens = int((~exam.padding).sum())
                yield found(
                    "positional encoding",
                    "fault",
                    title="Padding gets the positions, and the tokens get none",
                    evidence=f"what is added is 0 at all {n_tokens} tokens",
                    fix="negate the mask (~mask)",
                    at=step.row,
                )
                return


@probe("run", "numbers", "sequence")
def positions_and_words(exam: Exam) -> Findings:
    """Are positions as large as what they are added to, and fixed if they are waves?"""
    for table in position_tables(exam):
        for problem in (drowned(table), trained_waves(table)):
            if problem:
                kind, row = "positional encoding", table.step.row
                yield found(kind, "warning", **problem, at=row)


def drowned(table: PositionTable) -> Wording | None:
    """Compare what is added with what it is added to."""
    words = table.step.value.float() - table.added.float()
    ratio = (table.added.float().std() / words.std()).item()
    if 10 < ratio < math.inf:
        return Wording(
            title="Positions drown the tokens",
            evidence=f"what is added is {ratio:.3g} times as large as the embeddings",
            fix="multiply the embeddings by sqrt(d_model), or start them larger",
        )
    if ratio < 0.2 and not table.is_zero and not table.learnt:
        return Wording(
            title="Tokens drown their positions",
            evidence=f"the embeddings are {1 / ratio:.3g} times as large as positions",
            fix="start embeddings with std d_model**-0.5, or leave out sqrt(d_model)",
        )
    return None


def trained_waves(table: PositionTable) -> Wording | None:
    """Say whether a parameter starts as sines and cosines: those of 0 come first."""
    if table.rows is None or not table.learnt:
        return None
    if table.rows[0].unique().tolist() != [0, 1]:
        return None
    return Wording(
        title="A table of sines and cosines is trained",
        evidence=f"{dims(table.rows)} is a parameter, and starts as waves",
        fix="register_buffer",
    )


@probe("run", "numbers", "sequence", "attentions", costly=True)
def rotations(exam: Exam) -> Findings:
    """Do rotated queries and keys see only the distance between tokens?"""
    attention = rotated_attention(exam)
    if attention is None:
        return
    kind, row = "positional encoding", (attention.product or attention.step).row
    if depends_on_place(attention.query, attention.key):
        yield found(
            kind,
            "fault",
            title="Rotations do not cancel: scores depend on where a pair stands",
            evidence=(
                "with all tokens equal, scores should depend on the distance alone"
            ),
            fix="rotate queries and keys by the same angles, in the same direction",
            at=row,
        )
    elif attention.value is not None and rows_differ(attention.value):
        yield found(
            kind,
            "warning",
            title="Values are rotated too",
            evidence="with all tokens equal, values differ between positions",
            fix="rotate queries and keys only",
            at=row,
        )


def rotated_attention(exam: Exam) -> Attention | None:
    """Return the attention of a token to itself whose queries differ by their place."""
    attention = with_equal_tokens(exam)
    if attention is None or not rows_differ(attention.query):
        return None
    same_length = attention.query.shape[-2] == attention.key.shape[-2]
    return attention if same_length else None


def depends_on_place(query: Tensor, key: Tensor) -> bool:
    """Say whether scores at equal distances differ one place further on."""
    products = query.float() @ key.float().transpose(-2, -1)
    shifted = differ(products[..., 1:, 1:], products[..., :-1, :-1], 1e-3)
    return bool(shifted.any())


@probe("run", "numbers", "sequence", "attentions", costly=True)
def rotated_axis(exam: Exam) -> Findings:
    """Do rotations turn with the tokens, and not with the heads?"""
    attention = with_equal_tokens(exam)
    if attention is None or rows_differ(attention.query):
        return
    step = rotated_elsewhere(exam)
    if step is not None:
        yield found(
            "positional encoding",
            "fault",
            title="Queries are rotated along another axis than that of the tokens",
            evidence=(
                "with all tokens equal, rotated queries are equal too; "
                f"the angles vary over an axis of {dims(step.outputs[0])}"
            ),
            fix="rotate (B, H, T, K), or give the angles an axis for heads",
            at=step.row,
        )


def rotated_elsewhere(exam: Exam) -> Step | None:
    """Return a step that multiplies queries by a table of angles, not of tokens."""
    pairing = token_pairing(exam)
    query = pairing.attention.last_step("query") if pairing else None
    for step in since_projection(exam.flow, query):
        for table in step.inputs if step.op == "mul" else ():
            if table.dim() < 2 or table.requires_grad:
                continue
            rows = table.detach().reshape(-1, table.shape[-1])
            angles = rows_differ(rows) and rows_differ(rows.T)
            if angles and not depends_on_tokens(exam, table, step.index):
                return step
    return None


@probe("run", "sequence")
def positions_of_ids(exam: Exam) -> Findings:
    """Are positions looked up by place and not by token?"""
    for step in exam.flow.steps:
        tensors = step.inputs[:2] if step.op == "add" else []
        made = [exam.flow.producer(t, step.index) for t in tensors]
        ids = [s.inputs[0] for s in made if s is not None and s.op == "embedding"]
        if len(ids) == 2 and torch.equal(ids[0], ids[1]):
            yield found(
                "positional encoding",
                "warning",
                title="Two tables are looked up with the same ids, and added",
                evidence="if one holds positions, every token has that of its id",
                fix="look positions up with arange(T)",
                at=step.row,
            )
            return


# --- waves ---------------------------------------------------------------------------

RIGHT_WAVES = "position * exp(arange(0, d, 2) * (-log(10000) / d))"


def misshapen_waves(table: PositionTable) -> Wording | None:
    """Check a fixed table as sines and cosines."""
    if table.learnt or table.rows is None or len(table.rows) < 4:
        return None
    checks = wrong_frequencies, unlike_neighbours, equal_columns
    return next(filter(None, (check(table.rows.double()) for check in checks)), None)


def wrong_frequencies(rows: Tensor) -> Wording | None:
    """Compare the frequencies of the sines with a geometric fall from 1.

    Row 0 tells sines (0) from cosines (1), row 1 holds the sines of the frequencies.
    """
    width = rows.shape[1]
    sines = [c for c in range(width) if abs(rows[0, c]) < 1e-6 and rows[:, c].any()]
    ones = [c for c in range(width) if abs(rows[0, c] - 1) < 1e-6]
    if len(sines) < 3 or len(sines) + len(ones) < 0.9 * width:
        return None
    steps = rows[1, sines].clamp(-1, 1).asin()
    # sin(2w) of row 2 is another number where the arcsine of row 1 was not w.
    aliased = (rows[2, sines] - (2 * steps).sin()).abs() > 1e-3
    if aliased.float().mean() > 0.3:
        return Wording(
            title="Frequencies rise instead of falling",
            evidence=(
                f"{int(aliased.sum())} of {len(sines)} sines turn more than a quarter "
                "per position"
            ),
            fix=RIGHT_WAVES,
        )
    if not ones:
        return Wording(
            title="The table has sines only",
            evidence=f"row 0 is 0 in all {width} columns",
            fix=RIGHT_WAVES,
        )
    return wrong_rate(rows, steps)


def wrong_rate(rows: Tensor, steps: Tensor) -> Wording | None:
    """Compare the base of the frequencies, the steps of the sines, with 10000."""
    width, n_sines = rows.shape[1], len(steps)
    base = (steps[0] / steps[-1]).item() ** (n_sines / (n_sines - 1))
    if not 1e3 <= base <= 2e6 and (steps > 0).all():
        constant = int((rows.std(0) < 1e-2).sum())
        return Wording(
            title="Frequencies fall at the wrong rate",
            evidence=(
                f"from {steps[0]:.2g} to {steps[-1]:.2g} per position, as of base "
                f"{base:.2g}, not 10000; {constant} of {width} columns hardly change"
            ),
            fix=RIGHT_WAVES,
        )
    return None


def unlike_neighbours(rows: Tensor) -> Wording | None:
    """Waves that are near should look more alike than those far apart.

    All rows of waves are as long as each other: rows of random numbers are not.
    """
    lengths, half = rows.norm(dim=1), len(rows) // 2
    if lengths.std() > 0.05 * lengths.mean():
        return None
    near = torch.cosine_similarity(rows[:-1], rows[1:]).mean().item()
    far = torch.cosine_similarity(rows[:-half], rows[half:]).mean().item()
    if near < 0.5 and near < far + 0.3:
        return Wording(
            title="Neighbouring positions look unrelated",
            evidence=(
                f"neighbours have cosine {near:.2f}, positions {half} apart {far:.2f}"
            ),
            fix="position * div_term",
        )
    return None


def equal_columns(rows: Tensor) -> Wording | None:
    """Columns stand in pairs of sine and cosine: they should differ."""
    pairs = [(c, c + 1) for c in range(0, rows.shape[1] - 1, 2)]
    moving = [(a, b) for a, b in pairs if rows[:, a].std() > 1e-3]
    equal = [(a, b) for a, b in moving if torch.allclose(rows[:, a], rows[:, b])]
    if len(equal) > len(pairs) // 2:
        return Wording(
            title="Sines and cosines are the same",
            evidence=f"{len(equal)} of {len(pairs)} pairs of columns are equal",
            fix="sin in 0::2, cos in 1::2",
        )
    return None
