"""Numbers that cannot be what they stand for are refused by name; pickles and precisions do not mix."""

import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

C = jd.constraints
ROD = jd.ModelSpec("rod").add_body("rod", "world", jd.joints.Revolute(), inertia=jd.Inertia(1.0)).build()


def body(**options):
    return jd.ModelSpec("s").add_body("b", "world", jd.joints.Revolute(**options), inertia=jd.Inertia(1.0))


BAD = {
    "nan target": (lambda: C.Point("b", target=[np.nan] * 3), ValueError, r"`Point.*`target` is not finite"),
    "no rotation": (lambda: jd.Transform(5 * np.eye(3), np.zeros(3)), ValueError, "`rotation` is not a rotation"),
    "mirror": (lambda: jd.Transform(-np.eye(3), np.zeros(3)), ValueError, "it mirrors"),
    "nan inertia": (lambda: jd.Inertia(np.nan), ValueError, "`Inertia`: `mass` is not finite"),
    "negative gain": (lambda: C.Baumgarte(-1.0), ValueError, "`stiffness` is negative"),
    "negative damping": (lambda: body(damping=-1.0), ValueError, "`joint.damping` is negative"),
    "negative stiffness": (lambda: body(stiffness=-1.0), ValueError, "`joint.stiffness` is negative"),
    "long axis": (lambda: ROD.replace({"joints.axis": 2 * ROD.joints.axis}), ValueError, "not of unit length"),
    "long rest": (
        lambda: jd.ModelSpec("s").add_body("b", "world", jd.joints.Spherical(rest=(2.0, 0, 0, 0))),
        ValueError,
        "`joint.rest` is not of unit length",
    ),
    "endless limit": (
        lambda: ROD.replace({"joints.lower": [np.inf], "joints.upper": [np.inf]}),
        ValueError,
        "`Model.replace`: the limits .* are endless on the wrong side",
    ),
    "replaced by zeros": (
        lambda: ROD.replace({"bodies.placement.rotation": np.zeros((1, 3, 3))}),
        ValueError,
        "not a rotation matrix",
    ),
    "complex": (lambda: jd.mass_matrix(ROD, [1j]), TypeError, "`q` is complex"),
    "text": (lambda: jd.mass_matrix(ROD, ["0.5"]), TypeError, "`q` is not an array of numbers"),
    "half precision": (
        lambda: jd.mass_matrix(ROD, np.zeros(1, np.float16)),
        TypeError,
        "`mass_matrix`: `q` is float16, which has too few digits; cast it",
    ),
    "bfloat16": (lambda: jd.State(jnp.zeros(1, jnp.bfloat16), [0.0]), TypeError, "`State`: `q` is bfloat16"),
    "a model in half precision": (
        lambda: jd.mass_matrix(jax.tree.map(lambda x: x.astype("bfloat16"), ROD), [0.0]),
        TypeError,
        "`mass_matrix`: `model` is bfloat16, .*cast it",
    ),
    "half precision, traced": (
        lambda: jax.jit(lambda tau: jd.forward_dynamics(ROD, jd.State([0.0], [0.0]), tau))(jnp.zeros(1, jnp.float16)),
        TypeError,
        "`forward_dynamics`: `tau` is float16",
    ),
    "no rotational inertia": (
        lambda: jd.log_cholesky_from_inertia(jd.Inertia(1.0)),
        ValueError,
        "`log_cholesky_from_inertia`: `inertia` has mass 1 and principal moments",
    ),
    "two of one name": (
        lambda: jd.constraint_slices(ROD, (C.Point("rod", name="x"), C.Weld("rod", name="x"))),
        ValueError,
        "`constraint_slices`: two constraints are named 'x', numbers 0 and 1; give each",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(name):
    call, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        call()


def test_large_directions():
    np.testing.assert_allclose(C.Hinge("b", axis=(0, 1e200, 0)).axis, [0, 1, 0])
    np.testing.assert_allclose(jd.Transform.from_quaternion((0, 1e200, 0, 0)).rotation, np.diag([1, -1, -1]))
    np.testing.assert_allclose(body(axis=(0, 1e200, 0)).build().joints.axis[0], [0, 1, 0])


def test_inertias_that_files_have_can_be_replaced():
    """The products of inertia outweigh the moments, as some exporters write."""
    odd = np.array([[1.0, 3.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    with pytest.warns(jd.ModelWarning, match="`Model.replace`: `bodies.rotational` has the negative principal moment"):
        model = ROD.replace({"bodies.rotational": odd[None]})
    np.testing.assert_array_equal(model.bodies.rotational[0], odd)
    for wrong, text in ((-np.eye(3), "negative principal moment -1"), (np.tri(3), "not symmetric")):
        with pytest.raises(ValueError, match=f"`Model.replace`: `bodies.rotational`.*{text}"):
            ROD.replace({"bodies.rotational": wrong[None]})
    with pytest.raises(ValueError, match="negative principal moment"):
        jd.ModelSpec("s").add_body("b", "world", jd.joints.Revolute(), inertia=jd.Inertia(1.0, (0, 0, 0), odd))


def test_single_precision_overflows_are_told():
    with jax.enable_x64(False), pytest.raises(ValueError, match="too large for single precision.*jax_enable_x64"):
        jd.Inertia(1e39)


def test_a_model_in_double_precision_without_x64():
    with jax.enable_x64(False), pytest.raises(ValueError, match="`mass_matrix`: `model` is in double precision"):
        jd.mass_matrix(ROD, [0.0])


def test_traced_values_pass():
    assert jnp.isfinite(jax.jit(lambda x: C.Baumgarte(x).damping)(4.0))
    assert jax.jit(lambda x: ROD.replace({"joints.damping": x}).joints.damping)(-jnp.ones(1)) == -1


def test_hashes_are_made_anew_in_another_process(tmp_path):
    hash(ROD.topology)
    (tmp_path / "rod").write_bytes(pickle.dumps(ROD))
    code = (
        "import pickle, dataclasses; m = pickle.load(open('rod', 'rb')); t = m.topology\n"
        "assert hash(t) == hash(dataclasses.replace(t)), 'the hash travelled'"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_second_import_is_told_of_and_works():
    code = (
        "import sys, numpy as np, jaxdyn as old\n"
        "run = lambda jd, m: jd.forward_dynamics(m, jd.State(np.zeros(3), np.zeros(3)), np.zeros(3)).acceleration\n"
        "m = old.load('four_bar'); a = run(old, m)\n"
        "for n in [n for n in sys.modules if n.split('.')[0] == 'jaxdyn']: del sys.modules[n]\n"
        "import jaxdyn as new\n"
        "assert (run(new, new.load('four_bar')) == a).all()\n"
        "try: run(new, m)\n"
        "except TypeError as error: assert 'another import of jaxdyn' in str(error)\n"
        "else: raise SystemExit('taken')\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
