"""The strict run of the notebooks asks of each claim whether its check can fail."""

import ast
import os
import subprocess
import sys
from textwrap import dedent

import numpy as np
import pytest
import torch
from common import ROOT

sys.path.append(str(ROOT / "tests/offline"))
from flips import survivors


def idle(check, **names):
    return survivors(ast.parse(check, mode="eval").body, names)


@pytest.mark.parametrize(
    ("check", "names"),
    [
        ("0.5 < ratio < 1.5", {"ratio": 1.05}),
        ("off < 1e-9 and later > 0.1", {"off": 3e-16, "later": 0.4}),
        ("abs(variance - 64) < 3", {"variance": 63.8}),
        ("max(without) < 0.6 < min(found)", {"without": [0.5, 0.52], "found": [1.0]}),
        ("(into, out) == (11, 1)", {"into": 11, "out": 1}),
        ("all(loss > 3 for loss in losses)", {"losses": [4, 5]}),
        ("(weights > 0).all()", {"weights": torch.rand(3, 3) + 0.1}),
        ("names == {'key'}", {"names": {"key"}}),
        (
            "(one != two).any() and len(two) == 2",
            {"one": np.ones(2), "two": np.zeros(2)},
        ),
    ],
)
def test_a_check_near_its_data_has_no_idle_part(check, names):
    assert idle(check, **names) == []


def test_a_control_stands_in_for_its_effect():
    logs = {"plain": -8.1, "residual": 0.04}
    assert idle("logs['plain'] < -5 and logs['residual'] > -1", logs=logs) == []
    assert idle("logs['residual'] > -1", logs=logs) != []


@pytest.mark.parametrize(
    ("check", "names", "part"),
    [
        ("0.4 < ratio < 3", {"ratio": 1.05}, "ratio < 3"),
        ("count <= 1000", {"count": 6}, "count <= 1000"),
        ("not found or count < 3", {"found": 0, "count": 2}, "count < 3"),
    ],
)
def test_a_part_that_no_data_can_turn_is_named(check, names, part):
    assert {*idle(check, **names)} == {part}


def run(cell):
    """Run a cell as the strict run does; return what it says when it stops."""
    program = f"""
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_cell({dedent(cell)!r}).raise_error()
    """
    places = os.pathsep.join(str(ROOT / name) for name in ("tests/offline", "code"))
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        env=os.environ | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
    )
    return done.stderr.strip().splitlines()[-1:] or ["it ran"]


CELL = """
    from book.claims import claim, settle
    ratio = 1.05
    settle(claim("A134", "It costs much", "refuted", {{"ratio": ratio}}, {check}))
"""


def test_a_cell_whose_check_could_not_fail_stops_the_strict_run():
    assert run(CELL.format(check="0.5 < ratio < 1.5")) == ["it ran"]
    (said,) = run(CELL.format(check="0.4 < ratio < 3"))
    assert "A134 would be refuted whatever was measured" in said
    assert "ratio < 3" in said
