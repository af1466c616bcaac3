"""Ranks as devices of JAX's: plans, collectives, values in parts, errors, and what goes from engine to engine."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

import meshes
import wengert as wg
from meshes import CASES, MODELS, PLANS
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines.xla import Parts
from wengert.execute.xla.memory import Replica, held_by

pytest.importorskip("jax", reason="the engine needs jax")

import jax

# conftest.py divides the processor into 8 devices.
pytestmark = pytest.mark.skipif("len(jax.local_devices()) < 4", reason="the tests need four devices")

STEPS = 4
MESH, SQUARE = dist.Mesh(data=2), dist.Mesh(data=2, model=2)
P = dist.PartitionSpec


@cache
def alone(kind: str) -> np.ndarray:
    return np.array(meshes.losses(kind, steps=STEPS))


# XLA takes long to compile it; the block is a smaller one of its kind.
LARGEST = "gpt"
RUNS = [(kind, plan, n) for kind in MODELS for n in PLANS for plan in PLANS[n] if meshes.is_for(plan, kind, "xla")]


# What they do to a graph, they do to it for every engine: test_training.py asks it natively.
OF_GRAPHS = ("accumulated", "gpipe", "interleaved", "recomputed")


def is_seldom(kind: str, plan: str, ranks: int) -> bool:
    """Whether a run of a plan is asked only of all engines' slow tests: XLA compiles each for seconds."""
    other = "data" if kind == "cnn" else "tensor"
    return plan.endswith(OF_GRAPHS) or plan.count(" ") > 1 or (kind != "mlp" and (plan, ranks) != (other, 2))


# conftest.py asks some of them every time; scripts/plans.py has 20 steps of all.
@pytest.mark.parametrize(
    ("kind", "plan", "ranks"),
    [pytest.param(*run, marks=[pytest.mark.slow] if is_seldom(*run) else []) for run in RUNS if run[0] != LARGEST],
)
def test_losses_are_those_of_one_process(kind: str, plan: str, ranks: int) -> None:
    is_equal_to_one_process(kind, plan, ranks)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "plan", "ranks"), [run for run in RUNS if run[0] == LARGEST])
def test_losses_of_the_largest_model(kind: str, plan: str, ranks: int) -> None:
    is_equal_to_one_process(kind, plan, ranks)


def is_equal_to_one_process(kind: str, plan: str, ranks: int) -> None:
    with wg.engine("xla"):
        found = meshes.losses(kind, plan, ranks, STEPS)
    np.testing.assert_allclose(found, alone(kind), rtol=1e-12, atol=1e-12)


# -- collectives


def draw(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "c":
        return wg.tensor((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))
    return wg.tensor((rng.normal(size=shape) * 3).astype(dtype))


def on_both(f: Any, mesh: dist.Mesh, ins: Any, outs: Any, *args: Any) -> tuple[Any, Any]:
    """What a function of a rank gives on XLA, and simulated."""
    found = [dist.shard_map(f, mesh, ins, outs, engine=engine)(*args) for engine in ("xla", "native")]
    return tuple(x.whole() if isinstance(x, dist.Sharded) else x for x in found)  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "complex64", "int32", "uint8", "bool"])
def test_collectives(dtype: str) -> None:
    for name, (fn, of_one, to_one) in CASES.items():
        if dtype == "bool" and ("reduce" in name or "varying" in name or dtype == name):
            continue
        if name == "all_reduce mean" and dtype in ("int32", "uint8"):
            continue
        x = draw(24, 6).astype(dtype)
        for over, mesh in (("data", MESH), ("data", SQUARE), ("model", SQUARE)):
            ins, outs = (None if of_one else over), (None if to_one else over)
            got, want = on_both(lambda x, fn=fn, over=over: fn(x, over), mesh, (ins,), outs, x)
            assert (got.dtype, got.shape) == (want.dtype, want.shape), name
            a, b = (t.astype("complex128").numpy() for t in (got, want))
            np.testing.assert_allclose(a, b, 1e-2 if dtype == "bfloat16" else 1e-6, err_msg=f"{name} over {over}")


