"""The encoder's tests notice every fault on the list in `mutants.py`.

The tests of the suites below are called on each mutant, in this process, until one
fails. `pytest tests/encoder/test_mutants.py -s` prints which test that was.
"""

import sys

import encoder
import pytest
import test_encoder_bias
import test_encoder_equations
import test_encoder_from_torch
import test_encoder_input
import test_encoder_masks
import test_encoder_state
import test_encoder_training
from mutants import EQUIVALENT, MUTANTS
from mutation import Hunt, list_faults

HUNT = Hunt(
    encoder,
    test_encoder_equations,  # the quickest and strictest first
    test_encoder_training,
    test_encoder_from_torch,
    test_encoder_input,
    test_encoder_masks,
    test_encoder_bias,
    test_encoder_state,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_suite_is_called_with_this_file_s_encoder():
    names = {test.__module__ for test, _ in HUNT.every_call()}
    assert names == {suite.__name__ for suite in HUNT.suites}
    for test, _ in HUNT.every_call():
        assert getattr(sys.modules[test.__module__], test.__name__) is test


def test_the_encoder_itself_passes_every_test(monkeypatch):
    assert HUNT.killer(HUNT.source, monkeypatch) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant, monkeypatch):
    test = HUNT.killer(HUNT.mutated(mutant), monkeypatch)
    assert test, f"no test notices: {mutant.name}"
    print(f"\n| {mutant.name} | {test} |", end="")


@pytest.mark.parametrize("mutant", EQUIVALENT, ids=lambda mutant: mutant.name)
def test_equivalent_change_is_not_blamed(mutant, monkeypatch):
    assert HUNT.killer(HUNT.mutated(mutant), monkeypatch) is None, mutant.reason


def test_every_block_of_the_list_is_one_change():
    assert list_faults(MUTANTS, EQUIVALENT) == []
