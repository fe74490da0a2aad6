"""Axes written as text: "B", "B*H", "3*D", "K/2", "T+1", "3"."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from .axis_flow import AxisGroups, Factors, Node, size

Sizes = dict[str, int]  # name -> size
Term = tuple[Fraction, tuple[str, ...]]  # a number times names
LEGEND = ("B", "T", "Tk", "D", "H", "K", "F", "V")


def value(text: str, sizes: Sizes) -> int:
    """Work out an axis like "3*D" or "T+1"; KeyError where a name has no size."""
    product, _, more = text.partition("+")
    product, *divisors = product.split("/")
    factors = [
        int(f) if f.lstrip("-").isdigit() else sizes[f] for f in product.split("*")
    ]
    return math.prod(factors) // math.prod(map(int, divisors)) + int(more or 0)


def written(n: int, sizes: Sizes, names: Iterable[str]) -> str:
    """Write a number as a name, as H*K or as a small multiple of D, or as it is."""
    longer = ("T+1", "T*D") if "T" in names else ()
    multiples = ("H*K", "2*D", "3*D", "4*D") if "D" in names else ()
    fits = (t for t in (*names, *multiples, *longer) if n > 1 and is_size(t, n, sizes))
    return next(fits, str(n))


def is_size(text: str, n: int, sizes: Sizes) -> bool:
    with contextlib.suppress(KeyError):
        return value(text, sizes) == n
    return False


def is_multiple(text: str, name: str) -> bool:
    """Say whether a text is a multiple or a part of a name: "2*T", "T/4"."""
    factors = text.replace("/", "*").split("*")
    return name in factors and any(factor.isdigit() for factor in factors)


def texts_of_groups(groups: AxisGroups, letters: Mapping[str, Node]) -> dict[Node, str]:
    """Write every group of axes that products of sizes tie to the letters."""
    known: dict[Node, Term] = {}
    for name, node in letters.items():
        known.setdefault(groups.leader(node), (Fraction(1), (name,)))
    for guess in (False, True, True):
        while True:
            found = {
                node: term
                for equation in groups.products
                for node, term in solved(equation, groups, known, guess)
                if node not in known
            }
            if not found:
                break
            known |= found
    return {node: term_text(term) for node, term in known.items()}


def solved(
    equation: tuple[Factors, Factors],
    groups: AxisGroups,
    known: Mapping[Node, Term],
    guess: bool,
) -> Iterator[tuple[Node, Term]]:
    """Solve for the one group without a text; in a guess, others are plain numbers."""
    for one, many in (equation, equation[::-1]):
        if len(one) != 1:
            continue
        terms = [term_of(factor, groups, known) for factor in many]
        whole = term_of(one[0], groups, known)
        open_at = [i for i, term in enumerate(terms) if term is None]
        if whole is None and (guess or not open_at):
            filled = [
                t or (Fraction(size(f)), ()) for t, f in zip(terms, many, strict=True)
            ]
            term = multiplied(filled)
            if term[1] and not isinstance(one[0], int):
                yield groups.leader(one[0]), term
        elif whole is not None and len(open_at) == 1:
            rest = multiplied([term for term in terms if term is not None])
            if (term := quotient(whole, rest)) is not None and term[1]:
                factor = many[open_at[0]]
                if not isinstance(factor, int):
                    yield groups.leader(factor), term


def term_of(
    factor: Node | int, groups: AxisGroups, known: Mapping[Node, Term]
) -> Term | None:
    if isinstance(factor, int):
        return Fraction(factor), ()
    return known.get(groups.leader(factor))


def multiplied(terms: Iterable[Term]) -> Term:
    number, names = Fraction(1), []
    for factor, letters in terms:
        number, names = number * factor, [*names, *letters]
    order = [*LEGEND, *sorted(names)]
    return number, tuple(sorted(names, key=order.index))


def quotient(whole: Term, part: Term) -> Term | None:
    names = [*whole[1]]
    for name in part[1]:
        if name not in names:
            return None
        names.remove(name)
    return whole[0] / part[0], tuple(names)


def term_text(term: Term) -> str:
    number, names = term
    over = f"{number.numerator}*" if number.numerator != 1 else ""
    under = f"/{number.denominator}" if number.denominator != 1 else ""
    return over + "*".join(names) + under
