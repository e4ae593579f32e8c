"""The Delassus operator: every method against dense algebra, on scenes with contacts, loops and joint friction."""

import functools

import delassus_oracle as dense
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes

import jaxdyn as jd

METHODS = [getattr(jd.osim, name)() for name in ("Dense", "EFPA", "KJR", "LTL", "MatrixFree", "PV", "PVFast")]
#: take constraints to the ground alone
GROUNDED = [jd.osim.PVReduced(), jd.osim.ConstrainedABA()]
#: those that take constraints that hold
HOLDING = [getattr(jd.osim, name)() for name in ("Dense", "LTL", "MatrixFree", "PV", "PVFast")]
#: boxes that touch each other, more rows than freedoms, joints of several freedoms, loops that hold, single joints
SCENES = ["side_by_side", "on_ice", "tentacle", "arm", "four_bar", "strider_friction"]
#: from hard rows to soft ones
DAMPINGS = np.array([1e-6, 1e-3, 1.0, 1e4])


@pytest.fixture(scope="module", params=SCENES)
def scene(request):
    return scenes.scene(request.param)


def taken(scene) -> list:
    return [m for m in METHODS if not scene.within or m in HOLDING]


def reference(scene) -> np.ndarray:
    return dense.delassus(scene.model, scene.q, scene.constraints, within=scene.within)


def made(scene, method, damping=None):
    return jd.delassus(scene.model, scene.q, scene.constraints, method=method, damping=damping, within=scene.within)


def backward(A, x, b) -> float:
    """The backward error of x."""
    size = np.linalg.norm(A, 2) * np.linalg.norm(x) + np.linalg.norm(b)
    return float(np.linalg.norm(A @ x - b) / size)


@pytest.fixture(scope="module")
def found(scene):
    """By method, what one program finds: the matrix, solutions by damping, and that without."""
    rng = np.random.default_rng(1)
    b, x = rng.normal(size=scene.rows), rng.normal(size=scene.rows)
    G = reference(scene)

    def run(method):
        op = made(scene, method)
        damped = jax.vmap(lambda R: op.with_damping(R).solution(b))(DAMPINGS)
        undamped = jax.vmap(op.solution)(jnp.stack([G @ x, b]))
        return op.dense(), damped, *(jax.tree.map(lambda s, k=k: s[k], undamped) for k in range(2)), op.result

    return G, b, x, {m: jax.jit(lambda m=m: run(m))() for m in taken(scene)}


def test_products_are_those_of_dense_algebra(scene, found):
    G, *_, by_method = found
    for method, (matrix, *_, result) in by_method.items():
        assert np.abs(matrix - G).max() < 1e-10 * np.abs(G).max(), method
        assert result == jd.Result.successful


def test_damped_solves(scene, found):
    G, b, _, by_method = found
    for method, (_, solved, *_) in by_method.items():
        for k, R in enumerate(DAMPINGS):
            A = G + R * np.eye(len(G))
            assert backward(A, solved.x[k], b) < 1e-10, (method, R)
        assert (solved.result == jd.Result.successful).all()
        assert method != jd.osim.MatrixFree() or (solved.iterations == 1).all()


def test_solves_without_damping(scene, found):
    """Of all solutions, the one of least norm; right sides out of the range are told."""
    G, b, x, by_method = found
    redundant = np.linalg.matrix_rank(G, 1e-9 * np.abs(G).max()) < len(G)
    for method, (*_, solved, outside, _) in by_method.items():
        assert backward(G, solved.x, G @ x) < 1e-8, method
        assert solved.result == jd.Result.successful, method
        least = dense.solve(G, G @ x)
        assert np.linalg.norm(solved.x) < (1 + 1e-5) * np.linalg.norm(least), method
        assert (outside.result == jd.Result.inconsistent_constraints) == redundant, method
        least = dense.solve(G, b)
        if redundant:
            assert np.abs(outside.x - least).max() < 1e-4 * np.abs(least).max(), method


def both(op, x):
    """The product with a vector and the solution for it."""
    return op.mv(x), op.solve(x)


@functools.cache
def program(name, method):
    """(damping, vector) to the product and the solution, as one program."""
    return jax.jit(lambda damping, x: both(made(scenes.scene(name), method, damping), x))


