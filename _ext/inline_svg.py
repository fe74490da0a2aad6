"""Put local SVG images into the page itself, where they take its colours and its links.

An SVG behind <img> sees neither the theme nor a reader's click. In the notebooks the
image stays an ordinary Markdown image, so it also shows in Jupyter and Colab.
"""

import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)
LINK = re.compile(r'href="([\w/.-]+)\.(?:ipynb|md)(#[^"]*)?"')


class InlineSvg(SphinxPostTransform):
    default_priority = 5  # before the builder copies images
    formats = ("html",)

    def run(self, **kwargs):
        for image in list(self.document.findall(nodes.image)):
            uri = image["uri"]
            if uri.endswith(".svg") and "://" not in uri:
                svg = Path(self.app.srcdir, uri).read_text(encoding="utf-8")
                image.replace_self(
                    nodes.raw("", self.inline(svg, image), format="html")
                )

    def inline(self, svg, image):
        """Return the SVG with its links made relative and its alternative text set."""
        if not image.get("alt"):
            logger.warning("%s has no alternative text", image["uri"], location=image)
        label = escape(image.get("alt", ""), quote=True)
        # A picture with links is a group of parts; without, it is one image.
        role = "group" if "<a " in svg else "img"
        svg = svg[svg.index("<svg") :]
        svg = svg.replace("<svg ", f'<svg role="{role}" aria-label="{label}" ', 1)
        return LINK.sub(lambda link: self.relative(link, image), svg)

    def relative(self, link, image):
        docname = self.app.env.docname
        target = str(Path(docname).parent / link[1])
        if target not in self.app.env.found_docs:
            logger.warning("%s links to no page: %s", image["uri"], link[0])
        uri = self.app.builder.get_relative_uri(docname, target)
        return f'href="{uri}{link[2] or ""}"'


def setup(app):
    app.add_post_transform(InlineSvg)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
