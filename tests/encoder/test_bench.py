"""The benchmark compares what is equal, and calls a miss a miss."""

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "bench"))

import cases  # noqa: E402
import measure  # noqa: E402
import rivals  # noqa: E402
import run  # noqa: E402


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize("half_padded", [False, True])
@torch.no_grad()
def test_every_rival_must_give_our_numbers_before_it_is_timed(half_padded, monkeypatch):
    x, mask = cases.inputs("cpu", 3, 7, half_padded)
    names = list(cases.contenders("cpu", x, mask))
    assert names[0] == (rivals.PACKED if half_padded else rivals.OURS)
    assert {rivals.FAST, rivals.SLOW, rivals.HAND} < set(names)
    call = rivals.call_hand
    monkeypatch.setattr(rivals, "call_hand", lambda *given: 1.01 * call(*given))
    with pytest.raises(AssertionError, match=rivals.HAND):
        cases.contenders("cpu", x, mask)


def test_half_padding_hides_half_of_all_tokens():
    for batch, tokens in ((8, 128), (2, 512), (1, 2048)):
        _, mask = cases.inputs("cpu", batch, tokens, half_padded=True)
        assert mask.sum() == batch * tokens / 2


def test_a_round_times_every_call_once_and_rounds_differ_in_order():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "abc"}
    times = measure.interleave(calls, seconds=0, fewest=7)
    assert {name: len(taken) for name, taken in times.items()} == dict.fromkeys(
        "abc", 7
    )
    rounds = [tuple(order[i : i + 3]) for i in range(6, len(order), 3)]  # 6 to warm up
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert len(set(rounds)) > 1


def test_a_quotient_is_taken_inside_each_round():
    figures = measure.quotient([1.0, 20.0, 3.0], [2.0, 40.0, 3.0])
    assert figures == {"median": 0.5, "quartiles": [0.5, 1.0], "rounds": 3}


@pytest.mark.parametrize(
    ("median", "target", "met"),
    [(0.5, 0.6, "pass"), (0.63, 0.6, "within noise"), (0.7, 0.6, "miss")],
)
def test_a_miss_is_called_a_miss_and_noise_is_called_noise(median, target, met):
    assert run.verdict(cases.Case("ratio", None), median, target)["verdict"] == met
    fraction = cases.Case("fraction", None, {cases.GEMM: target})
    assert run.verdict(fraction, target**2 / median, target)["verdict"] == met


def test_where_there_is_no_target_there_is_no_verdict():
    assert run.verdict(cases.CASES[0], 3.0, None) == {"target": None, "verdict": ""}


@torch.no_grad()
def test_the_count_of_multiplications_is_that_of_the_encoder():
    x, _ = cases.inputs("cpu", 2, 11, half_padded=False)
    layers = rivals.build("cpu")[rivals.OURS]
    with FlopCounterMode(display=False) as counter:
        for layer in layers.module:
            x, _ = layer(x, None, need_weights=True)
    assert counter.get_total_flops() == 2 * cases.forward_multiplications(2, 11)
