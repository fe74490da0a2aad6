"""Promises of the views to whoever touches them, in a real Chromium.

Pages are opened from the disk, under a policy that forbids everything from outside.
"""

import re

import numpy as np
import pytest
import torch
from conftest import violations
from encoder import TransformerEncoder
from taken_apart.tracer import trace
from taken_apart.views import AttentionMap, ShapeTracer, bundle
from test_views import HOSTILE, softmax_weights, traced, words

MAP, HEADS, FACT = ".eta-field >> nth=0", ".eta-heads .eta-stack", ".eta-fact"
WEIGHTS = softmax_weights(3, 5, 7, 7)
TOKENS = ["the", "cat", "sat", "on", "the", "mat", "."]
ROWS = ".eta-shapes tr:not(.eta-line)"

each_theme = pytest.mark.parametrize("theme", ["light", "dark"])
each_width = pytest.mark.parametrize("width", [390, 820])


def attention(**options):
    return AttentionMap(WEIGHTS, TOKENS, **options)


def point_at(page, query, key, field=MAP):
    """Move the mouse to the middle of a cell of the map and return where that is."""
    box = page.locator(field).bounding_box()
    x = box["x"] + (key + 0.5) / WEIGHTS.shape[-1] * box["width"]
    y = box["y"] + (query + 0.5) / WEIGHTS.shape[-2] * box["height"]
    page.mouse.move(x, y)
    return x, y


def fact(page):
    return page.locator(FACT).first.text_content()


def selects(page):
    """Return what the choices of the first view show: layer, head."""
    return [
        page.get_by_label(name, exact=True).first.input_value()
        for name in ("layer", "head")
    ]


# --- every view ----------------------------------------------------------------------


def all_views():
    batch = AttentionMap(
        list(softmax_weights(2, 2, 3, 5, 5)), [words(5), list("abcde")]
    )
    large = AttentionMap(softmax_weights(12, 12, 32, 32), words(32), layer=3)
    return [attention(compare=(1, 2)), batch, large, ShapeTracer(traced())]


@each_theme
@each_width
def test_views_are_accessible_and_fit(show, theme, width):
    page = show(*all_views(), theme=theme, width=width)
    page.locator(".eta-box").nth(3).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_without_scripts_the_still_figures_are_read(show):
    page = show(*all_views(), java_script_enabled=False)
    stills = page.locator(".eta-still")
    assert [still.is_visible() for still in stills.all()] == [True] * 4
    assert "cat" in stills.nth(0).inner_text()
    assert "unflatten" in stills.nth(3).inner_text()
    assert stills.nth(2).locator("svg").is_visible()


def test_print_shows_the_still_figures(show):
    page = show(*all_views())
    page.wait_for_selector(".eta-box")
    still, root = page.locator(".eta-still").first, page.locator(".eta-root").first
    assert root.is_visible()
    assert not still.is_visible()
    page.emulate_media(media="print")
    assert still.is_visible()
    assert not root.is_visible()


def test_the_keyboard_reaches_every_view_and_leaves_it_again(show):
    page = show(
        attention(), ShapeTracer(traced()), "<button class='after'>after</button>"
    )
    page.wait_for_selector(".eta-shapes tr")
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.className"))
        if "after" in reached:
            break
    assert "after" in reached
    assert "eta-field eta-stack" in reached
    assert page.evaluate("document.activeElement.tagName") == "BUTTON"


def test_a_view_leaves_nothing_behind(show):
    page = show(*all_views())
    page.locator(".eta-box").nth(3).wait_for()
    left = page.evaluate(
        """async () => {
        const roots = [...document.querySelectorAll(".eta-root")];
        for (const root of roots) root.unmount();
        let drawn = 0;
        const draw = CanvasRenderingContext2D.prototype.drawImage;
        CanvasRenderingContext2D.prototype.drawImage = (...all) => { drawn += 1; };
        document.documentElement.dataset.theme = "dark";
        document.querySelector("main").style.width = "300px";
        await new Promise((done) => setTimeout(done, 100));
        return [drawn, ...roots.map((root) => root.childElementCount)];
        }"""
    )
    assert left == [0] * 5


def test_views_of_one_page_do_not_touch_each_other(show):
    page = show(attention(), attention())
    page.locator(HEADS).nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    heads = page.get_by_label("head", exact=True)
    assert [head.input_value() for head in heads.all()] == ["1", "0"]


