"""Modules that do what no module should, in all that an examination relies on."""

import copy

import torch
from doctor_cases.parts import Heads, Layer, Reader, tokens, torch_layer
from torch import nn


class Endless(nn.Module):
    def forward(self, x):
        return self(x)


class Hidden(Heads):
    def __repr__(self):
        raise RuntimeError("no")

    def __deepcopy__(self, memo):
        raise RuntimeError("nor this")


class Silent(nn.Module):
    def forward(self, x):
        return None


class Leaving(nn.Module):
    def forward(self, x):
        raise SystemExit(3)


class Writer(Heads):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def forward(self, x):
        self.path.write_text("written")
        print("written")
        return super().forward(x)


class Secretive(nn.Module):
    def __getattr__(self, name):
        raise RuntimeError(name)

    def forward(self, x):
        return x


class Growing(Heads):
    """Gains a module and loses its output map, at each call."""

    def forward(self, x):
        out = super().forward(x)
        self.add_module(f"more{len(self._modules)}", nn.Linear(2, 3))
        del self.to_out
        return out


class Global(Heads):
    """Changes what all modules share."""

    def forward(self, x):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1 + torch.get_num_threads())
        return super().forward(x)


HOSTILE = {
    "secretive": lambda: (Secretive(), tokens()),
    "growing": lambda: (Growing(), tokens()),
    "global": lambda: (Global(), tokens()),
    "endless": lambda: (Endless(), tokens()),
    "hidden": lambda: (Hidden(), tokens()),
    "silent": lambda: (Silent(), tokens()),
    "leaving": lambda: (Leaving(), tokens()),
    "on meta": lambda: (copy.deepcopy(Layer()).to("meta"), tokens().to("meta")),
    "without parameters": lambda: (nn.Identity(), tokens()),
    "a function": lambda: (torch.softmax, tokens(), -1),
    "a lambda": lambda: (lambda x: x.sum(), tokens()),
    "no input": lambda: (Silent(),),
    "wrong input": lambda: (Layer(), "words"),
    "empty": lambda: (Reader(), torch.zeros(0, 7, dtype=torch.long)),
    "one token": lambda: (Layer(), tokens(3, 1, 20)),
    "one sample": lambda: (Layer(), tokens(1, 7, 20)),
    "no batch": lambda: (torch_layer(), tokens(7, 20)),
    "nested": lambda: (lambda x: {"a": [x, (x, None)]}, tokens()),
    "nan": lambda: (Layer(), tokens() * torch.nan),
    "scripted": lambda: (torch.jit.script(nn.Linear(20, 3)), tokens()),
}
