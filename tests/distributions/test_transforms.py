"""Transforms, constraints, and what leads from free numbers to them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.distributions import constraints

d = wg.distributions
X = wg.tensor([0.3, -1.0, 0.7], dtype=wg.float64)


@pytest.mark.parametrize(
    ("transform", "free"),
    [
        (d.StickBreakingTransform(), lambda y: y[:-1]),
        (d.CorrCholeskyTransform(), lambda y: y[(1, 2, 2), (0, 0, 1)]),
        (d.IndependentTransform(d.SoftplusTransform(), 1), lambda y: y),
        (
            d.ComposeTransform([d.IndependentTransform(d.ExpTransform(), 1), d.StickBreakingTransform()]),
            lambda y: y[:-1],
        ),
        (d.ReshapeTransform((3,), (3, 1)), lambda y: y[:, 0]),
        (d.AffineTransform(1.0, wg.tensor([2.0, -3.0, 0.5], dtype=wg.float64), event_dim=1), lambda y: y),
    ],
    ids=lambda part: repr(part) if isinstance(part, d.Transform) else "free",
)
def test_the_change_of_volume_is_the_determinant_of_the_slopes(transform: Any, free: Any) -> None:
    slopes = wg.jacobian(lambda x: free(transform(x)))(X)
    want = np.linalg.slogdet(np.asarray(slopes)).logabsdet
    y = transform(X)
    np.testing.assert_allclose(transform.log_abs_det_jacobian(X, y), want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(transform.inv.log_abs_det_jacobian(y, X), -want, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(transform.inv(y), X, rtol=1e-12)
    assert transform.forward_shape((3,)) == y.shape
    assert transform.inverse_shape(y.shape) == (3,)


@pytest.mark.parametrize("registry", [d.biject_to, d.transform_to])
@pytest.mark.parametrize(
    "constraint",
    [
        constraints.positive,
        constraints.nonnegative,
        constraints.greater_than(2.0),
        constraints.less_than(-1.0),
        constraints.unit_interval,
        constraints.interval(-1.0, 2.0),
        constraints.half_open_interval(wg.tensor([0.0, 1.0, 2.0]), 5.0),
        constraints.real,
        constraints.real_vector,
        constraints.simplex,
        constraints.corr_cholesky,
        constraints.independent(constraints.positive, 1),
        constraints.cat([constraints.positive, constraints.real], 0, [1, 2]),
        constraints.stack([constraints.positive, constraints.real, constraints.unit_interval], 0),
    ],
    ids=repr,
)
def test_free_numbers_are_taken_to_the_set(registry: Any, constraint: Any) -> None:
    to = registry(constraint)
    y = to(X)
    assert np.asarray(constraint.check(y)).all()
    np.testing.assert_allclose(to(to.inv(y)), y, rtol=1e-12, atol=1e-14)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        registry(constraints.boolean)


def test_matrices_from_free_numbers() -> None:
    x = wg.tensor([[0.3, 5.0], [-1.0, 0.7]], dtype=wg.float64)
    for constraint in (constraints.lower_cholesky, constraints.positive_definite):
        to = d.transform_to(constraint)
        assert bool(constraint.check(to(x)))
        np.testing.assert_allclose(to.inv(to(x)), np.tril(np.asarray(x)), rtol=1e-12, atol=1e-14)


def test_rounding_takes_no_draw_out_of_reach() -> None:
    """In float32 the sigmoid of 20 would be 1, of which the density is that of infinity."""
    p = d.TransformedDistribution(d.Normal(20.0, 1.0), d.SigmoidTransform())
    y = wg.sigmoid(wg.tensor(20.0))
    assert y.item() == 1.0
    assert math.isfinite(p.log_prob(y).item())
    assert d.SigmoidTransform()(wg.tensor(20.0)).item() < 1.0
    weights = d.StickBreakingTransform()(wg.tensor([50.0, 50.0, -2.0]))
    assert np.isfinite(d.StickBreakingTransform().inv(weights).numpy()).all()
    assert d.StickBreakingTransform()(wg.zeros((2, 0))).tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: d.CatTransform([d.ExpTransform(), d.TanhTransform()])(X), "CatTransform along axis 0 of f64"),
        (lambda: d.StackTransform([d.ExpTransform()], dim=1)(X), "StackTransform along axis 1 of f64"),
        (lambda: constraints.cat([constraints.real]).check(X), "cat along axis 0 of f64"),
        (lambda: constraints.stack([constraints.real], 2).check(X), "stack along axis 2 of f64"),
        (lambda: d.IndependentTransform(d.ExpTransform(), 2)(X), "too few axes"),
        (lambda: d.StickBreakingTransform().forward_shape(()), "too few axes"),
        (lambda: d.CorrCholeskyTransform()(wg.zeros(2)), "CorrCholeskyTransform of 2 numbers"),
        (lambda: d.ReshapeTransform((2,), (3,)), "other numbers of elements"),
        (lambda: d.ReshapeTransform((2,), (1, 2))(X), "a value of the shape"),
        (lambda: d.CatTransform([d.ExpTransform()], lengths=[1, 2]), "2 lengths for 1 transforms"),
        (lambda: d.ExpTransform(cache_size=2), "cache_size=2"),
        (lambda: constraints.positive_definite.check(X), "is no matrix"),
        (lambda: constraints.simplex.check(wg.tensor(1.0)), "axis -1 does not exist"),
        (lambda: constraints.real_vector.check(wg.tensor(1.0)), "make up one member"),
    ],
)
def test_what_is_refused(call: Any, text: str) -> None:
    with pytest.raises(wg.ShapeError, match=text):
        call()


def test_what_is_no_transform_or_has_no_sign() -> None:
    for make in (d.ComposeTransform, d.StackTransform, d.CatTransform):
        with pytest.raises(wg.DTypeError, match="3 is a int, not a Transform"):
            make([3])
    for transform in (d.AbsTransform(), d.StackTransform([d.ExpTransform()])):
        with pytest.raises(NotImplementedError, match=r"rises|sign for each part"):
            _ = transform.sign


def test_members_of_sets_at_the_ends() -> None:
    ends = wg.tensor([math.inf, -math.inf, math.nan, 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert constraints.nonnegative_integer.check(ends).tolist() == [False, False, False, True]
        assert constraints.integer_interval(0, 3).check(ends).tolist() == [False, False, False, True]
    assert constraints.positive.check(ends).tolist() == [True, False, False, True]
    assert not bool(constraints.symmetric.check(wg.zeros((2, 3))))
    # The axis of the parts is one of a member's, where it stands among them.
    assert constraints.stack([constraints.simplex, constraints.real_vector], -2).event_dim == 2
    assert constraints.stack([constraints.simplex, constraints.real_vector], 0).event_dim == 1
    weights = wg.softmax(wg.sin(wg.arange(1000, dtype=wg.float32)), axis=-1)
    assert bool(constraints.simplex.check(weights * (1 + 2e-6)))


def test_transforms_are_equal_by_what_they_do() -> None:
    assert d.ExpTransform() == d.ExpTransform(cache_size=1)
    assert d.AffineTransform(0.0, 1.0) == d.AffineTransform(wg.tensor(0.0), 1)
    assert d.AffineTransform(0.0, 1.0) != d.AffineTransform(0.0, 2.0)
    assert d.ExpTransform().inv == d.ExpTransform().inv
    assert d.ComposeTransform([d.ExpTransform()]) == d.ComposeTransform([d.ExpTransform()])
    assert repr(d.TanhTransform().inv) == "_InverseTransform(TanhTransform())"
