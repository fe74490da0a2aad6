"""Promises about the book in one file: small, and whole from the disk, offline."""

import zipfile

import pytest
from archive import pack


@pytest.fixture(scope="module")
def carried(book, tmp_path_factory):
    """The folder of the unpacked book, where names are not plain ASCII."""
    folder = tmp_path_factory.mktemp("a stick") / "编码器"
    path = tmp_path_factory.mktemp("packed") / "book.zip"
    assert pack(book, path) <= 15e6
    zipfile.ZipFile(path).extractall(folder)
    return folder / "book"


def failed(request):
    """Name a request that failed; one that the next page cut off has not."""
    return [] if request.failure == "net::ERR_ABORTED" else [request.url]


@pytest.fixture
def offline(browser):
    """A page without a network, and what went wrong in it."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.wrong = []
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on("requestfailed", lambda request: page.wrong.extend(failed(request)))
    page.on("console", lambda m: m.type == "error" and page.wrong.append(m.text))
    yield page
    context.close()
    assert page.wrong == []


def test_the_same_book_gives_the_same_file(book, tmp_path):
    pack(book, tmp_path / "book.zip")
    first = (tmp_path / "book.zip").read_bytes()
    pack(book, tmp_path / "book.zip")
    assert (tmp_path / "book.zip").read_bytes() == first


def test_the_front_leads_to_an_encoder_that_runs(carried, offline):
    offline.goto((carried / "index.html").as_uri())
    offline.wait_for_url("**/chapters/intro.html")
    tasks = offline.locator(".lab-tasks li")
    tasks.first.wait_for()
    assert offline.locator(".lab-tasks li[data-done]").count() == 0
    offline.locator(".eta select").first.select_option("paul")
    offline.locator(".lab-tasks li[data-done]").wait_for()  # the blank became "he"


def test_maths_and_icons_come_with_their_fonts(carried, offline):
    offline.goto((carried / "chapters/02_attention.html").as_uri())
    offline.evaluate("MathJax.startup.promise")
    offline.wait_for_function("document.fonts.status === 'loaded'")
    loaded = offline.evaluate(
        "[...document.fonts].filter(f => f.status === 'loaded').map(f => f.family)"
    )
    assert any("MJXTEX" in family or "MJXZERO" in family for family in loaded), loaded
    assert any("Font Awesome" in family for family in loaded), loaded
    button = offline.locator(".theme-switch-button .theme-switch:visible").first
    assert button.bounding_box()["width"] > 10


def test_search_finds_a_word(carried, offline):
    offline.goto((carried / "chapters/intro.html").as_uri())
    offline.keyboard.press("Control+k")
    offline.keyboard.type("padding")
    offline.keyboard.press("Enter")
    offline.wait_for_selector("#search-results li a[href*='06_masks']")


def test_the_notebook_of_a_chapter_is_in_it(carried, offline):
    offline.goto((carried / "chapters/02_attention.html").as_uri())
    link = offline.locator("a.btn-download-source-button").first
    name = link.get_attribute("href")
    assert (carried / "chapters" / name).resolve().is_file()
