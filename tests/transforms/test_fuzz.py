"""Random smooth and kinked programs over the op table: every way of running them gives one answer.

The programs are data (a list of choices), so that Hypothesis can shrink the one that fails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.tensor import Tensor

F64 = wg.float64
SEEDS = 200
SHAPES = ((), (1,), (3,), (2, 3), (1, 3), (2, 1), (0, 3), (2, 2, 2), (1, 1, 4))

# A step takes the values so far and a source of choices, and gives one more value, or None where it
# does not fit. `smooth` ones have every derivative everywhere and tame values.
Choose = Callable[[int], int]
Step = Callable[[Sequence[Tensor], Choose], Any]


def _unary(fn: Callable[[Tensor], Any]) -> Step:
    return lambda pool, choose: fn(pool[choose(len(pool))])


def _binary(fn: Callable[[Tensor, Tensor], Any]) -> Step:
    def step(pool: Sequence[Tensor], choose: Choose) -> Any:
        x, y = pool[choose(len(pool))], pool[choose(len(pool))]
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return None
        return fn(x, y)

    return step


def _over_axis(fn: Callable[[Tensor, int], Any], empty: bool = True) -> Step:
    def step(pool: Sequence[Tensor], choose: Choose) -> Any:
        x = pool[choose(len(pool))]
        axis = choose(max(2 * x.ndim, 1)) - x.ndim
        if x.ndim == 0 or (not empty and x.shape[axis] == 0):
            return None
        return fn(x, axis)

    return step


def _contract(pool: Sequence[Tensor], choose: Choose) -> Any:
    x, y = pool[choose(len(pool))], pool[choose(len(pool))]
    if x.ndim == 0 or y.ndim == 0:
        return None
    if x.shape[-1] == y.shape[-2 if y.ndim > 1 else -1]:
        return x @ y if x.ndim <= 2 and y.ndim <= 2 else None
    return wg.tensordot(x, y, axes=0) if x.size * y.size <= 36 else None


def _einsum(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    if x.ndim != 2:
        return None
    return wg.einsum(("ij,ij->i", "ij,ij->j", "ij,ij->", "ij,kj->ik")[choose(4)], x, x * 0.5)


def _reshape(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    return wg.reshape(x, ((-1,), (x.size, 1), (1, *x.shape), x.shape[::-1])[choose(4)] if x.size else x.shape)


def _permute(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    axes = list(range(x.ndim))
    return wg.permute_dims(x, tuple(axes.pop(choose(len(axes))) for _ in range(x.ndim)))


def _slice(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    choices: tuple[Any, ...] = (slice(None), slice(1, None), slice(None, None, -1), slice(None, None, 2), None, ...)
    key = [choices[choose(6)] for _ in range(x.ndim)]
    if key.count(...) > 1:
        return None
    return x[tuple(key)]


def _take(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    if x.ndim == 0 or x.shape[0] == 0:
        return None
    picked = [choose(x.shape[0]) for _ in range(1 + choose(3))]
    return x[wg.asarray(np.array(picked))] if choose(2) else wg.take(x, wg.asarray(np.array(picked)), axis=0)


def _write(pool: Sequence[Tensor], choose: Choose) -> Any:
    x, v = pool[choose(len(pool))], pool[choose(len(pool))]
    if x.ndim == 0 or x.shape[0] == 0 or v.shape not in ((), x.shape[1:]):
        return None
    out = x * 1.0
    out[choose(x.shape[0])] = v
    return out


def _join(pool: Sequence[Tensor], choose: Choose) -> Any:
    x, y = pool[choose(len(pool))], pool[choose(len(pool))]
    if x.shape != y.shape:
        return None
    if x.ndim and choose(2):
        return wg.concat([x, y, x], axis=choose(x.ndim))
    return wg.stack([x, y], axis=choose(x.ndim + 1) - x.ndim - 1)


def _halves(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    if x.ndim == 0 or x.shape[0] < 2:
        return None
    return wg.split(x, [1, x.shape[0] - 1], axis=0)[choose(2)]


def _repeat(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    if x.ndim == 0 or x.size > 12:
        return None
    return (wg.repeat(x, 2, axis=-1), wg.tile(x, (2,)), wg.roll(x, 1, axis=0), wg.pad(x, [(1, 0)] * x.ndim))[choose(4)]


def _triangle(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    if x.ndim < 2:
        return None
    return (wg.tril(x), wg.triu(x, k=1), wg.matrix_transpose(x), wg.diagonal(x))[choose(4)]


def _scalar(pool: Sequence[Tensor], choose: Choose) -> Any:
    x = pool[choose(len(pool))]
    return (x * 2, 0.5 * x, x - 1, 1.5 - x, x / 3, 1 / (x * x + 1), x**2, -x)[choose(8)]


SMOOTH: tuple[Step, ...] = (
    _unary(wg.sin),
    _unary(wg.tanh),
    _unary(wg.sigmoid),
    _unary(lambda x: wg.exp(wg.tanh(x))),
    _unary(lambda x: wg.log1p(wg.square(x))),
    _unary(lambda x: wg.sqrt(x * x + 0.5)),
    _unary(wg.atan),
    _unary(wg.special.erf),
    _unary(lambda x: x.sum()),
    _binary(lambda x, y: x + y),
    _binary(lambda x, y: x - y),
    _binary(lambda x, y: x * y),
    _binary(lambda x, y: x / (1.0 + y * y)),
    _binary(lambda x, y: wg.hypot(x + 3.0, wg.sin(y))),
    _binary(lambda x, y: wg.logaddexp(wg.sin(x), y)),
    _binary(lambda x, y: wg.atan2(wg.sin(x), 2.0 + wg.cos(y))),
    _over_axis(lambda x, a: wg.sum(x, axis=a)),
    _over_axis(lambda x, a: wg.mean(x, axis=a, keepdims=True), empty=False),
    _over_axis(lambda x, a: wg.prod(x, axis=a)),
    _over_axis(lambda x, a: wg.var(x, axis=a), empty=False),
    _over_axis(lambda x, a: wg.logsumexp(x, axis=a, keepdims=True), empty=False),
    _over_axis(lambda x, a: wg.cumulative_sum(x, axis=a)),
    _over_axis(lambda x, a: wg.cumulative_prod(x, axis=a)),
    _over_axis(lambda x, a: wg.flip(x, axis=a)),
    _over_axis(lambda x, a: wg.expand_dims(x, axis=a) if x.ndim < 3 else None),
    _over_axis(lambda x, a: wg.squeeze(x, axis=a) if x.shape[a] == 1 else None),
    _over_axis(
        lambda x, a: wg.std(x + wg.arange(x.size, dtype=F64).reshape(x.shape), axis=a) if x.shape[a] > 1 else None
    ),
    _over_axis(lambda x, a: wg.linalg.vector_norm(x + 5.0, axis=a), empty=False),
    _contract,
    _einsum,
    _reshape,
    _permute,
    _slice,
    _take,
    _write,
    _join,
    _halves,
    _repeat,
    _triangle,
    _scalar,
)

# Kinks, poles, roundings and values that are detached.
KINKED: tuple[Step, ...] = (
    *SMOOTH,
    _unary(lambda x: x.detach() * x),
    _unary(wg.relu),
    _unary(wg.abs),
    _unary(lambda x: wg.where(x > 0.1, wg.log(wg.where(x > 0.1, x, 1.0)), x * 2.0)),
    _unary(lambda x: wg.where(x > 0.0, wg.sqrt(x), 0.0)),
    _unary(lambda x: wg.clip(x, -0.5, 0.5)),
    _unary(lambda x: wg.astype(x > 0.0, F64) * x),
    _unary(wg.round),
    _unary(wg.log),
    _unary(lambda x: 1.0 / x),
    _binary(wg.maximum),
    _binary(wg.minimum),
    _binary(lambda x, y: wg.where(x < y, x, y)),
    _binary(lambda x, y: wg.pow(wg.abs(x), y)),
    _over_axis(lambda x, a: wg.max(x, axis=a), empty=False),
    _over_axis(lambda x, a: wg.min(x, axis=a, keepdims=True), empty=False),
    _over_axis(lambda x, a: wg.sort(x, axis=a)),
    _over_axis(lambda x, a: wg.top_k(x, 1, axis=a)[0], empty=False),
    _over_axis(lambda x, a: wg.take_along_axis(x, wg.argsort(x, axis=a), axis=a)),
    _over_axis(lambda x, a: wg.linalg.vector_norm(x, axis=a), empty=False),
)


@dataclass(frozen=True)
class Program:
    """A program as numbers: shapes of its inputs, then which step with which choices."""

    shapes: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, tuple[int, ...]], ...]
    kinked: bool = False

    def __call__(self, *inputs: Tensor) -> Tensor:
        """The sum of a few of the last values, so that everything has a gradient."""
        pool = list(inputs)
        table = KINKED if self.kinked else SMOOTH
        for which, numbers in self.steps:
            left = iter(numbers)

            def choose(n: int, left: Any = left) -> int:
                return next(left, 0) % n

            made = table[which % len(table)](pool, choose)
            if made is not None and made.size <= 64:
                pool.append(made)
        total = wg.asarray(np.float64(0.0))
        for value in pool[-4:]:
            total = total + (value * value * 0.25 + value).sum()
        return total

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(len(self.steps))
        return [rng.uniform(-1.2, 1.2, s) for s in self.shapes]


def seeded(seed: int, kinked: bool) -> Program:
    rng = np.random.default_rng(seed)
    shapes = tuple(SHAPES[i] for i in rng.integers(len(SHAPES), size=rng.integers(1, 4)))
    steps = tuple(
        (int(rng.integers(1000)), tuple(rng.integers(100, size=8).tolist())) for _ in range(rng.integers(1, 20))
    )
    return Program(shapes, steps, kinked)


def programs(kinked: bool) -> st.SearchStrategy[Program]:
    step = st.tuples(
        st.integers(0, len(KINKED if kinked else SMOOTH) - 1), st.lists(st.integers(0, 99), max_size=8).map(tuple)
    )
    return st.builds(
        Program,
        st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3).map(tuple),
        st.lists(step, min_size=1, max_size=12).map(tuple),
        st.just(kinked),
    )


def same(a: Any, b: Any, what: str, rtol: float = 1e-9) -> None:
    a, b = (np.asarray(t._array if isinstance(t, Tensor) else t) for t in (a, b))
    assert (a.shape, a.dtype) == (b.shape, b.dtype), what
    # Where values grow large (products of products), so do differences of rounding.
    scale = np.max(np.abs(b[np.isfinite(b)]), initial=1.0)
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-11 * scale, err_msg=what)


def leaves(program: Program) -> list[Tensor]:
    return [wg.tensor(a, requires_grad=True) for a in program.arrays()]


def check_values(program: Program) -> None:
    """Eager, traced, on threads, printed and parsed, as JSON, expanded: one value."""
    inputs = leaves(program)
    eager = program(*inputs)
    graph = wg.graph(program)(*(wg.spec(s, F64) for s in program.shapes))
    values = [t.detach() for t in inputs]
    same(program(*values), eager, "untracked")
    same(graph(*values), eager, "traced")
    same(graph.run(values, workers=2), eager, "threads")
    same(graph.expand()(*values), eager, "expanded")
    parsed = wg.Graph.parse(str(graph))
    assert parsed == graph
    assert str(parsed) == str(graph)
    same(parsed(*values), eager, "parsed")
    loaded = wg.Graph.from_json(graph.to_json())
    assert loaded == graph
    assert loaded.structural_hash == graph.structural_hash
    if eager.requires_grad and not program.kinked:
        # What is not differentiable is not recorded in eager execution: a constant there.
        assert wg.Graph.of(eager, inputs=inputs) == graph
        assert wg.Graph.of(graph(*inputs), inputs=inputs) == graph


def check_gradients(program: Program) -> None:
    """Plain, recorded, traced, of the traced graph called, of it parsed: one gradient."""
    inputs = leaves(program)
    out = program(*inputs)
    if not out.requires_grad:
        return
    plain = wg.autograd.grad(out, inputs, allow_unused=True, retain_graph=True)
    recorded = wg.autograd.grad(out, inputs, allow_unused=True, create_graph=True)
    argnums = tuple(range(len(inputs)))
    values = [t.detach() for t in inputs]
    functional = wg.grad(program, argnums)(*values)
    graph = wg.graph(wg.grad(program, argnums))(*(wg.spec(s, F64) for s in program.shapes))
    traced = graph(*values)
    threads = graph.run(values, workers=2)
    expanded = graph.expand()(*values)
    parsed = wg.Graph.parse(str(graph))(*values)
    parsed = parsed if isinstance(parsed, tuple) else (parsed,)
    forward = wg.graph(program)(*(wg.spec(s, F64) for s in program.shapes))
    replayed = wg.autograd.grad(forward(*inputs), inputs, allow_unused=True)
    for i, x in enumerate(inputs):
        zero = np.zeros(x.shape)
        expected = zero if plain[i] is None else plain[i]
        same(zero if recorded[i] is None else recorded[i], expected, f"recorded, input {i}")
        same(functional[i], expected, f"wg.grad, input {i}")
        same(traced[i], expected, f"traced, input {i}")
        same(threads[i], expected, f"threads, input {i}")
        same(expanded[i], expected, f"expanded, input {i}")
        same(parsed[i], expected, f"parsed, input {i}")
        same(zero if replayed[i] is None else replayed[i], expected, f"through the graph, input {i}")
        assert (plain[i] is None) == (recorded[i] is None)


def check_numerically(program: Program) -> None:
    """Gradient and second derivative along random directions against differences."""
    arrays = program.arrays()
    if not program(*leaves(program)).requires_grad:
        return
    # Along one direction, every program is a function of one number. Values beyond some size lose
    # the digits that differences need.
    rng = np.random.default_rng(1)
    directions = [rng.normal(size=a.shape) for a in arrays]

    def along(t: Tensor) -> Tensor:
        return program(*(wg.asarray(a) + t * wg.asarray(d) for a, d in zip(arrays, directions, strict=True)))

    zero = wg.tensor(0.0, dtype=F64)
    first = wg.grad(along)
    scale = max(abs(along(zero).item()), abs(first(zero).item()), abs(wg.grad(first)(zero).item()))
    if not math.isfinite(scale) or scale > 1e4:
        return
    wg.check_grads(along, zero, order=2, rtol=1e-4, atol=1e-6 * max(1.0, scale))


@pytest.mark.parametrize("kinked", [False, True], ids=["smooth", "kinked"])
@pytest.mark.parametrize(
    "seed", [s if s < SEEDS // 2 else pytest.param(s, marks=pytest.mark.slow) for s in range(0, SEEDS, 20)]
)
def test_seeded_programs_have_one_value_and_one_gradient(seed: int, kinked: bool) -> None:
    for s in range(seed, seed + 20):
        program = seeded(s, kinked)
        check_values(program)
        check_gradients(program)


FUZZ = settings(
    max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)


@FUZZ
@given(st.booleans().flatmap(programs))
def test_any_program_has_one_value(program: Program) -> None:
    check_values(program)


@FUZZ
@given(st.booleans().flatmap(programs))
def test_any_program_has_one_gradient(program: Program) -> None:
    check_gradients(program)


@FUZZ
@given(programs(False))
def test_smooth_programs_agree_with_differences(program: Program) -> None:
    check_numerically(program)


def test_the_programs_are_worth_something() -> None:
    """Every kind of step is taken somewhere, and most programs are of some size."""
    sizes = []
    found: set[str] = set()
    for seed in range(SEEDS):
        program = seeded(seed, kinked=True)
        graph = wg.graph(program)(*(wg.spec(s, F64) for s in program.shapes))
        sizes.append(len(graph))
        found |= {n.op.name for n in graph}
    assert np.median(sizes) > 25
    wanted = {"matvec", "einsum", "slice", "index", "slice_update", "concat", "stack", "split", "where", "max", "sort"}
    assert wanted <= found | {"index_update", "gather"}, wanted - found
    assert len(found) > 70
