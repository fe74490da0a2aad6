"""Blocks: norms, residuals, feed-forwards."""

import torch
from torch import nn

from .parts import B, D, Layer, Patches, Reader, T, broken, right, tokens, words

# --- norm / residual / FFN ------------------------------------------------------------


@broken("norm / residual / FFN")
def norm_over_tokens_too():
    class Wrong(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.norm = nn.LayerNorm((T, d))

        def forward(self, x):
            return self.norm(x)

    return Layer(norm=Wrong), (tokens(),), {}


class HandMade(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gain, self.shift = (
            nn.Parameter(torch.ones(d)),
            nn.Parameter(torch.zeros(d)),
        )

    def forward(self, x):
        return self.gain * self.normal(x) + self.shift

    def normal(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return (x - mean) / (var + 1e-5).sqrt()


@broken("norm / residual / FFN")
def statistics_over_the_wrong_axis():
    class Wrong(HandMade):
        def normal(self, x):
            return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)

    return Layer(norm=Wrong), (tokens(),), {}


@broken("norm / residual / FFN", like="residual forgotten")
def no_residual():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(self.attention(x, pad))
            return self.norm2(x + self.ff(x))

    return Reader(3, Wrong), (words(),), {}


@broken("norm / residual / FFN")
def no_residual_around_the_feed_forward():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + self.attention(x, pad))
            return self.norm2(self.ff(x))

    return Reader(3, Wrong), (words(),), {}


@broken("norm / residual / FFN", like="norm over the batch")
def norm_of_the_batch():
    class Wrong(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x.transpose(1, 2)).transpose(1, 2)

    return Reader(2, lambda: Layer(norm=Wrong)), (words(),), {}


@broken("norm / residual / FFN")
def input_changed_in_place():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x += self.attention(self.norm1(x), pad)
            x += self.ff(self.norm2(x))
            return x

    return Wrong(), (tokens(),), {}


@broken("norm / residual / FFN")
def residual_from_before_the_attention():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            y = self.norm1(x + self.attention(x, pad))
            return self.norm2(x + self.ff(y))

    return Wrong(), (tokens(),), {}


@broken("norm / residual / FFN")
def norm_for_the_queries_alone():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            heads, y = self.attention, self.norm1(x)
            parts = heads.to_q(y), heads.to_k(x), heads.to_v(x)
            q, k, v = (heads.split(part) for part in parts)
            x = x + heads.to_out(heads.merge(heads.score(q, k).softmax(-1) @ v))
            return x + self.ff(self.norm2(x))

    return Wrong(), (tokens(),), {}


@broken("norm / residual / FFN")
def each_layer_reads_the_first_input():
    class Wrong(Reader):
        def forward(self, ids):
            first = x = self.emb(ids)
            for layer in self.layers:
                x = layer.norm1(x + layer.attention(first, ids == 0))
                x = layer.norm2(x + layer.ff(x))
            return self.head(x)

    return Wrong(3), (words(),), {}


@broken("norm / residual / FFN")
def norm_of_the_transposed():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.norm2 = nn.LayerNorm(T)

        def forward(self, x, pad=None):
            x = x + self.attention(self.norm1(x), pad)
            return x + self.ff(self.norm2(x.transpose(1, 2)).transpose(1, 2))

    return Wrong(), (tokens(),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def norm_by_hand():
    return Layer(norm=HandMade), (tokens() * 5,), {}


@right
def root_mean_square_norm():
    class Right(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(d))

        def forward(self, x):
            return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * self.gain

    return Layer(norm=Right), (tokens(),), {}


@right
def paths_dropped_and_small_layer_scales():
    class Right(Layer):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.full((D,), 1e-5))

        def thin(self, branch):
            keep = 0.8 if self.training else 1.0
            return self.scale * branch * (torch.rand(len(branch), 1, 1) < keep) / keep

        def forward(self, x, pad=None):
            x = x + self.thin(self.attention(self.norm1(x), pad))
            return x + self.thin(self.ff(self.norm2(x)))

    class First(Patches):
        def __init__(self):
            super().__init__()
            self.first, self.layer = nn.Parameter(torch.randn(1, 1, D)), Right()

        def forward(self, images):
            x = self.inp(self.cut(images))
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
            return self.head(self.layer(x)[:, 0])

    return First(), (tokens(B, 3, 12, 20),), {}


@right
def norm_with_casts_of_its_own():
    class Scaled(nn.Module):
        def __init__(self, d=D):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(d))

        def forward(self, x):
            y = x.float()
            y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
            return (self.gain * y).to(x.dtype)

    class Right(Layer):
        def __init__(self):
            super().__init__(norm=Scaled)

        def forward(self, x, pad=None):
            x = x + self.attention(self.norm1(x), pad)
            return x + self.ff(self.norm2(x))

    return Right(), (tokens(),), {}


@right
def gates_that_start_closed():
    class Right(Layer):
        def __init__(self):
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(()))
            del self.norm1, self.norm2

        def forward(self, x, pad=None):
            x = x + self.gate * self.attention(x, pad)
            return x + self.gate * self.ff(x)

    return Right(), (tokens(),), {}
