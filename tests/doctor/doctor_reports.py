"""More small encoders to examine: what public reports tell of, and what they do not.

They are registered with those of `doctor_cases.py`. The broken ones are faults that
people met in their own code, written anew; the right ones look odd to a reader, too.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from doctor_cases import (
    LENGTHS,
    PADDING,
    B,
    D,
    H,
    Heads,
    K,
    Layer,
    Reader,
    T,
    broken,
    masked_mean,
    right,
    rotate,
    sinusoids,
    tokens,
    torch_layer,
    words,
)
from torch import nn

# --- layouts -------------------------------------------------------------------------


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


@right
def patches_cut_out_of_images():
    return Patches(), (tokens(B, 3, 12, 20),), {}


@broken("batch/sequence layout")
def patches_cut_by_view_alone():
    class Wrong(Patches):
        def cut(self, images):
            return images.view(len(images), -1, 3 * self.patch**2)

    return Wrong(), (tokens(B, 3, 12, 20),), {}


class Grid(nn.Module):
    """Places of an image (B, height, width, D) as tokens."""

    def __init__(self):
        super().__init__()
        self.inp, self.layer = nn.Linear(D, D), torch_layer()

    def to_tokens(self, image):
        return image.flatten(1, 2)

    def forward(self, image):
        return self.layer(self.inp(self.to_tokens(image)))


@right
def places_of_an_image_as_tokens():
    return Grid(), (tokens(B, 3, 4, D),), {}


@broken("batch/sequence layout")
def places_taken_for_channels():
    class Wrong(Grid):
        def to_tokens(self, image):
            b, h, w, d = image.shape
            return image.reshape(b, d, h * w).transpose(1, 2)

    return Wrong(), (tokens(B, 3, 4, D),), {}


@broken("batch/sequence layout")
def rows_of_an_image_meet_across_samples():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha, self.norm = nn.MultiheadAttention(D, H), nn.LayerNorm(D)

        def forward(self, images):
            b, d, h, w = images.shape
            x = images.permute(0, 2, 3, 1).reshape(b * h, w, d)
            x = self.norm(x + self.mha(x, x, x, need_weights=False)[0])
            return x.reshape(b, h, w, d)

    return Wrong(), (tokens(B, D, 4, 7),), {}


# --- masks ---------------------------------------------------------------------------


class Folded(Heads):
    """Heads in front of samples, all in one axis; as many heads as a head is wide."""

    def __init__(self):
        super().__init__(16, 4)

    def fold(self, x):
        x = x.view(*x.shape[:2], self.h, self.k).permute(2, 0, 1, 3)
        return x.reshape(-1, *x.shape[2:])

    def repeat(self, pad):
        return pad.repeat(self.h, 1)

    def forward(self, x, pad=None):
        q, k, v = (self.fold(t) for t in self.project(x))
        scores = self.score(q, k).masked_fill(self.repeat(pad)[:, None], float("-inf"))
        context = (scores.softmax(-1) @ v).unflatten(0, (self.h, -1))
        return self.to_out(context.permute(1, 2, 0, 3).flatten(2))


@right
def heads_folded_in_front_of_samples():
    return Folded(), (tokens(B, T, 16), PADDING), {}


@broken("mask axis/shape")
def repeated_as_if_heads_were_behind_samples():
    class Wrong(Folded):
        def repeat(self, pad):
            return pad.repeat_interleave(self.h, 0)

    return Wrong(), (tokens(B, T, 16), PADDING), {}


@broken("mask meaning")
def scores_times_a_mask_of_pairs():
    class Wrong(Heads):
        def mask(self, scores, keep):
            pairs = keep[:, None, :] & keep[:, :, None]
            return scores * pairs[:, None]

    return Wrong(), (tokens(), ~PADDING), {}


@broken("mask meaning")
def lengths_made_into_a_mask_of_floats():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch_layer()

        def forward(self, x, lengths):
            keep = torch.arange(x.shape[1]) < lengths[:, None]
            return self.layer(x, src_key_padding_mask=keep.float())

    return Wrong(), (tokens(), LENGTHS), {}


class Summed(nn.Module):
    """A token behind the others sums up; the mask has to grow with it."""

    room = (0, 1)

    def __init__(self):
        super().__init__()
        self.emb, self.layer = nn.Embedding(23, D), Layer()
        self.summary = nn.Parameter(torch.randn(1, 1, D))

    def forward(self, ids):
        x = torch.cat([self.emb(ids), self.summary.expand(len(ids), -1, -1)], 1)
        return self.layer(x, F.pad(ids == 0, self.room, value=False))


@right
def summary_behind_the_tokens():
    return Summed(), (words(),), {}


@broken("mask axis/shape")
def mask_grown_at_the_wrong_end():
    class Wrong(Summed):
        room = (1, 0)

    return Wrong(), (words(),), {}


@right
def two_kinds_of_tokens_and_a_mask():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.kind = nn.Embedding(23, D), nn.Embedding(2, D)
            self.layer, self.head = Layer(), nn.Linear(D, 3)

        def forward(self, ids, kinds, mask):
            x = self.emb(ids) + self.kind(kinds)
            return self.head(self.layer(x, mask == 0)[:, 0])

    kinds = (torch.arange(T) > 2).long().expand(B, -1) * ~PADDING
    return Right(), (), {"ids": words(), "kinds": kinds, "mask": (~PADDING).long()}


@right
def time_first_with_lengths():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch_layer(batch_first=False)
            self.register_buffer("places", sinusoids(T, D)[:, None])

        def forward(self, x, lengths):
            pad = torch.arange(len(x)) >= lengths[:, None]
            return self.layer(x + self.places[: len(x)], src_key_padding_mask=pad)

    return Right(), (tokens(T, B, D), LENGTHS), {}


# --- projections, scale, positions ---------------------------------------------------


@broken("projections")
def output_map_computed_and_not_returned():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            context = self.merge(self.weigh(self.score(q, k)) @ v)
            out = self.to_out(context)  # noqa: F841
            return context

    return Layer(Wrong), (tokens(),), {}


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


def rotate_rows(x):
    """Rotate the rows of the last two axes: for (B, T, H, K) those are heads."""
    return rotate(x.flatten(0, 1), 1).view(x.shape)


class Counted(nn.Module):
    """Waves computed at each call, in the type of the tokens or in a better one."""

    def __init__(self, exact):
        super().__init__()
        self.exact, self.layer = exact, Layer()

    def forward(self, x):
        kind = torch.float32 if self.exact else x.dtype
        place = torch.arange(x.shape[1], dtype=kind)[:, None]
        turn = torch.exp(torch.arange(0, D, 2, dtype=kind) * (-math.log(1e4) / D))
        waves = torch.cat([(place * turn).sin(), (place * turn).cos()], -1)
        return self.layer(x + waves.to(x.dtype))


@broken("nan / precision")
def counted_in_half_precision():
    return Counted(False).bfloat16(), (tokens(2, 300, D).bfloat16(),), {}


@right
def counted_in_full_precision():
    return Counted(True).bfloat16(), (tokens(2, 300, D).bfloat16(),), {}


# --- blocks and modes ----------------------------------------------------------------


@broken("norm / residual / FFN")
def residual_from_before_the_attention():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            y = self.norm1(x + self.attention(x, pad))
            return self.norm2(x + self.ff(y))

    return Wrong(), (tokens(),), {}


@broken("train/eval and fast path")
def dropout_ended_for_good_by_eval():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.rate = 0.4

        def weigh(self, scores):
            if not self.training:
                self.rate = 0.0
            return F.dropout(scores.softmax(-1), self.rate)

    return Layer(Wrong), (tokens(),), {}


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


# --- weights that are given out ------------------------------------------------------


class Shown(Heads):
    """Attention that returns its weights beside its output."""

    def show(self, weights):
        return weights

    def forward(self, x, pad=None):
        q, k, v = (self.split(t) for t in self.project(x))
        weights = self.weigh(self.mask(self.score(q, k), pad))
        return self.to_out(self.merge(weights @ v)), self.show(weights)


@broken("attention weights")
def softmax_of_what_is_shown():
    class Wrong(Shown):
        def show(self, weights):
            return weights.softmax(-1)

    return Wrong(), (tokens(),), {}


@dataclass
class Answer:
    hidden: torch.Tensor
    attentions: tuple | None = None


@broken("attention weights")
def request_for_weights_lost_on_the_way():
    class Block(Layer):
        def __init__(self):
            super().__init__(Shown)

        def forward(self, x, show=False):
            y, weights = self.attention(self.norm1(x))
            x = x + y
            return x + self.ff(self.norm2(x)), weights if show else None

    class Wrong(Reader):
        def __init__(self):
            super().__init__(make=Block)

        def forward(self, ids, output_attentions=False):
            x, shown = self.emb(ids), []
            for layer in self.layers:
                x, weights = layer(x)
                shown.append(weights)
            return Answer(x, tuple(shown) if output_attentions else None)

    return Wrong(), (words(padded=False),), {"output_attentions": True}


@right
def log_probabilities_of_a_pooled_sentence():
    class Right(Reader):
        def forward(self, ids):
            return F.log_softmax(super().forward(ids), dim=-1)

    return Right(pool=masked_mean), (words(),), {}


# --- what a second look at reports brought -------------------------------------------


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


class Frames(nn.Module):
    """Attention within each frame of a film (B, channels, frames, height, width)."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Conv3d(8, 8, 1) for _ in range(4))

    def apart(self, x):
        return x.transpose(1, 2).flatten(3).flatten(0, 1)

    def together(self, x, film):
        b, c, t, h, w = film.shape
        return x.view(b, t, c, h, w).transpose(1, 2)

    def forward(self, film):
        q, k, v = (self.apart(part(film)) for part in (self.q, self.k, self.v))
        weights = (q.transpose(1, 2) @ k / 8**0.5).softmax(-1)
        return film + self.out(self.together(v @ weights.transpose(1, 2), film))


