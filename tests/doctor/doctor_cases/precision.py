"""Numbers and their types: nan, half precision, masks that are no truth values."""

import math

import torch
from torch import nn

from .parts import (
    PADDING,
    B,
    D,
    Heads,
    Layer,
    Reader,
    T,
    broken,
    masked_mean,
    right,
    tokens,
    torch_layer,
    words,
)

# --- nan / precision ------------------------------------------------------------------


@broken("nan / precision")
def softmax_by_hand_overflows():
    class Wrong(Heads):
        def weigh(self, scores):
            powers = torch.exp(scores)
            return powers / powers.sum(-1, keepdim=True)

    return Wrong(), (tokens() * 60,), {}


@broken("nan / precision")
def infinity_times_zero():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores + pad[:, None, None, :].float() * float("-inf")

    return Wrong(), (tokens(), PADDING), {}


@broken("nan / precision")
def root_of_zero_in_backward():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp, self.layer = nn.Linear(4, D, bias=False), Layer()

        def forward(self, x, pad):
            x = self.inp(x)
            x = x / (x.pow(2).sum(-1, keepdim=True).sqrt() + 1e-6)
            return self.layer(x, pad)

    x = tokens(B, T, 4).masked_fill(PADDING[..., None], 0.0)
    return Wrong(), (x, PADDING), {}


@broken("nan / precision")
def hidden_scores_are_not_low_enough():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad[:, None, None, :], -2.0)

    return Wrong(), (tokens(), PADDING), {}


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


@broken("nan / precision")
def products_too_large_for_half():
    class Wrong(Heads):
        def score(self, q, k):
            return (q @ k.transpose(-2, -1)) * self.k**-0.5

    module = Wrong()
    with torch.no_grad():
        module.to_q.weight.mul_(200)
    return module.half(), (300 * tokens().half(),), {}


# --- dtype / compile ------------------------------------------------------------------


@broken("dtype / compile", like="float by decree")
def type_written_down():
    class Wrong(Heads):
        def score(self, q, k):
            return super().score(q, k).to(torch.float32)

    return Wrong(), (tokens(),), {}


@broken("dtype / compile")
def table_in_double():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            return super().forward(x, pad) + torch.linspace(
                0, 1, D, dtype=torch.float64
            )

    return Wrong(), (tokens(),), {}


@broken("dtype / compile")
def two_kinds_of_masks():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch_layer()

        def forward(self, x, pad):
            far = (torch.arange(T) - torch.arange(T)[:, None]).abs() > 4
            mask = torch.zeros(T, T).masked_fill(far, float("-inf"))
            return self.layer(x, src_mask=mask, src_key_padding_mask=pad)

    return Wrong(), (tokens(), torch.arange(T) >= torch.tensor([[7], [6], [6]])), {}


@broken("dtype / compile")
def ids_as_floats():
    return Reader(), (words().float(),), {}


@broken("dtype / compile")
def half_meets_float():
    return Heads().half(), (tokens(),), {}


@broken("dtype / compile")
def one_minus_a_bool_mask():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores + (1 - pad[:, None, None, :]) * -1e9

    return Wrong(), (tokens(), ~PADDING), {}


@broken("dtype / compile")
def bits_of_an_integer_mask_flipped():
    class Wrong(Heads):
        def mask(self, scores, keep):
            return super().mask(scores, (~keep).bool())

    return Wrong(), (tokens(), (~PADDING).long()), {}


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


# --- right, though unusual ------------------------------------------------------------


@right
def half_precision():
    return Reader(pool=masked_mean).bfloat16(), (words(),), {}


@right
def counted_in_full_precision():
    return Counted(True).bfloat16(), (tokens(2, 300, D).bfloat16(),), {}
