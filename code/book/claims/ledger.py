"""The ledger: every claim of the book's source articles, and what became of it.

    python code/book ledger

brings `chapters/claims.json` up to date. A claim that a notebook settles gets its
words, verdict, condition and figures from the output which the notebook stores; all
else is written by hand. `contents("05")` is the table that opens a chapter's evidence.
"""

import json
from collections import Counter
from html import escape
from pathlib import Path

from . import MIME, VERDICTS

CHAPTERS = Path(__file__).parents[3] / "chapters"
if (CARRIED := Path(__file__).with_name("claims.json")).is_file():
    CHAPTERS = CARRIED.parent  # a stand-alone notebook brings the rows, not the book
EVIDENCE = ("executed", "cited", "to come", "not checkable")
SETTLED = ("text", "verdict", "condition", "measured", "chapter")  # by a notebook
OPEN = {"verdict": "open", "condition": "", "measured": {}, "evidence": "to come"}


def read(folder=CHAPTERS) -> list[dict]:
    """Return the rows of claims.json, as they are stored."""
    return json.loads((folder / "claims.json").read_text(encoding="utf-8"))


def write(rows, folder=CHAPTERS):
    """Store the rows, one a line, in the order of their ids."""
    lines = [json.dumps(row, ensure_ascii=False) for row in sorted(rows, key=row_id)]
    text = "[\n" + ",\n".join(lines) + "\n]\n"
    (folder / "claims.json").write_text(text, encoding="utf-8")


def row_id(row) -> str:
    return row["id"]


def settled(folder=CHAPTERS) -> dict[str, dict]:
    """Return what the notebooks' stored outputs settle: id -> what is in `SETTLED`.

    Raises ValueError for claims that are settled twice.
    """
    paths = [*folder.glob("[0-9]*.ipynb"), *folder.glob("evidence_*.ipynb")]
    found = [
        {"condition": "", "chapter": path.stem, **claim}
        for path in sorted(paths)
        for claim in stored_claims(path)
    ]
    cells = Counter(map(row_id, found))
    if twice := {c["id"]: c["chapter"] for c in found if cells[c["id"]] > 1}:
        raise ValueError(f"a claim wants one cell, these have more, last in: {twice}")
    return {claim["id"]: {name: claim[name] for name in SETTLED} for claim in found}


def stored_claims(path) -> list[dict]:
    """Return the claims in the outputs of one notebook, in the order of its cells."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return [
        {**claim, "measured": dict(claim["measured"])}
        for output in outputs
        for claim in output.get("data", {}).get(MIME, {}).get("claims", ())
    ]


def collect(folder=CHAPTERS) -> list[dict]:
    """Return all rows with the verdicts that the notebooks hold now.

    Raises ValueError for a settled claim that has no row.
    """
    rows, found = read(folder), settled(folder)
    if unknown := sorted(found.keys() - set(map(row_id, rows))):
        raise ValueError(f"claims.json has no row for {unknown}: write one")
    return [updated(row, found.get(row["id"])) for row in rows]


def updated(row, found) -> dict:
    if found:
        return row | found | {"evidence": "executed"}
    return row | OPEN if row["evidence"] == "executed" else row  # its cell is gone


class Contents:
    """The claims of one chapter as a table: number, what is said, verdict."""

    def __init__(self, rows: list[dict], page: str):
        self.rows = rows
        self.page = page

    def __repr__(self):
        return "\n".join(f"{r['id']} {r['verdict']}: {r['text']}" for r in self.rows)

    def link(self, row) -> str:
        here = "" if row["chapter"] == self.page else f"{row['chapter']}.html"
        return f'<a href="{here}#claim-{row["id"]}">{row["id"]}</a>'

    def _repr_html_(self):
        titles = ("number", "what is said", "verdict")
        head = "".join(f'<th scope="col">{title}</th>' for title in titles)
        body = "".join(
            f"<tr><td>{self.link(row)}</td><td>{escape(row['text'])}</td>"
            f"<td>{VERDICTS[row['verdict']]} {row['verdict']}</td></tr>"
            for row in self.rows
        )
        return (
            f'<table class="claims"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )


def contents(chapter: str, folder=CHAPTERS) -> Contents:
    """Return the table of a chapter's executed claims, "05" for the fifth.

    Raises ValueError if there is none.
    """
    page = f"evidence_{chapter}"
    rows = [
        row
        for row in read(folder)
        if row["evidence"] == "executed"
        and (row["chapter"] == page or row["chapter"].startswith(f"{chapter}_"))
    ]
    if not rows:
        raise ValueError(f"no executed claim belongs to chapter {chapter!r}")
    return Contents(rows, page)


def main():
    rows = collect()
    write(rows)
    counts = Counter(row["evidence"] for row in rows)
    print(", ".join(f"{counts[kind]} {kind}" for kind in EVIDENCE))
