"""Find the names of axes: a hypothesis from how they are connected, then an experiment.

`input_axes.py` says which axis a letter stands for. A stand-in of the module is made in
which the letters have other sizes, distinct primes, doubled where the size was even,
for encoders often need even sizes. If the same lines run twice in that way, the axis of
size 4, then 10, then 14 is H in all three runs: the simplest product of letters that
fits every run is the name. The module itself is never run again; a stand-in has
parameters and buffers of its own. A letter whose number did not vary names only the
axes that are tied to it, and `naming` says so.

An axis reads "B", "B*H", "3*D", "K/2", "T+1", "3" (a size that never varied), or "12?"
(a size that several names fit equally well, or none).
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence

from .axis_changes import Numbers, change_of
from .axis_flow import nodes
from .axis_texts import LEGEND, Sizes, is_size
from .experiments import Tested, experiment
from .input_axes import Axes, Subject


def find_names(subject: Subject) -> dict:
    """Set `.axes` of every shape, `.event` of every row; return what is to be told.

    The dict has `sizes` (name -> size in the traced call), `relations` ("D": "H*K") and
    `naming`, a sentence that says how the names were found.
    """
    axes = Axes(subject)
    tested = experiment(subject, axes)
    name_rows(subject, axes, tested)
    for row, *others in zip(subject.rows, *tested.runs, strict=True):
        row.event = change_of(row, others)
    return summary(subject, tested)


def name_rows(subject: Subject, axes: Axes, tested: Tested) -> None:
    varied = tested.varied
    sizes = [x for x in tested.tables[0] if x in varied or not axes.by_attention]
    vectors = {
        x: tuple(table[x] for table in tested.tables)
        for x in sorted(sizes, key=[*LEGEND, *sizes].index)
    }
    name = namer(vectors, whole=set() if axes.is_input("T") else {"T"})
    for same in zip(subject.rows, *tested.runs, strict=True):
        for shapes in zip(*(row.inputs + row.outputs for row in same), strict=True):
            named = [
                best_name(numbers, axes.text(node), name(numbers), tested.tables)
                for numbers, node in zip(
                    zip(*shapes, strict=True), nodes(shapes[0]), strict=True
                )
            ]
            shapes[0].axes = tuple(named)


def best_name(
    numbers: Numbers, tied: str, fitting_name: str, tables: Sequence[Sizes]
) -> str:
    """Choose between the text that an axis is tied to and the name its numbers fit."""
    runs = zip(numbers, tables, strict=True)
    if not tied or not all(is_size(tied, n, sizes) for n, sizes in runs):
        return fitting_name
    if tied.isidentifier() or fitting_name.isdigit() or fitting_name.endswith("?"):
        return tied
    return fitting_name


def summary(subject: Subject, tested: Tested) -> dict:
    shapes = [shape for row in subject.rows for shape in row.inputs + row.outputs]
    text = " ".join(axis for shape in shapes for axis in shape.axes)
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    sizes, *others = tested.tables
    relations = {}
    if "D" in words and sizes["D"] == sizes.get("H", 0) * sizes.get("K", 0):
        relations, words = {"D": "H*K"}, words | set("DHK")
    order = sorted(sizes, key=[*LEGEND, *sizes].index)
    used = {name: sizes[name] for name in order if name in words}
    naming = f"names by equal numbers only: {tested.why}"
    verified = [name for name in used if name in tested.varied]
    if verified:
        texts = [" ".join(f"{name}={new[name]}" for name in verified) for new in others]
        naming = "names fit this run and two others: " + "; ".join(texts)
        if rest := [name for name in used if name not in verified]:
            naming += f". By equal numbers only: {', '.join(rest)}"
    elif not used:
        naming = "no axis has a name"
    elif not tested.why:
        naming = "names by equal numbers only: no size could be varied"
    return {"sizes": used, "relations": relations, "naming": naming}


def namer(vectors: dict[str, Numbers], whole: set[str]) -> Callable[[Numbers], str]:
    """Return a function from an axis' sizes, one a run, to the simplest name.

    Names that are `whole` have no multiples and no parts: T = 24 is made of an image's
    48 columns, and does not name them.
    """
    n_runs = len(next(iter(vectors.values()), ()))
    longest = 3 if n_runs > 1 else 1
    groups = [
        group
        for length in range(longest + 1)
        for group in itertools.combinations_with_replacement(vectors, length)
    ]
    products = [
        [math.prod(vectors[name][k] for name in group) for k in range(n_runs)]
        for group in groups
    ]
    multiples = [whole.isdisjoint(group) for group in groups]

    @functools.cache
    def name(numbers: Numbers) -> str:
        candidates = zip(groups, products, multiples, strict=True)
        fits = [fit for which in candidates for fit in fitting(numbers, *which)]
        cost = min((cost for cost, _ in fits), default=0)
        best = [text for c, text in fits if c == cost]
        if len(best) == 1:
            return best[0]
        return str(numbers[0]) if whole and not best else f"{numbers[0]}?"

    return name


def fitting(
    numbers: Numbers, group: Sequence[str], products: Sequence[int], multiples: bool
) -> Iterator[tuple[float, str]]:
    """Yield (cost, text) for each way in which a product of names gives the numbers."""
    fixed = len(set(numbers)) == 1
    if not group:
        if fixed:
            yield 1.5, str(numbers[0])  # dearer than a name, cheaper than a product
        return
    for more in (0, 1, -1) if len(numbers) > 1 else (0,):
        pairs = [(n - more, p) for n, p in zip(numbers, products, strict=True)]
        (n, p), text = pairs[0], "*".join(group)
        if n < 1 or any(n * other != p * number for number, other in pairs):
            continue
        if n % p and p % n or more and p > n or len(numbers) == 1 and n != p:
            continue
        if n != p and not multiples:
            continue
        text = text if n == p else f"{n // p}*{text}" if n > p else f"{text}/{p // n}"
        yield (
            len(group) + (n != p) + 2 * abs(more),
            text + (f"{more:+d}" if more else ""),
        )
