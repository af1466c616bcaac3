"""Arguments by name, and defaults: of steps, of functions on whole values and of one rank's."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
from wengert import distribute as dist
from wengert import nn

MESH = dist.Mesh(data=2)
X, Y = wg.arange(8.0).reshape(4, 2), wg.ones(4, 2)


def weighted(x: Any, y: Any = None, scale: float = 1.0) -> Any:
    found = x.sum() if y is None else (x * y).sum()
    return found * scale


def by_jit(fn: Any = weighted, in_specs: Any = ("data", "data", None)) -> Any:
    return dist.jit(fn, mesh=MESH, in_specs=in_specs)


def by_partition(fn: Any = weighted, in_specs: Any = ("data", "data", None)) -> Any:
    return dist.partition(fn, MESH, in_specs)


def by_shard_map(fn: Any = weighted, in_specs: Any = ("data", "data", None)) -> Any:
    def on_a_rank(*args: Any, **kwargs: Any) -> Any:
        return dist.all_reduce(fn(*args, **kwargs), "data")

    functools.update_wrapper(on_a_rank, fn if hasattr(fn, "__name__") else weighted)
    on_a_rank.__wrapped__ = fn  # type: ignore[attr-defined]
    return dist.shard_map(on_a_rank, MESH, in_specs, None)


MAKERS = pytest.mark.parametrize("make", [by_jit, by_partition, by_shard_map])
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X, Y, 3.0), {}),
    ((X, Y), {"scale": 3.0}),
    ((X,), {"scale": 3.0, "y": Y}),
    ((), {"scale": 3.0, "x": X, "y": Y}),
    ((X,), {"scale": 3.0}),
    ((X, None), {"scale": 3.0}),
    ((), {"x": X, "y": None}),
    ((X,), {}),
    ((X, Y), {}),
    ((X,), {"y": Y}),
]


@MAKERS
@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_a_call_means_what_it_means_in_python(make: Callable[..., Any], args: Any, kwargs: Any) -> None:
    assert float(make()(*args, **kwargs)) == float(weighted(*args, **kwargs))


def test_equal_calls_are_one_program() -> None:
    step = by_jit()
    for args, kwargs in CALLS[:4]:
        step(*args, **kwargs)
    assert step.cache_info() == (1, 1, 1)
    step(x=X)
    assert step.cache_info().programs == 2
    f = by_partition()
    assert f.lower(X, Y, scale=1.0) is f.lower(X, scale=1.0, y=Y) is f.lower(X, Y)
    assert step.lowered(wg.spec((4, 2)), y=wg.spec((4, 2))) is step.partitions[-1]
    assert step.lower(x=X).graph.structural_hash == step.lower(X).graph.structural_hash


@MAKERS
def test_pytrees(make: Callable[..., Any]) -> None:
    def f(batch: Any, options: Any = ()) -> Any:
        return (batch["x"] * batch["y"][0]).sum() + (options["bias"].sum() if options else 0.0)

    g = make(f, ({"x": "data", "y": ["data"]}, None))
    batch = {"x": X, "y": [Y]}
    assert float(g(batch=batch)) == 28
    assert float(g(options={}, batch=batch)) == 28
    assert float(by_jit(f, ({"x": "data", "y": ["data"]}, None))(options={"bias": Y}, batch=batch)) == 36


def test_a_training_step_and_its_trace() -> None:
    losses = []
    for named in (False, True):
        wg.manual_seed(0)
        model = nn.Linear(2, 1)
        opt = wg.optim.Adam(model.parameters(), lr=0.1)

        def step(x: Any, y: Any, model: Any = model, opt: Any = opt) -> Any:
            loss = ((model(x) - y[:, :1]) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss

        f = dist.jit(step, mesh=MESH, in_specs=("data", "data"))
        f.lowered(y=Y, x=X)
        losses.append([float(f(y=Y, x=X) if named else f(X, Y)) for _ in range(3)])
        assert f.cache_info().programs == 1
    assert losses[0] == losses[1]


def test_a_pipeline_cuts_what_is_given_by_name() -> None:
    def loss(w: Any, x: Any, scale: float = 2.0) -> Any:
        return (wg.tanh(x @ w).sum(1) * scale).mean()

    w = wg.ones(2, 2)
    pipeline = dist.Pipeline("data", 2, batch=(None, 0, None))
    f = dist.partition(loss, MESH, (None, None, None), pipeline=pipeline)
    wanted = float(loss(w, X))
    assert float(f(x=X, w=w)) == pytest.approx(wanted)
    assert float(f(w, X)) == pytest.approx(wanted)


def test_methods_and_partial_functions() -> None:
    class Model:
        def loss(self, x: Any, *, scale: float = 1.0) -> Any:
            return x.sum() * scale

    assert float(by_jit(Model().loss, ("data",))(x=X)) == 28
    assert float(by_jit(functools.partial(weighted, scale=2.0), ("data", "data"))(y=Y, x=X)) == 56
    assert float(pickle.loads(pickle.dumps(by_partition()))(y=Y, x=X)) == 28


@MAKERS
@pytest.mark.parametrize(
    ("fn", "call", "told"),
    [
        (weighted, lambda f: f(X, Y, sclae=1.0), "unexpected keyword argument 'sclae'"),
        (weighted, lambda f: f(X, x=X), "multiple values for argument 'x'"),
        (weighted, lambda f: f(y=X), "missing a required argument: 'x'"),
        (lambda x, *, y: x, lambda f: f(X, y=Y), "y by name, which has no position"),
        (lambda x, **options: x, lambda f: f(X, a=Y, b=Y), "a, b by name, which have no position"),
        (lambda x, /, y=None: x, lambda f: f(x=X), "x"),
        (weighted, lambda f: f(X, Y, 1.0, 2.0), "too many positional arguments"),
        (lambda x, *more: x, lambda f: f(X, Y, X, Y), "in_specs has 3 entries for 4 arguments"),
    ],
)
def test_what_is_refused(make: Callable[..., Any], fn: Any, call: Any, told: str) -> None:
    with pytest.raises(wg.GraphError) as caught:
        call(make(fn))
    assert told in str(caught.value)


def test_functions_that_tell_no_signature() -> None:
    f = by_jit(max, ("data",))
    with pytest.raises(wg.GraphError, match="key by name, which has no position"):
        f(X, key=abs)
