"""Norms to touch: one token under the microscope, and a batch under two norms."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from taken_apart.views import View, as_array, html_text

from . import JS

EPS = (1e-12, 1e-6, 1e-5, 1e-3, 0.1, 1.0)  # to choose among: BERT has the first


class NormMicroscope(View):
    """One token's numbers, to drag, shift and scale, and what a norm makes of them.

    `token` holds 2 to 8 numbers; `kind` is "LayerNorm" or "RMSNorm"; `eps` is one of
    1e-12 (BERT's), 1e-6, 1e-5 (torch's), 1e-3, 0.1 and 1. Raises ValueError otherwise.
    """

    module = JS / "norms/norm_microscope.js"
    styles = (JS / "norms/norms.css",)

    def __init__(
        self, token: Any = (1, 2, 4, 9), kind: str = "LayerNorm", eps: float = 1e-5
    ):
        token = as_array("token", token)
        if token.ndim != 1 or not 2 <= len(token) <= 8 or not np.isfinite(token).all():
            raise ValueError(
                f"token must be 2 to 8 finite numbers, got {token.tolist()}"
            )
        if kind not in ("LayerNorm", "RMSNorm"):
            raise ValueError(f"kind must be LayerNorm or RMSNorm, got {kind!r}")
        if eps not in EPS:
            raise ValueError(f"eps must be one of {EPS}, got {eps!r}")
        super().__init__(
            x=token.tolist(),
            gamma=[1] * len(token),
            beta=[0] * len(token),
            shift=0,  # added to every number, after the factor
            scale=1,
            eps=eps,
            eps_choices=list(EPS),
            kind=kind,
            part="x",  # what the bars are: "x", "gamma" or "beta"
        )

    def summary(self) -> str:
        return f"{self.state['kind']} of {self.state['x']}"

    def still(self) -> str:
        """Return the token and what both norms make of it, with mean and variance."""
        x, eps = np.array(self.state["x"]), self.state["eps"]
        centred = x - x.mean()
        made = {
            "x": x,
            "LayerNorm(x)": centred / np.sqrt(centred.var() + eps),
            "RMSNorm(x)": x / np.sqrt(np.square(x).mean() + eps),
        }
        rows = (
            table_row(name, [*values, values.mean(), values.var()])
            for name, values in made.items()
        )
        places = "".join(f"<th>{i + 1}" for i in range(len(x)))
        return f"<table><tr><td>{places}<th>mean<th>variance{''.join(rows)}</table>"


class NormAxes(View):
    """A batch of tokens under LayerNorm and BatchNorm, whose padding a reader paints.

    `batch`, (B, T, D), holds 2 to 8 sequences; the reader sees which numbers share a
    mean, and how far padding and neighbours move the outputs of the first sequence.
    `kind` is "LayerNorm" or "BatchNorm", in training. Raises ValueError otherwise.
    """

    module = JS / "norms/norm_axes.js"
    styles = (JS / "norms/norms.css",)

    def __init__(self, batch: Any, kind: str = "LayerNorm"):
        batch = as_array("batch", batch)
        if batch.ndim != 3 or not 2 <= len(batch) <= 8 or not np.isfinite(batch).all():
            wanted = "(B, T, D), finite, of 2 to 8 sequences"
            raise ValueError(f"batch must be {wanted}, got {batch.shape}")
        if kind not in ("LayerNorm", "BatchNorm"):
            raise ValueError(f"kind must be LayerNorm or BatchNorm, got {kind!r}")
        B, T, D = self.shape = batch.shape
        rows = batch.reshape(-1, D)
        super().__init__(
            rows=rows.tolist(),
            length=T,
            names=[f"{letter}{t + 1}" for letter in "ABCDEFGH"[:B] for t in range(T)],
            padding=[False] * len(rows),
            others=False,  # the neighbours of the first sequence are others
            kind=kind,
            here=[0, 0],
        )

    def summary(self) -> str:
        B, T, D = self.shape
        return f"{B} sequences, {T} tokens, {D} features"

    def still(self) -> str:
        """Return each token's numbers, and what both norms make of them."""
        x = np.array(self.state["rows"])
        layer, batch = (
            (x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True)
            for axis in (1, 0)
        )
        rows = (
            table_row(name, [*x[r], *layer[r], *batch[r]])
            for r, name in enumerate(self.state["names"])
        )
        D = self.shape[-1]
        head = "".join(f"<th colspan={D}>{n}" for n in ("x", "LayerNorm", "BatchNorm"))
        return f"<table><tr><td>{head}{''.join(rows)}</table>"


def table_row(name: str, values: Iterable[float]) -> str:
    """Return one row of a table; -0.00 is shown as 0.00."""
    cells = "".join(f"<td>{round(value, 2) + 0.0:.2f}" for value in values)
    return f"<tr><th scope=row>{html_text(name)}{cells}"
