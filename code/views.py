"""Views: figures a reader can touch, with no kernel and no network.

A view is a plain object. In a notebook or a built page it shows itself as HTML that
holds everything: style, data, one inlined ES module, and a still figure of the same
content for print and for readers without JavaScript. `view.live()` gives an ipywidget
of the very same module, synced with the kernel.

The drawing lives in `js/`: plain ES modules that may import one another. A module ends
in `export default { render }`, as anywidget wants it.
"""

import base64
import functools
import json
import re
import zlib
from html import escape
from pathlib import Path

JS = Path(__file__).parent / "js"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
INDENT_OR_COMMENT = re.compile(r"^[ \t]+|^[ \t]*//.*\n|^\n", re.MULTILINE)


class View:
    """Data and one ES module that draws it; subclasses say `module` and `still()`.

    `state` holds what the module reads through `model.get(name)`: values for JSON, and
    bytes, which arrive as a DataView. Raises TypeError for what JSON cannot hold.
    """

    module = ""  # the file in js/ that has `export default { render }`
    styles = ("axes.css", "views.css")

    def __init__(self, **state):
        self.state = state

    def summary(self) -> str:
        """Return what the view holds in a few words, the same at every run."""
        return ""

    def still(self) -> str:
        """Return the content as plain HTML: shown in print and without JavaScript."""
        return f"<p>{html_text(self)}</p>"

    def html(self) -> str:
        """Return HTML that needs nothing else: no network, no kernel, no ids."""
        data = json.dumps(packed(self.state), separators=(",", ":"), sort_keys=True)
        data = data.replace("<", "\\u003c")  # no token can close the script element
        return (
            f'<div class="eta"><style>{style(self.styles)}</style>'
            f'<div class="eta-root"></div><div class="eta-still">{self.still()}</div>'
            f'<script type="application/json">{data}</script>'
            f"<script>{classic_script(self.module)}</script></div>"
        )

    def live(self):
        """Return an ipywidget of the same view whose state is synced with the kernel.

        Each name in the state is a trait: read it, set it, or `observe` it. Needs
        anywidget and a running kernel; works with ipywidgets 7 and 8.
        """
        return live_class(type(self), tuple(self.state))(**self.state)

    def __repr__(self):
        return f"{type(self).__name__}({self.summary()})"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self.html()}


def packed(state: dict) -> dict:
    """Make bytes fit for JSON: deflated, then base64, marked by the key "$z"."""

    def pack(value):
        if not isinstance(value, bytes):
            return value
        return {"$z": base64.b64encode(zlib.compress(value, 9)).decode()}

    return {name: pack(value) for name, value in state.items()}


def html_text(value) -> str:
    """Return any object as text that HTML shows as it is, whatever it holds."""
    return escape(str(value).encode("utf-8", "replace").decode())


@functools.cache
def source(name: str) -> str:
    return (JS / name).read_text(encoding="utf-8")


@functools.cache
def es_module(name: str) -> str:
    """Join an ES module and those it imports, in order, as one without imports."""
    parts = {}

    def add(name):
        for needed in IMPORT.findall(source(name)):
            if needed not in parts:
                add(needed)
        parts[name] = IMPORT.sub("", source(name))

    add(name)
    joined = INDENT_OR_COMMENT.sub("", "".join(parts.values()))
    return re.sub(r"^export (?!default)", "", joined, flags=re.MULTILINE)


@functools.cache
def classic_script(name: str) -> str:
    """Wrap the module as a script that runs anywhere, also from file:// and in CSP."""
    view = es_module(name).replace("export default ", "const view = ")
    return f"(() => {{\n{view}{es_module('shim.js')}mount(view);\n}})();"


@functools.cache
def style(names: tuple) -> str:
    """Join style sheets, without comments and line breaks."""
    joined = re.sub(r"/\*.*?\*/", "", "".join(map(source, names)), flags=re.DOTALL)
    return re.sub(r"\s+", " ", joined).strip()


@functools.cache
def live_class(view: type, names: tuple) -> type:
    """Build the widget class of a view: its module, its style, a trait a name."""
    import anywidget  # here, because views need neither a kernel nor widgets
    import traitlets

    traits = {name: traitlets.Any().tag(sync=True) for name in names}
    page = {"_esm": es_module(view.module), "_css": style(view.styles)}
    return type(f"Live{view.__name__}", (anywidget.AnyWidget,), page | traits)
