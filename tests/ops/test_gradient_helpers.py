"""Helpers that leave a value alone and change its derivative, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import Tensor

X = wg.tensor([0.3, -1.2, 2.5], dtype=wg.float64)
T = wg.tensor([1.0, 2.0, -1.0], dtype=wg.float64)
W = wg.tensor([2.0, 0.5, 3.0], dtype=wg.float64)

# What each helper multiplies a tangent and a cotangent by.
LINEAR: dict[str, tuple[Callable[[Any], Tensor], Any]] = {
    "stop_gradient": (wg.stop_gradient, 0.0),
    "detach": (lambda x: x.detach(), 0.0),
    "scale": (lambda x: wg.scale_gradient(x, 0.25), 0.25),
    "scale by a tensor": (lambda x: wg.scale_gradient(x, W), W),
    "scale by zero": (lambda x: wg.scale_gradient(x, 0), 0.0),
    "reverse": (wg.reverse_gradient, -1.0),
    "reverse by half": (lambda x: wg.reverse_gradient(x, 0.5), -0.5),
    "straight through": (wg.straight_through(lambda x: x.detach() * 1.0), 1.0),
}


def total(h: Any) -> Callable[[Tensor], Tensor]:
    return lambda x: (wg.sin(x) * h(x)).sum()


def modes(h: Any) -> dict[str, Any]:
    f = total(h)
    both = lambda x: wg.jvp(wg.grad(f), (x,), (T,))[1]
    mixed = wg.grad(lambda x: wg.jvp(f, (x,), (T,))[1])
    return {
        "grad": wg.grad(f)(X),
        "jvp": wg.jvp(h, (X,), (T,))[1],
        "linearize": wg.linearize(h, X)[1](T),
        "vjp": wg.vjp(h, X)[1](T)[0],
        "second": both(X),
        "mixed": mixed(X),
        "traced grad": wg.graph(wg.grad(f))(X)(X),
        "traced jvp": wg.graph(lambda x: wg.jvp(h, (x,), (T,))[1])(X)(X),
        "traced second": wg.graph(both)(X)(X),
        "graph": wg.grad(wg.graph(f)(X))(X),
        "graph from text": wg.grad(wg.Graph.parse(wg.graph(f)(X).text()))(X),
        "vmap": wg.vmap(wg.grad(f))(wg.stack([X, X]))[1] if h is not LINEAR["scale by a tensor"][0] else None,
        "of vmap": wg.grad(lambda x: wg.vmap(h)(x[None]).sum())(X),
    }


@pytest.mark.parametrize("name", LINEAR)
def test_every_mode(name: str) -> None:
    h, factor = LINEAR[name]
    assert h(X).tolist() == X.tolist()
    found = modes(h)
    k = np.asarray(factor) * np.ones(3)
    x, t = X.numpy(), T.numpy()
    grad = np.cos(x) * x + np.sin(x) * k
    second = (-np.sin(x) * x + 2.0 * np.cos(x) * k) * t
    expected = {
        **dict.fromkeys(["grad", "traced grad", "graph", "graph from text", "vmap"], grad),
        **dict.fromkeys(["jvp", "linearize", "vjp", "traced jvp"], k * t),
        **dict.fromkeys(["second", "mixed", "traced second"], second),
        "of vmap": k,
    }
    for mode, value in found.items():
        if value is not None:
            np.testing.assert_allclose(value.numpy(), expected[mode], rtol=1e-12, atol=1e-14, err_msg=mode)


def test_infinite_values_pass() -> None:
    x = wg.tensor([np.inf, -np.inf, np.nan], dtype=wg.float64)
    for h, factor in LINEAR.values():
        np.testing.assert_array_equal(h(x).numpy(), x.numpy())
        g = wg.grad(lambda v, h=h: h(v).sum())(x)
        np.testing.assert_array_equal(g.numpy(), np.asarray(factor) * np.ones(3))


@pytest.mark.parametrize("dtype", [wg.float32, wg.float16, wg.bfloat16])
def test_narrow_dtypes_keep_theirs(dtype: Any) -> None:
    x = wg.tensor([1.0, -2.0], dtype=dtype)
    scale = wg.tensor([2.0, 3.0], dtype=wg.float64)
    for h in (
        lambda v: wg.scale_gradient(v, 0.5),
        lambda v: wg.scale_gradient(v, scale),
        wg.reverse_gradient,
        lambda v: wg.clip_gradient(v, -0.5, 0.5),
        lambda v: wg.clip_gradient(v, norm=0.5),
        wg.straight_through(wg.sign),
    ):
        assert h(x).dtype == dtype
        assert wg.grad(lambda v, h=h: (h(v) * 300.0).sum())(x).dtype == dtype
        assert np.isfinite(wg.grad(lambda v, h=h: (h(v) * 300.0).sum())(x).astype(wg.float64).numpy()).all()
        assert wg.jvp(h, (x,), (x,))[1].dtype == dtype


def test_empty_0d_and_integers() -> None:
    for h in (
        lambda v: wg.scale_gradient(v, 0.5),
        lambda v: wg.clip_gradient(v, -0.5, 0.5),
        lambda v: wg.clip_gradient(v, norm=0.5),
    ):
        assert wg.grad(lambda v, h=h: h(v).sum())(wg.zeros(0, 2)).shape == (0, 2)
        assert wg.grad(h)(3.0).item() == 0.5
        assert h(wg.tensor([1, 2])).tolist() == [1, 2]


def test_complex_numbers() -> None:
    z = wg.tensor([1.0 + 2.0j, -1.0j], dtype=wg.complex128)
    loss = lambda v: (wg.abs(v) ** 2).sum()
    plain = wg.grad(loss)(z).numpy()
    scaled = wg.grad(lambda v: loss(wg.scale_gradient(v, 0.5j)))(z).numpy()
    np.testing.assert_allclose(scaled, plain * np.conj(0.5j))
    clipped = wg.grad(lambda v: loss(wg.clip_gradient(v, norm=1.0)))(z).numpy()
    np.testing.assert_allclose(clipped, plain / np.linalg.norm(plain))
    with pytest.raises(wg.DTypeError, match="norm="):
        wg.clip_gradient(z, 0.0, 1.0)
    with pytest.raises(wg.DTypeError, match="complex"):
        wg.scale_gradient(X, 1j)
    with pytest.raises(wg.DTypeError, match="complex"):
        wg.scale_gradient(X, z[:1])


# -- clipping


def clipped(h: Any, ct: Any) -> list[float]:
    return wg.vjp(h, X)[1](wg.tensor(ct, dtype=wg.float64))[0].tolist()


def test_clipping_between_bounds() -> None:
    ct = [3.0, -4.0, 0.5]
    assert clipped(lambda x: wg.clip_gradient(x, -1.0, 2.0), ct) == [2.0, -1.0, 0.5]
    assert clipped(lambda x: wg.clip_gradient(x, high=2.0), ct) == [2.0, -4.0, 0.5]
    assert clipped(lambda x: wg.clip_gradient(x, low=0), ct) == [3.0, 0.0, 0.5]
    assert clipped(wg.clip_gradient, ct) == ct
    assert np.isnan(clipped(lambda x: wg.clip_gradient(x, -1.0, 2.0), [np.nan, np.inf, 0.0])[0])


def test_clipping_by_norm() -> None:
    h = lambda x: wg.clip_gradient(x, norm=2.0)
    np.testing.assert_allclose(clipped(h, [3.0, -4.0, 0.0]), [1.2, -1.6, 0.0], rtol=1e-15)
    assert clipped(h, [1.0, -1.0, 0.5]) == [1.0, -1.0, 0.5]
    assert clipped(h, [0.0, 0.0, 0.0]) == [0.0, 0.0, 0.0]
    # Each example of a vmap has its own norm, as it has alone.
    rows = wg.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=wg.float64)
    f = lambda x, w: (wg.clip_gradient(x, norm=1.0) * w).sum()
    expected = [[0.6, 0.8], [0.3, 0.4]]
    np.testing.assert_allclose(wg.vmap(wg.grad(f))(rows, rows).numpy(), expected)
    np.testing.assert_allclose(wg.grad(lambda x: wg.vmap(f)(x, rows).sum())(rows).numpy(), expected)


@pytest.mark.parametrize(
    "h", [lambda x: wg.clip_gradient(x, -1.0, 1.0), lambda x: wg.clip_gradient(x, norm=1.5)], ids=["bounds", "norm"]
)
def test_derivatives_of_a_clipped_gradient(h: Any) -> None:
    def gradient(x: Tensor) -> Tensor:
        return wg.grad(lambda v: (h(v) ** 3).sum())(x)

    # A second reverse pass would clip its own cotangents too: forward mode has the slope.
    for x in (X, X * 0.1):
        step = 1e-6 * T
        slope = (gradient(x + step) - gradient(x - step)) / 2e-6
        np.testing.assert_allclose(wg.jvp(gradient, (x,), (T,))[1].numpy(), slope.numpy(), atol=1e-8)
    np.testing.assert_allclose(wg.graph(gradient)(X)(X).numpy(), gradient(X).numpy())
    zero = wg.grad(lambda x: wg.grad(lambda v: (h(v) * 0.0).sum())(x).sum())(X)
    assert zero.tolist() == [0.0, 0.0, 0.0]


def test_tangents_are_not_clipped() -> None:
    for h in (lambda x: wg.clip_gradient(x, -0.1, 0.1), lambda x: wg.clip_gradient(x, norm=0.1)):
        assert wg.jvp(h, (X,), (T,))[1].tolist() == T.tolist()


# -- straight through


def test_straight_through_values_and_slopes() -> None:
    f = lambda x: (wg.straight_through(x > 0.0, wg.sigmoid(x)) * W).sum()
    s = 1.0 / (1.0 + np.exp(-X.numpy()))
    assert f(X).item() == 5.0
    np.testing.assert_allclose(wg.grad(f)(X).numpy(), s * (1.0 - s) * W.numpy())
    np.testing.assert_allclose(wg.jvp(f, (X,), (T,))[1].item(), np.sum(s * (1.0 - s) * W.numpy() * T.numpy()))
    np.testing.assert_allclose(wg.graph(wg.grad(f))(X)(X).numpy(), s * (1.0 - s) * W.numpy())


def test_the_hard_value_gets_no_gradient() -> None:
    hard, soft = X.detach().requires_grad_(), X.detach().requires_grad_()
    wg.straight_through(hard * 2.0, soft).sum().backward()
    assert hard.grad is None
    assert soft.grad.tolist() == [1.0, 1.0, 1.0]


def test_straight_through_of_nests() -> None:
    f = wg.straight_through(lambda p: {k: wg.round(v) for k, v in p.items()})
    p = {"a": X, "b": wg.tensor(0.7, dtype=wg.float64)}
    assert f(p)["b"].item() == 1.0
    g = wg.grad(lambda p: (f(p)["a"] ** 2).sum() * f(p)["b"])(p)
    assert g["a"].tolist() == (2.0 * wg.round(X)).tolist()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: wg.straight_through(X, X[:2]), wg.ShapeError, r"shape \(3,\).*\(2,\)"),
        (lambda: wg.straight_through(X, wg.tensor([1, 2, 3])), wg.DTypeError, "no derivative"),
        (lambda: wg.straight_through(X), wg.DTypeError, "one Tensor"),
        (lambda: wg.straight_through(wg.tensor([1j]), wg.tensor([1.0])), wg.DTypeError, "complex"),
        (lambda: wg.scale_gradient(X, W[:2]), wg.ShapeError, "broadcast"),
        (lambda: wg.scale_gradient("x", 1.0), wg.DTypeError, "str"),
        (lambda: wg.reverse_gradient(X, W), wg.DTypeError, "Tensor"),
        (lambda: wg.clip_gradient(X, 1.0, 0.0), wg.ShapeError, "low=1.0"),
        (lambda: wg.clip_gradient(X, W), wg.DTypeError, "Tensor"),
        (lambda: wg.clip_gradient(X, 1.0, norm=1.0), wg.ShapeError, "norm"),
        (lambda: wg.clip_gradient(X, norm=-1.0), wg.ShapeError, "positive"),
    ],
)
def test_errors(call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        call()
