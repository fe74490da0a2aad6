"""Join the modules and the style sheets of a view into one text each."""

import functools
import os
import re
from pathlib import Path

JS = Path(__file__).parent / "js"
SHARED = JS / "shared"
IMPORT = re.compile(r'^import \{[^}]*\} from "([\w./]+)";\n', re.MULTILINE)
JS_TEXT = r'"[^"\n]*"|`(?:[^`$]|\$\{(?:[^}`]|`[^`]*`)*\}|\$)*`'
JS_SPACE = re.compile(  # groups hold what stays
    rf"({JS_TEXT})|//.*\s*|\s*,\s*(?=[\])}}])|\s*;\s*(?=\}})"
    r"|\s*([{}()\[\];,=<>?:*|&])\s*|\s([-+/])\s(?![-+])|(\s)\s*"
)
CSS_SPACE = re.compile(r"/\*.*?\*/|;?\s*(?=\})|\s*([{};,>])\s*|(:) |(\s)\s*", re.DOTALL)


@functools.cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def modules(path: Path) -> list[Path]:
    """Return an ES module and those it imports, each after what it needs itself."""
    found: dict[Path, None] = {}

    def add(path):
        for needed in IMPORT.findall(source(path)):
            file = Path(os.path.normpath(path.parent / needed))
            if file not in found:
                add(file)
        found[path] = None

    add(path)
    return list(found)


@functools.cache
def es_module(path: Path) -> str:
    """Join an ES module and those it imports, in order, as one without imports."""
    text = "".join(IMPORT.sub("", source(file)) for file in modules(path))
    joined = re.sub(r"^export (?!default)", "", text, flags=re.M)
    return re.sub(r"(?<!\w)\((\w+)\)=>", r"\1=>", without_space(JS_SPACE, joined))


@functools.cache
def classic_script(path: Path) -> str:
    """Wrap the module as a script that runs anywhere, also from file:// and in CSP."""
    view = es_module(path).replace("export default", "const view=")
    return f"(()=>{{{view}{es_module(SHARED / 'shim.js')}mount(view)}})()"


@functools.cache
def style(paths: tuple) -> str:
    """Join style sheets, without comments and needless space."""
    return without_space(CSS_SPACE, "".join(map(source, paths)))


def without_space(pattern, text) -> str:
    """Keep what the pattern's groups hold, and all that it does not match."""
    return pattern.sub(lambda found: "".join(filter(None, found.groups())), text)