@pytest.mark.parametrize("name", SCENES)
def test_blocks_and_diagonals_of_damping(name):
    scene = scenes.scene(name)
    rng = np.random.default_rng(2)
    sizes = [c.layout(scene.model.topology).rows for c in scene.constraints]
    A = [rng.normal(size=(r, r)) for r in sizes]
    blocks = [a @ a.T for a in A]
    blocks[0] = np.diag(np.arange(sizes[0]) + 0.0)  # a row that is not damped
    diagonal = rng.uniform(size=sum(sizes))
    G, b = reference(scene), rng.normal(size=sum(sizes))
    for R in (blocks, diagonal):
        whole = G + dense.matrix(R, len(G))
        for method in (jd.osim.MatrixFree(), jd.osim.Dense()):
            product, solved = program(name, method)(R, b)
            error = 1e-10 * np.abs(whole).max() * np.abs(b).max()
            assert np.abs(product - whole @ b).max() < 10 * error, method
            assert backward(whole, solved, b) < 1e-10, method


def test_damping_by_constraint():
    """A number for each, or a diagonal, is one number a row."""
    scene = scenes.scene("box")
    op = made(scene, jd.osim.ConstrainedABA())
    sizes = [c.layout(scene.model.topology).rows for c in scene.constraints]
    numbers = [0.1 * (k + 1) for k in range(len(sizes))]
    wanted = np.diag(np.repeat(numbers, sizes))
    mixed = [numbers[0], *(np.full(r, x) for r, x in zip(sizes[1:], numbers[1:], strict=True))]
    for given in (numbers, tuple(numbers), mixed):
        damped = op.with_damping(given)
        np.testing.assert_allclose(damped.dense() - op.dense(), wanted, atol=1e-12)
    b = np.ones(scene.rows)
    np.testing.assert_allclose(damped.dense() @ damped.solve(b), b, atol=1e-9)
    with pytest.raises(ValueError, match=r"`Delassus.with_damping`: `damping\[1\]` is negative"):
        op.with_damping([0.1, *[-0.1] * (len(sizes) - 1)])


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_columns_batches_and_single_precision(method):
    scene = scenes.scene("box")
    X = np.random.default_rng(3).normal(size=(scene.rows, 3))
    columns = functools.partial(program("box", method), 0.1)
    alone = [columns(x) for x in X.T]
    for k, whole in enumerate(columns(X)):
        assert whole.shape == X.shape
        np.testing.assert_allclose(whole.T, [a[k] for a in alone], rtol=0, atol=1e-12 * np.abs(whole).max())
    qs = scene.configurations(3)
    one = lambda q: jd.delassus(scene.model, q, scene.constraints, method=method, damping=0.1).solve(X[:, 0])  # noqa: E731
    single_states = jax.jit(one)
    np.testing.assert_allclose(jax.jit(jax.vmap(one))(qs), [single_states(q) for q in qs], rtol=1e-9)
    model, q, rows = single((scene.model, scene.q, scene.constraints))

    def lowly(x):
        op = jd.delassus(model, q, rows, method=method, damping=np.float32(0.1))
        assert op.dtype == np.float32
        return op.dense(), *both(op, x)

    low, product, solved = jax.jit(lowly)(X[:, 0].astype(np.float32))
    assert product.dtype == np.float32
    A = np.asarray(jax.jit(lambda: made(scene, method, 0.1).dense())())
    assert np.abs(np.asarray(low) - A).max() < 1e-5 * np.abs(A).max()
    assert backward(A, np.asarray(solved, float), X[:, 0]) < 1e-6


def single(tree):
    """The same in single precision."""
    return jax.tree.map(lambda x: x.astype(np.float32) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x, tree)


@pytest.mark.parametrize("method", HOLDING, ids=str)
@pytest.mark.parametrize("name", ["four_bar", "strider", pytest.param("cassie", marks=pytest.mark.slow)])
def test_rows_that_hold_in_single_precision(name, method):
    """Beside dense algebra of the same rounded numbers in double precision."""
    scene = scenes.scene(name)
    given = single((scene.model, jnp.asarray(scene.q), scene.constraints, scene.within))
    model, q, rows, within = jax.tree.map(
        lambda x: x.astype(np.float64) if jnp.result_type(x) == np.float32 else x, given
    )
    G = dense.delassus(model, q, rows, within=within)
    found = jax.jit(lambda m, q, c, w: jd.delassus(m, q, c, method=method, within=w).dense())(*given)
    assert found.dtype == np.float32
    assert np.abs(np.asarray(found) - G).max() < 3e-6 * np.abs(G).max()


