"""The ledger: every claim of the book's source articles, and what became of it.

    python code/book ledger

brings `chapters/claims.json` up to date. A claim that a chapter settles gets verdict
and figures from the output which the notebook stores; all else is written by hand.
"""

import json
from collections import Counter
from pathlib import Path

from . import MIME

CHAPTERS = Path(__file__).parents[3] / "chapters"
EVIDENCE = ("executed", "cited", "to come", "not checkable")
OPEN = {"verdict": "open", "measured": {}, "evidence": "to come"}


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
    """Return what the chapters' stored outputs settle: id -> chapter, verdict, figures.

    Raises ValueError for claims that are settled twice.
    """
    found = [
        {"chapter": path.stem, **claim}
        for path in sorted(folder.glob("[0-9]*.ipynb"))
        for claim in stored_claims(path)
    ]
    cells = Counter(map(row_id, found))
    if twice := {c["id"]: c["chapter"] for c in found if cells[c["id"]] > 1}:
        raise ValueError(f"a claim wants one cell, these have more, last in: {twice}")
    kept = ("chapter", "verdict", "measured")
    return {claim["id"]: {name: claim[name] for name in kept} for claim in found}


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


def main():
    rows = collect()
    write(rows)
    counts = [sum(row["evidence"] == kind for row in rows) for kind in EVIDENCE]
    print(", ".join(f"{n} {kind}" for n, kind in zip(counts, EVIDENCE)))
