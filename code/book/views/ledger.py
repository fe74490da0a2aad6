"""The ledger as a table: what is said, the verdict, the evidence, and where."""

import re
from collections.abc import Iterable
from itertools import starmap
from typing import Any, NoReturn

from taken_apart.views import View, html_text

from ..claims import VERDICTS, shown
from . import JS

ClaimRow = dict[str, Any]  # one of chapters/claims.json


class Ledger(View):
    """The rows as a table, with a bar to filter it; without scripts, the whole table.

    Each row carries its claim's id as anchor, and links to the cell that settles it.
    """

    module = JS / "ledger/ledger.js"
    styles = (JS / "ledger/ledger.css",)

    def __init__(self, rows: Iterable[ClaimRow]):
        super().__init__()
        self.rows = sorted(rows, key=lambda row: (chapter_number(row), row["id"]))

    def summary(self) -> str:
        return f"{len(self.rows)} claims"

    def still(self) -> str:
        titles = ("what is said", "verdict", "evidence", "where")
        head = "".join(f'<th scope="col">{title}</th>' for title in titles)
        body = "".join(map(html_row, self.rows))
        return (
            f'<table class="eta-claims"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )

    def live(self) -> NoReturn:
        """Raise TypeError: the ledger has nothing to exchange with a kernel."""
        raise TypeError("Ledger has no live form: show it as it is")


def html_row(row: ClaimRow) -> str:
    facets = {
        "verdict": row["verdict"],
        "evidence": row["evidence"],
        "chapter": chapter_name(row),
        "source": row["source"].split(",")[0],
    }
    data = "".join(f' data-{k}="{html_text(v)}"' for k, v in facets.items())
    evidence = f"{evidence_cell(row)}{covers(row)}"
    cells = (claim_cell(row), verdict_cell(row), evidence, place_cell(row))
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr id="{row["id"]}"{data}>{body}</tr>'


def chapter_number(row: ClaimRow) -> int:
    """Return 5 for 05_layer_norm and for evidence_05, and 99 for beyond."""
    number = re.search(r"\d+", row["chapter"])
    return int(number[0]) if number else 99


def chapter_name(row: ClaimRow) -> str:
    number = chapter_number(row)
    return "beyond" if number == 99 else f"chapter {number:02}"


def claim_cell(row: ClaimRow) -> str:
    """Return the claim, its number and section, and what the source means by it."""
    where = f"{row['id']}, {row['source']}"
    # What it means begins with the section, which the source has named already.
    means = re.sub(r"^Section \S+: ", "", row.get("means", ""))
    meant = ": ".join(filter(None, (where, means)))
    return f"{html_text(row['text'])} <small>{html_text(meant)}</small>"


def verdict_cell(row: ClaimRow) -> str:
    sign = VERDICTS.get(row["verdict"], "")
    condition = html_text(row.get("condition", ""))
    found = f"<b>{sign} {row['verdict']}</b>"
    return found + f"<small>{condition}</small>" * bool(condition)


def covers(row: ClaimRow) -> str:
    covered = html_text(row.get("covers", ""))
    return f"<small>Measured on: {covered}</small>" if covered else ""


def evidence_cell(row: ClaimRow) -> str:
    """Say what a verdict rests on: our figures, a reference, or why there is none."""
    if row["evidence"] == "executed":
        return "; ".join(starmap(figure, row["measured"].items()))
    if row["evidence"] == "cited":
        return html_text(f"{cited(row['reference'])}: {row['note']}")
    return html_text(row.get("note", row["evidence"]))


def figure(name: str, value: Any) -> str:
    return f"{html_text(name)} <b>{html_text(shown(value))}</b>"


def cited(key: str) -> str:
    """Return "Xiong 2020" for the key xiong2020layer."""
    author, year, _ = re.split(r"(\d{4})", key, maxsplit=1)
    return f"{author.capitalize()} {year}"


def place_cell(row: ClaimRow) -> str:
    """Name the chapter, and lead to the cell that settles the claim."""
    if row["evidence"] != "executed":
        return chapter_name(row)
    page = "evidence" if row["chapter"].startswith("evidence") else "chapter"
    name = f"{page} {chapter_number(row):02}"
    return f'<a href="{row["chapter"]}.html#claim-{row["id"]}">{name}</a>'
