"""Exhibits of positions and the embedding that they are added to."""

import math

import torch
from encoder import SinusoidalPositions, TransformerEncoder

from .catalogue import pitfall


@pitfall(
    kind="positional encoding",
    sign="it does not learn",
    symptom="Tasks that need order stay at chance; shuffled tokens change nothing",
    diagnosis="order_effect(model, ids) > 1e-3",
    fix="x + self.table[: x.shape[1]]",
    where="the first of seven pitfalls of minimal encoders",
)
class PositionsForgotten(SinusoidalPositions):
    """Nothing is added: attention sees a set of words."""

    def forward(self, x):
        return x


@pitfall(
    kind="positional encoding",
    sign="answers depend on the other samples",
    symptom="A sentence's output depends on its place in the batch",
    diagnosis="largest(outputs(model, ids.flip(0)), outputs(model, ids).flip(0))"
    " < 1e-4",
    fix="the table's axis is time: self.table[: x.shape[1]]",
    where="a tutorial of Neuromatch Academy adds positions along the batch",
)
class PositionsAlongTheBatch(SinusoidalPositions):
    """Row b of the table goes to sample b, the same for all of its tokens."""

    def forward(self, x):
        return x + self.table[: len(x), None]


def waves(table, rates):
    """Fill a table (n, D) with sines and cosines of these rates (D / 2)."""
    angle = torch.arange(len(table))[:, None] * rates
    table.copy_(torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1))


@pitfall(
    kind="positional encoding",
    sign="it learns, but worse or something else",
    symptom="Most columns of the table are constant",
    diagnosis="(model.positions.table.std(dim=0) > 1e-3).all()",
    fix="/ in place of //",
    where="zju3dv/LoFTR#41, GrumpyZhou/image-matching-toolbox#36",
)
def exponent_rounded_down(model):
    """Floor division makes the exponent a whole number: rates fall as e ** -k."""
    table = model.positions.table
    pairs = torch.arange(table.shape[1] // 2)
    waves(table, torch.exp(2.0 * pairs * (-math.log(1e4) // table.shape[1])))


@pitfall(
    kind="positional encoding",
    sign="it learns, but worse or something else",
    symptom="Neighbours are no more alike than strangers: a hash, not a ruler",
    diagnosis="neighbour_likeness(model.positions.table) > 0.7",
    fix="multiply by the rate, or divide by its inverse, not both",
    where="harvardnlp/annotated-transformer#131, hkproj/pytorch-transformer#2",
)
def rates_turned_over(model):
    """The rate is divided by, though it is 1 over the wavelength already."""
    table = model.positions.table
    even = torch.arange(0, table.shape[1], 2)
    waves(table, 10000 ** (even / table.shape[1]))


class Unguarded(SinusoidalPositions):
    """A table whose length is not compared with the sentence's."""

    def forward(self, x):
        return x + self.short[: x.shape[1]]


@pitfall(
    kind="positional encoding",
    sign="it raises an error",
    symptom="An error at the first sentence that is longer than all before it",
    diagnosis="model(ids, padding)[0].shape == (*ids.shape, 20)",
    fix="a longer table, and an error that names max_length",
    where="bentrevett/pytorch-seq2seq#89, facebookresearch/esm#49",
    unlike="its table has five rows",
    uses=(Unguarded,),
)
def table_too_short(model):
    """The table of positions ends before the sentence does."""
    model.positions = Unguarded(64, model.embedding.weight.shape[1])
    model.positions.register_buffer("short", model.positions.table[:5])


@pitfall(
    kind="positional encoding",
    sign="it does not learn",
    symptom="Positions are several times as loud as words",
    diagnosis="loudness(model, ids) > 0.8",
    fix="self.embedding(token_ids) * math.sqrt(d_model)",
    where="the first of seven pitfalls of minimal encoders",
)
class EmbeddingNotScaled(TransformerEncoder):
    """The root of D is left out, with an embedding that was drawn for it."""

    def embed(self, token_ids):
        return self.dropout(self.positions(self.embedding(token_ids)))


@pitfall(
    kind="positional encoding",
    sign="it does not learn",
    symptom="Words drown their positions; a task about places stays at chance",
    diagnosis="loudness(model, ids) < 3",
    fix="nn.init.normal_(embedding.weight, std=d_model**-0.5), or no factor sqrt(D)",
    where="nn.Embedding as it comes, times sqrt(D): see the training chapter",
    unlike="its embedding is larger by sqrt(D)",
)
def embedding_too_loud(model):
    """Words start with standard deviation 1 and are multiplied by sqrt(D) on top."""
    model.embedding.weight *= math.sqrt(model.embedding.weight.shape[1])
