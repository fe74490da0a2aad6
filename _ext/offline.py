"""Make pages that load nothing from elsewhere: MathJax from a package, no Thebe."""

from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax"
NEEDED = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")


def copy_mathjax(app, exception):
    """Copy what pages use, 2 MB: the package also holds 22 MB that they do not."""
    if exception is None and app.builder.format == "html":
        for name in NEEDED:
            target = Path(app.outdir, "_static/mathjax", name)
            copy_asset(MATHJAX / name, target if target.suffix == "" else target.parent)


def drop_thebe(app, pagename, templatename, context, doctree):
    """Leave out Thebe's scripts: they would load from unpkg.com, and need a kernel."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(script) + str(getattr(script, "attributes", ""))
    ]


def setup(app):
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    app.connect("build-finished", copy_mathjax)
    app.connect("html-page-context", drop_thebe, priority=999)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