def test_a_view_is_drawn_where_its_script_runs_at_the_end_of_the_output(show):
    """As VS Code does: it puts the HTML in place, then each script again at the end."""
    html = attention().html().replace("<script>", "<script type='text/later'>")
    page = show(f"<div class='output'>{html}</div>", drawn=False)
    assert page.locator(".eta-box").count() == 0
    page.evaluate(
        """() => {
        const old = document.querySelector("script[type='text/later']");
        const script = document.createElement("script");
        script.textContent = old.textContent;
        document.querySelector(".output").append(script);
        }"""
    )
    page.wait_for_selector(".eta-box")
    assert fact(page) == "layer 0, head 0"


def test_the_module_works_with_the_model_of_a_widget(browser):
    """As anywidget does: import the module, call render, keep what it returns."""
    view = attention(layer=1)
    state = {k: v for k, v in view.state.items() if not isinstance(v, bytes)}
    raw = {k: list(v) for k, v in view.state.items() if isinstance(v, bytes)}
    page = browser.new_page()
    page.evaluate(
        """async ([code, state, raw]) => {
        const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
        const view = (await import(url)).default, listeners = {};
        for (const [name, list] of Object.entries(raw)) {
          state[name] = new DataView(Uint8Array.from([0, ...list]).buffer, 1);
        }
        window.saved = [];
        window.model = {
          get: (name) => state[name],
          set(name, value) {
            state[name] = value;
            for (const react of listeners[`change:${name}`] ?? []) react();
          },
          on: (name, react) => (listeners[name] ??= []).push(react),
          off(name, react) {
            listeners[name] = listeners[name].filter((other) => other !== react);
          },
          save_changes: () => saved.push([state.layer, state.head, state.pin]),
        };
        window.end = view.render({ model, el: document.body });
        window.left = () => Object.values(listeners).flat().length;
        }""",
        [bundle.es_module(AttentionMap.module), state, raw],
    )
    page.locator(HEADS).focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("saved") == [[1, 1, None]]
    page.evaluate("model.set('layer', 2)")
    assert selects(page) == ["2", "1"]
    assert page.evaluate("end() ?? left()") == 0
    page.close()


# --- the attention map ---------------------------------------------------------------


def test_the_mouse_finds_the_exact_weight_of_every_cell(show):
    page = show(attention(layer=1, head=2))
    for query, key in ((0, 0), (3, 5), (6, 6)):
        point_at(page, query, key)
        weight = WEIGHTS[1, 2, query, key]
        assert fact(page) == f"“{TOKENS[query]}” gives “{TOKENS[key]}” {weight:.4f}"


def test_a_weight_that_rounds_to_zero_is_not_called_zero(show):
    page = show(AttentionMap(np.array([[1.0 - 1e-9, 1e-9]]), ["a"], ["x", "y"]))
    page.locator(MAP).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert fact(page) == "“a” gives “y” less than 0.00005"


def test_a_single_map_offers_no_heads_to_choose(show):
    page = show(AttentionMap(WEIGHTS[0, 0], TOKENS))
    page.locator(MAP).wait_for()
    assert not page.locator(HEADS).is_visible()
    assert page.get_by_role("button").all_text_contents() == ["copy values"]
    assert not page.get_by_label("head", exact=True).is_visible()


def test_a_click_pins_a_cell_and_a_second_click_frees_it(show):
    page = show(attention())
    page.mouse.click(*point_at(page, 2, 4))
    pinned = fact(page)
    point_at(page, 5, 1)
    assert fact(page) == pinned
    assert pinned.startswith("“sat” gives “the”")
    page.mouse.click(*point_at(page, 2, 4))
    point_at(page, 5, 1)
    assert fact(page).startswith("“mat” gives “cat”")


def test_the_keys_move_pin_and_change_the_head(show):
    page = show(attention())
    page.locator(MAP).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert fact(page).startswith("“the” gives “cat”")
    page.keyboard.press("Enter")
    page.keyboard.press("PageDown")
    assert selects(page) == ["0", "1"]
    assert fact(page).endswith(f"{WEIGHTS[0, 1, 0, 1]:.4f}")
    page.keyboard.press("Escape")
    assert fact(page) == "layer 0, head 1"


def test_the_small_maps_choose_and_compare_heads(show):
    page = show(attention())
    box = page.locator(HEADS).bounding_box()
    tile = {"x": box["width"] * 3.5 / 5, "y": box["height"] * 1.5 / 3}
    page.locator(HEADS).click(position=tile)
    assert selects(page) == ["1", "3"]
    other = {"x": box["width"] * 0.5 / 5, "y": box["height"] * 2.5 / 3}
    page.locator(HEADS).click(position=other, modifiers=["Shift"])
    point_at(page, 4, 2)
    first, second = WEIGHTS[1, 3, 4, 2], WEIGHTS[2, 0, 4, 2]
    assert fact(page).endswith(f"{first:.4f} beside {second:.4f}")
    assert page.locator(".eta-field").nth(1).is_visible()


