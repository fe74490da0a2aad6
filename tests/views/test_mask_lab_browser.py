"""Promises of the MaskLab to a reader with a browser: mouse, keys, phone, offline."""

import pytest
import torch
from book.views import MaskLab
from common import violations
from encoder import attention
from views.shared import each_look

WORDS = ["the", "cat", "sat", "[pad]"]
HEADS = torch.randn(3, 1, 4, 5, generator=torch.Generator().manual_seed(2))
CELLS, VERDICTS = ".mask-flow td > .mask-cell", ".mask-verdict"
STAYS = "✓ Whatever stands in [pad]"


def lab(**options):
    cross = (["le", "chat"], torch.ones(2, 5))
    return MaskLab(*HEADS, WORDS, [3], cross=cross, **options)


def panel(page, number):
    """Return the numbers of a panel as a tensor."""
    rows = page.locator(
        f".mask-panel:nth-child({number}) tr:has(td + td), "
        f".mask-panel:nth-child({number}) tr:has(th + td)"
    )
    texts = [row.locator("td:not(:empty)").all_inner_texts() for row in rows.all()]
    values = [
        [float(t.replace("−", "-").replace("∞", "inf")) for t in r] for r in texts
    ]
    return torch.tensor([row for row in values if row])


def assert_shows(page, blocked):
    output, weights = attention(*HEADS, torch.tensor(blocked))
    for number, ours in ((3, weights), (4, output)):
        torch.testing.assert_close(panel(page, number), ours[0], rtol=0, atol=0.00501)


