"""Positions: tables, waves and rotations."""

import torch
from torch import nn

from .parts import (
    B,
    D,
    Heads,
    Layer,
    Reader,
    T,
    broken,
    right,
    sinusoids,
    tokens,
    words,
)

# --- positional encoding --------------------------------------------------------------


class Placed(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.emb, self.positions, self.layer = nn.Embedding(23, D), positions, Layer()

    def forward(self, ids):
        return self.layer(self.positions(self.emb(ids)))


@broken("positional encoding")
def every_token_at_position_0():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(30, D)

        def forward(self, x):
            return x + self.table(torch.zeros(x.shape[:2], dtype=torch.long))

    return Placed(Wrong()), (words(padded=False),), {}


class Positions(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@broken("positional encoding")
def exponent_doubled():
    return Placed(Positions(sinusoids(50, D, 2.0))), (words(padded=False),), {}


@broken("positional encoding")
def sum_with_positions_thrown_away():
    class Wrong(Placed):
        def forward(self, ids):
            x = self.emb(ids)
            self.positions(x)
            return self.layer(x)

    return Wrong(Positions(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def sines_without_cosines():
    table = sinusoids(30, D)
    table[:, 1::2] = table[:, 0::2]
    return Placed(Positions(table)), (words(padded=False),), {}


@broken("positional encoding")
def learnt_table_never_used():
    class Wrong(Reader):
        def __init__(self):
            super().__init__()
            self.positions = nn.Parameter(torch.randn(1, 30, D))

    return Wrong(), (words(),), {}


@broken("positional encoding")
def positions_times_zero():
    class Wrong(Positions):
        def forward(self, x):
            return x + 0.0 * self.table[: x.shape[1]]

    return Placed(Wrong(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def cosines_do_not_fit_an_odd_width():
    def build(d=21, n=30):
        table = torch.zeros(n, d)
        angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        return table

    return build, (), {}


@broken("positional encoding")
def positions_looked_up_by_word():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.place = nn.Embedding(23, D), nn.Embedding(30, D)
            self.layer = Layer()

        def forward(self, ids):
            return self.layer(self.emb(ids) + self.place(ids))

    return Wrong(), (words(padded=False),), {}


def rotate(x, sign):
    """Turn pairs of features by an angle that grows with the position."""
    d = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] * 100 ** -(torch.arange(0, d, 2) / d)
    (even, odd), sine = (x[..., 0::2], x[..., 1::2]), sign * angle.sin()
    pairs = even * angle.cos() - odd * sine, even * sine + odd * angle.cos()
    return torch.stack(pairs, -1).flatten(2)


@broken("positional encoding")
def keys_rotated_backwards():
    class Wrong(Heads):
        def project(self, x):
            q, k, v = super().project(x)
            return rotate(q, 1), rotate(k, -1), v

    return Layer(Wrong), (tokens(),), {}


@broken("positional encoding")
def words_drowned_by_positions():
    model = Placed(Positions(sinusoids(30, D)))
    nn.init.normal_(model.emb.weight, std=0.01)
    return model, (words(padded=False),), {}


@broken("positional encoding")
def waves_are_trained():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(sinusoids(30, D))

        def forward(self, x):
            return x + self.table[: x.shape[1]]

    return Placed(Wrong()), (words(padded=False),), {}


def rotate_rows(x):
    """Rotate the rows of the last two axes: for (B, T, H, K) those are heads."""
    return rotate(x.flatten(0, 1), 1).view(x.shape)


@broken("positional encoding")
def rotated_along_the_heads():
    class Wrong(Heads):
        def split(self, x):
            return x.view(*x.shape[:2], self.h, self.k)

        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            q, k = rotate_rows(q), rotate_rows(k)
            weights = torch.einsum("bthk,bshk->bhts", q / self.k**0.5, k).softmax(-1)
            return self.to_out(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2))

    return Layer(Wrong), (tokens(),), {}


class Covered(nn.Module):
    """Waves are added where a mask says so."""

    def __init__(self, negate):
        super().__init__()
        self.emb, self.layer, self.negate = nn.Embedding(23, D), Layer(), negate
        self.register_buffer("waves", sinusoids(T, D))

    def forward(self, ids):
        pad = ids == 0
        where = ~pad if self.negate else pad
        return self.layer(self.emb(ids) + self.waves * where[..., None], pad)


@broken("positional encoding")
def waves_at_padding_only():
    return Covered(False), (words(),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def rotated_queries_and_keys():
    class Right(Heads):
        def project(self, x):
            q, k, v = super().project(x)
            return rotate(q, 1), rotate(k, 1), v

    return Layer(Right), (tokens(),), {}


@right
def sinusoidal_positions():
    return Placed(Positions(sinusoids(40, D))), (words(padded=False),), {}


@right
def pairs_of_tables_with_kinds_of_tokens():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.kind = nn.Embedding(23, D), nn.Embedding(2, D)
            self.place, self.layer = nn.Embedding(30, D), Layer()

        def forward(self, ids):
            x = self.emb(ids) + self.place(torch.arange(ids.shape[1]))
            return self.layer(x + self.kind(torch.zeros_like(ids)))

    return Right(), (words(padded=False),), {}


@right
def waves_at_tokens_only():
    return Covered(True), (words(),), {}


@right
def counted_in_the_shape_of_the_ids():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.kind = nn.Embedding(23, D), nn.Embedding(2, D)
            self.place, self.layer = nn.Embedding(30, D), Layer()

        def forward(self, ids, kinds):
            x = self.emb(ids) + self.kind(kinds)
            return self.layer(x + self.place(torch.arange(T).expand_as(ids)))

    return Right(), (words(padded=False), torch.zeros(B, T, dtype=torch.long)), {}
