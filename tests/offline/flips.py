"""Ask of each claim that a notebook settles: would its check fail if it were wrong?

The strict run of the notebooks loads this beside the cut network. When a cell calls
`claim`, its check is put beside its mutants, in the cell's own names, and a comparison
that no mutant turns red stops the cell. There are two kinds. A comparison is turned
round: that shows that nothing about it, an `or` or an `any`, makes up for it. And its
data are moved to what a wrong verdict would have shown: nothing, all, the rest of it,
half or twice as much, or what stands on another side of the check, such as its control.
A threshold so wide that none of these crosses it decides nothing.
"""

import ast
import sys
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from functools import wraps
from io import StringIO

from executing import Source

OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
MOVES = {
    "nothing": lambda value: value * 0,
    "all": lambda value: value * 0 + 1,
    "the rest": lambda value: 1 - value,
    "half": lambda value: value / 2,
    "twice": lambda value: value * 2,
    "one less": lambda value: value - 1,
    "none of them": lambda value: type(value)(),
    "another": lambda value: (value,),
}


class Apart(ast.NodeTransformer):
    """Write a < b < c as (a < b) and (b < c): each comparison has its own data."""

    def visit_Compare(self, node):
        self.generic_visit(node)
        sides = [node.left, *node.comparators]
        pairs = [
            ast.Compare(deepcopy(a), [operator], [deepcopy(b)])
            for a, operator, b in zip(sides, node.ops, sides[1:], strict=False)
        ]
        return pairs[0] if len(pairs) == 1 else ast.BoolOp(ast.And(), pairs)


def comparisons(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]


class Exchanged(ast.NodeTransformer):
    """Put something else in place of one expression."""

    def __init__(self, target, other):
        self.target, self.other = target, other

    def visit(self, node):
        return self.other if node is self.target else self.generic_visit(node)


def mutants(check):
    """Yield each comparison's text with its turned and its moved forms.

    A form is a tree and the name of the move that `__moved` makes in it, "" for none.
    """
    whole = Apart().visit(deepcopy(check))
    for which, comparison in enumerate(comparisons(whole)):
        text = ast.unparse(comparison)
        yield text, iter([(turned(whole, which), "")])
        if places(comparison):
            yield text, movements(whole, which)


def movements(whole, which):
    """Yield the forms in which the data of one comparison are moved."""
    every = [side for node in comparisons(whole) for side in sides(node)]
    for place in places(comparisons(whole)[which]):
        wrapped = moved(whole, which, place)
        yield from ((wrapped, move) for move in MOVES)
        yield from ((moved(whole, which, place, other), "") for other in every)


def turned(whole, which):
    tree = deepcopy(whole)
    node = comparisons(tree)[which]
    node.ops = [OPPOSITE[type(node.ops[0])]()]
    return tree


def is_data(part):
    return isinstance(part, ast.expr) and any(
        isinstance(node, ast.Name) for node in ast.walk(part)
    )


def sides(comparison):
    return [s for s in (comparison.left, *comparison.comparators) if is_data(s)]


def places(comparison):
    """Return where in a comparison data stand, whole sides first."""
    return [
        place
        for place, part in enumerate(ast.walk(comparison))
        if place and is_data(part) and not isinstance(part, ast.Starred)
    ]


def moved(whole, which, place, other=None):
    """Return the check with one part of one comparison moved, or exchanged.

    Without an `other` to stand in its place it is wrapped in `__moved(...)`.
    """
    tree = deepcopy(whole)
    part = list(ast.walk(comparisons(tree)[which]))[place]
    wrap = ast.Name("__moved", ast.Load())
    put = deepcopy(other) if other else ast.Call(wrap, [part], [])
    return Exchanged(part, put).visit(tree)


def is_red(tree, move, names):
    """Return whether a mutant's check is false; one that cannot be judged is not."""
    body = ast.fix_missing_locations(ast.Expression(tree))
    space = names | {"__moved": MOVES.get(move)}
    try:
        return not eval(compile(body, "<mutant>", "eval"), space)
    except Exception:
        return False


def survivors(check, names):
    """Return the comparisons of which no turned form, or no moved one, is red.

    What the mutants print or warn of is not the cell's.
    """
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return [
            text
            for text, forms in mutants(check)
            if not any(is_red(tree, move, names) for tree, move in forms)
        ]


def check_of(call):
    given = {word.arg: word.value for word in call.keywords}
    return given.get("check", (*call.args, None, None, None, None, None)[4])


def watched(claim):
    """Return `claim`, which now also puts the check of its call beside its mutants."""

    @wraps(claim)
    def checked(*args, **kwargs):
        made, frame = claim(*args, **kwargs), sys._getframe(1)
        call = Source.executing(frame).node
        if call is None:
            raise AssertionError(f"{made.id}: its call is not in sight")
        if idle := survivors(check_of(call), frame.f_globals | frame.f_locals):
            raise AssertionError(
                f"{made.id} would be {made.verdict} whatever was measured: no mutant "
                f"of {' or of '.join(dict.fromkeys(idle))} turns its check red"
            )
        return made

    return checked
