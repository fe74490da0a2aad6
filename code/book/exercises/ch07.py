"""Exercises of chapter 7: counting, comparing, sharing, rebuilding."""

from copy import deepcopy
from functools import partial
from itertools import pairwise

import torch
from encoder import EncoderLayer
from torch import Tensor, nn
from torch.nn import functional

from ..pitfalls.masks import MaskNotPassedOn
from .exercise import Exercise, numbers, padding


def parameters(D, F, maps=4, widths=2, norms=4, biases=1, output_bias=1):
    """Count a layer, with a handle for each thing that may be wrong with it."""
    in_attention = maps * (D * D + biases * D)
    in_feed_forward = widths * D * F + biases * (F + output_bias * D)
    return in_attention + in_feed_forward + norms * D


PARAMETERS = Exercise(
    name="parameters",
    call="parameters(d_model, d_ff)",
    reference=parameters,
    cases=lambda: {
        "a width of 64": (64, 256),
        "the widths of the paper": (512, 2048),
        "an unusual pair of widths": (7, 13),
    },
    mutants={
        "You left out the biases.": partial(parameters, biases=0),
        "You left out the norms.": partial(parameters, norms=0),
        "You counted one norm; a layer has two.": partial(parameters, norms=2),
        "You counted three norms; a layer has two.": partial(parameters, norms=6),
        "You counted three maps in attention: the output map is the fourth.": (
            partial(parameters, maps=3)
        ),
        "You counted one matrix in the feed-forward network; it goes up and down.": (
            partial(parameters, widths=1)
        ),
        "You left out the bias of the map down.": partial(parameters, output_bias=0),
        "You left out biases and norms: a good estimate, not a count.": (
            partial(parameters, biases=0, norms=0)
        ),
        "You took F to be four times D.": lambda D, F: parameters(D, 4 * D),
        "You forgot attention.": partial(parameters, maps=0),
        "You forgot the feed-forward network.": lambda D, F: 4 * (D * D + D) + 4 * D,
        "You exchanged D and F.": lambda D, F: parameters(F, D),
    },
)


class Altered(nn.Module):
    """A layer whose output is changed on its way out, by f(output, padding)."""

    def __init__(self, inner, change):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, x, key_padding_mask=None, need_weights=False):
        out, weights = self.inner(x, key_padding_mask, need_weights)
        return self.change(out, key_padding_mask), weights


def clear(out, is_pad):
    return out if is_pad is None else out.masked_fill(is_pad[..., None], 0.0)


def a_layer(make=EncoderLayer, **changes):
    """Return a layer of the chapter's sizes with weights that no start would give."""
    made = make(64, 4, 256, **changes).eval().requires_grad_(False)
    for seed, parameter in enumerate(made.parameters()):
        parameter.copy_(numbers(*parameter.shape, seed=seed) / 8)
    return made


def layer_pairs():
    ours = a_layer()
    copies = {"a copy": deepcopy(ours), "one with query and value exchanged": a_layer()}
    copies["one that does not listen to the mask"] = a_layer(MaskNotPassedOn)
    copies["one in the other order"] = a_layer(norm_first=True)
    copies["one with GELU"] = a_layer(activation=functional.gelu)
    for theirs in copies.values():
        theirs.load_state_dict(ours.state_dict())
    heads = copies["one with query and value exchanged"].attention
    heads.query, heads.value = heads.value, heads.query
    copies["a copy that rounds otherwise"] = Altered(ours, lambda out, _: out + 1e-6)
    copies["a copy that clears the padded places"] = Altered(ours, clear)
    copies["one that is off by 0.01"] = Altered(ours, lambda out, _: out + 0.01)
    return {name: (ours, theirs) for name, theirs in copies.items()}


def same_box(ours, theirs, lengths=(11, 7), near=1e-5, everywhere=False):
    is_pad = padding(*lengths)
    x = numbers(*is_pad.shape, 64)
    one, other = (box(x, is_pad)[0] for box in (ours, theirs))
    read = torch.ones_like(is_pad) if everywhere else ~is_pad
    gap = (one - other)[read].abs()
    return bool(gap.max() <= near)


def same_weights(ours, theirs):
    one, other = ours.state_dict(), theirs.state_dict()
    return one.keys() == other.keys() and all(one[k].equal(other[k]) for k in one)


