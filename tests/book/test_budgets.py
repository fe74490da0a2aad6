"""Promises about what a chapter asks of its reader; `make budgets` prints them."""

import budgets
import nbformat
import pytest
from common import NUMBERED
from notebooks import code_cells

each_chapter = pytest.mark.parametrize("path", NUMBERED, ids=lambda path: path.stem)
TWO_SCREENS = 2 * 800
FIRST_VIEW = """() => window.scrollY
    + document.querySelector('main .eta-root').getBoundingClientRect().top"""
CUT = """() => [
    ...[...document.querySelectorAll('main .cell_output pre')]
        .filter((pre) => pre.scrollWidth > pre.clientWidth + 1),
    ...[...document.querySelectorAll('main .cell_output table:not(.eta *)')]
        .filter((table) => table.getBoundingClientRect().right > window.innerWidth),
].filter((result) => result.checkVisibility())
    .map((result) => result.textContent.slice(0, 200))"""


@each_chapter
def test_a_chapter_asks_no_more_than_it_says(path):
    assert budgets.measure(path).exceeded() == []


@each_chapter
def test_every_view_of_a_chapter_has_a_name_and_a_caption(path):
    for cell in code_cells(path):
        shown = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
        if any("eta-root" in html for html in shown):
            figure = cell.metadata.get("mystnb", {}).get("figure", {})
            assert figure.get("name"), cell.source
            assert len(figure.get("caption", "")) >= 20, cell.source


@each_chapter
def test_there_is_something_to_touch_within_two_screens(browser, book, path):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto((book / f"chapters/{path.stem}.html").as_uri())
    assert page.evaluate(FIRST_VIEW) <= TWO_SCREENS
    page.close()


@each_chapter
def test_no_result_is_cut_on_a_phone(browser, book, path):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto((book / f"chapters/{path.stem}.html").as_uri())
    assert page.evaluate(CUT) == []
    page.close()


CHAPTER = """Needs chapter 1 · reading 1 minutes, exercises 7 minutes · CPU

## One {titles}

:::{{exercise}} This is no story
*Difficulty ●○○ · 7 minutes*
:::

<details><summary>Nor is this</summary>it</details>

Two words.
"""


def written(folder, source, output="", titles=""):
    """Return the path of a chapter of one cell, stored in `folder`."""
    told = nbformat.v4.new_output("stream", text=output)
    cells = [
        nbformat.v4.new_markdown_cell(CHAPTER.format(titles=titles)),
        nbformat.v4.new_code_cell(source, outputs=[told]),
    ]
    path = folder / "01_chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_the_measure_counts_story_code_and_minutes(tmp_path):
    path = written(tmp_path, "a = 1\n\nb = 2", "True", "\n\n## References")
    budget = budgets.measure(path)
    assert (budget.cells, budget.median, budget.lines) == (1, 3, 3)
    assert (budget.sections, budget.true_false, budget.exercises) == (1, 1, 7)
    assert budget.words == 14  # "Needs" to "minutes", "CPU", "One" to "words"


def test_each_limit_that_is_broken_is_named(tmp_path):
    path = written(tmp_path, "\n".join(["a = 1"] * 300))
    broken = budgets.measure(path).exceeded()
    assert "lines is 300, wanted 1 to 260" in broken
    assert "median is 300, wanted 1 to 8" in broken
    assert "sections is 1, wanted 5 to 7" in broken
    assert "the page says 1 minutes of reading, the estimate is 19" in broken
