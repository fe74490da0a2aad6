"""What the tracer promises a reader: it shows what ran, and it changes nothing.

Sizes are distinct primes where shapes matter: B = 2, T = 5 or 7, H = 3.
"""

import copy
import gc
import json
import math
import random
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from encoder import TransformerEncoder, attention
from taken_apart.doctor.numbers import differ
from taken_apart.tracer import Trace, record, trace
from torch import nn
from torch.nn import functional

B, T, D, H, K, F, V = 2, 5, 21, 3, 7, 11, 29


def encoder(**options):
    sizes = {"d_model": D, "n_heads": H, "d_ff": F, "n_layers": 2} | options
    return TransformerEncoder(V, **sizes)


def ids(batch=B, length=T):
    return torch.arange(batch * length).reshape(batch, length) % V


def torch_layer(**options):
    options = {"batch_first": True} | options
    return nn.TransformerEncoderLayer(24, 4, dim_feedforward=10, **options)


def found(trace, op, **wanted):
    rows = [row for row in trace.rows if row.op == op]
    return [row for row in rows if all(getattr(row, k) == v for k, v in wanted.items())]


class Attention(nn.Module):
    """One attention as a learner writes it; `wrong` plants a shape bug."""

    def __init__(self, d_model=D, heads=H, wrong=""):
        super().__init__()
        self.heads, self.wrong = heads, wrong
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ (k if self.wrong == "product" else k.transpose(-2, -1))
        if mask is not None:
            scores = scores.masked_fill(mask, -math.inf)
        y = scores.softmax(-1) @ v
        if self.wrong == "regroup":
            return self.out(y.reshape(b, t, d))
        if self.wrong == "view":
            return self.out(y.transpose(1, 2).view(b, t, d))
        if self.wrong == "count":
            return self.out(y.transpose(1, 2).reshape(b, t, d + 1))
        return self.out(y.transpose(1, 2).flatten(2))


# --- what it shows -------------------------------------------------------------------


def test_each_row_has_the_readers_own_line_and_module():
    t = trace(encoder(), ids(), need_weights=True)
    (row,) = found(t, "softmax", module="layers.0.attention")
    lines = Path(row.file).read_text().splitlines()
    assert Path(row.file).name == "encoder.py"
    assert row.code == lines[row.line - 1].strip() == "weights = scores.softmax(dim=-1)"
    assert row.part == "scores.softmax(dim=-1)"


def test_every_axis_of_the_encoder_is_named():
    t = trace(encoder(), ids(), torch.zeros(B, T, dtype=torch.bool), need_weights=True)
    axes = {axis for row in t.rows for s in row.inputs + row.outputs for axis in s.axes}
    assert axes == {"B", "T", "D", "H", "K", "F", "V", "1", "512"}  # 512 = max_length
    assert t.sizes == {"B": B, "T": T, "D": D, "H": H, "K": K, "F": F, "V": V}
    for row in found(t, "softmax"):
        assert row.axes == ("B", "H", "T", "T")
        assert row.output == (B, H, T, T)
    for row in found(t, "unflatten"):
        assert row.input_axes == [("B", "T", "D")]
        assert row.axes == ("B", "T", "H", "K")


def test_names_are_told_apart_where_the_numbers_are_equal():
    model = encoder(d_model=16, n_heads=4, d_ff=7)  # H = K = T = B = 4
    t = trace(model, ids(4, 4), need_weights=True)
    assert {row.axes for row in found(t, "softmax")} == {("B", "H", "T", "T")}
    assert {row.axes for row in found(t, "unflatten")} == {("B", "T", "H", "K")}


class Counted(Attention):
    calls = 0  # of the class, so that stand-ins count too

    def forward(self, x):
        Counted.calls += 1
        return super().forward(x)


def test_to_read_a_trace_runs_nothing():
    t = trace(Counted(), torch.randn(B, T, D))
    n_calls = Counted.calls
    (row,) = found(t, "softmax")
    _ = row.axes, row.event, t.sizes, t.naming, str(t), t.to_dict()
    assert n_calls > 1
    assert Counted.calls == n_calls


