"""Promises about the data: no shortcut, no leak, padding never chosen, same by seed."""

import random
import re
from collections import Counter

import pytest
import tasks
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks import (
    MASK,
    PAD,
    SPECIALS,
    UNK,
    FirstTokenBaseline,
    MaskedText,
    NeighbourBaseline,
    Tokenizer,
    UnigramBaseline,
    find_sentences,
    hide_words,
    match_batch,
    pad_rows,
    read_documents,
    split_sentences,
)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def real_rows(batch):
    return [[i for i in row if i != PAD] for row in batch.token_ids.tolist()]


def accuracy(scores, labels):
    return (scores.argmax(1) == labels).float().mean().item()


# --- Do the first and the last token match? ---


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 97), st.integers(0, 10**6), st.booleans())
def test_the_label_says_whether_the_ends_match(n_rows, seed, held_out):
    batch = match_batch(n_rows, generator(seed), held_out)
    assert batch.token_ids.shape == (n_rows, 12)
    assert batch.token_ids.dtype == batch.labels.dtype == torch.int64
    ends = [row[0] == row[-1] for row in real_rows(batch)]
    assert ends == batch.labels.bool().tolist()
    assert abs(sum(ends) - n_rows / 2) <= 0.5  # balanced exactly, not on average


def test_the_bag_of_tokens_has_the_same_shape_under_both_labels():
    for row in real_rows(match_batch(997, generator(3))):
        counts = Counter(row)
        assert sorted(counts.values()) == [1] * (len(counts) - 2) + [2, 2]
        assert counts[row[0]] == counts[row[-1]] == 2


def test_each_bag_and_first_token_come_with_both_labels_equally_often(monkeypatch):
    monkeypatch.setattr(tasks, "MATCH_VOCAB", 6)  # so few symbols that bags recur
    monkeypatch.setattr(tasks, "MATCH_LENGTHS", (5, 5))
    batch, seen = match_batch(20_000, generator(5)), Counter()
    for row, label in zip(real_rows(batch), batch.labels.tolist(), strict=True):
        seen[row[0], tuple(sorted(row)), label] += 1
    pairs = {(first, bag) for first, bag, _ in seen}
    assert len(pairs) >= 30
    for first, bag in pairs:
        n = seen[first, bag, 0] + seen[first, bag, 1]
        assert abs(seen[first, bag, 1] / n - 0.5) < 5 * 0.5 / n**0.5


def test_batches_of_sequences_hold_real_padding():
    batch = match_batch(499, generator(7))
    assert torch.equal(batch.key_padding_mask, batch.token_ids == PAD)
    lengths = {len(row) for row in real_rows(batch)}
    assert lengths == set(range(6, 13))
    assert 0.15 < batch.key_padding_mask.float().mean() < 0.35
    assert batch.read_at.nonzero().tolist() == [[row, 0] for row in range(499)]


def test_no_held_out_sequence_can_occur_in_training():
    def pairs(batch):  # the two symbols that stand twice
        rows = map(Counter, real_rows(batch))
        return {frozenset(t for t, n in c.items() if n == 2) for c in rows}

    seen = pairs(match_batch(20_000, generator(11)))
    held_out = pairs(match_batch(5_000, generator(11), held_out=True))
    assert len(seen) + len(held_out) == 31 * 30 / 2  # every pair was met, on one side
    assert not seen & held_out


def test_a_reader_without_positions_is_at_chance():
    batch, other = match_batch(5_000, generator(13)), match_batch(5_000, generator(17))
    baseline = FirstTokenBaseline(batch)
    assert abs(accuracy(baseline(*other[:3]), other.labels) - 0.5) < 0.03


def test_a_reader_without_positions_wins_where_chance_alone_repeats_tokens():
    def naive_batch(seed):  # ends equal or not, everything else at random
        draw = generator(seed)
        ids = torch.randint(1, 64, (5_000, 12), generator=draw)
        other = (ids[:, 0] + torch.randint(0, 62, (5_000,), generator=draw)) % 63 + 1
        match = torch.rand(5_000, generator=draw) < 0.5
        ids[:, -1] = torch.where(match, ids[:, 0], other)
        none = ids == PAD
        return tasks.Batch(ids, none, none, match.long())

    batch, other = naive_batch(19), naive_batch(23)
    scores = FirstTokenBaseline(batch)(other.token_ids)
    assert accuracy(scores, other.labels) > 0.9


