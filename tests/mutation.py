"""Faults of one file, a change of its text each, and the first test to notice each.

A list of faults is blocks of text. A block names a fault, then gives a text of the file
(-), which must occur there exactly once, and the text to put in its place (+); a line
(=) says why no call can tell the change from the original.
"""

import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import is_hypothesis_test


class Mutant(NamedTuple):
    name: str
    before: str
    after: str
    reason: str  # why no call can tell it from the original; empty for a real fault


def parse(text):
    """Read blocks; those that begin with # are headings."""
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return [
        Mutant(block[0], *(marked(block, sign) for sign in "-+="))
        for block in blocks
        if not block[0].startswith("#")
    ]


def marked(block, sign):
    """Return the lines of a block that carry this sign, without it."""
    return "\n".join(line[2:] for line in block if line.startswith(f"{sign} "))


def list_faults(mutants, equivalent):
    """Name the blocks of a list that say nothing, or what another block says."""
    seen, found = set(), []
    for mutant in (*mutants, *equivalent):
        change = mutant.before, mutant.after
        if {mutant.name, change} & seen or mutant.before == mutant.after:
            found.append(mutant.name)
        seen |= {mutant.name, change}
    return found + [mutant.name for mutant in equivalent if not mutant.reason]


class Collected:
    """A plugin that keeps what pytest finds."""

    def pytest_collection_modifyitems(self, items):
        self.items = items


class Hunt:
    """The tests of some suites, called on changed copies of one module."""

    def __init__(self, module, *suites):
        self.name, self.suites = module.__name__, suites
        self.source = Path(module.__file__).read_text(encoding="utf-8")
        self.calls = []

    def every_call(self):
        """Return each test of the suites with its arguments, as pytest finds them.

        A test that wants a fixture could not be called here, so there is to be none.
        """
        if self.calls:
            return self.calls
        found = Collected()
        files = [suite.__file__ for suite in self.suites]
        quiet = ["--collect-only", "-qq", "-p", "no:cacheprovider"]
        assert pytest.main([*quiet, *files], plugins=[found]) == pytest.ExitCode.OK
        for item in found.items:
            arguments = item.callspec.params if hasattr(item, "callspec") else {}
            fixtures = set(item.fixturenames) - set(arguments)
            assert not fixtures, f"{item.nodeid} wants {fixtures}"
            self.calls.append((item.obj, arguments))
        # Hypothesis looks long for the simplest input that fails, which nobody reads.
        self.calls.sort(key=lambda call: is_hypothesis_test(call[0]))
        return self.calls

    def mutated(self, mutant):
        """Return the text of the module with the mutant's change."""
        found = self.source.count(mutant.before)
        assert found == 1, f"not found exactly once: {mutant.name}"
        return self.source.replace(mutant.before, mutant.after)

    def load(self, source):
        """Return the module that this text makes."""
        module = types.ModuleType(self.name)
        code = compile(source, f"mutated {self.name}.py", "exec")
        exec(code, vars(module))
        return module

    def killer(self, source, monkeypatch):
        """Return the name of the first test that fails on this text, or None."""
        module = self.load(source)
        monkeypatch.setitem(sys.modules, self.name, module)
        for suite in self.suites:
            monkeypatch.setattr(suite, self.name, module)
        for test, arguments in self.every_call():
            torch.manual_seed(0)
            try:
                test(**arguments)
            except (Exception, pytest.fail.Exception):
                return test.__name__
        return None
