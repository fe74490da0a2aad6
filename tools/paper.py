"""Print the built book as one PDF: paper.py FOLDER FILE.pdf

Chromium prints every page in the book's own print style, and pypdf joins them: title,
contents, page numbers, bookmarks, and links between chapters that stay in the file.
(One long HTML page would do without pypdf, but two chapters in one document share ids
and scripts. pypdf is pure Python, maintained, and needs nothing else.)
"""

import io
import sys
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from chrome import chrome
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, NameObject, TextStringObject

ROOT = Path(__file__).parent.parent
FRONT = """<!DOCTYPE html><html lang="en"><meta charset="utf-8">
<title>The Encoder, Taken Apart</title><style>
@page { size: A4; margin: 20mm; }
body { font: 10.5pt/1.45 sans-serif; color: #1b2733; margin: 0; }
img { height: 32mm; margin-top: 45mm; }
h1 { font-size: 34pt; line-height: 1.15; margin: 8mm 0 4mm; }
h2 { break-before: page; margin: 0 0 4mm; } h3 { margin: 3mm 0 1mm; }
p { margin: 1mm 0; } a { color: inherit; text-decoration: none; display: flex; }
a span { margin-left: auto; }
</style><img src="_static/logo.svg" alt=""><h1>The Encoder, Taken Apart</h1>
<p>%s</p><p>On paper the figures stand still. In the book they can be touched.</p>
<h2>Contents</h2>%s</html>"""
NUMBERS = """<!DOCTYPE html><title>Page numbers</title><style>
@page { size: A4; margin: 0; } body { margin: 0; font: 9pt sans-serif; color: #444; }
div { height: 297mm; break-after: page; display: flex; align-items: flex-end;
  justify-content: center; padding-bottom: 9mm; box-sizing: border-box; }
</style>%s"""


class Press:
    """A Chromium that prints pages of a book."""

    def __init__(self, page, book):
        self.page, self.book = page, Path(book).resolve()

    def chapter(self, name):
        """Return the title of a page of the book, its imprint, and it as a PDF."""
        self.page.goto((self.book / f"{name}.html").as_uri())
        self.page.evaluate("window.MathJax?.startup?.promise")
        title = self.page.locator("article h1").first.inner_text().rstrip("#").strip()
        imprint = self.page.locator(".extra_footer").first.text_content().strip()
        return title, imprint, self.pdf()

    def text(self, html):
        """Return HTML as a PDF; what it links to is relative to the book."""
        drawn = self.book / "printed.html"
        drawn.write_text(html, encoding="utf-8")
        self.page.goto(drawn.as_uri())
        drawn.unlink()
        return self.pdf()

    def pdf(self):
        data = self.page.pdf(
            format="A4", prefer_css_page_size=True, outline=True, tagged=True
        )
        pdf = PdfReader(io.BytesIO(data))
        name_bookmarks(pdf.outline, self.page.locator("h1, h2, h3").all_inner_texts())
        return pdf


def name_bookmarks(outline, headings):
    """Give bookmarks the words of their headings.

    Where a heading wraps, Chromium drops the space; where a page would end behind it,
    it writes the heading twice.
    """
    names = {bare(text): " ".join(text.rstrip("#").split()) for text in headings}
    names |= {2 * short: name for short, name in names.items()}
    for item in outline:
        if isinstance(item, list):
            name_bookmarks(item, headings)
        elif bare(item.title) in names:
            name = TextStringObject(names[bare(item.title)])
            item.node[NameObject("/Title")] = name


def bare(text):
    return "".join(text.rstrip("#").split())


def parts():
    """Return the table of contents: pairs of a caption and the names of its pages."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    rest = [(p["caption"], [c["file"] for c in p["chapters"]]) for p in toc["parts"]]
    return [("", [toc["root"]]), *rest]


def contents(titles, pages):
    """Return the contents as HTML, with the number of each chapter's first page."""
    lines = []
    for caption, names in parts():
        lines += [f"<h3>{escape(caption)}</h3>"] if caption else []
        for name in names:
            text = f"{escape(titles[name])}<span>{pages[name]}</span>"
            lines.append(f'<p><a href="{name}.html">{text}</a></p>')
    return "".join(lines)


def first_pages(printed, begin):
    """Return the number of the page on which each printed chapter begins."""
    pages = {}
    for name, (_, _, pdf) in printed.items():
        pages[name], begin = begin, begin + len(pdf.pages)
    return pages


def number(writer, press):
    """Write its number at the foot of every page but the title."""
    feet = "".join(f"<div>{n}</div>" for n in range(1, len(writer.pages) + 1))
    for page, foot in list(
        zip(writer.pages, press.text(NUMBERS % feet).pages, strict=True)
    )[1:]:
        page.merge_page(foot)
        page.compress_content_streams()


def link(writer, pages, book):
    """Turn links to files of the book into links to pages, or into nothing."""
    for page in writer.pages:
        for annotation in page.get("/Annots", []):
            action = annotation.get_object().get("/A", {})
            url = urlsplit(str(action.get("/URI", "")))
            if url.scheme == "file":
                target = Path(unquote(url.path)).with_suffix("")
                name = str(target.relative_to(book)) if book in target.parents else ""
                del annotation.get_object()["/A"]
                if name in pages:
                    place = [writer.pages[pages[name] - 1].indirect_reference]
                    place = ArrayObject([*place, NameObject("/Fit")])
                    annotation.get_object()[NameObject("/Dest")] = place


def make(press):
    """Return the whole book as a PdfWriter."""
    names = [name for _, names in parts() for name in names]
    printed = {name: press.chapter(name) for name in names}
    titles = {name: title for name, (title, _, _) in printed.items()}
    imprint = printed[names[0]][1]
    begin = 1  # a first print of the contents tells how many pages they take
    for _ in range(2):
        pages = first_pages(printed, begin)
        front = press.text(FRONT % (escape(imprint), contents(titles, pages)))
        begin = len(front.pages) + 1
    writer = PdfWriter()
    writer.append(front)
    for _, _, pdf in printed.values():
        writer.append(pdf)
    link(writer, first_pages(printed, begin), press.book)
    number(writer, press)
    writer.add_metadata({"/Title": "The Encoder, Taken Apart"})
    writer.compress_identical_objects()
    return writer


def main(book, path):
    with chrome() as browser:
        writer = make(Press(browser.new_page(color_scheme="light"), book))
    writer.write(path)
    size = Path(path).stat().st_size
    print(f"{path}: {len(writer.pages)} pages, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
