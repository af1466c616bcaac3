"""Native code against the interpreter on random programs, and the smallest program on which they differ.

How far two correct ways to compute a program may lie apart is found by computing it several times in
the interpreter with every rounding disturbed (:mod:`disturbed`). An element may be as far off as a
multiple of what that does to it; where it turns a result into NaN, or flips a comparison, nothing can be
said about that element.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import wengert as wg
from disturbed import samples, uncertain
from fuzz_programs import Array, Program, evaluate
from programs import all_shared
from wengert.core.graph.evaluate import run
from wengert.execute.native.codegen import machine
from wengert.execute.native.codegen.types import Target
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.run import runtime

SAMPLES, MORE_SAMPLES = 5, 40
# How many times the spread of the samples, and how many ulp, a result may be off.
SPREADS, ULPS = 4.0, 8.0


@dataclass(frozen=True)
class Failure:
    """A failure of a program: `kind` stays the same while the program shrinks."""

    kind: str
    detail: str


# -- comparing


def _wide(x: Any) -> Array:
    """Return numbers that differences can be taken of: exact for all but large int64."""
    return np.asarray(x).astype(np.float64)


def _parts(x: Any, dtype: Any) -> Array:
    """Return real and imaginary parts; both infinite where one is, for a product of such has no one meaning."""
    array = np.array(x, dtype)
    return np.stack([np.where(np.isfinite(array), part, np.inf) for part in (array.real, array.imag)], -1)


def _allowed(want: Array, ways: Sequence[Array], dtype: Any) -> tuple[Array, Array]:
    """Return how far each element may be off, and which may be anything."""
    info: Any = None
    if uncertain(np.empty(0, dtype)):
        info = ml_dtypes.finfo(dtype) if dtype == ml_dtypes.bfloat16 else np.finfo(dtype)
    free = np.zeros(want.shape, bool)
    spread = np.zeros(want.shape)
    for sample in ways:
        same = (sample == want) | (np.isnan(sample) & np.isnan(want))
        finite = np.isfinite(sample) & np.isfinite(want)
        free |= ~same & ~finite
        spread = np.maximum(spread, np.where(finite, np.abs(sample - want), 0))
    if info is None:
        return spread, free
    ulp = np.maximum(np.abs(np.where(np.isfinite(want), want, 0)) * float(info.eps), float(info.smallest_subnormal))
    # Close to where numbers end, a little more is infinite.
    free |= (np.abs(want) + SPREADS * spread > 0.999 * float(info.max)) & np.isfinite(want)
    return SPREADS * spread + ULPS * ulp, free


def difference(got: Any, want: Any, ways: Sequence[Any]) -> str | None:
    """Return what is wrong with a result; None where nothing is."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind == "c":
        got, want, *ways = (_parts(x, want.dtype) for x in (got, want, *ways))
    with np.errstate(all="ignore"):
        have, expected = _wide(got), _wide(want)
        allowed, free = _allowed(expected, [_wide(way) for way in ways], want.dtype)
        same = (have == expected) | (np.isnan(have) & np.isnan(expected))
        wrong = ~(same | free | (np.abs(have - expected) <= allowed))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {want.size} elements, first at {at}: "
        f"{have[at]!r} instead of {expected[at]!r}, allowed {allowed[at]:.3g}"
    )


# -- running


TARGETS: dict[str, Callable[[], Target]] = {
    "host": machine.host,
    "avx2": lambda: machine.level("avx2"),
    "sse2": lambda: machine.level("sse2"),
}


def bits(x: Any) -> bytes:
    """Return all bytes of an array's elements."""
    return np.ascontiguousarray(x).tobytes()


def check(program: Program, target: str = "host") -> Failure | None:
    """Check that native code computes a program as the interpreter does, however its steps are shared out."""
    try:
        graph = program.graph()
        arrays = program.arrays()
        expected = run(graph, [a.copy() for a in arrays])
    except Exception:  # the interpreter's own refusals are not what is looked for
        return None
    donated = [name in program.donated for name, _ in program.inputs]
    try:
        results = []
        compiled = compile_graph(graph, donated=donated, target=TARGETS[target]())
        for chunks in (0, 1, 64):
            # Without helpers, with few chunks, with chunks as small as can be.
            given = [a.copy() for a in arrays]
            with all_shared(chunks) if chunks else contextlib.nullcontext():
                program_ = runtime.Program(compiled.plan)
                out = program_.run(given, [None] * len(graph.outputs))
            for a, b, free in zip(arrays, given, donated, strict=True):
                if not free and bits(a) != bits(b):
                    return Failure("input", f"{target}: an input that is not donated was written to")
            shared = _overlap(out, [a for a, free in zip(given, donated, strict=True) if not free])
            if shared:
                return Failure("alias", f"{target}: {shared}")
            results.append(out)
    except Exception as error:
        return Failure(f"raises {type(error).__name__}", f"{target}: {re.sub(r'0x[0-9a-f]+', '', str(error))[:400]}")
    for other in results[1:]:
        for i, (a, b) in enumerate(zip(results[0], other, strict=True)):
            if bits(a) != bits(b):
                return Failure("splitting", f"{target}: output {i} depends on how steps are shared out")
    return compared(graph, arrays, results[0], expected, target)


