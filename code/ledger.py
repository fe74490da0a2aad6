"""The ledger: every claim of the book's source articles, and what became of it.

    python code/ledger.py

brings `chapters/claims.json` up to date. A claim that a chapter settles gets verdict
and figures from the output which the notebook stores; all else is written by hand.
"""

import json
import re
from collections import Counter
from pathlib import Path

from claims import MIME, VERDICTS, shown
from views import View, html_text

CHAPTERS = Path(__file__).parent.parent / "chapters"
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


class Ledger(View):
    """The rows as a table, with a bar to filter it; without scripts, the whole table.

    Each row carries its claim's id as anchor, and links to the cell that settles it.
    """

    module = "ledger.js"
    styles = ("axes.css", "views.css", "ledger.css")

    def __init__(self, rows):
        super().__init__()
        self.rows = sorted(rows, key=lambda row: (row["chapter"], row["id"]))

    def summary(self):
        return f"{len(self.rows)} claims"

    def still(self):
        titles = ("what is said", "verdict", "evidence", "where")
        head = "".join(f'<th scope="col">{title}</th>' for title in titles)
        body = "".join(map(html_row, self.rows))
        return (
            f'<table class="eta-claims"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )

    def live(self):
        """Raise TypeError: the ledger has nothing to exchange with a kernel."""
        raise TypeError("Ledger has no live form: show it as it is")


def html_row(row) -> str:
    sign = VERDICTS.get(row["verdict"], "")
    facets = {
        "verdict": row["verdict"],
        "evidence": row["evidence"],
        "chapter": chapter_name(row),
        "source": row["source"].split(",")[0],
    }
    data = "".join(f' data-{k}="{html_text(v)}"' for k, v in facets.items())
    said = f"{html_text(row['text'])} <small>{row['id']}, {html_text(row['source'])}"
    return (
        f'<tr id="{row["id"]}"{data}><td>{said}</small></td>'
        f"<td>{sign} {row['verdict']}</td><td>{evidence(row)}</td>"
        f"<td>{place(row)}</td></tr>"
    )


def chapter_name(row) -> str:
    return row["chapter"].replace("_", " ")


def evidence(row) -> str:
    """Say what a verdict rests on: our figures, a reference, or why there is none."""
    if row["evidence"] == "executed":
        return "; ".join(map(figure, row["measured"].items()))
    if row["evidence"] == "cited":
        return html_text(f"{cited(row['reference'])}: {row['note']}")
    return html_text(row.get("note", row["evidence"]))


def figure(item) -> str:
    name, value = item
    return f"{html_text(name)} <b>{html_text(shown(value))}</b>"


def cited(key) -> str:
    """Return "Xiong 2020" for the key xiong2020layer."""
    author, year = re.match(r"([a-z]+)(\d{4})", key).groups()
    return f"{author.capitalize()} {year}"


def place(row) -> str:
    name = html_text(chapter_name(row))
    if row["evidence"] != "executed":
        return name
    return f'<a href="{row["chapter"]}.html#claim-{row["id"]}">{name}</a>'


def main():
    rows = collect()
    write(rows)
    counts = [sum(row["evidence"] == kind for row in rows) for kind in EVIDENCE]
    print(", ".join(f"{n} {kind}" for n, kind in zip(counts, EVIDENCE)))


if __name__ == "__main__":
    main()