@pytest.mark.parametrize("method", HOLDING, ids=str)
@pytest.mark.parametrize("tilt", [0.0, 3e-7, 2e-6])
def test_rows_of_files_that_are_almost_redundant(tilt, method):
    """A planar linkage, one axis of which is given to some digits: its loop would lock, if all three rows held."""
    scene = scenes.scene("four_bar")
    axes = np.array(scene.model.joints.axis)
    axes[2] = 0, np.cos(tilt), np.sin(tilt)
    model = scene.model.replace({"joints.axis": axes})
    G = dense.delassus(model, scene.q, scene.constraints, within=model.constraints)
    assert np.linalg.matrix_rank(G, 1e-8 * np.abs(G).max()) == 1
    found = jd.delassus(model, scene.q, scene.constraints, method=method, within=model.constraints).dense()
    assert np.abs(found - G).max() < 1e-10 * np.abs(G).max()


def test_limbs_apart_hold_no_ties_of_their_base():
    scene = scenes.scene("strider")
    with pytest.raises(
        ValueError, match=r"`PVFast` cannot hold `within\[0\]`, a `Point`.*Use `jd.osim.MatrixFree\(\)`"
    ):
        jd.delassus(scene.model, scene.q, scene.contacts, method=jd.osim.PVFast(), within=scene.contacts[:1])


@pytest.mark.parametrize("held", [False, True], ids=["free", "limb held"])
def test_limbs_apart_from_a_base_that_has_all_rows(held):
    """No row rides through a limb."""
    spec, inertia = jd.ModelSpec("drone"), jd.Inertia(1.0, (0.1, 0, 0.2), 0.1 * np.eye(3))
    spec.add_body("hull", "world", jd.joints.Free(), inertia=inertia)
    spec.add_body("arm", "hull", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
    spec.add_body("hand", "arm", jd.joints.Spherical(), inertia=inertia)
    model, rows = spec.build(), (jd.constraints.Point("hull"),)
    within = (jd.constraints.Hinge("hand", "arm", axis=(1, 0, 0)),) if held else ()
    q = model.random_state(jax.random.key(0)).q
    op = jd.delassus(model, q, rows, method=jd.osim.PVFast(), within=within)
    G = dense.delassus(model, q, rows, within=within)
    np.testing.assert_allclose(op.dense(), G, atol=1e-12)
    np.testing.assert_allclose(op.with_damping(0.1).solve(np.ones(3)), np.linalg.solve(G + 0.1 * np.eye(3), np.ones(3)))


@pytest.mark.parametrize("method", GROUNDED, ids=str)
@pytest.mark.parametrize("name", ["swimmer_6", "strider"])
def test_methods_for_constraints_to_the_ground(name, method):
    """More than six rows meet at every link of the swimmer, and at the strider's feet."""
    scene = scenes.scene(name)
    G = dense.delassus(scene.model, scene.q, scene.contacts)
    b = np.random.default_rng(7).normal(size=len(G))

    @jax.jit
    def run(dampings):
        op = jd.delassus(scene.model, scene.q, scene.contacts, method=method)
        return op.dense(), jax.vmap(lambda R: op.with_damping(R).solve(b))(dampings)

    matrix, solved = run(DAMPINGS)
    assert np.abs(matrix - G).max() < 1e-10 * np.abs(G).max()
    for R, x in zip(DAMPINGS, solved, strict=True):
        assert backward(G + R * np.eye(len(G)), x, b) < 1e-10
    with pytest.raises(ValueError, match="cannot close kinematic loops|no constraints that hold"):
        jd.delassus(scene.model, scene.q, scene.contacts, method=method, within=(scene.contacts[0],))


def test_reduced_pv_refuses_loops():
    scene = scenes.scene("side_by_side")
    with pytest.raises(ValueError, match=r"`PVReduced` cannot close kinematic loops.*Use `jd.osim.MatrixFree\(\)`"):
        made(scene, jd.osim.PVReduced())


def slope_of(f):
    """The derivative of a function of one number in forward mode. `jax.jacfwd` would map over the one direction, which
    takes longer to trace than all else."""
    return lambda t, *more: jax.jvp(lambda t: f(t, *more), (t,), (1.0,))[1]


@pytest.mark.parametrize("method", [*METHODS, *GROUNDED], ids=str)
def test_derivatives(method):
    """Both modes against central differences: configuration, masses, damping, vector, with loops where they may be."""
    scene = scenes.scene("four_bar" if method in HOLDING else "quadruped_standing" if method in GROUNDED else "arm")
    rng = np.random.default_rng(4)
    x, w, dx = (jnp.asarray(rng.normal(size=scene.rows)) for _ in range(3))
    # along the closure manifold
    J = np.asarray(jd.constraint_jacobian(scene.model, scene.q, scene.within)).reshape(-1, scene.model.nv)
    dv = rng.normal(size=scene.model.nv)
    dv = jnp.asarray(dv - np.linalg.pinv(J) @ (J @ dv))

    def f(t):
        q = jd.integrate(scene.model, scene.q, dv, t)
        if scene.within:
            q = jd.assemble(scene.model, q)
        model = scene.model.replace({"bodies.mass": scene.model.bodies.mass * (1 + 0.3 * t)})
        op = jd.delassus(model, q, scene.constraints, method=method, damping=0.1 + 0.05 * t, within=model.constraints)
        return jnp.stack([w @ op.mv(x + t * dx), w @ op.solve(x + t * dx)])

    f, h = jax.jit(f), 1e-4
    wanted = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)
    push = rng.normal(size=2)
    forward, backward = jax.jit(lambda t: (slope_of(f)(t), jax.grad(lambda t: push @ f(t))(t)))(0.0)
    error = 1e-6 * np.abs(wanted).max()
    assert np.abs(forward - wanted).max() < error
    assert abs(backward - push @ wanted) < error * np.abs(push).sum()
    if method == jd.osim.MatrixFree():
        slope = jax.jit(slope_of(f))
        wanted = push @ (slope(h) - slope(-h)) / (2 * h)
        assert abs(jax.jit(jax.grad(lambda t: push @ slope_of(f)(t)))(0.0) - wanted) < 1e-5 * abs(wanted)


