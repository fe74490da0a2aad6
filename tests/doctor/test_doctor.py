"""The doctor names what is wrong, keeps quiet on what is right, and leaves no mark."""

import copy
import functools
import random
import time
from collections import Counter
from pathlib import Path

import doctor_cases
import doctor_reports  # noqa: F401 (it registers its cases)
import encoder
import numpy
import pytest
import torch
from doctor_cases import BROKEN, PADDING, RIGHT, Heads, Layer, Reader, tokens, words
from taken_apart import doctor
from taken_apart.doctor import CHAPTERS, Finding, diagnose
from taken_apart.doctor.probes.kit import found, probe
from torch import nn

# What is seen from a module alone: losses and notebooks are mostly outside of it.
MODULE_KINDS = set(CHAPTERS) - {"loss and training", "notebook / display"}


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A busy machine must not cut an examination short."""
    monkeypatch.setattr(doctor, "SECONDS", 1e9)


@functools.cache
def examined(name):
    torch.manual_seed(0)
    build = RIGHT[name] if name in RIGHT else BROKEN[name][1]
    module, inputs, kwargs = build()
    return diagnose(module, *inputs, **kwargs)


def kinds_of(name):
    """The kinds of the findings that call for action, most likely first."""
    return [finding.kind for finding in examined(name) if finding.severity != "note"]


def share(names, holds):
    return sum(map(holds, names)) / len(names)


# --- targets -------------------------------------------------------------------------


def test_all_kinds_have_two_cases():
    count = Counter(kind for kind, _ in BROKEN.values())
    assert set(count) == set(CHAPTERS) and min(count.values()) >= 2


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_among_the_first_three_findings(name):
    assert BROKEN[name][0] in kinds_of(name)[:3]


def test_nine_of_ten_are_named_first():
    names = [name for name, (kind, _) in BROKEN.items() if kind in MODULE_KINDS]
    assert share(names, lambda name: kinds_of(name)[0] == BROKEN[name][0]) >= 0.9


@pytest.mark.parametrize("name", RIGHT)
def test_an_unusual_design_that_is_right_gets_no_fault(name):
    assert [finding.title for finding in examined(name).faults] == []


def test_most_right_designs_get_no_warning_either():
    assert share(RIGHT, lambda name: not kinds_of(name)) >= 0.9


def test_the_confusion_table_has_its_hits_in_the_first_three():
    """Print with -s which kinds were found for each case: 1 is the first finding."""
    kinds = list(CHAPTERS)
    print("", *(f"{i:2} {kind}" for i, kind in enumerate(kinds, 1)), sep="\n")
    print(f"{'case':40}kind", *(f"{i:2}" for i in range(1, len(kinds) + 1)))
    for name in [*BROKEN, *RIGHT]:
        ranks = {kind: i for i, kind in reversed([*enumerate(kinds_of(name), 1)])}
        wanted = BROKEN[name][0] if name in BROKEN else None
        cells = [f"{ranks.get(kind, '.'):>2}" for kind in kinds]
        print(f"{name[:39]:40}{kinds.index(wanted) + 1 if wanted else '-':>4}", *cells)
        assert wanted is None or ranks[wanted] <= 3


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_books_own_encoder_is_healthy(norm_first):
    model = encoder.TransformerEncoder(
        23, d_model=20, n_heads=5, d_ff=44, n_layers=2, norm_first=norm_first
    )
    found = diagnose(model, words(), key_padding_mask=PADDING)
    assert [finding.title for finding in found if finding.severity != "note"] == []


# --- what a finding says -------------------------------------------------------------


def test_a_finding_has_numbers_a_line_a_cure_and_a_chapter():
    finding = examined("scaled_by_the_model")[0]
    assert "0.2236" in finding.evidence and "0.5" in finding.evidence
    assert finding.where.startswith("doctor_cases.py:") and "D**-0.5" in finding.where
    assert finding.fix and finding.chapter == "02_attention"


def test_every_kind_leads_to_a_chapter_that_is_there():
    chapters = Path(doctor.__file__).parent.parent / "chapters"
    assert [
        c for c in CHAPTERS.values() if not (chapters / f"{c}.ipynb").exists()
    ] == []


def test_a_call_that_raises_gives_the_line_and_the_cause():
    finding = examined("too_few_axes")[0]
    assert "masked_fill" in finding.title and "masked_fill(pad" in finding.where
    assert "mask[:, None, None]" in finding.fix


def test_a_function_that_builds_is_called_and_its_error_is_a_finding():
    assert kinds_of("cosines_do_not_fit_an_odd_width") == ["positional encoding"]
    assert diagnose(RIGHT["norm_by_hand"]).module == "Layer"


def test_faults_come_before_warnings_and_notes():
    order = ["fault", "warning", "note"]
    for name in BROKEN:
        ranks = [order.index(finding.severity) for finding in examined(name)]
        assert ranks == sorted(ranks)


def test_what_could_not_be_checked_is_said_with_the_reason():
    skipped = dict(diagnose(nn.Linear(3, 5), tokens(2, 7, 3)).skipped)
    assert "no softmax weighs values" in skipped.values()
    assert "no input looks like tokens" not in skipped.values()
    assert examined("encoder_of_two_layers").checked


def test_no_probe_breaks_on_any_case():
    for name in [*BROKEN, *RIGHT]:
        broken = [s for s in examined(name).skipped if "could not be done" in s[1]]
        assert not broken, name


def test_the_text_is_wrapped_and_deterministic():
    texts = {str(diagnose(*built("not_scaled"))) for _ in range(2)}
    assert len(texts) == 1
    text = texts.pop()
    assert "Layer: 1 warning" in text and "Fix: divide by sqrt(4)" in text
    assert "Not checked, for the inputs have no padding: " in text


def built(name):
    torch.manual_seed(0)
    module, inputs, _ = BROKEN[name][1]()
    return module, *inputs


def test_the_notebook_view_is_one_plain_escaped_table():
    class Odd(Heads):
        def forward(self, x):
            raise ValueError("<script>alert(1)</script> & more")

    bundle = diagnose(Odd(), tokens())._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Odd: 1 fault")
    assert "&lt;script&gt;" in bundle["text/html"]
    assert "<script" not in bundle["text/html"] and " id=" not in bundle["text/html"]


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


def test_a_probe_that_fails_is_named_and_the_others_go_on(monkeypatch):
    @probe()
    def fails(exam):
        """Does it fail?"""
        raise RuntimeError

    monkeypatch.setattr(doctor, "PROBES", [fails, *doctor.PROBES])
    diagnosis = diagnose(Heads(), tokens())
    assert diagnosis.skipped[0] == ("Does it fail?", "could not be done: RuntimeError")
    assert len(diagnosis.checked) > 20


# --- nothing is changed --------------------------------------------------------------


def state_of(module):
    """All that a diagnosis might touch, in a form that can be compared."""
    parts = [(n, m.training, len(m._forward_hooks)) for n, m in module.named_modules()]
    grads = [p.grad is None or p.grad.clone() for p in module.parameters()]
    numbers = {name: value.clone() for name, value in module.state_dict().items()}
    return parts, grads, numbers


def assert_same_state(left, right):
    assert left[0] == right[0]
    for one, two in zip([*left[1], *left[2].values()], [*right[1], *right[2].values()]):
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
    assert getattr(module, "seen", []) == [] and getattr(module, "map", None) is None


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


@pytest.mark.parametrize("enabled", [False, True])
def test_the_grad_mode_stays(enabled):
    with torch.set_grad_enabled(enabled):
        diagnose(Heads(), tokens())
        assert torch.is_grad_enabled() == enabled


def test_the_number_of_calls_is_bounded():
    assert max(examined(name).forwards for name in [*BROKEN, *RIGHT]) <= 40
    quick = diagnose(Reader(), words(), quick=True)
    assert quick.forwards <= 16
    assert ("left out by quick=True") in dict(quick.skipped).values()


def test_time_that_is_up_ends_the_examination(monkeypatch):
    monkeypatch.setattr(doctor, "SECONDS", -1.0)
    diagnosis = diagnose(Reader(), words())
    assert not diagnosis.checked and set(dict(diagnosis.skipped).values()) == {
        "the time was up"
    }


# --- hostile modules -----------------------------------------------------------------


class Endless(nn.Module):
    def forward(self, x):
        return self(x)


class Hidden(Heads):
    def __repr__(self):
        raise RuntimeError("no")

    def __deepcopy__(self, memo):
        raise RuntimeError("nor this")


class Silent(nn.Module):
    def forward(self, x):
        return None


class Leaving(nn.Module):
    def forward(self, x):
        raise SystemExit(3)


class Writer(Heads):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def forward(self, x):
        self.path.write_text("written")
        print("written")
        return super().forward(x)


class Secretive(nn.Module):
    def __getattr__(self, name):
        raise RuntimeError(name)

    def forward(self, x):
        return x


class Growing(Heads):
    """Gains a module and loses its output map, at each call."""

    def forward(self, x):
        out = super().forward(x)
        self.add_module(f"more{len(self._modules)}", nn.Linear(2, 3))
        del self.to_out
        return out


class Global(Heads):
    """Changes what all modules share."""

    def forward(self, x):
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1 + torch.get_num_threads())
        return super().forward(x)


HOSTILE = {
    "secretive": lambda: (Secretive(), tokens()),
    "growing": lambda: (Growing(), tokens()),
    "global": lambda: (Global(), tokens()),
    "endless": lambda: (Endless(), tokens()),
    "hidden": lambda: (Hidden(), tokens()),
    "silent": lambda: (Silent(), tokens()),
    "leaving": lambda: (Leaving(), tokens()),
    "on meta": lambda: (copy.deepcopy(Layer()).to("meta"), tokens().to("meta")),
    "without parameters": lambda: (nn.Identity(), tokens()),
    "a function": lambda: (torch.softmax, tokens(), -1),
    "a lambda": lambda: (lambda x: x.sum(), tokens()),
    "no input": lambda: (Silent(),),
    "wrong input": lambda: (Layer(), "words"),
    "empty": lambda: (Reader(), torch.zeros(0, 7, dtype=torch.long)),
    "one token": lambda: (Layer(), tokens(3, 1, 20)),
    "one sample": lambda: (Layer(), tokens(1, 7, 20)),
    "no batch": lambda: (doctor_cases.torch_layer(), tokens(7, 20)),
    "nested": lambda: (lambda x: {"a": [x, (x, None)]}, tokens()),
    "nan": lambda: (Layer(), tokens() * torch.nan),
    "scripted": lambda: (torch.jit.script(nn.Linear(20, 3)), tokens()),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_module_is_survived(name, capsys):
    diagnosis = diagnose(*HOSTILE[name]())
    assert str(diagnosis) and diagnosis._repr_mimebundle_()["text/html"]
    assert capsys.readouterr().out == ""


def test_endless_recursion_is_a_finding():
    assert "RecursionError" in diagnose(*HOSTILE["endless"]())[0].title


def test_a_module_that_prints_and_writes_is_kept_quiet(tmp_path, capsys):
    diagnosis = diagnose(Writer(tmp_path / "out"), tokens())
    assert capsys.readouterr().out == ""
    assert diagnosis[0].kind == "notebook / display"


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


def test_a_slow_module_ends_the_examination_in_time(monkeypatch):
    class Slow(Heads):
        def forward(self, x):
            time.sleep(0.05)
            return super().forward(x)

    monkeypatch.setattr(doctor, "SECONDS", 0.3)
    began = time.monotonic()
    diagnosis = diagnose(Slow(), tokens())
    assert time.monotonic() - began < 5
    assert "the time was up" in dict(diagnosis.skipped).values()
    assert diagnosis.checked


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
