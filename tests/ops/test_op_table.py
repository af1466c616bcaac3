"""Every op of the table against the checks of `opchecks`, generated from its declaration."""

from __future__ import annotations

import pytest
from support import matrix

import opchecks
from opchecks import OPS, calls
from wengert.core.ops.op import TABLE

# Structural entries that compute nothing of their own.
BARE = {"leaf", "input", "alias", "output", "constant", "parameter"}


def test_every_op_has_samples() -> None:
    missing = [name for name, op in TABLE.items() if op.samples is None and name not in BARE]
    assert missing == []


def test_every_op_has_an_oracle() -> None:
    missing = [name for name, op in OPS.items() if op.reference is None and op.kind != "source"]
    assert missing == []


def test_every_op_is_documented() -> None:
    assert [name for name, op in TABLE.items() if not op.doc and name not in BARE] == []


def check_all(check, name) -> None:
    op = OPS[name]
    for call in calls(op):
        check(op, call)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.reference is not None])
def test_forward_agrees_with_reference(name: str) -> None:
    check_all(opchecks.check_reference, name)


@pytest.mark.parametrize("name", OPS)
def test_shape_rule(name: str) -> None:
    check_all(opchecks.check_shape_rule, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind != "control"])  # its graphs are of one dtype
def test_dtypes(name: str) -> None:
    check_all(opchecks.check_dtypes, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.kind != "control"])
def test_what_is_inferred_is_what_there_is_in_every_dtype(name: str) -> None:
    check_all(opchecks.check_every_dtype, name)


@pytest.mark.parametrize("name", OPS)
def test_strides(name: str) -> None:
    check_all(opchecks.check_strides, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_derivatives(name: str) -> None:
    check_all(opchecks.check_derivatives, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_recorded_backward(name: str) -> None:
    check_all(opchecks.check_recorded, name)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.differentiable])
def test_adjoint(name: str) -> None:
    check_all(opchecks.check_adjoint, name)


@pytest.mark.parametrize("name", OPS)
def test_graph_round_trip(name: str) -> None:
    check_all(opchecks.check_graph, name)


def test_the_support_matrix_has_no_unexplained_hole() -> None:
    """Every op says how each argument differentiates or why not, and what it is in ONNX or why nothing."""
    holes = []
    for name, op in TABLE.items():
        if name in BARE:
            continue
        if op.onnx is None:
            holes.append(f"{name}: ONNX")
        if op.joint is None:
            holes += [
                f"{name}.{p}" for p, f in zip(op.params, op.facts, strict=True) if not f.differentiable and not f.why
            ]
    assert holes == []


def test_every_cell_of_the_support_matrix_has_a_mark_or_a_reason() -> None:
    empty = [f"{name}: {column}" for name, cells in matrix().items() for column, cell in cells.items() if not cell]
    assert empty == []
