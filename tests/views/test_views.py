"""Promises of every view: to its author, to its page, and to its reader.

Pages are opened from the disk, under a policy that forbids everything from outside.
"""

import base64
import json
import re
import subprocess
import sys
import zlib

import anywidget
import numpy as np
import pytest
from common import JS, ROOT, violations
from taken_apart.views import AttentionMap, ShapeTracer, View, bundle
from taken_apart.views.base import packed
from views.shared import each_look, softmax_weights, traced, words

# --- Python --------------------------------------------------------------------------


BUNDLES = sorted(p for p in JS.values() if "export default" in p.read_text())


class Plain(View):
    module = bundle.JS / "shape_tracer/shape_tracer.js"


def read_state(html):
    """Return the state as the page reads it."""
    packed = re.search(r'<script type="text/eta">(.*?)</script>', html)[1]
    if packed.startswith("{"):
        return json.loads(packed)
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def every_view():
    return [
        AttentionMap(softmax_weights(2, 3, 5, 5), words(5)),
        AttentionMap(softmax_weights(2, 3, 17, 19), words(17), words(19)),
        ShapeTracer(traced()),
    ]


def test_a_view_is_the_same_at_every_run():
    for first, second in zip(every_view(), every_view(), strict=True):
        assert first._repr_mimebundle_() == second._repr_mimebundle_()


def test_a_view_holds_no_ids_no_addresses_and_nothing_from_elsewhere():
    for view in every_view():
        html = view.html()
        assert not re.search(r"\sid=|0x[0-9a-f]{6}|https?:|\bsrc=|@import", html)


def test_the_plain_text_says_what_the_view_holds():
    small, cross, shapes = map(repr, every_view())
    assert small == "AttentionMap(2 layers, 3 heads, 5 queries, 5 keys)"
    assert cross == "AttentionMap(2 layers, 3 heads, 17 queries, 19 keys)"
    assert shapes.startswith("ShapeTracer(TransformerEncoder, ")
    assert "B=3, T=5" in shapes
    assert "L=3" in shapes


def test_a_view_refuses_state_that_a_page_cannot_read():
    with pytest.raises(TypeError, match="JSON or bytes, got array"):
        Plain(weights=np.zeros(3)).html()


def test_bytes_of_the_state_reach_the_page_unchanged():
    data = bytes(range(256))
    packed = read_state(Plain(data=data).html())["data"]["$b"]
    assert base64.b64decode(packed) == data


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.stem)
def test_joined_modules_share_no_name_and_import_nothing(path):
    sources = [bundle.source(file) for file in {*bundle.modules(path), JS["shim.js"]}]
    top = r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)"
    names = [found for text in sources for found in re.findall(top, text, re.MULTILINE)]
    assert "render" in names
    assert [name for name in set(names) if names.count(name) > 1] == []
    text = bundle.es_module(path)
    assert not re.search(r"\bimport\b[ ({]", text)
    assert text.count("export default") == 1
    assert "getElementById" not in text
    assert "</script" not in text


@pytest.mark.parametrize(
    "line",
    [
        'import button from "./dom.js";',
        'import * as dom from "./dom.js";',
        'import "./dom.js";',
        'import { h } from "https://elsewhere/dom.js";',
        'export { h } from "./dom.js";',
        'export * from "./dom.js";',
        "export default function render() {}",
    ],
)
def test_a_module_that_the_joining_would_break_is_refused(tmp_path, line):
    file = tmp_path / "view.js"
    file.write_text(f"{line}\nexport default {{ render }};\n")
    with pytest.raises(ValueError, match=r"view\.js must import and export as in"):
        bundle.es_module(file)


@pytest.mark.parametrize("path", sorted(JS.values()), ids=lambda path: path.name)
def test_no_text_and_no_comment_reaches_over_the_end_of_a_line(path):
    """So that a line can lose its indentation, or be dropped, by its first letters."""
    text = path.read_text()
    assert [line for line in text.split("\n") if line.count("`") % 2] == []
    assert "/*" not in text


