"""The vital signs of stacks, every seed, as panels below one another: chapter 5."""

import matplotlib.pyplot as plt

from ..experiments import signs

PENS = "C0-.", "C1--", "C2:", "k-"


def draw_vital_signs(runs: signs.Runs, start: str = "Xavier") -> plt.Figure:
    """Draw each sign over the layers: a line a seed, the same pen for one kind.

    `runs` are those of `signs.of_kinds`, of up to four kinds.
    """
    options = {"sharex": True, "figsize": (5.6, 5.4), "layout": "constrained"}
    figure, panels = plt.subplots(len(signs.SIGNS), 1, **options)
    kinds = dict.fromkeys(kind for kind, _ in runs)
    for panel, sign in zip(panels, signs.SIGNS, strict=True):
        for kind, pen in zip(kinds, PENS, strict=False):
            for run in runs[kind, start]:
                values = signs.by_layer(run, sign)
                (line,) = panel.semilogy(range(1, len(values) + 1), values, pen)
            line.set_label(kind)
        panel.set_ylabel(sign)
    panels[-1].set_xlabel("layer")
    handles = panels[-1].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4)
    return figure
