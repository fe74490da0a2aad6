"""The encoder's layers run without the padded rows: same parameters, less work.

Padding is computed like anything else and then ignored. Here the padded rows leave
before the first layer and come back, as zeros, after the last one. In between there is
no (B, T, D) but one long list of rows (N, D), N real tokens: every part that treats
tokens alone (linear maps, LayerNorm, feed-forward) runs on all of them at once, and
attention runs once for each group of sequences of equal length, with no mask at all.

Letters are those of `encoder.py`; so is the meaning of a mask, True = padding.
"""

from typing import NamedTuple

import torch
from encoder import (
    EncoderLayer,
    MultiHeadAttention,
    TransformerEncoder,
    check_blocked_and_bias,
    check_hidden,
    check_padding,
    fill_positions,
    given,
)
from torch import Tensor, nn


class Group(NamedTuple):
    """The sequences of one length, and what belongs to their queries and keys."""

    count: int
    length: int
    blocked: Tensor | None  # (count, 1 or H, length, length), as the next
    bias: Tensor | None


def run_layers(
    layers: nn.ModuleList | list[EncoderLayer],
    x: Tensor,
    key_padding_mask: Tensor | None = None,
    *,
    blocked: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Run EncoderLayers over the real rows of x: (B, T, D) -> (B, T, D).

    Real rows come out as the layers would give them, in training too; padded rows,
    wherever they lie in a sequence, are never read and come out zero. The layers' own
    `forward` is not called, so hooks on them do not fire. Raises what they raise.
    """
    check_arguments(layers, x, key_padding_mask, blocked, bias)
    if key_padding_mask is None or not key_padding_mask.any():
        for layer in layers:
            x, _ = layer(x, **given(blocked=blocked, bias=bias))
        return x

    index, groups = plan(~key_padding_mask, blocked, bias)
    rows = x.flatten(0, 1)[index]  # (N, D)
    for layer in layers:
        rows = run_layer(layer, rows, groups)

    padded = rows.new_zeros(x.shape).flatten(0, 1)  # (B * T, D)
    return padded.index_copy(0, index, rows).unflatten(0, x.shape[:2])


def check_arguments(layers, x, key_padding_mask, blocked, bias):
    """Refuse what a layer would refuse, before any of them runs."""
    for layer in layers:
        check_hidden(x, layer.attention.d_model)
        batch, tokens, _ = x.shape
        scores = batch, layer.attention.n_heads, tokens, tokens
        check_blocked_and_bias(blocked, bias, scores)
    check_padding(key_padding_mask, x)


def plan(
    real: Tensor, blocked: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, list[Group]]:
    """Order the real tokens of (B, T) so that sequences of equal length are neighbours.

    Returns their places (N,) in the flattened batch, and the groups, by rising length.
    A length may be 0.
    """
    lengths = real.sum(1)
    order = lengths.argsort(stable=True)
    places = torch.arange(real.numel(), device=real.device).view_as(real)
    index = places[order][real[order]]  # (N,)

    groups = []
    rest, sequences = index, order
    length, count = lengths.unique(return_counts=True)
    for n, n_sequences in zip(length.tolist(), count.tolist(), strict=True):
        mine, sequences = sequences.tensor_split([n_sequences])
        tokens, rest = rest.tensor_split([n_sequences * n])
        tokens = tokens.view(n_sequences, n) % real.shape[1]
        cuts = [cut(each, real, mine, tokens) for each in (blocked, bias)]
        groups.append(Group(n_sequences, n, *cuts))
    return index, groups


def cut(
    pairs: Tensor | None, real: Tensor, sequences: Tensor, tokens: Tensor
) -> Tensor | None:
    """Cut what broadcasts to (B, H, T, T) to some sequences and their real tokens.

    `sequences` (count,) and `tokens` (count, length) are places; the head axis stays.
    """
    if pairs is None:
        return None
    batch, n_tokens = real.shape
    pairs = pairs[(None,) * (4 - pairs.dim())]
    pairs = pairs.expand(batch, -1, n_tokens, n_tokens)
    heads_last = pairs.movedim(1, -1)  # (B, T, T, H)
    chosen = heads_last[
        sequences[:, None, None], tokens[:, :, None], tokens[:, None, :]
    ]
    return chosen.movedim(-1, 1)  # (count, H, length, length)


def run_layer(layer: EncoderLayer, x: Tensor, groups: list[Group]) -> Tensor:
    """Repeat `EncoderLayer.forward` on rows (N, D)."""
    inside = layer.norm1(x) if layer.norm_first else x
    x = x + layer.dropout(attend_in_groups(layer.attention, inside, groups))

    if layer.norm_first:
        return x + layer.dropout(layer.feed_forward(layer.norm2(x)))

    x = layer.norm1(x)
    return layer.norm2(x + layer.dropout(layer.feed_forward(x)))


def attend_in_groups(
    attention: MultiHeadAttention, rows: Tensor, groups: list[Group]
) -> Tensor:
    """Project all rows (N, D) at once, then let each sequence attend to itself."""
    sizes = [group.count * group.length for group in groups]
    maps = attention.query, attention.key, attention.value
    parts = [linear(rows).split(sizes) for linear in maps]

    contexts = []
    for group, *part in zip(groups, *parts, strict=True):
        query, key, value = (
            attention.split_heads(p.unflatten(0, (group.count, group.length)))
            for p in part
        )
        extra = given(bias=group.bias)
        context, _ = attention.attend(query, key, value, group.blocked, False, **extra)
        contexts.append(context.transpose(1, 2).flatten(2).flatten(0, 1))  # rows, D
    return attention.output(torch.cat(contexts))


class PackedEncoder(TransformerEncoder):
    """A TransformerEncoder's own parts, called the same way, run without padded rows.

    The parts are shared, not copied: training either one trains both, and a state dict
    of one fits the other. Hidden vectors of padded tokens are zero. With `need_weights`
    the plain encoder runs, since a map has a row for every token, padded or not.
    """

    def __init__(self, encoder: TransformerEncoder) -> None:
        nn.Module.__init__(self)
        for name, part in encoder.named_children():
            self.add_module(name, part)
        self.training = encoder.training
        self.register_load_state_dict_post_hook(fill_positions)

    def forward(
        self,
        token_ids: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Map ids (B, T) to vectors (B, T, D), and L weights (B, H, T, T), or None."""
        extra = given(blocked=blocked, bias=bias)
        if need_weights or key_padding_mask is None:
            forward = super().forward
            hidden, maps = forward(token_ids, key_padding_mask, need_weights, **extra)
        else:
            x = self.embed(token_ids)
            x = run_layers(self.layers, x, key_padding_mask, **extra)
            hidden, maps = self.final_norm(x), None

        if key_padding_mask is not None:  # the final norm adds its bias to zeros too
            hidden = hidden.masked_fill(key_padding_mask[..., None], 0.0)
        return hidden, maps
