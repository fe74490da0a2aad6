"""What the tests of views share: weights, a trace, hostile tokens, and looks."""

import functools

import numpy as np
import pytest
import torch
from encoder import TransformerEncoder
from taken_apart.tracer import trace

each_theme = pytest.mark.parametrize("theme", ["light", "dark"])
# Colours do not depend on the width, nor the layout on the theme: each once will do.
each_look = pytest.mark.parametrize(
    ("theme", "width"), [("light", 390), ("dark", 820)], ids=["light", "dark"]
)
HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "&lt;b&gt;",
    "'`${x}\\",
    "🦉",
    "שלום",
    "注意力",
    "",
    "w" * 200,
    "\ud800",  # half of a character, as some tokenisers give it
    "<!--",
]


def softmax_weights(*shape, seed=0):
    """Return random attention weights, float64, whose rows sum to 1."""
    scores = np.random.default_rng(seed).normal(size=shape) * 2
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


@functools.cache
def traced(n_layers=3):
    """Return the trace of a small encoder."""
    model = TransformerEncoder(29, d_model=14, n_heads=2, d_ff=11, n_layers=n_layers)
    return trace(model.eval(), torch.zeros(3, 5, dtype=torch.int64))


def words(n):
    return [f"word{i}" for i in range(n)]
