"""Read which exercises a pile of notebooks solves, as a table for a gradebook.

    python code/book grade submissions/*.ipynb > grades.csv

Each notebook runs again, in a folder of its own, with this copy of the book's code in
place of whatever its setup cell brings; an error in one cell does not stop the next.
The best verdict on each exercise counts. Nothing here guards against a reader who means
harm: run strangers' notebooks where you would run strangers' programs.
"""

import argparse
import csv
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CALL = re.compile(r"\bcheck\(\s*[\"'](\w+)[\"']")
VERDICTS_FILE = (
    "verdicts.jsonl"  # what `check` says, as the notebook's kernel writes it
)
SETUP = """import json, sys
sys.path.insert(0, {code!r})
from book import exercises

def check(name, yours, ask=exercises.check):
    verdict = ask(name, yours)
    with open({file!r}, "a") as said:
        said.write(json.dumps([name, verdict.passed, verdict.text]) + "\\n")
    return verdict

exercises.check = check"""


@dataclass(frozen=True)
class Grade:
    """What became of one exercise in one notebook; `said` is the checker's sentence."""

    notebook: str
    exercise: str
    passed: bool
    said: str


def grade(path, timeout=90) -> list[Grade]:
    """Run a notebook and return a Grade for each exercise that it asks to check.

    `timeout` is in seconds a cell. A file that is no notebook is a ValueError.
    """
    notebook = read_notebook(path)
    with tempfile.TemporaryDirectory(prefix="encoder-grade-") as folder:
        run_notebook(notebook, folder, timeout)
        verdicts = read_verdicts(Path(folder, VERDICTS_FILE))
    asked = CALL.findall("\n".join(map(code_of, notebook.cells)))
    return [
        Grade(Path(path).name, name, *verdicts.get(name, (False, "never checked")))
        for name in dict.fromkeys([*asked, *verdicts])
    ]


def read_notebook(path):
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, UnicodeDecodeError, nbformat.reader.NotJSONError) as error:
        raise ValueError(f"{path} is not a notebook: {error}") from None


def code_of(cell) -> str:
    """Return the lines of a code cell that are not comments."""
    if cell.cell_type != "code":
        return ""
    lines = cell.source.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def run_notebook(notebook, folder, timeout):
    """Run the cells to the end, whatever they raise, with our code and a witness."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from nbformat.v4 import new_code_cell

    code, file = (
        str(Path(__file__).resolve().parents[2]),
        str(Path(folder, VERDICTS_FILE)),
    )
    setup = new_code_cell(SETUP.format(code=code, file=file))
    cells = [cell for cell in notebook.cells if not is_setup(cell)]
    notebook.cells = [setup, *cells]
    client = NotebookClient(
        notebook,
        timeout_func=lambda cell: None if cell is setup else timeout,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": folder}},
    )
    try:
        client.execute()
    except (CellTimeoutError, DeadKernelError) as error:
        print(f"stopped early: {str(error).splitlines()[0]}", file=sys.stderr)


def is_setup(cell) -> bool:
    """Recognise the setup cell by its title: some editors lose a cell's tags."""
    return cell.source.startswith("# @title Setup:")


def read_verdicts(file) -> dict[str, tuple[bool, str]]:
    """Return the best verdict on each exercise, and of two alike the later one."""
    lines = file.read_text().splitlines() if file.exists() else []
    verdicts = sorted(map(json.loads, lines), key=lambda verdict: verdict[1])
    return {name: (passed, said) for name, passed, said in verdicts}


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", metavar="notebook.ipynb")
    parser.add_argument("--timeout", type=int, default=90, help="seconds a cell")
    options = parser.parse_args(arguments)
    table, failed = csv.writer(sys.stdout), 0
    table.writerow(["notebook", "exercise", "passed", "said"])
    for path in options.notebooks:
        try:
            grades = grade(path, options.timeout)
        except ValueError as error:  # the others still get their grades
            print(error, file=sys.stderr)
            failed = 1
            continue
        for each in grades:
            table.writerow([each.notebook, each.exercise, int(each.passed), each.said])
        sys.stdout.flush()
    return failed
