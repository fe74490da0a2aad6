"""A second language for the first page's sentences, and three who translate into it.

Mirror spells each word backwards. Its verbs close their clause, its adjectives follow
their noun, and the reason may come first or last, as the speaker likes: *emma ate the
soup because she was hungry* is *amme eht puos eta esuaceb ehs yrgnuh saw*, and just as
well *esuaceb ehs yrgnuh saw amme eht puos eta*. So it is known of every word which word
it stands for, and of a sentence with a reason there are two right translations.

Three read a row of source and translation, ten places and eleven, and have two layers
each, of the same parts:

    encoder    fills blanks in place of the translation, all at once
    decoder    goes on from the source, word by word, with a causal mask
    both       an encoder reads the source, a decoder writes and attends to it

`python code/book train-mirror` trains the last of them in some seconds and writes its
weights, rounded, into `mirror_language.json`, which chapter 11 and `load()` read.
Shapes: B rows, S = 10 places of a source, T of a translation, V vocabulary.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import torch
from decoder import (
    EncoderDecoder,
    NextWord,
    TransformerDecoder,
    beam_search,
    generate,
    next_word,
    shift_right,
)
from encoder import TransformerEncoder
from tasks import Batch
from torch import Tensor, nn
from train import Reader, train

from . import toy_language

STORED = Path(__file__).with_name("mirror_language.json")
PAD, GO, END, BLANK = range(4)
SOURCE_WORDS = [word for word in toy_language.WORDS if word != toy_language.BLANK]
SPECIALS = ["·", "go", "end", toy_language.BLANK]
MIRRORED = [word[::-1] for word in SOURCE_WORDS]
WORDS = [*dict.fromkeys(SPECIALS + SOURCE_WORDS + MIRRORED)]  # anna is the same in both
IDS = {word: i for i, word in enumerate(WORDS)}
LONGEST = 10  # words of a sentence, in either language
ADJECTIVES = "old", "little"
VERBS = *toy_language.THINGS, "was", "were"
WIRINGS = "encoder", "decoder", "both"
STEPS = 600


# --- The language ---------------------------------------------------------------------


class Translation(NamedTuple):
    """The words of a translation, and the place in the source that each stands for."""

    words: tuple[str, ...]
    places: tuple[int, ...]


@cache
def translations(sentence: str) -> tuple[Translation, ...]:
    """Return all right translations: two if the sentence gives a reason, else one."""
    words = sentence.split()
    end = words.index("because") if "because" in words else len(words)
    main, reason = clause(words, 0, end), clause(words, end, len(words))
    orders = [main + reason, reason + main] if reason else [main]
    return tuple(
        Translation(tuple(words[place][::-1] for place in order), tuple(order))
        for order in orders
    )


def clause(words: Sequence[str], start: int, end: int) -> list[int]:
    """Return the places of a clause in Mirror's order: adjectives back, verb last."""
    order: list[int] = []
    for place in range(start, end):
        after_adjective = place > start and words[place - 1] in ADJECTIVES
        order.insert(len(order) - after_adjective, place)
    return sorted(order, key=lambda place: words[place] in VERBS)


def encode(rows: Iterable[Sequence[str]], length: int) -> Tensor:
    """Return the ids of words, padded behind them: (B, length)."""
    ids = [[IDS[word] for word in row] for row in rows]
    return torch.tensor([row + [PAD] * (length - len(row)) for row in ids])


def encode_sources(sentences: Iterable[str]) -> Tensor:
    """Return the ids of sentences (B, S)."""
    return encode(map(str.split, sentences), LONGEST)