def test_without_names_one_call_is_all_there_is():
    before = Counted.calls
    t = trace(Counted(), torch.randn(B, T, D), names=False)
    assert Counted.calls == before + 1
    assert t.sizes == {}
    assert "names=False" in t.naming
    assert str(found(t, "softmax")[0].output) == f"({B}, {H}, {T}, {T})"
    assert t.to_dict()["rows"][0]["outputs"][0]["axes"] == ["2", "5", "63"]


def test_what_happens_to_axes_is_said():
    t = trace(Attention(), torch.randn(B, T, D))
    (view,), (merge,) = found(t, "view"), found(t, "flatten")
    assert view.event["kind"] == "split"
    assert view.event["into"] == ["3", "H", "K"]
    assert merge.event["text"] == "merge H x K into D"
    (move,) = found(t, "permute")
    assert move.event["order"] == [2, 0, 3, 1, 4]
    swapped = found(t, "transpose")[0]
    assert swapped.event["text"] == "swap T and K"


def test_a_reshape_that_cuts_across_axes_is_told_from_a_merge():
    t = trace(Attention(wrong="regroup"), torch.randn(B, T, D))
    (row,) = found(t, "reshape")
    assert row.event["kind"] == "regroup"
    assert row.event["from"] == ["H", "T", "K"]
    assert row.event["into"] == ["T", "D"]


def test_an_axis_that_does_not_vary_stays_a_number_and_a_doubtful_one_says_so():
    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.out = nn.LayerNorm(D), nn.Linear(D, 3)

        def forward(self, x):
            upper = torch.triu_indices(x.shape[1], x.shape[1])
            return self.out(self.norm(x)), upper

    t = trace(Head(), torch.randn(B, T, D))
    assert found(t, "linear")[0].axes == ("B", "T", "3")
    assert found(t, "triu_indices")[0].axes == ("2", "15?")  # T (T + 1) / 2


def test_a_token_put_in_front_makes_T_plus_1():
    class WithClass(nn.Module):
        def __init__(self):
            super().__init__()
            self.cls, self.norm = nn.Parameter(torch.zeros(1, 1, D)), nn.LayerNorm(D)

        def forward(self, x):
            return self.norm(torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1))

    t = trace(WithClass(), torch.randn(B, T, D))
    assert found(t, "layer_norm")[0].axes == ("B", "T+1", "D")
    assert found(t, "cat")[0].event["kind"] == "join"


def test_names_given_by_the_reader_are_used():
    t = trace(nn.Linear(D, F), torch.randn(B, T, D), axes={"S": T, "C": F})
    assert t.rows[0].axes == ("B", "S", "C")
    assert t.sizes["S"] == T


@pytest.mark.parametrize("axes", [{"T": "7"}, {"T": 0}, {"a b": 3}, {"T": True}])
def test_bad_names_are_refused(axes):
    with pytest.raises(ValueError, match="axes wants names and sizes"):
        trace(nn.Linear(D, F), torch.randn(B, D), axes=axes)


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="a module or function"):
        trace(torch.zeros(2))


def test_cross_attention_has_two_lengths():
    q, k = torch.randn(B, H, T, K), torch.randn(B, H, 11, K)
    t = trace(attention, q, k, k)
    assert found(t, "softmax")[0].axes == ("B", "H", "T", "Tk")


def test_a_function_around_a_module_does_not_run_the_module_again():
    model, calls = encoder(), []
    model.register_forward_hook(lambda *a: calls.append(1))
    t = trace(lambda x: model(x)[0], ids())
    assert "it calls modules that it does not hold" in t.naming
    assert calls == [1]
    assert t.rows[-1].axes == ("B", "T", "D")


def test_a_bound_method_is_traced_like_a_module():
    part = encoder().layers[0].attention
    t = trace(part.split_heads, torch.randn(B, T, D))
    assert t.rows[-1].axes == ("B", "H", "T", "K")
    assert t.module == "split_heads"


# --- torch's own encoder -------------------------------------------------------------


