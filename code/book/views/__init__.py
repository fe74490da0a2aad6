"""The views that only this book needs: each teaches one idea of one chapter.

A name is imported when it is first asked for, so that a view which computes nothing
does not wait for PyTorch.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for editors and type checkers, which do not call __getattr__
    from .axis_juggler import AxisJuggler
    from .decoding_stepper import DecodingStepper
    from .encoder_lab import EncoderLab
    from .init_dial import InitDial
    from .ledger import Ledger
    from .mask_lab import MaskLab
    from .norms import NormAxes, NormMicroscope
    from .ring_lift import RingLift
    from .row_editor import RowEditor
    from .scale_dial import ScaleDial
    from .spot_the_bug import SpotTheBug
    from .symptoms import Symptoms
    from .width_dial import WidthDial
    from .word_order import WordOrder

JS = Path(__file__).parent / "js"  # a folder a view
__all__ = [
    "AxisJuggler",
    "DecodingStepper",
    "EncoderLab",
    "InitDial",
    "Ledger",
    "MaskLab",
    "NormAxes",
    "NormMicroscope",
    "RingLift",
    "RowEditor",
    "ScaleDial",
    "SpotTheBug",
    "Symptoms",
    "WidthDial",
    "WordOrder",
]
MODULES = {
    "AxisJuggler": "axis_juggler",
    "DecodingStepper": "decoding_stepper",
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
    "WidthDial": "width_dial",
    "WordOrder": "word_order",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
