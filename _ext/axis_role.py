"""The role {axis}`B,T,D`: letters of axes, each in the colour of its axis."""

from docutils import nodes

AXES = "BTDHKFVL"


def axis_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """Turn "T" or "B,T,D" into one coloured letter an axis, separated by commas."""
    letters = [letter.strip() for letter in text.split(",")]
    if unknown := [letter for letter in letters if letter not in list(AXES)]:
        message = f"{{axis}}`{text}`: no axis {unknown[0]!r}, only {', '.join(AXES)}"
        error = inliner.reporter.error(message, line=lineno)
        return [inliner.problematic(rawtext, rawtext, error)], [error]
    parts = []
    for letter in letters:
        coloured = nodes.inline("", letter, classes=[f"axis-{letter}"])
        parts += [nodes.Text(", "), coloured]
    return parts[1:], []


def setup(app):
    app.add_role("axis", axis_role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
