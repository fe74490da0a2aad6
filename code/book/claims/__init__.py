"""Bind what is said about Transformers to a check that a cell has run.

    settle(
        claim("A010", "The variance of a dot product grows with K", "holds",
              {"variance at K = 64": 63.8}, check=abs(63.8 / 64 - 1) < 0.1),
    )

A claim whose check fails stops the notebook. The cell's output keeps the claims as data
too, under `MIME`; the book's ledger page is made from nothing else.
"""

import re
from dataclasses import asdict, dataclass
from html import escape

MIME = "application/vnd.encoder-book.claims+json"
VERDICTS = {"holds": "✓", "refuted": "✗", "depends": "≈", "open": "?"}


@dataclass(frozen=True)
class Claim:
    """A sentence, what became of it, and the measured values that decided."""

    id: str
    text: str
    verdict: str
    measured: dict
    condition: str = ""

    def evidence(self) -> str:
        return "; ".join(f"{name}: {shown(v)}" for name, v in self.measured.items())

    def decided(self) -> str:
        """Return the verdict, and the condition it depends on."""
        return ": ".join(filter(None, (self.verdict, self.condition)))

    def data(self) -> dict:
        """Return the claim for JSON, in pairs: notebooks sort the names of a dict."""
        return asdict(self) | {"measured": list(map(list, self.measured.items()))}


def claim(
    number: str, text: str, verdict: str, measured: dict, check, *, condition: str = ""
) -> Claim:
    """Return the claim if `check`, the proof of the verdict, is true.

    `number` is the claim's in the ledger. `verdict` is "holds", "refuted", "depends" or
    "open"; "depends" names its `condition`. `measured` maps a few words to each value,
    and one value at least is a figure. Raises AssertionError when the check is false,
    TypeError when it is no truth value (a bool, or a NumPy or torch scalar of one),
    ValueError for another verdict, a missing condition or missing figures.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {list(VERDICTS)}, got {verdict!r}")
    if bool(condition) != (verdict == "depends"):
        raise ValueError(
            f'claim {number}: "depends", and nothing else, names a condition; '
            f"got {verdict!r} and {condition!r}"
        )
    values = {name: plain(value) for name, value in measured.items()}
    if not any(map(is_figure, values.values())):
        raise ValueError(
            f"claim {number} wants a figure among its measured values, got {values}"
        )
    made = Claim(number, text, verdict, values, condition)
    if "bool" not in str(getattr(check, "dtype", type(check))):
        raise TypeError(f"check must be a bool, got {type(check).__name__}")
    if not check:
        raise AssertionError(f"{number} is not {verdict}: {text}. {made.evidence()}")
    return made


def is_figure(value) -> bool:
    """Return whether a value is a number, or a text that contains one."""
    return not isinstance(value, bool) and re.search(r"\d", str(value)) is not None


class Settled:
    """Claims that one cell has settled, shown as one table."""

    titles = ("what is said", "verdict", "measured here")

    def __init__(self, claims: tuple[Claim, ...]):
        self.claims = claims

    def __repr__(self):
        return "\n".join(
            f"{c.id} {c.decided()}: {c.text} [{c.evidence()}]" for c in self.claims
        )

    def cells(self, claim: Claim) -> tuple[str, ...]:
        """Return the row of one claim, under `titles`, as HTML."""
        return said(claim), verdict(claim), escape(claim.evidence())

    def html(self) -> str:
        """Return the table; each row carries the anchor that the ledger links to."""
        head = "".join(f'<th scope="col">{title}</th>' for title in self.titles)
        rows = "".join(
            f'<tr id="claim-{escape(claim.id)}" class="{claim.verdict}">'
            + "".join(f"<td>{cell}</td>" for cell in self.cells(claim))
            + "</tr>"
            for claim in self.claims
        )
        return (
            f'<table class="claims"><thead><tr>{head}</tr></thead>'
            f"<tbody>{rows}</tbody></table>"
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"claims": [c.data() for c in self.claims]}
        return {"text/plain": repr(self), "text/html": self.html(), MIME: data}


class Card(Settled):
    """One claim, where the story decides it, and the reason."""

    titles = ("said", "found", "because")

    def __init__(self, claim: Claim, because: str):
        super().__init__((claim,))
        self.because = because

    def __repr__(self):
        return f"{super().__repr__()}\nbecause {self.because}"

    def cells(self, claim):
        found = f"{verdict(claim)}<br>{escape(claim.evidence())}"
        return said(claim), found, escape(self.because)


def settle(*claims: Claim) -> Settled:
    """Show the claims that a cell has settled: let it be the cell's last expression."""
    ids = [c.id for c in claims]
    if not claims or len(set(ids)) < len(ids):
        raise ValueError(f"settle wants one or more different claims, got {ids}")
    return Settled(claims)


def card(claim: Claim, because: str) -> Card:
    """Show one claim as said, found and because, as the cell's last expression.

    `because` is the reason in one sentence; raises ValueError when it is empty.
    """
    if not because.strip():
        raise ValueError(f"the card of {claim.id} wants a reason")
    return Card(claim, because)


def said(claim: Claim) -> str:
    """Return the sentence and its number, which leads to its row in the ledger."""
    number = escape(claim.id)
    link = f'<a href="ledger.html#{number}">{number}</a>'
    return f"{escape(claim.text)} <small>{link}</small>"


def verdict(claim: Claim) -> str:
    condition = f"<br><small>{escape(claim.condition)}</small>" * bool(claim.condition)
    return f"{VERDICTS[claim.verdict]} {claim.verdict}{condition}"


def plain(value):
    """Turn a scalar of any library into one for JSON, a float with three digits."""
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.3g}") if isinstance(value, float) else value


def shown(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
