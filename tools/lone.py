"""Run stand-alone notebooks as Colab would: lone.py NOTEBOOK...

Each runs in an empty folder, without a network, with a stand-in of google.colab. A cell
that fails, or that warns, is a failure. Runs under the Python that starts it: `make
test-colab` takes one that has Colab's versions.
"""

import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient

TESTS = Path(__file__).parent.parent / "tests"
BUDGET = 90  # seconds for a whole notebook


def complaints(notebook):
    """Return what cells wrote to stderr."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.get("name") == "stderr")


def run(path):
    """Run one notebook; return the seconds it took, and what went wrong, or ""."""
    notebook = nbformat.read(path, as_version=4)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=BUDGET,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute()
        except Exception as error:  # whatever it is, it is the notebook's result
            wrong = str(error)
        else:
            wrong = complaints(notebook)
        left = [name for name in os.listdir(folder) if not name.startswith(".")]
    if left and not wrong:
        wrong = f"left files behind: {left}"
    return time.perf_counter() - start, wrong


def main(names):
    stand_ins = str(TESTS / "offline"), str(TESTS / "colab")
    os.environ["PYTHONPATH"] = os.pathsep.join(stand_ins)
    # How ipywidgets 7 meets an argument that only ipywidgets 8 knows.
    unknown = "default:Passing unrecognized arguments:DeprecationWarning"
    os.environ["PYTHONWARNINGS"] = unknown
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for path, (seconds, wrong) in zip(names, pool.map(run, names), strict=True):
            size = Path(path).stat().st_size / 1e3
            line = f"{Path(path).stem:14} {size:5.0f} kB {seconds:5.1f} s"
            print(line, "failed" if wrong else "passed", flush=True)
            if wrong:
                failed += 1
                print(wrong, file=sys.stderr)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
