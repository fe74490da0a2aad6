"""Exhibits of the attention weights that a model hands out."""

from encoder import EncoderLayer, MultiHeadAttention, TransformerEncoder
from torch.nn import functional

from .catalogue import pitfall
from .parts import Steps


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
