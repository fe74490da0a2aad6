"""The first page's encoder with other widths: complete, and what a run gives again."""

import pytest
import torch
from book.experiments import widths
from book.experiments.recording import store_runs

STORED = widths.load()


def test_every_width_was_recorded_with_each_seed():
    assert list(STORED) == widths.RUNS
    lengths = {len(losses) for _, losses in STORED.values()}
    assert lengths == {widths.STEPS // widths.MEAN}


@pytest.mark.parametrize("width", [0, 8])
def test_a_run_again_begins_as_recorded(width):
    _, losses = widths.run(width, seed=0, watch=lambda step, loss: step == 200)
    means = torch.tensor(losses).unflatten(0, (-1, widths.MEAN)).mean(dim=1)
    stored = torch.tensor(STORED[width, 0][1][:2])
    torch.testing.assert_close(means, stored, rtol=0.02, atol=0.01)


def test_width_0_writes_the_same_for_every_token():
    part = widths.build(0, seed=0).encoder.layers[0].feed_forward
    assert (part(torch.randn(7, 16)) == part.down.bias).all()
    assert {p.shape for p in part.parameters() if p.numel()} == {(16,)}


def test_what_is_stored_is_what_is_loaded(tmp_path):
    stored = {"width": 8, "seed": 2, "right": 0.75, "losses": [3.5, 0.25]}
    store_runs([stored], tmp_path / "widths.json")
    assert widths.load(tmp_path / "widths.json") == {(8, 2): (0.75, [3.5, 0.25])}
