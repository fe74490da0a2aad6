"""The museum: broken encoders, each one small difference from `encoder.py`.

    broken = exhibit("softmax over queries")
    ids, padding = PITFALLS["softmax over queries"].inputs()

An exhibit has the weights of the right encoder, so that outputs can be compared. It is
a class, put in the place of the part that it derives from, or a function that changes a
model. Its docstring is the cause; its `diagnosis` is one line of Python, true of the
right encoder and false, or an error, of the exhibit. `where` says where it was met:
projects are named with the number of their issue or pull request.
"""

import inspect
import math
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from encoder import (
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    SinusoidalPositions,
    TransformerEncoder,
)
from torch import nn
from torch.nn import functional

from . import measurements as witnesses

SIZES = {"vocab_size": 23, "d_model": 20, "n_heads": 5, "d_ff": 44, "n_layers": 3}
LENGTHS = (7, 5, 3, 6)
SIGNS = (
    "it raises an error",
    "nan or inf",
    "it does not learn",
    "it learns, but worse or something else",
    "answers depend on the padding",
    "answers depend on the other samples",
    "answers differ between calls or modes",
    "maps look wrong",
    "parameters are missing or idle",
)


@dataclass(frozen=True)
class Pitfall:
    """A fault: how it shows, why, the line that proves it, its cure, where it was met.

    `sign` is one of SIGNS, `kind` one of the doctor's kinds. `unlike` says why the
    parameters are not those of the right model, where they are not.
    """

    name: str
    kind: str
    sign: str
    symptom: str
    cause: str
    diagnosis: str
    fix: str
    where: str
    change: Callable
    unlike: str = ""
    lengths: tuple = LENGTHS
    options: dict = field(default_factory=dict)
    call: dict = field(default_factory=dict)

    def inputs(self):
        """Return ids (B, T), padded with 0, and the padding (B, T), True = padding."""
        own = torch.Generator().manual_seed(3)
        shape = len(self.lengths), max(self.lengths)
        padding = torch.arange(shape[1]) >= torch.tensor(self.lengths)[:, None]
        return torch.randint(1, 23, shape, generator=own) * ~padding, padding

    def right(self, **sizes) -> nn.Module:
        """Build the right model, in eval mode, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = TransformerEncoder(**SIZES | self.options | sizes)
            if takes_place_of(self.change) is Classifier:
                model = Classifier(model)
        return model.eval()

    def build(self, **sizes) -> nn.Module:
        """Build the broken model from the same weights."""
        model = self.right(**sizes)
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            if inspect.isclass(self.change):
                become(model, self.change)
            else:
                self.change(model)
        return model

    def healthy(self, model) -> bool:
        """Ask the diagnosis of a model; an error is a no."""
        ids, padding = self.inputs()
        own = torch.Generator().manual_seed(4)
        x = torch.randn(*ids.shape, model_width(model), generator=own)
        names = vars(witnesses) | {"model": model, "ids": ids, "padding": padding}
        try:
            return bool(
                eval(self.diagnosis, names | {"x": x, "functional": functional})
            )
        except Exception:
            return False

    def code(self) -> str:
        """Return the lines of the exhibit, without what is said about it."""
        text = bare_source(self.change)
        used = [bare_source(part) for part in ASIDE if part.__name__ in text]
        return "\n\n\n".join([text, *used])


PITFALLS: dict[str, Pitfall] = {}


def pitfall(**said):
    """Put a class or a function into the catalogue; its name is the exhibit's."""

    def register(change):
        words = "".join(f" {c}" if c.isupper() else c for c in change.__name__)
        name = words.replace("_", " ").strip().lower()
        cause = " ".join(change.__doc__.split())
        PITFALLS[name] = Pitfall(name=name, cause=cause, change=change, **said)
        return change

    return register


def exhibit(name: str, **sizes) -> nn.Module:
    """Build a broken encoder; `sizes` are those of `TransformerEncoder`.

    Raises ValueError for a name that is not in PITFALLS.
    """
    if name not in PITFALLS:
        raise ValueError(f"no exhibit {name!r}; they are {', '.join(PITFALLS)}")
    return PITFALLS[name].build(**sizes)