def test_lines_of_comment_go_and_no_line_is_touched_inside(tmp_path):
    code = [
        "const text = 'it  // is';  // kept",
        "const list = /a, ]/.test(`b ,  c`) && x ++ + ++ x;",
        "function render() {",
        "return { text ,list };",
        "}",
        "export default { render };",
    ]
    first, second, head, body, foot, last = code
    lines = [
        "// A view.",
        first,
        second,
        "",
        head,
        "  // Both.",
        f"    {body}",
        foot,
        last,
    ]
    file = tmp_path / "view.js"
    file.write_text("\n".join(lines) + "\n")
    assert bundle.es_module(file) == "\n".join(code)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # an import of it fails
import taken_apart.views
from book import views
for name in set(views.__all__) - {"SpotTheBug", "Symptoms"}:
    getattr(views, name)
assert set(dir(views)) > set(views.__all__)
"""


def test_no_view_needs_torch_but_the_two_that_run_the_museum():
    here = {"cwd": ROOT / "code", "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=False, **here)
    assert done.returncode == 0, done.stderr


def test_a_live_view_is_the_same_module_with_its_state_as_traits():
    for view in every_view():
        widget = view.live()
        assert widget._esm == bundle.es_module(view.module)
        for name, value in view.state.items():
            assert not hasattr(anywidget.AnyWidget, name)
            assert getattr(widget, name) == value
            assert widget.traits()[name].metadata["sync"]


# --- The model of a static page ------------------------------------------------------


def test_the_model_tells_those_who_listen_and_only_of_changes(js):
    body = """const told = [], model = module.makeModel({ a: 1, b: 2 });
    const first = () => told.push(["first", model.get("a")]);
    const second = () => told.push(["second", model.get("a")]);
    model.on("change:a", first); model.on("change:a", second);
    model.set("a", 5); model.set("a", 5); model.set("b", 7);
    model.off("change:a", first); model.set("a", 6); model.save_changes();
    return told"""
    assert js("shim.js", body) == [["first", 5], ["second", 5], ["second", 6]]


@pytest.mark.parametrize("plain_size", [0, 9_999], ids=["deflated", "plain"])
def test_the_page_reads_the_state_that_python_packed(js, plain_size):
    state = {
        "tokens": ["<é🦉", "", "</script>"],
        "n": 3,
        "none": None,
        "bytes": bytes(range(256)) * 9,
    }
    body = """const state = await module.readState(data);
    return { ...state, bytes: new Uint8Array(state.bytes.buffer) }"""
    text = packed(state, plain_size)
    assert js("shim.js", body, text) == state | {"bytes": list(state["bytes"])}
    assert "<" not in text


def test_a_large_state_travels_small():
    state = {"bytes": bytes(range(256)) * 900}
    assert len(packed(state, 65_536)) < 2 * len(zlib.compress(state["bytes"]))


# --- In a browser --------------------------------------------------------------------


MAP, HEADS, FACT = ".eta-field >> nth=0", ".eta-heads .eta-stack", ".eta-fact"


WEIGHTS = softmax_weights(3, 5, 7, 7)


TOKENS = ["the", "cat", "sat", "on", "the", "mat", "."]


def attention(**options):
    return AttentionMap(WEIGHTS, TOKENS, **options)


def fact(page):
    return page.locator(FACT).first.text_content()


def selects(page):
    """Return what the choices of the first view show: layer, head."""
    return [
        page.get_by_label(name, exact=True).first.input_value()
        for name in ("layer", "head")
    ]


def all_views():
    batch = AttentionMap(
        list(softmax_weights(2, 2, 3, 5, 5)), [words(5), list("abcde")]
    )
    large = AttentionMap(softmax_weights(12, 12, 32, 32), words(32), layer=3)
    return [attention(compare=(1, 2)), batch, large, ShapeTracer(traced())]


@each_look
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
