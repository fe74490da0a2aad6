"""Right encoders from public designs, and what the letters of a trace must mean there.

`DESIGNS[name]()` gives the module, its inputs and a `Wanted`. Sizes coincide on purpose
where a stranger's do: a patch as long as a head is wide, an image as high as the model
is wide.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Wanted(NamedTuple):
    """What a trace must say: `places` are (operation, its n-th row, axes of a shape).

    `places` tells of the output, or, where the operation starts with ">", of the first
    input. `plain` are axes of the first input that get no letter of the legend, and
    `numbers` letters that cannot vary, for the design has their number in its lines.
    """

    sizes: dict[str, int]
    places: list[tuple[str, int, tuple[str, ...]]]
    plain: set[int] = set()
    numbers: str = ""


Design = tuple[nn.Module, tuple[Any, ...], Wanted]
SQUARE = ("B", "H", "T", "T")


def split(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, H, T, K)


class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).chunk(3, dim=-1)
        query, key, value = (split(part, self.n_heads) for part in parts)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return self.out((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attention = Attention(d_model, n_heads)
        self.mlp = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Trunk(nn.Module):
    """Learned places, and two blocks."""

    def __init__(self, d_model: int, n_heads: int, n_tokens: int):
        super().__init__()
        self.places = nn.Parameter(torch.randn(n_tokens, d_model))
        self.blocks = nn.Sequential(
            *(Block(d_model, n_heads, 3 * d_model) for _ in range(2))
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks(x + self.places)


# --- Six that the tracer was wrong about: what a number equals is not what it is ------


class NormedPatches(nn.Module):
    """The first norm is over the pixels of a patch, not over the model's width."""

    def __init__(self, patch: int = 8, d_model: int = 40, n_heads: int = 5):
        super().__init__()
        pixels, self.patch = 3 * patch**2, patch
        self.norm, self.lift = nn.LayerNorm(pixels), nn.Linear(pixels, d_model)
        self.trunk = Trunk(d_model, n_heads, 24)

    def forward(self, images: Tensor) -> Tensor:
        n = self.patch
        x = images.unfold(2, n, n).unfold(3, n, n)  # (B, 3, rows, columns, n, n)
        x = x.permute(0, 2, 3, 4, 5, 1).flatten(3).flatten(1, 2)
        return self.trunk(self.lift(self.norm(x))).mean(1)


class ConvolvedPatches(nn.Module):
    def __init__(self, d_model: int = 40, n_heads: int = 5, n_tokens: int = 24):
        super().__init__()
        self.patches = nn.Conv2d(3, d_model, kernel_size=8, stride=8)
        self.trunk = Trunk(d_model, n_heads, n_tokens)

    def forward(self, images: Tensor) -> Tensor:
        return self.trunk(self.patches(images).flatten(2).mT).mean(1)


class SeriesPatches(nn.Module):
    """Each variable of (B, variables, time) is a sample of 12 patches, written so."""

    def __init__(self, patch: int = 6, d_model: int = 40, n_heads: int = 5):
        super().__init__()
        self.patch, self.lift = patch, nn.Linear(patch, d_model)
        self.trunk = Trunk(d_model, n_heads, 12)

    def forward(self, x: Tensor) -> Tensor:
        n_samples, n_variables, _ = x.shape
        x = self.lift(x.unfold(-1, self.patch, self.patch))
        x = self.trunk(x.reshape(n_samples * n_variables, 12, -1))
        return x.reshape(n_samples, n_variables, -1)


