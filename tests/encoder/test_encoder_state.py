"""A model can be moved, saved, copied and cast, and stays the same model."""

import copy
import io
import pickle

import encoder
import pytest
import torch
from small import DEVICES, MODEL, B, D, H, L, T, assert_near, build, ragged, random_ids
from torch.func import functional_call, grad, stack_module_state, vmap

ORDERS = pytest.mark.parametrize("norm_first", [False, True])


def build_model(**options):
    return build(encoder.TransformerEncoder, **MODEL, **options)


def tensors(model):
    return [*model.parameters(), *model.buffers()]


@ORDERS
def test_state_dict_carries_everything_learned_and_nothing_else(norm_first):
    model, ids = build_model(norm_first=norm_first), random_ids()
    fresh = encoder.TransformerEncoder(**MODEL, norm_first=norm_first).eval()
    assert (fresh(ids)[0] - model(ids)[0]).abs().max() > 0.1
    fresh.load_state_dict(model.state_dict())
    assert_near(fresh(ids)[0], model(ids)[0])
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}


def test_weights_fit_a_model_for_longer_texts():
    model, ids = build_model(), random_ids()
    longer = encoder.TransformerEncoder(**MODEL | {"max_length": 101}).eval()
    longer.load_state_dict(model.state_dict())
    assert_near(longer(ids)[0], model(ids)[0])
    assert longer(random_ids(1, 101))[0].shape == (1, 101, D)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_a_cast_reaches_every_tensor(dtype):
    dtype = getattr(torch, dtype)
    model = build_model().to(dtype)
    assert {each.dtype for each in tensors(model)} == {dtype}
    hidden, maps = model(random_ids(), ragged(), need_weights=True)
    assert {each.dtype for each in (hidden, *maps)} == {dtype}
    assert model(random_ids(), ragged())[0].dtype == dtype
    assert model.positions.double() is model.positions  # as every torch module does


def test_positions_lose_nothing_by_a_cast_to_float64():
    exact = encoder.sinusoidal_positions(T, D)
    for positions in (build_model().positions, build_model().half().positions):
        assert torch.equal(positions.double()(torch.zeros(B, T, D).double())[1], exact)


def test_a_cast_down_and_up_keeps_the_coarse_digits_as_weights_do():
    positions = build_model().half().float().positions
    assert_near(positions.table, encoder.sinusoidal_positions(19, D), 1e-3)
    assert positions(torch.zeros(B, T, D)).dtype == torch.float32


def test_a_move_to_where_a_model_is_keeps_every_tensor():
    model = build_model()
    before = tensors(model)
    moved = model.to("cpu").to(torch.float32).cpu()
    assert all(x is y for x, y in zip(tensors(moved), before, strict=True))


def test_every_tensor_can_be_shared_with_another_process():
    model = build_model()
    assert not any(each.is_shared() for each in tensors(model))
    assert all(each.is_shared() for each in tensors(model.share_memory()))


def test_meta_reaches_every_tensor_and_still_gives_shapes():
    model = build_model().to("meta")
    assert all(each.is_meta for each in tensors(model))
    ids, padding = random_ids().to("meta"), ragged().to("meta")
    hidden, maps = model(ids, padding, need_weights=True)
    assert hidden.is_meta
    assert hidden.shape == (B, T, D)
    assert [each.shape for each in maps] == [(B, H, T, T)] * L


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("assign", [False, True])
def test_a_model_that_leaves_meta_has_its_positions_back(assign, dtype):
    dtype = getattr(torch, dtype)
    model, ids = build_model().to(dtype), random_ids()
    with torch.device("meta"):
        empty = encoder.TransformerEncoder(**MODEL).eval()
    if not assign:
        empty = empty.to(dtype).to_empty(device="cpu")
        empty.positions.table.fill_(float("nan"))  # what memory holds is anything
    empty.load_state_dict(model.state_dict(), assign=assign)
    assert {each.dtype for each in tensors(empty)} == {dtype}
    assert {each.device.type for each in tensors(empty)} == {"cpu"}
    assert torch.equal(empty(ids)[0], model(ids)[0])


def test_a_model_inside_another_leaves_meta_with_it():
    with torch.device("meta"):
        outer = torch.nn.Sequential(encoder.TransformerEncoder(**MODEL).eval())
    model, ids = build_model(), random_ids()
    state = {f"0.{name}": tensor for name, tensor in model.state_dict().items()}
    outer.load_state_dict(state, assign=True)
    assert torch.equal(outer(ids)[0], model(ids)[0])


