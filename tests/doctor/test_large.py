"""Of a large model less is examined, and the same is found."""

import time

import pytest
import torch
from doctor_cases import BROKEN, RIGHT
from doctor_cases.parts import D, Layer, Reader, words
from examinations import built, kind_of
from taken_apart import doctor
from taken_apart.doctor import diagnose, smaller
from torch import nn


@pytest.fixture
def everything_is_large(monkeypatch):
    monkeypatch.setattr(smaller, "WORK", 0)


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("name", list(BROKEN)[::5])
def test_a_fault_is_found_in_a_part_of_it(name):
    module, inputs, kwargs = built(name)
    kinds = [f.kind for f in diagnose(module, *inputs, **kwargs)]
    assert kind_of(name) in kinds[:3]


@pytest.mark.usefixtures("everything_is_large")
@pytest.mark.parametrize("name", list(RIGHT)[::6])
def test_what_is_right_gets_no_fault_in_part_either(name):
    module, inputs, kwargs = built(name)
    assert diagnose(module, *inputs, **kwargs).faults == []


@pytest.mark.usefixtures("everything_is_large")
def test_layers_that_were_set_aside_are_back():
    module = Reader(layers=6)
    before = dict(module.layers._modules)
    diagnosis = diagnose(module, words())
    assert module.layers._modules == before
    assert diagnosis.complete


@pytest.mark.usefixtures("everything_is_large")
def test_a_fault_of_a_late_layer_is_found_in_the_recorded_call():
    class Unmasked(Layer):
        def forward(self, x, pad=None):
            return super().forward(x)

    module = Reader(layers=6)
    module.layers[5] = Unmasked()
    assert diagnose(module, words())[0].title == "The mask does not reach every layer"


def test_rows_and_columns_keep_what_is_padded_and_what_is_not():
    ids = torch.randint(1, 23, (9, 60))
    ids[4, 40:] = 0
    few, mask, lengths = smaller.fewer_inputs(
        (ids, ids == 0, torch.tensor([60] * 4 + [40] + [60] * 4)), {}
    )[0]
    assert few.shape == mask.shape == (3, 16)
    assert mask.sum(1).tolist() == [0, 0, 4]
    assert lengths.tolist() == [16, 16, 12]


def test_features_with_time_first_are_cut_along_time():
    x, lengths = torch.randn(60, 9, D), torch.tensor([60] * 8 + [30])
    few, counts = smaller.fewer_inputs((x, lengths), {})[0]
    assert few.shape == (16, 3, D)
    assert sorted(counts.tolist()) == [12, 16, 16]


def test_a_question_that_has_begun_makes_no_call_after_its_time(monkeypatch):
    class Slow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Layer()

        def forward(self, x):
            time.sleep(0.2)
            return self.layer(x)

    monkeypatch.setattr(doctor, "SECONDS", 1.0)
    began = time.monotonic()
    diagnosis = diagnose(Slow(), torch.randn(2, 7, D))
    assert time.monotonic() - began < 6
    assert not diagnosis.complete
    assert "questions" in diagnosis.summary()
    assert "the time was up" in dict(diagnosis.skipped).values()


def test_a_compiled_module_is_examined_as_it_is_written():
    module = Reader()
    found = diagnose(torch.compile(module), words())
    assert found.module == "Reader"
    assert found.asked == diagnose(module, words()).asked
    assert found.faults == []