class ChannelPatches(nn.Module):
    """A token is a stretch of time in all channels."""

    def __init__(self, patch: int = 8, d_model: int = 40, n_heads: int = 5):
        super().__init__()
        self.patch, self.lift = patch, nn.Linear(3 * patch, d_model)
        self.trunk = Trunk(d_model, n_heads, 16)

    def forward(self, x: Tensor) -> Tensor:
        n_samples, n_channels, length = x.shape
        x = x.reshape(n_samples, n_channels, length // self.patch, self.patch)
        return self.trunk(self.lift(x.permute(0, 2, 3, 1).flatten(2))).mean(1)


def given(
    module: nn.Module,
    shape: tuple[int, ...],
    n_tokens: int,
    plain: set[int],
    *places: Any,
) -> Design:
    """One of the six: they share H = 5 and K = 8, or H = 4 where D is 32."""
    d_model = 32 if shape == (2, 3, 32, 32) else 40
    sizes = {"T": n_tokens, "D": d_model, "H": d_model // 8, "K": 8}
    fixed = "T" if isinstance(module, SeriesPatches) else ""
    return module, (torch.randn(shape),), Wanted(sizes, [*places], plain, fixed)


WORDS_IN = (">add", 0, ("B", "T", "D"))
SIX: dict[str, Callable[[], Design]] = {
    "patches normalised first": lambda: given(
        NormedPatches(), (2, 3, 32, 48), 24, {32, 48, 192}, ("softmax", 0, SQUARE),
        ("layer_norm", 0, ("B", "T", "192")), ("linear", 0, ("B", "T", "D")),
    ),
    "patches by convolution": lambda: given(
        ConvolvedPatches(), (2, 3, 32, 48), 24, {32, 48}, ("softmax", 0, SQUARE),
        (">conv2d", 0, ("B", "3", "32", "48")), ("conv2d", 0, ("B", "D", "4", "6")),
    ),
    "patches by convolution, D as high as the image": lambda: given(
        ConvolvedPatches(32, 4, 16), (2, 3, 32, 32), 16, set(), ("softmax", 0, SQUARE),
        (">conv2d", 0, ("B", "3", "32", "32")), ("conv2d", 0, ("B", "D", "4", "4")),
    ),
    "patches of each variable": lambda: given(
        SeriesPatches(), (2, 7, 72), 12, {7, 72},
        ("softmax", 0, ("7*B", "H", "T", "T")), (">unfold", 0, ("B", "7", "72")),
    ),
    "patches of all channels": lambda: given(
        ChannelPatches(), (2, 3, 128), 16, {3, 128}, ("softmax", 0, SQUARE),
    ),
    "embedded words": lambda: given(
        Trunk(40, 5, 11), (2, 11, 40), 11, set(), ("softmax", 0, SQUARE), WORDS_IN,
    ),
}  # fmt: skip


# --- Ten more, their letters written down before the tracer saw them ------------------


class VisionTransformer(nn.Module):
    """A class token in front of 6 x 8 patches: attention is between 49 tokens."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 36, kernel_size=4, stride=4)
        self.cls = nn.Parameter(torch.randn(1, 1, 36))
        self.places = nn.Parameter(torch.randn(1, 49, 36))
        self.blocks = nn.ModuleList([Block(36, 3, 72) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(36), nn.Linear(36, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def vision_transformer() -> Design:
    wanted = Wanted(
        {"T": 49, "D": 36, "H": 3, "K": 12, "F": 72},
        [
            ("softmax", 0, SQUARE),
            ("softmax", 1, SQUARE),
            (">conv2d", 0, ("B", "3", "24", "32")),
            ("layer_norm", 0, ("B", "T", "D")),
            ("gelu", 0, ("B", "T", "F")),
            ("linear", 8, ("B", "10")),
        ],
        {3, 24, 32},
    )
    return VisionTransformer(), (torch.randn(2, 3, 24, 32),), wanted


class PatchSeries(nn.Module):
    """Overlapping patches of every variable apart, batch norm over the width."""

    def __init__(self):
        super().__init__()
        self.lift, self.places = nn.Linear(12, 32), nn.Parameter(torch.randn(15, 32))
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.norm, self.head = nn.BatchNorm1d(32), nn.Linear(15 * 32, 24)

    def forward(self, x: Tensor) -> Tensor:
        n_samples, _, n_variables = x.shape  # (B, time, variables)
        x = x.transpose(1, 2).unfold(-1, 12, 6).flatten(0, 1)
        x = self.lift(x) + self.places
        query, key, value = (split(part, 4) for part in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x = self.head(x.flatten(1)).unflatten(0, (n_samples, n_variables))
        return x.transpose(1, 2)


def patch_series() -> Design:
    wanted = Wanted(
        {"T": 15, "D": 32, "H": 4, "K": 8},
        [
            ("scaled_dot_product_attention", 0, ("7*B", "H", "T", "K")),
            ("linear", 0, ("7*B", "T", "D")),
            (">transpose", 0, ("B", "96", "7")),
            ("batch_norm", 0, ("7*B", "D", "T")),
        ],
        {7, 96},
        "H",
    )
    return PatchSeries(), (torch.randn(2, 96, 7),), wanted


class Windows(nn.Module):
    """Attention in shifted windows of 4 x 4, with a table of relative places."""

    def __init__(self):
        super().__init__()
        self.window, self.num_heads = 4, 3
        self.norm, self.qkv = nn.LayerNorm(24), nn.Linear(24, 72)
        self.proj, self.table = nn.Linear(24, 24), nn.Parameter(torch.randn(49, 3))
        at = torch.stack(
            torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
        )
        apart = (at.flatten(1)[:, :, None] - at.flatten(1)[:, None]) + 3
        self.register_buffer("apart", apart[0] * 7 + apart[1])

    def forward(self, x: Tensor) -> Tensor:
        n_samples, height, width, d_model = x.shape
        n, skip = self.window, x
        x = torch.roll(self.norm(x), (-2, -2), (1, 2))
        x = x.view(n_samples, height // n, n, width // n, n, d_model)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, n * n, d_model)
        qkv = self.qkv(x).reshape(len(x), n * n, 3, self.num_heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1)
        bias = self.table[self.apart.view(-1)].view(n * n, n * n, -1)
        weights = (scores + bias.permute(2, 0, 1)[None]).softmax(dim=-1)
        x = self.proj((weights @ value).transpose(1, 2).reshape(len(x), n * n, d_model))
        x = x.view(n_samples, height // n, width // n, n, n, d_model)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(n_samples, height, width, d_model)
        return skip + torch.roll(x, (2, 2), (1, 2))


def windows() -> Design:
    wanted = Wanted(
        {"T": 16, "D": 24, "H": 3, "K": 8},
        [
            ("softmax", 0, ("15*B", "H", "T", "T")),
            ("linear", 1, ("15*B", "T", "D")),
            ("layer_norm", 0, ("B", "12", "20", "D")),
        ],
        {12, 20},
        "T",
    )
    return Windows(), (torch.randn(2, 12, 20, 24),), wanted


class Einsums(nn.Module):
    """Attention by einsum, heads that together are wider than the model."""

    def __init__(self):
        super().__init__()
        self.heads, self.scale = 3, 16**-0.5
        self.norm = nn.LayerNorm(40)
        self.to_qkv = nn.Linear(40, 3 * 48, bias=False)
        self.to_out = nn.Linear(48, 40)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.to_qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (part.reshape(*x.shape[:2], self.heads, -1) for part in parts)
        dots = torch.einsum("bihd,bjhd->bhij", q, k) * self.scale
        out = torch.einsum("bhij,bjhd->bihd", dots.softmax(dim=-1), v)
        return x + self.to_out(out.flatten(2))


def einsums() -> Design:
    wanted = Wanted(
        {"T": 13, "D": 40, "H": 3, "K": 16},
        [
            ("softmax", 0, SQUARE),
            ("einsum", 0, SQUARE),
            ("einsum", 1, ("B", "T", "H", "K")),
            ("flatten", 0, ("B", "T", "H*K")),
            ("linear", 1, ("B", "T", "D")),
        ],
    )
    return Einsums(), (torch.randn(2, 13, 40),), wanted


class Rotary(nn.Module):
    """Ids, rotated queries and keys, angles from a table that is longer than needed."""

    def __init__(self):
        super().__init__()
        self.embed, self.n_head = nn.Embedding(101, 48), 4
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(48, 48) for _ in range(4))
        self.up, self.down = nn.Linear(48, 96), nn.Linear(96, 48)
        rates = 10_000 ** (-torch.arange(6) / 6)
        angles = torch.arange(64)[:, None] * rates
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def turn(self, x: Tensor) -> Tensor:
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        query, key, value = (
            split(w(x), self.n_head) for w in (self.wq, self.wk, self.wv)
        )
        scores = self.turn(query) @ self.turn(key).mT / 12**0.5
        x = x + self.wo((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))
        return x + self.down(functional.silu(self.up(x)))


def rotary() -> Design:
    wanted = Wanted(
        {"T": 11, "D": 48, "H": 4, "K": 12, "F": 96, "V": 101},
        [
            ("softmax", 0, SQUARE),
            ("embedding", 0, ("B", "T", "D")),
            ("chunk", 0, ("B", "H", "T", "K/2")),
            ("silu", 0, ("B", "T", "F")),
        ],
    )
    return Rotary(), (torch.randint(101, (3, 11)),), wanted


class GroupedQueries(nn.Module):
    """Six heads ask, two answer: keys and values are shared by groups of three."""

    def __init__(self):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = 6, 2, 8
        self.q_proj, self.kv_proj = nn.Linear(48, 48), nn.Linear(48, 32)
        self.o_proj = nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        n_samples, n_tokens, _ = x.shape
        query = self.q_proj(x).view(n_samples, n_tokens, self.num_heads, -1)
        key, value = self.kv_proj(x).chunk(2, dim=-1)
        key, value = (
            y.view(n_samples, n_tokens, self.num_kv_heads, -1) for y in (key, value)
        )
        key, value = (
            y.repeat_interleave(3, dim=2).transpose(1, 2) for y in (key, value)
        )
        scores = query.transpose(1, 2) @ key.mT * self.head_dim**-0.5
        mixed = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.o_proj(mixed.reshape(n_samples, n_tokens, -1))


def grouped_queries() -> Design:
    wanted = Wanted(
        {"T": 10, "D": 48, "H": 6, "K": 8},
        [
            ("softmax", 0, SQUARE),
            ("linear", 0, ("B", "T", "D")),
            ("matmul", 1, ("B", "H", "T", "K")),
        ],
        numbers="H",
    )
    return GroupedQueries(), (torch.randn(3, 10, 48),), wanted


class Perceiver(nn.Module):
    """Twelve latents look at 35 inputs of 20 channels, then at one another."""

    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(12, 32))
        self.to_q, self.to_kv = nn.Linear(32, 32), nn.Linear(20, 64)
        self.to_out, self.among = nn.Linear(32, 32), Block(32, 4, 128)

    def forward(self, data: Tensor) -> Tensor:
        x = self.latents.expand(len(data), -1, -1)
        key, value = (split(part, 4) for part in self.to_kv(data).chunk(2, dim=-1))
        weights = (split(self.to_q(x), 4) @ key.mT / 8**0.5).softmax(-1)
        x = x + self.to_out((weights @ value).transpose(1, 2).flatten(2))
        return self.among(x)


def perceiver() -> Design:
    wanted = Wanted(
        {"T": 12, "Tk": 35, "D": 32, "H": 4, "K": 8, "F": 128},
        [
            ("softmax", 0, ("B", "H", "T", "Tk")),
            ("softmax", 1, SQUARE),
            (">linear", 0, ("B", "Tk", "20")),
            ("gelu", 0, ("B", "T", "F")),
        ],
        {20},
        "H",
    )
    return Perceiver(), (torch.randn(2, 35, 20),), wanted


class TorchAttention(nn.Module):
    """torch's own attention, weights asked for, between norms that come behind."""

    def __init__(self):
        super().__init__()
        self.mha = nn.MultiheadAttention(30, 5, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(30), nn.LayerNorm(30)
        self.fc1, self.fc2 = nn.Linear(30, 60), nn.Linear(60, 30)

    def forward(self, x: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
        mixed, weights = self.mha(
            x, x, x, padding, need_weights=True, average_attn_weights=False
        )
        x = self.norm1(x + mixed)
        return self.norm2(x + self.fc2(self.fc1(x).relu())), weights


def torch_attention() -> Design:
    wanted = Wanted(
        {"T": 9, "D": 30, "H": 5, "K": 6, "F": 60},
        [
            ("softmax", 0, SQUARE),
            ("multi_head_attention_forward", 0, ("T", "B", "D")),
            ("relu", 0, ("B", "T", "F")),
            ("layer_norm", 1, ("B", "T", "D")),
        ],
    )
    padding = torch.arange(9) >= torch.tensor([[9], [6]])
    return TorchAttention(), (torch.randn(2, 9, 30), padding), wanted


class TorchEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(24, 4, 44, batch_first=True)
        self.words, self.places = nn.Embedding(57, 24), nn.Embedding(32, 24)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        at = torch.arange(ids.shape[1], device=ids.device)
        x = self.words(ids) + self.places(at)
        return self.encoder(x, src_key_padding_mask=mask == 0)


def torch_encoder() -> Design:
    wanted = Wanted(
        {"T": 10, "D": 24, "H": 4, "K": 6, "F": 44, "V": 57},
        [
            ("softmax", 1, SQUARE),
            ("embedding", 0, ("B", "T", "D")),
            ("embedding", 1, ("T", "D")),
            ("layer_norm", 3, ("B", "T", "D")),
        ],
    )
    mask = (torch.arange(10) < torch.tensor([[10], [7], [4]])).long()
    return TorchEncoder(), (torch.randint(57, (3, 10)), mask), wanted


class Conformer(nn.Module):
    """Subsampled frames; half a feed-forward, attention, convolution, a half again."""

    def __init__(self):
        super().__init__()
        self.subsample = nn.Conv1d(20, 32, kernel_size=3, stride=2, padding=1)
        self.first, self.last = self.feed_forward(), self.feed_forward()
        self.norm, self.attention = nn.LayerNorm(32), Attention(32, 4)
        self.norm_conv, self.norm_out = nn.LayerNorm(32), nn.LayerNorm(32)
        self.widen, self.narrow = nn.Conv1d(32, 64, 1), nn.Conv1d(32, 32, 1)
        self.depthwise = nn.Conv1d(32, 32, 7, padding=3, groups=32)
        self.batch_norm = nn.BatchNorm1d(32)

    def feed_forward(self) -> nn.Sequential:
        return nn.Sequential(
            nn.LayerNorm(32), nn.Linear(32, 128), nn.SiLU(), nn.Linear(128, 32)
        )

    def convolve(self, x: Tensor) -> Tensor:
        x = functional.glu(self.widen(self.norm_conv(x).mT), dim=1)  # (B, D, T)
        return self.narrow(functional.silu(self.batch_norm(self.depthwise(x)))).mT

    def forward(self, frames: Tensor) -> Tensor:
        x = self.subsample(frames.transpose(1, 2)).transpose(1, 2)
        x = x + self.first(x) / 2
        x = x + self.attention(self.norm(x))
        x = x + self.convolve(x)
        return self.norm_out(x + self.last(x) / 2)


def conformer() -> Design:
    wanted = Wanted(
        {"T": 25, "D": 32, "H": 4, "K": 8, "F": 128},
        [
            ("softmax", 0, SQUARE),
            (">transpose", 0, ("B", "50", "20")),
            ("conv1d", 0, ("B", "D", "T")),
            # Nothing but its own weights says how wide the inside of that part is.
            ("glu", 0, ("B", "32", "T")),
            ("silu", 0, ("B", "T", "F")),
            ("batch_norm", 0, ("B", "32", "T")),
        ],
        {20, 50},
    )
    return Conformer(), (torch.randn(2, 50, 20),), wanted


TEN: dict[str, Callable[[], Design]] = {
    "vision transformer": vision_transformer,
    "patch time series": patch_series,
    "shifted windows": windows,
    "einsums, heads wider than the model": einsums,
    "rotary": rotary,
    "grouped queries": grouped_queries,
    "perceiver": perceiver,
    "nn.MultiheadAttention": torch_attention,
    "nn.TransformerEncoder": torch_encoder,
    "conformer": conformer,
}
DESIGNS = SIX | TEN
