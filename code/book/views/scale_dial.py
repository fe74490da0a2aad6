"""A view of chapter 2: a few queries and keys, and the divisor of their scores."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from taken_apart.views import View, as_array, html_text, numbers_table, place

from . import JS


class ScaleDial(View):
    """Turn the divisor of the scores; open a cell of the map and see how it came about.

    `query` and `key`, NumPy or torch, are (T, K); `tokens` names the T words and
    `columns`, where there are names, the K columns. With `value`, (T, 2), the output is
    a point that moves between the values; `value_columns` names their two columns.
    `divisor` starts at sqrt(K), `cell` is the pair (query, key) that is spelled out
    first. Live, these two are synced. Raises ValueError for shapes that do not fit, or
    a divisor outside 0.25..32.
    """

    module = JS / "scale_dial/scale_dial.js"
    styles = (JS / "scale_dial/scale_dial.css",)

    def __init__(
        self,
        query: Any,
        key: Any,
        tokens: Sequence,
        columns: Sequence | None = None,
        *,
        value: Any = None,
        value_columns: Sequence = ("value 0", "value 1"),
        divisor: float | None = None,
        cell: tuple[int, int] = (0, 0),
    ):
        self.query, self.key = as_array("query", query), as_array("key", key)
        tokens = list(map(str, tokens))
        names = list(map(str, columns or range(self.query.shape[-1])))
        wanted = (len(tokens), len(names))
        for name, given in (("query", self.query), ("key", self.key)):
            if given.shape != wanted:
                raise ValueError(f"{name} must be (T, K) = {wanted}, got {given.shape}")
        self.value = None if value is None else as_array("value", value)
        if self.value is not None and self.value.shape != (len(tokens), 2):
            wanted, got = (len(tokens), 2), self.value.shape
            raise ValueError(f"value must be (T, 2) = {wanted}, got {got}")
        divisor = math.sqrt(len(names)) if divisor is None else divisor
        if not 0.25 <= divisor <= 32:
            raise ValueError(f"divisor must lie in 0.25..32, got {divisor}")
        super().__init__(
            query=self.query.tolist(),
            key=self.key.tolist(),
            tokens=tokens,
            columns=names,
            value=None if self.value is None else self.value.tolist(),
            value_columns=list(map(str, value_columns)),
            divisor=float(divisor),
            cell=[place("cell", each, len(tokens)) for each in cell],
        )

    def weights(self, divisor: float) -> np.ndarray:
        """Return the map of weights (T, T) under a divisor."""
        scores = self.query @ self.key.T / divisor
        grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return grown / grown.sum(axis=-1, keepdims=True)

    def summary(self) -> str:
        asked, found = (self.state["tokens"][each] for each in self.state["cell"])
        return f"{asked} asks {found}, divided by {self.state['divisor']:g}"

    def still(self) -> str:
        """Return the chosen row under five divisors, with its measures, as a table."""
        row, tokens = self.state["cell"][0], self.state["tokens"]
        divisors = (0.5, 1, 2, 4, 8)
        weights = np.stack([self.weights(divisor)[row] for divisor in divisors])
        columns = np.column_stack([weights, *measures(weights)])
        names = [f"divided by {divisor:g}" for divisor in divisors]
        caption = (
            f"The weights of “{html_text(tokens[row])}” under five divisors, with the "
            "evenness and the slope of each row."
        )
        return numbers_table(columns, names, [*tokens, "evenness", "slope"], caption)


def measures(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the evenness and the slope of each row of weights (rows, keys).

    Evenness is entropy over its maximum; the slope is the length of all derivatives of
    the weights by the scores, which are w_i (1 - w_i) and -w_i w_j.
    """
    entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=-1)
    outer = weights[:, :, None] * weights[:, None, :]
    derivative = weights[:, :, None] * np.eye(weights.shape[-1]) - outer
    slope = np.sqrt(np.square(derivative).sum(axis=(-2, -1)))
    return entropy / math.log(weights.shape[-1]), slope
