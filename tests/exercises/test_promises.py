"""What the text of an exercise names still works when the whole page has run.

Of every chapter it is read off the code: what an exercise or a hint calls is there, and
the helpers that it names read no name of the page that a later cell binds again. Of
some exercises the promise itself is run, after the last of the cells that bind what it
needs: `PROMISES`. `make notebooks` runs all cells.
"""

import ast
import builtins
import json
import re
import symtable
from functools import cache

import nbformat
import pytest
import torch
from common import ROOT
from nbclient import NotebookClient

CHAPTERS = sorted(path.stem for path in ROOT.glob("chapters/[0-9]*.ipynb"))

AT_ONCE = {"listcomp", "setcomp", "dictcomp", "genexpr"}  # what a line runs through

# Statements that follow the hints of the exercises, by page.
PROMISES = {
    "01_inputs": """
        assert (positions(50, 2)[1:] - positions(1, 2)).norm(dim=1).argmin() == 43
        angles = torch.tensor([5.0, 0.05], dtype=torch.float64)
        by_hand = torch.stack((angles.sin(), angles.cos()), dim=1).flatten()
        assert (positions(6, 4)[5] - by_hand).abs().max() < 1e-6
        rooted, bare = (
            run_on(lambda i, t: root * t[i] + positions(i.shape[1], 16).float())
            for root in (4, 1)
        )
        assert "she" in rooted and "1.00" in rooted and "1.00" not in bare
    """,
    "02_attention": """
        places = sinusoidal_positions(len(text), 16).float()
        whole = places[1:], places[:-1]
        back = torch.linalg.lstsq(*whole, driver="gelsd").solution
        seen = attention(100 * places @ back, places, places)[1]
        assert seen.diagonal(-1).min() > 0.9
    """,
    "03_multi_head": """
        heads = block.unflatten(-1, (3, 2)).transpose(1, 2)
        assert (heads == 14).nonzero().tolist() == [[0, 2, 1, 0]]
        same = heads == block.reshape(1, 3, 3, 2)
        assert same[heads == 24].all() and not same[heads == 14].any()
        word, place = torch.eye(6).split(3)
        part = MultiHeadAttention(6, n_heads=2)
        part.query.weight.data = 100 * torch.cat((place.roll(-1, 0), place.roll(1, 0)))
        part.key.weight.data = torch.cat((place, place))
        part.value.weight.data = torch.cat((word, word))
        part.output.weight.data = torch.eye(6)
        order = torch.eye(3)[[2, 0, 1]]
        told = part(torch.cat((order, torch.eye(3)), dim=1)[None])[0][0]
        wanted = torch.cat((order.roll(1, 0), order.roll(-1, 0)), dim=1)
        assert (told - wanted).abs().max() < 1e-4
    """,
    "04_feed_forward": """
        part = FeedForward(d_model=8, d_ff=3).requires_grad_(False)
        for values in part.parameters():
            values.zero_()
        for unit, seen in enumerate(([0, 3], [1, 4], [2, 4])):
            part.up.weight[unit, seen], part.up.bias[unit] = 1, -1
            part.down.weight[5 + unit, unit] = 1
        words = torch.eye(8)
        assert (part(words[:3] + words[[3, 4, 4]]) == words[5:]).all()
        assert not part(torch.stack((words[0] + words[4], words[0], words[3]))).any()
    """,
    "05_layer_norm": """
        bare = signs.stack(KINDS["residual only"])
        assert signs.vital_signs(bare)["size"][-1] > 1000
        KINDS["scaled"] = lambda part, norm, x: x + part(x) / 48**0.5
        assert signs.vital_signs(signs.stack(KINDS["scaled"]))["size"][-1] < 3
        names = [n for n, _ in EncoderLayer(64, 4, 256).named_parameters()]
        assert "attention.output.weight" in names
        assert lab.guesses(lab.load(), blank)[5][0][0] == "she"
    """,
    "06_masks": """
        ids = torch.tensor([[lab.WORDS.index(word) for word in sentence]])
        front = torch.cat((torch.zeros(1, 2, dtype=torch.long), ids), dim=1)
        x, padded = encoder.embed(ids), encoder.embed(front)
        moved = encoder.layers[0](padded, torch.arange(10)[None] < 2)[0][:, 2:]
        assert (moved - encoder.layers[0](x)[0]).abs().max() > 0.1
        padded += encoder.positions.table[:10].roll(2, 0)
        padded -= encoder.positions.table[:10]
        far = torch.ones(1, 1, 10, 10, dtype=torch.bool)
        far[..., 2:, 2:] = False
        moved = encoder.layers[0](padded, blocked=far)[0][:, 2:]
        assert (moved - encoder.layers[0](x)[0]).abs().max() < 1e-4
        last = torch.tensor([[False, False, True]])
        assert (mean_of_words(torch.ones(1, 3, 4), last) == 1).all()
    """,
    "07_encoder": """
        ours = shake(EncoderLayer(64, 4, 256))
        assert gap(ours(x, padding)[0], ours(x, padding)[0]) == 0
        assert gap(ours(x)[0], ours(x, padding)[0]) > 0.01
        assert len({id(next(layer.parameters())) for layer in stacks["six calls"]}) == 6
    """,
    "08_training": """
        assert abs(blind["obvious"] - (1 + (62 / 63) ** 10) / 2) < 0.01
        ids, is_pad = match_batch(4, seeded(3))[:2]
        sound, ill = (fresh(name).encoder for name in "AB")
        far = [moved_by_padding(encoder, ids, is_pad) for encoder in (sound, ill)]
        assert far[0] < 1e-5 < far[1]
        last, changed = (~is_pad[0]).sum() - 1, ids.clone()
        changed[0, last] = ids[0, last] % 31 + 1
        moved = (sound(ids, is_pad)[0] - sound(changed, is_pad)[0])[0, 0]
        assert moved.abs().max() > 1e-5
        sound(ids, is_pad)[0][~is_pad].pow(3).mean().backward()
        silent = [n for n, p in sound.named_parameters() if p.grad.abs().max() < 1e-7]
        assert all(name.endswith("key.bias") for name in silent)
    """,
    "09_pitfalls": """
        from encoder import EncoderLayer

        failed = [fails(case.build(), *case.inputs()) for case in six]
        assert sum("moved by padding" in each for each in failed) == 2
        assert failed.count([]) == 2
        layer = EncoderLayer(32, 4, 64).eval()
        part = dict(layer.attention.named_children())
        part |= dict(layer.feed_forward.named_children())
        part |= dict(layer.named_children())
        x, is_pad = torch.randn(2, 6, 32), torch.arange(6) > torch.tensor([[5], [3]])
        other = x + is_pad[..., None]
        moved = broken(other, is_pad, part) - broken(x, is_pad, part)
        assert moved[~is_pad].abs().max() > 0.01
    """,
    "11_decoder": """
        assert causal_mask(7)[:3, :3].sum() == 3
        memory, _ = model.pair.encoder(source, source == mirror.PAD)
        masks = dict(memory_padding_mask=source == mirror.PAD)
        hidden, _, _ = model.pair.decoder(start, memory, **masks)
        first = model.pair.decoder.score(hidden)[0, -1].argmax()
        assert mirror.WORDS[first] == "esuaceb"
    """,
}


