"""Promises of the MaskLab: the page computes what torch computes, and its code runs.

The page's Python is executed here, word for word, and compared with the page's numbers
for every mask, way of writing it, function, fill and number format.
"""

import builtins
import itertools
import math
import re

import anywidget
import numpy as np
import pytest
import torch
from book.views import MaskLab
from common import JS
from encoder import attention
from torch import nn
from torch.nn import functional as F

T, K = 7, 5
PADDING = [5, 6]
WORDS = [*"abcde", "[pad]", "[pad]"]
WRITTEN = ["blocked", "mha", "sdpa", "added", "ones"]
HANDED = ["attention", "mha", "sdpa", "filled", "added", "rule"]
FILLS, FORMATS = ["-inf", "-1e9", "lowest"], ["float32", "float16"]
RUN = """
const code = await import(data.folder + "mask_code.js");
const text = (x) => (x === undefined ? null : x.map((row) => row.map(String)));
const { heads, cross, padding } = data;
const masks = module.presets(heads.key.length, padding, cross.length);
const best = { written: "blocked", handed: "attention", fill: "lowest" };
const make = (name, blocked, options) => {
  const given = { ...heads, query: name === "cross" ? cross : heads.query };
  const made = module.attend(given, blocked, options);
  const meant = module.attend(given, blocked, { ...options, ...best });
  return { name, options, error: made.error ?? null,
    lines: code.maskCode(blocked, options) + "\\n" + code.callCode(blocked, options),
    weights: text(made.weights), output: text(made.output),
    outcome: module.outcome(made, blocked, meant).kind };
};
return Object.entries(masks).flatMap(([name, blocked]) =>
  data.cases.map((options) => make(name, blocked, options)));
"""
ANSWERS = """
const answers = module.emptyAnswers(data.rows, data.mask);
return answers.map(({ weights }) => weights.map(String));
"""
DRIFT = """
const { rows, padding } = data, masks = module.presets(rows.key.length, padding, 0);
return data.ways.map(([name, written, handed]) => {
  const options = { written, handed, fill: "-inf", format: "float32" };
  return module.drift(rows, masks[name], padding, false, options)?.by ?? null;
});
"""


def heads(seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(1, T, K, generator=generator) * scale for _ in range(3)]
    return dict(zip(("query", "key", "value"), rows, strict=True))


CROSS = torch.randn(1, 3, K, generator=torch.Generator().manual_seed(9))


def view(**options):
    return MaskLab(*heads().values(), WORDS, PADDING, **options)


@pytest.fixture(scope="module")
def cases(js):
    """What the page makes of every mask in every way."""
    lab = view(cross=(list("xyz"), CROSS)).state
    names = ("written", "handed", "fill", "format")
    grid = itertools.product(WRITTEN, HANDED, FILLS, FORMATS)
    data = {"heads": {name: lab[name] for name in heads()}, "padding": PADDING}
    data |= {
        "cross": lab["cross_query"],
        "cases": [dict(zip(names, x, strict=True)) for x in grid],
    }
    return js(
        "mask_math.js", RUN, data | {"folder": f"{JS['mask_code.js'].parent.as_uri()}/"}
    )


def plain_mha(dtype):
    """nn.MultiheadAttention with one head and maps that change nothing."""
    mha = nn.MultiheadAttention(K, 1, batch_first=True, dtype=dtype)
    with torch.no_grad():
        mha.in_proj_weight.copy_(torch.eye(K).repeat(3, 1))
        mha.out_proj.weight.copy_(torch.eye(K))
    return mha.requires_grad_(False)


def run(case):
    """Run the code that the page shows, and return output and weights."""
    dtype = getattr(torch, case["options"]["format"])
    given = {name: x.to(dtype) for name, x in heads().items()}
    if case["name"] == "cross":
        given["query"] = CROSS.to(dtype)
    names = {"torch": torch, "math": math, "F": F, "attention": attention}
    names |= given | {"mha": plain_mha(dtype)}
    exec(case["lines"], names)  # noqa: S102
    return names["output"][0], names.get("weights")


def test_the_code_in_the_page_gives_the_numbers_in_the_page(cases):
    ran = 0
    for case in cases:
        if case["error"]:
            continue
        output, weights = run(case)
        exact = case["options"]["format"] == "float32"
        for ours, theirs in ((output, "output"), (weights, "weights")):
            if ours is None:  # the fused function does not tell
                continue
            page = np.array(case[theirs], dtype=float).reshape(ours.squeeze(0).shape)
            np.testing.assert_allclose(
                page,
                ours.squeeze(0).double().numpy(),
                atol=1e-5 if exact else 1e-2,
                err_msg=f"{case['name']} {case['options']}",
            )
        ran += 1
    assert ran > 800


def test_what_the_page_says_is_refused_torch_refuses_in_these_words(cases):
    refused = [case for case in cases if case["error"]]
    for case in refused:
        kind, text = case["error"].split(": ", 1)
        with pytest.raises(getattr(builtins, kind), match=f"^{re.escape(text)}"):
            run(case)
    assert {case["options"]["handed"] for case in refused} >= {"attention", "sdpa"}


