"""Text and numbers as HTML: what a view shows in print and without scripts."""

from collections.abc import Sequence
from html import escape

import numpy as np


def plain_text(value: object) -> str:
    """Return any object as text that UTF-8 can carry."""
    return str(value).encode("utf-8", "replace").decode()


def html_text(value: object) -> str:
    """Return any object as text that HTML shows as it is, whatever it holds."""
    return escape(plain_text(value))


def numbers_table(
    weights: np.ndarray, queries: Sequence, keys: Sequence, caption: str
) -> str:
    """Return the weights (Tq, Tk) as a table whose cells are shaded.

    `queries` and `keys` name rows and columns; `caption` is HTML.
    """
    top = weights.max() or 1.0

    def cell(weight: float) -> str:
        share = f"color-mix(in srgb,var(--seq-6) {45 * weight / top:.0f}%,transparent)"
        return f'<td style="background:{share}">{weight:.2f}</td>'

    head = "".join(f'<th scope="col">{html_text(key)}</th>' for key in keys)
    rows = (
        f'<tr><th scope="row">{html_text(query)}</th>{"".join(map(cell, row))}</tr>'
        for query, row in zip(queries, weights, strict=True)
    )
    body = "".join(rows)
    return f"<table><caption>{caption}</caption><tr><td></td>{head}</tr>{body}</table>"


def strongest_table(
    weights: np.ndarray, queries: Sequence, keys: Sequence, caption: str
) -> str:
    """Return the weights (Tq, Tk) as a drawing, and each query's strongest keys."""
    rows = []
    for query, row in zip(queries, weights, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        cells = "".join(f"<td>{html_text(keys[k])} {row[k]:.2f}</td>" for k in best)
        rows.append(f'<tr><th scope="row">{html_text(query)}</th>{cells}</tr>')
    title = f"<caption>{caption} Below the map: each query's strongest keys.</caption>"
    return f"{heat_map(weights)}<table>{title}{''.join(rows)}</table>"


def heat_map(weights: np.ndarray) -> str:
    """Return the weights (Tq, Tk) as SVG: eight shades, one path a shade."""
    n_queries, n_keys = weights.shape
    shades = np.ceil(8 * weights / (weights.max() or 1.0) - 1e-6).astype(int)
    paths = []
    for shade in range(1, 9):
        cells = zip(*np.nonzero(shades == shade), strict=True)
        line = "".join(f"M{k} {q}.5h1" for q, k in cells)
        paths.append(f'<path style="stroke:var(--seq-{shade})" d="{line}"/>')
    box = f'viewBox="0 0 {n_keys} {n_queries}" width="{min(480, 14 * n_keys)}"'
    return f'<svg {box} role="img" aria-label="Attention map">{"".join(paths)}</svg>'