def cells_for(source, others):
    """Return, in order, the cells that a statement needs after all of them have run.

    What a line reads was bound last before it. What a function reads may be bound again
    further down, so all cells that bind it are needed.
    """
    trees = [ast.parse(cell.source) for cell in others]
    binds, needed, todo = [*map(bound, trees)], set(), [(ast.parse(source), len(trees))]
    while todo:
        tree, at = todo.pop()
        by_lines, by_functions = reads(tree)
        found = {i for i, names in enumerate(binds) if names & by_functions}
        for name in by_lines:
            found.update([i for i in range(at) if name in binds[i]][-1:])
        todo += [(trees[i], i) for i in found - needed]
        needed |= found
    return [cell for i, cell in enumerate(others) if i in needed]


def reads(tree):
    """Return the names that a cell's lines read and did not bind, and its functions."""
    by_lines, by_functions, own = set(), set(), set()
    for node in tree.body:
        new = bound(ast.Module([node], []))
        known = own | new if isinstance(node, ast.For) else own
        table = symtable.symtable(ast.unparse(node), "", "exec")
        by_lines |= {name for name, late in read_in(table) if not late} - known
        by_functions |= {name for name, late in read_in(table) if late}
        by_lines |= new - own if isinstance(node, ast.AugAssign) else set()
        own |= new
    return by_lines, by_functions


