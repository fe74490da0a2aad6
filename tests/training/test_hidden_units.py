"""Promises of the measurements on the small encoder's hidden units."""

import pytest
import torch
from book.models import hidden_units
from book.models import toy_language as lab

SENTENCE = "emma ate the soup because she was hungry"


@pytest.fixture(scope="module")
def asked():
    return lab.questions(lab.split_sentences()[1][:30])


def written(model, layer):
    """Return what one network of a model writes for a sentence, (1, T, D)."""
    kept = []
    part = model.encoder.layers[layer].feed_forward
    part.register_forward_hook(lambda part, given, out: kept.append(out))
    with torch.no_grad():
        model.encoder(lab.encode([SENTENCE])[0])
    return kept[0]


@pytest.mark.parametrize("layer", [0, 1])
def test_a_push_is_random_and_as_long_as_what_it_pushes(layer):
    first = written(lab.load(), layer)
    pushes = [
        written(hidden_units.pushed(layer, seed), layer) - first for seed in (0, 0, 1)
    ]
    for push in pushes:
        torch.testing.assert_close(push.norm(dim=-1), first.norm(dim=-1))
    assert torch.equal(pushes[0], pushes[1])
    likeness = torch.cosine_similarity(pushes[0], pushes[2], dim=-1)
    assert likeness.abs().mean() < 0.6


def test_answers_are_those_at_the_blanks(asked):
    given, _ = asked
    ids, padding, places = given
    found = hidden_units.answers(lab.load(), 0, given)
    assert found.shape == (len(ids), 32)

    model = lab.load()
    layer, kept = model.encoder.layers[0], []
    layer.feed_forward.register_forward_hook(lambda part, x, out: kept.append(x[0]))
    with torch.no_grad():
        model.encoder(ids[5:6], padding[5:6])
        answers = layer.feed_forward.up(kept[0]).relu()[0]
    place = int(places[5].nonzero())
    torch.testing.assert_close(found[5], answers[place], atol=1e-5, rtol=1e-4)


def test_asking_for_answers_leaves_no_hook_behind(asked):
    model = lab.load()
    hidden_units.answers(model, 1, asked[0])
    assert not model.encoder.layers[1].feed_forward.down._forward_hooks


def test_the_chance_is_that_of_right_words_and_units_cost_some(asked):
    given, right = asked
    with torch.no_grad():
        chances = lab.load()(*given).softmax(dim=1)
    mean = sum(chances[i, row].sum() for i, row in enumerate(right)) / len(right)
    whole = hidden_units.chance_without([], given, right)
    assert whole == pytest.approx(mean.item(), abs=1e-5)

    everything = [(layer, unit) for layer in (0, 1) for unit in range(32)]
    assert hidden_units.chance_without(everything, given, right) < whole / 2
    twice = hidden_units.chance_without([(1, 3), (1, 3)], given, right)
    assert twice == hidden_units.chance_without([(1, 3)], given, right)


def test_a_blank_is_filled_with_the_likeliest_word():
    word, chance = lab.fill(lab.load(), SENTENCE.split(), 7)
    asked = [*SENTENCE.split()[:7], lab.BLANK]
    assert (word, chance) == lab.guesses(lab.load(), asked)[7][0]
    assert word == "hungry"
