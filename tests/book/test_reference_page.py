"""Promises about the reference page: its examples run, and it names what there is."""

import doctest
import importlib
import inspect
import re
import shutil
import subprocess
import sys

import pytest
import taken_apart
import torch
from common import ROOT
from taken_apart.doctor import Finding
from taken_apart.tracer import trace

PAGE = (ROOT / "chapters/reference.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```\{code-block\} pycon\n(.*?)^```", PAGE, re.S | re.M)
LISTED = re.findall(r"currentmodule:: ([\w.]+)\n(.*?)^```", PAGE, re.S | re.M)


def test_every_example_gives_what_the_page_shows():
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(
        "\n".join(EXAMPLES), {}, "reference", "chapters/reference.md", 0
    )
    report = []
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
    assert len(test.examples) > 30


def test_every_tool_has_an_example_and_its_docstrings():
    titles = re.findall(r"^## (\S+)\n", PAGE, re.M)
    assert len(EXAMPLES) == len(titles) == len(LISTED)
    for title, (module, _) in zip(titles, LISTED, strict=True):
        assert module.startswith(title)
    modules = {module for module, _ in LISTED}
    assert {f"taken_apart.{tool}" for tool in ("tracer", "doctor", "views")} <= modules


@pytest.mark.parametrize(("name", "entries"), LISTED, ids=[name for name, _ in LISTED])
def test_what_the_page_lists_says_what_it_does(name, entries):
    module = importlib.import_module(name)
    for entry in re.findall(r"auto(?:class|function):: (\w+)", entries):
        docstring = inspect.getdoc(getattr(module, entry))
        assert len(docstring or "") > 30, entry


def test_what_the_package_offers_has_its_docstring_on_the_page():
    """`from taken_apart import ...` gives no name that the page does not list."""
    listed = re.findall(r"auto(?:class|function):: (\w+)", PAGE)
    assert set(taken_apart.__all__) <= set(listed)


def test_the_names_that_the_page_gives_rows_and_findings_are_theirs():
    sentences = re.findall(r"(?:row has|finding has) (.*?)\.\n", PAGE, re.S)
    row, finding = (set(re.findall(r"`\.(\w+)`", text)) for text in sentences)
    assert finding <= set(Finding.__dataclass_fields__)
    assert all(hasattr(trace(torch.relu, torch.ones(3)).rows[0], name) for name in row)


def test_five_lines_trace_and_diagnose_a_module_of_another_project(tmp_path):
    """With the folder of the package alone, as an installed one has it."""
    shutil.copytree(ROOT / "code/taken_apart", tmp_path / "taken_apart")
    lines = re.search(r":name: five-lines\n\n(.*?)^```", PAGE, re.S | re.M)[1]
    assert len(lines.splitlines()) == 5
    given = lines.replace("model = ...", "import torch; model = torch.nn.Linear(4, 8)")
    (tmp_path / "mine.py").write_text(
        given.replace("x = ...", "x = torch.ones(3, 5, 4)")
    )
    command = [sys.executable, "mine.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "(B, T, D)" in run.stdout
    assert "questions have an answer." in run.stdout


def test_the_built_page_shows_the_docstrings(book):
    html = (book / "chapters/reference.html").read_text(encoding="utf-8")
    for anchor in ("encoder.attention", "taken_apart.doctor.diagnose"):
        assert f'id="{anchor}"' in html
    assert "never nan" in html
    assert "activation=&lt;" not in html


def test_no_line_of_an_example_is_wider_than_the_page():
    assert max(len(line) for code in EXAMPLES for line in code.splitlines()) <= 77
