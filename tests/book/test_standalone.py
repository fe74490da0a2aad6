"""Promises about stand-alone copies: each carries the code it needs, and no more."""

import ast
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import nbformat
import pytest
from bs4 import BeautifulSoup, SoupStrainer
from common import CHAPTERS, ROOT
from needed_files import needed
from notebooks import code_cells
from standalone import OF_THE_WHOLE_BOOK, point_buttons, setup_cell, standalone

CODE = ROOT / "code"
COPIED = [path for path in CHAPTERS if f"chapters/{path.stem}" not in OF_THE_WHOLE_BOOK]
FILES = {
    "flat.py": "'''import unused'''\nimport elsewhere",
    "unused.py": "",
    "tools/__init__.py": "if TYPE_CHECKING:\n    import unused\n"
    "MODULES = {'trace': 'deep.tracer', 'doctor': 'doctor'}",
    "tools/doctor.py": "",
    "tools/deep/__init__.py": "",
    "tools/deep/tracer.py": "def later():\n    from ..views import View",
    "tools/views/__init__.py": "from . import paths\nfrom .base import View",
    "tools/views/base.py": "import flat",
    "tools/views/paths.py": "FILES = JS / 'map/map.js', JS / 'map.css', 'data.json'",
    "tools/views/js/map/map.js": 'import { a } from "../shared/a.js";\n',
    "tools/views/js/shared/a.js": 'import { b } from "./b.js";\n',
    "tools/views/js/shared/b.js": "",
    "tools/views/js/shared/unused.js": "",
    "tools/views/map.css": "",
    "tools/views/data.json": "{}",
    "tools/unused.json": "{}",
}
RUN_COPIES = """
import sys
for setup, imports in {copies}:
    exec(setup)
    exec(imports)
    views = sys.modules.get("taken_apart.views")
    for view in views.View.__subclasses__() if views else ():
        views.bundle.es_module(view.module), views.bundle.style(view.styles)
"""


def run(program, folder):
    """Run a program in a folder of its own, without the book and without a network."""
    return subprocess.run(
        [sys.executable, "-"],  # a copy is too long for an argument
        input=program,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests/offline")},
        capture_output=True,
        text=True,
    )


def names(folder, text):
    return {path.relative_to(folder).as_posix() for path in needed(folder, text)}


def imports(path):
    """Return the statements of a notebook that import from code/, as a program."""
    trees = [ast.parse(cell.source) for cell in code_cells(path)[1:]]
    found = [node for tree in trees for node in ast.walk(tree)]
    kinds = (ast.Import, ast.ImportFrom)
    lines = [ast.unparse(node) for node in found if isinstance(node, kinds)]
    return "\n".join(line for line in lines if needed(CODE, line))


@pytest.fixture(scope="module")
def copies():
    return {path: standalone(path, CODE) for path in COPIED}


def setup_of(notebook):
    cells = notebook.cells
    (setup,) = [c.source for c in cells if "book-setup" in c.metadata.get("tags", [])]
    return setup


# What a copy carries


