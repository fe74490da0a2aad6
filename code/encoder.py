"""A Transformer encoder in one file, in the order in which the book teaches it.

Shapes use one legend everywhere: B batch, T tokens, D = d_model, H heads,
K = d_head = D / H, F = d_ff, V vocabulary, L layers. Tensors are batch first.

Masks are bool and have one meaning, True = blocked: `blocked`, broadcastable to
(B, H, T, T), says which query may not see which key, `key_padding_mask` (B, T) which
tokens are padding. Sections in brackets are those of Vaswani et al., "Attention Is All
You Need" (2017). Bad input raises a TypeError or ValueError that says what is wanted.
"""

import math
from copy import deepcopy

import torch
from torch import Tensor, nn, relu
from torch.nn import functional


def sinusoidal_positions(n_positions: int, d_model: int) -> Tensor:
    """Return the position table (n_positions, D), float64 (3.5).

    Columns 2i and 2i + 1 hold the sine and the cosine of t / 10000^(2i/D).
    """
    position = torch.arange(n_positions, dtype=torch.float64)[:, None]
    even_column = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10000 ** (even_column / d_model)  # (n_positions, ceil(D / 2))
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    """Add row t of the position table to token t: (B, T, D) -> (B, T, D)."""

    def __init__(self, max_length, d_model):
        super().__init__()
        table = sinusoidal_positions(max_length, d_model).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table[: x.shape[1]]

    def _apply(self, fn, recurse=True):
        # Recompute after a move: a cast from float32 to float64 would keep the coarse
        # rounding, and a module that leaves "meta" would hold no values.
        super()._apply(fn, recurse)
        self.table = sinusoidal_positions(*self.table.shape).to(self.table)
        return self


def attention(query, key, value, blocked=None, dropout=0.0) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: softmax(query key^T / sqrt(K)) value (3.2.1).

    Shapes: query (B, H, Tq, K), key (B, H, Tk, K), value (B, H, Tk, Kv). Returns the
    output (B, H, Tq, Kv) and the weights (B, H, Tq, Tk), as they are before dropout.
    A query that may see no key gets zero weights and zero output, never nan.
    """
    check_attention(query, key, value, blocked)
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-2, -1)
    if blocked is not None:  # the lowest finite number: softmax of a row of -inf is nan
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1)
    if blocked is not None:
        weights = weights.masked_fill(blocked, 0.0)
    return functional.dropout(weights, dropout) @ value, weights


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in K-dimensional projections of x (3.2.2)."""

    def __init__(self, d_model, n_heads, dropout=0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} must divide d_model={d_model}")
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.query, self.key = linear(d_model, d_model), linear(d_model, d_model)
        self.value, self.output = linear(d_model, d_model), linear(d_model, d_model)

    def forward(self, x, key_padding_mask=None, need_weights=False):
        """Return the output (B, T, D) and the weights (B, H, T, T), or None."""
        check_hidden(x, self.d_model)
        check_padding(key_padding_mask, x)
        query, key = self.split_heads(self.query(x)), self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        blocked = None if key_padding_mask is None else key_padding_mask[:, None, None]
        context, weights = self.attend(query, key, value, blocked, need_weights)
        return self.output(context.transpose(1, 2).flatten(2)), weights

    def split_heads(self, x):
        """Cut the rows of (B, T, D) into heads, then put heads first: (B, H, T, K)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def attend(self, query, key, value, blocked, need_weights):
        """Use the fused form where nobody asks for weights and no weight is dropped."""
        dropout = self.dropout if self.training else 0.0
        if need_weights or dropout:
            context, weights = attention(query, key, value, blocked, dropout)
            return context, weights if need_weights else None
        visible = None if blocked is None else ~blocked  # the fused form's True = seen
        return functional.scaled_dot_product_attention(query, key, value, visible), None


class FeedForward(nn.Module):
    """Two linear maps around an activation, for each token alone: (B, T, D), (3.3)."""

    def __init__(self, d_model, d_ff, dropout=0.0, activation=relu):
        super().__init__()
        self.up, self.down = linear(d_model, d_ff), linear(d_ff, d_model)
        self.dropout, self.activation = nn.Dropout(dropout), activation

    def forward(self, x):
        return self.down(self.dropout(self.activation(self.up(x))))


class EncoderLayer(nn.Module):
    """Attention, then feed-forward, each inside a residual and a LayerNorm (3.1).

    `norm_first=False` is Post-LN, norm(x + part(x)), the paper's order;
    `norm_first=True` is Pre-LN, x + part(norm(x)) (Xiong et al., 2020).
    """

    def __init__(
        self, d_model, n_heads, d_ff, dropout=0.1, norm_first=False, activation=relu
    ):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout, self.norm_first = nn.Dropout(dropout), norm_first

    def forward(self, x, key_padding_mask=None, need_weights=False):
        """Return the output (B, T, D) and the weights (B, H, T, T), or None."""
        inside = self.norm1(x) if self.norm_first else x
        mixed, weights = self.attention(inside, key_padding_mask, need_weights)
        x = x + self.dropout(mixed)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.norm2(x))), weights
        x = self.norm1(x)
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights

    @classmethod
    def from_torch(cls, layer: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """Build torch's layer from our parts, with its settings and its weights."""
        packed = layer.self_attn  # its query, key and value maps lie in one matrix
        if packed.in_proj_bias is None:
            raise ValueError("from_torch wants a layer with biases, got bias=False")
        sizes = packed.embed_dim, packed.num_heads, layer.linear1.out_features
        order, activation = layer.norm_first, deepcopy(layer.activation)
        ours = cls(*sizes, layer.dropout.p, order, activation)
        ours = ours.to(packed.in_proj_weight).train(layer.training)
        ours.norm1, ours.norm2 = deepcopy(layer.norm1), deepcopy(layer.norm2)
        ours.feed_forward.up = deepcopy(layer.linear1)
        ours.feed_forward.down = deepcopy(layer.linear2)
        ours.attention.output.load_state_dict(packed.out_proj.state_dict())
        maps = ours.attention.query, ours.attention.key, ours.attention.value
        rows = zip(packed.in_proj_weight.chunk(3), packed.in_proj_bias.chunk(3))
        for ours_map, (weight, bias) in zip(maps, rows):
            ours_map.load_state_dict({"weight": weight, "bias": bias})
        return ours