def become(model, change):
    """Turn every part of which `change` is a subclass into one of that class."""
    for part in model.modules():
        if type(part) is takes_place_of(change):
            part.__class__ = change


def takes_place_of(change):
    """Return the class of the right model that an exhibit derives from."""
    bases = change.__mro__ if inspect.isclass(change) else ()
    return next((base for base in bases if base in REPLACED), None)


def bare_source(thing) -> str:
    """Return the lines of a class or function, less its decorator and docstring."""
    text = re.sub(
        r"\A@.*?^(?=class |def )", "", inspect.getsource(thing), flags=re.M | re.S
    )
    return (
        text.replace(f'    """{thing.__doc__}"""\n', "", 1)
        .strip()
        .replace(":\n\n", ":\n")
    )


def model_width(model) -> int:
    return getattr(model, "encoder", model).embedding.weight.shape[1]


# --- what exhibits are made of -------------------------------------------------------


class Steps(MultiHeadAttention):
    """The right attention, one method a step, for exhibits to replace one of them."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        query, key, value = map(self.split_heads, self.project(x))
        scores, blocked = self.score(query, key), self.blocked(key_padding_mask)
        weights = self.weigh(scores, blocked)
        kept = functional.dropout(weights, self.dropout, self.training)
        return self.merge(kept @ value), weights if need_weights else None

    def project(self, x):
        return self.query(x), self.key(x), self.value(x)

    def score(self, query, key):
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])

    def blocked(self, padding):
        return None if padding is None else padding[:, None, None]

    def weigh(self, scores, blocked):
        if blocked is None:
            return scores.softmax(dim=-1)
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1).masked_fill(blocked, 0.0)

    def merge(self, context):
        return self.output(context.transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    """The mean of a sentence's words, then a linear map to three classes."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.embedding.weight.shape[1], 3)

    def forward(self, token_ids, key_padding_mask):
        hidden, _ = self.encoder(token_ids, key_padding_mask)
        return self.head(self.pool(hidden, ~key_padding_mask[..., None]))

    def pool(self, hidden, is_word):
        return (hidden * is_word).sum(dim=1) / is_word.sum(dim=1)


REPLACED = (
    Classifier,
    TransformerEncoder,
    EncoderLayer,
    MultiHeadAttention,
    FeedForward,
    SinusoidalPositions,
    nn.LayerNorm,
)


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


# --- what a mask means ---------------------------------------------------------------


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="Words attend to padding and to nothing else",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="F.scaled_dot_product_attention wants True = visible: give it ~padding",
    where="rasbt/LLMs-from-scratch#1061, pytorch/pytorch PR#170415",
)
class MaskTheWrongWayRound(Steps):
    """True means hidden in one function and visible in the next."""

    def blocked(self, padding):
        return super().blocked(~padding)


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="Padding gets more weight than without any mask",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="give a bool mask, or a float mask of 0 and -inf",
    where="pytorch/pytorch#136816, pytorch/pytorch#92554",
)
class MaskAddedAsOnes(Steps):
    """A float mask is added to the scores: 1 multiplies a key's odds by e."""

    def weigh(self, scores, blocked):
        return (scores + blocked.float()).softmax(dim=-1)


@pitfall(
    kind="mask meaning",
    sign="maps look wrong",
    symptom="Rows of the maps sum to less than 1, the less the more padding",
    diagnosis="row_error(model, ids, padding) < 1e-4",
    fix="mask the scores, before the softmax",
    where="huggingface/pytorch-image-models PR#2236, tensorflow/tensorflow#43941",
)
class MaskAfterSoftmax(Steps):
    """Padding is set to 0 when the shares have been given out already."""

    def weigh(self, scores, blocked):
        return scores.softmax(dim=-1).masked_fill(blocked, 0.0)


