"""What the tests of several folders import: where things lie, make, and axe-core."""

import os
import subprocess
from pathlib import Path

import yaml
from axe_playwright_python.sync_playwright import Axe

ROOT = Path(__file__).parent.parent
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
NUMBERED = [path for path in CHAPTERS if path.stem[:2].isdigit()]


def pages():
    """Return the names of the book's pages, as the table of contents lists them."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text())
    files = [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [f"{file}.html" for file in [toc["root"], *files]]


PAGES = pages()
# What is laid out anew, or asks for its width, has been told by the second frame.
TWO_FRAMES = """() => new Promise(
    (done) => requestAnimationFrame(() => requestAnimationFrame(done))
)"""
JS = {path.name: path for path in ROOT.glob("code/*/views/js/*/*.js")}


def make(*arguments, path=os.environ["PATH"]):
    """Run make on the installed environment, with programs from `path`."""
    command = ["make", "--silent", "--old-file=.venv/installed", *arguments]
    given = {"cwd": ROOT, "capture_output": True, "text": True}
    return subprocess.run(command, **given, env=os.environ | {"PATH": path})


def violations(page, rules=(), leave_out=()):
    """Return what axe-core finds serious or critical, one line an element.

    With `rules` it asks these, and no others; it passes over what `leave_out` selects.
    """
    # Of what it finds in order, axe-core needs no list: that takes it twice the time.
    # Nor may it load style sheets once more, for rules that it does not ask by itself.
    options = {"resultTypes": ["violations"], "preload": False}
    if rules:
        options["runOnly"] = {"type": "rule", "values": rules}
    context = {"exclude": [[each] for each in leave_out]}
    found = Axe().run(page, context, options).response["violations"]
    return [
        f"{rule['id']}: {node['target']} {node['html'][:100]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
