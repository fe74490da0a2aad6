"""The small encoder of the EncoderLab: its language, its training, its stored weights.

The language has 53 words and 1716 sentences, such as "emma ate the soup because she was
hungry". Who acts decides the pronoun, what is done decides the thing and the reason, so
a hidden word can be told from words on either side of it. The encoder is trained as
BERT is: some words are blanked out, and it gives them back.

`python code/book train-toy` trains it in a minute or two and writes the weights,
rounded to three decimals, into `toy_language.json`, which the page and `load()` read.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from functools import cache
from itertools import product
from pathlib import Path
from zlib import crc32

import torch
from encoder import TransformerEncoder
from tasks import Batch
from torch import Tensor
from train import Reader, train

STORED = Path(__file__).with_name("toy_language.json")
ENCODER = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2, "max_length": 10}
BLANK = "___"
WORDS_OF_KIND = {
    "blank": [BLANK],
    "names": ["anna", "tom", "emma", "paul", "mary", "john"],
    "who": ["girl", "boy", "queen", "king", "girls", "boys", "dogs", "dog", "cat"],
    "pronouns": ["she", "he", "they", "it"],
    "owners": ["her", "his", "their", "its"],
    "verbs": ["ate", "read", "wore", "drove", "lost", "found"],
    "things": [
        "apple",
        "bread",
        "soup",
        "book",
        "letter",
        "hat",
        "coat",
        "car",
        "bus",
        "key",
        "ball",
    ],
    "reasons": ["hungry", "bored", "cold", "late", "sad", "happy"],
    "others": ["the", "old", "little", "because", "was", "were"],
}
WORDS = [word for words in WORDS_OF_KIND.values() for word in words]
ACTORS = {  # by pronoun: those with a name, and those with an article
    "she": (["anna", "emma", "mary"], ["girl", "queen"]),
    "he": (["tom", "paul", "john"], ["boy", "king"]),
    "they": ([], ["girls", "boys", "dogs"]),
    "it": ([], ["dog", "cat"]),
}
OWNER = dict(zip(WORDS_OF_KIND["pronouns"], WORDS_OF_KIND["owners"], strict=True))
THINGS = {
    "ate": ["apple", "bread", "soup"],
    "read": ["book", "letter"],
    "wore": ["hat", "coat"],
    "drove": ["car", "bus"],
    "lost": ["key", "ball"],
    "found": ["key", "ball"],
}
REASON = dict(zip(WORDS_OF_KIND["verbs"], WORDS_OF_KIND["reasons"], strict=True))


@cache
def sentences() -> tuple[str, ...]:
    """Return all sentences of the language, each once, in one fixed order."""
    return tuple(
        f"{who} {verb} {owner} {thing}{end}"
        for pronoun in ACTORS
        for who, verb in product(actors(pronoun), THINGS)
        for owner, thing in product(("the", OWNER[pronoun]), THINGS[verb])
        for end in ("", because(pronoun, verb))
    )


def actors(pronoun: str) -> list[str]:
    names, nouns = ACTORS[pronoun]
    articles = "the", "the old", "the little"
    return names + [f"{article} {noun}" for noun, article in product(nouns, articles)]


def because(pronoun: str, verb: str) -> str:
    was = "were" if pronoun == "they" else "was"
    return f" because {pronoun} {was} {REASON[verb]}"


# --- Training: words are blanked out, and asked for ----------------------------------


def split_sentences() -> tuple[list[str], list[str]]:
    """Return the sentences to train on, and one in five that training never sees."""
    sides: tuple[list[str], list[str]] = [], []
    for sentence in sentences():
        sides[crc32(sentence.encode()) % 5 == 0].append(sentence)
    return sides


def encode(texts: Iterable[str]) -> tuple[Tensor, Tensor]:
    """Return the ids and the padding of sentences, both (B, T) with T = max_length."""
    rows = [[WORDS.index(word) for word in text.split()] for text in texts]
    longest = ENCODER["max_length"]
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ids, torch.arange(longest) >= torch.tensor([[len(row)] for row in rows])


def draw_batch(
    ids: Tensor, padding: Tensor, generator: torch.Generator, n_rows: int = 64
) -> Batch:
    """Draw sentences, blank one word in five, and hide another one in twelve.

    The hidden ones are padding, so that the encoder also meets gaps: a reader of the
    page may hide any word, and the guess should then be an honest doubt.
    """
    rows = torch.randint(len(ids), (n_rows,), generator=generator)
    ids, padding = ids[rows], padding[rows]
    draw = torch.rand(ids.shape, generator=generator)
    blank = (draw < 1 / 5) & ~padding
    hidden = padding | (draw > 1 - 1 / 12)
    return Batch(ids.masked_fill(blank, 0), hidden, blank, ids[blank])


def build(**changes: int) -> Reader:
    """Return the untrained model: the encoder, and its embedding as output layer.

    `changes` are settings of the encoder that differ from those of `ENCODER`.
    """
    settings = ENCODER | changes
    return Reader(TransformerEncoder(len(WORDS), dropout=0.0, **settings))


def fit(steps: int = 10_000, seed: int = 0) -> Reader:
    """Train the model on the training side, the same at every run of one machine."""
    torch.manual_seed(seed)
    model = build()
    teach(model, steps, seed)
    return model.eval()


def teach(model: Reader, steps: int, seed: int, **options) -> list[float]:
    """Train a model on the training side; return each step's loss, as `train` does."""
    generator = torch.Generator().manual_seed(seed)
    ids, padding = encode(split_sentences()[0])
    return train(model, lambda: draw_batch(ids, padding, generator), steps, **options)


