"""What comes out: logits, pooled sentences, what is printed."""

import torch.nn.functional as F

from .parts import Heads, Reader, broken, masked_mean, right, tokens, words

# --- loss and training ----------------------------------------------------------------


@broken("loss and training", like="softmax before the loss")
def probabilities_for_logits():
    class Wrong(Reader):
        def forward(self, ids):
            return super().forward(ids).softmax(-1)

    return Wrong(pool=masked_mean), (words(),), {}


# --- notebook / display ---------------------------------------------------------------


@broken("notebook / display")
def cannot_be_shown():
    class Wrong(Heads):
        def __repr__(self):
            raise RuntimeError("no")

    return Wrong(), (tokens(),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def encoder_of_two_layers():
    return Reader(), (words(),), {}


@right
def pooled_over_real_tokens():
    return Reader(pool=masked_mean), (words(),), {}


@right
def similarity_of_all_pairs_of_samples():
    class Right(Reader):
        def forward(self, ids):
            z = F.normalize(super().forward(ids), dim=-1)
            return z @ z.T

    return Right(pool=masked_mean), (words(),), {}


@right
def log_probabilities_of_a_pooled_sentence():
    class Right(Reader):
        def forward(self, ids):
            return F.log_softmax(super().forward(ids), dim=-1)

    return Right(pool=masked_mean), (words(),), {}
