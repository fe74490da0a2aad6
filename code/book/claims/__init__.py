"""Bind what is said about Transformers to a check that a cell has run.

    settle(
        claim("A010", "The variance of a dot product grows with K", "holds",
              {"variance at K = 64": 63.8}, check=abs(63.8 / 64 - 1) < 0.1),
    )

A claim whose check fails stops the notebook. The cell's output keeps the claims as data
too, under `MIME`; the book's ledger page is made from nothing else.
"""

from dataclasses import asdict, dataclass
from html import escape

MIME = "application/vnd.encoder-book.claims+json"
VERDICTS = {"holds": "✓", "refuted": "✗", "depends": "≈"}


@dataclass(frozen=True)
class Claim:
    """A sentence, what became of it, and the measured values that decided."""

    id: str
    text: str
    verdict: str
    measured: dict

    def evidence(self) -> str:
        return "; ".join(f"{name}: {shown(v)}" for name, v in self.measured.items())

    def data(self) -> dict:
        """Return the claim for JSON, in pairs: notebooks sort the names of a dict."""
        return asdict(self) | {"measured": list(map(list, self.measured.items()))}


def claim(id: str, text: str, verdict: str, measured: dict, check) -> Claim:
    """Return the claim if `check`, the proof of the verdict, is true.

    `verdict` is "holds", "refuted" or "depends"; `measured` maps a few words to each
    value. Raises AssertionError when the check is false, TypeError when it is no truth
    value (a bool, or a NumPy or torch scalar of one), ValueError for another verdict.
    """
    if verdict not in VERDICTS:
        raise ValueError(f"verdict must be one of {list(VERDICTS)}, got {verdict!r}")
    if not measured:
        raise ValueError(f"claim {id} wants a measured value, got none")
    if "bool" not in str(getattr(check, "dtype", type(check))):
        raise TypeError(f"check must be a bool, got {type(check).__name__}")
    made = Claim(id, text, verdict, {n: plain(v) for n, v in measured.items()})
    if not check:
        raise AssertionError(f"{id} is not {verdict}: {text}. {made.evidence()}")
    return made


def fact(id: str, text: str, verdict: str, measured: str, check) -> Claim:
    """Return a claim whose one measured value is its check: `measured` says of what.

    Raises as `claim` does.
    """
    return claim(id, text, verdict, {measured: check}, check)


class Settled:
    """Claims that one cell has settled, shown as one table."""

    def __init__(self, claims: tuple[Claim, ...]):
        self.claims = claims

    def __repr__(self):
        return "\n".join(
            f"{c.id} {c.verdict}: {c.text} [{c.evidence()}]" for c in self.claims
        )

    def html(self) -> str:
        """Return the table; each row carries the anchor that the ledger links to."""
        head = "<tr><th>what is said</th><th>verdict</th><th>measured here</th></tr>"
        rows = "".join(map(row, self.claims))
        return (
            f'<table class="claims"><thead>{head}</thead><tbody>{rows}</tbody></table>'
        )

    def _repr_mimebundle_(self, include=None, exclude=None):
        data = {"claims": [c.data() for c in self.claims]}
        return {"text/plain": repr(self), "text/html": self.html(), MIME: data}


def settle(*claims: Claim) -> Settled:
    """Show the claims that a cell has settled: let it be the cell's last expression."""
    ids = [c.id for c in claims]
    if not claims or len(set(ids)) < len(ids):
        raise ValueError(f"settle wants one or more different claims, got {ids}")
    return Settled(claims)


def row(claim: Claim) -> str:
    sign, id = VERDICTS[claim.verdict], escape(claim.id, quote=True)
    return (
        f'<tr id="claim-{id}" class="{claim.verdict}"><td>{escape(claim.text)} '
        f"<small>{id}</small></td><td>{sign} {claim.verdict}</td>"
        f"<td>{escape(claim.evidence())}</td></tr>"
    )


def plain(value):
    """Turn a scalar of any library into one for JSON, a float with three digits."""
    value = value.item() if hasattr(value, "item") else value
    return float(f"{value:.3g}") if isinstance(value, float) else value


def shown(value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
