"""Writing: the shift, greedy, draws and beams, against what can be counted by hand."""

import itertools
from functools import partial

import decoder
import pytest
import torch
from encoder import TransformerEncoder
from small import MODEL, B, D, T, V, assert_near, build, ragged, random_ids
from torch.nn import functional

END, N_WORDS = 0, 6
S = 5


def build_decoder(**options):
    return build(decoder.TransformerDecoder, **MODEL, **options)


def source():
    return torch.randn(B, S, D), torch.arange(S) >= torch.tensor(
        [[5], [4], [3], [2], [1]]
    )


def chain(shares):
    """A writer whose next word depends on the last one alone, by a table (V, V)."""
    logits = torch.tensor(shares, dtype=torch.float64).log()
    return lambda ids, cache: (logits[ids[:, -1]], None)


# Word 0 ends. Greedy goes from 1 to 2, where everything is a coin: 0.6 / 3. The best
# text goes from 1 to 3, and from there ends almost surely.
TRAP = chain(
    [[1, 0, 0, 0], [0, 0, 0.6, 0.4], [1 / 3, 0, 1 / 3, 1 / 3], [0.9, 0, 0.1, 0]]
)
FROM_1 = torch.tensor([[1]])


# --- Training -------------------------------------------------------------------------


def test_the_shift_feeds_each_place_the_word_before_it():
    ids = torch.tensor([[5, 6, 7], [8, 9, 4]])
    assert decoder.shift_right(ids, 2).tolist() == [[2, 5, 6], [2, 8, 9]]
    assert ids.tolist() == [[5, 6, 7], [8, 9, 4]]


def test_the_loss_is_the_mean_over_words_that_are_no_padding():
    scores, ids, padding = torch.randn(B, T, V), random_ids(), ragged()
    log_shares = scores.log_softmax(dim=-1).gather(-1, ids[..., None])[..., 0]
    assert_near(decoder.next_word_loss(scores, ids), -log_shares.mean())
    expected = -log_shares[~padding].mean()
    assert_near(decoder.next_word_loss(scores, ids, padding), expected)


def test_all_words_are_scored_at_once_as_they_would_be_one_by_one():
    model, ids = build_decoder(), random_ids()
    memory, padding = source()
    fed = decoder.shift_right(ids, 1)
    hidden, _, _ = model(fed, memory, memory_padding_mask=padding)
    at_once = model.score(hidden)
    step = decoder.next_word(model, memory, padding)
    for t in range(T):
        assert_near(step(fed[:, : t + 1], None)[0], at_once[:, t])


# --- Greedy and draws -----------------------------------------------------------------


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("norm_first", [False, True])
def test_greedy_writes_the_word_with_the_highest_score_each_time(norm_first, use_cache):
    model, (memory, padding) = build_decoder(norm_first=norm_first), source()
    step = decoder.next_word(model, memory, padding)
    first = random_ids(tokens=2)
    text = decoder.generate(step, first, N_WORDS, use_cache=use_cache)
    assert text.shape == (B, 2 + N_WORDS)
    assert torch.equal(text[:, :2], first)
    hidden, _, _ = model(text[:, :-1], memory, memory_padding_mask=padding)
    expected = model.score(hidden)[:, 1:].argmax(dim=-1)
    assert torch.equal(text[:, 2:], expected)


def test_a_cache_is_used_when_it_is_wanted_and_not_otherwise():
    lengths = []

    def step(ids, cache):
        lengths.append(None if cache is None else len(cache))
        return functional.one_hot(ids[:, -1], V).float(), [None] * ids.shape[1]

    decoder.generate(step, FROM_1, 3, END)
    decoder.generate(step, FROM_1, 3, END, use_cache=False)
    assert lengths == [None, 1, 2, None, None, None]


def test_a_step_takes_the_cache_for_what_was_said_before():
    model, ids = build_decoder(cross_attention=False), random_ids()
    step = decoder.next_word(model)
    expected, _ = step(ids, None)
    _, cache = step(ids[:, :-1], None)
    assert_near(step(ids, cache)[0], expected)
    others = decoder.select_rows(cache, torch.arange(B).roll(1))
    assert (step(ids, others)[0] - expected).abs().max() > 0.1


