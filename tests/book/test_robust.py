"""Promises about bad days: odd paths, full disks, kills, old packages, two at once."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from common import ROOT
from notebooks import code_cells, texts
from standalone import setup_cell

BOOK = [Path(sys.executable).with_name("jupyter-book"), "build"]
BARE = """import sys
sys.path[:] = [p for p in sys.path if "site-packages" not in p] + ["packages"]"""
QUICK = ["intro", "solutions_06"]
# What a build writes is written for each kind of page: of each there is one here.
FEW_PAGES = """format: jb-book
root: chapters/intro
parts:
  - caption: Some
    chapters:
      - file: chapters/06_masks
      - file: chapters/ledger
      - file: chapters/reference
      - file: chapters/references
"""


@pytest.fixture
def clone(tmp_path):
    """The files that git holds, in a folder whose name is not plain ASCII."""
    folder = tmp_path / "a book 编码器"
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def state(folder):
    """Return what would show that something was written into a folder."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def texts_of(path):
    """Return what a notebook's cells print, less the HTML of views."""
    found = [texts(cell) for cell in code_cells(path)]
    return [[pair for pair in pairs if pair[0] != "text/html"] for pairs in found]


# Builds and runs


def test_two_builds_at_once_of_a_clone_that_they_leave_alone(clone, tmp_path):
    (clone / "_toc.yml").write_text(FEW_PAGES)
    before = state(clone)
    quiet = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [*BOOK, clone, "--path-output", tmp_path / "out", "--quiet"]
    builds = [
        subprocess.Popen(command, env=quiet, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [build.communicate()[1] for build in builds]
    assert [build.returncode for build in builds] == [0, 0], said
    assert (tmp_path / "out/_build/html/chapters/intro.html").is_file()
    assert (tmp_path / "out/_build/html/standalone/intro.ipynb").is_file()
    assert state(clone) == before  # so it may be read-only


def test_notebooks_run_in_any_order_and_from_any_path(clone):
    paths = [clone / f"chapters/{name}.ipynb" for name in QUICK]
    before = {path: texts_of(path) for path in paths}
    seed = random.randrange(1000)
    random.Random(seed).shuffle(paths)
    command = [sys.executable, ROOT / "tools/execute.py", *paths]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, (seed, result.stderr)
    assert {path: texts_of(path) for path in paths} == before, seed


# What is missing or too old


def run_setup(tmp_path, **versions):
    """Run a stand-alone setup cell where packages are of these versions, or missing."""
    for name, number in versions.items():
        info = tmp_path / f"packages/{name}-{number}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {number}\n")
    clean = (
        "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]"
    )
    program = f"{clean}; sys.path.append('packages')\n{setup_cell(ROOT / 'code')}"
    command = [sys.executable, "-"]
    return subprocess.run(
        command, input=program, cwd=tmp_path, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("versions", "wanted"),
    [
        ({"torch": "2.1.0+cu118"}, "torch 2.9 or newer, and found 2.1.0+cu118"),
        ({"numpy": "2.1.3"}, "torch 2.9 or newer, and found none"),
        (
            {"torch": "2.11.0", "numpy": "1.26.4"},
            "numpy 2.0 or newer, and found 1.26.4",
        ),
    ],
)
def test_what_is_missing_or_too_old_is_said_in_one_sentence(tmp_path, versions, wanted):
    result = run_setup(tmp_path, **versions)
    assert result.stderr.splitlines()[-1] == f"ImportError: This needs {wanted}."


def test_colabs_versions_are_new_enough(tmp_path):
    result = run_setup(tmp_path, torch="2.11.0", numpy="2.1.3", matplotlib="3.10.0")
    assert result.returncode == 0, result.stderr


def test_printing_without_a_browser_is_told_in_one_sentence(tmp_path):
    for script in ("paper.py", "pictures.py"):
        command = [sys.executable, ROOT / "tools" / script, tmp_path]
        command += [tmp_path / "x.pdf"] if script == "paper.py" else []
        path = {"PATH": str(tmp_path)}
        result = subprocess.run(command, env=path, capture_output=True, text=True)
        assert result.returncode == 1
        sentence = "This needs chromium, or Chrome, and there is none on PATH."
        assert result.stderr.strip() == sentence


def test_no_test_script_is_named_like_a_module_of_python():
    names = {path.stem for path in Path(ROOT, "tests").glob("*.py")}
    names |= {path.stem for path in Path(ROOT, "code").glob("*.py")}
    names |= {path.stem for path in Path(ROOT, "_ext").glob("*.py")}
    assert names & set(sys.stdlib_module_names) == set()
