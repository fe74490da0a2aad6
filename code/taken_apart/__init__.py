"""Take a Transformer encoder apart, your own too: trace it, diagnose it, look inside.

    from taken_apart import trace, diagnose, AttentionMap

A name is imported when it is first asked for: a view does not wait for PyTorch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers, which do not call __getattr__
    from .doctor import Diagnosis, Finding, diagnose
    from .testing import assert_healthy
    from .tracer import Trace, trace
    from .views import AttentionMap, Curves, ShapeTracer, View

__version__ = "2.0.0"
__all__ = [
    "AttentionMap",
    "Curves",
    "Diagnosis",
    "Finding",
    "ShapeTracer",
    "Trace",
    "View",
    "assert_healthy",
    "diagnose",
    "trace",
]
MODULES = {  # where each is defined
    "AttentionMap": "views",
    "Curves": "views",
    "Diagnosis": "doctor",
    "Finding": "doctor",
    "ShapeTracer": "views",
    "Trace": "tracer",
    "View": "views",
    "assert_healthy": "testing",
    "diagnose": "doctor",
    "trace": "tracer",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{MODULES[name]}", __name__), name)
    globals()[name] = value  # asked once
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