def test_what_is_needed_is_found_through_imports_names_and_scripts(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    unused = {name for name in FILES if "unused" in name}
    traced = FILES.keys() - unused - {"tools/doctor.py"}
    assert names(tmp_path, "from tools import trace") == traced
    assert names(tmp_path, "import tools") == FILES.keys() - unused
    assert names(tmp_path, "from tools import doctor") == {
        "tools/__init__.py",
        "tools/doctor.py",
    }
    assert names(tmp_path, "import tools.deep as d, flat") == {
        "flat.py",
        "tools/__init__.py",
        "tools/deep/__init__.py",
    }
    assert names(tmp_path, "'from tools import trace'") == set()


def test_a_page_pays_only_for_what_it_asks():
    solution = names(CODE, "from book.exercises import check")
    assert "encoder.py" in solution
    tools = tuple(f"taken_apart/{tool}/" for tool in ("tracer", "doctor", "views"))
    assert not [name for name in solution if name.startswith(tools)]

    traced = names(CODE, "from taken_apart import trace")
    assert {"taken_apart/__init__.py", "taken_apart/views/shape_tracer.py"} <= traced
    assert not [name for name in traced if "doctor" in name or "book" in name]

    masked = names(CODE, "from book.views import MaskLab")
    views = {name for name in masked if name.startswith("book/views/js")}
    assert {name.split("/")[3] for name in views} == {"mask_lab"}


@pytest.mark.parametrize(
    "files",
    [
        ("encoder.py",),
        ("reference.py",),
        ("packed.py", "encoder.py"),
        ("train.py", "tasks.py", "encoder.py"),
    ],
    ids="+".join,
)
def test_the_files_that_can_be_copied_need_no_others(files):
    asked = "\n".join(f"import {name.removesuffix('.py')}" for name in files)
    assert names(CODE, asked) == set(files)


def test_each_copy_imports_what_its_cells_import_and_draws_its_views(copies, tmp_path):
    programs = [(setup_of(copy), imports(path)) for path, copy in copies.items()]
    result = run(RUN_COPIES.format(copies=programs), tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == len(COPIED)


def test_a_copy_differs_from_its_chapter_in_the_setup_cell_alone(copies):
    for path, copy in copies.items():
        chapter = nbformat.read(path, as_version=4)
        pairs = zip(chapter.cells, copy.cells, strict=True)
        assert [a.source for a, b in pairs if a != b] == [code_cells(path)[0].source]


def test_the_same_code_gives_the_same_copy():
    asked = "from taken_apart import trace"
    assert setup_cell(CODE, asked) == setup_cell(CODE, asked)


# Running one


def test_a_copy_brings_its_code_anywhere_and_runs_twice(tmp_path):
    setup = setup_cell(CODE, "import encoder")
    result = run(f"{setup}\n{setup}\nimport encoder\nprint(encoder.__file__)", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "encoder-book-" in result.stdout.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_newer_copy_beats_the_one_that_ran_before(tmp_path):
    asked = "from book.exercises import check"
    shutil.copytree(CODE, tmp_path / "old")
    (tmp_path / "old/encoder.py").write_text("old = True\n")
    (tmp_path / "old/book/exercises/__init__.py").write_text("check = None\n")
    old = setup_cell(tmp_path / "old", asked + "\nimport encoder")
    program = f"""{old}
import encoder, book.exercises
{setup_cell(CODE, asked)}
import encoder
from book.exercises import check
encoder.attention, check("is_map", ...)"""
    result = run(program, tmp_path)
    assert result.returncode == 0, result.stderr


# Buttons


def download_buttons(book, name):
    html = (book / name).read_text(encoding="utf-8")
    links = BeautifulSoup(html, "html.parser", parse_only=SoupStrainer("a"))
    return links.select("a.btn-download-source-button")


def test_the_download_button_of_a_page_gives_its_copy(book):
    for path in COPIED:
        button = download_buttons(book, f"chapters/{path.stem}.html")[0]
        assert button["href"] == f"../standalone/{path.stem}.ipynb"
        assert (book / "standalone" / path.name).is_file()


def test_the_ledger_reads_the_whole_book_and_offers_no_lone_copy(book):
    assert download_buttons(book, "chapters/ledger.html") == []
    assert not (book / "standalone/ledger.ipynb").exists()


def test_the_colab_button_of_a_fork_opens_the_copy_that_the_fork_published():
    theme = {"repository_url": "https://github.com/ada/fork"}
    environment = SimpleNamespace(
        found_docs={"chapters/a"}, doc2path=lambda name: f"{name}.ipynb"
    )
    app = SimpleNamespace(
        env=environment, config=SimpleNamespace(html_theme_options=theme)
    )
    launch = {"label": "launch-buttons", "buttons": []}
    context = {"header_buttons": [launch], "pathto": None}
    point_buttons(app, "chapters/a", "page.html", context, None)
    assert [button["url"] for button in launch["buttons"]] == [
        "https://colab.research.google.com/github/ada/fork/blob/gh-pages/"
        "standalone/a.ipynb"
    ]


def test_a_copy_brings_the_data_that_its_cells_read(copies, tmp_path):
    reads = {
        "evidence_05": "from book.claims.ledger import contents; contents('05')",
        "evidence_programs": "import book.experiments.minimal_encoder as m; m.load()",
    }
    for name, line in reads.items():
        copy = next(copy for path, copy in copies.items() if path.stem == name)
        result = run(f"{setup_of(copy)}\n{line}", tmp_path)
        assert result.returncode == 0, result.stderr
