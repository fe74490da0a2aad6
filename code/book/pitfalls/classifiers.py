"""Exhibits of what stands on top of an encoder: the pooling, the loss."""

from .catalogue import pitfall
from .parts import Classifier


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
