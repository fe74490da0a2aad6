"""What the tests of `encoder.py` and of `decoder.py` ask of a file that people read."""

import ast
import statistics
from pathlib import Path


class SourceFile:
    """The text of a module's file, its tree, and its functions."""

    def __init__(self, module):
        self.text = Path(module.__file__).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.functions = [
            node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef)
        ]
        kinds = ast.FunctionDef | ast.ClassDef
        self.parts = [node for node in self.tree.body if isinstance(node, kinds)]
        self.public = [p for p in self.parts if not p.name.startswith("check_")]

    def lengths(self):
        """Count each function's lines below its signature, and name it."""
        return [(f.end_lineno - f.body[0].lineno + 1, f.name) for f in self.functions]

    def median_length(self):
        return statistics.median(n for n, _ in self.lengths())

    def longer_than(self, limit):
        return [(n, name) for n, name in self.lengths() if n > limit]

    def undocumented(self):
        return [part.name for part in self.public if not ast.get_docstring(part)]

    def packed(self):
        """Return the statements that assign two things.

        "a, b = f(x)" takes one thing apart; "a, b = x, y" packs two into one.
        """
        return [
            ast.unparse(node)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ]

    def untyped(self):
        """Name the public functions with a parameter or a result without a type."""
        nodes = [node for part in self.public for node in [part, *part.body]]
        bare = []
        for function in (n for n in nodes if isinstance(n, ast.FunctionDef)):
            arguments = [*function.args.args, *function.args.kwonlyargs]
            bare_arguments = {each.arg for each in arguments if not each.annotation}
            if bare_arguments - {"self", "cls"} or function.returns is None:
                bare.append(function.name)
        return bare

    def imported(self):
        """Return the names of the modules that the file imports."""
        kinds = ast.Import | ast.ImportFrom
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, kinds)]
        return {getattr(n, "module", None) or n.names[0].name for n in nodes}
