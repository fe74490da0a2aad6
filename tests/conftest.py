"""What the tests of several files share: programs of the system, and the built book."""

import os
import shutil
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
NUMBERED = [path for path in CHAPTERS if path.stem[:2].isdigit()]


def pages():
    """Return the names of the book's pages, as the table of contents lists them."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [f"{file}.html" for file in [toc["root"], *files]]


PAGES = pages()


def skip_outside_ci(reason):
    """Skip on a reader's machine; in continuous integration nothing may be missing."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def program(*names):
    """Return the path of the first of these programs that is installed."""
    for path in map(shutil.which, names):
        if path:
            return path
    skip_outside_ci(f"needs {names[0]}, and there is none on PATH")


@pytest.fixture(scope="session")
def chromium():
    """The path of the system's Chromium or Chrome."""
    return program("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser(chromium):
    """A running Chromium; one a module, as Playwright allows one at a time."""
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chrome = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield chrome
        chrome.close()


@pytest.fixture(scope="session")
def node():
    """The path of Node.js, 18 or newer."""
    return program("node", "nodejs")


@pytest.fixture(scope="session")
def book():
    """The folder of the built book."""
    folder = ROOT / "_build/html"
    if not (folder / "index.html").is_file():
        skip_outside_ci("needs the built book: run `make html` first")
    return folder
