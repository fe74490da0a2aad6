"""Views: figures a reader can touch, with no kernel and no network.

A view is a plain object. In a notebook or a built page it shows itself as HTML that
holds everything: style, data, one inlined ES module, and a still figure of the same
content for print and for readers without JavaScript. `view.live()` gives an ipywidget
of the very same module, synced with the kernel.

The drawing lives in `js/`, a folder a view: plain ES modules that may import one
another. A module ends in `export default { render }`, as anywidget wants it.
"""

import base64
import functools
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bundle import SHARED, classic_script, es_module, style
from .html import html_text

SHARED_STYLES = SHARED / "colours.css", SHARED / "views.css"


class View:
    """Data and one ES module that draws it; subclasses say `module` and `still()`.

    `state` holds what the module reads through `model.get(name)`: values for JSON, and
    bytes, which arrive as a DataView. Raises TypeError for what JSON cannot hold.
    """

    module: Path  # the file that has `export default { render }`
    styles: tuple[Path, ...] = ()  # of this view alone, beside what all views share
    plain_size = 65_536  # bytes; a larger state travels deflated and is drawn later

    def __init__(self, **state: Any):
        self.state = state

    def summary(self) -> str:
        """Return what the view holds in a few words, the same at every run."""
        return ""

    def still(self) -> str:
        """Return the content as plain HTML: shown in print and without JavaScript."""
        return f"<p>{html_text(self)}</p>"

    def html(self) -> str:
        """Return HTML that needs nothing else: no network, no kernel, no ids."""
        return (
            f'<div class="eta"><style>{style(SHARED_STYLES + self.styles)}</style>'
            f'<div class="eta-root"></div><div class="eta-still">{self.still()}</div>'
            f'<script type="text/eta">{packed(self.state, self.plain_size)}</script>'
            f"<script>{classic_script(self.module)}</script></div>"
        )

    def live(self) -> Any:
        """Return an ipywidget of the same view whose state is synced with the kernel.

        Each name in the state is a trait: read it, set it, or `observe` it. Works with
        ipywidgets 7 and 8 in a running kernel. Raises ModuleNotFoundError without
        anywidget.
        """
        return live_class(type(self), tuple(self.state))(**self.state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return what a notebook shows; it hands over which forms it can take."""
        return {"text/plain": repr(self), "text/html": self.html()}


def packed(state: dict[str, Any], plain_size: int) -> str:
    """Return the state as JSON with its bytes in base64, under "$b".

    Beyond plain_size bytes are deflated, under "$z", and the JSON too. Browsers inflate
    asynchronously, behind whatever a page has to run; plain JSON is read on the spot.
    """
    text = to_json(state, "$b", bytes)
    if len(text) <= plain_size:
        return text.replace("<", "\\u003c")  # else "</script>" in a token would end it
    deflate = functools.partial(zlib.compress, level=9)
    return base64_text(deflate(to_json(state, "$z", deflate).encode()))


def to_json(state: dict[str, Any], key: str, pack: Callable[[bytes], bytes]) -> str:
    """Return the state as JSON, its bytes packed and in base64 under `key`.

    Raises TypeError for what JSON cannot hold, ValueError for nan and inf.
    """

    def as_json(value: object) -> dict[str, str]:
        if isinstance(value, bytes):
            return {key: base64_text(pack(value))}
        raise TypeError(f"a view's state holds JSON or bytes, got {value!r:.60}")

    return json.dumps(state, default=as_json, allow_nan=False)


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@functools.cache
def live_class(view: type[View], names: tuple[str, ...]) -> type:
    """Build the widget class of a view: its module, its style, a trait a name."""
    import anywidget  # here, because views need neither a kernel nor widgets
    import traitlets

    traits = {name: traitlets.Any().tag(sync=True) for name in names}
    page = {
        "_esm": es_module(view.module),
        "_css": style(SHARED_STYLES + view.styles),
        "__repr__": lambda widget: f"{view.__name__}(...).live()",  # no address
    }
    return type(f"Live{view.__name__}", (anywidget.AnyWidget,), page | traits)
