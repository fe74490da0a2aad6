"""Right encoders, called as strangers call theirs: none may raise an alarm."""

import functools

import torch
from torch import nn

from .parts import LENGTHS, PADDING, B, D, Layer, Reader, T, right, tokens, words


class Text(nn.Module):
    """Ids with learnt positions; makes its own mask, whatever else it is given."""

    def __init__(self, dropout=0.1):
        super().__init__()
        self.words, self.places = (
            nn.Embedding(23, D, padding_idx=0),
            nn.Embedding(16, D),
        )
        layer = nn.TransformerEncoderLayer(D, 5, 44, dropout, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, ids, attention_mask=None, **more):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        return self.body(x, src_key_padding_mask=ids == 0)


class Pooled(Text):
    def forward(self, ids, attention_mask=None, **more):
        return super().forward(ids)[:, 0]


# --- inputs that nobody reads --------------------------------------------------------


@right
def a_mask_that_is_not_read():
    return Pooled(), (words(), (~PADDING).long()), {}


@right
def a_mask_that_is_only_moved():
    class Right(Pooled):
        def forward(self, ids, attention_mask):
            attention_mask = attention_mask.to(torch.float32)[:, None, None]
            return super().forward(ids)

    return Right(), (), {"ids": words(), "attention_mask": (~PADDING).long()}


@right
def lengths_that_are_not_read():
    return Pooled(), (words(), LENGTHS), {}


@right
def kinds_of_tokens_that_are_not_read():
    kinds = (torch.arange(T) > 2).long().expand(B, T) * ~PADDING
    given = {"ids": words(), "token_type_ids": kinds}
    return Text(), (), given | {"attention_mask": (~PADDING).long()}


@right
def kinds_of_tokens_by_a_map():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.kind, self.layer = (
                nn.Embedding(23, D),
                nn.Linear(1, D),
                Layer(),
            )

        def forward(self, ids, kinds, keep):
            x = self.emb(ids)
            x = x + self.kind(kinds[..., None].to(x.dtype))
            return self.layer(x, keep == 0)

    kinds = (torch.arange(T) > 2).long().expand(B, T)
    return Right(), (words(), kinds, (~PADDING).long()), {}


# --- inputs that cannot be copied, or are objects ------------------------------------


class Batch:
    def __init__(self, **held):
        self.__dict__.update(held)

    def __deepcopy__(self, memo):
        raise RuntimeError("no copies")


class OfBatch(Text):
    def forward(self, batch):
        return super().forward(batch.ids)


@right
def an_object_that_cannot_be_copied():
    return OfBatch(), (Batch(ids=words(), names=["a", "b"]),), {}


@right
def an_object_that_hides_what_it_holds():
    class Sealed(Batch):
        __slots__ = ("held",)

        def __init__(self, ids):
            self.held = [ids]

        @property
        def ids(self):
            return self.held[0]

    return OfBatch(), (Sealed(words()),), {}


@right
def tokens_kept_in_the_module():
    class Right(Text):
        def forward(self, numbers):
            return super().forward(self.kept)[:, 0] + 0 * numbers.sum()

    module = Right()
    module.register_buffer("kept", words())
    return module, (tokens(B, T, 4),), {}


# --- callables around a module -------------------------------------------------------


@right
def a_closure():
    module = Text().eval()
    return (lambda ids: module(ids)), (words(),), {}


@right
def a_closure_in_train_mode():
    module = Text()
    return (lambda ids: module(ids)), (words(),), {}


@right
def a_closure_over_two_modules():
    body, head = Text(), nn.Linear(D, 3)
    return (lambda ids: head(body(ids)[:, 0])), (words(),), {}


@right
def a_partial():
    return functools.partial(Text().eval(), attention_mask=None), (words(),), {}


@right
def a_bound_method():
    return Text().eval().forward, (words(),), {}


@right
def a_method_of_an_object_that_holds_a_module():
    class Pipeline:
        def __init__(self):
            self.parts = {"body": Text()}

        def encode(self, ids):
            return self.parts["body"](ids)

    return Pipeline().encode, (words(),), {}


HELD = {}


@right
def a_function_that_finds_its_module_elsewhere():
    HELD["body"] = Text()
    return functools.partial(call_held, "body"), (words(),), {}


def call_held(name, ids):
    return HELD[name](ids)


# --- padding and order ---------------------------------------------------------------


@right
def sorted_by_length_and_put_back():
    class Right(Text):
        def forward(self, ids):
            order = (ids != 0).sum(1).argsort()
            return super().forward(ids[order])[order.argsort()]

    return Right(), (words(),), {}


@right
def zeros_for_padding_and_no_mask():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layer = nn.Embedding(23, D, padding_idx=0), Layer()

        def forward(self, ids):
            return self.layer(self.emb(ids))

    return Right(), (words(),), {}


@right
def read_where_an_id_stands():
    class Right(Text):
        def forward(self, ids):
            x = super().forward(ids)
            return x[torch.arange(len(ids)), (ids == 22).int().argmax(1)]

    ids = words()
    ids[:, 2] = 22
    return Right(), (ids,), {}


@right
def gains_of_ones_in_each_layer():
    class Gained(Layer):
        def __init__(self):
            super().__init__()
            self.gains = nn.Parameter(torch.full((5, 1, 4), 0.1))

        def forward(self, x, pad=None):
            x = x.unflatten(-1, (5, 4)).transpose(1, 2) * self.gains
            return super().forward(x.transpose(1, 2).flatten(2), pad)

    return Reader(make=Gained), (words(),), {}


@right
def series_brought_to_one_scale_and_back():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.shift = (
                nn.Parameter(torch.ones(3)),
                nn.Parameter(torch.zeros(3)),
            )

        def forward(self, x, back=False):
            if back:
                return (x - self.shift) / self.gain * self.std + self.mean
            self.mean, self.std = x.mean(1, keepdim=True), x.std(1, keepdim=True) + 1e-5
            return (x - self.mean) / self.std * self.gain + self.shift

    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.inp, self.out = Scale(), nn.Linear(3, D), nn.Linear(D, 3)
            self.layer, self.places = Layer(), nn.Parameter(torch.randn(12, D) * 0.1)

        def forward(self, x):
            x = self.layer(self.inp(self.scale(x)) + self.places)
            return self.scale(self.out(x), back=True)

    return Right(), (tokens(2, 12, 3),), {}


# --- parts that this call does not need ----------------------------------------------


@right
def a_learnt_patch_for_another_call():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.unknown, self.layer = nn.Parameter(torch.randn(D)), Layer()

        def forward(self, x, replaced=None):
            if replaced is not None:
                x = torch.where(replaced[..., None], self.unknown, x)
            return self.layer(x)

    return Right(), (tokens(),), {}


@right
def an_expert_that_nobody_chose():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.router = Layer(), nn.Linear(D, 9)
            self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(9))

        def forward(self, x):
            x = self.layer(x)
            shares = self.router(x.mean(1)).softmax(-1)
            chosen = zip(shares, shares.argmax(-1), x, strict=True)
            rows = [share[i] * self.experts[i](row) for share, i, row in chosen]
            return torch.stack(rows)

    return Right(), (tokens(),), {}


@right
def tokens_drawn_at_random():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.places, self.layer = nn.Parameter(torch.randn(T, D)), Layer()

        def forward(self, x):
            kept = torch.rand(x.shape[:2]).argsort(1)[:, :4, None].expand(-1, -1, D)
            return self.layer((x + self.places).gather(1, kept))

    return Right(), (tokens(),), {}
