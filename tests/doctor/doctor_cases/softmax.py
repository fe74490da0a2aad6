"""Softmax and the scale of scores."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .parts import D, Heads, K, Layer, broken, right, tokens

# --- softmax / scale ------------------------------------------------------------------


@broken("softmax / scale", like="scale forgotten")
def not_scaled():
    class Wrong(Heads):
        def score(self, q, k):
            return q @ k.transpose(-2, -1)

    return Layer(Wrong), (tokens(),), {}


@broken("softmax / scale")
def scaled_twice():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            out = F.scaled_dot_product_attention(q / math.sqrt(self.k), k, v)
            return self.to_out(self.merge(out))

    return Wrong(), (tokens(),), {}


@broken("softmax / scale", like="scale of the model")
def scaled_by_the_model():
    class Wrong(Heads):
        def score(self, q, k):
            return torch.einsum("bhqd,bhkd->bhqk", q, k) * D**-0.5

    return Wrong(), (tokens(),), {}


@broken("softmax / scale", like="softmax over queries")
def softmax_over_queries():
    class Wrong(Heads):
        def weigh(self, scores):
            return scores.softmax(dim=-2)

    return Layer(Wrong), (tokens(),), {}


@broken("softmax / scale")
def softmax_by_hand_over_queries():
    class Wrong(Heads):
        def weigh(self, scores):
            powers = scores.exp()
            return powers / powers.sum(-2, keepdim=True)

    return Wrong(), (tokens(),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def learnt_temperature():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            self.heat = nn.Parameter(torch.tensor(3.0))

        def score(self, q, k):
            return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT * self.heat

    return Layer(Right), (tokens(),), {}


@right
def bias_by_distance():
    class Right(Heads):
        def score(self, q, k):
            n = q.shape[-2]
            far = (torch.arange(n) - torch.arange(n)[:, None]).abs()
            slope = 2.0 ** -torch.arange(1, self.h + 1)
            return super().score(q, k) - slope[:, None, None] * far

    return Layer(Right), (tokens(),), {}


@right
def scaled_by_small_queries():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            nn.init.normal_(self.to_q.weight, std=(D * K) ** -0.5)
            nn.init.normal_(self.to_k.weight, std=D**-0.5)

        def score(self, q, k):
            return q @ k.transpose(-2, -1)

    return Layer(Right), (tokens(),), {}