def read_in(table, late=False):
    """Yield each name of the page that is read; late is what a function reads."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name(), late
    for inner in table.get_children():
        function = inner.get_type() == "function" and inner.get_name() not in AT_ONCE
        yield from read_in(inner, late or function)


def test_a_cell_that_binds_a_name_again_is_needed_too():
    sources = ["x = 1", "y = 2", "def f():\n    return x", "print(y)", "x = 3"]
    others = [nbformat.v4.new_code_cell(source) for source in sources]
    needed = [cell.source for cell in cells_for("assert f() == 3", others)]
    assert needed == [sources[0], sources[2], sources[4]]


def test_a_line_needs_what_was_bound_last_before_it():
    sources = ["x = 1", "x = 2", "y = [x for _ in 'ab']", "x = 3", "y[0] += 1"]
    others = [nbformat.v4.new_code_cell(source) for source in sources]
    needed = [cell.source for cell in cells_for("assert y == [2, 2]", others)]
    assert needed == sources[1:3]


@pytest.mark.parametrize("page", PROMISES)
def test_the_named_helpers_work_at_the_end_of_the_page(page):
    notebook = nbformat.read(ROOT / f"chapters/{page}.ipynb", as_version=4)
    lines = PROMISES[page].strip("\n").splitlines()
    source = "\n".join(line.removeprefix(" " * 8) for line in lines)
    setup, *others = [cell for cell in notebook.cells if cell.cell_type == "code"]
    promise = nbformat.v4.new_code_cell(source)
    notebook.cells = [setup, *cells_for(source, others), promise]
    options = {"timeout": 300, "kernel_name": "python3"}
    NotebookClient(notebook, **options, resources={}).execute(cwd=ROOT / "chapters")


# Read off the code of every chapter


@cache
def cells(page):
    stored = json.loads((ROOT / f"chapters/{page}.ipynb").read_text())["cells"]
    return [(cell["cell_type"], "".join(cell["source"])) for cell in stored]


def code(page):
    return [(at, text) for at, (kind, text) in enumerate(page) if kind == "code"]


def is_definition(node):
    return isinstance(node, ast.FunctionDef | ast.ClassDef)


def bound(tree):
    """Return the names that a cell binds outside of its functions and classes."""
    names = set()
    for node in tree.body:
        for part in [node] if is_definition(node) else ast.walk(node):
            if is_definition(part):
                names.add(part.name)
            if isinstance(part, ast.alias):
                names.add((part.asname or part.name).split(".")[0])
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    return names


def bindings(page):
    """Return the cells that bind each name of a page."""
    found = {}
    for at, text in code(page):
        for name in bound(ast.parse(text)):
            found.setdefault(name, []).append(at)
    return found


def helpers(page):
    """Return each function's and class's last cell, and the globals that it reads."""
    return {
        node.name: (
            at,
            set(globals_of(symtable.symtable(ast.unparse(node), "", "exec"))),
        )
        for at, text in code(page)
        for node in ast.parse(text).body
        if is_definition(node)
    }


def globals_of(table, inside=False):
    for symbol in table.get_symbols():
        if inside and symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for child in table.get_children():
        yield from globals_of(child, inside=True)


def named(page):
    """Yield each piece of code in the text of a page's exercises, as a tree."""
    for kind, text in page:
        if kind == "markdown" and "{exercise}" in text:
            for piece in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
                try:
                    yield ast.parse(piece, mode="eval")
                except SyntaxError:
                    continue  # a role, a shape, a piece of a line


def absent(page):
    """Return what the exercises of a page call and nobody has defined."""
    known = bindings(page).keys() | vars(builtins).keys()
    called = {
        node.func.id
        for tree in named(page)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {name for name in called - known if not hasattr(torch.Tensor, name)}


def shaken(page):
    """Return (helper, global) where a later cell binds what a named helper reads."""
    where, known, found, seen = bindings(page), helpers(page), set(), set()
    todo = [
        node.id
        for tree in named(page)
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
    ]
    while todo:
        helper = todo.pop()
        if helper in seen or helper not in known:
            continue
        seen.add(helper)
        at, reads = known[helper]
        for name in reads:
            places = where.get(name, [at])
            if min(places) <= at < max(places):
                found.add((helper, name))
        todo += reads
    return found


@pytest.mark.parametrize("page", CHAPTERS)
def test_what_an_exercise_calls_is_there(page):
    assert absent(cells(page)) == set()


@pytest.mark.parametrize("page", CHAPTERS)
def test_no_later_cell_changes_what_a_named_helper_reads(page):
    assert shaken(cells(page)) == set()


def test_a_name_bound_again_and_one_that_is_not_there_are_found():
    """The second exercise of chapter 6 was broken so: `alone` became a list."""
    page = [
        ("code", "alone = 1\n\ndef leak(x):\n    return x - alone"),
        ("code", "def drift(x):\n    return leak(x) + 1"),
        (
            "markdown",
            ":::{exercise} One\nUse `drift(5)` and `x.mean()`, not `gone(5)`.",
        ),
        ("code", "for alone in [[1]]:\n    pass"),
    ]
    assert shaken(page) == {("leak", "alone")}
    assert shaken(page[:3]) == set()
    assert absent(page) == {"gone"}
