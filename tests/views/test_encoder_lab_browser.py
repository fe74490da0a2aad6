"""Promises of the EncoderLab to a reader with a browser: mouse, keys, phone, offline.

The page is opened from the disk, under a policy that forbids everything from outside.
What it shows is compared with the stored encoder in torch.
"""

import json
import re

import pytest
import torch
from book.models import toy_language as lab
from book.views import EncoderLab
from common import violations
from taken_apart.views.bundle import SHARED, es_module, style
from views.lab_in_torch import START, job_of, outputs, record_steps, without
from views.shared import each_theme


@pytest.fixture
def open_lab(show):
    """A function that opens a page with views, by default one EncoderLab."""

    def open_lab(*views, **options):
        page = show(*(views or [EncoderLab()]), **options)
        if options.get("java_script_enabled", True):
            page.wait_for_selector(".lab-two .lab-grid >> nth=1")
        return page

    return open_lab


def word(page, place):
    return page.locator(".lab-word select").nth(place)


def says(page):
    """Return the guess above the blank, such as ("she", 99)."""
    text = page.locator(".lab-says:not(:empty)").first.inner_text()
    return text.split()[0], int(text.split()[1])


def torch_says(tokens, padding=None, off=()):
    """Return what torch guesses at the first blank, in the words of the page."""
    model = lab.load().double()
    without(model.encoder, off)
    best, chance = lab.guesses(model, tokens, padding)[tokens.index("___")][0]
    return best, round(100 * chance)


def numbers(page, grid):
    """Return the numbers that a grid shows, as a tensor."""
    rows = page.locator(grid).locator("tr:has(td[data-i])").all()
    texts = [row.locator("td[data-i]").all_inner_texts() for row in rows]
    values = [[float(text.replace("−", "-")) for text in row] for row in texts]
    return torch.tensor(values, dtype=torch.float64)


def assert_shown(shown, ours):
    torch.testing.assert_close(shown, ours.double(), rtol=0, atol=0.00501)


def stored_steps(tokens=START):
    model = lab.load().double().encoder
    ids = [lab.WORDS.index(token) for token in tokens]
    job = job_of(model, ids, [False] * len(ids), [])
    return outputs(model, job), record_steps(model, job)


# --- It reacts, and what it shows is true --------------------------------------------


def test_the_first_guess_is_the_torch_encoders(open_lab):
    page = open_lab()
    assert says(page) == torch_says(START)
    assert says(page)[0] == "she"


def test_picking_another_word_changes_the_guess_at_once(open_lab):
    page = open_lab()
    word(page, 0).select_option("tom")
    assert says(page) == torch_says(["tom", *START[1:]])
    assert says(page)[0] == "he"


def bars(page):
    return page.locator(".lab-guesses li").all_inner_texts()


def test_the_bars_stay_with_the_blank_and_go_where_a_new_one_is_made(open_lab):
    page = open_lab()
    assert "she" in bars(page)[0]
    assert "99" in bars(page)[0]
    word(page, 0).select_option("tom")
    assert bars(page)[0].split()[0] == "he"
    word(page, 1).select_option("___")
    assert bars(page)[0].split()[0] == "ate"
    word(page, 5).focus()
    assert bars(page)[0].split()[0] == "he"


def test_without_a_blank_the_bars_are_about_the_word_at_hand(open_lab):
    page = open_lab(EncoderLab("emma ate the soup"))
    word(page, 3).focus()
    assert page.get_by_text("would put at word 3, “soup”").is_visible()


def test_the_numbers_of_an_open_step_are_the_encoders(open_lab):
    page, steps = open_lab(), stored_steps()[1][1]
    for step in ("query", "key", "value", "mixed", "norm1", "hidden"):
        page.locator(f'[data-stage="1.{step}"]').click()
        assert_shown(numbers(page, ".lab-panel .lab-grid >> nth=0"), steps[step])


@pytest.mark.parametrize(
    ("opened", "title", "layer"),
    [
        ("1.query", "Layer 1: queries", 1),
        ("0.weights", "Layer 0: attention weights", 0),
        ("guess", "Guess", 1),
    ],
)
def test_a_lab_opens_at_the_step_that_its_page_is_about(open_lab, opened, title, layer):
    page = open_lab(EncoderLab(opened=opened))
    assert page.locator(".lab-panel-head strong").inner_text() == title
    pressed = page.locator(".lab-picks [data-key=layer][aria-pressed=true]")
    assert pressed.inner_text() == f"layer {layer}"


