"""What `<gazebo>` says about a URDF's motion in Gazebo's own terms, and which is not modelled: warnings about it."""

from .xml import Element, Notes, brief

PULLED = "links whose gravity <gazebo> turns off, and which are pulled like all others: {}."
DAMPED = "links whose motion <gazebo> damps, which is not modelled: {}."
STATIC = "models that <gazebo> makes <static>, and that move all the same: {}. Use `floating=False` to fix the base."


def note_gazebo(robot: Element, notes: Notes) -> None:
    """Note the links without gravity, those that are damped, and static models."""
    for block in robot.findall("gazebo"):
        for element in block:
            if element.tag == "turnGravityOff" and _says(element) or element.tag == "gravity" and not _says(element):
                notes.add(element, PULLED, brief(block.get("reference") or robot.get("name") or ""))
            elif element.tag in ("dampingFactor", "velocity_decay") and _numbers(element):
                notes.add(element, DAMPED, brief(block.get("reference") or ""))
            elif element.tag == "static" and _says(element):
                notes.add(element, STATIC, brief(robot.get("name") or ""))


def note_friction(notes: Notes, element: Element, name: str, first: float, others: dict[str, float]) -> None:
    """Note the friction of a surface that depends on the direction or yields: `first` is the coefficient that is kept,
    `others` are ``mu2``, ``slip1`` and ``slip2`` where they are given."""
    odd = [what for what, x in others.items() if x != (first if what == "mu2" else 0)]
    if odd:
        text = "friction that has a direction or yields, of which the first coefficient is kept: {}."
        notes.add(element, text, f"{name!r} ({', '.join(odd)})")


def _numbers(element: Element) -> bool:
    """Return True if one of the texts in an element, or its `value`, is other than zero."""
    words = " ".join([element.get("value", ""), *element.itertext()]).split()
    return any(word.strip("+-0.") for word in words)


def _says(element: Element) -> bool:
    """Return the truth of an element that has a text, or a `value` in old files; anything but a truth value, such as
    the vector of a world's gravity, counts as the default of Gazebo's tags, true."""
    return (element.get("value", element.text) or "").strip().lower() not in ("false", "0")
