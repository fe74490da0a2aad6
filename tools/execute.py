"""Run notebooks in clean kernels and store their outputs: execute.py NOTEBOOK...

A notebook changes only after all its cells ran, and in one step: after an error or
Ctrl-C the file is what it was. What differs from run to run is not stored. The setup
cell is that of `setup_cell.py`, in all notebooks.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

# What a cell may do, and OSError: a full disk, a folder that may not be written.
FAILURES = CellExecutionError, CellTimeoutError, DeadKernelError, OSError
SETUP = Path(__file__).with_name("setup_cell.py")
BUDGET = 90  # seconds for a whole notebook, on two cores


def put_setup(notebook):
    """Write the one setup cell over the notebook's own."""
    for cell in notebook.cells:
        if "book-setup" in cell.metadata.get("tags", []):
            cell.source = SETUP.read_text(encoding="utf-8").rstrip()


def strip(notebook):
    """Keep of the metadata what the book reads, and nothing that a run would change."""
    kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.clear()
    notebook.metadata.update(kernelspec=kernelspec, language_info={"name": "python"})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = join_streams(cell.outputs)


def join_streams(outputs):
    """Join neighbouring chunks of one stream: where they break depends on timing."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.output_type == "stream" and last.get("name") == output.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def replace(path, text):
    """Write the file in one step, so that no moment shows half a notebook."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def run(client):
    """Execute a notebook; Ctrl-C is KeyboardInterrupt, as elsewhere."""
    try:
        client.execute()
    except Exception:
        # nbclient ends the kernel itself on Ctrl-C, and then trips over its absence.
        if hasattr(client, "_async_cleanup_kernel_future"):
            raise KeyboardInterrupt from None
        raise


def execute(path):
    """Run one notebook in its own folder, store it, and return the seconds it took."""
    notebook = nbformat.read(path, as_version=4)
    put_setup(notebook)
    client = NotebookClient(
        notebook,
        timeout=BUDGET,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
    )
    start = time.perf_counter()
    run(client)
    strip(notebook)
    nbformat.validate(notebook)
    replace(path, nbformat.writes(notebook) + "\n")
    return time.perf_counter() - start


def main(names):
    os.environ["PYTHONHASHSEED"] = "0"
    failed = 0
    for path in map(Path, names):
        try:
            seconds = execute(path)
        except FAILURES as error:
            failed += 1
            print(f"{path}: left as it was\n{error}", file=sys.stderr)
        else:
            late = f", over the budget of {BUDGET} s" if seconds > BUDGET else ""
            print(f"{path}: {seconds:.0f} s{late}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("Interrupted: the notebook that ran is left as it was.")
