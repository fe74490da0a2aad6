"""Promises about all modules of `code/`: a name says one thing, a function one idea."""

import ast
from collections import defaultdict

from common import ROOT

CODE = ROOT / "code"
TREES = {
    path.relative_to(CODE): ast.parse(path.read_text()) for path in CODE.rglob("*.py")
}
# Asked by their module's name, as in `controls.load()`: alike there what is alike.
BY_MODULE = {"book/experiments", "book/models"}
# Public names that several other modules define on purpose, and why.
SHARED = {
    "what each program and each package has": {"main", "COMMANDS", "MODULES", "JS"},
    "said by loops in reference.py, as traced lines in torch_attention.py": {
        *("attention", "linear", "sinusoidal_positions"),
    },
    "imported by pages under this name": {"CHAPTERS"},
}


def bound(statement):
    """Return the names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    if not isinstance(statement, ast.Assign | ast.AnnAssign):
        return set()
    nodes = [node for target in targets for node in ast.walk(target)]
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def test_no_two_public_things_have_one_name():
    homes = defaultdict(set)
    for path, tree in TREES.items():
        if path.parent.as_posix() in BY_MODULE:
            continue
        for name in set().union(*map(bound, tree.body)):
            homes[name].add(path.as_posix())
    shared = set().union(*SHARED.values())
    public = {name: found for name, found in homes.items() if name[0] != "_"}
    twice = {name: found for name, found in public.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in shared} == {}
    assert shared <= twice.keys()  # the list names no more than there are


def length(function):
    """Count the lines below a signature and a docstring."""
    has_docstring = ast.get_docstring(function) is not None
    first = function.body[int(has_docstring) :] or function.body
    return function.end_lineno - first[0].lineno + 1


def test_functions_are_short():
    long = {
        f"{path}:{node.lineno} {node.name}": length(node)
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and length(node) > 25
    }
    assert long == {}
