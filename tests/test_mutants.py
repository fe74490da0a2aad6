"""The encoder's tests notice every fault on the list in `mutants.py`.

The tests of the suites below are called on each mutant, in this process, until one
fails. `pytest tests/test_mutants.py -s` prints which test that was.
"""

import itertools
import sys
import types
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
    """Yield the arguments of each call that pytest makes of a parametrised test."""
    marks = [mark.args for mark in getattr(test, "pytestmark", [])]
    names = [[name.strip() for name in mark[0].split(",")] for mark in marks]
    for row in itertools.product(*[mark[1] for mark in marks]):
        pairs = zip(names, row, strict=True)
        yield {
            name: value
            for group, values in pairs
            for name, value in zip(group, values if len(group) > 1 else [values])
        }


def load(mutant):
    """Return the module `encoder` with one text replaced."""
    assert SOURCE.count(mutant.before) == 1, f"{mutant.name}: not found exactly once"
    module = types.ModuleType("encoder")
    text = SOURCE.replace(mutant.before, mutant.after)
    exec(compile(text, f"encoder.py, {mutant.name}", "exec"), vars(module))
    return module


def killer(module, monkeypatch):
    """Return the name of the first test that fails on this encoder, or None."""
    monkeypatch.setitem(sys.modules, "encoder", module)
    for suite in SUITES:
        monkeypatch.setattr(suite, "encoder", module)
    for suite in SUITES:
        tests = [each for name, each in vars(suite).items() if name.startswith("test_")]
        for test, arguments in ((t, kwargs) for t in tests for kwargs in calls(t)):
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
    assert killer(load(MUTANTS[0]._replace(after=MUTANTS[0].before)), monkeypatch) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant, monkeypatch):
    test = killer(load(mutant), monkeypatch)
    assert test, f"no test notices: {mutant.name}"
    print(f"\n| {mutant.name} | {test} |", end="")


@pytest.mark.parametrize("mutant, reason", EQUIVALENT, ids=lambda each: str(each[0]))
def test_equivalent_change_is_not_blamed(mutant, reason, monkeypatch):
    assert killer(load(mutant), monkeypatch) is None, reason


def test_no_mutant_is_on_the_list_twice():
    mutants = [*MUTANTS, *(mutant for mutant, _ in EQUIVALENT)]
    assert len({mutant.name for mutant in mutants}) == len(mutants)
    assert len({mutant[1:] for mutant in mutants}) == len(mutants)
    assert len(MUTANTS) >= 30
