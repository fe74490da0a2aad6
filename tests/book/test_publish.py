"""Promises about what is published: addresses, editions, and the files beside pages."""

import os
import re
import shutil
import struct
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import install_tools
import pages
import publish
import pytest
import yaml
from bs4 import BeautifulSoup
from check_jsonschema import main
from click.testing import CliRunner
from common import PAGES, ROOT, make
from sphinx.util.inventory import InventoryFile

SCHEMAS = {
    "github-workflows": [".github/workflows/*.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/[!c]*.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "citation-file-format": ["CITATION.cff"],
}


def step(workflow, name):
    """Return the shell script of one step of a workflow."""
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"].values()
    return next(s["run"] for job in jobs for s in job["steps"] if s.get("name") == name)


def bash(script, folder, **environment):
    """Run a script as GitHub's runners do."""
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def git(folder, *arguments):
    command = ["git", "-C", str(folder), *arguments]
    given = {"check": True, "capture_output": True, "text": True}
    return subprocess.run(command, **given, errors="replace").stdout


# Workflows


@pytest.mark.parametrize(("schema", "patterns"), SCHEMAS.items(), ids=SCHEMAS)
def test_a_file_that_others_read_has_the_form_they_want(schema, patterns):
    files = [str(path) for pattern in patterns for path in ROOT.glob(pattern)]
    result = CliRunner().invoke(main, ["--builtin-schema", f"vendor.{schema}", *files])
    assert files
    assert result.exit_code == 0, result.output


def test_the_newest_change_is_the_version_that_is_cited():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+), (\S+)$", changes, re.MULTILINE).groups()
    assert newest == (citation["version"], citation["date-released"])


def test_a_pull_request_is_asked_for_what_breaks_most_often():
    text = (ROOT / ".github/pull_request_template.md").read_text(encoding="utf-8")
    boxes = re.findall(r"^- \[ \] \*\*(.*?)\*\*", text, re.MULTILINE)
    assert {"Tests", "Light and dark", "Colab", "Alt text"} <= set(boxes)


def test_the_licence_says_which_is_for_what():
    text = " ".join((ROOT / "LICENSE").read_text(encoding="utf-8").split())
    code, prose = text.index("MIT License, below"), text.index("CC BY 4.0")
    assert text.index("1. Code:") < code < text.index("2. Text and figures:") < prose
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["license"] == ["MIT", "CC-BY-4.0"]


@pytest.fixture
def push(tmp_path):
    """A function that publishes pages and returns what is then served.

    With `wheel`, the tools are built and lie beside the pages.
    """
    remote, html = tmp_path / "remote.git", tmp_path / "work/_build/html"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)

    def push(pages, tag=None, to=remote, wheel=False):
        shutil.rmtree(html, ignore_errors=True)
        html.mkdir(parents=True)
        for name, text in pages.items():
            (html / name).parent.mkdir(parents=True, exist_ok=True)
            (html / name).write_text(text)
        if wheel:
            made = make("wheel", "--old-file=html", f"SITE={html}")
            assert made.returncode == 0, made.stderr
        result = bash(
            step("publish.yml", "Publish on the gh-pages branch"),
            html.parent.parent,
            REMOTE=str(to),
            GITHUB_REF_TYPE="tag" if tag else "branch",
            GITHUB_REF_NAME=tag or "main",
            GITHUB_SHA="0123abc",
            GITHUB_WORKSPACE=str(html.parent.parent),
        )
        assert result.returncode == 0, result.stderr
        names = git(remote, "ls-tree", "-r", "--name-only", "gh-pages").split()
        return {name: git(remote, "show", f"gh-pages:{name}") for name in names}

    push.remote = remote
    return push


def test_a_push_replaces_the_book_and_leaves_no_history(push):
    push({"index.html": "old", "gone.html": "x", "_static/a.css": "a"})
    served = push({"index.html": "new"})
    assert served == {"index.html": "new", ".nojekyll": ""}
    assert git(push.remote, "rev-list", "--count", "gh-pages") == "1\n"


def test_an_edition_never_changes_and_stays_beside_the_newest_book(push):
    push({"index.html": "one"})
    push({"index.html": "one", "a/b.html": "b"}, tag="v1.0")
    push({"index.html": "two"})
    served = push({"index.html": "three"}, tag="v1.0")
    assert served["index.html"] == "two"
    assert served["v1.0/index.html"] == "one"
    assert served["v1.0/a/b.html"] == "b"


