"""Functions of tensors inside JAX's programs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is an extra")

import jax.numpy as jnp

import wengert as wg
from wengert.core.errors import DTypeError, GradientError, GraphError
from wengert.interop.jax import function

X = np.array([1.0, 2.0], np.float32)


def cubes(x: Any) -> Any:
    return (x**3).sum()


def test_values_and_gradients() -> None:
    f = function(cubes)
    assert float(f(X)) == 9.0
    value, gradient = jax.jit(jax.value_and_grad(f))(X)
    assert float(value) == 9.0
    np.testing.assert_allclose(gradient, 3 * X**2)
    np.testing.assert_allclose(jax.vmap(jax.grad(f))(np.stack([X, 2 * X])), [3 * X**2, 12 * X**2])
    np.testing.assert_allclose(jax.hessian(f)(X), np.diag(6 * X))
    np.testing.assert_allclose(jax.grad(lambda x: 3 * f(x) + f(2 * x))(X), 33 * X**2)
    assert f.__name__ == "cubes"


def test_pytrees() -> None:
    found = jax.grad(function(lambda p: p["a"] * p["b"].sum()))({"a": jnp.asarray(2.0), "b": jnp.ones(3)})
    assert float(found["a"]) == 3.0
    np.testing.assert_allclose(found["b"], [2, 2, 2])


def test_loops() -> None:
    gradient = jax.grad(function(wg.jit(cubes)))

    def descend(x: Any, _: Any) -> tuple[Any, None]:
        return x - 0.01 * gradient(x), None

    found, _ = jax.jit(lambda x: jax.lax.scan(descend, x, length=3))(X)
    wanted = X
    for _ in range(3):
        wanted = wanted - np.float32(0.01) * 3 * wanted**2
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_empty_arrays_and_python_numbers() -> None:
    f = function(lambda x, y: (x**2).sum() + y)
    assert float(f(np.zeros((0, 3), np.float32), 2.0)) == 2.0
    assert jax.grad(f)(np.zeros((0, 3), np.float32), 2.0).shape == (0, 3)


def test_gradients_are_those_of_wengert() -> None:
    f = function(lambda x: wg.where(x > 0, wg.log(x), 0.0).sum())
    np.testing.assert_allclose(jax.grad(f)(np.array([0.0, 2.0], np.float32)), [0.0, 0.5])


def test_what_would_raise_is_nan() -> None:
    f = function(lambda x: wg.linalg.inv(x).sum())
    zeros = np.zeros((2, 2), np.float32)
    assert np.isnan(f(zeros))
    assert np.isnan(jax.grad(f)(zeros)).all()
    assert float(f(np.eye(2, dtype=np.float32))) == 2.0


def test_64_bits() -> None:
    f = function(lambda x: (x * wg.tensor([1.0, 2.0], dtype=wg.float64)).sum())
    with pytest.raises(DTypeError, match="64 bits that JAX would cut"):
        f(X)
    with jax.enable_x64(True):
        assert jax.grad(f)(X.astype(np.float64)).dtype == np.float64


def test_refusals() -> None:
    with pytest.raises(GradientError, match="as a function of JAX's") as caught:
        function(lambda x: x * 2)(X)
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]
    with pytest.raises(DTypeError, match="i32"):
        function(lambda i: i * 2.0)(np.int32(3))
    with pytest.raises(GraphError, match="callback"):
        function(lambda x: wg.callback(np.sum, wg.spec((), "float32"), x))(X)


def test_draws_are_those_of_a_key_or_refused() -> None:
    before = wg.random.get_rng_state().tolist()
    with pytest.raises(GraphError, match="draws random numbers from the default generator"):
        function(lambda x: (x * wg.random.uniform((2,))).sum())(X)
    assert wg.random.get_rng_state().tolist() == before
    drawn = function(lambda x: (x * wg.random.uniform((2,), key=wg.random.key(3))).sum())
    with pytest.raises(DTypeError, match="64 bits that JAX would cut"):
        drawn(X)
    expected = (wg.tensor(X) * wg.random.uniform((2,), key=wg.random.key(3))).sum().item()
    with jax.enable_x64(True):
        assert float(drawn(X)) == pytest.approx(expected, rel=1e-6)
        assert float(jax.jit(drawn)(X)) == pytest.approx(expected, rel=1e-6)


def test_what_is_trained_outside_is_a_constant() -> None:
    w = wg.tensor([2.0, 3.0], requires_grad=True)
    layer = wg.nn.Linear(2, 1)

    def fn(x: Any) -> Any:
        return ((w * x) ** 2).sum() + layer(x)[0] ** 2

    x = np.array([0.5, -1.0], np.float32)
    found = function(fn)
    np.testing.assert_allclose(jax.jit(found)(x), fn(wg.tensor(x)).detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(found)(x), wg.grad(fn)(wg.tensor(x)).detach().numpy(), rtol=1e-5)
