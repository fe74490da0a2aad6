"""An examination leaves everything as it was."""

import random

import numpy
import pytest
import torch
from doctor_cases.parts import Heads, Layer, Reader, tokens, words
from hostile import Global, Growing
from taken_apart.doctor import diagnose
from taken_apart.doctor.exam import Exam
from torch import nn


def state_of(module):
    """All that a diagnosis might touch, in a form that can be compared."""
    parts = [(n, m.training, len(m._forward_hooks)) for n, m in module.named_modules()]
    grads = [p.grad is None or p.grad.clone() for p in module.parameters()]
    numbers = {name: value.clone() for name, value in module.state_dict().items()}
    return parts, grads, numbers


def assert_same_state(left, right):
    assert left[0] == right[0]
    for one, two in zip(
        [*left[1], *left[2].values()], [*right[1], *right[2].values()], strict=True
    ):
        assert torch.equal(one, two) if isinstance(one, torch.Tensor) else one is two


class Restless(Reader):
    """Changes everything that a forward can change."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.seen, self.map = [], None

    def forward(self, ids):
        self.calls += 1
        self.seen.append(len(self.seen))
        self.map = self.emb(ids)
        with torch.no_grad():
            self.emb.weight.mul_(1.1)
        torch.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        self.layers[0].eval()
        return super().forward(ids)


@pytest.mark.parametrize("make", [Reader, Restless])
@pytest.mark.parametrize("train", [False, True])
def test_state_modes_gradients_and_hooks_stay(make, train):
    module, ids = make().train(train), words()
    module.layers[1].eval()
    module.head.weight.grad = torch.ones_like(module.head.weight)
    module.emb.register_forward_hook(lambda *seen: None)
    before, kept, threads = state_of(module), ids.clone(), torch.get_num_threads()
    diagnose(module, ids)
    assert torch.get_num_threads() == threads
    assert_same_state(before, state_of(module))
    assert torch.equal(ids, kept)
    assert getattr(module, "seen", []) == []
    assert getattr(module, "map", None) is None


@pytest.mark.parametrize("make", [Reader, Restless])
def test_random_numbers_go_on_as_if_nothing_had_been(make):
    module, ids = make(), words()
    states = (
        torch.get_rng_state(),
        random.getstate(),
        numpy.random.get_state()[1].copy(),
    )
    diagnose(module, ids)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert (numpy.random.get_state()[1] == states[2]).all()


def test_a_graph_that_waits_for_backward_stays_usable():
    module, x = Layer(), tokens().requires_grad_()
    loss = module(x).sum()
    diagnose(module, x.detach())
    loss.backward()
    assert x.grad.isfinite().all()


def test_each_call_of_an_examination_starts_from_the_same_state():
    exam = Exam(Restless(), (words(),), {})
    first, second = exam.run(), exam.run(train=True)
    assert torch.equal(first[0], second[0])
    assert exam.root.seen == []


def test_a_call_that_writes_into_its_input_changes_no_other_call():
    x = tokens()
    kept, exam = x.clone(), Exam(lambda x: x.add_(1), (x,), {})
    exam.run()
    exam.run({x: x[:1]})
    assert torch.equal(x, kept)


@pytest.mark.parametrize("enabled", [False, True])
def test_the_grad_mode_stays(enabled):
    with torch.set_grad_enabled(enabled):
        diagnose(Heads(), tokens())
        assert torch.is_grad_enabled() == enabled


def test_parts_that_come_and_go_are_as_before():
    module = Growing()
    names = [name for name, _ in module.named_modules()]
    diagnose(module, tokens())
    assert [name for name, _ in module.named_modules()] == names


def test_what_all_modules_share_stays():
    threads = torch.get_num_threads()
    diagnose(Global(), tokens())
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_num_threads() == threads


def test_the_type_of_numbers_is_back_after_they_were_tried_in_another():
    module = Layer()
    kept = [p.data_ptr() for p in module.parameters()]
    diagnose(module, tokens())
    assert [p.data_ptr() for p in module.parameters()] == kept
    assert {p.dtype for p in module.parameters()} == {torch.float32}


def test_lazy_parameters_stay_lazy():
    module = nn.Sequential(nn.LazyLinear(20), Layer())
    diagnose(module, tokens(3, 7, 11))
    assert isinstance(module[0].weight, nn.parameter.UninitializedParameter)


def test_a_parameter_can_still_be_trained_afterwards():
    module = Layer()
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    diagnose(module, tokens())
    before = module.ff[0].weight.clone()
    module(tokens()).square().sum().backward()
    optimizer.step()
    assert not torch.equal(module.ff[0].weight, before)
