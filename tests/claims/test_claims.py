"""A claim is bound to a check that ran: it fails loudly, and keeps its figures."""

import json

import numpy as np
import pytest
import torch
from book.claims import MIME, claim, fact, settle


def held(id="A001", check=True, text="Rows sum to one"):
    return claim(id, text, "holds", {"largest error": 1.23456e-7}, check)


def test_a_failed_check_stops_with_the_sentence_and_the_figures():
    with pytest.raises(AssertionError, match="A001 is not holds: Rows.*1.23e-07"):
        held(check=False)


def test_a_fact_is_measured_by_its_own_check():
    made = fact("A003", "Masks hide", "holds", "hidden", torch.tensor(True))
    assert made.evidence() == "hidden: yes"
    with pytest.raises(AssertionError, match="A003 is not holds.*hidden: no"):
        fact("A003", "Masks hide", "holds", "hidden", False)


@pytest.mark.parametrize("true", [True, np.bool_(True), torch.tensor(True)])
def test_any_truth_value_will_do_as_a_check(true):
    assert held(check=true).verdict == "holds"


@pytest.mark.parametrize("check", [1, "yes", None, 0.5, torch.tensor(1), [True]])
def test_what_is_no_truth_value_is_refused(check):
    with pytest.raises(TypeError, match="check must be a bool, got"):
        held(check=check)


def test_unknown_verdicts_missing_figures_and_doubled_ids_are_refused():
    with pytest.raises(ValueError, match="verdict must be one of .*'maybe'"):
        claim("A001", "text", "maybe", {"n": 1}, True)
    with pytest.raises(ValueError, match="wants a measured value"):
        claim("A001", "text", "holds", {}, True)
    with pytest.raises(ValueError, match="different claims"):
        settle(held(), held())
    with pytest.raises(ValueError, match="one or more"):
        settle()


def test_figures_are_rounded_to_three_digits_whatever_library_made_them():
    values = {"a": 123456.0, "b": torch.tensor(2.34567), "c": np.bool_(False), "d": 7}
    made = claim("A002", "text", "depends", values, True)
    assert made.evidence() == "a: 123000; b: 2.35; c: no; d: 7"


def test_the_table_holds_hostile_text_as_text_and_the_data_survives_json():
    settled = settle(held(), held("A002", text="<script>x</script> & 'more'"))
    bundle = settled._repr_mimebundle_()
    assert "<script>" not in bundle["text/html"]
    assert 'id="claim-A002"' in bundle["text/html"]
    data = json.loads(json.dumps(bundle[MIME]))
    assert [c["id"] for c in data["claims"]] == ["A001", "A002"]
    assert data["claims"][0]["measured"] == [["largest error", 1.23e-7]]
    assert bundle["text/plain"].splitlines()[0].startswith("A001 holds: Rows sum")
