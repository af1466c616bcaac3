"""PyTensor's ops in the mode "WENGERT", against PyTensor's own Python code."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")
pytensor = pytest.importorskip("pytensor", reason="pytensor is an extra")

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.elemwise import Elemwise

import wengert as wg
from in_pytensor import DEFINITE, POSITIVE, RNG, SQUARE, X, Y, check
from wengert.interop.pytensor import MODE, Converted, NoRuleError, funcify, why_not

ELEMENTWISE = (
    *("exp", "log", "log1p", "expm1", "log2", "log10", "sqrt", "sqr", "reciprocal", "neg", "abs", "sign", "floor"),
    *(
        "ceil",
        "trunc",
        "round",
        "sin",
        "cos",
        "tan",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "arcsinh",
        "sigmoid",
        "softplus",
    ),
    *("erf", "erfc", "gammaln", "psi", "tri_gamma", "i0", "i1", "isnan", "isinf", "exp2", "deg2rad", "rad2deg"),
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_of_elements(name: str) -> None:
    check(getattr(pt, name), POSITIVE, rtol=1e-11)


def test_of_elements_within_their_domains() -> None:
    inside = np.linspace(-0.9, 0.9, 7)
    check(lambda x: [pt.arcsin(x), pt.arccos(x), pt.arctanh(x), pt.erfinv(x), pt.erfcinv(x + 1)], inside, rtol=1e-11)
    check(lambda x: [pt.log1mexp(-x), pt.arccosh(x + 1)], POSITIVE, rtol=1e-11)
    check(
        lambda a, x: [pt.gammainc(a, x), pt.gammaincc(a, x), pt.betainc(a, x + 1, x / (1 + x))],
        POSITIVE,
        POSITIVE[::-1].copy(),
    )


def test_special_functions_that_are_written_with_others() -> None:
    wide = np.array([-30.0, -5.0, -2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 3.0, 26.0, 400.0, np.inf])
    check(pt.erfcx, wide, rtol=1e-13)
    check(pt.gamma, np.array([-3.5, -2.0, -1.5, -0.5, -0.0, 0.0, 0.5, 1.0, 5.0, 20.0, 200.0, -np.inf]), rtol=1e-12)
    check(lambda a, x: [pt.gammau(a, x), pt.gammal(a, x)], POSITIVE, POSITIVE[::-1].copy(), rtol=1e-12)


def test_loops_of_elements() -> None:
    """Each element ends by itself, or after its own number of steps."""
    state, factor = ps.float64("state"), ps.float64("factor")
    grown = state * factor
    ending = Elemwise(ScalarLoop([state], [grown], [factor], until=grown > 100.0))
    counted = Elemwise(ScalarLoop([state], [grown], [factor]))
    steps = np.array([[0, 3, 50, 4]], np.int64)
    check(lambda n, x: ending(n, x, x + 1.5), steps, POSITIVE)
    check(lambda n, x: counted(n, x, x + 0.5), steps, POSITIVE)


def test_slopes_of_incomplete_functions() -> None:
    """Those in the parameters are in `test_slopes.py`: PyTensor's have three digits."""

    def build(a: Any, x: Any) -> list[Any]:
        values = [pt.gammainc(a, x), pt.gammaincc(a, x), pt.betainc(a, 3.0 - a, x / (1 + x))]
        return [pt.grad(v.sum(), x) for v in values]

    wide = 10.0 ** np.linspace(-1, 0.4, 12).reshape(3, 4)
    check(build, wide, wide.T.reshape(3, 4).copy(), rtol=1e-11)


def test_of_two_operands_and_their_dtypes() -> None:
    whole = np.array([[3, -2, 5, 7]], np.int32)

    def build(x: Any, n: Any) -> list[Any]:
        return [
            x + n, x - n, x * n, x / n, x**2, n // 2, n % 3, n / 2, pt.maximum(x, n), pt.minimum(x, n), x < n, x >= n,
            pt.eq(x, n), pt.neq(n, 3), pt.switch(x > 0, x, n), pt.clip(x, -0.5, 0.5), pt.cast(x, "int64"),
            pt.cast(n, "float32") * 2, pt.and_(x > 0, n > 0), pt.or_(x > 0, n > 0), ~(x > 0), pt.arctan2(x, n),
        ]  # fmt: skip

    check(build, X, whole)