def same_shape(ours, theirs):
    x = numbers(2, 11, 64)
    return ours(x)[0].shape == theirs(x)[0].shape


SAME_BOX = Exercise(
    name="same_box",
    call="same_box(ours, theirs)",
    reference=same_box,
    cases=layer_pairs,
    mutants={
        "You compare shapes, and all of these layers have the same.": same_shape,
        "You compare weights: what is done with them may differ.": same_weights,
        "Your input has no padding, so nobody has to listen to a mask.": (
            partial(same_box, lengths=(11, 11))
        ),
        "You compare padded places too, and nobody reads those.": (
            partial(same_box, everywhere=True)
        ),
        "You want equal numbers; rounding leaves them a hair apart.": (
            partial(same_box, near=0.0)
        ),
        "You allow a difference that rounding does not make.": partial(
            same_box, near=0.1
        ),
        "You compare the average of the outputs, where differences cancel.": (
            lambda ours, theirs: abs(average(ours) - average(theirs)) < 0.005
        ),
        "You compare the classes.": lambda ours, theirs: type(ours) is type(theirs),
        "You look for the same object.": lambda ours, theirs: ours is theirs,
    },
)


def average(box):
    return box(numbers(2, 11, 64), padding(11, 7))[0].mean().item()


def small_layer(seed):
    made = EncoderLayer(4, 2, 8)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(numbers(*parameter.shape, seed=seed))
    return made


def stacks():
    a, b, c = map(small_layer, (1, 2, 3))
    sharing = small_layer(4)
    for name in ("attention", "feed_forward", "norm1", "norm2"):
        setattr(sharing, name, getattr(a, name))
    lists = {
        "one layer six times": [a] * 6,
        "six copies": [deepcopy(a) for _ in range(6)],
        "three layers that start apart": [a, b, c],
        "a layer that comes back later": [a, b, a],
        "two layers of which one comes twice": [a, b, b],
        "two layers that hold the same parameters": [a, sharing, c],
        "a single layer": [b],
    }
    return {name: (nn.ModuleList(layers),) for name, layers in lists.items()}


def mark(layer):
    return next(layer.parameters())


def separate(stack):
    return len({id(mark(layer)) for layer in stack})


SEPARATE = Exercise(
    name="separate",
    call="separate(stack)",
    reference=separate,
    cases=stacks,
    mutants={
        "You counted the layers, shared or not.": len,
        "You compared values: copies are equal and not the same.": (
            lambda stack: len({str(mark(layer).tolist()) for layer in stack})
        ),
        "You compared each layer with the one before it only.": (
            lambda stack: 1 + sum(mark(a) is not mark(b) for a, b in pairwise(stack))
        ),
        "You compared each layer with the first one only.": (
            lambda stack: 1 + sum(mark(each) is not mark(stack[0]) for each in stack)
        ),
        "You compared layers; two of them may hold the same parameters.": (
            lambda stack: len(set(stack))
        ),
        "You counted parameters; layers were asked for.": (
            lambda stack: len(set(stack.parameters()))
        ),
        "You counted the layers that are shared.": (
            lambda stack: len(stack) - separate(stack)
        ),
        "You counted numbers; layers were asked for.": (
            lambda stack: sum(p.numel() for p in stack.parameters())
        ),
        "You counted names: a shared layer has one for each of its places.": (
            lambda stack: len(stack.state_dict())
        ),
        "You counted one layer whatever came.": lambda stack: 1,
    },
)


def torch_stack(n_layers=3, final_norm=False, **options):
    """Return an encoder of torch's, with weights that no start would give."""
    given = {"dropout": 0.0, "batch_first": True} | options
    layer = nn.TransformerEncoderLayer(15, 3, 23, **given)
    norm = nn.LayerNorm(15) if final_norm else None
    stack = nn.TransformerEncoder(layer, n_layers, norm, enable_nested_tensor=False)
    for seed, parameter in enumerate(stack.parameters()):
        parameter.data = numbers(*parameter.shape, seed=seed) / 4
    return stack.eval().requires_grad_(False)