class Deaf(EncoderLayer):
    """A layer that does not listen to its mask."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        return super().forward(x, None, need_weights)


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="The first map is clean; outputs still change with the amount of padding",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="pass the mask to every layer",
    where="AI4Bharat/IndicBERT#20, keras-team/keras-hub#137,"
    " speechbrain/speechbrain#1597",
)
def mask_in_first_layer_only(model):
    """The mask is used once, and the layers above see the padding again."""
    for layer in model.layers[1:]:
        layer.__class__ = Deaf


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="The same sentence is read differently beside a longer one",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="hand the mask on: self.attention(x, key_padding_mask)",
    where="lucidrains/graph-transformer-pytorch PR#2, thunlp/FewRel#17",
)
class MaskNotPassedOn(EncoderLayer):
    """The layer takes a mask and keeps it to itself."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        return super().forward(x, None, need_weights)


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="The mask is all False, though the batch holds padding",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="make the mask from the ids: padding = token_ids == 0",
    where="Kyubyong/transformer#33 and PR#69",
)
class MaskMadeTooLate(TransformerEncoder):
    """Padding is looked for as zero vectors, when positions have been added already."""

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        padding = (self.embed(token_ids) == 0).all(dim=-1)
        return super().forward(token_ids, padding, need_weights)


@pitfall(
    kind="mask meaning",
    sign="it learns, but worse or something else",
    symptom="Position 0 knows nothing of the sentence; maps are triangles",
    diagnosis="influence(model, ids).min() > 1e-5",
    fix="no causal mask in an encoder",
    where="huggingface/transformers#46077, huggingface/transformers PR#42820",
)
class CausalByHabit(Steps):
    """A decoder's triangle hides every later token."""

    def weigh(self, scores, blocked):
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        return super().weigh(scores, later if blocked is None else blocked | later)


@pitfall(
    kind="mask meaning",
    sign="answers depend on the padding",
    symptom="Padding keeps about its share of every row",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="torch.finfo(scores.dtype).min, written once",
    where="no number known: a minus sign in the wrong place, 1e-9 for -1e9",
)
class FilledWithNothing(Steps):
    """Hidden scores become 1e-9, which is no low score but an average one."""

    def weigh(self, scores, blocked):
        return scores.masked_fill(blocked, 1e-9).softmax(dim=-1)


# --- which axis a mask hides ---------------------------------------------------------


@pitfall(
    kind="mask axis/shape",
    sign="answers depend on the padding",
    symptom="Rows of padding are blank; columns of padding are not",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="padding is a key: padding[:, None, None, :], not [:, None, :, None]",
    where="no number known: [:, None, :, None] for [:, None, None, :]",
)
class QueriesMasked(Steps):
    """The mask lies along the queries, so that padding does not ask but answers."""

    def blocked(self, padding):
        return padding[:, None, :, None]


@pitfall(
    kind="mask axis/shape",
    sign="answers depend on the padding",
    symptom="It runs when the batch has as many samples as there are heads",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="an axis for the heads: mask[:, None]",
    where="lucidrains/graph-transformer-pytorch PR#2, ml-explore/mlx-lm PR#1903",
    options={"n_heads": 4},
)
class BatchTakenForHeads(Steps):
    """(B, T, T) meets (B, H, T, T): the mask of sample i falls on head i."""

    def blocked(self, padding):
        return padding[:, None].expand(-1, padding.shape[1], -1)


@pitfall(
    kind="mask axis/shape",
    sign="it raises an error",
    symptom="An error of masked_fill, unless B happens to be T",
    diagnosis="model(ids, padding)[0].shape == (*ids.shape, 20)",
    fix="two axes more: padding[:, None, None, :]",
    where="related: pytorch/pytorch#115472, pytorch/pytorch#64706",
)
class MaskWithoutItsAxes(Steps):
    """(B, T) meets (B, H, T, T): samples are lined up with queries."""

    def blocked(self, padding):
        return padding


# --- numbers that are none -----------------------------------------------------------


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


@pitfall(
    kind="nan / precision",
    sign="it raises an error",
    symptom="An overflow in half precision, in a model that ran in float32",
    diagnosis="model.half()(ids, padding)[0].isfinite().all()",
    fix="torch.finfo(scores.dtype).min",
    where="NVIDIA/apex#1052, NVIDIA/apex#93, tatp22/linformer-pytorch PR#19",
    unlike="its weights are rounded to half precision",
)
def fill_too_low_for_half(model):
    """-1e9 does not fit into float16, which ends at 65504."""
    become(model, FilledByNumber)
    model.half()


