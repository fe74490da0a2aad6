"""A Transformer decoder, and how it writes, from the parts of `encoder.py` beside it.

Letters are those of `encoder.py`: B batch, T tokens, D = d_model, H heads, K = d_head,
F = d_ff, V vocabulary, L layers; besides, S tokens of the source, whose vectors are
the `memory` (B, S, D), and W beams. Tensors are batch first; in masks True = blocked.

A decoder writes a text from left to right. It is given the whole beginning each time;
a cache, which is an argument and a result and never kept, says what of it has been
computed before. Attention is `MultiHeadAttention` of `encoder.py`, the only one.

Sections in brackets are those of Vaswani et al., "Attention Is All You Need" (2017).
Bad input raises a TypeError or ValueError that says what was given and what is wanted.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import NamedTuple

import torch
from encoder import (
    FeedForward,
    MultiHeadAttention,
    TransformerEncoder,
    check_attention,
    check_blocked_and_bias,
    check_hidden,
    copy_attention,
    either,
    given,
)
from torch import Tensor, nn, relu
from torch.nn import functional


def causal_mask(n_tokens: int) -> Tensor:
    """Return `blocked` (T, T), bool: no token may see a later one (3.2.3)."""
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(1)


class KeyValue(NamedTuple):
    """What tokens can be found by, and what they pass on."""

    key: Tensor  # (B, H, T, K)
    value: Tensor  # (B, H, T, K)


class CrossAttention(MultiHeadAttention):
    """Queries from x, keys and values from wherever `project` has read them (3.2.3).

    From the vectors of a source it is cross-attention; from x, self-attention. A part
    has the parameters of its base class, under the same names.
    """

    def project(self, memory: Tensor) -> KeyValue:
        """Map vectors (B, S, D) to the keys and values of all heads, (B, H, S, K)."""
        check_memory(memory, self.d_model)
        key = self.split_heads(self.key(memory))
        return KeyValue(key, self.split_heads(self.value(memory)))

    def forward(
        self,
        x: Tensor,
        memory: KeyValue,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, T, D) and the weights (B, H, T, S), or None.

        `key_padding_mask` is (B, S); `blocked` and `bias` broadcast to (B, H, T, S).
        """
        check_hidden(x, self.d_model)
        check_keys(memory.key, key_padding_mask, x)

        query = self.split_heads(self.query(x))  # (B, H, T, K)
        check_attention(query, *memory, blocked, bias)

        if key_padding_mask is not None:
            padded = key_padding_mask[:, None, None]  # (B, 1, 1, S): for every query
            blocked = either(blocked, padded)

        extra = given(bias=bias)
        context, weights = self.attend(query, *memory, blocked, need_weights, **extra)
        context = context.transpose(1, 2).flatten(2)  # (B, T, D)
        return self.output(context), weights


class DecoderMaps(NamedTuple):
    """The weights of one layer; without cross-attention there is no `source`."""

    own: Tensor  # (B, H, T, T)
    source: Tensor | None  # (B, H, T, S)


