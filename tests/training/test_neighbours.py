"""Promises of the small models that name the word before and the word after."""

import pytest
import torch
from book.experiments import neighbours


def test_what_is_to_be_named_stands_on_either_side():
    ids, wanted = neighbours.draw(n_rows=3)
    assert ids.shape == (3, 12)
    assert wanted.shape == (3, 12, 2)
    assert torch.equal(wanted[:, 4], ids[:, [3, 5]])
    assert torch.equal(wanted[:, 0], ids[:, [11, 1]])  # the sentence is a ring


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("reader", neighbours.READERS)
def test_a_model_scores_both_words_with_the_heads_and_the_reader_asked_for(
    n_heads, reader
):
    model = neighbours.Namer(n_heads, reader)
    assert model(torch.zeros(3, 12, dtype=torch.long)).shape == (3, 12, 2, 10)
    assert model.attend.n_heads == n_heads
    bends = [part for part in model.modules() if isinstance(part, torch.nn.ReLU)]
    assert len(bends) == (reader == "hidden layer")


def test_a_seed_gives_one_share_and_training_raises_it():
    first, again = (neighbours.both_named(2, "linear", 3, steps=60) for _ in range(2))
    assert first == again
    assert neighbours.both_named(2, "linear", 3, steps=1) < first


def test_every_share_lies_in_one_band():
    shares = (1.0, 0.951, 0.95, 0.8, 0.31, 0.3, 0.0)
    assert [neighbours.band(share) for share in shares] == [
        *("over 95 %", "over 95 %", "80 to 95 %"),
        *("30 to 80 %", "30 to 80 %", "under 30 %", "under 30 %"),
    ]


def test_three_seeds_are_asked(monkeypatch):
    shares = {0: 1.0, 1: 0.5, 2: 0.0}
    monkeypatch.setattr(neighbours, "both_named", lambda n, reader, seed: shares[seed])
    found = neighbours.three_seeds(2, "linear")
    assert found == ["over 95 %", "30 to 80 %", "under 30 %"]
