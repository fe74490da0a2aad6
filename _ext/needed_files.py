"""Find the files of a folder of code that a text needs: modules, data, scripts, styles.

Imports are read, not run. A package that imports its names on demand lists them in a
dict MODULES, name to module, and costs no more than the names that are asked for.
"""

import ast

NO_MODULES = {".css", ".js", ".json"}


def needed(folder, text):
    """Return the files that Python code needs, directly or through others, sorted.

    `folder` is where its imports start, as on sys.path; what is not found there comes
    from elsewhere. A file that is no module is needed by the module that names it.
    """
    others = [path for path in folder.rglob("*.*") if path.suffix in NO_MODULES]
    found, waiting = set(), list(imported(folder, ast.parse(text), ()))
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            package = path.relative_to(folder).parent.parts
            waiting += imported(folder, tree, package)
            waiting += named(others, tree)
        elif path.suffix == ".js":
            waiting += scripts(path)
    return sorted(found)


def imported(folder, tree, package):
    """Yield the files that run where a module of this package imports its names."""
    for node in executed(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name.split(".")
                yield from files(folder, module)
                for place in on_demand(folder, module).values():  # any may be asked for
                    yield from files(folder, [*module, *place.split(".")])
        elif isinstance(node, ast.ImportFrom):
            module = [*package[: len(package) + 1 - node.level]] if node.level else []
            module += node.module.split(".") if node.module else []
            yield from files(folder, module)
            places = on_demand(folder, module)
            for alias in node.names:
                place = places.get(alias.name, alias.name)
                yield from files(folder, [*module, *place.split(".")])


def executed(tree):
    """Yield the nodes of a tree, but for what only type checkers read."""
    skipped = set()
    for node in ast.walk(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                skipped.update(inner for part in body for inner in ast.walk(part))
        if node not in skipped:
            yield node


def files(folder, module):
    """Yield the file of a module, after the `__init__.py` of each package around it."""
    for depth in range(1, len(module) + 1):
        path = folder.joinpath(*module[:depth])
        for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if file.is_file():
                yield file


def on_demand(folder, module):
    """Return MODULES of a package that has it, or nothing."""
    file = folder.joinpath(*module, "__init__.py")
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else None
    for node in tree.body if tree else ():
        match node:
            case ast.Assign(targets=[ast.Name(id="MODULES")], value=value):
                return ast.literal_eval(value)
    return {}


def named(others, tree):
    """Return those files whose path ends in a string of the tree, as in JS / "a.js"."""
    strings = {
        f"/{node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    tails = tuple(text for text in strings if text.strip("/."))
    return [path for path in others if path.as_posix().endswith(tails)]


def scripts(path):
    """Return the scripts that a script needs, as the view that is built of it does."""
    from taken_apart.views import bundle  # once `docstrings` has put code/ on sys.path

    return bundle.modules(path)
