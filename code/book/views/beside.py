"""What the kernel computes from a live view, shown below the view."""

from collections.abc import Callable
from typing import Any

import ipywidgets


def told_below(
    live: ipywidgets.DOMWidget, name: str, tell: Callable[[Any], str]
) -> ipywidgets.VBox:
    """Return a live view above `tell(value)`, told again when its trait `name` changes.

    `tell` returns HTML, such as that of `show_table`.
    """
    told = ipywidgets.HTML(tell(getattr(live, name)))

    def tell_again(change: dict[str, Any]) -> None:
        told.value = tell(change["new"])

    live.observe(tell_again, name)
    return ipywidgets.VBox([live, told])
