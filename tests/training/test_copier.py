"""The copiers of chapter 1: their task, their sizes, and what is fixed stays."""

import pytest
import torch
from book.experiments import copier


def rms(table):
    return table.square().mean().sqrt().item()


def test_each_place_but_the_first_is_asked_for_the_word_before():
    batch = copier.copying(n_rows=5, length=7)
    assert batch.labels.tolist() == batch.token_ids[:, :-1].flatten().tolist()
    assert not batch.read_at[:, 0].any()
    assert batch.read_at[:, 1:].all()
    assert not batch.key_padding_mask.any()


@pytest.mark.parametrize(("ratio", "place"), [(0.03, copier.PLACE), (32, 0.022)])
def test_words_and_places_enter_as_large_as_asked(ratio, place):
    encoder = copier.build(ratio, seed=0, place=place).encoder.eval()
    places = encoder.positions.table[: copier.LENGTH]
    words = encoder.embed(torch.arange(copier.LENGTH)[None])[0] - places
    assert rms(places) == pytest.approx(place, rel=0.01)
    assert rms(words) / rms(places) == pytest.approx(ratio, rel=0.1)


@pytest.mark.parametrize(("root", "ratio"), [(True, 1.41), (False, 0.18)])
def test_a_tied_model_reads_and_scores_with_one_table(root, ratio):
    model = copier.build_tied(1 / 8, root, seed=0).eval()
    assert model.head.weight is model.encoder.embedding.weight
    places = model.encoder.positions.table[: copier.LENGTH]
    words = model.encoder.embed(torch.arange(copier.LENGTH)[None])[0] - places
    assert rms(words) / rms(places) == pytest.approx(ratio, rel=0.1)


def test_training_ends_when_the_loss_is_low():
    losses = copier.learn(copier.build(0.35, seed=0))
    assert min(losses[:-1]) >= copier.ENOUGH > losses[-1]
    assert len(losses) < copier.STEPS


def test_what_is_fixed_stays_and_small_words_then_learn_nothing(monkeypatch):
    monkeypatch.setattr(copier, "SEEDS", range(1))
    told = copier.control(0.03, fix_words=True)
    assert told == ("0.02 → 0.02", "0.7 → 0.7", "0 of 1")


def test_small_places_grow_when_they_are_learned(monkeypatch):
    monkeypatch.setattr(copier, "SEEDS", range(1))
    words, places, learned = copier.control(32, 0.022, free_places=True)
    assert words.startswith("0.7 → ")
    before, after = map(float, places.split(" → "))
    assert before == 0.02 < 0.1 < after
    assert learned == "1 of 1"


def test_large_words_make_a_tied_model_name_the_word_itself():
    assert copier.names_itself(copier.build_tied(1 / 8, True, seed=0)) > 0.99
    assert copier.names_itself(copier.build_tied(1 / 8, False, seed=0)) < 0.3


def test_what_a_model_names_leaves_the_random_numbers_alone():
    model = copier.build_tied(1 / 8, True, seed=0)
    before = torch.get_rng_state()
    copier.names_itself(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_outcome_says_the_ratio_how_it_starts_and_the_steps(monkeypatch):
    monkeypatch.setattr(copier, "SEEDS", range(1))
    ratio, itself, first, steps = copier.outcome(1 / 8, root=False)
    quickest, slowest = map(int, steps.split("–"))
    assert ratio == pytest.approx(0.18, abs=0.01)
    assert 0 < int(itself.removesuffix("%")) < 30
    assert 3 <= int(first) <= 5
    assert slowest - quickest == 10
    assert copier.outcome(1, root=True)[3] == "never"
