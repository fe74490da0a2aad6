"""Feed-forward networks that stand alone, each two maps and a bend, in float64.

The rings are two circles of 67 points, one twice as wide as the other. A network is to
tell from a point's two coordinates on which of them it lies.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn


def fit(
    sizes: tuple[int, int, int],
    bend: type[nn.Module],
    loss_of: Callable[[nn.Module], Tensor],
    steps: int,
    rate: float,
) -> nn.Sequential:
    """Train a network as PyTorch starts it; `sizes` is D, F and how many go out."""
    D, F, n_out = sizes
    part = nn.Sequential(nn.Linear(D, F), bend(), nn.Linear(F, n_out)).double()
    optimizer = torch.optim.Adam(part.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(part).backward()
        optimizer.step()
    return part.requires_grad_(False)


def rings() -> tuple[Tensor, Tensor]:
    """Return points (N, 2), and which of them are on the outer ring, (N,) bool."""
    angle = torch.linspace(0, 2 * torch.pi, 68, dtype=torch.float64)[:-1]
    circle = torch.stack((angle.cos(), angle.sin()), dim=1)
    return torch.cat((circle, 2 * circle)), torch.arange(134) >= 67


def separate(
    width: int, bend: type[nn.Module], seed: int
) -> tuple[nn.Sequential, float]:
    """Train a network on the rings; return it, and the share of points it has right."""
    points, outer = rings()
    score = nn.BCEWithLogitsLoss()

    def loss_of(part: nn.Module) -> Tensor:
        return score(part(points)[:, 0], outer.double())

    torch.manual_seed(seed)
    part = fit((2, width, 1), bend, loss_of, steps=400, rate=0.05)
    right = (part(points)[:, 0] > 0) == outer
    return part, right.double().mean().item()


def draw_borders(tried: Sequence[tuple[nn.Module, float]]) -> None:
    """Draw for each of ten networks, with its share, which points it calls outer."""
    from matplotlib import pyplot as plt  # only a plot needs it

    points, outer = rings()
    line = torch.linspace(-2.6, 2.6, 99, dtype=torch.float64)
    plane = torch.cartesian_prod(line, line)  # (99 * 99, 2)
    areas = {"colors": ["#f6dcc8", "#cfe0ee"], "levels": [-1e9, 0, 1e9]}

    _, panels = plt.subplots(2, 5, figsize=(7, 3.2), layout="tight")
    for (part, share), panel in zip(tried, panels.flat, strict=True):
        panel.contourf(line, line, part(plane).reshape(99, 99).T, **areas)
        panel.plot(*points[~outer].T, ".", color="#b04600", markersize=2)
        panel.plot(*points[outer].T, ".", color="#0068a6", markersize=2)
        panel.set(title=f"{share:.0%}", xticks=[], yticks=[], aspect="equal")
