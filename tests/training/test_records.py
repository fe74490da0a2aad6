"""Promises of the recorded trainings: complete, and what a run gives again."""

import math
from itertools import product

import pytest
import torch
from book.experiments import trainings as records
from encoder import TransformerEncoder

STORED = records.load()
INF = math.inf


def test_every_setting_was_recorded_once():
    assert set(STORED["parts"]) == set(product(records.PARTS, records.PART_SEEDS))
    assert set(STORED["zeros"]) == set(product(records.ZEROS, records.PART_SEEDS))
    settings = product(records.STACKS, records.DEPTHS, records.RATES, records.WARMUPS)
    assert set(STORED["stacks"]) == set(settings)
    counts = {len(losses) for losses, _ in STORED["parts"].values()}
    assert counts == {records.PART_STEPS // records.PART_MEAN}
    counts = {len(losses) for losses in STORED["stacks"].values()}
    assert counts == {records.STACK_STEPS // records.STACK_MEAN}


@pytest.mark.parametrize("kind", ["Post-LN", "Pre-LN"])
def test_a_stack_run_again_gives_its_record(kind):
    """Step by step at first; later rounding may part two machines, not the result."""
    told = records.record_stack(kind, 6, 3e-3, 0, until=75)["losses"]
    stored = STORED["stacks"][kind, 6, 3e-3, 0]
    assert len(told) == 15
    torch.testing.assert_close(told[:5], stored[:5], rtol=0.02, atol=0.01)
    assert max(told[-1], stored[14]) < 0.1


def test_a_stack_without_norm_starts_as_high_and_ends_as_low_as_recorded():
    """What it does between is too wild to be the same on every processor."""
    told = records.record_stack("no norm", 6, 3e-3, 0, until=140)["losses"]
    stored = STORED["stacks"]["no norm", 6, 3e-3, 0]
    assert min(told[0], stored[0]) > 8
    assert max(told[-1], stored[-1]) < 0.1


def test_a_changed_encoder_run_again_gives_its_record():
    told = records.record_part("no feed-forward", 7, until=320)
    losses, accuracy = STORED["parts"]["no feed-forward", 7]
    torch.testing.assert_close(told["losses"][:4], losses[:4], rtol=0.02, atol=0.01)
    falls = [sum(loss > 0.4 for loss in run) for run in (told["losses"], losses)]
    assert abs(falls[0] - falls[1]) <= 1  # within 20 steps
    assert min(told["accuracy"], accuracy) > 0.95
    assert told["losses"][-1] < 0.1


def test_a_stack_that_explodes_is_stopped_and_recorded_as_nan():
    """A hundred layers grow to 1e21: their scores overflow however one rounds."""
    told = records.run_stack("no norm", 100, 3e-3, 0)
    assert len(told) == 1
    assert not math.isfinite(told[0])
    stored = STORED["stacks"]["no norm", 100, 3e-3, 0]
    assert all(math.isnan(loss) for loss in stored)


def test_a_stack_of_24_without_norm_starts_where_no_learning_rate_helps():
    """When it is lost depends on the processor, how it starts does not."""
    (told,) = records.run_stack("no norm", 24, 3e-3, 0, until=1)
    stored = STORED["stacks"]["no norm", 24, 3e-3, 0]
    assert min(told, stored[0]) > 1e4
    assert math.isnan(stored[-1])


@pytest.mark.parametrize(
    ("losses", "means"),
    [
        ([1, 3, 5, 7], [2, 6]),
        ([1, 3, 5, math.nan], [2, 5]),
        ([1, INF], [1, None]),
        ([math.nan], [None, None]),
    ],
)
def test_means_end_where_the_losses_do(losses, means):
    assert records.thinned(losses, steps=4, every=2) == means


def test_what_is_stored_is_what_is_loaded(tmp_path):
    part = {"part": "as it is", "seed": 7, "accuracy": 0.9, "losses": [0.5, 0.25]}
    stack = {"kind": "Pre-LN", "layers": 6, "rate": 1e-3, "warmup": 0}
    path = tmp_path / "records.json"
    records.store([part], [stack | {"losses": [2.0, None]}], path)
    told = records.load(path)
    assert told["parts"] == {("as it is", 7): ([0.5, 0.25], 0.9)}
    (losses,) = told["stacks"].values()
    assert losses[0] == 2
    assert math.isnan(losses[1])


def changed(part):
    torch.manual_seed(0)
    encoder = TransformerEncoder(32, **records.PART_SIZES, max_length=12)
    records.CHANGES[part](encoder)
    return encoder.eval()


def test_the_changed_attentions_are_what_they_are_called():
    x = torch.randn(2, 5, 64)
    right = changed("as it is").layers[0].attention
    query, key = right.split_heads(right.query(x)), right.split_heads(right.key(x))
    scores = query @ key.mT
    weights = {
        part: changed(part).layers[0].attention(x, need_weights=True)[1]
        for part in ("softmax over queries", "no softmax", "no scale")
    }
    columns = weights["softmax over queries"].sum(dim=-2)
    torch.testing.assert_close(columns, torch.ones(2, 2, 5))
    torch.testing.assert_close(weights["no softmax"], scores / 32**0.5)
    torch.testing.assert_close(weights["no scale"], scores.softmax(dim=-1))


def test_every_part_changes_what_it_says_and_still_runs():
    """Each change moves the output of the very same encoder, but for "no warm-up"."""
    ids = torch.arange(1, 11)[None]
    outs = {part: changed(part)(ids, ids == 0)[0] for part in records.CHANGES}
    same = {part for part, out in outs.items() if torch.equal(out, outs["as it is"])}
    assert same == {"as it is", "no warm-up"}
