"""Hugging Face's BERT, with layers of ours in place of its own."""

from encoder import EncoderLayer
from torch import nn


def layers_from_bert(theirs: nn.Module) -> nn.ModuleList:
    """Return the layers of a `transformers.BertModel` as EncoderLayers.

    Post-LN and GELU are BERT's. The maps and the norms, with their epsilon, are not
    copied but shared: both models hold the same weights. In eval mode.
    """
    return nn.ModuleList(map(layer_from_bert, theirs.encoder.layer))


def layer_from_bert(theirs: nn.Module) -> EncoderLayer:
    heads, mixed = theirs.attention.self, theirs.attention.output
    width, n_heads = heads.query.in_features, heads.num_attention_heads
    d_ff = theirs.intermediate.dense.out_features

    ours = EncoderLayer(width, n_heads, d_ff, activation=nn.functional.gelu)
    ours.attention.query = heads.query
    ours.attention.key = heads.key
    ours.attention.value = heads.value
    ours.attention.output = mixed.dense

    ours.feed_forward.up = theirs.intermediate.dense
    ours.feed_forward.down = theirs.output.dense
    ours.norm1, ours.norm2 = mixed.LayerNorm, theirs.output.LayerNorm
    return ours.eval()
