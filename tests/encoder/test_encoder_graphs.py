"""The encoder compiles, exports and maps whole: nothing in it asks what the ids are."""

import encoder
import onnx
import onnxruntime
import pytest
import torch
from small import MODEL, B, T, assert_near, build, random_ids
from torch._dynamo.testing import CompileCounterWithBackend

SIZES = [(B, T), (4, 7), (3, 13), (7, 2), (2, 19), (6, 5)]  # no two share a size
MASKED = pytest.mark.parametrize("masked", [False, True])


@pytest.fixture(autouse=True)
def _forget_graphs():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def batch(rows, tokens, masked):
    """Draw the inputs of an encoder by name; the last row is padding altogether."""
    lengths = torch.arange(rows - 1, -1, -1) * tokens // max(1, rows - 1)
    inputs = {"token_ids": random_ids(rows, tokens)}
    inputs["key_padding_mask"] = torch.arange(tokens) >= lengths[:, None]
    if masked:
        inputs["blocked"] = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
        inputs["bias"] = torch.randn(tokens, tokens)
    return inputs


def dynamic(masked):
    """Say which axes of these inputs may have any size."""
    rows = torch.export.Dim("B")
    tokens = torch.export.Dim("T", max=MODEL["max_length"])
    shapes = {
        "token_ids": {0: rows, 1: tokens},
        "key_padding_mask": {0: rows, 1: tokens},
    }
    pairs = dict.fromkeys(["blocked", "bias"], {0: tokens, 1: tokens})
    return shapes | (pairs if masked else {})


@MASKED
def test_one_graph_serves_the_first_length_and_a_second_all_others(masked):
    model = build(encoder.TransformerEncoder, **MODEL | {"n_layers": 2})
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for n, (rows, tokens) in enumerate(SIZES):
        inputs = batch(rows, tokens, masked) | {"need_weights": masked}
        assert_near(compiled(**inputs)[0], model(**inputs)[0])
        assert counter.frame_count == min(n + 1, 2)


def test_a_compiled_encoder_trains_as_the_encoder_does():
    options = MODEL | {"n_layers": 1, "dropout": 0.0}
    model = build(encoder.TransformerEncoder, **options).train()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    inputs = batch(B, T, masked=True)
    gradients = []
    for forward in (model, compiled):
        loss = forward(**inputs)[0].cos().sum()
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for ours, expected in zip(*gradients, strict=True):
        assert_near(ours, expected, 1e-5)


@MASKED
def test_an_exported_encoder_takes_any_batch_and_length(masked):
    model = build(encoder.TransformerEncoder, **MODEL)
    exported = torch.export.export(
        model, (), batch(B, T, masked), dynamic_shapes=dynamic(masked)
    )
    for rows, tokens in [*SIZES, (1, 1)]:
        inputs = batch(rows, tokens, masked)
        assert_near(exported.module()(**inputs)[0], model(**inputs)[0])


@pytest.mark.filterwarnings("ignore")  # of what onnx does not need: torchvision, names
@MASKED
def test_onnx_computes_the_same_at_any_size(masked, tmp_path):
    model = build(encoder.TransformerEncoder, **MODEL, norm_first=True)
    path = tmp_path / "encoder.onnx"
    torch.onnx.export(
        model,
        (),
        path,
        kwargs=batch(B, T, masked),
        dynamic_shapes=dynamic(masked),
        verbose=False,
    )
    onnx.checker.check_model(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for rows, tokens in [*SIZES, (1, 1)]:
        inputs = batch(rows, tokens, masked)
        given = {name: tensor.numpy() for name, tensor in inputs.items()}
        (hidden,) = session.run(None, given)
        assert_near(hidden, model(**inputs)[0], 1e-5)
