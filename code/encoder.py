"""A Transformer encoder in one file, in the order in which the book teaches it.

Shapes use one legend everywhere: B batch, T tokens, D = d_model, H heads,
K = d_head = D / H, F = d_ff, V vocabulary, L layers. Tensors are batch first.

Masks are bool and have one meaning, True = blocked: `key_padding_mask` (B, T) says
which tokens are padding, `blocked`, broadcastable to (B, H, T, T), which query may not
see which key. `bias`, broadcastable likewise, is float and is added to the scores.

Sections in brackets are those of Vaswani et al., "Attention Is All You Need" (2017).
Bad input raises a TypeError or ValueError that says what was given and what is wanted.

Version 2.0.0, under the MIT licence, from the book "The Encoder, Taken Apart". The book
lies in the repository of this file, where CITATION.cff says how to cite it; a copy
elsewhere finds both by that title.
"""

import math
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn, relu
from torch.nn import functional

__version__ = "2.0.0"


def sinusoidal_positions(n_positions: int, d_model: int) -> Tensor:
    """Return the position table (n_positions, D), float64 (3.5).

    Columns 2i and 2i + 1 hold the sine and the cosine of t / 10000^(2i/D).
    """
    position = torch.arange(n_positions, dtype=torch.float64)[:, None]
    even_column = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10000 ** (even_column / d_model)  # (n_positions, ceil(D / 2))

    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (.., ceil(D / 2), 2)
    return pairs.flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    """Add row t of the position table to token t: (B, T, D) -> (B, T, D).

    The table is a buffer: it moves, and is cast, with the module. It is not learned, so
    a state dict does not carry it; loading one into an encoder computes it anew.
    """

    table: Tensor

    def __init__(self, max_length: int, d_model: int) -> None:
        super().__init__()
        table = sinusoidal_positions(max_length, d_model).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        n_tokens, d_model = x.shape[1:]
        if x.dtype == torch.float64:  # more digits than a table cast from float32 has
            return x + sinusoidal_positions(n_tokens, d_model).to(x.device)
        return x + self.table[:n_tokens]

    def fill(self, like: Tensor) -> None:
        """Compute the table anew, with the dtype and on the device of `like`."""
        self.table = sinusoidal_positions(*self.table.shape).to(like)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    blocked: Tensor | None = None,
    dropout: float = 0.0,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention: softmax(query key^T / sqrt(K) + bias) value (3.2).

    Shapes: query (B, H, Tq, K), key (B, H, Tk, K), value (B, H, Tk, Kv), and `blocked`
    and `bias` broadcastable to (B, H, Tq, Tk). Returns the output (B, H, Tq, Kv) and
    the weights (B, H, Tq, Tk), as they are before dropout. A query that may see no key
    gets zero weights and zero output, never nan; a bias of -inf blocks.
    """
    check_attention(query, key, value, blocked, bias)
    scores = query / math.sqrt(query.shape[-1]) @ key.transpose(-2, -1)
    if bias is not None:
        bias = bias.to(scores.dtype)
        scores = scores + bias
        blocked = either(blocked, bias == -math.inf)
    if blocked is not None:  # the lowest finite number: softmax of a row of -inf is nan
        scores = scores.masked_fill(blocked, torch.finfo(scores.dtype).min)

    weights = scores.softmax(dim=-1)
    if blocked is not None:
        weights = weights.masked_fill(blocked, 0.0)

    return functional.dropout(weights, dropout) @ value, weights


class MultiHeadAttention(nn.Module):
    """H attentions side by side, each in K-dimensional projections of x (3.2.2)."""

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} must divide d_model={d_model}")
        self.d_model = d_model
        self.n_heads = n_heads
        self.dropout = dropout

        self.query = linear(d_model, d_model)
        self.key = linear(d_model, d_model)
        self.value = linear(d_model, d_model)
        self.output = linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, T, D) and the weights (B, H, T, T), or None."""
        check_hidden(x, self.d_model)
        check_padding(key_padding_mask, x)

        query = self.split_heads(self.query(x))  # (B, H, T, K)
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        check_attention(query, key, value, blocked, bias)

        if key_padding_mask is not None:
            padded = key_padding_mask[:, None, None]  # (B, 1, 1, T): for every query
            blocked = either(blocked, padded)

        extra = given(bias=bias)
        context, weights = self.attend(
            query, key, value, blocked, need_weights, **extra
        )
        context = context.transpose(1, 2).flatten(2)  # (B, T, D)
        return self.output(context), weights

    def split_heads(self, x: Tensor) -> Tensor:
        """Cut the rows of (B, T, D) into heads, then put heads first: (B, H, T, K)."""
        heads = x.unflatten(-1, (self.n_heads, -1))  # (B, T, H, K)
        return heads.transpose(1, 2)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        blocked: Tensor | None,
        need_weights: bool,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Use the fused form, unless weights are wanted, or dropped, or exported."""
        dropout = self.dropout if self.training else 0.0
        # ONNX's own fused form gives a query without keys nan, or all values' mean.
        masked = blocked is not None or bias is not None
        exported = masked and torch.compiler.is_exporting()
        if need_weights or dropout or exported:
            extra = given(bias=bias)
            output, weights = attention(query, key, value, blocked, dropout, **extra)
            return output, weights if need_weights else None

        mask = None if blocked is None else ~blocked  # the fused form's True = seen
        if bias is not None:
            mask = bias.to(query.dtype)
            if blocked is not None:
                mask = mask.masked_fill(blocked, -math.inf)
        if mask is not None:
            mask = torch.atleast_2d(mask)  # the fused form asks for both token axes
        return functional.scaled_dot_product_attention(query, key, value, mask), None


class FeedForward(nn.Module):
    """Two linear maps around an activation, for each token alone: (B, T, D), (3.3)."""

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = relu,
    ) -> None:
        super().__init__()
        self.up = linear(d_model, d_ff)
        self.down = linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        inner = self.activation(self.up(x))  # (B, T, F)
        return self.down(self.dropout(inner))


class EncoderLayer(nn.Module):
    """Attention, then feed-forward, each inside a residual and a LayerNorm (3.1).

    `norm_first=False` is Post-LN, norm(x + part(x)), the paper's order;
    `norm_first=True` is Pre-LN, x + part(norm(x)) (Xiong et al., 2020).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        norm_first: bool = False,
        activation: Callable[[Tensor], Tensor] = relu,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.norm1 = nn.LayerNorm(d_model, eps=norm_eps)
        self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, T, D) and the weights (B, H, T, T), or None."""
        extra = given(blocked=blocked, bias=bias)
        inside = self.norm1(x) if self.norm_first else x
        mixed, weights = self.attention(inside, key_padding_mask, need_weights, **extra)
        x = x + self.dropout(mixed)

        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.norm2(x))), weights

        x = self.norm1(x)
        return self.norm2(x + self.dropout(self.feed_forward(x))), weights

    @classmethod
    def from_torch(cls, theirs: nn.TransformerEncoderLayer) -> "EncoderLayer":
        """Build torch's layer from our parts: its settings, and copies of its weights.

        Biases, eps, dtype, device, mode and requires_grad come along. ValueError for
        batch_first=False; a stack of layers is for `layers_from_torch`.
        """
        check_torch_layer(theirs)
        ours = cls(
            d_model=theirs.self_attn.embed_dim,
            n_heads=theirs.self_attn.num_heads,
            d_ff=theirs.linear1.out_features,
            dropout=theirs.dropout.p,
            norm_first=theirs.norm_first,
            activation=deepcopy(theirs.activation),
        )
        copy_attention(theirs.self_attn, ours.attention)
        ours.feed_forward.up = deepcopy(theirs.linear1)
        ours.feed_forward.down = deepcopy(theirs.linear2)
        ours.norm1 = deepcopy(theirs.norm1)
        ours.norm2 = deepcopy(theirs.norm2)
        return ours.train(theirs.training)


class TransformerEncoder(nn.Module):
    """Token ids in, one vector a token out: embedding, positions, L layers (3.1).

    Pre-LN ends with one more norm: without it nothing would normalise the sum.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int = 64,
        n_heads: int = 4,
        d_ff: int = 256,
        n_layers: int = 2,
        dropout: float = 0.1,
        norm_first: bool = False,
        max_length: int = 512,
        activation: Callable[[Tensor], Tensor] = relu,
        norm_eps: float = 1e-5,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        # Times sqrt(D) in embed, this gives tokens RMS 1 beside the positions' 0.71.
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.positions = SinusoidalPositions(max_length, d_model)
        self.dropout = nn.Dropout(dropout)

        self.layers = nn.ModuleList(
            EncoderLayer(
                d_model=d_model,
                n_heads=n_heads,
                d_ff=d_ff,
                dropout=dropout,
                norm_first=norm_first,
                activation=activation,
                norm_eps=norm_eps,
            )
            for _ in range(n_layers)
        )
        final_norm = nn.LayerNorm(d_model, eps=norm_eps)
        self.final_norm = final_norm if norm_first else nn.Identity()
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
        x = self.embed(token_ids)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, key_padding_mask, need_weights, **extra)
            maps.append(weights)
        return self.final_norm(x), maps if need_weights else None

    def embed(self, token_ids: Tensor) -> Tensor:
        """Look the tokens (B, T) up, times sqrt(D), and add positions: (B, T, D)."""
        vocab_size, d_model = self.embedding.weight.shape
        check_ids(token_ids, vocab_size, max_length=self.positions.table.shape[0])
        x = self.embedding(token_ids) * math.sqrt(d_model)  # (B, T, D)
        return self.dropout(self.positions(x))