def test_attention_inside_torch_is_opened_per_head():
    x = torch.randn(B, T, 24)
    t = trace(nn.MultiheadAttention(24, 4, batch_first=True), x, x, x)
    (row,) = found(t, "softmax")
    assert row.axes == ("B", "H", "T", "T")
    assert row.output == (B, 4, T, T)
    assert row.note.startswith("recomputed")
    assert row.depth == 1


@pytest.mark.parametrize("kind", ["padding", "two", "three", "float"])
def test_opened_attention_is_the_attention_that_torch_computes(kind):
    mha = nn.MultiheadAttention(24, 4, batch_first=True)
    x = torch.randn(B, T, 24)
    seen = torch.rand(B * 4, T, T).argsort(-1) > 2
    masks = {
        "padding": {
            "key_padding_mask": torch.arange(T)[None] > torch.tensor([[3], [1]])
        },
        "two": {"attn_mask": torch.ones(T, T).triu(1).bool()},
        "three": {"attn_mask": seen},
        "float": {"attn_mask": torch.randn(T, T)},
    }[kind]
    kept = []

    def watch(row, func, args, kwargs, output):
        if row.op == "softmax":
            kept.append(output)

    (_, expected) = mha(x, x, x, average_attn_weights=False, **masks)
    record(mha, x, x, x, average_attn_weights=False, watch=watch, **masks)
    torch.testing.assert_close(kept[0], expected)


def test_keys_of_another_width_are_opened_too():
    mha = nn.MultiheadAttention(24, 4, kdim=10, vdim=6, batch_first=True)
    sequences = torch.randn(B, T, 24), torch.randn(B, 7, 10), torch.randn(B, 7, 6)
    (row,) = found(trace(mha, *sequences), "softmax")
    assert row.axes == ("B", "H", "T", "Tk")
    assert row.output == (B, 4, T, 7)


def test_the_fast_path_stays_one_opaque_row_with_the_same_numbers():
    layer, x = torch_layer().eval(), torch.randn(B, T, 24)
    with torch.no_grad():
        plain, recording = layer(x), record(layer, x)
        t = trace(layer, x)
    assert torch.equal(plain, recording.result)
    assert [row.op for row in t.rows] == ["_transformer_encoder_layer_fwd"]
    assert "fast path" in t.path
    assert "opaque: trace(..., inside=True) opens it" in t.rows[0].note
    assert t.rows[0].note in str(t)


def test_inside_runs_the_slow_path_and_says_so():
    layer, x = torch_layer().eval(), torch.randn(B, T, 24)
    with torch.no_grad():
        t = trace(layer, x, inside=True)
    assert "slow path, to look inside" in t.path
    assert found(t, "softmax")[0].axes == ("B", "H", "T", "T")
    assert found(t, "linear", module="linear1")[0].axes == ("B", "T", "F")


HELPER = """
def reshaped(x, *sizes):
    return x.reshape(sizes)
"""
MODEL = """
from torch import nn
from helping import reshaped

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(4, 4)

    def forward(self, x):
        return self.map(reshaped(x, 3, 4))
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A library of models, and one that helps it, where pip would put them."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "helping.py").write_text(HELPER)
    (folder / "modelling.py").write_text(MODEL)
    monkeypatch.syspath_prepend(folder)
    yield __import__("modelling").Model()
    for name in ("helping", "modelling"):
        del sys.modules[name]


def test_a_line_of_a_helping_library_is_credited_to_the_line_that_calls_it(installed):
    rows = trace(installed, torch.randn(12)).rows
    assert [row.op for row in rows] == ["reshape", "linear"]
    assert {row.code for row in rows} == {"return self.map(reshaped(x, 3, 4))"}
    assert rows[0].part == "reshaped(x, 3, 4)"


def test_a_line_of_the_tools_is_never_the_readers():
    t = trace(lambda x: differ(x, x), torch.randn(B, T))
    assert t.rows
    assert {row.file for row in t.rows} == {__file__}
    assert "numbers.py" in {Path(row.via.code.co_filename).name for row in t.rows}


def test_rows_inside_torch_belong_to_the_readers_line():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.TransformerEncoder(
                torch_layer(), 2, enable_nested_tensor=False
            )

        def forward(self, x):
            return self.encoder(x)

    t = trace(Model(), torch.randn(B, T, 24))
    assert {row.code for row in t.rows} == {"return self.encoder(x)"}
    assert all(row.depth > 0 for row in t.rows)
    assert "in encoder.layers.1" in str(t)


def test_a_time_first_layer_is_read_as_time_first():
    t = trace(torch_layer(batch_first=False), torch.randn(T, B, 24))
    assert found(t, "layer_norm")[0].axes == ("T", "B", "D")
    assert found(t, "softmax")[0].axes == ("B", "H", "T", "T")


# --- it changes nothing --------------------------------------------------------------


class Everything(nn.Module):
    """Draws random numbers, keeps statistics, has hooks and a generator of its own."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(D), nn.Dropout(0.5)
        self.generator = torch.Generator().manual_seed(1)

    def forward(self, x):
        noise = torch.rand(x.shape, generator=self.generator) + random.random()
        return self.drop(self.norm(x)) + noise + torch.rand(D)