@pytest.mark.parametrize("damping", [None, 0.1])
def test_gradients_by_the_vector_alone(damping):
    """The operator is constant, and singular without damping: the joints move in a plane."""
    op = jd.delassus(jd.load("four_bar"), [0.3, 0.4, -0.2], damping=damping)
    A, b = np.asarray(op.dense()), np.array([0.5, 0.1, 0.3])
    slope = jax.jit(jax.jacrev(op.solve))(b)
    np.testing.assert_allclose(slope, np.linalg.pinv(A, 1e-9), rtol=1e-9, atol=1e-9)


def two_links() -> jd.Model:
    spec, inertia = jd.ModelSpec("two_links"), jd.Inertia(1.0, (0.3, 0.02, 0.1), np.diag([0.02, 0.05, 0.03]))
    spec.add_body("a", "world", jd.joints.Revolute(axis=(0, 0, 1)), inertia=inertia)
    along = jd.Transform(np.eye(3), (0.5, 0.0, 0.1))
    spec.add_body("b", "a", jd.joints.Revolute(axis=(0, 1, 0)), placement=along, inertia=inertia)
    return spec.build()


@pytest.mark.parametrize("method", ["MatrixFree", "Dense"])
def test_derivatives_where_the_operator_is_singular(method):
    """Of both orders, in both modes: six rows on two joints, whose null space turns, with b in the range and out of
    it, without damping and with one that happens to be zero, also in a batch."""
    model, rng = two_links(), np.random.default_rng(0)
    place = jd.Transform(np.eye(3), (0.4, 0.1, 0.05))
    points = tuple(jd.constraints.Point(body, placement_a=place, stabilization=None) for body in "ab")
    x, b, w, u = (jnp.asarray(rng.normal(size=6)) for _ in range(4))
    dq = jnp.asarray(rng.normal(size=2))

    def operator(t, damping=None):
        changed = model.replace({"bodies.mass": model.bodies.mass * (1 + 0.3 * t)})
        q = jnp.array([0.3, 0.5]) + t * dq
        return jd.delassus(changed, q, points, method=getattr(jd.osim, method)(), damping=damping)

    matrix = jax.jit(lambda t: operator(t).dense())

    def wanted(t):
        A = np.asarray(matrix(t))
        return w @ dense.solve(A, A @ A @ x) + u @ dense.solve(A, b + t * w)

    def f(t, damping):
        A, G = operator(t, damping), operator(t)
        return w @ A.solve(G.mv(G.mv(x))) + u @ A.solve(b + t * w)

    modes = [(jax.grad,), (slope_of, jax.grad)]
    if method == "Dense":
        modes += [(slope_of,), (slope_of, slope_of), (jax.grad, slope_of)]

    @jax.jit
    def found(t, damping):
        return f(t, damping), [functools.reduce(lambda g, mode: mode(g), by, f)(t, damping) for by in modes]

    h = 1e-2
    at = [wanted(k * h) for k in range(-3, 4)]
    slope = np.dot([-1, 9, -45, 0, 45, -9, 1], at) / (60 * h)
    curvature = np.dot([2, -27, 270, -490, 270, -27, 2], at) / (180 * h * h)
    value, derivatives = found(0.0, np.zeros(6) if method == "Dense" else None)
    assert abs(value - at[3]) < 1e-7 * abs(at[3])
    for by, got in zip(modes, derivatives, strict=True):
        one = slope if len(by) == 1 else curvature
        assert abs(got - one) < 1e-6 * abs(one), by
    if method == "Dense":
        slopes = jax.jit(jax.vmap(jax.grad(f), (None, 0)))(0.0, np.outer([0.0, 0.1], np.ones(6)))
        np.testing.assert_allclose(slopes[0], slope, rtol=1e-6)
        soft = lambda t: w @ np.linalg.solve(matrix(t) + 0.1 * np.eye(6), matrix(t) @ matrix(t) @ x)  # noqa: E731
        also = lambda t: u @ np.linalg.solve(matrix(t) + 0.1 * np.eye(6), b + t * w)  # noqa: E731
        damped = [soft(k * h) + also(k * h) for k in range(-3, 4)]
        slope = np.dot([-1, 9, -45, 0, 45, -9, 1], damped) / (60 * h)
        np.testing.assert_allclose(slopes[1], slope, rtol=1e-6)