class LayerCache(NamedTuple):
    """What one layer need not compute again."""

    own: KeyValue  # of the tokens so far
    source: KeyValue | None  # of the source, which stays as it is


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention, feed-forward, each in residual and norm (3.1).

    `norm_first` is as in `EncoderLayer`. With `cross_attention=False` the middle part
    and its norm are left out, and what remains is an encoder layer.
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
        cross_attention: bool = True,
    ) -> None:
        super().__init__()
        self.self_attention = CrossAttention(d_model, n_heads, dropout)
        self.norm1 = nn.LayerNorm(d_model, eps=norm_eps)

        self.cross_attention: CrossAttention | None = None
        if cross_attention:
            self.cross_attention = CrossAttention(d_model, n_heads, dropout)
            self.norm2 = nn.LayerNorm(d_model, eps=norm_eps)

        self.feed_forward = FeedForward(d_model, d_ff, dropout, activation)
        self.norm3 = nn.LayerNorm(d_model, eps=norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        memory_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        memory_blocked: Tensor | None = None,
        cache: LayerCache | None = None,
    ) -> tuple[Tensor, DecoderMaps | None, LayerCache]:
        """Return the output (B, T, D), the weights or None, and the cache, grown by x.

        Nothing is blocked but what the masks block; `blocked=causal_mask(T)` makes it
        causal. With a cache of P tokens, x are the tokens after them, and the keys,
        so `key_padding_mask` (B, P + T) and `blocked` (.., T, P + T), count all.
        """
        check_memory_is_given(memory, cache, self.cross_attention is not None)
        masks = key_padding_mask, need_weights, blocked
        x, own, own_map = self.attend_to_own(x, cache, *masks)

        source = None
        source_map = None
        if self.cross_attention is not None:
            masks = memory_padding_mask, need_weights, memory_blocked
            x, source, source_map = self.attend_to_source(x, memory, cache, *masks)

        x = self.leave(self.norm3, x, self.feed_forward(self.enter(self.norm3, x)))
        maps = DecoderMaps(own_map, source_map) if need_weights else None
        return x, maps, LayerCache(own, source)

    def attend_to_own(
        self,
        x: Tensor,
        cache: LayerCache | None,
        padding: Tensor | None,
        need_weights: bool,
        blocked: Tensor | None,
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """Let the tokens x hear themselves, and those that the cache holds."""
        inside = self.enter(self.norm1, x)
        own = self.self_attention.project(inside)
        if cache is not None:
            own = extend(cache.own, own)
        mixed, weights = self.self_attention(
            inside, own, padding, need_weights, blocked=blocked
        )
        return self.leave(self.norm1, x, mixed), own, weights

    def attend_to_source(
        self,
        x: Tensor,
        memory: Tensor | None,
        cache: LayerCache | None,
        padding: Tensor | None,
        need_weights: bool,
        blocked: Tensor | None,
    ) -> tuple[Tensor, KeyValue, Tensor | None]:
        """Let the tokens x hear the source, whose keys are computed once for all."""
        inside = self.enter(self.norm2, x)
        source = cache.source if cache else self.cross_attention.project(memory)
        mixed, weights = self.cross_attention(
            inside, source, padding, need_weights, blocked=blocked
        )
        return self.leave(self.norm2, x, mixed), source, weights

    def enter(self, norm: nn.Module, x: Tensor) -> Tensor:
        """Return what a part reads: Pre-LN normalises it first."""
        return norm(x) if self.norm_first else x

    def leave(self, norm: nn.Module, x: Tensor, change: Tensor) -> Tensor:
        """Add what a part says to x: Post-LN normalises the sum."""
        x = x + self.dropout(change)
        return x if self.norm_first else norm(x)

    @classmethod
    def from_torch(cls, theirs: nn.TransformerDecoderLayer) -> "DecoderLayer":
        """Build torch's layer from our parts: its settings, and copies of its weights.

        Biases, eps, dtype, device, mode and requires_grad come along. ValueError for
        batch_first=False; a stack of layers is for `decoder_layers_from_torch`.
        """
        check_torch_decoder_layer(theirs)
        ours = cls(
            d_model=theirs.self_attn.embed_dim,
            n_heads=theirs.self_attn.num_heads,
            d_ff=theirs.linear1.out_features,
            dropout=theirs.dropout.p,
            norm_first=theirs.norm_first,
            activation=deepcopy(theirs.activation),
        )
        copy_attention(theirs.self_attn, ours.self_attention)
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        ours.feed_forward.up = deepcopy(theirs.linear1)
        ours.feed_forward.down = deepcopy(theirs.linear2)
        ours.norm1 = deepcopy(theirs.norm1)
        ours.norm2 = deepcopy(theirs.norm2)
        ours.norm3 = deepcopy(theirs.norm3)
        return ours.train(theirs.training)


class TransformerDecoder(TransformerEncoder):
    """Token ids in, one vector a token out, each made of the tokens up to it (3.1).

    Embedding, positions and final norm are the encoder's; the layers are DecoderLayers.
    With `cross_attention=False` it reads no source: GPT's wiring. `causal=False` lets
    every token see all others, and is there to show what breaks.
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
        cross_attention: bool = True,
        causal: bool = True,
    ) -> None:
        check_at_least_one("n_layers", n_layers)
        of_layer = {
            "d_model": d_model,
            "n_heads": n_heads,
            "d_ff": d_ff,
            "dropout": dropout,
            "norm_first": norm_first,
            "activation": activation,
            "norm_eps": norm_eps,
        }
        super().__init__(vocab_size, **of_layer, n_layers=0, max_length=max_length)
        self.layers = nn.ModuleList(
            DecoderLayer(**of_layer, cross_attention=cross_attention)
            for _ in range(n_layers)
        )
        self.word_bias = nn.Parameter(torch.zeros(vocab_size))
        self.causal = causal

    def forward(
        self,
        token_ids: Tensor,
        memory: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        memory_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        *,
        blocked: Tensor | None = None,
        memory_blocked: Tensor | None = None,
        cache: list[LayerCache] | None = None,
    ) -> tuple[Tensor, list[DecoderMaps] | None, list[LayerCache]]:
        """Map ids (B, T) to vectors (B, T, D), L weights or None, and the cache.

        `blocked`, broadcastable to (B, H, T, T), blocks more than causality does. With
        a cache of P tokens, ids and masks still count all T, and what comes back, the
        vectors and the rows of the weights, belongs to the T - P new tokens.
        """
        check_cache(cache, self, token_ids)
        n_past = 0 if cache is None else cache[0].own.key.shape[2]
        x = self.embed(token_ids)[:, n_past:]  # (B, T - P, D)

        masks = key_padding_mask, memory_padding_mask, need_weights
        pairs = {
            "blocked": new_rows(self.with_causality(blocked, token_ids), n_past),
            "memory_blocked": new_rows(memory_blocked, n_past),
        }
        pasts = [None] * len(self.layers) if cache is None else cache
        maps = []
        grown = []
        for layer, past in zip(self.layers, pasts, strict=True):
            x, weights, now = layer(x, memory, *masks, **pairs, cache=past)
            maps.append(weights)
            grown.append(now)
        return self.final_norm(x), maps if need_weights else None, grown

    def with_causality(
        self, blocked: Tensor | None, token_ids: Tensor
    ) -> Tensor | None:
        """Block later tokens besides, in a decoder that is causal."""
        if not self.causal:
            return blocked
        n_rows, n_tokens = token_ids.shape
        n_heads = self.layers[0].self_attention.n_heads
        check_blocked_and_bias(blocked, None, (n_rows, n_heads, n_tokens, n_tokens))
        return either(blocked, causal_mask(n_tokens).to(token_ids.device))

    def score(self, hidden: Tensor) -> Tensor:
        """Score every word as the next one: (B, T, D) -> (B, T, V), in logits (3.4).

        A word's score is the product with its embedding, plus a bias of its own.
        """
        return functional.linear(hidden, self.embedding.weight, self.word_bias)


class EncoderDecoder(nn.Module):
    """An encoder that reads the source, and a decoder that writes (3.1)."""

    def __init__(
        self, encoder: TransformerEncoder, decoder: TransformerDecoder
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def forward(
        self,
        source_ids: Tensor,
        target_ids: Tensor,
        source_padding_mask: Tensor | None = None,
        target_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, list[DecoderMaps] | None]:
        """Map ids (B, S) and (B, T) to the scores of each next word, (B, T, V).

        The second result is the decoder's L weights, or None. In training `target_ids`
        are what `shift_right` makes of the text that is wanted.
        """
        memory, _ = self.encoder(source_ids, source_padding_mask)
        masks = target_padding_mask, source_padding_mask, need_weights
        hidden, maps, _ = self.decoder(target_ids, memory, *masks)
        return self.decoder.score(hidden), maps


def decoder_layers_from_torch(
    theirs: nn.TransformerDecoder,
) -> tuple[nn.ModuleList, nn.Module]:
    """Build torch's stack from our parts, as `layers_from_torch` does an encoder's.

    The two are what `TransformerDecoder` calls `layers` and `final_norm`.
    """
    if not isinstance(theirs, nn.TransformerDecoder):
        wanted = "an nn.TransformerDecoder"
        raise TypeError(f"wanted is {wanted}, got {type(theirs).__name__}")
    layers = nn.ModuleList(DecoderLayer.from_torch(layer) for layer in theirs.layers)
    layers.training = theirs.training  # the layers have their own modes
    final_norm = nn.Identity() if theirs.norm is None else deepcopy(theirs.norm)
    return layers, final_norm


# --- Training: all next words at once -------------------------------------------------


def shift_right(token_ids: Tensor, start: int) -> Tensor:
    """Put `start` in front of (B, T) ids and drop the last: what a decoder is fed.

    Place t then holds the word before the one that is asked for there. That the words
    of the text are fed, and not the decoder's own, is called teacher forcing.
    """
    check_prefix(token_ids)
    first = torch.full_like(token_ids[:, :1], start)
    return torch.cat((first, token_ids[:, :-1]), dim=1)


def next_word_loss(
    scores: Tensor, token_ids: Tensor, key_padding_mask: Tensor | None = None
) -> Tensor:
    """Return the mean cross-entropy, in nats, of the words that are no padding.

    Shapes: scores (B, T, V), ids and mask (B, T), the ids not shifted.
    """
    if scores.shape[:-1] != token_ids.shape:
        shapes = f"{tuple(scores.shape)} and {tuple(token_ids.shape)}"
        raise ValueError(f"wanted scores (B, T, V) and ids (B, T), got {shapes}")
    if key_padding_mask is None:
        key_padding_mask = torch.zeros_like(token_ids, dtype=torch.bool)
    real = ~key_padding_mask
    return functional.cross_entropy(scores[real], token_ids[real])


# --- Writing: one next word after another ---------------------------------------------

Cache = list[LayerCache] | None
NextWord = Callable[
    [Tensor, Cache], tuple[Tensor, Cache]
]  # ids (B, T) -> scores (B, V)


def next_word(
    decoder: TransformerDecoder,
    memory: Tensor | None = None,
    memory_padding_mask: Tensor | None = None,
) -> NextWord:
    """Return the step that writing repeats: the beginning and a cache in, scores out.

    The memory (B, S, D) may have fewer rows than the ids: each then serves several
    rows that follow each other, as the beams of one source do.
    """

    def step(token_ids: Tensor, cache: Cache) -> tuple[Tensor, Cache]:
        sources = [repeat_rows(x, token_ids) for x in (memory, memory_padding_mask)]
        masks = {"memory_padding_mask": sources[1], "cache": cache}
        hidden, _, cache = decoder(token_ids, sources[0], **masks)
        return decoder.score(hidden[:, -1]), cache

    return step


def repeat_rows(x: Tensor | None, like: Tensor) -> Tensor | None:
    """Repeat each row of x until there are as many as `like` has."""
    return None if x is None else x.repeat_interleave(len(like) // len(x), dim=0)


def most_likely(scores: Tensor) -> Tensor:
    """Choose the word with the highest score: (B, V) -> (B,)."""
    return scores.argmax(dim=-1)


def draw_word(
    scores: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a word by its share: (B, V) -> (B,).

    Shares are the softmax of the scores over `temperature`: below 1 the likely words
    gain, above 1 they lose. `top_k` leaves only the k best in the draw (Fan et al.,
    2018); a word that scores as much as the k-th stays in as well.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if top_k is not None:
        check_at_least_one("top_k", top_k)
        lowest = scores.topk(min(top_k, scores.shape[-1])).values[:, -1:]
        scores = scores.masked_fill(scores < lowest, -torch.inf)
    shares = (scores / temperature).softmax(dim=-1)
    return torch.multinomial(shares, 1, generator=generator)[:, 0]


@torch.no_grad()
def generate(
    step: NextWord,
    token_ids: Tensor,
    n_words: int,
    end: int | None = None,
    choose: Callable[[Tensor], Tensor] = most_likely,
    use_cache: bool = True,
) -> Tensor:
    """Go on from the beginnings (B, T) by up to `n_words` words: (B, T + n), n <= N.

    `choose` maps scores (B, V) to words (B,): `most_likely` is greedy; for a draw give
    `partial(draw_word, temperature=..., top_k=...)`. A text that has met the word `end`
    is filled up with it, and when all have, writing stops.
    """
    check_prefix(token_ids)
    check_at_least_one("n_words", n_words)
    cache = None
    ended = torch.zeros_like(token_ids[:, 0], dtype=torch.bool)
    for _ in range(n_words):
        scores, cache = step(token_ids, cache if use_cache else None)
        check_end(end, scores)
        word = choose(scores)
        if end is not None:
            word = word.masked_fill(ended, end)
            ended = word == end
        token_ids = torch.cat((token_ids, word[:, None]), dim=1)
        if ended.all():
            break
    return token_ids


class Beams(NamedTuple):
    """Texts, best first, and the log-probability of what was written, in nats."""

    token_ids: Tensor  # (B, W, T)
    scores: Tensor  # (B, W)


@torch.no_grad()
def beam_search(
    step: NextWord,
    token_ids: Tensor,
    n_words: int,
    end: int | None = None,
    width: int = 4,
) -> Beams:
    """Keep the `width` likeliest texts at each step, not the likeliest word alone.

    `generate` describes the other arguments. There are fewer beams than `width` while
    there are fewer texts. A text that has met `end` costs nothing to keep.
    """
    check_prefix(token_ids)
    check_at_least_one("n_words", n_words)
    check_at_least_one("width", width)
    n_rows, n_first = token_ids.shape
    beams = Beams(token_ids[:, None], torch.zeros(n_rows, 1, device=token_ids.device))
    cache = None
    ended = has_met(end, beams, n_first)
    for _ in range(n_words):
        scores, cache = step(beams.token_ids.flatten(0, 1), cache)  # (B * W, V)
        check_end(end, scores)
        beams, parent = best_texts(beams, gains(scores, ended, end), width)
        cache = select_rows(cache, parent)
        ended = has_met(end, beams, n_first)
        if ended.all():
            break
    return beams


def has_met(end: int | None, beams: Beams, n_first: int) -> Tensor:
    """Say which texts hold `end` behind their first words: (B * W,) bool."""
    written = beams.token_ids[..., n_first:].flatten(0, 1)
    return (written == (-1 if end is None else end)).any(dim=-1)


def gains(scores: Tensor, ended: Tensor, end: int | None) -> Tensor:
    """Return log-probabilities (B * W, V); an ended text may add `end` for free."""
    log_shares = scores.log_softmax(dim=-1)
    if end is None:
        return log_shares
    only_end = torch.full_like(log_shares, -torch.inf)
    only_end[:, end] = 0.0
    return torch.where(ended[:, None], only_end, log_shares)


def best_texts(beams: Beams, gained: Tensor, width: int) -> tuple[Beams, Tensor]:
    """Lengthen every beam by every word, and keep the `width` best texts of a source.

    Returns them, and which of the B * W rows each has come from.
    """
    n_rows, n_beams = beams.scores.shape
    n_words = gained.shape[-1]
    totals = beams.scores.flatten()[:, None] + gained  # (B * W, V)
    totals = totals.unflatten(0, (n_rows, n_beams)).flatten(1)  # (B, W * V)
    best = totals.topk(min(width, totals.shape[1]))
    came_from = best.indices // n_words  # (B, new W)
    word = best.indices % n_words

    first_rows = torch.arange(0, n_rows * n_beams, n_beams, device=word.device)
    parent = (came_from + first_rows[:, None]).flatten()
    texts = beams.token_ids.flatten(0, 1)[parent].unflatten(0, word.shape)
    return Beams(torch.cat((texts, word[..., None]), dim=-1), best.values), parent


# --- The cache ------------------------------------------------------------------------


def extend(past: KeyValue, new: KeyValue) -> KeyValue:
    """Put the keys and values of new tokens behind those of the past ones."""
    joined = (torch.cat(pair, dim=2) for pair in zip(past, new, strict=True))
    return KeyValue(*joined)


def new_rows(blocked: Tensor | None, n_past: int) -> Tensor | None:
    """Keep the rows of new queries; a single row that serves all of them stays."""
    if blocked is None or blocked.dim() < 2 or blocked.shape[-2] == 1:
        return blocked
    return blocked[..., n_past:, :]


def select_rows(cache: Cache, rows: Tensor) -> Cache:
    """Return a cache with some rows of the batch, in the order of `rows` (B',)."""
    if cache is None:
        return None

    def select(pair: KeyValue | None) -> KeyValue | None:
        return None if pair is None else KeyValue(pair.key[rows], pair.value[rows])

    return [LayerCache(select(of.own), select(of.source)) for of in cache]


def cache_bytes(cache: Cache) -> tuple[int, int]:
    """Return the bytes of a cache: those of the text, and those of the source."""
    sizes = [[pair_bytes(pair) for pair in of_layer] for of_layer in cache or []]
    return sum(own for own, _ in sizes), sum(source for _, source in sizes)


def pair_bytes(pair: KeyValue | None) -> int:
    """Return the bytes of keys and values."""
    return 0 if pair is None else sum(x.numel() * x.element_size() for x in pair)


# --- What is refused ------------------------------------------------------------------


def check_memory(memory, d_model):
    if memory.dim() != 3 or memory.shape[-1] != d_model:
        wanted = f"(B, S, {d_model})"
        raise ValueError(f"memory must be {wanted}, got {tuple(memory.shape)}")
    if not memory.is_floating_point():
        wanted = "floating-point numbers"
        raise TypeError(f"memory must hold {wanted}, got {memory.dtype}")


def check_keys(key, mask, x):
    if len(key) != len(x):
        raise ValueError(f"memory must have {len(x)} rows, as x has, got {len(key)}")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(f"padding must be bool, True = padding, got {mask.dtype}")
    wanted = len(key), key.shape[2]
    if mask.shape != wanted:
        got = tuple(mask.shape)
        raise ValueError(f"padding must have a place for each key, {wanted}, got {got}")


def check_memory_is_given(memory, cache, is_wanted):
    if is_wanted and memory is None and cache is None:
        raise ValueError("cross-attention wants a memory (B, S, D), got None")
    if memory is not None and not is_wanted:
        got = tuple(memory.shape)
        raise ValueError(f"without cross-attention no memory is wanted, got {got}")


def check_cache(cache, decoder, token_ids):
    if cache is None:
        return
    if not decoder.causal:
        reason = "without it a new token changes the keys of those before"
        raise ValueError(f"a cache wants causal=True: {reason}")
    if len(cache) != len(decoder.layers):
        n_layers = len(decoder.layers)
        raise ValueError(f"the cache must have {n_layers} layers, got {len(cache)}")
    n_rows, _, n_past, _ = cache[0].own.key.shape
    wanted = f"({n_rows}, more than {n_past}), the whole text"
    if len(token_ids) != n_rows or token_ids.shape[1] <= n_past:
        got = tuple(token_ids.shape)
        raise ValueError(f"with this cache token_ids must be {wanted}, got {got}")


def check_prefix(token_ids):
    if token_ids.dim() != 2 or token_ids.shape[1] < 1:
        got = tuple(token_ids.shape)
        raise ValueError(f"token_ids must be (B, T), T at least 1, got {got}")
    if token_ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"token_ids must be int64 or int32, got {token_ids.dtype}")


def check_end(end, scores):
    n_words = scores.shape[-1]
    if end is not None and not 0 <= end < n_words:
        raise ValueError(f"end must be None or a word, 0..{n_words - 1}, got {end}")


def check_at_least_one(name, number):
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")


def check_torch_decoder_layer(layer):
    if not isinstance(layer, nn.TransformerDecoderLayer):
        wanted = "an nn.TransformerDecoderLayer (decoder_layers_from_torch: a stack)"
        raise TypeError(f"from_torch wants {wanted}, got {type(layer).__name__}")
    if not layer.self_attn.batch_first:
        raise ValueError("from_torch wants batch_first=True, got batch_first=False")
