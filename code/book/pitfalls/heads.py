"""Exhibits of heads: how they are projected, cut, joined, and which axis is which."""

import math

from encoder import MultiHeadAttention
from torch import nn
from torch.nn import functional

from .catalogue import pitfall
from .parts import Steps

# --- heads, cut and joined -----------------------------------------------------------


@pitfall(
    kind="head split/merge",
    sign="it learns, but worse or something else",
    symptom="Shapes are right, the loss falls, and moved tokens do not move the output",
    diagnosis="shuffle_gap(model.layers[0].attention, x) < 1e-4",
    fix="unflatten first, then transpose: x.unflatten(-1, (H, K)).transpose(1, 2)",
    where="the mirror image of jsbaan/transformer-from-scratch#4",
)
class SplitWithoutTranspose(MultiHeadAttention):
    """Heads are cut by reshape alone: a head's row holds slices of several tokens."""

    def split_heads(self, x):
        return x.reshape(len(x), self.n_heads, x.shape[1], -1)


@pitfall(
    kind="head split/merge",
    sign="it learns, but worse or something else",
    symptom="Shapes are right, and a copy task may still be learned",
    diagnosis="shuffle_gap(model.layers[0].attention, x) < 1e-4",
    fix="transpose before you flatten: context.transpose(1, 2).flatten(2)",
    where="jsbaan/transformer-from-scratch#4, ajhalthor/Transformer-Neural-Network#8",
)
class MergeWithoutTranspose(Steps):
    """Heads are joined by reshape alone: a row holds one head of several tokens."""

    def merge(self, context):
        return self.output(context.reshape(len(context), context.shape[2], -1))


@pitfall(
    kind="head split/merge",
    sign="it does not learn",
    symptom="Maps are H by H, and no token's output depends on another token",
    diagnosis="influence(model, ids).min() > 1e-5",
    fix="put heads before tokens ahead of the product: .transpose(1, 2)",
    where="the split of minimal encoders, where one axis swap runs unnoticed",
)
class HeadsInPlaceOfTokens(Steps):
    """The transpose after the split is forgotten: a token's heads attend to another."""

    def split_heads(self, x):
        return x.unflatten(-1, (self.n_heads, -1))

    def blocked(self, padding):
        return None

    def merge(self, context):
        return self.output(context.flatten(2))


@pitfall(
    kind="head split/merge",
    sign="maps look wrong",
    symptom="There are K maps where H were asked for",
    diagnosis="maps(model, ids)[0].shape[1] == model.layers[0].attention.n_heads",
    fix="name the axes in order: unflatten(-1, (n_heads, d_head))",
    where="no number known: the order of two arguments of view",
)
class HeadsAndWidthExchanged(MultiHeadAttention):
    """The number of heads and their width are exchanged: K heads, each H wide."""

    def split_heads(self, x):
        return x.unflatten(-1, (-1, self.n_heads)).transpose(1, 2)


@pitfall(
    kind="head split/merge",
    sign="parameters are missing or idle",
    symptom="Attention is narrower than the model, and nobody says so",
    diagnosis="len(model.layers[0].attention.query.weight) == x.shape[-1]",
    fix="raise an error unless n_heads divides d_model",
    where="rasbt/LLMs-from-scratch#444, facebookresearch/detr#499",
    unlike="its maps are as wide as whole heads allow",
)
def heads_that_do_not_divide(model):
    """The width of a head is D // H, rounded down: H heads no longer make D."""
    for layer in model.layers:
        part, n_heads = layer.attention, 6
        width = part.d_model // n_heads * n_heads
        part.n_heads = n_heads
        for name in ("query", "key", "value"):
            setattr(part, name, nn.Linear(part.d_model, width))
        part.output = nn.Linear(width, part.d_model)


@pitfall(
    kind="head split/merge",
    sign="it raises an error",
    symptom="An error of matmul in attention, unless T happens to be K",
    diagnosis="model(ids, padding)[0].shape == (*ids.shape, 20)",
    fix="query @ key.transpose(-2, -1)",
    where="the shape bug of the sources' advice to print shapes",
)
class KeysNotTransposed(Steps):
    """Queries meet keys that have not been turned: K of one against T of the other."""

    def score(self, query, key):
        return query @ key / math.sqrt(query.shape[-1])


# --- projections ---------------------------------------------------------------------


@pitfall(
    kind="projections",
    sign="parameters are missing or idle",
    symptom="It trains; the value map never changes",
    diagnosis="idle(model, ids, padding) == []",
    fix="value = self.value(x)",
    where="yflyzhang/AnnotatedTransformer#1,"
    " Khaliladib11/Transformer-from-scratch PR#2",
)
class ValueFromKey(Steps):
    """A line was copied: the value is made by the key's map."""

    def project(self, x):
        return self.query(x), self.key(x), self.key(x)


@pitfall(
    kind="projections",
    sign="parameters are missing or idle",
    symptom="Scores are symmetric before the softmax; the query map never changes",
    diagnosis="idle(model, ids, padding) == []",
    fix="query = self.query(x)",
    where="the same slip as yflyzhang/AnnotatedTransformer#1, one word earlier",
)
class QueryFromKey(Steps):
    """A line was copied: the query is made by the key's map."""

    def project(self, x):
        return self.key(x), self.key(x), self.value(x)


@pitfall(
    kind="projections",
    sign="parameters are missing or idle",
    symptom="It trains, a little worse; each output feature hears one head only",
    diagnosis="idle(model, ids, padding) == []",
    fix="return self.output(merged)",
    where="no number known: the fourth map is the one that formulas leave out",
)
class OutputMapForgotten(Steps):
    """The joined heads are returned as they are, unmixed."""

    def merge(self, context):
        return context.transpose(1, 2).flatten(2)


@pitfall(
    kind="projections",
    sign="parameters are missing or idle",
    symptom="It trains; most of each projection is never used",
    diagnosis="features_read(model.layers[0].attention, x) == x.shape[-1]",
    fix="project D to D first, split afterwards",
    where="MarcoMeter/episodic-transformer-memory-ppo PR#22",
)
class HeadsCutBeforeProjecting(Steps):
    """The input is cut into heads first, and one small map serves them all."""

    def project(self, x):
        pieces, k = super().split_heads(x), x.shape[-1] // self.n_heads
        maps = self.query, self.key, self.value
        return [functional.linear(pieces, m.weight[:k, :k], m.bias[:k]) for m in maps]

    def split_heads(self, x):
        return x


# --- which axis is which -------------------------------------------------------------


@pitfall(
    kind="batch/sequence layout",
    sign="answers depend on the other samples",
    symptom="A sentence's output changes with its neighbours in the batch",
    diagnosis="company_gap(model, ids, padding) < 1e-4",
    fix="batch_first=True, or transpose on the way in and out",
    where="pytorch/pytorch#122959, Exorust/TorchLeet#5, IBM/TabFormer PR#14",
)
class BatchTakenForTime(MultiHeadAttention):
    """(B, T, D) is read as (T, B, D): tokens of different sentences attend."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        out, weights = super().forward(x.transpose(0, 1), None, need_weights)
        return out.transpose(0, 1), weights
