"""The page's column on ONNX says what the exporter writes, whatever a declaration says."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx_column import onnx_cell

import wengert as wg
from wengert.core.ops.op import TABLE, Missing

_ = wg.scan  # control flow is declared where it is first asked for


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("abs", "Abs"),
        ("not_equal", "Equal, Not"),  # a form of its own: its declaration has no operator
        ("repeat", "Unsqueeze, Expand, Reshape"),
        ("scale_gradient", "Identity"),
        ("mse", "by its parts"),
        ("cumulative_prod", "Expand, Scan"),
        ("random_bernoulli_at", "ONNX's random operators do not say which numbers a seed gives"),
        ("eig", "ONNX has no such operator"),
    ],
)
def test_what_an_op_becomes(name: str, cell: str) -> None:
    assert onnx_cell(TABLE[name]) == cell


def test_a_declaration_does_not_hide_a_form() -> None:
    assert isinstance(TABLE["not_equal"].onnx, Missing)
    assert onnx_cell(TABLE["not_equal"]) != TABLE["not_equal"].onnx.why
