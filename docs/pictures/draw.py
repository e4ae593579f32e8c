"""Draws the pictures of the documentation, from models where there is one.

    python docs/pictures/draw.py [PICTURE ...] [--out FOLDER]

Writes `PICTURE.svg`. The background is transparent and all colours are of middle brightness, to be seen on light and
dark pages. Needs matplotlib: `pip install 'jaxdyn[examples]'`.
"""

import argparse
import itertools
from pathlib import Path

import contact
import matplotlib
import numpy as np
from parts import BLUE, GREEN, GREY, ORANGE, RED, arrow

import jaxdyn as jd
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.tree.order import bodies_of

matplotlib.use("Agg")
from matplotlib import pyplot

HERE = Path(__file__).resolve().parent
STYLE = {
    "svg.fonttype": "none",  # text stays text: small files, and letters of the page
    "svg.hashsalt": "jaxdyn",  # the same file from the same picture
    "font.size": 10,
    "text.color": GREY,
}


def frame(axes, origin, angle, name="", *, size=0.16, labels=("x", "z"), style="-", below=(0.0, -0.05)):
    """Two axes of a frame in the plane, the first red and the second blue. A positive `angle` turns the second towards
    the first, as a turn about y does to z and x."""
    origin, (c, s) = np.asarray(origin, float), (np.cos(angle), np.sin(angle))
    for direction, color, label in (((c, -s), RED, labels[0]), ((s, c), BLUE, labels[1])):
        tip = origin + size * np.array(direction)
        arrow(axes, origin, tip, color, label, style=style, gap=0.25 * size)
    axes.text(*(origin + below), name, ha="center", va="top")


def four_bar():
    """The linkage of the pages, closed: links, body frames, and where the loop ties two of them."""
    model = jd.load("four_bar")
    q = jd.assemble(model, model.neutral())
    poses = jd.forward_kinematics(model, q)
    tip = jd.frame_pose(model, q, "rocker") @ model.constraints[0].placement_b
    origins, tip = np.asarray(poses.translation)[:, [0, 2]], np.asarray(tip.translation)[[0, 2]]
    turns = np.arctan2(poses.rotation[:, 0, 2], poses.rotation[:, 0, 0])
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4))
    for a, b, name, side in (
        (origins[0], origins[1], "crank", (-0.12, 0.03)),
        (origins[1], tip, "coupler", (0.0, 0.06)),
        (origins[2], tip, "rocker", (0.1, 0.06)),
    ):
        axes.plot(*zip(a, b, strict=True), color=GREY, lw=7, alpha=0.45, solid_capstyle="round", zorder=0)
        axes.text(*((a + b) / 2 + side), name, ha="center", va="center")
    below = ((0.0, -0.05), (-0.2, 0.02), (0.0, -0.05))
    for origin, turn, name, place in zip(origins, turns, model.joint_names, below, strict=True):
        frame(axes, origin, turn, name, below=place)
    axes.plot(*tip, "o", ms=11, mfc="none", mec=ORANGE, mew=2)
    axes.text(tip[0] + 0.05, tip[1] + 0.05, "tip: closes the loop", color=ORANGE)
    axes.axhline(0.0, color=GREY, lw=0.8, ls=":")
    axes.set(xlim=(-0.32, 1.45), ylim=(-0.16, 0.7))
    return figure, axes


def body_frames():
    """Parent, joint frame at q = 0, body frame after motion, centre of mass."""
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6))
    parent, joint, turn = np.array([0.0, 0.0]), np.array([0.95, 0.28]), -0.6
    frame(axes, parent, 0.0, "parent's body frame", size=0.3, labels=("x", "y"), below=(0.1, -0.06))
    frame(axes, joint, 0.0, size=0.34, labels=("x", "y"), style=(0, (4, 3)))
    frame(axes, joint, turn, size=0.34, labels=("x", "y"))
    arrow(axes, parent, joint, GREEN, width=1.4)
    axes.text(0.45, 0.2, "placement", color=GREEN, ha="center")
    angles = np.linspace(0.0, -turn, 40)
    axes.plot(joint[0] + 0.27 * np.cos(angles), joint[1] + 0.27 * np.sin(angles), color=ORANGE, lw=1.4)
    axes.text(joint[0] + 0.34, joint[1] + 0.1, "q", color=ORANGE, ha="center", va="center")
    along = np.array([np.cos(-turn), np.sin(-turn)])
    centre = joint + 0.62 * along
    ellipse = matplotlib.patches.Ellipse(
        joint + 0.55 * along, 1.5, 0.42, angle=np.degrees(-turn), color=GREY, alpha=0.18, lw=0
    )
    axes.add_patch(ellipse)
    axes.plot(*centre, "o", color=GREY, ms=6)
    axes.text(*(centre + (0.05, -0.02)), "center_of_mass, in the body frame", va="top")
    told = (
        "dashed: joint frame, at q = 0",
        "solid: body frame, where the joint has moved it",
        "twist [v; ω], wrench [f; τ]: in its axes, at its origin",
    )
    axes.text(joint[0] + 0.1, joint[1] - 0.1, "\n".join(told), va="top", linespacing=1.5)
    axes.set(xlim=(-0.35, 3.0), ylim=(-0.32, 1.25))
    return figure, axes


