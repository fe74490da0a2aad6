"""What the letters of a trace stand for, in right encoders of public designs."""

import re

import pytest
import torch
from architectures import DESIGNS
from taken_apart.tracer import trace
from taken_apart.tracer.axis_texts import LEGEND


@pytest.fixture(scope="module", params=DESIGNS)
def design(request):
    torch.manual_seed(0)
    module, inputs, wanted = DESIGNS[request.param]()
    return trace(module, *inputs), inputs, wanted


def test_letters_stand_for_what_the_design_means(design):
    t, inputs, wanted = design
    assert t.sizes | wanted.sizes == t.sizes
    for op, n, axes in wanted.places:
        rows = [row for row in t.rows if row.op == op.removeprefix(">")]
        shape = rows[n].inputs[0] if op.startswith(">") else rows[n].outputs[0]
        assert shape.axes == axes, op
    shapes = (shape for row in t.rows for shape in row.inputs)
    first = next(shape for shape in shapes if shape == inputs[0].shape)
    for size, axis in zip(first, first.axes, strict=True):
        if size in wanted.plain:
            assert not set(LEGEND) & set(re.findall(r"[A-Za-z]+", axis))


def test_verified_letters_are_those_that_had_other_sizes(design):
    t, _, wanted = design
    tested, _, rest = t.naming.partition(". By equal numbers only: ")
    runs = [dict(re.findall(r"(\w+)=(\d+)", run)) for run in tested.split("; ")]
    assert [*filter(None, rest.split(", "))] == [*wanted.numbers]
    assert runs[0].keys() == runs[1].keys() == t.sizes.keys() - set(wanted.numbers)
    for letter in runs[0]:
        assert t.sizes[letter] not in {int(run[letter]) for run in runs}
