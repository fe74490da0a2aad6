"""Curves of recorded results that a reader switches in and out, and reads exactly."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .base import View
from .bundle import JS
from .html import html_text, plain_text

FEW, MANY = 16, 1000  # curves to switch among, and values in one curve
DIGITS = 4  # significant digits that a value keeps on its way into the page
DASHES = ("", "7 3", "2 3", "9 3 2 3")

Number = float | str  # JSON has no nan and no inf: they travel as text
Curve = tuple[
    list[int], list[Number]
]  # the places of its name and settings; its values


class Curves(View):
    """Results over x, such as losses over steps: to switch, to pick, to read.

    `curves` maps a name to its values, numbers over the common x. With `settings`, two
    or more names such as ("order", "layers"), it maps tuples instead: ("Pre-LN", 24).
    The first setting's values can be switched in and out, up to 16 of them; of every
    other setting the reader picks one value at a time, at first that in `picked`.

    `at` holds the x of each value (default 1, 2, 3, ...); a curve may be shorter. nan
    and inf are results: the curve is drawn to where it "stopped". `x` and `y` name the
    axes, `log` draws y in powers of ten, `lines` maps names to values of y worth
    marking. `reference`, one of the switched names, is always there; `shown` lists
    those that are in at first (default: all).

    Raises ValueError for curves that are empty, too many, too long or longer than `at`,
    for names that do not fit `settings`, and for `log` with values not above 0;
    TypeError for values that are not numbers.
    """

    module = JS / "curves/curves.js"
    styles = (JS / "curves/curves.css",)

    def __init__(
        self,
        curves: dict[Any, Iterable[float]],
        x: str = "step",
        y: str = "loss",
        *,
        at: Iterable[float] | None = None,
        settings: Sequence[str] = (),
        picked: Mapping[str, Any] | None = None,
        reference: Any = None,
        shown: Iterable | None = None,
        lines: Mapping[str, float] | None = None,
        log: bool = False,
    ):
        names, choices, drawn = sort_curves(curves, tuple(settings))
        longest = max(len(values) for _, values in drawn)
        self.at = check_at(at, longest)
        if log:
            check_log(drawn, lines or {})
        super().__init__(
            x=plain_text(x),
            y=plain_text(y),
            at=self.at,
            names=names,
            settings=[
                [plain_text(s), list(c)]
                for s, c in zip(settings[1:], choices, strict=True)
            ],
            curves=[[list(key), values] for key, values in drawn],
            lines=[[plain_text(n), number(v, n)] for n, v in (lines or {}).items()],
            reference=None if reference is None else find(names, reference),
            on=shown_names(names, reference, shown),
            picked=picked_values(settings[1:], choices, picked or {}),
            log=log,
            cursor=len(self.at) - 1,  # the place in `at` whose values are told
        )

    def summary(self) -> str:
        state = self.state
        n_values = sum(len(values) for _, values in state["curves"])
        among = "".join(f", {len(c)} {name}" for name, c in state["settings"])
        curves = f"{len(state['names'])} curves{among}"
        return f"{state['y']} over {state['x']}: {curves}, {n_values} values"

    def still(self) -> str:
        """Return a drawing of the curves shown first, and all curves as a table."""
        return still_drawing(self.state) + still_table(self.state)


def sort_curves(
    curves: dict[Any, Iterable[float]], settings: tuple[str, ...]
) -> tuple[list[str], list[list[str]], list[Curve]]:
    """Return the switched names, the other settings' values, and the coded curves."""
    if not isinstance(curves, dict) or not curves:
        raise ValueError(f"curves must map names to values, got {curves!r:.60}")
    if len(settings) == 1:
        raise ValueError("settings wants two names or more; one needs no settings")
    keys = [key if settings else (key,) for key in curves]
    for key in keys:
        if not isinstance(key, tuple) or len(key) != max(1, len(settings)):
            raise ValueError(f"a curve's name must tell {settings}, got {key!r}")
    columns = [
        [*dict.fromkeys(map(plain_text, column))] for column in zip(*keys, strict=True)
    ]
    if len(columns[0]) > FEW:
        raise ValueError(f"at most {FEW} curves to switch, got {len(columns[0])}")
    places = [
        [c.index(plain_text(p)) for c, p in zip(columns, key, strict=True)]
        for key in keys
    ]
    if len({*map(tuple, places)}) < len(keys):
        raise ValueError(f"each curve wants a name of its own, got {keys}")
    drawn = [
        (place, coded(name, v))
        for place, (name, v) in zip(places, curves.items(), strict=True)
    ]
    return columns[0], columns[1:], drawn


def coded(name: Any, values: Iterable[float]) -> list[Number]:
    """Return the values of one curve for JSON, rounded; nan and inf as text."""
    numbers = [number(value, name) for value in values]
    if not 1 <= len(numbers) <= MANY:
        raise ValueError(
            f"curve {name!r} must hold 1 to {MANY} values, got {len(numbers)}"
        )
    return numbers


