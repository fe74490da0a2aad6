"""The controls of the echo: complete, what a run gives again, and frozen is frozen."""

import math

import pytest
import torch
from book.experiments import controls
from book.experiments.recording import store_runs

STORED = controls.load()


def test_every_setting_was_recorded_once_with_each_seed():
    assert set(STORED) == set(controls.RUNS)
    assert len(controls.RUNS) == len(controls.SETTINGS) * len(controls.SEEDS)
    lengths = {run.steps // controls.MEAN: len(means) for run, means in STORED.items()}
    assert all(wanted == found for wanted, found in lengths.items())


@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        (controls.Run("Pre-LN", 2), 0.0, 0.6),
        (controls.Run("Pre-LN", 6, frozen=True), 2.2, 2.8),
    ],
)
def test_a_run_again_begins_and_ends_as_recorded(settings, low, high):
    told, stored = controls.run_and_record(settings)["losses"], STORED[settings]
    torch.testing.assert_close(told[:3], stored[:3], rtol=0.02, atol=0.02)
    assert all(low <= means[-1] <= high for means in (told, stored))


def test_the_label_of_a_place_is_the_token_before_it():
    batch = controls.previous_batch(5, torch.Generator().manual_seed(0))
    assert batch.labels.tolist() == batch.token_ids[:, :-1].flatten().tolist()
    assert not batch.read_at[:, 0].any()
    assert batch.read_at[:, 1:].all()


def test_what_is_stored_is_what_is_loaded(tmp_path):
    run = controls.Run("no norm", 6, steps=20)
    stored = {**vars(run), "losses": [2.0, None]}
    store_runs([stored], tmp_path / "controls.json")
    ((loaded, losses),) = controls.load(tmp_path / "controls.json").items()
    assert loaded == run
    assert losses[0] == 2
    assert losses[1] != losses[1]


def test_the_ends_of_a_setting_are_told_seed_by_seed():
    losses = [STORED[controls.Run("Pre-LN", 24, seed=seed)][-1] for seed in (0, 1, 2)]
    assert controls.ends("Pre-LN", 24) == " ".join(f"{loss:.2f}" for loss in losses)
    assert controls.ends("no norm", 24) == "nan nan nan"


def test_who_knows_no_order_pays_for_tokens_that_are_there_once_or_twice():
    once, twice = math.log(12), math.log(12 / 2)
    assert twice < controls.loss_without_order() < once < math.log(15)
