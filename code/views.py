"""Views: figures a reader can touch, with no kernel and no network.

A view is a plain object. In a notebook or a built page it shows itself as HTML that
holds everything: style, data, one inlined ES module, and a still figure of the same
content for print and for readers without JavaScript. `view.live()` gives an ipywidget
of the very same module, synced with the kernel.

The drawing lives in `js/`: plain ES modules that may import one another. A module ends
in `export default { render }`, as anywidget wants it.
"""

import base64
import functools
import json
import math
import re
import zlib
from html import escape
from pathlib import Path

import numpy as np

JS = Path(__file__).parent / "js"
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.]+)";\n', re.MULTILINE)
JS_TEXT = r'"[^"\n]*"|`(?:[^`$]|\$\{(?:[^}`]|`[^`]*`)*\}|\$)*`'
JS_SPACE = re.compile(  # groups hold what stays
    rf"({JS_TEXT})|//.*\s*|\s*,\s*(?=[\])}}])|\s*;\s*(?=\}})"
    r"|\s*([{}()\[\];,=<>?:*|&])\s*|\s([-+/])\s(?![-+])|(\s)\s*"
)
CSS_SPACE = re.compile(r"/\*.*?\*/|;?\s*(?=\})|\s*([{};,>])\s*|(:) |(\s)\s*", re.DOTALL)
LAYER = re.compile(r"(?P<path>(.*?\.)??)(?P<number>\d+)(\.(?P<rest>.*))?$")
EXACT_ZERO = 65535  # the code of a weight that is 0, not only rounded to it
MOST = 6.5  # the largest weight that 16 bits hold with 4 decimals


class View:
    """Data and one ES module that draws it; subclasses say `module` and `still()`.

    `state` holds what the module reads through `model.get(name)`: values for JSON, and
    bytes, which arrive as a DataView. Raises TypeError for what JSON cannot hold.
    """

    module = ""  # the file in js/ that has `export default { render }`
    styles = ("axes.css", "views.css")
    plain_size = 65_536  # bytes; a larger state travels deflated and is drawn later

    def __init__(self, **state):
        self.state = state

    def summary(self) -> str:
        """Return what the view holds in a few words, the same at every run."""
        return ""

    def still(self) -> str:
        """Return the content as plain HTML: shown in print and without JavaScript."""
        return f"<p>{html_text(self)}</p>"

    def html(self) -> str:
        """Return HTML that needs nothing else: no network, no kernel, no ids."""
        return (
            f'<div class="eta"><style>{style(self.styles)}</style>'
            f'<div class="eta-root"></div><div class="eta-still">{self.still()}</div>'
            f'<script type="text/eta">{packed(self.state, self.plain_size)}</script>'
            f"<script>{classic_script(self.module)}</script></div>"
        )

    def live(self):
        """Return an ipywidget of the same view whose state is synced with the kernel.

        Each name in the state is a trait: read it, set it, or `observe` it. Needs
        anywidget and a running kernel; works with ipywidgets 7 and 8.
        """
        return live_class(type(self), tuple(self.state))(**self.state)

    def __repr__(self):
        return f"{type(self).__name__}({self.summary()})"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self.html()}


