"""Exhibits of the softmax: its axis, and the scale of what it is given."""

import math

from torch.nn import functional

from .catalogue import pitfall
from .parts import Steps


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