def make_batch(sentences: Sequence[str], targets: Iterable[Sequence[str]]) -> Batch:
    """Return rows (B, S + T): a source, and what a decoder is fed of its translation.

    Read is at the places fed, and asked for is the next word there, or the end.
    """
    source = encode_sources(sentences)
    asked = encode([[*words, "end"] for words in targets], LONGEST + 1)
    is_word = asked != PAD
    ids = torch.cat((source, shift_right(asked, GO)), dim=1)
    read_at = torch.cat((torch.zeros_like(source, dtype=torch.bool), is_word), dim=1)
    padding = torch.cat((source == PAD, ~is_word), dim=1)
    return Batch(ids, padding, read_at, asked[is_word])


def draw_batch(
    sentences: Sequence[str], generator: torch.Generator, n_rows: int = 64
) -> Batch:
    """Draw sentences, and for each one of its right translations."""
    rows = torch.randint(len(sentences), (n_rows,), generator=generator).tolist()
    coins = torch.randint(2, (n_rows,), generator=generator).tolist()
    texts = [sentences[row] for row in rows]
    right = [translations(text) for text in texts]
    targets = [of[coin % len(of)].words for of, coin in zip(right, coins, strict=True)]
    return make_batch(texts, targets)


# --- Three who translate --------------------------------------------------------------


def sizes(n_layers: int) -> dict:
    """Return the settings of a stack; one head, so that there is one map to read."""
    settings = {"d_model": 32, "n_heads": 1, "d_ff": 64, "dropout": 0.0}
    return settings | {"n_layers": n_layers, "max_length": 2 * LONGEST + 1}


class FillsBlanks(nn.Module):
    """The encoder alone: it reads the source and T blanks, and fills all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = Reader(TransformerEncoder(len(WORDS), **sizes(2)))

    def forward(self, token_ids: Tensor, padding: Tensor, read_at: Tensor) -> Tensor:
        """Map rows (B, S + T) to scores (N, V) of the words read; no word is fed."""
        blanks = torch.full_like(token_ids, BLANK)
        blanks[:, :LONGEST] = token_ids[:, :LONGEST]
        return self.reader(blanks, blanks == PAD, read_at)

    def translate(self, source: Tensor) -> Tensor:
        """Map sources (B, S) to translations (B, T), filled up behind their end."""
        rows = nn.functional.pad(source, (0, LONGEST + 1), value=BLANK)
        read_at = torch.arange(rows.shape[1]) >= LONGEST
        scores = self(rows, rows == PAD, read_at.expand(rows.shape))
        return scores.argmax(dim=1).unflatten(0, (len(source), -1))


class GoesOn(nn.Module):
    """The decoder alone: the source is the beginning of its text."""

    def __init__(self) -> None:
        super().__init__()
        no_source = {"cross_attention": False}
        self.decoder = TransformerDecoder(len(WORDS), **sizes(2), **no_source)

    def forward(self, token_ids: Tensor, padding: Tensor, read_at: Tensor) -> Tensor:
        """Map rows (B, S + T) to scores (N, V) of the words read."""
        hidden, _, _ = self.decoder(token_ids, key_padding_mask=padding)
        return self.decoder.score(hidden[read_at])

    def translate(self, source: Tensor) -> Tensor:
        """Map sources (B, S) to translations (B, T), filled up behind their end."""

        def step(token_ids, cache):
            masks = {"key_padding_mask": token_ids == PAD, "cache": cache}
            hidden, _, cache = self.decoder(token_ids, **masks)
            return self.decoder.score(hidden[:, -1]), cache

        beginning = nn.functional.pad(source, (0, 1), value=GO)
        return generate(step, beginning, LONGEST + 1, END)[:, LONGEST + 1 :]


class ReadsAndWrites(nn.Module):
    """Both: an encoder of one layer, and a decoder of one that attends to it."""

    def __init__(self, causal: bool = True) -> None:
        super().__init__()
        encoder = TransformerEncoder(len(WORDS), **sizes(1))
        decoder = TransformerDecoder(len(WORDS), **sizes(1), causal=causal)
        self.pair = EncoderDecoder(encoder, decoder)

    def forward(self, token_ids: Tensor, padding: Tensor, read_at: Tensor) -> Tensor:
        """Map rows (B, S + T) to scores (N, V) of the words read."""
        source, fed = token_ids[:, :LONGEST], token_ids[:, LONGEST:]
        masks = padding[:, :LONGEST], padding[:, LONGEST:]
        scores, _ = self.pair(source, fed, *masks)
        return scores[read_at[:, LONGEST:]]

    def step(self, source: Tensor) -> NextWord:
        """Return the step that `generate` and `beam_search` repeat."""
        memory, _ = self.pair.encoder(source, source == PAD)
        return next_word(self.pair.decoder, memory, source == PAD)

    def translate(self, source: Tensor) -> Tensor:
        """Map sources (B, S) to translations (B, T), filled up behind their end."""
        start = torch.full_like(source[:, :1], GO)
        cached = {"use_cache": self.pair.decoder.causal}
        return generate(self.step(source), start, LONGEST + 1, END, **cached)[:, 1:]


Translator = FillsBlanks | GoesOn | ReadsAndWrites


def build(wiring: str) -> Translator:
    """Return the untrained translator of a wiring; ValueError for no wiring."""
    if wiring not in WIRINGS:
        raise ValueError(f"the wiring is one of {', '.join(WIRINGS)}, got {wiring!r}")
    kinds = dict(zip(WIRINGS, (FillsBlanks, GoesOn, ReadsAndWrites), strict=True))
    return kinds[wiring]()


def fit(model: Translator, seed: int = 0, stop: int = STEPS) -> list[float]:
    """Train a translator on the training side; return each step's loss.

    The schedule is that of the whole run, also where it stops after `stop` steps.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = partial(draw_batch, toy_language.split_sentences()[0], generator)
    options = {"learning_rate": 5e-3, "watch": lambda step, loss: step >= stop}
    losses = train(model, draw, STEPS, **options)
    model.eval()
    return losses