class FilledByNumber(Steps):
    """The fill of many tutorials: harmless in float32."""

    def weigh(self, scores, blocked):
        return scores.masked_fill(blocked, -1e9).softmax(dim=-1)


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


# --- softmax and its scale -----------------------------------------------------------


@pitfall(
    kind="softmax / scale",
    sign="maps look wrong",
    symptom="Rows are nearly one-hot, the more so the wider the heads",
    diagnosis="abs(divisor(model.layers[0].attention, x) - 2) < 0.1  # sqrt(K)",
    fix="divide by math.sqrt(query.shape[-1])",
    where="juho-lee/set_transformer#18, mlc-ai/mlc-llm PR#3426",
)
class ScaleForgotten(Steps):
    """Scores are dot products as they come, and grow with the width of a head."""

    def score(self, query, key):
        return query @ key.transpose(-2, -1)


@pitfall(
    kind="softmax / scale",
    sign="maps look wrong",
    symptom="Rows are flatter than they should be; it trains, more slowly",
    diagnosis="abs(divisor(model.layers[0].attention, x) - 2) < 0.1  # sqrt(K)",
    fix="the width of a head, not of the model: math.sqrt(d_model // n_heads)",
    where="lucidrains/vit-pytorch#65, omihub777/ViT-CIFAR PR#11",
)
class ScaleOfTheModel(Steps):
    """Scores are divided by sqrt(D), too much by the root of the number of heads."""

    def score(self, query, key):
        return query @ key.transpose(-2, -1) / math.sqrt(self.d_model)


@pitfall(
    kind="softmax / scale",
    sign="it does not learn",
    symptom="Rows are one-hot from the start, and queries and keys stay as they are",
    diagnosis="abs(divisor(model.layers[0].attention, x) - 2) < 0.1  # sqrt(K)",
    fix="scale = d_head ** -0.5 is multiplied",
    where="esceptico/perceiver-io#9",
)
class ScaleUpsideDown(Steps):
    """Divided by K ** -0.5, that is, multiplied by the root."""

    def score(self, query, key):
        return query @ key.transpose(-2, -1) / query.shape[-1] ** -0.5


@pitfall(
    kind="softmax / scale",
    sign="maps look wrong",
    symptom="Columns sum to 1 and rows do not; a toy task is learned all the same",
    diagnosis="row_error(model, ids) < 1e-4",
    fix="softmax over the keys, the last axis: dim=-1",
    where="the second of seven pitfalls of minimal encoders",
)
class SoftmaxOverQueries(Steps):
    """Each key shares itself out over the queries, not each query over the keys."""

    def weigh(self, scores, blocked):
        if blocked is not None:
            scores = scores.masked_fill(blocked, -1e9)
        return scores.softmax(dim=-2)


@pitfall(
    kind="softmax / scale",
    sign="maps look wrong",
    symptom="The maps of one layer sum to 1 over the heads",
    diagnosis="row_error(model, ids) < 1e-4",
    fix="softmax over the keys, the last axis: dim=-1",
    where="the second of seven pitfalls of minimal encoders",
)
class SoftmaxOverHeads(Steps):
    """Heads compete for each pair of tokens, where keys should for each query."""

    def weigh(self, scores, blocked):
        weights = scores.softmax(dim=1)
        return weights if blocked is None else weights.masked_fill(blocked, 0.0)


@pitfall(
    kind="softmax / scale",
    sign="maps look wrong",
    symptom="All maps are nearly uniform and stay so",
    diagnosis="evenness(maps(model, ids)[0]) < 0.98",
    fix="apply softmax once",
    where="the twin, in the head of a model: ariecattan/SciCo#2",
)
class SoftmaxTwice(Steps):
    """The second softmax sees numbers between 0 and 1, and levels them."""

    def weigh(self, scores, blocked):
        return super().weigh(super().weigh(scores, blocked), blocked)


@pitfall(
    kind="softmax / scale",
    sign="answers differ between calls or modes",
    symptom="In training a dropped score of 0 is no missing key but an average one",
    diagnosis="largest(*[a.train(m)(x, need_weights=True)[1] for a in"
    " [model.layers[0].attention] for m in (True, False)]) < 1e-4",
    fix="dropout on the weights, after the softmax",
    where="no number known: one line too high",
)
class DropoutOnScores(Steps):
    """Dropout comes before the softmax."""

    def weigh(self, scores, blocked):
        dropped = functional.dropout(scores, self.dropout, self.training)
        return super().weigh(dropped, blocked)


