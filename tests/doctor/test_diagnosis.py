"""What a diagnosis says, and how a probe is added."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from doctor_cases import RIGHT
from doctor_cases.parts import Heads, Reader, tokens, words
from examinations import built, examined, kinds_of
from taken_apart import doctor
from taken_apart.doctor import CHAPTERS, Finding, diagnose
from taken_apart.doctor.probes.kit import found, probe
from torch import nn


def test_a_finding_has_numbers_a_line_a_cure_and_a_chapter():
    finding = examined("scaled_by_the_model")[0]
    assert "0.2236" in finding.evidence
    assert "0.5" in finding.evidence
    assert finding.where.startswith("softmax.py:")
    assert "D**-0.5" in finding.where
    assert finding.fix == "divide by sqrt(4), once"
    assert finding.chapter == "02_attention"


def test_every_kind_leads_to_a_chapter_that_is_there():
    chapters = Path(__file__).parents[2] / "chapters"
    missing = [c for c in CHAPTERS.values() if not (chapters / f"{c}.ipynb").exists()]
    assert missing == []


def test_a_call_that_raises_gives_the_line_and_the_cause():
    finding = examined("too_few_axes")[0]
    assert "masked_fill" in finding.title
    assert "masked_fill(pad" in finding.where
    assert "mask[:, None, None]" in finding.fix


def test_a_function_that_builds_is_called_and_its_error_is_a_finding():
    assert kinds_of("cosines_do_not_fit_an_odd_width") == ["positional encoding"]
    assert diagnose(RIGHT["norm_by_hand"]).module == "Layer"


def test_what_could_not_be_checked_is_said_with_the_reason():
    skipped = dict(diagnose(nn.Linear(3, 5), tokens(2, 7, 3)).skipped)
    assert "no softmax weighs values" in skipped.values()
    assert "no input looks like tokens" not in skipped.values()
    assert examined("encoder_of_two_layers").checked


def test_the_text_is_wrapped_and_deterministic():
    module, inputs, _ = built("not_scaled")
    text = str(diagnose(module, *inputs))
    assert text == str(examined("not_scaled"))
    assert max(map(len, text.split("Not checked")[0].split("\n"))) <= 88
    assert "Layer: 1 warning" in text
    assert "Fix: divide by sqrt(4)" in text
    assert "Not checked, for the inputs have no padding: " in text


def test_the_notebook_view_is_one_plain_escaped_table():
    class Odd(Heads):
        def forward(self, x):
            raise ValueError("<script>alert(1)</script> & more")

    bundle = diagnose(Odd(), tokens())._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Odd: 1 fault")
    assert "&lt;script&gt;" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert " id=" not in bundle["text/html"]


def test_a_finding_of_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="no such kind"):
        Finding("weather", "fault", "rain", "much")


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="module or function"):
        diagnose(torch.ones(3))


# --- adding a probe ------------------------------------------------------------------


def test_a_probe_is_added_in_a_few_lines(monkeypatch):
    @probe("run", "output")
    def only_positive(exam):
        """Is every output positive?"""
        if bool((exam.output > 0).all()):
            yield found(
                "notebook / display",
                "note",
                title="All is positive",
                evidence="min > 0",
            )

    monkeypatch.setattr(doctor, "PROBES", [only_positive])
    diagnosis = diagnose(nn.ReLU(), torch.ones(2, 3))
    assert [finding.title for finding in diagnosis] == ["All is positive"]
    assert diagnosis.checked == ["Is every output positive?"]


def test_title_evidence_and_fix_cannot_change_places():
    with pytest.raises(TypeError, match="positional"):
        found("notebook / display", "note", "All is positive", "min > 0")


def test_a_probe_that_fails_is_named_and_the_others_go_on(monkeypatch):
    @probe()
    def fails(exam):
        """Does it fail?"""
        raise RuntimeError

    monkeypatch.setattr(doctor, "PROBES", [fails, *doctor.PROBES])
    diagnosis = diagnose(Heads(), tokens())
    assert diagnosis.skipped[0] == ("Does it fail?", "could not be done: RuntimeError")
    assert len(diagnosis.checked) > 20


# --- what it costs -------------------------------------------------------------------


def test_quick_leaves_out_what_costs_most():
    quick, whole = diagnose(Reader(), words(), quick=True), diagnose(Reader(), words())
    assert quick.forwards < whole.forwards - 4
    assert "left out by quick=True" in dict(quick.skipped).values()
    assert "left out by quick=True" not in dict(whole.skipped).values()


def test_no_probe_is_begun_when_the_time_is_up(monkeypatch):
    clock = itertools.count()  # a second passes at each look
    ticks = SimpleNamespace(monotonic=lambda: 0, process_time=lambda: next(clock))
    monkeypatch.setattr(doctor, "time", ticks)
    monkeypatch.setattr(doctor, "SECONDS", 10)
    diagnosis = diagnose(Reader(), words())
    late = [what for what, why in diagnosis.skipped if why == "the time was up"]
    assert late == [probe.question for probe in doctor.PROBES[-len(late) :]]
    assert len(doctor.PROBES) - 10 <= len(late) < len(doctor.PROBES)
    assert diagnosis.checked
    assert not diagnosis.complete


class OneType(nn.Module):
    """A map for float32 alone, and for two samples or more."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(8, 8)

    def forward(self, x):
        if len(x) == 1 or self.map.weight.dtype != torch.float32:
            raise ValueError("wants two samples in float32")
        return self.map(x)


def test_what_could_not_be_measured_is_no_answer():
    diagnosis = diagnose(OneType(), torch.randn(3, 5, 8))
    why = dict(diagnosis.skipped)
    assert why["Is the gradient of backward that of the loss?"] == (
        "it does not run in float64"
    )
    assert "no sample could be run by itself" in why.values()
    assert not diagnosis.complete