def layers_from_torch(theirs: nn.TransformerEncoder) -> tuple[nn.ModuleList, nn.Module]:
    """Build torch's stack from our parts: its layers, and the norm behind them.

    The two are what `TransformerEncoder` calls `layers` and `final_norm`, so that they
    can take the places of an encoder's own; no norm comes back as nn.Identity. Each
    layer is as `EncoderLayer.from_torch` makes it, and raises what that raises.
    """
    layers = nn.ModuleList(EncoderLayer.from_torch(layer) for layer in theirs.layers)
    layers.training = theirs.training  # the layers have their own modes
    final_norm = nn.Identity() if theirs.norm is None else deepcopy(theirs.norm)
    return layers, final_norm


def linear(n_in: int, n_out: int) -> nn.Linear:
    """Make a Xavier map (Glorot and Bengio, 2010): a stack keeps its variance."""
    layer = nn.Linear(n_in, n_out)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """Copy the maps of torch's attention: one matrix holds query, key and value."""
    d_model = theirs.embed_dim
    for index, name in enumerate(("query", "key", "value")):
        rows = slice(index * d_model, (index + 1) * d_model)
        one_map = copy_linear(theirs.in_proj_weight, theirs.in_proj_bias, rows)
        setattr(ours, name, one_map)

    output = theirs.out_proj
    ours.output = copy_linear(output.weight, output.bias, slice(d_model))