# --- positions -----------------------------------------------------------------------


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


@pitfall(
    kind="positional encoding",
    sign="it raises an error",
    symptom="An error at the first sentence that is longer than all before it",
    diagnosis="model(ids, padding)[0].shape == (*ids.shape, 20)",
    fix="a longer table, and an error that names max_length",
    where="bentrevett/pytorch-seq2seq#89, facebookresearch/esm#49",
    unlike="its table has five rows",
)
def table_too_short(model):
    """The table of positions ends before the sentence does."""
    model.positions = Unguarded(64, model.embedding.weight.shape[1])
    model.positions.register_buffer("short", model.positions.table[:5])


class Unguarded(SinusoidalPositions):
    """A table whose length is not compared with the sentence's."""

    def forward(self, x):
        return x + self.short[: x.shape[1]]


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


# --- norms, residuals, feed-forward --------------------------------------------------


@pitfall(
    kind="norm / residual / FFN",
    sign="it does not learn",
    symptom="With depth all tokens of a sentence become one vector",
    diagnosis="likeness(model(ids)[0]) < 0.9",
    fix="x = x + self.attention(x)",
    where="related: simon-ging/coot-videotext#5; suspected in the sources' tables",
)
class ResidualForgotten(EncoderLayer):
    """The input is replaced by what attention made of it."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm1(self.dropout(mixed))
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="it does not learn",
    symptom="With depth all tokens of a sentence become one vector",
    diagnosis="likeness(model(ids)[0]) < 0.9",
    fix="keep the input under a name of its own: mixed = attention(x); x = x + mixed",
    where="kyegomez/BitNet#32",
)
class AddedToItself(EncoderLayer):
    """x is overwritten before the addition, which then doubles it."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        x, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm1(x + self.dropout(x))
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="it learns, but worse or something else",
    symptom="Pre-LN that behaves like no order in the books; deep stacks train badly",
    diagnosis="largest(model.layers[0](100 * x)[0], 100 * x) < 100",
    fix="x = x + part(norm(x)): the sum takes the x that was not normed",
    where="the residual stage that a minimal encoder's article warns of",
    options={"norm_first": True},
)
class AddedToTheNormed(EncoderLayer):
    """x = norm(x) overwrites the stream, and the residual adds the wrong one."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        x = self.norm1(x)
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm2(x + self.dropout(mixed))
        return x + self.dropout(self.feed_forward(x)), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="it learns, but worse or something else",
    symptom="Every check of shapes, sums and masks passes",
    diagnosis="(model.layers[0](x)[0].std(dim=-1) - 1).abs().max() < 0.05",
    fix="the sublayers add the input; the layer does not",
    where="one of the mutants that home-made checks let pass: see the training chapter",
)
class ResidualTwice(EncoderLayer):
    """The layer adds its input once more, after the last norm."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        out, weights = super().forward(x, key_padding_mask, need_weights)
        return x + out, weights


@pitfall(
    kind="norm / residual / FFN",
    sign="answers depend on the padding",
    symptom="Tokens of a sentence hear of each other where they should not",
    diagnosis="(model.layers[0].norm1(x).mean(dim=-1)).abs().max() < 1e-4",
    fix="nn.LayerNorm(d_model), over the last axis",
    where="no number known: LayerNorm(T), on the axis that came last",
)
class NormOverTokens(nn.LayerNorm):
    """Statistics are taken over the tokens of a sentence, one feature at a time."""

    def forward(self, x):
        across = functional.layer_norm(x.mT, (x.shape[1],), eps=self.eps).mT
        return across * self.weight + self.bias


