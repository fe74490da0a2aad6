"""Find the names of axes by experiment.

A name is a hypothesis. A stand-in of the module is made in which D, H, K and F have
other sizes, and its inputs are made again with another B and T: distinct primes,
doubled where the size was even, for encoders often need even sizes. If the same lines
run twice in that way, the axis of size 4, then 10, then 14 is H in all three runs: the
simplest product of names that fits every run is the name. The module itself is never
run again; a stand-in has parameters and buffers of its own.

An axis reads "B", "B*H", "3*D", "K/2", "T+1", "3" (a size that never varied), or "12?"
(a size that several names fit equally well, or none).
"""

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence

from ..tensors import tensors_in
from .axis_changes import Numbers, change_of
from .input_axes import Sizes, Subject, known_sizes, read_inputs
from .rows import Row, Shape
from .stand_ins import PRIMES, experiment


def find_names(subject: Subject) -> dict:
    """Set `.names` of every shape, `.change` of every row; return what is to be told.

    The dict has `sizes` (name -> size in the traced call), `relations` ("D": "H*K") and
    `naming`, a sentence that says how the names were found.
    """
    sizes = known_sizes(subject)
    tensors = list({id(t): t for t in tensors_in(subject.inputs)}.values())
    readings = read_inputs(subject, tensors, sizes)
    found = experiment(subject, tensors, sizes, readings) or [([], [sizes])]
    namings = [name_rows(subject.rows, runs, tables) for runs, tables in found]
    for same in zip(*namings, strict=True):
        shape, names = same[0][0], zip(*(axes for _, axes in same), strict=True)
        shape.names = tuple(
            agreed(n, set(own)) for n, own in zip(shape, names, strict=True)
        )
    for row, *others in zip(subject.rows, *found[0][0], strict=True):
        row.change = change_of(row, others)
    return summary(subject, found[0][1])


def agreed(number: int, names: set[str]) -> str:
    return names.pop() if len(names) == 1 else f"{number}?"


def summary(subject: Subject, tables: Sequence[Sizes]) -> dict:
    shapes = [shape for row in subject.rows for shape in row.inputs + row.outputs]
    text = " ".join(axis for shape in shapes for axis in shape.names)
    words = set(re.findall(r"[A-Za-z_]\w*", text))
    sizes, *others = tables
    relations = {}
    if "D" in sizes and sizes["D"] == sizes.get("H", 0) * sizes.get("K", 0):
        relations, words = {"D": "H*K"}, words | set("DHK")
    order = sorted(sizes, key=[*PRIMES, *sizes].index)
    used = {name: sizes[name] for name in order if name in words}
    naming = "names by equal numbers only: no stand-in of other sizes could be run"
    if subject.strangers:
        naming = "names by equal numbers only: it calls modules that it does not hold"
    if others and used:
        texts = [" ".join(f"{name}={new[name]}" for name in used) for new in others]
        naming = "names fit this run and two others: " + "; ".join(texts)
    return {"sizes": used, "relations": relations, "naming": naming}


def name_rows(
    rows: list[Row], runs: Sequence[list[Row]], tables: Sequence[Sizes]
) -> list[tuple[Shape, tuple[str, ...]]]:
    """Pair each shape of the rows with the names of its axes."""
    vectors = {name: tuple(sizes[name] for sizes in tables) for name in tables[0]}
    name, named = namer(vectors), []
    for same in zip(rows, *runs, strict=True):
        for shapes in zip(*(row.inputs + row.outputs for row in same), strict=True):
            axes = tuple(name(numbers) for numbers in zip(*shapes, strict=True))
            named.append((shapes[0], axes))
    return named


def namer(vectors: dict[str, Numbers]) -> Callable[[Numbers], str]:
    """Return a function from an axis' sizes, one a run, to the simplest name."""
    n_runs = len(next(iter(vectors.values()), ()))
    longest = 3 if n_runs > 1 else 1
    groups = [
        group
        for length in range(longest + 1)
        for group in itertools.combinations_with_replacement(vectors, length)
    ]
    products = [
        (group, [math.prod(vectors[name][k] for name in group) for k in range(n_runs)])
        for group in groups
    ]

    @functools.cache
    def name(numbers: Numbers) -> str:
        fits = [fit for group in products for fit in fitting(numbers, *group)]
        cost = min((cost for cost, _ in fits), default=0)
        best = [text for c, text in fits if c == cost]
        return best[0] if len(best) == 1 else f"{numbers[0]}?"

    return name


def fitting(
    numbers: Numbers, group: Sequence[str], products: Sequence[int]
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
        text = text if n == p else f"{n // p}*{text}" if n > p else f"{text}/{p // n}"
        yield (
            len(group) + (n != p) + 2 * abs(more),
            text + (f"{more:+d}" if more else ""),
        )
