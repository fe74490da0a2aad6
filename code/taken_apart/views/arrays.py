"""Read what a caller gives a view: arrays of any library, tokens, places."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .html import plain_text


def as_array(name: str, values: Any) -> np.ndarray:
    """Return NumPy, torch (any device, any float type) or nested lists as float64.

    `name` is what an error calls them. Raises ValueError for None, which an encoder
    returns in place of weights that nobody asked for.
    """
    if values is None:
        raise ValueError(f"{name} is None: run the model with need_weights=True")
    if hasattr(values, "detach"):  # torch, without importing it
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


def is_batch(tokens: Sequence | None) -> bool:
    """Say whether tokens are a list of samples rather than one sample."""
    return tokens is not None and any(isinstance(t, (list, tuple)) for t in tokens)


def token_lists(
    name: str, tokens: Sequence | None, n_samples: int, n_tokens: int
) -> list[list[str]]:
    """Return the tokens of each sample as text; positions where there are none.

    Raises ValueError where they are not n_samples lists of n_tokens.
    """
    if tokens is None:
        return [[str(i) for i in range(n_tokens)]] * n_samples
    samples = [list(t) for t in tokens] if is_batch(tokens) else [list(tokens)]
    counts = [len(sample) for sample in samples]
    if counts != [n_tokens] * n_samples:
        wanted = f"{n_samples} x {n_tokens}, as the weights have"
        raise ValueError(f"{name} must name {wanted}, got {counts} tokens")
    return [[plain_text(token) for token in sample] for sample in samples]


def place(name: str, index: int, count: int) -> int:
    """Return an index counted from the front; as in Python, -1 is the last.

    Raises ValueError outside -count .. count - 1.
    """
    if not -count <= index < count:
        raise ValueError(f"{name} must lie in {-count}..{count - 1}, got {index}")
    return int(index) % count
