"""Promises of the concept map: every box leads where it says, by mouse and by key."""

import re

import nbformat
import pytest
from bs4 import BeautifulSoup
from common import NUMBERED, ROOT, violations
from docutils.nodes import make_id

CHAPTERS = ROOT / "chapters"
PAGE = (CHAPTERS / "concept_map.md").read_text(encoding="utf-8")
DRAWING = (CHAPTERS / "figures/concept_map.svg").read_text(encoding="utf-8")
LINK = re.compile(r"- \[(.+?)\]\((.+?)\) (.+?)\. \((\d+)\)$", re.MULTILINE)


def boxes():
    """Return what the drawing says: (name, target, relation, chapter) of each box."""
    links = BeautifulSoup(DRAWING, "html.parser").select("a")
    parts = [
        [link.select_one(f".{x}") for x in ("name", "says", "chapter")]
        for link in links
    ]
    texts = [[part.text for part in each] for each in parts]
    return [
        (n, a["href"], says, int(c))
        for a, (n, says, c) in zip(links, texts, strict=True)
    ]


def anchors(name):
    """Return the anchors of a chapter's headings."""
    cells = nbformat.read(CHAPTERS / name, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return {make_id(line) for line in re.findall(r"(?m)^#{2,3} (.+)$", text)}


def test_every_box_leads_to_a_section_of_its_chapter():
    for name, target, _, chapter in boxes():
        file, anchor = target.split("#")
        assert file.startswith(f"{chapter:02}_"), name
        assert anchor in anchors(file), f"{name}: no heading {anchor} in {file}"


def test_the_list_says_what_the_drawing_says_in_the_same_order():
    listed = [(n, target, says, int(c)) for n, target, says, c in LINK.findall(PAGE)]
    assert listed == boxes()


def test_no_chapter_is_missing_and_no_concept_is_there_twice():
    found = boxes()
    chapters = {target.split("#")[0] for _, target, _, _ in found}
    assert chapters == {path.name for path in NUMBERED}
    assert len({name for name, *_ in found}) == len(found) >= 30


@pytest.fixture
def page(browser, book):
    """A function that opens the page of the built book."""
    contexts = []

    def page(width, theme):
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=theme))
        opened = contexts[-1].new_page()
        opened.goto((book / "chapters/concept_map.html").as_uri())
        return opened

    yield page
    for context in contexts:
        context.close()


OUTSIDE = """() => [...document.querySelectorAll(".concept-map a")].filter((link) => {
  const box = link.querySelector("rect").getBoundingClientRect();
  return [...link.querySelectorAll("text")].some((text) => {
    const at = text.getBoundingClientRect();
    return at.right > box.right || at.left < box.left || at.bottom > box.bottom;
  });
}).map((link) => link.textContent.trim())"""
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".concept-map text")].map(
  (text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_words_fit_their_boxes_and_can_be_read(page, width, theme):
    opened = page(width, theme)
    assert opened.evaluate(OUTSIDE) == []
    assert opened.evaluate(SMALLEST) >= 11
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert [text for text in violations(opened) if "concept-map" in text] == []


def test_keys_reach_a_box_show_where_they_are_and_follow_it(page):
    opened = page(1280, "light")
    first = opened.locator(".concept-map a").first
    first.focus()
    opened.keyboard.press("Tab")
    focused = "document.activeElement.querySelector('.name').textContent"
    assert opened.evaluate(focused) == "Padding"
    first, second, *_ = opened.locator(".concept-map rect").all()
    width = "(rect) => getComputedStyle(rect).strokeWidth"
    assert first.evaluate(width) != second.evaluate(width)
    for _ in range(4):
        opened.keyboard.press("Tab")
    opened.keyboard.press("Enter")
    opened.wait_for_url("**/01_inputs.html#the-block-does-not-know-its-order")


def test_the_drawing_has_a_name_for_those_who_do_not_see_it(page):
    drawing = page(1280, "light").locator("svg.concept-map")
    assert drawing.get_attribute("role") == "group"
    assert "Every box is a link" in drawing.get_attribute("aria-label")
