"""Exhibits of parameters that are not registered, shared, or cut off."""

from copy import deepcopy

from encoder import TransformerEncoder
from torch import nn

from .catalogue import pitfall


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="print(model) shows all layers; the parameters are those of one",
    diagnosis="len({id(layer) for layer in model.layers}) == len(model.layers)",
    fix="nn.ModuleList(EncoderLayer(...) for _ in range(n_layers))",
    where="espnet/espnet#1278, datawhalechina/learn-nlp-with-transformers#56",
    unlike="all of its layers are the first",
)
def one_layer_many_times(model):
    """[layer] * n repeats a reference, not a layer."""
    model.layers = nn.ModuleList([model.layers[0]] * len(model.layers))


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="The layers are not trained, not saved, and eval() does not reach them",
    diagnosis="'layers.0.norm1.weight' in model.state_dict()",
    fix="nn.ModuleList(layers)",
    where="maruya24/pytorch_robotics_transformer#3, pytorch/pytorch#666",
    unlike="the model does not know its layers",
)
def layers_in_a_list(model):
    """A Python list hides its modules from the module that holds it."""
    layers = list(model.layers)
    del model.layers
    model.layers = layers


@pitfall(
    kind="registration / sharing",
    sign="it learns, but worse or something else",
    symptom="Layers start with equal numbers",
    diagnosis="largest(*(layer.norm1.weight + layer.attention.query.weight"
    " for layer in model.layers[:2])) > 0",
    fix="draw the matrices anew after copying",
    where="pytorch/pytorch#72253, harvardnlp/annotated-transformer#9",
    unlike="its layers have the first one's numbers",
)
def layers_that_start_alike(model):
    """One layer was built and copied, first values and all."""
    copies = [deepcopy(model.layers[0]) for _ in model.layers]
    model.layers = nn.ModuleList(copies)


class Carried(nn.Module):
    """Positions without a buffer."""

    def forward(self, x):
        return x + self.table[: x.shape[1]]


@pitfall(
    kind="registration / sharing",
    sign="it raises an error",
    symptom="An error of devices or types when the model has been moved",
    diagnosis="'table' in dict(model.positions.named_buffers())",
    fix="register_buffer('table', table, persistent=False)",
    where="no number known: self.table = table, and then model.cuda()",
    uses=(Carried,),
)
def table_not_registered(model):
    """The table is a plain attribute, and stays where it was made."""
    table = model.positions.table
    model.positions = Carried()
    model.positions.table = table


@pitfall(
    kind="registration / sharing",
    sign="parameters are missing or idle",
    symptom="Layers have attentions of their own, and all but one get no gradient",
    diagnosis="idle(model, ids, padding) == []",
    fix="a method that uses self, not a function that remembers one object",
    where="open-mmlab/mmcv PR#1418",
)
def copies_that_call_the_first(model):
    """A function remembers the first layer's attention, and copies keep calling it."""
    remembered = model.layers[0].attention.forward
    for layer in model.layers[1:]:
        layer.attention.forward = remembered


@pitfall(
    kind="loss and training",
    sign="parameters are missing or idle",
    symptom="The embedding never changes, and all else trains",
    diagnosis="idle(model, ids, padding) == []",
    fix="no detach, .data, numpy or no_grad on the way from ids to loss",
    where="the missing gradient that the sources explain by requires_grad alone",
)
class GradientCut(TransformerEncoder):
    """detach() lets numbers through and stops gradients."""

    def embed(self, token_ids):
        return super().embed(token_ids).detach()
