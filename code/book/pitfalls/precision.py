"""Exhibits of numbers that are none: nan, infinity, overflow."""

import math

import torch
from torch import nn

from .catalogue import become, pitfall
from .parts import Steps


@pitfall(
    kind="nan / precision",
    sign="nan or inf",
    symptom="nan as soon as one sentence of the batch is empty",
    diagnosis="model(ids, padding)[0].isfinite().all()",
    fix="fill with the lowest finite number, and set the weights to 0 afterwards",
    where="pytorch/pytorch#24816, pytorch/pytorch#41508",
    lengths=(7, 5, 3, 0),
)
class FilledWithInfinity(Steps):
    """A row that may see nothing is -inf throughout: its softmax is 0 / 0."""

    def weigh(self, scores, blocked):
        return scores.masked_fill(blocked, -math.inf).softmax(dim=-1)


class FilledByNumber(Steps):
    """The fill of many tutorials: harmless in float32."""

    def weigh(self, scores, blocked):
        return scores.masked_fill(blocked, -1e9).softmax(dim=-1)


@pitfall(
    kind="nan / precision",
    sign="it raises an error",
    symptom="An overflow in half precision, in a model that ran in float32",
    diagnosis="model.half()(ids, padding)[0].isfinite().all()",
    fix="torch.finfo(scores.dtype).min",
    where="NVIDIA/apex#1052, NVIDIA/apex#93, tatp22/linformer-pytorch PR#19",
    unlike="its weights are rounded to half precision",
    uses=(FilledByNumber,),
)
def fill_too_low_for_half(model):
    """-1e9 does not fit into float16, which ends at 65504."""
    become(model, FilledByNumber)
    model.half()


@pitfall(
    kind="nan / precision",
    sign="nan or inf",
    symptom="The first token is nan, and from the next layer on every token",
    diagnosis="model(ids, padding)[0].isfinite().all()",
    fix="hide what comes after: triu(1) leaves the diagonal",
    where="pbloem/former#10, TransformerLensOrg/TransformerLens#284",
)
class DiagonalHidden(Steps):
    """The triangle includes the diagonal: the first query may see nothing."""

    def weigh(self, scores, blocked):
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu()
        return scores.masked_fill(hidden, -math.inf).softmax(dim=-1)


@pitfall(
    kind="nan / precision",
    sign="nan or inf",
    symptom="Fine for days, then nan: when a score passes 88",
    diagnosis="model.layers[0].attention(100 * x)[0].isfinite().all()",
    fix="scores.softmax(dim=-1), which subtracts the row's maximum",
    where="no number known: the formula, typed as it is printed",
)
class SoftmaxByHand(Steps):
    """exp of a large score is infinite, and inf / inf is nan."""

    def weigh(self, scores, blocked):
        grown = scores.exp() * (1 if blocked is None else ~blocked)
        return grown / grown.sum(dim=-1, keepdim=True)


@pitfall(
    kind="nan / precision",
    sign="nan or inf",
    symptom="nan for a token whose features are all the same, padding for example",
    diagnosis="model.layers[0].norm1(0 * x).isfinite().all()",
    fix="add eps under the root, as nn.LayerNorm does",
    where="no number known: eps left out of a norm made by hand",
)
class NormWithoutEps(nn.LayerNorm):
    """A token without variance is divided by zero."""

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        spread = centred.square().mean(dim=-1, keepdim=True).sqrt()
        return centred / spread * self.weight + self.bias
