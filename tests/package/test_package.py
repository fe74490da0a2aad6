"""What `import taken_apart` promises: its names, lazily, typed, of one version."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import encoder
import pytest
import taken_apart
import torch
from taken_apart import assert_healthy
from torch import nn

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "code/taken_apart"
TREE = ast.parse((FOLDER / "__init__.py").read_text())


def test_every_name_is_there_for_people_and_for_editors():
    (checking,) = (node for node in TREE.body if isinstance(node, ast.If))
    typed = {alias.name: node.module for node in checking.body for alias in node.names}
    assert typed == taken_apart.MODULES
    assert sorted(typed) == taken_apart.__all__
    assert {*typed} <= {*dir(taken_apart)}
    for name, home in typed.items():
        assert getattr(taken_apart, name).__module__.startswith(f"taken_apart.{home}")


def test_another_name_is_missed_as_usual():
    with pytest.raises(AttributeError, match="taken_apart.*'nothing'"):
        _ = taken_apart.nothing


@pytest.mark.parametrize("view", ["AttentionMap", "Curves", "ShapeTracer", "View"])
def test_a_view_does_not_import_torch(view):
    code = f"import sys, taken_apart; taken_apart.{view}; print('torch' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True
    )
    assert ran.stdout == "False\n", ran.stderr


def test_the_tools_import_no_file_of_the_book():
    """Only torch, numpy, the standard library, and anywidget where a view is live."""
    others = {path.stem for path in FOLDER.parent.iterdir()} - {"taken_apart"}
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                tops = {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                tops = {node.module.partition(".")[0]}
            else:
                continue
            assert not tops & others, f"{path}:{node.lineno}"


def test_there_is_one_version():
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    change = re.search(r"^## (\S+),", (ROOT / "CHANGELOG.md").read_text(), re.M)
    versions = {taken_apart.__version__, encoder.__version__, cited[1], change[1]}
    assert len(versions) == 1


# --- assert_healthy ------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self, axis=-1, scale=4):
        super().__init__()
        self.axis, self.scale = axis, scale
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x, twice=False):
        x = 2 * x if twice else x
        scores = self.q(x) @ self.k(x).mT / self.scale
        return scores.softmax(self.axis) @ self.v(x)


def test_a_healthy_module_passes():
    assert_healthy(Attention(), torch.randn(2, 7, 16), twice=True, quick=True)


def test_a_fault_fails_with_the_diagnosis_as_message():
    module, x = Attention(axis=1), torch.randn(2, 7, 16)
    with pytest.raises(AssertionError, match="softmax") as caught:
        assert_healthy(module, x, quick=True)
    assert str(caught.value) == str(taken_apart.diagnose(module, x, quick=True))


def test_warnings_fail_only_on_request():
    module, x = Attention(scale=1), torch.randn(2, 7, 16)
    diagnosis = taken_apart.diagnose(module, x)
    assert [finding.severity for finding in diagnosis] == ["warning"], str(diagnosis)
    assert_healthy(module, x)
    with pytest.raises(AssertionError, match="warning"):
        assert_healthy(module, x, warnings=True)
