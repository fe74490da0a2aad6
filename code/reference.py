"""The equations of `encoder.py` in NumPy float64, forward only, to check it against.

Nothing here is fast. The order, the names and the shapes are those of `encoder.py`
(B batch, T tokens, D d_model, H heads, K d_head, F d_ff, V vocabulary, L layers), and
masks mean the same: bool, True = blocked; `bias` is added to the scores. A part takes
its `parameters` as the dict that `state_dict()` of the same part gives; NumPy arrays
and torch's CPU tensors will both do, so a whole check fits on a line:

    hidden, maps = reference.encoder(model.state_dict(), token_ids, n_heads=4)
"""

import math
from functools import partial

import numpy as np


def sinusoidal_positions(n_positions, d_model):
    """Return the position table (n_positions, D): each pair of columns is one clock."""
    table = np.zeros((n_positions, d_model))
    for t in range(n_positions):
        for column in range(d_model):
            pair = column // 2
            angle = t / 10000 ** (2 * pair / d_model)
            table[t, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return table


def attention_by_loops(query, key, value, blocked=None, bias=None):
    """One head of attention, one query at a time and one key at a time.

    Shapes: query (Tq, K), key (Tk, K), value (Tk, Kv), blocked and bias (Tq, Tk).
    Returns the output (Tq, Kv) and the weights (Tq, Tk). A query with no visible key
    keeps zeros.
    """
    weights = np.zeros((len(query), len(key)))
    output = np.zeros((len(query), value.shape[1]))
    for i in range(len(query)):
        visible = [j for j in range(len(key)) if blocked is None or not blocked[i, j]]
        scores = [query[i] @ key[j] / math.sqrt(key.shape[1]) for j in visible]
        if bias is not None:
            scores = [s + bias[i, j] for s, j in zip(scores, visible, strict=True)]
        strengths = [math.exp(score - max(scores)) for score in scores]
        for j, strength in zip(visible, strengths, strict=True):
            weights[i, j] = strength / sum(strengths)
            output[i] += weights[i, j] * value[j]
    return output, weights


def attention(query, key, value, blocked=None, bias=None):
    """The same for all queries, keys, heads and sequences at once.

    Shapes: query (..., Tq, K), key (..., Tk, K), value (..., Tk, Kv), and `blocked` and
    `bias` broadcastable to (..., Tq, Tk). Returns the output (..., Tq, Kv) and the
    weights (..., Tq, Tk).
    """
    scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + np.asarray(bias)
    visible = np.ones_like(scores, dtype=bool)
    if blocked is not None:
        visible &= ~np.asarray(blocked)
    weights = softmax(scores, visible)
    return weights @ value, weights


def softmax(scores, visible):
    """Share 1 among the visible entries of a row, by the exponential of their score."""
    scores = np.where(visible, scores, -math.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-math.inf)
    top = np.where(top > -math.inf, top, 0.0)  # nothing visible: no largest score
    strength = np.exp(scores - top)  # at most 1, and 0 where hidden
    total = strength.sum(axis=-1, keepdims=True)
    return strength / np.where(total > 0, total, 1.0)


def multi_head_attention(
    parameters, x, *, n_heads, key_padding_mask=None, blocked=None, bias=None
):
    """Give each head its own K columns: (B, T, D) -> (B, T, D), maps (B, H, T, T)."""
    names = "query", "key", "value"
    projected = [linear(part(parameters, name), x) for name in names]
    query, key, value = (split_heads(each, n_heads) for each in projected)

    hidden = np.zeros(1, dtype=bool) if blocked is None else np.asarray(blocked)
    if key_padding_mask is not None:  # no query sees a padded key
        hidden = hidden | np.asarray(key_padding_mask)[:, None, None, :]

    context, maps = attention(query, key, value, hidden, bias)
    merged = np.concatenate(np.moveaxis(context, 1, 0), axis=-1)  # (B, T, D)
    return linear(part(parameters, "output"), merged), maps


def split_heads(x, n_heads):
    """Stack H slices of K columns: (B, T, D) -> (B, H, T, K)."""
    return np.stack(np.split(x, n_heads, axis=-1), axis=1)


def relu(x):
    """Return x where it is positive, else 0."""
    return np.maximum(x, 0.0)


def gelu(x):
    """Return x times the chance that a standard normal draw is below x."""
    return x * 0.5 * (1.0 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2)))


def feed_forward(parameters, x, *, activation=relu):
    """Widen each token to F numbers, bend them, and come back: (B, T, D)."""
    inner = activation(linear(part(parameters, "up"), x))  # (B, T, F)
    return linear(part(parameters, "down"), inner)


def layer_norm(parameters, x, eps=1e-5):
    """Give each token mean 0 and variance 1 over its D numbers, then scale and shift.

    The variance divides by D, and `eps` stands under the root: both as in torch.
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt(variance + eps)
    return scaled * parameters["weight"] + parameters.get("bias", 0.0)


def encoder_layer(
    parameters, x, *, norm_first=False, activation=relu, norm_eps=1e-5, **attending
):
    """One layer in either norm order: (B, T, D) -> (B, T, D), maps (B, H, T, T).

    `attending` goes to `multi_head_attention`: n_heads, and where wanted
    key_padding_mask, blocked and bias.
    """
    norm1 = partial(layer_norm, part(parameters, "norm1"), eps=norm_eps)
    norm2 = partial(layer_norm, part(parameters, "norm2"), eps=norm_eps)
    attend = partial(multi_head_attention, part(parameters, "attention"), **attending)
    inner = part(parameters, "feed_forward")
    feed = partial(feed_forward, inner, activation=activation)

    x = np.asarray(x, dtype=float)
    if norm_first:
        mixed, maps = attend(norm1(x))
        x = x + mixed
        return x + feed(norm2(x)), maps

    mixed, maps = attend(x)
    x = norm1(x + mixed)
    return norm2(x + feed(x)), maps


def encoder(parameters, token_ids, *, norm_first=False, norm_eps=1e-5, **options):
    """Map token ids (B, T) to vectors (B, T, D) and a list of L maps (B, H, T, T).

    `options` go to `encoder_layer`: n_heads, and where wanted activation,
    key_padding_mask, blocked and bias. The number of layers is read off the names of
    the parameters.
    """
    token_ids = np.asarray(token_ids)
    table = part(parameters, "embedding")["weight"]
    n_tokens, d_model = token_ids.shape[1], table.shape[1]
    x = table[token_ids] * math.sqrt(d_model) + sinusoidal_positions(n_tokens, d_model)

    options |= {"norm_first": norm_first, "norm_eps": norm_eps}
    maps = []
    for layer in layers(parameters):
        x, weights = encoder_layer(layer, x, **options)
        maps.append(weights)

    if norm_first:
        x = layer_norm(part(parameters, "final_norm"), x, norm_eps)
    return x, maps


def linear(parameters, x):
    """Apply torch's linear map: a row of `weight` makes one output number."""
    return x @ parameters["weight"].T + parameters.get("bias", 0.0)


def part(parameters, name):
    """Return the parameters below `name.`, without that prefix, in float64."""
    prefix = f"{name}."
    return {
        full_name.removeprefix(prefix): np.asarray(array, dtype=float)
        for full_name, array in parameters.items()
        if full_name.startswith(prefix)
    }


def layers(parameters):
    """Return a list of the parameters of each layer, in order."""
    inside = [name.split(".")[1] for name in parameters if name.startswith("layers.")]
    return [part(parameters, f"layers.{index}") for index in range(len(set(inside)))]
