"""What an entry of the catalogue says of a fault, and how its exhibit is built."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from encoder import TransformerEncoder
from torch import Tensor, nn
from torch.nn import functional

from . import measurements
from .parts import REPLACED, Classifier

SIZES = {"vocab_size": 23, "d_model": 20, "n_heads": 5, "d_ff": 44, "n_layers": 3}
LENGTHS = (7, 5, 3, 6)
SIGNS = (
    "it raises an error",
    "nan or inf",
    "it does not learn",
    "it learns, but worse or something else",
    "answers depend on the padding",
    "answers depend on the other samples",
    "answers differ between calls or modes",
    "maps look wrong",
    "parameters are missing or idle",
)


@dataclass(frozen=True)
class Pitfall:
    """A fault: how it shows, why, the line that proves it, its cure, where it was met.

    `sign` is one of SIGNS, `kind` one of the doctor's kinds. `unlike` says why the
    parameters are not those of the right model, where they are not. `uses` are the
    classes that a function puts in a part's place, `call` the options of a call in
    which the fault shows.
    """

    name: str
    kind: str
    sign: str
    symptom: str
    cause: str
    diagnosis: str
    fix: str
    where: str
    change: type[nn.Module] | Callable[[nn.Module], Any]
    unlike: str = ""
    lengths: tuple[int, ...] = LENGTHS
    options: dict[str, Any] = field(default_factory=dict)
    call: dict[str, Any] = field(default_factory=dict)
    uses: tuple[type[nn.Module], ...] = ()

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Return ids (B, T), padded with 0, and the padding (B, T), True = padding."""
        own = torch.Generator().manual_seed(3)
        shape = len(self.lengths), max(self.lengths)
        padding = torch.arange(shape[1]) >= torch.tensor(self.lengths)[:, None]
        return torch.randint(1, 23, shape, generator=own) * ~padding, padding

    def right(self, **sizes: Any) -> nn.Module:
        """Build the right model, in eval mode, the same at every call."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = TransformerEncoder(**SIZES | self.options | sizes)
            if takes_place_of(self.change) is Classifier:
                model = Classifier(model)
        return model.eval()

    def build(self, **sizes: Any) -> nn.Module:
        """Build the broken model from the same weights."""
        model = self.right(**sizes)
        self.apply(model)
        return model

    def apply(self, model: nn.Module) -> None:
        """Turn a right model into the broken one, in place."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            if inspect.isclass(self.change):
                become(model, self.change)
            else:
                self.change(model)

    def healthy(self, model: nn.Module) -> bool:
        """Ask the diagnosis of a model; an error is a no."""
        ids, padding = self.inputs()
        own = torch.Generator().manual_seed(4)
        width = getattr(model, "encoder", model).embedding.weight.shape[1]
        x = torch.randn(*ids.shape, width, generator=own)
        names = {"model": model, "ids": ids, "padding": padding, "x": x}
        names |= vars(measurements) | {"functional": functional}
        try:
            return bool(eval(self.diagnosis, names))
        except Exception:
            return False

    def code(self) -> str:
        """Return the lines of the exhibit, without what is said about it."""
        return "\n\n\n".join(map(bare_source, (self.change, *self.uses)))


COLLECTED: list[Pitfall] = []


def pitfall(**said: Any) -> Callable:
    """Put a class or a function into the catalogue; its name is the exhibit's.

    `said` are the fields of `Pitfall`, less `cause`, which the docstring gives.
    """

    def register(change):
        words = "".join(f" {c}" if c.isupper() else c for c in change.__name__)
        name = words.replace("_", " ").strip().lower()
        cause = " ".join(change.__doc__.split())
        COLLECTED.append(Pitfall(name=name, cause=cause, change=change, **said))
        return change

    return register


def exhibits_of(gallery: ModuleType) -> dict[str, Pitfall]:
    """Return the exhibits of a module by their names, in the order of its lines."""
    own = (case for case in COLLECTED if case.change.__module__ == gallery.__name__)
    return {case.name: case for case in own}


def healthy(**sizes: Any) -> TransformerEncoder:
    """Build the right encoder, in eval mode, the same at every call.

    `sizes` are those of `TransformerEncoder`, in place of the museum's own.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return TransformerEncoder(**SIZES | sizes).eval()


def become(model: nn.Module, change: type[nn.Module]) -> None:
    """Turn every part of which `change` is a subclass into one of that class."""
    for part in model.modules():
        if type(part) is takes_place_of(change):
            part.__class__ = change


def takes_place_of(change: Any) -> type[nn.Module] | None:
    """Return the class of the right model that an exhibit derives from."""
    bases = change.__mro__ if inspect.isclass(change) else ()
    return next((base for base in bases if base in REPLACED), None)


def bare_source(thing: Any) -> str:
    """Return the lines of a class or function, less its decorator and docstring."""
    text = inspect.getsource(thing)
    text = re.sub(r"\A@.*?^(?=class |def )", "", text, flags=re.M | re.S)
    text = text.replace(f'    """{thing.__doc__}"""\n', "", 1).strip()
    return text.replace(":\n\n", ":\n")
