"""Write a copy of each chapter that carries the code, for readers of one notebook.

The copy differs from the chapter in its setup cell alone, and needs neither network nor
repository: it opens in Colab, in a download folder, behind a firewall. The download
button of a page gives it, and its Colab button opens it where the book is published.
"""

import base64
import hashlib
import io
import shutil
import zipfile
from pathlib import Path

import nbformat
from needed_files import needed
from publish import edition

COLAB = "https://colab.research.google.com/github/{}/blob/gh-pages/{}{}"
# Pages that read the other notebooks: alone they would have nothing to show.
OF_THE_WHOLE_BOOK = {"chapters/ledger"}
# What a page of evidence opens with is read from here, and in a copy from there.
CLAIMS, CARRIED_CLAIMS = "chapters/claims.json", "book/claims/claims.json"
SETUP = '''\
# @title Setup: unpack the book's code { display-mode: "form" }
import base64
import io
import sys
import tempfile
import zipfile
from importlib.metadata import PackageNotFoundError, version

CODE = """
%(code)s
"""

# What is missing or too old is said here, and not by a cell further down.
for name, oldest in {"torch": (2, 9), "numpy": (2, 0), "matplotlib": (3, 8)}.items():
    try:
        found = version(name)
    except PackageNotFoundError:
        found = "none"
    if tuple(int(n) for n in found.split(".")[:2] if n.isdigit()) < oldest:
        wanted = ".".join(map(str, oldest))
        raise ImportError(f"This needs {name} {wanted} or newer, and found {found}.")

# A new folder at each run, and no module of an older one: never stale, never shared.
folder = tempfile.mkdtemp(prefix="encoder-book-")
with zipfile.ZipFile(io.BytesIO(base64.b85decode(CODE.replace("\\n", "")))) as code:
    code.extractall(folder)
    carried = {name.partition("/")[0].removesuffix(".py") for name in code.namelist()}
for module in [name for name in sys.modules if name.partition(".")[0] in carried]:
    del sys.modules[module]
sys.path[:] = [folder, *(path for path in sys.path if "encoder-book-" not in path)]
print("The Encoder, Taken Apart, code %(fingerprint)s")'''


def pack(files):
    """Return files, name to path, as text in lines: the same files, the same text."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            entry = zipfile.ZipInfo(name)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    text = base64.b85encode(packed.getvalue()).decode()
    return "\n".join(text[i : i + 100] for i in range(0, len(text), 100))


def setup_cell(folder, text=""):
    """Return a setup cell that carries what a notebook of this text needs."""
    paths = needed(folder, text)
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    if "book/claims/ledger.py" in files:
        files[CARRIED_CLAIMS] = folder.parent / CLAIMS
    code = pack(files)
    fingerprint = hashlib.sha256(code.encode()).hexdigest()[:8]
    return SETUP % {"code": code, "fingerprint": fingerprint}


def standalone(path, folder):
    """Return the notebook at a path, with a setup cell that carries its code."""
    notebook = nbformat.read(path, as_version=4)
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    for cell in notebook.cells:
        if "book-setup" in cell.metadata.get("tags", []):
            cell.source = setup_cell(folder, "\n".join(sources))
    return notebook


def place(docname):
    """Return where the copy of a page is, from the top of the built book."""
    return f"standalone/{Path(docname).name}.ipynb"


def runs_alone(app, docname):
    """Say whether a page is a notebook that needs no other file of the book."""
    source = app.env.doc2path(docname) if docname in app.env.found_docs else ""
    return source.endswith(".ipynb") and docname not in OF_THE_WHOLE_BOOK


def write_copies(app, exception):
    if exception is None and app.builder.name == "html":
        folder, copies = Path(app.srcdir, "code"), Path(app.outdir, "standalone")
        shutil.rmtree(copies, ignore_errors=True)  # a page may have lost its copy
        copies.mkdir()
        for name in filter(lambda name: runs_alone(app, name), app.env.found_docs):
            copy = standalone(app.env.doc2path(name), folder)
            nbformat.write(copy, Path(app.outdir, place(name)))


def point_buttons(app, pagename, templatename, context, doctree):
    """Let the page's buttons give and open its stand-alone copy, if it has one."""
    for group in context.get("header_buttons", []):
        buttons = group.get("buttons", [])
        for button in list(buttons):
            if button.get("label") == "download-source-button":
                if pagename in OF_THE_WHOLE_BOOK:
                    buttons.remove(button)
                elif runs_alone(app, pagename):
                    button["url"] = context["pathto"](place(pagename), 1)
        if group.get("label") == "launch-buttons" and runs_alone(app, pagename):
            buttons.append(colab_button(app, pagename))


def colab_button(app, pagename):
    """Return the button that opens a page's copy where this book is published."""
    repository = app.config.html_theme_options["repository_url"]
    name = repository.removeprefix("https://github.com/")
    return {
        "type": "link",
        "text": "Colab",
        "tooltip": "Launch on Colab",
        "icon": "_static/images/logo_colab.png",
        "url": COLAB.format(name, edition(), place(pagename)),
    }


def setup(app):
    app.connect("build-finished", write_copies)
    app.connect("html-page-context", point_buttons, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
