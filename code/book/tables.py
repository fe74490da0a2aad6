"""Results as a table that a phone can show: `show_table(rows, "layer", "size")`."""

import re
from collections.abc import Iterable

from tabulate import tabulate
from torch import Tensor

NUMBER = re.compile(  # and no row of ids; or why there is no number
    r"[-+−<>~≤≥ ]*\d+(?!\d* \d)|(nan|error)$"
)


def show_table(rows: Iterable[Iterable], *headers: str, digits: int = 2) -> str:
    """Return the rows under their headers, for a notebook to show.

    A float, or a tensor of one, gets `digits` decimals, and no sign where all are 0;
    everything else is shown as it is. Columns of numbers end at one line on the right,
    those of words begin at one on the left. Raises ValueError for a row with another
    number of cells than `headers`.
    """
    cells = [[as_text(value, digits) for value in row] for row in rows]
    for row in cells:
        if len(row) != len(headers):
            wanted = f"{len(headers)} cells are wanted in a row"
            raise ValueError(f"{wanted}, got {len(row)}: {row}")
    columns = zip(*cells, strict=True)
    sides = ["right" if is_numeric(column) else "left" for column in columns]
    look = {"tablefmt": "html", "disable_numparse": True}
    return tabulate(cells, headers, colalign=sides, **look)


def as_text(value: object, digits: int) -> str:
    number = value.item() if isinstance(value, Tensor) else value
    return f"{number:z.{digits}f}" if isinstance(number, float) else str(number)


def is_numeric(column: Iterable[str]) -> bool:
    return all(map(NUMBER.match, column))
