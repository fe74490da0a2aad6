"""The ledger's rules, kept: what a row has to say, and that its check can fail."""

import ast
import json
from functools import cache

import pytest
import torch
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


def test_an_executed_row_says_what_its_source_means_and_what_its_figures_cover():
    assert lacking("means") == []
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


def flipped(check):
    """Yield a check with one of its comparisons turned round, for each of them."""
    opposite = {
        ast.Lt: ast.GtE,
        ast.LtE: ast.Gt,
        ast.Gt: ast.LtE,
        ast.GtE: ast.Lt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    }
    text = ast.unparse(check)
    count = sum(isinstance(n, ast.Compare) for n in ast.walk(check))
    for which in range(count):
        tree = ast.parse(text, mode="eval")
        compare = [n for n in ast.walk(tree) if isinstance(n, ast.Compare)][which]
        for place, operator in enumerate(compare.ops):
            if type(operator) in opposite:
                before = compare.ops[place]
                compare.ops[place] = opposite[type(operator)]()
                yield ast.unparse(tree)
                compare.ops[place] = before


def test_turning_round_any_threshold_of_a_page_turns_its_check_red(monkeypatch):
    """Run a page, and put each check beside each of its mutants."""
    monkeypatch.setattr("book.claims.ledger.contents", lambda chapter: None)
    space, survivors, tried = {}, [], 0
    for source in sources("evidence_07"):
        with torch.no_grad():  # the page turns gradients off: only until here
            exec(compile(source, "cell", "exec"), space)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "claim":
                for mutant in flipped(node.args[4]):
                    tried += 1
                    if eval(mutant, space):
                        survivors.append((node.args[0].value, mutant))
    assert survivors == []
    assert tried > 20


def test_verdicts_are_those_that_the_page_explains():
    text = (ROOT / "chapters/ledger.ipynb").read_text()
    assert [verdict for verdict in VERDICTS if f"- *{verdict}*:" not in text] == []
