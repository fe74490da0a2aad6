"""The views that only this book needs: each teaches one idea of one chapter.

A name is imported when it is first asked for, so that a view which computes nothing
does not wait for PyTorch.
"""

from importlib import import_module
from pathlib import Path

JS = Path(__file__).parent / "js"  # a folder a view
MODULES = {
    "AxisJuggler": "axis_juggler",
    "EncoderLab": "encoder_lab",
    "InitDial": "init_dial",
    "Ledger": "ledger",
    "MaskLab": "mask_lab",
    "NormAxes": "norms",
    "NormMicroscope": "norms",
    "RingLift": "ring_lift",
    "RowEditor": "row_editor",
    "ScaleDial": "scale_dial",
    "SpotTheBug": "spot_the_bug",
    "Symptoms": "symptoms",
    "WordOrder": "word_order",
}
__all__ = list(MODULES)


def __getattr__(name: str):
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)
