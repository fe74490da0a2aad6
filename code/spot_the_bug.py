"""A game: which fault does this encoder have? Its behaviour is all that is shown.

    python code/spot_the_bug.py

trains the encoders of the game again and stores their losses, which takes minutes.
"""

import json
import math
from functools import partial
from pathlib import Path

import torch
from pitfalls import PITFALLS, Pitfall
from views import View, heat_map, html_text
from witnesses import influence, maps

CURVES = Path(__file__).parent / "js" / "museum_curves.json"
STEPS, PER_POINT = 600, 20
TRAINED = {"d_model": 64, "n_heads": 2, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
LEVELS = 99  # weights and influences travel as whole numbers, 0 to 99
# Each round: the fault, and three others that one might take it for.
ROUNDS = {
    "causal by habit": ("queries masked", "softmax over queries", "mask added as ones"),
    "mask the wrong way round": (
        "queries masked",
        "mask not passed on",
        "softmax twice",
    ),
    "softmax over queries": ("scale forgotten", "softmax over heads", "softmax twice"),
    "batch taken for time": (
        "heads in place of tokens",
        "merge without transpose",
        "positions along the batch",
    ),
    "softmax twice": ("scale of the model", "positions forgotten", "value from key"),
    "queries masked": ("mask not passed on", "mask after softmax", "causal by habit"),
    "scale upside down": ("scale of the model", "softmax twice", "residual forgotten"),
    "heads in place of tokens": (
        "batch taken for time",
        "merge without transpose",
        "causal by habit",
    ),
    "mask in first layer only": (
        "mask not passed on",
        "mask the wrong way round",
        "filled with nothing",
    ),
    "residual forgotten": ("residual twice", "norm over tokens", "scale forgotten"),
    "merge without transpose": (
        "value from key",
        "scale of the model",
        "query from key",
    ),
}


class SpotTheBug(View):
    """Encoders shown by what they do, beside the right one: pick the fault.

    Each round shows the first map of one sentence, what moves what, and the loss on the
    match task. Its last two tokens are padding. Keys 1 to 4 choose, n goes on.
    """

    module = "spot_the_bug.js"
    styles = ("axes.css", "views.css", "spot_the_bug.css")

    def __init__(self, rounds=ROUNDS):
        recorded = json.loads(CURVES.read_text())
        asked = [
            one_round(PITFALLS[name], others, recorded)
            for name, others in rounds.items()
        ]
        super().__init__(
            rounds=asked,
            right=behaviour(None, recorded),
            per_point=PER_POINT,
            round=0,
            answers=[None] * len(asked),
        )

    def summary(self):
        return f"{len(self.state['rounds'])} rounds"

    def still(self):
        """Return the drawings of each round, and the answers folded below them."""
        rounds = self.state["rounds"]
        shown = "".join(still_round(i, r) for i, r in enumerate(rounds, 1))
        right = drawings(self.state["right"])
        return f"<p>The right encoder: {right}</p><ol>{shown}</ol>"


def sentence():
    """Return ids (3, 7) and padding (3, 7): the first sentence has five words."""
    ids = torch.tensor(
        [[4, 9, 4, 17, 12, 0, 0], [3, 8, 11, 2, 20, 5, 6], [7, 1] + [0] * 5]
    )
    return ids, ids == 0


def one_round(case: Pitfall, others, recorded) -> dict:
    """Return a round: its behaviour, four choices in a fixed order, and the answer."""
    choices = sorted((case.name, *others))
    return behaviour(case, recorded) | {
        "choices": [[name, PITFALLS[name].cause] for name in choices],
        "right": choices.index(case.name),
        "why": case.symptom,
        "fix": case.fix,
    }


def behaviour(case: Pitfall | None, recorded) -> dict:
    """Measure a fault, or the right encoder: map, influence and recorded losses."""
    ids, padding = sentence()
    if case is None:
        model = PITFALLS["causal by habit"].right()
    else:
        model = case.build()
    with torch.no_grad():
        weights = maps(model, ids, padding)[0][0, 0]
        moved = influence(model, ids, padding)
    return {
        "map": levels(weights),
        "moved": levels(moved / moved.max()),
        "losses": recorded["right" if case is None else case.name],
    }


def levels(square) -> list[list[int]]:
    return (square.clamp(0, 1) * LEVELS).round().int().tolist()


def drawings(shown) -> str:
    import numpy as np

    squares = (heat_map(np.array(shown[name]) / LEVELS) for name in ("map", "moved"))
    first, last = shown["losses"][0], shown["losses"][-1]
    return f"{' '.join(squares)} loss from {first:.2f} to {last:.2f}"


def still_round(number, asked) -> str:
    choices = "; ".join(html_text(name) for name, _ in asked["choices"])
    answer, cause = asked["choices"][asked["right"]]
    return (
        f"<li>{drawings(asked)}<p>{choices}?</p><details><summary>Answer</summary>"
        f"<p>{html_text(answer)}. {html_text(cause)}</p></details></li>"
    )


# --- recording -----------------------------------------------------------------------


def losses_of(model) -> list[float]:
    """Train a model on the match task; return the mean loss of each 20 steps."""
    from tasks import match_batch
    from train import Reader, train

    torch.manual_seed(1)
    own = torch.Generator().manual_seed(7)
    losses = train(Reader(model, 2).train(), partial(match_batch, 64, own), STEPS)
    means = torch.tensor(losses).unflatten(0, (-1, PER_POINT)).mean(dim=1)
    return [round(v, 3) if math.isfinite(v) else None for v in means.tolist()]


def record() -> dict:
    sizes = TRAINED | {"vocab_size": 32, "max_length": 12}
    made = {"right": PITFALLS["causal by habit"].right(**sizes)}
    made |= {name: PITFALLS[name].build(**sizes) for name in ROUNDS}
    return {name: losses_of(model) for name, model in made.items()}


if __name__ == "__main__":
    CURVES.write_text(json.dumps(record(), indent=0) + "\n")
