"""Collectives: what they give, their derivatives by the adjoint identity, the other mechanisms that they meet."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import wengert as wg
from meshes import CASES
from wengert import distribute as dist

MESH = dist.Mesh(data=2, model=3)


def values(over: str, shape: tuple[int, ...], replicated: bool, seed: int) -> list[np.ndarray]:
    """A value for each rank of the mesh; the same along the axis where it is replicated."""
    rng = np.random.default_rng(seed)
    own = [rng.normal(size=shape) for _ in range(MESH.size)]
    return [own[MESH.along(over, i)[0] if replicated else i] for i in range(MESH.size)]


def inner(a: list[np.ndarray], b: list[np.ndarray], over: str, replicated: bool) -> float:
    """The inner product of values on all ranks: a replicated one counts once."""
    total = sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))
    return total / MESH.axes[over] if replicated else total


def by_rank(given: list[Any]) -> Any:
    return given[MESH.rank({n: int(dist.axis_index(n)) for n in MESH.names})]


@pytest.mark.parametrize("over", MESH.names)
@pytest.mark.parametrize("name", CASES)
def test_adjoint_identity(name: str, over: str) -> None:
    fn, of_one, to_one = CASES[name]
    xs, job = values(over, (6, 6), of_one, 1), dist.simulate(MESH)
    ys = job.run(lambda: fn(wg.tensor(by_rank(xs)), over).numpy())
    cts = values(over, ys[0].shape, to_one, 2)

    def pull() -> Any:
        _, back = wg.vjp(lambda x: fn(x, over), wg.tensor(by_rank(xs)))
        return back(wg.tensor(by_rank(cts)))[0].numpy()

    pulled = job.run(pull)
    assert np.isclose(inner(cts, ys, over, to_one), inner(pulled, xs, over, of_one), rtol=1e-12)
    # Linear: a tangent goes the way of the value.
    ts = values(over, (6, 6), of_one, 3)
    pushed = job.run(lambda: wg.jvp(lambda x: fn(x, over), (wg.tensor(by_rank(xs)),), (wg.tensor(by_rank(ts)),))[1])
    straight = job.run(lambda: fn(wg.tensor(by_rank(ts)), over))
    assert all(np.allclose(a.numpy(), b.numpy(), rtol=1e-12) for a, b in zip(pushed, straight, strict=True))


@pytest.mark.parametrize("over", MESH.names)
def test_what_they_give(over: str) -> None:
    xs, n = values(over, (6, 6), False, 1), MESH.axes[over]
    for name, expected in {
        "all_reduce": lambda line, i: sum(line),
        "all_gather": lambda line, i: np.concatenate(line, 1),
        "reduce_scatter": lambda line, i: np.split(sum(line), n, 1)[i],
        "own_part": lambda line, i: np.split(line[i], n, 0)[i],
        "permute": lambda line, i: line[1 - i] if i < 2 else 0 * line[i],
        "all_to_all": lambda line, i: np.concatenate([np.split(x, n, 0)[i] for x in line], 1),
        "broadcast": lambda line, i: line[1],
    }.items():
        found = dist.simulate(MESH).run(lambda name=name: CASES[name][0](wg.tensor(by_rank(xs)), over).numpy())
        for rank, value in enumerate(found):
            line = [xs[i] for i in MESH.along(over, rank)]
            assert np.allclose(value, expected(line, MESH.coordinates(rank)[over]), rtol=1e-14), name


def test_extremes_and_their_derivative() -> None:
    def run() -> tuple[list[float], list[float], list[float]]:
        x = (wg.tensor([1.0, 0.0]) * (dist.axis_index("ranks") + 1)).requires_grad_()
        out = dist.all_reduce(x, "ranks", "max")
        out.sum().backward()
        return out.tolist(), dist.all_reduce(x.detach(), "ranks", "min").tolist(), x.grad.tolist()

    first, second = dist.simulate(2).run(run)
    assert first == ([2.0, 0.0], [1.0, 0.0], [0.0, 0.5])  # two share the zero
    assert second == ([2.0, 0.0], [1.0, 0.0], [1.0, 0.5])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "bfloat16", "float32", "complex128"])
def test_dtypes_and_empty(dtype: str) -> None:
    def run() -> list[Any]:
        out = []
        for shape in [(), (0, 2), (2, 0), (4, 2)]:
            x = wg.ones(shape, dtype=dtype)
            if dtype != "bool":
                out.append((dist.all_reduce(x, "ranks") == 2).numpy().all())
            out.append(dist.broadcast(x, "ranks").spec == x.spec)
            if shape:
                out.append(dist.all_gather(x, "ranks").shape == (2 * shape[0], *shape[1:]))
        return out

    assert all(all(found) for found in dist.simulate(2).run(run))


def test_sums_of_half_precision_are_in_float32() -> None:
    # 2048 + 1 is 2048 in float16: the order of additions would show.
    found = dist.simulate(4).run(
        lambda: float(dist.all_reduce(wg.where(dist.axis_index("ranks") == 0, 2048.0, 1.0).astype("float16"), "ranks"))
    )
    assert found == [2052.0] * 4  # 2051 lies between 2050 and 2052, and ties go to even


def program() -> Any:
    def f(x: Any) -> Any:
        y = dist.all_to_all(dist.all_gather(x, "ranks", axis=-1), "ranks", 0, 1)
        z = dist.reduce_scatter(dist.permute(y, "ranks", [(0, 1)]), "ranks", 1) + dist.axis_index("ranks")
        return dist.all_reduce(dist.broadcast(dist.pcast(z, "ranks"), "ranks"), "ranks", "max")

    with dist.Mesh(ranks=2):
        return wg.graph(f)(wg.spec((2, 4)))


def test_documents() -> None:
    graph = program()
    assert 'all_to_all[over="ranks", ranks=2, split=-2, join=-1]' in str(graph)
    assert wg.Graph.parse(str(graph)) == graph == wg.Graph.from_json(graph.to_json())
    assert "all_to_all" in graph.to_svg()


@pytest.mark.parametrize("name", CASES)
def test_vmap(name: str) -> None:
    fn, of_one, _ = CASES[name]
    xs = [values("data", (6, 6), of_one, seed) for seed in (1, 2)]

    def run() -> bool:
        x = wg.stack([wg.tensor(by_rank(v)) for v in xs])
        mapped = wg.vmap(lambda x: fn(x, "data"))(x)
        return bool(wg.allclose(mapped, wg.stack([fn(x[0], "data"), fn(x[1], "data")])))

    assert all(dist.simulate(MESH).run(run))


def test_constants_inside_transforms() -> None:
    """Ranks meet when a traced function runs: once, and not while it is traced."""

    def run() -> list[float]:
        f = lambda x: x * dist.all_reduce(wg.ones(()) + dist.axis_index("ranks"), "ranks")
        x = wg.tensor([1.0, 2.0])
        mapped, (gradient,) = wg.vmap(f)(x), wg.vjp(f, x)[1](wg.ones(2))
        scanned = wg.scan(lambda c, row: (c + f(row), c), wg.zeros(()), x)[0]
        return [*mapped.tolist(), *gradient.tolist(), float(scanned), float(wg.jit(f)(x)[0])]

    assert dist.simulate(2).run(run) == [[3.0, 6.0, 3.0, 3.0, 9.0, 3.0]] * 2


def test_compiled() -> None:
    f = wg.jit(lambda x: dist.all_reduce(wg.exp(x) * dist.axis_index("ranks"), "ranks") + 1)
    found = dist.simulate(3).run(lambda: [f(wg.zeros(2)).tolist() for _ in range(7)])
    assert found == [[[4.0, 4.0]] * 7] * 3


def test_constants_are_not_folded() -> None:
    with dist.Mesh(ranks=2):
        graph = wg.graph(lambda x: x + dist.all_reduce(wg.ones(3), "ranks"))(wg.spec((3,)))
    assert wg.passes.fold(graph).find("all_reduce")


def test_each_rank_draws_as_a_process_of_its_own() -> None:
    wg.manual_seed(3)
    alone = wg.rand(4).tolist()
    after = wg.rand(1).tolist()
    wg.manual_seed(3)
    found = dist.simulate(3).run(lambda: (wg.rand(4).tolist(), dist.all_reduce(1, "ranks"))[0])
    assert found == [alone] * 3
    assert wg.rand(1).tolist() == after


def here(e: Any) -> str:
    first = str(e.value).splitlines()[0]
    assert os.path.basename(__file__) in first
    return first


def test_ranks_that_differ_are_told() -> None:
    def other_shape() -> None:
        dist.all_reduce(wg.ones(3 + int(dist.axis_index("ranks"))), "ranks")

    def another() -> None:
        (dist.all_reduce if int(dist.axis_index("ranks")) else dist.all_gather)(wg.ones(3), "ranks")

    def one_stops() -> None:
        if int(dist.axis_index("ranks")) == 1:
            dist.all_reduce(wg.ones(3), "ranks")

    def crossed() -> None:
        for over in ("data", "model") if int(dist.axis_index("data")) else ("model", "data"):
            dist.all_reduce(wg.ones(3), over)
        if int(dist.axis_index("model")):
            dist.all_reduce(wg.ones(3), "model")

    for fn, words in (
        (other_shape, r"rank 0 calls all_reduce\(\(3,\) float32.* rank 1 calls all_reduce\(\(4,\) float32"),
        (another, "rank 0 calls all_gather.* rank 1 calls all_reduce"),
        (one_stops, "rank 1 waits in all_reduce.*, and rank 0 has ended"),
    ):
        with pytest.raises(wg.GraphError, match=words) as caught:
            dist.simulate(2).run(fn)
        here(caught)
    with pytest.raises(wg.GraphError, match=r"rank 1 waits in all_reduce.*over='model'.* and rank 0 has ended"):
        dist.simulate(dist.Mesh(data=2, model=2)).run(crossed)


def test_an_exception_ends_all_ranks() -> None:
    def run() -> None:
        if int(dist.axis_index("ranks")) == 1:
            raise ZeroDivisionError("here")
        dist.all_reduce(wg.ones(3), "ranks")

    with pytest.raises(ZeroDivisionError, match="here") as caught:
        dist.simulate(3).run(run)
    assert caught.value.__notes__ == ["raised on rank 1"]


def test_what_is_refused() -> None:
    with pytest.raises(wg.GraphError, match="a collective where there is no mesh") as caught:
        dist.all_reduce(wg.ones(3), "data")
    here(caught)
    with MESH:
        with pytest.raises(wg.GraphError, match="an axis 'pipe' of Mesh"):
            dist.all_reduce(wg.ones(3), "pipe")
        with pytest.raises(wg.GraphError, match="all_reduce over 'data', an axis of 2 ranks, runs where there are no"):
            dist.all_reduce(wg.ones(3), "data")
        for fn, words in (
            (
                lambda x: dist.reduce_scatter(x, "data"),
                r"reduce_scatter of \(3, 4\) float32 along axis -2.*3 is no mult",
            ),
            (lambda x: dist.all_to_all(x, "model", 1, 0), r"all_to_all of \(3, 4\).*4 is no multiple of 3 ranks"),
            (lambda x: dist.permute(x, "data", [(0, 1), (1, 1)]), "at most once"),
            (lambda x: dist.permute(x, "data", [(0, 2)]), "at most once"),
            (lambda x: dist.broadcast(x, "data", 2), "from rank 2 of 2"),
        ):
            with pytest.raises(wg.ShapeError, match=words) as error:
                wg.graph(fn)(wg.spec((3, 4)))
            here(error)
    with pytest.raises(wg.GraphError, match="op='product'"):
        dist.simulate(1).run(lambda: dist.all_reduce(wg.ones(3), "ranks", "product"))
    with pytest.raises(wg.DTypeError):
        dist.simulate(2).run(lambda: dist.all_reduce(wg.ones(3, dtype=wg.bool), "ranks"))
    for axes in ({}, {"data": 0}, {"data": True}, {"a b": 2}):
        with pytest.raises(wg.GraphError, match="a mesh"):
            dist.Mesh(axes)
    with pytest.raises(wg.GraphError, match="of 6 ranks, in a job of 2"):
        dist.simulate(2).run(lambda: MESH.__enter__())