def test_reductions() -> None:
    def build(x: Any) -> list[Any]:
        return [
            x.sum(), x.sum(axis=0), x.prod(axis=1), x.max(axis=(0, 1)), x.min(axis=1), pt.all(x > -9), pt.any(x > 9,
            axis=0),
            x.mean(axis=1), x.var(axis=0), pt.argmax(x, axis=1), pt.argmax(x), (x > 0).sum(axis=0), pt.logsumexp(x,
            axis=1),
            pt.special.softmax(x, axis=-1), pt.special.log_softmax(x, axis=0), pt.cumsum(x, axis=1), pt.cumprod(x,
            axis=0),
            pt.cumsum(x),
        ]  # fmt: skip

    check(build, X)
    check(lambda x: [x.sum(axis=0), x.prod(axis=0), pt.all(x > 0, axis=0)], np.zeros((0, 3)))


def test_shapes() -> None:
    def build(x: Any, y: Any) -> list[Any]:
        return [
            x.T, x.dimshuffle(1, "x", 0), x.reshape((2, 6)), x.reshape((x.shape[1], -1)), x.flatten(), x.shape,
            x.shape[0] * 2,
            pt.concatenate([x, y], axis=1), pt.stack([x, y]), *pt.split(x, [1, 3], axis=1), pt.ones_like(x) * y,
            pt.zeros((x.shape[0], 2)), pt.full((2, 2), x[0, 0]), pt.eye(3) + x[:3, :3], pt.arange(x.shape[1]) * x,
            pt.diagonal(x), pt.diag(x[0]), pt.repeat(x, 2, axis=1), pt.tile(x, (2, 1)), pt.sort(x, axis=1),
            pt.argsort(x, axis=0),
            pt.specify_shape(x, (3, None)), pt.dot(x, y.T), x @ y[0], pt.dot(x[0], y[0]), pt.tril(x), pt.diagonal(x, 1),
        ]  # fmt: skip

    check(build, X, Y)


def test_indices() -> None:
    rows, columns = np.array([2, 0, 2]), np.array([1, 1, 1])

    def build(x: Any, i: Any, j: Any) -> list[Any]:
        return [
            x[1], x[-1, 2:], x[::-2], x[i], x[i, j], x[:, j], x[i[0]], x[pt.as_tensor([0, 2])], x[:, None, 1],
            pt.inc_subtensor(x[1:], 2.0), pt.set_subtensor(x[0, 1], 9.0), pt.inc_subtensor(x[i], 1.0),
            pt.inc_subtensor(x[i, j], 1.0), pt.set_subtensor(x[i[:2]], 0.5), pt.set_subtensor(x[:, 1:3], x[:, :2]),
            pt.inc_subtensor(x[:, j], x[:, :3]), pt.grad((x[i] ** 2).sum(), x),
        ]  # fmt: skip

    check(build, X, rows, columns)
    ours = pytensor.function([a := pt.vector(), k := pt.lvector()], a[k] * 2, mode="WENGERT")
    with pytest.raises(IndexError):
        ours(np.arange(3.0), np.array([3]))
    check(lambda x, m: x[m.nonzero()], np.arange(3.0), np.array([True, False, True]), is_compiled=False)


def test_linear_algebra() -> None:
    a, b = DEFINITE[0], SQUARE[0]

    def build(a: Any, b: Any) -> list[Any]:
        c = pt.linalg.cholesky(a)
        return [
            c, pt.linalg.solve_triangular(c, b, lower=True), pt.linalg.solve_triangular(c, b[:, 0], lower=True,
            trans=1),
            pt.linalg.solve(b, a), pt.linalg.solve(b, a[:, 0]), pt.linalg.cho_solve((c, True), b), pt.linalg.inv(b),
            pt.linalg.det(b), *pt.linalg.slogdet(b), pt.grad(pt.linalg.slogdet(a)[1], a), pt.grad(c.sum(), a),
            pt.linalg.cholesky(a, lower=False),
        ]  # fmt: skip

    check(build, a, b, rtol=1e-9)
    check(build_stacks, DEFINITE, SQUARE, rtol=1e-9)
    one_sided = a + np.triu(np.ones((4, 4)), 1)  # whose upper triangle is not looked at
    check(lambda x: pt.linalg.cholesky(x), one_sided)


