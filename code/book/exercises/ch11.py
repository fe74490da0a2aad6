"""Exercises of chapter 11: a mask for source and text, a step of beams, a writer."""

from functools import partial

import torch
from decoder import EncoderDecoder, TransformerDecoder
from encoder import TransformerEncoder
from torch import Tensor

from .exercise import Exercise, numbers


def prefix_mask(
    n_source: int,
    n_tokens: int,
    diagonal: int = 1,
    open_rows: int = -1,
    open_columns: int = -1,
) -> Tensor:
    """Block what comes later, but for the source, whose words see each other.

    Returns (T, T) bool. `open_rows` and `open_columns` are how many rows and columns of
    the triangle are opened, -1 for those of the source.
    """
    blocked = torch.ones(n_tokens, n_tokens, dtype=torch.bool).triu(diagonal)
    rows = n_source if open_rows < 0 else open_rows
    columns = n_source if open_columns < 0 else open_columns
    blocked[:rows, :columns] = False
    return blocked


PREFIX_MASK = Exercise(
    name="prefix_mask",
    call="prefix_mask(n_source, n_tokens)",
    reference=prefix_mask,
    cases=lambda: {
        "a source of 3 in 7 tokens": (3, 7),
        "a source of 5 in 6 tokens": (5, 6),
        "a source of one word": (1, 4),
        "no source at all": (0, 5),
        "nothing but a source": (4, 4),
    },
    mutants={
        "You blocked the source's words from each other: it is all there already.": (
            partial(prefix_mask, open_rows=0)
        ),
        "You let the source see the text that is still to be written.": (
            lambda s, t: prefix_mask(s, t, open_columns=t)
        ),
        "You opened nothing but the source's first row.": (
            lambda s, t: prefix_mask(s, t, open_rows=min(s, 1))
        ),
        "You opened a column too many: the first word of the text.": (
            lambda s, t: prefix_mask(s, t, open_columns=s + 1)
        ),
        "You opened everything: the text sees its own future.": (
            lambda s, t: prefix_mask(s, t, open_rows=t, open_columns=t)
        ),
        "You gave True to what may be seen.": lambda s, t: ~prefix_mask(s, t),
        "You blocked the past in place of the future.": (
            lambda s, t: prefix_mask(s, t).T
        ),
        "You blocked each token from itself.": partial(prefix_mask, diagonal=0),
        "You let each token see the one after it.": partial(prefix_mask, diagonal=2),
        "You hid the source from the text: translating needs it.": (
            lambda s, t: prefix_mask(s, t) | hidden_source(s, t)
        ),
        "You took the length of the text for that of both.": (
            lambda s, t: prefix_mask(s, s + t)
        ),
        "You took the last words for the source; it stands in front.": (
            lambda s, t: prefix_mask(s, t).flip(0, 1).T
        ),
    },
)


def hidden_source(n_source: int, n_tokens: int) -> Tensor:
    place = torch.arange(n_tokens)
    return (place[:, None] >= n_source) & (place < n_source)


def beam_step(
    totals: Tensor,
    log_shares: Tensor,
    width: int,
    join=lambda totals, log_shares: totals[:, None] + log_shares,
    n_words=lambda log_shares: log_shares.shape[1],
) -> tuple[Tensor, Tensor, Tensor]:
    """Lengthen W texts by every word, keep the `width` best: totals, parents, words."""
    best = join(totals, log_shares).flatten().topk(width)
    size = n_words(log_shares)
    return best.values, best.indices // size, best.indices % size


def each_beam_alone(totals, log_shares, width):
    best, word = log_shares.max(dim=1)
    parent = torch.arange(len(totals)).repeat(width)[:width]
    return (totals + best)[parent], parent, word[parent]


def best_beam_only(totals, log_shares, width):
    only = int(totals.argmax())
    best = (totals[only] + log_shares[only]).topk(width)
    return best.values, torch.full((width,), only), best.indices


def exchanged_results(totals, log_shares, width):
    values, parent, word = beam_step(totals, log_shares, width)
    return values, word, parent


def log_table(*shape: int, seed: int) -> Tensor:
    return (2 * numbers(*shape, seed=seed)).log_softmax(dim=-1)


def step_cases() -> dict[str, tuple]:
    one = torch.tensor([0.6, 0.4]).log()
    shares = torch.tensor([[0.34, 0.33, 0.33], [0.05, 0.9, 0.05]]).log()
    return {
        "two texts, of which the better leads nowhere": (one, shares, 2),
        "three texts of seven words": (
            log_table(3, seed=1),
            log_table(3, 7, seed=2),
            3,
        ),
        "a single text at the start": (torch.zeros(1), log_table(1, 7, seed=3), 4),
        "more texts than are kept": (log_table(5, seed=4), log_table(5, 11, seed=5), 2),
    }


