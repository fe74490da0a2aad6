"""The fixtures of all tests: programs of the system, views in a page, the book."""

import json
import os
import shutil
import subprocess

import pytest
from chrome import BROWSERS, chrome
from common import JS, ROOT, TWO_FRAMES

# A page that holds views and nothing else, under a policy that forbids what is outside.
VIEWS_PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><head>
<title>Views</title><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>body {{ margin: 16px; background: {paper}; color: {ink}; }}</style></head>
<body><main><h1>Views</h1>{body}</main></body></html>"""
POLICY = "default-src 'self' 'unsafe-inline'"
COLOURS = {
    "light": {"paper": "#fff", "ink": "#222832"},
    "dark": {"paper": "#14181e", "ink": "#ced6dd"},
}
RUN_MODULE = """
import { readFileSync } from "node:fs";
const { file, body, data } = JSON.parse(readFileSync(0, "utf8"));
const read = (text) => new Uint8Array(Buffer.from(text, "base64"));
const bytes = (text) => new DataView(read(text).buffer);
const run = (async () => {}).constructor("module", "data", "bytes", body);
const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
console.log(JSON.stringify(await run(await import(file), data, bytes), plain));
"""


def skip_outside_ci(reason):
    """Skip on a reader's machine; in continuous integration nothing may be missing."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)


def program(*names):
    """Return the path of the first of these programs that is installed."""
    for path in map(shutil.which, names):
        if path:
            return path
    return skip_outside_ci(f"needs {names[0]}, and there is none on PATH")


@pytest.fixture
def one_thread():
    """Small tensors are computed fastest by one thread, and alike everywhere."""
    import torch  # here, as the tests of pages do without it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def chromium():
    """The path of the system's Chromium or Chrome."""
    return program(*BROWSERS)


@pytest.fixture(scope="module")
def browser(chromium):
    """A running Chromium; one a module, as Playwright allows one at a time."""
    with chrome(chromium) as browser:
        yield browser


@pytest.fixture
def show(browser, tmp_path):
    """A function that opens a page with views; nothing may go wrong until the end."""
    contexts, noise = [], []

    def show(*shown, theme="light", width=820, height=900, drawn=True, **options):
        body = "".join(x if isinstance(x, str) else x.html() for x in shown)
        file = tmp_path / "page.html"
        words = {"theme": theme, "policy": POLICY, "body": body} | COLOURS[theme]
        file.write_text(VIEWS_PAGE.format(**words))
        viewport = {"width": width, "height": height}
        contexts.append(browser.new_context(viewport=viewport, **options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: noise.append(f"exception: {error}"))
        page.on("console", lambda message: noise.append(f"console: {message.text}"))
        page.on("dialog", lambda dialog: noise.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: noise.append(f"request: {request.url}"))
        page.goto(file.as_uri())
        noise.remove(f"request: {file.as_uri()}")
        if drawn and options.get("java_script_enabled", True):
            # A large view unpacks its data in its own time.
            page.locator(".eta-root:empty").first.wait_for(state="detached")
            # A view that asks for its width is told before the second frame.
            page.evaluate(TWO_FRAMES)
        return page

    yield show
    for context in contexts:
        context.close()
    assert [text for text in noise if "willReadFrequently" not in text] == []


@pytest.fixture(scope="session")
def node():
    """The path of Node.js, 18 or newer."""
    return program("node", "nodejs")


@pytest.fixture(scope="session")
def js(node):
    """A function that runs a body with a view's file as `module`, and `data`."""

    def js(file, body, data=None):
        job = {"file": JS[file].as_uri(), "body": body, "data": data}
        command = [node, "--input-type=module", "--eval", RUN_MODULE]
        done = subprocess.run(
            command, input=json.dumps(job), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return js


@pytest.fixture(scope="session")
def book():
    """The folder of the built book."""
    folder = ROOT / "_build/html"
    if not (folder / "index.html").is_file():
        skip_outside_ci("needs the built book: run `make html` first")
    return folder
