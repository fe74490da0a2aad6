"""The encoder's tests notice every fault on the list in `mutants.py`.

The tests of the suites below are called on each mutant, in this process, until one
fails. `pytest tests/test_mutants.py -s` prints which test that was.
"""

import itertools
import sys
import types
from collections import ChainMap
from pathlib import Path

import encoder
import pytest
import test_encoder_equations
import test_encoder_input
import test_encoder_masks
import test_encoder_state
import test_encoder_training
import torch
from mutants import EQUIVALENT, MUTANTS

SOURCE = Path(encoder.__file__).read_text(encoding="utf-8")
SUITES = (  # the quickest and strictest first
    test_encoder_equations,
    test_encoder_training,
    test_encoder_input,
    test_encoder_state,
    test_encoder_masks,
)


def calls(test):
    """Yield the keyword arguments of each call that pytest makes of a test."""
    marks = [mark.args for mark in getattr(test, "pytestmark", [])]
    choices = [[named(names, value) for value in values] for names, values in marks]
    for choice in itertools.product(*choices):
        yield dict(ChainMap(*choice))


def named(names, value):
    """Give one row of `parametrize(names, rows)` its names."""
    names = names.split(", ")
    return dict(zip(names, value if len(names) > 1 else [value], strict=True))


def load(source):
    """Return the module `encoder` that this text makes."""
    module = types.ModuleType("encoder")
    exec(compile(source, "mutated encoder.py", "exec"), vars(module))
    return module


def mutated(mutant):
    """Return the text of `encoder.py` with the mutant's change."""
    assert SOURCE.count(mutant.before) == 1, f"not found exactly once: {mutant.name}"
    return SOURCE.replace(mutant.before, mutant.after)


def every_call():
    """Yield each test of the suites with each of its arguments, as pytest does."""
    for suite in SUITES:
        for name, test in list(vars(suite).items()):
            if name.startswith("test_"):
                yield from ((test, arguments) for arguments in calls(test))


def killer(source, monkeypatch):
    """Return the name of the first test that fails on this encoder, or None."""
    module = load(source)
    monkeypatch.setitem(sys.modules, "encoder", module)
    for suite in SUITES:
        monkeypatch.setattr(suite, "encoder", module)
    for test, arguments in every_call():
        torch.manual_seed(0)
        try:
            test(**arguments)
        except (Exception, pytest.fail.Exception):
            return test.__name__
    return None


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small are computed fastest by one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_encoder_itself_passes_every_test(monkeypatch):
    assert killer(SOURCE, monkeypatch) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant, monkeypatch):
    test = killer(mutated(mutant), monkeypatch)
    assert test, f"no test notices: {mutant.name}"
    print(f"\n| {mutant.name} | {test} |", end="")


@pytest.mark.parametrize("mutant", EQUIVALENT, ids=lambda mutant: mutant.name)
def test_equivalent_change_is_not_blamed(mutant, monkeypatch):
    assert killer(mutated(mutant), monkeypatch) is None, mutant.reason


def test_every_block_of_the_list_is_one_change():
    mutants = MUTANTS + EQUIVALENT
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert len({(mutant.before, mutant.after) for mutant in mutants}) == len(mutants)
    assert all(mutant.before != mutant.after for mutant in mutants)
    assert all(mutant.reason for mutant in EQUIVALENT)