def torch_stacks():
    encoders = {
        "three Post-LN layers": torch_stack(),
        "two Pre-LN layers and a norm at the end": torch_stack(
            2, final_norm=True, norm_first=True
        ),
        "two layers with GELU": torch_stack(2, activation=functional.gelu),
        "norms with a large epsilon": torch_stack(2, layer_norm_eps=0.5),
    }
    is_pad = padding(7, 4)
    x = numbers(*is_pad.shape, 15)
    return {name: (stack, x, is_pad) for name, stack in encoders.items()}


def run_stack(
    theirs: nn.TransformerEncoder,
    x: Tensor,
    is_pad: Tensor,
    *,
    layers=list,
    change=lambda layer: layer,
    hide=lambda place, is_pad: is_pad,
    last_norm=lambda theirs, x: x if theirs.norm is None else theirs.norm(x),
    cleared=True,
) -> Tensor:
    """Run a stack of torch's by layers of ours, with a handle for each mistake.

    `x` (B, T, D), `is_pad` (B, T). `layers` chooses among the layers, `change` alters
    one that has become ours, `hide` gives the mask that a layer at a place gets.
    """
    out = x
    for place, layer in enumerate(layers(theirs.layers)):
        ours = change(EncoderLayer.from_torch(layer).eval())
        out, _ = ours(out, hide(place, is_pad))
    out = last_norm(theirs, out)
    return out.masked_fill(is_pad[..., None], 0.0) if cleared else out


def changed_layer(**attributes):
    """Return a change of a layer: it sets attributes, at dotted places."""

    def change(layer):
        for place, value in attributes.items():
            part, _, name = place.replace("__", ".").rpartition(".")
            setattr(layer.get_submodule(part), name, value)
        return layer

    return change


def exchanged(one, other):
    """Return a change of a layer: two projections of its attention change places."""

    def change(layer):
        heads = layer.attention
        first, second = getattr(heads, one), getattr(heads, other)
        setattr(heads, one, second)
        setattr(heads, other, first)
        return layer

    return change


def without_biases(layer):
    for name, parameter in layer.named_parameters():
        if name.endswith("bias") and "norm" not in name:
            parameter.data.zero_()
    return layer


def usual_epsilon(layer):
    return changed_layer(norm1__eps=1e-5, norm2__eps=1e-5)(layer)


def bare_norm(theirs, x):
    return functional.layer_norm(x, x.shape[-1:])


RUN_STACK = Exercise(
    name="run_stack",
    call="run_stack(theirs, x, padding)",
    reference=run_stack,
    cases=torch_stacks,
    mutants={
        "You ran the first layer and no other.": partial(
            run_stack, layers=lambda stack: stack[:1]
        ),
        "You gave every layer the weights of the first.": partial(
            run_stack, layers=lambda stack: [stack[0]] * len(stack)
        ),
        "You ran the layers from the last to the first.": partial(
            run_stack, layers=lambda stack: stack[::-1]
        ),
        "You gave the mask to no layer.": partial(
            run_stack, hide=lambda place, is_pad: None
        ),
        "You gave the mask to the first layer only.": partial(
            run_stack, hide=lambda place, is_pad: None if place else is_pad
        ),
        "You turned the mask around: torch, too, means padding by True.": partial(
            run_stack, hide=lambda place, is_pad: ~is_pad
        ),
        "You took every layer for Post-LN: ask its norm_first.": partial(
            run_stack, change=changed_layer(norm_first=False)
        ),
        "You took every layer for Pre-LN: ask its norm_first.": partial(
            run_stack, change=changed_layer(norm_first=True)
        ),
        "You took every activation for ReLU: ask the layer for its own.": partial(
            run_stack, change=changed_layer(feed_forward__activation=functional.relu)
        ),
        "You left epsilon at its usual 1e-5: ask the layer's norms.": partial(
            run_stack, change=usual_epsilon
        ),
        "You left out the norm at the end of the stack.": partial(
            run_stack, last_norm=lambda theirs, x: x
        ),
        "You put a norm at the end of every stack: theirs.norm may be None.": partial(
            run_stack, last_norm=bare_norm
        ),
        "You left out the biases.": partial(run_stack, change=without_biases),
        "You exchanged query and key.": partial(
            run_stack, change=exchanged("query", "key")
        ),
        "You exchanged key and value.": partial(
            run_stack, change=exchanged("key", "value")
        ),
        "You left numbers at the padded places; zeros are wanted there.": partial(
            run_stack, cleared=False
        ),
    },
)
