"""How large may words start beside their places? The small trainings of chapter 1.

The task is to name the word before. An encoder of one layer and D = 64 has learned it
when its loss is below 0.5 within 200 steps; all that changes is how large its words
and its places start. A size is an RMS, and words are measured as they enter: times the
root of D.
"""

import torch
from encoder import TransformerEncoder
from tasks import Batch
from torch import Tensor, nn
from train import Reader, train

D, VOCAB, LENGTH = 64, 32, 12
STEPS, ENOUGH, SEEDS = 200, 0.5, range(3)
PLACE = 0.5**0.5  # the size of each row of the table of clocks


def copying(n_rows: int = 32, length: int = LENGTH) -> Batch:
    """Draw texts (n_rows, length) in which each place has to name the word before."""
    ids = torch.randint(1, VOCAB, (n_rows, length))
    read_at = (torch.arange(length) > 0).expand_as(ids)
    return Batch(ids, torch.zeros_like(read_at), read_at, ids[:, :-1].flatten())


def build(ratio: float, seed: int, place: float = PLACE) -> Reader:
    """Return an untrained model whose words are `ratio` times as large as places."""
    torch.manual_seed(seed)
    sizes = {"d_model": D, "n_heads": 1, "d_ff": 2 * D, "n_layers": 1}
    encoder = TransformerEncoder(VOCAB, dropout=0.0, norm_first=True, **sizes)
    encoder.positions.table *= place / PLACE
    encoder.embedding.weight.data *= ratio * place
    return Reader(encoder, VOCAB)


def build_tied(deviation: float, root: bool, seed: int) -> Reader:
    """Return an untrained model with one table, of this deviation, at both ends."""
    model = Reader(build(1, seed).encoder)  # without a map of its own for scores
    encoder = model.encoder
    nn.init.normal_(encoder.embedding.weight, std=deviation)
    if not root:
        encoder.embed = lambda ids: encoder.positions(encoder.embedding(ids))
    return model


def learn(model: Reader) -> list[float]:
    """Return the losses of 200 steps, or until one is below 0.5."""

    def is_learned(step: int, loss: float) -> bool:
        return loss < ENOUGH

    return train(model, copying, STEPS, learning_rate=1e-2, watch=is_learned)


def control(
    ratio: float,
    place: float = PLACE,
    *,
    fix_words: bool = False,
    free_places: bool = False,
) -> tuple[str, str, str]:
    """Train with each seed: return sizes of words, of places, and how many learn.

    Sizes are those of the first seed, before and after. `fix_words` keeps words as they
    were drawn; `free_places` makes the table of places a parameter, as words are.
    """
    models = [build(ratio, seed, place) for seed in SEEDS]
    for encoder in (model.encoder for model in models):
        encoder.embedding.weight.requires_grad_(not fix_words)
        if free_places:
            encoder.positions.table = nn.Parameter(encoder.positions.table)
    before = sizes(models[0].encoder)
    learned = sum(len(learn(model)) < STEPS for model in models)
    after = sizes(models[0].encoder)
    words, places = map(" → ".join, zip(before, after, strict=True))
    return words, places, f"{learned} of {len(SEEDS)}"


def sizes(encoder: TransformerEncoder) -> tuple[str, str]:
    """Return the sizes of words and of the places in use, with a digit that counts."""
    words, places = encoder.embedding.weight * D**0.5, encoder.positions.table[:LENGTH]
    return short(words), short(places)


def short(table: Tensor) -> str:
    size = table.square().mean().sqrt().item()
    return f"{size:.0f}" if size > 1 else f"{size:.1g}"


@torch.no_grad()
def names_itself(model: Reader) -> float:
    """Return the share of places at which the word that stands there scores highest."""
    with torch.random.fork_rng():
        batch = copying(300)
    hits = model(*batch[:3]).argmax(dim=1) == batch.token_ids[batch.read_at]
    return hits.float().mean().item()


def outcome(deviation: float, root: bool) -> tuple[float, str, str, str]:
    """Train the tied model: return its ratio, how it starts, and steps to the next ten.

    It starts by naming the word itself at a share of places, the mean of all seeds, and
    with a loss for each seed. The steps are those of the quickest and slowest seed.
    """
    models = (build_tied(deviation, root, seed) for seed in SEEDS)
    starts, runs = zip(*((names_itself(m), learn(m)) for m in models), strict=True)
    itself = f"{sum(starts) / len(starts):.0%}"
    ratio = deviation * (D**0.5 if root else 1) / PLACE
    first = ", ".join(f"{losses[0]:.0f}" for losses in runs)
    steps = sorted(map(len, runs))
    if steps[0] == STEPS:
        return ratio, itself, first, "never"
    quickest, slowest = steps[0] // 10 * 10, -(-steps[-1] // 10) * 10
    return ratio, itself, first, f"{quickest}–{slowest}"
