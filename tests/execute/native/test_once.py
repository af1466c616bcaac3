"""What depends on constants alone is computed once, when a program is made, and by no call."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from wengert.execute.native.budget.within import Limit
from wengert.execute.native.codegen import kernel, machine
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.plan.plan import Plan


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("WENGERT_CACHE", raising=False)
    monkeypatch.setattr(kernel, "_kernels", {})


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


W, KERNEL = normal(40, 24), normal(8, 3, 3, 3)


def layers(x: Any, image: Any) -> Any:
    return wg.nn.functional.relu(x @ wg.asarray(W)), wg.nn.functional.conv2d(image, wg.asarray(KERNEL), padding=1)


def labels(plan: Plan | None) -> list[str]:
    return [] if plan is None else [step.label for step in plan.steps]


def test_weights_are_packed_once_and_so_they_are_from_the_cache() -> None:
    inputs = [normal(16, 40), normal(2, 3, 6, 5)]
    graph = wg.graph(layers)(*map(wg.tensor, inputs))
    made, kept = compile_graph(graph), None
    for _ in range(2):
        found = made.run(inputs)
        for result, expected in zip(found, graph(*map(wg.tensor, inputs))):
            np.testing.assert_allclose(result, expected.numpy(), rtol=1e-4, atol=1e-4)
        assert {label.split()[0] for label in labels(made.plan.preparation)} == {"pack", "conv.pack"}
        assert not any("pack" in label for label in labels(made.plan))
        assert str(made).startswith("once:\n")
        if kept is None:
            kept = made = compile_graph(graph)
    assert kept is not None
    assert kept.is_kept


def test_the_arrays_of_constants_may_go() -> None:
    """What is packed takes the place of what it was made of, where no call reads that."""
    graph = wg.graph(lambda x: x @ wg.asarray(W))(wg.spec((16, 40)))
    plan = compile_graph(graph).plan
    assert [b.nbytes for b in plan.constants] == [b.nbytes for b in plan.prepared]


@pytest.mark.parametrize("columns", [24, 300])
@pytest.mark.parametrize("level", ["host", "sse2"])
def test_weights_of_matrices_that_lie_apart_are_packed_once(columns: int, level: str) -> None:
    """Steps first, then examples, of rows that lie the other way round; rows of many columns make one matrix of all."""
    x, w, b = normal(16, 9, 40), normal(40, columns), normal(columns)

    def f(x: Any) -> Any:
        return wg.tanh(wg.permute_dims(x, (1, 0, 2)) @ wg.asarray(w) + wg.asarray(b))

    graph = wg.graph(f)(wg.tensor(x))
    made = compile_graph(graph, target=None if level == "host" else machine.level(level))
    np.testing.assert_allclose(made.run([x])[0], np.tanh(x.transpose(1, 0, 2) @ w + b), rtol=1e-4, atol=1e-5)
    packed = max(buffer.nbytes for buffer in made.plan.prepared)
    assert packed < 2 * w.nbytes
    assert any("gemm 144x" in label for label in labels(made.plan)) == (columns == 300)


def test_results_that_are_constants_and_parts_that_calls_write() -> None:
    def f(x: Any) -> Any:
        table = wg.asarray(W) * 2.0 + 1.0
        return wg.cumulative_sum(table, axis=0), wg.concat([wg.cumulative_sum(table, axis=1), x], 0), x.sum()

    x = normal(3, 24)
    graph = wg.graph(f)(wg.tensor(x))
    compiled = compile_graph(graph)
    for _ in range(2):
        first, second, third = compiled.run([x])
        np.testing.assert_allclose(first, np.cumsum(W * 2 + 1, 0), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second, np.concatenate([np.cumsum(W * 2 + 1, 1), x]), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(third, x.sum(), rtol=1e-4)
        first[:] = 0.0  # a result is the caller's, not the program's


def test_weights_that_a_loop_reads_are_packed_before_it() -> None:
    def f(x: Any) -> Any:
        return wg.scan(lambda carry, row: (wg.tanh(carry @ wg.asarray(W[:24]) + row), carry.sum()), x[0], x)

    x = normal(7, 4, 24)
    graph = wg.graph(f)(wg.tensor(x))
    compiled = compile_graph(graph)
    for _ in range(2):
        for result, expected in zip(compiled.run([x]), wg.tree.leaves(graph(wg.tensor(x)))):
            np.testing.assert_allclose(result, expected.numpy(), rtol=2e-4, atol=2e-4)
    assert compiled.plan.loops
    assert [label.split()[0] for label in labels(compiled.plan.preparation)] == ["pack"]
    assert not any("pack" in label for label in labels(compiled.plan))


def test_within_a_budget_every_step_is_a_call_s() -> None:
    x = wg.tensor(normal(64, 40))
    graph = wg.graph(lambda x: wg.nn.functional.relu(x @ wg.asarray(W)))(x)
    compiled = compile_graph(graph, limit=Limit(1 << 20, 1))
    assert compiled.plan.preparation is None
    np.testing.assert_allclose(compiled.run([x.numpy()])[0], graph(x).numpy(), rtol=1e-4, atol=1e-4)


def test_an_index_is_checked_before_it_is_used() -> None:
    for at, wrong in ((np.array([1, 39]), False), (np.array([1, 40]), True)):
        compiled = wg.jit(lambda x, at=at: x + wg.take(wg.asarray(W), wg.asarray(at), axis=0))
        if wrong:
            with pytest.raises(wg.WengertError, match="40"):
                compiled(wg.zeros((2, 24)))
        else:
            np.testing.assert_array_equal(compiled(wg.zeros((2, 24))).numpy(), W[at])


def spilling(compiled: Compiled) -> list[str]:
    """The innermost loops of products in which vectors go to the stack and come back."""
    blocks = re.split(r"^\.?L\w+:", compiled.asm, flags=re.M)
    return [b for b in blocks if b.count("vfmadd") >= 8 and re.search(r"vmov\w+\s+%ymm\d+, .*\(%rsp\)", b)]


def test_constants_of_an_epilogue_leave_the_sums_in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(image: Any) -> Any:
        return wg.clip(wg.nn.functional.conv2d(image, wg.asarray(normal(64, 64, 3, 3)), padding=1), 0.0, 6.0)

    if not machine.host().triple.startswith("x86_64"):
        pytest.skip("the registers are those of x86-64")
    graph, target = wg.graph(f)(wg.spec((1, 64, 56, 56))), machine.level("avx2")
    assert spilling(Compiled(graph, target=target)) == []
    monkeypatch.setattr(kernel, "_kernels", {})
    monkeypatch.setattr(machine, "_sinking", nullcontext)
    assert spilling(Compiled(graph, target=target)) != []  # the test sees what it looks for


def test_what_a_gate_reads_again_is_stored_by_the_product() -> None:
    """Squeeze and excitation: the activation is computed with the convolution, the gate once for each channel."""
    kernel, square = normal(16, 1, 3, 3), normal(16, 16)

    def f(x: Any) -> Any:
        y = wg.nn.functional.silu(wg.nn.functional.conv2d(x, wg.asarray(kernel), padding=1, groups=16))
        return y * wg.sigmoid(y.mean((-2, -1)) @ wg.asarray(square))[..., None, None]

    x = normal(2, 16, 20, 20)
    graph = wg.graph(f)(wg.tensor(x))
    compiled = compile_graph(graph)
    np.testing.assert_allclose(compiled.run([x])[0], graph(wg.tensor(x)).numpy(), rtol=1e-4, atol=1e-4)
    done = [{n.op.name for n in step.nodes} for step in compiled.plan.steps]
    assert {"convolve", "sigmoid", "multiply"} <= next(names for names in done if "convolve" in names)
    assert not any("sigmoid" in names and "sum" in names for names in done)
    assert sum("sigmoid" in names for names in done) == 2
