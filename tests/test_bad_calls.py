"""Wrong calls: each raises one error that names the call, the argument, and what is wrong with it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE

import jaxdyn as jd
from jaxdyn.extend import Constraint, Layout, checked_options

ARM = CATALOGUE["quadruped"].build()
LOOP = CATALOGUE["four_bar_point"].build()
ROD = CATALOGUE["pendulum"].build()
REST = jd.State([0.0], [0.0])
ZERO = [0.0]
POINT = jd.constraints.Point("coupler")
PLACE = jd.Transform(np.eye(3), np.zeros(3))


def solve(model=ROD, state=REST, tau=ZERO, **options):
    return jd.forward_dynamics(model, state, tau, **options)


def run(tau=((0.0,),), dt=0.1, state=REST, **options):
    return jd.simulate(ROD, state, tau, dt, **options)


LOOP_REST = jd.State(LOOP.neutral(), np.zeros(3))

LINKAGE, COMMAND = jd.load("four_bar"), np.ones(1)
LINKAGE_REST = jd.State(LINKAGE.neutral(), np.zeros(3))


def step_of_linkage(tau):
    return jd.step(LINKAGE, LINKAGE_REST, tau, 0.1)


def roll_linkage(tau, **options):
    return jd.simulate(LINKAGE, LINKAGE_REST, tau, 0.1, **options)


class Acting(Constraint):
    """A constraint of one row on the bodies of these numbers."""

    bodies: tuple = eqx.field(static=True)
    target: jax.Array
    stabilization: jd.constraints.Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(self, *bodies):
        self.bodies = bodies
        self.name, self.target, self.stabilization = checked_options("`Acting`", "mine", None, None, 1)

    def layout(self, topology):
        return Layout((type(self),), 1, self.bodies)

    def evaluate(self, layout, attachments, views, robot):
        raise NotImplementedError


#: what is called, which exception, and what its text names
BAD = {
    "layout_on_the_world": (
        lambda: solve(constraints=(Acting(0, -1),)),
        ValueError,
        r"`forward_dynamics`: constraint 'mine': `Layout`: `bodies` \(0, -1\) contains -1, the world: leave it out",
    ),
    "layout_on_a_body_twice": (
        lambda: solve(constraints=(Acting(0, 0),)),
        ValueError,
        r"'mine': `Layout`: `bodies` \(0, 0\) contains a body twice",
    ),
    "restitution_above_one": (
        lambda: jd.impulse(LOOP, LOOP_REST, restitution=3.0),
        ValueError,
        "`impulse`: `restitution` is above 1",
    ),
    "negative_restitution": (
        lambda: jd.impulse(LOOP, LOOP_REST, restitution=-0.1),
        ValueError,
        "`impulse`: `restitution` is negative",
    ),
    "layout_on_nothing": (lambda: solve(constraints=(Acting(),)), ValueError, r"'mine': `Layout`: `bodies` is empty"),
    "warm_start_is_an_array": (
        lambda: run(warm_start=np.zeros(3)),
        TypeError,
        r"`simulate`: `warm_start` is ndarray, neither True nor False. A `jd.WarmStart` is .*`jd.cold_start",
    ),
    "integrator_is_a_solver": (
        lambda: run(integrator=jd.solvers.ABA()),
        TypeError,
        r"`simulate`: `integrator` is ABA, not an `Integrator`",
    ),
    "no_joints_at_all": (
        lambda: jd.load('<robot name="r"><link name="a"/></robot>').q_slice("x"),
        ValueError,
        r"`Model.q_slice`: `joint`: there is no joint 'x'. There are none.",
    ),
    "one_velocity": (
        lambda: solve(constraints=(jd.constraints.Lock("rod", rows=2),)),
        ValueError,
        r"joint 'rod' has 1 velocity: give `rows=1`, not 2",
    ),
    "model_of_another_kind": (lambda: solve(model="robot.urdf"), TypeError, r"`forward_dynamics`.*`model`.*str"),
    "throw_is_no_flag": (
        lambda: solve(throw=float("nan")),
        TypeError,
        r"`forward_dynamics`.*`throw` is nan, neither True",
    ),
    "project_is_text": (lambda: run(project="no"), TypeError, r"`simulate`.*`project` is str 'no', neither True nor"),
    "steps_are_an_array": (
        lambda: run(steps=np.ones(2)),
        ValueError,
        r"`simulate`: `steps` is ndarray, but `tau` has 1",
    ),
    "project_of_step": (lambda: jd.step(ROD, REST, ZERO, 0.1, project=np.ones(2)), TypeError, r"`step`.*`project`"),
    "acceleration_of_no_model": (
        lambda: jd.frame_acceleration(None, REST, ZERO, "rod"),
        TypeError,
        r"`frame_acceleration`: `model` is NoneType",
    ),
    "tangent_of_no_function": (lambda: jd.tangent("f", ROD, ZERO), TypeError, r"`tangent`: `f` is str 'f', not a func"),
    "replace_a_list": (lambda: ROD.replace([1]), TypeError, r"`Model.replace`: `changes` is list, not a `Mapping`"),
    "replace_a_number": (lambda: ROD.replace({3: 1.0}), TypeError, r"`Model.replace`: `path` is 3, not a `str`"),
    "key_is_a_number": (
        lambda: ROD.random_state(3),
        TypeError,
        r"`Model.random_state`: `key` is 3.*jax.random.key\(0\)",
    ),
    "name_of_robot_is_a_number": (lambda: jd.ModelSpec(3), TypeError, r"`ModelSpec`: `name` is 3, not a `str`"),
    "parent_is_a_list": (
        lambda: jd.ModelSpec("x").add_body("a", ["world"], jd.joints.Revolute()),
        TypeError,
        r"`ModelSpec.add_body\('a'\)`: `parent`: list is not the name",
    ),
    "joint_name_is_a_number": (
        lambda: jd.ModelSpec("x").add_body("a", "world", jd.joints.Revolute(3)),
        TypeError,
        r"`joint.name` is 3, not a `str`",
    ),
    "limits_are_no_pair": (
        lambda: jd.ModelSpec("x").add_body("a", "world", jd.joints.Revolute(limits=np.array(1.0))),
        ValueError,
        r"`joint.limits` is .*, not a pair",
    ),
    "actuator_of_a_list": (
        lambda: jd.ModelSpec("x").add_actuator(["a"]),
        TypeError,
        r"`joint` is list.*mapping of names",
    ),
    "actuator_without_a_name": (
        lambda: jd.ModelSpec("x").add_actuator("a", b"x"),
        TypeError,
        r"`name` is bytes b'x', not",
    ),
    "commands_to_forward_dynamics": (
        lambda: jd.forward_dynamics(LINKAGE, LINKAGE_REST, jd.Commands(COMMAND)),
        TypeError,
        r"`tau` is `Commands`, not forces; `jd.actuator_forces`",
    ),
    "whole_state_of_an_embedded_model": (
        lambda: jd.step(jd.embed(LINKAGE), LINKAGE_REST, np.zeros(1), 1e-3),
        ValueError,
        r"`step`: `state.v` has shape \(3,\), not \(1,\)\. It has the velocities of all joints: use `jd.reduce",
    ),
    "batch_of_forces_in_time": (
        lambda: roll_linkage(np.ones((4, 10, 3))),
        ValueError,
        r"\(4, 10, 3\), not \(T, 3\). For a batch, use `jax.vmap`",
    ),
    "text_that_includes_a_file": (
        lambda: jd.load('<mujoco><include file="gone.xml"/></mujoco>'),
        ValueError,
        "gone.xml.*Give the path of the file in place of its text",
    ),
    "commands_for_forces": (lambda: step_of_linkage(COMMAND), ValueError, r"`step`.*\(1,\), not \(3,\).*actuator_f"),
    "commands_in_time": (lambda: roll_linkage(np.ones((4, 1))), ValueError, r"`simulate`.*\(T, 3\)\. .*actuator_f"),
    "commands_of_a_policy": (
        lambda: roll_linkage(lambda state, t: COMMAND, steps=2),
        ValueError,
        r"`simulate`: `tau\(state, t\)` has shape \(1,\), not \(3,\).*actuator_f",
    ),
    "embedded_within_jit": (
        lambda: jax.jit(lambda: jd.embed(LINKAGE).nv)(),
        ValueError,
        r"`embed`: `model` is traced.*outside of `jit`",
    ),
    "field_without_its_holder": (
        lambda: LINKAGE.replace({"mass": 1.0}),
        ValueError,
        r"`Model.replace`: `path` 'mass': there is no field 'mass'. Did you mean 'bodies.mass'\?",
    ),
    "field_that_is_unknown": (
        lambda: LINKAGE.replace({"joints.size": 1.0}),
        ValueError,
        r"`Model.replace`: `path` 'joints.size': there is no field 'size'. Known: axis, .*own\.$",
    ),
    "field_of_the_class": (
        lambda: LINKAGE.replace({"parameters_of_lanes": 1.0}),
        ValueError,
        r"no field 'parameters_of_lanes'. Known: bodies",
    ),
    "state_in_the_place_of_q": (
        lambda: jd.mass_matrix(LINKAGE, jd.State(LINKAGE.neutral(), np.zeros(3))),
        TypeError,
        r"`mass_matrix`: `q` is a `State`; give its `q`",
    ),
    "radius_below_zero": (lambda: jd.shapes.Sphere(-1), ValueError, r"`Sphere`: `radius` is not positive: -1\.$"),
    "placement_is_a_list": (
        lambda: jd.constraints.Point("a", placement_a=[[0, 0, 1]]),
        TypeError,
        r"`placement_a` is list, not a `Transform`. Give a translation \(3,\), `jd.Transform\(np.eye",
    ),
    "actuator_named_before_its_joint": (
        lambda: jd.load_spec("four_bar").add_actuator("motor", "coupler").build(),
        ValueError,
        r"no joint 'motor'.*takes the joint first",
    ),
    "tableau_without_its_first_row": (
        lambda: jd.integrators.RungeKutta(((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
        ValueError,
        r"`RungeKutta`: `a` has 3 rows for 4 weights `b`",
    ),
    "implicit_tableau": (
        lambda: jd.integrators.RungeKutta(((0.5,),), (1.0,)),
        ValueError,
        r"`RungeKutta`: `a\[0\]` is \(0.5,\); stage 0 of an explicit method",
    ),
    "weights_of_no_method": (
        lambda: jd.integrators.RungeKutta(((), (0.5,)), (0.0, 0.9)),
        ValueError,
        r"`RungeKutta`: the weights `b` add up to 0.9",
    ),
    "tableau_is_a_number": (
        lambda: jd.integrators.RungeKutta(1.0, (1.0,)),
        TypeError,
        r"`RungeKutta`: `a` is 1.0, not",
    ),
    "no_iterations": (lambda: jd.integrators.Gauss(0), ValueError, r"`Gauss`: `iterations` = 0 is not a positive"),
    "iterations_are_text": (
        lambda: jd.integrators.ImplicitMidpoint("6"),
        ValueError,
        r"`ImplicitMidpoint`: `iterations` = '6' is not a positive integer",
    ),
    "refine_is_text": (lambda: jd.solvers.LCABA(refine="no"), TypeError, r"`LCABA`: `refine` is str 'no', neither"),
    "limbs_first_is_text": (lambda: jd.solvers.PV(limbs_first="no"), TypeError, r"`PV`: `limbs_first` is str 'no'"),
    "limits_of_a_law_are_text": (lambda: jd.contact.PGS(limits="no"), TypeError, r"`PGS`: `limits` is str 'no', neith"),
    "rcond_is_text": (lambda: jd.solvers.Dense(rcond="x"), TypeError, r"`Dense`: `rcond` = 'x' is not a number betw"),
    "true_steps_of_lanczos": (
        lambda: jd.osim.largest_eigenvalue(jd.delassus(LOOP, LOOP.neutral()), steps=True),
        ValueError,
        r"`largest_eigenvalue`: `steps` = True is not a positive integer",
    ),
    "too_many_steps": (lambda: jd.solvers.LCABA(max_steps=10**30), ValueError, r"`LCABA`: `max_steps`.*below 2\*\*31"),
    "weights_of_text": (lambda: jd.solvers.LTLSoft(["1"]), ValueError, r"`LTLSoft`: `weights`.*not positive numbers"),
    "weights_without_end": (lambda: jd.solvers.LTLSoft(np.inf), ValueError, r"`LTLSoft`: `weights`.*not positive"),
    "batch_of_models": (
        lambda: solve(ROD.replace({"bodies.mass": jnp.ones((5, 1))})),
        ValueError,
        r"`model.bodies.mass`.*\(5, 1\).*jax.vmap",
    ),
    "batch_of_gravities": (
        lambda: jd.potential_energy(ROD.replace({"gravity": np.ones((5, 3))}), ZERO),
        ValueError,
        r"`potential_energy`: `model.gravity` has shape \(5, 3\), not \(3,\).*jax.vmap",
    ),
    "mass_is_a_number": (
        lambda: jd.mass_matrix(eqx.tree_at(lambda m: m.bodies.mass, ROD, 3.0), ZERO),
        TypeError,
        r"`mass_matrix`: `model.bodies.mass` is 3.0, not an array. Use `Model.replace`",
    ),
    "damping_of_no_joint": (
        lambda: jd.passive_forces(eqx.tree_at(lambda m: m.joints.damping, ROD, np.ones(3)), REST),
        ValueError,
        r"`passive_forces`: `model.joints.damping` has shape \(3,\), not \(1,\)",
    ),
    "poses_of_no_frame": (
        lambda: jd.mass_matrix(eqx.tree_at(lambda m: m.frames.translation, ROD, np.ones((5, 3))), ZERO),
        ValueError,
        r"`mass_matrix`: `model.frames.translation` has shape \(5, 3\), not \(0, 3\)",
    ),
    "actuation_of_no_actuator": (
        lambda: jd.mass_matrix(eqx.tree_at(lambda m: m.actuation, ROD, np.ones((7, 3))), ZERO),
        ValueError,
        r"`mass_matrix`: `model.actuation` has shape \(7, 3\), not \(1, 0\)",
    ),
    "shape_without_letters": (
        lambda: jd.ModelSpec("x").add_shape("world", jd.shapes.Plane(), name=""),
        ValueError,
        r"`ModelSpec.add_shape\('world'\)`: a name is a non-empty string",
    ),
    "joint_without_a_kind": (
        lambda: jd.ModelSpec("x").add_body("a", "world", type("Odd", (jd.joints.Revolute,), {"kind": None})()),
        TypeError,
        r"`ModelSpec.add_body\('a'\)`: `Odd.kind` is NoneType, not a `jaxdyn.extend.Kind`",
    ),
    "state_is_a_vector": (lambda: solve(state=np.zeros(2)), TypeError, r"`forward_dynamics`.*`state`.*State\(q, v\)"),
    "short_tau": (
        lambda: solve(ARM, jd.State(ARM.neutral(), np.zeros(10)), ZERO),
        ValueError,
        r"`tau`.*\(1,\).*\(10,\)",
    ),
    "batch_of_tau": (lambda: solve(tau=np.zeros((8, 1))), ValueError, r"`tau`.*\(8, 1\), not \(1,\).*jax.vmap"),
    "scalar_tau": (lambda: solve(tau=0.0), ValueError, r"`tau` has shape \(\)"),
    "complex_tau": (lambda: solve(tau=[1j]), TypeError, r"`forward_dynamics`.*`tau`.*complex"),
    "text_for_tau": (lambda: solve(tau="fast"), TypeError, r"`forward_dynamics`.*`tau`.*not an array"),
    "nothing_for_tau": (lambda: solve(tau=None), TypeError, r"`forward_dynamics`.*`tau`"),
    "long_q": (lambda: solve(state=jd.State([0.0, 1.0], [0.0])), ValueError, r"`state.q`.*\(2,\), not \(1,\)"),
    "short_v": (lambda: solve(ARM, jd.State(ARM.neutral(), [0.0]), ZERO), ValueError, r"`state.v`.*not \(10,\)"),
    "external_shape": (lambda: solve(external=np.zeros(6)), ValueError, r"`external`.*\(6,\), not \(1, 6\)"),
    "warm_start_shape": (
        lambda: solve(LOOP, LOOP_REST, np.zeros(3), warm_start=np.zeros(4)),
        ValueError,
        r"`warm_start`.*\(4,\), not \(3,\)",
    ),
    "solver_is_text": (lambda: solve(solver="LCABA"), TypeError, r"`forward_dynamics`.*`solver`.*'LCABA'.*LCABA\(\)"),
    "solver_is_a_class": (lambda: solve(solver=jd.solvers.LCABA), TypeError, r"`forward_dynamics`.*`solver`"),
    "adjoint": (lambda: solve(adjoint="magic"), ValueError, r"`adjoint`.*'magic'.*'implicit' or 'unrolled'"),
    "aba_with_loops": (
        lambda: solve(LOOP, LOOP_REST, np.zeros(3), solver=jd.solvers.ABA()),
        ValueError,
        r"`ABA` takes no constraints.*'pin'.*LCABA",
    ),
    "lone_constraint": (lambda: solve(constraints=POINT), TypeError, r"`constraints` is a single Point.*tuple"),
    "constraints_is_a_number": (lambda: solve(constraints=3), TypeError, r"`constraints` is int, not a tuple"),
    "constraint_is_a_name": (lambda: solve(constraints=("foot",)), TypeError, r"`constraints\[0\]`.*'foot'"),
    "constraint_on_an_unknown_body": (
        lambda: solve(constraints=(jd.constraints.Point("rodd", name="peg"),)),
        ValueError,
        r"constraint 'peg'.*'rodd'.*'rod'",
    ),
    "constraint_within_one_body": (
        lambda: solve(constraints=(jd.constraints.Weld("rod", "rod"),)),
        ValueError,
        r"constraint 0.*both sides.*body 'rod'",
    ),
    "coupling_of_an_unknown_joint": (
        lambda: solve(constraints=(jd.constraints.Coupling(("rod", "gear"), (1.0, 2.0)),)),
        ValueError,
        r"constraint 0.*'gear'",
    ),
    "coupling_of_a_ball": (
        lambda: jd.constraint_jacobian(
            CATALOGUE["siblings"].build(),
            CATALOGUE["siblings"].build().neutral(),
            (jd.constraints.Coupling(("left", "torso"), (1.0, 1.0)),),
        ),
        ValueError,
        r"'left'",
    ),
    "coupling_lengths": (lambda: jd.constraints.Coupling(("a", "b"), (1.0,)), ValueError, r"`Coupling.*coefficients"),
    "general_rows": (
        lambda: jd.constraints.General(("rod",), lambda p: p.translation, 2),
        ValueError,
        r"`General\(\['rod'\]\)`.*\(2,\)",
    ),
    "general_function": (lambda: jd.constraints.General(("rod",), 3.0, 1), TypeError, r"`General.*`fn` is 3.0"),
    "zero_axis": (
        lambda: jd.constraints.Hinge("a", axis=(0, 0, 0)),
        ValueError,
        r"`Hinge\('a', 'world'\)`.*`axis` is zero",
    ),
    "flat_normal": (
        lambda: jd.constraints.PointOnPlane("a", normal=(0, 1)),
        ValueError,
        r"`PointOnPlane.*`normal`.*\(2,\)",
    ),
    "target_length": (
        lambda: jd.constraints.Point("a", target=[1.0]),
        ValueError,
        r"`Point\('a', 'world'\)`.*`target`.*\(1,\)",
    ),
    "placement_is_a_matrix": (
        lambda: jd.constraints.Weld("a", placement_a=np.eye(4)),
        TypeError,
        r"`placement_a`.*`Transform`",
    ),
    "placement_of_words": (
        lambda: jd.ModelSpec("x").add_frame("a", "world", ("x", "y", "z")),
        TypeError,
        r"`ModelSpec.add_frame\('a'\)`: `placement` is not an array of numbers",
    ),
    "placement_that_is_endless": (
        lambda: jd.constraints.Weld("a", placement_b=(0, 0, np.inf)),
        ValueError,
        r"`placement_b` is not finite",
    ),
    "stabilization_is_a_number": (
        lambda: jd.constraints.Weld("a", stabilization=5.0),
        TypeError,
        r"`stabilization` is 5.0.*Baumgarte",
    ),
    "negative_length": (lambda: jd.constraints.Distance("a", length=-1.0), ValueError, r"`Distance.*`length`"),
    "negative_weight": (lambda: jd.solvers.LCABA(mu=-1.0), ValueError, r"`LCABA`: `mu` = -1.0"),
    "no_steps": (lambda: jd.solvers.LCABA(max_steps=0), ValueError, r"`LCABA`: `max_steps` = 0"),
    "half_a_step": (lambda: jd.solvers.LCABA(max_steps=2.5), ValueError, r"`LCABA`: `max_steps` = 2.5"),
    "negative_tolerance": (lambda: jd.solvers.LCABA(tol=-1e-9), ValueError, r"`LCABA`: `tol` = -1e-09"),
    "negative_rcond": (lambda: jd.solvers.Dense(rcond=-1.0), ValueError, r"`Dense`: `rcond`"),
    "unknown_frame": (lambda: jd.frame_pose(ARM, ARM.neutral(), "left_fot"), ValueError, r"'left_fot'.*'left_foot'"),
    "unknown_reference": (
        lambda: jd.jacobian(ARM, ARM.neutral(), "trunk", reference="world"),
        ValueError,
        r"`jacobian`: `reference` is 'world'.*'world_aligned'",
    ),
    "unknown_joint": (lambda: ARM.q_slice("left_knee"), ValueError, r"'left_knee'"),
    "unknown_field": (lambda: ROD.replace({"bodies.masses": [1.0]}), ValueError, r"'bodies.masses'.*'mass'"),
    "field_of_another_shape": (
        lambda: ROD.replace({"bodies.mass": [1.0, 2.0]}),
        ValueError,
        r"'bodies.mass'.*\(1,\).*\(2,\)",
    ),
    "mass_is_nan": (lambda: ROD.replace({"bodies.mass": [np.nan]}), ValueError, r"`bodies.mass` is not finite"),
    "acceleration_shape": (
        lambda: jd.inverse_dynamics(ROD, REST, [0.0, 0.0]),
        ValueError,
        r"`inverse_dynamics`: `acceleration`.*\(2,\)",
    ),
    "frame_acceleration_shape": (
        lambda: jd.frame_acceleration(ROD, REST, [0.0, 0.0], "rod"),
        ValueError,
        r"`frame_acceleration`: `acceleration`.*\(2,\)",
    ),
    "integrate_shape": (
        lambda: jd.integrate(ARM, np.zeros(10), np.zeros(10)),
        ValueError,
        r"`integrate`: `q`.*\(11,\)",
    ),
    "difference_shape": (lambda: jd.difference(ROD, [0.0], [0.0, 0.0]), ValueError, r"`difference`: `q1`.*\(2,\)"),
    "assemble_nan": (lambda: jd.assemble(LOOP, [np.nan, 0, 0]), ValueError, r"`assemble`: `q` is not finite"),
    "mass_matrix_of_a_state": (lambda: jd.mass_matrix(ROD, REST), TypeError, r"`mass_matrix`: `q`"),
    "negative_time_step": (lambda: jd.step(ROD, REST, ZERO, -1e-3), ValueError, "`step`: `dt` is not positive: -0.001"),
    "zero_time_step": (lambda: run(dt=0.0), ValueError, r"`simulate`: `dt` is not positive: 0"),
    "time_steps": (lambda: run(dt=[0.1, 0.1]), ValueError, r"`simulate`: `dt` has shape \(2,\)"),
    "integrator_is_a_function": (
        lambda: jd.step(ROD, REST, ZERO, 0.1, integrator=jd.integrators.RK4),
        TypeError,
        r"`step`: `integrator`",
    ),
    "tau_of_one_step": (lambda: run(tau=(0.0,)), ValueError, r"`simulate`: `tau`.*\(1,\).*\(T, 1\)"),
    "tau_and_other_steps": (lambda: run(steps=3), ValueError, r"`steps` is 3, but `tau` has 1 rows"),
    "policy_without_steps": (
        lambda: run(lambda s, t: jnp.zeros(1)),
        ValueError,
        r"`simulate`: `steps` is None.*policy",
    ),
    "policy_of_another_shape": (
        lambda: run(lambda s, t: jnp.zeros(2), steps=3),
        ValueError,
        r"`simulate`: `tau\(state, t\)` has shape \(2,\)",
    ),
    "policy_of_one_argument": (
        lambda: run(lambda s: jnp.zeros(1), steps=3),
        TypeError,
        r"`simulate`: `tau` cannot be called with 2 arguments: too many",
    ),
    "policy_for_ever": (lambda: run(lambda s, t: s.v, steps=10**30), ValueError, r"`simulate`: `steps` is 1000.*below"),
    "step_without_tau": (lambda: jd.step(ROD, REST, None, 0.1), TypeError, r"`step`: `tau`.*it holds None"),
    "time_that_is_a_duration": (
        lambda: jd.step(ROD, REST, ZERO, np.timedelta64(1, "s")),
        TypeError,
        r"`step`: `dt`.*it holds timedelta64",
    ),
    "general_of_too_few": (
        lambda: jd.constraints.General(("rod", "world"), lambda p: p.translation, 3),
        TypeError,
        r"`General\(.*`fn` cannot be called with 2 arguments",
    ),
    "transmission_of_numpy": (
        lambda: jd.constraints.Transmission(("rod",), np.sin, 1),
        TypeError,
        r"`Transmission\(.*`fn` calls NumPy.*use `jax.numpy`",
    ),
    "batch_of_positions": (
        lambda: jd.constraints.Lock("rod", position=[[0.1]]),
        ValueError,
        r"`Lock\('rod'\)`: `position` has shape \(1, 1\)",
    ),
    "anchored_elsewhere": (
        lambda: jd.anchored(ROD, [0.0, 1.0], jd.constraints.Point("rod")),
        ValueError,
        r"`anchored`: `q`",
    ),
    "anchored_nowhere": (
        lambda: jd.anchored(ROD, [0.0], jd.constraints.Point("nobody")),
        ValueError,
        r"`anchored`: `frame`.*'nobody'",
    ),
    "expand_no_model": (lambda: jd.expand("x", REST), TypeError, r"`expand`: `embedded` is str 'x'"),
    "embed_an_array": (lambda: jd.embed(LOOP, np.array(["pin"])), TypeError, r"`embed`: `loops` is ndarray, neither"),
    "compiler_is_an_array": (
        lambda: ROD.with_compiler(np.zeros(3)),
        TypeError,
        r"`Model.with_compiler`: `compiler` is ndarray",
    ),
    "compiler_of_a_file": (lambda: jd.load("four_bar", compiler=3), TypeError, r"`load`: `compiler` is 3, not a `str`"),
    "path_below_nothing": (lambda: ROD.at("home.x"), ValueError, r"`Model.at`: `path` 'home.x': there is no field 'x'"),
    "within_nothing": (lambda: jd.delassus(ROD, ZERO, within=None), TypeError, r"`delassus`: `within` is None, not"),
    "within_words": (lambda: jd.delassus(ROD, ZERO, within=("a",)), TypeError, r"`delassus`: `within\[0\]` is str 'a'"),
    "rotor_on_nothing": (
        lambda: jd.ModelSpec("x").add_body("a", "world", jd.joints.Revolute()).add_rotor("r", 3, {"a": 2}, inertia=1),
        TypeError,
        r"`ModelSpec.add_rotor\('r'\)`: `carrier`: 3 is not the name",
    ),
    "exclude_a_number": (
        lambda: jd.ModelSpec("x").exclude("world", 3),
        TypeError,
        r"`ModelSpec.exclude`: `body_b`: 3 is not",
    ),
    "point_of_words": (lambda: PLACE.apply("abc"), TypeError, r"`Transform.apply`: `point`.*not an array"),
    "complex_point": (lambda: PLACE.apply([1j, 0, 0]), TypeError, r"`Transform.apply`: `point` is complex"),
    "plane_point": (lambda: PLACE.apply([1.0, 2.0]), ValueError, r"`Transform.apply`: `point`.*\(2,\), not \(..., 3\)"),
    "stack_of_points": (
        lambda: jd.forward_kinematics(ARM, ARM.neutral()).apply(np.zeros((2, 3))),
        ValueError,
        r"`Transform.apply`: `point`.*\(2, 3\).*stack \(5,\)",
    ),
    "half_an_axis": (
        lambda: jd.constraints.Hinge("rod", axis=np.ones(3, np.float16)),
        TypeError,
        r"`Hinge.*`axis` is float16",
    ),
    "huge_penalty": (lambda: jd.solvers.LCABA(mu=10**400), ValueError, r"`LCABA`: `mu` = 1000"),
    "weights_of_dates": (
        lambda: jd.solvers.LTLSoft(np.datetime64(3, "D")),
        ValueError,
        r"`LTLSoft`: `weights`.*not positive",
    ),
    "rotor_without_joints": (
        lambda: jd.ModelSpec("x").add_rotor("r", "world", 6.0, inertia=0.1),
        TypeError,
        r"`ModelSpec.add_rotor\('r'\)`: `ratios` is 6.0, not a `Mapping`",
    ),
    "gear_of_a_mapping": (
        lambda: jd.ModelSpec("x").add_actuator({"a": 1.0}, "t", gear=3.0),
        ValueError,
        r"`ModelSpec.add_actuator`: `gear` is for one joint",
    ),
    "pair_of_lists": (
        lambda: jd.ModelSpec("x").add_pair(["a"], "b"),
        TypeError,
        r"`ModelSpec.add_pair`: `shape_a` is list, not a `str`",
    ),
    "shape_name_is_an_array": (
        lambda: jd.ModelSpec("x").add_shape("world", jd.shapes.Plane(), name=np.zeros(3)),
        ValueError,
        r"`ModelSpec.add_shape\('world'\)`: a name is a non-empty string, not ndarray",
    ),
    "ragged_faces": (
        lambda: jd.shapes.Mesh(np.eye(3), [[0, 1, 2], [0]]),
        ValueError,
        r"`Mesh`: `faces` is not an array",
    ),
    "state_beyond_a_trajectory": (lambda: run()[2], IndexError, r"`Trajectory`: there is no state 2 of 2"),
    "state_before_a_trajectory": (lambda: run()[np.int64(-3)], IndexError, r"`Trajectory`: there is no state -3 of 2"),
}


#: two calls that mean the same
SAME = {
    "limits_of_jax": [
        lambda x=x: jd.ModelSpec("x").add_body("a", "world", jd.joints.Revolute(limits=x)).build().joints
        for x in ((-1.0, 1.0), jnp.array([-1.0, 1.0]))
    ],
    "numbers_of_other_machines": [
        lambda x=x: jd.Transform(np.eye(3), np.arange(3.0).astype(x)) for x in ("<f8", ">f8")
    ],
    "axis_of_other_machines": [
        lambda x=x: jd.constraints.Hinge("rod", axis=np.arange(3.0).astype(x)).axis for x in ("<f8", ">f8")
    ],
    "rows_of_numpy": [lambda x=x: jd.constraints.Lock("rod", x).target for x in (1, np.int64(1))],
    "no_ground_of_numpy": [lambda x=x: jd.load("four_bar", ground=x).collision for x in (False, np.bool_(False))],
    "points": [
        lambda: jnp.stack([PLACE.apply(x) for x in (np.ones(3), np.eye(3)[0])]),
        lambda: PLACE.apply(np.stack([np.ones(3), np.eye(3)[0]])),
    ],
    "tableau_of_lists": [
        lambda a=a: run(integrator=jd.integrators.RungeKutta(a, [0.0, 1.0])).q
        for a in (((), (0.5,)), [[0.0, 0.0], [0.5, 0.0]])
    ],
}


@pytest.mark.filterwarnings("ignore::jaxdyn.ModelWarning")
@pytest.mark.parametrize("name", SAME)
def test_the_same_call(name):
    one, other = (jax.tree.leaves(call()) for call in SAME[name])
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", BAD)
def test_bad_call(name):
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert len(str(caught.value)) < 600
    assert type(caught.value) is kind


def test_loops_beyond_a_solver_are_told_before_tracing():
    """Under jit as well."""
    with pytest.raises(ValueError, match="`ABA` takes no constraints"):
        jax.jit(lambda s: solve(LOOP, s, np.zeros(3), solver=jd.solvers.ABA()))(LOOP_REST)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: jd.solvers.LTLSoft(x), "`LTLSoft`: `weights`"),
        (lambda x: solve(tau={"a": x}), "`forward_dynamics`: `tau` is not an array"),
        (lambda x: run(warm_start=x > 0), "`simulate`: `warm_start`"),
        (lambda x: jd.shapes.Mesh(np.eye(3), [[0, 1, x.astype(int)]]), "`Mesh`: `faces` is traced"),
        (lambda x: jd.contact.PGS(limits=x > 0), "`PGS`: `limits`"),
        (lambda x: jd.constraints.Transmission(["a"], lambda q: x * q, 1), "`Transmission.*`fn` contains a number"),
        (
            lambda x: jd.constraints.General(["a"], lambda p: x * p.translation, 3),
            "`General.*`fn` contains a number that is traced",
        ),
    ],
)
def test_traced_values_where_static_ones_are_needed(call, text):
    with pytest.raises((TypeError, ValueError), match=text):
        jax.make_jaxpr(call)(1.0)


def test_values_under_jit_are_told_by_the_result():
    """What only values can tell is no exception: a quaternion that is too long."""
    q = np.array(ARM.neutral())
    q[3] = 1.1
    found = solve(ARM, jd.State(q, np.zeros(10)), np.zeros(10))
    assert found.result == jd.Result.non_unit_quaternion
    assert "unit length" in jd.Result[found.result]


def test_trajectories_are_printed_with_counts_of_results():
    """Where they are known, and not where they are traced, or no results at all."""
    text = repr(run([[0.0]] * 9))
    assert "result={'successful': 9}" in text and "q=f" in text
    seen = []
    jax.make_jaxpr(lambda tau: seen.append(repr(run(tau))))(np.zeros((9, 1)))
    assert "traced" in seen[0]
    assert "q=None" in repr(jax.tree.map(lambda x: None, run()))


def test_trajectories_are_sequences_of_states():
    """A loop over one ends; a traced index is JAX's own."""
    found = run()
    states = [*found]
    assert len(found) == len(states) == 2
    np.testing.assert_array_equal(states[-1].q, found[-1].q)
    np.testing.assert_array_equal(jax.jit(lambda k: found[k].q)(1), found[1].q)
    assert found[:1].q.shape == found[jnp.array([0])].q.shape == (1, 1)
