"""Exercises of chapter 5: the norm, and where it stands."""

import math
from functools import partial

import torch
from torch.nn import functional

from .exercise import Exercise, numbers


def norm(x, eps, dim=-1, divisor=lambda size: size, centre=True, power=0.5):
    """LayerNorm, with a handle for each thing that may be wrong with it."""
    size = math.prod(x.shape[d] for d in (dim if isinstance(dim, tuple) else (dim,)))
    centred = x - x.mean(dim=dim, keepdim=True)
    squares = (centred if centre else x).square().sum(dim=dim, keepdim=True)
    variance = squares / divisor(size)
    return (centred if centre else x) / (variance + eps) ** power


def spread(x):
    return x.std(dim=-1, keepdim=True, correction=0)


def norm_cases():
    x = numbers(2, 5, 13, dtype=torch.float64)
    return {
        "a plain batch": (x, 1e-5),
        "numbers around 100": (x + 100, 1e-5),
        "numbers near zero": (x / 1000, 1e-5),
        "a large eps": (x, 0.1),
        "tokens of equal numbers": (torch.full_like(x, 2.0), 1e-5),
    }


LAYER_NORM = Exercise(
    name="layer_norm",
    call="layer_norm(x, eps)",
    reference=lambda x, eps: functional.layer_norm(x, x.shape[-1:], eps=eps),
    cases=norm_cases,
    mutants={
        "You divided the variance by D - 1; LayerNorm divides by D.": (
            partial(norm, divisor=lambda size: size - 1)
        ),
        "You did not divide the sum of squares by D.": (
            partial(norm, divisor=lambda size: 1)
        ),
        "You put eps outside the root; it is added to the variance.": (
            lambda x, eps: (x - x.mean(dim=-1, keepdim=True)) / (spread(x) + eps)
        ),
        "You left eps out: a token of equal numbers is divided by zero.": (
            lambda x, eps: norm(x, 0.0)
        ),
        "You did not use the eps that was given.": lambda x, eps: norm(x, 1e-5),
        "You did not take the mean off: this is RMSNorm.": partial(norm, centre=False),
        "You took the mean off and did not divide.": (
            lambda x, eps: x - x.mean(dim=-1, keepdim=True)
        ),
        "You divided by the variance; its root is wanted.": partial(norm, power=1),
        "You took the mean over the tokens; each token has its own.": (
            partial(norm, dim=-2)
        ),
        "You took the mean over the batch: that is near BatchNorm.": (
            partial(norm, dim=(0, 1))
        ),
        "You took one mean for all tokens of a sentence.": partial(norm, dim=(1, 2)),
        "You divided, and forgot that the mean goes off first.": (
            lambda x, eps: x / (spread(x) ** 2 + eps).sqrt()
        ),
    },
)


def layer(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        x = x + attend(norm1(x))
        return x + feed(norm2(x))
    x = norm1(x + attend(x))
    return norm2(x + feed(x))


def with_order(order):
    return lambda *args: layer(*args[:-1], order(args[-1]))


def without_residual(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return feed(norm2(attend(norm1(x))))
    return norm2(feed(norm1(attend(x))))


def residual_behind_the_norm(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return layer(x, attend, feed, norm1, norm2, True)
    x = x + norm1(attend(x))
    return x + norm2(feed(x))


def residual_of_the_normed(x, attend, feed, norm1, norm2, norm_first):
    if not norm_first:
        return layer(x, attend, feed, norm1, norm2, False)
    x = norm1(x)
    x = norm2(x + attend(x))
    return x + feed(x)


def side_by_side(x, attend, feed, norm1, norm2, norm_first):
    if norm_first:
        return x + attend(norm1(x)) + feed(norm2(x))
    return norm2(norm1(x + attend(x)) + feed(x))


def affine(n_in, n_out, seed):
    """Return a linear map with a bias that is not zero."""
    weight, bias = numbers(n_out, n_in, seed=seed), numbers(n_out, seed=seed + 1)
    return lambda x: functional.linear(x, weight.to(x), bias.to(x))


def two_maps(d_model, d_ff):
    return affine(d_model, d_ff, seed=2), affine(d_ff, d_model, seed=4)


def layer_cases():
    gains = [numbers(7, seed=seed).exp() for seed in (2, 4, 6, 8)]
    norm1 = partial(scaled_norm, gain=gains[0], shift=gains[1])
    norm2 = partial(scaled_norm, gain=gains[2], shift=gains[3])
    mixing, up, down = numbers(5, 5, seed=3), *two_maps(7, 11)
    parts = (lambda x: mixing @ x), (lambda x: down(up(x).relu())), norm1, norm2
    x = numbers(2, 5, 7)
    return {"Post-LN": (x, *parts, False), "Pre-LN": (x, *parts, True)}


def scaled_norm(x, gain, shift):
    return functional.layer_norm(x, x.shape[-1:]) * gain + shift


ENCODER_LAYER = Exercise(
    name="encoder_layer",
    call="encoder_layer(x, attend, feed, norm1, norm2, norm_first)",
    reference=layer,
    cases=layer_cases,
    mutants={
        "You built Post-LN both times.": with_order(lambda norm_first: False),
        "You built Pre-LN both times.": with_order(lambda norm_first: True),
        "You exchanged Post-LN and Pre-LN.": with_order(
            lambda norm_first: not norm_first
        ),
        "You left out both residuals.": without_residual,
        "In Post-LN you normed the part; the sum is normed.": residual_behind_the_norm,
        "In Pre-LN you added the normed tokens; the bare ones are added.": (
            residual_of_the_normed
        ),
        "The feed-forward network got the layer's input, not what attention left.": (
            side_by_side
        ),
        "The feed-forward network came first.": (
            lambda x, attend, feed, *rest: layer(x, feed, attend, *rest)
        ),
        "You exchanged the two norms.": (
            lambda x, attend, feed, norm1, norm2, first: layer(
                x, attend, feed, norm2, norm1, first
            )
        ),
        "You used the first norm twice.": (
            lambda x, attend, feed, norm1, norm2, first: layer(
                x, attend, feed, norm1, norm1, first
            )
        ),
        "You normed the output of Pre-LN: the last norm belongs to the stack.": (
            lambda x, attend, feed, norm1, norm2, first: (
                norm2(layer(x, attend, feed, norm1, norm2, first))
                if first
                else layer(x, attend, feed, norm1, norm2, first)
            )
        ),
        "You left out attention.": (
            lambda x, attend, *rest: layer(x, torch.zeros_like, *rest)
        ),
    },
)
