"""Take a Transformer encoder apart, your own too: trace it, diagnose it, look inside.

    from taken_apart import trace, diagnose, AttentionMap

A name is imported when it is first asked for: a view does not wait for PyTorch.
"""

from importlib import import_module

MODULES = {
    "AttentionMap": "views",
    "Curves": "views",
    "ShapeTracer": "views",
    "Trace": "tracer",
    "View": "views",
    "diagnose": "doctor",
    "trace": "tracer",
}
__all__ = list(MODULES)


def __getattr__(name: str):
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
