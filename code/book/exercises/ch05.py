"""Exercises of chapter 5: the norm, how a layer begins, and where the norm stands."""

import math
from functools import cache, partial

import torch
from encoder import EncoderLayer
from torch import nn
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


ADDS = "attention.output.weight", "feed_forward.down.weight"  # the last map of a part
GAINS = "norm1.weight", "norm2.weight"


@cache
def names_of_layer():
    return [name for name, _ in EncoderLayer(6, 2, 10).named_parameters()]


def begins_as_nothing(zeros):
    """Say of the weights that begin at zero: is the layer the identity, who can learn?

    Returns whether only known names are given, whether the layer returns its input, and
    whether a gradient reaches any weight of attention and of the feed-forward network.
    """
    if not set(zeros) <= set(names_of_layer()):
        return (False,)
    torch.manual_seed(0)
    layer = EncoderLayer(6, 2, 10, 0.0, norm_first=True).double()
    for name in zeros:
        nn.init.zeros_(layer.get_parameter(name))
    x, push = numbers(2, 2, 5, 6, dtype=torch.float64)
    out, _ = layer(x)
    (out * push).sum().backward()
    parts = layer.attention, layer.feed_forward
    weights = [[p for p in part.parameters() if p.dim() == 2] for part in parts]
    return True, torch.equal(out, x), *(any(p.grad.any() for p in w) for w in weights)


START_AT_ZERO = Exercise(
    name="start_at_zero",
    call="start_at_zero(names)",
    reference=lambda names: set(ADDS),
    cases=lambda: {"the names of a Pre-LN layer": (names_of_layer(),)},
    judged=begins_as_nothing,
    mutants={
        "With both gains at zero the feed-forward network never learns: it is given "
        "zeros, where ReLU has no slope.": lambda names: set(GAINS),
        "The feed-forward network still speaks.": lambda names: {ADDS[0]},
        "Attention still speaks.": lambda names: {ADDS[1]},
        "At zero, the first map of the feed-forward network hands on zeros, where ReLU "
        "has no slope: it never learns.": (
            lambda names: {ADDS[0], "feed_forward.up.weight"}
        ),
        "Two maps of attention in a row at zero: neither gets a gradient.": (
            lambda names: {*ADDS, "attention.value.weight"}
        ),
        "Both maps of the feed-forward network at zero: neither gets a gradient.": (
            lambda names: {*ADDS, "feed_forward.up.weight"}
        ),
        "Without queries and keys attention still speaks: it takes the mean.": (
            lambda names: {"attention.query.weight", "attention.key.weight", ADDS[1]}
        ),
        "The biases begin at zero already; the weights are what speaks.": (
            lambda names: {name for name in names if name.endswith("bias")}
        ),
        "With everything at zero nothing can learn.": set,
        "A layer without any zero changes its input.": lambda names: set(),
    },
)


BRANCH_FACTOR = Exercise(
    name="branch_factor",
    call="branch_factor(n_layers)",
    reference=lambda n_layers: (2 * n_layers) ** -0.5,
    cases=lambda: {f"{n} layers": (n,) for n in (7, 24, 97)},
    judged=lambda factor: round(float(factor), 9),
    mutants={
        "You counted one addition a layer; there are two.": lambda n: n**-0.5,
        "Variances add, not sizes: this is too quiet.": lambda n: 1 / (2 * n),
        "Variances add, not sizes, and a layer adds twice.": lambda n: 1 / n,
        "Louder with depth: you need one over this.": lambda n: (2 * n) ** 0.5,
        "The root of two layers' additions, whatever the depth.": lambda n: 2**-0.5,
        "Your factor fits 24 layers only.": lambda n: 48**-0.5,
        "A factor of one changes nothing.": lambda n: 1.0,
        "A factor of zero: no part is heard at all.": lambda n: 0.0,
        "The fourth root leaves the stream growing.": lambda n: (2 * n) ** -0.25,
        "Six additions a layer are too many: a layer has two.": lambda n: (
            (6 * n) ** -0.5
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
