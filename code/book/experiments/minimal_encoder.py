"""The fourth article's training, longer than its 80 steps: first against last token.

    python code/book record-minimal-encoder

trains six seeds in a few minutes and writes `minimal_encoder.json`: of each seed the
mean losses of 20 steps, and the accuracy on unseen sequences after each hundred steps
and after 80. Sizes, rate and batches are the article's: two Post-LN layers of width 64,
four heads, Xavier weights, AdamW at 0.0003, 64 sequences of 12 tokens out of 63.
"""

import json
from pathlib import Path

import torch
from encoder import sinusoidal_positions
from torch import Tensor, nn
from torch.nn import functional

STORED = Path(__file__).with_name("minimal_encoder.json")
SEEDS, STEPS, MEAN = (7, 8, 9, 10, 11, 12), 1200, 20
LOOKS = (80, *range(100, STEPS + 1, 100))  # after so many steps the accuracy is taken


class FirstReads(nn.Module):
    """Two of torch's layers and a head on the first position: ids (B, T) -> (B, 2)."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(64, 64, padding_idx=0)
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 2)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        self.register_buffer("places", sinusoidal_positions(12, 64).float())

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * 8 + self.places
        return self.head(self.layers(x)[:, 0])


def first_last(n_rows: int) -> tuple[Tensor, Tensor]:
    """Draw ids (n, 12) and labels (n,): 1 where the last token equals the first."""
    ids = torch.randint(1, 64, (n_rows, 12))
    same = torch.rand(n_rows) < 0.5
    different = (ids[:, 0] - 1 + torch.randint(1, 63, (n_rows,))) % 63 + 1
    ids[:, -1] = torch.where(same, ids[:, 0], different)
    return ids, same.long()


def run(seed: int, steps: int = STEPS) -> tuple[list[float], dict[int, float]]:
    """Train; return the mean loss of each 20 steps, and the accuracy at each look."""
    torch.manual_seed(0)
    unseen = first_last(4000)
    torch.manual_seed(seed)
    model, losses, seen = FirstReads(), [], {}
    adam = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(1, steps + 1):
        ids, labels = first_last(64)
        loss = functional.cross_entropy(model.train()(ids), labels)
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
        if step in LOOKS:
            seen[step] = accuracy(model.eval(), *unseen)
    means = torch.tensor(losses).unflatten(0, (-1, MEAN)).mean(dim=1)
    return [round(mean, 3) for mean in means.tolist()], seen


@torch.no_grad()
def accuracy(model: nn.Module, ids: Tensor, labels: Tensor) -> float:
    return round((model(ids).argmax(dim=1) == labels).float().mean().item(), 3)


def load() -> dict[int, dict]:
    """Return what is stored: seed -> {"losses": [...], "accuracy": {steps: share}}."""
    stored = json.loads(STORED.read_text())
    return {
        int(seed): {
            "losses": kept["losses"],
            "accuracy": {int(step): share for step, share in kept["accuracy"].items()},
        }
        for seed, kept in stored.items()
    }


def main():
    torch.set_num_threads(1)
    kept = {}
    for seed in SEEDS:
        losses, seen = run(seed)
        kept[seed] = {"losses": losses, "accuracy": seen}
    STORED.write_text(json.dumps(kept) + "\n")
