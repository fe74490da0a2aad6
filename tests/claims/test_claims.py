"""A claim is bound to a check that ran: it fails loudly, and keeps its figures."""

import json

import numpy as np
import pytest
import torch
from book.claims import MIME, card, claim, settle


def held(number="A001", check=True, text="Rows sum to one"):
    return claim(number, text, "holds", {"largest error": 1.23456e-7}, check)


def test_a_failed_check_stops_with_the_sentence_and_the_figures():
    with pytest.raises(AssertionError, match="A001 is not holds: Rows.*1.23e-07"):
        held(check=False)


@pytest.mark.parametrize("true", [True, np.bool_(True), torch.tensor(True)])
def test_any_truth_value_will_do_as_a_check(true):
    assert held(check=true).verdict == "holds"


@pytest.mark.parametrize("check", [1, "yes", None, 0.5, torch.tensor(1), [True]])
def test_what_is_no_truth_value_is_refused(check):
    with pytest.raises(TypeError, match="check must be a bool, got"):
        held(check=check)


@pytest.mark.parametrize(
    "measured", [{}, {"hidden": True}, {"hidden": np.bool_(True), "found": "none"}]
)
def test_a_claim_without_a_figure_is_refused(measured):
    with pytest.raises(ValueError, match="A001 wants a figure"):
        claim("A001", "text", "holds", measured, True)


@pytest.mark.parametrize(
    "measured", [{"n": 0}, {"n": torch.tensor(0.5)}, {"who": "3 of 4", "all": False}]
)
def test_a_number_is_a_figure_and_so_is_a_text_that_holds_one(measured):
    assert claim("A001", "text", "holds", measured, True).measured.keys() == {*measured}


def test_depends_names_its_condition_and_nothing_else_does():
    made = claim("A001", "text", "depends", {"n": 1}, True, condition="up to 12 layers")
    assert made.decided() == "depends: up to 12 layers"
    with pytest.raises(ValueError, match="A001.*names a condition; got 'depends'"):
        claim("A001", "text", "depends", {"n": 1}, True)
    with pytest.raises(ValueError, match="names a condition; got 'holds' and 'if'"):
        claim("A001", "text", "holds", {"n": 1}, True, condition="if")


def test_unknown_verdicts_and_doubled_ids_are_refused():
    with pytest.raises(ValueError, match="verdict must be one of .*'maybe'"):
        claim("A001", "text", "maybe", {"n": 1}, True)
    with pytest.raises(ValueError, match="different claims"):
        settle(held(), held())
    with pytest.raises(ValueError, match="one or more"):
        settle()


def test_figures_are_rounded_to_three_digits_whatever_library_made_them():
    values = {"a": 123456.0, "b": torch.tensor(2.34567), "c": np.bool_(False), "d": 7}
    made = claim("A002", "text", "open", values, True)
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


def test_a_card_says_the_claim_what_was_found_and_why():
    made = claim("A001", "<b> is", "depends", {"n": 3}, True, condition="if 2 < 3")
    bundle = card(made, "a < b")._repr_mimebundle_()
    for words in ("&lt;b&gt; is", "≈ depends", "if 2 &lt; 3", "n: 3", "a &lt; b"):
        assert words in bundle["text/html"]
    assert 'id="claim-A001"' in bundle["text/html"]
    assert bundle["text/html"].count("<tr") == 2
    assert bundle["text/plain"].endswith("because a < b")
    assert bundle[MIME] == settle(made)._repr_mimebundle_()[MIME]
    with pytest.raises(ValueError, match="card of A001 wants a reason"):
        card(made, " ")


def test_a_shown_claim_leads_to_its_row_in_the_ledger():
    assert '<a href="ledger.html#A001">A001</a>' in settle(held()).html()