# --- What they are asked --------------------------------------------------------------


def in_words(ids: Sequence[int]) -> tuple[str, ...]:
    """Return the words of ids up to the first end."""
    words = [WORDS[i] for i in ids]
    return tuple(words[: words.index("end")] if "end" in words else words)


@torch.no_grad()
def share_right(model: Translator, sentences: Sequence[str]) -> dict[int, float]:
    """Return the share translated rightly, of sentences with one translation and two.

    Whichever of the right translations comes out, it counts.
    """
    said = map(in_words, model.translate(encode_sources(sentences)).tolist())
    hits: dict[int, list[bool]] = {1: [], 2: []}
    for sentence, words in zip(sentences, said, strict=True):
        right = translations(sentence)
        hits[len(right)].append(words in [of.words for of in right])
    return {n: sum(of) / max(1, len(of)) for n, of in hits.items()}


@torch.no_grad()
def share_forced(model: Translator, sentences: Sequence[str]) -> float:
    """Return the share of next words right when the right words before are fed."""
    batch = make_batch(sentences, (translations(s)[-1].words for s in sentences))
    return (model(*batch[:3]).argmax(dim=1) == batch.labels).float().mean().item()


@torch.no_grad()
def source_map(model: ReadsAndWrites, sentence: str, words: Sequence[str]) -> Tensor:
    """Return the weights of the source when these words are written: (T, S).

    Row t is that of the step which says word t; S counts the words of the sentence.
    """
    source = encode_sources([sentence])
    fed = torch.tensor([[GO, *(IDS[word] for word in words)]])[:, :-1]
    _, maps = model.pair(source, fed, source == PAD, need_weights=True)
    return maps[0].source[0, 0, :, : len(sentence.split())]  # one layer, one head


def share_aligned(model: ReadsAndWrites, sentences: Sequence[str]) -> float:
    """Return how often the word with most weight is the one that is being translated.

    Each sentence is read in its last order: a reason comes first.
    """
    hits = []
    for sentence in sentences:
        right = translations(sentence)[-1]
        weights = source_map(model, sentence, right.words)
        hits += (weights.argmax(dim=-1) == torch.tensor(right.places)).tolist()
    return sum(hits) / len(hits)