BEAM_STEP = Exercise(
    name="beam_step",
    call="beam_step(totals, log_shares, width)",
    reference=beam_step,
    cases=step_cases,
    mutants={
        "You forgot what the texts were worth before.": partial(
            beam_step, join=lambda totals, log_shares: log_shares
        ),
        "You forgot what the new words are worth.": partial(
            beam_step, join=lambda totals, new: totals[:, None].expand_as(new)
        ),
        "You multiplied logarithms; products of shares are sums of them.": partial(
            beam_step, join=lambda totals, new: totals[:, None] * new
        ),
        "You added shares; they multiply, and their logarithms add.": partial(
            beam_step, join=lambda totals, new: totals.exp()[:, None] + new.exp()
        ),
        "You kept the best word of each text; all continuations compete.": (
            each_beam_alone
        ),
        "You lengthened the best text only.": best_beam_only,
        "You kept the worst.": partial(
            beam_step, join=lambda totals, new: -(totals[:, None] + new)
        ),
        "You exchanged parents and words.": exchanged_results,
        "You divided by the number of texts; it is the words that a row has.": partial(
            beam_step, n_words=len
        ),
        "You returned shares; logarithms were asked for.": (
            lambda totals, new, width: tuple(
                part.exp() if part.is_floating_point() else part
                for part in beam_step(totals, new, width)
            )
        ),
        "You kept one text whatever the width.": (
            lambda totals, new, width: beam_step(totals, new, 1)
        ),
    },
)


class GoesRound(TransformerDecoder):
    """A decoder that scores the word after the one it would name: texts go round."""

    def score(self, hidden: Tensor) -> Tensor:
        return super().score(hidden).roll(1, dims=-1)


def a_pair(seed: int) -> EncoderDecoder:
    """Return a small encoder and decoder, with weights that no start would give."""
    sizes = {"d_model": 12, "n_heads": 2, "d_ff": 17, "n_layers": 2, "max_length": 23}
    pair = EncoderDecoder(TransformerEncoder(11, **sizes), GoesRound(11, **sizes))
    for n, (name, parameter) in enumerate(pair.named_parameters()):
        drawn = numbers(*parameter.shape, seed=97 * seed + n)
        if "norm" not in name and "word_bias" not in name:
            parameter.data = drawn * 1.5 / parameter.shape[-1] ** 0.5
    return pair.eval().requires_grad_(False)


def translate_cases() -> dict[str, tuple]:
    one, other, third = map(a_pair, (2, 49, 24))
    words = torch.tensor([[3, 9, 4, 4, 8]])
    padded = torch.tensor([[7, 5, 10, 0, 0, 0]])
    return {
        "five words": (one, words, words == 0, 1, 7, 7),
        "three words and three of padding": (other, padded, padded == 0, 1, 7, 9),
        "another start": (other, padded, padded == 0, 5, 7, 9),
        "another pair": (third, padded, padded == 0, 1, 7, 9),
        "room for a single word": (one, words, words == 0, 1, 7, 1),
        "an end that is said": (one, words, words == 0, 1, said_at(one, words, 3), 8),
    }


def said_at(pair: EncoderDecoder, source: Tensor, place: int) -> int:
    """Return the word that a pair says at a place, so that it can be the end."""
    return translate(pair, source, source == 0, 1, -1, place + 1)[place]


def translate(
    pair: EncoderDecoder,
    source: Tensor,
    is_pad: Tensor,
    start: int,
    end: int,
    longest: int,
    *,
    reads=lambda pair, source, is_pad: pair.encoder(source, is_pad)[0],
    hides=lambda is_pad: is_pad,
    place=-1,
    choose=lambda scores: scores.argmax(),
    feeds=lambda said: said,
    keeps=lambda said: said[1:],
    stops=True,
) -> list[int]:
    """Write greedily, word by word, with a handle for each mistake."""
    memory = reads(pair, source, is_pad)
    said = [start]
    while len(said) <= longest:
        fed = torch.tensor([feeds(said)])
        hidden, _, _ = pair.decoder(fed, memory, memory_padding_mask=hides(is_pad))
        said.append(int(choose(pair.decoder.score(hidden)[0, place])))
        if said[-1] == end and stops:
            break
    return keeps(said)


TRANSLATE = Exercise(
    name="translate",
    call="translate(pair, source, is_pad, start, end, longest)",
    reference=translate,
    cases=translate_cases,
    mutants={
        "You read the scores of the first place; the next word stands at the last.": (
            partial(translate, place=0)
        ),
        "You chose the least likely word.": partial(
            translate, choose=lambda scores: scores.argmin()
        ),
        "You fed the last word alone: without a cache the decoder needs them all.": (
            partial(translate, feeds=lambda said: said[-1:])
        ),
        "You fed the start again and again, and none of your words.": partial(
            translate, feeds=lambda said: said[:1] * len(said)
        ),
        "You returned the start with the words.": partial(
            translate, keeps=lambda said: said
        ),
        "You went on after the end.": partial(translate, stops=False),
        "You left out the end.": lambda pair, source, is_pad, start, end, longest: [
            word
            for word in translate(pair, source, is_pad, start, end, longest)
            if word != end
        ],
        "You did not tell the encoder which words are padding.": partial(
            translate, reads=lambda pair, source, is_pad: pair.encoder(source)[0]
        ),
        "You did not tell the decoder which words of the source are padding.": partial(
            translate, hides=lambda is_pad: None
        ),
        "You turned the padding mask around.": partial(
            translate, hides=lambda is_pad: ~is_pad
        ),
        "You gave the decoder the embedded source, not what the encoder makes of it.": (
            partial(translate, reads=lambda pair, source, _: pair.encoder.embed(source))
        ),
        "You wrote one word too few.": (
            lambda pair, source, is_pad, start, end, longest: translate(
                pair, source, is_pad, start, end, longest - 1
            )
        ),
    },
)
