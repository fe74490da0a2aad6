"""One set of weights in everybody's encoder, so that only the time can differ.

A rival is a module and a way to call it with x (B, T, D) and a key_padding_mask. All
are Post-LN with ReLU. `build` makes nn.TransformerEncoder and copies its weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
from encoder import EncoderLayer
from packed import run_layers
from torch import nn

try:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertEncoder
except ImportError:
    BertEncoder = None

BASE = SimpleNamespace(d_model=512, n_heads=8, d_ff=2048, n_layers=6)  # the paper's
OURS, PACKED = "encoder.py", "packed.py"
FAST, SLOW = "nn.TransformerEncoder, fast", "nn.TransformerEncoder, slow"
NESTED = f"{FAST}, nested"
HAND, BERT = "written by hand", "BertEncoder"


@dataclass
class Rival:
    """A module, and how to call it: call(x, key_padding_mask) -> (B, T, D)."""

    module: nn.Module
    call: Callable


def build(device, dropout=0.0):
    """Return {name: Rival} in eval mode; Bert only where transformers is installed."""
    torch.manual_seed(0)
    sizes = BASE.d_model, BASE.n_heads, BASE.d_ff, dropout
    layer = nn.TransformerEncoderLayer(*sizes, batch_first=True)
    torchs = nn.TransformerEncoder(layer, BASE.n_layers, enable_nested_tensor=False)
    nested = nn.TransformerEncoder(layer, BASE.n_layers)
    nested.layers = torchs.layers
    ours = nn.ModuleList(EncoderLayer.from_torch(layer) for layer in torchs.layers)
    hand = nn.ModuleList(HandLayer(*sizes) for _ in ours)
    hand.load_state_dict(ours.state_dict())
    rivals = {
        OURS: Rival(ours, partial(call_ours, ours)),
        PACKED: Rival(ours, partial(run_layers, ours)),
        FAST: Rival(torchs, partial(call_torch, torchs, True)),
        NESTED: Rival(nested, partial(call_torch, nested, True)),
        SLOW: Rival(torchs, partial(call_torch, torchs, False)),
        HAND: Rival(hand, partial(call_hand, hand)),
    }
    if BertEncoder is not None:
        bert = build_bert(ours, dropout)
        rivals[BERT] = Rival(bert, partial(call_bert, bert))
    for rival in rivals.values():
        rival.module.to(device).eval()
    return rivals


def call_ours(layers, x, mask):
    for layer in layers:
        x, _ = layer(x, mask)
    return x


def call_hand(layers, x, mask):
    for layer in layers:
        x = layer(x, mask)
    return x


def call_torch(module, fast, x, mask):
    """With the fused path that torch takes in inference, or without it.

    On that path torch also drops padding, as a nested tensor, unless it is told not to,
    a norm comes first, or padding stands elsewhere than at the end.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        return module(x, src_key_padding_mask=mask)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


class HandNorm(nn.Module):
    """LayerNorm from its formula, as the Annotated Transformer and others have it."""

    def __init__(self, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = (x - mean).square().mean(-1, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(variance + 1e-5) + self.bias


class HandLayer(nn.Module):
    """An encoder layer as tutorials write it, all by hand; names as in ours."""

    def __init__(self, d_model, n_heads, d_ff, dropout):
        super().__init__()
        self.n_heads, self.dropout = n_heads, nn.Dropout(dropout)
        maps = "query", "key", "value", "output"
        self.attention = nn.ModuleDict({m: nn.Linear(d_model, d_model) for m in maps})
        ends = {"up": nn.Linear(d_model, d_ff), "down": nn.Linear(d_ff, d_model)}
        self.feed_forward = nn.ModuleDict(ends)
        self.norm1, self.norm2 = HandNorm(d_model), HandNorm(d_model)

    def forward(self, x, mask):
        x = self.norm1(x + self.dropout(self.attend(x, mask)))
        inner = self.dropout(torch.relu(self.feed_forward["up"](x)))
        return self.norm2(x + self.dropout(self.feed_forward["down"](inner)))

    def attend(self, x, mask):
        batch, tokens, d_model = x.shape
        sizes = batch, tokens, self.n_heads, d_model // self.n_heads
        query, key, value = (
            self.attention[name](x).view(sizes).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(sizes[-1])
        if mask is not None:
            scores = scores.masked_fill(mask[:, None, None, :], -1e9)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        context = torch.matmul(weights, value).transpose(1, 2).contiguous()
        return self.attention["output"](context.view(batch, tokens, d_model))


def build_bert(ours, dropout):
    """Hugging Face's encoder at this size, its attention through SDPA, our weights."""
    config = BertConfig(
        hidden_size=BASE.d_model,
        num_attention_heads=BASE.n_heads,
        intermediate_size=BASE.d_ff,
        num_hidden_layers=BASE.n_layers,
        hidden_act="relu",
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        layer_norm_eps=1e-5,
        attn_implementation="sdpa",
    )
    bert = BertEncoder(config)
    for theirs, layer in zip(bert.layer, ours, strict=True):
        for part, source in bert_parts(theirs, layer):
            part.load_state_dict(source.state_dict())
    return bert


def bert_parts(theirs, ours):
    """Pair each of Bert's parts with ours of the same meaning."""
    yield theirs.attention.self.query, ours.attention.query
    yield theirs.attention.self.key, ours.attention.key
    yield theirs.attention.self.value, ours.attention.value
    yield theirs.attention.output.dense, ours.attention.output
    yield theirs.attention.output.LayerNorm, ours.norm1
    yield theirs.intermediate.dense, ours.feed_forward.up
    yield theirs.output.dense, ours.feed_forward.down
    yield theirs.output.LayerNorm, ours.norm2


def call_bert(bert, x, mask):
    """Bert's encoder wants its mask as SDPA does: (B, 1, Tq, Tk), True = seen."""
    if mask is not None:
        mask = ~mask[:, None, None].expand(-1, -1, mask.shape[1], -1)
    return bert(x, attention_mask=mask).last_hidden_state
