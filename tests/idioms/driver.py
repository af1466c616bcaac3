"""One program run in plain eager mode and with its step compiled, all that it leaves behind compared at each call.

A program is a function of `jit` that builds what it works on and returns `(call, state)`: `call(i)` is turn i of the
loop around the step, `state` a pytree of modules, optimisers and tensors. `jit` is the identity in the eager run and
`wg.jit` in the compiled one. Programs that PyTorch runs too, as they stand, have PyTorch's numbers in references.json,
which `python -m idioms.make_references` writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from both_namespaces import wg

CALLS = 8
SEED = 7
REFERENCES = Path(__file__).with_name("references.json")

Row = dict[str, np.ndarray]
Build = Callable[[Any], tuple[Callable[[int], Any], Any]]


class Program:
    """A program of the collection, and how it is run.

    Parameters
    ----------
    build: the function of `jit`.
    peer: whether PyTorch runs the same text.
    calls: how often the step is called.
    traces: how many traces all compiled functions may make together. A step that each call traces is not compiled.
    rtol: how far eager and compiled numbers may be apart, in parts of the largest one beside them.
    """

    def __init__(
        self, build: Build, *, peer: bool = True, calls: int = CALLS, traces: int = 2, rtol: float = 1e-9
    ) -> None:
        self.build, self.name = build, build.__name__
        self.peer, self.calls, self.traces, self.rtol = peer, calls, traces, rtol

    def follow(self, jit: Any) -> list[Row]:
        """The state before the first call and after each, with what the call returned."""
        call, state = self.build(jit)
        wg.manual_seed(SEED)
        rows, results = [dict(numbers("", state))], []
        for i in range(self.calls):
            results.append(call(i))
            returned = dict(numbers("result", results[-1]))
            rows.append({**dict(numbers("", state)), **returned, "rng": np.array(wg.get_rng_state())})
        for i, result in enumerate(results):
            for name, value in numbers("result", result):
                same(f"{name} of call {i}, kept", value, rows[i + 1][name], 0.0)
        return rows


PROGRAMS: dict[str, Program] = {}


def program(build: Build | None = None, **options: Any) -> Any:
    """Enter a program into the collection; without a function, a decorator with options."""
    if build is None:
        return lambda build: program(build, **options)
    assert build.__name__ not in PROGRAMS, f"two programs are called {build.__name__}"
    made = PROGRAMS[build.__name__] = Program(build, **options)
    return made


def fresh(module: Any, seed: int = 0, scale: float = 0.5) -> Any:
    """The module with parameters that NumPy draws, so that they are the same under every library."""
    rng = np.random.default_rng(seed)
    with wg.no_grad():
        for p in module.parameters():
            p.copy_(wg.tensor(rng.normal(size=tuple(p.shape)) * scale))
    return module


def data(*shape: int, seed: int = 0) -> Any:
    """A tensor of normal numbers that NumPy draws."""
    return wg.tensor(np.random.default_rng(seed).normal(size=shape))


def slopes(f: Callable[[np.ndarray], Any], x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """The derivative of a NumPy function by central differences: the axes of its result, then those of `x`."""
    x = np.asarray(x, float)
    columns = []
    for at in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[at] = h
        columns.append((np.asarray(f(x + e), float) - np.asarray(f(x - e), float)) / (2 * h))
    return np.moveaxis(np.array(columns), 0, -1).reshape((*np.shape(columns[0]), *x.shape))


def numbers(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Every number in a pytree of modules, optimisers and tensors, under the path to it."""
    if value is None or isinstance(value, str):
        return
    if hasattr(value, "named_parameters"):
        yield from numbers(name, dict(value.state_dict()))
        for key, p in value.named_parameters():
            yield from numbers(f"{name}.{key}.grad", p.grad)
            yield f"{name}.{key}.requires_grad", np.array(p.requires_grad)
    elif hasattr(value, "param_groups"):
        kept = value.state_dict()
        yield from numbers(name, kept["state"])
        yield from numbers(name, [g["lr"] for g in kept["param_groups"]])
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(f"{name}.{key}" if name else str(key), item)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from numbers(f"{name}.{i}", item)
    elif hasattr(value, "detach"):
        yield name, np.array(value.detach())
        yield f"{name} flows", np.array(value.requires_grad)
        if value.is_leaf and value.grad is not None:
            yield f"{name}.grad", np.array(value.grad.detach())
    else:
        yield name, np.array(value)


def same(what: str, found: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    """Fail where two arrays differ by more than `rtol` of the largest expected element."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    if rtol == 0.0 or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, err_msg=what)
    else:
        largest = np.max(np.abs(expected), where=np.isfinite(expected), initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * largest + 1e-14, err_msg=what)


def plain(fn: Any = None, **options: Any) -> Any:
    """What `jit` is in the eager run."""
    return fn if fn is not None else plain


class Compiler:
    """What `jit` is in the compiled run; it keeps what it made."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return lambda fn: self(fn, **options)
        self.made.append(wg.jit(fn, **options))
        return self.made[-1]


def both(program: Program) -> list[Row]:
    """Run a program in both ways and under PyTorch's eyes; what eager mode gave, row by row."""
    with wg.set_default_dtype(wg.float64):
        eager = program.follow(plain)
        compiler = Compiler()
        compiled = program.follow(compiler)
    for i, (found, expected) in enumerate(zip(compiled, eager)):
        where = f"{program.name}, after {i} calls"
        assert list(found) == list(expected), f"{where}: {set(found) ^ set(expected)}"
        for name, value in expected.items():
            if name.endswith(" flows"):  # a loss whose graph is used up may come without one
                assert value or not found[name], f"{where}: {name}, compiled"
            else:
                same(f"{where}: {name}, compiled", found[name], value, program.rtol)
    assert compiler.made, f"{program.name} compiles nothing"
    traces = sum(f.cache_info().traces for f in compiler.made)
    assert 0 < traces <= program.traces, "\n".join(str(f.why_recompiled()) for f in compiler.made)
    if program.peer:
        against_peer(program.name, eager, max(program.rtol, 1e-7))
    return eager


def digest(rows: list[Row]) -> dict[str, list[float]]:
    """Of what every call returned, and of the state at the end: plain sums, and weighted ones that know the order."""
    found: dict[str, list[float]] = {}
    for row in rows[1:]:
        for name, value in row.items():
            if name == "rng" or name.endswith(" flows"):
                continue
            if name.startswith("result") or row is rows[-1]:
                found.setdefault(name, []).extend(_sums(value))
    return found


def _sums(value: np.ndarray) -> list[float]:
    flat = np.concatenate([np.real(value).ravel(), np.imag(value).ravel()]).astype(float)
    return [float(f"{s:.12g}") for s in (flat.sum(), flat @ np.cos(np.arange(flat.size)))]


def against_peer(name: str, rows: list[Row], rtol: float) -> None:
    """Fail where a trajectory is not the one that PyTorch took."""
    expected = json.loads(REFERENCES.read_text())["programs"][name]
    found = digest(rows)
    for key, sums in expected.items():
        np.testing.assert_allclose(found[key], sums, rtol, rtol / 10, err_msg=f"{name}: {key}, beside PyTorch")
