"""The contexts that the crossings run idioms in: transforms, compiled calls, loops, threads.

Each says what came out and what should have: NumPy's values, or finite differences of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

from .idioms import Idiom
from .kinds import Kind

_STEP = 1e-6
_CALLS = 6
Arrays = list[np.ndarray]
Pairs = list[tuple[Arrays, Arrays]]


def numbers(result: Any) -> Arrays:
    """The arrays in a pytree of results."""
    leaves = wg.tree.leaves(result)
    return [np.array(leaf.detach() if isinstance(leaf, wg.Tensor) else leaf) for leaf in leaves]


class Crossing:
    """An idiom and a kind of value: what NumPy makes of it, and what the contexts run."""

    def __init__(self, idiom: Idiom, kind: Kind) -> None:
        self.idiom, self.kind = idiom, kind

    # -- what should come out

    def reference(self) -> Callable[[np.ndarray], Arrays]:
        """The idiom in NumPy, with a state of its own."""
        run = self.idiom.reference
        state = (self.idiom.state(np),) if self.idiom.state is not None and run is self.idiom.run else ()

        def reference(a: np.ndarray) -> Arrays:
            with np.errstate(all="ignore"):
                return numbers(run(np, a.copy(), *state))

        return reference

    def expected(self, count: int) -> list[Arrays]:
        """The results of the first calls."""
        reference = self.reference()
        return [reference(self.kind.array(k)) for k in range(count)]

    def expected_rows(self, one_after_another: bool = False) -> Arrays:
        """The results of three calls side by side: each with a state of its own, or all with one."""
        reference = self.reference()
        found = [(reference if one_after_another else self.reference())(self.kind.array(k)) for k in range(3)]
        return [np.stack(parts) for parts in zip(*found, strict=True)]

    def _total(self, a: np.ndarray, k: int) -> float:
        """What is differentiated, in the `k`-th call."""
        reference = self.reference()
        for earlier in range(k):
            reference(self.kind.array(earlier))
        return float(sum(r.sum().real for r in reference(a) if r.dtype.kind in "fc"))

    def expected_gradient(self, k: int) -> Arrays:
        """Of the sum of all results' real parts, by central differences; of a complex value in both its parts."""
        a = self.kind.array(k)
        is_complex = a.dtype.kind == "c"
        if self.idiom.slope is not None:
            return [np.conj(self.idiom.slope(a))]
        wide = a.astype(np.complex128 if is_complex else np.float64)
        found = np.zeros_like(wide)
        for i in np.ndindex(a.shape):
            for unit in (1, 1j) if is_complex else (1,):
                d = np.zeros_like(wide)
                d[i] = unit * _STEP
                found[i] += unit * (self._total(wide + d, k) - self._total(wide - d, k)) / (2 * _STEP)
        return [found]

    # -- what is run

    def function(self) -> Callable[[Any], Any]:
        """The idiom on what this kind of value is, with a state of its own."""
        state = () if self.idiom.state is None else (self.idiom.state(wg),)
        run, inside = self.idiom.run, self.kind.inside

        def fn(value: Any) -> Any:
            x = inside(value)
            return run(wg, x if isinstance(x, wg.Tensor) else wg.asarray(x), *state)

        fn.__name__ = self.idiom.name
        return fn

    def loss(self) -> Callable[[Any], Any]:
        fn = self.function()

        def loss(value: Any) -> Any:
            leaves = [x for x in wg.tree.leaves(fn(value)) if isinstance(x, wg.Tensor)]
            return sum(wg.real(x).sum() for x in leaves if x.is_floating_point() or x.is_complex())

        loss.__name__ = self.idiom.name
        return loss

    def value(self, k: int) -> Any:
        return self.kind.value(self.kind.array(k))

    def rows(self) -> Any:
        """Three values side by side."""
        stacked = wg.tensor(np.stack([self.kind.array(k) for k in range(3)]))
        return {"x": [stacked]} if self.kind.name == "pytree" else stacked

    def gradients(self, run: Callable[[Any], Any], count: int) -> Pairs:
        found = [numbers(self.kind.inside(run(self.value(k)))) for k in range(count)]
        return [(f, self.expected_gradient(k)) for k, f in enumerate(found)]


# -- the contexts: each gives pairs of what came out and what should have


