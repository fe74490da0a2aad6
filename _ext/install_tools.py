"""Say how to install the tools: from the site that a page is on, or from git."""

from docutils import nodes
from publish import address, citation, edition
from sphinx.util.docutils import SphinxDirective

WHEEL = "encoder_taken_apart-{}-py3-none-any.whl"  # as pip names it


def commands(folder, url):
    """Return what installs the tools of this edition; `url` is the repository's."""
    if not url:  # built by nobody who publishes: there is a clone
        return ["pip install ."]
    tag = edition().rstrip("/")
    return [
        f"pip install {address(url)}{WHEEL.format(citation(folder)['version'])}",
        f"pip install git+{url}" + (f"@{tag}" if tag else ""),
    ]


class InstallTools(SphinxDirective):
    def run(self):
        url = self.config.html_theme_options["repository_url"]
        text = "\n".join(commands(self.env.app.confdir, url))
        return [nodes.literal_block(text, text, language="console")]


def setup(app):
    app.add_directive("install-tools", InstallTools)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