def preset(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def choose(page, label, option):
    page.get_by_label(label, exact=True).select_option(option)


def verdicts(page):
    return page.locator(VERDICTS).all_inner_texts()


def test_it_starts_with_padding_hidden_and_says_that_words_stay_the_same(show):
    page = show(lab())
    assert_shows(page, [[False, False, False, True]] * 4)
    stays, reads = verdicts(page)
    assert stays.startswith(STAYS)
    assert reads.startswith("✓")


def test_a_cell_a_column_and_a_row_are_painted_with_the_mouse(show):
    page = show(lab(blocked=torch.zeros(4, 4, dtype=torch.bool)))
    page.get_by_label("hide cat from sat").click()
    blocked = [[False] * 4 for _ in range(4)]
    blocked[2][1] = True
    assert_shows(page, blocked)
    page.get_by_label("hide [pad] from all").click()
    assert_shows(page, [[*row[:3], True] for row in blocked])
    page.get_by_label("hide all from the").click()
    assert panel(page, 3)[0].tolist() == [0, 0, 0, 0]
    page.get_by_label("hide all from the").click()
    assert panel(page, 3)[0].sum() > 0.98


def test_one_stroke_paints_many_cells(show):
    page = show(lab(blocked=torch.zeros(4, 4, dtype=torch.bool)))
    start, end = (page.get_by_label(f"hide {key} from cat") for key in ("the", "sat"))
    start.hover()
    page.mouse.down()
    end.hover()
    page.mouse.up()
    page.get_by_label("hide the from the").hover()
    pressed = page.locator(f'{CELLS}[aria-pressed="true"]')
    assert pressed.count() >= 2
    for cell in pressed.all():
        assert cell.get_attribute("data-i") == "1"


def test_keys_alone_paint_a_mask_and_go_on(show):
    page = show(lab(), "<button class='after'>after</button>")
    page.locator(".mask-cell[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert name == "hide cat from cat"
    blocked = [[False, False, False, True] for _ in range(4)]
    blocked[1][1] = True
    assert_shows(page, blocked)
    for key in ("ArrowUp", "ArrowUp", "Space"):  # the name of the column
        page.keyboard.press(key)
    assert_shows(page, [[False, True, False, True]] * 4)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "after":
            break
    else:
        pytest.fail("the tab key does not leave the lab")


def test_presets_paint_and_are_lit_when_they_are_what_is_painted(show):
    page = show(lab())
    preset(page, "causal")
    causal = torch.ones(4, 4, dtype=torch.bool).triu(1).tolist()
    assert_shows(page, causal)
    lit = page.locator('.mask-presets [aria-pressed="true"]')
    assert lit.all_inner_texts() == ["causal"]
    page.get_by_label("hide the from the").click()
    assert lit.count() == 0


def test_cross_has_the_queries_of_the_other_sequence(show):
    page = show(lab())
    preset(page, "cross")
    assert panel(page, 3).shape == (2, 4)
    assert panel(page, 3)[:, 3].tolist() == [0, 0]
    preset(page, "padding")
    assert panel(page, 3).shape == (4, 4)


def test_rows_instead_of_columns_let_the_padding_speak(show):
    page = show(lab())
    preset(page, "queries instead")
    before = panel(page, 4)
    assert verdicts(page)[0].startswith("✗ Change what stands in [pad]")
    choose(page, "[pad] holds", "its own vector, times ten")
    assert (panel(page, 4) - before)[:3].abs().max() > 0.05
    preset(page, "padding")
    words = panel(page, 4)[:3]
    choose(page, "[pad] holds", "zeros")
    assert torch.equal(panel(page, 4)[:3], words)
    assert verdicts(page)[0].startswith(STAYS)


def test_a_mask_in_the_wrong_function_is_inverted_or_refused_and_says_so(show):
    page = show(lab())
    choose(page, "handed to", "F.scaled_dot_product_attention")
    assert "Inverted" in verdicts(page)[1]
    assert panel(page, 3)[:, 3].tolist() == [1, 1, 1, 1]
    assert (
        "scaled_dot_product_attention(query" in page.locator(".mask-code").inner_text()
    )
    choose(page, "written as", "tokenizers: 1 = token, 0 = padding")
    assert "RuntimeError" in verdicts(page)[1]
    assert page.locator(".mask-panel:nth-child(3) td").nth(1).inner_text() == "—"


def test_a_query_that_sees_nothing_shows_its_four_answers(show):
    page = show(lab())
    answers = page.locator(".mask-empty")
    assert not answers.is_visible()
    preset(page, "nobody for one")
    rows = [row.split("\t")[1:] for row in answers.locator("tr").all_inner_texts()]
    assert rows[0] == ["nan"] * 4
    assert rows[1] == ["0.25"] * 4
    assert rows[3] == ["0.00"] * 4
    choose(page, "handed to", "nn.MultiheadAttention")
    assert "nan" in verdicts(page)[1]
    assert "is nan" in verdicts(page)[0]


def test_a_number_too_low_for_float16_is_refused(show):
    page = show(lab())
    choose(page, "handed to", "masked_fill by hand")
    choose(page, "fill", "−1e9")
    assert verdicts(page)[1].startswith("✓")
    choose(page, "numbers", "float16")
    assert "without overflow" in verdicts(page)[1]
    choose(page, "fill", "lowest of the format")
    assert verdicts(page)[1].startswith("✓")


@each_look
def test_it_fits_and_axe_finds_nothing_serious(show, theme, width):
    page = show(lab(), theme=theme, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []
    preset(page, "nobody for one")
    choose(page, "handed to", "nn.MultiheadAttention")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_without_scripts_and_in_print_the_still_figure_is_there(show):
    page = show(lab(), java_script_enabled=False)
    assert "Hidden from each query" in page.locator(".eta-still").inner_text()
    page = show(lab())
    page.emulate_media(media="print")
    assert page.locator(".eta-still").is_visible()
    assert not page.locator(".eta-root").is_visible()


def test_two_labs_on_a_page_mind_their_own_business_and_leave_nothing(show):
    page = show(lab(), lab())
    page.get_by_label("hide cat from the").first.click()
    assert page.locator(f'{CELLS}[aria-pressed="true"]').count() == 9
    left = page.evaluate(
        """() => [...document.querySelectorAll(".eta-root")].map((root) => {
        root.unmount();
        return root.childElementCount;
        })"""
    )
    assert left == [0, 0]
