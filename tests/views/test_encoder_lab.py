"""Promises of the EncoderLab: the page computes what encoder.py computes.

`encoder_lab_runner.mjs` runs the page's own modules under node. The cases are drawn
here, with prime sizes, and compared with the encoder in torch, float64.
"""

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from book.models import toy_language as lab
from book.views import EncoderLab
from common import JS
from encoder import TransformerEncoder
from torch import nn
from views.lab_in_torch import START, job_of, outputs, record_steps, without

HERE = Path(__file__).parent
TOLERANCE = 1e-5


@pytest.fixture(scope="session")
def in_page(node, tmp_path_factory):
    """A function that hands jobs to the page's modules and returns their results."""
    folder = tmp_path_factory.mktemp("js")
    for file in JS.values():
        shutil.copy(file, folder)
    (folder / "package.json").write_text('{"type": "module"}')

    def in_page(command, jobs):
        call = [node, HERE / "encoder_lab_runner.mjs", folder, command]
        done = subprocess.run(
            call, input=json.dumps(jobs), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return in_page


# --- Random encoders, whole and in parts ---------------------------------------------


def random_model(rng):
    """Draw an encoder of prime sizes whose norms and biases are not the fresh ones."""
    n_heads, d_head = rng.choice([1, 2, 3]), rng.choice([1, 2, 3, 5])
    model = TransformerEncoder(
        rng.choice([7, 11]),
        d_model=n_heads * d_head,
        n_heads=n_heads,
        d_ff=rng.choice([3, 7, 13]),
        n_layers=rng.choice([1, 2, 3]),
        norm_first=rng.random() < 0.5,
        max_length=13,
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=rng.choice([0.3, 1.0]))
    return model.double().eval()


def random_sentence(rng, model):
    """Draw ids (T) and padding (T); in one case of six every token is padding."""
    count = rng.choice([1, 2, 3, 5, 7, 11])
    ids = [rng.randrange(len(model.embedding.weight)) for _ in range(count)]
    share = rng.choice([0, 0, 0.3, 0.3, 0.8, 1])
    return ids, [rng.random() < share for _ in range(count)]


def parts_of(model):
    """Name everything that the lab can leave out of this model."""
    layers, heads = range(len(model.layers)), model.layers[0].attention.n_heads
    inside = ["residual1", "residual2", *(f"head{head}" for head in range(heads))]
    names = [f"layers.{layer}.{part}" for layer in layers for part in inside]
    return ["scale", "positions", *names]


def draw_cases(count, seed, with_parts_off):
    """Draw (model, job) pairs; the model is whole, the job says what is off."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    cases = []
    for _ in range(count):
        model = random_model(rng)
        names = parts_of(model)
        off = rng.sample(names, rng.randint(1, min(4, len(names))))
        ids, padding = random_sentence(rng, model)
        cases.append(
            (model, job_of(model, ids, padding, off if with_parts_off else []))
        )
    return cases


def assert_same(page, ours):
    torch.testing.assert_close(
        torch.tensor(page, dtype=torch.float64),
        ours.double(),
        rtol=TOLERANCE,
        atol=TOLERANCE,
    )


def test_the_page_computes_what_the_encoder_computes(in_page):
    cases = draw_cases(200, seed=3, with_parts_off=False)
    results = in_page("forward", [job for _, job in cases])
    for (model, job), page in zip(cases, results, strict=True):
        hidden, maps = outputs(model, job)
        assert_same(page["output"], hidden)
        for layer, weights in zip(page["layers"], maps, strict=True):
            assert_same(layer["weights"], weights)


def test_the_cases_hold_dead_rows_both_orders_and_several_heads():
    jobs = [job for _, job in draw_cases(200, seed=3, with_parts_off=False)]
    assert sum(all(job["padding"]) for job in jobs) >= 20
    assert {job["norm_first"] for job in jobs} == {True, False}
    assert {job["model"]["n_heads"] for job in jobs} == {1, 2, 3}


def test_every_part_can_be_left_out_as_in_a_patched_encoder(in_page):
    cases = draw_cases(120, seed=5, with_parts_off=True)
    results = in_page("forward", [job for _, job in cases])
    for (model, job), page in zip(cases, results, strict=True):
        assert_same(page["output"], outputs(without(model, job["off"]), job)[0])


def test_every_step_inside_a_layer_is_the_encoders(in_page):
    cases = draw_cases(20, seed=7, with_parts_off=False)
    results = in_page("forward", [job for _, job in cases])
    for (model, job), page in zip(cases, results, strict=True):
        steps = record_steps(model, job)
        assert_same(page["input"], steps["input"])
        for number, layer in enumerate(page["layers"]):
            for name, value in steps[number].items():
                assert_same(layer[name], value)


def test_influence_is_the_relative_move_of_each_output(in_page):
    cases = draw_cases(8, seed=11, with_parts_off=False)
    results = in_page("influence", [job for _, job in cases])
    for (model, job), page in zip(cases, results, strict=True):
        ids, base = job["ids"], outputs(model, job)[0]
        for j, column in enumerate(zip(*page, strict=True)):
            moves = torch.zeros(len(ids), dtype=torch.float64)
            for swap in (1, 2, 3, 4):
                changed = ids.copy()
                changed[j] = (ids[j] + swap) % len(model.embedding.weight)
                moved = outputs(model, job | {"ids": changed})[0]
                moves += (moved - base).norm(dim=1) / base.norm(dim=1) / 4
            assert_same(column, moves)


def test_padding_has_no_influence_on_any_other_token(in_page):
    job = stored_job(START, padding=[0])
    columns = list(zip(*in_page("influence", [job])[0], strict=True))
    assert columns[0][0] > 0.1
    assert columns[0][1:] == (0,) * (len(START) - 1)


# --- The stored encoder --------------------------------------------------------------


def stored_job(tokens, padding=(), off=(), norm_first=False, edits=()):
    return {
        "model": json.loads(lab.STORED.read_text()),
        "tokens": list(tokens),
        "ids": [lab.WORDS.index(token) for token in tokens],
        "padding": [i in padding for i in range(len(tokens))],
        "off": list(off),
        "norm_first": norm_first,
        "edits": list(edits),
    }


def test_the_stored_weights_fill_held_out_sentences_rightly():
    held_out = lab.split_sentences()[1]
    assert len(held_out) > 300
    assert not set(held_out) & set(lab.split_sentences()[0])
    assert lab.share_right(lab.load(), held_out) >= 0.99


def test_an_untrained_model_fails_the_same_question():
    torch.manual_seed(0)
    assert lab.share_right(lab.build().eval(), lab.split_sentences()[1][:50]) < 0.2


def test_a_short_training_learns_and_its_weights_come_back(tmp_path):
    model, path = lab.fit(steps=300), tmp_path / "weights.json"
    lab.store(model, path)
    again = lab.load(path)
    assert lab.share_right(again, lab.split_sentences()[1][:60]) > 0.4
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=5.1e-4)


def test_a_hidden_subject_leaves_an_honest_doubt():
    model = lab.load()
    sure = dict(lab.guesses(model, START)[5])
    doubt = dict(lab.guesses(model, START, [True] + [False] * 7)[5])
    assert sure["she"] > 0.9
    assert 0.2 < doubt["she"] < 0.8
    assert 0.2 < doubt["he"] < 0.8


def test_other_gains_stand_in_a_copy_and_in_one_norm():
    model = lab.load()
    changed = lab.with_gains(model, "0.norm1", torch.zeros_like)
    pairs = zip(model.named_parameters(), changed.parameters(), strict=True)
    moved = [name for (name, one), other in pairs if not torch.equal(one, other)]
    assert moved == ["encoder.layers.0.norm1.weight"]
    assert not changed.get_parameter(moved[0]).any()


def test_page_numpy_and_torch_give_the_same_chances(in_page):
    model = lab.load().double()
    ours = lab.guesses(model, START)[5]
    assert [word for word, _ in EncoderLab().guesses()] == [word for word, _ in ours]
    numpy = [chance for _, chance in EncoderLab().guesses()]
    np.testing.assert_allclose(numpy, [chance for _, chance in ours], atol=1e-9)
    hidden = in_page("forward", [stored_job(START)])[0]["output"]
    np.testing.assert_allclose(EncoderLab().run()[0], hidden, atol=1e-9)


TASK_SOLUTIONS = [
    {"tokens": ["tom", *START[1:]]},
    {"tokens": START, "padding": [0]},
    {"tokens": START, "off": ["layers.0.residual1"]},
]


@pytest.mark.parametrize("number", range(3))
def test_each_task_can_be_solved_and_only_by_its_own_solution(in_page, number):
    jobs = [stored_job(**solution) for solution in TASK_SOLUTIONS]
    done = in_page("tasks", jobs)
    assert [marks[number] for marks in done] == [i == number for i in range(3)]


def test_the_tasks_are_about_the_sentence_that_is_shown_first(in_page):
    assert in_page("sentence", [None]) == [" ".join(EncoderLab().state["tokens"])]


def test_no_task_is_done_before_the_reader_does_something(in_page):
    assert in_page("tasks", [stored_job(START)]) == [[False, False, False]]


# --- Words about numbers -------------------------------------------------------------

LAYER_STEPS = [
    "query",
    "key",
    "value",
    "scores",
    "weights",
    "context",
    "mixed",
    "sum1",
    "norm1",
    "hidden",
    "fed",
    "sum2",
    "norm2",
]
ALL_STAGES = ["embedded", "positions", "input", "guess"]
ALL_STAGES += [f"{layer}.{step}" for layer in (0, 1) for step in LAYER_STEPS]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("off", [[], ["scale", "positions", "layers.1.residual2"]])
def test_every_explanation_ends_in_the_number_of_its_cell(in_page, norm_first, off):
    stages = ALL_STAGES + ["final"] * norm_first
    job = stored_job(START, padding=[3], off=off, norm_first=norm_first)
    explained = in_page("explain", [job | {"stages": stages}])[0]
    for stage, maps in zip(stages, explained, strict=True):
        for value, text in (cell for rows in maps for row in rows for cell in row):
            shown = re.search(r"= (−?\d+\.\d\d)$", text)
            assert shown, f"{stage}: {text}"
            assert abs(float(shown[1].replace("−", "-")) - value) <= 0.00501, text
            assert not re.search("undefined|nan", text.lower()), text


def test_the_arithmetic_of_an_explanation_holds(in_page):
    stages = ["input", "1.scores", "1.weights", "0.sum1", "0.norm2"]
    explained = in_page("explain", [stored_job(START) | {"stages": stages}])[0]
    for maps in explained:
        for _, text in (cell for rows in maps for row in rows for cell in row):
            *_, formula, result = text.replace("−", "-").replace("·", "*").split(" = ")
            assert eval(formula) == pytest.approx(float(result), abs=0.06), text


def test_an_edited_weight_changes_the_page_as_it_changes_torch(in_page):
    name, model = "layers.1.attention.query.weight", lab.load().double()
    model.encoder.get_parameter(name).data[3, 5] += 2.5
    value = model.encoder.get_parameter(name)[3, 5].item()
    job = stored_job(START, edits=[[name, 3, 5, value], ["head.bias", 0, 7, 1.25]])
    explained = in_page("explain", [job | {"stages": ["1.query"]}])[0]
    page = [[cell[0] for cell in row] for row in explained[0][0]]
    steps = record_steps(model.encoder, job)
    assert_same(page, steps[1]["query"])


# --- What a reader may type ----------------------------------------------------------


def parse(in_page, text):
    return in_page("parse", [[text, lab.WORDS, 10]])[0]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("emma ate the soup", ["emma", "ate", "the", "soup"]),
        ("  Emma ATE _ soup\n", ["emma", "ate", "___", "soup"]),
        ("______", ["___"]),
    ],
)
def test_typed_sentences_are_read_kindly(in_page, text, tokens):
    assert parse(in_page, text) == {"tokens": tokens}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "at least one word"),
        ("emma ate pizza", "“pizza” is not one of the 53 words"),
        ("<script>alert(1)</script>", "is not one of the 53 words"),
        ("constructor __proto__", "“constructor” is not one"),
        ("🦊" * 200, "…” is not one"),
        ("the " * 11, "11 words; this encoder was trained on at most 10"),
    ],
)
def test_what_it_cannot_read_it_says_in_a_sentence(in_page, text, wanted):
    error = parse(in_page, text)["error"]
    assert wanted in error
    assert len(error) < 200


# --- The view in Python --------------------------------------------------------------


def test_the_view_says_the_same_at_every_run_and_names_no_id():
    first, second = EncoderLab(), EncoderLab()
    assert repr(first) == repr(second)
    assert first.html() == second.html()
    assert "she" in repr(first)
    assert START[0] in repr(first)
    assert not re.search(r"<[^>]*\sid=", first.html())


def test_the_weights_and_the_page_are_small():
    assert lab.STORED.stat().st_size <= 300_000
    assert len(EncoderLab().html().encode()) <= 400_000


def test_without_scripts_the_page_still_shows_guess_and_attention():
    still = EncoderLab().still()
    assert "she" in still
    assert "hungry" in still
    best = EncoderLab().run()[1][-1, 0].max()
    assert f"{best:.2f}" in still


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": "emma ate <b>pizza</b>"}, "does not know"),
        ({"tokens": ""}, "1 to 10 words, got 0"),
        ({"tokens": "the " * 11}, "1 to 10 words, got 11"),
        ({"padding": [8]}, "padding must lie in -8..7, got 8"),
        ({"opened": "2.query"}, "1.norm2, got '2.query'"),
    ],
)
def test_bad_sentences_are_refused_with_a_sentence(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        EncoderLab(**arguments)


def test_every_step_of_the_encoder_can_be_opened_first():
    for each in ALL_STAGES:
        assert EncoderLab(opened=each).state["opened"] == each


def test_live_traits_reach_python_and_torch_can_recompute():
    live = EncoderLab(padding=[0]).live()
    seen = []
    live.observe(lambda change: seen.append(change["new"]), "tokens")
    live.tokens = ["tom", *START[1:]]
    live.padding = [False] * 8
    assert seen == [["tom", *START[1:]]]
    best = lab.guesses(lab.load(), live.tokens, live.padding)[live.read][0]
    assert best[0] == "he"
    assert best[1] > 0.9
