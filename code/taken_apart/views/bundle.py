"""Join the modules and the style sheets of a view into one text each.

Pages take the source as it stands, without indentation and lines of comment: no line
is touched inside, so that a string or a regular expression cannot be broken. In return
the modules keep to a dialect: `import { a, b } from "./file.js";` at the start of a
line is the only import, `export` stands before a declaration, and no text or comment
reaches over the end of a line.
"""

import functools
import os
import re
from pathlib import Path

JS = Path(__file__).parent / "js"  # a folder a view
SHARED = JS / "shared"
IMPORT = re.compile(r'^import \{[^}]*\} from "([\w./]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)
FOREIGN = re.compile(r"^(?:import|export [*{]|export default [^{]).*", re.MULTILINE)


@functools.cache
def source(path: Path) -> str:
    """Return the text of a file of a view."""
    return path.read_text(encoding="utf-8")


def imports(path: Path) -> list[Path]:
    """Return the files that an ES module imports, in order.

    Raises ValueError for an import or an export of another form than the dialect's.
    """
    text = source(path)
    if foreign := FOREIGN.search(IMPORT.sub("", text)):
        raise ValueError(
            f"{path.name} must import and export as in `import {{ a }} from "
            f'"./file.js";` and `export function`, got {foreign[0]}'
        )
    return [Path(os.path.normpath(path.parent / name)) for name in IMPORT.findall(text)]


def modules(path: Path) -> list[Path]:
    """Return an ES module and those it imports, each after what it needs itself."""
    found: dict[Path, None] = {}

    def add(path: Path):
        for needed in imports(path):
            if needed not in found:
                add(needed)
        found[path] = None

    add(path)
    return list(found)


@functools.cache
def es_module(path: Path) -> str:
    """Join an ES module and those it imports as one without imports."""
    text = "".join(IMPORT.sub("", source(file)) for file in modules(path))
    return bare_lines(EXPORT.sub("", text))


@functools.cache
def classic_script(path: Path) -> str:
    """Wrap the module as a script that runs anywhere, also from file:// and in CSP."""
    view = es_module(path).replace("export default", "const view =")
    return f"(() => {{\n{view}\n{es_module(SHARED / 'shim.js')}\nmount(view);\n}})()"


@functools.cache
def style(paths: tuple[Path, ...]) -> str:
    """Join style sheets, without their comments."""
    text = "".join(map(source, paths))
    return bare_lines(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def bare_lines(text: str) -> str:
    """Return the lines without indentation, empty lines and lines of comment."""
    lines = (line.strip() for line in text.split("\n"))
    return "\n".join(line for line in lines if line and not line.startswith("//"))
