"""Promises about stand-alone notebooks: one runs by itself, in a folder of its own.

`make test-colab` runs them all with Colab's versions. Here the runner must notice what
it is for, and the smallest copies run in this environment.
"""

import subprocess
import sys

import nbformat
import pytest
from common import ROOT

BAD = {
    "1 / 0": "ZeroDivisionError",
    "import sys; print('careful', file=sys.stderr)": "careful",
    "open('left.txt', 'w').close()": "left files behind: ['left.txt']",
    "import socket; socket.create_connection(('192.0.2.1', 80))": "without the network",
    "import ipywidgets; ipywidgets.IntSlider(nonsense=1)": "unrecognized arguments",
}


def lone(*paths):
    command = [sys.executable, ROOT / "tools/lone.py", *paths]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_runner_notices_whatever_a_notebook_may_not_do(tmp_path):
    paths = [tmp_path / f"{n}.ipynb" for n in range(len(BAD))]
    for path, source in zip(paths, BAD, strict=True):
        cells = [nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    result = lone(*paths)
    assert result.returncode == 1
    assert result.stdout.endswith(f"0 passed, {len(BAD)} failed\n")
    for words in BAD.values():
        assert words in result.stderr


def test_copies_run_alone_beside_colabs_package_and_twice_in_one_kernel(book, tmp_path):
    copy = nbformat.read(book / "standalone/solutions_06.ipynb", as_version=4)
    sources = [cell.source for cell in copy.cells if cell.cell_type == "code"]
    sources = ["import google.colab", *sources, *sources]
    copy.cells = list(map(nbformat.v4.new_code_cell, sources))
    nbformat.write(copy, tmp_path / "twice.ipynb")
    result = lone(book / "standalone/intro.ipynb", tmp_path / "twice.ipynb")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("2 passed, 0 failed\n")


@pytest.mark.parametrize("name", ["ipywidgets", "torch", "numpy"])
def test_colabs_versions_are_pinned(name):
    pins = (ROOT / ".ci/colab.txt").read_text().splitlines()
    assert [pin for pin in pins if pin.startswith(f"{name}==")]
