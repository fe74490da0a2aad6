"""The museum's exhibits are broken where they say, and one change away from right."""

import ast
import inspect
import re

import pytest
import torch
from book.pitfalls import (
    GALLERIES,
    PITFALLS,
    SIGNS,
    SIZES,
    Steps,
    exhibit,
    healthy,
    measurements,
)
from encoder import MultiHeadAttention, TransformerEncoder
from small import assert_near
from taken_apart.doctor import CHAPTERS

each_exhibit = pytest.mark.parametrize("name", PITFALLS)
PATCH_LINES = 14


def test_the_museum_is_large_and_covers_every_kind():
    assert len(PITFALLS) >= 60
    assert {p.kind for p in PITFALLS.values()} == set(CHAPTERS)
    assert {p.sign for p in PITFALLS.values()} == set(SIGNS)


# Really broken


@each_exhibit
def test_the_diagnosis_clears_the_right_one_and_convicts_the_exhibit(name):
    case = PITFALLS[name]
    assert case.healthy(case.right())
    assert not case.healthy(case.build())


@each_exhibit
def test_a_diagnosis_is_one_line_that_says_yes_or_no(name):
    case = PITFALLS[name]
    ast.parse(case.diagnosis, mode="eval")
    assert "\n" not in case.diagnosis
    assert len(case.diagnosis) <= 130


# What raises, or needs a mode, a type or a look at the parameters, has no other output.
SAME_IN_EVAL = {
    "one norm for both",
    "dropout on scores",
    "softmax by hand",
    "norm without eps",
    "residual in place",
    "layers in a list",
    "table not registered",
    "gradient cut",
    "eval in forward",
    "weights averaged",
    "weights not asked for",
    "weights after dropout",
    "first map for all",
    "float by decree",
    "shapes printed",
    "fill too low for half",
}


@each_exhibit
def test_outputs_differ_where_they_can(name):
    case = PITFALLS[name]
    ids, padding = case.inputs()
    right = measurements.outputs(case.right(), ids, padding)
    assert right.isfinite().all()
    try:
        broken = measurements.outputs(case.build(), ids, padding)
    except (RuntimeError, ValueError):
        assert case.sign == "it raises an error"
        return
    words = ~padding if right.dim() == 3 and case.sign != "nan or inf" else ...
    far = (broken.float() - right).abs()[words].max()
    assert bool(far > 1e-3 or far.isnan()) == (name not in SAME_IN_EVAL)


# Really one change away


@each_exhibit
def test_the_weights_are_those_of_the_right_model_or_it_says_why(name):
    case = PITFALLS[name]
    right, broken = (m.float().state_dict() for m in (case.right(), case.build()))
    same = right.keys() == broken.keys()
    same = same and all(torch.equal(right[key], broken[key]) for key in right)
    assert same == (not case.unlike)


@each_exhibit
def test_an_exhibit_is_a_few_lines(name):
    code = PITFALLS[name].code()
    ast.parse(code)
    assert '"""' not in code
    assert "@pitfall" not in code
    assert len([line for line in code.split("\n") if line.strip()]) <= PATCH_LINES


def test_the_stepwise_attention_is_the_encoders_own():
    torch.manual_seed(0)
    right = MultiHeadAttention(20, 5).eval()
    stepwise = MultiHeadAttention(20, 5).eval()
    stepwise.load_state_dict(right.state_dict())
    stepwise.__class__ = Steps
    x = torch.randn(4, 7, 20)
    padding = torch.arange(7) >= torch.tensor([7, 5, 3, 0])[:, None]
    for mask in (None, padding):
        for one, other in zip(
            stepwise(x, mask, True), right(x, mask, True), strict=True
        ):
            assert_near(one, other)


def test_an_exhibit_is_the_same_at_every_call_and_leaves_the_random_numbers_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = (exhibit("heads that do not divide").state_dict() for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_healthy_encoder_is_what_exhibits_are_built_from():
    one, other = healthy(), PITFALLS["causal by habit"].right()
    assert not one.training
    assert all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))
    assert healthy(d_model=64, n_heads=2).embedding.weight.shape[1] == 64


def test_an_exhibit_can_be_built_in_other_sizes():
    model = exhibit("scale forgotten", d_model=64, n_heads=2, vocab_size=32)
    assert isinstance(model, TransformerEncoder)
    assert model.embedding.weight.shape == (32, 64)
    assert len(model.layers) == SIZES["n_layers"]


