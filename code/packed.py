"""The encoder's layers run without the padded rows: same parameters, less work.

Padding is computed like anything else and then ignored. Here the padded rows leave
before the first layer and come back, as zeros, after the last one. In between there is
no (B, T, D) but one long list of rows (N, D), N real tokens: every part that treats
tokens alone (linear maps, LayerNorm, feed-forward) runs on all of them at once, and
attention runs once for each group of sequences of equal length, with no mask at all.

Letters are those of `encoder.py`; so is the meaning of a mask, True = padding.
"""

import torch
from encoder import TransformerEncoder, check_hidden, check_padding
from torch import Tensor, nn


def run_layers(layers, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
    """Run EncoderLayers over the real rows of x: (B, T, D) -> (B, T, D).

    Real rows come out as the layers would give them, in training too; padded rows,
    wherever they lie in a sequence, are never read and come out zero. The layers' own
    `forward` is not called, so hooks on them do not fire. Raises what they raise.
    """
    for layer in layers:
        check_hidden(x, layer.attention.d_model)
    check_padding(key_padding_mask, x)
    if key_padding_mask is None or not key_padding_mask.any():
        for layer in layers:
            x, _ = layer(x)
        return x
    index, groups = plan(~key_padding_mask)
    rows = x.flatten(0, 1)[index]  # (N, D)
    for layer in layers:
        rows = run_layer(layer, rows, groups)
    padded = rows.new_zeros(x.shape).flatten(0, 1)
    return padded.index_copy(0, index, rows).unflatten(0, x.shape[:2])


def plan(real: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
    """Order the real tokens of (B, T) so that sequences of equal length are neighbours.

    Returns their places (N,) in the flattened batch, and for each length in turn how
    many sequences have it: [(count, length), ...]. A length may be 0.
    """
    lengths = real.sum(1)
    order = lengths.argsort(stable=True)
    places = torch.arange(real.numel(), device=real.device).view_as(real)
    length, count = lengths.unique(return_counts=True)
    groups = list(zip(count.tolist(), length.tolist()))
    return places[order][real[order]], groups


def run_layer(layer, x, groups):
    """Repeat `EncoderLayer.forward` on rows (N, D)."""
    inside = layer.norm1(x) if layer.norm_first else x
    x = x + layer.dropout(attend_in_groups(layer.attention, inside, groups))
    if layer.norm_first:
        return x + layer.dropout(layer.feed_forward(layer.norm2(x)))
    x = layer.norm1(x)
    return layer.norm2(x + layer.dropout(layer.feed_forward(x)))


def attend_in_groups(attention, rows, groups):
    """Project all rows (N, D) at once, then let each sequence attend to itself."""
    sizes = [count * length for count, length in groups]
    maps = attention.query, attention.key, attention.value
    parts = zip(*(linear(rows).split(sizes) for linear in maps))
    contexts = []
    for group, part in zip(groups, parts):
        heads = (attention.split_heads(p.unflatten(0, group)) for p in part)
        context, _ = attention.attend(*heads, None, False)  # (count, H, length, K)
        contexts.append(context.transpose(1, 2).flatten(2).flatten(0, 1))
    return attention.output(torch.cat(contexts))


class PackedEncoder(TransformerEncoder):
    """A TransformerEncoder's own parts, called the same way, run without padded rows.

    The parts are shared, not copied: training either one trains both, and a state dict
    of one fits the other. Hidden vectors of padded tokens are zero. With `need_weights`
    the plain encoder runs, since a map has a row for every token, padded or not.
    """

    def __init__(self, encoder: TransformerEncoder):
        nn.Module.__init__(self)
        for name, part in encoder.named_children():
            self.add_module(name, part)
        self.training = encoder.training

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        """Map ids (B, T) to vectors (B, T, D), and L weights (B, H, T, T), or None."""
        if need_weights or key_padding_mask is None:
            hidden, maps = super().forward(token_ids, key_padding_mask, need_weights)
        else:
            x = self.embed(token_ids)
            hidden, maps = run_layers(self.layers, x, key_padding_mask), None
            hidden = self.final_norm(hidden)
        if key_padding_mask is not None:  # the final norm adds its bias to zeros too
            hidden = hidden.masked_fill(key_padding_mask[..., None], 0.0)
        return hidden, maps
