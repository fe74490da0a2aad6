"""Heads and projections: how they are cut, joined and made."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .parts import B, D, H, Heads, K, Layer, broken, right, tokens

# --- head split/merge -----------------------------------------------------------------


@broken("head split/merge", like="split without transpose")
def split_by_view_alone():
    class Wrong(Heads):
        def split(self, x):
            return x.view(len(x), self.h, -1, self.k)

    return Wrong(), (tokens(),), {}


@broken("head split/merge")
def fused_batch_merged_wrongly():
    class Wrong(Heads):
        def split(self, x):
            return super().split(x).reshape(-1, x.shape[1], self.k)

        def merge(self, x):
            return x.reshape(-1, x.shape[1], D)

    return Wrong(), (tokens(),), {}


@broken("head split/merge")
def fused_batch_split_wrongly():
    class Wrong(Heads):
        def split(self, x):
            return x.reshape(len(x) * self.h, x.shape[1], self.k)

        def merge(self, x):
            x = x.unflatten(0, (-1, self.h)).transpose(1, 2)
            return x.reshape(len(x), -1, D)

    return Wrong(), (tokens(),), {}


@broken("head split/merge", like="heads that do not divide")
def heads_do_not_divide():
    return Heads(D, 6), (tokens(),), {}


@broken("head split/merge")
def context_left_with_heads_in_front():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            b, t, _ = x.shape
            q, k, v = (y.view(b, t, self.h, self.k) for y in self.project(x))
            weights = torch.einsum("bthk,bshk->bhts", q / math.sqrt(self.k), k)
            context = torch.einsum("bhts,bshk->bhtk", weights.softmax(-1), v)
            return self.to_out(context.reshape(b, t, D))

    return Layer(Wrong), (tokens(),), {}


@broken("head split/merge")
def heads_gathered_in_front_and_viewed():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            gathered = x.new_zeros(self.h, *x.shape[:2], self.k)
            for i in range(self.h):
                weights = self.score(q[:, i], k[:, i]).softmax(-1)
                gathered[i] = weights @ v[:, i]
            return self.to_out(gathered.view(*x.shape[:2], -1))

    return Wrong(), (tokens(),), {}


@broken("head split/merge")
def heads_of_a_place_meet():
    class Unmoved(Heads):
        def split(self, x):
            return x.view(*x.shape[:2], self.h, self.k)

        def merge(self, x):
            return x.flatten(2)

    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.layer = nn.Conv2d(3, D, 4, 4), Layer(Unmoved)

        def forward(self, images):
            return self.layer(self.conv(images).flatten(2).transpose(1, 2)).mean(1)

    return Wrong(), (tokens(B, 3, 12, 20),), {}


@broken("head split/merge")
def weights_summed_away_by_einsum():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1)
            return self.to_out(self.merge(torch.einsum("bhqk,bhqd->bhqd", weights, v)))

    return Wrong(), (tokens(),), {}


# --- projections ----------------------------------------------------------------------


@broken("projections", like="value from key")
def key_layer_makes_the_value():
    class Wrong(Heads):
        def project(self, x):
            return self.to_q(x), self.to_k(x), self.to_k(x)

    return Layer(Wrong), (tokens(),), {}


@broken("projections")
def fused_projection_read_twice():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(D, 3 * D)
            del self.to_q, self.to_k, self.to_v

        def project(self, x):
            q, k, _ = self.qkv(x).chunk(3, dim=-1)
            return q, k, k

    return Wrong(), (tokens(),), {}


@broken("projections")
def heads_never_mixed():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.to_out = nn.Identity()

    return Layer(Wrong), (tokens(),), {}


@broken("projections")
def output_map_computed_and_not_returned():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            context = self.merge(self.weigh(self.score(q, k)) @ v)
            out = self.to_out(context)  # noqa: F841
            return context

    return Layer(Wrong), (tokens(),), {}


@broken("projections")
def projections_of_projections():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.again = nn.ModuleList(nn.Linear(D, D) for _ in range(3))

        def project(self, x):
            return (f(t) for f, t in zip(self.again, super().project(x), strict=True))

    return Wrong(), (tokens(),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def keys_and_values_shared_by_heads():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            self.to_k, self.to_v = nn.Linear(D, K), nn.Linear(D, K)

        def forward(self, x, pad=None):
            q, k, v = self.split(self.to_q(x)), self.to_k(x), self.to_v(x)
            scores = self.score(q, k[:, None])
            return self.to_out(self.merge(scores.softmax(-1) @ v[:, None]))

    return Layer(Right), (tokens(),), {}


@right
def heads_last():
    class Right(Heads):
        def forward(self, x, pad=None):
            q, k, v = (t.unflatten(-1, (self.k, self.h)) for t in self.project(x))
            scores = torch.einsum("bidh,bjdh->bijh", q, k) / math.sqrt(self.k)
            out = torch.einsum("bijh,bjdh->bidh", scores.softmax(2), v)
            return self.to_out(out.flatten(2))

    return Layer(Right), (tokens(),), {}


@right
def a_module_for_each_head():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(D, K, bias=False) for _ in range(3))

        def forward(self, x):
            scores = self.q(x) @ self.k(x).mT * K**-0.5
            return scores.softmax(-1) @ self.v(x)

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(Head() for _ in range(H))
            self.out = nn.Linear(D, D)

        def forward(self, x, pad=None):
            return self.out(torch.cat([head(x) for head in self.heads], -1))

    return Layer(Right), (tokens(),), {}


@right
def attention_among_channels():
    class Right(Heads):
        def forward(self, x, pad=None):
            b, t, _ = x.shape
            q, k, v = (
                y.view(b, t, self.h, self.k).permute(0, 2, 3, 1)
                for y in self.project(x)
            )
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            context = (q @ k.mT).softmax(-1) @ v
            return self.to_out(context.permute(0, 3, 1, 2).flatten(2))

    return Layer(Right), (tokens(),), {}


@right
def projections_of_low_rank():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            self.to_k = nn.Sequential(nn.Linear(D, 3), nn.Linear(3, D))

    return Layer(Right), (tokens(),), {}


@right
def biases_of_heads_added_to_queries():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            self.content = nn.Parameter(torch.randn(self.h, self.k))

        def forward(self, x, pad=None):
            q, k, v = (t.unflatten(-1, (self.h, -1)) for t in self.project(x))
            scores = torch.einsum("bthk,bshk->bhts", q + self.content, k)
            weights = (scores / self.k**0.5).softmax(-1)
            return self.to_out(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2))

    return Layer(Right), (tokens(),), {}
