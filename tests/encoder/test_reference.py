"""The NumPy reference is simple enough to trust, and agrees with its own loops."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from small import B, D, H, K, T, assert_near
from torch.nn import functional

numbers = np.random.default_rng(0)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_loops_equals_attention_in_matrices(masked, biased):
    query, key = numbers.normal(size=(T, K)), numbers.normal(size=(T + 2, K))
    value = numbers.normal(size=(T + 2, K + 4))
    blocked = numbers.random((T, T + 2)) < 0.5 if masked else None
    if masked:
        blocked[4] = True  # a query that may see nothing
    bias = numbers.normal(size=(T, T + 2)) if biased else None
    looped = reference.attention_by_loops(query, key, value, blocked, bias)
    at_once = reference.attention(query, key, value, blocked, bias)
    for ours, theirs in zip(looped, at_once, strict=True):
        assert_near(ours, theirs, 1e-14)
        assert not masked or (ours[4] == 0).all()


def test_large_scores_do_not_overflow():
    query, key = np.array([[2000.0]]), np.array([[1.0], [0.0]])
    for attend in (reference.attention, reference.attention_by_loops):
        assert attend(query, key, key)[1].tolist() == [[1.0, 0.0]]


def test_hidden_scores_cannot_matter_however_large():
    query, key = np.array([[2000.0]]), np.array([[1.0], [0.0], [0.5]])
    blocked = np.array([[True, False, False]])
    with np.errstate(all="raise", under="ignore"):
        for attend in (reference.attention, reference.attention_by_loops):
            assert attend(query, key, key, blocked)[1].tolist() == [[0.0, 0.0, 1.0]]


def test_a_bias_is_added_to_the_scaled_scores():
    query, key = np.array([[2.0, 0.0, 0.0, 0.0]]), np.eye(2, 4)  # scores 1 and 0
    bias = np.array([[math.log(3) - 1.0, 0.0]])
    for attend in (reference.attention, reference.attention_by_loops):
        assert_near(attend(query, key, key, bias=bias)[1], [[0.75, 0.25]], 1e-15)


def test_maps_and_norms_may_have_no_bias():
    x = numbers.normal(size=(B, T, D))
    weight = numbers.normal(size=(K, D))
    with_zero = {"weight": weight, "bias": np.zeros(K)}
    assert_near(reference.linear({"weight": weight}, x), reference.linear(with_zero, x))
    expected = functional.layer_norm(torch.tensor(x), (D,), torch.tensor(weight[0]))
    assert_near(reference.layer_norm({"weight": weight[0]}, x), expected, 1e-14)


def test_heads_are_slices_of_columns():
    parameters = {f"{name}.bias": np.zeros(D) for name in ("query", "key", "value")}
    parameters |= {f"{name}.weight": np.eye(D) for name in ("query", "key", "value")}
    parameters |= {"output.weight": np.eye(D), "output.bias": np.zeros(D)}
    x = numbers.normal(size=(B, T, D))
    output, maps = reference.multi_head_attention(parameters, x, n_heads=H)
    for b in range(B):
        for h in range(H):
            mine = slice(h * K, (h + 1) * K)
            head = reference.attention_by_loops(*[x[b, :, mine]] * 3)
            assert_near(output[b, :, mine], head[0], 1e-14)
            assert_near(maps[b, h], head[1], 1e-14)


def test_activations_and_norm_equal_torchs():
    x = numbers.normal(size=(B, T, D))
    scale, shift, tensor = *numbers.normal(size=(2, D)), torch.tensor(x)
    parameters = {"weight": scale, "bias": shift}
    theirs = functional.layer_norm(tensor, (D,), *map(torch.tensor, (scale, shift)))
    assert_near(reference.layer_norm(parameters, x), theirs, 1e-14)
    assert_near(reference.gelu(x), functional.gelu(tensor), 1e-14)
    assert_near(reference.relu(x), functional.relu(tensor), 0)


def test_reference_needs_numpy_alone():
    tree = ast.parse(Path(reference.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    names |= {node.module for node in froms}
    assert names == {"math", "functools", "numpy"}
