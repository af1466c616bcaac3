"""Jacobians, Hessians, products with them, and forward mode as functions of functions."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.transforms.jacobians import jacobian as module


def t(value):
    return wg.tensor(np.asarray(value, float))


def f(x):
    return wg.stack([wg.sin(x[0]) * x[1], x[2] ** 2, x.sum() * x[0]])


def f_matrix(x):
    x0, x1, x2 = x
    s = x0 + x1 + x2
    return np.array([[np.cos(x0) * x1, np.sin(x0), 0], [0, 0, 2 * x2], [s + x0, x0, x0]])


X = np.array([0.3, -1.2, 2.0])


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
@pytest.mark.parametrize("chunk_size", [None, 1, 2])
def test_jacobian(mode, chunk_size) -> None:
    found = wg.jacobian(f, mode=mode, chunk_size=chunk_size)
    np.testing.assert_allclose(found(t(X)).numpy(), f_matrix(X), rtol=1e-12)
    np.testing.assert_allclose(wg.graph(found)(t(X))(t(X)).numpy(), f_matrix(X), rtol=1e-12)
    assert not found(t(X)).requires_grad


def test_auto_takes_the_side_with_fewer_directions(monkeypatch) -> None:
    taken = []
    for side in ("_forward", "_reverse"):
        original = getattr(module, side)
        monkeypatch.setattr(module, side, lambda *a, s=side, o=original: (taken.append(s), o(*a))[1])
    tall = wg.jacobian(lambda x: wg.concat([wg.sin(x)] * 5))(t(X))
    wide = wg.jacobian(lambda x: wg.sin(x).sum())(t(X))
    np.testing.assert_allclose(tall.numpy(), np.tile(np.diag(np.cos(X)), (5, 1)))
    np.testing.assert_allclose(wide.numpy(), np.cos(X))
    assert taken == ["_forward", "_reverse"]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_nests_in_and_out(mode) -> None:
    params = {"w": t([[1.0, 2.0], [3.0, 4.0]]), "b": (t(0.5),)}

    def model(p, x):
        return {"y": p["w"] @ x + p["b"][0], "norm": (x**2).sum()}

    jac = wg.jacobian(model, argnums=(0, 1), mode=mode)(params, t([1.0, -1.0]))
    of_y_in_p, of_y_in_x = jac["y"]
    assert of_y_in_p["w"].shape == (2, 2, 2)
    np.testing.assert_allclose(of_y_in_x.numpy(), params["w"].numpy())
    np.testing.assert_allclose(of_y_in_p["b"][0].numpy(), [1.0, 1.0])
    np.testing.assert_allclose(jac["norm"][0]["w"].numpy(), np.zeros((2, 2)))
    np.testing.assert_allclose(jac["norm"][1].numpy(), [2.0, -2.0])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_shapes_of_scalars_and_of_nothing(mode) -> None:
    jac = lambda fn: wg.jacobian(fn, mode=mode)
    assert jac(wg.sin)(t(2.0)).shape == ()
    assert jac(wg.sin)(2.0).item() == pytest.approx(np.cos(2.0), rel=1e-6)
    assert jac(lambda x: x[:0])(t(X)).shape == (0, 3)
    assert jac(wg.sin)(wg.zeros(0)).shape == (0, 0)
    assert jac(lambda x: wg.ones(2) * 1.0)(t(X)).shape == (2, 3)
    assert jac(lambda x: wg.outer(x, x))(t(X)).shape == (3, 3, 3)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_complex_derivatives(mode) -> None:
    z = wg.tensor(np.array([1 + 2j, -0.5j]))
    found = wg.jacobian(lambda z: wg.exp(z * 1j) * z, holomorphic=True, mode=mode)(z).numpy()
    zn = z.numpy()
    np.testing.assert_allclose(found, np.diag(np.exp(1j * zn) * (1 + 1j * zn)), rtol=1e-12)
    np.testing.assert_allclose(wg.grad(lambda z: (z**3).sum(), holomorphic=True)(z).numpy(), 3 * zn**2, rtol=1e-12)
    # Of a real function: the direction of steepest ascent.
    np.testing.assert_allclose(wg.grad(lambda z: (wg.abs(z) ** 2).sum())(z).numpy(), 2 * zn, rtol=1e-12)
    with pytest.raises(wg.DTypeError, match="complex argument"):
        wg.jacobian(lambda z: z, mode=mode)(z)
    with pytest.raises(wg.DTypeError, match="real argument"):
        wg.jacobian(lambda z: z, mode=mode, holomorphic=True)(t(X))


def test_hessian_and_products_with_it() -> None:
    def scalar(x, y):
        return (x**3).sum() * y + wg.sin(y * x[0])

    x, y = t([1.0, 2.0]), t(0.7)
    hess = wg.hessian(scalar, argnums=(0, 1))(x, y)
    full = np.block([[hess[0][0].numpy(), hess[0][1].numpy()[:, None]], [hess[1][0].numpy()[None], hess[1][1].item()]])
    np.testing.assert_allclose(full, full.T)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(wg.hessian(scalar, mode=mode)(x, y).numpy(), hess[0][0].numpy())
    hx, hy = wg.hvp(scalar, (x, y), (t([1.0, -1.0]), t(2.0)))
    np.testing.assert_allclose(np.array([*hx.numpy(), hy.item()]), full @ [1.0, -1.0, 2.0])
    only = wg.hvp(scalar, (x, y), (t([1.0, -1.0]), None))
    np.testing.assert_allclose(only[0].numpy(), hess[0][0].numpy() @ [1.0, -1.0])


def test_gauss_newton_product() -> None:
    x, v = t(X), t([0.5, 1.0, -2.0])

    def loss(z):
        return wg.logsumexp(z, axis=-1)

    j = f_matrix(X)
    h = wg.hessian(loss)(f(x)).numpy()
    np.testing.assert_allclose(wg.gauss_newton_product(f, loss, (x,), (v,)).numpy(), j.T @ h @ j @ v.numpy())


def test_laplacian() -> None:
    def fn(x):
        return {"a": wg.exp(x).sum() * x[0], "b": x**2}

    x = t(X)
    found = wg.laplacian(fn)(x)
    np.testing.assert_allclose(found["a"].item(), np.trace(wg.hessian(lambda x: fn(x)["a"])(x).numpy()))
    np.testing.assert_allclose(found["b"].numpy(), [2.0, 2.0, 2.0])
    np.testing.assert_allclose(wg.laplacian(fn, chunk_size=1)(x)["b"].numpy(), [2.0, 2.0, 2.0])


def test_derivatives_of_derivatives() -> None:
    third = wg.jacobian(wg.hessian(lambda x: (x**3).sum() + x.prod()))(t(X)).numpy()
    expected = np.zeros((3, 3, 3))
    for i in range(3):
        expected[i, i, i] = 6
    for i, j, k in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        expected[i, j, k] = 1
    np.testing.assert_allclose(third, expected, atol=1e-12)
    x = wg.tensor(X, requires_grad=True)
    wg.hessian(lambda x: (x**4).sum())(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 24 * X)
    batched = wg.vmap(wg.jacobian(f))(wg.stack([t(X), t(2 * X)]))
    np.testing.assert_allclose(batched.numpy(), np.stack([f_matrix(X), f_matrix(2 * X)]))


def test_linearize_runs_the_function_once() -> None:
    runs = []

    def counted(x):
        runs.append(1)
        return f(x)

    out, push = wg.linearize(counted, t(X))
    np.testing.assert_allclose(out.numpy(), f(t(X)).numpy())
    for v in np.eye(3):
        np.testing.assert_allclose(push(t(v)).numpy(), f_matrix(X) @ v)
    assert len(runs) == 1
    np.testing.assert_allclose(wg.vmap(push)(wg.eye(3, dtype=wg.float64)).numpy(), f_matrix(X).T)


def test_jvp_of_nests_and_of_what_has_no_tangent() -> None:
    def fn(p, n, flag):
        return {"y": p["a"] * n + p["b"][0], "count": n + 1, "argmax": p["a"].argmax(), "same": wg.ones(2)}

    p = {"a": t([1.0, 5.0]), "b": [t(2.0)]}
    out, tangent = wg.jvp(fn, (p, wg.asarray(3), True), ({"a": t([1.0, 1.0]), "b": [None]}, None, None))
    np.testing.assert_allclose(tangent["y"].numpy(), [3.0, 3.0])
    assert tangent["count"] is None
    assert tangent["argmax"] is None
    np.testing.assert_allclose(tangent["same"].numpy(), [0.0, 0.0])
    assert not any(x.requires_grad for x in wg.tree.leaves(out))
    value, along, aux = wg.jvp(lambda x: (x * 2, {"seen": x}), (t(1.0),), (t(1.0),), has_aux=True)
    assert (value.item(), along.item(), aux["seen"].item()) == (2.0, 2.0, 1.0)


def test_perturbations_are_not_confused() -> None:
    # Siskind and Pearlmutter 2005: d/dx (x d/dy (x + y)) is 1, not 2.
    inner = lambda x: x * wg.jvp(lambda y: x + y, (1.0,), (1.0,))[1]
    assert wg.jvp(inner, (1.0,), (1.0,))[1].item() == 1.0
    assert wg.grad(inner)(1.0).item() == 1.0
    mixed = lambda x: x * wg.grad(lambda y: x * y)(2.0)
    assert wg.jvp(mixed, (3.0,), (1.0,))[1].item() == 6.0
    shift = lambda f: wg.jvp(f, (1.0,), (1.0,))[1]
    assert shift(lambda x: shift(lambda y: x * y)).item() == 1.0


def test_dual_tensors_in_a_block() -> None:
    fw = wg.autograd
    with fw.dual_level():
        x = fw.make_dual(t(3.0), t(1.0))
        y = x * x
        assert fw.unpack_dual(y).tangent.item() == 6.0
        assert fw.unpack_dual(y).primal.item() == 9.0
        assert not fw.unpack_dual(y).primal.requires_grad
        assert fw.unpack_dual(t(1.0)).tangent is None
        with fw.dual_level():
            z = fw.make_dual(x, t(1.0))
            inner = fw.unpack_dual(z**3).tangent
        assert fw.unpack_dual(inner).tangent.item() == 18.0
    w = wg.tensor(2.0, requires_grad=True)
    with fw.dual_level():
        d = fw.make_dual(t(3.0), t(1.0))
        with pytest.raises(wg.GradientError, match="without create_graph=True"):
            fw.unpack_dual(w * d * d).tangent.backward()
        fw.unpack_dual(w * d * d).tangent.backward(create_graph=True)
    assert w.grad.item() == 6.0
    with pytest.raises(wg.GradientError, match="outside a dual_level"):
        fw.make_dual(t(1.0), t(1.0))


def test_linear_transpose() -> None:
    a = np.arange(6.0).reshape(2, 3)
    pull = wg.linear_transpose(lambda x: t(a) @ x, wg.spec((3,), wg.float64))
    np.testing.assert_allclose(pull(t([1.0, 2.0]))[0].numpy(), a.T @ [1.0, 2.0])
    with pytest.raises(wg.GradientError, match="not linear"):
        wg.linear_transpose(lambda x: x * x, wg.spec((), wg.float64))(t(1.0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wg.jvp(wg.sin, t(1.0), t(1.0)), "primals are a Tensor"),
        (lambda: wg.jvp(wg.sin, (t(1.0),), ()), "0 tangents for 1 arguments"),
        (lambda: wg.jvp(wg.sin, (t(X),), (t(1.0),)), r"a tangent of shape \(\) for a value of shape \(3,\)"),
        (lambda: wg.jvp(wg.sin, (wg.asarray(1),), (1.0,)), "cannot be differentiated"),
        (lambda: wg.jvp(lambda p: p["a"], ({"a": t(1.0)},), ({"b": t(1.0)},)), "must have one structure|tangents"),
        (lambda: wg.jacobian(wg.sin, mode="sideways"), "mode 'sideways'"),
        (lambda: wg.jacobian(wg.sin)(3), "Jacobian of sin in a int"),
        (lambda: wg.jacobian(lambda x: x.argmax())(t(X)), "which returned i64"),
        (lambda: wg.jacobian(wg.sin, chunk_size=0)(t(X)), "chunk_size 0"),
        (lambda: wg.hessian(lambda x: x)(t(X)), "not a scalar"),
    ],
)
def test_errors_say_what_is_wrong(call, text: str) -> None:
    with pytest.raises(wg.WengertError, match=text) as caught:
        call()
    assert "test_jacobian.py" in str(caught.value).splitlines()[0]
