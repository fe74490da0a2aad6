"""The EncoderLab's encoder in torch, to compare with: in steps, and without parts."""

import math
from functools import partial

import torch
from torch.nn import functional

START = ["emma", "ate", "the", "soup", "because", "___", "was", "hungry"]


def without(model, off):
    """Leave parts out of the torch model, each by a patch of a line or two."""
    if "positions" in off:
        model.embed = lambda ids: (
            model.embedding(ids) * math.sqrt(model.embedding.weight.shape[1])
        )
    for number, layer in enumerate(model.layers):
        heads, d_model = layer.attention.n_heads, layer.attention.d_model
        if "scale" in off:  # what the division by sqrt(K) takes, the queries get before
            for parameter in layer.attention.query.parameters():
                parameter.data *= math.sqrt(d_model // heads)
        for head in range(heads):
            if f"layers.{number}.head{head}" in off:
                columns = slice(head * d_model // heads, (head + 1) * d_model // heads)
                layer.attention.output.weight.data[:, columns] = 0
        keep = [f"layers.{number}.residual{n}" not in off for n in (1, 2)]
        layer.forward = partial(layer_with_wires, layer, keep)
    return model


def layer_with_wires(layer, keep, x, key_padding_mask=None, need_weights=False):
    """The layer's forward, with a factor of 0 or 1 on each residual."""
    if layer.norm_first:
        mixed, maps = layer.attention(layer.norm1(x), key_padding_mask, need_weights)
        x = keep[0] * x + mixed
        return keep[1] * x + layer.feed_forward(layer.norm2(x)), maps
    mixed, maps = layer.attention(x, key_padding_mask, need_weights)
    x = layer.norm1(keep[0] * x + mixed)
    return layer.norm2(keep[1] * x + layer.feed_forward(x)), maps


def job_of(model, ids, padding, off):
    """Describe a case for the page: parameters, sizes, sentence and switches."""
    parameters = {name: value.tolist() for name, value in model.state_dict().items()}
    parameters["head.bias"] = [0.0] * len(model.embedding.weight)
    heads, layers = model.layers[0].attention.n_heads, len(model.layers)
    sizes = {"n_heads": heads, "n_layers": layers, "parameters": parameters}
    norm_first = model.layers[0].norm_first
    return {
        "model": sizes,
        "ids": ids,
        "padding": padding,
        "norm_first": norm_first,
        "off": off,
    }


@torch.no_grad()
def outputs(model, job):
    ids, padding = torch.tensor([job["ids"]]), torch.tensor([job["padding"]])
    hidden, maps = model(ids, padding, need_weights=True)
    return hidden[0], [weights[0] for weights in maps]


def record_steps(model, job):
    """Record what the modules of the torch model return, under the page's names."""
    steps = {number: {} for number in range(len(model.layers))}
    paths = {"attention.query": "query", "attention.key": "key", "norm1": "norm1"}
    paths |= {"attention.value": "value", "attention.output": "mixed", "norm2": "norm2"}
    paths |= {"feed_forward.up": "hidden", "feed_forward.down": "fed"}

    def keep(store, name, module, inputs, output):
        value = functional.relu(output) if name == "hidden" else output
        store[name] = value[0].detach()

    for number, layer in enumerate(model.layers):
        for path, name in paths.items():
            hook = partial(keep, steps[number], name)
            layer.get_submodule(path).register_forward_hook(hook)
    outputs(model, job)
    return steps | {"input": model.embed(torch.tensor([job["ids"]]))[0].detach()}
