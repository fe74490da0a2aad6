"""Promises of the decoding stepper: it shows what the decoder says, step by step."""

import functools

import pytest
import torch
from book.models import mirror_language as mirror
from book.views import DecodingStepper
from common import violations
from decoder import beam_search
from views.shared import HOSTILE, each_look

TEXTS = ["emma ate the soup because she was hungry", "the queen lost the key"]


@functools.cache
def trees():
    model = mirror.load()
    return [mirror.decoding_tree(model, text) for text in TEXTS]


def stepper(**options):
    return DecodingStepper(trees(), **options)


def follow(tree, words):
    """Return the node that is reached by these words."""
    node = tree["nodes"][0]
    for word in words:
        (child,) = [c for said, _, c in node["candidates"] if said == word]
        node = tree["nodes"][child]
    return node


# --- The tree -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1])
@torch.no_grad()
def test_a_node_says_what_the_decoder_says(n):
    model, tree = mirror.load(), trees()[n]
    right = mirror.translations(TEXTS[n])[-1].words
    weights = mirror.source_map(model, TEXTS[n], right)
    step = model.step(mirror.encode_sources(TEXTS[n : n + 1]))
    for t in range(len(right)):
        node = follow(tree, right[:t])
        fed = torch.tensor([[mirror.GO, *(mirror.IDS[word] for word in right[:t])]])
        shares = step(fed, None)[0][0].softmax(dim=-1)
        for word, share, _ in node["candidates"]:
            assert abs(shares[mirror.IDS[word]].item() - share) < 1e-3
        assert [round(w, 2) for w in node["weights"]] == pytest.approx(
            weights[t].tolist(), abs=0.011
        )


def test_a_reader_may_take_one_unlikely_word_and_go_on_to_the_end():
    for tree in trees():
        for node in tree["nodes"]:
            shares = [share for _, share, _ in node["candidates"]]
            assert shares == sorted(shares, reverse=True)
            word, _, child = node["candidates"][0]
            assert child is not None or word == "end" or len(tree["nodes"]) > 1
        root = tree["nodes"][0]["candidates"]
        assert all(child is not None for _, _, child in root)


def test_the_beams_are_those_of_the_search():
    model, tree = mirror.load(), trees()[0]
    step, start = model.step(mirror.encode_sources(TEXTS[:1])), torch.tensor([[1]])
    for width in (1, 3):
        found = beam_search(step, start, 4, mirror.END, width)
        kept = tree["beams"][str(width)][3]
        assert [text for text, _ in kept] == [
            " ".join(mirror.in_words(ids[1:])) for ids in found.token_ids[0].tolist()
        ]
        assert [share for _, share in kept] == pytest.approx(
            found.scores[0].exp().tolist(), abs=1e-4
        )


def test_what_does_not_fit_is_refused_in_words():
    with pytest.raises(ValueError, match="one of 2 trees, got 2"):
        stepper(text=2)
    with pytest.raises(ValueError, match="one of 0 trees, got 0"):
        DecodingStepper([])
    with pytest.raises(ValueError, match="1, 2 or 3 beams, got 4"):
        stepper(width=4)


def test_the_still_figure_has_the_likeliest_text_and_the_beams():
    still = stepper().still()
    assert '<th scope="row">esuaceb</th>' in still
    assert "Kept by 2 beams" in still
    assert "amme eht puos eta esuaceb ehs yrgnuh saw" in still


# --- In JavaScript --------------------------------------------------------------------


def test_a_walk_multiplies_shares_and_ends_behind_the_end(js):
    nodes = [
        {"candidates": [["a", 0.5, 1], ["b", 0.25, None]], "weights": [0.1]},
        {"candidates": [["end", 0.8, None]], "weights": [0.2]},
    ]
    body = "return [[], [0], [0, 0]].map((path) => module.walk(data, path))"
    root, one, end = js("decoding_stepper.js", body, nodes)
    assert (root["words"], root["share"], root["node"]) == ([], 1, nodes[0])
    assert (one["words"], one["share"], one["rows"]) == (["a"], 0.5, [[0.1]])
    assert (end["words"], end["share"], end["node"]) == (["a", "end"], 0.4, None)


