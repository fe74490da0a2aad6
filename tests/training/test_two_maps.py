"""Promises of the feed-forward networks that stand alone, and of their rings."""

import pytest
import torch
from book.experiments import two_maps
from matplotlib import pyplot
from torch import nn


def test_a_network_has_the_sizes_and_the_bend_asked_for_and_learns():
    torch.manual_seed(0)
    x = torch.randn(11, 5, dtype=torch.float64)

    def loss_of(part):
        return (part(x) - x[:, :3]).square().mean()

    fresh, fitted = (
        two_maps.fit((5, 7, 3), nn.GELU, loss_of, steps, rate=0.05)
        for steps in (0, 200)
    )
    assert [tuple(p.shape) for p in fitted.parameters()] == [(7, 5), (7,), (3, 7), (3,)]
    assert isinstance(fitted[1], nn.GELU)
    assert not any(p.requires_grad for p in fitted.parameters())
    assert loss_of(fitted) < loss_of(fresh) / 10


def test_the_outer_ring_is_twice_the_inner_one():
    points, outer = two_maps.rings()
    assert len(points.unique(dim=0)) == 134
    inner = torch.ones(67, dtype=torch.float64)
    torch.testing.assert_close(points[~outer].norm(dim=1), inner)
    torch.testing.assert_close(points[outer], 2 * points[~outer])


def test_the_share_is_that_of_the_network_returned():
    points, outer = two_maps.rings()
    part, share = two_maps.separate(3, nn.ReLU, seed=1)
    right = [part(points[i]).item() > 0 for i in range(134)]
    assert share == (torch.tensor(right) == outer).double().mean()
    again, _ = two_maps.separate(3, nn.ReLU, seed=1)
    assert torch.equal(part[0].weight, again[0].weight)


def test_each_network_is_drawn_under_its_share_with_its_outer_points_shaded():
    half_plane = nn.Linear(2, 1).double().requires_grad_(False)
    half_plane.weight[:] = torch.tensor([[1.0, 0.0]])  # outer is where x > 0
    half_plane.bias[:] = 0.0
    shares = [tenth / 10 for tenth in range(10)]
    two_maps.draw_borders([(half_plane, share) for share in shares])

    panels = pyplot.gcf().axes
    assert [panel.get_title() for panel in panels] == [f"{s:.0%}" for s in shares]
    inner, outer = panels[3].collections[0].get_paths()
    assert inner.get_extents().bounds == pytest.approx((-2.6, -2.6, 2.6, 5.2))
    assert outer.get_extents().bounds == pytest.approx((0, -2.6, 2.6, 5.2))
    pyplot.close()
