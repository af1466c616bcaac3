"""`wengert.numpy`: NumPy's API, giving tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import wengert as wg
import wengert.numpy as np


def test_what_is_made_of_numbers_has_numpys_dtypes() -> None:
    for made, expected in (
        (np.zeros(3), numpy.zeros(3)),
        (np.arange(3), numpy.arange(3)),
        (np.eye(2, dtype=np.float32), numpy.eye(2, dtype=numpy.float32)),
        (np.array([1, 2.5]), numpy.array([1, 2.5])),
        (np.array([[True]]), numpy.array([[True]])),
        (np.linspace(0, 1, 4), numpy.linspace(0, 1, 4)),
        (np.geomspace(1, 8, 4), numpy.geomspace(1, 8, 4)),
        (np.array(2, ndmin=2), numpy.array(2, ndmin=2)),
        (np.sin(1.0), numpy.sin(1.0)),
        (np.sum([1, 2]), numpy.sum([1, 2])),
        (np.concatenate([[1.0], [2.0]]), numpy.concatenate([[1.0], [2.0]])),
        (np.array([], dtype=np.int8), numpy.array([], dtype=numpy.int8)),
    ):
        assert type(made) is np.ndarray
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        numpy.testing.assert_array_equal(made.numpy(), expected)


def test_tensors_in_lists() -> None:
    x = wg.tensor(numpy.array([2.0, 3.0]), requires_grad=True)
    made = np.array([[x[0], 1], [0.5, x[1]]])
    assert made.dtype == numpy.float64
    np.sum(made**2).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0]
    for call in (
        lambda: np.sum([x[0], x[1]]),
        lambda: np.add([x[0], 1.0], 2.0).sum() - 4.0 + x[1] - 1.0,
        lambda: np.stack([x[0], x[1]]).sum(),
        lambda: np.concatenate([x, [0.0]]).sum(),
        lambda: np.hstack([x[0], x[1]]).sum(),
    ):
        assert float(call()) == 5.0
    assert np.array([wg.tensor([1.0]), [2.0]]).dtype == numpy.float64  # as of a float32 array beside a number
    assert np.array([wg.tensor([1.0]), wg.tensor([2.0])]).dtype == numpy.float32
    assert np.array(x) is not x
    ours = np.asarray(x)  # another object, of NumPy's meaning, with the same history
    assert np.asarray(ours) is ours
    assert np.asarray(x, dtype=np.float32).dtype == numpy.float32
    with pytest.raises(wg.ShapeError, match="ragged"):
        np.array([[1.0], [2.0, 3.0]])
    with pytest.raises(wg.ShapeError, match=r"stack.*test_namespace\.py"):
        np.array([x, [2.0, 3.0, 4.0]])


def _loss(p: Any, inputs: Any) -> Any:
    w = np.array([[p[0], p[1]], [0.0, p[2]]])
    b = np.zeros(2)
    b[0] = p[3]
    return np.sum(np.tanh(np.dot(inputs, w) + b) ** 2) + np.linalg.slogdet(w)[1] + np.abs(np.fft.rfft(p)).sum()


def test_a_program_of_autograds() -> None:
    p, inputs = numpy.array([0.3, 0.2, 0.5, 0.1]), numpy.random.default_rng(0).normal(size=(4, 2))
    wg.check_grads(lambda q: _loss(q, inputs), p)
    slope = wg.grad(_loss)(p, inputs)
    assert slope.dtype == numpy.float64
    compiled = wg.jit(wg.grad(_loss))
    for _ in range(6):
        numpy.testing.assert_allclose(compiled(p, inputs).numpy(), slope.numpy(), rtol=1e-12)
    found = wg.vmap(lambda q: _loss(q, inputs))(numpy.stack([p, p * 2]))
    numpy.testing.assert_allclose(found.numpy(), [float(_loss(p, inputs)), float(_loss(p * 2, inputs))], rtol=1e-12)


def test_nested_lists_of_traced_tensors() -> None:
    x = numpy.arange(4.0).reshape(2, 2)
    f = lambda v: np.block([[v, v + 1], [np.zeros((1, 2)), np.stack([v[0], v[1]])[:1]]])
    expected = numpy.block([[x, x + 1], [numpy.zeros((1, 2)), x[:1]]])
    compiled = wg.jit(f)
    for _ in range(6):
        numpy.testing.assert_array_equal(compiled(x).numpy(), expected)
    numpy.testing.assert_array_equal(f(x).numpy(), expected)


def test_dtypes_of_a_program_that_asks_for_float64() -> None:
    """Python's float and what becomes of integers are of the default dtype: with that line they are NumPy's."""
    default = wg.get_default_dtype()
    wg.set_default_dtype(wg.float64)
    try:
        i = np.arange(1, 4)
        for made in (i / 2, i * 1.5, np.exp(i), np.sqrt(i), 1 / i, i.astype(float), np.mean(i), np.sum(i) / 3):
            assert made.dtype == numpy.float64
        for made in (i.astype(complex), i * 1j, 1j - i, 2j**i, np.exp(1j * i), wg.jit(lambda v: v * 1j)(i)):
            assert made.dtype == numpy.complex128
        large = np.array([10**8 + 1, 10**8 + 3])
        for found in (np.median(large), wg.median(large), wg.jit(wg.median)(large)):
            assert (found.dtype, float(found)) == (numpy.float64, 10**8 + 2)
    finally:
        wg.set_default_dtype(default)


def test_ufuncs_have_their_methods() -> None:
    x = np.array([1.0, 2.0, 4.0])
    assert np.add.reduce(x) == 7.0
    assert np.multiply.accumulate(x).tolist() == [1.0, 2.0, 8.0]
    assert np.subtract.outer(x, [1.0, 2.0]).shape == (3, 2)
    assert np.add.nin == 2
    assert repr(np.add) == "<ufunc 'add' of wengert.numpy>"
    assert wg.grad(lambda v: np.maximum.reduce(np.multiply.outer(v, v).reshape(-1)))(x).tolist() == [0.0, 0.0, 8.0]


def test_writing() -> None:
    a = np.zeros((3, 3))
    np.fill_diagonal(a, [1.0, 2.0, 3.0])
    np.put(a, [1, 2], [7.0])
    expected = numpy.zeros((3, 3))
    numpy.fill_diagonal(expected, [1.0, 2.0, 3.0])
    numpy.put(expected, [1, 2], [7.0])
    assert a.tolist() == expected.tolist()
    np.place(a, a > 6, [1.5])
    np.copyto(a, 9.0, where=a == 0)
    np.put_along_axis(a, numpy.array([[2], [1], [0]]), -1.0, axis=1)
    numpy.place(expected, expected > 6, [1.5])
    numpy.copyto(expected, 9.0, where=expected == 0)
    numpy.put_along_axis(expected, numpy.array([[2], [1], [0]]), -1.0, axis=1)
    assert a.tolist() == expected.tolist()

    def f(x: Any) -> Any:
        made = np.zeros((2, 2))
        np.fill_diagonal(made, x)
        np.put(made, 1, x[0] * x[1])
        return np.sum(made**2)

    wg.check_grads(f, numpy.array([2.0, 3.0]))
    with pytest.raises(wg.GradientError, match=r"np\.copyto of a tensor that requires gradients"):
        wg.grad(lambda x: np.copyto(numpy.zeros(2), x))(numpy.ones(2))


def test_what_is_not_wengerts_is_numpys() -> None:
    counts, edges = np.histogram(np.array([1.0, 2.0, 2.0]), 2)
    assert counts.tolist() == [1, 2]
    assert type(edges) is np.ndarray
    with pytest.raises(wg.GradientError, match=r"np\.histogram of a tensor that requires gradients"):
        wg.grad(lambda x: np.histogram(x)[1].sum())(numpy.ones(3))
    assert np.pi == numpy.pi
    assert np.float64 is numpy.float64
    assert np.newaxis is None
    assert isinstance(np.array(["text"]), numpy.ndarray)
    assert np.random.default_rng is numpy.random.default_rng
    assert np.linalg.LinAlgError is numpy.linalg.LinAlgError
    for module, name in ((np, "numpy"), (np.linalg, "numpy.linalg"), (np.random, "numpy.random")):
        with pytest.raises(AttributeError, match=rf"module 'wengert\.{name}' has no attribute 'nothing'"):
            module.nothing
    assert "interp" in dir(np)
    assert set(np.__all__) <= set(dir(np))


def test_draws_of_numpys_begin_a_compiled_function_anew() -> None:
    f = wg.jit(lambda x: x + np.random.rand())
    with pytest.warns(RuntimeWarning, match=r"draws of numpy\.random"):
        assert len({float(f(wg.tensor(0.0))) for _ in range(6)}) == 6


def _changed_at(np: Any) -> Iterator[Any]:
    z = np.zeros((3, 4))
    np.add.at(z, [0, 0, 1], 2.0)
    np.subtract.at(z, (slice(1, None), np.array([0, 3, 3])), np.array([1.0, 2.0, 3.0]))
    np.add.at(z, z > 1, 1)
    np.add.at(z, np.array([], dtype=int), 1.0)
    np.multiply.at(z, ([0, 0], [1, 1]), 3.0)
    np.negative.at(z, 0)
    np.add.at(z[1], [0, 0], 1.0)
    np.maximum.at(z.T, ([0, 0], [1, 1]), 30.0)
    yield z
    for dtype in (bool, int):
        b = np.zeros(3, dtype=dtype)
        np.add.at(b, [0, 0, -1], True)
        yield b


def test_ufuncs_change_elements_where_they_are() -> None:
    for found, expected in zip(_changed_at(np), _changed_at(numpy), strict=True):
        assert found.dtype == expected.dtype
        numpy.testing.assert_array_equal(numpy.asarray(found), expected)
    with pytest.raises(wg.DTypeError, match=r"^np\.add\.at of i64\[3\] with f64\[\] \(.*test_namespace\.py:"):
        np.add.at(np.arange(3), [0], 1.5)
    with pytest.raises(IndexError, match=r"test_namespace\.py:"):
        np.add.at(np.arange(3), [5], 1)


def test_a_change_where_elements_are_carries_gradients() -> None:
    def f(x: Any, places: Any) -> Any:
        y = x * 2.0
        np.add.at(y, places, x * x)
        np.subtract.at(y, 0, x[1])
        return (y * np.arange(3.0)).sum()

    places = np.array([1, 1, 2])
    for run in (f, wg.jit(f)):
        for _ in range(6):
            value, slope = wg.value_and_grad(run)(np.array([1.0, 2.0, 3.0]), places)
            assert (value.item(), slope.tolist()) == (39.0, [2.0, 6.0, 16.0])


def test_conditions_of_piecewise_functions() -> None:
    def found(np: Any) -> Iterator[Any]:
        x = np.linspace(-2.5, 2.5, 6)
        y = np.array(-2.0)
        yield np.piecewise(y, [y < 0, y >= 0], [lambda v: -v, lambda v: v * 3])
        yield np.piecewise(y, y < 0, [lambda v: -v, lambda v: v * 3])
        yield np.piecewise(x, [True, False, True, False, True, False], [5, 6])
        yield np.piecewise(x, np.stack([x < 0, x > 1]), [5, 6, 7])

    for a, b in zip(found(np), found(numpy), strict=True):
        numpy.testing.assert_array_equal(numpy.asarray(a), b)


def test_sizes_and_values_that_depend_on_values_are_refused_while_traced() -> None:
    def placed(x: Any) -> Any:
        y = x * 2.0
        np.place(y, y > 1, [7.0, 8.0])
        return y

    with pytest.raises(wg.TraceError, match=r"(?s)^np\.place of f64\[2\] while traced.*np\.putmask"):
        wg.jit(placed)(np.ones(2))
    with pytest.raises(wg.TraceError, match=r"(?s)^np\.bincount of i64\[2\] while traced.*np\.add\.at"):
        wg.jit(lambda x: np.bincount(x, minlength=5))(np.arange(2))