def test_another_damping_or_vector_shares_what_it_can():
    scene = scenes.scene("box")
    op = made(scene, jd.osim.MatrixFree(), 0.1)
    other = op.with_damping(0.2)
    assert all(a is b for a, b in zip(jax.tree.leaves(op._made), jax.tree.leaves(other._made), strict=True))
    assert np.abs(other.dense() - op.dense() - 0.1 * np.eye(scene.rows)).max() < 1e-12
    assert np.abs(op.with_damping(None).dense() - made(scene, jd.osim.MatrixFree()).dense()).max() == 0


def test_iterations_on_an_operator():
    scene = scenes.scene("stack_3")
    op = made(scene, jd.osim.MatrixFree(), 1e-4)
    A, b = np.asarray(op.dense()), np.random.default_rng(5).normal(size=scene.rows)
    plain = jd.osim.conjugate_gradient(op, b, tol=1e-9)
    helped = jd.osim.conjugate_gradient(op, b, tol=1e-9, preconditioner=op.with_damping(1e-2))
    for solved in (plain, helped):
        assert solved.result == jd.Result.successful
        assert np.linalg.norm(A @ solved.x - b) < 1e-8 * np.linalg.norm(b)
    assert jd.osim.conjugate_gradient(op, b * np.nan).result == jd.Result.not_finite
    assert 3 * helped.iterations < plain.iterations
    short = jd.osim.conjugate_gradient(op, b, tol=1e-9, max_steps=3)
    assert short.result == jd.Result.max_steps_reached
    assert abs(jd.osim.largest_eigenvalue(op) - np.linalg.eigvalsh(A)[-1]) < 1e-6 * np.linalg.eigvalsh(A)[-1]