class AttentionMap(View):
    """Attention weights to touch: which token looks at which, in every layer and head.

    `weights`, NumPy or torch: (Tq, Tk); (H, Tq, Tk); (L, H, Tq, Tk), or one layer of a
    batch, (B, H, Tq, Tk), where `tokens` is a list of lists; or a list of L layers, as
    encoders return them, each (H, Tq, Tk) or (B, H, Tq, Tk). `tokens` names queries,
    and keys too unless `key_tokens` does (cross-attention): anything with a `str`, one
    list, or a list of lists, one a sample. `key_padding_mask`, (Tk,) or (B, Tk), is
    bool, True = padding; without it, keys that get exactly zero from every query are
    padding. `layer`, `head` and `sample` are shown first, beside `compare`, a pair
    (layer, head). Weights keep `digits` decimals: 4, or 3 where there are many.

    Raises ValueError for weights that are not finite, negative, empty or of a rank not
    named here, and for tokens or masks that do not fit; TypeError for a mask that is
    not bool.
    """

    module = "attention_map.js"
    styles = ("axes.css", "views.css", "attention_map.css")

    def __init__(
        self,
        weights,
        tokens=None,
        key_tokens=None,
        *,
        key_padding_mask=None,
        layer=0,
        head=0,
        sample=0,
        compare=None,
        digits=None,
    ):
        self.weights = stack_weights(weights, tokens)  # (B, L, H, Tq, Tk)
        B, L, H, Tq, Tk = self.weights.shape
        self.digits = digits or (4 if self.weights.size <= 65_536 else 3)
        shared = key_tokens is None and Tq == Tk
        super().__init__(
            shape=[B, L, H, Tq, Tk],
            query_tokens=token_lists("tokens", tokens, B, Tq),
            key_tokens=None if shared else token_lists("key_tokens", key_tokens, B, Tk),
            padding=padding_lists(self.weights, key_padding_mask),
            sample=place("sample", sample, B),
            layer=place("layer", layer, L),
            head=place("head", head, H),
            compare=None if compare is None else place_pair(compare, L, H),
            pin=None,  # [query, key] that a click has fixed
            scale="all",  # the last colour: largest of "all", of this "map", or "one"
            editable=False,  # live, with `recompute`: a click on a key masks it
            digits=self.digits,
            **encode_weights(self.weights, self.digits),
        )

    def summary(self):
        B, L, H, Tq, Tk = self.state["shape"]
        samples = f"{B} samples, " if B > 1 else ""
        return f"{samples}{L} layers, {H} heads, {Tq} queries, {Tk} keys"

    def still(self):
        """Return the chosen head: as numbers where they fit, else as a drawing."""
        state, (*_, n_queries, n_keys) = self.state, self.state["shape"]
        sample, layer, head = state["sample"], state["layer"], state["head"]
        weights = self.weights[sample, layer, head]
        queries = state["query_tokens"][sample]
        keys = queries if state["key_tokens"] is None else state["key_tokens"][sample]
        small = n_queries <= 16 and n_keys <= 10
        draw = numbers_table if small else strongest_table
        caption = f"Attention weights, layer {layer}, head {head}; rows are queries."
        return draw(weights, queries, keys, caption)

    def live(self, recompute=None):
        """Return the ipywidget; `recompute` lets the reader mask keys in the page.

        `recompute(key_padding_mask)` takes the bool array (B, Tk) that the page now
        shows and returns weights in any of the forms that AttentionMap takes.
        """
        widget = super().live()
        if recompute is not None:
            widget.editable = True
            widget.observe(lambda change: self.refresh(widget, recompute), "padding")
        return widget

    def refresh(self, widget, recompute):
        mask = np.array(widget.padding, dtype=bool)
        tokens = self.state["query_tokens"]
        weights = stack_weights(recompute(mask), tokens)
        if weights.shape != self.weights.shape:
            wanted, got = self.weights.shape, weights.shape
            raise ValueError(f"recompute must return weights {wanted}, got {got}")
        with widget.hold_sync():
            for name, value in encode_weights(weights, self.digits).items():
                setattr(widget, name, value)


def stack_weights(weights, tokens) -> np.ndarray:
    """Bring weights of every form that AttentionMap takes to (B, L, H, Tq, Tk)."""
    if isinstance(weights, (list, tuple)):
        layers = [as_array(f"layer {i} of weights", x) for i, x in enumerate(weights)]
    else:
        layers = split_layers(as_array("weights", weights), tokens)
    shapes = sorted({x.shape for x in layers})
    if len(shapes) != 1 or len(shapes[0]) not in (3, 4) or 0 in shapes[0]:
        wanted = "one shape (H, Tq, Tk) or (B, H, Tq, Tk), nothing empty"
        raise ValueError(f"each layer of weights must have {wanted}, got {shapes}")
    stacked = np.stack([x if x.ndim == 4 else x[None] for x in layers], axis=1)
    check_weights(stacked)
    return stacked


def split_layers(weights, tokens):
    """Read one array as a list of layers, by its rank."""
    if weights.ndim not in (2, 3, 4):
        wanted = "(Tq, Tk), (H, Tq, Tk) or (L, H, Tq, Tk), or a list of layers"
        raise ValueError(f"weights must be {wanted}, got {weights.shape}")
    if weights.ndim == 2:
        return [weights[None]]
    return list(weights) if weights.ndim == 4 and not is_batch(tokens) else [weights]


