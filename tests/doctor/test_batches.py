"""Batches of public reports: what was found at first is found still."""

import pytest
from batches import FIRST, FIRST_RUN, MISSED
from taken_apart.doctor import diagnose


def kinds_found(name, cured):
    module, inputs, kwargs = FIRST[name].build(cured)
    diagnosis = diagnose(module, *inputs, **kwargs)
    return [finding.kind for finding in diagnosis if finding.severity != "note"]


@pytest.mark.parametrize("name", FIRST)
def test_a_report_is_named_first_if_it_is_not_missed_and_its_twin_is_clear(name):
    found = kinds_found(name, cured=False)
    assert (found[:1] == [FIRST[name].kind]) is (name not in MISSED)
    assert kinds_found(name, cured=True) == []


def test_the_first_run_tells_of_all():
    assert FIRST_RUN.keys() == FIRST.keys()
    assert len(FIRST) == 10
    assert sum(map(bool, FIRST_RUN.values())) == 7  # as the evidence page says
    assert len(MISSED) == 1