def test_an_unknown_exhibit_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="scale forgotten"):
        exhibit("no such thing")


# What is said of each


@each_exhibit
def test_every_field_is_filled(name):
    case = PITFALLS[name]
    assert case.kind in CHAPTERS
    assert case.sign in SIGNS
    for said in (case.symptom, case.cause, case.diagnosis, case.fix, case.where):
        assert len(said) >= 5
        assert said == said.strip()
    assert case.cause.endswith(".")
    assert not case.symptom.endswith(".")


def test_names_symptoms_and_causes_tell_exhibits_apart():
    causes = [case.cause for case in PITFALLS.values()]
    pairs = {(case.symptom, case.fix, case.cause) for case in PITFALLS.values()}
    assert len(set(causes)) == len(pairs) == len(PITFALLS)
    changes = [case.change for case in PITFALLS.values()]
    assert len(set(changes)) == len(changes)


def test_every_class_of_a_gallery_is_shown_with_an_exhibit():
    shown = [part for case in PITFALLS.values() for part in (case.change, *case.uses)]
    for gallery in GALLERIES:
        own = [
            thing
            for thing in vars(gallery).values()
            if inspect.isclass(thing) and thing.__module__ == gallery.__name__
        ]
        assert all(thing in shown for thing in own)


def test_the_lines_of_an_exhibit_hold_the_class_that_it_uses():
    users = [case for case in PITFALLS.values() if case.uses]
    assert len(users) == 4
    for case in users:
        for part in case.uses:
            assert part.__name__ in inspect.getsource(case.change)
            assert f"class {part.__name__}(" in case.code()


# Measurements


def test_the_divisor_is_read_off_the_weights():
    x = torch.randn(3, 7, 20, generator=torch.Generator().manual_seed(0))
    found = {
        name: measurements.divisor(exhibit(name).layers[0].attention, x)
        for name in ("scale forgotten", "scale of the model", "scale upside down")
    }
    wanted = {"forgotten": 1.0, "of the model": 20**0.5, "upside down": 0.5}
    for name, number in wanted.items():
        assert abs(found[f"scale {name}"] / number - 1) < 1e-3


def test_undivided_scores_are_those_behind_the_weights_of_torchs_layer():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(35, 5, batch_first=True)
    x = torch.randn(2, 3, 35)
    scores = measurements.undivided_scores(layer, x)
    weights = layer(x, x, x, average_attn_weights=False)[1]
    assert scores.shape == (2, 5, 3, 3)
    assert_near((scores / 7**0.5).softmax(dim=-1), weights)


def test_influence_is_a_map_of_outputs_by_inputs():
    case = PITFALLS["causal by habit"]
    ids, _ = case.inputs()
    assert (measurements.influence(case.build(), ids).triu(1) == 0).all()
    assert (measurements.influence(case.right(), ids) > 0).all()


def test_a_measurement_leaves_the_mode_and_the_gradients():
    case = PITFALLS["norm over the batch"]
    model, (ids, padding) = case.right().train(), case.inputs()
    measurements.company_gap(model, ids, padding)
    measurements.idle(model, ids, padding)
    assert model.training
    assert all(p.grad is None for p in model.parameters())


def test_likeness_and_evenness_know_their_ends():
    assert abs(measurements.likeness(torch.ones(2, 5, 3)) - 1) < 1e-6
    assert abs(measurements.likeness(torch.eye(5)[None])) < 1e-6
    assert abs(measurements.evenness(torch.full((2, 4), 0.25)) - 1) < 1e-6
    assert measurements.evenness(torch.eye(4)) == 0


def test_the_share_on_padding_counts_the_weights_of_padded_keys():
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.1, 0.2, 0.7]]).expand(2, 4, 2, 3)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    share = measurements.padding_share(weights, padding)
    assert abs(share - (0.0 + 0.7) / 4) < 1e-6  # two rows of each of two sentences


def test_where_it_was_met_is_a_report_or_says_that_none_is_known():
    report = re.compile(r"[\w.-]+/[\w.-]+( PR)?#\d+")
    reported = [case for case in PITFALLS.values() if report.search(case.where)]
    assert len(reported) >= 35
    told = (
        "no number known",
        "pitfalls of",
        "source",
        "chapter",
        "Neuromatch",
        "minimal",
    )
    for case in PITFALLS.values():
        assert case in reported or any(word in case.where for word in told), case.name