def as_array(name, weights) -> np.ndarray:
    """Take NumPy, torch (any device, any float type) or nested lists as float64."""
    if weights is None:
        raise ValueError(f"{name} is None: run the model with need_weights=True")
    if hasattr(weights, "detach"):  # torch, without importing it
        weights = weights.detach().cpu().double().numpy()
    return np.asarray(weights, dtype=np.float64)


def check_weights(weights):
    if not np.isfinite(weights).all():
        raise ValueError("weights must be finite, got nan or inf")
    low, high = weights.min(), weights.max()
    if low < 0 or high > MOST:
        wanted = f"0..1 (up to {MOST} where dropout scaled them)"
        hint = "are these scores, before the softmax?"
        raise ValueError(
            f"weights must lie in {wanted}, got {low:.3g}..{high:.3g}: {hint}"
        )


def is_batch(tokens) -> bool:
    """Say whether tokens are a list of samples rather than one sample."""
    return tokens is not None and any(isinstance(t, (list, tuple)) for t in tokens)


def token_lists(name, tokens, n_samples, n_tokens) -> list[list[str]]:
    """Return the tokens of each sample as text; positions where there are none."""
    if tokens is None:
        return [[str(i) for i in range(n_tokens)]] * n_samples
    samples = [list(t) for t in tokens] if is_batch(tokens) else [list(tokens)]
    counts = [len(sample) for sample in samples]
    if counts != [n_tokens] * n_samples:
        wanted = f"{n_samples} x {n_tokens}, as the weights have"
        raise ValueError(f"{name} must name {wanted}, got {counts} tokens")
    return [[plain_text(token) for token in sample] for sample in samples]


def padding_lists(weights, mask) -> list[list[int]]:
    """Return 1 for each key that is padding: given, or zero for every query."""
    if mask is None:
        return (weights == 0).all(axis=(1, 2, 3)).astype(int).tolist()
    mask = np.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
    if mask.dtype != bool:
        raise TypeError(
            f"key_padding_mask must be bool, True = padding, got {mask.dtype}"
        )
    wanted = (weights.shape[0], weights.shape[-1])
    if mask.shape != wanted and (1, *mask.shape) != wanted:
        raise ValueError(
            f"key_padding_mask must be (B, Tk) = {wanted}, got {mask.shape}"
        )
    return mask.reshape(wanted).astype(int).tolist()


def place(name, index, count) -> int:
    """Return an index counted from the front; as in Python, -1 is the last."""
    if not -count <= index < count:
        raise ValueError(f"{name} must lie in {-count}..{count - 1}, got {index}")
    return int(index) % count


def place_pair(pair, n_layers, n_heads) -> list[int]:
    layer, head = pair
    return [place("layer", layer, n_layers), place("head", head, n_heads)]


def encode_weights(weights, digits) -> dict[str, bytes]:
    """Round weights to 16 bits, and keep the exact sums of the rows beside them.

    All low bytes come before all high bytes, an order that deflates better.
    """
    codes = np.rint(weights * 10**digits).astype("<u2")
    codes[weights == 0] = EXACT_ZERO
    planes = codes.reshape(-1, 1).view(np.uint8).T
    sums = weights.sum(axis=-1).round(digits).astype("<f4")
    return {"weights": planes.tobytes(), "sums": sums.tobytes()}


def numbers_table(weights, queries, keys, caption) -> str:
    """Return the weights (Tq, Tk) as a table whose cells are shaded."""
    top = weights.max() or 1.0

    def cell(weight):
        share = f"color-mix(in srgb,var(--seq-6) {45 * weight / top:.0f}%,transparent)"
        return f'<td style="background:{share}">{weight:.2f}</td>'

    head = "".join(f'<th scope="col">{html_text(key)}</th>' for key in keys)
    rows = (
        f'<tr><th scope="row">{html_text(query)}</th>{"".join(map(cell, row))}</tr>'
        for query, row in zip(queries, weights)
    )
    body = "".join(rows)
    return f"<table><caption>{caption}</caption><tr><td></td>{head}</tr>{body}</table>"


