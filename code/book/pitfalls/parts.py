"""The right parts that exhibits derive from, and change in one place."""

import math

import torch
from encoder import (
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    SinusoidalPositions,
    TransformerEncoder,
)
from torch import Tensor, nn
from torch.nn import functional


class Steps(MultiHeadAttention):
    """The right attention, one method a step, for exhibits to replace one of them."""

    def forward(self, x, key_padding_mask=None, need_weights=False):
        query, key, value = map(self.split_heads, self.project(x))
        scores, blocked = self.score(query, key), self.blocked(key_padding_mask)
        weights = self.weigh(scores, blocked)
        kept = functional.dropout(weights, self.dropout, self.training)
        return self.merge(kept @ value), weights if need_weights else None

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.query(x), self.key(x), self.value(x)

    def score(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])

    def blocked(self, padding: Tensor | None) -> Tensor | None:
        return None if padding is None else padding[:, None, None]  # (B, 1, 1, T)

    def weigh(self, scores: Tensor, blocked: Tensor | None) -> Tensor:
        if blocked is None:
            return scores.softmax(dim=-1)
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
        return scores.softmax(dim=-1).masked_fill(blocked, 0.0)

    def merge(self, context: Tensor) -> Tensor:
        return self.output(context.transpose(1, 2).flatten(2))


class Classifier(nn.Module):
    """The mean of a sentence's words, then a linear map to three classes."""

    def __init__(self, encoder: TransformerEncoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.embedding.weight.shape[1], 3)

    def forward(self, token_ids: Tensor, key_padding_mask: Tensor) -> Tensor:
        """Map ids (B, T) to scores of the classes (B, 3)."""
        hidden, _ = self.encoder(token_ids, key_padding_mask)
        return self.head(self.pool(hidden, ~key_padding_mask[..., None]))

    def pool(self, hidden: Tensor, is_word: Tensor) -> Tensor:
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
