"""The encoder's tests notice every fault on the list in `mutants.py`.

The tests of the suites below are called on each mutant, in this process, until one
fails. `pytest tests/encoder/test_mutants.py -s` prints which test that was.
"""

import functools
import sys
import types
from pathlib import Path

import encoder
import pytest
import test_encoder_bias
import test_encoder_equations
import test_encoder_from_torch
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
    test_encoder_from_torch,
    test_encoder_input,
    test_encoder_masks,
    test_encoder_bias,
    test_encoder_state,
)


def load(source):
    """Return the module `encoder` that this text makes."""
    module = types.ModuleType("encoder")
    exec(compile(source, "mutated encoder.py", "exec"), vars(module))
    return module


def mutated(mutant):
    """Return the text of `encoder.py` with the mutant's change."""
    assert SOURCE.count(mutant.before) == 1, f"not found exactly once: {mutant.name}"
    return SOURCE.replace(mutant.before, mutant.after)


class Collected:
    """A plugin that keeps what pytest finds."""

    def pytest_collection_modifyitems(self, items):
        self.items = items


@functools.cache
def every_call():
    """Return each test of the suites with each of its arguments, as pytest finds them.

    A test that wants a fixture could not be called here, so there is to be none.
    """
    found = Collected()
    files = [suite.__file__ for suite in SUITES]
    quiet = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
    assert pytest.main([*quiet, *files], plugins=[found]) == pytest.ExitCode.OK
    calls = []
    for item in found.items:
        arguments = item.callspec.params if hasattr(item, "callspec") else {}
        fixtures = set(item.fixturenames) - set(arguments)
        assert not fixtures, f"{item.nodeid} wants {fixtures}"
        calls.append((item.obj, arguments))
    return calls


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


def test_every_suite_is_called_with_this_file_s_encoder():
    names = {test.__module__ for test, _ in every_call()}
    assert names == {suite.__name__ for suite in SUITES}
    for test, _ in every_call():
        assert getattr(sys.modules[test.__module__], test.__name__) is test


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
