"""The doctor names what is wrong, and keeps quiet on what is right."""

from collections import Counter

import encoder
import pytest
from book.pitfalls import PITFALLS
from doctor_cases import BROKEN, RIGHT
from doctor_cases.parts import PADDING, words
from examinations import CASES, examined, kind_of, kinds_of
from taken_apart.doctor import CHAPTERS, diagnose

# What is seen from a module alone: losses and notebooks are mostly outside of it.
MODULE_KINDS = set(CHAPTERS) - {"loss and training", "notebook / display"}


def share(names, holds):
    return sum(map(holds, names)) / len(names)


def test_all_kinds_have_two_cases():
    count = Counter(map(kind_of, [*BROKEN, *PITFALLS]))
    assert set(count) == set(CHAPTERS)
    assert min(count.values()) >= 2


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_among_the_first_three_findings(name):
    assert kind_of(name) in kinds_of(name)[:3]


def test_nine_of_ten_are_named_first():
    names = [name for name in BROKEN if kind_of(name) in MODULE_KINDS]
    assert share(names, lambda name: kinds_of(name)[0] == kind_of(name)) >= 0.9


def test_most_exhibits_are_named_and_none_is_taken_for_another_kind():
    first = {name: kinds_of(name)[0] for name in PITFALLS if kinds_of(name)}
    assert len(first) >= 0.85 * len(PITFALLS)
    assert first == {name: kind_of(name) for name in first}


@pytest.mark.parametrize("name", [name for name in BROKEN if BROKEN[name].like])
def test_a_fault_is_known_in_other_words_than_the_museums(name):
    like = BROKEN[name].like
    assert kind_of(like) == kind_of(name)
    assert kinds_of(like)[:1] == kinds_of(name)[:1]


@pytest.mark.parametrize("name", RIGHT)
def test_an_unusual_design_that_is_right_gets_no_fault(name):
    assert [finding.title for finding in examined(name).faults] == []


def test_all_right_designs_together_get_one_warning_at_most():
    """One cannot be told from a fault by its call: time first, without a word of it."""
    warned = [name for name in RIGHT if kinds_of(name)]
    assert warned == ["time_first_by_convention"]


@pytest.mark.parametrize(
    "name", ["causal by habit", "heads and width exchanged", "added to the normed"]
)
def test_what_exhibits_are_made_from_gets_no_fault(name):
    case = PITFALLS[name]
    assert diagnose(case.right(), *case.inputs()).faults == []


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_books_own_encoder_is_healthy(norm_first):
    model = encoder.TransformerEncoder(
        23, d_model=20, n_heads=5, d_ff=44, n_layers=2, norm_first=norm_first
    )
    diagnosis = diagnose(model, words(), key_padding_mask=PADDING)
    assert [finding.title for finding in diagnosis if finding.severity != "note"] == []


def test_the_confusion_table_has_its_hits_in_the_first_three():
    """Print with -s which kinds were found for each case: 1 is the first finding."""
    kinds = list(CHAPTERS)
    print("", *(f"{i:2} {kind}" for i, kind in enumerate(kinds, 1)), sep="\n")
    print(f"{'case':40}kind", *(f"{i:2}" for i in range(1, len(kinds) + 1)))
    for name in CASES:
        ranks = {kind: i for i, kind in reversed([*enumerate(kinds_of(name), 1)])}
        cells = [f"{ranks.get(kind, '.'):>2}" for kind in kinds]
        wanted = kind_of(name)
        print(f"{name[:39]:40}{kinds.index(wanted) + 1 if wanted else '-':>4}", *cells)
        assert name not in BROKEN or ranks[wanted] <= 3


def test_faults_come_before_warnings_and_notes():
    order = ["fault", "warning", "note"]
    for name in CASES:
        ranks = [order.index(finding.severity) for finding in examined(name)]
        assert ranks == sorted(ranks)


def test_no_probe_breaks_on_any_case():
    for name in CASES:
        broken = [s for s in examined(name).skipped if "could not be done" in s[1]]
        assert not broken, name


def test_the_number_of_calls_is_bounded():
    assert max(examined(name).forwards for name in CASES) <= 40