def test_row_and_column_tell_who_looks_at_whom(show):
    page = show(attention())
    point_at(page, 2, 4)
    row, column = (x.inner_text() for x in page.locator(".eta-list").all())
    weights = WEIGHTS[0, 0]
    assert f"{np.sort(weights[2])[-1]:.4f}" in row
    assert f"{np.sort(weights[:, 4])[-1]:.4f}" in column
    entropy = -(weights[2] * np.log2(weights[2])).sum()
    assert f"entropy {entropy:.2f} of {np.log2(7):.2f} bits, sum 1.000" in row
    assert f"mean {weights[:, 4].mean():.4f}" in column


def test_a_token_shows_its_row_and_its_column(show):
    page = show(attention())
    page.locator(".eta-queries span", has_text="mat").nth(1).hover()
    assert fact(page) == "“mat”, query 5"
    assert "“mat” is looked at by" in page.locator(".eta-list").nth(1).inner_text()


def pixel(page, x, y):
    """Return red, green, blue, alpha of the large map, x and y from 0 to 1."""
    return page.locator(f"{MAP} >> canvas").evaluate(
        """(canvas, [x, y]) => [...canvas.getContext("2d").getImageData(
        Math.floor(x * canvas.width), Math.floor(y * canvas.height), 1, 1).data]""",
        [x, y],
    )


@each_theme
def test_the_map_has_the_colours_of_the_legend_and_hatches_exact_zeros(show, theme):
    weights = np.array([[0.0, 1.0], [1.0 - 1e-9, 1e-9]])
    page = show(AttentionMap(weights, ["a", "b"]), theme=theme)
    low, high = (
        page.locator(".eta-box").evaluate(
            "(box, name) => getComputedStyle(box).getPropertyValue(name)", name
        )
        for name in ("--seq-0", "--seq-8")
    )
    rgb = [
        [int(text[i : i + 2], 16) for i in (1, 3, 5)] + [255] for text in (low, high)
    ]
    assert pixel(page, 0.75, 0.25) == pixel(page, 0.25, 0.75) == rgb[1]
    assert pixel(page, 0.75, 0.75) == rgb[0]
    assert pixel(page, 0.25, 0.25)[3] == 0
    point_at(page, 0, 0)
    assert fact(page) == "“a” gives “a” exactly 0"


def test_the_map_follows_the_theme_of_the_page(show):
    page = show(AttentionMap(np.eye(3), list("abc")))
    before = pixel(page, 0.1, 0.1)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert before == [8, 48, 107, 255]
    assert pixel(page, 0.1, 0.1) == [240, 248, 255, 255]


def test_padding_is_hatched_and_its_share_is_told(show):
    mask = np.array([False] * 5 + [True] * 2)
    page = show(attention(key_padding_mask=mask))
    marked = page.locator(".eta-keys .eta-padding").all_text_contents()
    assert marked[:2] == ["mat", "."]
    share = WEIGHTS[0, 0][:, 5:].sum(axis=1).mean()
    shown = page.locator(".eta-list").nth(1).inner_text()
    assert abs(float(re.search(r"padding ([\d.]+)", shown)[1]) - share) < 2e-4


def test_rows_that_do_not_sum_to_one_are_marked(show):
    weights = WEIGHTS * np.linspace(0.4, 1.0, 7)[:, None]
    page = show(AttentionMap(weights, TOKENS))
    sums = page.locator(".eta-sums").first
    assert sums.locator("span").all_text_contents()[0] == "0.40"
    assert sums.locator(".eta-off").count() == 6


def test_another_sample_shows_its_own_tokens(show):
    weights = softmax_weights(2, 2, 3, 3)
    page = show(AttentionMap(weights, [list("abc"), list("xyz")]))
    page.get_by_label("sample").select_option(index=1)
    keys = page.locator(".eta-keys").first.locator("span")
    assert keys.all_text_contents() == ["x", "y", "z"]


def test_cross_attention_shows_queries_down_and_keys_across(show):
    page = show(AttentionMap(softmax_weights(2, 3, 2), list("abc"), ["x", "y"]))
    tokens = page.locator(".eta-map").nth(1)
    assert tokens.locator(".eta-queries span").all_text_contents() == list("abc")
    assert tokens.locator(".eta-keys span").all_text_contents() == ["x", "y"]


