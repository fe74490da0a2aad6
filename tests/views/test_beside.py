"""Promises of what stands below a live view."""

import numpy as np
from book.views import MaskLab
from book.views.beside import told_below


def test_what_is_told_follows_the_view():
    live = MaskLab(*np.ones((3, 2, 4)), ["one", "two"]).live()
    told = told_below(live, "blocked", lambda blocked: f"<b>{np.sum(blocked)}</b>")
    assert told.children[0] is live
    assert told.children[1].value == "<b>0</b>"
    live.blocked = [[True, False], [True, True]]
    assert told.children[1].value == "<b>3</b>"