class TransformerEncoder(nn.Module):
    """Token ids in, one vector a token out: embedding, positions, L layers (3.1)."""

    def __init__(
        self,
        vocab_size,
        *,
        d_model=64,
        n_heads=4,
        d_ff=256,
        n_layers=2,
        dropout=0.1,
        norm_first=False,
        max_length=512,
        activation=relu,
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        # Times sqrt(D) in embed, this gives tokens RMS 1 beside the positions' 0.71.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.positions = SinusoidalPositions(max_length, d_model)
        self.dropout = nn.Dropout(dropout)
        options = d_model, n_heads, d_ff, dropout, norm_first, activation
        self.layers = nn.ModuleList(EncoderLayer(*options) for _ in range(n_layers))
        self.final_norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(self, token_ids, key_padding_mask=None, need_weights=False):
        """Map ids (B, T) to vectors (B, T, D), and L weights (B, H, T, T), or None."""
        x, maps = self.embed(token_ids), []
        for layer in self.layers:
            x, weights = layer(x, key_padding_mask, need_weights)
            maps.append(weights)
        return self.final_norm(x), maps if need_weights else None

    def embed(self, token_ids):
        """Look the tokens (B, T) up, times sqrt(D), and add positions: (B, T, D)."""
        vocab_size, d_model = self.embedding.weight.shape
        check_ids(token_ids, vocab_size, self.positions.table.shape[0])
        x = self.embedding(token_ids) * math.sqrt(d_model)
        return self.dropout(self.positions(x))


def linear(n_in: int, n_out: int) -> nn.Linear:
    """Start a map with Xavier weights (Glorot, 2010): a stack keeps its variance."""
    layer = nn.Linear(n_in, n_out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def check_ids(ids, vocab_size, max_length):
    if ids.dim() != 2 or ids.shape[1] > max_length:
        wanted = f"(B, T), T at most max_length = {max_length}"
        raise ValueError(f"token_ids must be {wanted}, got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token_ids must be int64 or int32, got {ids.dtype}")
    if not ids.is_meta and ids.numel():
        low, high = ids.min().item(), ids.max().item()
        if low < 0 or high >= vocab_size:
            raise ValueError(f"ids must lie in 0..{vocab_size - 1}, got {low}..{high}")


def check_hidden(x, d_model):
    if x.dim() != 3 or x.shape[-1] != d_model:
        raise ValueError(f"x must be (B, T, {d_model}), got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x must hold floating-point numbers, got {x.dtype}")


def check_padding(mask, x):
    if mask is not None:
        if mask.dtype != torch.bool:
            wanted = "bool, True = padding"
            raise TypeError(f"key_padding_mask must be {wanted}, got {mask.dtype}")
        if mask.shape != x.shape[:2]:
            given, wanted = tuple(mask.shape), tuple(x.shape[:2])
            raise ValueError(f"key_padding_mask must be (B, T) = {wanted}, got {given}")


def check_attention(query, key, value, blocked):
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ValueError(f"wanted (.., Tq, K), (.., Tk, K), (.., Tk, Kv), got {shapes}")
    if blocked is not None:
        if blocked.dtype != torch.bool:
            raise TypeError(f"blocked must be bool, True = unseen, got {blocked.dtype}")
        given, scores = tuple(blocked.shape), (*shapes[0][:-1], shapes[1][-2])
        pairs = zip(given[::-1], scores[::-1])
        if len(given) > len(scores) or any(b not in (1, n) for b, n in pairs):
            raise ValueError(f"blocked must broadcast to {scores}, got {given}")
