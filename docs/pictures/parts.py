"""Colours and arrows that the pictures share."""

import numpy as np

GREY, RED, GREEN, BLUE, ORANGE = "#76808b", "#e0564f", "#3f9d57", "#3f86e0", "#c9772e"


def arrow(axes, start, end, color, text="", *, width=1.6, style="-", gap=0.06):
    """From start to end; its text stands beyond the tip."""
    start, end = np.asarray(start, float), np.asarray(end, float)
    look = {"arrowstyle": "-|>", "color": color, "lw": width, "linestyle": style, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look)
    beyond = end + gap * (end - start) / np.linalg.norm(end - start)
    axes.text(*beyond, text, color=color, ha="center", va="center")
