"""Right designs after public architectures, small: each must raise no alarm.

Written from the papers' descriptions in our own words, with what makes each of them
unusual kept: windows, rotations, biases, several axes of tokens, norms elsewhere.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .parts import (
    LENGTHS,
    PADDING,
    B,
    D,
    H,
    Heads,
    K,
    Layer,
    T,
    masked_mean,
    right,
    sinusoids,
    tokens,
    torch_layer,
    words,
)


class Block(nn.Module):
    """A Pre-LN layer around any attention."""

    def __init__(self, attention=Heads, norm=nn.LayerNorm):
        super().__init__()
        self.norm1, self.norm2 = norm(D), norm(D)
        self.attention = attention()
        self.mlp = nn.Sequential(nn.Linear(D, 44), nn.GELU(), nn.Linear(44, D))

    def forward(self, x, *more):
        x = x + self.attention(self.norm1(x), *more)
        return x + self.mlp(self.norm2(x))


class Stack(nn.Module):
    """Ids or features, two blocks, a norm, and what is read off the tokens."""

    def __init__(self, make=Block, places=None, read=None, ids=False):
        super().__init__()
        self.emb, self.places = (
            nn.Embedding(23, D, padding_idx=0) if ids else None,
            places,
        )
        self.blocks = nn.ModuleList(make() for _ in range(2))
        self.norm, self.read = nn.LayerNorm(D), read

    def forward(self, x, *more):
        x = x if self.emb is None else self.emb(x)
        x = x if self.places is None else self.places(x)
        for block in self.blocks:
            x = block(x, *more)
        x = self.norm(x)
        return x if self.read is None else self.read(x)


class LearntPlaces(nn.Module):
    def __init__(self, n=32):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, n, D) * 0.3)

    def forward(self, x):
        return x + self.table[:, : x.shape[1]]


# --- images --------------------------------------------------------------------------


class VisionTransformer(nn.Module):
    def __init__(self, registers=0):
        super().__init__()
        self.patch = nn.Conv2d(3, D, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, D) * 0.02)
        self.extra = nn.Parameter(torch.randn(1, registers, D) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 17, D) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        if self.extra.shape[1]:
            x = torch.cat([x, self.extra.expand(len(x), -1, -1)], 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


@right
def vision_transformer():
    return VisionTransformer(), (torch.randn(2, 3, 16, 16),), {}


@right
def vision_transformer_with_registers():
    return VisionTransformer(3), (torch.randn(2, 3, 16, 16),), {}


@right
def waves_over_a_grid_and_the_mean_of_patches():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Linear(48, D)
            rows = sinusoids(4, D // 2)
            grid = torch.cat([rows.repeat_interleave(4, 0), rows.repeat(4, 1)], 1)
            self.register_buffer("grid", grid)
            self.blocks, self.norm = nn.ModuleList([Block(), Block()]), nn.LayerNorm(D)
            self.head = nn.Linear(D, 10)

        def forward(self, images):
            x = F.unfold(images, 4, stride=4).mT
            x = self.patch(x) + self.grid
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x.mean(1)))

    return Right(), (torch.randn(2, 3, 16, 16),), {}


class WindowHeads(nn.Module):
    """Attention within windows of 4 x 4, shifted or not, with a bias by distance."""

    def __init__(self, shift=0, w=4):
        super().__init__()
        self.w, self.shift = w, shift
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.bias = nn.Parameter(torch.randn((2 * w - 1) ** 2, H) * 0.02)
        at = torch.stack(
            torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")
        )
        apart = at.flatten(1)[:, :, None] - at.flatten(1)[:, None]
        index = (apart[0] + w - 1) * (2 * w - 1) + apart[1] + w - 1
        self.register_buffer("index", index)

    def cut(self, x):
        b, h, w, d = x.shape
        x = x.view(b, h // self.w, self.w, w // self.w, self.w, d)
        return x.transpose(2, 3).reshape(-1, self.w**2, d)

    def hidden(self, h, w):
        area = torch.zeros(1, h, w, 1)
        cuts = slice(0, -self.w), slice(-self.w, -self.shift), slice(-self.shift, None)
        for i, rows in enumerate(cuts):
            for j, columns in enumerate(cuts):
                area[:, rows, columns] = 3 * i + j
        area = self.cut(area)[..., 0]
        return (area[:, None] != area[:, :, None]).float() * -100

    def forward(self, x):
        b, h, w, d = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), (1, 2)) if self.shift else x
        x = self.cut(x)
        n = len(x) // b
        q, k, v = self.qkv(x).view(len(x), -1, 3, H, K).permute(2, 0, 3, 1, 4)
        scores = q * K**-0.5 @ k.mT + self.bias[self.index].permute(2, 0, 1)
        if self.shift:
            scores = scores.view(b, n, H, self.w**2, -1) + self.hidden(h, w)[:, None]
            scores = scores.flatten(0, 1)
        x = self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x.view(b, h // self.w, w // self.w, self.w, self.w, d).transpose(2, 3)
        x = x.reshape(b, h, w, d)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x


@right
def shifted_windows():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.norm = nn.Conv2d(3, D, 2, 2), nn.LayerNorm(D)
            self.blocks = nn.ModuleList(
                Block(lambda shift=shift: WindowHeads(shift)) for shift in (0, 2)
            )
            self.merge, self.head = nn.Linear(4 * D, D), nn.Linear(D, 10)

        def forward(self, images):
            x = self.patch(images).permute(0, 2, 3, 1)
            for block in self.blocks:
                x = block(x)
            quarters = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
            x = self.merge(torch.cat(quarters, -1))
            return self.head(self.norm(x).mean((1, 2)))

    return Right(), (torch.randn(2, 3, 16, 16),), {}


@right
def keys_and_values_from_a_smaller_image():
    class Reduced(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = (
                nn.Linear(D, D),
                nn.Linear(D, 2 * D),
                nn.Linear(D, D),
            )
            self.smaller, self.norm = nn.Conv2d(D, D, 2, 2), nn.LayerNorm(D)

        def forward(self, x):
            b, n, _ = x.shape
            side = math.isqrt(n)
            small = self.smaller(x.mT.reshape(b, D, side, side)).flatten(2).mT
            k, v = self.kv(self.norm(small)).unflatten(-1, (2, H, K)).unbind(2)
            q = self.q(x).unflatten(-1, (H, K)).transpose(1, 2)
            x = F.scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2))
            return self.out(x.transpose(1, 2).flatten(2))

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, D, 7, 4, padding=3)
            self.body = Stack(lambda: Block(Reduced))
            self.head = nn.Linear(D, 10)

        def forward(self, images):
            return self.head(self.body(self.patch(images).flatten(2).mT).mean(1))

    return Right(), (torch.randn(2, 3, 16, 16),), {}


@right
def patches_replaced_by_a_learnt_one():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, D, 4, 4)
            self.unknown = nn.Parameter(torch.randn(1, 1, D) * 0.02)
            self.body, self.head = Stack(places=LearntPlaces()), nn.Linear(D, 48)

        def forward(self, images, replaced):
            x = self.patch(images).flatten(2).mT
            x = torch.where(replaced[..., None], self.unknown, x)
            return self.head(self.body(x))

    return Right(), (torch.randn(2, 3, 16, 16), torch.rand(2, 16) < 0.4), {}


@right
def channels_that_attend_to_channels():
    class CrossCovariance(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)
            self.temperature = nn.Parameter(torch.ones(H, 1, 1))

        def forward(self, x):
            q, k, v = self.qkv(x).unflatten(-1, (3, H, K)).permute(2, 0, 3, 4, 1)
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            weights = (q @ k.mT * self.temperature).softmax(-1)
            return self.out((weights @ v).permute(0, 3, 1, 2).flatten(2))

    return Stack(lambda: Block(CrossCovariance)), (tokens(),), {}


@right
def space_and_time_in_turn():
    class Divided(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.space = Heads(), Heads()
            self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
            self.mlp = nn.Sequential(nn.Linear(D, 44), nn.GELU(), nn.Linear(44, D))

        def forward(self, x):  # (B, frames, places, D)
            b, f, p, _ = x.shape
            along = self.norms[0](x).transpose(1, 2).flatten(0, 1)
            x = x + self.time(along).view(b, p, f, D).transpose(1, 2)
            x = x + self.space(self.norms[1](x).flatten(0, 1)).view(b, f, p, D)
            return x + self.mlp(self.norms[2](x))

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.blocks = nn.Conv2d(3, D, 4, 4), nn.ModuleList([Divided()])
            self.place = nn.Parameter(torch.randn(1, 1, 9, D) * 0.1)
            self.frame = nn.Parameter(torch.randn(1, 5, 1, D) * 0.1)
            self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 4)

        def forward(self, video):  # (B, frames, 3, h, w)
            x = self.patch(video.flatten(0, 1)).flatten(2).mT
            x = x.unflatten(0, video.shape[:2]) + self.place + self.frame
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x).mean((1, 2)))

    return Right(), (torch.randn(2, 5, 3, 12, 12),), {}


# --- series and sound ----------------------------------------------------------------


class Scaled(nn.Module):
    """Brings each series to one scale, and back."""

    def norm(self, x):
        self.mean, self.std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
        return (x - self.mean) / self.std

    def back(self, x):
        return x * self.std + self.mean


@right
def patches_of_each_series_with_batch_norms():
    class Transposed(nn.BatchNorm1d):
        def forward(self, x):
            return super().forward(x.mT).mT

    class PatchLayer(Layer):
        def __init__(self):
            super().__init__(norm=Transposed)

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.inp, self.head = (
                Scaled(),
                nn.Linear(8, D),
                nn.Linear(7 * D, 6),
            )
            self.pos = nn.Parameter(torch.randn(7, D) * 0.02)
            self.layers = nn.ModuleList(PatchLayer() for _ in range(2))

        def forward(self, series):  # (B, time, variables)
            x = self.scale.norm(series).mT.unfold(-1, 8, 4)  # (B, variables, 7, 8)
            b, m = x.shape[:2]
            x = self.inp(x).flatten(0, 1) + self.pos
            for layer in self.layers:
                x = layer(x)
            return self.scale.back(self.head(x.flatten(1)).view(b, m, -1).mT)

    return Right(), (torch.randn(2, 32, 3),), {}


@right
def convolutions_between_half_steps():
    class Convolved(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.inp = nn.LayerNorm(D), nn.Conv1d(D, 2 * D, 1)
            self.deep = nn.Conv1d(D, D, 3, padding=1, groups=D)
            self.batch_norm, self.out = nn.BatchNorm1d(D), nn.Conv1d(D, D, 1)

        def forward(self, x, pad):
            x = F.glu(self.inp(self.norm(x).mT), 1)
            x = self.deep(x.masked_fill(pad[:, None], 0))
            return self.out(F.silu(self.batch_norm(x))).mT

    class Conformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = (
                nn.Sequential(
                    nn.LayerNorm(D), nn.Linear(D, 44), nn.SiLU(), nn.Linear(44, D)
                )
                for _ in range(2)
            )
            self.norm, self.attention = nn.LayerNorm(D), Heads()
            self.conv, self.end = Convolved(), nn.LayerNorm(D)

        def forward(self, x, pad):
            x = x + self.first(x) / 2
            x = x + self.attention(self.norm(x), pad)
            x = x + self.conv(x, pad)
            return self.end(x + self.last(x) / 2)

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.head = nn.Linear(11, D), nn.Linear(D, 5)
            self.layers = nn.ModuleList(Conformer() for _ in range(2))
            self.register_buffer("places", sinusoids(40, D))

        def forward(self, sound, lengths):
            pad = torch.arange(sound.shape[1]) >= lengths[:, None]
            x = self.inp(sound) + self.places[: sound.shape[1]]
            for layer in self.layers:
                x = layer(x, pad)
            return self.head(masked_mean(x, pad))

    return Right(), (tokens(B, T, 11), LENGTHS), {}


@right
def positions_by_convolution():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.front = nn.Sequential(
                nn.Conv1d(1, D, 5, 3),
                nn.GroupNorm(D, D),
                nn.GELU(),
                nn.Conv1d(D, D, 3, 2),
            )
            self.norm = nn.LayerNorm(D)
            self.places = nn.Conv1d(D, D, 5, padding=2, groups=5)
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, wave):
            x = self.norm(self.front(wave[:, None]).mT)
            x = x + F.gelu(self.places(x.mT)).mT
            for layer in self.layers:
                x = layer(x)
            return x

    return Right(), (torch.randn(2, 100),), {}


@right
def a_table_of_columns_each_a_token():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.bias = (nn.Parameter(torch.randn(6, D)) for _ in range(2))
            self.kinds = nn.Embedding(12, D)
            self.register_buffer("offsets", torch.tensor([0, 4, 7]))
            self.cls = nn.Parameter(torch.randn(1, 1, D))
            self.body, self.head = Stack(), nn.Linear(D, 2)

        def forward(self, numbers, kinds):
            x = numbers[..., None] * self.weight + self.bias
            x = torch.cat([x, self.kinds(kinds + self.offsets)], 1)
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
            return self.head(F.relu(self.body(x)[:, 0]))

    return Right(), (torch.randn(4, 6), torch.randint(0, 3, (4, 3))), {}


# --- positions in attention ----------------------------------------------------------


class Rotated(Heads):
    def turn(self, x):
        angle = torch.outer(torch.arange(x.shape[-2]), 0.1 ** torch.arange(K // 2))
        cos, sin = angle.cos().repeat(1, 2), angle.sin().repeat(1, 2)
        left, right_half = x.chunk(2, -1)
        return x * cos + torch.cat([-right_half, left], -1) * sin

    def score(self, q, k):
        return super().score(self.turn(q), self.turn(k))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (
            nn.Linear(D, 44),
            nn.Linear(D, 44),
            nn.Linear(44, D),
        )

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


@right
def rotations_gates_and_root_mean_squares():
    class Modern(Block):
        def __init__(self):
            super().__init__(Rotated, nn.RMSNorm)
            self.mlp = Gated()

    return Stack(Modern, ids=True), (words(), PADDING), {}


@right
def slopes_by_distance():
    class Sloped(Heads):
        def score(self, q, k):
            apart = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
            slopes = 2.0 ** -torch.arange(1, H + 1)
            return super().score(q, k) - apart.abs() * slopes[:, None, None]

    return Stack(lambda: Block(Sloped), ids=True), (words(), PADDING), {}


@right
def one_bias_by_bucket_for_all_layers():
    class Unscaled(Heads):
        def __init__(self):
            super().__init__()
            nn.init.normal_(self.to_q.weight, std=(D * K) ** -0.5)
            nn.init.normal_(self.to_k.weight, std=D**-0.5)
            nn.init.zeros_(self.to_q.bias)

        def forward(self, x, bias):
            q, k, v = (self.split(t) for t in self.project(x))
            return self.to_out(self.merge((q @ k.mT + bias).softmax(-1) @ v))

    class Right(Stack):
        def __init__(self):
            super().__init__(lambda: Block(Unscaled, nn.RMSNorm), ids=True)
            self.buckets = nn.Embedding(8, H)

        def forward(self, ids):
            apart = torch.arange(ids.shape[1]) - torch.arange(ids.shape[1])[:, None]
            far = (apart.abs().float() + 1).log2().long().clamp(max=3)
            bias = self.buckets(far + 4 * (apart > 0)).permute(2, 0, 1)[None]
            hidden = (ids == 0)[:, None, None] * torch.finfo(bias.dtype).min
            return super().forward(ids, bias + hidden)

    return Right(), (words(),), {}


@right
def content_and_position_apart():
    class Disentangled(Heads):
        def __init__(self):
            super().__init__()
            self.apart = nn.Embedding(2 * T - 1, D)

        def forward(self, x, pad):
            q, k, v = (self.split(t) for t in self.project(x))
            q_far, k_far = (
                self.split(f(self.apart.weight[None])) for f in (self.to_q, self.to_k)
            )
            n = x.shape[1]
            index = torch.arange(n)[:, None] - torch.arange(n) + T - 1
            index = index.expand(len(x), H, n, n)
            scores = q @ k.mT + (q @ k_far.mT).gather(-1, index)
            scores = scores + (k @ q_far.mT).gather(-1, index).mT
            scores = (scores / math.sqrt(3 * K)).masked_fill(pad[:, None, None], -1e9)
            return self.to_out(self.merge(scores.softmax(-1) @ v))

    return Stack(lambda: Block(Disentangled), ids=True), (words(), PADDING), {}


@right
def distances_added_to_keys():
    class Relative(Heads):
        def __init__(self):
            super().__init__()
            self.apart = nn.Embedding(7, K)

        def score(self, q, k):
            n = q.shape[-2]
            far = (torch.arange(n)[:, None] - torch.arange(n)).clamp(-3, 3) + 3
            return (
                q @ k.mT + torch.einsum("bhqk,qsk->bhqs", q, self.apart(far))
            ) / K**0.5

    return Stack(lambda: Block(Relative), ids=True), (words(), PADDING), {}


# --- other attention -----------------------------------------------------------------


@right
def linear_attention():
    class Linear(Heads):
        def forward(self, x, pad):
            q, k, v = (self.split(t) for t in self.project(x))
            q, k = F.elu(q) + 1, (F.elu(k) + 1) * ~pad[:, None, :, None]
            total = q @ k.sum(-2)[..., None]
            return self.to_out(self.merge(q @ (k.mT @ v) / total))

    return Stack(lambda: Block(Linear), ids=True), (words(), PADDING), {}


@right
def keys_and_values_of_low_rank():
    class Short(Heads):
        def __init__(self):
            super().__init__()
            self.shorter = nn.Linear(T, 4, bias=False)

        def project(self, x):
            q, k, v = super().project(x)
            return q, self.shorter(k.mT).mT, self.shorter(v.mT).mT

    return Stack(lambda: Block(Short), LearntPlaces()), (tokens(),), {}


@right
def waves_in_place_of_attention():
    class Fourier(nn.Module):
        def forward(self, x):
            return torch.fft.fft2(x).real

    return (
        Stack(lambda: Block(Fourier), LearntPlaces(), ids=True),
        (words(padded=False),),
        {},
    )


@right
def heads_that_talk_before_and_after_the_softmax():
    class Talking(Heads):
        def __init__(self):
            super().__init__()
            self.before, self.after = nn.Linear(H, H), nn.Linear(H, H)

        def weigh(self, scores):
            scores = self.before(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            weights = scores.softmax(-1)
            return self.after(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    return Stack(lambda: Block(Talking)), (tokens(),), {}


@right
def chunks_of_neighbours():
    class Chunked(Heads):
        def forward(self, x):
            b, n, _ = x.shape
            x = F.pad(x, (0, 0, 0, -n % 4)).unflatten(1, (-1, 4)).flatten(0, 1)
            return super().forward(x).unflatten(0, (b, -1)).flatten(1, 2)[:, :n]

    return Stack(lambda: Block(Chunked), LearntPlaces()), (tokens(2, 16, D),), {}


@right
def queries_that_share_keys_in_groups():
    class Grouped(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = (
                nn.Linear(24, 24),
                nn.Linear(24, 24),
                nn.Linear(24, 24),
            )

        def forward(self, x):
            q = self.q(x).unflatten(-1, (6, 4)).transpose(1, 2)
            k, v = self.kv(x).unflatten(-1, (2, 3, 4)).permute(2, 0, 3, 1, 4)
            x = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
            return self.out(x.transpose(1, 2).flatten(2))

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.attention, self.norm = (
                nn.Linear(D, 24),
                Grouped(),
                nn.LayerNorm(24),
            )

        def forward(self, x):
            x = self.inp(x)
            return x + self.attention(self.norm(x))

    return Right(), (tokens(),), {}


@right
def normed_queries_beside_the_feed_forward():
    class Normed(Heads):
        def __init__(self):
            super().__init__()
            self.norm_q, self.norm_k = nn.LayerNorm(K), nn.LayerNorm(K)

        def score(self, q, k):
            return super().score(self.norm_q(q), self.norm_k(k))

    class Parallel(Block):
        def __init__(self):
            super().__init__(Normed)
            del self.norm2

        def forward(self, x):
            y = self.norm1(x)
            return x + self.attention(y) + self.mlp(y)

    return Stack(Parallel, LearntPlaces()), (tokens(),), {}


@right
def experts_chosen_for_each_token():
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(D, 3)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(D, 44), nn.GELU(), nn.Linear(44, D))
                for _ in range(3)
            )

        def forward(self, x):
            share, chosen = self.router(x).softmax(-1).max(-1)
            out = torch.zeros_like(x)
            for i, expert in enumerate(self.experts):
                out[chosen == i] = expert(x[chosen == i])
            return out * share[..., None]

    class Sparse(Block):
        def __init__(self):
            super().__init__()
            self.mlp = Experts()

    return Stack(Sparse), (tokens(4, 11, D),), {}


# --- sets, graphs, memories ----------------------------------------------------------


@right
def a_set_read_by_learnt_seeds():
    class Meet(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(D, H, batch_first=True)
            self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
            self.mlp = nn.Sequential(nn.Linear(D, 44), nn.ReLU(), nn.Linear(44, D))

        def forward(self, x, y, pad=None):
            x = self.norm1(x + self.attention(x, y, y, pad, need_weights=False)[0])
            return self.norm2(x + self.mlp(x))

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.head = nn.Linear(3, D), nn.Linear(D, 5)
            self.points, self.seeds = (
                nn.Parameter(torch.randn(1, n, D)) for n in (4, 2)
            )
            self.one, self.two, self.pool = Meet(), Meet(), Meet()

        def forward(self, points, pad):
            x = self.inp(points)
            summary = self.one(self.points.expand(len(x), -1, -1), x, pad)
            x = self.two(x, summary)
            return self.head(self.pool(self.seeds.expand(len(x), -1, -1), x, pad))

    return Right(), (tokens(B, T, 3), PADDING), {}


@right
def a_graph_with_distances_and_a_node_for_all():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.kinds, self.degrees = nn.Embedding(9, D), nn.Embedding(8, D)
            self.far, self.all = nn.Embedding(6, H), nn.Parameter(torch.randn(1, 1, D))
            self.to_all = nn.Parameter(torch.randn(H))
            self.layers = nn.ModuleList(
                nn.TransformerEncoderLayer(D, H, 44, 0.0, batch_first=True)
                for _ in range(2)
            )
            self.head = nn.Linear(D, 1)

        def forward(self, kinds, degrees, far):
            x = self.kinds(kinds) + self.degrees(degrees)
            x = torch.cat([self.all.expand(len(x), -1, -1), x], 1)
            n = x.shape[1]
            bias = x.new_zeros(len(x), H, n, n)
            bias[:, :, 1:, 1:] = self.far(far).permute(0, 3, 1, 2)
            bias[:, :, 0] += self.to_all[:, None]
            for layer in self.layers:
                x = layer(x, src_mask=bias.flatten(0, 1))
            return self.head(x[:, 0])

    kinds, far = torch.randint(0, 9, (B, T)), torch.randint(0, 6, (B, T, T))
    return Right(), (kinds, torch.randint(0, 8, (B, T)), far), {}


@right
def latents_that_read_and_are_read():
    class Read(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.kv, self.out = (
                nn.Linear(D, D),
                nn.Linear(D, 2 * D),
                nn.Linear(D, D),
            )
            self.norm_q, self.norm_k = nn.LayerNorm(D), nn.LayerNorm(D)

        def forward(self, x, memory):
            q = self.q(self.norm_q(x)).unflatten(-1, (H, K)).transpose(1, 2)
            k, v = self.kv(self.norm_k(memory)).chunk(2, -1)
            k, v = (t.unflatten(-1, (H, K)).transpose(1, 2) for t in (k, v))
            weights = (q @ k.mT / K**0.5).softmax(-1)
            return x + self.out((weights @ v).transpose(1, 2).flatten(2))

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(5, D) * 0.02)
            self.inp, self.read, self.think = nn.Linear(7, D), Read(), Block()
            self.place, self.write = nn.Parameter(torch.randn(9, D)), Read()
            self.query, self.head = nn.Parameter(torch.randn(1, D)), nn.Linear(D, 4)

        def forward(self, x):
            latents = self.latents.expand(len(x), -1, -1)
            latents = self.think(self.read(latents, self.inp(x) + self.place))
            return self.head(
                self.write(self.query.expand(len(x), -1, -1), latents)[:, 0]
            )

    return Right(), (tokens(3, 9, 7),), {}


# --- text ----------------------------------------------------------------------------


@right
def three_tables_and_a_pooler():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.word = nn.Embedding(23, D, padding_idx=0)
            self.place, self.kind = nn.Embedding(16, D), nn.Embedding(2, D)
            self.norm, self.drop = nn.LayerNorm(D), nn.Dropout(0.1)
            self.layers = nn.ModuleList(Layer(Additive) for _ in range(2))
            self.pooler, self.head = nn.Linear(D, D), nn.Linear(D, 2)

        def forward(self, input_ids, token_type_ids, attention_mask):
            x = self.word(input_ids) + self.kind(token_type_ids)
            x = self.drop(self.norm(x + self.place(torch.arange(x.shape[1]))))
            hidden = (1.0 - attention_mask[:, None, None].float()) * -10000.0
            for layer in self.layers:
                x = layer(x, hidden)
            return self.head(torch.tanh(self.pooler(x[:, 0])))

    class Additive(Heads):
        def mask(self, scores, hidden):
            return scores + hidden

    given = {"input_ids": words(), "attention_mask": (~PADDING).long()}
    kinds = (torch.arange(T) > 3).long().expand(B, T) * given["attention_mask"]
    return Right(), (), given | {"token_type_ids": kinds}


@right
def the_end_of_a_text_is_read():
    class CausalText(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Stack(places=LearntPlaces(), ids=True)
            self.out = nn.Linear(D, 12, bias=False)

        def forward(self, ids):
            n = ids.shape[1]
            later = torch.ones(n, n, dtype=torch.bool).triu(1)
            x = self.body(ids, later.expand(len(ids), n, n))
            return self.out(x[torch.arange(len(ids)), (ids == 22).int().argmax(-1)])

    class Causal(Heads):
        def mask(self, scores, later):
            return scores.masked_fill(later[:, None], -math.inf)

    module = CausalText()
    module.body.blocks = nn.ModuleList(Block(Causal) for _ in range(2))
    ids = torch.tensor(
        [[21, 4, 9, 8, 7, 11, 22], [21, 3, 22, 0, 0, 0, 0], [21, 5, 6, 2, 22, 0, 0]]
    )
    return module, (ids,), {}


@right
def several_texts_in_one_row():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.place = Stack(ids=True), nn.Embedding(16, D)

        def forward(self, ids, text, place):
            x = self.body.emb(ids) + self.place(place)
            for block in self.body.blocks:
                x = block(x, text[:, None] != text[:, :, None])
            return self.body.norm(x)

    class Apart(Heads):
        def mask(self, scores, apart):
            return scores.masked_fill(apart[:, None], -math.inf)

    module = Right()
    module.body.blocks = nn.ModuleList(Block(Apart) for _ in range(2))
    text = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1]])
    place = torch.tensor([[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 1]])
    return module, (torch.randint(1, 23, (2, 7)), text, place), {}


@right
def rows_without_their_padding():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.places = nn.Embedding(23, D), nn.Embedding(16, D)
            self.layers = nn.ModuleList(Layer(Packed) for _ in range(2))

        def forward(self, ids):
            real = ids != 0
            sample, place = real.nonzero().unbind(1)
            x = (self.emb(ids[real]) + self.places(place))[None]
            for layer in self.layers:
                x = layer(x, sample[:, None] != sample)
            out = x.new_zeros(*ids.shape, D)
            out[real] = x[0]
            return out

    class Packed(Heads):
        def mask(self, scores, apart):
            return scores.masked_fill(apart, -math.inf)

    return Right(), (words(),), {}


@right
def length_halved_between_layers():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.first, self.second = LearntPlaces(), Block(), Block()
            self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 3)

        def forward(self, x):
            x = self.first(self.inp(x))
            x = F.avg_pool1d(x.mT, 2).mT
            return self.head(self.norm(self.second(x))[:, 0])

    return Right(), (tokens(3, 8, D),), {}


@right
def residuals_made_larger():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.alpha = Heads(), 4**0.25
            self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
            self.mlp = nn.Sequential(nn.Linear(D, 44), nn.ReLU(), nn.Linear(44, D))

        def forward(self, x, pad=None):
            x = self.norm1(x * self.alpha + self.attention(x, pad))
            return self.norm2(x * self.alpha + self.mlp(x))

    return Stack(Deep, LearntPlaces(), ids=True), (words(), PADDING), {}


@right
def frozen_body_with_learnt_places():
    body = Stack(places=LearntPlaces(), read=lambda x: x[:, 0], ids=True)
    body.requires_grad_(False)
    return nn.Sequential(body, nn.Linear(D, 3)), (words(padded=False),), {}


@right
def torch_stack_with_a_window():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = LearntPlaces()
            self.body = nn.TransformerEncoder(
                torch_layer(norm_first=True), 2, nn.LayerNorm(D)
            )

        def forward(self, x, pad):
            n = torch.arange(x.shape[1])
            far = (n[:, None] - n).abs() > 2
            far[0] = far[:, 0] = False
            return self.body(self.inp(x), mask=far, src_key_padding_mask=pad)

    return Right(), (tokens(), PADDING), {}