def test_weights_load_where_positions_were_replaced():
    model = build_model()
    model.positions = torch.nn.Identity()
    model.load_state_dict(build_model().state_dict())
    assert isinstance(model.positions, torch.nn.Identity)


@pytest.mark.parametrize("device", DEVICES)
def test_every_device_computes_the_same(device):
    model, ids, padding = build_model(), random_ids(), ragged()
    expected = model(ids, padding)[0]
    moved = model.to(device)
    assert {each.device.type for each in tensors(moved)} == {device}
    for need_weights in (False, True):
        ours = moved(ids.to(device), padding.to(device), need_weights)[0]
        assert_near(ours, expected, 1e-5)


def copies(model):
    """Yield the model as each way of copying gives it back."""
    yield copy.deepcopy(model)
    yield pickle.loads(pickle.dumps(model))
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    yield torch.load(buffer, weights_only=False)


@ORDERS
def test_copies_compute_the_same_and_share_nothing(norm_first):
    model, ids = build_model(norm_first=norm_first), random_ids()
    expected = model(ids, ragged())[0].detach()
    for each in copies(model):
        assert_near(each(ids, ragged())[0], expected)
        for parameter in each.parameters():
            parameter.data.zero_()
        assert_near(model(ids, ragged())[0], expected)


def test_a_float64_default_gives_a_float64_model():
    torch.set_default_dtype(torch.float64)
    try:
        model = build_model()
        hidden, _ = model(random_ids())
    finally:
        torch.set_default_dtype(torch.float32)
    assert {each.dtype for each in (hidden, *tensors(model))} == {torch.float64}
    exact = encoder.sinusoidal_positions(MODEL["max_length"], D)
    assert torch.equal(model.positions.table, exact)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("device", DEVICES)
def test_bfloat16_autocast_stays_near_float32(device, need_weights):
    model, ids = build_model().to(device), random_ids().to(device)
    padding = ragged().to(device)
    padding[2] = True
    expected = model(ids, padding, need_weights)[0]
    with torch.autocast(device, dtype=torch.bfloat16):
        hidden, _ = model(ids, padding, need_weights)
        hidden.float().square().sum().backward()
    assert_near(hidden, expected, 0.05)
    assert all(each.grad.isfinite().all() for each in model.parameters())


def test_a_forward_call_leaves_nothing_behind():
    model = build_model()
    before = {name: set(vars(part)) for name, part in model.named_modules()}
    model(random_ids(), ragged(), need_weights=True)
    assert {name: set(vars(part)) for name, part in model.named_modules()} == before


def loss_of(model):
    """Return a function of parameters and one sample: ids (T,) and padding (T,)."""

    def loss(parameters, ids, padding):
        inputs = ids[None], padding[None]
        return functional_call(model, parameters, inputs)[0].cos().sum()

    return loss


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@ORDERS
def test_gradients_of_each_sample_come_out_of_one_call(norm_first):
    model = build_model(norm_first=norm_first)
    ids, padding, loss = random_ids(), ragged(), loss_of(model)
    parameters = dict(model.named_parameters())
    together = vmap(grad(loss), (None, 0, 0))(parameters, ids, padding)
    for row in range(B):
        alone = torch.autograd.grad(
            loss(parameters, ids[row], padding[row]), list(parameters.values())
        )
        for name, expected in zip(parameters, alone, strict=True):
            assert_near(together[name][row], expected, 1e-5)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_an_ensemble_runs_as_one_model():
    models = [build_model(), build_model()]
    models[1].embedding.weight.data *= -1
    stacked, ids = stack_module_state(models), random_ids()

    def call(parameters, buffers):
        return functional_call(models[0], (parameters, buffers), (ids,))[0]

    both = vmap(call)(*stacked)
    for ours, model in zip(both, models, strict=True):
        assert_near(ours, model(ids)[0])


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_whole_encoder_is_one_graph(need_weights):
    model = build(encoder.TransformerEncoder, **MODEL | {"n_layers": 1})
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    ids = random_ids()
    hidden = compiled(ids, ragged(), need_weights)[0]
    torch.compiler.reset()
    assert_near(hidden, model(ids, ragged(), need_weights)[0])