def questions(texts: Iterable[str]) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Blank each word of each sentence alone: what a model is given, and what is right.

    Given are ids, padding and the place of the blank, each (N, T). Right, (N, V) bool,
    is every word that makes a sentence of the language again.
    """
    given, right, language = [], [], frozenset(sentences())
    for words in map(str.split, texts):
        ids, padding = encode([" ".join(words)] * len(words))
        places = torch.eye(*ids.shape, dtype=torch.bool)
        given.append((ids.masked_fill(places, 0), padding, places))
        for place in range(len(words)):
            filled = ([*words[:place], word, *words[place + 1 :]] for word in WORDS)
            right.append([" ".join(one) in language for one in filled])
    ids, padding, places = map(torch.cat, zip(*given, strict=True))
    return (ids, padding, places), torch.tensor(right)


@torch.no_grad()
def share_right(model: Reader, texts: Iterable[str]) -> float:
    """Blank each word of each sentence alone: return the share of right guesses."""
    given, right = questions(texts)
    best = model(*given).argmax(dim=1, keepdim=True)
    return right.gather(1, best).float().mean().item()


# --- The stored weights --------------------------------------------------------------


def store(model: Reader, path: Path = STORED) -> None:
    """Write the sizes, the words and the parameters, rounded to three decimals."""
    state = {**model.encoder.state_dict(), "head.bias": model.head.bias.data}
    parameters = {name: round_all(value.tolist()) for name, value in state.items()}
    content = {**ENCODER, "kinds": WORDS_OF_KIND, "parameters": parameters}
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


def round_all(values: list | float) -> list | float:
    if isinstance(values, list):
        return [round_all(value) for value in values]
    return round(values, 3)


def load(path: Path = STORED) -> Reader:
    """Return the trained model with the stored weights, ready to be asked."""
    stored = json.loads(path.read_text())["parameters"]
    tensors = {name: torch.tensor(values) for name, values in stored.items()}
    model = build()
    model.head.bias.data = tensors.pop("head.bias")
    model.encoder.load_state_dict(tensors)
    return model.eval()


def with_gains(model: Reader, norm: str, change: Callable[[Tensor], Tensor]) -> Reader:
    """Return a copy with other gains (D,) in one norm, such as "0.norm1"."""
    changed = deepcopy(model)
    gains = changed.get_parameter(f"encoder.layers.{norm}.weight")
    gains.data = change(gains.data)
    return changed


@torch.no_grad()
def guesses(
    model: Reader,
    tokens: Sequence[str],
    padding: Sequence[bool] | None = None,
    k: int = 5,
) -> list[list[tuple[str, float]]]:
    """Return for every place of a sentence its k likeliest words, with their chance."""
    hides = [False] * len(tokens) if padding is None else padding
    ids = torch.tensor([[WORDS.index(token) for token in tokens]])
    everywhere = torch.ones_like(ids, dtype=torch.bool)
    scores = model(ids, torch.tensor([hides]), everywhere)  # (T, V)
    best = scores.softmax(dim=-1).topk(k)
    return [
        [(WORDS[i], chance.item()) for i, chance in zip(ids, chances, strict=True)]
        for ids, chances in zip(best.indices, best.values, strict=True)
    ]


def fill(model: Reader, words: Sequence[str], place: int) -> tuple[str, float]:
    """Blank one word of a sentence; return the likeliest word there and its chance."""
    asked = [*words[:place], BLANK, *words[place + 1 :]]
    return guesses(model, asked, k=1)[place][0]


def main() -> None:
    held_out = split_sentences()[1]
    store(fit())
    right = share_right(load(), held_out)
    size = STORED.stat().st_size / 1000
    print(f"{STORED.name}: {size:.0f} kB, held-out accuracy {right:.4f}")