@pytest.mark.parametrize("name", ["strider", "four_bar"])
def test_the_largest_eigenvalue_has_derivatives(name):
    """... of first and second order, in both modes, as that of the matrix has. Rows across a plane are zero."""
    model = jd.load(name)
    q = jd.assemble(model, model.neutral()) if name == "four_bar" else model.random_state(jax.random.key(0)).q
    way = np.linspace(-1, 1, model.nv)
    at = lambda s: jd.delassus(model, jd.integrate(model, q, s * way), method=jd.osim.LTL())  # noqa: E731
    rows = at(0.0).shape[0]
    found = lambda s: jd.osim.largest_eigenvalue(at(s), steps=rows)  # noqa: E731
    wanted = lambda s: jnp.linalg.eigvalsh(at(s).dense())[-1]  # noqa: E731
    every = lambda f: jax.jit(lambda s: (f(s), jax.grad(f)(s), jax.jacfwd(jax.grad(f))(s), jax.grad(jax.grad(f))(s)))  # noqa: E731
    np.testing.assert_allclose(every(found)(0.3), every(wanted)(0.3), rtol=1e-6)


def test_conjugate_gradients_end_by_the_length_of_the_residual():
    """Also where entries of b are zero: relative to its own entry, no residual is small there, or none is large. The
    solution has derivatives, by the operator too, and the rows may be redundant."""
    spec = jd.ModelSpec("two").add_body("a", "world", jd.joints.Free(), inertia=jd.Inertia.box(2.0, (0.1, 0.2, 0.3)))
    spec.add_body("b", "a", jd.joints.Revolute(axis=(0, 1, 0)), inertia=jd.Inertia(1.0, (0, 0, -0.3), 0.1 * np.eye(3)))
    model, held = spec.build(), (jd.constraints.Weld("b"), jd.constraints.Point("a"))
    of = lambda q, damping: jd.delassus(model, q, held, damping=damping)  # noqa: E731
    q = jnp.asarray(model.neutral()).at[7].set(0.4)
    op = of(q, 0.1)
    b = np.vstack([np.eye(9), np.zeros(9), np.arange(9.0) - 3])
    found = jax.jit(jax.vmap(lambda b: jd.osim.conjugate_gradient(op, b, tol=1e-11)))(b)
    assert (found.result == jd.Result.successful).all() and found.iterations.max() <= 9
    np.testing.assert_allclose(found.x @ op.dense(), b, atol=1e-9)
    free = op.with_damping(None)
    inside = free.mv(b[-1])
    np.testing.assert_allclose(free.mv(jd.osim.conjugate_gradient(free, inside, tol=1e-10).x), inside, atol=1e-8)
    assert jd.osim.conjugate_gradient(free, b[-1]).result == jd.Result.max_steps_reached  # outside of the range
    assert jd.osim.conjugate_gradient(op, b[-1] * np.nan).result == jd.Result.not_finite
    iterated = lambda q, b, R: jd.osim.conjugate_gradient(of(q, R), b, tol=1e-12).x  # noqa: E731
    dense = lambda q, b, R: jnp.linalg.solve(of(q, R).dense(), b)  # noqa: E731
    for mode in (jax.jacfwd, jax.jacrev):
        pairs = zip(*(jax.jit(mode(f, (0, 1, 2)))(q, b[-1], 0.1) for f in (iterated, dense)), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, atol=1e-9 * np.abs(other).max())


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_products_have_a_transpose(compiler):
    """What iterations such as GMRES need, and their derivatives; each column of a batch has its own."""
    model = jd.load("four_bar").with_compiler(compiler)
    op = jd.delassus(model, [0.3, 0.4, -0.2], damping=0.1)
    A, b = np.asarray(op.dense()), np.array([[0.5, 0.1, 0.3], [1.0, -2.0, 0.7]])
    back = lambda y: jax.linear_transpose(op.mv, y)(y)[0]  # noqa: E731
    np.testing.assert_allclose(back(b[0]), A @ b[0], rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(back))(b), b @ A, rtol=1e-12)
    solved = lambda b: jax.scipy.sparse.linalg.gmres(op.mv, b, tol=1e-12)[0]  # noqa: E731
    slope = jax.jit(jax.jacrev(solved))(b[0])
    np.testing.assert_allclose(slope, np.linalg.inv(A), rtol=1e-9, atol=1e-9)
    with pytest.raises(NotImplementedError, match="is not linear"):
        jax.linear_transpose(lambda q: jd.mass_matrix(model, q), b[0])(np.eye(3))


