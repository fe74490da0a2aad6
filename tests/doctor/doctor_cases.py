"""Small encoders to examine: broken ones, by kind, and right ones of unusual design.

Each case is a function that returns (module, inputs, kwargs), written as a learner
would write it. `BROKEN` maps a name to (kind, build), `RIGHT` a name to build.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

BROKEN, RIGHT = {}, {}
B, T, D, H = 3, 7, 20, 5
K = D // H
LENGTHS = torch.tensor([7, 5, 3])
PADDING = torch.arange(T) >= LENGTHS[:, None]


def broken(kind):
    def register(build):
        BROKEN[build.__name__] = (kind, build)
        return build

    return register


def right(build):
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


# --- head split/merge ----------------------------------------------------------------


@broken("head split/merge")
def split_by_view_alone():
    class Wrong(Heads):
        def split(self, x):
            return x.view(len(x), self.h, -1, self.k)

    return Wrong(), (tokens(),), {}


@broken("head split/merge")
def merge_by_view_alone():
    class Wrong(Heads):
        def merge(self, x):
            return x.contiguous().view(len(x), -1, D)

    return Layer(Wrong), (tokens(),), {}


@broken("head split/merge")
def heads_meet_instead_of_tokens():
    class Wrong(Heads):
        def split(self, x):
            return x.view(*x.shape[:2], self.h, self.k)

        def merge(self, x):
            return x.flatten(2)

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


@broken("head split/merge")
def heads_do_not_divide():
    return Heads(D, 6), (tokens(),), {}


@broken("head split/merge")
def keys_not_transposed():
    class Wrong(Heads):
        def score(self, q, k):
            return q @ k / math.sqrt(self.k)

    return Wrong(), (tokens(),), {}


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
def width_of_a_head_taken_for_their_number():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.heads = self.h

        def split(self, x):
            return x.view(*x.shape[:2], self.k, self.heads).transpose(1, 2)

        def score(self, q, k):
            return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])

    return Layer(Wrong), (tokens(),), {}


# --- projections ---------------------------------------------------------------------


@broken("projections")
def key_layer_makes_the_value():
    class Wrong(Heads):
        def project(self, x):
            return self.to_q(x), self.to_k(x), self.to_k(x)

    return Layer(Wrong), (tokens(),), {}


@broken("projections")
def query_layer_makes_the_key():
    class Wrong(Heads):
        def project(self, x):
            return self.to_q(x), self.to_q(x), self.to_v(x)

    return Wrong(), (tokens(),), {}


@broken("projections")
def output_layer_forgotten():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            return self.merge(self.weigh(self.score(q, k)) @ v)

    return Wrong(), (tokens(),), {}


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
def one_small_matrix_for_all_heads():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.to_q, self.to_k, self.to_v = (
                nn.Linear(K, K, bias=False) for _ in range(3)
            )

        def forward(self, x, pad=None):
            parts = self.split(x)
            q, k, v = self.project(parts)
            return self.to_out(self.merge(self.score(q, k).softmax(-1) @ v))

    return Wrong(), (tokens(),), {}


@broken("projections")
def heads_never_mixed():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.to_out = nn.Identity()

    return Layer(Wrong), (tokens(),), {}


# --- batch/sequence layout -----------------------------------------------------------


@broken("batch/sequence layout")
def samples_attend_to_samples():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D), torch_layer(batch_first=False)

        def forward(self, ids):
            return self.layer(self.emb(ids))

    return Wrong(), (words(padded=False),), {}


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


# --- mask meaning --------------------------------------------------------------------


@broken("mask meaning")
def keep_mask_taken_for_padding():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D), torch_layer()

        def forward(self, ids, attention_mask):
            x = self.emb(ids)
            return self.layer(x, src_key_padding_mask=attention_mask.bool())

    return Wrong(), (), {"ids": words(), "attention_mask": (~PADDING).long()}


@broken("mask meaning")
def filled_with_a_tiny_number():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad[:, None, None, :], 1e-9)

    return Wrong(), (tokens(), PADDING), {}


@broken("mask meaning")
def mask_result_thrown_away():
    class Wrong(Heads):
        def mask(self, scores, pad):
            scores.masked_fill(pad[:, None, None, :], float("-inf"))
            return scores

    return Layer(Wrong), (tokens(), PADDING), {}


@broken("mask meaning")
def scores_times_mask():
    class Wrong(Heads):
        def mask(self, scores, keep):
            return scores * keep[:, None, None, :]

    return Wrong(), (tokens(), (~PADDING).float()), {}


@broken("mask meaning")
def mask_ignored():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            return super().forward(x)

    return Wrong(), (tokens(), PADDING), {}


@broken("mask meaning")
def mask_lost_after_the_first_layer():
    class Wrong(Reader):
        def forward(self, ids):
            x, pad = self.emb(ids), ids == 0
            for layer in self.layers:
                x, pad = layer(x, pad), None
            return self.head(x)

    return Wrong(3), (words(),), {}


@broken("mask meaning")
def zeroed_after_the_softmax():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1) * ~pad[:, None, None, :]
            return self.to_out(self.merge(weights @ v))

    return Wrong(), (tokens(), PADDING), {}


@broken("mask meaning")
def causal_attention_read_at_the_front():
    class Causal(Heads):
        def mask(self, scores, pad):
            n = scores.shape[-1]
            return scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))

    class Wrong(Reader):
        def forward(self, ids):
            x = self.emb(ids)
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, 0])

    return Wrong(make=lambda: Layer(Causal)), (words(padded=False),), {}


@broken("mask meaning")
def fused_attention_reads_it_the_other_way():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            mask = pad[:, None, None, :]
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self.to_out(self.merge(out))

    pad = PADDING.clone()
    pad[0, -1] = True
    return Wrong(), (tokens(), pad), {}


@broken("mask meaning")
def ones_added_to_the_scores():
    class Wrong(Heads):
        def mask(self, scores, keep):
            return scores + keep[:, None, None, :].float()

    return Wrong(), (tokens(), ~PADDING), {}


@broken("mask meaning")
def large_number_added_for_padding():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores + pad[:, None, None, :] * 1e9

    return Layer(Wrong), (tokens(), PADDING), {}


# --- mask axis/shape -----------------------------------------------------------------


@broken("mask axis/shape")
def queries_hidden_for_keys():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad[:, None, :, None], -1e9)

    return Layer(Wrong), (tokens(), PADDING), {}


@broken("mask axis/shape")
def repeated_in_the_wrong_order():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(D, H, batch_first=True)

        def forward(self, x, pad):
            blocked = pad[:, None, :].expand(-1, T, -1).repeat(H, 1, 1)
            return self.mha(x, x, x, attn_mask=blocked, need_weights=False)[0]

    return Wrong(), (tokens(), PADDING), {}


@broken("mask axis/shape")
def too_few_axes():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad, float("-inf"))

    return Wrong(), (tokens(), PADDING), {}


@broken("mask axis/shape")
def batch_meets_heads():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad.unsqueeze(1), float("-inf"))

    pad = torch.arange(T) >= torch.tensor([7, 5, 3, 4, 6])[:, None]
    return Wrong(), (tokens(H, T, D), pad), {}


@broken("mask axis/shape")
def padding_mask_as_attention_mask():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D), torch_layer()

        def forward(self, ids):
            return self.layer(self.emb(ids), src_mask=ids == 0)

    lengths = torch.tensor([7, 5, 3, 4, 6, 7, 2])
    ids = torch.randint(1, 23, (T, T)).masked_fill(
        torch.arange(T) >= lengths[:, None], 0
    )
    return Wrong(), (ids,), {}


# --- nan / precision -----------------------------------------------------------------


@broken("nan / precision")
def first_query_sees_nothing():
    class Wrong(Heads):
        def mask(self, scores, pad):
            n = scores.shape[-1]
            return scores.masked_fill(torch.ones(n, n).triu().bool(), float("-inf"))

    return Wrong(), (tokens(),), {}


@broken("nan / precision")
def sample_without_tokens():
    pad = PADDING.clone()
    pad[2] = True
    return Layer(), (tokens(), pad), {}


@broken("nan / precision")
def fill_too_large_for_half():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad[:, None, None, :], -1e10)

    return Wrong().half(), (tokens().half(), PADDING), {}


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


# --- softmax / scale -----------------------------------------------------------------


@broken("softmax / scale")
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


@broken("softmax / scale")
def scaled_by_the_model():
    class Wrong(Heads):
        def score(self, q, k):
            return torch.einsum("bhqd,bhkd->bhqk", q, k) * D**-0.5

    return Wrong(), (tokens(),), {}


@broken("softmax / scale")
def multiplied_by_the_root():
    class Wrong(Heads):
        def score(self, q, k):
            return q @ k.transpose(-2, -1) * math.sqrt(self.k)

    return Wrong(), (tokens(),), {}


@broken("softmax / scale")
def softmax_over_queries():
    class Wrong(Heads):
        def weigh(self, scores):
            return scores.softmax(dim=-2)

    return Layer(Wrong), (tokens(),), {}


@broken("softmax / scale")
def softmax_over_heads():
    class Wrong(Heads):
        def weigh(self, scores):
            return F.softmax(scores, dim=1)

    return Wrong(), (tokens(),), {}


@broken("softmax / scale")
def softmax_of_softmax():
    class Wrong(Heads):
        def weigh(self, scores):
            return scores.softmax(-1).softmax(-1)

    return Wrong(), (tokens(),), {}


@broken("softmax / scale")
def softmax_by_hand_over_queries():
    class Wrong(Heads):
        def weigh(self, scores):
            powers = scores.exp()
            return powers / powers.sum(-2, keepdim=True)

    return Wrong(), (tokens(),), {}


@broken("softmax / scale")
def dropout_before_the_softmax():
    class Wrong(Heads):
        def weigh(self, scores):
            return F.dropout(scores, 0.1, self.training).softmax(-1)

    return Wrong(), (tokens(),), {}


# --- positional encoding -------------------------------------------------------------


def sinusoids(n, d, exponent=1.0):
    position = torch.arange(n)[:, None].float()
    angle = position / 10000 ** (exponent * torch.arange(0, d, 2) / d)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)


def rotate(x, sign):
    """Turn pairs of features by an angle that grows with the position."""
    d = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] * 100 ** -(torch.arange(0, d, 2) / d)
    (even, odd), sine = (x[..., 0::2], x[..., 1::2]), sign * angle.sin()
    pairs = even * angle.cos() - odd * sine, even * sine + odd * angle.cos()
    return torch.stack(pairs, -1).flatten(2)


class Positions(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.shape[1]]


class Placed(nn.Module):
    def __init__(self, positions):
        super().__init__()
        self.emb, self.positions, self.layer = nn.Embedding(23, D), positions, Layer()

    def forward(self, ids):
        return self.layer(self.positions(self.emb(ids)))


@broken("positional encoding")
def positions_along_the_batch():
    class Wrong(Positions):
        def forward(self, x):
            return x + self.table[: len(x), None]

    return Placed(Wrong(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def every_token_at_position_0():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(30, D)

        def forward(self, x):
            return x + self.table(torch.zeros(x.shape[:2], dtype=torch.long))

    return Placed(Wrong()), (words(padded=False),), {}


@broken("positional encoding")
def exponent_halved():
    return Positions(sinusoids(50, 48, 0.5)), (tokens(2, 9, 48),), {}


@broken("positional encoding")
def exponent_doubled():
    return Placed(Positions(sinusoids(50, D, 2.0))), (words(padded=False),), {}


@broken("positional encoding")
def sum_with_positions_thrown_away():
    class Wrong(Placed):
        def forward(self, ids):
            x = self.emb(ids)
            self.positions(x)
            return self.layer(x)

    return Wrong(Positions(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def sines_without_cosines():
    table = sinusoids(30, D)
    table[:, 1::2] = table[:, 0::2]
    return Placed(Positions(table)), (words(padded=False),), {}


@broken("positional encoding")
def table_too_short():
    return Placed(Positions(sinusoids(5, D))), (words(padded=False),), {}


@broken("positional encoding")
def learnt_table_never_used():
    class Wrong(Reader):
        def __init__(self):
            super().__init__()
            self.positions = nn.Parameter(torch.randn(1, 30, D))

    return Wrong(), (words(),), {}


@broken("positional encoding")
def positions_times_zero():
    class Wrong(Positions):
        def forward(self, x):
            return x + 0.0 * self.table[: x.shape[1]]

    return Placed(Wrong(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def positions_that_return_their_input():
    class Wrong(Positions):
        def forward(self, x):
            return x

    return Placed(Wrong(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def loud_words_beside_waves():
    class Wrong(Placed):
        def forward(self, ids):
            return self.layer(self.positions(self.emb(ids) * math.sqrt(D)))

    return Wrong(Positions(sinusoids(30, D))), (words(padded=False),), {}


@broken("positional encoding")
def cosines_do_not_fit_an_odd_width():
    def build(d=21, n=30):
        table = torch.zeros(n, d)
        angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        table[:, 0::2], table[:, 1::2] = angle.sin(), angle.cos()
        return table

    return build, (), {}


@broken("positional encoding")
def positions_looked_up_by_word():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.place = nn.Embedding(23, D), nn.Embedding(30, D)
            self.layer = Layer()

        def forward(self, ids):
            return self.layer(self.emb(ids) + self.place(ids))

    return Wrong(), (words(padded=False),), {}


@broken("positional encoding")
def keys_rotated_backwards():
    class Wrong(Heads):
        def project(self, x):
            q, k, v = super().project(x)
            return rotate(q, 1), rotate(k, -1), v

    return Layer(Wrong), (tokens(),), {}


@broken("positional encoding")
def words_drowned_by_positions():
    model = Placed(Positions(sinusoids(30, D)))
    nn.init.normal_(model.emb.weight, std=0.01)
    return model, (words(padded=False),), {}


@broken("positional encoding")
def waves_are_trained():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(sinusoids(30, D))

        def forward(self, x):
            return x + self.table[: x.shape[1]]

    return Placed(Wrong()), (words(padded=False),), {}


# --- norm / residual / FFN -----------------------------------------------------------


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
def root_forgotten():
    class Wrong(HandMade):
        def normal(self, x):
            mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
            return (x - mean) / (var + 1e-5)

    return Layer(norm=Wrong), (tokens() * 3,), {}


@broken("norm / residual / FFN")
def statistics_over_the_wrong_axis():
    class Wrong(HandMade):
        def normal(self, x):
            return (x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-5)

    return Layer(norm=Wrong), (tokens(),), {}


@broken("norm / residual / FFN")
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


@broken("norm / residual / FFN")
def attention_added_to_itself():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.attention(x, pad)
            return self.norm2(self.norm1(x + x))

    return Wrong(), (tokens(),), {}


@broken("norm / residual / FFN")
def no_activation():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.ff = nn.Sequential(nn.Linear(D, 44), nn.Dropout(), nn.Linear(44, D))

    return Wrong(), (tokens(),), {}


@broken("norm / residual / FFN")
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
def one_norm_in_two_places():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + self.attention(x, pad))
            x = x + self.ff(x)
            return self.norm1(x)

    return Wrong(), (tokens(),), {}


# --- registration / sharing ----------------------------------------------------------


@broken("registration / sharing")
def layers_in_a_list():
    class Wrong(Reader):
        def __init__(self):
            super().__init__()
            del self.layers
            self.layers = [Layer() for _ in range(2)]

    return Wrong(), (words(),), {}


@broken("registration / sharing")
def heads_in_a_dict():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.parts = {"up": nn.Linear(D, 44), "down": nn.Linear(44, D)}
            del self.ff

        def ff(self, x):
            return self.parts["down"](self.parts["up"](x).relu())

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def layer_made_in_forward():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + self.attention(x, pad))
            return nn.Linear(D, D)(x)

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def one_layer_under_many_names():
    class Wrong(Reader):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer()] * 4)

    return Wrong(), (words(),), {}


@broken("registration / sharing")
def copies_of_one_start():
    layers = nn.TransformerEncoder(torch_layer(), 3, enable_nested_tensor=False)
    return layers, (tokens(),), {}


@broken("registration / sharing")
def table_is_no_buffer():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = sinusoids(30, D)
            self.layer = Layer()

        def forward(self, x):
            return self.layer(x + self.table[: x.shape[1]])

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def parameters_in_a_list():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.gains = [nn.Parameter(torch.ones(D)) for _ in range(2)]

        def forward(self, x, pad=None):
            return super().forward(x * self.gains[0], pad) * self.gains[1]

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def attention_of_another_module():
    shared = Heads()

    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + shared(x, pad))
            return self.norm2(x + self.ff(x))

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def parts_made_before_the_module():
    class Wrong(nn.Module):
        def __init__(self):
            self.layer = Layer()
            super().__init__()

    return lambda: (Wrong(), (tokens(),)), (), {}


@broken("registration / sharing")
def parameter_made_in_forward():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(D))

        def forward(self, x, pad=None):
            self.gain = nn.Parameter(torch.ones(D))
            return super().forward(x * self.gain, pad)

    return Wrong(), (tokens(),), {}


# --- train/eval and fast path --------------------------------------------------------


@broken("train/eval and fast path")
def functional_dropout_never_ends():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            return F.dropout(super().forward(x, pad), 0.1)

    return Wrong(), (tokens(),), {}


@broken("train/eval and fast path")
def fused_dropout_never_ends():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
            return self.to_out(self.merge(out))

    return Wrong().eval(), (tokens(),), {}


@broken("train/eval and fast path")
def dropout_made_in_forward():
    class Wrong(Heads):
        def weigh(self, scores):
            return nn.Dropout(0.2)(scores.softmax(-1))

    return Wrong().eval(), (tokens(),), {}


@broken("train/eval and fast path")
def forward_switches_to_train():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            self.ff.train()
            return super().forward(x, pad)

    return Wrong().eval(), (tokens(),), {}


@broken("train/eval and fast path")
def eval_computes_something_else():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = super().forward(x, pad)
            return x if self.training else x * 0.5

    return Wrong(), (tokens(),), {}


@broken("train/eval and fast path")
def hook_on_a_part_that_is_never_called():
    layer = torch_layer()
    layer.self_attn.out_proj.register_forward_hook(lambda *seen: None)
    return layer.eval(), (tokens(),), {}


@broken("train/eval and fast path")
def zeros_of_the_fast_path_enter_the_maximum():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(23, D)
            layer = nn.TransformerEncoderLayer(D, 4, 44, 0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)

        def forward(self, ids):
            x = self.encoder(self.emb(ids), src_key_padding_mask=ids == 0)
            return x.amax(1)

    return Wrong().eval(), (words(),), {}


# --- attention weights ---------------------------------------------------------------


@broken("attention weights")
def maps_are_means_over_heads():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(D, H, batch_first=True)

        def forward(self, x):
            out, weights = self.mha(x, x, x)
            return {"out": out, "maps": weights}

    return Wrong(), (tokens(),), {}


@broken("attention weights")
def hook_catches_none():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.maps = torch_layer(), {}
            self.layer.self_attn.register_forward_hook(self.keep)

        def keep(self, module, given, out):
            self.maps["layer"] = out[1]

        def forward(self, x):
            return self.layer(x)

    return Wrong().eval(), (tokens(),), {}


@broken("attention weights")
def scores_given_out_as_weights():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            scores = self.score(q, k)
            return self.to_out(self.merge(scores.softmax(-1) @ v)), scores

    return Wrong(), (tokens(),), {}


@broken("attention weights")
def asked_for_and_none():
    class Wrong(Layer):
        def forward(self, x, pad=None, need_weights=False):
            return super().forward(x, pad), None

    return Wrong(), (tokens(),), {"need_weights": True}


@broken("attention weights")
def one_map_for_two_layers():
    class Mapped(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1)
            return self.to_out(self.merge(weights @ v)), weights

    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = Mapped(), Mapped()

        def forward(self, x):
            more, first = self.one(x)
            x = x + more
            more, second = self.two(x)
            return x + more, [first, first]

    return Wrong(), (tokens(),), {}


@broken("attention weights")
def map_of_an_earlier_call():
    class Wrong(Heads):
        def __init__(self):
            super().__init__()
            self.map = None

        def weigh(self, scores):
            weights = super().weigh(scores)
            if self.map is None:
                self.map = weights.detach()
            return weights

    module = Wrong()
    module(tokens())
    return module, (tokens(),), {}


@broken("attention weights")
def pair_of_output_and_weights_added():
    class Wrong(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(D, H, batch_first=True)

        def forward(self, x):
            return x + self.mha(x, x, x)

    return Wrong(), (tokens(),), {}


# --- dtype / compile -----------------------------------------------------------------


@broken("dtype / compile")
def type_written_down():
    class Wrong(Heads):
        def score(self, q, k):
            return super().score(q, k).to(torch.float32)

    return Wrong(), (tokens(),), {}


@broken("dtype / compile")
def mask_of_bytes():
    return Heads(), (tokens(), PADDING.to(torch.uint8)), {}


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


# --- loss and training ---------------------------------------------------------------


@broken("loss and training")
def mean_over_padding():
    return Reader(pool=lambda x, pad: x.mean(1)), (words(),), {}


@broken("loss and training")
def probabilities_for_logits():
    class Wrong(Reader):
        def forward(self, ids):
            return super().forward(ids).softmax(-1)

    return Wrong(pool=masked_mean), (words(),), {}


# --- notebook / display --------------------------------------------------------------


@broken("notebook / display")
def prints_at_each_call():
    class Wrong(Heads):
        def forward(self, x, pad=None):
            print("shape", x.shape)
            return super().forward(x, pad)

    return Wrong(), (tokens(),), {}


@broken("notebook / display")
def cannot_be_shown():
    class Wrong(Heads):
        def __repr__(self):
            raise RuntimeError("no")

    return Wrong(), (tokens(),), {}


# --- right, though unusual -----------------------------------------------------------


@right
def encoder_of_two_layers():
    return Reader(), (words(),), {}


@right
def pooled_over_real_tokens():
    return Reader(pool=masked_mean), (words(),), {}


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
def one_block_four_times():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = torch_layer(norm_first=True)

        def forward(self, x):
            for _ in range(4):
                x = self.block(x)
            return x

    return Right(), (tokens(),), {}


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
def window_of_neighbours():
    class Right(Heads):
        def mask(self, scores, pad):
            n = scores.shape[-1]
            far = (torch.arange(n) - torch.arange(n)[:, None]).abs() > 2
            blocked = (far | pad[:, None, None, :]) & ~torch.eye(n).bool()
            return scores.masked_fill(blocked, float("-inf"))

    return Layer(Right), (tokens(), PADDING), {}


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
def rotated_queries_and_keys():
    class Right(Heads):
        def project(self, x):
            q, k, v = super().project(x)
            return rotate(q, 1), rotate(k, 1), v

    return Layer(Right), (tokens(),), {}


@right
def padded_at_the_left():
    ids = words().flip(1)
    return Reader(pool=masked_mean), (ids,), {}


@right
def mask_of_real_tokens():
    class Right(Heads):
        def mask(self, scores, keep):
            return scores + (1.0 - keep[:, None, None, :]) * -1e9

    return Layer(Right), (tokens(), (~PADDING).float()), {}


@right
def causal_by_name():
    class CausalSelfAttention(Heads):
        def mask(self, scores, pad):
            n = scores.shape[-1]
            return scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))

    return Layer(CausalSelfAttention), (tokens(),), {}


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
def sinusoidal_positions():
    return Placed(Positions(sinusoids(40, D))), (words(padded=False),), {}


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
def one_table_in_and_out():
    class Right(Reader):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(D, 23)
            self.head.weight = self.emb.weight

    return Right(), (words(),), {}


@right
def weights_returned_for_each_head():
    class Right(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1)
            dropped = F.dropout(weights, 0.1, self.training)
            return self.to_out(self.merge(dropped @ v)), weights

    return Right().train(), (tokens(),), {}


@right
def mask_inside_a_dict():
    class Right(Layer):
        def forward(self, batch):
            return {"hidden": super().forward(batch["x"], batch["pad"])}

    return Right(), ({"x": tokens(), "pad": PADDING},), {}


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
def similarity_of_all_pairs_of_samples():
    class Right(Reader):
        def forward(self, ids):
            z = F.normalize(super().forward(ids), dim=-1)
            return z @ z.T

    return Right(pool=masked_mean), (words(),), {}


@right
def half_precision():
    return Reader(pool=masked_mean).bfloat16(), (words(),), {}


@right
def pairs_of_tables_with_kinds_of_tokens():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.kind = nn.Embedding(23, D), nn.Embedding(2, D)
            self.place, self.layer = nn.Embedding(30, D), Layer()

        def forward(self, ids):
            x = self.emb(ids) + self.place(torch.arange(ids.shape[1]))
            return self.layer(x + self.kind(torch.zeros_like(ids)))

    return Right(), (words(padded=False),), {}