def test_every_edition_has_the_wheel_that_its_page_names(push, monkeypatch):
    url = "https://github.com/ada/book"
    monkeypatch.setenv("GITHUB_REF_TYPE", "tag")
    monkeypatch.setenv("GITHUB_REF_NAME", "v1.0")
    assert "make wheel" in (ROOT / ".github/workflows/publish.yml").read_text()
    served = push({"index.html": "one"}, tag="v1.0", wheel=True)
    from_site, from_git = install_tools.commands(ROOT, url)
    site, name = from_site.removeprefix("pip install ").rsplit("/", 1)
    assert site == "https://ada.github.io/book/v1.0"
    assert f"v1.0/{name}" in served
    assert from_git == "pip install git+https://github.com/ada/book@v1.0"


def test_a_book_that_nobody_publishes_is_installed_from_its_clone():
    assert install_tools.commands(ROOT, "") == ["pip install ."]


def test_an_edition_can_be_the_first_thing_published(push):
    assert push({"index.html": "one"}, tag="v1.0")["v1.0/index.html"] == "one"


def test_nothing_is_published_when_the_editions_cannot_be_read(push, tmp_path):
    push({"index.html": "one"}, tag="v1.0")
    with pytest.raises(AssertionError, match="does not"):
        push({"index.html": "two"}, to=tmp_path / "away.git")


