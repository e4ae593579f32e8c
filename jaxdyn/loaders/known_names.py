"""Tables of the names of elements and attributes in URDF, URDF+ and SDF files. `names.py` compares files with them.

A key is an element's tag, preceded by its parent's tag and a slash if the tag has several meanings. An element without
a key holds text only.
"""

from typing import NamedTuple


class Names(NamedTuple):
    """The known names in an element, each list as one text.

    `inner` are child elements that are read and checked in turn, `attributes` the attributes of the element itself,
    `idle` child elements without effect on the motion, whose contents are not checked. `acts` are child elements whose
    effect is not modelled, with the values for which they have none. `text` is True if the element's text is read.
    """

    inner: str = ""
    attributes: str = ""
    idle: str = ""
    acts: dict[str, str] = {}
    text: bool = False


#: Drake's numbers of soft contact, which is rigid here
SOFT = (
    "mu_static compliant_hydroelastic rigid_hydroelastic hydroelastic_modulus hydroelastic_margin mesh_resolution_hint "
    "declare_convex hunt_crossley_dissipation relaxation_time point_contact_stiffness"
)

URDF = {
    "robot": Names(
        "link joint frame loop coupling transmission ros2_control",
        "name version",
        "gazebo material sensor mujoco",
    ),
    "link": Names(
        "inertial collision",
        "name type",
        "visual contact sensor surface self_filter collision_checking",
        {"origin": "0 -0", "gravity": "1 true", "kinematic": "0 false"},
    ),
    "frame": Names("", "name link xyz rpy"),
    "inertial": Names("origin mass inertia"),
    "collision": Names(
        "origin geometry proximity_properties", "name group", "verbose contact_coefficients material max_contacts"
    ),
    "proximity_properties": Names("mu_dynamic", idle=SOFT),
    "mu_dynamic": Names("", "value"),
    "geometry": Names("box sphere cylinder capsule ellipsoid plane mesh", "name", "verbose"),
    "box": Names("", "size"),
    "sphere": Names("", "radius"),
    "cylinder": Names("", "radius length"),
    "capsule": Names("", "radius length"),
    "ellipsoid": Names("", "radii"),
    "plane": Names("", "normal"),
    "mesh": Names("", "filename scale"),
    "origin": Names("", "xyz rpy quat_xyzw"),
    "mass": Names("", "value"),
    "inertia": Names("", "ixx iyy izz ixy ixz iyz"),
    "joint": Names(
        "origin parent child axis limit dynamics mimic",
        "name type independent dont_collapse",
        "calibration safety_controller joint_properties",
    ),
    "parent": Names("", "link"),
    "child": Names("", "link"),
    "axis": Names("", "xyz"),
    "limit": Names(
        "", "lower upper effort velocity acceleration deceleration jerk current command_effort gear_velocity"
    ),
    "dynamics": Names("", "damping friction D K mu_coulomb mu_viscous"),
    "mimic": Names("", "joint multiplier offset"),
    "loop": Names("predecessor successor axis", "name type"),
    "coupling": Names("predecessor successor ratio", "name type"),
    "predecessor": Names("origin", "link"),
    "successor": Names("origin", "link"),
    "ratio": Names("", "value"),
    "transmission": Names(
        "joint actuator flexJoint rollJoint gap_joint mechanicalReduction",
        "name type",
        "type plugin param leftActuator rightActuator passive_joint use_simulated_gripper_joint "
        "simulated_actuated_joint compensator motorTorqueConstant",
    ),
    "transmission/joint": Names(
        "mechanicalReduction",
        "name role",
        "hardwareInterface role offset param saturationLower saturationUpper deadBandLower deadBandUpper "
        "ignoreTransmissionAbsoluteEncoder",
    ),
    "transmission/actuator": Names(
        "mechanicalReduction gear_ratio rotor_inertia",  # the last two are Drake's
        "name role type",
        "hardwareInterface role offset param motorTorqueConstant",
    ),
    "gear_ratio": Names("", "value"),
    "rotor_inertia": Names("", "value"),
    "flexJoint": Names("", "name mechanicalReduction"),
    "rollJoint": Names("", "name mechanicalReduction"),
    "gap_joint": Names("", "name L0 a b gear_ratio h mechanical_reduction phi0 r screw_reduction t0 theta0"),
    "mechanicalReduction": Names(text=True),
    "ros2_control": Names(
        "joint", "name type rw_rate is_async thread_priority", "hardware sensor gpio param transmission"
    ),
    "ros2_control/joint": Names("command_interface", "name", "state_interface param limits"),
    "command_interface": Names("", "name data_type size", "param limits"),
}