def test_decompositions() -> None:
    # Eigenvectors of the upper triangle may have another sign than LAPACK gives them.
    tall = RNG.normal(size=(5, 3))

    def build(a: Any, b: Any) -> list[Any]:
        return [
            *pt.linalg.qr(b), *pt.linalg.qr(b, mode="economic"), pt.linalg.qr(b, mode="r"), *pt.linalg.svd(b),
            *pt.linalg.svd(b, full_matrices=False), pt.linalg.svd(b, compute_uv=False), *pt.linalg.eigh(a),
            abs(pt.linalg.eigh(a, UPLO="U")[1]), pt.linalg.pinv(b), pt.linalg.block_diag(a, b, a[:1]),
            pt.linalg.eig(a)[0].real.sum(),
        ]  # fmt: skip

    check(build, DEFINITE[0], tall, rtol=1e-9)
    check(lambda a, b: [pt.linalg.pinv(b), pt.linalg.block_diag(a, b)], DEFINITE, SQUARE, rtol=1e-9)


@pytest.mark.parametrize("UPLO", ["L", "U"])
def test_derivatives_of_decompositions(UPLO: str) -> None:
    def build(a: Any, b: Any) -> list[Any]:
        w, v = pt.linalg.eigh(a, UPLO=UPLO)
        q, r = pt.linalg.qr(b, mode="economic")
        u, s, vt = pt.linalg.svd(b, full_matrices=False)
        return [
            pt.grad(w[0] + w[2], a), pt.grad((v**2 * b).sum() + (w**2).sum(), a),
            pt.grad((q * b).sum() + (r**3).sum(), b),
            pt.grad(s.sum() + (u[:, 0] * vt[0]).sum(), b), pt.grad((pt.linalg.pinv(b) ** 2).sum(), b),
        ]  # fmt: skip

    check(build, DEFINITE[0], SQUARE[1], rtol=1e-8)