def test_what_can_be_followed_and_how_shares_are_told(js):
    body = "return data.map(module.isOpen)"
    candidates = [["a", 0.1, 3], ["a", 0.1, None], ["end", 0.1, None]]
    assert js("decoding_stepper.js", body, candidates) == [True, False, True]
    body = "return data.map(module.percent)"
    told = js("decoding_stepper.js", body, [1, 0.485, 0.012, 0.0004, 0])
    assert told == ["100 %", "49 %", "1.2 %", "< 0.1 %", "0.0 %"]
    body = "return module.judged(data, ['a b'])"
    assert js("decoding_stepper.js", body, ["a", "b", "end"]) == "a right translation"
    assert js("decoding_stepper.js", body, ["b", "end"]) == "no right translation"


# --- In a browser ---------------------------------------------------------------------


def status(page):
    return page.get_by_role("status").inner_text()


def choices(page):
    return page.locator(".dec-choice b").all_inner_texts()


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def test_a_translation_is_written_word_by_word(show):
    page = show(stepper())
    assert status(page) == "Nothing is written yet."
    assert choices(page)[:2] == ["esuaceb", "amme"]
    assert page.locator(".dec-map tr").count() == 2  # the head, and the step to come
    press(page, "next word")
    assert status(page).startswith("esuaceb: 4")
    assert page.locator(".dec-map tr").count() == 3
    for _ in range(8):
        press(page, "next word")
    assert status(page).endswith("a right translation.")
    assert choices(page) == []
    assert page.get_by_role("button", name="next word").is_disabled()
    press(page, "back")
    assert choices(page)[0] == "end"
    press(page, "start again")
    assert status(page) == "Nothing is written yet."


def test_another_word_may_be_taken_and_leads_elsewhere(show):
    page = show(stepper())
    page.get_by_role("button", name="amme, ", exact=False).click()
    assert status(page).startswith("amme: 4")
    assert choices(page)[0] == "eht"


def test_keys_write_and_take_back(show):
    page = show(stepper(text=1))
    page.get_by_role("button", name="next word").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert status(page).startswith("eht: ")
    page.keyboard.press("Home")
    assert status(page) == "Nothing is written yet."


def test_the_beams_follow_the_number_of_words_and_of_beams(show):
    page = show(stepper())
    assert page.locator(".dec-beams").inner_text() == "nothing is written yet"
    for _ in range(9):
        press(page, "next word")
    kept = page.locator(".dec-beams b").all_inner_texts()
    assert {" ".join(each.words) for each in mirror.translations(TEXTS[0])} == set(kept)
    page.get_by_label("beams").select_option("3")
    assert page.locator(".dec-beams li").count() == 3


def test_another_sentence_starts_anew(show):
    page = show(stepper())
    press(page, "next word")
    page.get_by_label("translate").select_option(TEXTS[1])
    assert status(page) == "Nothing is written yet."
    assert page.locator(".dec-map th[scope=col]").count() == 5


@each_look
def test_the_stepper_is_accessible_and_fits(show, theme, width):
    page = show(stepper(), theme=theme, width=width)
    for _ in range(4):
        press(page, "next word")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_words_are_shown_as_they_are_whatever_they_hold(show):
    words = [word for word in HOSTILE if word and word != "\ud800"]
    candidates = [[word, 0.1, None] for word in words]
    tree = {
        "source": words,
        "nodes": [{"candidates": candidates, "weights": [0.1] * len(words)}],
        "beams": {str(n): [[["<b>", 0.5]]] for n in (1, 2, 3)},
        "right": [],
    }
    page = show(DecodingStepper([tree]))
    assert choices(page) == words


def test_without_scripts_the_likeliest_text_is_read(show):
    page = show(stepper(), java_script_enabled=False)
    assert "translated word by word" in page.locator(".eta-still").inner_text()
