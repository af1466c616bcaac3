"""The compiler's kernels find back to the recorded nodes that they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.node import Node
from wengert.passes.origins import Origins

pytest.importorskip("llvmlite")
from wengert.explorer import kernels as made


def recorded(loss: wg.Tensor) -> tuple[dict[Node, int], dict[Node, Any]]:
    order = made._ordered([loss.node])
    values = {n: n.variable.detach().numpy() for n in order if n.op.kind == "leaf"}
    return {n: i for i, n in enumerate(order)}, values


@pytest.fixture
def model() -> Any:
    wg.manual_seed(0)
    return wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.GELU(), wg.nn.LayerNorm(16), wg.nn.Linear(16, 4))


@pytest.fixture
def loss(model: Any) -> wg.Tensor:
    return wg.nn.functional.cross_entropy(model(wg.randn((6, 8))), wg.tensor(np.arange(6) % 4))


def test_every_operation_is_computed_by_a_kernel_forward_and_back(loss: wg.Tensor, model: Any) -> None:
    rows, values = recorded(loss)
    table = made.kernels([loss.node], rows, values)
    assert table is not None
    operations = {row for node, row in rows.items() if node.op.kind != "leaf"}
    assert {row for k in table["list"] for row in k["nodes"]} == operations
    assert {row for k in table["list"] for row in k["gradients"]} == operations
    assert {k["phase"] for k in table["list"]} == {"forward", "backward"}


def test_the_plan_names_its_kernels_in_order(loss: wg.Tensor, model: Any) -> None:
    table = made.kernels([loss.node], *recorded(loss))
    assert table is not None
    listed, plan = table["list"], table["plan"]
    assert [listed[i]["name"] for i in plan["kernel"]] == plan["text"]
    assert len(plan["micros"]) == len(plan["text"])
    gemms = [k for k in listed if k["kind"] == "gemm"]
    assert gemms
    assert all(k["flops"] > 0 and "define" in table["sources"][k["code"]] for k in gemms)
    assert all(k["code"] in table["sources"] or k["kind"] in ("Python", "jump") for k in listed)


def test_packing_belongs_to_the_product_it_serves(loss: wg.Tensor, model: Any) -> None:
    table = made.kernels([loss.node], *recorded(loss))
    assert table is not None
    packs = [k for k in table["list"] if k["kind"] == "pack"]
    assert packs
    assert all(k["nodes"] or k["gradients"] for k in packs)


def test_sources_can_be_left_out(loss: wg.Tensor, model: Any) -> None:
    table = made.kernels([loss.node], *recorded(loss), sources=False)
    assert table is not None
    assert table["sources"] == {}


def test_several_results_are_summed() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    a, b = wg.exp(x), wg.sin(x)
    order = made._ordered([a.node, b.node])
    rows = {n: i for i, n in enumerate(order)}
    table = made.kernels([a.node, b.node], rows, {x.node: x.detach().numpy()})
    assert table is not None
    assert {row for k in table["list"] for row in k["nodes"]} == {rows[a.node], rows[b.node]}


def test_without_values_there_is_no_plan(loss: wg.Tensor, model: Any) -> None:
    rows, _ = recorded(loss)
    assert made.kernels([loss.node], rows, {}) is None


def test_ancestors_are_found_through_steps_that_bear_no_name() -> None:
    a, b, c = (wg.tensor(1.0, requires_grad=True).node for _ in range(3))
    origins = Origins()
    origins.note(b, "", a)
    origins.note(c, "a rule", b)
    assert origins.ancestors(c) == [a]
    assert origins.ancestors(a) == [a]
    assert origins.ancestors(b) == [a]
    assert [why for why, _ in origins.history(c)] == ["a rule"]


def test_a_node_that_another_became_is_its_own_ancestor_too() -> None:
    a, b = (wg.tensor(1.0, requires_grad=True).node for _ in range(2))
    origins = Origins()
    origins.note(a, "", a)
    origins.note(a, "common subexpression", b)
    assert origins.ancestors(a) == [a, b]
