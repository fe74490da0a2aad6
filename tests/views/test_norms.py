"""Promises of the two views of norms, against PyTorch and in a page."""

import re

import numpy as np
import pytest
import torch
from book.views import NormAxes, NormMicroscope
from common import violations
from torch import nn
from torch.nn import functional
from views.shared import each_look

BATCH = np.random.default_rng(5).normal(1, 2, size=(3, 2, 5)).round(1)
BARS, OUT = ".eta-norm-bars:not(.eta-norm-out)", ".eta-norm-out"
MOVED = "Shift and scale have moved the output "


# --- Python --------------------------------------------------------------------------


def test_the_views_say_what_they_hold_and_stay_the_same():
    assert repr(NormMicroscope()) == "NormMicroscope(LayerNorm of [1.0, 2.0, 4.0, 9.0])"
    assert repr(NormAxes(BATCH)) == "NormAxes(3 sequences, 2 tokens, 5 features)"
    assert NormMicroscope().html() == NormMicroscope().html()
    assert len(NormMicroscope().html()) < 23_000 > len(NormAxes(BATCH).html())


def test_the_still_figures_tell_what_torch_computes():
    token = torch.tensor([0.3, -2.0, 5.0, 1.7])
    still = NormMicroscope(token).still()
    for value in functional.layer_norm(token, (4,)).tolist():
        assert f"<td>{value:.2f}" in still
    for value in functional.rms_norm(token, (4,)).tolist():
        assert f"<td>{value:.2f}" in still
    x = torch.tensor(BATCH)
    wanted = nn.BatchNorm1d(5, affine=False).double()(x.flatten(0, 1))
    assert f"<td>{wanted[3, 2].item():.2f}" in NormAxes(x).still()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: NormMicroscope([1]), "2 to 8 finite numbers, got"),
        (lambda: NormMicroscope([[1, 2]]), "2 to 8 finite numbers, got"),
        (lambda: NormMicroscope([1, float("nan")]), "finite"),
        (lambda: NormMicroscope(kind="BatchNorm"), "LayerNorm or RMSNorm, got 'Batch"),
        (lambda: NormMicroscope(eps=2e-5), "eps must be one of .* got 2e-05"),
        (lambda: NormAxes(BATCH[0]), r"\(B, T, D\), .* got \(2, 5\)"),
        (lambda: NormAxes(BATCH[:1]), "2 to 8 sequences"),
        (lambda: NormAxes(BATCH, "RMSNorm"), "LayerNorm or BatchNorm, got 'RMSNorm'"),
    ],
)
def test_the_views_refuse_what_they_cannot_show(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make()


# --- The mathematics of the page -----------------------------------------------------


@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_norms_of_a_token_agree_with_torch(js, eps):
    x, gamma, beta = torch.randn(3, 7, generator=torch.Generator().manual_seed(1))
    body = 'return ["LayerNorm", "RMSNorm"].map((k) => module.normalise(k, ...data))'
    data = [x.tolist(), gamma.tolist(), beta.tolist(), eps]
    layer, rms = js("norm_math.js", body, data)
    wanted = functional.layer_norm(x, (7,), gamma, beta, eps)
    np.testing.assert_allclose(layer, wanted, rtol=1e-4, atol=1e-6)
    wanted = functional.rms_norm(x, (7,), gamma, eps)
    np.testing.assert_allclose(rms, wanted, rtol=1e-4, atol=1e-6)


def test_norms_of_a_batch_agree_with_torch(js):
    rows = BATCH.reshape(6, 5)
    body = (
        "return ['LayerNorm', 'BatchNorm'].map((k) => module.normaliseBatch(k, data))"
    )
    layer, batch = js("norm_math.js", body, rows.tolist())
    x = torch.tensor(rows)
    np.testing.assert_allclose(layer["out"], functional.layer_norm(x, (5,)), rtol=1e-6)
    wanted = nn.BatchNorm1d(5, affine=False).double()(x)
    np.testing.assert_allclose(batch["out"], wanted, rtol=1e-6)
    np.testing.assert_allclose(batch["mean"], np.tile(rows.mean(0), (6, 1)))
    np.testing.assert_allclose(layer["variance"], np.tile(rows.var(1), (5, 1)).T)


def test_the_numbers_that_share_a_mean_are_those_that_move_it(js):
    """Change each number in turn: only those it shares move the mean of (1, 2)."""
    body = """const rows = data, found = {};
    for (const kind of ["LayerNorm", "BatchNorm"]) {
      const before = module.normaliseBatch(kind, rows).mean[1][2];
      const isWith = module.shares(kind, 1, 2);
      found[kind] = rows.every((row, r) => row.every((value, c) => {
        const other = rows.map((x) => [...x]);
        other[r][c] += 1;
        const moved = module.normaliseBatch(kind, other).mean[1][2] !== before;
        return moved === isWith(r, c);
      }));
    }
    return found"""
    told = js("norm_math.js", body, BATCH.reshape(6, 5).tolist())
    assert told == {"LayerNorm": True, "BatchNorm": True}


def test_numbers_are_told_shortly(js):
    values = [0, 1e-12, 0.3, -12.345, 123.4, 5e4, 4e-3]
    told = ["0.00", "0.00", "0.30", "-12.35", "123", "5.0e4", "4.0e-3"]
    body = "return [data.map(module.shortText), data.map(module.movedText)]"
    short, moved = js("norm_math.js", body, values)
    assert short == told
    assert moved[1] == "not at all"
    assert moved[-1] == "by less than 0.005"


# --- In the page ---------------------------------------------------------------------


def output(page):
    return page.locator(OUT).get_attribute("aria-label")


def figure(page, row, column):
    return page.locator(".eta-norm-figures tr").nth(row).locator("td").nth(column)


def test_shift_and_scale_change_nothing_in_layer_norm(show):
    page = show(NormMicroscope())
    before = output(page)
    page.get_by_label("shift all").fill("7")
    page.get_by_label("scale all").fill("1")
    assert figure(page, 1, 0).inner_text() == "47.00"  # the mean: 10 x 4 + 7
    assert output(page) == before
    assert page.get_by_text(MOVED + "by less than 0.005.").is_visible()
    page.locator(".eta-norm select").first.select_option("RMSNorm")
    assert page.get_by_text(re.compile(MOVED + "by up to 0\\.")).is_visible()
    page.get_by_text("reset").click()
    assert output(page) == before
    assert figure(page, 1, 0).inner_text() == "4.00"


def test_a_large_epsilon_shrinks_a_small_token(show):
    page = show(NormMicroscope())
    assert figure(page, 2, 1).inner_text() == "1.00"
    page.get_by_label("scale all").fill("-3")
    assert float(figure(page, 2, 1).inner_text()) < 0.6
    page.get_by_label("ε").select_option("1e-12")
    assert figure(page, 2, 1).inner_text() == "1.00"


def test_bars_are_changed_with_the_keys(show):
    page = show(NormMicroscope())
    bars = page.locator(BARS)
    bars.focus()
    page.keyboard.press("ArrowRight")
    assert bars.get_attribute("aria-label") == "x, number 2 of 4"
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    assert bars.get_attribute("aria-valuenow") == "3"  # from 2, in fiftieths of 10
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert bars.get_attribute("aria-label") == "x, number 4 of 4"


def test_bars_are_dragged_with_the_mouse(show):
    page = show(NormMicroscope())
    box = page.locator(BARS).bounding_box()
    x = box["x"] + box["width"] - 20  # the last bar, to the line of zero
    page.mouse.move(x, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(x, box["y"] + box["height"] / 2)
    page.mouse.up()
    assert page.locator(BARS).get_attribute("aria-valuenow") == "0"
    assert figure(page, 1, 0).inner_text() == "1.75"  # the mean of 1, 2, 4, 0


def test_gain_and_bias_are_dragged_too(show):
    page = show(NormMicroscope())
    page.get_by_label("bars are").select_option("β")
    page.locator(BARS).focus()
    page.keyboard.press("PageUp")
    assert output(page) == "output: -0.77, -0.65, 0.00, 1.62"
    assert figure(page, 2, 0).inner_text() == "0.05"


def test_padding_moves_batch_norm_and_not_layer_norm(show):
    page = show(NormAxes(BATCH))
    still = "The outputs of sequence A have moved not at all since the start."
    for change in (
        page.get_by_label("C2 is padding"),
        page.get_by_text("other neighbours"),
    ):
        change.click()
        assert page.get_by_text(still).is_visible()
        page.locator(".eta-axes select").select_option("BatchNorm")
        assert not page.get_by_text(still).is_visible()
        change.click()  # back again
        assert page.get_by_text(still).is_visible()
        page.locator(".eta-axes select").select_option("LayerNorm")


def test_the_numbers_that_share_a_mean_are_lit_by_mouse_and_by_keys(show):
    page = show(NormAxes(BATCH))
    lit = page.locator(".eta-axes-with")
    page.locator(".eta-axes-cell").nth(12).hover()
    assert lit.count() == 5  # the token
    page.locator(".eta-axes select").select_option("BatchNorm")
    assert lit.count() == 6  # the feature, in all tokens
    page.locator(".eta-axes-cell[tabindex='0']").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_text("from feature 4 of all 6 tokens").is_visible()


@each_look
def test_the_views_are_accessible_and_fit(show, theme, width):
    three = BATCH[..., :3]
    page = show(NormMicroscope(), NormAxes(three), theme=theme, width=width)
    page.get_by_label("C2 is padding").click()
    wide = "Math.max(...[...document.querySelectorAll('table')].map(n => n.getBoundingClientRect().right))"  # fmt: skip  # noqa: E501
    assert page.evaluate(wide) <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
