"""Promises of the tables that cells show."""

import re

import pytest
import torch
from book.tables import show_table


def test_floats_get_decimals_and_all_else_stays():
    row = ["a", 0.0, "0.50000", 12, torch.tensor(1.25)]
    found = re.findall(r"<td[^>]*> *([^ <]+) *</td>", str(show_table([row], *"vwxyz")))
    assert found == ["a", "0.00", "0.50000", "12", "1.25"]
    assert "0.500" in str(show_table([["a", 0.5]], "x", "y", digits=3))


def test_rounding_to_zero_leaves_no_sign():
    shown = str(show_table([[-0.004, torch.tensor(-0.006)]], "x", "y"))
    assert "-0.00" not in shown
    assert "-0.01" in shown


def test_numbers_stand_on_the_right_and_words_on_the_left():
    shown = str(show_table([["one", "< 5 %", "word"], ["two", "12", "3"]], *"xyz"))
    assert shown.count("right") == 3  # the head and two rows of the middle column


def test_a_row_of_tokens_is_no_number():
    rows = [["21 3 0 0", "a"], ["7 30 21 0", "b"]]
    assert "right" not in str(show_table(rows, "x", "y"))
    seeds = str(show_table([["2.50 2.46 2.51", "a"]], "x", "y"))
    assert "right" in seeds  # three decimals, one a seed, are numbers


def test_what_stands_for_a_missing_number_stands_where_the_numbers_do():
    rows = [["a", float("nan"), "none"], ["b", "error", "error"], ["c", 0.5, "0.5"]]
    assert str(show_table(rows, *"xyz")).count("right") == 4  # y, its head too


def test_markup_in_a_cell_is_text():
    assert "&lt;b&gt;" in str(show_table([["<b>", 1]], "x", "y"))


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 cells are wanted in a row, got 1"):
        show_table([["alone"]], "x", "y")