def strongest_table(weights, queries, keys, caption) -> str:
    """Return the weights (Tq, Tk) as a drawing, and each query's strongest keys."""
    rows = []
    for query, row in zip(queries, weights):
        best = np.argsort(-row, kind="stable")[:3]
        cells = "".join(f"<td>{html_text(keys[k])} {row[k]:.2f}</td>" for k in best)
        rows.append(f'<tr><th scope="row">{html_text(query)}</th>{cells}</tr>')
    title = f"<caption>{caption} Below the map: each query's strongest keys.</caption>"
    return f"{heat_map(weights)}<table>{title}{''.join(rows)}</table>"


def heat_map(weights) -> str:
    """Return the weights (Tq, Tk) as SVG: eight shades, one path a shade."""
    n_queries, n_keys = weights.shape
    shades = np.ceil(8 * weights / (weights.max() or 1.0) - 1e-6).astype(int)
    paths = []
    for shade in range(1, 9):
        cells = zip(*np.nonzero(shades == shade))
        line = "".join(f"M{k} {q}.5h1" for q, k in cells)
        paths.append(f'<path style="stroke:var(--seq-{shade})" d="{line}"/>')
    box = f'viewBox="0 0 {n_keys} {n_queries}" width="{min(480, 14 * n_keys)}"'
    return f'<svg {box} role="img" aria-label="Attention map">{"".join(paths)}</svg>'


class ShapeTracer(View):
    """The lines that ran, with the shapes that met there, to resize and step through.

    `trace` is a `tracer.Trace`, or what its `to_dict()` returns. Sizes given by name,
    as in `T=128`, are where the sliders start; else they start at the traced sizes.
    Raises TypeError for anything else, ValueError for names or sizes that do not fit.
    """

    module = "shape_tracer.js"
    plain_size = 0  # its text deflates to a third
    styles = ("axes.css", "views.css", "shape_tracer.css")

    def __init__(self, trace, **sizes):
        trace = trace.to_dict() if hasattr(trace, "to_dict") else trace
        if not isinstance(trace, dict) or not trace.get("rows"):
            raise TypeError(f"ShapeTracer wants a trace with rows, got {trace!r:.60}")
        self.rows, n_layers = fold_layers(trace["rows"])
        self.name, error = trace["module"], trace["error"]
        known = trace["sizes"] | ({"L": n_layers} if n_layers > 1 else {})
        check_sizes(sizes, known.keys() - trace["relations"].keys())
        super().__init__(
            sizes=known | sizes,
            relations=trace["relations"],
            error=error,
            step=len(self.rows) - 1 if error else 0,
            **encode_rows(self.rows),
        )

    def summary(self):
        sizes = ", ".join(f"{name}={n}" for name, n in self.state["sizes"].items())
        return f"{self.name}, {len(self.rows)} rows, {sizes}"

    def still(self):
        """Return the rows as a table: line, code, operation, shapes, elements."""
        body, before = [], None
        for row in self.rows:
            line = (row["line"], row["code"])
            body.append(still_row(row, line if line != before else ("", "")))
            before = line
        names = ("line", "code", "operation", "shapes", "elements")
        head = "".join(f"<th>{name}" for name in names)
        error = self.state["error"]
        why = f"<p>{html_text(error['message'])}</p>" if error else ""
        return f"<table><tr>{head}{''.join(body)}</table>{why}"


def still_row(row, line) -> str:
    """Return one table row; HTML lets its cells end where the next begins."""
    inputs = " ".join(axes_text(x["axes"]) for x in row["inputs"])
    outputs = " ".join(axes_text(x["axes"]) for x in row["outputs"])
    counts = ", ".join(f"{math.prod(x['shape']):,}" for x in row["outputs"])
    cells = (*line, row["op"], f"{inputs} → {outputs or 'raised'}", counts)
    return "<tr>" + "".join(f"<td>{html_text(cell)}" for cell in cells)


def axes_text(axes) -> str:
    return f"({', '.join(map(str, axes))})".replace("*", "·")


def check_sizes(sizes, names):
    for name, size in sizes.items():
        if name not in names or type(size) is not int or size < 1:
            wanted = f"whole numbers from 1 for names among {sorted(names)}"
            raise ValueError(f"sizes must be {wanted}, got {name}={size!r}")


