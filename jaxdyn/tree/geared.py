"""A joint with the rotors that drive it: gyrostats on the parent, which turn at a ratio N of the joint's velocity w.

Such a cluster is eliminated like any joint. A rotor with inertia I about its axis s turns at s N w relative to the
parent, whose motion is a_p. Its kinetic energy I (N w)²/2 + I N w (s · ω_p), in addition to that of the parent with all
of the rotor's mass, determines what is added to the joint's column:

| symbol | name here | of the column |
| --- | --- | --- |
| I N² | ``inertia`` | D, like armature |
| I N Eᵀ s | ``moment`` | U, on the parent, but in the body's axes, as U has X a_p for its factor |

Here D is s · H s and no more: the moment multiplies the parent's motion, which does not contain that of the joint.
"""

from ..spatial.small import mtv
from .columns import sum_or_none


def beside(pose, gears):
    """Return what rotors add to the inertia along a joint of one velocity, and the moment that they exert on the parent
    per acceleration of the joint, seen from the body at its `pose`; None is zero. `gears` are spins, armatures and
    ratios by rotor."""
    inertia = moment = None
    for (axis, own), armature, ratios in gears:
        ratio = ratios[0][0]
        inertia = sum_or_none(inertia, ratio * (own + armature[0]) * ratio)
        moment = sum_or_none(moment, own * ratio * axis)
    return inertia, None if moment is None else mtv(pose[0], moment)
