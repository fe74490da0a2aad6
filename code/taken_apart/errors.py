"""What an error says, in one line."""

import contextlib


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type if it has no text.

    At most 300 characters; an error whose `__str__` raises is named by its type too.
    """
    with contextlib.suppress(Exception):
        if text := str(error).strip():
            return text.split("\n")[0][:300]
    return type(error).__name__