# --- A real text ---


@pytest.fixture(scope="module")
def sides():
    return split_sentences(read_documents()[1])


@pytest.fixture(scope="module")
def tokenizer(sides):
    return Tokenizer(sides[0])


@pytest.fixture(scope="module")
def text(sides, tokenizer):
    return MaskedText(sides[0], tokenizer)


def test_the_text_is_english_prose_of_a_useful_size(sides, text):
    seen, held_out = sides
    assert len(seen) > 1000
    assert len(held_out) > 200
    assert (text.rows != PAD).sum() > 20_000
    for sentence in seen + held_out:
        assert re.match("[A-Z]", sentence)
        assert "\n" not in sentence
        assert not re.search(r'[*"|]|::=|>>>', sentence)


def test_no_held_out_sentence_stands_in_the_training_text(sides):
    seen, held_out = sides
    assert not set(seen) & set(held_out)
    assert len(set(seen)) == len(seen)
    assert len(set(held_out)) == len(held_out)


def test_documents_do_not_share_a_side_by_their_order(sides):
    documents = list(read_documents()[1].items())
    random.Random(29).shuffle(documents)
    assert split_sentences(dict(documents)) == sides


def test_code_headings_and_markup_are_left_out():
    text = 'Names\n*****\n\nThe *name* is\nbound. See "del"!\n\n   x = 1\n\n* a list'
    assert find_sentences(text) == ["The name is bound."]


def test_the_fallback_text_can_be_trained_on(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pydoc_data.topics", None)
    name, documents = read_documents()
    seen, held_out = split_sentences(documents)
    assert "fallback" in name
    assert len(seen) > 15
    assert held_out
    batch = MaskedText(seen, Tokenizer(seen)).draw(7, generator(31))
    assert len(batch.labels) >= 7


def test_an_empty_text_is_refused():
    with pytest.raises(ValueError, match="no sentence"):
        MaskedText([], Tokenizer([]))


WORDS = st.sampled_from(["the", "list's", "__init__", "non-empty", "(", ")", ",", "3"])


@given(st.lists(WORDS, min_size=1))
def test_ids_and_words_go_round_trip(words):
    tokenizer = Tokenizer(["the list's __init__ non-empty ( ) , 3"], min_count=1)
    ids = tokenizer.encode(" ".join(words))
    assert UNK not in ids
    assert tokenizer.encode(tokenizer.decode(ids + [PAD, PAD])) == ids


def test_every_training_sentence_survives_the_round_trip(sides, tokenizer):
    for sentence in sides[0]:
        ids = tokenizer.encode(sentence)
        words = [
            w if i != UNK else "[UNK]"
            for w, i in zip(tokenizer.split(sentence), ids, strict=True)
        ]
        assert [tokenizer.words[i] for i in ids] == words
        if UNK not in ids:
            assert tokenizer.encode(tokenizer.decode(ids)) == ids


def test_rare_and_new_words_become_unk(tokenizer):
    assert tokenizer.encode("zymurgy") == [UNK]
    assert tokenizer.words[:3] == list(SPECIALS)
    assert len(set(tokenizer.words)) == len(tokenizer)


def test_long_sentences_go_on_in_the_next_row():
    sentence = " ".join(["word"] * 70) + " ."
    text = MaskedText([sentence], Tokenizer([sentence], min_count=1))
    assert (text.rows != PAD).sum(1).tolist() == [7, 32, 32]


# --- Hiding words ---

LONG_ROWS = torch.randint(len(SPECIALS), 101, (2003, 31), generator=generator(37))


def test_words_are_hidden_by_the_80_10_10_rule():
    batch = hide_words(LONG_ROWS, 101, generator(41))
    assert abs(batch.read_at.float().mean() - 0.15) < 0.006
    shown, true = batch.token_ids[batch.read_at], batch.labels
    n = len(true)
    for share, wanted in (
        ((shown == MASK).float().mean(), 0.8),
        (((shown != MASK) & (shown != true)).float().mean(), 0.1 * 97 / 98),
        ((shown == true).float().mean(), 0.1 + 0.1 / 98),
    ):
        assert abs(share - wanted) < 4 * (wanted * (1 - wanted) / n) ** 0.5
    assert torch.equal(batch.token_ids[~batch.read_at], LONG_ROWS[~batch.read_at])
    assert torch.equal(LONG_ROWS[batch.read_at], true)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=13), min_size=1),
    st.integers(0, 10**6),
    st.floats(0.0, 1.0),
)
def test_special_tokens_are_never_chosen_scored_or_drawn(rows, seed, rate):
    ids = pad_rows(rows)
    batch = hide_words(ids, 41, generator(seed), rate)
    assert batch.token_ids.shape == ids.shape
    assert not (batch.read_at & (ids < len(SPECIALS))).any()
    assert (batch.labels >= len(SPECIALS)).all()
    changed = batch.token_ids != ids
    assert (batch.token_ids[changed] != PAD).all()
    assert (batch.token_ids[changed] != UNK).all()
    assert torch.equal(batch.key_padding_mask, ids == PAD)