def elimination_order(model) -> tuple[int, ...]:
    """Bodies as `LCABA` eliminates them, first to last."""
    t = model.topology
    return bodies_of(jd.solvers.LCABA().order(t, plan_of(t, model.constraints)))


def ties_of(model) -> list[tuple[int, int]]:
    """Pairs of bodies that a constraint ties."""
    t = model.topology
    return [tuple(t.locate(name)[0] for name in (c.body_a, c.body_b)) for c in model.constraints]


def fill(parents, ties, order) -> list[tuple[int, int]]:
    """Ties that the elimination adds: those of a body, and its parent, become tied to each other."""
    tied = {b: set() for b in range(len(parents))}
    for a, b in ties:
        tied[a].add(b)
        tied[b].add(a)
    added = []
    for b in order:
        left = tied[b] | ({parents[b]} if tied[b] and parents[b] >= 0 else set())
        for a, c in itertools.combinations(sorted(left), 2):
            if c not in tied[a]:
                added.append((a, c))
                tied[a].add(c)
                tied[c].add(a)
        for a in tied[b]:
            tied[a].discard(b)
    return [(a, c) for a, c in added if parents[a] != c and parents[c] != a]


def elimination():
    """A leg of the biped as the plan sees it: bodies with the number of their turn, ties of loops, ties that come."""
    model = jd.load("strider")
    names, parents = model.body_names, model.topology.parents
    order = elimination_order(model)
    at = {"pelvis": (0, 2), "hip": (1, 2), "thigh": (2, 2), "shin": (3, 1.5), "tarsus": (4, 2), "rod": (3, 3.1)}
    at |= {"lever": (5, 3.1), "foot": (5, 2), "crank": (5, 0.9), "conrod": (6, 0.9)}
    places = {b: at[n.removeprefix("left_")] for b, n in enumerate(names) if not n.startswith("right_")}
    turn = {b: k + 1 for k, b in enumerate(b for b in order if b in places)}
    ties = ties_of(model)
    kinds = (
        ([(b, parents[b]) for b in places if parents[b] >= 0], GREY, "-", 2.0, "joint: child and parent"),
        (ties, ORANGE, "-", 2.0, "tie: a constraint joins two bodies"),
        (fill(parents, ties, order), ORANGE, (0, (2, 2)), 1.4, "tie that an elimination leaves behind"),
    )
    figure, axes = pyplot.subplots(figsize=(6.8, 3.6))
    for edges, color, style, width, label in kinds:
        for k, (a, b) in enumerate(e for e in edges if set(e) <= set(places)):
            xs, ys = zip(places[a], places[b], strict=True)
            axes.plot(xs, ys, color=color, ls=style, lw=width, zorder=0, label=label if k == 0 else None)
    for b, (x, y) in places.items():
        axes.plot(x, y, "o", ms=21, color=BLUE)
        axes.text(x, y, str(turn[b]), color="white", weight="bold", ha="center", va="center")
        name = names[b].removeprefix("left_")
        up = name == "foot"  # a tie goes down from it
        axes.text(x, y + (0.36 if up else -0.36), name, ha="center", va="bottom" if up else "top")
    axes.legend(loc="lower left", frameon=False, labelcolor=GREY)
    axes.set(xlim=(-0.5, 6.6), ylim=(-0.1, 3.6))
    return figure, axes


PICTURES = {"four_bar": four_bar, "body_frames": body_frames, "elimination": elimination} | contact.PICTURES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="*", metavar="PICTURE", help=f"of {', '.join(PICTURES)}; default: all")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    options = parser.parse_args()
    if unknown := set(options.pictures) - set(PICTURES):
        parser.error(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(PICTURES)}")
    with matplotlib.rc_context(STYLE):
        for name in options.pictures or PICTURES:
            figure, axes = PICTURES[name]()
            axes.set_aspect("auto" if name == "elimination" else "equal")
            axes.set_axis_off()
            path = options.out / f"{name}.svg"
            figure.savefig(path, transparent=True, bbox_inches="tight", metadata={"Date": None, "Creator": None})
            pyplot.close(figure)
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
