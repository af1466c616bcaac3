"""Ranks that begin to differ in the middle of a run, and what Python code on a mesh may not ask for."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import diverging
import small_networks
import wengert as wg
from wengert import distribute as dist
from wengert import nn
from wengert.distribute.engines import agreement

MESH = dist.Mesh(data=2)


@pytest.mark.parametrize("kind", diverging.KINDS)
def test_ranks_that_begin_to_differ_are_told(kind: str) -> None:
    with pytest.raises(wg.GraphError, match=diverging.WORDS[kind]) as caught:
        dist.run(diverging.diverge, 2, kind, engine="simulate")
    assert "diverging.py:" in str(caught.value).splitlines()[0]


def test_ranks_that_do_not_differ_go_on() -> None:
    assert len(dist.run(diverging.diverge, 2, "", engine="simulate")[0]) == 10


def test_state_that_one_rank_writes_to_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells of it but its bits: it is found where state is compared too."""
    monkeypatch.setattr(agreement, "EVERY", 4)

    def train() -> int:
        wg.manual_seed(0)
        model = nn.Linear(8, 8)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        step = small_networks.training(model, optimizer)

        compiled = dist.jit(step, mesh=dist.Mesh(data=2), in_specs=("data",))
        for i in range(10):
            if i == 5 and dist.rank():
                model.weight._array[0, 0] += 1.0
            compiled(wg.ones(8, 8))
            done.append(i)
        return 0

    done: list[int] = []
    with pytest.raises(wg.GraphError, match=r"model.weight, \(8, 8\) float32, is another one on rank 1"):
        dist.run(train, 2, engine="simulate")
    assert max(done) <= 7


def test_equal_values_that_are_news_to_one_rank_alone() -> None:
    """A digest that differs is no error by itself: the values decide."""

    def train() -> list[float]:
        wg.manual_seed(0)
        model = nn.Linear(8, 8)

        def step(x: Any) -> Any:
            loss = (model(x) ** 2).mean()
            with wg.no_grad():
                model.weight.mul_(0.9)
            return loss

        compiled = dist.jit(step, mesh=dist.Mesh(data=2), in_specs=("data",))
        found = []
        for _ in range(4):
            found.append(float(compiled(wg.ones(8, 8))))
            if dist.rank():
                model.weight._data = model.weight._array.copy()
        return found

    first, second = dist.run(train, 2, engine="simulate")
    assert first == second


def test_checksums_see_one_bit_and_the_order() -> None:
    x = np.random.default_rng(0).normal(size=(257, 33))
    own = agreement._checksum(x)
    for change in range(20):
        y = x.copy()
        y.reshape(-1).view(np.uint8)[change * 3391] ^= 1
        assert agreement._checksum(y) != own
    for other in (x[::-1], np.roll(x, 1), x[:, ::-1]):
        assert agreement._checksum(other) != own
    assert agreement._checksum(np.asfortranarray(x)) == own
    for dtype in ("bool", "int8", "float16", "complex64"):
        for shape in ((), (0, 3), (5,), (100, 7)):
            agreement._checksum(np.ones(shape, dtype))
    odd = np.zeros(1001, np.uint8)
    odd[-1] = 1
    assert agreement._checksum(odd) != agreement._checksum(np.zeros(1001, np.uint8))


def refused(words: str, fn: Any, kind: type[Exception] = wg.GraphError) -> None:
    with pytest.raises(kind, match=words) as caught:
        fn()
    assert os.path.basename(__file__) in str(caught.value).splitlines()[0]


def test_the_number_of_a_rank_is_no_part_of_a_program_for_all() -> None:
    x = wg.ones(4)
    on_a_rank = dist.shard_map(lambda x: x * dist.rank(), MESH, ("data",), "data")
    refused(r"rank\(\) inside a program that all ranks of Mesh\(data=2\) run", lambda: on_a_rank(x), wg.TraceError)
    with pytest.raises(wg.TraceError, match=r"A rank's place is wg.distribute.axis_index\('data'\)"):
        on_a_rank(x)
    refused(r"rank\(\) inside", lambda: dist.partition(lambda x: x * dist.rank(), MESH, ("data",))(x), wg.TraceError)
    refused(
        r"rank\(\) inside", lambda: dist.jit(lambda x: x * dist.rank(), mesh=MESH, in_specs=("data",))(x), wg.TraceError
    )
    refused(
        r"rank\(\) inside",
        lambda: wg.grad(lambda x: dist.partition(lambda x: (x * dist.rank()).sum(), MESH, ("data",))(x))(x),
        wg.TraceError,
    )
    shared = wg.jit(lambda x: x * dist.rank())
    refused(
        r"rank\(\) inside a compiled function, in a simulation",
        lambda: dist.simulate(2).run(lambda: shared(x)),
        wg.TraceError,
    )
    assert dist.rank() == 0
    assert dist.simulate(2).run(dist.rank) == [0, 1]