def test_products_with_zeros_have_derivatives() -> None:
    rows = np.array([[0.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])
    check(lambda x: pt.grad(x.prod(axis=1).sum(), x), rows)


def test_a_median_has_a_derivative() -> None:
    x = pt.vector()  # of a length that only a run knows, by which PyTensor chooses lazily
    function = pytensor.function([x], pt.grad(pt.median(x), x), mode="WENGERT")
    assert function([3.0, 1.0, 2.0, 5.0]).tolist() == [0.5, 0.0, 0.5, 0.0]
    assert function([3.0, 1.0, 2.0]).tolist() == [0.0, 0.0, 1.0]
    assert not function.vm.jit_fn._is_dynamic


def build_stacks(a: Any, b: Any) -> list[Any]:
    c = pt.linalg.cholesky(a)
    return [c, pt.linalg.solve_triangular(c, b[0], lower=True), pt.linalg.inv(b), pt.matmul(a, b), pt.grad(c.sum(), a)]


def test_a_matrix_without_a_factor_gives_nan() -> None:
    function = pytensor.function([x := pt.matrix()], pt.linalg.cholesky(x).sum(), mode="WENGERT")
    assert np.isfinite(function(np.eye(3)))
    assert np.isnan(function(-np.eye(3)))
    assert np.isfinite(function(2 * np.eye(3)))


def test_checks_raise_their_errors() -> None:
    from pytensor.raise_op import Assert

    function = pytensor.function([x := pt.vector()], Assert("x is not positive")(x, pt.all(x > 0)) * 2, mode="WENGERT")
    assert function([1.0, 2.0]).tolist() == [2.0, 4.0]
    with pytest.raises(AssertionError, match="x is not positive"):
        function([1.0, -2.0])
    assert function([3.0]).tolist() == [6.0]


def test_operands_that_do_not_broadcast() -> None:
    function = pytensor.function([x := pt.matrix(), y := pt.matrix()], x + y, mode="WENGERT")
    with pytest.raises(ValueError, match=r"[Bb]roadcast"):
        function(np.ones((3, 1)), np.ones((3, 4)))


def test_shared_variables_and_updates() -> None:
    state = pytensor.shared(np.zeros(3), name="state")
    step = pytensor.function([x := pt.vector()], state.sum(), updates={state: state + x}, mode="WENGERT")
    for _ in range(7):
        last = step(np.array([1.0, 2.0, 3.0]))
    assert (float(last), state.get_value().tolist()) == (36.0, [7.0, 14.0, 21.0])


def test_sizes_that_are_inputs() -> None:
    n = pytensor.shared(3, name="n")
    function = pytensor.function([x := pt.scalar()], pt.zeros((n,)) + x, mode="WENGERT")
    assert function(2.0).tolist() == [2.0, 2.0, 2.0]
    n.set_value(1)
    assert function(2.0).tolist() == [2.0]
    assert not function.vm.jit_fn._is_dynamic


def test_shapes_that_depend_on_values_run_by_python() -> None:
    function = pytensor.function([x := pt.vector()], x[: pt.cast(x[0], "int64")] * 2, mode="WENGERT")
    with pytest.warns(RuntimeWarning, match="runs by Python: no rule for a slice"):
        assert function([2.0, 3.0, 4.0]).tolist() == [4.0, 6.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function([1.0, 3.0, 4.0]).tolist() == [2.0]


def test_random_numbers_and_scans_run_by_python() -> None:
    draws = pt.random.normal(size=(3,), rng=pytensor.shared(np.random.default_rng(0)))
    function = pytensor.function([], draws, mode="WENGERT")
    assert function().shape == (3,)
    assert why_not(function.maker.fgraph)
    powers = pytensor.scan(lambda a: a * 2.0, outputs_info=[x := pt.scalar()], n_steps=3, return_updates=False)
    assert pytensor.function([x], powers, mode="WENGERT")(1.0).tolist() == [2.0, 4.0, 8.0]


def test_a_rule_of_ones_own() -> None:
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    class Doubled(Op):
        __props__ = ()

        def make_node(self, x: Any) -> Any:
            return Apply(self, [pt.as_tensor(x)], [pt.vector()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = inputs[0] * 2.0

    x = pt.vector()
    function = pytensor.function([x], Doubled()(x), mode="WENGERT")
    assert "Doubled" in why_not(function.maker.fgraph)
    assert function([1.0]).tolist() == [2.0]
    with pytest.raises(NoRuleError, match="no rule for PyTensor's Doubled"):
        funcify(Doubled(), None, None)
    funcify.register(Doubled, lambda op, node, walk: lambda x: wg.multiply(x, 2.0))
    function = pytensor.function([x], Doubled()(x), mode="WENGERT")
    assert isinstance(function.vm.jit_fn, Converted)
    assert function([1.0]).tolist() == [2.0]


@pytest.mark.parametrize("mode", [MODE, "WENGERT"])
def test_the_configured_mode(mode: Any) -> None:
    before = pytensor.config.mode
    with pytensor.config.change_flags(mode=mode):
        function = pytensor.function([x := pt.vector()], pt.exp(x).sum())
    assert isinstance(function.vm.jit_fn, Converted)
    assert function(np.zeros(4)) == 4.0
    assert pytensor.config.mode == before


def test_the_configuration_takes_the_modes_that_it_took() -> None:
    before = pytensor.config.mode
    for mode in ("NUMBA", "FAST_COMPILE", Mode("py", "fast_compile")):
        with pytensor.config.change_flags(mode=mode):
            assert pytensor.config.mode == mode
    with pytest.raises(ValueError, match="Expected one of"):
        pytensor.config.mode = "WENGERTS"
    assert pytensor.config.mode == before


def test_what_was_configured_stays() -> None:
    program = "import pytensor; pytensor.config.mode = 'FAST_COMPILE'; import wengert.interop.pytensor as w; "
    program += "assert pytensor.config.mode == 'FAST_COMPILE'; pytensor.config.mode = 'WENGERT'; "
    program += "assert pytensor.compile.mode.get_default_mode() is w.MODE"
    flags = {**os.environ, "PYTENSOR_FLAGS": "mode=FAST_RUN"}
    subprocess.run([sys.executable, "-c", program], check=True, env=flags)


@pytest.mark.slow  # half a minute of PyTensor's own compiling
def test_scans_and_their_derivatives() -> None:
    """Sequences, states of one and of several steps before, results, and what stays the same; forward and reversed."""
    scan = partial(pytensor.scan, return_updates=False)

    def build(x: Any, a: Any) -> list[Any]:
        sums = scan(lambda row, last: last + row * a[0], sequences=x, outputs_info=pt.zeros(4))
        first = {"initial": pt.stack([a[0], a[3]]), "taps": [-1, -2]}
        pairs = scan(lambda row, one, two: a[1] * one - a[2] * two + row.sum(), sequences=x, outputs_info=first)
        rows = scan(
            lambda row, last: [pt.tanh(row + last), row.sum()], sequences=x, go_backwards=True, outputs_info=[a, None]
        )
        power = scan(lambda last: last * a, outputs_info=pt.ones(4), n_steps=3)
        loss = sums.sum() + (pairs**2).sum() + rows[0][-1].sum() + power[-1].sum() + sums[-1, 0]
        return [sums, sums[-1], pairs, pairs[-1], *rows, power[-1], loss, *pt.grad(loss, [x, a])]

    check(build, X, POSITIVE[0].copy(), rtol=1e-10)
    last = scan(lambda last: last * 2, outputs_info=pt.constant(1.0), n_steps=(n := pt.lscalar()))[-1]
    counted = pytensor.function([n], last, mode="WENGERT")
    assert [float(counted(k)) for k in (1, 4)] == [2.0, 16.0]


def test_masks_run_by_python() -> None:
    x = pt.dmatrix()
    given = np.arange(-3.0, 3.0).reshape(2, 3)
    picked = pytensor.function([x], [x[x > 0].sum(), pytensor.grad((x[x > 0] ** 2).sum(), x)], mode="WENGERT")
    with pytest.warns(RuntimeWarning, match="runs by Python"):
        total, gradient = picked(given)
    assert total == 3.0
    np.testing.assert_array_equal(gradient, np.where(given > 0, 2 * given, 0.0))
    written = pytensor.function([x], pt.set_subtensor(x[x > 0], 0.0), mode="WENGERT")
    with pytest.warns(RuntimeWarning, match="runs by Python"):
        np.testing.assert_array_equal(written(given), np.minimum(given, 0.0))


def _line_of(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(i for i, line in enumerate(file, 1) if text in line and "_line_of" not in line)


def test_errors_name_the_node_and_the_users_line() -> None:
    """The line where an op was made; where PyTensor keeps none, the one that calls the function."""
    x, y = pt.dvectors("x", "y")
    total = x + pt.dot(x, y)  # an op whose operands differ
    f = pytensor.function([x, y], pt.exp(total), mode="WENGERT")
    with pytest.raises(wg.ShapeError) as caught:
        f(np.ones(3), np.ones(2))
    first = str(caught.value).splitlines()[0]
    assert first.endswith(f"test_ops.py:{_line_of('an op whose operands differ')})"), first
    assert "PyTensor's Dot" in first
    with pytensor.config.change_flags(traceback__limit=0):
        x, y = pt.dvectors("x", "y")
        g = pytensor.function([x, y], x + y, mode="WENGERT")
    with pytest.raises(wg.ShapeError) as caught:
        g(np.ones(3), np.ones(2))  # a call with operands that differ
    first = str(caught.value).splitlines()[0]
    assert first.endswith(f"test_ops.py:{_line_of('a call with operands that differ')})"), first


def test_warnings_name_the_users_line() -> None:
    x = pt.dvector()
    f = pytensor.function([x], x[x > 0].cumsum(), mode="WENGERT")
    with pytest.warns(RuntimeWarning, match="runs by Python") as caught:
        f(np.ones(3))  # a call that warns
    assert (caught[0].filename, caught[0].lineno) == (__file__, _line_of("a call that warns"))


def test_the_logarithm_of_the_gamma_function_is_scipys_at_the_end() -> None:
    check(pt.gammaln, np.array([-np.inf, np.inf, -1.0, 0.0, -2.5, np.nan]))