def test_numbers_that_are_not_finite_and_zeros_with_signs() -> None:
    odd = wg.tensor([[np.nan, -0.0, 1.0, -np.inf], [1.0, -0.0, np.nan, np.inf]], dtype="float64")
    for x in (odd, odd[::-1], odd.astype("float32"), odd.astype("float16")):
        got, want = on_both(lambda x: dist.all_reduce(x, "data", "max"), MESH, ("data",), None, x)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
        for root in (0, 1):
            sent = on_both(lambda x, root=root: dist.broadcast(x, "data", root), MESH, ("data",), None, x)
            assert sent[0].numpy().tobytes() == sent[1].numpy().tobytes()
    for fn in (lambda x: dist.all_reduce(x, "data"), lambda x: dist.all_gather(x, "data", axis=1)):
        assert on_both(fn, MESH, ("data",), None, wg.ones(2, 0))[0].shape == fn_shape(fn)


def fn_shape(fn: Any) -> tuple[int, ...]:
    found: tuple[int, ...] = dist.shard_map(fn, MESH, ("data",), None)(wg.ones(2, 0)).shape
    return found


def test_axis_index_and_gradients() -> None:
    def f(w: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            at = dist.axis_index("data") * 2 + dist.axis_index("model")
            return dist.all_reduce(dist.all_reduce((x * w).sum() * (at + 1), "data"), "model") + w**2

        return wg.grad(loss)(w)

    got, want = on_both(f, SQUARE, (None, P("data", "model")), None, wg.tensor(1.0, dtype="float64"), draw(4, 6))
    np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-12)


def test_rings_and_loops() -> None:
    def ring(x: Any) -> Any:
        total = x
        for _ in range(1):
            x = dist.permute(x, "data", ((0, 1), (1, 0)))
            total = total + x * (dist.axis_index("data") + 1)
        return total

    def loop(x: Any) -> Any:
        return wg.scan(lambda c, row: (c + dist.all_reduce(row, "data"), c), wg.zeros(3, dtype="float64"), x)[0]

    def until(x: Any) -> Any:
        # All go on until the sum of all is large: the same for all.
        start = dist.all_reduce(x.sum(), "data") * 0
        return wg.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, dist.all_reduce(c[1] + 1.0, "data")), (0, start))[
            1
        ]

    for fn in (ring, loop, lambda x: until(x) + x):
        got, want = on_both(fn, MESH, ("data",), "data", draw(4, 3))
        np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-12)


def test_ranks_that_go_different_ways_are_told() -> None:
    """They would wait for each other without end, which ends the process."""

    def until(x: Any) -> Any:
        step = lambda c: (c[0] + 1, dist.all_reduce(c[1], "data"))
        return wg.while_loop(lambda c: c[0] < dist.axis_index("data") + 1, step, (0, x.sum()))[0] + 0 * x

    def choose(x: Any) -> Any:
        return wg.cond(x.sum() > 0, lambda x: dist.all_reduce(x, "data"), lambda x: x * 1.0, x)

    given = wg.tensor([1.0, 2.0, -3.0, -4.0])
    for fn in (until, choose):
        for engine in ("native", "xla"):
            with pytest.raises(wg.GraphError, match="rank"):
                dist.shard_map(fn, MESH, ("data",), "data", engine=engine)(given)
    same = dist.shard_map(choose, MESH, ("data",), "data", engine="xla")
    assert same(wg.ones(4)).whole().tolist() == [2.0] * 4


# -- values in parts


def test_parts_stay_on_their_devices() -> None:
    def step(w: Any, x: Any, y: Any) -> Any:
        loss, gradient = wg.value_and_grad(lambda w: ((wg.tanh(x @ w) - y) ** 2).mean())(w)
        return loss, w - 0.1 * gradient

    made = {
        engine: dist.partition(step, MESH, ("data", "data", "data"), (None, "data"), gather="data", engine=engine)
        for engine in ("xla", "native")
    }
    x, y = draw(8, 4, seed=1), draw(8, 2, seed=2)
    state = {engine: dist.place(draw(4, 2), MESH, "data") for engine in made}
    for _ in range(6):
        losses = {}
        for engine, f in made.items():
            losses[engine], state[engine] = f(state[engine], x, y)
        np.testing.assert_allclose(losses["xla"].numpy(), losses["native"].numpy(), 1e-12)
    parts = state["xla"].parts
    assert isinstance(parts, Parts)
    assert [d.id for d in parts.array.sharding.device_set] == [0, 1] or len(parts.array.sharding.device_set) == 2
    assert parts[0].shape == (2, 2)
    np.testing.assert_allclose(state["xla"].whole().numpy(), state["native"].whole().numpy(), 1e-12)
    # Either engine goes on with what the other one left.
    a, b = made["xla"](state["native"], x, y), made["native"](state["xla"], x, y)
    np.testing.assert_allclose(a[1].whole().numpy(), b[1].whole().numpy(), 1e-12)
    with pytest.raises(wg.ShapeError, match="is split as"):
        made["xla"](dist.place(draw(4, 2), MESH, P(None, "data")), x, y)


