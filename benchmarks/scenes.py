"""Scenes with contacts by name, for the operator J M⁻¹ Jᵀ: those of the paper's Table I, families, and small ones.

Each builder takes a seed for random postures and masses of boxes, and returns a `ContactScene`. Frames of contacts are
prescribed; no collision detection is used.
"""

import functools
from collections.abc import Callable

import scene_boxes as boxes
import scene_robots as robots
import scene_small as small
from scene_parts import ContactScene

#: name: (builder, its arguments, contacts, rows); rows beyond three per contact are those of joints
PAPER: dict[str, tuple[Callable[..., ContactScene], tuple, int, int]] = {
    "quadruped_standing": (robots.quadruped, (), 4, 12),
    "quadruped_standing_friction": (robots.quadruped, (True,), 4, 24),
    "quadruped_fallen": (robots.quadruped_fallen, (9,), 9, 27),
    "quadruped_fallen_friction": (robots.quadruped_fallen, (10, True), 10, 42),
    "cassie": (robots.cassie_standing, (), 8, 24),
    "cassie_friction": (robots.cassie_standing, (True,), 8, 50),
    "humanoid_standing": (robots.humanoid, (), 8, 24),
    "humanoid_standing_friction": (robots.humanoid, (True,), 8, 53),
    "humanoid_fallen": (robots.humanoid_fallen, (23,), 23, 69),
    # 25 contacts in the paper, which is impossible for 101 rows with 29 joints
    "humanoid_fallen_friction": (robots.humanoid_fallen, (24, True), 24, 101),
    "stack_30": (boxes.stack, (30,), 120, 360),
    "pyramid_4": (boxes.pyramid, (4,), 288, 864),
    "pyramid_with_robots": (robots.pyramid_with_robots, (), 108, 324),
}

SMALL: dict[str, tuple[Callable[..., ContactScene], tuple]] = {
    "box": (boxes.box, ()),
    "stack_3": (boxes.stack, (3,)),
    "on_ice": (boxes.on_ice, ()),
    "side_by_side": (boxes.side_by_side, ()),
    "apart": (boxes.side_by_side, (False,)),
    "pyramid_2": (boxes.pyramid, (2,)),
    "swimmer_3": (small.swimmer, (3,)),
    "crawler": (small.crawler, ()),
    "crawler_friction": (small.crawler, (True,)),
    "strider": (small.strider, ()),
    "strider_friction": (small.strider, (True,)),
    "four_bar": (small.four_bar, ()),
    "tentacle": (small.tentacle, ()),
    "arm": (small.arm, ()),
}

#: by family: builder, sizes, and the unit of the size
FAMILIES: dict[str, tuple[Callable[..., ContactScene], tuple[int, ...], str]] = {
    "swimmer": (small.swimmer, (3, 6, 12, 25, 50, 100), "links"),
    "stack": (boxes.stack, (1, 2, 4, 8, 15, 30), "boxes"),
}

#: members of the families, by name: (builder, its arguments)
GROWING = {f"{family}_{n}": (build, (n,)) for family, (build, sizes, _) in FAMILIES.items() for n in sizes}

NAMES = tuple(PAPER | SMALL | GROWING)


@functools.cache
def scene(name: str, seed: int = 0) -> ContactScene:
    builder, args, *_ = (PAPER | SMALL | GROWING)[name]
    return builder(*args, seed=seed)
