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

WEIGHTS = Path(__file__).parent.parent / "models" / "toy_language.json"
LAYER_STEPS = (  # of a layer, as the page names them
    *("query", "key", "value", "scores", "weights", "context", "mixed"),
    *("sum1", "norm1", "hidden", "fed", "sum2", "norm2"),
)


class EncoderLab(View):
    """A small trained encoder that runs again in the page at every change.

    `tokens` is a sentence of its language (`book.models.toy_language`), one string or a
    list of at most 10 words; "___" is a blank to fill. `padding` lists the places of
    words that are padding; `opened` is the step whose numbers are shown first, such as
    "0.weights" or "guess". Raises ValueError for words, places, steps or a `part` that
    it does not have, or too many words.

    Live, these traits are synced: `tokens` (list of str), `padding` (list of bool),
    `norm_first` (bool), `off` (list of parts left out: "scale", "positions",
    "layers.0.residual1", "layers.1.head0", ...), `edits` (list of [parameter, row,
    column, value]) and `read`, the place whose guess is shown.
    `toy_language.load()` gives the same encoder in torch, to compute with what the
    reader set. `part="heads"` shows the heads and nothing else of the inside: what each
    looks at, and the guess without it.
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
        part: str = "all",
    ):
        words = tokens.split() if isinstance(tokens, str) else list(tokens)
        check_lab_words(words)
        check_step(opened)
        if part not in ("all", "heads"):
            raise ValueError(f'part must be "all" or "heads", got {part!r}')
        hidden = {place("padding", each, len(words)) for each in padding}
        super().__init__(
            weights=WEIGHTS.read_bytes(),
            examples=list(self.examples),
            tokens=words,
            padding=[i in hidden for i in range(len(words))],
            norm_first=False,
            off=[],
            edits=[],
            read=words.index("___") if "___" in words else 0,
            opened=opened,
            part=part,
        )

    def summary(self) -> str:
        tokens, padding = self.state["tokens"], self.state["padding"]
        shown = (
            f"[{word}]" if hides else word
            for word, hides in zip(tokens, padding, strict=True)
        )
        best, chance = self.guesses()[0]
        return f"{' '.join(shown)}; word {self.state['read']}: {best} {chance:.0%}"

    def run(self, off: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray]:
        """Run the stored encoder in NumPy: output (T, D), and weights (L, H, T, T).

        `off` is a head to leave out, (layer, head).
        """
        ids = [lab_words().index(token) for token in self.state["tokens"]]
        hidden, maps = reference.encoder(
            parameters_without(*off) if off else lab_parameters(),
            np.array([ids]),
            n_heads=stored_lab()["n_heads"],
            key_padding_mask=np.array([self.state["padding"]]),
        )
        return hidden[0], np.concatenate(maps)

    def guesses(self, k: int = 5, off: Sequence[int] = ()) -> list[tuple[str, float]]:
        """Return the k likeliest words at the place that is read, and their chances.

        `off` is a head to leave out, (layer, head).
        """
        output, parameters = self.run(off)[0][self.state["read"]], lab_parameters()
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
        inside = "".join(heads) if self.state["part"] == "all" else self.heads_table()
        return (
            f'<div class="lab-still"><p>A small trained encoder reads: {sentence}</p>'
            f"<p>Its guesses for word {read}: {guesses}.</p>{inside}</div>"
        )

    def heads_table(self) -> str:
        """Return a line a head: where the word read looks, and the guess without it."""
        tokens, maps = self.state["tokens"], self.run()[1]
        titles = "head", "looks most at", "guess without it"
        lines = ["".join(f'<th scope="col">{title}</th>' for title in titles)]
        for layer, head in np.ndindex(maps.shape[:2]):
            row = maps[layer, head, self.state["read"]]
            word, chance = self.guesses(k=1, off=(layer, head))[0]
            looks = f"{html_text(tokens[row.argmax()])} {row.max():.0%}"
            cells = f"<td>{looks}</td><td>{html_text(word)} {chance:.0%}</td>"
            lines.append(f'<th scope="row">{layer}.{head}</th>{cells}')
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


@functools.cache
def stored_lab() -> dict[str, Any]:
    """Read the lab's encoder: sizes, words by kind, and parameters as nested lists."""
    return json.loads(WEIGHTS.read_bytes())


@functools.cache
def lab_words() -> list[str]:
    """Return the words of its language, in the order of their ids."""
    return [word for words in stored_lab()["kinds"].values() for word in words]


@functools.cache
def lab_parameters() -> dict[str, np.ndarray]:
    """Return the stored parameters, by their names in `encoder.py`."""
    stored = stored_lab()["parameters"]
    return {name: np.array(values) for name, values in stored.items()}


def parameters_without(layer: int, head: int) -> dict[str, np.ndarray]:
    """Return the lab's parameters with the columns that read one head set to zero."""
    name = f"layers.{layer}.attention.output.weight"
    weight = lab_parameters()[name].copy()
    d_head = weight.shape[1] // stored_lab()["n_heads"]
    weight[:, head * d_head : (head + 1) * d_head] = 0.0
    return lab_parameters() | {name: weight}


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
    steps = [*outside, *(f"{layer}.{step}" for layer in layers for step in LAYER_STEPS)]
    if name not in steps:
        raise ValueError(f"the lab can open {', '.join(steps)}, got {name!r}")
