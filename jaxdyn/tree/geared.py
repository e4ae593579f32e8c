"""A joint with the rotors that drive it: gyrostats on the parent, which turn by a ratio N of the joint's velocity w.

Such a cluster is eliminated like any joint. A rotor with inertia I about its axis s turns at s N w against the parent,
which is a_p. Its kinetic energy I (N w)²/2 + I N w (s · ω_p), beyond that of the parent with all of the rotor's mass,
says what the column of the joint gets more:

| symbol | name here | of the column |
| --- | --- | --- |
| I N² | ``inertia`` | D, like armature |
| I N Eᵀ s | ``moment`` | U, on the parent, but in the body's axes, as U has X a_p for its factor |

Here D is s · H s and no more: the moment is on the parent's motion, in which the joint's own has no part.
"""

from ..spatial.small import mtv
from .columns import sum_or_none


def beside(pose, gears):
    """What rotors add to the inertia along a joint of one velocity, and the moment that they exert on the parent as the
    joint accelerates, seen from the body at its `pose`; None is zero. `gears` are spins, armatures and ratios by
    rotor."""
    inertia = moment = None
    for (axis, own), armature, ratios in gears:
        ratio = ratios[0][0]
        inertia = sum_or_none(inertia, ratio * (own + armature[0]) * ratio)
        moment = sum_or_none(moment, own * ratio * axis)
    return inertia, None if moment is None else mtv(pose[0], moment)