@given(st.lists(st.integers(1, 11), min_size=1, max_size=7), st.integers(0, 10**6))
def test_every_row_with_a_word_has_something_to_find(lengths, seed):
    rows = pad_rows([[5] * n for n in lengths])
    assert hide_words(rows, 41, generator(seed), 0.01).read_at.any(dim=1).all()


def test_rows_are_cut_to_the_longest_of_the_batch():
    rows = torch.tensor([[5, 6, 0, 0, 0], [7, 0, 0, 0, 0]])
    assert hide_words(rows, 41, generator(43)).token_ids.shape == (2, 2)


def test_batches_are_the_same_for_a_seed_and_differ_between_seeds(text):
    for draw in (match_batch, text.draw):
        one, same = draw(13, generator(47)), draw(13, generator(47))
        assert all(torch.equal(a, b) for a, b in zip(one, same, strict=True))
        assert not torch.equal(one.token_ids, draw(13, generator(53)).token_ids)


def test_training_meets_every_row():
    sentences = [f"w{n} " * (n % 5 + 1) for n in range(13)]  # a word of its own each
    tokenizer, draw = Tokenizer(sentences, min_count=1), generator(67)
    text, met = MaskedText(sentences, tokenizer), set()
    for _ in range(200):
        met |= set(text.draw(5, draw).labels.tolist())
    assert met == set(range(len(SPECIALS), len(tokenizer)))


def test_a_training_batch_holds_less_padding_than_rows_at_random_would(text):
    drawn = [text.draw(32, generator(seed)).key_padding_mask for seed in range(20)]
    padded = sum(mask.float().mean() for mask in drawn) / 20
    assert 0 < padded < (text.rows == PAD).float().mean() / 2


def test_an_evaluation_goes_once_through_all_rows(text):
    batches = text.batches(64, generator(59))
    assert sum(len(b.token_ids) for b in batches) == len(text.rows)


# --- What a model must beat ---


def test_baselines_give_probabilities(text):
    batch = text.draw(11, generator(61))
    for baseline in UnigramBaseline(text), NeighbourBaseline(text):
        scores = baseline(*batch[:3])
        assert scores.shape == (len(batch.labels), text.vocab_size)
        assert scores.isfinite().all()
    assert torch.allclose(
        UnigramBaseline(text).log_probs.exp().sum(), torch.tensor(1.0)
    )
    rows = NeighbourBaseline(text).given_left.exp().sum(1)
    assert torch.allclose(rows, torch.ones_like(rows), atol=1e-4)


def test_the_neighbour_baseline_counts_by_hand():
    sentences = ["red fox runs", "red fox runs", "red cat runs", "a fox sleeps"]
    tokenizer = Tokenizer(sentences, min_count=1)
    baseline = NeighbourBaseline(MaskedText(sentences, tokenizer), prior=0.01)
    ids = torch.tensor([tokenizer.encode("red x runs")])
    ids[0, 1] = MASK
    scores = baseline(ids, ids == PAD, ids == MASK)
    probability = dict(zip(tokenizer.words, scores[0].softmax(0).tolist(), strict=True))
    # 2/3 * 2/3 / 3.1 against 1/3 * 1/3 / 1.1: the unigram adds 0.1 to each count
    expected = (4 / 3.1) / (1 / 1.1)
    assert probability["fox"] / probability["cat"] == pytest.approx(expected, rel=0.01)