def test_random_numbers_are_those_of_one_process() -> None:
    def f(x: Any, key: Any) -> Any:
        wg.random.default_generator
        first, second = wg.random.split(key)
        return (
            x + wg.rand(8, 3, key=first, dtype="float64"),
            wg.randint(0, 1000, (8,), key=second),
            wg.randn(3, key=key),
        )

    x, key = draw(8, 3), wg.random.key(5)
    for mesh in (MESH, SQUARE):
        g = dist.partition(f, mesh, ("data", None), (None, "data", None), engine="xla")
        for got, want in zip(g(x, key), f(x, key), strict=True):
            np.testing.assert_allclose(dist.whole(got).numpy(), want.numpy(), 1e-6)


def test_a_pipeline_gives_parts() -> None:
    def f(w: Any, v: Any, x: Any) -> Any:
        return wg.grad(lambda w, v: (wg.tanh(wg.tanh(x @ w) @ v) ** 2).mean(), argnums=(0, 1))(w, v)

    mesh = dist.Mesh(pipe=2, data=2)
    pipeline = dist.Pipeline("pipe", 2, batch=(None, None, 0))
    args = draw(4, 6), draw(6, 4, seed=1), draw(8, 4, seed=2)
    found = {}
    for engine in ("xla", "native"):
        g = dist.partition(f, mesh, (None, "data", "data"), (None, "data"), pipeline=pipeline, engine=engine)
        for _ in range(2):
            found[engine] = g(*args)
    assert isinstance(found["xla"][1], dist.Sharded)
    for a, b in zip(found["xla"], found["native"], strict=True):
        np.testing.assert_allclose(dist.whole(a).numpy(), dist.whole(b).numpy(), 1e-12)


# -- which engine


def step_of(model: nn.Module, optimizer: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def setting(width: int = 8) -> tuple[nn.Module, Any, Any]:
    wg.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.3), nn.Linear(width, 4))
    model = model.to(wg.float64)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, step_of(model, optimizer)


