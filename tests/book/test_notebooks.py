"""Promises about every notebook: what is stored, how it reads, that it runs alone."""

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from itertools import pairwise

import nbformat
import pytest
from common import CHAPTERS, NUMBERED, ROOT
from execute import SETUP
from notebooks import code_cells, prose, texts

each_chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def tags(cell):
    return cell.metadata.get("tags", [])


# The setup cell


def setup_cell(path):
    return code_cells(path)[0]


def run_setup(folder, times=1):
    """Run the setup cell as a fresh Python in a folder, then import the encoder."""
    source = SETUP.read_text(encoding="utf-8")
    program = "\n".join([source] * times + ["import encoder", "print(sys.path)"])
    command = [sys.executable, "-I", "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def test_every_chapter_begins_with_the_same_folded_setup_cell():
    source = SETUP.read_text(encoding="utf-8").rstrip()
    for path in CHAPTERS:
        assert setup_cell(path).source == source, path
        assert {"book-setup", "hide-cell"} <= set(tags(setup_cell(path))), path


@pytest.mark.parametrize("folder", [".", "chapters", "tests", "chapters/_static"])
def test_setup_finds_the_code_from_any_folder_of_the_clone(folder):
    result = run_setup(ROOT / folder)
    assert result.returncode == 0, result.stderr
    assert ast.literal_eval(result.stdout)[0] == str(ROOT / "code")


def test_setup_run_twice_adds_the_path_once():
    paths = ast.literal_eval(run_setup(ROOT, times=2).stdout)
    assert paths.count(str(ROOT / "code")) == 1


def test_setup_elsewhere_says_what_to_do(tmp_path):
    result = run_setup(tmp_path)
    assert result.returncode == 1
    assert "ModuleNotFoundError: The book's code is not here. Clone" in result.stderr


EDIT = """
import os, sys
from pathlib import Path
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
for cell in [*sys.argv[1:], "import encoder", "assert encoder.answer == 1"]:
    shell.run_cell(cell).raise_error()
Path("code/encoder.py").write_text("answer = 2")
os.utime("code/encoder.py", (2e9, 2e9))
shell.run_cell("assert encoder.answer == 2").raise_error()
"""


def test_after_setup_a_saved_edit_counts_from_the_next_cell_on(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "_toc.yml").touch()
    (tmp_path / "code/encoder.py").write_text("answer = 1")
    source = SETUP.read_text(encoding="utf-8")
    command = [sys.executable, "-c", EDIT, source, source]  # a cell may run twice
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr


# What is stored


@each_chapter
def test_every_cell_ran_once_and_in_order(path):
    counts = [cell.execution_count for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1)), "run `make execute`"


@each_chapter
def test_no_cell_failed_or_complained(path):
    for cell in code_cells(path):
        kinds = {output.output_type for output in cell.outputs}
        assert "raises-exception" in tags(cell) or "error" not in kinds, cell.source
        assert not [text for kind, text in texts(cell) if kind == "stderr"], cell.source


@each_chapter
def test_outputs_show_nothing_of_the_machine_that_made_them(path):
    home = re.escape(str(ROOT))
    private = re.compile(rf"0x[0-9a-fA-F]{{6,}}|/(home|root|tmp|Users|usr|opt)/|{home}")
    for cell in code_cells(path):
        for _, text in texts(cell):
            assert not private.search(text), (cell.source, private.search(text))


@each_chapter
def test_what_differs_from_run_to_run_is_not_compared(path):
    clock = re.compile(r"perf_counter|monotonic|process_time|%time|timeit|datetime")
    for cell in code_cells(path):
        if clock.search(cell.source):
            assert "nbval-ignore-output" in tags(cell), cell.source


@each_chapter
def test_metadata_is_small_and_names_a_kernel_that_all_have(path):
    metadata = nbformat.read(path, as_version=4).metadata
    assert set(metadata) <= {"kernelspec", "language_info"}, "run `make execute`"
    assert metadata.kernelspec.name == "python3"


# How it reads


