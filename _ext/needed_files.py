"""Find the files of a folder of code that a text needs: modules, data, scripts, styles.

Imports are read, not run. A package that imports its names on demand lists them in a
dict MODULES, name to module, and costs no more than the names that are asked for.
"""

import ast
import functools
from typing import NamedTuple

NO_MODULES = {".css", ".js", ".json"}


class Module(NamedTuple):
    """What the text of a module says of other files."""

    imports: tuple  # the statements that import, but for those of type checkers
    strings: frozenset  # one of them may be the end of a path, as in JS / "a.js"
    on_demand: dict  # MODULES, where it has them


@functools.cache  # of the text, as thirty notebooks ask for the same modules
def read(text):
    tree = ast.parse(text)
    nodes = list(executed(tree))
    strings = {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Module(tuple(imports), frozenset(strings), on_demand(tree))


def executed(tree):
    """Yield the nodes of a tree, but for what only type checkers read."""
    skipped = set()
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                skipped.update(inner for part in body for inner in ast.walk(part))
        if node not in skipped:
            yield node


def on_demand(tree):
    """Return MODULES of a package that has it, or nothing."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="MODULES")], value=value):
                return ast.literal_eval(value)
    return {}


def needed(folder, text):
    """Return the files that Python code needs, directly or through others, sorted.

    `folder` is where its imports start, as on sys.path; what is not found there comes
    from elsewhere. A file that is no module is needed by the module that names it.
    """
    others = [path for path in folder.rglob("*.*") if path.suffix in NO_MODULES]
    found, waiting = set(), list(imported(folder, read(text), ()))
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            module = read(path.read_text(encoding="utf-8"))
            package = path.relative_to(folder).parent.parts
            waiting += imported(folder, module, package)
            waiting += named(others, module)
        elif path.suffix == ".js":
            waiting += scripts(path)
    return sorted(found)


def imported(folder, module, package):
    """Yield the files that run where a module of this package imports its names."""
    for node in module.imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name.split(".")
                yield from files(folder, name)
                for place in asked(folder, name).values():  # any may be asked for
                    yield from files(folder, [*name, *place.split(".")])
        else:
            name = [*package[: len(package) + 1 - node.level]] if node.level else []
            name += node.module.split(".") if node.module else []
            yield from files(folder, name)
            places = asked(folder, name)
            for alias in node.names:
                place = places.get(alias.name, alias.name)
                yield from files(folder, [*name, *place.split(".")])


def files(folder, module):
    """Yield the file of a module, after the `__init__.py` of each package around it."""
    for depth in range(1, len(module) + 1):
        path = folder.joinpath(*module[:depth])
        for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if file.is_file():
                yield file


def asked(folder, name):
    """Return the modules of the names that a package imports on demand."""
    file = folder.joinpath(*name, "__init__.py")
    return read(file.read_text(encoding="utf-8")).on_demand if file.is_file() else {}


def named(others, module):
    """Return those files whose path ends in a string of the module."""
    tails = tuple(f"/{text}" for text in module.strings if text.strip("/."))
    return [path for path in others if path.as_posix().endswith(tails)]


def scripts(path):
    """Return the scripts that a script needs, as the view that is built of it does."""
    from taken_apart.views import bundle  # once `docstrings` has put code/ on sys.path

    return bundle.modules(path)
