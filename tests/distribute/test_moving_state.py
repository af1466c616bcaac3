"""State of a model that is in parts, or at the stages of a pipeline, as it moves: all of it, or nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_networks
import staged
import wengert as wg
from wengert import distribute as dist
from wengert.distribute.engines.job import lack
from wengert.distribute.placing.sharded import Sharded

BY_MPI = pytest.mark.skipif(bool(lack()), reason=f"there is no {lack()}")
MESH = {"pipe": 2, "data": 1}
PIPES = dist.Mesh(pipe=2)


@pytest.fixture(autouse=True)
def _helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path]))


TURNS = [
    [("pipeline", 2), ("data", 2), ("pipeline", 2)],
    [("data", 2), ("fsdp", 2), ("pipeline", 2)],
    [("pipeline", 2), ("fsdp", 2), ("pipeline", 1), ("whole", 1)],
]


@pytest.mark.parametrize("engine", ["here", "simulate", "xla", pytest.param("mpi", marks=BY_MPI)])
@pytest.mark.parametrize("mesh", [MESH, {"pipe": 1, "data": 2}, {"pipe": 2, "data": 2}])
@pytest.mark.parametrize("turns", TURNS, ids=str)
def test_plans_in_turns(engine: str, mesh: dict[str, int], turns: Any) -> None:
    """A pipeline leaves its state at stages, and others go on with it: models are split wholly, gradients too."""
    if (engine == "mpi" and (mesh != MESH or turns != TURNS[-1])) or (engine == "xla" and mesh["pipe"] == mesh["data"]):
        pytest.skip("some of them by processes and by XLA")
    expected = staged.trained_in_turns(None, turns)
    if engine == "xla":
        pytest.importorskip("jax", reason="the engine needs jax")
        rows = [staged.trained_in_turns(mesh, turns, engine)]
    elif engine == "here":
        rows = [staged.trained_in_turns(mesh, turns)]
    else:
        rows = dist.run(staged.trained_in_turns, dist.Mesh(mesh), mesh, turns, engine=engine)
    for found in rows:
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def at_stages() -> Any:
    """Return a model of float32 whose state is at stages but for what is frozen, and its optimiser."""
    wg.manual_seed(0)
    model = small_networks.tower(4, 4)
    model[0][0].weight.requires_grad_(False)
    opt = wg.optim.Adam(model.parameters(), lr=0.1)

    step = small_networks.training(model, opt)

    run = dist.jit(step, mesh=PIPES, in_specs=(None,), pipeline=dist.Pipeline("pipe", 2, state="stages"))
    run(wg.ones(4, 4))
    assert isinstance(model[1][0].weight._array, Sharded)
    return model, opt, run


def looks(model: Any, opt: Any) -> list[str]:
    grads = [repr(p.grad) for p in model.parameters()]
    return [*map(repr, model.parameters()), *grads, repr(opt.state_dict())]


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a pattern that fits nothing": lambda model, opt: dist.shard(model, PIPES, {"1.*": "pipe", "9": None}),
    "parts that are not equal": lambda model, opt: dist.shard(model, dist.Mesh(data=3), {"1.*": "data"}),
    "a device": lambda model, opt: model.to("xla:0"),
    "weights of another shape": lambda model, opt: model.load_state_dict(
        {k: wg.ones(5) if k == "3.0.weight" else v for k, v in dist.whole(model.state_dict()).items()}
    ),
    "state of another optimiser": lambda model, opt: opt.load_state_dict(
        wg.optim.SGD(model.parameters(), lr=0.1).state_dict()
    ),
    "a step outside": lambda model, opt: opt.step(),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_changes_nothing(kind: str) -> None:
    if kind == "a device":
        pytest.importorskip("jax")
    model, opt, _ = at_stages()
    before = looks(model, opt)
    with pytest.raises(wg.WengertError):
        REFUSED[kind](model, opt)
    assert looks(model, opt) == before


@pytest.mark.parametrize("parts", ["stages", "fsdp"])
def test_other_dtypes(parts: str) -> None:
    """`to`, and what is loaded in another dtype: each rank converts its own."""
    if parts == "stages":
        model, opt, run = at_stages()
    else:
        wg.manual_seed(0)
        model = dist.shard(small_networks.chain(4, 4, 2), PIPES, fsdp="pipe")
        opt = wg.optim.Adam(model.parameters(), lr=0.1)

        step = small_networks.training(model, opt)

        run = dist.jit(step, mesh=PIPES, in_specs=(None,))
        run(wg.ones(4, 4))
    before = {k: v.numpy() for k, v in dist.whole(model.state_dict()).items()}
    saved, of_opt = model.state_dict(), opt.state_dict()
    model.to("float64")
    found = dist.whole(model.state_dict())
    for name, value in before.items():
        np.testing.assert_array_equal(found[name].numpy(), value.astype(np.float64), err_msg=name)
    for p in model.parameters():
        assert p.grad is None or p.grad.dtype == p.dtype == np.float64
    model.load_state_dict(saved)
    opt.load_state_dict(of_opt)
    assert {s.dtype for s in wg.tree.leaves(opt.state_dict()) if isinstance(s, wg.Tensor)} == {np.dtype(np.float64)}
    assert isinstance(model[-1].weight._array if parts == "fsdp" else model[1][0].weight._array, Sharded)
    assert np.isfinite(float(run(wg.ones(4, 4, dtype="float64"))))
