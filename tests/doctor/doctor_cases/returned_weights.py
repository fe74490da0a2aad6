"""Weights that a module gives out or keeps."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from .parts import D, H, Heads, Layer, Reader, broken, right, tokens, torch_layer, words

# --- attention weights ----------------------------------------------------------------


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


# --- right, though unusual ------------------------------------------------------------


@right
def weights_returned_for_each_head():
    class Right(Heads):
        def forward(self, x, pad=None):
            q, k, v = (self.split(t) for t in self.project(x))
            weights = self.score(q, k).softmax(-1)
            dropped = F.dropout(weights, 0.1, self.training)
            return self.to_out(self.merge(dropped @ v)), weights

    return Right().train(), (tokens(),), {}
