"""Reductions, running sums and products, norms, sorting: values, derivatives, edge cases, errors."""

from __future__ import annotations

import importlib
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
from wengert.core.op import TABLE, Op

OPS = [
    "sum", "prod", "mean", "var", "std", "max", "min", "argmax", "argmin", "any", "all", "count_nonzero",
    "logsumexp", "l2_norm", "p_norm", "cumulative_sum", "cumulative_prod", "shift", "linear_recurrence",
    "sort", "argsort", "top_k", "arg_top_k", "searchsorted",
]  # fmt: skip
SAMPLES = [
    pytest.param(TABLE[name], call, id=f"{name}-{i}")
    for name in OPS
    for i, call in enumerate(TABLE[name].samples(np.random.default_rng(3)))  # type: ignore[misc]
]


def resolved(reference: Any) -> Callable[..., Any]:
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.rpartition(".")
    return getattr(importlib.import_module(module), name)


def as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def as_tensor(value: Any, requires_grad: bool = False) -> wg.Tensor:
    return wg.tensor(np.asarray(value), requires_grad=requires_grad)


def gradient(fn: Callable[..., Any], x: Any) -> Any:
    leaf = as_tensor(x, requires_grad=True)
    fn(leaf).sum().backward()
    return leaf.grad.numpy()


# -- every op at its samples


@pytest.mark.parametrize(("op", "call"), SAMPLES)
def test_forward_agrees_with_the_reference_and_the_shape_rule(op: Op, call: Any) -> None:
    found = as_tuple(op.front(*map(as_tensor, call.args), **call.attrs))
    expected = as_tuple(resolved(op.reference)(*call.args, **call.attrs))
    specs = as_tuple(op.infer(*(as_tensor(a).spec for a in call.args), **call.attrs))
    assert len(found) == len(expected) == len(specs)
    for f, e, spec in zip(found, expected, specs):
        assert f.spec == spec
        np.testing.assert_allclose(f.numpy(), e, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("op", "call"), SAMPLES)
def test_derivatives_agree_with_differences(op: Op, call: Any) -> None:
    if op.body is None and not op.differentiable:
        pytest.skip("nothing to differentiate")
    if call.order == 0:
        pytest.skip("no derivative at this sample")
    wg.check_grads(lambda *xs: op.front(*xs, **call.attrs), tuple(map(as_tensor, call.args)), order=call.order)
