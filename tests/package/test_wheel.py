"""The wheel: what is in it, and that it works where nothing else of the book is."""

import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from taken_apart import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "code/taken_apart"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
OFFLINE = ["--no-deps", "--no-index"]
MODEL = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        scores = self.query(x) @ self.key(x).mT / 4
        return scores.softmax(1) @ self.value(x)


def build():
    return Attention(), (torch.randn(2, 7, 16),)
"""
USE = """
import sys
import taken_apart
from taken_apart import AttentionMap

page = AttentionMap([[[[0.5, 0.5], [1, 0]]]], ["a", "b"]).html()
print(page.count("<style>"), page.count("<script>"), "torch" in sys.modules)

from model import build
from taken_apart import assert_healthy, diagnose, trace

module, inputs = build()
softmax = next(row for row in trace(module, *inputs).rows if row.op == "softmax")
print(softmax.file, softmax.line, *softmax.axes)
(fault,) = diagnose(module, *inputs, quick=True).faults
print(fault.where)
try:
    assert_healthy(module, *inputs, quick=True)
except AssertionError as error:
    print(type(error).__name__)
print(taken_apart.__file__)
"""


def run(*command, cwd=None):
    """Run a command; return its output, and show its errors where it fails."""
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(*PIP, "wheel", *OFFLINE, "--no-build-isolation", "-w", folder, ROOT)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def commands(wheel, tmp_path_factory):
    """Return where the commands are of an environment with torch, numpy, the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    run(*PIP, "--python", folder, "install", *OFFLINE, wheel)
    where = {"base": str(folder), "platbase": str(folder)}
    own = sysconfig.get_path("purelib", "venv", vars=where)
    present = sysconfig.get_path("purelib")  # where torch and numpy are already
    Path(own, "present.pth").write_text(present)
    return folder / "bin"


def test_the_wheel_holds_one_package_whole_and_nothing_else(wheel):
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    kept = (p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix != ".pyc")
    assert names == {path.relative_to(PACKAGE.parent).as_posix() for path in kept}
    assert {"taken_apart/py.typed", "taken_apart/views/js/shared/shim.js"} <= names
    assert wheel.name == f"encoder_taken_apart-{__version__}-py3-none-any.whl"


def test_it_asks_for_torch_and_numpy_only(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
    asked = message_from_bytes(archive.read(name)).get_all("Requires-Dist")
    words = [re.match(r"\w+", line)[0] for line in asked if "extra ==" not in line]
    assert sorted(words) == ["numpy", "torch"]


def test_tools_work_where_only_the_wheel_is_installed(commands, tmp_path):
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    (tmp_path / "use.py").write_text(USE)
    said = run(commands / "python", "use.py", cwd=tmp_path).splitlines()
    page, traced, found, failed, home = said
    assert page == "1 1 False"  # style, script, and no torch for it
    assert traced == f"{model} 13 B T T"
    assert found == "model.py:13  return scores.softmax(1) @ self.value(x)"
    assert failed == "AssertionError"
    assert Path(home).is_relative_to(commands.parent)


def test_the_command_is_installed(commands, tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    said = run(commands / "taken-apart", "trace", "model.py", cwd=tmp_path)
    assert said.startswith("Attention: 8 operations")
    assert "model.py:13" in said
