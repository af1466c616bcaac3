"""Programs in blocks: the same bits on any number of ranks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshes
import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert.core.errors import GraphError, ShapeError
from wengert.distribute.engines.job import lack
from wengert.ops.collective.definitions import summed

PLANS = ("data blocks", "zero blocks", "fsdp blocks")
CASES = [(kind, plan) for kind in meshes.MODELS for plan in PLANS]
slow = pytest.mark.slow


@pytest.fixture
def _helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path]))


@pytest.mark.parametrize("count", range(1, 18))
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_are_a_tree(count: int, dtype: str) -> None:
    rng = np.random.default_rng(count)
    rows = [rng.normal(size=33).astype(dtype) * np.array(10.0 ** rng.integers(-3, 3), dtype) for _ in range(count)]
    wide = [r.astype(np.float32) for r in rows] if dtype == "float16" else rows
    for run in (1, 2, 4, 8):
        if count % run == 0:
            parts = [summed(wide[i : i + run]) for i in range(0, count, run)]
            np.testing.assert_array_equal(summed(parts).astype(dtype), summed(rows))
    np.testing.assert_allclose(summed(rows).astype(float), np.sum(wide, 0, float), rtol=1e-2, atol=1e-2)
    if count == 3:
        np.testing.assert_array_equal(summed(wide), (wide[0] + wide[1]) + wide[2])
    if count == 4:
        np.testing.assert_array_equal(summed(wide), (wide[0] + wide[1]) + (wide[2] + wide[3]))


@pytest.mark.parametrize(
    ("kind", "plan"), [c if c[0] == "cnn" or c[1] == PLANS[-1] else pytest.param(*c, marks=slow) for c in CASES]
)
def test_losses_are_those_of_any_number_of_simulated_ranks(kind: str, plan: str) -> None:
    (alone,), (two,), (four,) = (meshes.losses_in_blocks(n, [(kind, plan)]) for n in (1, 2, 4))
    assert alone == two == four
    np.testing.assert_allclose(alone, meshes.losses(kind, steps=meshes.STEPS), rtol=1e-12)


@pytest.mark.parametrize("half", [False, pytest.param(True, marks=slow)])
@pytest.mark.parametrize("cases", [[("mlp", "fsdp blocks"), ("gpt", "data blocks")], pytest.param(CASES, marks=slow)])
@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
@pytest.mark.usefixtures("_helpers")
def test_native_losses_are_those_of_any_number_of_ranks(cases: list[tuple[str, str]], half: bool) -> None:
    alone, two = (dist.run(meshes.losses_in_blocks, n, n, cases, half, engine="mpi") for n in (1, 2))
    assert alone[0] == two[0] == two[1]
    if len(cases) > 2:
        assert dist.run(meshes.losses_in_blocks, 4, 4, cases, half, engine="mpi") == [alone[0]] * 4


@slow
@pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
@pytest.mark.usefixtures("_helpers")
def test_native_losses_beside_split_weights_are_those_of_any_number_of_ranks() -> None:
    two, four = (dist.run(meshes.losses_beside_split_weights, 2 * n, n, engine="mpi") for n in (1, 2))
    assert two == [four[0]] * 2
    assert four == [four[0]] * 4


def step_on(mesh: dist.Mesh, blocks: dict[str, int], size: int = 6) -> Any:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(size, 5), wg.nn.Tanh(), wg.nn.Dropout(0.5), wg.nn.Linear(5, 1))
    opt = wg.optim.Adam(model.parameters(), lr=0.1)

    @dist.jit(mesh=mesh, in_specs=("data",), blocks=blocks)
    def step(x: Any) -> Any:
        loss = (model(x) ** 2).mean()
        opt.zero_grad()
        loss.backward()
        wg.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        opt.step()
        return loss

    return step


def test_several_calls_and_sizes() -> None:
    """Clipped gradients, dropout, another size of batch, and arguments that were computed."""

    def run(ranks: int) -> list[float]:
        step, rng = step_on(dist.Mesh(data=ranks), {"data": 8}), np.random.default_rng(0)
        sizes = (8, 8, 16, 8, 16, 24, 8)
        return [float(step(wg.sin(wg.tensor(rng.normal(size=(n, 12)))[:, ::2]))) for n in sizes]

    assert run(1) == run(2) == run(4) == run(8)


def test_two_axes() -> None:
    def run(mesh: dist.Mesh) -> Any:
        f = lambda w, x: wg.grad(lambda w: wg.tanh(x @ w).std())(w)
        out = dist.partition(f, mesh, (dist.PartitionSpec(None, "model"), "data"), blocks={"data": 4, "model": 2})
        rng = np.random.default_rng(0)
        return out(wg.tensor(rng.normal(size=(6, 4))), wg.tensor(rng.normal(size=(8, 6)))).numpy().tobytes()

    found = {run(dist.Mesh(data=d, model=m)) for d in (1, 2, 4) for m in (1, 2)}
    assert len(found) == 1


def test_what_blocks_move_is_what_ranks_move() -> None:
    """A rank adds up its own blocks before anything moves."""
    shapes = (wg.spec((6, 4)), wg.spec((64, 6)))
    f = lambda w, x: wg.grad(lambda w: wg.tanh(x @ w).mean())(w)
    plain, cut = (
        dist.partition(f, dist.Mesh(data=2), (None, "data"), blocks=blocks).lower(*shapes).graph
        for blocks in (None, {"data": 8})
    )
    moved = [[n.spec for n in g.find("all_reduce")] for g in (plain, cut)]
    assert moved[0] == moved[1] == [wg.spec((6, 4))]
    assert len(cut.find("switch")) == 4  # a graph for each of a rank's blocks


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        ({"data": 6}, "6 blocks are not 1, 2, 4, 8, ... for each of the 2 ranks along 'data'"),
        ({"data": 3}, "3 blocks are not"),
        ({"data": 0}, "0 blocks are not"),
        ({"data": True}, "True blocks are not"),
        ({"data": "4"}, "'4' blocks are not"),
        ({"model": 4}, "an axis 'model' of Mesh"),
    ],
)
def test_blocks_that_cannot_be(blocks: Any, told: str) -> None:
    with pytest.raises(GraphError) as found:
        dist.jit(lambda x: x.sum(), mesh=dist.Mesh(data=2), in_specs=("data",), blocks=blocks)
    assert told in str(found.value)
    assert "test_blocks.py" in str(found.value).splitlines()[0]


def test_refusals() -> None:
    mesh = dist.Mesh(data=2)
    with pytest.raises(ShapeError, match=r"in 4 blocks along dimension 0 over 'data': 6 is no multiple of 4"):
        step_on(mesh, {"data": 4})(wg.ones(6, 6))
    with pytest.raises(ShapeError, match="6 is no multiple of 4"):
        dist.partition(lambda x: x.sum(), mesh, ("data",), blocks={"data": 4})(wg.ones(6))
    pipe = dist.Pipeline("pipe", 2)
    with pytest.raises(GraphError, match="with a pipeline and blocks"):
        dist.jit(lambda x: x.sum(), mesh=dist.Mesh(data=2, pipe=1), blocks={"data": 4}, pipeline=pipe)
    with pytest.raises(GraphError, match="engine='xla'"):
        dist.jit(lambda x: x.sum(), mesh=mesh, blocks={"data": 4}, engine="xla")
    ring = dist.PartitionSpec(None, None, "data")
    attention = lambda q, k, v: wg.nn.functional.scaled_dot_product_attention(q, k, v)
    f = dist.partition(attention, mesh, (ring,) * 3, ring, blocks={"data": 4})
    with pytest.raises(GraphError, match=r"ppermute over 'data' .* in 4 blocks on 2 ranks"):
        f(*(wg.ones(1, 2, 8, 4),) * 3)


def test_checkpoints_go_on_with_other_ranks(tmp_path: Any) -> None:
    """What was trained on four ranks goes on on two, and on one, as if nothing had happened."""

    def train(ranks: int, stop: int, folder: str) -> list[float]:
        wg.manual_seed(0)
        model = small_networks.chain(6, 8, 4)
        opt = wg.optim.Adam(model.parameters(), lr=0.1)
        mesh = dist.Mesh(data=ranks)
        dist.shard(model, mesh, fsdp="data")

        step = small_networks.training(model, opt)

        compiled = dist.jit(step, mesh=mesh, in_specs=("data",), blocks={"data": 4})
        found = dist.load_checkpoint(folder, model=model, optimizer=opt)
        losses = [] if found is None else list(found["losses"])
        for i in range(len(losses), stop):
            losses.append(float(compiled(wg.tensor(np.random.default_rng(i).normal(size=(8, 6))))))
        dist.save_checkpoint(folder, step=stop, model=model, optimizer=opt, losses=losses)
        return losses

    whole = train(1, 6, str(tmp_path / "whole"))
    parts = str(tmp_path / "parts")
    for ranks, stop in ((4, 2), (2, 4), (1, 6)):
        found = train(ranks, stop, parts)
    assert found == whole