def number(value: Any, name: Any) -> Number:
    """Return a value for JSON: rounded, or as text where it is nan or inf."""
    try:
        value = float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"curve {name!r} must hold numbers, got {value!r:.60}"
        ) from None
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def check_at(at: Iterable[float] | None, longest: int) -> list[float]:
    """Return the x of each value, whole numbers as such."""
    if at is None:
        return list(range(1, longest + 1))
    numbers = [number(x, "at") for x in at]
    finite = [x for x in numbers if not isinstance(x, str)]
    if len(numbers) < longest:
        raise ValueError(f"at must name an x for {longest} values, got {len(numbers)}")
    if len(finite) < len(numbers) or finite != sorted(set(finite)):
        raise ValueError("at must be finite and grow from value to value")
    return [int(x) if x == int(x) else x for x in finite]


def check_log(drawn: list[Curve], lines: Mapping[str, float]):
    values = [v for _, curve in drawn for v in curve] + list(lines.values())
    low = min((v for v in values if not isinstance(v, str)), default=1)
    if low <= 0:
        raise ValueError(f"log wants values above 0, got {low:g}")


def find(names: list[str], name: Any) -> int:
    """Return the place of a name; ValueError where it is none of them."""
    if plain_text(name) not in names:
        raise ValueError(f"{name!r} is none of the curves: {', '.join(names)}")
    return names.index(plain_text(name))


def shown_names(names: list[str], reference: Any, shown: Iterable | None) -> list[bool]:
    """Say of each name whether it is switched in; the reference always is."""
    chosen = names if shown is None else [*shown, *[reference][: reference is not None]]
    places = {find(names, name) for name in chosen}
    return [place in places for place in range(len(names))]


def picked_values(
    settings: Sequence[str], choices: list[list[str]], picked: Mapping[str, Any]
) -> list[int]:
    """Return the place of the picked value of each setting, the first by default."""
    if unknown := picked.keys() - set(settings):
        raise ValueError(f"picked must name {list(settings)}, got {sorted(unknown)}")
    return [
        find(c, picked.get(name, c[0]))
        for name, c in zip(settings, choices, strict=True)
    ]


# --- The still figure ----------------------------------------------------------------


def finite_part(values: list[Number]) -> list[Number]:
    """Return the values before the first nan or inf."""
    stop = next((i for i, v in enumerate(values) if isinstance(v, str)), len(values))
    return values[:stop]


def full_name(state: dict[str, Any], key: list[int]) -> str:
    """Return "Pre-LN, layers 24": a curve's name and the settings it belongs to."""
    others = (
        f"{name} {c[i]}"
        for i, (name, c) in zip(key[1:], state["settings"], strict=True)
    )
    return html_text(", ".join([state["names"][key[0]], *others]))


def still_drawing(state: dict[str, Any]) -> str:
    """Return the curves that are shown at first as SVG, each named at its end."""
    shown = {
        key[0]: np.array(finite_part(values))
        for key, values in state["curves"]
        if state["on"][key[0]] and key[1:] == state["picked"]
    }
    bend = np.log10 if state["log"] else np.asarray
    heights = {i: bend(values) for i, values in shown.items() if len(values)}
    low, high = extremes(np.concatenate([*heights.values(), []]))
    first, last = extremes(state["at"])
    marks, free = [], -math.inf  # names stand below one another, 12 apart
    for i, ys in sorted(heights.items(), key=lambda curve: -curve[1][-1]):
        across = 440 * (np.array(state["at"][: len(ys)]) - first) / (last - first)
        down = 190 - 180 * (ys - low) / (high - low)
        points = " ".join(f"{x:.0f},{y:.0f}" for x, y in zip(across, down, strict=True))
        free = max(free + 12, down[-1] + 4)
        marks.append(
            f'<polyline points="{points}" stroke-dasharray="{DASHES[i % 4]}"/>'
            f'<text x="446" y="{free:.0f}">{html_text(state["names"][i])}</text>'
        )
    label = html_text(f"{state['y']} over {state['x']}")
    box = f'viewBox="0 0 600 {max(200, free + 4):.0f}" width="600"'
    return f'<svg {box} role="img" aria-label="{label}">{"".join(marks)}</svg>'


def extremes(values: Any) -> tuple[float, float]:
    """Return the least and the greatest value, made different where they are one."""
    low, high = (min(values), max(values)) if len(values) else (0, 1)
    return low, high if high > low else low + 1


def still_table(state: dict[str, Any]) -> str:
    """Return every curve at five x, from the first to the last."""
    n = len(state["at"])
    places = sorted({round(part * (n - 1) / 4) for part in range(5)})
    head = "".join(f"<th>{state['at'][i]:g}" for i in places)
    rows = "".join(
        f"<tr><td>{full_name(state, key)}"
        + "".join(f"<td>{told(values, i)}" for i in places)
        for key, values in state["curves"]
    )
    caption = html_text(f"{state['y']}, by {state['x']}")
    return f"<table><caption>{caption}</caption><tr><td>{head}{rows}</table>"


def told(values: list[Number], i: int) -> str:
    """Return a value in words: empty after the end, "stopped" from the first nan on."""
    if i >= len(values):
        return ""
    return "stopped" if i >= len(finite_part(values)) else f"{values[i]:.3g}"
