"""Each built page, parsed once for all tests that read what its HTML says."""

import pytest
from bs4 import BeautifulSoup
from common import PAGES


# Of the session's scope, so that pytest runs the tests of one page after another.
@pytest.fixture(scope="session", params=PAGES)
def page_name(request):
    return request.param


@pytest.fixture(scope="session")
def page_soup(book, page_name):
    html = (book / page_name).read_text(encoding="utf-8")
    return BeautifulSoup(html, "html.parser")