@pitfall(
    kind="norm / residual / FFN",
    sign="answers depend on the other samples",
    symptom="In training a sentence's output depends on the batch and its padding",
    diagnosis="company_gap(model, ids, padding) < 1e-4",
    fix="nn.LayerNorm(d_model)",
    where="pytorch/pytorch#70529, Tomiinek/Multilingual_Text_to_Speech#81",
)
class NormOverTheBatch(nn.LayerNorm):
    """A feature is normalised over all tokens of all samples, as BatchNorm does."""

    def forward(self, x):
        centred = x - x.mean(dim=(0, 1))
        scale = (centred.square().mean(dim=(0, 1)) + self.eps).rsqrt()
        return centred * scale * self.weight + self.bias


@pitfall(
    kind="norm / residual / FFN",
    sign="it learns, but worse or something else",
    symptom="After the norm, loud tokens are quiet and quiet ones loud",
    diagnosis="(model.layers[0].norm1(3 * x).std(dim=-1) - 1).abs().max() < 0.05",
    fix="divide by the root: ** 0.5",
    where="131250208/TPlinker-joint-extraction#37",
)
class DividedByTheVariance(nn.LayerNorm):
    """A centred token is divided by its variance, not by the root of it."""

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return centred / (variance + self.eps) * self.weight + self.bias


@pitfall(
    kind="norm / residual / FFN",
    sign="it learns, but worse or something else",
    symptom="The feed-forward part could be one matrix",
    diagnosis="bend(model.layers[0].feed_forward, x) > 1e-3",
    fix="self.down(self.activation(self.up(x)))",
    where="no number known: an activation that was built and not called",
)
class ActivationForgotten(FeedForward):
    """Two linear maps with nothing between them are one linear map."""

    def forward(self, x):
        return self.down(self.dropout(self.up(x)))


@pitfall(
    kind="norm / residual / FFN",
    sign="it raises an error",
    symptom="Forward is fine; backward says that a tensor was modified in place",
    diagnosis="model(ids)[0].square().sum().backward() is None",
    fix="x = x + mixed",
    where="idiap/fast-transformers PR#10, vllm-project/vllm PR#24500",
)
class ResidualInPlace(EncoderLayer):
    """x += writes over a tensor that backward still needs."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x += self.dropout(mixed)
        x = self.norm1(x)
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="parameters are missing or idle",
    symptom="It trains; half of the norms keep their first values",
    diagnosis="idle(model, ids, padding) == []",
    fix="self.norm2 after the feed-forward part",
    where="no number known: a line copied with its number",
)
class OneNormForBoth(EncoderLayer):
    """The first norm is used in both places."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm1(x + self.dropout(mixed))
        return self.norm1(x + self.dropout(self.feed_forward(x))), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="it learns, but worse or something else",
    symptom="Outputs grow with depth, and the head starts with a large loss",
    diagnosis="(model(ids)[0].std(dim=-1) - 1).abs().max() < 0.05",
    fix="a norm after the last layer of a Pre-LN stack",
    where="no number known: a stack turned to Pre-LN, and its end forgotten",
    options={"norm_first": True},
    unlike="its last norm is missing",
)
def final_norm_forgotten(model):
    """In Pre-LN nobody norms the stream itself, and the last norm was to do it."""
    model.final_norm = nn.Identity()


# --- what is registered, and what is shared ------------------------------------------


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="print(model) shows all layers; the parameters are those of one",
    diagnosis="len({id(layer) for layer in model.layers}) == len(model.layers)",
    fix="nn.ModuleList(EncoderLayer(...) for _ in range(n_layers))",
    where="espnet/espnet#1278, datawhalechina/learn-nlp-with-transformers#56",
    unlike="all of its layers are the first",
)
def one_layer_many_times(model):
    """[layer] * n repeats a reference, not a layer."""
    model.layers = nn.ModuleList([model.layers[0]] * len(model.layers))


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="The layers are not trained, not saved, and eval() does not reach them",
    diagnosis="'layers.0.norm1.weight' in model.state_dict()",
    fix="nn.ModuleList(layers)",
    where="maruya24/pytorch_robotics_transformer#3, pytorch/pytorch#666",
    unlike="the model does not know its layers",
)
def layers_in_a_list(model):
    """A Python list hides its modules from the module that holds it."""
    layers = list(model.layers)
    del model.layers
    model.layers = layers


