"""Write a copy of each chapter that carries the code, for readers of one notebook.

The copy differs from the chapter in its setup cell alone, and needs neither network nor
repository: it opens in Colab, in a download folder, behind a firewall. The download
button of a page gives it, and its Colab button opens it where the book is published.
"""

import base64
import hashlib
import io
import zipfile
from pathlib import Path

import nbformat
from publish import edition

COLAB = "https://colab.research.google.com/github/{}/blob/gh-pages/{}{}"
SETUP = '''\
# @title Setup: unpack the book's code { display-mode: "form" }
import base64
import io
import sys
import tempfile
import zipfile

CODE = """
%(code)s
"""

# A new folder at each run, and no module of an older one: never stale, never shared.
folder = tempfile.mkdtemp(prefix="encoder-book-")
with zipfile.ZipFile(io.BytesIO(base64.b85decode(CODE.replace("\\n", "")))) as code:
    code.extractall(folder)
    for name in code.namelist():
        sys.modules.pop(name.removesuffix(".py"), None)
sys.path[:] = [folder, *(path for path in sys.path if "encoder-book-" not in path)]
print("The Encoder, Taken Apart, code %(fingerprint)s")'''


def pack(folder):
    """Return the files of a folder as text in lines: the same files, the same text."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".js", ".css", ".json"):
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    text = base64.b85encode(packed.getvalue()).decode()
    return "\n".join(text[i : i + 100] for i in range(0, len(text), 100))


def setup_cell(folder):
    """Return the source of a setup cell that carries the code of a folder."""
    code = pack(folder)
    fingerprint = hashlib.sha256(code.encode()).hexdigest()[:8]
    return SETUP % {"code": code, "fingerprint": fingerprint}


def standalone(path, cell_source):
    """Return the notebook at a path, with another source in its setup cell."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if "book-setup" in cell.metadata.get("tags", []):
            cell.source = cell_source
    return notebook


def place(docname):
    """Return where the copy of a page is, from the top of the built book."""
    return f"standalone/{Path(docname).name}.ipynb"


def is_notebook(app, docname):
    return app.env.doc2path(docname).endswith(".ipynb")


def write_copies(app, exception):
    if exception is None and app.builder.name == "html":
        cell = setup_cell(Path(app.srcdir, "code"))
        Path(app.outdir, "standalone").mkdir(exist_ok=True)
        for name in filter(lambda name: is_notebook(app, name), app.env.found_docs):
            copy = standalone(app.env.doc2path(name), cell)
            nbformat.write(copy, Path(app.outdir, place(name)))


def point_buttons(app, pagename, templatename, context, doctree):
    """Let the page's buttons give and open its stand-alone copy."""
    if pagename not in app.env.found_docs or not is_notebook(app, pagename):
        return
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("label") == "download-source-button":
                button["url"] = context["pathto"](place(pagename), 1)
        if group.get("label") == "launch-buttons":
            repository = app.config.html_theme_options["repository_url"]
            name = repository.removeprefix("https://github.com/")
            group["buttons"].append(
                {
                    "type": "link",
                    "text": "Colab",
                    "tooltip": "Launch on Colab",
                    "icon": "_static/images/logo_colab.png",
                    "url": COLAB.format(name, edition(), place(pagename)),
                }
            )


def setup(app):
    app.connect("build-finished", write_copies)
    app.connect("html-page-context", point_buttons, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
