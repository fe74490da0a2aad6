"""`decoder.py` stays what a reader can take in: plain, tied to no device, one story."""

import ast
import re
import statistics
from pathlib import Path

import decoder

SOURCE = Path(decoder.__file__).read_text(encoding="utf-8")
TREE = ast.parse(SOURCE)
KINDS = ast.FunctionDef | ast.ClassDef
FUNCTIONS = [node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)]
PARTS = [node for node in TREE.body if isinstance(node, KINDS)]
PUBLIC = [part for part in PARTS if not part.name.startswith("check_")]


def body_length(function):
    return function.end_lineno - function.body[0].lineno + 1


def test_the_decoders_functions_are_short():
    lengths = {node.name: body_length(node) for node in FUNCTIONS}
    assert statistics.median(lengths.values()) <= 10
    assert {name: n for name, n in lengths.items() if n > 30} == {}


def test_a_statement_of_the_decoder_assigns_one_thing():
    # "x, y = f(z)" takes one thing apart; a pair of calls or of names packs two in one.
    packed = [
        ast.unparse(node)
        for node in ast.walk(TREE)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ]
    assert packed == []


def test_every_part_of_the_decoder_is_typed_and_says_what_it_is():
    assert [node.name for node in PUBLIC if not ast.get_docstring(node)] == []
    methods = [node for part in PUBLIC for node in [part, *part.body]]
    for function in (node for node in methods if isinstance(node, ast.FunctionDef)):
        arguments = [*function.args.args, *function.args.kwonlyargs]
        bare = {each.arg for each in arguments if not each.annotation}
        assert bare <= {"self", "cls"}, function.name
        assert function.returns or function.name == "__init__", function.name


def test_the_decoder_names_no_device_prints_nothing_and_keeps_nothing():
    assert not re.search(r"\b(cuda|cpu|mps|xpu)\b", SOURCE, re.IGNORECASE)
    calls = [node.func for node in ast.walk(TREE) if isinstance(node, ast.Call)]
    assert "print" not in {getattr(each, "id", None) for each in calls}
    forwards = [node for node in FUNCTIONS if node.name == "forward"]
    stored = [n for f in forwards for n in ast.walk(f) if isinstance(n, ast.Attribute)]
    assert not any(isinstance(node.ctx, ast.Store) for node in stored)


def test_the_decoder_needs_torch_and_the_encoders_file_alone():
    nodes = [n for n in ast.walk(TREE) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {getattr(node, "module", None) or node.names[0].name for node in nodes}
    ours = {"collections.abc", "copy", "encoder", "torch", "torch.nn", "typing"}
    assert names == ours
    # There is one attention: no softmax of scores, no fused form here.
    assert "scaled_dot_product" not in SOURCE
    assert not re.search(r"scores\.softmax|@ key|key\.transpose", SOURCE)