def test_the_weekly_run_lets_all_versions_grow_but_one(tmp_path):
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("make", ".venv/bin/python"):
        (tmp_path / name).write_text('#!/bin/sh\necho "$0 $*" >> calls\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "requirements.txt").write_bytes(
        (ROOT / "requirements.txt").read_bytes()
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    script = step("weekly.yml", "Take the newest versions")
    result = bash(script, tmp_path, PATH=path, RUNNER_TEMP=str(tmp_path))
    assert result.returncode == 0, result.stderr
    newest = (tmp_path / "newest.txt").read_text().splitlines()
    wanted = [line for line in newest if line and line[0] != "#"]
    assert "jupyter-book<2" in wanted
    assert "torch" in wanted
    assert [line for line in wanted if "=" in line] == []
    assert "-m pip install --upgrade -r" in (tmp_path / "calls").read_text()


# Addresses


@pytest.mark.parametrize(
    ("url", "tag", "address"),
    [
        ("https://github.com/Ada/Book", None, "https://ada.github.io/Book/"),
        ("https://github.com/Ada/Book", "v1.0", "https://ada.github.io/Book/v1.0/"),
        ("https://github.com/ada/ada.github.io", None, "https://ada.github.io/"),
        (None, None, ""),
        (None, "v1.0", ""),
    ],
)
def test_the_address_follows_from_the_repository(monkeypatch, url, tag, address):
    monkeypatch.setenv("GITHUB_REF_TYPE", "tag" if tag else "branch")
    monkeypatch.setenv("GITHUB_REF_NAME", tag or "main")
    assert publish.address(url) == address


def test_the_imprint_names_version_day_and_edition(monkeypatch, tmp_path):
    (tmp_path / "CITATION.cff").write_text("version: 2.1.0\ndate-released: 2026-01-02")
    assert publish.imprint(tmp_path) == "Version 2.1.0, 2026-01-02"
    git(tmp_path, "init", "--quiet")
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2026-03-04T12:00:00Z")
    git(tmp_path, *who, "commit", "--quiet", "--allow-empty", "--message", "x")
    assert re.fullmatch(
        r"Version 2\.1\.0, 2026-03-04 \(\w+\)", publish.imprint(tmp_path)
    )
    monkeypatch.setenv("GITHUB_REF_TYPE", "tag")
    monkeypatch.setenv("GITHUB_REF_NAME", "v2.1")
    assert publish.imprint(tmp_path).endswith("edition v2.1")


# Files beside the pages


def published(folder, url):
    """Write robots.txt and sitemap.xml into a folder, as a build with this address."""
    builder = SimpleNamespace(name="html", get_target_uri="{}.html".format)
    app = SimpleNamespace(
        builder=builder,
        config=SimpleNamespace(html_baseurl=url),
        env=SimpleNamespace(found_docs={"chapters/b", "chapters/a"}),
        outdir=folder,
    )
    publish.write_map(app, None)


def test_the_sitemap_lists_every_page_under_the_address(tmp_path):
    published(tmp_path, "https://ada.github.io/book/")
    urls = [
        e.text for e in ElementTree.parse(tmp_path / "sitemap.xml").iter() if e.text
    ]
    assert urls == [f"https://ada.github.io/book/chapters/{n}.html" for n in "ab"]
    sitemap = "Sitemap: https://ada.github.io/book/sitemap.xml"
    assert sitemap in (tmp_path / "robots.txt").read_text().splitlines()


def test_without_an_address_there_is_no_sitemap_to_mislead(tmp_path):
    published(tmp_path, "")
    assert not (tmp_path / "sitemap.xml").exists()
    assert "Sitemap" not in (tmp_path / "robots.txt").read_text()


def head(book, name):
    html = (book / name).read_text(encoding="utf-8").partition("</head>")[0]
    tags = BeautifulSoup(html, "html.parser").select("meta[content]")
    return {tag.get("property") or tag.get("name"): tag["content"] for tag in tags}


def test_a_shared_link_says_what_the_page_is_about(book):
    said = {name: head(book, name) for name in [*PAGES, "index.html"]}
    for name, tags in said.items():
        assert len(tags["og:description"]) > 60, name
        assert tags["og:image"].endswith("_static/card.png")
        assert tags["og:image:alt"]
        assert tags["og:title"]
        assert tags["description"] == tags["og:description"]
    assert len({tags["og:description"] for tags in said.values()}) == len(PAGES)


def test_every_page_ends_with_version_and_day(book):
    for name in PAGES:
        html = (book / name).read_text(encoding="utf-8")
        assert re.search(r"Version [\d.]+, \d{4}-\d\d-\d\d", html), name


def test_other_projects_can_link_to_functions_and_words(book):
    with open(book / "objects.inv", "rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, uri: uri)
    assert "taken_apart.tracer.trace" in inventory["py:function"]
    assert inventory["std:term"]


class Site(SimpleHTTPRequestHandler):
    """Serve the book as GitHub does: below a path, 404.html for what is not there."""

    def translate_path(self, path):
        return super().translate_path(path.removeprefix("/encoder"))

    def send_error(self, code, message=None, explain=None):
        page = Path(self.directory, "404.html").read_bytes()
        page = re.sub(rb'<base href="[^"]*"', b'<base href="/encoder/"', page)
        self.send_response(404)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *args):
        pass


def test_a_dead_link_at_any_depth_shows_a_page_that_leads_back(browser, book):
    site = ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, directory=str(book)))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    page, failed = browser.new_page(), []
    page.on("requestfailed", lambda request: failed.append(request.url))
    page.on("response", lambda r: r.status == 404 and failed.append(r.url))
    home = f"http://127.0.0.1:{site.server_port}/encoder"
    page.goto(f"{home}/chapters/old/away.html")
    assert page.get_by_role("heading", name="This page is not here").is_visible()
    assert failed == [f"{home}/chapters/old/away.html"]
    page.get_by_role("link", name="Start at the first page").click()
    assert page.url == f"{home}/chapters/intro.html"
    page.close()
    site.shutdown()
    site.server_close()


def test_pictures_of_the_book_are_of_the_size_that_is_promised(book):
    sizes = {}
    for path in (ROOT / ".github/book.png", book / "_static/card.png"):
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < 300_000
        sizes[path.stem] = struct.unpack(">II", data[16:24])
    assert sizes == {"book": (1280, 860), "card": (1200, 630)}


def test_a_changed_style_reaches_a_book_that_is_built_already(tmp_path):
    style, copy = tmp_path / "static/book.css", tmp_path / "out/_static/book.css"
    for path in (style, copy):
        path.parent.mkdir(parents=True)
        path.write_text("a {}")
    config = SimpleNamespace(html_static_path=["static"], root_doc="chapters/intro")
    app = SimpleNamespace(confdir=tmp_path, outdir=tmp_path / "out", config=config)
    outdated = partial(pages.notice_assets, app, None, set(), set(), set())
    os.utime(style, (1, 1))
    assert outdated() == []
    os.utime(style, (9e9, 9e9))
    assert outdated() == ["chapters/intro"]
