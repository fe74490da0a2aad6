"""A view of chapter 1: what happens to the rows of a sentence when its words move."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from taken_apart.views import SHARED, View, as_array, html_text

from . import JS


class WordOrder(View):
    """Shuffle the words of a sentence: without positions its rows only move along.

    `tokens` names T words; `words` (T, n) are their vectors and `places` (T, n) those
    of their places, NumPy or torch; a few columns are enough. `add` starts with the
    places added. Live, `order` (list of int) and `add` are synced. Raises ValueError
    where the three do not fit.
    """

    module = JS / "word_order/word_order.js"
    styles = (SHARED / "strips.css", JS / "word_order/word_order.css")

    def __init__(self, tokens: Sequence, words: Any, places: Any, *, add: bool = False):
        words, places = as_array("words", words), as_array("places", places)
        tokens = list(map(str, tokens))
        if words.ndim != 2 or words.shape != places.shape or len(words) != len(tokens):
            wanted = f"two arrays ({len(tokens)}, n), one row a token"
            raise ValueError(
                f"words and places must be {wanted}, got {words.shape}, {places.shape}"
            )
        super().__init__(
            tokens=tokens,
            words=words.round(4).tolist(),
            places=places.round(4).tolist(),
            order=list(range(len(tokens))),
            add=bool(add),
        )

    def summary(self) -> str:
        return " ".join(self.state["tokens"])

    def still(self) -> str:
        """Return the sentence and its reverse, and whose rows are new, in a table."""
        tokens, reverse = self.state["tokens"], self.state["tokens"][::-1]
        counts = [f"{self.fresh(add)} of {len(tokens)}" for add in (False, True)]
        return (
            f"<p>{html_text(' '.join(tokens))}, turned round: "
            f"{html_text(' '.join(reverse))}. Rows that are new: without positions "
            f"{counts[0]}, with positions {counts[1]}.</p>"
        )

    def fresh(self, add: bool) -> int:
        """Return how many rows of the reversed sentence are none of the sentence's."""
        words = np.array(self.state["words"])
        places = add * np.array(self.state["places"])
        before, after = words + places, words[::-1] + places
        apart = np.abs(after[:, None] - before).max(axis=-1)
        return int((apart.min(axis=1) > 1e-6).sum())
