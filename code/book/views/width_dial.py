"""A view of chapter 2: random queries and keys of any width, and three divisors."""

import math
from collections.abc import Sequence

import numpy as np
from taken_apart.views import View, numbers_table

from . import JS

RULES = {"1": lambda width: 1.0, "√K": math.sqrt, "K": float}
N_KEYS = 10


class WidthDial(View):
    """Turn the width K of random queries and keys, and see what a divisor makes of it.

    The page draws `n_queries` queries with ten keys each, normal and independent, from
    `seed`; a width takes the first entries of the widest vectors. `width`, one of
    `widths`, and `rule`, the divisor ("1", "√K" or "K"), are shown first. Live, these
    two and `query`, the row that is spelled out, are synced. Raises ValueError for
    others.
    """

    module = JS / "width_dial/width_dial.js"
    styles = JS / "scale_dial/scale_dial.css", JS / "width_dial/width_dial.css"

    def __init__(
        self,
        width: int = 4,
        rule: str = "1",
        *,
        widths: Sequence[int] = (4, 8, 16, 32, 64, 128, 256),
        n_queries: int = 100,
        seed: int = 0,
    ):
        widths = list(widths)
        if width not in widths:
            raise ValueError(f"width must be one of {widths}, got {width}")
        if rule not in RULES:
            raise ValueError(f"rule must be one of {list(RULES)}, got {rule!r}")
        super().__init__(
            seed=seed,
            n_queries=n_queries,
            n_keys=N_KEYS,
            widths=widths,
            width=width,
            rule=rule,
            query=0,
        )

    def scores(self) -> np.ndarray:
        """Return the undivided scores (widths, queries, keys) that the page draws."""
        state, widest = self.state, max(self.state["widths"])
        shape = state["n_queries"], N_KEYS + 1, widest
        drawn = normals(state["seed"], math.prod(shape)).reshape(shape)
        products = drawn[:, :1] * drawn[:, 1:]  # (queries, keys, widest)
        return np.stack([products[..., :n].sum(axis=-1) for n in state["widths"]])

    def summary(self) -> str:
        return f"K = {self.state['width']}, divided by {self.state['rule']}"

    def still(self) -> str:
        """Return the mean evenness of the rows, a line a width, a column a divisor."""
        widths, scores = self.state["widths"], self.scores()
        table = [
            [mean_evenness(rows / rule(width)) for rule in RULES.values()]
            for width, rows in zip(widths, scores, strict=True)
        ]
        names = [f"K = {width}" for width in widths]
        caption = (
            f"Evenness of the weights of {N_KEYS} random keys, "
            f"a mean over {self.state['n_queries']} queries."
        )
        heads = [f"divided by {rule}" for rule in RULES]
        return numbers_table(np.array(table), names, heads, caption)


def mean_evenness(scores: np.ndarray) -> float:
    """Return entropy over its maximum of the softmax of each row, averaged."""
    grown = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = grown / grown.sum(axis=-1, keepdims=True)
    entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=-1)
    return entropy.mean() / math.log(scores.shape[-1])


def normals(seed: int, count: int) -> np.ndarray:
    """Return the numbers that the page draws from a seed (`normal` in its script)."""
    near, turn = uniforms(seed, 2 * count).reshape(count, 2).T
    return np.sqrt(-2 * np.log(1 - near)) * np.cos(2 * np.pi * turn)


def uniforms(seed: int, count: int) -> np.ndarray:
    """Return numbers from 0 to 1 by the generator "mulberry32"; uint32 wraps around."""
    step = np.arange(1, count + 1, dtype=np.uint32) * np.uint32(1831565813)
    state = step + np.uint32(seed)
    mixture = (state ^ (state >> 15)) * (state | 1)
    mixture ^= mixture + (mixture ^ (mixture >> 7)) * (mixture | 61)
    return (mixture ^ (mixture >> 14)) / 2.0**32