def test_nan_is_told():
    scene = scenes.scene("box")
    op = jd.delassus(scene.model, scene.q * np.nan, scene.contacts)
    assert op.result == jd.Result.not_finite
    assert made(scene, jd.osim.MatrixFree()).solution(np.full(scene.rows, np.nan)).result == jd.Result.not_finite


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "PV"}, "`method` is str 'PV', not a `Method`"),
        ({"constraints": ()}, "`constraints` is empty"),
        ({"damping": -1.0}, "`damping` is negative"),
        ({"damping": np.ones(2)}, "`damping` has shape"),
        ({"damping": [np.eye(3)]}, "`damping` has 1 blocks for"),
        ({"damping": "soft"}, "`damping`"),
        ({"q": np.zeros(3)}, "`q` has shape"),
        ({"within": (jd.constraints.Point("nobody"),)}, "nobody"),
        ({"within": (jd.constraints.Point("box"),), "method": jd.osim.KJR()}, "`KJR` takes no constraints that hold"),
    ],
)
def test_errors_name_the_argument(change, message):
    scene = scenes.scene("box")
    given = {"q": scene.q, "constraints": scene.contacts} | change
    if "within" in change and "KJR" in str(change.get("method")):
        given["within"] = (jd.constraints.Point(scene.model.body_names[0]),)
    with pytest.raises((TypeError, ValueError), match="delassus") as error:
        jd.delassus(scene.model, given.pop("q"), given.pop("constraints"), **given)
    assert message in str(error.value)


def test_wrong_vectors_are_refused():
    op = made(scenes.scene("box"), jd.osim.MatrixFree())
    with pytest.raises(ValueError, match=r"`Delassus.mv`: `x` has shape \(2,\), neither \(12,\) nor \(12, k\)"):
        op.mv(np.ones(2))
    with pytest.raises(ValueError, match=r"`Delassus.solution`: `b` has shape \(12, 2\), not \(12,\)"):
        op.solution(np.ones((12, 2)))
    batch = jax.tree.map(lambda x: jnp.stack([x, x]), op)
    with pytest.raises(ValueError, match=r"`Delassus.mv`: this is a batch of operators; call it for each by `jax.vmap"):
        batch.mv(np.ones(12))
    for wrong in ({"tol": -1.0}, {"max_steps": 0}):
        with pytest.raises(ValueError, match="`MatrixFree`: `"):
            jd.osim.MatrixFree(**wrong)
        with pytest.raises(ValueError, match="`conjugate_gradient`: `"):
            jd.osim.conjugate_gradient(op, np.ones(12), **wrong)
    for steps in (True, 2.5, 0):
        with pytest.raises(ValueError, match="`largest_eigenvalue`: `steps`"):
            jd.osim.largest_eigenvalue(op, steps=steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "MatrixFree") for name in ("quadruped_fallen_friction", "cassie", "humanoid_standing", "pyramid_2")]
    + [("cassie", name) for name in ("LTL", "PV", "PVFast")],
)
def test_real_robots(name, method):
    scene = scenes.scene(name)
    q = scene.configurations(2)[1]
    G = dense.delassus(scene.model, q, scene.constraints, within=scene.within)
    b = np.random.default_rng(6).normal(size=scene.rows)
    A = G + 1e-3 * np.eye(len(G))

    @jax.jit
    def run(q):
        op = jd.delassus(
            scene.model, q, scene.constraints, method=getattr(jd.osim, method)(), damping=1e-3, within=scene.within
        )
        return op.dense(), op.solve(b)

    matrix, x = run(q)
    assert np.abs(matrix - A).max() < 1e-10 * np.abs(A).max()
    assert backward(A, x, b) < 1e-10


def finger():
    """A finger of 2 g on a body of 10 kg, welded, pinned and locked: its rows are dependent, and its G is large."""
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    spec = jd.ModelSpec("finger")
    spec.add_body("base", "world", jd.joints.Free(), inertia=jd.Inertia(10.0, (0.02, 0.01, 0.03), 0.2 * np.eye(3)))
    small = jd.Inertia(2e-3, (0.003, -0.002, 0.001), 2e-7 * (turn @ np.diag([0.03, 0.04, 0.05]) @ turn.T))
    place = jd.Transform(turn, (0.1, 0.2, 0.1))
    spec.add_body("finger", "base", jd.joints.Revolute(axis=(1, 2, 3)), placement=place, inertia=small)
    model = spec.build()
    rows = (
        jd.anchored(model, model.neutral(), jd.constraints.Weld("finger")),
        jd.constraints.Point("finger", placement_a=(0.01, 0.01, 0.01)),
        jd.constraints.Lock("finger"),
    )
    return model, rows