def states(model):
    numbers = [*model.state_dict().values(), torch.get_rng_state()]
    return [x.clone() for x in (*numbers, model.generator.get_state())]


def test_result_state_and_random_numbers_are_those_of_the_plain_call():
    results = []
    for traced in (False, True):
        torch.manual_seed(0)
        random.seed(0)
        model, x = Everything(), torch.ones(B, D).cumsum(0)
        result = record(model, x).result if traced else model(x)
        results.append([result, *states(model), torch.tensor(random.random())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=False))


def test_finding_names_leaves_no_mark_either():
    model = Everything()
    calls = []
    model.register_forward_hook(lambda *a: calls.append(1))
    t = trace(model, torch.randn(B, D))
    before, dice = states(model), random.getstate()
    assert t.naming.startswith("names fit this run and two others")
    assert all(torch.equal(a, b) for a, b in zip(before, states(model), strict=False))
    assert random.getstate() == dice
    assert calls == [1]
    assert model.training
    assert len(model._forward_hooks) == 1


@pytest.mark.parametrize("grad", [True, False])
def test_gradients_and_grad_mode_are_untouched(grad):
    model = encoder(dropout=0.0)
    with torch.set_grad_enabled(grad):
        plain = model(ids())[0]
        result = record(model, ids()).result[0]
        str(trace(model, ids()))
        assert torch.is_grad_enabled() == grad
    assert result.requires_grad == grad
    assert torch.equal(plain, result)
    if grad:
        wanted = torch.autograd.grad(plain.sum(), model.embedding.weight)
        given = torch.autograd.grad(result.sum(), model.embedding.weight)
        assert torch.equal(wanted[0], given[0])
    assert all(p.grad is None for p in model.parameters())


def test_hooks_and_torch_are_left_as_they_were():
    function = torch.overrides.has_torch_function
    model = encoder()
    trace(model, ids())
    assert torch.overrides.has_torch_function is function
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_no_activation_is_kept_alive():
    alive, ghosts = [], []

    class Step(nn.Module):
        def forward(self, x):
            y = x.sin()
            alive.append([ghost() is not None for ghost in ghosts])
            ghosts.append(weakref.ref(y))
            return y

    t = trace(nn.Sequential(Step(), Step(), Step()), torch.randn(B, T), names=False)
    assert alive == [[], [True], [False, True]]
    assert not any(ghost() is not None for ghost in ghosts)
    assert len(t.rows) == 3


def test_an_error_keeps_no_activation_alive():
    ghosts = []

    def broken(x):
        y = x.sin()
        ghosts.append(weakref.ref(y))
        return y @ torch.zeros(3, 3)

    t = trace(broken, torch.randn(B, T))
    gc.collect()
    assert t.error is not None
    assert ghosts[0]() is None


