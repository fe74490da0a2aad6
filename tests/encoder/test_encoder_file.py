"""`encoder.py` stays what a reader can take in: plain, tied to no device, alone."""

import ast
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import encoder
import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILE = Path(encoder.__file__)
SOURCE = FILE.read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
KINDS = ast.FunctionDef | ast.ClassDef
FUNCTIONS = [node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)]
PARTS = [node for node in TREE.body if isinstance(node, KINDS)]


def body_length(function):
    """Count the lines below a signature, whose typed options take a line each."""
    return function.end_lineno - function.body[0].lineno + 1


def test_functions_are_short():
    lengths = {node.name: body_length(node) for node in FUNCTIONS}
    assert statistics.median(body_length(node) for node in FUNCTIONS) <= 10
    assert {name: n for name, n in lengths.items() if n > 25} == {}


def test_a_statement_assigns_one_thing():
    # "a, b = f(x)" takes one thing apart; "a, b = x, y" packs two statements into one.
    packed = [
        ast.unparse(node)
        for node in ast.walk(TREE)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ]
    assert packed == []


def test_every_public_parameter_and_result_has_a_type():
    public = [part for part in PARTS if not part.name.startswith("check_")]
    methods = [node for part in public for node in [part, *getattr(part, "body", [])]]
    bare = []
    for function in (node for node in methods if isinstance(node, ast.FunctionDef)):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        typed = {each.arg for each in arguments if each.annotation} | {"self", "cls"}
        if function.returns is None or {each.arg for each in arguments} - typed:
            bare.append(function.name)
    assert bare == []


@pytest.mark.parametrize("device", ["cuda", "cpu", "mps", "xpu"])
def test_no_device_is_named(device):
    assert not re.search(rf"\b{device}\b", SOURCE, re.IGNORECASE)


def test_nothing_but_torch_and_the_standard_library_is_imported():
    nodes = [n for n in ast.walk(TREE) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in nodes}
    assert names == {"math", "collections.abc", "copy", "torch", "torch.nn"}


def test_parts_come_in_teaching_order():
    parts = [
        "sinusoidal_positions",
        "SinusoidalPositions",
        "attention",
        "MultiHeadAttention",
        "FeedForward",
        "EncoderLayer",
        "TransformerEncoder",
    ]
    names = [node.name for node in PARTS]
    assert names[: len(parts)] == parts
    assert [name for name in names[len(parts) :] if name[0].isupper()] == []


def test_every_part_says_what_it_is():
    public = [node for node in PARTS if not node.name.startswith("check_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_nothing_is_printed_and_no_module_state_is_kept():
    calls = [node.func for node in ast.walk(TREE) if isinstance(node, ast.Call)]
    assert "print" not in {getattr(each, "id", None) for each in calls}
    assert not any(isinstance(node, ast.Global) for node in ast.walk(TREE))
    constants = [n for n in TREE.body if isinstance(n, ast.Assign)]
    assert [ast.unparse(node.targets[0]) for node in constants] == ["__version__"]
    defined = ast.Import | ast.ImportFrom | KINDS | ast.Expr | ast.Assign
    assert all(isinstance(node, defined) for node in TREE.body)


def test_a_copy_says_its_version_its_licence_and_where_it_is_from():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert encoder.__version__ == citation["version"]
    said = " ".join(encoder.__doc__.split())
    assert f"Version {citation['version']}" in said
    assert "MIT licence" in said
    assert "MIT" in citation["license"]
    assert citation["title"] in said
    assert "CITATION.cff" in said
    assert citation.get("url", "") in said


def test_the_readmes_snippet_runs_beside_a_copy_of_this_file_alone(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (tmp_path / "encoder.py").write_text(SOURCE, encoding="utf-8")
    program = f"{snippet}\nprint(*hidden.shape, len(weights), *weights[0].shape)"
    (tmp_path / "snippet.py").write_text(program, encoding="utf-8")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "snippet.py"],
        cwd=tmp_path,
        env=alone,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    assert run.stdout.split() == ["8", "20", "64", "2", "8", "4", "20", "20"]
