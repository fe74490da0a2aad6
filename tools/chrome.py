"""Start the system's Chromium, for tests of pages, and pictures and PDF of the book."""

import shutil
import sys
from contextlib import contextmanager

from playwright.sync_api import sync_playwright

BROWSERS = "chromium", "chromium-browser", "google-chrome"
FLAGS = "--no-sandbox", "--disable-gpu", "--disable-background-networking"


@contextmanager
def chrome(path=None):
    """Give a running browser; without one, end the program with a sentence."""
    path = path or next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        sys.exit(f"This needs {BROWSERS[0]}, or Chrome, and there is none on PATH.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