def test_a_text_that_has_ended_is_filled_up_and_writing_stops_when_all_have():
    # 1 -> 2 -> 0 ends, 3 -> 1 -> 2 -> 0 a word later; the end itself would go on to 3.
    step = chain([[0, 0, 0, 1], [0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
    text = decoder.generate(step, torch.tensor([[1], [3]]), 9, END)
    assert text.tolist() == [[1, 2, 0, 0], [3, 1, 2, 0]]


def test_writing_ends_with_the_number_of_words():
    step = chain([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert decoder.generate(step, FROM_1, 3, END).tolist() == [[1, 2, 1, 2]]


@pytest.mark.parametrize(
    ("temperature", "powers"), [(1.0, 1.0), (0.5, 2.0), (2.0, 0.5)]
)
def test_draws_follow_the_shares_of_a_temperature(temperature, powers):
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05])
    scores = shares.log().expand(20_000, -1)
    generator = torch.Generator().manual_seed(0)
    drawn = decoder.draw_word(scores, temperature, generator=generator)
    found = torch.bincount(drawn, minlength=4) / len(drawn)
    expected = shares**powers / (shares**powers).sum()
    torch.testing.assert_close(found, expected, rtol=0, atol=0.015)


@pytest.mark.parametrize(
    ("top_k", "left"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4), (None, 4)]
)
def test_top_k_leaves_the_best_in_the_draw_by_their_shares(top_k, left):
    shares = torch.tensor([[0.05, 0.5, 0.15, 0.3]])
    best = shares[0].argsort(descending=True)[:left]
    generator = torch.Generator().manual_seed(0)
    scores = shares.log().expand(20_000, -1)
    drawn = decoder.draw_word(scores, top_k=top_k, generator=generator)
    expected = torch.zeros(4)
    expected[best] = shares[0, best] / shares[0, best].sum()
    found = torch.bincount(drawn, minlength=4) / len(drawn)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.015)
    assert set(drawn.tolist()) == set(best.tolist())


def test_words_that_score_alike_stay_in_together():
    scores = torch.tensor([[1.0, 1.0, 0.0]]).expand(100, -1)
    generator = torch.Generator().manual_seed(0)
    drawn = decoder.draw_word(scores, top_k=1, generator=generator)
    assert set(drawn.tolist()) == {0, 1}


def test_draws_repeat_with_the_seed_and_rows_differ():
    scores = torch.zeros(50, 30)
    draws = [
        decoder.draw_word(scores, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert len(draws[0].unique()) > 5


def test_a_draw_can_choose_the_words():
    model, (memory, padding) = build_decoder(), source()
    step = decoder.next_word(model, memory, padding)
    greedy = decoder.generate(step, random_ids(tokens=1).fill_(3), N_WORDS)
    draw = partial(decoder.draw_word, temperature=1e-4)
    cold = decoder.generate(step, random_ids(tokens=1).fill_(3), N_WORDS, None, draw)
    assert torch.equal(cold, greedy)


# --- Beams ----------------------------------------------------------------------------


def test_greedy_walks_into_the_trap_and_two_beams_do_not():
    greedy = decoder.generate(TRAP, FROM_1, 2, END)
    assert greedy[0, 1] == 2
    beams = decoder.beam_search(TRAP, FROM_1, 2, END, width=2)
    assert beams.token_ids[0, 0].tolist() == [1, 3, 0]
    assert_near(beams.scores[0, 0].exp(), 0.4 * 0.9)
    assert_near(beams.scores[0, 1].exp(), 0.6 / 3)


def test_one_beam_is_greedy():
    model, (memory, padding) = build_decoder(), source()
    step = decoder.next_word(model, memory, padding)
    first = random_ids(tokens=2)
    greedy = decoder.generate(step, first, N_WORDS)
    beams = decoder.beam_search(step, first, N_WORDS, end=V - 1, width=1)
    for text, one in zip(greedy, beams.token_ids[:, 0], strict=True):
        ends = (text == V - 1).nonzero()
        n = int(ends[0]) + 1 if len(ends) else len(text)
        assert torch.equal(one[:n], text[:n])


def log_shares(model, texts, memory, padding):
    """Score the words of texts but the first, (B, T - 1), by feeding them whole."""
    memory, padding = (x.expand(len(texts), *x.shape[1:]) for x in (memory, padding))
    hidden, _, _ = model(texts[:, :-1], memory, memory_padding_mask=padding)
    shares = model.score(hidden).log_softmax(dim=-1)
    return shares.gather(-1, texts[:, 1:, None])[..., 0]


def test_beams_are_worth_what_they_say_and_come_in_order():
    model, (memory, padding) = build_decoder(), source()
    step = decoder.next_word(model, memory, padding)
    found = decoder.beam_search(step, random_ids(tokens=1), 4, width=3)
    assert found.token_ids.shape == (B, 3, 5)
    for beam in range(3):
        text = found.token_ids[:, beam]
        expected = log_shares(model, text, memory, padding).sum(dim=1)
        assert_near(found.scores[:, beam], expected, 1e-5)
    assert (found.scores.diff(dim=1) <= 0).all()
    for row in found.token_ids:
        assert len(row.unique(dim=0)) == 3


def small_writer():
    torch.manual_seed(1)
    sizes = {"d_model": 6, "n_heads": 2, "d_ff": 8, "n_layers": 2, "max_length": 8}
    model = decoder.TransformerDecoder(4, **sizes).eval()
    model.embedding.weight.data *= 4
    return (
        model,
        torch.randn(2, 3, 6),
        torch.tensor([[False] * 3, [False, False, True]]),
    )


def test_beams_wide_enough_find_the_best_of_all_texts():
    model, memory, padding = small_writer()
    step = decoder.next_word(model, memory, padding)
    beams = decoder.beam_search(step, torch.tensor([[1], [2]]), 3, END, width=64)
    every = torch.tensor([*itertools.product(range(4), repeat=3)])
    ended = (every == END).cumsum(dim=1) - (every == END).int() > 0  # (64, 3)
    every = every.masked_fill(ended, END).unique(dim=0)
    for row, first in enumerate((1, 2)):
        texts = functional.pad(every, (1, 0), value=first)
        gains = log_shares(model, texts, memory[row, None], padding[row, None])
        free = (every == END).cumsum(dim=1) - (every == END).int() > 0
        worth = gains.masked_fill(free, 0.0).sum(dim=1)
        best = worth.topk(10)
        assert torch.equal(beams.token_ids[row, :10], texts[best.indices])
        assert_near(beams.scores[row, :10], best.values, 1e-5)


def test_there_are_no_more_beams_than_texts():
    beams = decoder.beam_search(TRAP, FROM_1, 1, END, width=9)
    assert beams.token_ids.shape == (1, 4, 2)


def test_search_stops_when_all_beams_have_ended():
    step = chain([[0, 1, 0], [0.9, 0.1, 0], [1, 0, 0]])
    beams = decoder.beam_search(step, torch.tensor([[2]]), 9, END, width=1)
    assert beams.token_ids.tolist() == [[[2, 0]]]


def test_an_ended_beam_stays_and_may_be_overtaken_by_none():
    step = chain([[0, 1, 0], [0.5, 0.4, 0.1], [0.2, 0.2, 0.6]])
    beams = decoder.beam_search(step, torch.tensor([[1]]), 4, END, width=2)
    assert beams.token_ids[0, 0].tolist() == [1, 0, 0]
    assert_near(beams.scores[0, 0].exp(), 0.5)


def test_a_first_word_that_is_the_end_is_no_end():
    step = chain([[0.1, 0.9, 0], [0.2, 0, 0.8], [1, 0, 0]])
    start = torch.tensor([[END]])
    assert decoder.generate(step, start, 3, END).tolist() == [[0, 1, 2, 0]]
    beams = decoder.beam_search(step, start, 3, END, width=1)
    assert beams.token_ids.tolist() == [[[0, 1, 2, 0]]]


def test_a_writer_without_a_source_writes_too():
    model, first = build_decoder(cross_attention=False), random_ids(tokens=3)
    step = decoder.next_word(model)
    cached = decoder.generate(step, first, N_WORDS)
    assert torch.equal(cached, decoder.generate(step, first, N_WORDS, use_cache=False))
    beams = decoder.beam_search(step, first, N_WORDS, width=2)
    assert beams.token_ids.shape == (B, 2, 3 + N_WORDS)


def test_writing_keeps_no_graph():
    model = build(TransformerEncoder, **MODEL)
    writer = build_decoder()
    memory, _ = model(random_ids(tokens=S))
    step = decoder.next_word(writer, memory)
    scores = decoder.beam_search(step, random_ids(tokens=1), 2, width=2).scores
    assert not scores.requires_grad
