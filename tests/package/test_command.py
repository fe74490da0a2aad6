"""`taken-apart trace|diagnose path.py:build`: what it prints, and how it ends."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import taken_apart
from taken_apart.__main__ import main
from taken_apart.target import EXAMPLE

FOLDER = Path(taken_apart.__file__).parent
MODEL = """
from __future__ import annotations
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Sizes:
    d_model: int = 16


class Attention(nn.Module):
    def __init__(self, axis=-1):
        super().__init__()
        d, self.axis = Sizes().d_model, axis
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / 4
        return scores.softmax(self.axis) @ self.v(x)


def build():
    return Attention(), (torch.randn(2, 7, 16),), {}

def wrong_axis():
    return Attention(axis=1), [torch.randn(2, 7, 16)]

def wrong_size():
    return Attention(), (torch.randn(2, 7, 15),)

def fails():
    raise RuntimeError("no weights found\\nin this folder")

def without_inputs():
    return Attention(), ()

def module_alone():
    return Attention()

def by_keyword():
    return Attention(), (), {"x": torch.randn(2, 7, 16)}

def bare_tensor():
    return Attention(), torch.randn(2, 7, 16)

def one_too_many():
    return Attention(), (torch.randn(2, 7, 16), 1)

def wants_a_size(size):
    return Attention(), (torch.randn(2, 7, size),)

def one_sample():
    return Attention(), (torch.randn(1, 7, 16),)

def function():
    return (lambda x: x.softmax(-1)), (torch.randn(2, 7, 16),)
"""


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    return f"{path}:{{}}".format


@pytest.mark.parametrize("name", ["build", "by_keyword"])
def test_a_healthy_module_ends_with_0(target, capsys, name):
    assert main(["diagnose", target(name), "--quick"]) == 0
    assert "Attention: nothing found" in capsys.readouterr().out
    assert main(["trace", target(name)]) == 0
    assert "Attention: 8 operations" in capsys.readouterr().out


def test_a_fault_ends_with_1_and_is_shown_at_the_readers_line(target, capsys):
    assert main(["diagnose", target("wrong_axis"), "--quick"]) == 1
    out = capsys.readouterr().out
    assert "fault, softmax / scale" in out
    assert "model.py:22  return scores.softmax(self.axis)" in out


@pytest.mark.parametrize("command", ["trace", "diagnose"])
def test_a_call_that_raises_is_a_fault(target, capsys, command):
    assert main([command, target("wrong_size")]) == 1
    assert "16 features in the last axis, got 15" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["one_sample", "function"])
def test_nothing_found_where_much_is_open_ends_with_3(target, capsys, name):
    assert main(["diagnose", target(name)]) == 3
    said = capsys.readouterr().out
    assert re.search(r"nothing found in \d+ of \d+ questions", said)
    assert re.search(r"To have them asked, give (two samples|the module)", said)


def test_a_diagnosis_is_given_to_programs_and_to_workflows(target, capsys):
    assert main(["diagnose", target("wrong_axis"), "--quick", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["module"] == "Attention"
    first = told["findings"][0]
    assert (first["severity"], first["line"]) == ("fault", 22)
    assert first["file"].endswith("model.py")
    assert first["part"] == "scores.softmax(self.axis)"
    assert main(["diagnose", target("wrong_axis"), "--quick", "--github"]) == 1
    line = capsys.readouterr().out.split("\n")[0]
    assert re.match(r"::error file=.*model\.py,line=22,title=softmax / scale%3A", line)


def test_too_many_inputs_are_no_fault_of_positions(target, capsys):
    assert main(["diagnose", target("one_too_many")]) == 2
    out, said = capsys.readouterr()
    assert "Attention.forward() cannot be called so: too many" in said
    assert EXAMPLE in said
    assert out == ""


@pytest.mark.parametrize("command", ["trace", "diagnose"])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("bare_tensor", "bare_tensor() must return (module, (inputs, ...)"),
        ("wants_a_size", "wants_a_size() raised TypeError"),
        ("absent", "has no function 'absent'"),
        ("fails", "fails() raised RuntimeError: no weights found"),
        ("without_inputs", "without_inputs() must return (module, (inputs, ...)"),
        ("module_alone", "module_alone() must return (module, (inputs, ...)"),
    ],
)
def test_misuse_ends_with_2_one_sentence_and_an_example(
    target, capsys, command, name, sentence
):
    assert main([command, target(name)]) == 2
    said, example = capsys.readouterr().err.split("\n\n", 1)
    assert said.startswith("taken-apart: ")
    assert sentence in said
    assert "\n" not in said
    assert example.strip() == EXAMPLE


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "found no such file"),
        ("import nowhere_to_be_found", "could not be imported: ModuleNotFoundError"),
        ("raise SystemExit(3)", "could not be imported: SystemExit: 3"),
        ("def build(:", "could not be imported: SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_2(tmp_path, capsys, text, sentence):
    path = tmp_path / "broken.py"
    if text is not None:
        path.write_text(text)
    assert main(["trace", str(path)]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("start", [[str(FOLDER)], ["-m", "taken_apart"]])
def test_it_starts_as_a_folder_and_as_a_module(target, start):
    ran = subprocess.run(
        [sys.executable, *start, "trace", target("build")],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Attention: 8 operations")


def test_help_waits_for_no_torch():
    code = "import sys; sys.argv[1:] = ['--help']; import taken_apart.__main__ as m\n"
    code += "try: m.main()\nexcept SystemExit: print('torch' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True
    )
    assert ran.stdout.endswith("False\n")


def test_two_forms_of_output_are_one_too_many(target, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", str(target), "--json", "--github"])
    assert ended.value.code == 2
    assert "choose one" in capsys.readouterr().err
