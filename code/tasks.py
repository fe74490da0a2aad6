"""Two tasks for the encoder: one made to be checked, one made of real English.

`match_batch` asks whether a sequence begins and ends with the same token, and is built
so that nothing but the positions can tell. `MaskedText` hides words of a real text, the
help topics that ship inside Python, and asks for them back. Nothing is downloaded.

Both hand out a `Batch`: what goes in, where to read the encoder's output, and the class
expected there. Baselines are called like a model, so one evaluation scores them all.
Shapes: B rows, T tokens, V vocabulary, N = the number of places that are read.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor, nn

PAD = 0
MATCH_VOCAB = 32  # ids 1..31 are symbols
MATCH_LENGTHS = 6, 12  # the shortest and the longest sequence, in tokens
MATCH_CLASSES = 2


class Batch(NamedTuple):
    """Inputs, where to read the output, and the N labels due there (int64)."""

    token_ids: Tensor  # (B, T) int64
    key_padding_mask: Tensor  # (B, T) bool, True = padding
    read_at: Tensor  # (B, T) bool, True at N places
    labels: Tensor  # (N,) int64, in reading order

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(*(part.to(device) for part in self))


# --- Do the first and the last token match? ------------------------------------------


def match_batch(
    n_rows: int, generator: torch.Generator, held_out: bool = False
) -> Batch:
    """Draw sequences of 6 to 12 tokens, one half of them with equal ends.

    Each holds two symbols twice, a and b, and other symbols once. It begins with a. If
    it matches it ends with a and has both b inside; if not it ends with b and has one
    of each inside. So the tokens as a bag, and which of them comes first, say nothing
    about the label: only what stands last does. A quarter or so of the ids is padding.

    A pair (a, b) belongs to one side of the split for good: no sequence of the held-out
    side can occur in training. The labels (B,) are read at position 0.
    """
    symbols = draw_symbols(n_rows, generator, held_out)
    shortest, longest = MATCH_LENGTHS
    length = torch.randint(shortest, longest + 1, (n_rows, 1), generator=generator)
    match = (torch.arange(n_rows) % 2 == 0)[torch.randperm(n_rows, generator=generator)]
    ids = arrange(symbols, match[:, None], length, generator)
    padding = torch.arange(longest) >= length
    read_first = (torch.arange(longest) == 0).expand(n_rows, -1)
    return Batch(ids.masked_fill(padding, PAD), padding, read_first, match.long())


def draw_symbols(n_rows: int, generator: torch.Generator, held_out: bool) -> Tensor:
    """Draw rows of distinct symbols; the first two decide the side of the split."""
    n_drawn = (12 if held_out else 2) * n_rows + 64  # the rows of the other side go
    symbols = torch.rand(n_drawn, MATCH_VOCAB - 1, generator=generator).argsort(1) + 1
    on_held_out_side = symbols[:, :2].sum(1) % 5 == 0
    return symbols[on_held_out_side == held_out][:n_rows, : MATCH_LENGTHS[1] - 2]


def arrange(
    symbols: Tensor, match: Tensor, length: Tensor, generator: torch.Generator
) -> Tensor:
    """Order the tokens of each row; what stands behind its end is of no use."""
    first, second = symbols[:, :1], symbols[:, 1:2]
    inside = torch.cat((second, torch.where(match, second, first), symbols[:, 2:]), 1)
    inside = shuffle_front(inside, length - 2, generator)
    ids = torch.cat((first, inside, second), 1)
    return ids.scatter(1, length - 1, torch.where(match, first, second))


def shuffle_front(rows: Tensor, n_front: Tensor, generator: torch.Generator) -> Tensor:
    """Shuffle the first n_front entries of each row; the others stay behind them."""
    key = torch.rand(rows.shape, generator=generator)
    stays = torch.arange(rows.shape[1]) >= n_front
    return rows.gather(1, (key + stays).argsort(1))


class FirstTokenBaseline(nn.Module):
    """The best reader without positions that asks one thing: how often is token 0 here?

    It learns from one batch which answer goes with which count. A position-blind
    encoder read at position 0 knows that token and the bag of tokens, no more.
    """

    def __init__(self, batch: Batch):
        super().__init__()
        counts = count_first(batch.token_ids)
        seen = torch.ones(batch.token_ids.shape[1] + 1, MATCH_CLASSES)  # add-one
        self.log_probs = seen.index_put(
            (counts, batch.labels), torch.ones(()), True
        ).log()

    def forward(
        self,
        token_ids: Tensor,
        key_padding_mask: Tensor | None = None,
        read_at: Tensor | None = None,
    ) -> Tensor:
        """Map ids (B, T) to scores of the classes (B, 2)."""
        return self.log_probs[count_first(token_ids)]


def count_first(token_ids: Tensor) -> Tensor:
    return (token_ids == token_ids[:, :1]).sum(1)


# --- A real text ---------------------------------------------------------------------

SPECIALS = "[PAD]", "[MASK]", "[UNK]"
MASK, UNK = 1, 2
LONGEST = 32  # tokens in a row; a longer sentence goes on in the next row

FALLBACK = {  # for an interpreter without its help topics
    "attention": """
        Every token asks a question, and every token offers an answer. The score of a
        question and an answer is the dot product of two vectors. The scores of one
        token become weights that add up to one. The output of a token is the weighted
        sum of the values of all tokens. A token of padding is never seen by the others.
        """,
    "feed-forward": """
        The feed-forward part sees one token at a time. It makes the vector of a token
        longer, cuts off what is below zero, and makes the vector short again. The same
        weights serve every token of the sequence. No token sees the others here.
        """,
    "norm": """
        The norm looks at the vector of one token. It takes the mean away and divides by
        the spread. Then it scales every feature by a number that was learned. The norm
        of a token does not depend on the other tokens of the batch.
        """,
    "positions": """
        The sum of two vectors tells a token from the same token in another place. One
        vector belongs to the token, and the other vector belongs to the position. With
        no positions, the encoder sees a bag of tokens. The order of the tokens is lost.
        """,
    "residual": """
        The input of a part is added to the output of the part. The sum goes to the next
        part of the layer. A part that has learned nothing leaves the vector of a token
        as it is. The gradient goes through the sum to every layer below.
        """,
}


def read_documents() -> tuple[str, dict[str, str]]:
    """Return the name of the text and its documents: the help topics of Python."""
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some distributions leave it out
        return "the fallback text of tasks.py", FALLBACK
    return f"pydoc_data.topics of Python {sys.version.split()[0]}", topics


def find_sentences(text: str) -> list[str]:
    """Return the sentences of a document, without code, tables, headings and markup."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r'["*“”‘`]', "", paragraph.replace("’", "'"))
        for piece in re.split(r"(?<=[.?!:])\s+(?=[A-Z])", " ".join(plain.split())):
            if re.fullmatch(r"[A-Z][\w ,;:()'./=<>\[\]{}%@+-]*[.:]", piece):
                found.append(piece)
    return found


def split_sentences(documents: dict[str, str]) -> tuple[list[str], list[str]]:
    """Split by document, one in five held out, into training and held-out sentences.

    Topics quote each other, so a sentence that stands in a held-out document too is
    taken out of the training side. Each sentence is kept once, in order.
    """
    sides: dict[bool, dict[str, None]] = {False: {}, True: {}}  # as ordered sets
    for name, text in sorted(documents.items()):
        held_out = crc32(name.encode()) % 5 == 0  # the same in every Python version
        sides[held_out].update(dict.fromkeys(find_sentences(text)))
    return [s for s in sides[False] if s not in sides[True]], list(sides[True])


class Tokenizer:
    """Words and punctuation marks of a text, in lower case, and their ids.

    The first ids are the SPECIALS; a word seen fewer than `min_count` times is [UNK].
    Going to ids and back loses case, spacing and rare words, and nothing else.
    """

    pattern = re.compile(r"[a-z0-9_]+(?:['-][a-z0-9_]+)*|[^\w\s]")

    def __init__(self, sentences: list[str], min_count: int = 2):
        counts = Counter(word for s in sentences for word in self.split(s))
        common = sorted(w for w, n in counts.items() if n >= min_count)
        self.words = [*SPECIALS, *common]
        self.ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def split(self, sentence: str) -> list[str]:
        return self.pattern.findall(sentence.lower())

    def encode(self, sentence: str) -> list[int]:
        return [self.ids.get(word, UNK) for word in self.split(sentence)]

    def decode(self, ids: Iterable[int]) -> str:
        """Join the words of ids; padding is left out, marks lean on their word."""
        words = " ".join(self.words[i] for i in ids if i != PAD)
        return re.sub(r" ([.,;:)/])", r"\1", words).replace("( ", "(")


class MaskedText:
    """Rows of a text, short ones first, and batches with some of their words hidden."""

    def __init__(self, sentences: list[str], tokenizer: Tokenizer):
        rows = [tokenizer.encode(sentence) for sentence in sentences]
        rows = [r[i : i + LONGEST] for r in rows for i in range(0, len(r), LONGEST)]
        self.rows = pad_rows(sorted(rows, key=len))  # (R, up to LONGEST)
        self.vocab_size = len(tokenizer)

    def draw(
        self, n_rows: int, generator: torch.Generator, rate: float = 0.15
    ) -> Batch:
        """Draw a training batch: neighbours in length, so that little is padding."""
        start = torch.randint(len(self.rows), (1,), generator=generator)
        chosen = (start + torch.arange(n_rows)) % len(self.rows)
        return hide_words(self.rows[chosen], self.vocab_size, generator, rate)

    def batches(self, n_rows: int, generator: torch.Generator) -> list[Batch]:
        """Go through all rows once, with words hidden at BERT's rate, to evaluate."""
        parts = self.rows.split(n_rows)
        return [hide_words(part, self.vocab_size, generator) for part in parts]


def pad_rows(rows: list[list[int]]) -> Tensor:
    """Stack rows of ids into one tensor (rows, longest), filled up with PAD.

    Raises ValueError if there is no row.
    """
    if not rows:
        raise ValueError("no sentence was given, so there is nothing to draw from")
    ids = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=PAD)


def hide_words(
    token_ids: Tensor, vocab_size: int, generator: torch.Generator, rate: float = 0.15
) -> Batch:
    """Select words, hide most of them, ask for all of them (Devlin et al., 2019, 3.1).

    A word of token_ids (B, T) is selected with probability `rate`, and at least one in
    a row is. Of the selected words 80 % become [MASK], 10 % a word drawn at random, and
    10 % stay. [PAD], [MASK] and [UNK] are never selected and never drawn.
    """
    token_ids = token_ids[:, : (token_ids != PAD).sum(1).max()]
    lot = torch.rand(token_ids.shape, generator=generator)
    lot = lot.masked_fill(token_ids < len(SPECIALS), 2.0)  # above every rate
    first = lot == lot.min(dim=1, keepdim=True).values
    selected = ((lot < rate) | first) & (lot < 2.0)

    fate = torch.rand(token_ids.shape, generator=generator)
    words = torch.randint(
        len(SPECIALS), vocab_size, token_ids.shape, generator=generator
    )
    hidden = torch.where(fate < 0.8, MASK, torch.where(fate < 0.9, words, token_ids))
    shown = torch.where(selected, hidden, token_ids)
    return Batch(shown, token_ids == PAD, selected, token_ids[selected])


class UnigramBaseline(nn.Module):
    """Give every place the same scores: how often each word stands in the text."""

    def __init__(self, text: MaskedText):
        super().__init__()
        counts = torch.bincount(text.rows.flatten(), minlength=text.vocab_size) + 0.1
        counts[: len(SPECIALS)] = 0.1
        self.log_probs = (counts / counts.sum()).log()

    def forward(
        self, token_ids: Tensor, key_padding_mask: Tensor, read_at: Tensor
    ) -> Tensor:
        """Map the places to read (B, T) to scores of the words (N, V)."""
        return self.log_probs.expand(int(read_at.sum()), -1)


class NeighbourBaseline(nn.Module):
    """Guess a word from the words left and right of it, by counting pairs.

    score(w) = log p(w | left) + log p(w | right) - log p(w), each p(w | neighbour)
    mixed with `prior` counts of p(w). The sentence's edge counts as a neighbour, and a
    neighbour that is itself hidden says nothing.
    """

    def __init__(self, text: MaskedText, prior: float = 80.0):
        super().__init__()
        self.unigram, size = UnigramBaseline(text).log_probs, text.vocab_size
        rows = nn.functional.pad(text.rows, (1, 1), value=PAD)
        before, after = rows[:, :-1].flatten(), rows[:, 1:].flatten()
        self.given_left = self.count_pairs(before, after, size, prior)
        self.given_right = self.count_pairs(after, before, size, prior)

    def count_pairs(
        self, neighbour: Tensor, word: Tensor, size: int, prior: float
    ) -> Tensor:
        """Return log p(word | neighbour), (V, V)."""
        counts = torch.zeros(size, size)
        counts.index_put_((neighbour, word), torch.ones(()), accumulate=True)
        counts[:, : len(SPECIALS)] = counts[MASK] = 0.0
        total = counts.sum(1, keepdim=True) + prior
        return ((counts + prior * self.unigram.exp()) / total).log()

    def forward(
        self, token_ids: Tensor, key_padding_mask: Tensor, read_at: Tensor
    ) -> Tensor:
        """Map the places to read (B, T) to scores of the words (N, V)."""
        rows = nn.functional.pad(token_ids, (1, 1), value=PAD)
        left, right = rows[:, :-2][read_at], rows[:, 2:][read_at]
        return self.given_left[left] + self.given_right[right] - self.unigram
