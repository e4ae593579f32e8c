"""Reader of the actuators of a URDF, from `<transmission>` and `<ros2_control>`.

An actuator has the name that the file gives it. Its gear is the `mechanicalReduction`, so that its command is the force
at the motor. If a transmission mixes several motors and joints (differentials, hands with one motor for many joints),
every joint gets an actuator of its own name that drives it directly, with a warning. If the file has neither element,
every joint with one velocity that does not mimic another gets such an actuator.

Drake's `<rotor_inertia>` times the square of its `<gear_ratio>` is the joint's armature. Its actuators act on the side
of the joint, whatever that ratio is.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

from ..model.joints import Fixed
from ..model.spec import ModelSpec
from .skeleton import Connection
from .xml import Element, Notes, attribute, brief, fail, located, number, numbers, only

#: tags that name the joints of a transmission; the last three are PR2's
DRIVEN = ("joint", "flexJoint", "rollJoint", "gap_joint")


def reduction(element: Element | None) -> float | None:
    """Return the `<mechanicalReduction>` in an element, None if there is none."""
    found = None if element is None else only(element, "mechanicalReduction")
    return None if found is None else float(numbers(found, found.text, 1, "mechanicalReduction")[0])


def add_rotors(robot: Element, joints: Mapping[str, Connection], notes: Notes) -> None:
    """Set the armature of joints to the inertias of their motors, as the file states them for Drake."""
    for rotor in robot.iterfind("transmission/actuator/rotor_inertia"):
        motor = rotor.getparent()
        driven = motor.getparent().findall("joint")
        name = attribute(driven[0], "name") if len(driven) == 1 else ""
        ratio = only(motor, "gear_ratio")
        inertia = number(rotor, "value") * (1.0 if ratio is None else number(ratio, "value")) ** 2
        if inertia < 0:
            fail(rotor, f"`value` is negative: {rotor.get('value')}.")
        if name in joints and joints[name].joint.kind.nv == 1:
            joints[name].joint = replace(joints[name].joint, armature=inertia)
        elif inertia:
            notes.add(rotor, "rotors that turn with no joint of one velocity, left out: {}.", repr(motor.get("name")))


def add_actuators(
    spec: ModelSpec, notes: Notes, robot: Element, chain: list[Connection], passive: Collection[str] = ()
) -> None:
    """Add actuators for the joints of `chain`, except those in `passive`, which follow others."""
    joints = {j.name: j for j in chain}
    stated = robot.findall("transmission")
    motors = Counter(m.get("name") for e in stated for m in e.findall("actuator"))
    for element in stated:
        _transmission(spec, notes, element, joints, passive, motors)
    # collected once, because a search through all actuators for every joint would be slow
    driven = {joint for actuator in spec.actuators.values() for joint in actuator.gears}
    controls = [j for e in robot.findall("ros2_control") for j in e.findall("joint")]
    for element in controls:
        name = attribute(element, "name")
        told = next((e for e in element.findall("param") if e.get("name") == "mimic"), None)
        if told is not None and name in joints and name not in passive:
            text = "joints that mimic others by a <param>, which is not read; they move freely without a <mimic>: {}."
            notes.add(told, text, f"{name!r} of {brief((told.text or '').strip())}")
        if element.find("command_interface") is not None and name not in driven:
            driven.add(name)
            _drive(spec, notes, element, name, joints, passive)
    if not stated and not controls:
        for joint in chain:
            if joint.joint.kind.nv == 1 and joint.name not in passive:
                located(joint.element, spec.add_actuator, joint.name)


def _drive(
    spec: ModelSpec,
    notes: Notes,
    element: Element,
    name: str,
    joints: dict[str, Connection],
    passive: Collection[str],
    label: str | None = None,
    gear: float = 1.0,
) -> None:
    """Add an actuator to a joint, or note why this is impossible."""
    nothing = "what drives nothing: {}."
    if name not in joints:
        notes.add(element, nothing, f"there is no joint {brief(name)}")
    elif isinstance(joints[name].joint, Fixed):
        notes.add(element, nothing, f"joint {name!r} is fixed")
    elif name in passive:
        notes.add(element, nothing, f"joint {name!r} follows another")
    elif joints[name].joint.kind.nv != 1:
        notes.add(element, nothing, f"joint {name!r} has more than one velocity")
    else:
        label = name if label is None else label
        if label in spec.actuators:
            free = next(n for n in (f"{label}_{k}" for k in range(2, 100_000)) if n not in spec.actuators)
            notes.add(element, "actuators whose name was taken: {}.", f"{label!r} is now {free!r}")
            label = free
        located(element, spec.add_actuator, name, label, gear=gear)


def _transmission(
    spec: ModelSpec,
    notes: Notes,
    element: Element,
    joints: dict[str, Connection],
    passive: Collection[str],
    motors: Counter,
) -> None:
    called = attribute(element, "name")
    driven = [e for tag in DRIVEN for e in element.findall(tag)]
    motor = element.find("actuator")
    label = called if motor is None else motor.get("name") or called
    if not driven:
        notes.add(element, "transmissions that name no <joint> and drive nothing: {}.", repr(called))
        return
    if len(driven) > 1 or len(element.findall("actuator")) > 1 or motors[label] > 1:
        text = "transmissions that mix motors, their joints driven each by itself: {}."
        notes.add(element, text, repr(called))
        for joint in driven:
            _drive(spec, notes, element, attribute(joint, "name"), joints, passive)
        return
    # the reduction is in the actuator, or in old files in the transmission itself, and possibly also in the joint
    stages = [reduction(motor), reduction(driven[0])]
    gear = 1.0
    for stage in stages if stages[0] is not None else [reduction(element), stages[1]]:
        gear *= 1.0 if stage is None else stage
    if gear == 0:
        notes.add(element, "transmissions with a reduction of zero, taken as one: {}.", repr(called))
        gear = 1.0
    _drive(spec, notes, element, attribute(driven[0], "name"), joints, passive, label, gear)
