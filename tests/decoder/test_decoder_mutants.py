"""The decoder's tests notice every fault on the list in `decoder_mutants.py`.

The tests of the suites below are called on each mutant, in this process, until one
fails. `pytest tests/decoder/test_decoder_mutants.py -s` prints which test that was.
"""

import decoder
import pytest
import test_decoder_cache
import test_decoder_from_torch
import test_decoder_input
import test_decoder_masks
import test_decoder_writing
from decoder_mutants import EQUIVALENT, MUTANTS
from mutation import Hunt, list_faults

HUNT = Hunt(
    decoder,
    test_decoder_from_torch,
    test_decoder_masks,
    test_decoder_writing,
    test_decoder_input,
    test_decoder_cache,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_decoder_itself_passes_every_test(monkeypatch):
    names = {test.__module__ for test, _ in HUNT.every_call()}
    assert names == {suite.__name__ for suite in HUNT.suites}
    assert HUNT.killer(HUNT.source, monkeypatch) is None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_decoder_mutant_is_killed(mutant, monkeypatch):
    test = HUNT.killer(HUNT.mutated(mutant), monkeypatch)
    assert test, f"no test notices: {mutant.name}"
    print(f"\n| {mutant.name} | {test} |", end="")


@pytest.mark.parametrize("mutant", EQUIVALENT, ids=lambda mutant: mutant.name)
def test_equivalent_change_of_the_decoder_is_not_blamed(mutant, monkeypatch):
    assert HUNT.killer(HUNT.mutated(mutant), monkeypatch) is None, mutant.reason


def test_every_block_of_the_decoder_s_list_is_one_change():
    assert list_faults(MUTANTS, EQUIVALENT) == []