@pitfall(
    kind="registration / sharing",
    sign="it learns, but worse or something else",
    symptom="Layers start with equal numbers",
    diagnosis="largest(*(layer.norm1.weight + layer.attention.query.weight"
    " for layer in model.layers[:2])) > 0",
    fix="draw the matrices anew after copying",
    where="pytorch/pytorch#72253, harvardnlp/annotated-transformer#9",
    unlike="its layers have the first one's numbers",
)
def layers_that_start_alike(model):
    """One layer was built and copied, first values and all."""
    copies = [deepcopy(model.layers[0]) for _ in model.layers]
    model.layers = nn.ModuleList(copies)


@pitfall(
    kind="registration / sharing",
    sign="it raises an error",
    symptom="An error of devices or types when the model has been moved",
    diagnosis="'table' in dict(model.positions.named_buffers())",
    fix="register_buffer('table', table, persistent=False)",
    where="no number known: self.table = table, and then model.cuda()",
)
def table_not_registered(model):
    """The table is a plain attribute, and stays where it was made."""
    table = model.positions.table
    model.positions = Carried()
    model.positions.table = table


class Carried(nn.Module):
    """Positions without a buffer."""

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="Layers have attentions of their own, and all but one get no gradient",
    diagnosis="idle(model, ids, padding) == []",
    fix="a method that uses self, not a function that remembers one object",
    where="open-mmlab/mmcv PR#1418",
)
def copies_that_call_the_first(model):
    """A function remembers the first layer's attention, and copies keep calling it."""
    remembered = model.layers[0].attention.forward
    for layer in model.layers[1:]:
        layer.attention.forward = remembered


@pitfall(
    kind="loss and training",
    sign="parameters are missing or idle",
    symptom="The embedding never changes, and all else trains",
    diagnosis="idle(model, ids, padding) == []",
    fix="no detach, .data, numpy or no_grad on the way from ids to loss",
    where="the missing gradient that the sources explain by requires_grad alone",
)
class GradientCut(TransformerEncoder):
    """detach() lets numbers through and stops gradients."""

    def embed(self, token_ids):
        return super().embed(token_ids).detach()


# --- train and eval ------------------------------------------------------------------


@pitfall(
    kind="train/eval and fast path",
    sign="answers differ between calls or modes",
    symptom="Two calls in eval mode differ",
    diagnosis="largest(outputs(model, ids), outputs(model, ids)) == 0",
    fix="nn.Dropout, or training=self.training",
    where="rixwew/pytorch-fm#21, colehurwitz/IBL_MtM_model PR#13",
)
class DropoutNeverOff(FeedForward):
    """functional.dropout drops by default, whatever the module's mode."""

    def forward(self, x):
        return self.down(functional.dropout(self.activation(self.up(x)), 0.1))


@pitfall(
    kind="train/eval and fast path",
    sign="it learns, but worse or something else",
    symptom="Training goes on without dropout after the first call",
    diagnosis="(model.train()(ids), model.training)[1]",
    fix="let the caller choose the mode",
    where="no number known: an eval() left in forward after debugging",
)
class EvalInForward(TransformerEncoder):
    """forward switches the model to eval, and nobody switches it back."""

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        self.eval()
        return super().forward(token_ids, key_padding_mask, need_weights)


# --- weights that are handed out -----------------------------------------------------


@pitfall(
    kind="attention weights",
    sign="maps look wrong",
    symptom="One map a layer, (B, T, T); if B is H it passes for heads",
    diagnosis="maps(model, ids)[0].dim() == 4",
    fix="average_attn_weights=False; here: return the weights of each head",
    where="pytorch/pytorch#34537, pytorch/pytorch#47583, google-research/bert#994",
    call={"need_weights": True},
)
class WeightsAveraged(MultiHeadAttention):
    """The mean over heads is returned as if it were a map."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        out, weights = super().forward(x, key_padding_mask, need_weights)
        return out, weights.mean(dim=1) if need_weights else None


@pitfall(
    kind="attention weights",
    sign="maps look wrong",
    symptom="Maps were asked for and are None",
    diagnosis="maps(model, ids)[0] is not None",
    fix="hand need_weights on to the attention",
    where="pytorch/pytorch#88810, huggingface/transformers#31990",
    call={"need_weights": True},
)
class WeightsNotAskedFor(EncoderLayer):
    """The layer asks its attention for no weights, whatever it was asked."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        return super().forward(x, key_padding_mask, False)


