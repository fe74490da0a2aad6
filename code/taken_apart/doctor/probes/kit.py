"""How a probe is made: what it needs, what it finds. The list is in `probes.py`."""

import functools
import math
import os

from torch.overrides import TorchFunctionMode

from ..exam import Finding, differ

NEEDS = {
    "run": lambda exam: "the call raised" if exam.raised else "",
    "root": lambda exam: "" if exam.root is not None else "it is no nn.Module",
    "attentions": lambda exam: "" if exam.attentions else "no softmax weighs values",
    "sequence": lambda exam: "" if exam.sequence else "no input looks like tokens",
    "samples": lambda exam: (
        "" if exam.samples and exam.samples.n_samples > 1 else "there is no batch"
    ),
    "batch": lambda exam: (
        "" if exam.sequence.n_samples > 1 else "the batch holds one sample"
    ),
    "pads": lambda exam: "" if exam.pads is not None else "the inputs have no padding",
    "output": lambda exam: "" if exam.outputs else "it returns no floating tensor",
    "numbers": lambda exam: "it is on meta: no numbers" if exam.on_meta else "",
}


def probe(*needs, costly=False):
    """Make a probe of a function: it runs where all its NEEDS are met."""

    def make(function):
        @functools.wraps(function)
        def run(exam):
            return list(function(exam) or [])

        run.needs = lambda exam: next(filter(None, (NEEDS[n](exam) for n in needs)), "")
        run.costly = costly
        return run

    return make


def found(kind, severity, title, evidence, fix="", row=None) -> Finding:
    return Finding(kind, severity, title, evidence, place(row), fix)


def place(row) -> str:
    if row is None or not row.file:
        return ""
    return f"{os.path.basename(row.file)}:{row.line}  {row.code}"


def size(tensor) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def equal(left, right) -> bool:
    return left.shape == right.shape and not differ(left, right).any()


def apart(left, right) -> float:
    """Return how far outputs lie apart, 0 where they agree up to rounding."""
    if [t.shape for t in left] != [t.shape for t in right]:
        return math.inf
    far = [(a - b).abs().max().item() for a, b in zip(left, right) if a.numel()]
    moved = any(bool(differ(a, b).any()) for a, b in zip(left, right))
    return max(far, default=0.0) if moved else 0.0


class NoDropout(TorchFunctionMode):
    """Run torch without dropout, so that train and eval can be compared."""

    PLACE = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if "dropout" in name and args:
            return args[0]
        place = self.PLACE.get(name, len(args))
        if place < len(args):
            args = (*args[:place], 0.0, *args[place + 1 :])
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def without_dropout(call, *args, **kwargs):
    with NoDropout():
        return call(*args, **kwargs)
