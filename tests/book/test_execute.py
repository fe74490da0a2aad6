"""Promises about storing outputs: all of a notebook's, or the file is what it was."""

import resource
import signal
import subprocess
import sys
import time

import nbformat
from common import ROOT
from execute import SETUP, put_setup

EXECUTE = [sys.executable, ROOT / "tools/execute.py"]
SLEEP = "import time\nopen({!r}, 'w')\ntime.sleep(600)"


def notebook(path, source):
    cells = [nbformat.v4.new_code_cell(source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path.read_bytes()


def store(path, **options):
    options = {"capture_output": True, "text": True} | options
    return subprocess.run([*EXECUTE, path], **options)


def test_execute_stores_outputs_and_nothing_that_changes_from_run_to_run(tmp_path):
    path = tmp_path / "a.ipynb"
    notebook(path, "print(1)\nprint(2)\n3")
    assert store(path).returncode == 0
    first = path.read_bytes()
    assert b'"text/plain": [\n' in first
    assert b"execution" in first
    assert store(path).returncode == 0
    assert path.read_bytes() == first


def test_a_notebook_that_fails_is_left_as_it_was(tmp_path):
    path = tmp_path / "a.ipynb"
    before = notebook(path, "1 / 0")
    result = store(path)
    assert result.returncode == 1
    assert "left as it was" in result.stderr
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_notebook_is_left_as_it_was(tmp_path):
    path, started = tmp_path / "a.ipynb", tmp_path / "started"
    before = notebook(path, SLEEP.format(str(started)))
    running = subprocess.Popen([*EXECUTE, path], stderr=subprocess.PIPE, text=True)
    while not started.exists() and running.poll() is None:
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    assert "Interrupted: " in running.communicate(timeout=60)[1]
    assert running.returncode == 1
    assert path.read_bytes() == before
    assert set(tmp_path.iterdir()) == {path, started}


def test_a_full_disk_leaves_the_old_notebook_and_says_so(tmp_path):
    path = tmp_path / "a.ipynb"
    before = notebook(path, "print('x' * 400_000)")
    limit = 200_000  # bytes that a file may have, as if no more were left

    def fill():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = store(path, preexec_fn=fill)
    assert result.returncode == 1
    assert "left as it was" in result.stderr
    assert "Traceback" not in result.stderr
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_killed_run_leaves_the_old_notebook(tmp_path):
    path, started = tmp_path / "a.ipynb", tmp_path / "started"
    before = notebook(path, SLEEP.format(str(started)))
    running = subprocess.Popen([*EXECUTE, path])
    while not started.exists() and running.poll() is None:
        time.sleep(0.1)
    running.kill()
    running.wait()
    assert path.read_bytes() == before
    assert set(tmp_path.iterdir()) == {path, started}


def test_storing_outputs_renews_the_setup_cell_and_no_other():
    new_cell = nbformat.v4.new_code_cell
    setup, other = new_cell("old", metadata={"tags": ["book-setup"]}), new_cell("old")
    put_setup(nbformat.v4.new_notebook(cells=[setup, other]))
    assert setup.source == SETUP.read_text(encoding="utf-8").rstrip()
    assert other.source == "old"
