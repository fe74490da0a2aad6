"""The MaskLab: paint a mask in the page, and see what becomes of it.

It computes one head of attention again at every change, shows the mask as five
conventions write it, and hands it to six functions, each in its own way of reading.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import reference
from taken_apart.views import (
    View,
    as_array,
    html_text,
    numbers_table,
    place,
    plain_text,
)

from . import JS


class MaskLab(View):
    """One head of attention whose mask the reader paints, converts and misuses.

    `query`, `key` and `value`, NumPy or torch: (T, K), or (1, T, K); `tokens` names the
    T places, `padding` lists those of padding. `blocked`, (T, T) bool, is the mask at
    the start: without it, padding is hidden from all. `cross` is a pair of names and
    queries (Tc, K) of another sequence, for cross-attention.

    Raises ValueError for shapes or places that do not fit, TypeError for a mask that is
    not bool. Live, `blocked` (nested lists), `is_cross`, `content`, `written`,
    `handed`, `fill` and `number_format` are synced.
    """

    module = JS / "mask_lab/mask_lab.js"
    styles = (JS / "mask_lab/mask_lab.css",)

    def __init__(
        self,
        query: Any,
        key: Any,
        value: Any,
        tokens: Sequence,
        padding: Sequence[int] = (),
        *,
        blocked: Any = None,
        cross: tuple[Sequence, Any] | None = None,
    ):
        query, key, value = head_rows(query), head_rows(key), head_rows(value)
        others, queries = cross or ([], np.zeros((0, key.shape[1])))
        queries = head_rows(queries)
        check_rows(query, key, value, queries)
        n_tokens = len(key)
        hidden = sorted({place("padding", each, n_tokens) for each in padding})
        super().__init__(
            query=short(query),
            key=short(key),
            value=short(value),
            tokens=texts("tokens", tokens, n_tokens),
            padding=hidden,
            cross_tokens=texts("cross", others, len(queries)),
            cross_query=short(queries),
            blocked=start_mask(blocked, n_tokens, hidden),
            is_cross=False,
            content="its own vector",  # of the padding: CONTENTS of mask_math.js
            written="blocked",
            handed="attention",
            fill="-inf",
            number_format="float32",
        )

    def summary(self) -> str:
        blocked = np.array(self.state["blocked"])
        n_padding = len(self.state["padding"])
        pairs = f"{blocked.sum()} of {blocked.size} pairs hidden"
        return f"{len(blocked)} tokens, {n_padding} of them padding, {pairs}"

    def still(self) -> str:
        """Return the weights under the mask as a table, and the mask in words."""
        state = {name: np.array(self.state[name]) for name in ("query", "key", "value")}
        blocked, tokens = np.array(self.state["blocked"]), self.state["tokens"]
        weights = reference.attention(**state, blocked=blocked)[1]
        caption = "Attention weights under the mask; rows are queries."
        hidden = (
            f"{html_text(query)}: {html_text(', '.join(np.array(tokens)[row]) or '-')}"
            for query, row in zip(tokens, blocked, strict=True)
        )
        table = numbers_table(weights, tokens, tokens, caption)
        return f"{table}<p>Hidden from each query: {'; '.join(hidden)}.</p>"


def head_rows(x: Any) -> np.ndarray:
    """Take (T, K), or (1, ..., T, K) of one head, as (T, K)."""
    rows = as_array("query, key and value", x)
    if rows.ndim < 2 or rows.size != rows.shape[-2] * rows.shape[-1]:
        raise ValueError(f"query, key and value must be (T, K), got {rows.shape}")
    return rows.reshape(rows.shape[-2:])


def check_rows(
    query: np.ndarray, key: np.ndarray, value: np.ndarray, cross: np.ndarray
):
    shapes = [x.shape for x in (query, key, value, cross)]
    if not len(query) == len(key) == len(value) or len({s[1] for s in shapes}) > 1:
        wanted = "query, key and value (T, K) and cross queries (Tc, K)"
        raise ValueError(f"MaskLab wants {wanted}, got {shapes}")


def texts(name: str, tokens: Sequence, n_tokens: int) -> list[str]:
    """Return tokens as text; ValueError where they are not n_tokens."""
    if len(tokens) != n_tokens:
        raise ValueError(f"{name} must name {n_tokens} places, got {len(tokens)}")
    return [plain_text(token) for token in tokens]


def start_mask(blocked: Any, n_tokens: int, padding: list[int]) -> list[list[bool]]:
    """Return the mask at the start: the given one, or padding hidden from all."""
    if blocked is None:
        row = [j in padding for j in range(n_tokens)]
        return [row] * n_tokens
    blocked = np.asarray(blocked)
    if blocked.dtype != bool:
        raise TypeError(f"blocked must be bool, True = hidden, got {blocked.dtype}")
    if blocked.shape != (n_tokens, n_tokens):
        wanted = (n_tokens, n_tokens)
        raise ValueError(f"blocked must be {wanted}, got {blocked.shape}")
    return blocked.tolist()


def short(rows: np.ndarray) -> list[list[float]]:
    """Return numbers as JSON with the seven digits that float32 has."""
    return [[float(f"{x:.7g}") for x in row] for row in rows]
