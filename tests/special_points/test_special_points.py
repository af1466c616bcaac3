"""Derivatives of orders 1 to 4 at special points: those of mpmath where they exist, else those of the docs' table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.ops.op import TABLE

from .cases import Case, composites, of_distributions, of_the_table
from .exact import DIFFERENTIATED, exact
from .modes import arguments, faults, forward, points
from .page import kinks_of

F = wg.nn.functional
CASES = [*of_the_table(), *composites(), *of_distributions()]
# Ops that no case is made of: what is not a function of one or two numbers, or has values that are no function of them.
NOT_ASKED = {
    "betainc": "three arguments: the tests of special functions ask",
    "betainc_slope": "it is a part of betainc's rule",
    "clip": "three arguments, of which two are bounds",
    "gamma_ratio": "it is a part of gammainc's rule",
    "gammainc": "mpmath has no derivative in its parameter",
    "gammaincc": "mpmath has no derivative in its parameter",
    "hurwitz_zeta": "it is a part of polygamma's rule",
    "scaled_power": "it is a part of pow's rule",
    "scale_gradient": "its derivative is not that of its value",
    "straight_through": "its derivative is not that of its value",
}


def _marked(seldom: Any) -> list[Any]:
    """The cases; those that take long are of the slow tests."""
    return [pytest.param(c, id=c.name, marks=[pytest.mark.slow] if seldom(i, c) else []) for i, c in enumerate(CASES)]


def _of_two(case: Case) -> bool:
    return len(case.points[0]) == 2


@pytest.mark.parametrize("mode", ["reverse", "forward", "taylor"])
@pytest.mark.parametrize("case", _marked(lambda i, c: c.is_slow))
def test_derivatives(case: Case, mode: str) -> None:
    assert faults(case, mode) == []


@pytest.mark.parametrize("case", _marked(lambda i, c: c.is_slow or _of_two(c) or i % 5))
def test_compiled_derivatives(case: Case) -> None:
    assert faults(case, "compiled") == []


@pytest.mark.parametrize("case", _marked(lambda i, c: c.is_slow))
def test_modes_agree_where_there_is_no_derivative(case: Case) -> None:
    """What the page says of a kink, of the first order without a derivative, holds in both modes."""
    other = forward(case, arguments(case)) if [*kinks_of([case])] else {}
    for _, point, _, found in kinks_of([case]):
        i = points(case).index(point)
        for sequence, got in found.items():
            np.testing.assert_allclose(np.asarray(other[sequence])[i], got, 1e-9, 1e-9, err_msg=f"{point} {sequence}")


def test_every_op_is_asked() -> None:
    known = {op.name for op in DIFFERENTIATED if exact(op) is not None and len(op.params) <= 2}
    assert {op.name for op in DIFFERENTIATED if op.differentiable} - known == NOT_ASKED.keys()


def test_kinks_are_found() -> None:
    """The page lists the kinks that functions are known for, and none of a smooth one."""
    found = {name for name, *_ in kinks_of(CASES)}
    assert {"abs", "relu", "elu(alpha=1.0)", "maximum", "hardswish", "leaky_relu(slope=0.01)"} <= found
    assert not {"sigmoid", "logsigmoid", "mish", "softplus(beta=1.0)", "pow", "sinc", "abs(x)**2"} & found


def _signs(values: list[Any]) -> set[float]:
    return {float(np.sign(v)) for v in values}


def test_samples_have_both_signs_of_an_attribute_that_a_formula_reads() -> None:
    one_sign = {"huber": "delta is positive", "hardtanh": "low is below high"}
    for op in TABLE.values():
        names = {n for f in op.formulas for part in f.read().parts for n in part.operands if n in op.attr_names}
        for name in names:
            if op.samples is None or op.name in one_sign:
                continue
            given = [c.attrs[name] for c in op.samples(np.random.default_rng(5))]
            assert {-1.0, 1.0} <= _signs(given), f"{op.name}: samples have {name} = {sorted(set(given))}"


# -- what cases of float64 at single points do not see


def _float32(fn: Any, x: list[float]) -> Any:
    return np.asarray(wg.grad(lambda v: fn(v).sum())(wg.tensor(np.array(x, np.float32))), np.float64)


@pytest.mark.parametrize("fn", [F.elu, F.selu, F.celu, lambda x: F.elu(x, -0.5), lambda x: F.celu(x, 2.0)])
def test_tails_of_elu_keep_their_digits_in_float32(fn: Any) -> None:
    x = [-5.0, -10.0, -14.0, -16.0, -20.0, -40.0]
    wide = np.asarray(wg.grad(lambda v: fn(v).sum())(wg.tensor(np.array(x))))
    exponent = wide / wide[0]  # exp(x - x0), or of x / alpha
    np.testing.assert_allclose(np.log(exponent[1:]) / np.log(exponent[1]), (np.array(x)[1:] + 5) / -5, rtol=1e-12)
    np.testing.assert_allclose(_float32(fn, x), wide, rtol=1e-5)


def test_slope_of_sinc_keeps_its_digits_in_float32() -> None:
    for fn in (torch.sinc, wg.numpy.sinc):
        x = [1e-4, -3e-3, 0.1]
        right = [-(np.pi**2) / 3 * v + np.pi**4 / 30 * v**3 - np.pi**6 / 840 * v**5 for v in x]
        np.testing.assert_allclose(_float32(fn, x), right, rtol=1e-5)


def test_newtons_step_of_a_logistic_regression_from_zero() -> None:
    x = np.array([[1.0, 2.0], [-0.5, 1.0], [2.0, -1.0]])
    hessian = wg.hessian(lambda w: -F.logsigmoid(wg.tensor(x) @ w).sum())
    for made in (hessian, wg.jit(hessian)):
        np.testing.assert_allclose(np.asarray(made(wg.tensor(np.zeros(2)))), x.T @ x / 4)


def test_springs_whose_points_agree_in_a_coordinate() -> None:
    """Three points on a line, pulled apart: across the line the middle one is unstable."""

    def energy(flat: Any, rows: int) -> Any:
        points = torch.as_tensor(flat).reshape(-1, 2)
        others = torch.cat([points, torch.zeros(rows, 2, dtype=torch.float64)])
        return ((torch.cdist(points, others)[:, :3] - 2.0) ** 2).sum()

    at = np.array([0.0, 0.0, 1.0, 0.0, 2.0, 0.0])

    def distances(p: Any) -> Any:
        return np.sqrt(((p[:, None] - p[None]) ** 2).sum(-1))

    for rows in (0, 30):
        found = np.asarray(wg.hessian(lambda v, rows=rows: energy(v, rows))(wg.tensor(at)))
        step = 1e-4
        for i, j in ((1, 1), (1, 3), (3, 3), (0, 1), (2, 2)):
            total = 0.0
            for a in (step, -step):
                for b in (step, -step):
                    p = at.copy()
                    p[i] += a
                    p[j] += b
                    d = distances(p.reshape(3, 2))
                    total += np.sign(a) * np.sign(b) * ((d[~np.eye(3, dtype=bool)] - 2.0) ** 2).sum()
            np.testing.assert_allclose(found[i, j], total / (4 * step * step), atol=1e-3)


def test_even_powers_leave_the_gradient_of_their_base_alone() -> None:
    """The derivative goes past |x| only where nothing asks for its own."""
    x = wg.tensor(np.array([3.0, -4.0]), requires_grad=True)
    length = wg.linalg.vector_norm(x)
    (found,) = wg.autograd.grad(length**2, length, create_graph=True)
    assert float(found) == 10.0
    size = wg.abs(x)
    size.retain_grad()
    (size**2).sum().backward(create_graph=True)
    np.testing.assert_array_equal(np.asarray(size.grad.detach()), [6.0, 8.0])
    np.testing.assert_array_equal(np.asarray(x.grad.detach()), [6.0, -8.0])
    seen: list[Any] = []
    size = wg.abs(x)
    size.register_hook(lambda g: seen.append(np.asarray(g.detach())))
    (size**2).sum().backward(create_graph=True)
    np.testing.assert_array_equal(seen, [[6.0, 8.0]])


def test_even_powers_in_checkpoints_and_loops() -> None:
    zero = wg.tensor(np.zeros(2))

    def squared(x: Any) -> Any:
        return wg.linalg.vector_norm(x) ** 2

    def outside(x: Any) -> Any:
        return wg.checkpoint(wg.linalg.vector_norm)(x) ** 2

    def looped(x: Any) -> Any:
        start = wg.tensor(0.0, dtype="float64")
        return wg.scan(lambda total, _: (total + (wg.abs(x) ** 2).sum(), None), start, wg.arange(3))[0]

    for fn, right in ((wg.checkpoint(squared), 2), (outside, 2), (looped, 6)):
        for mode in ("forward", "reverse"):
            nested = wg.jacobian(wg.jacobian(fn, mode=mode), mode=mode)
            np.testing.assert_array_equal(np.asarray(nested(zero)), right * np.eye(2))


def test_even_powers_of_complex_numbers_and_in_masks() -> None:
    z = wg.tensor(np.array([0.0 + 0.0j, 3.0 - 4.0j]))
    jet = wg.jvp(lambda v: wg.jvp(lambda u: wg.abs(u) ** 2, (v,), (wg.ones_like(v),))[1], (z,), (wg.ones_like(z),))[1]
    np.testing.assert_allclose(np.asarray(jet), [2.0, 2.0])

    def masked(v: Any) -> Any:
        return wg.where(v >= 0, wg.abs(v) ** 2, 0.0).sum()

    np.testing.assert_array_equal(np.asarray(wg.hessian(masked)(wg.tensor(np.array([0.0, -1.0])))), [[2, 0], [0, 0]])


def test_xlogy_of_torch_at_zero() -> None:
    """Values of PyTorch 2.13."""
    x = torch.zeros(3, requires_grad=True)
    torch.xlogy(x, torch.tensor([0.0, 2.0, -1.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, np.log(2.0), 0.0], rtol=1e-6)
    x = torch.zeros(2, requires_grad=True)
    torch.special.xlog1py(x, torch.tensor([-1.0, 1.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, np.log(2.0)], rtol=1e-6)


def test_the_hessian_of_a_power_is_symmetric() -> None:
    found = np.asarray(wg.hessian(lambda p: p[0] ** p[1])(wg.tensor(np.array([2.0, 0.0]))))
    np.testing.assert_allclose(found, [[0.0, 0.5], [0.5, np.log(2.0) ** 2]])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_powers_of_x_by_x(order: int) -> None:
    fn: Any = lambda x: x**x
    for _ in range(order):
        fn = wg.grad(fn)
    assert float(fn(wg.tensor(1.0, dtype="float64"))) == pytest.approx([1.0, 2.0, 3.0, 8.0][order - 1])
