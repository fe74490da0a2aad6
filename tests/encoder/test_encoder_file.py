"""`encoder.py` stays what a reader can take in: plain, tied to no device, alone."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import encoder
import pytest
import yaml
from source_file import SourceFile

ROOT = Path(__file__).parents[2]
FILE = SourceFile(encoder)


def test_functions_are_short():
    assert FILE.median_length() <= 10
    assert FILE.longer_than(25) == []


def test_a_statement_assigns_one_thing():
    assert FILE.packed() == []


def test_every_public_parameter_and_result_has_a_type():
    assert FILE.untyped() == []


@pytest.mark.parametrize("device", ["cuda", "cpu", "mps", "xpu"])
def test_no_device_is_named(device):
    assert not re.search(rf"\b{device}\b", FILE.text, re.IGNORECASE)


def test_nothing_but_torch_and_the_standard_library_is_imported():
    wanted = {"math", "collections.abc", "copy", "torch", "torch.nn"}
    assert FILE.imported() == wanted


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
    names = [node.name for node in FILE.parts]
    assert names[: len(parts)] == parts
    assert [name for name in names[len(parts) :] if name[0].isupper()] == []


def test_every_part_says_what_it_is():
    assert FILE.undocumented() == []


def test_nothing_is_printed_and_no_module_state_is_kept():
    calls = [node.func for node in ast.walk(FILE.tree) if isinstance(node, ast.Call)]
    assert "print" not in {getattr(each, "id", None) for each in calls}
    assert not any(isinstance(node, ast.Global) for node in ast.walk(FILE.tree))
    constants = [n for n in FILE.tree.body if isinstance(n, ast.Assign)]
    assert [ast.unparse(node.targets[0]) for node in constants] == ["__version__"]
    defined = (
        ast.Import
        | ast.ImportFrom
        | ast.FunctionDef
        | ast.ClassDef
        | ast.Expr
        | ast.Assign
    )
    assert all(isinstance(node, defined) for node in FILE.tree.body)


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
    (tmp_path / "encoder.py").write_text(FILE.text, encoding="utf-8")
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