@each_chapter
def test_a_cell_fits_the_page_and_shows_its_last_value(path):
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= 25, cell.source
        assert max(map(len, lines)) <= 76, cell.source
        assert not lines[-1].rstrip().endswith(";"), "nbval sees what `;` hides"


@each_chapter
def test_every_picture_has_words_a_name_and_a_caption(path):
    for cell in code_cells(path):
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            options = cell.metadata.get("mystnb", {})
            assert len(options.get("image", {}).get("alt", "")) >= 20, cell.source
            assert options.get("figure", {}).get("name"), cell.source
            assert options.get("figure", {}).get("caption"), cell.source
            assert len(cell.outputs) == 1, f"a figure stands alone: {cell.source}"


@pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
def test_a_chapter_says_what_it_needs_and_how_long_it_takes(path):
    opening = "\n".join(prose(path)[:3])
    assert re.search(r"Needs .*reading \d+ minutes.*CPU", opening, re.DOTALL | re.I)


@each_chapter
def test_headings_begin_with_one_title_and_skip_no_level(path):
    text = re.sub(r"(?ms)^(`{3,}|~{3,}).*?^\1", "", "\n\n".join(prose(path)))
    levels = [len(marks) for marks in re.findall(r"(?m)^(#+) ", text)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


# Numbers: what the prose says, the notebook printed

DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?![\w]|\.\d)")
NOT_READ = [
    r"(?ms)^(`{3,}|~{3,}) *\{?(code|math|bibliography|code-cell)?\}?\s*$.*?^\1 *$",
    r"`[^`\n]*`",  # code
    r"https?://[^\s)>]+",
    r"(?m)^:[\w-]+:.*$",  # options of directives
    r"(?i)(sections?|§|python|torch|version|CC BY)\s*\d+\.\d+(\.\d+)*",
]


def said(source):
    """Return the decimal numbers of a markdown cell, less those of cited paragraphs."""
    source = re.sub(r"\{cite[^}]*\}`", "CITED`", source)
    paragraphs = [part for part in re.split(r"\n\s*\n", source) if "CITED`" not in part]
    text = "\n\n".join(paragraphs)
    for pattern in NOT_READ:
        text = re.sub(pattern, " ", text)
    return set(DECIMAL.findall(text))


def printed(path):
    """Return the decimal numbers in the outputs and the code of a notebook."""
    numbers = set()
    for cell in code_cells(path):
        for kind, text in texts(cell):
            if kind != "text/html":
                numbers |= set(DECIMAL.findall(text))
        numbers |= literals(cell.source)
    return numbers


def literals(source):
    """Return the numbers of a cell's code: not those of its comments and strings."""
    lines = [line for line in source.splitlines() if not line.startswith("%")]
    readline = io.StringIO("\n".join(lines) + "\n").readline
    return {
        token.string
        for token in tokenize.generate_tokens(readline)
        if token.type == tokenize.NUMBER
    }


@each_chapter
def test_every_decimal_number_in_the_prose_was_printed_by_a_cell(path):
    unbacked = set().union(*map(said, prose(path))) - printed(path)
    assert not unbacked, "print it, or cite its source in that paragraph"


def test_the_reader_of_numbers_sees_numbers_and_nothing_else():
    text = "It is 0.25 (Section 3.2), $0.5$ and `0.7`; Python 3.11.\n\n0.9 {cite}`a`"
    assert said(text) == {"0.25", "0.5"}
    assert literals("x = 0.1  # 0.2\ny = '0.3'") == {"0.1"}


# Alone


def test_a_notebook_cannot_reach_the_network_when_it_is_tested():
    program = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=9)"
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests/offline")},
        capture_output=True,
        text=True,
    )
    assert "a notebook runs without the network" in result.stderr


@pytest.mark.parametrize("name", ["02_attention", "06_masks", "07_encoder"])
def test_a_chapter_ties_a_view_to_the_kernel_and_says_that_it_needs_one(name):
    notebook = nbformat.read(ROOT / f"chapters/{name}.ipynb", as_version=4)
    pairs = pairwise(notebook.cells)
    (said,) = [one for one, cell in pairs if ".live()" in cell.source]
    assert "**With a running kernel**" in said.source
    assert "web page" in said.source
