"""What tests read off a notebook: its cells of code, its prose, its outputs."""

import nbformat


def code_cells(path):
    notebook = nbformat.read(path, as_version=4)
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(path):
    notebook = nbformat.read(path, as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def texts(cell):
    """Return the outputs of a cell that are text, as (kind, text)."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append((output.name, output.text))
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/"):
                found.append((kind, data))
    return found
