"""The museum as a table: what one sees, why, the line that tells, and the cure."""

from collections.abc import Mapping
from typing import NoReturn

from taken_apart.views import View, html_text

from ..pitfalls import PITFALLS, SIGNS
from ..pitfalls.catalogue import Pitfall
from . import JS


class Symptoms(View):
    """The exhibits as a table to search, each row linked to its exhibit's lines.

    The table is ordered by what one sees. Without scripts it is there as a whole, and
    exhibits open by a click; scripts add a bar to search and to filter.
    """

    module = JS / "symptoms/symptoms.js"
    styles = (JS / "ledger/ledger.css", JS / "symptoms/symptoms.css")

    def __init__(self, pitfalls: Mapping[str, Pitfall] = PITFALLS):
        super().__init__()
        order = SIGNS.index
        self.pitfalls = sorted(pitfalls.values(), key=lambda case: order(case.sign))

    def summary(self) -> str:
        signs = {case.sign for case in self.pitfalls}
        return f"{len(self.pitfalls)} exhibits, {len(signs)} signs"

    def still(self) -> str:
        titles = "what you see", "likely cause", "the line that tells", "cure"
        head = "".join(f'<th scope="col">{title}</th>' for title in titles)
        body = "".join(map(row, self.pitfalls))
        exhibits = "".join(map(details, self.pitfalls))
        return (
            '<div class="eta-scroll" tabindex="0" role="region" '
            'aria-label="Symptoms"><table class="eta-claims eta-symptoms">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
            f'<div class="eta-exhibits">{exhibits}</div>'
        )

    def live(self) -> NoReturn:
        """Raise TypeError: the table has nothing to exchange with a kernel."""
        raise TypeError("Symptoms has no live form: show it as it is")


def anchor(case: Pitfall) -> str:
    """Return the id of an exhibit's lines; spot_the_bug.js links to it too."""
    return f"exhibit-{case.name.replace(' ', '-')}"


def row(case: Pitfall) -> str:
    said = html_text
    link = f'<a href="#{anchor(case)}">{said(case.name)}</a>'
    cells = (
        f"{said(case.symptom)} <small>{said(case.sign)}</small>",
        f"{said(case.cause)} <small>{link} · {said(case.kind)}</small>",
        f"<code>{said(case.diagnosis)}</code>",
        said(case.fix),
    )
    data = f'data-sign="{said(case.sign)}" data-kind="{said(case.kind)}"'
    return f"<tr {data}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def details(case: Pitfall) -> str:
    """Return an exhibit to open: its cause, its lines, and where it was met."""
    said = html_text
    return (
        f'<details id="{anchor(case)}"><summary>{said(case.name)}</summary>'
        f"<p>{said(case.cause)}</p><pre>{said(case.code())}</pre>"
        f"<p>Met: {said(case.where)}.</p></details>"
    )