def check_apart(program: Program, target: str = "host") -> Failure | None:
    """Check a program as `check` does, in a process of its own, which may crash."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        failure = check(program, target)
        with open(writer, "wb") as pipe:
            pickle.dump(failure, pipe)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        found = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        return Failure("crash", f"{target}: the process ended with status {status}")
    failure: Failure | None = pickle.loads(found)
    return failure


def _overlap(outputs: Sequence[Any], inputs: Sequence[Any]) -> str | None:
    for i, a in enumerate(outputs):
        if any(np.shares_memory(a, b) for b in inputs):
            return f"output {i} shares memory with an input"
        if any(np.shares_memory(a, b) for b in outputs[:i]):
            return f"output {i} shares memory with another"
    return None


def compared(graph: wg.Graph, arrays: list[Array], out: list[Any], expected: list[Any], target: str) -> Failure | None:
    """Return what is wrong with the results of a graph, given the interpreter's."""

    def wrong(count: int) -> tuple[int, str] | None:
        ways = samples(graph, arrays, count)
        for i, (got, want) in enumerate(zip(out, expected, strict=True)):
            found = difference(got, want, [way[i] for way in ways])
            if found:
                return i, found
        return None

    # Most results are as they should be to a few ulp: samples are for the others.
    found = wrong(0) and wrong(SAMPLES) and wrong(MORE_SAMPLES)
    return Failure("values", f"{target}: output {found[0]}: {found[1]}") if found else None


# -- shrinking


def _literal(x: Any) -> str:
    array = np.asarray(x)
    name = "bfloat16" if array.dtype == ml_dtypes.bfloat16 else repr(array.dtype.name)
    wide = array.astype(np.float64) if name in ("bfloat16", "'float16'") else array
    return f"np.array({wide.tolist()!r}, dtype={name}).reshape({array.shape})"


def shrunk(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """Return a program that still fails, of as few and as plain lines as can be found."""

    def attempts(p: Program) -> Iterator[Program]:
        if p.transform:
            yield replace(p, transform="")
        if p.donated:
            yield replace(p, donated=frozenset())
        if len(p.outputs) > 1:
            for i in range(len(p.outputs)):
                yield replace(p, outputs=p.outputs[:i] + p.outputs[i + 1 :])
        yield from _ended_earlier(p)
        yield from _cut(p)
        yield from _plainer(p)

    tried: set[Program] = set()
    while True:
        for candidate in attempts(program):
            candidate = candidate.pruned()
            if candidate in tried or candidate == program:
                continue
            if len(tried) >= tries:
                return program
            tried.add(candidate)
            if fails(candidate):
                program = candidate
                break
        else:
            return program


def _ended_earlier(p: Program) -> Iterator[Program]:
    """Yield programs that give what a step computes, in place of the whole."""
    if len(p.steps) > 1:
        for name, _ in p.steps[: -1 if p.outputs == (p.steps[-1][0],) else None]:
            yield replace(p, outputs=(name,))


def _cut(p: Program) -> Iterator[Program]:
    """Yield programs with a step's value as an input of its own."""
    values: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for (name, _), array in zip(p.inputs, p.arrays(), strict=True):
            values[name] = wg.asarray(array)
        for name, text in p.steps:
            try:
                values[name] = evaluate(text, values)
            except Exception:  # a candidate that does not run is no candidate
                return
    for i in reversed(range(len(p.steps))):
        name = p.steps[i][0]
        array = np.asarray(values[name])
        if array.size <= 20000 and array.dtype.kind != "c":
            yield replace(p, inputs=(*p.inputs, (name, _literal(array))), steps=p.steps[:i] + p.steps[i + 1 :])


def _plainer(p: Program) -> Iterator[Program]:
    """Yield programs with ones, or a few small numbers, in place of an input's values."""
    for i, ((name, text), array) in enumerate(zip(p.inputs, p.arrays(), strict=True)):
        kind = "bfloat16" if array.dtype == ml_dtypes.bfloat16 else repr(array.dtype.name)
        for plain in (
            f"np.ones({array.shape}, {kind})",
            f"(np.arange({array.size}) % 7 - 2).reshape({array.shape}).astype({kind})",
        ):
            if len(plain) < len(text):
                yield replace(p, inputs=(*p.inputs[:i], (name, plain), *p.inputs[i + 1 :]))


def minimal(
    program: Program, target: str = "host", checked: Callable[[Program, str], Failure | None] = check
) -> tuple[Program, Failure] | None:
    """Return the smallest failing program found, and how it fails; None where the program does not fail."""
    failure = checked(program, target)
    if failure is None:
        return None

    def fails(p: Program) -> bool:
        found = checked(p, target)
        return found is not None and found.kind == failure.kind

    small = shrunk(program, fails)
    return small, checked(small, target) or failure
