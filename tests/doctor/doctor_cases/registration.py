"""What a module owns: registered, shared, copied, unused."""

import copy

import torch
from torch import nn

from .parts import (
    B,
    D,
    Heads,
    Layer,
    Patches,
    Reader,
    broken,
    right,
    tokens,
    torch_layer,
    words,
)

# --- registration / sharing -----------------------------------------------------------


@broken("registration / sharing", like="layers in a list")
def layers_in_a_list():
    class Wrong(Reader):
        def __init__(self):
            super().__init__()
            del self.layers
            self.layers = [Layer() for _ in range(2)]

    return Wrong(), (words(),), {}


@broken("registration / sharing")
def heads_in_a_dict():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.parts = {"up": nn.Linear(D, 44), "down": nn.Linear(44, D)}
            del self.ff

        def ff(self, x):
            return self.parts["down"](self.parts["up"](x).relu())

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def layer_made_in_forward():
    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + self.attention(x, pad))
            return nn.Linear(D, D)(x)

    return Wrong(), (tokens(),), {}


@broken("registration / sharing", like="layers that start alike")
def copies_of_one_start():
    layer = torch_layer()
    return nn.Sequential(*(copy.deepcopy(layer) for _ in range(3))), (tokens(),), {}


@broken("registration / sharing")
def parameters_in_a_list():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.gains = [nn.Parameter(torch.ones(D)) for _ in range(2)]

        def forward(self, x, pad=None):
            return super().forward(x * self.gains[0], pad) * self.gains[1]

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def attention_of_another_module():
    shared = Heads()

    class Wrong(Layer):
        def forward(self, x, pad=None):
            x = self.norm1(x + shared(x, pad))
            return self.norm2(x + self.ff(x))

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def parts_made_before_the_module():
    class Wrong(nn.Module):
        def __init__(self):
            self.layer = Layer()
            super().__init__()

    return lambda: (Wrong(), (tokens(),)), (), {}


@broken("registration / sharing")
def parameter_made_in_forward():
    class Wrong(Layer):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(D))

        def forward(self, x, pad=None):
            self.gain = nn.Parameter(torch.ones(D))
            return super().forward(x * self.gain, pad)

    return Wrong(), (tokens(),), {}


@broken("registration / sharing")
def first_token_that_nothing_reads():
    class Wrong(Patches):
        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(torch.zeros(1, 1, D))

    return Wrong(), (tokens(B, 3, 12, 20),), {}


# --- right, though unusual ------------------------------------------------------------


@right
def one_block_four_times():
    class Right(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = torch_layer(norm_first=True)

        def forward(self, x):
            for _ in range(4):
                x = self.block(x)
            return x

    return Right(), (tokens(),), {}


@right
def one_table_in_and_out():
    class Right(Reader):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(D, 23)
            self.head.weight = self.emb.weight

    return Right(), (words(),), {}
