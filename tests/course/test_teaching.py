"""Promises to who teaches: a plan that adds up, and a grader that runs all."""

import csv
import io
import re

import nbformat
import pytest
from book.course import grade
from book.exercises import EXERCISES
from common import NUMBERED, ROOT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from notebooks import prose

RIGHT = """def is_map(weights):
    near = (weights.sum(-1) - 1).abs() < 1e-4
    return bool((weights >= 0).all() and near.all())"""
ASK = 'check("is_map", is_map)'


@pytest.fixture
def hand_in(tmp_path):
    """A function that writes cells as a notebook and returns its path."""

    def hand_in(*sources, name="ada.ipynb"):
        setup = 'raise RuntimeError("the reader\'s own copy of the code")'
        titled = f"# @title Setup: unpack the book's code\n{setup}"
        cells = map(
            new_code_cell, [titled, "from book.exercises import check", *sources]
        )
        notebook = new_notebook(cells=[new_markdown_cell(ASK), *cells])
        nbformat.write(notebook, tmp_path / name)
        return tmp_path / name

    return hand_in


def passed(grades):
    return {each.exercise: each.passed for each in grades}


def test_each_exercise_of_a_notebook_gets_one_grade(hand_in):
    path = hand_in(
        f"{RIGHT}\n{ASK}",
        "1 / 0",
        'check("is_map", lambda weights: True)  # after the right one: no harm',
        "def my_attention(query, key, value, blocked=None):\n    ...",
        'check("attention", my_attention)',
        'raise SystemExit\ncheck("positions", None)',
        '# check("rings", None)',
    )
    grades = grade.grade(path)
    wanted = {"is_map": True, "attention": False, "positions": False}
    assert passed(grades) == wanted
    said = {each.exercise: each.said for each in grades}
    assert said["is_map"].startswith("is_map: right.")
    assert said["attention"] == "attention: not yet"
    assert said["positions"] == "never checked"
    assert {each.notebook for each in grades} == {"ada.ipynb"}


def test_a_cell_that_never_ends_costs_the_rest_and_keeps_what_came_before(hand_in):
    path = hand_in(f"{RIGHT}\n{ASK}", "while True: pass", 'check("attention", None)')
    assert passed(grade.grade(path, timeout=9)) == {"is_map": True, "attention": False}


def test_the_command_prints_a_table_and_goes_on_after_what_is_no_notebook(
    hand_in, tmp_path, capsys
):
    (tmp_path / "essay.ipynb").write_text("Attention is a soft look-up.")
    paths = [tmp_path / "essay.ipynb", hand_in(f"{RIGHT}\n{ASK}", name="bob.ipynb")]
    assert grade.main(list(map(str, paths))) == 1
    printed, complained = capsys.readouterr()
    (row,) = csv.DictReader(io.StringIO(printed))
    assert list(row.values())[:3] == ["bob.ipynb", "is_map", "1"]
    assert "essay.ipynb is not a notebook" in complained


def test_the_solutions_of_the_book_pass():
    grades = grade.grade(ROOT / "chapters/solutions_02.ipynb")
    names = "is_map", "attention", "left_neighbour"
    assert passed(grades) == dict.fromkeys(names, True)


# The plan


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_the_plan_adds_up_the_minutes_of_the_chapter(path):
    text = "\n".join(prose(path))
    reading = re.search(r"(?:about|reading) (\d+) minutes", text)[1]
    minutes = [int(n) for n in re.findall(r"\*Difficulty .*? (\d+) minutes", text)]
    plan = (ROOT / "chapters/teaching.md").read_text()
    (row,) = [line for line in plan.splitlines() if f"]({path.name}) |" in line]
    assert f"| {reading} min | {len(minutes)}, {sum(minutes)} min |" in row


def test_the_verdicts_shown_are_verdicts_of_the_checker():
    said = (ROOT / "chapters/teaching.md").read_text()
    mistake = re.search(r"attention: not right yet\. (.*?) \.\.\.", said)[1]
    assert any(known.startswith(mistake) for known in EXERCISES["attention"].mutants)
