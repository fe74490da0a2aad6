"""The axis juggler: a view in which a reader splits heads, moves axes and merges them.

Every number keeps the colour of its token and the depth of its head, so that a wrong
order of steps can be seen: in the block, in memory, and in what the rows really hold.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from taken_apart.views import View, as_array, html_text, token_lists

from . import JS

MOST_TOKENS, MOST_FEATURES = 6, 8
# What CHOICES of axis_juggler_math.js offers; a test compares the two.
STEP_NAMES = [
    "split",
    "deal",
    "view",
    "move",
    "recut",
    "attend",
    "out",
    "viewout",
    "flatten",
]


class AxisJuggler(View):
    """One small sentence `x` (T, D) or (1, T, D) on its way through `n_heads` heads.

    `x`, NumPy or torch, has at most 6 tokens of at most 8 features; `tokens` names
    them. `steps` are taken already when the view opens, of: "split", "deal" (K x H in
    place of H x K), "view" (a split that skips the transpose), "move" (a transpose),
    "recut" (a reshape in its place), "attend", "out" (a reshape to (B, T, D)),
    "viewout" (the same by view) and "flatten". Raises ValueError for another shape, for
    numbers that are not finite, for heads that do not divide D and for unknown steps.
    """

    module = JS / "axis_juggler/axis_juggler.js"
    styles = (JS / "axis_juggler/axis_juggler.css",)

    def __init__(
        self,
        x: Any,
        n_heads: int,
        tokens: Sequence | None = None,
        steps: Sequence[str] = (),
    ):
        rows = as_array("x", x)
        self.x = x = rows[0] if rows.ndim == 3 and len(rows) == 1 else rows
        check_block(x, n_heads)
        unknown = set(steps) - set(STEP_NAMES)
        if unknown:
            raise ValueError(f"steps must be among {STEP_NAMES}, got {sorted(unknown)}")
        self.n_heads = n_heads
        super().__init__(
            values=x.round(3).tolist(),
            n_heads=n_heads,
            tokens=token_lists("tokens", tokens, 1, len(x))[0],
            steps=list(steps),
            depths=[depth(head, n_heads) for head in range(n_heads)],
        )

    def summary(self) -> str:
        T, D = self.x.shape
        return f"{T} tokens, {D} features, {self.n_heads} heads"

    def still(self) -> str:
        """Return the right way and one wrong merge, as tables of the numbers."""
        T, D = self.x.shape
        places = np.arange(T * D).reshape(T, D)
        heads = places.reshape(T, self.n_heads, -1).swapaxes(0, 1)
        tables = {"x: a row a token": places}
        for h, head in enumerate(heads):
            tables[f"split and moved, head {h}"] = head
        tables["moved back and flattened"] = places
        tables["reshaped without moving back"] = heads.reshape(T, D)
        drawn = "".join(self.table(*item) for item in tables.items())
        return f'<div class="jug-still">{drawn}</div>'

    def table(self, title: str, places: np.ndarray) -> str:
        """Return numbers of x, given by their places, as rows named by the tokens."""
        D = self.x.shape[1]
        rows = (
            f'<tr><th scope="row">{html_text(token)}</th>'
            + "".join(
                f'<td class="jug-cell" {self.mark(*divmod(place, D))}>'
                f"{self.x.flat[place]:.1f}<small>{place // D},{place % D}</small></td>"
                for place in row
            )
            for token, row in zip(self.state["tokens"], places, strict=True)
        )
        return f"<table><caption>{title}</caption>{''.join(rows)}</table>"

    def mark(self, token: int, feature: int) -> str:
        """Return the attributes that colour a number of x: its token, its head."""
        head = feature * self.n_heads // self.x.shape[1]
        return f'data-token="{token}" style="--depth:{self.state["depths"][head]}%"'


def depth(head: int, n_heads: int) -> int:
    """Return how deep the colour of a head's numbers is, in per cent."""
    return round(35 + 65 * head / max(n_heads - 1, 1))


def check_block(x: np.ndarray, n_heads: int):
    if x.ndim != 2 or not (1 <= x.shape[0] <= MOST_TOKENS):
        wanted = f"(T, D) with 1 to {MOST_TOKENS} tokens"
        raise ValueError(f"x must be {wanted}, got {x.shape}")
    if not 1 <= x.shape[1] <= MOST_FEATURES:
        raise ValueError(f"x must have 1 to {MOST_FEATURES} features, got {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError("x must be finite, got nan or inf")
    if n_heads < 1 or x.shape[1] % n_heads:
        raise ValueError(f"n_heads={n_heads} must divide D={x.shape[1]}")
