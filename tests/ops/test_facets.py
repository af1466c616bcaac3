"""What declarations say of ops for single concerns is true of what the ops compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

from wengert.core.ops.costs import cost_of
from wengert.core.ops.facets import VIEWS, Count, Dependence, Role
from wengert.core.ops.op import TABLE, Call, Op
from wengert.explain.causes import diagnose
from wengert.explain.gradients.missing import CAUSES as MISSING
from wengert.explorer.document.forms import form_of, holes, pattern, shown
from wengert.symbolic.bridge import sympy_of
from wengert.symbolic.printing import latex_of
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


# -- every op has every facet, by its declaration or by a default that is right for its kind

# Counted by the operations inside them, or none.
COUNTED_WITHIN = ("composite", "control", "leaf")


@named(OPS)
def test_every_op_has_a_cost(op: Op) -> None:
    cost = cost_of(op)
    if op.kind in COUNTED_WITHIN or op.body is not None:
        assert op.body is not None or op.kind != "composite"
    else:
        assert isinstance(cost, (int, Count)), "say it: cost=, operations for each element"
    assert cost is None or isinstance(cost, Count) or cost >= 0
    assert "complex_cost" not in op.facets or isinstance(cost, int)


@named(OPS)
def test_every_op_is_shown_to_learners(op: Op) -> None:
    form = form_of(op)
    operands = len(op.params)
    assert form.symbol
    assert holes(form.form) <= {str(i) for i in range(operands)} | {"out"}
    assert form.local == "" or form.local.count("|") + 1 == operands
    said = shown(op, operands)
    assert said.say
    assert said.pattern == pattern(op, operands)


@named([op for op in OPS if op.kind == "elementwise"])
def test_every_elementwise_op_is_written(op: Op) -> None:
    assert latex_of(op).text
    make = sympy_of(op)
    # What an op is of others is known by its formula.
    assert callable(make) or op.formulas or "sympy" in op.facets, "say it: sympy=, an expression or why there is none"
    assert len(op.params) == 2 or "infix" not in op.facets
    assert len(op.params) == 1 or "prefix" not in op.facets


def test_operators_are_written_in_one_way() -> None:
    for facet in ("infix", "prefix", "on_truth"):
        said = [op.facets[facet] for op in OPS if facet in op.facets]  # type: ignore[literal-required]
        assert len(said) == len(set(said))
    assert all(op.facets["on_truth"] in TABLE for op in OPS if "on_truth" in op.facets)


@named(OPS)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("infinite", [False, True])
def test_every_op_has_a_cause_of_nan(op: Op, backward: bool, infinite: bool) -> None:
    for number in (0.0, -1.5, 2.0, 1e300, np.inf, None):
        cause = diagnose(op, [number] * max(len(op.params), 1), np.nan, backward, infinite)
        assert cause.text
        assert cause.rewrite


def test_causes_of_zero_gradients_have_words() -> None:
    said = {op.facets["zero_gradient"] for op in OPS if "zero_gradient" in op.facets} - {"factor"}
    assert said <= set(MISSING)
    assert {op.name for op in OPS if "activation" in op.facets} >= {"relu", "sigmoid"}


@named([op for op in OPS if op.algebra.negation])
def test_negations_are_true_where_the_comparison_is_false(op: Op) -> None:
    other = TABLE[op.algebra.negation]
    assert other.algebra.negation == op.name
    x, y = np.array([1.0, 2.0, 2.0]), np.array([2.0, 2.0, 1.0])
    np.testing.assert_array_equal(op.forward(x, y), ~other.forward(x, y))


@named([op for op in OPS if op.kind == "elementwise" and op.algebra.at_zero is not None])
def test_values_at_zero(op: Op) -> None:
    assert op.forward(np.zeros(())) == op.algebra.at_zero
