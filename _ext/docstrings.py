"""Let the reference page read the docstrings of code/, which are plain text."""

import sys


def setup(app):
    sys.path.insert(0, f"{app.confdir}/code")
    app.setup_extension("sphinx.ext.autodoc")
    app.config.autodoc_typehints = "none"  # docstrings say shapes, which types cannot
    app.config.autodoc_preserve_defaults = True  # relu, not <built-in method relu ...>
    app.config.toc_object_entries_show_parents = "hide"
    app.config.add_module_names = False
    app.config.default_role = "code"  # one pair of backticks is code, as in Markdown
    return {"parallel_read_safe": True, "parallel_write_safe": True}
