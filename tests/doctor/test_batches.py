"""Batches of public reports: what was found at first is found still."""

import pytest
from batches import FIRST, FIRST_RUN
from taken_apart.doctor import diagnose


def kinds_found(name, cured):
    module, inputs, kwargs = FIRST[name].build(cured)
    diagnosis = diagnose(module, *inputs, **kwargs)
    return [finding.kind for finding in diagnosis if finding.severity != "note"]


@pytest.mark.parametrize("name", FIRST)
def test_a_report_is_named_first_and_its_cured_twin_is_clear(name):
    found = kinds_found(name, cured=False)
    assert not FIRST_RUN[name] or found[:1] == [FIRST[name].kind]
    assert kinds_found(name, cured=True) == []


def test_the_first_run_tells_of_all():
    assert FIRST_RUN.keys() == FIRST.keys()
    assert len(FIRST) == 10