def fold_layers(rows) -> tuple[list[dict], int]:
    """Keep the first of several layers that ran alike; return also how many ran."""
    layers = {}  # (path, number) of a layer -> what ran in it
    for row in rows:
        if layer := LAYER.match(row["module"]):
            axes = [x["axes"] for x in row["inputs"] + row["outputs"]]
            ran = (layer["rest"], row["line"], row["part"], row["op"], axes)
            layers.setdefault(layer.group("path", "number"), []).append(ran)
    path = next(iter(layers), ("",))[0]
    alike = [ran for (other, _), ran in layers.items() if other == path]
    if len(alike) < 2 or any(ran != alike[0] for ran in alike):
        return rows, 1
    first = next(iter(layers))
    inside = [LAYER.match(row["module"]) for row in rows]
    keys = [layer and layer.group("path", "number") for layer in inside]
    kept = [
        row | {"repeated": key == first}
        for row, key in zip(rows, keys)
        if key in (None, first) or key[0] != path
    ]
    return kept, len(alike)


def encode_rows(rows) -> dict[str, list]:
    """Name each line of source and each array once, and the rows by their places."""
    lines, arrays = {}, {}  # in order: a dict keeps it

    def number(known, key):
        return known.setdefault(key, len(known))

    def array(x):
        return number(arrays, f"{x['dtype']} {','.join(x['axes'])}")

    coded = [
        [
            number(lines, (row["file"], row["line"], row["code"])),
            row["part"],
            row["op"],
            row["module"],
            int(row["depth"] > 0),
            [array(x) for x in row["inputs"]],
            [array(x) for x in row["outputs"]],
            row["note"],
            row["event"],
            int(row.get("repeated", False)),
        ]
        for row in rows
    ]
    return {"lines": [list(x) for x in lines], "arrays": [*arrays], "rows": coded}


def packed(state: dict, plain_size: int) -> str:
    """Return the state as JSON with its bytes in base64, under "$b".

    Beyond plain_size bytes are deflated, under "$z", and the JSON too. Browsers inflate
    asynchronously, behind whatever a page has to run; plain JSON is read on the spot.
    """
    text = to_json(state, "$b", bytes)
    if len(text) <= plain_size:
        return text.replace("<", "\\u003c")  # else "</script>" in a token would end it
    deflate = functools.partial(zlib.compress, level=9)
    return base64_text(deflate(to_json(state, "$z", deflate).encode()))


def to_json(state, key, pack) -> str:
    def as_json(value):
        if isinstance(value, bytes):
            return {key: base64_text(pack(value))}
        raise TypeError(f"a view's state holds JSON or bytes, got {value!r:.60}")

    return json.dumps(state, default=as_json, allow_nan=False)


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def plain_text(value) -> str:
    """Return any object as text that UTF-8 can carry."""
    return str(value).encode("utf-8", "replace").decode()


def html_text(value) -> str:
    """Return any object as text that HTML shows as it is, whatever it holds."""
    return escape(plain_text(value))


@functools.cache
def source(name: str) -> str:
    return (JS / name).read_text(encoding="utf-8")


@functools.cache
def es_module(name: str) -> str:
    """Join an ES module and those it imports, in order, as one without imports."""
    parts = {}

    def add(name):
        for needed in IMPORT.findall(source(name)):
            if needed not in parts:
                add(needed)
        parts[name] = IMPORT.sub("", source(name))

    add(name)
    joined = re.sub(r"^export (?!default)", "", "".join(parts.values()), flags=re.M)
    return re.sub(r"(?<!\w)\((\w+)\)=>", r"\1=>", without_space(JS_SPACE, joined))


@functools.cache
def classic_script(name: str) -> str:
    """Wrap the module as a script that runs anywhere, also from file:// and in CSP."""
    view = es_module(name).replace("export default", "const view=")
    return f"(()=>{{{view}{es_module('shim.js')}mount(view)}})()"


@functools.cache
def style(names: tuple) -> str:
    """Join style sheets, without comments and needless space."""
    return without_space(CSS_SPACE, "".join(map(source, names)))


def without_space(pattern, text) -> str:
    """Keep what the pattern's groups hold, and all that it does not match."""
    return pattern.sub(lambda found: "".join(filter(None, found.groups())), text)


@functools.cache
def live_class(view: type, names: tuple) -> type:
    """Build the widget class of a view: its module, its style, a trait a name."""
    import anywidget  # here, because views need neither a kernel nor widgets
    import traitlets

    traits = {name: traitlets.Any().tag(sync=True) for name in names}
    page = {"_esm": es_module(view.module), "_css": style(view.styles)}
    page["__repr__"] = lambda widget: f"{view.__name__}(...).live()"  # no address
    return type(f"Live{view.__name__}", (anywidget.AnyWidget,), page | traits)


