"""Finish the theme's pages: nothing loads from elsewhere, and no role misleads."""

import re
import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

MATHJAX = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static/mathjax"
NEEDED = ("tex-chtml.js", "input/tex/extensions", "output/chtml/fonts/woff-v2")
CHINESE = re.compile(r"\(([\u4e00-\u9fff][^()<>\"\x00-\x7f]*)\)")
# What no page loads, 6 MB: maps for debuggers, translations of the theme, the script
# that drop_thebe takes out, older forms of fonts, and notebooks: standalone/ has them.
UNUSED = (
    "_static/**/*.map",
    "_static/locales",
    "_static/sphinx-thebe.js",
    "_static/vendor/**/*.ttf",
    "_sources/**/*.ipynb",
)


def copy_mathjax(app, exception):
    """Copy what pages use, 2 MB: the package also holds 22 MB that they do not."""
    if exception is None and app.builder.format == "html":
        for name in NEEDED:
            source, target = MATHJAX / name, Path(app.outdir, "_static/mathjax", name)
            copy_asset(source, target if source.is_dir() else target.parent)


def notice_assets(app, env, added, changed, removed):
    """Build again when only a style or script has changed: Sphinx looks at pages."""
    for source in (Path(app.confdir, name) for name in app.config.html_static_path):
        for path in [source] if source.is_file() else source.rglob("*"):
            copy = Path(app.outdir, "_static", path.name)
            if not copy.is_file() or copy.stat().st_mtime < path.stat().st_mtime:
                return [app.config.root_doc]
    return []


def drop_unused(app, exception):
    """Keep what pages load. Icons come from a font: their script is emptied, 1.5 MB."""
    if exception is None and app.builder.name == "html":
        for pattern in UNUSED:
            for path in list(Path(app.outdir).glob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        icons = Path(app.outdir, "_static/scripts/fontawesome.js")
        icons.write_text("// The icons are those of _static/vendor/fontawesome.\n")


def drop_thebe(app, pagename, templatename, context, doctree):
    """Leave out Thebe's scripts: they would load from unpkg.com, and need a kernel."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(script) + str(getattr(script, "attributes", ""))
    ]


def say_what_things_are(app, pagename, templatename, context, doctree):
    """Call entries of a bibliography list items, and (Chinese in brackets) Chinese."""
    if "body" in context:
        entry = 'role="doc-biblioentry"'
        body = context["body"].replace(entry, 'role="listitem"')
        context["body"] = CHINESE.sub(r'(<span lang="zh">\1</span>)', body)


def setup(app):
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", drop_unused)
    app.connect("env-get-outdated", notice_assets)
    app.connect("html-page-context", drop_thebe, priority=999)
    app.connect("html-page-context", say_what_things_are)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