def test_the_attention_map_is_the_encoders_in_every_head(open_lab):
    page, (_, maps) = open_lab(), stored_steps()[0]
    for layer, weights in enumerate(maps):
        for head, ours in enumerate(weights):
            page.get_by_role("button", name=f"layer {layer}", exact=True).click()
            page.get_by_role("button", name=f"head {head}", exact=True).click()
            assert_shown(numbers(page, ".lab-two .lab-grid >> nth=0"), ours)


SWITCHES = {
    "layer 0, residual around attention": "layers.0.residual1",
    "layer 1, residual around feed-forward": "layers.1.residual2",
    "layer 1, head 1": "layers.1.head1",
    "÷ √8": "scale",
    "positions": "positions",
}


def test_a_part_switched_off_is_off_and_comes_back(open_lab):
    page = open_lab()
    for name, off in SWITCHES.items():
        switch = page.get_by_role("button", name=name, exact=True).first
        switch.click()
        assert switch.get_attribute("aria-pressed") == "false", name
        assert says(page) == torch_says(START, off=[off]) != torch_says(START), name
        switch.click()
        assert says(page) == torch_says(START), name


def test_flipping_the_norm_moves_it_into_the_wire(open_lab):
    page = open_lab()
    inside = page.locator(".lab-steps").first.locator("button").first
    assert inside.inner_text() == "Q"
    page.get_by_role("button", name="Pre-LN").click()
    assert inside.inner_text() == "norm"
    assert page.get_by_text("weights trained as Post-LN").is_visible()
    page.get_by_role("button", name="reset").click()
    assert inside.inner_text() == "Q"


def test_padding_is_painted_with_one_stroke(open_lab):
    page = open_lab()
    pads = page.locator(".lab-pad")
    boxes = [pads.nth(place).bounding_box() for place in (0, 1, 2)]
    centres = [(b["x"] + b["width"] / 2, b["y"] + b["height"] / 2) for b in boxes]
    page.mouse.move(*centres[0])
    page.mouse.down()
    page.mouse.move(*centres[1], steps=4)
    page.mouse.move(*centres[2], steps=4)
    page.mouse.up()
    pressed = [pads.nth(place).get_attribute("aria-pressed") for place in range(8)]
    assert pressed == ["true"] * 3 + ["false"] * 5
    assert says(page) == torch_says(START, [True] * 3 + [False] * 5)


def test_a_padded_word_has_no_influence_on_the_others(open_lab):
    page = open_lab(EncoderLab(padding=[0]))
    page.wait_for_function("document.querySelectorAll('.lab-grid')[5].rows.length > 1")
    column = numbers(page, ".lab-two .lab-grid >> nth=1")[:, 0]
    assert column[0] > 0.1
    assert column[1:].abs().max() == 0


def test_a_weight_can_be_changed_and_changed_back(open_lab):
    page = open_lab()
    page.get_by_role("button", name="weights", exact=True).click()
    page.locator('.lab-weights td[data-i="3"][data-j="5"]').click()
    name, model = "layers.1.attention.query.weight", lab.load().double()
    field = page.get_by_role("spinbutton")
    assert float(field.input_value()) == pytest.approx(
        model.encoder.get_parameter(name)[3, 5].item(), abs=1e-4
    )
    field.fill("9")
    model.encoder.get_parameter(name).data[3, 5] = 9.0
    best, chance = lab.guesses(model, START)[5][0]
    assert says(page) == (best, round(100 * chance))
    page.get_by_role("button", name="numbers", exact=True).click()
    job = job_of(model.encoder, [lab.WORDS.index(w) for w in START], [False] * 8, [])
    ours = record_steps(model.encoder, job)[1]["query"]
    assert_shown(numbers(page, ".lab-panel .lab-grid >> nth=0"), ours)
    page.get_by_role("button", name="reset").click()
    assert says(page) == torch_says(START)


def test_pointing_at_a_number_says_where_it_comes_from(open_lab):
    page = open_lab()
    page.locator('[data-stage="1.scores"]').click()
    cell = page.locator('.lab-panel td[data-i="5"][data-j="0"]').first
    cell.hover()
    line = page.locator(".lab-panel .lab-line").first.inner_text()
    assert line.startswith("score[5, 0] = q(___) · k(emma) / √8")
    assert line.endswith(f"= {cell.inner_text()}")


def test_tasks_are_ticked_when_they_are_done(open_lab):
    page = open_lab()
    done = page.locator(".lab-tasks li[data-done]")
    assert done.count() == 0
    word(page, 0).select_option("paul")
    assert done.count() == 1
    word(page, 0).select_option("emma")
    page.locator(".lab-pad").first.click()
    assert done.count() == 2
    page.locator(".lab-pad").first.click()
    page.locator(".lab-wire").first.click()
    assert done.count() == 3


# --- Typing --------------------------------------------------------------------------