def test_the_number_of_ranks_is_that_of_the_mesh() -> None:
    x = wg.ones(4)
    assert dist.shard_map(lambda x: x * dist.size(), MESH, ("data",), "data")(x).whole().tolist() == [2.0] * 4
    assert dist.partition(lambda x: x * dist.size(), MESH, ("data",))(x).tolist() == [2.0] * 4
    assert dist.jit(lambda x: x * dist.size(), mesh=MESH, in_specs=("data",))(x).tolist() == [2.0] * 4
    assert dist.size() == 1


def test_collectives_in_programs_on_whole_values() -> None:
    x = wg.ones(4, 4)
    programs: list[Any] = [
        lambda x: x * dist.axis_index("data"),
        lambda x: dist.all_reduce(x, "data"),
        lambda x: wg.scan(lambda c, row: (c + dist.all_reduce(row, "data"), c), wg.zeros(4), x)[0],
    ]
    for fn in programs:
        for made in (dist.partition(fn, MESH, (None,)), dist.jit(fn, mesh=MESH, in_specs=(None,))):
            with MESH, pytest.raises(wg.GraphError, match="over 'data' in a program on whole values") as caught:
                made(x)
            assert os.path.basename(__file__) in str(caught.value).splitlines()[0]


def test_what_is_no_mesh_and_no_placement() -> None:
    f, x, given = (lambda x: x), wg.ones(4), ("data",)
    makers: dict[str, Any] = {
        "jit": lambda mesh, specs: dist.jit(f, mesh=mesh, in_specs=specs),
        "partition": lambda mesh, specs: dist.partition(f, mesh, specs),
        "shard_map": lambda mesh, specs: dist.shard_map(f, mesh, specs, "data"),
    }
    for name, make in makers.items():
        refused(f"{name} with mesh=2", partial(make, 2, given))
        for placement in ("data", None, dist.PartitionSpec("data")):
            refused(re.escape(f"{name} with in_specs={placement!r}"), partial(make, MESH, placement))
    refused("shard with mesh=2", lambda: dist.shard(nn.Linear(2, 2), 2, fsdp="data"))  # type: ignore[arg-type]
    refused("place with mesh=2", lambda: dist.place(x, 2, "data"))  # type: ignore[arg-type]
    refused("an axis 'model' of Mesh", lambda: dist.shard(nn.Linear(3, 3), MESH, fsdp="model"))
    refused("engine='tpu'", lambda: dist.jit(f, mesh=MESH, in_specs=given, engine="tpu"))
    assert dist.jit(f, mesh=MESH, in_specs=given, engine="native")(x).tolist() == [1.0] * 4


def test_zero_where_parameters_are_in_parts_already() -> None:
    """Optimiser state has the parts of its parameter; what `zero` would do is done."""

    def losses(**given: Any) -> list[float]:
        wg.manual_seed(0)
        model = dist.shard(nn.Linear(4, 4), MESH, given.get("rules"), fsdp=given.get("fsdp"))
        optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

        step = small_networks.training(model, optimizer)

        compiled = dist.jit(step, mesh=MESH, in_specs=("data",), zero=given.get("zero"))
        return [float(compiled(wg.ones(4, 4))) for _ in range(3)]

    alone = losses()
    for given in ({"fsdp": "data", "zero": "data"}, {"rules": {"weight": "data"}, "zero": "data", "fsdp": "data"}):
        np.testing.assert_allclose(losses(**given), alone, rtol=1e-5)


def test_an_error_in_a_part_says_whose_it_is() -> None:
    f = dist.partition(lambda x, i: x[i], MESH, (None, "data"), "data")
    for call in (
        lambda: f(wg.ones(4), wg.tensor([0, 1, 2, 9])),
        lambda: dist.simulate(MESH).run(lambda: f(wg.ones(4), wg.tensor([0, 1, 2, 9]))),
    ):
        with pytest.raises(wg.RangeError, match=r"element 1 of an index of shape \(2,\)") as caught:
            call()
        assert any("raised on rank 1 of Mesh(data=2): positions" in n and "i[2:4]" in n for n in caught.value.__notes__)