def test_threads_do_not_see_each_other():
    model, rows = encoder(), {}

    def work(name, length):
        t = trace(model, ids(B, length))
        rows[name] = [row.output for row in t.rows if row.op == "embedding"]

    threads = [threading.Thread(target=work, args=(n, n)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows == {n: [(B, n, D)] for n in (3, 5, 7)}


# --- modules that raise --------------------------------------------------------------


def mismatched_linear(x):
    return nn.Linear(D + 3, D)(x)


def masked(x):
    return Attention()(x, torch.zeros(B, T, dtype=torch.bool))


def long_input(x):
    return nn.Embedding(4, D)(torch.arange(T))


def broadcast(x):
    return x + torch.zeros(T + 1, D)


def mask_per_head(x):
    mha = nn.MultiheadAttention(D, H, batch_first=True)
    return mha(x, x, x, attn_mask=torch.zeros(B, T, T, dtype=torch.bool))


FAILURES = {
    "product": (Attention(wrong="product"), "matmul", "transpose", "is K"),
    "view": (Attention(wrong="view"), "view", "reshape", ""),
    "count": (Attention(wrong="count"), "reshape", "arranged as (2, 5, 22)", "210"),
    "linear": (mismatched_linear, "linear", "24 features", "is 24"),
    "mask": (masked, "masked_fill", "mask[:, None, None]", "(B, T)"),
    "broadcast": (broadcast, "add", "equal or 1", "axis -2"),
    "norm": (nn.LayerNorm(D + 3), "layer_norm", "LayerNorm is over (24,)", "is 21"),
    "ids": (long_input, "embedding", "id 4 has no row", "ids lie in 0..4"),
    "heads": (mask_per_head, "multi_head_attention_forward", "(B*H, T, Tk)", "mask"),
    "einsum": (
        lambda x: torch.einsum("btd,de->bte", x, x[0]),
        "einsum",
        "one letter",
        "letter d is 21 and 5",
    ),
    "mask type": (
        lambda x: x.masked_fill(torch.zeros(D, dtype=torch.uint8), 0.0),
        "masked_fill",
        "mask.bool()",
        "",
    ),
    "types": (lambda x: functional.linear(x, x[0].double()), "linear", "float64", ""),
}


@pytest.mark.parametrize("name", FAILURES)
def test_the_last_row_of_a_failure_says_what_does_not_fit(name):
    module, op, cause, mismatch = FAILURES[name]
    t = trace(module, torch.randn(B, T, D))
    last = t.rows[-1]
    assert t.error is not None
    assert last.op == op
    assert last.outputs == []
    assert last.inputs
    assert cause in last.cause
    assert mismatch in last.mismatch
    assert str(t).splitlines()[-1].endswith(last.cause)
    error = t.to_dict()["error"]
    assert error["type"] == type(t.error).__name__
    assert error["cause"] == last.cause


def test_a_check_of_the_module_itself_is_the_last_row():
    t = trace(encoder(), torch.zeros(B, T))
    last = t.rows[-1]
    assert last.op == "raise TypeError"
    assert "check_ids" not in last.code
    assert last.code.startswith("raise TypeError")
    assert (B, T) in last.inputs
    assert "encoder.py" in last.cause


class Caller(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Attention()

    def forward(self, x, mask):
        return self.part(x, mask, True)


def test_a_call_that_does_not_fit_says_how_the_module_wants_to_be_called():
    t = trace(Caller(), torch.randn(B, T, D))
    assert t.rows[-1].file == ""  # the reader's own call, and no line of torch
    assert t.cause == "the call of the module does not fit forward(x, mask)"
    assert "raise TypeError raised" not in str(t)
    assert "raised TypeError: Caller.forward() missing 1" in str(t)


def test_a_call_that_does_not_fit_inside_is_placed_at_its_line():
    t = trace(Caller(), torch.randn(B, T, D), None)
    assert t.rows[-1].code == "return self.part(x, mask, True)"
    assert t.cause.endswith("does not fit forward(x, mask=None)")
    assert f"the call at {Path(__file__).name}:{t.rows[-1].line}" in t.cause


def test_raises_gives_the_error_itself():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        trace(nn.Linear(D, F), torch.randn(B, D + 2), raises=True)


def test_an_error_that_the_module_catches_is_no_error():
    def careful(x):
        try:
            return x @ x
        except RuntimeError:
            return x @ x.mT

    t = trace(careful, torch.randn(B, T, D))
    assert t.error is None
    assert [row.op for row in t.rows] == ["matmul", "mT", "matmul"]
    assert t.rows[0].error is None
    assert t.rows[0].outputs == []


# --- modules of every kind -----------------------------------------------------------


@dataclass
class Output:
    hidden: torch.Tensor
    pooled: torch.Tensor | None = None


class BertLike(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(V, D), nn.Linear(D, D)

    def forward(self, batch=None, input_ids=None, attention_mask=None):
        if batch is not None:
            input_ids, attention_mask = batch["input_ids"], batch["attention_mask"]
        hidden = self.out(self.embedding(input_ids)) * attention_mask[..., None]
        return Output(hidden, hidden.mean(1))


def test_dict_inputs_and_dataclass_outputs_are_understood():
    batch = {"input_ids": ids(), "attention_mask": torch.ones(B, T)}
    for t in (trace(BertLike(), batch), trace(BertLike(), **batch)):
        assert t.rows[-1].op == "mean"
        assert t.rows[-1].axes == ("B", "D")
        assert found(t, "embedding")[0].input_axes == [("B", "T"), ("V", "D")]


def test_meta_tensors_are_traced_without_numbers():
    t = trace(encoder().to("meta"), ids().to("meta"), need_weights=True)
    assert {row.axes for row in found(t, "softmax")} == {("B", "H", "T", "T")}


def test_modules_in_sequences_and_plain_lists_have_paths():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = [nn.Linear(D, D), nn.Linear(D, D)]

        def forward(self, x):
            for step in self.steps:
                x = step(x)
            return x

    t = trace(nn.Sequential(Listed(), nn.ReLU()), torch.randn(B, T, D))
    assert [row.module for row in t.rows] == ["0.steps[0]", "0.steps[1]", "1"]


@pytest.mark.parametrize("make", [torch.jit.script, torch.compile])
def test_scripted_and_compiled_modules_give_rows(make):
    options = {"backend": "eager"} if make is torch.compile else {}
    t = trace(make(nn.Linear(D, F), **options), torch.randn(B, D))
    assert t.error is None
    assert t.rows[-1].output == (B, F)
    assert "Linear" not in t.path


def test_images_sets_and_lazy_layers_are_traced():
    patches = nn.Sequential(nn.Conv2d(3, D, 4, 4), nn.Flatten(2), nn.Softmax(-1))
    t = trace(patches, torch.randn(B, 3, 16, 16))
    assert t.rows[0].axes == ("B", str(D), "4", "4")
    assert "two others" in t.naming
    t = trace(nn.LazyLinear(F), torch.randn(B, T, D))
    assert t.error is None
    assert t.rows[-1].output == (B, T, F)
    t = trace(lambda x: x * 2, torch.tensor(3.0))
    assert t.rows[0].axes == ()
    assert t.rows[0].output == ()


class ByChance(nn.Module):
    """Layers are left out at random, behind dropout that draws as often as D is."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(D, D) for _ in range(20))

    def forward(self, x):
        for layer in self.layers:
            if torch.rand(()) < 0.5:
                x = functional.dropout(layer(x), 0.1)
        return x


class ByValue(nn.Module):
    """How often it runs depends on its weight: a stand-in has another."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(D))

    def forward(self, x):
        for _ in range(3):
            if self.weight.sum() > D / 2:
                x = x * self.weight
        return x


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (ByChance(), "its steps change from call to call, by chance"),
        (ByValue(), "its steps depend on the values of its inputs or weights"),
    ],
)
def test_steps_that_change_are_found_out_soon_and_said(module, why):
    made = []
    module.register_forward_pre_hook(lambda *a: None)  # hooks are not part of a copy
    type(module).__deepcopy__ = counting_copies(made)
    t = trace(module, torch.ones(B, T, D))
    assert t.naming == f"names by equal numbers only: {why}"
    assert len(made) <= 5
    assert ("B", "T", "D") in {row.axes for row in t.rows}


def test_a_mask_that_hides_something_does_so_at_other_sizes():
    class Checks(Attention):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(V, D)

        def forward(self, ids, mask):
            x = self.words(ids)
            keys = mask[:, None, None]
            return super().forward(x, keys) if mask.any() else super().forward(x)

    mask = torch.arange(T) >= torch.tensor([[T], [T - 2]])
    t = trace(Checks(), ids(), mask)
    assert t.naming.startswith("names fit this run and two others: B=7 T=3")
    assert found(t, "masked_fill")[0].input_axes == [
        ("B", "H", "T", "T"),
        ("B", "1", "1", "T"),
    ]


def counting_copies(made):
    def __deepcopy__(self, memo):
        made.append(1)
        twin = self.__class__.__new__(self.__class__)
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return twin

    return __deepcopy__


def test_dice_that_are_cast_alike_leave_the_steps_alike():
    class Skips(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Attention() for _ in range(6))

        def forward(self, x):
            for layer in self.layers:
                if random.random() < 0.5:
                    x = layer(x)
            return x + 1

    random.seed(1)
    t = trace(Skips(), torch.randn(B, T, D))
    assert t.naming.startswith("names fit this run and two others")


class Hostile(nn.Module):
    def __repr__(self):
        raise RuntimeError("no text for you")

    __str__ = __repr__

    def __deepcopy__(self, memo):
        raise RuntimeError("no copies")

    def forward(self, x):
        print("loud")
        return x * 2


def test_a_module_that_cannot_be_copied_or_shown_is_traced_by_numbers(capsys):
    t = trace(Hostile(), torch.randn(B, T, D))
    assert t.naming.startswith("names by equal numbers only")
    assert t.rows[0].axes == ("B", "T", "D")
    assert "Hostile" in str(t)
    assert capsys.readouterr().out == "loud\n"


def test_endless_recursion_ends_in_an_error():
    def endless(x):
        return endless(x + 1)

    t = trace(endless, torch.zeros(2))
    assert isinstance(t.error, RecursionError)
    assert "RecursionError" in str(t)


def test_an_interrupt_is_not_swallowed():
    def stop(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trace(stop, torch.zeros(2))


def test_a_watcher_sees_live_tensors_and_is_not_recorded():
    sums = []

    def watch(row, func, args, kwargs, output):
        if row.op == "softmax":
            sums.append((output.sum(dim=row.detail) - 1).abs().max().item())

    recording = record(encoder(), ids(), need_weights=True, watch=watch)
    assert len(sums) == 2
    assert max(sums) < 1e-6
    assert "sum" not in {row.op for row in recording.rows}


# --- how it is told ------------------------------------------------------------------


def test_the_plain_form_is_json_and_agrees_with_the_rows():
    t = trace(encoder(), ids(), need_weights=True)
    plain = json.loads(json.dumps(t.to_dict()))
    assert plain["relations"] == {"D": "H*K"}
    assert plain["error"] is None
    assert len(plain["rows"]) == len(t.rows)
    for row in plain["rows"]:
        for array in row["inputs"] + row["outputs"]:
            assert len(array["axes"]) == len(array["shape"])
            size = {"int64": 8, "float32": 4}[array["dtype"]]
            assert array["bytes"] == size * math.prod(array["shape"])


def test_the_table_is_deterministic_and_folds_equal_layers():
    texts = {str(trace(encoder(n_layers=4), ids())) for _ in range(2)}
    assert len(texts) == 1
    (text,) = texts
    assert "in layers.1 to layers.3" in text
    assert "layers.2." not in text
    assert "split D into H x K" in text
    assert max(map(len, text.splitlines())) < 180


def test_a_notebook_gets_a_bundle_with_text():
    t = trace(nn.Linear(D, F), torch.randn(B, D))
    assert "text/plain" in t._repr_mimebundle_()
    assert isinstance(t, Trace)
    assert repr(t) == "Trace(Linear: 1 operation)"