SDF = {
    "sdf": Names("world model", "version", "actor light"),
    "world": Names(
        "gravity physics model include joint frame",
        "name",
        "audio wind magnetic_field atmosphere gui scene light actor plugin road spherical_coordinates policies",
        {"population": "", "state": ""},
    ),
    "physics": Names(
        "gravity",
        "name default type",
        "max_step_size real_time_factor real_time_update_rate max_contacts min_step_size magnetic_field dart ode "
        "bullet simbody update_rate",
    ),
    "model": Names(
        "pose static link joint frame model include",
        "name canonical_link placement_frame",
        "plugin self_collide allow_auto_disable gripper",
        {"enable_wind": "0 false"},
    ),
    "include": Names("uri name pose static placement_frame", "merge", "plugin"),
    "link": Names(
        "pose inertial gravity collision",
        "name",
        "visual sensor self_collide must_be_base_link projector audio_sink audio_source battery light "
        "particle_emitter frame plugin",
        {"enable_wind": "0 false", "velocity_decay": "0", "kinematic": "0 false"},
    ),
    "collision": Names(
        "pose geometry surface proximity_properties",
        "name",
        "laser_retro max_contacts frame density auto_inertia_params",
    ),
    "proximity_properties": Names("mu_dynamic", idle=SOFT),
    "geometry": Names("box sphere cylinder capsule ellipsoid plane mesh", "", "heightmap polyline image cone empty"),
    "box": Names("size"),
    "sphere": Names("radius"),
    "cylinder": Names("radius length"),
    "capsule": Names("radius length"),
    "ellipsoid": Names("radii"),
    "plane": Names("normal", "", "size"),
    "mesh": Names("uri scale", "optimization", "submesh convex_decomposition"),
    "surface": Names("friction bounce", "", "contact soft_contact"),
    "surface/friction": Names("ode torsional", "", "bullet"),
    "friction/ode": Names("mu", "", "mu2 fdir1 slip1 slip2"),
    "torsional": Names("coefficient patch_radius", "", "use_patch_radius surface_radius ode"),
    "bounce": Names("restitution_coefficient", "", "threshold"),
    "inertial": Names("pose mass inertia fluid_added_mass", "auto", "density auto_inertia_params frame"),
    "fluid_added_mass": Names("xx xy xz xp xq xr yy yz yp yq yr zz zp zq zr pp pq pr qq qr rr"),
    "inertia": Names("ixx iyy izz ixy ixz iyz"),
    "pose": Names("", "relative_to frame rotation_format degrees", text=True),
    "frame": Names("pose", "name attached_to"),
    "joint": Names(
        "pose parent child axis axis2 gearbox_ratio gearbox_reference_body thread_pitch screw_thread_pitch "
        "gear_ratio rotor_inertia",  # these two are Drake's
        "name type",
        "physics sensor frame plugin",
    ),
    "axis": Names("xyz limit dynamics mimic use_parent_model_frame", acts={"initial_position": "0"}),
    "axis2": Names("xyz limit dynamics mimic use_parent_model_frame", acts={"initial_position": "0"}),
    "xyz": Names("", "expressed_in", text=True),
    "limit": Names("lower upper effort", idle="velocity acceleration stiffness dissipation"),
    "dynamics": Names("damping friction spring_stiffness spring_reference"),
    "mimic": Names("multiplier offset reference", "joint axis"),
}
