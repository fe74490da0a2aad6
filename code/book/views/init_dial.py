"""A view of chapter 1: how large words are beside their places, by initialisation."""

from collections.abc import Mapping, Sequence

import numpy as np
from taken_apart.views import SHARED, View, as_array, html_text, place

from . import JS

SHOWN = 16  # columns of a row that are drawn: eight clocks, from the fast to the slow


class InitDial(View):
    """Pick an initialisation and turn d_model: which drowns, the word or its place?

    `tables` maps the name of an initialisation to its embeddings (V, D), one a width;
    `places` are the tables (T, D) of the same widths, all of NumPy or torch. `tokens`
    names T words; each different one takes the next row of the tables. Sizes are
    measured over whole tables. `init`, a number, and `d_model` are shown first, with
    the factor sqrt(d_model) where `root`. Live, these three are synced. Raises
    ValueError for tables, widths and words that do not fit each other.
    """

    module = JS / "init_dial/init_dial.js"
    plain_size = 0  # its numbers deflate to a third
    styles = (SHARED / "strips.css", JS / "init_dial/init_dial.css")

    def __init__(
        self,
        tables: Mapping[str, Sequence],
        places: Sequence,
        tokens: Sequence,
        *,
        init: int = 0,
        d_model: int | None = None,
        root: bool = True,
    ):
        places = [as_array("places", table) for table in places]
        widths = [table.shape[1] for table in places]
        tables = as_tables(tables)
        tokens = list(map(str, tokens))
        words = list(dict.fromkeys(tokens))
        check_tables(tables, places, tokens, words)
        d_model = widths[-1] if d_model is None else d_model
        if d_model not in widths:
            raise ValueError(f"d_model must be one of {widths}, got {d_model}")
        super().__init__(
            names=list(tables),
            widths=widths,
            tokens=tokens,
            row_of=[words.index(token) for token in tokens],
            rms=[[root_mean_square(table) for table in of] for of in tables.values()],
            place_rms=[root_mean_square(table) for table in places],
            words=[
                [drawn(table[: len(words)]) for table in of] for of in tables.values()
            ],
            places=[drawn(table) for table in places],
            init=place("init", init, len(tables)),
            d_model=d_model,
            root=bool(root),
        )

    def summary(self) -> str:
        state = self.state
        first, last = state["widths"][0], state["widths"][-1]
        return f"{len(state['names'])} initialisations, D = {first} to {last}"

    def ratio(self, init: int, width: int, root: bool) -> float:
        """Return the RMS of words over that of places; `width` counts the widths."""
        state = self.state
        factor = state["widths"][width] ** 0.5 if root else 1.0
        return state["rms"][init][width] * factor / state["place_rms"][width]

    def still(self) -> str:
        """Return the ratios without and with the root, one row a width."""
        names = [html_text(name) for name in self.state["names"]]
        rows = []
        for i, width in enumerate(self.state["widths"]):
            pairs = [
                [self.ratio(n, i, root) for root in (False, True)]
                for n in range(len(names))
            ]
            cells = "".join(f"<td>{a:.2g} → {b:.2g}</td>" for a, b in pairs)
            rows.append(f'<tr><th scope="row">{width}</th>{cells}</tr>')
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        title = "RMS of words over that of places, by D: without the root → with it"
        body = f"<tr><td></td>{head}</tr>{''.join(rows)}"
        return f"<table><caption>{title}</caption>{body}</table>"


def as_tables(given: Mapping[str, Sequence]) -> dict[str, list[np.ndarray]]:
    """Return the tables of each initialisation, one a width, as arrays."""
    return {
        name: [as_array(name, table) for table in of_widths]
        for name, of_widths in given.items()
    }


def root_mean_square(table: np.ndarray) -> float:
    """Return the root of the mean square, with the digits that a page needs."""
    return float(f"{np.sqrt(np.mean(table**2)):.4g}")


def drawn(table: np.ndarray) -> list[list[float]]:
    """Return sixteen columns of a table, pairs of neighbours spread over its width."""
    pairs = table.shape[1] // 2
    first = 2 * np.linspace(0, pairs - 1, min(SHOWN // 2, pairs)).round().astype(int)
    columns = np.stack([first, first + 1], axis=1).ravel()
    return [[float(f"{x:.3g}") for x in row] for row in table[:, columns]]


def check_tables(
    tables: dict[str, list[np.ndarray]],
    places: list[np.ndarray],
    tokens: list[str],
    words: list[str],
):
    wanted = [table.shape[1] for table in places]
    for name, of_widths in tables.items():
        got = [table.shape[1] for table in of_widths]
        if got != wanted:
            raise ValueError(f"{name!r} must have widths {wanted}, got {got}")
        if min(len(table) for table in of_widths) < len(words):
            raise ValueError(f"{name!r} must have a row for each of {words}")
    if any(len(table) != len(tokens) for table in places):
        got = [len(table) for table in places]
        raise ValueError(f"places must have {len(tokens)} rows, as tokens, got {got}")