@pytest.mark.parametrize("method", ("PV", "PVFast", "EFPA", "KJR", "LTL", "Dense"))
def test_small_links_on_heavy_bases(method):
    model, rows = finger()
    rng = np.random.default_rng(1)
    model, rows = jax.tree.map(lambda x: x.astype(np.float32), (model, rows))
    operator = jd.delassus(model, model.neutral(), constraints=rows, method=getattr(jd.osim, method)())
    b = operator.mv(rng.normal(size=10).astype(np.float32))
    found = operator.solution(b)
    assert found.result == jd.Result.successful
    assert np.abs(operator.mv(found.x) - b).max() < 3e-6 * np.abs(b).max()


@pytest.mark.parametrize("method", ("MatrixFree", "PV", "LTL", "Dense"))
def test_solutions_have_the_least_norm(method):
    """In the null space, an inverse with little damping makes large numbers of rounding."""
    model, rows = finger()
    G = dense.delassus(model, model.neutral(), rows)
    inverse = np.linalg.pinv(G, 1e-10, hermitian=True)
    operator = jd.delassus(model, model.neutral(), constraints=rows, method=getattr(jd.osim, method)())
    for b in (G @ np.random.default_rng(2).normal(size=(len(G), 8))).T:
        found = operator.solution(b)
        assert found.result == jd.Result.successful
        np.testing.assert_allclose(found.x, inverse @ b, atol=1e-6 * np.abs(found.x).max())


def geared_leg(ratio: float) -> jd.Model:
    """A floating body with a parallelogram, whose crank a rotor of 1e-5 kg m² drives through a gear."""
    spec, y = jd.ModelSpec("geared_leg"), (0, 1, 0)
    place = lambda *p: jd.Transform(np.eye(3), p)  # noqa: E731
    body = lambda mass, center, *moments: jd.Inertia(mass, center, np.diag(moments))  # noqa: E731
    spec.add_body("base", "world", jd.joints.Free(), inertia=body(3.0, (0, 0, 0.02), 0.03, 0.04, 0.05))
    turn = lambda name, parent, at, inertia: spec.add_body(  # noqa: E731
        name, parent, jd.joints.Revolute(axis=y), placement=at, inertia=inertia
    )
    turn("thigh", "base", place(0, 0.1, 0), body(0.5, (0, 0, -0.1), 3e-3, 3e-3, 1e-4))
    turn("shin", "thigh", place(0, 0, -0.2), body(0.2, (0, 0, -0.1), 1e-3, 1e-3, 1e-4))
    turn("rod", "shin", place(0.05, 0, 0), body(0.1, (0, 0, 0.1), 1e-3, 1e-3, 1e-5))
    turn("crank", "base", place(0, 0.1, 0), body(0.1, (0.02, 0, 0), 1e-5, 1e-4, 1e-4))
    ends = {"placement_a": place(0, 0, 0.2), "placement_b": place(0.05, 0, 0)}
    spec.add_constraint(jd.constraints.Point("rod", "crank", name="loop", **ends))
    rotor = body(0.1, (0, 0, 0), 1e-5, 2e-5, 1e-5)
    spec.add_rotor("motor", "base", {"crank": ratio}, inertia=rotor, axis=y, placement=place(0, 0.05, 0))
    return spec.build()


@pytest.mark.parametrize("ratio", [5.0, 9.0, 50.0])
def test_gears_leave_other_rows_their_digits(ratio):
    """In single precision, with dependent rows and b in the range of the operator."""
    model = geared_leg(ratio)
    q = jd.assemble(model, model.neutral().at[model.q_slice("thigh")].set(0.3))
    J, M = np.asarray(jd.constraint_jacobian(model, q)), np.asarray(jd.mass_matrix(model, q))
    G = J @ np.linalg.solve(M, J.T)
    b = G @ np.linalg.pinv(G, rcond=1e-10) @ np.ones(len(G))
    model, q, b = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (model, q, b))
    found = jd.delassus(model, q).solution(b)
    wanted = np.linalg.pinv(G, rcond=1e-10) @ np.asarray(b, float)
    assert found.result == jd.Result.successful
    assert np.abs(np.asarray(found.x, float) - wanted).max() < 1e-4 * np.abs(wanted).max()
