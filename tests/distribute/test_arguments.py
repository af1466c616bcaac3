"""Arguments of the public functions that are of a wrong type, negative, NaN, or name an axis that the mesh lacks."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn

MESH, PIPE = dist.Mesh(data=2), dist.Mesh(pipe=2)
X = wg.ones(6, 4)
LINEAR = nn.Linear(4, 4)
# None of these is a number of anything, a name that is known, a mesh, a function, or a path.
WRONG: tuple[Any, ...] = (-1, 0, float("nan"), 1.5, True, None, "model", b"x", [3], {3: 3}, (3,), object())


def total(x: Any) -> Any:
    return x.sum()


def simulated(fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
    return dist.simulate(2).run(lambda: fn(X, *args, **named))


def jitted(**given: Any) -> Any:
    return dist.jit(total, **{"mesh": MESH, "in_specs": ("data",), **given})(X)


def partitioned(fn: Any = total, **given: Any) -> Any:
    return dist.partition(fn, **{"mesh": MESH, "in_specs": ("data",), **given})(X)


def mapped(fn: Any = lambda x: dist.all_reduce(x.sum(), "data"), **given: Any) -> Any:
    return dist.shard_map(fn, **{"mesh": MESH, "in_specs": ("data",), "out_specs": None, **given})(X)


def piped(**given: Any) -> Any:
    pipeline = dist.Pipeline(**{"over": "pipe", "micro": 2, **given})
    model = nn.Sequential(LINEAR, nn.Tanh(), nn.Linear(4, 4), nn.Tanh())
    return dist.jit(lambda x: model(x).sum(), mesh=PIPE, in_specs=(None,), pipeline=pipeline)(X)


def suggested(**given: Any) -> Any:
    return dist.suggest(**{"step": total, "mesh": 2, "args": (wg.spec((8, 4)),), **given})


# By argument: the call, and those of the values above that it takes.
CALLS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "axes of Mesh": (dist.Mesh, ()),
    "a size of Mesh": (lambda v: dist.Mesh(data=v), ()),
    "coordinates": (MESH.coordinates, (0,)),
    "rank": (MESH.rank, ()),
    "along": (lambda v: MESH.along(v, 0), ()),
    "size_of": (MESH.size_of, ()),
    "PartitionSpec": (dist.PartitionSpec, (None, "model")),
    **{
        f"over of {fn.__name__}": (lambda v, fn=fn, more=more: simulated(fn, v, *more), ())
        for fn, more in (
            (dist.all_reduce, ()),
            (dist.all_gather, ()),
            (dist.reduce_scatter, ()),
            (dist.own_part, ()),
            (dist.broadcast, ()),
            (dist.pcast, ()),
            (dist.permute, ([(0, 1)],)),
            (dist.all_to_all, (0, 0)),
            (lambda x, over: dist.axis_index(over), ()),
        )
    },
    **{
        f"axis of {fn.__name__}": (lambda v, fn=fn: simulated(fn, "ranks", axis=v), (-1, 0))
        for fn in (dist.all_gather, dist.reduce_scatter, dist.own_part)
    },
    "replicated": (lambda v: simulated(dist.all_gather, "ranks", replicated=v), (True,)),
    "op": (lambda v: simulated(dist.all_reduce, "ranks", v), ()),
    "root": (lambda v: simulated(dist.broadcast, "ranks", v), (0,)),
    "pairs": (lambda v: simulated(dist.permute, "ranks", v), ()),
    "a pair": (lambda v: simulated(dist.permute, "ranks", [v]), ()),
    "a target": (lambda v: simulated(dist.permute, "ranks", [(0, v)]), (0,)),
    "split": (lambda v: simulated(dist.all_to_all, "ranks", v, 0), (-1, 0)),
    "join": (lambda v: simulated(dist.all_to_all, "ranks", 0, v), (-1, 0)),
    "fn of jit": (lambda v: dist.jit(v, mesh=MESH), (None,)),
    **{
        f"{name} of jit": (lambda v, name=name: jitted(**{name: v}), taken)
        for name, taken in {
            "mesh": (),
            "in_specs": (),
            "zero": (None,),
            "sequence": (None,),
            "pipeline": (None,),
            "memory": (None,),
            "engine": (None,),
            "blocks": (None,),
        }.items()
    },
    "spill": (lambda v: jitted(memory="1GB", spill=v), (True, None, 0)),
    **{
        f"{name} of partition": (lambda v, name=name: partitioned(**{name: v}), taken)
        for name, taken in {
            "fn": (),
            "mesh": (),
            "in_specs": (),
            "out_specs": (None,),
            "gather": (),
            "pipeline": (None,),
            "engine": (None,),
            "blocks": (None,),
        }.items()
    },
    **{
        f"{name} of shard_map": (lambda v, name=name: mapped(**{name: v}), taken)
        for name, taken in {
            "fn": (),
            "mesh": (),
            "in_specs": (),
            "out_specs": (None,),
            "engine": (None,),
        }.items()
    },
    **{
        f"{name} of Pipeline": (lambda v, name=name: piped(**{name: v}), taken)
        for name, taken in {
            "over": (),
            "micro": (),
            "schedule": (),
            "laps": (),
            "stages": (None,),
            "batch": (None, 0),
        }.items()
    },
    "a stage": (lambda v: piped(stages=["0", v]), ()),
    "module": (lambda v: dist.shard(v, MESH), ()),
    "mesh of shard": (lambda v: dist.shard(LINEAR, v), ()),
    "rules": (lambda v: dist.shard(LINEAR, MESH, v), (None,)),
    "a rule": (lambda v: dist.shard(LINEAR, MESH, {"weight": v}), (None,)),
    "fsdp": (lambda v: dist.shard(LINEAR, MESH, fsdp=v), (None,)),
    "mesh of place": (lambda v: dist.place(X, v, "data"), ()),
    "spec of place": (lambda v: dist.place(X, MESH, v), (None,)),
    "ranks of simulate": (dist.simulate, ()),
    "fn of simulated ranks": (lambda v: dist.simulate(2).run(v), ()),
    "fn of run": (lambda v: dist.run(v, 2, engine="simulate"), ()),
    "n of run": (lambda v: dist.run(total, v, X, engine="simulate"), ()),
    "engine of run": (lambda v: dist.run(total, 1, X, engine=v), (None,)),
    "ranks of launch": (lambda v: dist.launch(v, __file__), ()),
    "script of launch": (lambda v: dist.launch(2, v), ()),
    "arguments of launch": (lambda v: dist.launch(2, __file__, v), ()),
    "engine of launch": (lambda v: dist.launch(2, __file__, engine=v), ()),
    "devices": (dist.cpu_devices, ()),
    **{
        f"{name} of suggest": (lambda v, name=name: suggested(**{name: v}), taken)
        for name, taken in {
            "step": (),
            "mesh": (),
            "memory": (None,),
            "cluster": (None,),
            "micro": ((3,), [3]),
        }.items()
    },
    "args of suggest": (lambda v: suggested(args=v), ((3,), [3])),
}


def is_among(value: Any, taken: tuple[Any, ...]) -> bool:
    return any(type(value) is type(t) and value == t for t in taken)


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(wg.WengertError) as found:
        call()
    assert os.path.basename(__file__) in str(found.value).splitlines()[0]


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_errors_of_the_users_line(name: str) -> None:
    call, taken = CALLS[name]
    for value in WRONG:
        if not is_among(value, taken):
            refused(lambda value=value: call(value))


@pytest.mark.parametrize("value", [v for v in WRONG if not isinstance(v, (str, bytes))])
def test_wrong_folders(value: Any) -> None:
    refused(lambda: dist.save_checkpoint(value, a=X))
    refused(lambda: dist.load_checkpoint(value))
    refused(lambda: wg.train.save_checkpoint(value, a=X))
    refused(lambda: wg.train.load_checkpoint(value))


def test_wrong_parts_of_checkpoints(tmp_path: Any) -> None:
    for save in (dist.save_checkpoint, wg.train.save_checkpoint):
        save(tmp_path, step=np.int64(3), a=X)
        for value in WRONG:
            if not is_among(value, (-1, 0, None)):
                refused(lambda value=value, save=save: save(tmp_path, step=value, a=X))
            refused(lambda value=value, save=save: save(tmp_path, keep=value, a=X))
            refused(lambda value=value, save=save: save(tmp_path, random=value, a=X))
    for value in WRONG:
        refused(lambda value=value: dist.load_checkpoint(tmp_path, mesh=value, specs={"a": "data"}))
        if value is not None:
            refused(lambda value=value: dist.load_checkpoint(tmp_path, mesh=MESH, specs=value))
            refused(lambda value=value: dist.load_checkpoint(tmp_path, mesh=MESH, specs={"a": value}))


def test_places_outside_of_a_mesh() -> None:
    for at in ({}, {"model": 0}, {"data": 2}, {"data": -1}, {"data": 0, "model": 0}, {"data": 0.5}):
        refused(lambda at=at: MESH.rank(at))
    refused(lambda: MESH.coordinates(2))
    refused(lambda: simulated(dist.broadcast, "ranks", 2))
    refused(lambda: simulated(dist.permute, "ranks", [(0, 2)]))
    refused(lambda: piped(batch=2))
    refused(lambda: piped(batch=-3))


def test_whole_numbers_of_numpy_are_numbers() -> None:
    two = np.int64(2)
    assert dist.Mesh(data=two) == MESH
    assert MESH.coordinates(np.int64(1)) == {"data": 1}
    assert repr(dist.Pipeline("pipe", two)) == "Pipeline('pipe', micro=2)"
    assert float(jitted(blocks={"data": two})) == 24
    found = simulated(dist.permute, "ranks", [(np.int64(0), np.int64(1))])
    assert [float(x.sum()) for x in found] == [0, 24]


def scaled(x: Any, by: float = 2.0, *, plus: float = 0.0) -> Any:
    return x * by + plus


def test_keywords_of_a_run_are_those_of_its_function() -> None:
    for found in (
        dist.run(scaled, 2, X, by=3.0, plus=1.0, engine="simulate"),
        dist.run(scaled, 2, x=X, by=3.0, plus=1.0, engine="simulate"),
        dist.simulate(2).run(scaled, X, by=3.0, plus=1.0),
    ):
        assert [x.tolist() for x in found] == [(X * 3 + 1).tolist()] * 2


def named_alike(fn: int, n: int, ranks: int, self: int, mesh: int, engine: str = "its own") -> Any:
    return fn, n, ranks, self, mesh, engine


def test_keywords_of_a_function_are_called_what_they_are() -> None:
    numbers = {"fn": 1, "n": 2, "ranks": 3, "self": 4, "mesh": 5}
    wanted = [(1, 2, 3, 4, 5, "its own")] * 2
    assert dist.run(named_alike, 2, **numbers, engine="simulate") == wanted
    assert dist.simulate(2).run(named_alike, **numbers) == wanted
    given = functools.partial(named_alike, engine="given")
    assert dist.run(given, 2, **numbers, engine="simulate") == [(1, 2, 3, 4, 5, "given")] * 2
    with pytest.raises(wg.GraphError, match=r"(?s)engine='fast'.*own: functools.partial\(named_alike, engine="):
        dist.run(named_alike, 2, **numbers, engine="fast")
    with pytest.raises(wg.GraphError, match=r"(?s)missing a required argument: 'engine'.*functools.partial\(<lambda>"):
        dist.run(lambda engine: engine, 2, engine="simulate")
    with pytest.raises(TypeError, match="'ranks'"):
        dist.run(named_alike, n=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: dist.run(scaled, 2, X, enigne="mpi"), "run of scaled: got an unexpected keyword argument 'enigne'"),
        (lambda: dist.run(scaled, 2, scale=1.0), "run of scaled: missing a required argument: 'x'"),
        (lambda: dist.run(scaled, 2), "run of scaled: missing a required argument: 'x'"),
        (
            lambda: dist.predict(dist.jit(scaled, mesh=MESH, in_specs=("data",)), args=(X, 2.0, 3.0)),
            "predict of scaled: too many positional arguments",
        ),
        (
            lambda: dist.predict(dist.partition(lambda x, y: x + y, MESH, ("data", "data")), args=(X,)),
            "predict of <lambda>: missing a required argument: 'y'",
        ),
        (lambda: dist.suggest(lambda x, y: x + y, 2, (X,)), "suggest of <lambda>: missing a required argument: 'y'"),
    ],
)
def test_what_a_function_does_not_take_is_told_before_it_runs(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(wg.GraphError) as caught:
        call()
    assert told in str(caught.value)
    assert os.path.basename(__file__) in str(caught.value)
