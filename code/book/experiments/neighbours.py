"""Small models that name the word before and the word after, with one head or with two.

A sentence is twelve random words out of ten, closed to a ring. A model is an embedding
with positions, one attention, and a reader, which is linear or has a hidden layer.
"""

import torch
from encoder import MultiHeadAttention, sinusoidal_positions
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

V, T, D = 10, 12, 32
READERS = {
    "linear": lambda: nn.Linear(D, 2 * V),
    "hidden layer": lambda: nn.Sequential(
        nn.Linear(D, 4 * D), nn.ReLU(), nn.Linear(4 * D, 2 * V)
    ),
}
BANDS = {0.95: "over 95 %", 0.8: "80 to 95 %", 0.3: "30 to 80 %", -1.0: "under 30 %"}


class Namer(nn.Module):
    """A model with `n_heads` heads and one of the READERS."""

    def __init__(self, n_heads: int, reader: str):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.attend = MultiHeadAttention(D, n_heads)
        self.read = READERS[reader]()

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores (B, T, 2, V) for the word before and the word after."""
        x = self.embed(ids) + sinusoidal_positions(T, D).float()
        return self.read(self.attend(x)[0]).unflatten(-1, (2, V))


def draw(n_rows: int = 32) -> tuple[Tensor, Tensor]:
    """Return random sentences (B, T), and what is to be named, (B, T, 2)."""
    ids = torch.randint(V, (n_rows, T))
    return ids, torch.stack((ids.roll(1, 1), ids.roll(-1, 1)), dim=-1)


def both_named(n_heads: int, reader: str, seed: int, steps: int = 301) -> float:
    """Train a model; return the share of places of its last batch with both right."""
    torch.manual_seed(seed)
    model = Namer(n_heads, reader)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, fused=True)
    right = torch.zeros(())
    for _ in range(steps):
        ids, wanted = draw()
        named = model(ids)
        optimizer.zero_grad()
        cross_entropy(named.flatten(0, 2), wanted.flatten()).backward()
        optimizer.step()
        right = (named.argmax(dim=-1) == wanted).all(dim=-1).float().mean()
    return right.item()


def band(share: float) -> str:
    """Return which of the BANDS a share lies in: the same one on every processor."""
    return next(name for floor, name in BANDS.items() if share > floor)


def three_seeds(n_heads: int, reader: str) -> list[str]:
    """Train from three seeds; return the band of each one's share."""
    return [band(both_named(n_heads, reader, seed)) for seed in range(3)]
