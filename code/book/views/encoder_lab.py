"""The EncoderLab: the book's small trained encoder, run again in the page."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import reference
from taken_apart.views import View, html_text, numbers_table, place

from . import JS

STORED = Path(__file__).parent.parent / "models" / "toy_language.json"
STEPS = (  # of a layer, as the page names them
    *("query", "key", "value", "scores", "weights", "context", "mixed"),
    *("sum1", "norm1", "hidden", "fed", "sum2", "norm2"),
)


class EncoderLab(View):
    """A small trained encoder that runs again in the page at every change.

    `tokens` is a sentence of its language (`book.models.toy_language`), one string or a
    list of at most 10 words; "___" is a blank to fill. `padding` lists the places of
    words that are padding; `opened` is the step whose numbers are shown first, such as
    "0.weights" or "guess". Raises ValueError for words, places or steps it does not
    have, or too many words.

    Live, these traits are synced: `tokens` (list of str), `padding` (list of bool),
    `norm_first` (bool), `off` (list of parts left out: "scale", "positions",
    "layers.0.residual1", "layers.1.head0", ...), `edits` (list of [parameter, row,
    column, value]) and `read`, the place whose guess is shown.
    `toy_language.load()` gives the same encoder in torch, to compute with what the
    reader set.
    """

    module = JS / "encoder_lab/encoder_lab.js"
    styles = (JS / "encoder_lab/encoder_lab.css",)
    start = "emma ate the soup because ___ was hungry"
    examples = (
        "the old ___ lost her key",
        "paul ___ the bus because he was late",
        "___ wore her ___",
    )

    def __init__(
        self,
        tokens: str | Sequence[str] = start,
        padding: Sequence[int] = (),
        *,
        opened: str = "1.query",
    ):
        words = tokens.split() if isinstance(tokens, str) else list(tokens)
        check_lab_words(words)
        check_step(opened)
        hidden = {place("padding", each, len(words)) for each in padding}
        super().__init__(
            weights=STORED.read_bytes(),
            examples=list(self.examples),
            tokens=words,
            padding=[i in hidden for i in range(len(words))],
            norm_first=False,
            off=[],
            edits=[],
            read=words.index("___") if "___" in words else 0,
            opened=opened,
        )

    def summary(self) -> str:
        tokens, padding = self.state["tokens"], self.state["padding"]
        shown = (
            f"[{word}]" if hides else word
            for word, hides in zip(tokens, padding, strict=True)
        )
        best, chance = self.guesses()[0]
        return f"{' '.join(shown)}; word {self.state['read']}: {best} {chance:.0%}"

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Run the stored encoder in NumPy: output (T, D), and weights (L, H, T, T)."""
        ids = [lab_words().index(token) for token in self.state["tokens"]]
        hidden, maps = reference.encoder(
            lab_parameters(),
            np.array([ids]),
            n_heads=stored_lab()["n_heads"],
            key_padding_mask=np.array([self.state["padding"]]),
        )
        return hidden[0], np.concatenate(maps)

    def guesses(self, k: int = 5) -> list[tuple[str, float]]:
        """Return the k likeliest words at the place that is read, and their chances."""
        output, parameters = self.run()[0][self.state["read"]], lab_parameters()
        logits = parameters["embedding.weight"] @ output + parameters["head.bias"]
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        return [(lab_words()[i], float(chances[i])) for i in np.argsort(-chances)[:k]]

    def still(self) -> str:
        """Return the sentence and its guesses in words, the last weights as tables."""
        tokens, read = self.state["tokens"], self.state["read"]
        sentence = html_text(" ".join(tokens))
        guesses = ", ".join(f"{word} {chance:.0%}" for word, chance in self.guesses())
        heads = (
            numbers_table(
                weights, tokens, tokens, f"Attention, last layer, head {head}"
            )
            for head, weights in enumerate(self.run()[1][-1])
        )
        return (
            f'<div class="lab-still"><p>A small trained encoder reads: {sentence}</p>'
            f"<p>Its guesses for word {read}: {guesses}.</p>{''.join(heads)}</div>"
        )


@functools.cache
def stored_lab() -> dict[str, Any]:
    """Read the lab's encoder: sizes, words by kind, and parameters as nested lists."""
    return json.loads(STORED.read_bytes())


@functools.cache
def lab_words() -> list[str]:
    """Return the words of its language, in the order of their ids."""
    return [word for words in stored_lab()["kinds"].values() for word in words]


@functools.cache
def lab_parameters() -> dict[str, np.ndarray]:
    """Return the stored parameters, by their names in `encoder.py`."""
    stored = stored_lab()["parameters"]
    return {name: np.array(values) for name, values in stored.items()}


def check_lab_words(words: list[str]):
    unknown, longest = set(words) - set(lab_words()), stored_lab()["max_length"]
    if unknown:
        known = " ".join(lab_words())
        raise ValueError(f"the lab does not know {sorted(unknown)}, only: {known}")
    if not 1 <= len(words) <= longest:
        raise ValueError(f"the lab takes 1 to {longest} words, got {len(words)}")


def check_step(name: str):
    layers = range(stored_lab()["n_layers"])
    outside = "embedded", "positions", "input", "guess"
    steps = [*outside, *(f"{layer}.{step}" for layer in layers for step in STEPS)]
    if name not in steps:
        raise ValueError(f"the lab can open {', '.join(steps)}, got {name!r}")
