"""The autocast of a graph is the graph that tracing under an autocast gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.passes import autocast, cse, dce

X, W, B = wg.spec((4, 3)), wg.spec((3, 2)), wg.spec((2,))


def loop(x: Any, w: Any, b: Any) -> Any:
    return wg.scan(lambda c, row: (c + (row @ w), row * 2.0), wg.zeros(2), x)


def written(x: Any, b: Any) -> Any:
    x[0] = b
    return x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "affine": lambda x, w, b: wg.exp(x @ w + b),
    "literals": lambda x, w, b: wg.relu(x @ w) * 2.5 + 1.0 - (x @ w) ** 2,
    "softmax": lambda x, w, b: (x @ w).softmax(-1) * b,
    "linear": lambda x, w, b: wg.nn.functional.linear(x, w.T, b).gelu().sum(-1),
    "several results": lambda x, w, b: (x @ w).sort(-1),
    "joined": lambda x, w, b: wg.concat([x @ w, wg.zeros(4, 1) + b[:1]], axis=1),
    "written": lambda x, w, b: written(x @ w, b),
    "einsum": lambda x, w, b: wg.einsum("ij,jk->ki", x, w).max(0),
    "a cast of its own": lambda x, w, b: (x @ w).astype("float32") + b,
    "integers": lambda x, w, b: wg.where((x @ w) > 0, x @ w, b),
    "float64": lambda x, w, b: x.double() @ w.double(),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_traced(name: str, dtype: str) -> None:
    fn = FUNCTIONS[name]
    plain, traced = wg.graph(fn)(X, W, B), wg.graph(wg.autocast(dtype)(fn))(X, W, B)
    made = autocast(plain, dtype)
    assert str(dce(cse(made))) == str(dce(cse(traced))).replace("graph wrapper", "graph")
    assert autocast(made, dtype) == made
    rng = np.random.default_rng(0)
    feeds = [rng.normal(size=s.shape).astype("float32") for s in (X, W, B)]
    found, expected = wg.tree.leaves(made(*feeds)), wg.tree.leaves(traced(*feeds))
    assert [f.spec for f in found] == [e.spec for e in expected]
    assert all(np.array_equal(f.numpy(), e.numpy()) for f, e in zip(found, expected, strict=True))


def test_loops_keep_what_they_carry() -> None:
    graph = wg.graph(loop)(X, W, B)
    made = autocast(graph, "float16")
    assert [n.spec for n in made.outputs] == [n.spec for n in graph.outputs]
    assert "f16" in made.text()
    assert "f16" not in graph.text()
    rng = np.random.default_rng(0)
    feeds = [rng.normal(size=s.shape).astype("float32") for s in (X, W, B)]
    for found, expected in zip(made(*feeds), graph(*feeds), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0.02, atol=0.02)


def test_a_rule_of_ones_own_keeps_its_arguments() -> None:
    @wg.custom_vjp
    def twice(x: Any) -> Any:
        return x * 2.0

    twice.defvjp(lambda x: (x * 2.0, None), lambda saved, ct: (ct * 2.0,))
    made = autocast(wg.graph(lambda x, w, b: twice(x @ w) + b)(X, W, B), "float16")
    assert [n.spec.dtype.name for n in made.nodes if n.op.name not in ("cast", "matmul")][-1] == "float32"


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(wg.DTypeError, match="autocast to float64"):
        autocast(wg.graph(FUNCTIONS["affine"])(X, W, B), "float64")