def type_sentence(page, text):
    page.get_by_role("textbox", name="type a sentence").fill(text)
    page.keyboard.press("Enter")


def test_a_typed_sentence_is_read(open_lab):
    page, tokens = open_lab(), ["the", "old", "___", "lost", "her", "key"]
    type_sentence(page, " ".join(tokens))
    assert page.locator(".lab-word").count() == 6
    assert says(page) == torch_says(tokens)
    assert says(page)[0] in ("queen", "girl")


def test_an_unknown_word_gets_an_answer_and_stays_text(open_lab):
    page = open_lab()
    type_sentence(page, "emma ate <img/src=x/onerror=alert(1)>")
    message = page.locator(".lab-message").inner_text()
    assert "<img/src=x/onerror=alert" in message
    assert "not one of the 53 words" in message
    assert page.locator(".eta-lab img").count() == 0
    assert says(page) == torch_says(START)


def test_words_can_be_added_and_taken_away_within_limits(open_lab):
    page = open_lab()
    more, fewer = (
        page.get_by_role("button", name=name) for name in ("+ word", "− word")
    )
    for _ in range(2):
        more.click()
    assert more.is_disabled()
    assert page.locator(".lab-word").count() == 10
    for _ in range(9):
        fewer.click()
    assert fewer.is_disabled()
    assert page.locator(".lab-word").count() == 1


# --- Keys, screens, themes, scripts --------------------------------------------------


def focused(page):
    return page.evaluate(
        "document.activeElement.getAttribute('aria-label')"
        " ?? document.activeElement.textContent"
    )


def test_keys_alone_change_a_word_and_cut_a_wire(open_lab):
    page = open_lab()
    page.keyboard.press("Tab")
    assert focused(page) == "word 0"
    page.keyboard.type("tom")
    assert says(page)[0] == "he"
    while "embedding" not in focused(page).lower():
        page.keyboard.press("Tab")
    while focused(page) != "layer 0, residual around attention":
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    tokens = ["tom", *START[1:]]
    assert says(page) == torch_says(tokens, off=["layers.0.residual1"])


def test_keys_paint_padding_and_walk_through_a_map(open_lab):
    page = open_lab()
    page.locator(".lab-pad").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert page.locator(".lab-pad").nth(1).get_attribute("aria-pressed") == "true"
    page.locator(".lab-panel td[tabindex='0']").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    line = page.locator(".lab-panel .lab-line").first.inner_text()
    assert line.startswith("q(ate)[2]")


def test_the_tab_key_goes_through_and_out_again(open_lab):
    page = open_lab()
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("!!document.activeElement.closest('.eta-lab')"))
    assert seen[0]
    assert not all(seen)


@each_theme
def test_axe_finds_nothing_serious(open_lab, theme):
    page = open_lab(theme=theme)
    page.locator(".lab-wire").first.click()
    page.locator(".lab-pad").first.click()
    for stage in ("1.query", "0.weights", "guess"):
        page.locator(f'[data-stage="{stage}"]').click()
        assert violations(page) == [], stage


def test_a_phone_never_scrolls_sideways(open_lab):
    page = open_lab(EncoderLab(["because"] * 10), width=390)
    for stage in ("1.query", "1.hidden", "1.weights", "guess"):
        page.locator(f'[data-stage="{stage}"]').click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, stage


def test_without_scripts_and_in_print_the_still_figure_is_there(open_lab):
    page = open_lab(java_script_enabled=False)
    assert page.get_by_text("Its guesses for word 5: she 99%").is_visible()
    page = open_lab()
    still = page.get_by_text("Its guesses for word 5: she 99%")
    assert not still.is_visible()
    page.emulate_media(media="print")
    assert still.is_visible()


def test_nothing_moves_for_those_who_asked_for_less_motion(open_lab):
    page = open_lab(reduced_motion="reduce")
    style = "getComputedStyle(document.querySelector('.lab-bar i')).transitionDuration"
    assert re.fullmatch(r"0s", page.evaluate(style))


def test_two_labs_on_a_page_mind_their_own_business(open_lab):
    other = ["the", "dogs", "found", "___", "ball"]
    page = open_lab(EncoderLab(), EncoderLab(other))
    first, second = (page.locator(".eta-lab").nth(n) for n in (0, 1))
    first.locator("select").first.select_option("tom")
    assert not second.get_by_text("Can you").is_visible()  # tasks have one sentence
    assert first.locator(".lab-says:not(:empty)").inner_text().startswith("he ")
    shown = second.locator(".lab-says:not(:empty)").inner_text()
    assert (shown.split()[0], int(shown.split()[1])) == torch_says(other)


