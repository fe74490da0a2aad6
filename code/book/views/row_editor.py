"""The row editor: a view in which a reader pushes one token and sees what moves."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import reference
from taken_apart.views import View, as_array, html_text, token_lists

from . import JS


class RowEditor(View):
    """Tokens `x` (T, D), their way through a feed-forward network and an attention.

    `feed_forward` (with ReLU) and `attention` are parts of `encoder.py`. `tokens` names
    the rows. `push` is what each token is pushed by when the view opens: this number is
    added to all D of its features. Raises ValueError for shapes that do not fit.
    """

    module = JS / "row_editor/row_editor.js"
    styles = (JS / "row_editor/row_editor.css",)

    def __init__(
        self,
        x: Any,
        feed_forward: Any,
        attention: Any,
        tokens: Sequence | None = None,
        push: Sequence[float] | None = None,
    ):
        self.x = x = as_array("x", x)
        d_model = attention.d_model
        if x.ndim != 2 or x.shape[1] != d_model:
            raise ValueError(f"x must be (T, {d_model}), got {x.shape}")
        push = [0.0] * len(x) if push is None else [float(by) for by in push]
        if len(push) != len(x):
            raise ValueError(f"push must have {len(x)} numbers, got {len(push)}")
        self.n_heads = attention.n_heads
        self.parameters = {
            "feed-forward": feed_forward.state_dict(),
            "attention": attention.state_dict(),
        }
        super().__init__(
            x=x.round(3).tolist(),
            tokens=token_lists("tokens", tokens, 1, len(x))[0],
            n_heads=self.n_heads,
            feed_forward=plain_lists(self.parameters["feed-forward"]),
            attention=plain_lists(self.parameters["attention"]),
            push=push,
        )

    def summary(self) -> str:
        T, D = self.x.shape
        return f"{T} tokens, {D} features"

    def outputs(self, push: Any) -> dict[str, np.ndarray]:
        """Run both parts in NumPy on the pushed tokens; each output is (T, D)."""
        x = (self.x + np.reshape(push, (-1, 1)))[None]
        fed = reference.feed_forward(self.parameters["feed-forward"], x)
        mixed, _ = reference.multi_head_attention(
            self.parameters["attention"], x, n_heads=self.n_heads
        )
        return {"feed-forward": fed[0], "attention": mixed[0]}

    def still(self) -> str:
        """Return for each token which rows of each output move when it is pushed."""
        before, tokens = self.outputs(np.zeros(len(self.x))), self.state["tokens"]
        rows = []
        for token, push in zip(tokens, np.eye(len(self.x)), strict=True):
            cells = [
                ", ".join(
                    other
                    for other, gap in zip(
                        tokens, np.abs(after - before[name]).max(1), strict=True
                    )
                    if gap > 1e-9
                )
                for name, after in self.outputs(push).items()
            ]
            cells = "".join(f"<td>{html_text(cell)}</td>" for cell in cells)
            rows.append(f'<tr><th scope="row">{html_text(token)}</th>{cells}</tr>')
        head = "<tr><th>pushed</th><th>feed-forward moves</th><th>attention moves</th>"
        return f"<table>{head}</tr>{''.join(rows)}</table>"


def plain_lists(parameters: Mapping[str, Any]) -> dict[str, list]:
    """Return parameters as nested lists of four decimals."""
    return {
        name: as_array(name, values).round(4).tolist()
        for name, values in parameters.items()
    }
