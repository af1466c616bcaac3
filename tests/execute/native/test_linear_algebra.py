"""Small dense systems in native code against LAPACK's, and what happens to matrices that have no result."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph.evaluate import run

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.kernel import Kernel
from wengert.execute.native.compile import Compiled, compile_graph
from wengert.execute.native.kernels.linalg import SMALL

LA = wg.linalg
RNG = np.random.default_rng(3)
SIZES = [1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64]


def general(*shape: int, dtype: Any = np.float64) -> Any:
    x = RNG.standard_normal(shape)
    n = min(shape[-2:])
    x[..., :n, :n] += 3.0 * np.sqrt(n) * np.eye(n)[::-1]  # the pivots are far from the diagonal
    return x.astype(dtype)


def definite(*shape: int, dtype: Any = np.float64) -> Any:
    x = RNG.standard_normal(shape)
    return (x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


UNARY: dict[str, Callable[..., Any]] = {"inv": LA.inv, "det": LA.det, "slogdet": LA.slogdet, "cholesky": LA.cholesky}
BINARY: dict[str, Callable[..., Any]] = {
    "solve": LA.solve,
    "upper": lambda a, b: LA.solve_triangular(a, b, upper=True),
    "lower": lambda a, b: LA.solve_triangular(a, b, upper=False),
    "unit upper": lambda a, b: LA.solve_triangular(a, b, upper=True, unitriangular=True),
    "unit lower": lambda a, b: LA.solve_triangular(a, b, upper=False, unitriangular=True),
}


def compiled(f: Callable[..., Any], *args: Any, **options: Any) -> Compiled:
    return compile_graph(wg.graph(f)(*args), **options)


def is_native(made: Compiled) -> bool:
    return any(isinstance(s.kernel, Kernel) for s in made.plan.steps)


def compare(made: Compiled, arrays: list[Any]) -> None:
    for got, want in zip(made.run(arrays), run(made.graph, [a.copy() for a in arrays]), strict=True):
        want = np.asarray(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        tolerance = 1e-10 if want.dtype == np.float64 else 2e-3
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * np.abs(want).max(initial=1e-30))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_one_matrix(name: str, dtype: Any) -> None:
    make = definite if name == "cholesky" else general
    for n in SIZES:
        x = make(n, n, dtype=dtype)
        made = compiled(UNARY[name], x)
        assert is_native(made)
        compare(made, [x])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_systems(name: str, dtype: Any) -> None:
    for n in SIZES:
        # Triangles as they come from factorizations: others of that size are too ill-conditioned to compare.
        a = (
            general(n, n, dtype=dtype)
            if name == "solve"
            else (RNG.standard_normal((n, n)) / n + np.eye(n)).astype(dtype)
        )
        for k in (1, 5, n):
            b = RNG.standard_normal((n, k)).astype(dtype)
            made = compiled(BINARY[name], a, b)
            assert is_native(made)
            compare(made, [a, b])


@pytest.mark.parametrize("level", ["avx2", "sse2"])
def test_other_processors(level: str) -> None:
    a, b = definite(3, 6, 6), general(3, 6, 3)
    for f, args in ((LA.solve, [a, b]), (LA.cholesky, [a]), (LA.slogdet, [a]), (BINARY["lower"], [a, b])):
        compare(compiled(f, *args, target=machine.level(level)), args)
    assert "ret" in compiled(LA.solve, a, b, target=machine.level("aarch64")).asm


def test_stacks_of_any_strides() -> None:
    a, b = definite(4, 3, 5, 5), general(4, 3, 5, 2)

    def f(a: Any, b: Any) -> Any:
        turned = wg.permute_dims(a, (1, 0, 3, 2))
        return (
            LA.solve(turned, wg.permute_dims(b, (1, 0, 2, 3))),
            LA.cholesky(wg.flip(a, axis=0)),
            LA.det(a[::2, :, 1:, 1:]),
        )

    compare(compiled(f, a, b), [a, b])


def test_long_stacks_are_shared_out_and_give_the_same() -> None:
    a, b = general(3000, 6, 6), general(3000, 6, 1)
    made = compiled(LA.solve, a, b)
    before = wg.get_num_threads()
    try:
        wg.set_num_threads(1)
        alone = made.run([a, b])[0]
        wg.set_num_threads(2)
        for _ in range(5):
            np.testing.assert_array_equal(made.run([a, b])[0], alone)
    finally:
        wg.set_num_threads(before)


@pytest.mark.parametrize("name", ["solve", "inv", "cholesky", "upper"])
def test_matrices_without_a_result_raise_what_eager_raises(name: str) -> None:
    f = {**UNARY, **BINARY}[name]
    good = definite(3, 4, 4)
    args = [good] if name in UNARY else [good, general(3, 4, 2)]
    made = compiled(f, *args)
    for spoil in (0.0, np.nan):
        bad = good.copy()
        bad[1, :, 2] = bad[1, 2, :] = spoil
        given = [bad, *args[1:]]
        outcomes = []
        for call in (made.run, lambda arrays: run(made.graph, arrays)):
            try:
                outcomes.append(call(given)[0].tolist())
            except wg.linalg.LinAlgError as e:
                # The line is told where the call was.
                outcomes.append(re.sub(r"\(\S+:\d+\)", "", str(e)))
        assert repr(outcomes[0]) == repr(outcomes[1])
    compare(made, args)


def test_determinants_of_singular_matrices_and_beyond_the_range_on_the_way() -> None:
    singular = np.zeros((3, 3))
    wide = np.diag([1e200, 1e200, 1e-200, 1e-200])
    for f in (LA.det, LA.slogdet):
        for x in (singular, np.ones((3, 3)), wide, wide[::-1].copy(), np.full((2, 2), np.inf), np.full((2, 2), np.nan)):
            made = compiled(f, x)
            for got, want in zip(made.run([x]), run(made.graph, [x]), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12)


def test_large_matrices_are_lapacks() -> None:
    x = definite(SMALL + 1, SMALL + 1)
    made = compiled(LA.cholesky, x)
    assert not is_native(made)
    compare(made, [x])


def test_gradients() -> None:
    a, b = definite(2, 5, 5), general(2, 5, 2)

    def loss(a: Any, b: Any) -> Any:
        factor = LA.cholesky(a)
        return (
            wg.sum(LA.solve_triangular(factor, b, upper=False) ** 2)
            + wg.sum(LA.slogdet(a).logabsdet)
            + wg.sum(LA.inv(a))
        )

    compare(compiled(wg.value_and_grad(loss, argnums=(0, 1)), a, b), [a, b])
