"""Read what a caller gives a view: arrays of any library, tokens, places."""

import numpy as np

from .html import plain_text


def as_array(name, weights) -> np.ndarray:
    """Take NumPy, torch (any device, any float type) or nested lists as float64."""
    if weights is None:
        raise ValueError(f"{name} is None: run the model with need_weights=True")
    if hasattr(weights, "detach"):  # torch, without importing it
        weights = weights.detach().cpu().double().numpy()
    return np.asarray(weights, dtype=np.float64)


def is_batch(tokens) -> bool:
    """Say whether tokens are a list of samples rather than one sample."""
    return tokens is not None and any(isinstance(t, (list, tuple)) for t in tokens)


def token_lists(name, tokens, n_samples, n_tokens) -> list[list[str]]:
    """Return the tokens of each sample as text; positions where there are none."""
    if tokens is None:
        return [[str(i) for i in range(n_tokens)]] * n_samples
    samples = [list(t) for t in tokens] if is_batch(tokens) else [list(tokens)]
    counts = [len(sample) for sample in samples]
    if counts != [n_tokens] * n_samples:
        wanted = f"{n_samples} x {n_tokens}, as the weights have"
        raise ValueError(f"{name} must name {wanted}, got {counts} tokens")
    return [[plain_text(token) for token in sample] for sample in samples]


def place(name, index, count) -> int:
    """Return an index counted from the front; as in Python, -1 is the last."""
    if not -count <= index < count:
        raise ValueError(f"{name} must lie in {-count}..{count - 1}, got {index}")
    return int(index) % count
