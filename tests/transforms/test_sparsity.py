"""Sparsity patterns from the graph, colourings, and the sparse derivatives made with them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import wengert as wg
from forwardchecks import function, moving
from opchecks import calls, checked_ops
from wengert.core.ops.op import DEFERRED, find_op
from wengert.core.tensor import wrap
from wengert.transforms.derivatives.tangents import Recording
from wengert.transforms.jacobians import coloring
from wengert.transforms.jacobians.sparsity import symmetric

sp = pytest.importorskip("scipy.sparse")

for _name in list(DEFERRED):
    find_op(_name)

X4 = wg.spec((4,), wg.float64)


def t(value):
    return wg.tensor(np.asarray(value, float))


def pattern(fn, *args, **options):
    found = wg.sparse.jacobian_sparsity(fn, *args, **options)
    assert found.format == "csc"
    assert found.dtype == bool
    return found.toarray().astype(int)


def second(fn, *args, **options):
    return wg.sparse.hessian_sparsity(fn, *args, **options).toarray().astype(int)


# -- every op


def nonzeros(fn, x, tries=5, away=0.0):
    """Where the Jacobian is not zero at some of several points."""
    rng = np.random.default_rng(0)
    found = None
    for trial in range(tries):
        noise = 0.05 * rng.standard_normal(x.shape)
        at = x if trial == 0 else (x * (1 + noise) + away * noise).astype(x.dtype)
        _, push = wg.linearize(fn, wrap(at))
        columns = []
        for unit in np.eye(x.size):
            tangents = push(wrap(unit.reshape(x.shape).astype(x.dtype)))
            columns.append(np.concatenate([np.zeros(0), *(np.asarray(s._array).ravel() for s in tangents)]))
        # An infinite partial times the 0 of another element is NaN, and no dependence.
        matrix = np.nan_to_num(np.stack(columns, 1), nan=0.0)
        found = matrix != 0 if found is None else found | (matrix != 0)
    return found


def cases(op):
    for call in calls(op):
        for i in moving(op, call):
            x = call.args[i]
            if call.order >= 1 and x.dtype.kind == "f" and x.size:
                yield call, i, x


# Ops whose Jacobian has zeros that depend on the values, at the samples at least: what is picked
# (maximum, relu), a factor that is zero there, the sign of a determinant, its derivatives where it is 0,
# the exponential of blocks.
BY_VALUE = frozenset(
    ["clip", "maximum", "minimum", "relu", "hardtanh", "max", "min", "max_pool"]
    + ["xlogy", "xlog1py", "linear_recurrence", "slogdet", "expm", "dropout_at", "cofactors_along"]
)
# Blocks of a layout, where the factor of a triangular or orthogonal structure has zeros of its own.
BY_BLOCK = frozenset(["cholesky", "lu", "qr"])
# Rows of one element, of which a softmax is 1.
BY_SIZE = frozenset(["softmax", "attention", "attention_gradients"])
# Samples with zeros, which are moved away from.
WITH_ZEROS = frozenset(["prod", "cumulative_prod", "det", "adjugate"])


@pytest.mark.parametrize("op", [op for op in checked_ops() if any(True for _ in cases(op))], ids=lambda op: op.name)
def test_every_op(op) -> None:
    for call, i, x in cases(op):
        fn = function(op, call, [i])
        try:
            found = nonzeros(fn, x, away=float(op.name in WITH_ZEROS))
        except wg.WengertError:
            found = nonzeros(fn, x, tries=1)  # the sample is special: no points beside it
        expected = wg.sparse.jacobian_sparsity(fn, wrap(x)).toarray()
        assert not (found & ~expected).any(), f"{call.attrs}, argument {i}: a nonzero is missing"
        # What other ranks bring is not known, nor how much of it is added up.
        if op.name not in BY_VALUE | BY_BLOCK | BY_SIZE and op.kind != "collective":
            np.testing.assert_array_equal(found, expected, err_msg=f"{call.attrs}, argument {i}")


def test_most_ops_are_exact() -> None:
    names = {op.name for op in checked_ops() if any(True for _ in cases(op))}
    assert len(names - BY_VALUE - BY_BLOCK - BY_SIZE) > 130
    assert (BY_VALUE | BY_BLOCK | BY_SIZE | WITH_ZEROS).issubset(names)


# -- structure


@pytest.mark.parametrize(
    ("fn", "rows"),
    [
        (lambda x: x[1:] * x[:-1], ["1100", "0110", "0011"]),
        (lambda x: x * wg.tensor([1.0, 0.0, 1.0, 0.0]), ["1000", "0000", "0010", "0000"]),
        (lambda x: wg.where(wg.tensor([True, False, True, False]), x, x[::-1]), ["1000", "0010", "0010", "1000"]),
        (lambda x: wg.tensor(np.eye(4, k=1)) @ x, ["0100", "0010", "0001", "0000"]),
        (lambda x: wg.tensor(np.eye(4)[:2]) @ wg.outer(x, x) @ wg.ones(4, dtype=wg.float64), ["1111", "1111"]),
        (lambda x: x.reshape(2, 2) @ wg.tensor([[1.0, 0.0], [0.0, 1.0]]), ["1000", "0100", "0010", "0001"]),
        (lambda x: wg.floor(x) + wg.sign(x) + (x > 0), ["0000"] * 4),
        (lambda x: wg.stop_gradient(x) * x[0], ["1000"] * 4),
        (lambda x: x.astype(wg.int32).astype(wg.float64) * x, ["1000", "0100", "0010", "0001"]),
        (lambda x: x[wg.argsort(x)], ["1111"] * 4),
        (lambda x: wg.softmax(x.reshape(2, 2), axis=0), ["1010", "0101", "1010", "0101"]),
        (lambda x: {"a": x.sum(), "b": x[2]}, ["1111", "0010"]),
        (lambda x: wg.cumulative_sum(x)[:3], ["1000", "1100", "1110"]),
        (lambda x: wg.ones(2), ["0000"] * 2),
        (lambda x: (), []),
    ],
)
def test_patterns(fn, rows) -> None:
    expected = np.array([[int(c) for c in row] for row in rows]).reshape(len(rows), 4)
    np.testing.assert_array_equal(pattern(fn, X4), expected)


def test_control_flow() -> None:
    lower = np.tri(4, dtype=int)
    # Both branches; one where the index is known.
    branches = [lambda x: x[:2], lambda x: x[2:]]
    np.testing.assert_array_equal(
        pattern(lambda x: wg.switch((x[0] > 0).astype(wg.int64), branches, x), X4), [[1, 0, 1, 0], [0, 1, 0, 1]]
    )
    np.testing.assert_array_equal(
        pattern(lambda x, i: wg.switch(i, branches, x), X4, wg.tensor(1)), [[0, 0, 1, 0], [0, 0, 0, 1]]
    )
    # A scan is exact turn by turn; reversed from the other side.
    for reverse, expected in ((False, lower), (True, lower.T)):
        rows = pattern(lambda x, r=reverse: wg.scan(lambda c, a: (c + a, c + a), 0.0 * x[0], x, reverse=r)[1], X4)
        np.testing.assert_array_equal(rows, expected)
    # A loop of known length is exact: two shifts of a sum of neighbours.
    np.testing.assert_array_equal(
        pattern(lambda x: wg.fori_loop(0, 2, lambda i, v: wg.concat([v[:1] * 0.0, v[:-1]]), x), X4),
        np.eye(4, k=-2, dtype=int),
    )
    # A loop that stops by value: until nothing is added.
    shift = lambda v: wg.concat([v[:1], v[:-1]])
    np.testing.assert_array_equal(pattern(lambda x: wg.while_loop(lambda v: v.sum() < 9, shift, x), X4), lower)
    body = lambda i, v: v * wg.cond(v[0] > 0, lambda v: v[1], lambda v: v[2], v)
    np.testing.assert_array_equal(
        pattern(lambda x: wg.fori_loop(0, 1, body, x), X4), [[1, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1]]
    )


def test_a_users_own_rule() -> None:
    """It is the rule that says what depends on what, not what the function is made of."""

    @wg.custom_vjp
    def straight(x, y):
        return wg.round(x) + y

    straight.defvjp(lambda x, y: (wg.round(x) + y, None), lambda _, ct: (ct, wg.zeros_like(ct)))
    np.testing.assert_array_equal(pattern(lambda x: straight(x[:2], x[2:]), X4), [[1, 0, 0, 0], [0, 1, 0, 0]])


def test_arguments() -> None:
    index = wg.tensor([2, 0])
    gather = lambda x, i, y: {"picked": x[i] * y["w"], "y": y["w"] + 1.0}
    y = {"w": wg.spec((2,), wg.float64)}
    np.testing.assert_array_equal(pattern(gather, X4, index, y)[:2], [[0, 0, 1, 0], [1, 0, 0, 0]])
    both = pattern(gather, X4, index, y, argnums=(0, 2))
    np.testing.assert_array_equal(both[:2], [[0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1]])
    np.testing.assert_array_equal(pattern(gather, X4, index, y, argnums=(2, 0)), both[:, [4, 5, 0, 1, 2, 3]])
    np.testing.assert_array_equal(pattern(lambda x: x * x, 2.0), [[1]])
    assert wg.sparse.jacobian_sparsity(lambda x: x, wg.spec((0,))).shape == (0, 0)
    with pytest.raises(wg.DTypeError, match="sparsity"):
        wg.sparse.jacobian_sparsity(gather, X4, index, y, argnums=1)
    with pytest.raises(wg.GraphError, match="not sparse"):
        wg.sparse.jacobian_sparsity(lambda x: wg.softmax(x), wg.spec((200_000,)))


@pytest.mark.parametrize(
    ("fn", "rows"),
    [
        (lambda x: x[0] * x[1] + x[2] ** 2 + 3 * x[3], ["0100", "1000", "0010", "0000"]),
        (lambda x: x.sum() * x[0], ["1111", "1000", "1000", "1000"]),
        (lambda x: wg.relu(x).sum() + wg.abs(x).sum() + wg.max(x), ["0000"] * 4),
        (lambda x: wg.logsumexp(x[:2], axis=0), ["1100", "1100", "0000", "0000"]),
        (lambda x: (x / (x[::-1] + 3.0)).sum(), ["1001", "0110", "0110", "1001"]),
        (lambda x: ((wg.tensor(np.eye(4, k=1) - np.eye(4)) @ x) ** 2).sum(), ["1100", "1110", "0111", "0011"]),
        (lambda x: x[:2] @ x[2:], ["0010", "0001", "1000", "0100"]),
        (
            lambda x: wg.cond(x[0] > 0, lambda x: x[0] * x[1], lambda x: x[2] ** 2, x),
            ["0100", "1000", "0010", "0000"],
        ),
        (lambda x: wg.scan(lambda c, a: (c * a, None), x[0], x[1:])[0], ["0111", "1011", "1101", "1110"]),
    ],
)
def test_hessian_patterns(fn, rows) -> None:
    np.testing.assert_array_equal(second(fn, X4), [[int(c) for c in row] for row in rows])


def test_a_pattern_and_its_transpose_both_hold() -> None:
    found = symmetric(sp.csc_array(np.array([[True, True], [False, True]])))
    np.testing.assert_array_equal(found.toarray(), np.eye(2, dtype=bool))


def test_hessian_over_several_arguments() -> None:
    cross = second(lambda x, y: (x * y).sum(), X4, X4, argnums=(0, 1))
    eye, none = np.eye(4, dtype=int), np.zeros((4, 4), int)
    np.testing.assert_array_equal(cross, np.block([[none, eye], [eye, none]]))


# -- colouring


def random_patterns(symmetric):
    rng = np.random.default_rng(7)
    for trial in range(200):
        m, n = rng.integers(1, 14, size=2)
        a = rng.random((n if symmetric else m, n)) < rng.random() * 0.6
        if symmetric:
            a |= a.T
            if trial % 2:
                np.fill_diagonal(a, True)
        yield a


def test_columns_of_one_color_share_no_row() -> None:
    for a in random_patterns(symmetric=False):
        color = coloring.color_columns(sp.csc_array(a))
        for row in a:
            assert len(set(color[row])) == row.sum()


def test_star_colorings_recover_every_entry() -> None:
    rng = np.random.default_rng(0)
    for a in random_patterns(symmetric=True):
        n = a.shape[0]
        color = coloring._star(sp.csr_array(a), rng.permutation(n))
        h = rng.standard_normal((n, n))
        h = (h + h.T) * a
        sums = np.stack([h[:, color == c].sum(axis=1) for c in range(color.max() + 1)])
        rows, columns = np.nonzero(a)
        alone = coloring.recoverable(rows, columns, color)
        line, at = np.where(alone, columns, rows), np.where(alone, rows, columns)
        np.testing.assert_allclose(sums[color[line], at], h[rows, columns], rtol=1e-12, atol=1e-12)


def test_numbers_of_colors() -> None:
    distance = abs(np.arange(50)[:, None] - np.arange(50))
    for k in (0, 1, 2, 3):
        band = sp.csc_array(distance <= k)
        assert coloring.color_columns(band).max() + 1 == 2 * k + 1
        assert coloring.color_symmetric(band).max() + 1 <= 2 * k + 1
    for hub in (0, 13, 29):
        arrow = np.eye(30, dtype=bool)
        arrow[hub] = arrow[:, hub] = True
        assert coloring.color_columns(sp.csc_array(arrow)).max() + 1 == 30
        assert coloring.color_symmetric(sp.csc_array(arrow)).max() + 1 == 2
        for order in (np.arange(30), np.arange(30)[::-1]):
            assert coloring._star(sp.csr_array(arrow), order).max() + 1 == 2


def test_a_second_order_saves_colors() -> None:
    """Columns that meet many others first: never worse, over many patterns better."""
    found, natural = [], []
    for a in random_patterns(symmetric=False):
        columns = sp.csc_array(a)
        found.append(coloring.color_columns(columns).max())
        natural.append(coloring._greedy(columns, np.arange(a.shape[1])).max())
    assert all(f <= n for f, n in zip(found, natural, strict=True))
    assert sum(found) < sum(natural)


# -- sparse derivatives


def tridiagonal(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def pentadiagonal(x):
    return (wg.sin(x[2:] * x[:-2]) * x[1:-1]).sum() + (x**4).sum()


def arrow(x):
    return (x * x * x[0]).sum()


@pytest.mark.parametrize(("fn", "most"), [(tridiagonal, 3), (pentadiagonal, 5), (arrow, 2)])
def test_hessians_of_100_000_variables(fn, most, monkeypatch) -> None:
    small = t(np.random.default_rng(0).standard_normal(40))
    hess = wg.sparse.hessian(fn)
    np.testing.assert_allclose(hess(small).toarray(), wg.hessian(fn)(small).numpy(), rtol=1e-10, atol=1e-10)

    pushed = []
    push = Recording.push

    def counted(self, tangents):
        pushed.append(1)
        return push(self, tangents)

    monkeypatch.setattr(Recording, "push", counted)
    x = t(np.random.default_rng(1).standard_normal(100_000))
    # With one direction in each pass, every derivative of the gradient is counted.
    hess = wg.sparse.hessian(fn, chunk_size=1)
    found = hess(x)
    assert len(pushed) == hess.evaluations <= most
    v = np.random.default_rng(2).standard_normal(x.size)
    np.testing.assert_allclose(found @ v, wg.hvp(fn, (x,), (t(v),)).numpy(), rtol=1e-9, atol=1e-7)
    assert abs(found - found.T).max() < 1e-9


def test_patterns_take_memory_by_their_entries() -> None:
    spec = wg.spec((100_000,), wg.float64)
    tracemalloc.start()
    found = wg.sparse.jacobian_sparsity(lambda x: wg.sin(x[2:]) * x[1:-1] - x[:-2] ** 2 + wg.exp(x[2:] * x[:-2]), spec)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.nnz == 3 * 99_998
    # Indices of three arrays of neighbours, and what joining them takes; the matrix itself would have 1e10 numbers.
    assert most < 200 * found.nnz


@pytest.mark.parametrize("mode", ["forward", "reverse", "auto"])
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_jacobians(mode, chunk_size) -> None:
    def fn(x, y, scale):
        return {"a": wg.sin(x[1:] * x[:-1]) * scale, "b": (y @ y.mT).sum(axis=-1), "c": x[0] * y[0, 0] * x.sum()}

    rng = np.random.default_rng(0)
    args = t(rng.standard_normal(6)), t(rng.standard_normal((3, 2))), t(2.0)
    jac = wg.sparse.jacobian(fn, argnums=(0, 1), mode=mode, chunk_size=chunk_size)
    found = jac(*args)
    full = wg.jacobian(fn, argnums=(0, 1))(*args)
    rows = [[o[0].numpy().reshape(-1, 6), o[1].numpy().reshape(-1, 6)] for o in (full["a"], full["b"], full["c"])]
    np.testing.assert_allclose(found.toarray(), np.block(rows), rtol=1e-12, atol=1e-14)
    assert found.nnz == jac.pattern.nnz
    assert jac.evaluations == jac.colors.max() + 1
    if mode != "auto":
        assert jac.mode == mode


def test_auto_takes_fewer_colors() -> None:
    arrow_down = lambda x: wg.concat([x[1:] * x[0], x.sum(keepdims=True)])
    tall = wg.sparse.jacobian(lambda x: wg.concat([wg.sin(x[:1]) * x, x]))
    wide = wg.sparse.jacobian(lambda x: wg.stack([x[::2].sum() ** 2, x[1::2].sum() ** 2]))
    x = t(np.arange(1.0, 9.0))
    for fn in (tall, wide, wg.sparse.jacobian(arrow_down)):
        fn(x)
    assert (tall.mode, tall.evaluations) == ("forward", 2)
    assert (wide.mode, wide.evaluations) == ("reverse", 1)


def test_one_plan_for_a_structure(monkeypatch) -> None:
    traced = []

    def fn(x, i):
        traced.append(x.is_abstract)
        return x[i] ** 2

    jac = wg.sparse.jacobian(fn)
    x, i = t([1.0, 2.0, 3.0]), wg.tensor([2, 0])
    for k in range(3):
        found = jac(x + float(k), i)
        np.testing.assert_allclose(found.toarray(), [[0, 0, 2 * (3.0 + k)], [2 * (1.0 + k), 0, 0]])
    assert traced.count(True) == 1
    np.testing.assert_allclose(jac(x, wg.tensor([1, 1])).toarray(), [[0, 4.0, 0], [0, 4.0, 0]])
    assert traced.count(True) == 2
    jac(t([1.0, 2.0]), i * 0)
    assert traced.count(True) == 3


def test_a_given_pattern() -> None:
    fn = lambda x: wg.sin(x[wg.argsort(x)])  # in fact sorted already
    x = t([0.1, 0.5, 2.0])
    jac = wg.sparse.jacobian(fn, pattern=np.eye(3))
    np.testing.assert_allclose(jac(x).toarray(), np.diag(np.cos(x.numpy())))
    assert jac.evaluations == 1
    with pytest.raises(wg.ShapeError, match="pattern"):
        wg.sparse.jacobian(fn, pattern=np.eye(4))(x)
    lower = np.tri(3) - np.tri(3, k=-2)
    for given in (lower, lower.T, sp.csr_array(lower)):
        hess = wg.sparse.hessian(lambda x: (x[1:] * x[:-1] ** 2).sum(), pattern=given)
        full = [[1.0, 0.2, 0.0], [0.2, 4.0, 1.0], [0.0, 1.0, 0.0]]
        np.testing.assert_allclose(hess(x).toarray(), full)


def test_a_module_and_half_precision() -> None:
    """What a function closes over is unknown where it is a parameter, and carries no gradients on."""
    model = wg.nn.Sequential(wg.nn.Linear(3, 4), wg.nn.Tanh(), wg.nn.Linear(4, 2))
    x = wg.tensor(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))
    jac = wg.sparse.jacobian(lambda x: model(x))
    full = wg.jacobian(lambda x: model(x))(x).detach().numpy().reshape(10, 15)
    np.testing.assert_allclose(jac(x).toarray(), full, atol=1e-6)
    assert (jac.pattern.nnz, jac.mode, jac.evaluations) == (30, "reverse", 2)
    for dtype in (wg.float16, wg.bfloat16):
        found = wg.sparse.jacobian(lambda x: x * x)(wg.tensor([1.0, 2.0]).astype(dtype))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found.toarray(), [[2, 0], [0, 4]])


def test_nothing_and_errors() -> None:
    x = t([1.0, 2.0])
    jac = wg.sparse.jacobian(lambda x: wg.ones(3))
    assert jac(x).shape == (3, 2)
    assert (jac(x).nnz, jac.evaluations) == (0, 0)
    assert wg.sparse.jacobian(lambda x: x)(wg.zeros(0)).shape == (0, 0)
    assert wg.sparse.hessian(lambda x: x.sum())(x).nnz == 0
    assert wg.sparse.jacobian(wg.sin)(wg.tensor([0.0, 1.0])).dtype == np.float32
    with pytest.raises(wg.GradientError, match="mode"):
        wg.sparse.jacobian(wg.sin, mode="sideways")
    with pytest.raises(wg.GradientError, match="chunk_size"):
        wg.sparse.hessian(wg.sin, chunk_size=0)
    with pytest.raises(wg.GradientError, match="no pattern yet"):
        wg.sparse.jacobian(wg.sin).pattern
    with pytest.raises(wg.TraceError, match="abstract"):
        wg.graph(lambda x: wg.sparse.jacobian(wg.sin)(x))(x)
    with pytest.raises(wg.DTypeError, match="complex"):
        wg.sparse.jacobian(wg.sin)(wg.tensor([1j]))


# -- bundle adjustment


def project(cameras, points, weights, camera, point, seen):
    """Reprojection errors (rotation, centre, focal length, principal point, two radial distortions), and of weights."""
    c, p = cameras[camera], points[point]
    r = c[:, :3]
    angle = wg.sqrt((r * r).sum(axis=1, keepdims=True))
    k = r / angle
    cross = wg.stack([k[:, i] * p[:, j] - k[:, j] * p[:, i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1)
    along = k * (k * p).sum(axis=1, keepdims=True)
    q = p * wg.cos(angle) + cross * wg.sin(angle) + along * (1 - wg.cos(angle)) + c[:, 3:6]
    uv = q[:, :2] / q[:, 2:]
    r2 = (uv * uv).sum(axis=1, keepdims=True)
    image = uv * (1 + c[:, 9:10] * r2 + c[:, 10:] * r2**2) * c[:, 6:7] + c[:, 7:9]
    return weights[:, None] * (seen - image), 1 - weights**2


def test_bundle_adjustment() -> None:
    """Every residual depends on one camera, one point and one weight, which nobody says (ADBench's largest kind)."""
    rng = np.random.default_rng(3)
    cameras, points, count = 6, 40, 200
    camera, point = rng.integers(0, cameras, count), rng.integers(0, points, count)
    args = [rng.standard_normal(s) for s in ((cameras, 11), (points, 3), (count,))]
    seen = t(rng.standard_normal((count, 2)))
    jac = wg.sparse.jacobian(project, argnums=(0, 1, 2))
    found = jac(*map(t, args), camera, point, seen)
    # A row: one coordinate needs all of the camera but the other coordinate of its principal point.
    expected = np.zeros((3 * count, 11 * cameras + 3 * points + count), bool)
    for i in range(count):
        for axis in range(2):
            row = expected[2 * i + axis]
            row[11 * camera[i] : 11 * camera[i] + 11] = True
            row[11 * camera[i] + 7 + (1 - axis)] = False
            row[11 * cameras + 3 * point[i] + np.arange(3)] = True
        expected[2 * i : 2 * i + 2, 11 * cameras + 3 * points + i] = True
        expected[2 * count + i, 11 * cameras + 3 * points + i] = True
    np.testing.assert_array_equal(jac.pattern.toarray(), expected)
    assert set(expected[: 2 * count].sum(axis=1)) == {14}
    assert jac.evaluations == 14
    full = wg.jacobian(project, argnums=(0, 1, 2))(*map(t, args), camera, point, seen)
    blocks = [[b.numpy().reshape(rows, -1) for b in row] for row, rows in zip(full, (2 * count, count), strict=True)]
    np.testing.assert_allclose(found.toarray(), np.block(blocks), rtol=1e-9, atol=1e-10)
