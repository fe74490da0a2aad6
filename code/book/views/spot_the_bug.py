"""SpotTheBug: an encoder is shown by what it does, and the reader names its fault."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from taken_apart.views import View, heat_map, html_text

from ..pitfalls import PITFALLS
from ..pitfalls.game import LEVELS, LOSSES, PER_POINT, ROUNDS, behaviour, one_round
from . import JS


class SpotTheBug(View):
    """Encoders shown by what they do, beside the right one: pick the fault.

    Each round shows the first map of one sentence, what moves what, and the loss on the
    match task. Its last two tokens are padding. Keys 1 to 4 choose, n goes on.
    """

    module = JS / "spot_the_bug/spot_the_bug.js"
    styles = (JS / "spot_the_bug/spot_the_bug.css",)

    def __init__(self, rounds: Mapping[str, Sequence[str]] = ROUNDS):
        recorded = json.loads(LOSSES.read_text())
        asked = [
            one_round(PITFALLS[name], others, recorded)
            for name, others in rounds.items()
        ]
        super().__init__(
            rounds=asked,
            right=behaviour(None, recorded),
            per_point=PER_POINT,
            levels=LEVELS,
            round=0,
            answers=[None] * len(asked),
        )

    def summary(self) -> str:
        return f"{len(self.state['rounds'])} rounds"

    def still(self) -> str:
        """Return the drawings of each round, and the answers folded below them."""
        rounds = self.state["rounds"]
        shown = "".join(still_round(i, r) for i, r in enumerate(rounds, 1))
        right = drawings(self.state["right"])
        return f"<p>The right encoder: {right}</p><ol>{shown}</ol>"


def drawings(shown: dict[str, Any]) -> str:
    """Return what an encoder does: its map, what moves what, and its loss in words."""
    squares = (heat_map(np.array(shown[name]) / LEVELS) for name in ("map", "moved"))
    first, last = shown["losses"][0], shown["losses"][-1]
    return f"{' '.join(squares)} loss from {first:.2f} to {last:.2f}"


def still_round(number: int, asked: dict[str, Any]) -> str:
    choices = "; ".join(html_text(name) for name, _ in asked["choices"])
    answer, cause = asked["choices"][asked["right"]]
    return (
        f"<li>{drawings(asked)}<p>{choices}?</p><details><summary>Answer</summary>"
        f"<p>{html_text(answer)}. {html_text(cause)}</p></details></li>"
    )
