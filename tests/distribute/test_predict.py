"""A cluster on paper: what is counted, what the model adds, and meshes that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn

pytest.importorskip("llvmlite", reason="kernels are measured")

SPLIT = dist.PartitionSpec


def program(ranks: int) -> Any:
    def step(w: Any, x: Any) -> Any:
        value, g = wg.value_and_grad(lambda w: (wg.tanh(x @ w) ** 2).mean())(w)
        return value, w - 0.1 * g

    return dist.partition(step, dist.Mesh(data=ranks), (None, "data"))


def test_bytes_and_times_follow_from_the_model() -> None:
    args = wg.spec((64, 64)), wg.spec((4096, 64))
    w = 64 * 64 * 4
    for ranks in (4, 64, 4096):
        found = dist.predict(program(ranks), cluster=dist.Cluster(1e-6, 1e9, 0.0), args=args)
        (move,) = [p for p in found.parts if p.kind == "move"]
        # The gradient and the loss in one sum: out in parts, and gathered.
        nbytes = w + 4
        assert move.moved == 2 * (ranks - 1) * nbytes // ranks
        assert move.end - move.start == pytest.approx(2 * np.log2(ranks) * 1e-6 + move.moved / 1e9)
        assert found.moved == move.moved
        assert found.seconds >= found.moving > 0
        assert found.memory > 2 * w
    # Each of more ranks has less to do, and fewer bytes to keep.
    few, many = (dist.predict(program(n), args=args) for n in (2, 64))
    assert many.memory < few.memory


def test_steps_of_modules() -> None:
    model = nn.Linear(4, 4)
    step = dist.jit(lambda x: (model(x) ** 2).mean(), mesh=dist.Mesh(data=2), in_specs=("data",))
    with pytest.raises(wg.GraphError, match="predict of"):
        dist.predict(step)
    with wg.no_grad():
        step(wg.ones(8, 4))
    found = dist.predict(step)
    assert [p.label for p in found.parts if p.kind == "move"] == ["all_reduce over data"]
    assert "all_reduce over data" in str(found)
    assert "all_reduce over data" in found.gantt()
    assert "<table>" in found._repr_html_()


def test_what_is_refused() -> None:
    with pytest.raises(wg.GraphError, match=r"predict on Mesh\(data=4\) of a program for Mesh\(data=2\)"):
        dist.predict(program(2), dist.Mesh(data=4), args=(wg.spec((4, 4)), wg.spec((4, 4))))
    with pytest.raises(wg.GraphError, match="measure outside of a job"):
        dist.measure()


def test_links_are_measured_in_a_job() -> None:
    found = dist.simulate(2).run(lambda: dist.measure(1 << 12, 2))
    assert found[0] == found[1]
    assert found[0].latency > 0
    assert found[0].bandwidth > 0


def test_sums_that_do_not_wait_are_one() -> None:
    def f(x: Any) -> Any:
        a, b = x.sum(0), (x * x).sum()
        return a / b.sum(), (x - x.mean(0)).sum(1).max(), (x > 0).sum()

    x = np.random.default_rng(0).normal(size=(8, 3))
    made = dist.partition(f, dist.Mesh(data=2), ("data",))
    sums = [n for n in made.lower(x).graph.nodes if n.op.name == "all_reduce"]
    assert sorted(n.spec.dtype.name for n in sums) == ["float64", "int64"]
    assert {n.spec.shape for n in sums} == {(7,), ()}  # a sum of 3, one of 1, a mean of 3; and a count
    for a, b in zip(made(x), f(wg.tensor(x)), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