def test_a_kernel_can_set_the_sentence_and_hears_what_the_reader_does(open_lab):
    page = open_lab(LiveInPage())
    page.evaluate("model.set('tokens', ['___', 'lost', 'his', 'key'])")
    assert page.locator(".lab-word").count() == 4
    word(page, 2).select_option("her")
    assert page.evaluate("model.get('tokens')") == ["___", "lost", "her", "key"]
    page.locator(".lab-pad").nth(3).click()
    assert page.evaluate("model.get('padding')") == [False, False, False, True]
    assert page.evaluate("model.saved") >= 2


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("model.set('tokens', ['<b>', 'ate'])", "“<b>” is not a word"),
        ("model.set('edits', [['nothing', 0, 0, 1]])", "no number nothing[0, 0]"),
    ],
)
def test_what_a_kernel_sends_wrongly_is_answered_in_the_page(open_lab, change, answer):
    page = open_lab(LiveInPage())
    page.evaluate(change)
    assert answer in page.locator(".lab-message").inner_text()
    assert says(page) == torch_says(START)


class LiveInPage(EncoderLab):
    """The view with its model in reach, as anywidget holds it, and nothing else."""

    def html(self):
        view = es_module(self.module).replace("export default", "const view=")
        state = json.dumps(self.state | {"weights": list(self.state["weights"])})
        return f"""<style>{style(self.styles)}</style><div class="eta-root"></div>
            <script>(() => {{ {view} {es_module(SHARED / "shim.js")}
            const state = {state.replace("<", "&lt;")};
            state.weights = new DataView(Uint8Array.from(state.weights).buffer);
            window.model = makeModel(state);
            model.saved = 0;
            model.save_changes = () => (model.saved += 1);
            view.render({{ model, el: document.querySelector(".eta-root") }});
            }})();</script>"""


def test_it_cleans_up_after_itself(open_lab):
    page = open_lab()
    word(page, 0).select_option("tom")  # a frame is now under way
    page.evaluate("document.querySelector('.eta-root').unmount()")
    page.mouse.click(50, 50)
    page.wait_for_timeout(100)
    assert page.locator(".eta-root").evaluate("root => root.childElementCount") == 0


# --- The heads alone -----------------------------------------------------------------

REASON = "emma ate the soup because she was ___"


def head_lines(page):
    """Return what the table says of each head: (looks most at, guess without it)."""
    rows = page.locator(".lab-table tr:has(td)").all()
    return [tuple(row.locator("td").all_inner_texts()) for row in rows]


def test_each_head_says_where_it_looks_and_what_is_guessed_without_it(show):
    tokens = REASON.split()
    page = show(EncoderLab(REASON, part="heads"))
    maps = torch.cat(list(stored_steps(tokens)[0][1]))  # (L H, T, T)
    lines = head_lines(page)
    for i, (looks, without_it) in enumerate(lines):
        row = maps[i, 7]
        most = int(row.argmax())
        assert looks == f"{tokens[most]} {100 * row[most]:.0f} %"
        word, chance = torch_says(tokens, off=[f"layers.{i // 2}.head{i % 2}"])
        assert without_it == f"{word} {chance} %"
    assert len(lines) == 4
    assert page.locator(".lab-flow, .lab-tasks").count() == 0


def test_a_head_is_switched_off_by_key_and_counts_for_the_others(show):
    page = show(EncoderLab(part="heads"), width=390)
    page.get_by_role("button", name="layer 1, head 1").press("Enter")
    assert head_lines(page)[3][1] == "is off"
    assert says(page) == torch_says(START, off=["layers.1.head1"])
    word, chance = torch_says(START, off=["layers.1.head1", "layers.1.head0"])
    assert head_lines(page)[2][1] == f"{word} {chance} %"
    page.locator(".lab-word select").nth(0).select_option("paul")
    assert says(page) == torch_says(["paul", *START[1:]], off=["layers.1.head1"])


@each_theme
def test_the_heads_alone_are_accessible_and_fit(show, theme):
    for width in (390, 1280):
        page = show(EncoderLab(REASON, part="heads"), theme=theme, width=width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []


def test_the_still_of_the_heads_says_what_the_table_says(show):
    still = EncoderLab(REASON, part="heads").still()
    page = show(EncoderLab(REASON, part="heads"))
    cells = re.findall(r"<td>(.*?)</td><td>(.*?)</td>", still)
    spaced = [tuple(text.replace("%", " %") for text in line) for line in cells]
    assert spaced == head_lines(page)


def test_another_part_is_refused():
    with pytest.raises(ValueError, match='part must be "all" or "heads", got .feet'):
        EncoderLab(REASON, part="feet")
