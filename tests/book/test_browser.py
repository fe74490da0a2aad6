"""Promises about the pages as a reader meets them, in a real Chromium.

Each page is opened twice. From the disk, which allows less than a server: there it must
be right in light and in dark, on a phone and on a desktop. And from a server without
scripts, where all its files arrive and its text is to be read. A few pages, one of each
kind, are opened from the server in the dark with their scripts as well.

axe-core reads every page twice: all of it, in light on a phone, and its colours in the
dark on a desktop. What surrounds the text of a page is the same on all of them, and so
are the colours of code: some pages are read whole, at both widths, for the rest.
"""

import threading

import pytest
from common import PAGES, TWO_FRAMES, violations
from serve import server

DESKTOP, PHONE = (1280, 900), (390, 844)
OF_COLOUR = ["color-contrast", "link-in-text-block"]  # the other rules know no theme
READ_WHOLE = [f"chapters/{name}.html" for name in ("intro", "02_attention", "ledger")]

# Of blocks: their text, and whether a reader sees them.
SEEN = """blocks => blocks.map(block => {
  const { width, height } = block.getBoundingClientRect();
  const visible = block.checkVisibility({ visibilityProperty: true });
  return [block.textContent, visible && width * height > 0];
})"""

each_page = pytest.mark.parametrize("name", PAGES)
each_theme = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture(scope="session")
def site(book):
    """The address of the book on a server of this machine."""
    book_server = server(book)
    threading.Thread(target=book_server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{book_server.server_port}"
    book_server.shutdown()
    book_server.server_close()


@pytest.fixture
def visit(browser):
    """A function that opens an address and returns its page, with what went wrong."""
    contexts = []

    def visit(address, theme="light", size=DESKTOP, **options):
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=theme, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.errors = listen(page, address.rpartition("/")[0])
        page.goto(address, wait_until="load")
        if options.get("java_script_enabled", True):
            page.evaluate("window.MathJax?.startup?.promise")
        return page

    yield visit
    for context in contexts:
        context.close()


def listen(page, home):
    """Collect console errors, exceptions, missing files and outside requests."""
    errors = []
    origin = "/".join(home.split("/")[:3])  # http://host:port, or file://

    def on_console(message):
        if message.type == "error":
            errors.append(f"console: {message.text}")

    def on_request(request):
        if not request.url.startswith((origin, "data:", "blob:")):
            errors.append(f"outside: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: errors.append(f"exception: {error}"))
    page.on("request", on_request)
    page.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
    return errors


def fits(page, size):
    """Give the window another size; return whether the page stays within its width."""
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(TWO_FRAMES)
    return page.evaluate("document.documentElement.scrollWidth") <= width


def theme(page):
    return page.evaluate("document.documentElement.dataset.theme")


def choose(page, colours):
    """Give the reader's system these colours; the page follows, and fades no more."""
    page.emulate_media(color_scheme=colours)
    follows = "colours => document.documentElement.dataset.theme === colours"
    page.wait_for_function(follows, arg=colours)
    page.evaluate("document.getAnimations().forEach(fading => fading.finish())")


def is_typeset(page):
    """Say whether each equation of the text stands there as one, without an error."""
    maths = page.locator("main .math").count()
    shown = page.locator("main .math mjx-container").count()
    return shown == maths and page.locator("mjx-merror").count() == 0


@each_page
def test_a_page_from_the_disk_is_accessible_and_fits_in_both_themes(visit, book, name):
    # The theme gives the keyboard what scrolls at first: so the narrow window is first.
    page = visit((book / name).as_uri(), "light", PHONE)
    whole = name in READ_WHOLE
    leave_out = [] if whole else [".highlight pre"]
    assert theme(page) == "light"
    assert is_typeset(page)
    assert fits(page, PHONE)
    assert violations(page, leave_out=leave_out) == []

    assert fits(page, DESKTOP)
    if whole:
        assert violations(page) == []
    choose(page, "dark")
    assert fits(page, DESKTOP)
    assert violations(page, OF_COLOUR, leave_out) == []
    assert page.errors == []


@pytest.mark.parametrize("name", READ_WHOLE)
def test_a_page_from_a_server_opens_in_the_dark(visit, site, name):
    page = visit(f"{site}/{name}", "dark")
    assert theme(page) == "dark"
    assert is_typeset(page)
    assert page.errors == []


@each_page
def test_a_page_has_all_its_text_and_files_without_scripts(visit, site, name):
    page = visit(f"{site}/{name}", java_script_enabled=False)
    article = page.locator("main article")
    blocks = article.locator(":is(h1, h2, p, pre, table, figure):not(details *)")
    seen = blocks.evaluate_all(SEEN)
    assert seen
    assert [text for text, visible in seen if text.strip() and not visible] == []
    assert [error for error in page.errors if ".js?" not in error] == []  # not wanted


@each_theme
def test_a_letter_has_the_colour_of_its_axis_in_prose_and_equations(visit, site, theme):
    page = visit(f"{site}/chapters/notation.html", theme)
    colour = "getComputedStyle(document.querySelector({})).color".format
    in_prose = page.evaluate(colour("'main span.axis-K:not(mjx-container *)'"))
    in_equations = page.evaluate(colour("'mjx-container .axis-K'"))
    in_text = page.evaluate(colour("'main p'"))
    assert in_prose == in_equations != in_text


@each_theme
def test_pictures_and_views_can_be_read_in_every_theme(visit, site, theme):
    """A picture stands on a light card; a view draws on the page in its own colours."""
    page = visit(f"{site}/search.html", theme)
    page.evaluate(
        """document.querySelector('.bd-content').innerHTML = `<div class="cell_output">
        <div class="output text_html"><div class="eta">view</div></div>
        <img src="data:,"></div>`"""
    )
    colour = "getComputedStyle(document.querySelector({})).backgroundColor".format
    assert page.evaluate(colour("'.text_html'")) == "rgba(0, 0, 0, 0)"
    if theme == "dark":
        assert page.evaluate(colour("'.cell_output img'")) != "rgba(0, 0, 0, 0)"


def test_search_finds_a_word_of_a_chapter_from_the_disk(visit, book):
    page = visit(f"{(book / 'search.html').as_uri()}?q=attention")
    page.wait_for_selector("#search-results li a[href*='02_attention']")
