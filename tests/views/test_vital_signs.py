"""Promises of the panels of vital signs: what is drawn, and how often."""

import matplotlib.pyplot as plt
from book.experiments import signs
from book.views.vital_signs import draw_vital_signs


def test_a_panel_has_a_line_a_seed_and_a_name_a_kind():
    run = {sign: [0.0, *range(24)] for sign in signs.SIGNS}
    keys = ("one", "Xavier"), ("two", "Xavier"), ("two", "torch's")
    figure = draw_vital_signs({key: [run] * 3 for key in keys})
    assert [panel.get_ylabel() for panel in figure.axes] == [*signs.SIGNS]
    for panel in figure.axes:
        assert len(panel.lines) == 6
        assert panel.lines[0].get_ydata()[0] == signs.ROUNDING
        assert [*panel.lines[0].get_xdata()] == [*range(1, 25)]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["one", "two"]
    plt.close(figure)