@pitfall(
    kind="attention weights",
    sign="maps look wrong",
    symptom="In training, maps have zeros, and rows that do not sum to 1",
    diagnosis="row_error(model.train(), ids) < 1e-4",
    fix="return the weights as they are before dropout",
    where="the self.attn of the sources' listing; torch's own returns them so, too",
    call={"need_weights": True},
)
class WeightsAfterDropout(Steps):
    """What is handed out has been through dropout."""

    def weigh(self, scores, blocked):
        weights = super().weigh(scores, blocked)
        return functional.dropout(weights, self.dropout, self.training)


@pitfall(
    kind="attention weights",
    sign="maps look wrong",
    symptom="All layers seem to look at the same things",
    diagnosis="largest(*maps(model, ids)[:2]) > 0",
    fix="append each layer's own weights",
    where="no number known: a variable of the loop that is not the loop's",
    call={"need_weights": True},
)
class FirstMapForAll(TransformerEncoder):
    """The list of maps holds the first layer's, once for each layer."""

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        out, maps = super().forward(token_ids, key_padding_mask, need_weights)
        return out, maps and maps[:1] * len(maps)


# --- what stands on top --------------------------------------------------------------


@pitfall(
    kind="loss and training",
    sign="answers depend on the padding",
    symptom="The vector of a sentence changes with the length of its neighbours",
    diagnosis="padding_leak(model, ids, padding) < 1e-4",
    fix="sum over words, divided by the number of words",
    where="huggingface/transformers#17463, jsboige/CoursIA#15045",
)
class MeanOverPadding(Classifier):
    """Attention is masked and the mean is not."""

    def pool(self, hidden, is_word):
        return hidden.mean(dim=1)


@pitfall(
    kind="loss and training",
    sign="it learns, but worse or something else",
    symptom="The loss falls, and stops at a floor far above 0",
    diagnosis="(model(ids, padding).sum(dim=-1) - 1).abs().max() > 1e-3",
    fix="return logits: cross_entropy applies the softmax",
    where="ariecattan/SciCo#2, lansinuote/Huggingface_Toturials#6",
)
class SoftmaxBeforeTheLoss(Classifier):
    """The loss takes the softmax of probabilities."""

    def forward(self, token_ids, key_padding_mask):
        return super().forward(token_ids, key_padding_mask).softmax(dim=-1)


# --- types, and what is shown --------------------------------------------------------


@pitfall(
    kind="dtype / compile",
    sign="it raises an error",
    symptom="masked_fill wants a bool mask; old listings write .byte()",
    diagnosis="model(ids, padding)[0].isfinite().all()",
    fix=".bool()",
    where="kimiyoung/transformer-xl#115, huggingface/transformers PR#21384",
)
class MaskOfBytes(Steps):
    """Masks of integers were allowed once."""

    def blocked(self, padding):
        return super().blocked(padding).byte()


@pitfall(
    kind="dtype / compile",
    sign="it raises an error",
    symptom="It runs in float32 alone",
    diagnosis="model.double()(ids)[0].dtype == model.embedding.weight.dtype",
    fix="make new tensors like old ones: .to(x.dtype)",
    where="no number known: .float() where .to(x) was meant",
)
class FloatByDecree(SinusoidalPositions):
    """A type is written down where the input's should be taken."""

    def forward(self, x):
        return (x + self.table[: x.shape[1]]).float()


@pitfall(
    kind="notebook / display",
    sign="answers differ between calls or modes",
    symptom="Every call writes to the page; stored outputs never come back",
    diagnosis="printed(lambda: model(ids)) == ''",
    fix="trace(model, ids): shapes without a print in forward",
    where="the helper print_shape, left in; computationalmodelling/nbval#204",
)
class ShapesPrinted(EncoderLayer):
    """A print that was for debugging stays in forward."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        print("layer", tuple(x.shape))
        return super().forward(x, key_padding_mask, need_weights)


ASIDE = Deaf, FilledByNumber, Unguarded, Carried  # what functions put in a part's place