def test_hostile_tokens_stay_text(show):
    n = len(HOSTILE)
    page = show(AttentionMap(softmax_weights(n, n), HOSTILE))
    titles = page.locator(".eta-keys").first.locator("span")
    shown = titles.evaluate_all("(all) => all.map((span) => span.title)")
    assert shown == [token.encode("utf-8", "replace").decode() for token in HOSTILE]
    assert page.locator(".eta img, .eta b b").count() == 0


def test_values_are_copied_as_a_table(show):
    page = show(attention(layer=2, head=4))
    page.evaluate(
        """() => { window.copied = ""; document.addEventListener("copy", () => {
        copied = document.activeElement.value; }); }"""
    )
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="copy values").click()
    page.get_by_role("button", name="copied").wait_for()
    lines = [line.split("\t") for line in page.evaluate("copied").split("\n")]
    assert lines[0] == ["", *TOKENS]
    shown = np.array([[float(x) for x in line[1:]] for line in lines[1:]])
    np.testing.assert_allclose(shown, WEIGHTS[2, 4], atol=5.1e-5)


# --- the shape tracer ----------------------------------------------------------------


def slider(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def row_of(page, op):
    return page.locator(ROWS, has_text=op).first


def test_a_slider_resizes_every_shape(show):
    page = show(ShapeTracer(traced()))
    slider(page, "H").fill("6")
    slider(page, "T").fill("11")
    assert "(3, 11, 6, 7)" in row_of(page, "unflatten").inner_text()
    assert "1,386 · 5.4 KiB × L" in row_of(page, "unflatten").inner_text()
    assert "1,386 · 5.4 KiB" in row_of(page, "embedding").inner_text()
    assert "× L" not in row_of(page, "embedding").inner_text()
    assert "D = H·K = 42" in page.locator(".eta-bar").inner_text()


def test_shapes_at_new_sizes_are_those_of_a_real_run(show):
    page = show(ShapeTracer(traced(1)))
    slider(page, "T").fill("4")
    slider(page, "B").fill("2")
    slider(page, "F").fill("13")
    slider(page, "K").fill("5")
    model = TransformerEncoder(29, d_model=10, n_heads=2, d_ff=13, n_layers=1)
    real = trace(model.eval(), torch.zeros(2, 4, dtype=torch.int64))
    wanted = [
        " ".join(f"({', '.join(map(str, x['shape']))})" for x in row["outputs"])
        for row in real.to_dict()["rows"]
    ]
    numbers = page.locator(f"{ROWS} td:nth-child(3) > div:nth-child(2)")
    shown = [text.split("→")[1].strip() for text in numbers.all_text_contents()]
    assert shown == wanted


def test_an_axis_lights_up_wherever_it_lives(show):
    page = show(ShapeTracer(traced()))
    slider(page, "H").focus()
    lit = page.locator(".eta-lit").all_text_contents()
    assert lit
    assert {*lit} <= {"H", "H·K"}
    inner = page.locator(".eta-lit-inner").all_text_contents()
    assert inner
    assert {*inner} == {"D"}
    assert len(lit) == page.locator("[data-axis~='H']").count()


def test_the_keys_step_forward_and_back(show):
    page = show(ShapeTracer(traced()))
    stage = page.locator(".eta-stage")
    page.locator(f"{ROWS}[aria-current]").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert "step 3 of" in stage.inner_text()
    page.keyboard.press("ArrowUp")
    assert "step 2 of" in stage.inner_text()
    assert page.evaluate("document.activeElement.hasAttribute('aria-current')")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert "step 1 of" in stage.inner_text()


def test_a_split_is_drawn_on_a_block_of_numbers(show):
    page = show(ShapeTracer(traced()))
    row_of(page, "unflatten").click()
    cells = page.locator(".eta-cells").all()
    columns = [
        cell.evaluate("x => x.style.getPropertyValue('--columns')") for cell in cells
    ]
    assert columns == ["6", "3"]
    assert "split D into H" in page.locator(".eta-stage").inner_text()


def test_the_piece_of_the_line_that_ran_is_underlined(show):
    page = show(ShapeTracer(traced()))
    row_of(page, "unflatten").click()
    assert page.locator(".eta-shapes u").all_text_contents() == [
        "x.unflatten(-1, (self.n_heads, -1))"
    ]


def test_a_failed_trace_says_what_met_and_why(show):
    class Broken(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down = torch.nn.Linear(24, 16)

        def forward(self, x):
            return self.down(x)

    page = show(ShapeTracer(trace(Broken(), torch.zeros(2, 5, 16))))
    told = page.locator(".eta-stage.eta-fault").inner_text()
    assert "cannot be multiplied" in told
    assert "24" in told
    assert "error" in page.locator(f"{ROWS}[aria-current]").inner_text()
