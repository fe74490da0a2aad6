"""The equations of `encoder.py` in NumPy float64, forward only, to check it against.

Nothing here is fast. The order, the names and the shapes are those of `encoder.py`
(B batch, T tokens, D d_model, H heads, K d_head, F d_ff, V vocabulary, L layers), and
masks mean the same: bool, True = blocked. A part takes its `parameters` as the dict
that `state_dict()` of the same part gives; NumPy arrays and torch's CPU tensors will
both do, so a whole check fits on a line:

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


def attention_by_loops(query, key, value, blocked=None):
    """One head of attention, one query at a time and one key at a time.

    Shapes: query (Tq, K), key (Tk, K), value (Tk, Kv), blocked (Tq, Tk). Returns the
    output (Tq, Kv) and the weights (Tq, Tk). A query with no visible key keeps zeros.
    """
    weights = np.zeros((len(query), len(key)))
    output = np.zeros((len(query), value.shape[1]))
    for i in range(len(query)):
        visible = [j for j in range(len(key)) if blocked is None or not blocked[i, j]]
        scores = [query[i] @ key[j] / math.sqrt(key.shape[1]) for j in visible]
        strengths = [math.exp(score - max(scores)) for score in scores]
        for j, strength in zip(visible, strengths):
            weights[i, j] = strength / sum(strengths)
            output[i] += weights[i, j] * value[j]
    return output, weights


def attention(query, key, value, blocked=None):
    """The same for all queries, keys, heads and sequences at once.

    Shapes: query (..., Tq, K), key (..., Tk, K), value (..., Tk, Kv), and `blocked`
    broadcastable to (..., Tq, Tk). Returns the output (..., Tq, Kv) and the weights.
    """
    scores = query @ np.swapaxes(key, -2, -1) / math.sqrt(query.shape[-1])
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


def multi_head_attention(parameters, x, *, n_heads, key_padding_mask=None):
    """Give each head its own K columns: (B, T, D) -> (B, T, D), maps (B, H, T, T)."""
    names = "query", "key", "value"
    projected = [linear(part(parameters, name), x) for name in names]
    columns = [np.split(each, n_heads, axis=-1) for each in projected]  # H of (B, T, K)
    blocked = None
    if key_padding_mask is not None:
        blocked = np.asarray(key_padding_mask)[:, None, :]  # no query sees a padded key
    heads = [attention(*qkv, blocked) for qkv in zip(*columns)]
    context = np.concatenate([output for output, _ in heads], axis=-1)
    maps = np.stack([weights for _, weights in heads], axis=1)
    return linear(part(parameters, "output"), context), maps


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
    return scaled * parameters["weight"] + parameters["bias"]


def encoder_layer(
    parameters, x, *, n_heads, norm_first=False, activation=relu, key_padding_mask=None
):
    """One layer in either norm order: (B, T, D) -> (B, T, D), maps (B, H, T, T)."""
    norm1 = partial(layer_norm, part(parameters, "norm1"))
    norm2 = partial(layer_norm, part(parameters, "norm2"))
    options = {"n_heads": n_heads, "key_padding_mask": key_padding_mask}
    attend = partial(multi_head_attention, part(parameters, "attention"), **options)
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


def encoder(parameters, token_ids, *, norm_first=False, **options):
    """Map token ids (B, T) to vectors (B, T, D) and a list of L maps (B, H, T, T).

    `options` go to `encoder_layer`: n_heads, and where wanted activation and
    key_padding_mask. The number of layers is read off the names of the parameters.
    """
    token_ids, table = np.asarray(token_ids), part(parameters, "embedding")["weight"]
    n_tokens, d_model = token_ids.shape[1], table.shape[1]
    x = table[token_ids] * math.sqrt(d_model) + sinusoidal_positions(n_tokens, d_model)
    maps = []
    for layer in layers(parameters):
        x, weights = encoder_layer(layer, x, norm_first=norm_first, **options)
        maps.append(weights)
    if norm_first:
        x = layer_norm(part(parameters, "final_norm"), x)
    return x, maps


def linear(parameters, x):
    """Apply torch's linear map: a row of `weight` makes one output number."""
    return x @ parameters["weight"].T + parameters["bias"]


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
