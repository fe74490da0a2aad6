"""Promises about the built book and the files around it, checked without a browser."""

import re
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import buttons
import pytest
from axis_role import axis_role
from common import PAGES, ROOT
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import roles

# Pages


def test_a_page_names_nothing_to_load_from_elsewhere(page_soup):
    loaded = [tag.get("src") for tag in page_soup.select("[src]")]
    loaded += [tag.get("href") for tag in page_soup.select("link[rel~=stylesheet]")]
    assert [url for url in loaded if url and urlsplit(url).netloc] == []


def test_every_link_within_the_book_arrives(book, page_name, page_soup):
    dead, page = [], book / page_name
    for link in page_soup.select("main [href], nav [href]"):
        url = urlsplit(link["href"])
        if url.scheme or url.netloc:
            continue
        target = page.parent / unquote(url.path) if url.path else page
        if not target.is_file() or not has_anchor(target, url.fragment):
            dead.append(link["href"])
    assert dead == []


def has_anchor(target, fragment):
    if target.suffix != ".html" or not fragment:
        return True
    html = target.read_text(encoding="utf-8")
    return f'id="{unquote(fragment)}"' in html


def test_every_picture_says_what_it_shows(page_soup):
    main = page_soup.select_one("main")
    assert [img["src"] for img in main.select("img:not([alt])")] == []
    unnamed = [svg for svg in main.select("svg[role]") if not svg.get("aria-label")]
    assert unnamed == []


def test_a_page_knows_its_language_and_has_one_title(page_soup):
    assert page_soup.html["lang"] == "en"
    assert len(page_soup.select("main article h1")) == 1


def test_the_front_page_leads_to_the_first_page(book):
    assert f"url={PAGES[0]}" in (book / "index.html").read_text()


def test_the_book_is_small_enough_to_carry(book):
    size = sum(path.stat().st_size for path in book.rglob("*") if path.is_file())
    assert size < 20e6


# The role for letters of axes


def letters(text):
    """Return what the role makes of a text, parsed as a page of its own."""
    roles.register_local_role("axis", axis_role)
    settings = {"report_level": 5, "halt_level": 5}
    return publish_doctree(f":axis:`{text}`", settings_overrides=settings)


def test_letters_of_axes_carry_the_class_of_their_colour():
    tree = letters("B,T,D")
    classes = [letter["classes"] for letter in tree.findall(nodes.inline)]
    assert classes == [["axis-B"], ["axis-T"], ["axis-D"]]
    assert tree.astext() == "B, T, D"


@pytest.mark.parametrize("text", ["X", "BT", "b", "B,,T"])
def test_an_unknown_axis_is_an_error_of_the_build(text):
    assert "problematic" in str(letters(text))


# Buttons


def options(monkeypatch, name):
    """Return the theme options that a build with this GITHUB_REPOSITORY gets."""
    monkeypatch.setenv("GITHUB_REPOSITORY", name)
    theme = {"launch_buttons": {"binderhub_url": "https://mybinder.org"}}
    config = SimpleNamespace(html_theme_options=theme)
    buttons.point_buttons(SimpleNamespace(confdir="/"), config)
    return theme


def test_the_buttons_of_a_fork_point_at_the_fork(monkeypatch):
    theme = options(monkeypatch, "someone/fork")
    assert theme["repository_url"] == "https://github.com/someone/fork"
    assert theme["use_issues_button"]
    assert theme["launch_buttons"]


def test_without_a_repository_no_button_is_dead(monkeypatch):
    theme = options(monkeypatch, "")
    assert theme["repository_url"] == ""
    assert theme["launch_buttons"] == {}
    assert not any(theme[f"use_{name}_button"] for name in ("issues", "edit_page"))


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("git@github.com:ada/book.git\n", "https://github.com/ada/book"),
        ("https://github.com/ada/book", "https://github.com/ada/book"),
        ("https://github.com/ada/book.js.git", "https://github.com/ada/book.js"),
        ("https://example.org/ada/book.git", None),
        ("/srv/git/book", None),
        ("", None),
    ],
)
def test_only_a_remote_on_github_gives_buttons(remote, url):
    assert buttons.github_url(remote) == url


# The files around the book


def test_the_readme_leads_to_every_page_and_stays_short():
    readme = (ROOT / "README.md").read_text()
    linked = set(re.findall(r"\]\((chapters/\w+)\.\w+\)", readme))
    pages = {name.removesuffix(".html") for name in PAGES}
    behind = {name for name in pages if re.search("solutions|evidence", name)}
    assert linked == pages - behind  # those are one step behind their chapter
    assert len(readme.splitlines()) <= 80
    assert len((ROOT / ".github/CONTRIBUTING.md").read_text().splitlines()) <= 80


def test_the_raw_commands_of_the_readme_are_those_of_make():
    readme, makefile = ((ROOT / name).read_text() for name in ("README.md", "Makefile"))
    for words in ("-W -n --keep-going", "--nbval-sanitize-with tests/nbval.cfg"):
        assert words in readme
        assert words in makefile


def test_binder_gets_the_versions_that_are_tested():
    pins = re.compile(r"^([\w-]+==[\w.]+)", re.MULTILINE)
    binder = pins.findall((ROOT / ".binder/requirements.txt").read_text())
    reader = (ROOT / "requirements.txt").read_text().split("\n\n")[2]
    assert binder == pins.findall(reader)


def test_every_direct_dependency_is_pinned():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert all(re.match(r"[\w-]+==[\w.]+(\s+#.*)?$", line) for line in wanted), wanted
