"""The ledger's rules, kept: what a row has to say, and that its check can fail."""

import ast
import json
from functools import cache

import pytest
from book.claims import VERDICTS, is_figure, ledger
from common import ROOT

ROWS = ledger.read()
EXECUTED = [row for row in ROWS if row["evidence"] == "executed"]
PAGES = sorted({row["chapter"] for row in EXECUTED})
TYPES = {
    **dict.fromkeys(("id", "text", "verdict", "source", "chapter", "evidence"), str),
    **dict.fromkeys(("condition", "means", "covers", "note", "reference"), str),
    "measured": dict,
}
REQUIRED = {"id", "text", "verdict", "source", "chapter", "evidence", "measured"}


def lacking(name, rows=EXECUTED):
    return [row["id"] for row in rows if not row.get(name)]


def test_a_row_has_the_fields_of_a_row_and_no_others():
    for row in ROWS:
        assert REQUIRED <= row.keys() <= TYPES.keys(), row["id"]
        assert all(isinstance(value, TYPES[name]) for name, value in row.items())


def test_a_row_says_what_its_source_means():
    assert lacking("means", ROWS) == []


def test_an_executed_row_says_what_its_figures_cover():
    assert lacking("covers") == []


def test_depends_names_its_condition_and_no_other_verdict_has_one():
    depends = [row for row in EXECUTED if row["verdict"] == "depends"]
    assert lacking("condition", depends) == []
    others = [row for row in ROWS if row["verdict"] != "depends"]
    assert [row["id"] for row in others if row.get("condition")] == []


def test_an_executed_row_shows_a_figure():
    bare = [
        r["id"] for r in EXECUTED if not any(map(is_figure, r["measured"].values()))
    ]
    assert bare == []


# Checks that can fail


@cache
def sources(page):
    cells = json.loads((ROOT / f"chapters/{page}.ipynb").read_text())["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def calls(page):
    """Return the number and the check of each call of `claim` in a notebook."""
    found = {}
    for source in sources(page):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "claim":
                given = {word.arg: word.value for word in node.keywords}
                number = node.args[0].value
                found[number] = given.get("check", (*node.args, None)[4])
    return found


def computed(page):
    """Return the names that a notebook binds to anything but a literal."""
    names = set()
    for source in sources(page):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            if isinstance(node, ast.For | ast.comprehension | ast.AugAssign):
                names |= names_in(node.target)
            if isinstance(node, ast.Assign) and names_in(node.value):
                names |= names_in(*node.targets)
            if isinstance(node, ast.NamedExpr):
                names |= names_in(node.target)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                names |= names_in(node.func.value)  # such as found.append(...)
    return names


def names_in(*nodes):
    every = (part for node in nodes for part in ast.walk(node))
    return {part.id for part in every if isinstance(part, ast.Name)}


@pytest.mark.parametrize("page", PAGES)
def test_every_check_is_about_something_that_was_measured(page):
    names = computed(page)
    found = calls(page)
    assert {r["id"] for r in EXECUTED if r["chapter"] == page} == found.keys()
    assert [n for n, check in found.items() if not names_in(check) & names] == []


def test_verdicts_are_those_that_the_page_explains():
    text = (ROOT / "chapters/ledger.ipynb").read_text()
    assert [verdict for verdict in VERDICTS if f"- *{verdict}*:" not in text] == []
