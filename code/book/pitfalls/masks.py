"""Exhibits of masks: what True means, and which axis it hides."""

import torch
from encoder import EncoderLayer, TransformerEncoder

from .catalogue import pitfall
from .parts import Steps

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
    uses=(Deaf,),
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
