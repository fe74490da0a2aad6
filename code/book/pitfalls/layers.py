"""Exhibits of the layer: its residuals, its norms, its feed-forward network."""

from encoder import EncoderLayer, FeedForward
from torch import nn
from torch.nn import functional

from .catalogue import pitfall


@pitfall(
    kind="norm / residual / FFN",
    sign="it does not learn",
    symptom="All tokens of a sentence become one vector; queries get no gradient",
    diagnosis="likeness(model(ids)[0]) < 0.9",
    fix="x = x + self.attention(x)",
    where="related: simon-ging/coot-videotext#5; suspected in the sources' tables",
)
class ResidualForgotten(EncoderLayer):
    """The input is replaced by what attention made of it, which makes tokens alike."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        mixed, weights = self.attention(x, key_padding_mask, need_weights)
        x = self.norm1(self.dropout(mixed))
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights


@pitfall(
    kind="norm / residual / FFN",
    sign="it does not learn",
    symptom="All tokens of a sentence become one vector; queries get no gradient",
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
