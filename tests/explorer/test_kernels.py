"""The compiler's kernels find back to the recorded nodes that they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.passes.origins import Origins

pytest.importorskip("llvmlite")
from wengert.execute.native.run.timeline import NativeTrace
from wengert.explorer.recording import kernels as made
from wengert.explorer.recording.rerun import Rerun


def rerun(*results: wg.Tensor) -> Rerun:
    roots = [t.node for t in results if t.node is not None]
    order = Rerun(roots, {}, {}).order
    values = {n: n.variable.detach().numpy() for n in order if n.op.kind == "leaf"}
    return Rerun(roots, {n: i for i, n in enumerate(order)}, values)


def table_of(run: Rerun, sources: bool = True) -> dict[str, Any]:
    found = made.compile_run(run)
    assert found is not None
    return made.kernels(found[0], sources)


@pytest.fixture
def model() -> Any:
    wg.manual_seed(0)
    return wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.GELU(), wg.nn.LayerNorm(16), wg.nn.Linear(16, 4))


@pytest.fixture
def loss(model: Any) -> wg.Tensor:
    return wg.nn.functional.cross_entropy(model(wg.randn((6, 8))), wg.tensor(np.arange(6) % 4))


def test_every_operation_is_computed_by_a_kernel_forward_and_back(loss: wg.Tensor, model: Any) -> None:
    run = rerun(loss)
    table = table_of(run)
    operations = {row for node, row in run.rows.items() if node.op.kind != "leaf"}
    assert {row for k in table["list"] for row in k["nodes"]} == operations
    assert {row for k in table["list"] for row in k["gradients"]} == operations
    assert {k["phase"] for k in table["list"]} == {"forward", "backward"}


def test_the_plan_names_its_kernels_in_order(loss: wg.Tensor, model: Any) -> None:
    table = table_of(rerun(loss))
    listed, plan = table["list"], table["plan"]
    assert [listed[i]["name"] for i in plan["kernel"]] == plan["text"]
    assert len(plan["micros"]) == len(plan["text"])
    gemms = [k for k in listed if k["kind"] == "gemm"]
    assert gemms
    assert all(k["flops"] > 0 and "define" in table["sources"][k["code"]] for k in gemms)
    assert all(k["code"] in table["sources"] or k["kind"] in ("Python", "jump") for k in listed)


def test_a_kernel_of_numbers_counts_what_it_computes() -> None:
    """Single numbers vary along no loop: their operations count all the same."""
    w, b = (wg.tensor(x, requires_grad=True) for x in (2.0, 1.0))
    (kernel,) = table_of(rerun((w * 3.0 + b - 5.0) ** 2))["list"]
    # Forward a product, two sums and a square; back at least the square's slope and two products.
    assert 7 <= kernel["flops"] <= 12


def test_packing_belongs_to_the_product_it_serves(loss: wg.Tensor, model: Any) -> None:
    table = table_of(rerun(loss))
    packs = [k for k in table["list"] if k["kind"] == "pack"]
    assert packs
    assert all(k["nodes"] or k["gradients"] for k in packs)


def test_sources_can_be_left_out(loss: wg.Tensor, model: Any) -> None:
    table = table_of(rerun(loss), sources=False)
    assert table["sources"] == {}


def test_as_many_sources_as_fit_are_there(loss: wg.Tensor, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "SOURCE_LIMIT", 10**9)
    whole = table_of(rerun(loss))["sources"]
    limit = sum(map(len, whole.values())) // 2
    monkeypatch.setattr(made, "SOURCE_LIMIT", limit)
    some = table_of(rerun(loss))["sources"]
    assert 0 < len(some) < len(whole)
    assert sum(map(len, some.values())) <= limit
    assert max(map(len, some.values())) <= min(len(text) for name, text in whole.items() if name not in some)


def test_several_results_are_summed() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    a, b = wg.exp(x), wg.sin(x)
    run = rerun(a, b)
    table = table_of(run)
    assert {row for k in table["list"] for row in k["nodes"]} == {run.rows[a.node], run.rows[b.node]}


def test_without_values_it_is_not_whole(loss: wg.Tensor, model: Any) -> None:
    assert rerun(loss).is_whole
    assert not Rerun([loss.node], {}, {}).is_whole


def test_a_recording_is_run_again() -> None:
    x = wg.randn((4, 3))
    found = wg.explore(lambda w: wg.tanh(x @ w).sum(), wg.ones((3, 2)))
    kernels, parallel, native = (found.document[name] for name in ("kernels", "parallel", "native"))
    assert set(native["kernel"]) == set(range(len(kernels["list"])))
    computed = {i for i, op in enumerate(found.document["nodes"]["op"]) if op >= 0}
    assert {row for k in kernels["list"] for row in k["nodes"]} == computed
    assert set(parallel["node"]) == computed
    for ready, start, end in zip(parallel["ready"], parallel["start"], parallel["end"], strict=True):
        assert ready <= start <= end
    # Both passes, each with what it takes by itself.
    rows = list(zip(parallel["node"], parallel["gradient"], strict=True))
    assert {node for node, gradient in rows if not gradient} == computed
    assert {node for node, gradient in rows if gradient} <= computed
    assert 1 in parallel["gradient"]
    assert len(parallel["alone"]) == len(rows)
    assert min(parallel["alone"]) >= 0
    bare = wg.explore(lambda w: wg.tanh(x @ w).sum(), wg.ones((3, 2)), compiled=False)
    assert "kernels" not in bare.document


def test_a_recording_says_who_ran_its_kernels(loss: wg.Tensor, model: Any) -> None:
    found = made.compile_run(rerun(loss))
    assert found is not None
    listed = made.kernels(found[0])
    table = made.native(found[1], listed["plan"]["kernel"])
    assert table is not None
    assert table["origin"] == "native"
    # Checks that Python makes run where they are asked for.
    assert (
        {i for i, k in enumerate(listed["list"]) if k["code"]}
        <= set(table["kernel"])
        <= set(range(len(listed["list"])))
    )
    assert set(table["node"]) == {-1}
    assert set(table["worker"]) <= set(range(table["workers"]))
    for ready, start, end, done in zip(*(table[name] for name in ("ready", "start", "end", "done")), strict=True):
        assert 0 <= ready <= start <= end <= done
    assert len({len(column) for column in table.values() if isinstance(column, list)}) == 1


def trace_of(rows: list[tuple[int, int, int, int, float, float]]) -> NativeTrace:
    step, worker, lo, hi, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return NativeTrace(step, worker, lo, hi, start * 1e-6, end * 1e-6, 2, 1.0, 0, ("a", "b"))


def test_a_step_can_begin_when_the_one_before_is_done_and_hands_on_when_all_of_it_is() -> None:
    rows = [(0, 0, 0, 2, 1.0, 4.0), (0, 1, 2, 4, 2.0, 5.0), (1, 0, 0, 1, 6.0, 7.0), (0, 1, 0, 4, 8.0, 9.0)]
    table = made.native(trace_of(rows), [3, 4])
    assert table is not None
    assert table["kernel"] == [3, 3, 4, 3]
    assert table["ready"] == [0, 0, 5, 7]
    assert table["done"] == [5, 5, 7, 9]


def test_turns_of_a_loop_of_one_step_come_one_after_the_other() -> None:
    rows = [(0, 0, 0, 2, 1.0, 3.0), (0, 1, 2, 4, 1.5, 4.0), (0, 1, 2, 4, 5.0, 7.0), (0, 0, 0, 2, 6.0, 8.0)]
    table = made.native(trace_of([(1, 0, 0, 9, 0.0, 0.5), *rows]), [0, 1])
    assert table is not None
    assert table["ready"] == [0, 0.5, 0.5, 4, 4]
    assert table["done"] == [0.5, 4, 4, 8, 8]


def test_a_run_of_very_many_ranges_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of([(0, 0, 0, 2, 1.0, 3.0), (0, 1, 2, 4, 1.5, 4.0)])
    assert made.native(trace, [0, 1]) is not None
    assert made.native(trace._replace(lost=1), [0, 1]) is None
    monkeypatch.setattr(made, "RANGES", 1)
    assert made.native(trace, [0, 1]) is None


def test_nothing_was_run() -> None:
    nothing = np.zeros(0, np.int64)
    trace = NativeTrace(*[nothing] * 4, nothing * 1.0, nothing * 1.0, 1, 0.0, 0, ())
    table = made.native(trace, [])
    assert table is not None
    assert table["start"] == []


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
    origins = Origins([a, b])
    origins.note(a, "common subexpression", b)
    assert origins.ancestors(a) == [a, b]


def test_what_has_no_gradient_is_run_again_too() -> None:
    mask = wg.tensor([[0.0], [-1.0]])

    def f(w: Any) -> Any:
        return wg.concat([wg.exp(w + mask), wg.broadcast_to(mask, (2, 3))], axis=-1).sum()

    found = wg.explore(f, wg.ones((2, 3)))
    assert "kernels" in found.document
    assert "parallel" in found.document
