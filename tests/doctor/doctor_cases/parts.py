"""What the cases are made of: small parts in steps, each of which a case replaces."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

Build = Callable[[], tuple]  # of (module, inputs, kwargs)


class Broken(NamedTuple):
    """A fault: its kind, how it is built, and the museum's exhibit that it is like."""

    kind: str
    build: Build
    like: str = ""


BROKEN: dict[str, Broken] = {}
RIGHT: dict[str, Build] = {}

# Sizes that cannot be confused: samples, tokens, d_model, heads, the width of a head.
B, T, D, H = 3, 7, 20, 5
K = D // H
LENGTHS = torch.tensor([7, 5, 3])
PADDING = torch.arange(T) >= LENGTHS[:, None]


def broken(kind: str, like: str = "") -> Callable[[Build], Build]:
    """Register a function that builds a broken encoder under its name."""

    def register(build: Build) -> Build:
        BROKEN[build.__name__] = Broken(kind, build, like)
        return build

    return register


def right(build: Build) -> Build:
    """Register a function that builds an encoder that is right, though unusual."""
    RIGHT[build.__name__] = build
    return build


def tokens(*shape):
    return torch.randn(*(shape or (B, T, D)))


def words(padded=True):
    ids = torch.randint(1, 23, (B, T))
    return ids.masked_fill(PADDING, 0) if padded else ids


class Heads(nn.Module):
    """Multi-head attention in steps, each of which a case replaces."""

    def __init__(self, d=D, h=H):
        super().__init__()
        self.h, self.k = h, d // h
        self.to_q, self.to_k, self.to_v = (nn.Linear(d, d) for _ in range(3))
        self.to_out = nn.Linear(d, d)

    def split(self, x):
        return x.view(*x.shape[:2], self.h, self.k).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def score(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.k)

    def mask(self, scores, pad):
        if pad is None:
            return scores
        return scores.masked_fill(pad[:, None, None, :], float("-inf"))

    def weigh(self, scores):
        return scores.softmax(-1)

    def project(self, x):
        return self.to_q(x), self.to_k(x), self.to_v(x)

    def forward(self, x, pad=None):
        q, k, v = (self.split(t) for t in self.project(x))
        weights = self.weigh(self.mask(self.score(q, k), pad))
        return self.to_out(self.merge(weights @ v))


class Layer(nn.Module):
    def __init__(self, attention=Heads, norm=nn.LayerNorm):
        super().__init__()
        self.attention = attention()
        self.norm1, self.norm2 = norm(D), norm(D)
        self.ff = nn.Sequential(nn.Linear(D, 44), nn.ReLU(), nn.Linear(44, D))

    def forward(self, x, pad=None):
        x = self.norm1(x + self.attention(x, pad))
        return self.norm2(x + self.ff(x))


class Reader(nn.Module):
    """Ids to vectors, layers, and a vector for each token or for all."""

    def __init__(self, layers=2, make=Layer, pool=None):
        super().__init__()
        self.emb = nn.Embedding(23, D)
        self.layers = nn.ModuleList(make() for _ in range(layers))
        self.pool = pool
        self.head = nn.Linear(D, 3)

    def forward(self, ids):
        pad, x = ids == 0, self.emb(ids)
        for layer in self.layers:
            x = layer(x, pad)
        return self.head(x if self.pool is None else self.pool(x, pad))


def torch_layer(**options):
    options = {"dropout": 0.0, "batch_first": True} | options
    return nn.TransformerEncoderLayer(D, H, 44, **options)


def masked_mean(x, pad):
    return (x * ~pad[..., None]).sum(1) / (~pad).sum(1, keepdim=True)


def sinusoids(n, d, exponent=1.0):
    position = torch.arange(n)[:, None].float()
    angle = position / 10000 ** (exponent * torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


class Patches(nn.Module):
    """Images cut into patches, each a token."""

    def __init__(self, patch=4):
        super().__init__()
        self.patch, self.inp = patch, nn.Linear(3 * patch**2, D)
        self.layer, self.head = Layer(), nn.Linear(D, 3)

    def cut(self, images):
        b, c, h, w = images.shape
        p = self.patch
        grid = images.reshape(b, c, h // p, p, w // p, p)
        return grid.permute(0, 2, 4, 1, 3, 5).reshape(b, -1, c * p * p)

    def forward(self, images):
        return self.head(self.layer(self.inp(self.cut(images))).mean(1))
