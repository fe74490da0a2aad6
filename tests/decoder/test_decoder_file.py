"""`decoder.py` stays what a reader can take in: plain, tied to no device, one story."""

import ast
import re

import decoder
from source_file import SourceFile

FILE = SourceFile(decoder)


def test_the_decoders_functions_are_short():
    assert FILE.median_length() <= 10
    assert FILE.longer_than(30) == []


def test_a_statement_of_the_decoder_assigns_one_thing():
    assert FILE.packed() == []


def test_every_part_of_the_decoder_is_typed_and_says_what_it_is():
    assert FILE.undocumented() == []
    assert FILE.untyped() == []


def test_the_decoder_names_no_device_prints_nothing_and_keeps_nothing():
    assert not re.search(r"\b(cuda|cpu|mps|xpu)\b", FILE.text, re.IGNORECASE)
    calls = [node.func for node in ast.walk(FILE.tree) if isinstance(node, ast.Call)]
    assert "print" not in {getattr(each, "id", None) for each in calls}
    forwards = [node for node in FILE.functions if node.name == "forward"]
    stored = [n for f in forwards for n in ast.walk(f) if isinstance(n, ast.Attribute)]
    assert not any(isinstance(node.ctx, ast.Store) for node in stored)


def test_the_decoder_needs_torch_and_the_encoders_file_alone():
    ours = {"collections.abc", "copy", "encoder", "torch", "torch.nn", "typing"}
    assert FILE.imported() == ours
    # There is one attention: no softmax of scores, no fused form here.
    assert "scaled_dot_product" not in FILE.text
    assert not re.search(r"scores\.softmax|@ key|key\.transpose", FILE.text)