# --- What a reader may choose ---------------------------------------------------------


@torch.no_grad()
def decoding_tree(model: ReadsAndWrites, sentence: str) -> dict:
    """Return what comes next after each beginning of a translation, for a view.

    A node has the four likeliest words, each with its share and the node behind it, and
    the weights of the source in the step that scores them. Behind the end there is
    none, nor behind a second word whose share is below a fifth.
    """
    source = encode_sources([sentence])
    start = torch.tensor([[GO]])
    nodes, level = [{}], [(0, start[0], 0)]
    while level:
        level = grow(model, source, nodes, level, len(sentence.split()))
    kept = {str(width): beams_of(model, source, start, width) for width in (1, 2, 3)}
    right = [" ".join(each.words) for each in translations(sentence)]
    return {"source": sentence.split(), "nodes": nodes, "beams": kept, "right": right}


def grow(model, source: Tensor, nodes: list[dict], level: list, n_words: int) -> list:
    """Fill in the nodes of one level, and return the level behind them."""
    texts = torch.stack([text for _, text, _ in level])
    rows = source.expand(len(texts), -1)
    scores, maps = model.pair(rows, texts, rows == PAD, need_weights=True)
    best = scores[:, -1].softmax(dim=-1).topk(4)
    weights = maps[0].source[:, 0, -1, :n_words]

    after = []
    for row, (node, text, odd) in enumerate(level):
        candidates = []
        for share, word in zip(
            best.values[row].tolist(), best.indices[row].tolist(), strict=True
        ):
            turns = odd + (bool(candidates) and share < 0.2)
            child = None
            if word != END and turns < 2 and len(text) <= LONGEST:
                child = len(nodes)
                nodes.append({})
                after.append((child, torch.cat((text, torch.tensor([word]))), turns))
            candidates.append([WORDS[word], round(share, 4), child])
        looks = [round(weight, 2) for weight in weights[row].tolist()]
        nodes[node] |= {"candidates": candidates, "weights": looks}
    return after


def beams_of(model: ReadsAndWrites, source: Tensor, start: Tensor, width: int) -> list:
    """Return, for each number of words, the texts kept and their shares."""
    step, kept = model.step(source), []
    for n_words in range(1, LONGEST + 2):
        found = beam_search(step, start, n_words, END, width)
        texts = [" ".join(in_words(ids[1:])) for ids in found.token_ids[0].tolist()]
        shares = [round(share, 4) for share in found.scores[0].exp().tolist()]
        kept.append([list(pair) for pair in zip(texts, shares, strict=True)])
    return kept


# --- The stored weights ---------------------------------------------------------------


def store(model: ReadsAndWrites, path: Path = STORED) -> None:
    """Write the parameters, rounded to three decimals."""
    state = {
        name: toy_language.round_all(value.tolist())
        for name, value in model.state_dict().items()
    }
    path.write_text(json.dumps(state, separators=(",", ":")) + "\n")


def load(path: Path = STORED) -> ReadsAndWrites:
    """Return the trained translator of chapter 11, ready to be asked."""
    stored = json.loads(path.read_text())
    model = ReadsAndWrites()
    model.load_state_dict({name: torch.tensor(value) for name, value in stored.items()})
    return model.eval()


def main() -> None:
    torch.set_num_threads(1)  # a model is small
    torch.manual_seed(0)
    model = ReadsAndWrites()
    fit(model)
    store(model)
    right = share_right(load(), toy_language.split_sentences()[1])
    shares = ", ".join(f"{share:.3f}" for share in right.values())
    size = STORED.stat().st_size / 1000
    print(f"{STORED.name}: {size:.0f} kB, held-out sentences right: {shares}")