@right
def frames_that_attend_within_themselves():
    return Frames(), (tokens(2, 8, 3, 4, 5),), {}


@broken("batch/sequence layout")
def frames_folded_by_reshape_alone():
    class Wrong(Frames):
        def apart(self, x):
            b, c, t, h, w = x.shape
            return x.reshape(b * t, c, h * w)

        def together(self, x, film):
            return x.view(film.shape)

    return Wrong(), (tokens(2, 8, 3, 4, 5),), {}


@broken("batch/sequence layout")
def mean_over_features():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = Layer(), nn.Linear(T, 3)

        def forward(self, x):
            return self.head(self.layer(x).mean(2))

    return Wrong(), (tokens(),), {}


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


@right
def waves_at_tokens_only():
    return Covered(True), (words(),), {}


@broken("positional encoding")
def waves_at_padding_only():
    return Covered(False), (words(),), {}


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


@broken("registration / sharing")
def first_token_that_nothing_reads():
    class Wrong(Patches):
        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(torch.zeros(1, 1, D))

    return Wrong(), (tokens(B, 3, 12, 20),), {}


@broken("mask meaning")
def compared_with_another_pad_id():
    class Wrong(Reader):
        def forward(self, ids):
            pad, x = ids == 22, self.emb(ids)
            for layer in self.layers:
                x = layer(x, pad)
            return self.head(x)

    return Wrong(), (words().clamp(max=21),), {}


