"""Draw the pictures that stand for the book elsewhere: the built book, photographed.

    pictures.py FOLDER      the folder of the built book

Writes .github/book.png, what the README shows, and chapters/_static/card.png, what a
shared link shows.
"""

import sys
from pathlib import Path

from chrome import chrome

ROOT = Path(__file__).parent.parent
CARD = """<!DOCTYPE html><style>
body { margin: 0; width: 1200px; height: 630px; display: flex; align-items: center;
  font-family: sans-serif; color: #1b2733; background: #fff; overflow: hidden; }
main { width: 590px; padding-left: 70px; }
main img { width: 110px; margin-left: -8px; }
h1 { font-size: 66px; line-height: 1.1; margin: 18px 0 26px; font-weight: 600; }
p { font-size: 28px; line-height: 1.45; margin: 0; color: #475563; }
svg.book-map { height: 600px !important; width: auto !important; margin: 0 !important; }
</style><main>%s<h1>The Encoder, Taken Apart</h1>
<p>A Transformer encoder you can touch, break and put back. Nothing is merely
asserted.</p></main>%s"""


def photograph(page, address, path, size):
    """Save what a window of this size shows of an address."""
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.goto(address)
    page.wait_for_function("document.fonts.status === 'loaded'")
    page.screenshot(path=path)


def card():
    """Return the picture of a shared link as a page: name, promise, and the map."""
    logo = (ROOT / "chapters/_static/logo.svg").as_uri()
    drawing = (ROOT / "chapters/figures/encoder_map.svg").read_text(encoding="utf-8")
    return CARD % (f'<img src="{logo}">', drawing)


def main(book):
    with chrome() as browser:
        page = browser.new_page(color_scheme="light")
        first = Path(book, "chapters/intro.html").resolve().as_uri()
        photograph(page, first, ROOT / ".github/book.png", (1280, 860))
        drawn = Path(book, "card.html").resolve()
        drawn.write_text(card(), encoding="utf-8")
        target = ROOT / "chapters/_static/card.png"
        photograph(page, drawn.as_uri(), target, (1200, 630))
        drawn.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])
