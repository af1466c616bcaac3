"""Reductions, running sums and products, norms, sorting: edge cases, delicate derivatives, errors.

Forwards and derivatives at ordinary points are checked with those of every op in `test_op_table.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wengert as wg


def as_tensor(value: Any, requires_grad: bool = False) -> wg.Tensor:
    return wg.tensor(np.asarray(value), requires_grad=requires_grad)


def gradient(fn: Callable[..., Any], x: Any) -> Any:
    leaf = as_tensor(x, requires_grad=True)
    fn(leaf).sum().backward()
    return leaf.grad.numpy()


# -- values against NumPy, for any shape, axes and dtype


ARRAYS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4), elements=st.floats(-8, 8, width=32)
)


@given(ARRAYS, st.data())
@settings(max_examples=30, deadline=None)
@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all", "count_nonzero"])
def test_reductions_agree_with_numpy(name: str, x: Any, data: Any) -> None:
    axes = st.sets(st.integers(-x.ndim, x.ndim - 1), max_size=x.ndim) if x.ndim else st.just(set())
    axis = data.draw(st.none() | axes.map(lambda s: tuple({a % x.ndim: a for a in s}.values())), label="axis")
    keepdims = data.draw(st.booleans(), label="keepdims")
    x = x.T if data.draw(st.booleans(), label="transposed") and axis is None else x
    found = getattr(wg, name)(as_tensor(x), axis=axis, keepdims=keepdims)
    expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize(
    ("given", "result"),
    [
        ("bool", "int64"), ("int8", "int64"), ("int32", "int64"), ("uint8", "uint64"), ("uint64", "uint64"),
        ("float16", "float16"), ("float32", "float32"), ("complex64", "complex64"),
    ],
)  # fmt: skip
def test_sums_and_products_widen_small_integers(name: str, given: str, result: str) -> None:
    x = wg.asarray(np.ones((2, 3), given))
    for out in (getattr(wg, name)(x), getattr(wg, name)(x, axis=0)):
        assert out.dtype == result
    running = wg.cumulative_sum(x, axis=0) if name == "sum" else wg.cumulative_prod(x, axis=0)
    assert running.dtype == result


def test_dtype_of_the_result_can_be_asked_for() -> None:
    x = wg.tensor(np.full(3, 100, np.int8))
    assert wg.sum(x, dtype=wg.int8).dtype == wg.int8
    assert wg.sum(x, dtype=wg.int8).item() == 300 - 256
    assert wg.sum(x, dtype=wg.float32).dtype == wg.float32
    assert wg.prod(wg.tensor([0.5, 2.5]), dtype=wg.int64).item() == 0
    assert wg.mean(x).dtype == wg.float32
    assert wg.mean(x, dtype=wg.float64).dtype == wg.float64
    assert wg.var(x).dtype == wg.std(x).dtype == wg.logsumexp(x).dtype == wg.linalg.vector_norm(x).dtype == wg.float32
    with pytest.raises(wg.DTypeError, match="cannot hold fractions"):
        wg.mean(x, dtype=wg.int64)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_accumulates_in_single(dtype: Any) -> None:
    x = wg.asarray(np.full(5000, 0.1, dtype))
    exact = float(x.numpy().astype(np.float64).sum())
    for out, expected in [
        (x.sum(), exact),
        (x.mean(), exact / 5000),
        (x.cumsum()[-1], exact),
        (x.norm(), math.sqrt(5000) * 0.1),
        (wg.asarray(np.full(5000, 300, dtype)).mean(), 300),
        (wg.asarray(np.full(4, 300, dtype)).norm(), 600),
        (wg.asarray(np.array([1, 300, 1, 300], dtype)).std(), 149.5),
    ]:
        assert out.dtype == dtype
        assert out.item() == pytest.approx(expected, rel=2**-7)
    assert gradient(lambda v: v.mean(), np.ones(100_000, np.float16))[0] == pytest.approx(1e-5, rel=0.02)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_nan_propagates(dtype: Any) -> None:
    x = wg.asarray(np.array([[1, np.nan, 3], [4, 5, 6]], dtype))
    for name in ("sum", "prod", "mean", "var", "std", "max", "min", "logsumexp", "norm", "median"):
        out = getattr(wg.Tensor, name)(x, axis=1).numpy().astype(np.float64)
        assert np.isnan(out[0]), name
        assert not np.isnan(out[1]), name
    assert wg.argmax(x, axis=1).tolist() == [1, 2]
    assert wg.argmin(x, axis=1).tolist() == [1, 0]


def test_empty_reductions() -> None:
    x = wg.zeros((0, 3))
    assert x.sum().item() == 0
    assert x.sum(0).tolist() == [0, 0, 0]
    assert x.prod(0).tolist() == [1, 1, 1]
    assert np.isnan(x.mean(0).numpy()).all()
    assert math.isnan(x.var().item())
    assert x.sum(1).shape == x.max(1).shape == x.argmin(1).shape == (0,)
    assert x.logsumexp(0).tolist() == [-math.inf] * 3
    assert not x.any()
    assert x.all()
    assert x.norm().item() == 0
    assert x.cumsum(0).shape == wg.sort(x, axis=0).shape == (0, 3)
    for fn in (wg.max, wg.min, wg.argmax, wg.argmin):
        with pytest.raises(wg.ShapeError, match=r"of \(0, 3\) float32 along an axis of size 0"):
            fn(x, axis=0)
    with pytest.raises(wg.ShapeError, match="median of"):
        wg.median(x, axis=0)


def test_scalars_lists_and_numpy_arrays_are_taken() -> None:
    assert wg.sum(3.0).item() == 3.0
    assert wg.max([1, 5, 2]).item() == 5
    assert wg.mean(np.array([1.0, 2.0])).dtype == wg.float64
    zero_d = wg.tensor(2.0, requires_grad=True)
    for fn in (wg.sum, wg.prod, wg.mean, wg.max, wg.logsumexp, wg.linalg.vector_norm):
        assert fn(zero_d).item() == pytest.approx(2.0)
        assert gradient(fn, 2.0) == pytest.approx(1.0)
    assert wg.argmax(3.0).item() == 0
    assert wg.sum(3.0, axis=()).item() == 3.0


def test_correction_is_zero_unless_said() -> None:
    x = wg.tensor([1.0, 2.0, 3.0, 4.0])
    assert x.var().item() == wg.var(x, unbiased=False).item() == 1.25
    assert x.var(correction=1).item() == wg.var(x, unbiased=True).item() == pytest.approx(5 / 3)
    assert x.std(0, True).item() == pytest.approx(math.sqrt(5 / 3))
    assert x.var(correction=1.5).item() == pytest.approx(2.0)
    assert math.isnan(wg.var(wg.tensor([1.0]), correction=1).item())
    with pytest.raises(wg.DTypeError, match="correction must be a number"):
        wg.var(x, correction="one")


def test_variance_of_a_large_mean_keeps_its_digits() -> None:
    x = np.array([1e8 + 1, 1e8 + 2, 1e8 + 3, 1e8 + 4])
    assert wg.var(as_tensor(x)).item() == 1.25


def test_complex_moments_and_norms() -> None:
    z = np.array([1 + 2j, -3 + 0.5j, 2 - 1j])
    assert wg.var(as_tensor(z)).item() == pytest.approx(np.var(z))
    assert wg.linalg.vector_norm(as_tensor(z)).item() == pytest.approx(np.linalg.norm(z))
    assert wg.linalg.vector_norm(as_tensor(z), ord=3).item() == pytest.approx(np.linalg.norm(z, 3))
    assert wg.sum(as_tensor(z)).item() == pytest.approx(z.sum())
    for fn in (wg.sum, wg.prod, wg.mean, wg.var, wg.std, wg.linalg.vector_norm, lambda t: wg.cumulative_prod(t)):
        wg.check_grads(fn, (as_tensor(z),), order=2)
    for fn in (wg.max, wg.min, wg.argmax, wg.logsumexp, wg.sort, wg.argsort, wg.median):
        with pytest.raises(wg.DTypeError, match="complex numbers"):
            fn(as_tensor(z))


# -- derivatives where they are delicate


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2, 3)])
@pytest.mark.parametrize("fn", [wg.prod, wg.cumulative_prod], ids=["prod", "cumulative_prod"])
def test_products_with_zeros_to_third_order(fn: Any, zeros: tuple[int, ...]) -> None:
    x = np.array([1.5, -2.0, 0.5, 3.0])
    x[list(zeros)] = 0.0
    wg.check_grads(fn, (as_tensor(x),), order=3)


def test_products_over_two_axes_with_zeros_to_third_order() -> None:
    x = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, -1.0]])
    wg.check_grads(lambda t: wg.prod(t, axis=(0, 1)), (as_tensor(x),), order=3)


def test_products_of_large_and_small_numbers_do_not_overflow_in_the_gradient() -> None:
    x = np.array([1e-200, 1e200, 1e-200, 1e200])
    np.testing.assert_allclose(gradient(wg.prod, x), 1 / x, rtol=1e-12)


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (lambda x: x.max(), [0, 0.5, 0.5]),
        (lambda x: x.min(), [1, 0, 0]),
        (lambda x: (x * 0).max(), [0, 0, 0]),
        (lambda x: wg.sort(x)[-1], [0, 0, 1]),
        (lambda x: wg.top_k(x, 1).values, [0, 1, 0]),
        (lambda x: wg.median(x), [0, 1, 0]),
    ],
)
def test_ties(fn: Any, expected: list[float]) -> None:
    assert gradient(fn, np.array([1.0, 3.0, 3.0])).tolist() == expected


def test_the_gradient_of_a_maximum_that_is_nan_goes_to_the_nan() -> None:
    assert gradient(wg.max, np.array([1.0, np.nan, 2.0])).tolist() == [0, 1, 0]


def third_derivative(fn: Any, x: Any) -> list[Any]:
    """The first three derivatives of the sum of `fn`, the sum of each differentiated again."""
    leaf = as_tensor(x, requires_grad=True)
    out, found = fn(leaf).sum(), []
    for _ in range(3):
        (out,) = wg.autograd.grad(out, [leaf], create_graph=True)
        found.append(out.detach().numpy())
        out = out.sum()
    return found


@pytest.mark.parametrize("ord", [2, 1.5, 3, 4])
def test_norms_at_zero_are_structurally_flat(ord: float) -> None:
    for found in third_derivative(lambda x: wg.linalg.vector_norm(x, ord=ord), np.zeros(3)):
        assert found.tolist() == [0, 0, 0]
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    first = gradient(lambda x: wg.linalg.vector_norm(x, ord=ord, axis=1), rows)
    assert first[0].tolist() == [0, 0]
    assert np.isfinite(first).all()
    assert (first[1] != 0).all()


def test_no_gradient_passes_through_a_norm_or_a_spread_of_zero() -> None:
    # sqrt has an infinite slope at 0: where nothing flows, 0 times it must stay 0.
    for fn in (
        lambda x: wg.linalg.vector_norm(wg.sqrt(x)),
        lambda x: wg.std(wg.sqrt(x)),
        lambda x: wg.max(wg.sqrt(x)[:0].sum()),
    ):
        assert gradient(fn, np.zeros(3)).tolist() == [0, 0, 0]
    assert gradient(lambda x: wg.max(wg.sqrt(x)), np.array([0.0, 4.0])).tolist() == [0, 0.25]
    assert gradient(lambda x: wg.sort(wg.sqrt(x))[1:], np.array([0.0, 4.0, 1.0])).tolist() == [0, 0.25, 0.5]
    assert gradient(lambda x: wg.top_k(wg.sqrt(x), 1).values, np.array([0.0, 4.0])).tolist() == [0, 0.25]
    assert gradient(lambda x: wg.where(False, wg.mean(wg.sqrt(x)), 0.0), np.zeros(2)).tolist() == [0, 0]


def test_a_nan_that_flows_is_not_hidden() -> None:
    for fn in (wg.linalg.vector_norm, wg.std, lambda x: wg.linalg.vector_norm(x, ord=3)):
        assert np.isnan(gradient(fn, np.array([1.0, np.nan]))).any()


def test_equal_elements_have_no_gradient_of_the_spread() -> None:
    for found in third_derivative(wg.std, np.full(3, 2.0)):
        assert found.tolist() == [0, 0, 0]


CONSTANTS = [0.1, 1 / 3, -0.7, 123.456, 1e-30, 1e30]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64])
def test_the_spread_of_equal_elements_is_0_whatever_their_mean_rounds_to(dtype: Any) -> None:
    """Summed and divided again, 7 times 0.1 is another number: its distance from 0.1 is no spread."""
    for value in CONSTANTS:
        for shape, axis in (((3,), None), ((6,), None), ((7,), -1), ((100, 3), 0), ((2, 7), 1), ((2, 33, 3), (0, 1))):
            with np.errstate(all="ignore"):
                x = np.full(shape, value * (1 - 0.3j) if dtype is np.complex64 else value).astype(dtype)
            if not np.isfinite(x.astype(np.complex128)).all():
                continue
            t = as_tensor(x)
            for f in (wg.std, wg.var):
                assert not f(t, axis=axis).numpy().any(), (value, shape)
            assert not gradient(lambda v: wg.std(v, axis=axis), x).any(), (value, shape)  # noqa: B023
            push = wg.jvp(lambda v: wg.std(v, axis=axis), (t,), (wg.ones_like(t),))[1]  # noqa: B023
            assert not push.numpy().any()


def test_the_spread_of_unequal_elements_beside_equal_ones() -> None:
    x = np.full((4, 7), 0.1, np.float32)
    x[1, 3] = np.nextafter(np.float32(0.1), np.float32(1))
    x[2] = [1, 2, 3, 4, 5, 6, 7]
    x[3] = [0.1, 0.1, 0.1, np.nan, 0.1, 0.1, 0.1]
    found = wg.std(as_tensor(x), axis=1).numpy()
    assert found[0] == 0
    assert 0 < found[1] < 1e-8
    assert found[2] == 2
    assert np.isnan(found[3])
    slopes = gradient(lambda v: wg.std(v, axis=1), x)
    assert not slopes[0].any()
    np.testing.assert_allclose(slopes[2], (x[2] - 4) / 14, rtol=1e-6)
    assert np.isnan(slopes[3]).all()
    infinite = as_tensor(np.full(3, np.inf))
    assert math.isnan(wg.std(infinite).item())


def test_logsumexp_at_infinities() -> None:
    inf = math.inf
    x = as_tensor([[-inf, -inf], [inf, 1.0], [-inf, 2.0], [1000.0, 1000.0]])
    assert wg.logsumexp(x, axis=1).tolist() == [-inf, inf, 2.0, 1000.0 + math.log(2)]
    assert gradient(wg.logsumexp, [-inf, -inf]).tolist() == [0, 0]
    assert gradient(wg.logsumexp, [-inf, 2.0]).tolist() == [0, 1]
    wg.check_grads(wg.logsumexp, (as_tensor([1.0, 2.0, 3.0]),), order=3)


@pytest.mark.parametrize("ord", [0, 1, 1.5, 2, 3, math.inf, -math.inf, -1])
def test_vector_norms_agree_with_numpy(ord: float) -> None:
    x = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -6.0]])
    found = wg.linalg.vector_norm(as_tensor(x), ord=ord, axis=1, keepdims=True).numpy()
    np.testing.assert_allclose(found, np.linalg.norm(x, ord=ord, axis=1, keepdims=True))
    assert as_tensor(x).norm(ord).item() == pytest.approx(np.linalg.norm(x.ravel(), ord))
    if ord:
        wg.check_grads(lambda t: wg.linalg.vector_norm(t, ord=ord, axis=1), (as_tensor(x),), order=2)


# -- order


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.uint8, np.bool_])
def test_argsort_is_stable_both_ways(dtype: Any, descending: bool) -> None:
    x = np.array([1, 0, 1, 0, 1, 1, 0], dtype)
    expected = [0, 2, 4, 5, 1, 3, 6] if descending else [1, 3, 6, 0, 2, 4, 5]
    assert wg.argsort(wg.asarray(x), descending=descending).tolist() == expected
    assert wg.sort(wg.asarray(x), descending=descending).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_nan_sorts_as_the_largest(dtype: Any) -> None:
    x = wg.asarray(np.array([2, np.nan, 1], dtype))
    assert wg.argsort(x).tolist() == [2, 0, 1]
    assert wg.argsort(x, descending=True).tolist() == [1, 0, 2]
    assert wg.top_k(x, 1).indices.tolist() == [1]


@pytest.mark.parametrize("nan", [False, True])
def test_top_k_takes_the_first_of_equals(nan: bool) -> None:
    x = np.array([0.0, 5, 5, 1, 5, 5, 2, 5, 5, 3, 5, 5])
    x[x == 5] = np.nan if nan else 5
    assert wg.top_k(x, 2).indices.tolist() == [1, 2]
    assert wg.top_k(np.where(x == 0, 1.0, x), 1, largest=False).indices.tolist() == [0]
    rows = wg.top_k(np.stack([x, x[::-1]], 1), 2, axis=0).indices
    assert rows.tolist() == [[1, 0], [2, 1]]


@given(st.integers(1, 40), st.data())
@settings(max_examples=30, deadline=None)
def test_top_k_agrees_with_sorting(n: int, data: Any) -> None:
    x = data.draw(hnp.arrays(np.int64, (2, n), elements=st.integers(-5, 5)))
    k = data.draw(st.integers(0, n))
    largest = data.draw(st.booleans())
    values, indices = wg.top_k(wg.asarray(x), k, largest=largest)
    expected = np.sort(x, -1)[:, ::-1][:, :k] if largest else np.sort(x, -1)[:, :k]
    assert values.tolist() == expected.tolist()
    assert values.tolist() == np.take_along_axis(x, indices.numpy(), -1).tolist()
    assert all(len(set(row)) == k for row in indices.tolist())


def test_top_k_takes_pytorch_names_and_says_what_is_wrong() -> None:
    x = wg.tensor([[1.0, 3.0, 2.0]])
    assert x.topk(2, dim=1, largest=True, sorted=True).values.tolist() == [[3, 2]]
    with pytest.raises(wg.ShapeError, match=r"top_k of 4 elements along an axis of size 3.*\n.*between 0 and 3"):
        wg.top_k(x, 4)
    with pytest.raises(wg.DTypeError, match="k must be an int"):
        wg.top_k(x, 1.5)  # type: ignore[arg-type]


@given(st.lists(st.integers(-4, 4)), st.lists(st.integers(-5, 5)), st.sampled_from(["left", "right"]))
@settings(max_examples=20, deadline=None)
def test_searchsorted_agrees_with_numpy(row: list[int], values: list[int], side: Any) -> None:
    have, want = np.array(sorted(row), np.float64), np.array(values, np.float64)
    assert wg.searchsorted(have, want, side=side).tolist() == np.searchsorted(have, want, side).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_searchsorted_where_there_are_nans(dtype: Any) -> None:
    """NaN stands at the end: also of bfloat16, whose order in NumPy has no place for it."""
    row = np.array([-np.inf, 0.0, 1.0, 2.0, 2.0, np.nan, np.nan])
    values = np.array([np.nan, 2.0, -1.0, np.inf, 1.5])
    for side in ("left", "right"):
        want = np.searchsorted(row, values, side)
        found = wg.searchsorted(as_tensor(row.astype(dtype)), as_tensor(values.astype(dtype)), side=side)
        assert found.tolist() == want.tolist()


def test_norms_of_half_precision_leave_its_range_on_the_way_only() -> None:
    x = as_tensor(np.array([50.0, 60.0, 100.0], np.float16))
    assert wg.linalg.vector_norm(x, 3).item() == pytest.approx((50.0**3 + 60.0**3 + 100.0**3) ** (1 / 3), rel=1e-3)
    assert gradient(lambda v: wg.linalg.vector_norm(v, 3), np.array([50.0, 60.0], np.float16)).dtype == np.float16


def test_searchsorted_by_rows_with_a_sorter_and_bad_input() -> None:
    rows = wg.tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]])
    assert wg.searchsorted(rows, wg.tensor([[3.0], [3.0]]), right=True).tolist() == [[2], [1]]
    unsorted = wg.tensor([5.0, 1.0, 3.0])
    assert wg.searchsorted(unsorted, 2.0, sorter=wg.argsort(unsorted)).item() == 1
    with pytest.raises(wg.ShapeError, match="Search in a 1-d tensor"):
        wg.searchsorted(rows, wg.tensor([3.0, 3.0, 3.0]))
    with pytest.raises(ValueError, match="side must be"):
        wg.searchsorted(unsorted, 2.0, side="middle")  # type: ignore[arg-type]


def test_unique_and_its_gradient() -> None:
    x = as_tensor([[3.0, 1.0], [3.0, np.nan]])
    found = wg.unique_all(x)
    assert found.indices.tolist() == [1, 0, 3]
    assert found.counts.tolist() == [1, 2, 1]
    assert found.inverse_indices.tolist() == [[1, 0], [1, 2]]
    assert wg.unique_counts(x).counts.tolist() == [1, 2, 1]
    assert wg.unique_inverse(x).inverse_indices.shape == (2, 2)
    assert wg.unique_values(wg.tensor([np.nan, np.nan])).shape == (2,)
    assert gradient(wg.unique_values, [3.0, 1.0, 3.0]).tolist() == [1, 1, 0]


def test_nonzero() -> None:
    rows, columns = wg.nonzero(wg.tensor([[0, 7], [8, 0]]))
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    with pytest.raises(wg.ShapeError, match="0-d"):
        wg.nonzero(3.0)
    with pytest.raises(wg.TraceError, match="abstract"):
        wg.graph(lambda x: wg.nonzero(x)[0])(wg.zeros(3))


def test_median_agrees_with_numpy() -> None:
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            found = wg.median(as_tensor(x), axis=axis, keepdims=keepdims).numpy()
            np.testing.assert_allclose(found, np.median(x, axis=axis, keepdims=keepdims))
    wg.check_grads(lambda t: wg.median(t, axis=1), (as_tensor(x),), order=1)


# -- running sums, differences


def test_cumulative_functions_start_with_the_value_of_nothing() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert wg.cumulative_sum(x, axis=1, include_initial=True).tolist() == [[0, 1, 3], [0, 3, 7]]
    assert wg.cumulative_prod(x, axis=0, include_initial=True).tolist() == [[1, 1], [1, 2], [3, 8]]
    assert x.cumsum(dim=0).tolist() == [[1, 2], [4, 6]]
    with pytest.raises(wg.ShapeError, match="without an axis"):
        x.cumsum()


def test_diff() -> None:
    x = np.array([[1.0, 4.0, 9.0], [2.0, 3.0, 5.0]])
    t = as_tensor(x)
    assert wg.diff(t).tolist() == np.diff(x).tolist()
    assert wg.diff(t, n=2).tolist() == np.diff(x, n=2).tolist()
    assert wg.diff(t, axis=0, prepend=t[:1]).tolist() == np.diff(x, axis=0, prepend=x[:1]).tolist()
    assert wg.diff(wg.tensor([True, False, False])).tolist() == [True, False]
    assert wg.diff(t, n=0).tolist() == x.tolist()
    wg.check_grads(lambda v: wg.diff(v, n=2), (t,), order=1)
    with pytest.raises(wg.ShapeError, match="n=-1"):
        wg.diff(t, n=-1)


def test_a_long_running_product_is_differentiated_in_one_pass() -> None:
    x = np.ones(20_000)
    assert gradient(wg.cumulative_prod, x)[[0, -1]].tolist() == [20_000, 1]


# -- names and errors


def test_pytorch_keywords_and_aliases() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(dim=1, keepdim=True).tolist() == [[3], [7]]
    assert x.sum(1, True).shape == (2, 1)
    assert x.mean(dim=(0, 1)).item() == 2.5
    assert x.amax(dim=0).tolist() == wg.max(x, 0).tolist() == [3, 4]
    assert x.amin(dim=-1).tolist() == [1, 3]
    assert x.argmax(dim=1, keepdim=True).tolist() == [[1], [1]]
    assert wg.argmax(x, keepdims=True).tolist() == [[3]]
    assert x.norm(p="fro", dim=1).tolist() == pytest.approx([math.sqrt(5), 5])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: x.sum(axis=2), wg.ShapeError, "axis 2 does not exist in a tensor with 2 dimensions"),
        (lambda x: x.sum(axis=-3), wg.ShapeError, "between -2 and 1"),
        (lambda x: x.mean(axis=(0, -2)), wg.ShapeError, "names one axis twice"),
        (lambda x: x.max(axis=1.5), wg.DTypeError, "must be an int, not float"),
        (lambda x: x.sum(axis=True), wg.DTypeError, "must be an int, not bool"),
        (lambda x: x.argmax(axis=(0, 1)), wg.DTypeError, "must be an int, not tuple"),
        (lambda x: wg.linalg.vector_norm(x, ord="two"), wg.DTypeError, "order of a norm"),
        (lambda x: wg.sum(None), wg.DTypeError, "NoneType|object"),
        (lambda x: wg.sort(wg.tensor(1.0)), wg.ShapeError, "0-d tensor has no axes"),
    ],
)
def test_errors_say_what_is_wrong(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        call(wg.ones((2, 3)))
    assert "test_reduce.py" in str(caught.value).splitlines()[0]


# -- derivatives where a batch's size is not known yet


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum(), lambda x: x.mean(), lambda x: x.var(0).sum(), lambda x: x.std(0, correction=1).sum(),
        lambda x: x.max(0).sum(), lambda x: x.logsumexp(0).sum(), lambda x: x.norm(), lambda x: x.prod(0).sum(),
        lambda x: x.cumsum(0)[1].sum(), lambda x: x.cumprod(0)[1].sum(), lambda x: wg.sort(x, 0)[0].sum(),
    ],
)  # fmt: skip
def test_gradients_in_a_batch_of_unknown_size(fn: Any) -> None:
    batch = np.array([[1.0, 2.0, 0.5], [3.0, -1.0, 2.0]])
    w = as_tensor([0.5, 1.5, -1.0], requires_grad=True)
    x = wg.placeholder((None, 3), wg.float64)
    loss = fn(x * w)
    (g,) = wg.autograd.grad(loss, [w])
    found_loss, found = wg.function([x], [loss, g])(batch)
    expected_loss = fn(as_tensor(batch) * w)
    (expected,) = wg.autograd.grad(expected_loss, [w])
    assert found_loss.item() == pytest.approx(expected_loss.item())
    np.testing.assert_allclose(found.numpy(), expected.numpy())


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("mapped", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_in_a_vmap(shape: tuple[int, ...], mapped: tuple[int | None, int | None], side: Any) -> None:
    rng = np.random.default_rng(3)
    rows, values = np.sort(rng.integers(0, 5, (4, 6)).astype(float), -1), rng.integers(0, 5, (4, *shape)).astype(float)
    given = [x if axis == 0 else x[0] for x, axis in zip((rows, values), mapped, strict=True)]
    expected = [
        np.searchsorted(*(x[i] if axis == 0 else x for x, axis in zip(given, mapped, strict=True)), side)
        for i in range(4)
    ]
    f = wg.vmap(lambda r, v: wg.searchsorted(r, v, side=side), in_axes=mapped)
    tensors = [as_tensor(x) for x in given]
    for run in (f, wg.jit(f), wg.graph(f)(*tensors)):
        np.testing.assert_array_equal(run(*tensors).numpy(), expected)


def test_searchsorted_for_an_element_of_the_row() -> None:
    x = as_tensor(np.array([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]]))
    f = wg.vmap(lambda v: wg.searchsorted(wg.sort(v), v[0]))
    assert f(x).tolist() == wg.jit(f)(x).tolist() == wg.graph(f)(x)(x).tolist() == [2, 0]


@pytest.mark.parametrize("order", [-0.5, -1.0, -2.0, -3.5])
def test_norms_of_negative_order_have_no_slope_at_zero(order: float) -> None:
    x = wg.tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 2.0]], dtype=wg.float64, requires_grad=True)
    out = wg.linalg.vector_norm(x, order, axis=1)
    np.testing.assert_allclose(out.detach(), [0.0, np.linalg.norm([3.0, 1.0, 2.0], order)], 1e-14)
    out.sum().backward()
    assert x.grad[0].tolist() == [0.0, 0.0, 0.0]
    wg.check_grads(lambda x: wg.linalg.vector_norm(x, order), wg.tensor([3.0, -1.0, 2.0], dtype=wg.float64), order=2)
    assert np.isnan(wg.linalg.vector_norm(wg.tensor([0.0, np.nan]), order).item())
