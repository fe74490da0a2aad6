"""Masks: of padding and of what comes later."""

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
    Layer,
    Reader,
    T,
    broken,
    masked_mean,
    right,
    sinusoids,
    tokens,
    torch_layer,
    words,
)

# --- mask meaning ---------------------------------------------------------------------


@broken("mask meaning", like="mask the wrong way round")
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


@broken("mask meaning", like="mask after softmax")
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
def large_number_added_for_padding():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores + pad[:, None, None, :] * 1e9

    return Layer(Wrong), (tokens(), PADDING), {}


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


@broken("mask meaning")
def compared_with_another_pad_id():
    class Wrong(Reader):
        def forward(self, ids):
            pad, x = ids == 22, self.emb(ids)
            for layer in self.layers:
                x = layer(x, pad)
            return self.head(x)

    return Wrong(), (words().clamp(max=21),), {}


# --- mask axis/shape ------------------------------------------------------------------


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


@broken("mask axis/shape", like="mask without its axes")
def too_few_axes():
    class Wrong(Heads):
        def mask(self, scores, pad):
            return scores.masked_fill(pad, float("-inf"))

    return Wrong(), (tokens(), PADDING), {}


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


@broken("mask axis/shape")
def repeated_as_if_heads_were_behind_samples():
    class Wrong(Folded):
        def repeat(self, pad):
            return pad.repeat_interleave(self.h, 0)

    return Wrong(), (tokens(B, T, 16), PADDING), {}


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


@broken("mask axis/shape")
def mask_grown_at_the_wrong_end():
    class Wrong(Summed):
        room = (1, 0)

    return Wrong(), (words(),), {}


# --- right, though unusual ------------------------------------------------------------


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
def mask_inside_a_dict():
    class Right(Layer):
        def forward(self, batch):
            return {"hidden": super().forward(batch["x"], batch["pad"])}

    return Right(), ({"x": tokens(), "pad": PADDING},), {}


@right
def heads_folded_in_front_of_samples():
    return Folded(), (tokens(B, T, 16), PADDING), {}


@right
def summary_behind_the_tokens():
    return Summed(), (words(),), {}


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
