"""Promises of the row editor: it computes what torch does; one push moves one row."""

import numpy as np
import pytest
import torch
from book.views import RowEditor
from encoder import FeedForward, MultiHeadAttention

TOKENS = ["tom", "ate", "soup"]


def parts():
    torch.manual_seed(0)
    return FeedForward(6, 24).eval(), MultiHeadAttention(6, 2).eval()


def test_pushed_rows_come_out_as_torch_computes_them(js):
    feed_forward, attention = parts()
    x = torch.randn(3, 6).double().round(decimals=3)
    view = RowEditor(x, feed_forward, attention, TOKENS)
    body = """const outputs = module.outputsOf(data, [0, 0.7, -1.5]);
    return [outputs["feed-forward"].data, outputs.attention.data]"""
    fed, mixed = js("row_editor.js", body, view.state)
    with torch.no_grad():
        pushed = (x + torch.tensor([[0], [0.7], [-1.5]])).float()[None]
        theirs = feed_forward(pushed), attention(pushed)[0]
    for made, wanted in zip((fed, mixed), theirs, strict=True):
        np.testing.assert_allclose(made, wanted.flatten(), atol=2e-3)


def test_the_still_table_says_which_rows_move():
    still = RowEditor(torch.randn(3, 6), *parts(), TOKENS).still()
    row = '<th scope="row">ate</th><td>ate</td><td>tom, ate, soup</td>'
    assert row in still


def test_rows_that_do_not_fit_are_refused_in_words():
    with pytest.raises(ValueError, match=r"x must be \(T, 6\), got \(3, 5\)"):
        RowEditor(torch.zeros(3, 5), *parts())
    with pytest.raises(ValueError, match="push must have 3 numbers, got 2"):
        RowEditor(torch.zeros(3, 6), *parts(), push=[0, 1])


def told(page):
    return page.get_by_role("status").inner_text()


def test_pushing_one_row_moves_one_row_of_one_part(show):
    page = show(RowEditor(torch.randn(3, 6), *parts(), TOKENS))
    assert told(page) == "Nothing pushed yet."
    page.get_by_label("push ate").focus()
    page.keyboard.press("ArrowRight")
    said = (
        "1 of 3 tokens pushed: feed-forward moves 1 of 3 rows, attention moves 3 of 3"
    )
    assert told(page).startswith(said)
    marks = page.locator(".row-grid").nth(1).locator(".row-mark").all_inner_texts()
    assert marks == ["", "● moves", ""]
    page.get_by_role("button", name="put back").click()
    assert page.locator("tr[data-moved]").count() == 0
