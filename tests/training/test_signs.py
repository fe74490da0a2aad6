"""The vital signs of a stack: what they measure, on stacks whose signs are known."""

import math

import pytest
import torch
from book.experiments import signs
from book.experiments.signs import difference, stream, untrained, vital_signs
from book.experiments.trainings import NoResidual
from encoder import EncoderLayer
from torch import nn


def stack(layer, depth=7, **options):
    torch.manual_seed(0)
    return nn.ModuleList(
        layer(22, 2, 26, 0.0, **options) for _ in range(depth)
    ).double()


def test_fresh_layers_start_as_the_book_or_as_torch_does_and_the_same_each_time():
    loud, soft, again = (
        untrained(EncoderLayer, start, seed=3, depth=2)
        for start in ("Xavier", "torch's", "torch's")
    )
    weights = [
        layers[1].attention.query.weight.detach() for layers in (loud, soft, again)
    ]
    assert torch.equal(*weights[1:])
    assert weights[0].dtype == torch.float64
    # Uniform up to a bound: Xavier's is sqrt(6 / 2D), nn.Linear's 1 / sqrt(D).
    assert weights[0].abs().max() == pytest.approx(math.sqrt(6 / 128), rel=0.01)
    assert weights[1].abs().max() == pytest.approx(1 / 8, rel=0.01)


def test_difference_is_nothing_for_equal_tokens_and_one_at_right_angles():
    equal = torch.randn(3, 1, 7).expand(3, 5, 7)
    assert difference(equal) == pytest.approx(0, abs=1e-6)
    assert difference(torch.eye(5).expand(3, 5, 5)) == pytest.approx(1)
    opposite = torch.tensor([[[1.0, 0], [-1, 0]]])
    assert difference(opposite) == pytest.approx(2)


def test_the_stream_is_what_each_layer_passes_on_whether_alone_or_in_a_pair():
    layers, x = stack(EncoderLayer), torch.randn(2, 5, 22, dtype=torch.float64)
    passed = stream(layers, x)
    assert torch.equal(passed[3], layers[2](passed[2])[0])
    alone = stream([lambda x: 2 * x, lambda x: x + 1], x)
    assert torch.equal(alone[-1], 2 * x + 1)


def test_a_stack_that_does_nothing_keeps_its_signs():
    layers = stack(EncoderLayer, norm_first=True)
    for layer in layers:
        nn.init.zeros_(layer.attention.output.weight)
        nn.init.zeros_(layer.feed_forward.down.weight)
    found = vital_signs(layers)
    assert all(map(math.isnan, found["query share"]))  # a silent part has no gradient
    assert found["gradient"] == pytest.approx([1] * 8)
    assert found["size"] == pytest.approx([found["size"][0]] * 8)
    assert found["difference"] == pytest.approx([found["difference"][0]] * 8)


def test_without_residual_the_queries_starve_and_the_stream_does_not():
    found = vital_signs(stack(NoResidual))
    assert [len(found[name]) for name in found] == [8, 8, 7, 8]
    assert found["query share"][-1] < 1e-12 < 0.05 < found["query share"][0]
    assert 0.05 < found["gradient"][0] < 20
    assert found["difference"][-1] < 1e-12


def test_a_stack_joins_attention_and_then_feed_forward_as_it_is_told():
    layers = signs.stack(lambda part, norm, x: norm(x + part(x)), seed=1)
    plain = untrained(EncoderLayer, seed=1)
    x = torch.randn(2, 5, 64, dtype=torch.float64)
    assert len(layers) == len(plain) == signs.DEPTH
    assert torch.equal(layers[2](x), plain[2](x)[0])


def test_a_kind_is_measured_with_both_rules_and_every_seed(monkeypatch):
    monkeypatch.setattr(signs, "vital_signs", lambda layers: layers)
    monkeypatch.setattr(signs, "stack", lambda *settings: settings)
    runs = signs.of_kinds({"one": sum, "two": max})
    assert len(runs) == 4
    assert runs["two", "torch's"] == [(max, "torch's", seed) for seed in (0, 1, 2)]


def test_runs_are_told_by_layer_with_their_median_and_their_span():
    lists = {"difference": [9.0, *[0.0] * 24]}  # the first is the stack's bottom
    seeds = [
        lists | {"size": [0.0, *[n] * 24], "query share": [n] * 24} for n in (3, 1, 2)
    ]
    found = signs.medians({("kind", "Xavier"): seeds})
    assert found["kind", "size", "Xavier"] == [2] * 24
    assert found["kind", "query share", "Xavier"] == [2] * 24
    assert found["kind", "difference", "Xavier"] == [signs.ROUNDING] * 24
    assert signs.span(seeds, "size") == "1.00–3.00"
