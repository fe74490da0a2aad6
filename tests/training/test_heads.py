"""Promises of the measurements on the small encoder's heads: they are what they say."""

import pytest
import torch
from book.models import heads
from book.models import toy_language as lab


@pytest.fixture(scope="module")
def model():
    return lab.load()


def test_each_kind_names_the_place_it_says():
    ids, padding = heads.held_out()
    words = {kind: ids.gather(1, heads.place_of(kind)) for kind in heads.KINDS}
    named = {kind: {lab.WORDS[i] for i in each} for kind, each in words.items()}
    assert named["she/he"] == set(lab.WORDS_OF_KIND["pronouns"])
    assert named["verb"] == set(lab.WORDS_OF_KIND["verbs"])
    assert named["thing"] == set(lab.WORDS_OF_KIND["things"])
    assert named["reason"] == set(lab.WORDS_OF_KIND["reasons"])
    assert named["because"] == {"because"}
    assert named["was"] == {"was", "were"}
    assert named["who"] <= {*lab.WORDS_OF_KIND["names"], *lab.WORDS_OF_KIND["who"]}
    assert named["the/her"] == {"the", *lab.WORDS_OF_KIND["owners"]}
    assert len(ids) == len(padding) == 193


def test_the_share_right_is_that_of_guesses_one_by_one(model):
    ids, padding = heads.held_out()
    broken, right = heads.without_head(0, 1), []
    for row, pads in zip(ids[:40], padding[:40], strict=True):
        words = [lab.WORDS[i] for i in row[~pads]]
        place = len(words) - len(heads.KINDS) + heads.KINDS.index("she/he")
        words[place] = lab.BLANK
        words[place] = lab.guesses(broken, words)[place][0][0]
        right.append(" ".join(words) in lab.sentences())
    all_right = heads.right(broken, "she/he") * len(ids)
    assert 0 < sum(right) < 40
    assert abs(all_right - round(all_right)) < 1e-6
    assert heads.right(model, "she/he") == 1.0


def test_all_blanks_are_filled_until_a_head_is_missing(model):
    assert heads.filled(model) == (1.0, heads.KINDS[0], 1.0)
    broken = heads.without_head(0, 1)
    shares = {kind: heads.right(broken, kind) for kind in heads.KINDS}
    share, worst, least = heads.filled(broken)
    assert share == pytest.approx(sum(shares.values()) / 8)
    assert shares[worst] == least == min(shares.values()) < 0.5


def test_without_a_head_its_numbers_change_nothing(model):
    broken = heads.without_head(1, 0)
    attention = broken.encoder.layers[1].attention
    x = torch.randn(2, 5, 16)
    before = attention(x)[0]
    attention.value.weight.data[:8] += 1.0
    assert torch.equal(attention(x)[0], before)
    attention.value.weight.data[8:] += 1.0
    assert not torch.allclose(attention(x)[0], before)


def test_the_roles_of_a_head_make_its_map(model):
    text = next(text for text in lab.sentences() if text.count(" ") == 9)
    ids, _ = lab.encode([text])
    with torch.no_grad():
        layers = model.encoder(ids, need_weights=True)[1]
    for layer, head in ((0, 1), (1, 0), (1, 1)):
        query, key, value = heads.roles(model, ids, layer=layer, head=head)
        assert query.shape == value.shape == (10, 8)
        made = (query @ key.T / 8**0.5).softmax(dim=-1)
        torch.testing.assert_close(made, layers[layer][0, head])


def test_the_largest_weight_is_compared_with_what_moves_a_place_most(model):
    hits = heads.largest_counts_most(model)
    text = next(text for text in lab.sentences() if text.count(" ") == 9)
    ids, nothing = lab.encode([text])
    with torch.no_grad():
        usual, (*_, weights) = model.encoder(ids, need_weights=True)
        for place in range(10):
            moved = []
            for word in range(10):
                alone = nothing.clone()
                alone[0, word] = True
                without = model.encoder(ids, alone)[0]
                moved.append((without - usual)[0, place].norm().item())
            largest = weights[0, :, place].mean(dim=0).argmax().item()
            assert hits[0, place] == (moved[largest] == max(moved))
    assert hits.shape == (468, 10)
    assert 0 < hits.float().mean() < 1