@broken("dtype / compile")
def divided_by_a_count_in_float32():
    class Wrong(Reader):
        def forward(self, ids):
            pad, x = ids == 0, self.emb(ids)
            for layer in self.layers:
                x = layer(x, pad)
            x = (x * ~pad[..., None]).sum(1)
            return x / (~pad).float().sum(1, keepdim=True)

    return Wrong().bfloat16(), (words(),), {}


@broken("attention weights")
def a_list_of_none_for_maps():
    class Wrong(Reader):
        def forward(self, ids):
            x, maps = self.emb(ids), []
            for layer in self.layers:
                x, weights = layer(x, ids == 0), None
                maps.append(weights)
            return x, maps

    return Wrong(), (words(),), {}


@right
def time_shortened_by_convolutions():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv1d(4, D, 3, stride=2, padding=1)
            layer = nn.TransformerEncoderLayer(D, 4, 44, 0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1)

        def forward(self, x, lengths):
            x = self.conv(x.transpose(1, 2)).transpose(1, 2)
            pad = torch.arange(x.shape[1]) >= (lengths[:, None] + 1) // 2
            return self.encoder(x, src_key_padding_mask=pad)

    return Right(), (tokens(B, T, 4), LENGTHS), {}


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


@broken("batch/sequence layout")
def squeezed_with_a_batch_of_one():
    class Wrong(Reader):
        def forward(self, ids):
            x = self.emb(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, :1].squeeze())

    return Wrong(), (words(padded=False),), {}


@broken("projections")
def projections_of_projections():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.again = nn.ModuleList(nn.Linear(D, D) for _ in range(3))

        def project(self, x):
            return (f(t) for f, t in zip(self.again, super().project(x)))

    return Wrong(), (tokens(),), {}


@right
def projections_of_low_rank():
    class Right(Heads):
        def __init__(self):
            super().__init__()
            self.to_k = nn.Sequential(nn.Linear(D, 3), nn.Linear(3, D))

    return Layer(Right), (tokens(),), {}


@broken("nan / precision")
def products_too_large_for_half():
    class Wrong(Heads):
        def score(self, q, k):
            return (q @ k.transpose(-2, -1)) * self.k**-0.5

    module = Wrong()
    with torch.no_grad():
        module.to_q.weight.mul_(200)
    return module.half(), (300 * tokens().half(),), {}


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


@right
def image_without_a_batch():
    class Right(Patches):
        def forward(self, image):
            return super().forward(image[None])

    return Right(), (tokens(3, 12, 20),), {}


@broken("head split/merge")
def weights_summed_away_by_einsum():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1)
            return self.to_out(self.merge(torch.einsum("bhqk,bhqd->bhqd", weights, v)))

    return Wrong(), (tokens(),), {}


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


@broken("train/eval and fast path")
def share_to_keep_taken_for_share_to_drop():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.ff.append(nn.Dropout(0.9))

    return Wrong(), (tokens(),), {}


@right
def gates_that_start_closed():
    class Right(Layer):
        def __init__(self):
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(()))

        def forward(self, x, pad=None):
            x = x + self.gate * self.attention(x, pad)
            return x + self.gate * self.ff(x)

    return Right(), (tokens(),), {}
