"""Elementwise ops where it is tricky: promotion, edge values, masks, corners of pow, complex gradients."""

from __future__ import annotations

import math
import operator
import subprocess
import sys
import warnings

import ml_dtypes
import mpmath
import numpy as np
import pytest

import wengert as wg
from wengert.core.ops.op import TABLE

NAN, INF = math.nan, math.inf

# The elementwise functions of the Python Array API standard 2024.12.
STANDARD = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or
bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh square sqrt subtract tan tanh trunc where
"""
HOLOMORPHIC = """
exp expm1 log log1p log2 log10 sqrt rsqrt square reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh
atanh sigmoid
"""


def derivatives(fn, value, order: int, dtype=np.float64) -> list:
    """The first `order` derivatives of a function of one number, through recorded backward passes."""
    x = wg.tensor(np.array(value, dtype), requires_grad=True)
    y = fn(x)
    out = []
    for _ in range(order):
        (y,) = wg.autograd.grad(y, x, create_graph=True, allow_unused=True)
        out.append(0.0 if y is None else y.item())
        if y is None or not y.requires_grad:
            return out + [0.0] * (order - len(out))
    return out


def gradient(fn, *values, ct=1.0) -> list:
    """The plain (unrecorded) gradients of a function of several numbers."""
    xs = [wg.tensor(np.array(v), requires_grad=True) for v in values]
    y = fn(*xs)
    grads = wg.autograd.grad(y, xs, wg.tensor(np.array(ct, y.dtype)), allow_unused=True)
    return [g.item() for g in grads]


def same(found, expected) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


# -- names


@pytest.mark.parametrize("name", STANDARD.split())
def test_standard_name(name: str) -> None:
    assert callable(getattr(wg, name))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("neg", "negative"), ("mul", "multiply"), ("sub", "subtract"), ("div", "divide"), ("true_divide", "divide"),
        ("clamp", "clip"), ("absolute", "abs"), ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"),
        ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"), ("bitwise_not", "bitwise_invert"),
    ],
)  # fmt: skip
def test_pytorch_alias(alias: str, name: str) -> None:
    assert callable(getattr(wg.torch, alias))
    assert not hasattr(wg, alias)
    assert getattr(wg.Tensor, alias) is getattr(wg, name)


# -- dtypes


@pytest.mark.parametrize(
    ("value", "number", "expected"),
    [
        (np.float32(1), 2.5, "float32"),
        (np.float16(1), 2.5, "float16"),
        (np.float64(1), 2, "float64"),
        (np.int8(1), 2, "int8"),
        (np.int64(1), 2.5, "float32"),
        (np.uint8(1), True, "uint8"),
        (np.bool_(True), 1, "int64"),
        (np.bool_(True), 1.5, "float32"),
        (np.float32(1), 1j, "complex64"),
        (np.float64(1), 1j, "complex128"),
        (ml_dtypes.bfloat16(1), 2.5, "bfloat16"),
    ],
)
def test_python_numbers_are_weak(value, number, expected: str) -> None:
    x = wg.tensor(np.asarray(value))
    for out in (x * number, number * x, x + number, number - x):
        assert out.dtype.name == expected
        assert out._array.dtype.name == expected


def test_arithmetic_on_booleans_counts() -> None:
    t = wg.tensor([True, False])
    same(t + t, [2, 0])
    same(t - True, [0, -1])
    same(-t, [-1, 0])
    same(t * 2.5, [2.5, 0.0])
    assert (t & ~t).dtype == wg.bool


def test_division_of_integers_is_float() -> None:
    out = wg.tensor([1, 2]) / wg.tensor([2, 0])
    assert out.dtype == wg.float32
    same(out, np.array([0.5, INF], np.float32))
    assert (1 / wg.tensor(np.int8(4))).dtype == wg.float32


def test_rounding_keeps_integers() -> None:
    big = wg.tensor([2**62 + 1])
    for fn in (wg.floor, wg.ceil, wg.round, wg.trunc):
        assert fn(big).item() == 2**62 + 1


def test_floor_division_and_remainder_follow_python() -> None:
    for x in (7, -7, 7.5, -7.5):
        for y in (3, -3, 2.5, -2.5):
            a, b = np.float64(x), np.float64(y)
            assert (wg.tensor(a) // wg.tensor(b)).item() == x // y
            assert (wg.tensor(a) % wg.tensor(b)).item() == x % y
    same(-7 // wg.tensor([3, -3]), [-3, 2])
    same(-7 % wg.tensor([3, -3]), [2, -1])


def test_operators_take_arrays_and_numbers_on_both_sides() -> None:
    x = wg.tensor([5, 6])
    a = np.array([3, 2])
    for op in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow, operator.and_,
               operator.or_, operator.xor, operator.lshift, operator.rshift):  # fmt: skip
        for out, expected in ((op(x, a), op(np.array([5, 6]), a)), (op(a, x), op(a, np.array([5, 6])))):
            assert isinstance(out, wg.Tensor)
            same(out, expected)
        same(op(7, x), op(7, np.array([5, 6])))
    same(operator.truediv(1, wg.tensor([2.0])), [0.5])
    same(wg.tensor([1.0, 2.0]) + [1.0, 2.0], [2.0, 4.0])


# -- comparisons


def test_comparison_with_something_else_is_pythons() -> None:
    x = wg.tensor([1.0, 2.0])
    assert (x == None) is False  # noqa: E711
    assert (x != None) is True  # noqa: E711
    assert (x == "a") is False
    assert x not in [None]
    with pytest.raises(TypeError):
        operator.lt(x, None)


def test_comparisons() -> None:
    x = wg.tensor([1.0, NAN, 3.0])
    same(x < 2, [True, False, False])
    same(np.array(2.0) < x, [False, False, True])
    same(x == x, [True, False, True])
    same(x != x, [False, True, False])
    same(x >= np.array([1.0, 1.0, 4.0]), [True, False, False])
    assert not (wg.tensor([1.0], requires_grad=True) > 0).requires_grad


def test_integers_compare_beyond_their_range() -> None:
    x = wg.tensor(np.array([0, 255], np.uint8))
    same(x == -1, [False, False])
    same(x < 300, [True, True])
    with pytest.raises(wg.DTypeError, match="300 does not fit uint8"):
        x + 300


def test_logical_ops_take_any_dtype() -> None:
    same(wg.logical_and(wg.tensor([0.5, 0.0]), wg.tensor([2.0, 1.0])), [True, False])
    same(wg.logical_not(wg.tensor([0, 3])), [True, False])


# -- errors


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: wg.tensor([1.0]) & 1, "takes integers or booleans"),
        (lambda: wg.tensor([True]) << wg.tensor([True]), "integers, not booleans"),
        (lambda: wg.tensor([1j]) < 1j, "takes real numbers"),
        (lambda: wg.floor(wg.tensor([1j])), "takes real numbers"),
        (lambda: wg.where(wg.tensor([1, 0]), 1.0, 2.0), "the condition has dtype int64, not bool"),
        (lambda: wg.tensor([2, 3]) ** -1, "an integer to a negative integer power"),
        (lambda: wg.tensor([2, 3]) ** wg.tensor([1, -1]), "an integer to a negative integer power"),
        (lambda: wg.tensor([1.0]) + None, "NoneType is not a tensor"),
        (lambda: wg.special.polygamma(1.0, wg.tensor(1.0)), "the order is a float"),
    ],
)
def test_dtype_error(call, words: str) -> None:
    with pytest.raises(wg.DTypeError, match=words) as caught:
        call()
    first, second = str(caught.value).split("\n", 1)
    assert "test_elementwise.py:" in first
    assert second


@pytest.mark.parametrize("fn", [wg.add, wg.equal, lambda x, y: wg.where(x > 0, x, y), lambda x, y: wg.clip(x, y)])
def test_shapes_that_do_not_fit(fn) -> None:
    with pytest.raises(wg.ShapeError, match=r"\(2,\).*\(3,\)"):
        fn(wg.tensor([1.0, 2.0]), wg.tensor([1.0, 2.0, 3.0]))


# -- values at the edges; none of them may warn (warnings are errors in this suite)


def test_division_by_zero_is_a_value() -> None:
    x = wg.tensor([1.0, -1.0, 0.0])
    same(x / 0, [INF, -INF, NAN])
    same(wg.log(wg.tensor([0.0, -1.0])), [-INF, NAN])
    same(wg.tensor([1, -1]) // 0, [0, 0])
    same(wg.tensor([3e38]) * 10.0, [INF])
    same(wg.tensor([3e38]) + wg.tensor([3e38]), [INF])
    same(wg.exp(wg.tensor(1000.0)), INF)
    same(wg.tensor(np.float16(60000)) * 2.0, np.float16(INF))


def test_backward_through_infinities_is_silent() -> None:
    assert gradient(wg.sqrt, 0.0) == [INF]
    assert gradient(wg.log, 0.0) == [INF]
    assert gradient(lambda x: x / 0, 1.0) == [INF]
    assert gradient(lambda x: 1 / x, 0.0) == [-INF]
    assert gradient(wg.rsqrt, 0.0) == [-INF]


def test_user_warnings_stay_and_ours_do_not_appear() -> None:
    script = (
        "import numpy as np, wengert as wg\n"
        "wg.log(wg.tensor([0.0])); wg.tensor([1.0]) / 0\n"
        "x = wg.tensor([0.0], requires_grad=True)\n"
        "wg.autograd.backward(wg.log(x), wg.tensor([1.0]))\n"
        "try: np.log(np.zeros(1))\n"
        "except RuntimeWarning: print('raised')\n"
    )
    out = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout == "raised\n"
    assert out.stderr == ""
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        assert wg.log(wg.tensor(0.0)).item() == -INF


def test_sigmoid_far_out() -> None:
    for dtype, eps in ((np.float64, 1e-15), (np.float32, 3e-7), (np.float16, 1e-3)):
        x = np.array([-11.5, -8.0, 8.0, 11.5], dtype)
        expected = 1 / (1 + np.exp(-x.astype(np.float64)))
        np.testing.assert_allclose(wg.sigmoid(wg.tensor(x)).numpy(), expected, rtol=eps)
    same(wg.sigmoid(wg.tensor([-INF, -1e4, 1e4, INF, NAN])), np.array([0, 0, 1, 1, NAN], np.float32))
    assert wg.sigmoid(wg.tensor(np.float64(-700))).item() == pytest.approx(math.exp(-700), rel=1e-14)


def test_round_halves_to_even() -> None:
    same(wg.round(wg.tensor([0.5, 1.5, 2.5, -0.5, -1.5])), np.array([0, 2, 2, -0.0, -2], np.float32))
    assert wg.signbit(wg.round(wg.tensor(-0.5))).item()


def test_sign_and_nan() -> None:
    same(wg.sign(wg.tensor([-2.0, 0.0, -0.0, 3.0, NAN])), np.array([-1, 0, 0, 1, NAN], np.float32))
    same(wg.maximum(wg.tensor([1.0, NAN]), wg.tensor([NAN, 1.0])), np.array([NAN, NAN], np.float32))
    same(wg.relu(wg.tensor([NAN, -0.0, -1.0])), np.array([NAN, 0, 0], np.float32))


def test_clip() -> None:
    x = wg.tensor([-2.0, 0.5, 9.0, NAN])
    same(wg.clip(x, 0, 1), np.array([0, 0.5, 1, NAN], np.float32))
    same(wg.clip(x, min=0.0), np.array([0, 0.5, 9, NAN], np.float32))
    same(x.clamp(max=wg.tensor([0.0, 0.0, 3.0, 0.0])), np.array([-2, 0, 3, NAN], np.float32))
    same(wg.clip(x, 3.0, 1.0), np.array([1, 1, 1, NAN], np.float32))  # the maximum wins
    same(wg.clip(x), x)
    same(wg.clip(wg.tensor(np.array([0, 200], np.uint8)), 3), np.array([3, 200], np.uint8))
    assert wg.clip(wg.tensor([1, 2]), 0.5).dtype == wg.float32
    same(wg.tensor([[1.0], [5.0]]).clip(wg.tensor([2.0, 0.0]), 4), [[2.0, 1.0], [4.0, 4.0]])


def test_where() -> None:
    c = wg.tensor([[True], [False]])
    out = wg.where(c, wg.tensor([1, 2]), 0.5)
    assert out.dtype == wg.float32
    same(out, [[1.0, 2.0], [0.5, 0.5]])
    assert wg.where(c, 1, 0).dtype == wg.int64
    assert wg.where(c, wg.tensor(np.float16(1)), 0.0).dtype == wg.float16
    assert wg.where(c, wg.tensor(np.float32(1)), wg.tensor(np.float64(1))).dtype == wg.float64
    same(wg.tensor([1.0, 2.0]).where(np.array([True, False]), -1.0), [1.0, -1.0])
    assert wg.where(True, wg.tensor(3.0), 4.0).item() == 3.0


def test_empty_and_zero_dimensional() -> None:
    empty = wg.tensor(np.zeros((0, 3), np.float32), requires_grad=True)
    for fn in (
        wg.exp,
        wg.special.erf,
        wg.special.lgamma,
        wg.special.digamma,
        wg.sigmoid,
        lambda x: wg.special.polygamma(2, x),
        lambda x: x**2.5,
    ):
        out = fn(empty)
        assert out.shape == (0, 3)
        (g,) = wg.autograd.grad(out, empty, wg.tensor(np.zeros((0, 3), np.float32)))
        assert g.shape == (0, 3)
    assert wg.sin(wg.tensor(0.5)).shape == ()
    assert wg.hypot(3.0, 4.0).item() == 5.0


# -- gradients that select


def test_masked_infinite_partial_is_absent_to_third_order() -> None:
    """d/dx where(x > 0, log(x), 0) at 0 and at 2: 1/x, -1/x**2, 2/x**3 where it holds, 0 where not."""

    def fn(x):
        return wg.where(x > 0, wg.log(x), 0.0)

    assert derivatives(fn, 0.0, 3) == [0.0, 0.0, 0.0]
    assert derivatives(fn, 2.0, 3) == pytest.approx([0.5, -0.25, 0.25])
    assert gradient(fn, 0.0) == [0.0]
    assert gradient(lambda x: wg.where(x > 0, wg.sqrt(x), 0.0), 0.0) == [0.0]
    assert derivatives(lambda x: wg.where(x > 0, wg.sqrt(x), 0.0), 0.0, 3) == [0.0, 0.0, 0.0]
    # A chain of two infinite partials behind the mask.
    assert derivatives(lambda x: wg.where(x > 0, wg.log(wg.sqrt(x)), 0.0), 0.0, 3) == [0.0, 0.0, 0.0]


def test_a_nan_that_flows_is_not_hidden() -> None:
    assert math.isnan(gradient(lambda x: wg.where(x >= 0, wg.sqrt(x) * 0.0, 0.0), 0.0)[0])
    assert math.isnan(gradient(lambda x: wg.log(x) - wg.log(x), 0.0)[0])


def test_ties_share_and_bounds_pass() -> None:
    assert gradient(wg.maximum, 2.0, 2.0) == [0.5, 0.5]
    assert gradient(wg.minimum, 2.0, 2.0) == [0.5, 0.5]
    assert gradient(wg.maximum, 3.0, 2.0) == [1.0, 0.0]
    assert gradient(lambda x: wg.maximum(x, 0.0), 0.0) == [0.5]
    assert gradient(wg.relu, 0.0) == [0.0]
    for at, expected in ((-1.0, 0.0), (0.0, 1.0), (0.5, 1.0), (1.0, 1.0), (2.0, 0.0)):
        assert gradient(lambda x: wg.clip(x, 0.0, 1.0), at) == [expected]
    assert gradient(wg.clip, 5.0, 0.0, 1.0) == [0.0, 0.0, 1.0]
    assert gradient(wg.clip, -5.0, 0.0, 1.0) == [0.0, 1.0, 0.0]
    assert gradient(wg.clip, 5.0, 2.0, 1.0) == [0.0, 0.0, 1.0]


def test_flat_functions_have_gradient_zero_even_of_infinite_cotangents() -> None:
    for fn in (wg.floor, wg.ceil, wg.round, wg.trunc, wg.sign):
        assert gradient(fn, 0.3, ct=INF) == [0.0]
    assert gradient(lambda x: x // 2.0, 3.0, ct=NAN) == [0.0]
    assert gradient(operator.mod, 7.0, -3.0) == [1.0, 3.0]  # 7 % -3 = 7 - (-3)(-3)


def test_abs_at_zero() -> None:
    assert derivatives(wg.abs, 0.0, 2) == [0.0, 0.0]
    assert derivatives(wg.abs, -2.0, 2) == [-1.0, 0.0]
    assert gradient(wg.hypot, 0.0, 0.0) == [0.0, 0.0]
    assert gradient(wg.hypot, 3.0, 4.0) == pytest.approx([0.6, 0.8])
    assert gradient(wg.atan2, 1e200, 1e200) == pytest.approx([5e-201, -5e-201], rel=1e-12)


def test_stop_gradient_and_clone() -> None:
    assert gradient(lambda x: x * wg.stop_gradient(x), 3.0) == [3.0]
    assert gradient(lambda x: x.clone() * 2.0, 3.0) == [2.0]
    x = wg.tensor([1.0])
    assert x.clone()._array is not x._array


def test_broadcast_gradients_sum() -> None:
    x = wg.tensor(np.ones((2, 3)), requires_grad=True)
    y = wg.tensor(np.full((3,), 2.0), requires_grad=True)
    z = wg.tensor(np.array(3.0), requires_grad=True)
    out = x * y / z + y
    gx, gy, gz = wg.autograd.grad(out, [x, y, z], wg.tensor(np.ones((2, 3))))
    np.testing.assert_allclose(gx.numpy(), np.full((2, 3), 2 / 3))
    np.testing.assert_allclose(gy.numpy(), np.full((3,), 2 / 3 + 2))
    assert gz.item() == pytest.approx(-6 * 2 / 9)


# -- pow


def test_pow_in_the_base() -> None:
    assert derivatives(lambda x: x**2, 0.0, 3) == [0.0, 2.0, 0.0]
    assert derivatives(lambda x: x**3, 0.0, 4) == [0.0, 0.0, 6.0, 0.0]
    assert derivatives(lambda x: x**1, 0.0, 2) == [1.0, 0.0]
    assert derivatives(lambda x: x**0, 0.0, 2) == [0.0, 0.0]
    assert derivatives(lambda x: x**0.5, 0.0, 1) == [INF]
    assert derivatives(lambda x: x**-1, 2.0, 3) == pytest.approx([-0.25, 0.25, -0.375])
    assert derivatives(lambda x: x**3, -2.0, 3) == pytest.approx([12.0, -12.0, 6.0])
    for order, expected in ((2, [0.0, 2.0, 0.0]), (0, [0.0, 0.0, 0.0]), (1, [1.0, 0.0, 0.0])):
        exponent = wg.tensor(np.float64(order))
        assert derivatives(lambda x, n=exponent: x**n, 0.0, 3) == expected


def test_pow_in_the_exponent() -> None:
    log2 = math.log(2.0)
    assert derivatives(lambda y: 2.0**y, 3.0, 2) == pytest.approx([8 * log2, 8 * log2**2])
    assert derivatives(lambda y: wg.tensor(np.float64(2)) ** y, 3.0, 2) == pytest.approx([8 * log2, 8 * log2**2])
    for zero in (0.0, 0, wg.tensor(np.float64(0))):
        assert derivatives(lambda y, zero=zero: zero**y, 2.0, 3) == [0.0, 0.0, 0.0]
        assert derivatives(lambda y, zero=zero: zero**y, 0.0, 1) == [0.0]
        assert derivatives(lambda y, zero=zero: zero**y, -1.0, 1) == [-INF]
    assert gradient(operator.pow, 0.0, 0.0) == [0.0, 0.0]
    assert gradient(operator.pow, 0.0, 2.0) == [0.0, 0.0]
    assert gradient(operator.pow, 2.0, 3.0) == pytest.approx([12.0, 8 * log2])
    x, y = gradient(operator.pow, -2.0, 3.0)
    assert x == 12.0
    assert math.isnan(y)


def test_pow_values() -> None:
    same(wg.tensor([2, 3]) ** 2, [4, 9])
    same(2 ** wg.tensor([1, 2]), [2, 4])
    assert (wg.tensor([4]) ** 0.5).dtype == wg.float32
    assert (wg.tensor([4]) ** -1.0).item() == 0.25
    assert (2.0 ** wg.tensor(np.float64(0.5))).dtype == wg.float64
    assert math.isnan((wg.tensor(-1.0) ** 0.5).item())
    assert (wg.tensor([True, False]) ** 2).dtype == wg.int64
    x = wg.tensor(np.float32(3), requires_grad=True)
    for out in (x**2, x**2.5, 2.5**x, x ** wg.tensor(np.float32(2))):
        (g,) = wg.autograd.grad(out, x)
        assert g.dtype == wg.float32


def test_logaddexp_of_infinities() -> None:
    assert gradient(wg.logaddexp, -INF, -INF) == [0.5, 0.5]
    assert gradient(wg.logaddexp, INF, 1.0) == [1.0, 0.0]
    assert gradient(wg.logaddexp, -INF, 1.0) == [0.0, 1.0]
    assert derivatives(lambda x: wg.logaddexp(x, 1.0), 1.0, 3) == pytest.approx([0.5, 0.25, 0.0])


# -- complex numbers: the gradient of a real L in z = a + ib is dL/da + i dL/db, as PyTorch's


def test_complex_gradients_by_hand() -> None:
    z = 3.0 + 4.0j
    # L = |z|: (a + ib) / |z|
    assert gradient(wg.abs, z) == pytest.approx([0.6 + 0.8j])
    # L = |z|**2 by two ways: 2a + 2ib
    assert gradient(lambda z: wg.real(z * wg.conj(z)), z) == [6 + 8j]
    assert gradient(lambda z: wg.abs(z) ** 2, z) == pytest.approx([6 + 8j])
    # L = a and L = b
    assert gradient(wg.real, z) == [1 + 0j]
    assert gradient(wg.imag, z) == [1j]
    # L = Re(z**2) = a*a - b*b: 2a - 2ib, and L = Im(z**2) = 2ab: 2b + 2ia
    assert gradient(lambda z: wg.real(z * z), z) == [6 - 8j]
    assert gradient(lambda z: wg.imag(z * z), z) == [8 + 6j]
    assert gradient(lambda z: wg.real(z**2), z) == pytest.approx([6 - 8j])
    # L = Re(w z) in w: conj(z)
    assert gradient(lambda w, z: wg.real(w * z), 1j, z)[0] == 3 - 4j
    # L = Re(exp z) = e**a cos b: e**a cos b - i e**a sin b
    (g,) = gradient(lambda z: wg.real(wg.exp(z)), 0.5 + 0.25j)
    assert g == pytest.approx(math.exp(0.5) * complex(math.cos(0.25), -math.sin(0.25)))
    # L = Re(1 / z) = a / (a*a + b*b): ((b*b - a*a) - 2iab) / |z|**4
    assert gradient(lambda z: wg.real(1 / z), z) == pytest.approx([(7 - 24j) / 625])
    # L = Re(z / |z|) = a / |z|: (b*b - iab) / |z|**3
    assert gradient(lambda z: wg.real(wg.sign(z)), z) == pytest.approx([(16 - 12j) / 125])


def test_complex_zero() -> None:
    assert gradient(wg.abs, 0j) == [0j]
    assert gradient(lambda z: wg.real(wg.sign(z)), 0j) == [0j]


def test_complex_result_of_a_real_argument_gives_a_real_gradient() -> None:
    # L = Im(i x * x) = x*x
    assert gradient(lambda x: wg.imag(1j * x * x), 3.0) == [6.0]
    assert gradient(lambda x: wg.real(x * (2.0 + 1j)), 3.0) == [2.0]


@pytest.mark.parametrize("name", HOLOMORPHIC.split())
def test_holomorphic_functions(name: str) -> None:
    """dL/da and dL/db of L = Re f(z) by central differences."""
    fn, z, h = getattr(wg, name), 0.4 + 0.3j, 1e-6

    def loss(z: complex) -> float:
        return fn(wg.tensor(np.complex128(z))).item().real

    expected = complex(loss(z + h) - loss(z - h), loss(z + 1j * h) - loss(z - 1j * h)) / (2 * h)
    assert gradient(lambda z: wg.real(fn(z)), z) == pytest.approx([expected], rel=1e-7)


def test_complex_parts() -> None:
    z = wg.tensor([1 + 2j])
    assert z.real.dtype == z.imag.dtype == wg.float32
    same(z.real, [1.0])
    same(z.imag, [2.0])
    same(wg.conj(z), [1 - 2j])
    x = wg.tensor([1.5])
    same(x.real, x)
    same(x.imag, [0.0])
    assert wg.abs(wg.tensor([3 + 4j])).item() == 5.0
    assert wg.tensor([3 + 4j]).abs().dtype == wg.float32


# -- special functions


SPECIAL = {
    "erf": (mpmath.erf, [-5.9, -1.0, -0.99, 1e-9, 0.3, 1.0, 1.01, 2.5, 5.9], 4),
    "erfc": (mpmath.erfc, [-5.9, -0.3, 0.3, 0.51, 1.0, 3.75, 9.0, 26.0], 4),
    "lgamma": (
        lambda x: mpmath.log(abs(mpmath.gamma(x))),
        [1e-300, 1e-5, 0.49, 0.5, 0.999, 1.001, 1.49, 1.51, 1.999, 2.001, 2.51, 7.99, 8.0, 50.3, 1e5, -0.3, -0.7, -1.5],
        5,
    ),
    "digamma": (
        mpmath.digamma,
        [1e-300, 0.3, 0.999, 1.0, 1.4616, 1.4617, 2.49, 2.51, 9.99, 10.0, 1e5, -0.3, -1.3, -7.2],
        8,
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_function_is_accurate(name: str) -> None:
    reference, points, ulps = SPECIAL[name]
    with mpmath.workdps(40):
        expected = np.array([float(reference(mpmath.mpf(p))) for p in points])
    fn = getattr(wg.special, name)
    found = fn(wg.tensor(np.array(points))).numpy()
    np.testing.assert_allclose(found, expected, rtol=ulps * 2.0**-52)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        narrow = np.array([p for p in points if 1e-3 < abs(p) < 30], dtype)
        out = fn(wg.tensor(narrow))
        assert out.dtype == dtype
        with mpmath.workdps(40):
            expected = np.array([float(reference(mpmath.mpf(float(p)))) for p in narrow]).astype(dtype)
        same(out, expected)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
def test_polygamma_is_accurate(n: int) -> None:
    points = [0.01, 0.5, 1.0, 3.7, 12.0, 300.0, -0.3, -1.2, -3.8]
    with mpmath.workdps(40):
        expected = np.array([float(mpmath.polygamma(n, mpmath.mpf(p))) for p in points])
    np.testing.assert_allclose(wg.special.polygamma(n, wg.tensor(np.array(points))).numpy(), expected, rtol=1e-14)
    assert wg.tensor(2.0).polygamma(n).dtype == wg.float32


def test_special_functions_at_poles_and_infinities() -> None:
    same(wg.special.erf(wg.tensor([-INF, -0.0, INF, NAN])), np.array([-1, -0.0, 1, NAN], np.float32))
    same(wg.special.erfc(wg.tensor([-INF, 0.0, INF, NAN, 200.0])), np.array([2, 1, 0, NAN, 0], np.float32))
    same(wg.special.lgamma(wg.tensor([0.0, -0.0, -1.0, -2.0, INF, -INF, NAN, 1.0, 2.0, -1e30])),
         np.array([INF, INF, INF, INF, INF, INF, NAN, 0, 0, INF], np.float32))  # fmt: skip
    same(wg.special.digamma(wg.tensor([0.0, -0.0, -1.0, -2.0, INF, -INF, NAN])),
         np.array([-INF, INF, NAN, NAN, INF, NAN, NAN], np.float32))  # fmt: skip
    same(wg.special.polygamma(1, wg.tensor([0.0, -1.0, INF, NAN])), np.array([INF, INF, 0, NAN], np.float32))
    same(wg.special.polygamma(2, wg.tensor([0.0, -1.0, INF, NAN])), np.array([-INF, NAN, 0, NAN], np.float32))


def test_special_functions_differentiate_on() -> None:
    # The derivatives of lgamma at 1: -gamma, pi**2/6, -2 zeta(3), pi**4/15.
    assert derivatives(wg.special.lgamma, 1.0, 4) == pytest.approx(
        [-0.5772156649015329, math.pi**2 / 6, -2 * 1.2020569031595942, math.pi**4 / 15], rel=1e-14
    )
    c = 2 / math.sqrt(math.pi) * math.exp(-0.25)
    assert derivatives(wg.special.erf, 0.5, 3) == pytest.approx([c, -c, -c], rel=1e-14)  # c(-2x), c(4x*x - 2)
    assert derivatives(wg.special.erfc, 0.5, 2) == pytest.approx([-c, c], rel=1e-14)
    with pytest.raises(wg.GraphError, match="order 171"):
        wg.special.polygamma(171, wg.tensor(1.0))


def test_erf_of_narrow_dtypes_is_the_wide_one_rounded() -> None:
    x = np.linspace(-6.0, 6.0, 4001).astype(np.float32)
    wide = wg.special.erf(wg.tensor(x.astype(np.float64))).numpy()
    narrow = wg.special.erf(wg.tensor(x)).numpy()
    assert np.max(np.abs(narrow - wide) / np.spacing(np.abs(wide).astype(np.float32))) < 0.501
    same(
        wg.special.erf(wg.tensor(x.astype(np.float16))).numpy(),
        wg.special.erf(wg.tensor(x.astype(np.float16).astype(np.float64))).numpy().astype(np.float16),
    )


def test_blocks_and_strides() -> None:
    x = np.linspace(-4.0, 4.0, 3 * 10_001).reshape(3, -1)
    expected = TABLE["erf"].forward(np.array(x.ravel()[::2]))
    same(TABLE["erf"].forward(np.ascontiguousarray(x).ravel()[::2]), expected)
    same(wg.special.erf(wg.tensor(x.T)).numpy(), wg.special.erf(wg.tensor(x)).numpy().T)


@pytest.mark.parametrize(
    "ufunc",
    [np.add, np.power, np.true_divide, np.matmul, np.maximum, np.arctan2, np.less, np.left_shift, np.logical_and],
    ids=lambda u: u.__name__,
)
def test_numpy_functions_of_tensors_are_ours(ufunc: np.ufunc) -> None:
    a, b = np.array([3, 1, 2]), np.array([1, 2, 2])
    if ufunc in (np.true_divide, np.arctan2):
        a, b = a.astype(np.float64), b.astype(np.float64)
    for x, y in ((wg.tensor(a), wg.tensor(b)), (a, wg.tensor(b)), (wg.tensor(a), b)):
        out = ufunc(x, y)
        assert isinstance(out, wg.Tensor)
        np.testing.assert_allclose(np.asarray(out), ufunc(a, b))


def test_numpy_functions_carry_gradients_or_refuse() -> None:
    x = wg.tensor([0.5, 1.0], dtype=wg.float64, requires_grad=True)
    np.sin(x).sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), np.cos([0.5, 1.0]))
    for refused in (lambda: np.spacing(x), lambda: np.sin(x, out=np.zeros(2))):
        with pytest.raises(wg.GradientError, match="of a tensor that requires gradients"):
            refused()
    np.add.reduce(x).backward()
    np.testing.assert_allclose(np.asarray(x.grad), np.cos([0.5, 1.0]) + 1.0)
    with pytest.raises(wg.GradientError, match="detach"):
        np.asarray(x)
    with wg.no_grad():
        assert np.asarray(x).tolist() == [0.5, 1.0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool"])
@pytest.mark.parametrize("compiled", [False, True])
def test_isclose_of_integers_does_not_wrap_around(dtype: str, compiled: bool) -> None:
    info = np.iinfo(dtype) if dtype != "bool" else None
    ends = [0, 1] if info is None else [info.min, info.min + 1, 0, 1, 100, info.max - 1, info.max]
    x, y = (g.ravel() for g in np.meshgrid(np.array(ends, dtype), np.array(ends, dtype)))
    f = lambda a, b: wg.isclose(a, b, rtol=1e-12)
    found = (wg.jit(f) if compiled else f)(wg.tensor(x), wg.tensor(y)).numpy()
    want = [abs(int(a) - int(b)) <= 1e-8 + 1e-12 * abs(int(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    # In float64, as NumPy compares them: neighbours beyond 2**53 are one number.
    far = np.maximum(np.abs(x.astype(float)), np.abs(y.astype(float))) > 2.0**53
    assert (found[~far] == np.array(want)[~far]).all()
