"""Views: figures a reader can touch, with no kernel and no network.

Nothing here imports torch. `View` and the names below it are for whoever writes a view.
"""

from .arrays import as_array, place, token_lists
from .attention_map import AttentionMap
from .base import View
from .bundle import SHARED
from .curves import Curves
from .html import heat_map, html_text, numbers_table, plain_text
from .shape_tracer import ShapeTracer

__all__ = [
    "AttentionMap",
    "Curves",
    "ShapeTracer",
    "View",
    "SHARED",
    "as_array",
    "heat_map",
    "html_text",
    "numbers_table",
    "place",
    "plain_text",
    "token_lists",
]
