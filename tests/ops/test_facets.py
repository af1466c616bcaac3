"""What declarations say of ops for single concerns is true of what the ops compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

from wengert.core.ops.facets import VIEWS, Dependence, Role
from wengert.core.ops.op import TABLE, Call, Op
from wengert.transforms.jacobians import dependence

OPS = list(TABLE.values())


def calls(op: Op) -> Iterator[Call]:
    yield from op.samples(np.random.default_rng(1)) if op.samples is not None else ()


def named(ops: Any) -> Any:
    return pytest.mark.parametrize("op", ops, ids=lambda op: op.name)


def test_a_facet_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"odd_one: \['colour'\], which no declaration says"):
        Op("odd_one(x)", "general", lambda x: x, colour="red")  # type: ignore[call-arg]
    assert "odd_one" not in TABLE


def test_the_role_that_is_not_said_follows_from_the_kind() -> None:
    assert TABLE["exp"].role is Role.BY_ELEMENT
    assert TABLE["cholesky"].role is TABLE["softmax"].role is Role.OTHER


def test_what_gives_views_has_a_role_of_views() -> None:
    assert {op.name for op in OPS if op.view} <= {op.name for op in OPS if op.role in VIEWS}


@named([op for op in OPS if op.role is Role.PASS and op.samples is not None])
def test_what_passes_gives_its_first_operand(op: Op) -> None:
    for call in calls(op):
        np.testing.assert_array_equal(op.forward(*call.args, **call.attrs), call.args[0])


@named([op for op in OPS if op.role is Role.RESHAPE])
def test_reshaping_keeps_the_order(op: Op) -> None:
    for call in calls(op):
        out = op.forward(*call.args, **call.attrs)
        np.testing.assert_array_equal(np.ravel(out), np.ravel(call.args[0]))


@named([op for op in OPS if op.role in (Role.STRIDE, Role.PICK)])
def test_what_strides_lead_to_and_what_is_picked_are_elements(op: Op) -> None:
    for call in calls(op):
        out = op.forward(*call.args, **call.attrs)
        x = np.asarray(call.args[0])
        here = np.concatenate([x.real.ravel(), x.imag.ravel()]) if op.name in ("real", "imag") else x
        assert all(np.isin(part, here).all() for part in (out if isinstance(out, (list, tuple)) else [out]))


@named([op for op in OPS if op.role is Role.BY_ELEMENT and op.samples is not None])
def test_elements_in_another_order_give_results_in_that_order(op: Op) -> None:
    for call in calls(op):
        shape = np.broadcast_shapes(*(np.shape(a) for a in call.args))
        args = [np.broadcast_to(a, shape) if np.ndim(a) else a for a in call.args]
        flat = [np.ravel(a) if np.ndim(a) else a for a in args]
        turned = [a[::-1] if np.ndim(a) else a for a in flat]
        out = np.ravel(op.forward(*flat, **call.attrs))
        # Vectors of several lanes and single elements may round the last bit differently.
        np.testing.assert_allclose(np.ravel(op.forward(*turned, **call.attrs)), out[::-1], rtol=1e-12)


@named([op for op in OPS if "reduction" in op.facets])
def test_reductions_combine_elements(op: Op) -> None:
    combine, empty = op.facets["reduction"]
    x = np.random.default_rng(2).integers(0, 3, 7)
    x = x != 0 if combine.startswith("logical") else x.astype(float)
    folded = x[0]
    for value in x[1:]:
        folded = TABLE[combine].forward(folded, value)
    np.testing.assert_allclose(op.forward(x, axis=(0,), keepdims=False), folded)
    if empty is not None:
        assert op.forward(x[:0], axis=(0,), keepdims=False) == empty


@named([op for op in OPS if "bound" in op.facets])
def test_bounds_are_attributes_or_arguments(op: Op) -> None:
    assert op.facets["bound"] in (*op.params[1:], *op.attr_names)


def test_every_dependence_has_a_rule() -> None:
    assert set(dependence._SAID) == set(get_args(Dependence))
    assert set(get_args(Dependence)) == {op.facets["dependence"] for op in OPS if "dependence" in op.facets}


@named([op for op in OPS if op.algebra.commutes])
def test_what_commutes_does_so_in_every_bit_or_nearly(op: Op) -> None:
    for call in calls(op):
        a, b = (op.forward(*args, **call.attrs) for args in (call.args, call.args[::-1]))
        if op.algebra.commutes is True:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12)


@named([op for op in OPS if op.algebra.undoes])
def test_what_undoes_another_op(op: Op) -> None:
    undone = TABLE[op.algebra.undoes]
    x = np.array([0.25, 0.5, 0.75]) + (op.name == "cosh")
    np.testing.assert_allclose(op.forward(undone.forward(x)), x, rtol=1e-12)