def batch(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return wg.tensor(rng.normal(size=(8, 6))), wg.tensor(rng.integers(0, 4, 8))


def test_the_block_the_argument_and_what_runs() -> None:
    for options in ({}, {"zero": "data"}, {"pipeline": dist.Pipeline("pipe", 2)}):
        mesh = dist.Mesh(data=2, pipe=2) if "pipeline" in options else MESH
        _, _, step = setting()
        by_block = dist.jit(step, mesh=mesh, in_specs=("data", "data"), **options)
        with wg.engine("xla"):
            by_block(*batch(0))
        assert by_block.engine.name == "xla"
        assert by_block.partitions[-1].mesh == mesh
        by_block(*batch(1))
        assert by_block.engine.name == "native"
    _, _, step = setting()
    by_name = dist.jit(step, mesh=MESH, in_specs=("data", "data"), engine="xla")
    with wg.engine("native"):
        by_name(*batch(0))
    assert by_name.engine.name == "xla"
    assert "all-reduce" in by_name.ir
    for _ in range(6):
        by_name(*batch(1))
    moved = by_name.transfers.moved  # beside the batch, numbers that Python has: rates, counts
    assert {"x", "y"} <= set(moved)
    assert not any(name.startswith("model.") for name in moved)
    _, _, step = setting()
    auto = dist.jit(step, mesh=MESH, in_specs=("data", "data"), engine="auto")
    auto(*batch(0))
    assert auto.engine.name == ("native" if jax.default_backend() == "cpu" else "xla")
    f = dist.partition(lambda x: x * 2, MESH, ("data",), "data")
    assert not isinstance(f(wg.ones(4)).parts, Parts)
    with wg.engine("xla"):
        assert isinstance(f(wg.ones(4)).parts, Parts)
    with pytest.raises(wg.GraphError, match="engine='gpu'"):
        dist.partition(lambda x: x, MESH, ("data",), engine="gpu")


def test_state_goes_from_engine_to_engine() -> None:
    def run(kinds: list[str], width: int) -> tuple[list[float], dict[str, Any]]:
        model, optimizer, step = setting(width)
        steps = {"eager": step, "native": wg.jit(step), "xla": wg.jit(step, engine="xla")}
        steps |= {
            f"{engine} on {mesh.size}": dist.jit(step, mesh=mesh, in_specs=("data", "data"), engine=engine)
            for engine in ("native", "xla")
            for mesh in (MESH, dist.Mesh(data=4))
        }
        losses = [float(steps[kind](*batch(i))) for i, kind in enumerate(kinds)]
        state = {k: v.numpy().copy() for k, v in model.state_dict().items()}
        for i, found in optimizer.state_dict()["state"].items():
            state |= {f"{i}.{k}": np.array(v) for k, v in found.items()}
        return losses, state

    kinds = ["xla on 2", "xla", "xla on 4", "eager", "xla on 2", "native", "xla on 2", "native on 4", "xla on 4"] * 2
    for width in (8, 12000):  # of the larger one eager execution writes to state where it stands
        losses, state = run(kinds, width)
        expected, after = run(["eager"] * len(kinds), width)
        np.testing.assert_allclose(losses, expected, 1e-9)
        for k, v in state.items():
            np.testing.assert_allclose(v, after[k], 1e-6, 1e-9, err_msg=k)


@pytest.mark.parametrize("zero", [None, "data"])
def test_what_is_in_parts_stays_so_on_any_engine(zero: str | None) -> None:
    def run(kinds: list[str]) -> tuple[list[float], Any]:
        model, _, step = setting()
        if zero is None:
            dist.shard(model, MESH, fsdp="data")
        steps = {
            e: dist.jit(step, mesh=MESH, in_specs=("data", "data"), zero=zero, engine=e) for e in ("native", "xla")
        }
        losses = []
        for i, kind in enumerate(kinds):
            losses.append(float(steps[kind](*batch(i))))
            if zero is None:
                parts = model[0].weight._array.parts
                assert isinstance(parts, Parts) is (kind == "xla")
                assert parts[1].shape == (4, 6)
        return losses, dist.whole(model).state_dict()

    kinds = ["native", "xla", "xla", "native", "xla", "xla", "xla"]
    (losses, state), (expected, after) = run(kinds), run(["native"] * len(kinds))
    np.testing.assert_allclose(losses, expected, 1e-12)
    for k, v in state.items():
        np.testing.assert_allclose(v.numpy(), after[k].numpy(), 1e-6, 1e-9, err_msg=k)


def test_parts_that_others_refer_to_stay() -> None:
    model, _, step = setting()
    dist.shard(model, MESH, fsdp="data")
    f = dist.jit(step, mesh=MESH, in_specs=("data", "data"), engine="xla")
    taken = []
    for i in range(4):
        f(*batch(i))
        data = model[0].weight._array
        taken.append((data, dist.whole(data).tolist()))
    assert all(dist.whole(data).tolist() == values for data, values in taken)
    assert len({str(values) for _, values in taken}) == 4


def test_a_budget_of_memory_is_native() -> None:
    _, _, step = setting()
    with pytest.raises(wg.GraphError, match="memory='1GB' and engine='xla'"):
        dist.jit(step, mesh=MESH, in_specs=("data", "data"), memory="1GB", engine="xla")
    f = dist.jit(step, mesh=MESH, in_specs=("data", "data"), memory="1GB")
    with wg.engine("xla"), pytest.raises(wg.GraphError, match="an option of native code"):
        f(*batch(0))


def test_what_others_refer_to_stays() -> None:
    model, _, step = setting()
    f = dist.jit(step, mesh=MESH, in_specs=("data", "data"), engine="xla")
    weight = next(iter(model.parameters()))
    taken = []
    for i in range(5):
        f(*batch(i))
        taken.append((weight.detach().numpy(), weight.detach().tolist()))
    assert isinstance(held_by(weight._array), Replica)
    assert all(array.tolist() == values for array, values in taken)


# -- errors


def test_an_error_in_one_ranks_part() -> None:
    table = wg.tensor(np.arange(10.0).reshape(5, 2), requires_grad=True)
    optimizer = wg.optim.SGD([table], lr=0.1, momentum=0.9)

    def step(i: Any) -> Any:
        optimizer.zero_grad()
        loss = (table[i] ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    f = dist.jit(step, mesh=MESH, in_specs=("data",), engine="xla")
    for _ in range(3):
        f(wg.tensor([0, 1, 2, 4]))
    before = dist.whole(table).tolist()
    for _ in range(2):
        with pytest.raises(wg.WengertError, match="index 5 is out of range") as caught:
            f(wg.tensor([0, 1, 2, 5]))
        assert os.path.basename(__file__) in str(caught.value)
        assert any("raised on rank 1 of Mesh(data=2)" in note for note in caught.value.__notes__)
        assert dist.whole(table).tolist() == before
    f(wg.tensor([0, 1, 2, 4]))
    assert table.tolist() != before


def test_an_error_in_a_stage() -> None:
    model, _, _ = setting()
    table = nn.Parameter(draw(5, 6))
    optimizer = wg.optim.SGD([table, *model.parameters()], lr=0.1)

    def step(i: Any) -> Any:
        loss = (model(table[i]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    f = dist.jit(step, mesh=dist.Mesh(pipe=2), in_specs=(None,), engine="xla", pipeline=dist.Pipeline("pipe", 2))
    f(wg.tensor([0, 1, 2, 4]))
    before = dist.whole(table).tolist()
    with pytest.raises(wg.WengertError, match="index 5 is out of range"):
        f(wg.tensor([0, 1, 2, 5]))
    assert dist.whole(table).tolist() == before


def test_python_in_the_midst(capsys: pytest.CaptureFixture[str]) -> None:
    def twice(a: Any) -> Any:
        if a.max() > 100:
            raise ValueError("too large")
        return np.asarray(a) * 2

    def f(x: Any) -> Any:
        return wg.callback(twice, wg.spec((2,), "float64"), wg.debug.print("x is {}", x))

    g = dist.shard_map(f, MESH, ("data",), "data", engine="xla")
    x = wg.tensor([0.1, 1.0, 2.0, 1 / 3], dtype="float64")
    assert g(x).whole().tolist() == (x * 2).tolist()
    assert sorted(capsys.readouterr().out.splitlines()) == [f"x is {x[:2]}", f"x is {x[2:]}"]
    with pytest.raises(ValueError, match="too large"):
        g(x * 1000)


def test_what_is_refused() -> None:
    f = dist.partition(lambda x: x * 2, dist.Mesh(data=64), ("data",), engine="xla")
    with pytest.raises(wg.GraphError, match=r"Mesh\(data=64\) on XLA: a rank is a device, and JAX has 8") as caught:
        f(wg.ones(64))
    assert "wg.distribute.cpu_devices(64)" in str(caught.value)
    assert "wengert launch --engine xla -n 64" in str(caught.value)
    with pytest.raises(wg.GraphError, match="3 devices of the processor where JAX has begun with 8"):
        dist.cpu_devices(3)
    dist.cpu_devices(8)
    with pytest.raises(wg.GraphError, match=r"cpu_devices\(0\)"):
        dist.cpu_devices(0)
    small = dist.partition(lambda x: x * 2, MESH, ("data",), engine="xla")
    with pytest.raises(wg.GraphError, match="by XLA in a simulation"):
        dist.simulate(MESH).run(lambda: small(wg.ones(4)))
    with (
        pytest.raises(wg.GraphError, match="all_reduce over 'data', an axis of 2 ranks, in a program of XLA's for one"),
        MESH,
    ):
        wg.jit(lambda x: dist.all_reduce(x, "data"), engine="xla")(wg.ones(2))


def test_devices_are_asked_for_before_jax_begins() -> None:
    code = (
        "import wengert as wg; wg.distribute.cpu_devices(3)\n"
        "f = wg.distribute.partition(lambda x: x * 2, wg.distribute.Mesh(data=3), ('data',), 'data', engine='xla')\n"
        "x = f(wg.ones(6)); print([p.tolist() for p in x.parts.values()])"
    )
    env = {k: v for k, v in os.environ.items() if k not in ("JAX_NUM_CPU_DEVICES", "XLA_FLAGS")}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]"