def outcomes(cases, name, fill="-inf", number_format="float32"):
    """Return what becomes of a mask: written and handed, and the outcome."""
    return {
        (case["options"]["written"], case["options"]["handed"]): case["outcome"]
        for case in cases
        if case["name"] == name
        and case["options"]["fill"] == fill
        and case["options"]["format"] == number_format
    }


def test_a_mask_in_its_own_function_is_as_meant_and_in_the_wrong_one_is_not(cases):
    for name in ("padding", "causal", "causal + padding", "window", "cross"):
        found = outcomes(cases, name)
        for own in (
            ("blocked", "attention"),
            ("mha", "mha"),
            ("sdpa", "sdpa"),
            ("added", "added"),
            ("ones", "rule"),
            ("mha", "filled"),
            ("added", "sdpa"),
        ):
            assert found[own] == "meant", (name, own)
        assert found["ones", "sdpa"] == found["added", "filled"] == "error"
        assert found["ones", "added"] == found["blocked", "added"] == "leak"
    for name in ("padding", "cross"):
        found = outcomes(cases, name)
        assert found["blocked", "sdpa"] == found["sdpa", "mha"] == "inverted"
        assert found["mha", "rule"] == found["sdpa", "filled"] == "inverted"
        assert found["added", "rule"] == "other"


def test_a_query_that_sees_nothing_has_four_answers(cases, js):
    blocked = outcomes(cases, "nobody for one")
    assert blocked["mha", "mha"] == blocked["mha", "filled"] == "nan"
    assert blocked["blocked", "attention"] == blocked["sdpa", "sdpa"] == "meant"
    state = view().state
    rows = {name: state[name] for name in heads()}
    mask = [[True] * T] + [[j in PADDING for j in range(T)]] * (T - 1)
    answers = js("mask_math.js", ANSWERS, {"rows": rows, "mask": mask})
    nan, mean, raw, zero = np.array(answers, dtype=float)
    assert np.isnan(nan).all()
    assert (zero == 0).all()
    np.testing.assert_allclose(mean, 1 / T, atol=1e-6)
    free = attention(*heads().values())[1][0, 0]
    np.testing.assert_allclose(raw, free, atol=2e-3)


def test_padding_is_harmless_under_a_good_mask_and_not_under_a_bad_one(js):
    state = view().state
    rows = {name: state[name] for name in heads()}
    ways = [("padding", "blocked", "attention"), ("causal", "sdpa", "sdpa")]
    ways += [("queries instead", "blocked", "attention"), ("nothing", "mha", "mha")]
    ways += [("padding", "mha", "sdpa"), ("padding", "ones", "added")]
    ways += [("padding", "ones", "mha")]
    data = {"rows": rows, "padding": PADDING, "ways": ways}
    good, causal, *bad, refused = js("mask_math.js", DRIFT, data)
    assert good == causal == 0  # here padding comes last: causal hides it too
    assert min(bad) > 0.1
    assert refused is None


def test_half_rounds_as_float16_does(js):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-9, 6, size=500)
    numbers = [*numbers, 0, 65504, 65519.9, 65520, -1e9, 2**-24, 2**-25, 1 + 2**-11]
    got = js("mask_math.js", "return data.map((x) => String(module.half(x)))", numbers)
    with np.errstate(over="ignore"):
        wanted = np.array(numbers).astype(np.float16).astype(float)
    np.testing.assert_array_equal(np.array(got, dtype=float), wanted)


# --- the Python side -----------------------------------------------------------------


def test_it_says_what_it_holds_and_its_still_figure_shows_the_weights():
    assert repr(view()) == "MaskLab(7 tokens, 2 of them padding, 14 of 49 pairs hidden)"
    weights = attention(
        *heads().values(), torch.tensor([j in PADDING for j in range(T)])
    )
    still = view().still()
    assert f"{weights[1][0, 0, 0]:.2f}" in still
    assert "Hidden from each query" in still


def test_it_starts_with_the_mask_it_is_given():
    causal = np.triu(np.ones((T, T), dtype=bool), 1)
    assert view(blocked=causal).state["blocked"] == causal.tolist()
    live = view(blocked=torch.tensor(causal)).live()
    assert isinstance(live, anywidget.AnyWidget)
    assert live.blocked == causal.tolist()
    assert not any(hasattr(anywidget.AnyWidget, name) for name in view().state)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"tokens": ["a"]}, ValueError, "tokens must name 7 places, got 1"),
        ({"padding": [7]}, ValueError, "padding must lie in -7..6, got 7"),
        ({"key": torch.zeros(6, K)}, ValueError, r"MaskLab wants .* \(6, 5\)"),
        ({"query": torch.zeros(2, T, K)}, ValueError, r"must be \(T, K\), got \(2"),
        ({"blocked": np.zeros((T, T))}, TypeError, "must be bool"),
        ({"blocked": np.zeros(T, dtype=bool)}, ValueError, r"\(7, 7\), got \(7,\)"),
        ({"cross": (["x"], torch.zeros(1, 3))}, ValueError, r"\(1, 3\)"),
    ],
)
def test_bad_input_is_answered_with_what_is_wanted(change, error, words):
    options = heads() | {"tokens": WORDS, "padding": PADDING} | change
    with pytest.raises(error, match=words):
        MaskLab(**options)
