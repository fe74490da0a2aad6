"""Faults that show in a sample alone, in a mode, in a gradient or at a residual."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from .parts import (
    LENGTHS,
    PADDING,
    B,
    D,
    Heads,
    Layer,
    Reader,
    T,
    broken,
    right,
    tokens,
    words,
)

# --- a sample alone ------------------------------------------------------------------


@broken("mask meaning")
def no_mask_for_one_sample():
    class Wrong(Reader):
        def forward(self, ids):
            pad, x = (ids == 0 if len(ids) > 1 else None), self.emb(ids)
            for layer in self.layers:
                x = layer(x, pad)
            return x[:, 0]

    return Wrong(), (words(),), {}


def padded_in_front():
    return words().flip(1), PADDING.flip(1)


class Placed(Reader):
    """Learnt positions, of padding too; the last token is read."""

    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(T + 2, D)

    def number(self, pad):
        return torch.arange(pad.shape[1]).expand(pad.shape)

    def forward(self, ids, pad):
        x = self.emb(ids) + self.places(self.number(pad))
        for layer in self.layers:
            x = layer(x, pad)
        return x[:, -1]


@broken("positional encoding")
def positions_counted_from_the_padding():
    return Placed(), padded_in_front(), {}


@right
def positions_counted_from_the_first_word():
    class Right(Placed):
        def number(self, pad):
            return ((~pad).cumsum(1) - 1).clamp(min=0)

    return Right(), padded_in_front(), {}


@broken("batch/sequence layout")
def scaled_by_the_largest_of_the_batch():
    class Wrong(Reader):
        def forward(self, ids):
            x = super().forward(ids)
            return x / (1 + x.detach().abs().amax()) + len(ids)

    return Wrong(), (words(padded=False),), {}


# --- inputs --------------------------------------------------------------------------


@broken("mask meaning")
def a_mask_taken_and_forgotten():
    class Wrong(Reader):
        def forward(self, ids, attention_mask):
            x = self.emb(ids)
            for layer in self.layers:
                x = layer(x)
            return x

    return Wrong(), (words(), (~PADDING).long()), {}


@broken("batch/sequence layout")
def a_memory_that_is_not_read():
    class Wrong(Layer):
        def forward(self, x, memory):
            return super().forward(x)

    return Wrong(), (tokens(), tokens(B, 4, D)), {}


# --- modes and gradients -------------------------------------------------------------


@broken("train/eval and fast path")
def made_in_eval_only():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            kept = {} if self.training else {"shift": 0.0}
            return super().forward(x + kept["shift"], pad)

    return Wrong(), (tokens(),), {}


@broken("loss and training")
def other_dropout_in_backward():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(Layer(), nn.Dropout(0.2)) for _ in range(2)
            )

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False, preserve_rng_state=False)
            return x

    return Wrong(), (tokens(),), {}


@right
def the_same_dropout_in_backward():
    module, inputs, kwargs = other_dropout_in_backward()

    class Right(type(module)):
        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    return Right(), inputs, kwargs


@broken("registration / sharing")
def body_without_gradients():
    class Wrong(Reader):
        def forward(self, ids):
            with torch.no_grad():
                x = self.emb(ids)
                for layer in self.layers:
                    x = layer(x, ids == 0)
            return self.head(x)

    return Wrong(), (words(),), {}


@right
def frozen_body():
    module, inputs, kwargs = body_without_gradients()
    for part in (module.emb, module.layers):
        part.requires_grad_(False)
    return module, inputs, kwargs


@broken("registration / sharing")
def frozen_by_an_attribute():
    module = Reader()
    module.layers.requires_grad = False
    return module, (words(),), {}


@broken("train/eval and fast path")
def put_to_sleep_by_an_attribute():
    module = Reader()
    module.training = False
    return module, (words(),), {}


# --- residuals -----------------------------------------------------------------------


class Windows(nn.Module):
    """Attention within windows of 2 x 2 places, in a residual."""

    def __init__(self):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, D, 2, 2), nn.LayerNorm(D)
        self.attention, self.head = Heads(), nn.Linear(D, 3)

    def back(self, x, shape):
        b, h, w, d = shape
        x = x.view(b, h // 2, w // 2, 2, 2, d)
        return x.transpose(2, 3).reshape(shape)

    def forward(self, images):
        x = self.patch(images).permute(0, 2, 3, 1)
        b, h, w, d = x.shape
        y = self.norm(x).view(b, h // 2, 2, w // 2, 2, d).transpose(2, 3)
        y = self.attention(y.reshape(-1, 4, d))
        return self.head((x + self.back(y, x.shape)).mean((1, 2)))


@broken("batch/sequence layout")
def windows_put_back_by_view_alone():
    class Wrong(Windows):
        def back(self, x, shape):
            return x.reshape(shape)

    return Wrong(), (torch.randn(2, 3, 16, 16),), {}


@right
def windows_put_back():
    return Windows(), (torch.randn(2, 3, 16, 16),), {}


class Twice(nn.Module):
    """Two blocks; a case says where their skips start."""

    def __init__(self):
        super().__init__()
        self.attentions = nn.ModuleList(Heads() for _ in range(2))
        self.ffs = nn.ModuleList(
            nn.Sequential(nn.Linear(D, 44), nn.ReLU(), nn.Linear(44, D))
            for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(4))

    def forward(self, x):
        for i in range(2):
            x = self.block(
                x, self.attentions[i], self.ffs[i], *self.norms[2 * i : 2 * i + 2]
            )
        return x


@broken("norm / residual / FFN")
def skip_around_a_norm_in_a_post_norm_block():
    class Wrong(Twice):
        def block(self, x, attention, ff, norm1, norm2):
            x = x + attention(x)
            return norm2(x + ff(norm1(x)))

    return Wrong(), (tokens(),), {}


@right
def attention_without_a_norm_of_its_own():
    class Right(Twice):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))

        def forward(self, x):
            for attention, ff, norm in zip(
                self.attentions, self.ffs, self.norms, strict=True
            ):
                x = x + attention(x)
                x = x + ff(norm(x))
            return x

    return Right(), (tokens(),), {}


@right
def lengths_after_a_last_norm():
    class Right(Reader):
        def forward(self, ids, lengths):
            x = super().forward(ids)
            return x[torch.arange(len(ids)), lengths - 1]

    return Right(), (words(), LENGTHS), {}
