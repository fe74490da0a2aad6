"""The attention map: which token looks at which, in every layer and head."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arrays import as_array, is_batch, place, token_lists
from .base import View
from .bundle import JS
from .html import numbers_table, strongest_table

EXACT_ZERO = 65535  # the code of a weight that is 0, not only rounded to it
MOST = 6.5  # the largest weight that 16 bits hold with 4 decimals


class AttentionMap(View):
    """Attention weights to touch: which token looks at which, in every layer and head.

    `weights`, NumPy or torch: (Tq, Tk); (H, Tq, Tk); (L, H, Tq, Tk), or one layer of a
    batch, (B, H, Tq, Tk), where `tokens` is a list of lists; or a list of L layers, as
    encoders return them, each (H, Tq, Tk) or (B, H, Tq, Tk). `tokens` names queries,
    and keys too unless `key_tokens` does (cross-attention): anything with a `str`, one
    list, or a list of lists, one a sample. `key_padding_mask`, (Tk,) or (B, Tk), is
    bool, True = padding; without it, keys that get exactly zero from every query are
    padding. `layer`, `head` and `sample` are shown first, beside `compare`, a pair
    (layer, head). Weights keep `digits` decimals: 4, or 3 where there are many.

    Raises ValueError for weights that are not finite, negative, empty or of a rank not
    named here, and for tokens or masks that do not fit; TypeError for a mask that is
    not bool.
    """

    module = JS / "attention_map/attention_map.js"
    styles = (JS / "attention_map/attention_map.css",)

    def __init__(
        self,
        weights: Any,
        tokens: Sequence | None = None,
        key_tokens: Sequence | None = None,
        *,
        key_padding_mask: Any = None,
        layer: int = 0,
        head: int = 0,
        sample: int = 0,
        compare: tuple[int, int] | None = None,
        digits: int | None = None,
    ):
        self.weights = stack_weights(weights, tokens)  # (B, L, H, Tq, Tk)
        B, L, H, Tq, Tk = self.weights.shape
        self.digits = digits or (4 if self.weights.size <= 65_536 else 3)
        shared = key_tokens is None and Tq == Tk
        super().__init__(
            shape=[B, L, H, Tq, Tk],
            query_tokens=token_lists("tokens", tokens, B, Tq),
            key_tokens=None if shared else token_lists("key_tokens", key_tokens, B, Tk),
            padding=padding_lists(self.weights, key_padding_mask),
            sample=place("sample", sample, B),
            layer=place("layer", layer, L),
            head=place("head", head, H),
            compare=None if compare is None else place_pair(compare, L, H),
            pin=None,  # [query, key] that a click has fixed
            scale="all",  # the last colour: largest of "all", of this "map", or "one"
            editable=False,  # live, with `recompute`: a click on a key masks it
            digits=self.digits,
            exact_zero=EXACT_ZERO,
            **encode_weights(self.weights, self.digits),
        )

    def summary(self) -> str:
        B, L, H, Tq, Tk = self.state["shape"]
        samples = f"{B} samples, " if B > 1 else ""
        return f"{samples}{L} layers, {H} heads, {Tq} queries, {Tk} keys"

    def still(self) -> str:
        """Return the chosen head: as numbers where they fit, else as a drawing."""
        state, (*_, n_queries, n_keys) = self.state, self.state["shape"]
        sample, layer, head = state["sample"], state["layer"], state["head"]
        weights = self.weights[sample, layer, head]
        queries = state["query_tokens"][sample]
        keys = queries if state["key_tokens"] is None else state["key_tokens"][sample]
        small = n_queries <= 16 and n_keys <= 10
        draw = numbers_table if small else strongest_table
        caption = f"Attention weights, layer {layer}, head {head}; rows are queries."
        return draw(weights, queries, keys, caption)

    def live(self, recompute: Callable[[np.ndarray], Any] | None = None) -> Any:
        """Return the ipywidget; `recompute` lets the reader mask keys in the page.

        `recompute(key_padding_mask)` takes the bool array (B, Tk) that the page now
        shows and returns weights in any of the forms that AttentionMap takes. Raises
        ValueError in the kernel where their sizes are others than before.
        """
        widget = super().live()
        if recompute is not None:
            widget.editable = True
            widget.observe(lambda change: self.refresh(widget, recompute), "padding")
        return widget

    def refresh(self, widget: Any, recompute: Callable[[np.ndarray], Any]):
        """Give the widget the weights that belong to the padding it shows now."""
        mask = np.array(widget.padding, dtype=bool)
        tokens = self.state["query_tokens"]
        weights = stack_weights(recompute(mask), tokens)
        if weights.shape != self.weights.shape:
            wanted, got = self.weights.shape, weights.shape
            raise ValueError(f"recompute must return weights {wanted}, got {got}")
        with widget.hold_sync():
            for name, value in encode_weights(weights, self.digits).items():
                setattr(widget, name, value)


def stack_weights(weights: Any, tokens: Sequence | None) -> np.ndarray:
    """Bring weights of every form that AttentionMap takes to (B, L, H, Tq, Tk)."""
    if isinstance(weights, (list, tuple)):
        layers = [as_array(f"layer {i} of weights", x) for i, x in enumerate(weights)]
    else:
        layers = split_layers(as_array("weights", weights), tokens)
    shapes = sorted({x.shape for x in layers})
    if len(shapes) != 1 or len(shapes[0]) not in (3, 4) or 0 in shapes[0]:
        wanted = "one shape (H, Tq, Tk) or (B, H, Tq, Tk), nothing empty"
        raise ValueError(f"each layer of weights must have {wanted}, got {shapes}")
    stacked = np.stack([x if x.ndim == 4 else x[None] for x in layers], axis=1)
    check_weights(stacked)
    return stacked


def split_layers(weights: np.ndarray, tokens: Sequence | None) -> list[np.ndarray]:
    """Read one array as a list of layers, by its rank."""
    if weights.ndim not in (2, 3, 4):
        wanted = "(Tq, Tk), (H, Tq, Tk) or (L, H, Tq, Tk), or a list of layers"
        raise ValueError(f"weights must be {wanted}, got {weights.shape}")
    if weights.ndim == 2:
        return [weights[None]]
    return list(weights) if weights.ndim == 4 and not is_batch(tokens) else [weights]


def check_weights(weights: np.ndarray):
    if not np.isfinite(weights).all():
        raise ValueError("weights must be finite, got nan or inf")
    low, high = weights.min(), weights.max()
    if low < 0 or high > MOST:
        wanted = f"0..1 (up to {MOST} where dropout scaled them)"
        hint = "are these scores, before the softmax?"
        raise ValueError(
            f"weights must lie in {wanted}, got {low:.3g}..{high:.3g}: {hint}"
        )


def padding_lists(weights: np.ndarray, mask: Any) -> list[list[int]]:
    """Return 1 for each key that is padding: given, or zero for every query."""
    if mask is None:
        return (weights == 0).all(axis=(1, 2, 3)).astype(int).tolist()
    mask = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
    if mask.dtype != bool:
        raise TypeError(
            f"key_padding_mask must be bool, True = padding, got {mask.dtype}"
        )
    wanted = (weights.shape[0], weights.shape[-1])
    if mask.shape != wanted and (1, *mask.shape) != wanted:
        raise ValueError(
            f"key_padding_mask must be (B, Tk) = {wanted}, got {mask.shape}"
        )
    return mask.reshape(wanted).astype(int).tolist()


def place_pair(pair: tuple[int, int], n_layers: int, n_heads: int) -> list[int]:
    layer, head = pair
    return [place("layer", layer, n_layers), place("head", head, n_heads)]


def encode_weights(weights: np.ndarray, digits: int) -> dict[str, bytes]:
    """Round weights to 16 bits, and keep the exact sums of the rows beside them.

    All low bytes come before all high bytes, an order that deflates better.
    """
    codes = np.rint(weights * 10**digits).astype("<u2")
    codes[weights == 0] = EXACT_ZERO
    planes = codes.reshape(-1, 1).view(np.uint8).T
    sums = weights.sum(axis=-1).round(digits).astype("<f4")
    return {"weights": planes.tobytes(), "sums": sums.tobytes()}
