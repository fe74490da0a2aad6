"""Promises about the book on paper: clean pages, and one PDF that finds its way."""

import re

import paper
import pytest
from paper import Press

FIRST, SECOND = "chapters/intro", "chapters/02_attention"


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(color_scheme="dark")
    yield page
    page.close()


@pytest.fixture(scope="module")
def printed(browser, book):
    """Two chapters as one PDF."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "parts", lambda: [("", [FIRST]), ("Parts", [SECOND])])
        page = browser.new_page()
        yield paper.make(Press(page, book))
        page.close()


def texts(printed):
    return [page.extract_text() for page in printed.pages]


def test_contents_name_the_pages_on_which_chapters_begin(printed):
    pages = texts(printed)
    listed = re.search(r"2\. Attention\s*(\d+)", pages[1])
    assert "Contents" in pages[1]
    assert listed
    begin = pages[int(listed[1]) - 1]
    assert begin.startswith("2. Attention")
    assert "Version" in pages[0]


def test_every_page_but_the_title_carries_its_number(printed):
    feet = [text.split()[-1] for text in texts(printed)]
    assert feet[1:] == [str(n) for n in range(2, len(feet) + 1)]


def flat(outline):
    parts = (flat(item) if isinstance(item, list) else [item] for item in outline)
    return [item for part in parts for item in part]


def test_a_bookmark_keeps_its_spaces_where_a_heading_wraps(browser):
    page = browser.new_page()
    page.set_content(f"<h1>{'many words of a heading ' * 9}</h1><h2>one</h2>")
    titles = [item.title for item in flat(Press(page, ".").pdf().outline)]
    page.close()
    assert titles == [" ".join(["many words of a heading"] * 9), "one"]


def test_bookmarks_and_links_lead_to_pages_of_the_file(printed):
    titles = [item.title for item in flat(printed.outline)]
    assert "2. Attention" in titles
    assert "Nothing is merely asserted" in titles
    links = [a.get_object() for p in printed.pages for a in p.get("/Annots", [])]
    addresses = [
        str(link["/A"]["/URI"]) for link in links if "/URI" in link.get("/A", {})
    ]
    assert not [address for address in addresses if address.startswith("file:")]
    attention = texts(printed).index(
        next(text for text in texts(printed) if text.startswith("2. Attention"))
    )
    places = [link["/Dest"][0] for link in links if isinstance(link.get("/Dest"), list)]
    assert printed.pages[attention].indirect_reference in places


def test_a_view_is_printed_as_its_still_figure(printed):
    whole = " ".join("\n".join(texts(printed)).split())
    assert "Its guesses for word 5: she 99%" in whole
    assert "Change a word, and watch the blank." not in whole
    assert "find the book's code" not in whole  # the setup cell


def test_pages_are_of_one_size_and_lose_no_code_at_the_edge(printed, page, book):
    assert {round(float(p.mediabox.height)) for p in printed.pages} <= {842, 843}
    page.goto((book / f"{SECOND}.html").as_uri())
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 665, "height": 1000})  # 176 mm of paper
    wide = "[...document.querySelectorAll('article pre')].filter(p => p.scrollWidth >"
    assert page.evaluate(f"{wide} p.clientWidth + 1).length") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 665


def test_paper_has_no_sidebars_or_buttons_and_unfolds_hints(page, book):
    page.emulate_media(media="print", color_scheme="dark")
    page.goto((book / f"{SECOND}.html").as_uri())
    for name in (".bd-sidebar-primary", ".bd-sidebar-secondary", ".bd-header-article"):
        assert not page.locator(name).first.is_visible(), name
    assert page.locator("article h1").is_visible()
    hint = page.locator("article details:has-text('Hint 1')").first
    state = "[document.documentElement.dataset.theme, {}.open]".format(
        "document.querySelectorAll('article details')[1]"
    )
    before = page.evaluate(state)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert hint.get_attribute("open") is not None
    assert page.evaluate(state) == ["light", True]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(state) == before == ["dark", False]
