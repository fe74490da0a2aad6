"""Exercises of chapter 3: splitting and merging."""

from .exercise import Exercise, numbers


def split(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


SPLIT_HEADS = Exercise(
    name="split_heads",
    call="split_heads(x, n_heads)",
    reference=split,
    cases=lambda: {
        "three heads": (numbers(2, 5, 21), 3),
        "one head": (numbers(2, 5, 7), 1),
        "heads as wide as they are many": (numbers(2, 5, 49), 7),
    },
    mutants={
        "You reshaped straight to (B, H, T, K): cut the rows first, then move.": (
            lambda x, n: x.reshape(x.shape[0], n, x.shape[1], -1)
        ),
        "You cut and did not move: heads stand before tokens.": (
            lambda x, n: x.unflatten(-1, (n, -1))
        ),
        "You cut the row into K heads of width H.": (
            lambda x, n: split(x, x.shape[-1] // n)
        ),
        "You dealt the features out like cards; a head gets neighbours.": (
            lambda x, n: x.unflatten(-1, (-1, n)).permute(0, 3, 1, 2)
        ),
        "You moved heads in front of the batch.": (
            lambda x, n: x.unflatten(-1, (n, -1)).permute(2, 0, 1, 3)
        ),
        "You turned every head over, to (K, T).": lambda x, n: split(x, n).mT,
        "You folded the heads into the batch.": lambda x, n: split(x, n).flatten(0, 1),
        "You put the heads in the opposite order.": lambda x, n: split(x, n).flip(1),
        "You gave every head the whole row.": (
            lambda x, n: x[:, None].expand(-1, n, -1, -1)
        ),
    },
)

MERGE_HEADS = Exercise(
    name="merge_heads",
    call="merge_heads(heads)",
    reference=lambda heads: heads.transpose(1, 2).flatten(2),
    cases=lambda: {
        "three heads": (numbers(2, 3, 5, 7),),
        "one head": (numbers(2, 1, 5, 7),),
        "as many heads as tokens": (numbers(2, 5, 5, 3),),
    },
    mutants={
        "You reshaped without moving the heads back: rows of two tokens mix.": (
            lambda h: h.reshape(h.shape[0], h.shape[2], -1)
        ),
        "You moved the features in front of the heads: heads interleave.": (
            lambda h: h.permute(0, 2, 3, 1).flatten(2)
        ),
        "You joined tokens and features; heads and features go together.": (
            lambda h: h.flatten(2)
        ),
        "You moved the heads back and did not join them.": lambda h: h.transpose(1, 2),
        "You joined the heads behind one another as tokens.": lambda h: h.flatten(1, 2),
        "You added the heads up; they stand side by side.": lambda h: h.sum(dim=1),
        "You took the mean of the heads; they stand side by side.": (
            lambda h: h.mean(dim=1)
        ),
        "You put the heads in the opposite order.": (
            lambda h: h.flip(1).transpose(1, 2).flatten(2)
        ),
        "You exchanged tokens and features.": lambda h: h.transpose(1, 2).flatten(2).mT,
    },
)


def unpack(weight, n_heads, layout, rows_of_a_head=None):
    """Cut 3D rows into query, key and value, roles first or heads first."""
    if layout == "roles first":
        return weight.chunk(3)
    cut = weight.unflatten(0, (rows_of_a_head or n_heads, 3, -1))  # (H, 3, K, D)
    return tuple(cut.transpose(0, 1).flatten(1, 2))


def in_order(*order):
    return lambda *args: tuple(unpack(*args)[i] for i in order)


UNPACK = Exercise(
    name="unpack",
    call="unpack(weight, n_heads, layout)",
    reference=unpack,
    cases=lambda: {
        "roles first": (numbers(63, 21), 3, "roles first"),
        "heads first": (numbers(63, 21), 3, "heads first"),
        "one head": (numbers(21, 7), 1, "heads first"),
    },
    mutants={
        "You read both layouts as roles first.": lambda w, n, _: w.chunk(3),
        "You read both layouts as heads first.": (
            lambda w, n, _: unpack(w, n, "heads first")
        ),
        "You exchanged the two layouts.": (
            lambda w, n, layout: unpack(
                w, n, {"roles first": ""}.get(layout, "roles first")
            )
        ),
        "You exchanged query and key.": in_order(1, 0, 2),
        "You exchanged key and value.": in_order(0, 2, 1),
        "You returned the matrices in the opposite order.": in_order(2, 1, 0),
        "You turned the matrices over.": lambda *args: tuple(
            m.mT for m in unpack(*args)
        ),
        "You took every third row; a role's rows come in blocks.": (
            lambda w, n, _: (w[0::3], w[1::3], w[2::3])
        ),
        "You cut the columns; the roles lie in the rows.": (
            lambda w, n, _: w.chunk(3, dim=1)
        ),
        "You cut heads first into K heads of width H.": (
            lambda w, n, layout: unpack(w, n, layout, w.shape[1] // n)
        ),
        "You left heads and rows as two axes: flatten them.": (
            lambda w, n, layout: tuple(
                m.unflatten(0, (n, -1)) for m in unpack(w, n, layout)
            )
        ),
    },
)