def copy_linear(
    weight: nn.Parameter, bias: nn.Parameter | None, rows: slice
) -> nn.Linear:
    """Make a map of copies of some rows of another, one row an output."""
    weight = copy_rows(weight, rows)
    n_out, n_in = weight.shape
    layer = nn.Linear(n_in, n_out, bias=False, device="meta")
    layer.weight = weight
    layer.bias = None if bias is None else copy_rows(bias, rows)
    return layer


def copy_rows(parameter: nn.Parameter, rows: slice) -> nn.Parameter:
    """Copy rows that learn if the original does."""
    copy = parameter.detach()[rows].clone()
    return nn.Parameter(copy, requires_grad=parameter.requires_grad)


def fill_positions(encoder: TransformerEncoder, _: object) -> None:
    """Give an encoder its position table after a state dict, which has none, is loaded.

    So a model that was built on meta, where tensors hold no values, is whole.
    """
    if isinstance(encoder.positions, SinusoidalPositions):
        encoder.positions.fill(like=encoder.embedding.weight)


def given(**options: Tensor | None) -> dict[str, Tensor]:
    """Keep what is not None: a part that takes fewer options can stand in for ours."""
    return {name: value for name, value in options.items() if value is not None}


def either(mask: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Block what either mask blocks; None blocks nothing."""
    if mask is None or other is None:
        return other if mask is None else mask
    return mask | other


def holds_values(tensor: Tensor) -> bool:
    """Say whether numbers can be read: not on meta, nor in a graph, nor inside vmap."""
    if tensor.is_meta or torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def check_ids(ids, vocab_size, max_length):
    if ids.dim() != 2 or ids.shape[1] > max_length:
        wanted = f"(B, T), T at most max_length = {max_length}"
        raise ValueError(f"token_ids must be {wanted}, got {tuple(ids.shape)}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token_ids must be int64 or int32, got {ids.dtype}")
    if holds_values(ids) and not torch.equal(ids, ids.clamp(0, vocab_size - 1)):
        got = f"{ids.min().item()}..{ids.max().item()}"
        raise ValueError(f"ids must lie in 0..{vocab_size - 1}, got {got}")


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
            wanted = f"(B, T) = {tuple(x.shape[:2])}"
            got = tuple(mask.shape)
            raise ValueError(f"key_padding_mask must be {wanted}, got {got}")


def check_attention(query, key, value, blocked, bias):
    shapes = [tuple(x.shape) for x in (query, key, value)]
    if shapes[0][-1] != shapes[1][-1] or shapes[1][-2] != shapes[2][-2]:
        raise ValueError(f"wanted (.., Tq, K), (.., Tk, K), (.., Tk, Kv), got {shapes}")
    check_blocked_and_bias(blocked, bias, (*shapes[0][:-1], shapes[1][-2]))


def check_blocked_and_bias(blocked, bias, scores):
    if blocked is not None:
        if blocked.dtype != torch.bool:
            raise TypeError(f"blocked must be bool, True = unseen, got {blocked.dtype}")
        check_broadcast("blocked", blocked.shape, scores)
    if bias is not None:
        if not bias.is_floating_point():
            raise TypeError(f"bias must hold floating-point numbers, got {bias.dtype}")
        check_broadcast("bias", bias.shape, scores)


def check_broadcast(name, shape, scores):
    pairs = zip(reversed(shape), reversed(scores), strict=False)  # axes may be missing
    if len(shape) > len(scores) or any(size not in (1, n) for size, n in pairs):
        raise ValueError(f"{name} must broadcast to {scores}, got {tuple(shape)}")


def check_torch_layer(layer):
    if not isinstance(layer, nn.TransformerEncoderLayer):
        wanted = "an nn.TransformerEncoderLayer (layers_from_torch takes a stack)"
        raise TypeError(f"from_torch wants {wanted}, got {type(layer).__name__}")
    if not layer.self_attn.batch_first:
        raise ValueError("from_torch wants batch_first=True, got batch_first=False")
