"""Tensors of `wengert.numpy`: methods, dtypes and views as NumPy has them, eager, compiled and differentiated."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import pytest

import wengert as wg
import wengert.numpy as np
import wengert.torch as torch

RNG = numpy.random.default_rng(0)
ARRAYS: dict[str, Any] = {
    "float64": RNG.normal(size=(3, 4)),
    "float32": RNG.normal(size=(3, 4)).astype("f4"),
    "int64": RNG.permutation(12).reshape(3, 4) - 5,
    "int32": RNG.permutation(12).reshape(3, 4).astype("i4") - 5,
    "uint8": RNG.permutation(12).reshape(3, 4).astype("u1"),
    "bool": RNG.random((3, 4)) > 0.5,
}
# Methods that mean the same on a tensor, traced or not: what NumPy's arrays give is the expectation.
CALLS: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: (x.all(), x.all(axis=1)),
    "argmax": lambda x: (x.argmax(), x.argmin(1), x.argmax(axis=1, keepdims=True)),
    "clip": lambda x: x.clip(0, 1),
    "cumsum": lambda x: (x.cumsum(), x.cumsum(1), x.cumprod(axis=0)),
    "diagonal": lambda x: (x.diagonal(), x.diagonal(1), x.trace()),
    "extremes": lambda x: (x.max(), x.min(0), x.max(axis=1, keepdims=True)),
    "moments": lambda x: (x.mean(), x.mean(0), x.std(1), x.var(ddof=1), x.var(0, ddof=1, keepdims=True)),
    "mean as": lambda x: x.mean(axis=0, dtype=float),
    "ravel": lambda x: (x.ravel(), x.ravel("F"), x.flatten("F"), x.flat),
    "repeat": lambda x: (x.repeat(2), x.repeat(2, 1)),
    "reshape": lambda x: (x.reshape(4, 3), x.reshape((2, 6)), x.reshape(-1), x.reshape(2, 6, order="F")),
    "sum": lambda x: (x.sum(), x.sum(1), x.sum(axis=0, keepdims=True), x.sum(dtype=float), x.prod()),
    "swapaxes": lambda x: (x.swapaxes(0, 1), x.squeeze()),
    "take": lambda x: (x.take([0, 2]), x.take([0, 1], 1)),
    "transpose": lambda x: (x.T, x.transpose(), x.transpose(1, 0), x.transpose((1, 0))),
    "astype": lambda x: (x.astype(float), x.astype(int), x.astype("complex128"), x.copy()),
}


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if isinstance(expected, numpy.flatiter):
        expected = numpy.asarray(expected)
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-5 if expected.dtype == numpy.float32 else 1e-12)


# NumPy's booleans are not clipped to whole numbers but become them.
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in CALLS for d in ARRAYS if (n, d) != ("clip", "bool")])
def test_methods_are_numpys(name: str, dtype: str) -> None:
    f, a = CALLS[name], ARRAYS[dtype]
    x = np.array(a)
    expected = f(a)
    assert_same(f(x), expected)
    if name in ("ravel", "sum") and dtype in ("float64", "int64"):
        compiled = wg.jit(f)
        for _ in range(6):
            found = compiled(x)
        assert_same(found, expected)


OPERANDS: dict[str, Any] = ARRAYS | {
    "2": 2,
    "1.5": 1.5,
    "1j": 1j,
    "True": True,
    "np.float32": numpy.float32(2),
    "np.int64": numpy.int64(2),
    "array of no axes": numpy.array(1.5),
    "list": [1, 2, 3, 4],
}
OPERATORS = ["add", "sub", "mul", "truediv", "eq", "and_", "or_", "xor"]


@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize("other", OPERANDS)
def test_operators_have_numpys_dtypes(dtype: str, other: str) -> None:
    a, b = ARRAYS[dtype], OPERANDS[other]
    for name in OPERATORS:
        f = getattr(operator, name)
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                expected = f(a, b)
            except TypeError:
                continue
            tensor = np.array(b) if isinstance(b, numpy.ndarray) and b.ndim else b
            for y in (b, tensor):
                assert_same(f(np.array(a), y), expected)
                assert_same(f(y, np.array(a)), f(b, a))


def test_functions_of_whole_numbers_have_numpys_dtypes() -> None:
    for dtype in ("int8", "int16", "int32", "int64", "uint8"):
        a = numpy.arange(1, 4).astype(dtype)
        for name in ("exp", "sqrt", "sin", "arctan", "median", "mean", "std", "linalg.norm"):
            function, theirs = np, numpy
            for part in name.split("."):
                function, theirs = getattr(function, part), getattr(theirs, part)
            assert function(np.array(a)).dtype == theirs(a).dtype, (name, dtype)
    i = np.arange(3)
    for made in (wg.jit(lambda v: v / 2)(i), wg.vmap(lambda v: v * 1.5)(i), wg.jit(lambda v: np.mean(v) + 1)(i)):
        assert (type(made), made.dtype) == (np.ndarray, numpy.float64)


def test_views_share_elements() -> None:
    a = np.arange(6.0).reshape(2, 3)
    row, turned, flat, fancy = a[0], a.T, a.flat, a[[0, 1]]
    row[1:] = 7
    turned[0] *= 10
    flat[5] = -1
    row += 1
    expected = numpy.arange(6.0).reshape(2, 3)
    expected[0, 1:] = 7
    expected.T[0] *= 10
    expected.flat[5] = -1
    expected[0] += 1
    assert a.tolist() == expected.tolist()
    assert (row.tolist(), turned.tolist(), flat.tolist()) == (
        expected[0].tolist(),
        expected.T.tolist(),
        expected.ravel().tolist(),
    )
    assert fancy.tolist() == [[0, 1, 2], [3, 4, 5]]
    kept = a.copy()
    kept.fill(0)
    kept.put([1, 2], [4, 5])
    kept.sort(axis=1)
    assert kept.tolist() == [[0, 4, 5], [0, 0, 0]]
    assert a.tolist() == expected.tolist()


def test_views_in_differentiated_and_compiled_programs() -> None:
    def f(x: Any) -> Any:
        out = np.zeros((2, 3))
        row = out[0]
        row[:] = x**2
        row *= 2
        out.T[1:, 1] = x[1:]
        return np.sum(out * np.arange(6).reshape(2, 3)) + out[0, 2]

    x = numpy.array([1.0, 2.0, 3.0])
    wg.check_grads(f, x)
    compiled, eager = wg.jit(wg.grad(f)), wg.grad(f)(np.array(x))
    for _ in range(6):
        assert compiled(np.array(x)).tolist() == eager.tolist() == [0.0, 12.0, 41.0]


def test_results_written_to_out() -> None:
    def ratio(a: Any, b: Any) -> Any:
        return np.sum(np.divide(a, b, out=np.zeros_like(a), where=b != 0) * np.array([1.0, 2.0, 3.0]))

    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0, 4.0])
    assert ratio(a, b) == 2.75
    for found in (wg.grad(ratio, argnums=(0, 1))(a, b), wg.jit(wg.grad(ratio, argnums=(0, 1)))(a, b)):
        assert [g.tolist() for g in found] == [[0.5, 0.0, 0.75], [-0.25, 0.0, -0.5625]]
    whole = np.zeros(4)
    part = whole[1:]
    assert np.add(a, b, out=part) is part
    assert whole.tolist() == [0.0, 3.0, 2.0, 7.0]
    assert np.cumsum(a, out=part) is part
    assert whole.tolist() == [0.0, 1.0, 3.0, 6.0]
    theirs = numpy.zeros(3)
    np.add(a, b, out=theirs)
    assert theirs.tolist() == [3.0, 2.0, 7.0]
    with pytest.raises(TypeError, match=r"a result of c128\[3\] cannot be written to out= of f64\[3\]"):
        np.add(a, 1j, out=part)
    with pytest.raises(wg.GradientError, match=r"np\.add of a tensor that requires gradients"):
        wg.grad(lambda v: np.add(v, 1, out=theirs).sum())(a)


def test_tensors_of_other_namespaces() -> None:
    plain = wg.tensor([1, 2])
    x = np.array([1, 2])
    assert (plain / 2).dtype == numpy.float32  # whose own meaning stays
    assert type(plain + x) is type(x + plain) is type(np.sin(plain)) is np.ndarray
    assert type(plain) is wg.Tensor
    leaf = wg.tensor([1.0, 2.0], requires_grad=True)
    np.sum(leaf**2).backward()
    assert leaf.grad.tolist() == [2.0, 4.0]
    assert isinstance(x, np.ndarray)
    assert isinstance(numpy.zeros(2), np.ndarray)
    assert not isinstance(plain, np.ndarray)
    assert not isinstance(torch.zeros(2), np.ndarray)
    for again in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), wg.tree.map(lambda v: v, [x])[0]):
        assert (type(again), again.tolist()) == (np.ndarray, [1, 2])


def test_single_elements() -> None:
    x = np.array([[1.0, 2.567], [3.0, 4.5]])
    assert (x.item(1), x.item(1, 0), x.item((0, 1))) == (2.567, 3.0, 2.567)
    assert round(x[0, 1], 2) == 2.57
    assert (round(x[1, 1]), type(round(x[1, 1]))) == (4, int)
    with pytest.raises(TypeError, match=r"round\(\) of a tensor with axes, f64\[2,2\]"):
        round(x)
    with pytest.raises(wg.WriteError, match=r"view\('int64'\) of f64\[2,2\]"):
        x.view("int64")
    with pytest.raises(TypeError, match="cannot cast from float64 to int64"):
        x.astype(int, casting="safe")
    assert np.ndarray((2, 3)).tolist() == [[0.0] * 3] * 2
    assert wg.grad(lambda v: np.sum(np.full((2, 2), v)))(np.array(1.0)) == 4.0


def test_arguments_that_are_not_taken_are_named() -> None:
    with pytest.raises(wg.GradientError, match=r"np\.reshape .*\n.*order='K'"):
        wg.grad(lambda v: np.reshape(v, -1, order="K").sum())(np.ones((2, 2)))
    with pytest.raises(wg.GradientError, match=r"np\.sort .*\n.*does not take kind="):
        wg.grad(lambda v: np.sort(v, kind="heapsort").sum())(np.ones(2))


def test_what_is_joined_by_an_index() -> None:
    a, b = numpy.array([1.0, 2.0]), numpy.arange(4.0).reshape(2, 2)
    for made, expected in (
        (np.r_[np.array(a), 5, 1:3], numpy.r_[a, 5, 1:3]),
        (np.r_[np.array(b), b], numpy.r_[b, b]),
        (np.c_[np.array(a), a], numpy.c_[a, a]),
        (np.c_[np.array(b), a], numpy.c_[b, a]),
        (np.r_[0:1:5j], numpy.r_[0:1:5j]),
    ):
        assert_same(made, expected)
    wg.check_grads(lambda x: np.c_[x, x**2] * np.r_[x, 1.0][:2], a)
    compiled = wg.jit(lambda x: np.r_[x, 0.0])
    assert [compiled(np.array(a)).tolist() for _ in range(6)] == [[1.0, 2.0, 0.0]] * 6
    with pytest.raises(TypeError, match="a text among what is joined with tensors"):
        np.r_["-1", np.array(a)]
