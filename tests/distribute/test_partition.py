"""Functions on whole values on meshes: placements, parts, and what the pass makes of a program."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines.lockstep import run_lockstep
from wengert.distribute.placing.buckets import bucketed
from wengert.distribute.placing.placement import local_part

SPLIT = dist.PartitionSpec
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 6)), RNG.integers(0, 4, 8)
PARAMETERS = {"w": RNG.normal(size=(6, 8)), "b": RNG.normal(size=8), "v": RNG.normal(size=(8, 4))}


def loss(p: Any, x: Any, y: Any) -> Any:
    h = nn.functional.layer_norm(nn.functional.gelu(x @ p["w"] + p["b"]), (8,))
    return nn.functional.cross_entropy(h @ p["v"], y)


def step(p: Any, m: Any, x: Any, y: Any) -> Any:
    value, g = wg.value_and_grad(loss)(p, x, y)
    m = {k: 0.9 * m[k] + 0.1 * g[k] ** 2 for k in p}
    return value, {k: p[k] - 0.1 * g[k] / (wg.sqrt(m[k]) + 1e-3) for k in p}, m


def start() -> tuple[Any, Any]:
    p = {k: wg.tensor(v) for k, v in PARAMETERS.items()}
    return p, {k: wg.zeros_like(v) for k, v in p.items()}


def run(f: Any, steps: int = 5) -> tuple[list[float], Any]:
    (p, m), found = start(), []
    for _ in range(steps):
        value, p, m = f(p, m, wg.tensor(X), wg.tensor(Y))
        found.append(float(value))
    return found, p


ROWS = {"w": "data", "b": "data", "v": "data"}
TENSOR = {"w": SPLIT(None, "model"), "b": "model", "v": "model"}
BOTH = {"w": SPLIT("data", "model"), "b": "model", "v": SPLIT("model", "data")}


@pytest.mark.parametrize(
    ("axes", "parameters", "state", "gather"),
    [
        ({"data": 4}, None, None, ()),
        ({"data": 2}, None, ROWS, ()),
        ({"data": 2}, ROWS, ROWS, "data"),
        ({"data": 2}, ROWS, ROWS, ()),
        ({"model": 4}, TENSOR, TENSOR, ()),
        ({"data": 2, "model": 2}, TENSOR, TENSOR, ()),
        ({"data": 2, "model": 2}, BOTH, BOTH, "data"),
        ({"model": 2, "data": 2}, BOTH, BOTH, ()),
    ],
    ids=["data", "zero", "fsdp", "rows", "tensor", "data x tensor", "fsdp x tensor", "both in parts"],
)
def test_values_are_those_of_one_process(axes: Any, parameters: Any, state: Any, gather: Any) -> None:
    mesh = dist.Mesh(axes)
    batch = "data" if "data" in axes else None
    f = dist.partition(step, mesh, (parameters, state, batch, batch), (None, parameters, state), gather=gather)
    expected, last = run(step)
    found, p = run(f)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for k, v in dist.whole(p).items():
        np.testing.assert_allclose(v.numpy(), last[k].numpy(), rtol=1e-11)
    if parameters is not None:
        assert isinstance(p["w"], dist.Sharded)


def test_what_each_rank_runs() -> None:
    f = dist.partition(loss, dist.Mesh(data=2), (None, "data", "data"))
    made = f.lower(*start()[:1], X, Y)
    assert [n.spec.shape for n in made.graph.inputs] == [(6, 8), (8,), (8, 4), (4, 6), (4,)]
    assert {n.op.name for n in made.graph.nodes if "over" in n.attrs} == {"all_reduce"}
    assert "layer_norm" in str(made.graph)  # whole where a rank's rows are whole
    (total,) = [n for n in made.graph.nodes if n.op.name == "all_reduce"][-1:]
    assert os.path.basename(total.source.file) == os.path.basename(__file__)
    assert wg.Graph.parse(str(made.graph)) == made.graph


def test_inside_other_transforms() -> None:
    f = dist.partition(lambda x: wg.log(x).mean(), dist.Mesh(data=2), ("data",))
    x = wg.tensor([1.0, 2.0, 4.0, 8.0])
    assert wg.allclose(wg.grad(f)(x), 1 / (4 * x))
    assert wg.allclose(wg.jit(f)(x), f(x))
    assert wg.allclose(wg.vmap(f)(wg.stack([x, 2 * x])), wg.stack([f(x), f(2 * x)]))


def test_ranks_are_seen_by_who_observes() -> None:
    f = dist.partition(lambda x: wg.log(x).mean(), dist.Mesh(data=2), ("data",))
    with wg.no_grad():
        born = wg.explain.nonfinite(lambda: f(wg.tensor([1.0, 2.0, -1.0, 4.0])))
    assert born.op == "log"
    assert born.index == (0,)  # of the second rank's part


def test_parts() -> None:
    mesh = dist.Mesh(data=2, model=2)
    x = dist.place({"a": wg.tensor(X), "b": wg.ones(4)}, mesh, {"a": SPLIT("model", "data"), "b": None})
    assert [part.shape for part in x["a"].parts.values()] == [(4, 3)] * 4
    np.testing.assert_array_equal(x["a"].parts[1], X[4:, :3])  # rank 1: data 0, model 1
    np.testing.assert_array_equal(x["a"].whole().numpy(), X)
    f = dist.partition(lambda a: a * 2, mesh, (SPLIT("model", "data"),), SPLIT("data"))
    np.testing.assert_array_equal(f(x["a"]).whole().numpy(), 2 * X)
    with pytest.raises(wg.ShapeError, match=r"a is split as PartitionSpec\('data'\).*where the program takes"):
        f(f(x["a"]))
    # As every rank of a job has it.
    jobs = dist.simulate(mesh).run(
        lambda: (f(dist.place(X, mesh, SPLIT("model", "data"))).whole().numpy() == 2 * X).all()
    )
    assert jobs == [True] * 4


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_random_numbers_are_those_of_one_process(axis: Any) -> None:
    def f(x: Any) -> Any:
        return nn.functional.dropout(x, 0.5) + wg.rand(4, 6) + wg.randn(6)

    names = ("data", "model")
    spec = SPLIT(*(n if i in np.atleast_1d(axis) else None for i, n in enumerate(names)))
    wg.manual_seed(5)
    with_mesh = dist.partition(f, dist.Mesh(data=2, model=2), (spec,))
    found = with_mesh(wg.ones(4, 6)).numpy()
    wg.manual_seed(5)
    np.testing.assert_array_equal(found, f(wg.ones(4, 6)).numpy())


def test_loops_and_branches_run_on_whole_values() -> None:
    def f(x: Any) -> Any:
        _, rows = wg.scan(lambda c, row: (c + row, c * row), wg.zeros(4), x)
        return wg.cond(rows.sum() > 0, lambda a: a * 2, lambda a: a - 1, rows)

    x = wg.tensor(RNG.normal(size=(6, 4)), dtype=wg.float32)
    found = dist.partition(f, dist.Mesh(data=2), ("data",))(x)
    np.testing.assert_allclose(found.numpy(), f(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("n", [0, 2])
def test_empty_and_small(n: int) -> None:
    f = dist.partition(lambda x: (x.sum(), x.mean(axis=1), x * 2), dist.Mesh(data=2), ("data",))
    x = wg.ones(n, 3)
    for a, b in zip(f(x), (x.sum(), x.mean(axis=1), x * 2)):
        assert a.spec == b.spec
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_what_is_refused() -> None:
    mesh = dist.Mesh(data=2)
    for fn, args, words in (
        (lambda: dist.partition(lambda x: x, mesh, ("data",))(wg.ones(3)), wg.ShapeError, r"x, \(3,\) float32, split"),
        (lambda: dist.partition(lambda x: x, mesh, ("model",))(wg.ones(4)), wg.GraphError, "an axis 'model'"),
        (lambda: dist.partition(lambda x: x, mesh, ("data",))(wg.ones(())), wg.ShapeError, "has 0 dimensions"),
        (lambda: dist.partition(lambda x: x, mesh, ())(wg.ones(4)), wg.GraphError, "0 entries for 1 arguments"),
        (lambda: dist.partition(lambda x: x, mesh, "data"), wg.GraphError, "in_specs='data'"),
        (lambda: dist.partition(lambda x: x, mesh, ({"a": "data"},))(wg.ones(4)), wg.GraphError, "does not begin like"),
        (lambda: SPLIT(("data", "model")), wg.GraphError, "a PartitionSpec with"),
        (lambda: SPLIT("data", "data"), wg.GraphError, "splits two dimensions over one mesh axis"),
    ):
        with pytest.raises(args, match=words) as caught:
            fn()
        assert os.path.basename(__file__) in str(caught.value).splitlines()[0]
    model = nn.Linear(4, 2)
    with pytest.raises(wg.GraphError, match=r"uses tensors that are no arguments: .*weight"):
        dist.partition(lambda x: model(x), mesh, ("data",))(wg.ones(4, 4))


def test_ranks_that_start_from_different_values_are_told() -> None:
    mesh = dist.Mesh(ranks=2)

    def functions() -> None:
        w = wg.ones(2) * (1 + dist.rank())
        dist.partition(lambda w, x: (w * x).sum(), mesh, (None, "ranks"))(w, wg.ones(4, 2))

    def batches() -> None:
        dist.partition(lambda x: x.sum(), mesh, ("ranks",))(wg.ones(4) * dist.rank())

    def modules() -> None:
        wg.manual_seed(dist.rank())
        model = nn.Linear(2, 2)
        dist.jit(lambda x: model(x).sum().detach(), mesh=mesh, in_specs=("ranks",))(wg.ones(4, 2))

    for fn, name in ((functions, "w"), (batches, "x"), (modules, "model.weight")):
        with pytest.raises(wg.GraphError, match=rf"{name}, .*, is another one on rank 1 than on rank 0") as caught:
            dist.simulate(mesh).run(fn)
        assert os.path.basename(__file__) in str(caught.value).splitlines()[0]
    # Parts of their own are what ranks have.
    f = dist.partition(lambda x: x.sum(), mesh, ("ranks",))
    whole = [wg.tensor([1.0, 2.0]), wg.tensor([1.0, 2.0])]
    assert dist.simulate(mesh).run(lambda: float(f(dist.place(whole[dist.rank()], mesh, "ranks")))) == [3.0, 3.0]


def test_ranks_that_run_different_programs_are_told() -> None:
    mesh = dist.Mesh(ranks=2)

    def work() -> None:
        own = [wg.sin, wg.cos][dist.rank()]
        dist.partition(lambda x: own(x).sum(), mesh, ("ranks",))(wg.ones(4))

    with pytest.raises(wg.GraphError, match=r"rank 0 has .*= sin.*test_partition.py:\d+\), rank 1 has .*= cos"):
        dist.simulate(mesh).run(work)


def test_values_in_parts_are_no_arrays() -> None:
    x = wg.distribute.place(wg.arange(4.0), wg.distribute.Mesh(data=2), "data")
    with pytest.raises(wg.DTypeError, match=r"conversion to a NumPy array of Sharded\(f32\[4\].*test_partition\.py"):
        np.asarray(x)
    assert np.asarray(x.whole()).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_collectives_that_do_not_wait_move_together() -> None:
    """Gathered parts and parts of sums, along any axis, with the bits of collectives one by one."""
    mesh = dist.Mesh(data=2)

    def on_a_rank(a: Any, b: Any, c: Any) -> Any:
        gathered = [dist.all_gather(x, "data", axis) for x, axis in ((a, 0), (b, 1), (c, 2), (b, 0))]
        sums = [dist.reduce_scatter(x, "data", axis) for x, axis in ((a, 0), (b, 1), (c, 2), (c, 0))]
        return [*gathered, *sums, dist.reduce_scatter(gathered[1] * sums[1].sum(), "data", 1)]

    rng = np.random.default_rng(0)
    args = [wg.tensor(rng.normal(size=shape)) for shape in ((8,), (4, 6), (4, 3, 2))]
    out = [None] * 4 + [dist.PartitionSpec(*(None,) * axis, "data") for axis in (0, 1, 2, 0, 1)]
    made = dist.shard_map(on_a_rank, mesh, ("data",) * 3, out).lower(*args)
    joined = bucketed(made.graph)
    count = Counter(n.op.name for n in joined.nodes if n.op.kind == "collective" and n.op.name != "pcast")
    assert count == {"all_gather": 1, "reduce_scatter": 2}
    parts = [[local_part(x.numpy(), (0,), mesh, rank) for x in args] for rank in range(2)]
    results = (run_lockstep(made._replace(graph=graph), parts) for graph in (joined, made.graph))
    for found, expected in zip(*results, strict=True):
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_array_equal(x, y)
    # Larger ones are not.
    assert sum(n.op.name == "all_gather" for n in bucketed(made.graph, 200).nodes) > 1