def _eager(c: Crossing) -> Pairs:
    fn = c.function()
    return [(numbers(fn(c.value(k))), want) for k, want in enumerate(c.expected(2))]


def _grad(c: Crossing) -> Pairs:
    return c.gradients(wg.grad(c.loss()), 1)


def _jvp(c: Crossing) -> Pairs:
    value = c.value(0)
    tangent = wg.tree.map(lambda v: wg.ones_like(wg.asarray(v)), value)
    _, change = wg.jvp(c.loss(), (value,), (tangent,))
    (slope,) = c.expected_gradient(0)
    return [([np.array(change)], [slope.real.sum()])]


def _vmap(c: Crossing) -> Pairs:
    return [(numbers(wg.vmap(c.function())(c.rows())), c.expected_rows())]


def _graph(c: Crossing) -> Pairs:
    made = wg.graph(c.function())(c.value(0))
    return [(numbers(made(c.value(0))), c.expected(1)[0])]


def _jit(c: Crossing) -> Pairs:
    """Six calls, each result looked at once it is there and again at the end."""
    fn = wg.jit(c.function())
    kept = [fn(c.value(k)) for k in range(1)]
    early = [numbers(kept[0])]
    for k in range(1, _CALLS):
        kept.append(fn(c.value(k)))
        early.append(numbers(kept[-1]))
    wants = c.expected(_CALLS)
    if c.idiom.state is not None and any(np.shares_memory(a, b) for a in wants[0] for b in wants[-1]):
        kept = kept[-1:]
    return [*zip(early, wants, strict=True), *((numbers(r), w) for r, w in zip(kept[::-1], wants[::-1]))]


def _jit_of_grad(c: Crossing) -> Pairs:
    return c.gradients(wg.jit(wg.grad(c.loss())), 3)


def _grad_of_jit(c: Crossing) -> Pairs:
    return c.gradients(wg.grad(wg.jit(c.loss())), 3)


def _vmap_of_jit(c: Crossing) -> Pairs:
    return [(numbers(wg.vmap(wg.jit(c.function()))(c.rows())), c.expected_rows())]


def _scan(c: Crossing) -> Pairs:
    fn = c.function()
    _, found = wg.scan(lambda state, row: (state, fn(row)), (), c.rows())
    return [(numbers(found), c.expected_rows(one_after_another=True))]


def _jit_of_scan(c: Crossing) -> Pairs:
    fn = c.function()
    loop = wg.jit(lambda rows: wg.scan(lambda state, row: (state, fn(row)), (), rows)[1])
    return [(numbers(loop(c.rows())), c.expected_rows(one_after_another=True)) for _ in range(2)]


def _checkpoint(c: Crossing) -> Pairs:
    return c.gradients(wg.grad(wg.checkpoint(c.loss())), 1)


def _second_thread(c: Crossing) -> Pairs:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(_jit(c))
        except Exception as e:
            found.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    pairs: Pairs = found[0]
    return pairs


CONTEXTS: dict[str, Callable[[Crossing], Pairs]] = {
    "eager": _eager,
    "grad": _grad,
    "jvp": _jvp,
    "vmap": _vmap,
    "graph": _graph,
    "jit": _jit,
    "jit of grad": _jit_of_grad,
    "grad of jit": _grad_of_jit,
    "vmap of jit": _vmap_of_jit,
    "scan": _scan,
    "jit of scan": _jit_of_scan,
    "checkpoint": _checkpoint,
    "second thread": _second_thread,
}
DERIVATIVES = frozenset({"grad", "jvp", "jit of grad", "grad of jit", "checkpoint"})
COMPILES = frozenset({"jit", "jit of grad", "grad of jit", "jit of scan", "vmap of jit", "second thread"})


def difference(pairs: Pairs, tolerance: float) -> str:
    """What is not as it should be; empty where all is."""
    for i, (found, want) in enumerate(pairs):
        if len(found) != len(want):
            return f"result {i}: {len(found)} arrays for {len(want)}"
        for f, w in zip(found, want, strict=True):
            if f.shape != w.shape:
                return f"result {i}: shape {f.shape} for {w.shape}"
            if not np.allclose(f, w, rtol=tolerance, atol=tolerance, equal_nan=True):
                return f"result {i}: {f.tolist()} for {w.tolist()}"
    return ""
