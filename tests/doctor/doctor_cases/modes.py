"""Train and eval mode, and torch's fast path."""

import torch.nn.functional as F
from torch import nn

from .parts import D, Heads, Layer, broken, tokens, torch_layer, words

# --- train/eval and fast path ---------------------------------------------------------


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


@broken("train/eval and fast path")
def share_to_keep_taken_for_share_to_drop():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.ff.append(nn.Dropout(0.9))

    return Wrong(), (tokens(),), {}
