"""Promises to readers who use a keyboard, a screen reader, a zoom, or want no motion.

axe-core reads every page in test_browser.py; here is what a checker cannot see.
"""

import re
from itertools import pairwise

import pytest
from bs4 import BeautifulSoup

CHAPTER = "chapters/02_attention.html"
KINDS = ["chapters/intro.html", CHAPTER, "chapters/ledger.html"]

# Of the element that has the focus: what it is, its name, and whether a reader sees it.
FOCUSED = """() => {
  const e = document.activeElement, box = e.getBoundingClientRect();
  const s = getComputedStyle(e);
  const label = e.labels?.[0]?.textContent || e.querySelector("img,svg")?.ariaLabel;
  const name = e.ariaLabel || e.title || e.textContent.trim() || label ||
    e.placeholder || e.querySelector("img")?.alt || "";
  const ring = [s.outlineStyle, s.boxShadow, s.borderStyle].some(v => v != "none");
  return {tag: e.tagName, name, size: box.width * box.height, ring, x: box.x,
    where: e.closest(".eta") ? "view" : e.closest("article") ? "article" : "page",
    kind: e.className?.toString() ?? "", html: e.outerHTML.slice(0, 120)};
}"""


@pytest.fixture
def page(browser, book):
    """A function that opens a page of the book from the disk."""
    opened = []

    def visit(name, width=1280, **options):
        size = {"width": width, "height": 900}
        opened.append(browser.new_context(viewport=size, **options))
        page = opened[-1].new_page()
        page.goto((book / name).as_uri())
        page.evaluate("window.MathJax?.startup?.promise")
        return page

    yield visit
    for context in opened:
        context.close()


# Keyboard


def walk(page, limit=900):
    """Press Tab until the focus is back where it began; return what it met."""
    met = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        stop = page.evaluate(FOCUSED)
        if stop["tag"] == "BODY" and met:
            return met
        met.append(stop)
    pytest.fail(f"the focus does not come out of {met[-1]}")


def test_the_keyboard_reaches_all_of_a_chapter_and_comes_out_again(page):
    met = walk(page(CHAPTER))
    unseen = [m["html"] for m in met if m["size"] < 1 and m["tag"] != "BODY"]
    nameless = [m["html"] for m in met if not m["name"].strip()]
    assert (unseen, nameless) == ([], [])
    assert [m["html"] for m in met if not m["ring"]] == []
    where = [m["where"] for m in met]
    assert where.count("view") > 5  # its controls
    summaries = [m["name"] for m in met if m["tag"] == "SUMMARY"]
    assert sum("Hint" in name for name in summaries) >= 9
    assert [m for m in met if "copybtn" in m["kind"]]
    assert [m for m in met if "prev" in m["kind"] or "next" in m["kind"]]


def test_the_first_key_offers_to_skip_to_the_text(page):
    page = page(CHAPTER)
    page.keyboard.press("Tab")
    link = page.locator("#pst-skip-link a")
    assert link.evaluate("a => a === document.activeElement")
    assert link.is_visible()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    inside = "document.querySelector('#main-content').contains(document.activeElement)"
    assert page.evaluate(inside)


def test_hints_open_with_the_keyboard(page):
    page = page(CHAPTER)
    hint = page.locator("article details:has-text('Hint 1')").first
    hint.locator("summary").focus()
    page.keyboard.press("Enter")
    assert hint.get_attribute("open") is not None


# What a screen reader goes by


def test_every_table_of_a_page_has_headers(page_soup):
    tables = page_soup.select("article table")
    assert [str(t)[:200] for t in tables if not t.select("th")] == []


def test_the_headings_of_a_built_page_skip_no_level(page_soup):
    headings = page_soup.select("article :is(h1, h2, h3, h4, h5, h6)")
    levels = [int(h.name[1]) for h in headings]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


def test_chinese_words_say_that_they_are_chinese(book):
    html = (book / "chapters/glossary.html").read_text(encoding="utf-8")
    glossary = BeautifulSoup(html, "html.parser").select_one("article")
    words = glossary.find_all(string=re.compile("[\u4e00-\u9fff]"))
    assert len(words) > 20
    assert [word for word in words if not word.find_parent(lang="zh")] == []


# Size and motion


@pytest.mark.parametrize(
    "name", ["chapters/intro.html", CHAPTER, "chapters/ledger.html"]
)
def test_text_twice_as_large_stays_in_the_window(page, name):
    page = page(name)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    page.set_viewport_size({"width": 640, "height": 450})  # zoomed to 200 %
    page.evaluate("document.documentElement.style.fontSize = ''")
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_who_wants_no_motion_sees_none(page):
    page = page("chapters/intro.html", reduced_motion="reduce")
    page.locator(".eta select").first.select_option("paul")
    page.locator("article details > summary").first.click()
    moving = "document.getAnimations().map(a => a.effect.target.outerHTML)"
    assert page.evaluate(moving) == []
    scroll = "getComputedStyle(document.documentElement).scrollBehavior"
    assert page.evaluate(scroll) == "auto"
