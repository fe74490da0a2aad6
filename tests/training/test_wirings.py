"""Chapter 11's trainings: complete, what a run gives again, and what they say."""

import pytest
import torch
from book.experiments import trainings, wirings
from book.experiments.recording import store_runs
from book.models import mirror_language as mirror

STORED = wirings.load()


def test_every_wiring_was_recorded_with_each_seed():
    assert list(STORED) == wirings.RUNS
    lengths = {len(run["losses"]) for run in STORED.values()}
    assert lengths == {mirror.STEPS // wirings.MEAN}


@pytest.mark.parametrize("kind", ["encoder", "both"])
def test_a_run_again_begins_as_recorded(kind):
    model = wirings.build(kind, 1)
    losses = mirror.fit(model, 1, stop=100)
    told = trainings.thinned(losses, 100, wirings.MEAN)
    stored = STORED[kind, 1]["losses"][:2]
    torch.testing.assert_close(told, stored, rtol=0.02, atol=0.01)


def test_a_run_again_ends_as_recorded():
    told, stored = wirings.run("both", 0), STORED["both", 0]
    torch.testing.assert_close(told["right"], stored["right"], rtol=0, atol=0.03)
    assert abs(told["losses"][-1] - stored["losses"][-1]) < 0.01
    assert abs(told["aligned"] - stored["aligned"]) < 0.1


def test_what_the_chapter_says_of_the_records_holds():
    for seed in wirings.SEEDS:
        encoder, decoder, both, no_mask = (STORED[k, seed] for k in wirings.KINDS)
        assert encoder["right"][0] == 1.0
        assert encoder["right"][1] < 0.05
        assert decoder["right"][0] == both["right"][0] == 1.0
        assert min(decoder["right"][1], both["right"][1]) > 0.97
        assert no_mask["forced"] == 1.0 > both["forced"]
        assert max(no_mask["right"]) < 0.05
        assert no_mask["losses"][-1] < both["losses"][-1] / 3
        assert both["aligned"] > 0.5


def test_what_is_stored_is_what_is_loaded(tmp_path):
    run = {"kind": "both", "seed": 7, "losses": [1.0], "right": [1.0, 0.5]}
    store_runs([run], tmp_path / "wirings.json")
    assert wirings.load(tmp_path / "wirings.json") == {("both", 7): run}