class EncoderLab(View):
    """A small trained encoder that runs again in the page at every change.

    `tokens` is a sentence of its language (see `lab.py`), as one string or a list of at
    most 10 words; "___" is a blank to fill. `padding` lists the places of words that
    are padding. Raises ValueError for words or places it does not have, or too many.

    Live, these traits are synced: `tokens` (list of str), `padding` (list of bool),
    `norm_first` (bool), `off` (list of parts left out: "scale", "positions",
    "layers.0.residual1", "layers.1.head0", ...), `edits` (list of [parameter, row,
    column, value]) and `read`, the place whose guess is shown. `lab.load()` gives the
    same encoder in torch, to compute with what the reader set.
    """

    module = "encoder_lab.js"
    styles = ("axes.css", "views.css", "encoder_lab.css")
    start = "emma ate the soup because ___ was hungry"
    examples = (
        "the old ___ lost her key",
        "paul ___ the bus because he was late",
        "___ wore her ___",
    )

    def __init__(self, tokens=start, padding=()):
        words = tokens.split() if isinstance(tokens, str) else list(tokens)
        check_lab_words(words)
        hidden = {place("padding", each, len(words)) for each in padding}
        super().__init__(
            weights=source("lab_weights.json").encode(),
            examples=list(self.examples),
            tokens=words,
            padding=[i in hidden for i in range(len(words))],
            norm_first=False,
            off=[],
            edits=[],
            read=words.index("___") if "___" in words else 0,
        )

    def summary(self):
        tokens, padding = self.state["tokens"], self.state["padding"]
        shown = (f"[{word}]" if hides else word for word, hides in zip(tokens, padding))
        best, chance = self.guesses()[0]
        return f"{' '.join(shown)}; word {self.state['read']}: {best} {chance:.0%}"

    def run(self):
        """Run the stored encoder in NumPy: output (T, D), and weights (L, H, T, T)."""
        import reference  # a view needs no torch

        ids = [lab_words().index(token) for token in self.state["tokens"]]
        hidden, maps = reference.encoder(
            lab_parameters(),
            np.array([ids]),
            n_heads=stored_lab()["n_heads"],
            key_padding_mask=np.array([self.state["padding"]]),
        )
        return hidden[0], np.concatenate(maps)

    def guesses(self, k=5):
        """Return the k likeliest words at the place that is read, and their chances."""
        output, parameters = self.run()[0][self.state["read"]], lab_parameters()
        logits = parameters["embedding.weight"] @ output + parameters["head.bias"]
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        return [(lab_words()[i], float(chances[i])) for i in np.argsort(-chances)[:k]]

    def still(self):
        """Return the sentence and its guesses in words, the last weights as tables."""
        tokens, read = self.state["tokens"], self.state["read"]
        sentence = html_text(" ".join(tokens))
        guesses = ", ".join(f"{word} {chance:.0%}" for word, chance in self.guesses())
        heads = (
            numbers_table(
                weights, tokens, tokens, f"Attention, last layer, head {head}"
            )
            for head, weights in enumerate(self.run()[1][-1])
        )
        return (
            f'<div class="lab-still"><p>A small trained encoder reads: {sentence}</p>'
            f"<p>Its guesses for word {read}: {guesses}.</p>{''.join(heads)}</div>"
        )


@functools.cache
def stored_lab() -> dict:
    """Read the lab's encoder: sizes, words by kind, and parameters as nested lists."""
    return json.loads(source("lab_weights.json"))


@functools.cache
def lab_words() -> list:
    return [word for words in stored_lab()["kinds"].values() for word in words]


@functools.cache
def lab_parameters() -> dict:
    stored = stored_lab()["parameters"]
    return {name: np.array(values) for name, values in stored.items()}


def check_lab_words(words):
    unknown, longest = set(words) - set(lab_words()), stored_lab()["max_length"]
    if unknown:
        known = " ".join(lab_words())
        raise ValueError(f"the lab does not know {sorted(unknown)}, only: {known}")
    if not 1 <= len(words) <= longest:
        raise ValueError(f"the lab takes 1 to {longest} words, got {len(words)}")
