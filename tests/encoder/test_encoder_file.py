"""`encoder.py` stays what a reader can take in: short, plain, tied to no device."""

import ast
import re
import statistics
from pathlib import Path

import encoder
import pytest

SOURCE = Path(encoder.__file__).read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
FUNCTIONS = [node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)]
LENGTHS = {node.name: node.end_lineno - node.lineno + 1 for node in FUNCTIONS}


def test_the_file_has_at_most_250_lines_of_at_most_88_characters():
    lines = SOURCE.splitlines()
    assert len(lines) <= 250
    assert max(map(len, lines)) <= 88


def test_functions_are_short():
    lengths = [node.end_lineno - node.lineno + 1 for node in FUNCTIONS]
    assert statistics.median(lengths) <= 10
    assert max(lengths) <= 25, LENGTHS


@pytest.mark.parametrize("device", ["cuda", "cpu", "mps", "xpu"])
def test_no_device_is_named(device):
    assert not re.search(rf"\b{device}\b", SOURCE, re.IGNORECASE)


def test_nothing_but_torch_is_imported():
    nodes = [n for n in ast.walk(TREE) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in nodes}
    assert names == {"math", "copy", "torch", "torch.nn"}


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
    names = [getattr(node, "name", None) for node in TREE.body]
    assert [name for name in names if name in parts] == parts


def test_every_part_says_what_it_is():
    kinds = ast.FunctionDef | ast.ClassDef
    parts = [node for node in TREE.body if isinstance(node, kinds)]
    public = [node for node in parts if not node.name.startswith("check_")]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_nothing_is_printed_and_no_module_state_is_kept():
    calls = [node.func for node in ast.walk(TREE) if isinstance(node, ast.Call)]
    assert "print" not in {getattr(each, "id", None) for each in calls}
    assert not any(isinstance(node, ast.Global) for node in ast.walk(TREE))
    defined = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef | ast.Expr
    assert all(isinstance(node, defined) for node in TREE.body)
