"""Layouts: which axis holds samples, tokens, features, places of an image."""

import torch
import torch.nn.functional as F
from torch import nn

from .parts import (
    LENGTHS,
    PADDING,
    B,
    D,
    H,
    Layer,
    Patches,
    Reader,
    T,
    broken,
    right,
    tokens,
    torch_layer,
    words,
)

# --- batch/sequence layout ------------------------------------------------------------


@broken("batch/sequence layout")
def time_first_attention_fed_batch_first():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.mha = nn.Linear(6, D), nn.MultiheadAttention(D, H)
            self.norm = nn.LayerNorm(D)

        def forward(self, x):
            x = self.inp(x)
            return self.norm(x + self.mha(x, x, x, need_weights=False)[0])

    return Wrong(), (tokens(B, T, 6),), {}


@broken("batch/sequence layout")
def view_for_transpose():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D), torch_layer(batch_first=False)

        def forward(self, ids):
            b, t = ids.shape
            x = self.emb(ids).view(t, b, D)
            return self.layer(x).view(b, t, D)

    return Wrong(), (words(padded=False),), {}


@broken("batch/sequence layout")
def channels_left_in_front():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.layer = nn.Conv1d(4, D, 3, padding=1), torch_layer()

        def forward(self, x):
            return self.layer(self.conv(x))

    return Wrong(), (tokens(B, 4, D),), {}


@broken("batch/sequence layout")
def features_in_the_wrong_axis():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch_layer()

        def forward(self, x):
            return self.layer(x.transpose(1, 2))

    return Wrong(), (tokens(),), {}


@broken("batch/sequence layout")
def mean_over_the_batch():
    class Wrong(Reader):
        def forward(self, ids):
            x = self.emb(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x - x.mean(0, keepdim=True))

    return Wrong(), (words(padded=False),), {}


@broken("batch/sequence layout")
def patches_reshaped_not_moved():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.layer = nn.Conv2d(3, D, 4, 4), Layer()

        def forward(self, images):
            return self.layer(self.conv(images).reshape(len(images), -1, D))

    return Wrong(), (tokens(B, 3, 12, 20),), {}


@broken("batch/sequence layout")
def first_sample_read_for_first_token():
    return Reader(pool=lambda x, pad: x[0]), (words(),), {}


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


@broken("batch/sequence layout")
def squeezed_with_a_batch_of_one():
    class Wrong(Reader):
        def forward(self, ids):
            x = self.emb(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, :1].squeeze())

    return Wrong(), (words(padded=False),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def time_first_inside():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D), torch_layer(batch_first=False)

        def forward(self, ids):
            x = self.emb(ids).transpose(0, 1)
            return self.layer(x, src_key_padding_mask=ids == 0).transpose(0, 1)

    return Right(), (words(),), {}


@right
def time_first_outside():
    return (
        torch_layer(batch_first=False),
        (tokens(T, B, D),),
        {"src_key_padding_mask": PADDING},
    )


@right
def time_first_by_convention():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(torch_layer(batch_first=False) for _ in "ab")

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return Right(), (tokens(T, B, D),), {}


@right
def first_token_only():
    class Right(Reader):
        def __init__(self):
            super().__init__()
            self.cls = nn.Parameter(torch.randn(1, 1, D))

        def forward(self, ids):
            x = torch.cat([self.cls.expand(len(ids), -1, -1), self.emb(ids)], 1)
            pad = F.pad(ids == 0, (1, 0), value=False)
            for layer in self.layers:
                x = layer(x, pad)
            return self.head(x[:, 0])

    return Right(), (words(),), {}


@right
def convolution_in_front():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.layer = nn.Conv1d(4, D, 3, padding=1), torch_layer()

        def forward(self, x):
            return self.layer(self.conv(x).transpose(1, 2))

    return Right(), (tokens(B, 4, 11),), {}


@right
def few_queries_read_many_tokens():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.seeds = nn.Parameter(torch.randn(1, 4, D))
            self.mha = nn.MultiheadAttention(D, H, batch_first=True)
            self.norm = nn.LayerNorm(D)

        def forward(self, x, pad):
            seeds = self.seeds.expand(len(x), -1, -1)
            out, _ = self.mha(seeds, x, x, key_padding_mask=pad, need_weights=False)
            return self.norm(seeds + out)

    return Right(), (tokens(), PADDING), {}


@right
def registers_behind_the_tokens():
    class Right(Reader):
        def __init__(self):
            super().__init__()
            self.registers = nn.Parameter(torch.randn(1, 2, D))

        def forward(self, ids):
            x = torch.cat([self.emb(ids), self.registers.expand(len(ids), -1, -1)], 1)
            pad = F.pad(ids == 0, (0, 2), value=False)
            for layer in self.layers:
                x = layer(x, pad)
            return self.head(x[:, -1])

    return Right(), (words(),), {}


@right
def variables_as_tokens():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.layer = nn.Linear(11, D), Layer()

        def forward(self, x):
            return self.layer(self.inp(x.transpose(1, 2)))

    return Right(), (tokens(B, 11, 4),), {}


@right
def patches_cut_out_of_images():
    return Patches(), (tokens(B, 3, 12, 20),), {}


@right
def places_of_an_image_as_tokens():
    return Grid(), (tokens(B, 3, 4, D),), {}


@right
def frames_that_attend_within_themselves():
    return Frames(), (tokens(2, 8, 3, 4, 5),), {}


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
def image_without_a_batch():
    class Right(Patches):
        def forward(self, image):
            return super().forward(image[None])

    return Right(), (tokens(3, 12, 20),), {}
