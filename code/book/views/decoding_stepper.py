"""A view of chapter 11: a decoder writes, and the reader may choose another word."""

from collections.abc import Sequence

from taken_apart.views import View, html_text

from . import JS


class DecodingStepper(View):
    """Step through a translation: next words, where each step looks, and the beams.

    `trees` has a tree for each source, as `decoding_tree` of
    `book.models.mirror_language` makes it. `text` is the tree to begin with and `width`
    the number of beams. Live, `text`, `width` and `path` are synced: the choice taken
    at each step, 0 for the likeliest word. Raises ValueError for no tree, and for a
    number of beams other than 1, 2 or 3.
    """

    module = JS / "decoding_stepper/decoding_stepper.js"
    styles = (JS / "decoding_stepper/decoding_stepper.css",)

    def __init__(self, trees: Sequence[dict], *, text: int = 0, width: int = 2):
        if not trees or not 0 <= text < len(trees):
            raise ValueError(f"text must be one of {len(trees)} trees, got {text}")
        if width not in (1, 2, 3):
            raise ValueError(f"width must be 1, 2 or 3 beams, got {width}")
        super().__init__(trees=list(trees), text=text, width=width, path=[])

    def summary(self) -> str:
        sources = (" ".join(tree["source"]) for tree in self.state["trees"])
        return "; ".join(sources)

    def still(self) -> str:
        """Return the likeliest text word by word: its share, and where it looks."""
        tree = self.state["trees"][self.state["text"]]
        rows, node = [], tree["nodes"][0]
        while node is not None:
            word, share, child = node["candidates"][0]
            weight, looks = max(zip(node["weights"], tree["source"], strict=True))
            cells = f"<td>{share:.2f}</td><td>{html_text(looks)} {weight:.2f}</td>"
            rows.append(f'<tr><th scope="row">{html_text(word)}</th>{cells}</tr>')
            node = None if child is None else tree["nodes"][child]
        head = "<tr><th>next word</th><th>its share</th><th>looks most at</th></tr>"
        source = html_text(" ".join(tree["source"]))
        caption = f"<caption>{source}, translated word by word</caption>"
        return f"<table>{caption}{head}{''.join(rows)}</table>{self.beams(tree)}"

    def beams(self, tree: dict) -> str:
        """Return what a search has kept at its end, as HTML."""
        kept = tree["beams"][str(self.state["width"])][-1]
        texts = (f"<li>{share:.2f}: {html_text(said)}</li>" for said, share in kept)
        return f"<p>Kept by {len(kept)} beams:</p><ul>{''.join(texts)}</ul>"
