"""Promises to a finger: it scrolls from any view, and moves what it takes hold of."""

import pytest
from book.views import EncoderLab, NormMicroscope
from views.test_dials import word_order
from views.test_mask_lab_browser import lab as mask_lab
from views.test_ring_lift import lift

PHONE = {"width": 390, "height": 844, "has_touch": True, "is_mobile": True}
SPACE = "<div style='height: 900px'></div>"


def touch(page, *points):
    """Put a finger on the first point, take it to the others, lift it."""
    client = page.context.new_cdp_session(page)
    send = "Input.dispatchTouchEvent"
    for i, (x, y) in enumerate(points):
        kind = "touchMove" if i else "touchStart"
        client.send(send, {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    client.send(send, {"type": "touchEnd", "touchPoints": []})


def drag(page, start, by, steps=8):
    """Drag a finger; return how far the page has scrolled."""
    (x, y), (right, down), before = start, by, page.evaluate("scrollY")
    parts = [i / steps for i in range(steps + 1)]
    touch(page, *((x + right * part, y + down * part) for part in parts))
    return page.evaluate("scrollY") - before


def centre(page, selector):
    """Bring a node to the middle of the screen; return where its own middle is."""
    node = page.locator(selector).first
    node.evaluate("(node) => node.scrollIntoView({ block: 'center' })")
    box = node.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def texts(page):
    """Return what views say and which of their buttons are pressed."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".eta-box")].map((box) => [
        box.textContent, ...[...box.querySelectorAll("[aria-pressed]")].map(
        (node) => node.ariaPressed)])"""
    )


@pytest.fixture
def phone(show):
    """A page of the views that a finger drags in, on a telephone."""
    views = lift(), word_order(), NormMicroscope(), mask_lab(), EncoderLab()
    return show(SPACE, *views, SPACE, **PHONE)


TRAPS = (
    ".lift-space",
    ".order-list .eta-strip",
    ".mask-flow td > .mask-cell",
    ".lab-pad",
)


def test_a_finger_scrolls_the_page_from_every_view_and_changes_nothing(phone):
    before = texts(phone)
    for selector in TRAPS:
        assert drag(phone, centre(phone, selector), (4, -150)) > 100, selector
    x, y = centre(phone, ".lift-plane")
    assert drag(phone, (x + 140, y + 140), (0, -150)) > 100
    box = phone.locator(".eta-norm-bars").first
    x, y = centre(phone, ".eta-norm-bars")
    assert drag(phone, (x, y + box.bounding_box()["height"] * 0.4), (0, -150)) > 100
    assert texts(phone) == before


def test_a_finger_moves_what_it_takes_hold_of(phone):
    seen = [texts(phone)]
    for selector, by in (
        (".lift-unit:nth-child(2) .lift-tip", (0, 60)),
        (".lift-unit:nth-child(3) .lift-foot", (0, 60)),
        (".lift-space", (60, 30)),
        (".order-word", (0, 60)),
        (".eta-norm-held", (0, 40)),
        (".mask-flow td > .mask-cell", (60, 0)),
    ):
        cloud = phone.locator(".lift-space").inner_html()
        assert drag(phone, centre(phone, selector), by) == 0, selector
        seen.append([texts(phone), cloud])
        assert seen[-1] != seen[-2], selector
    pressed = phone.locator(".mask-flow td > [aria-pressed='true'][data-i='0']")
    assert pressed.count() >= 3  # the stroke, and the padding


def test_a_tap_paints_one(phone):
    phone.locator(".mask-flow td > .mask-cell").first.tap()
    assert phone.locator(
        ".mask-cell[data-i='0'][data-j='0'][aria-pressed='true']"
    ).count()
    phone.locator(".lab-pad").nth(1).tap()
    assert phone.locator(".lab-pad[aria-pressed='true']").count() == 1


def test_what_a_finger_presses_is_large_enough(phone):
    small = phone.evaluate(
        """() => [...document.querySelectorAll(".eta-box :is(button, select)")]
        .filter((node) => node.offsetParent)
        .filter((node) => node.getBoundingClientRect().height < 36)
        .map((node) => node.outerHTML.slice(0, 90))"""
    )
    assert small == []
