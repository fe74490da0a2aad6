"""Promises about `make`: its targets, what they start, and who may start it."""

import os
import re
import subprocess

import nbformat
import pytest
import yaml
from common import ROOT, make

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def program(path, script):
    """Write a program of a few lines for the shell."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_only_targets_that_make_has(path):
    targets = re.findall(r"^([\w-]+):", MAKEFILE, re.MULTILINE)
    jobs = yaml.safe_load(path.read_text())["jobs"].values()
    steps = [step.get("run", "") for job in jobs for step in job["steps"]]
    called = re.findall(r"^make ([\w-]+)", "\n".join(steps), re.MULTILINE)
    assert set(called) <= set(targets)


def test_an_old_python_is_told_in_one_sentence(tmp_path):
    python = tmp_path / "python3.9"
    program(python, '[ "$1" = --version ] && echo Python 3.9.1 || exit 1')
    result = make("html", f"PYTHON={python}", f"VENV={tmp_path / 'venv'}")
    assert result.returncode != 0
    assert "needs Python 3.11, 3.12 or 3.13;" in result.stderr
    assert "is Python 3.9.1." in result.stderr
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize(("user", "may_be_root"), [(0, True), (1000, False)])
def test_jupyterlab_opens_the_root_of_the_book_to_this_machine_alone(
    tmp_path, user, may_be_root
):
    program(tmp_path / "id", f"echo {user}")
    path = f"{tmp_path}:{os.environ['PATH']}"
    said = make("--dry-run", "lab", path=path).stdout
    assert "--ServerApp.ip=127.0.0.1" in said
    assert "token" not in said  # so there is one, a new one each time
    assert "jupyterlab chapters" not in said
    assert ("--allow-root" in said) == may_be_root


def test_the_portable_run_tries_all_settings_and_names_those_that_fail(tmp_path):
    wanted = "$ATEN_CPU_CAPABILITY $MKL_ENABLE_INSTRUCTIONS $OMP_NUM_THREADS"
    fails = "avx2 SSE4_2 2"
    script = f'echo "{wanted} $*" >> {tmp_path}/calls; [ "{wanted}" != "{fails}" ]'
    program(tmp_path / "python", script)
    result = make("test-portable", f"RUN={tmp_path / 'python'}", "NOTEBOOKS=a.ipynb")
    calls = (tmp_path / "calls").read_text().splitlines()
    settings = [call.partition(" -m pytest")[0] for call in calls]
    both = {
        f"{k} {m} {n}"
        for k in ("default", "avx2")
        for m in ("AVX2", "SSE4_2")
        for n in "12"
    }
    assert sorted(settings) == sorted([*both, *both])
    assert sum("--nbval" in call for call in calls) == len(both)
    assert result.returncode != 0
    assert "Failed: avx2/SSE4_2/2 avx2/SSE4_2/2:notebooks\n" in result.stdout


def test_the_weekly_run_has_all_portable_settings():
    jobs = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text())["jobs"]
    matrix = jobs["portable"]["strategy"]["matrix"]
    for name, values in matrix.items():
        listed = re.search(rf"^{name.upper()} = (.*)$", MAKEFILE, re.MULTILINE)[1]
        assert values == listed.split()
    assert list(matrix) == ["kernels", "mkl"]
    assert "THREADS" not in jobs["portable"]["steps"][-1]["run"]


def test_what_is_portable_is_all_that_computes():
    """The rooms left out look at pages, views and words."""
    listed = re.search(r"addprefix tests/,(.*)\)", MAKEFILE)[1].split()
    rooms = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert rooms - set(listed) == {"book", "course", "package", "views"}


PROBE = (
    """
import sys
sys.path.append({code!r})
import socket
socket.create_connection(("192.0.2.1", 80), timeout=9)
""",
    """
from book.claims import claim
claim("A134", "It costs much", "refuted", {"ratio": 1.05}, 0.4 < (r := 1.05) < 3)
""",
)


def test_kernels_of_the_strict_run_have_no_network_and_doubt_every_claim(tmp_path):
    """They start beside their notebook, where a relative path leads nowhere."""
    tell = ["make", "-s", "--eval", "tell: ; $(info $(NBVAL))", "tell", "VENV=.venv"]
    told = subprocess.run(tell, cwd=ROOT, capture_output=True, text=True).stdout
    command = told.strip().splitlines()[0]
    sources = PROBE[0].format(code=str(ROOT / "code")), PROBE[1]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    probe = tmp_path / "probe.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), probe)
    result = subprocess.run(
        f"{command} {probe}", shell=True, cwd=ROOT, capture_output=True, text=True
    )
    assert "a notebook runs without the network" in result.stdout
    assert "A134 would be refuted whatever was measured" in result.stdout
