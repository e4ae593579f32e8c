"""The pictures of the page on contact. `draw.py` draws them."""

import numpy as np
from matplotlib import patches, pyplot
from parts import BLUE, GREEN, GREY, ORANGE, RED, arrow


def ground(axes, left, right, height=0.0):
    """The surface, hatched below."""
    axes.plot((left, right), (height, height), color=GREY, lw=1.6)
    for x in np.arange(left + 0.1, right + 0.01, 0.16):
        axes.plot((x, x - 0.08), (height, height - 0.08), color=GREY, lw=0.8)


def contact_gap():
    """A ball before, within, and in the ground, with the least speed at which it shall open."""
    figure, axes = pyplot.subplots(figsize=(7.0, 2.7))
    ground(axes, -0.3, 7.3)
    places = (
        (0.9, 0.6, "gap φ > 0", "it may fall at φ / dt,\nand then touches"),
        (3.4, 0.0, "φ = 0", "it may not fall"),
        (6.0, -0.14, "φ < 0", "it shall rise at 0.2 φ / dt,\nat most at 1 m/s"),
    )
    for x, gap, name, text in places:
        axes.add_patch(patches.Circle((x, gap + 0.4), 0.4, color=GREY, alpha=0.25, lw=0))
        axes.plot(x, gap / 2, "o", color=ORANGE, ms=4, zorder=5)
        axes.text(x + 0.5, max(gap, 0) + 0.5, name, ha="left", va="center")
        axes.text(x, -0.22, text, ha="center", va="top", linespacing=1.4)
        if gap:
            axes.plot((x, x), (0, gap), color=ORANGE, lw=1.4)
    arrow(axes, (0.9, 0.6), (0.9, 0.08), BLUE)
    arrow(axes, (3.4, 0.0), (3.4, 0.75), GREEN, "n", gap=0.12)
    arrow(axes, (6.0, 0.26), (6.0, 0.62), BLUE)
    axes.set(xlim=(-0.5, 7.5), ylim=(-0.85, 1.5))
    return figure, axes


def contact_slots():
    """Where shapes may touch: a fixed number of places for each pair of kinds."""
    figure, axes = pyplot.subplots(figsize=(7.0, 2.4))
    ground(axes, -0.2, 6.6)
    look = {"color": GREY, "alpha": 0.25, "lw": 0}
    axes.add_patch(patches.Circle((0.4, 0.35), 0.3, **look))
    turn = 0.12
    ends = np.array([[1.35, 0.34], [2.25, 0.34 + 0.9 * np.sin(turn)]])
    axes.plot(*ends.T, color=GREY, alpha=0.25, lw=26, solid_capstyle="round")
    boxes = (((3.0, 0.08), 0.9, 4.0), ((4.9, 0.02), 1.1, 0.0), ((5.1, 0.54), 0.9, 0.0))
    for corner, width, angle in boxes:
        axes.add_patch(patches.Rectangle(corner, width, 0.5, angle=angle, **look))
    lift = 0.9 * np.sin(np.radians(4.0))
    points = ((0.4, 0.05), (1.35, 0.1), (2.25, 0.2), (3.0, 0.08), (3.9, 0.08 + lift), (3.06, 0.16), (3.84, 0.16 + lift))
    points += ((4.9, 0.02), (6.0, 0.02), (5.0, 0.1), (5.9, 0.1), (5.1, 0.53), (6.0, 0.53), (5.2, 0.61), (5.9, 0.61))
    for x, y in points:
        axes.plot(x, y, "o", color=ORANGE, ms=5, zorder=5)
    for x, text in (
        (0.4, "sphere\n1 slot"),
        (1.8, "capsule\n2"),
        (3.45, "box\n4"),
        (5.5, "box on box on ground\n4 and 4"),
    ):
        axes.text(x, -0.2, text, ha="center", va="top", linespacing=1.4)
    axes.set(xlim=(-0.3, 6.7), ylim=(-0.75, 1.3))
    return figure, axes


def wedge(axes, tip, slope, size, color, name, up=1):
    """The cone of directions that lean by up to `slope` from the normal."""
    half = np.arctan(slope)
    edge = size * np.array([np.sin(half), np.cos(half)])
    corners = [tip, tip + edge, tip + edge * (-1, 1)]
    axes.add_patch(patches.Polygon(corners, color=color, alpha=0.15, lw=0))
    for corner in corners[1:]:
        axes.plot(*zip(tip, corner, strict=True), color=color, lw=1.2)
    axes.text(tip[0], tip[1] + size * np.cos(half) + 0.06, name, color=color, ha="center", va="bottom")


def contact_cone():
    """A force that sticks lies within the cone; one that slides on its edge, against the motion."""
    figure, axes = pyplot.subplots(figsize=(7.0, 2.9))
    for x, lean, name, text in (
        (0.0, 0.3, "sticks", "σ = 0, f is what it takes"),
        (3.8, 0.7, "slides", "f is on the edge, against σ"),
        (7.4, None, "breaks", "f = 0: it may go up"),
    ):
        tip = np.array([x, 0.0])
        ground(axes, x - 1.2, x + 1.2)
        wedge(axes, tip, 0.7, 1.25, GREY, name)
        if lean is not None:
            arrow(axes, tip, tip + 0.8 * np.array([-lean, 1.0]), RED, "f", gap=0.12)
        axes.text(x, -0.22, text, ha="center", va="top")
    arrow(axes, (3.8, 0.0), (4.7, 0.0), BLUE, "σ", gap=0.12)
    arrow(axes, (7.4, 0.0), (7.8, 0.9), BLUE, "σ", gap=0.12)
    axes.set(xlim=(-1.6, 8.8), ylim=(-0.5, 1.55))
    return figure, axes


def contact_de_saxce():
    """Sliding velocity and force are not perpendicular; with the shift they are, and cone faces dual cone."""
    mu = 0.7
    figure, axes = pyplot.subplots(1, 2, figsize=(7.6, 3.2))
    for axis in axes:
        wedge(axis, np.zeros(2), mu, 1.3, RED, "cone of forces")
        arrow(axis, (0, 0), 0.85 * np.array([-mu, 1.0]), RED, "f", gap=0.1)
        axis.set(xlim=(-1.3, 1.5), ylim=(-0.35, 1.6))
        axis.set_axis_off()
        axis.set_aspect("equal")
    ground(axes[0], -1.1, 1.3)
    arrow(axes[0], (0, 0), (0.9, 0.0), BLUE, "σ", gap=0.12)
    axes[0].text(0.1, -0.2, "sliding: σ lies in the plane", ha="center", va="top")
    dual = 1.45 * np.array([1.0, mu]) / np.hypot(1, mu)
    axes[1].add_patch(
        patches.Polygon([(0, 0), dual, (dual[0], 1.55), (-1.2, 1.55), (-1.2, 1.2 * mu)], color=BLUE, alpha=0.1)
    )
    arrow(axes[1], (0, 0), (0.9, 0.0), BLUE, "σ", gap=0.12, style=(0, (3, 2)))
    arrow(axes[1], (0.9, 0.0), (0.9, 0.9 * mu), ORANGE, "")
    axes[1].text(0.95, 0.28, "μ ‖σₜ‖", color=ORANGE, ha="left", va="center")
    arrow(axes[1], (0, 0), (0.9, 0.9 * mu), BLUE, "")
    axes[1].text(0.1, -0.2, "shifted: on the dual cone, perpendicular to f", ha="center", va="top")
    return figure, axes[0]


PICTURES = {f.__name__: f for f in (contact_gap, contact_slots, contact_cone, contact_de_saxce)}
