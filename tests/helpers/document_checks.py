"""Checks of documents: read, printed, run by the interpreter and by compiled code, in processes of their own."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from documents import Mutant, corpus, mutant
from wengert.core.dims import Dim
from wengert.core.errors import WengertError
from wengert.core.graph.evaluate import run
from wengert.core.graph.snapshot import specs_of
from wengert.core.spec import Spec

try:
    from wengert.execute.native.compile import compile_graph
except ImportError:  # without llvmlite there is only the interpreter
    compile_graph = None  # type: ignore[assignment]

# What is larger is read, and not run.
MOST_BYTES = 1 << 20
# No document that is read may take longer, and no run.
MOST_SECONDS = 10


# -- checking


class TooLong(Exception):
    """An error: a document or a run takes longer than any may."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TooLong when what is inside takes longer on the processor, however busy that is with other things."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Outcome(NamedTuple):
    """The outcome for a document: a word to count it by, and what is wrong with that, if anything."""

    word: str
    wrong: str = ""


def check(document: Mutant, seed: int) -> Outcome:
    """Read a document, and run it both ways where it is accepted."""
    read = wg.Graph.from_json if document.is_json else wg.Graph.parse
    try:
        with limited(MOST_SECONDS):
            graph = read(document.text)
    except wg.GraphError:
        return Outcome("refused")
    except Exception as e:
        return Outcome("loading", f"{type(e).__name__}: {e}")
    try:
        with limited(MOST_SECONDS):
            if wg.Graph.parse(str(graph)) != graph or wg.Graph.from_json(graph.to_json()) != graph:
                return Outcome("printing", "it reads back as another graph")
    except Exception as e:
        return Outcome("printing", f"{type(e).__name__}: {e}")
    if not is_small(graph):
        return Outcome("not run")
    return _run(graph, seed)


def is_small(graph: wg.Graph) -> bool:
    """Return whether all sizes are known, also those inside, and there is not much to compute."""
    total = 0
    for node in graph.nodes:
        for spec in specs_of(node):
            if any(isinstance(n, Dim) for n in spec.shape):
                return False
            total += spec.nbytes + 1
        for value in node.attrs.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, wg.Graph) and not is_small(inner):
                    return False
        if any(isinstance(v, int) and abs(v) > MOST_BYTES for v in _numbers(node.attrs)):
            return False
    return total <= MOST_BYTES


def _numbers(attrs: dict[str, Any]) -> Iterator[Any]:
    stack = [v for k, v in attrs.items() if k not in ("key", "counter")]
    while stack:
        value = stack.pop()
        if isinstance(value, tuple):
            stack += value
        else:
            yield value


def values(spec: Spec, rng: np.random.Generator) -> Any:
    """Return an input's values: small integers, which are indices now and then; numbers of all sizes."""
    if spec.dtype.kind == "b":
        return rng.integers(0, 2, spec.shape).astype(bool)
    if spec.dtype.kind in "iu":
        low = 0 if spec.dtype.kind == "u" or rng.random() < 0.5 else -3
        return rng.integers(low, 4, spec.shape).astype(spec.dtype)
    found = rng.normal(size=spec.shape)
    if spec.dtype.kind == "c":
        found = found + 1j * rng.normal(size=spec.shape)
    return np.asarray(found).astype(spec.dtype)


def _run(graph: wg.Graph, seed: int) -> Outcome:
    rng = np.random.default_rng(seed)
    arrays = [values(n.spec, rng) for n in graph.inputs]
    want, error = _result(lambda: run(graph, [a.copy() for a in arrays]))
    if isinstance(error, TooLong):
        return Outcome("endless")
    if error is not None and not isinstance(error, (WengertError, MemoryError)):
        return Outcome("interpreter", f"{type(error).__name__}: {error}")
    if want is not None:
        for i, (n, a) in enumerate(zip(graph.outputs, want, strict=True)):
            if (n.spec.shape, n.spec.dtype) != (a.shape, a.dtype):
                return Outcome("interpreter", f"result {i} is {a.dtype}{a.shape}, not {n.spec}")
    if compile_graph is None:
        return Outcome("interpreted")
    got, failed = _result(lambda: compile_graph(graph).run([a.copy() for a in arrays]))
    if failed is not None and not isinstance(failed, (WengertError, MemoryError)):
        return Outcome("compiled", f"{type(failed).__name__}: {failed}")
    if (error is None) != (failed is None):
        return Outcome("one way only", f"interpreter: {error or 'runs'}; compiled: {failed or 'runs'}")
    if want is None or got is None:
        return Outcome("raises both ways")
    for i, (n, a, b) in enumerate(zip(graph.outputs, want, got, strict=True)):
        if (n.spec.shape, n.spec.dtype) != (b.shape, b.dtype):
            return Outcome("compiled", f"result {i} is {b.dtype}{b.shape}, not {n.spec}")
        if not is_close(a, b, narrowest(graph)) and not _is_unspecified(graph):
            wrong = _difference(graph, arrays, want, got)
            return Outcome("values" if wrong else "the same but for roundings", wrong or "")
    return Outcome("the same both ways")


def _is_unspecified(graph: wg.Graph) -> bool:
    """Return whether a result may vary: of equals in no order, of a search in what is not sorted."""
    return any(n.op.name == "searchsorted" or n.attrs.get("stable") is False for n in graph.nodes)


def _result(compute: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        with limited(MOST_SECONDS):
            return compute(), None
    except Exception as e:
        return None, e


def narrowest(graph: wg.Graph) -> int:
    """Return the bytes of the narrowest floats that a graph computes in: it is not more accurate than these."""
    found = [8]
    for node in graph.nodes:
        for spec in specs_of(node):
            if spec.inexact:
                found.append(spec.dtype.itemsize // (2 if spec.dtype.kind == "c" else 1))
        for value in node.attrs.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, wg.Graph):
                    found.append(narrowest(inner))
    return min(found)


_TOLERANCE = {2: 0.05, 4: 1e-4, 8: 1e-9}


def is_close(a: Any, b: Any, width: int) -> bool:
    """Return whether two arrays are the same but for a few roundings of floats of so many bytes."""
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    if a.dtype.kind == "c":
        return is_close(a.real, b.real, width) and is_close(a.imag, b.imag, width)
    wide, other = a.astype(np.float64), b.astype(np.float64)
    scale = np.max(np.abs(wide[np.isfinite(wide)]), initial=1.0)
    with np.errstate(all="ignore"):
        near = np.abs(wide - other) <= _TOLERANCE[width] * scale
        return bool(np.all(near | (wide == other) | (np.isnan(wide) & np.isnan(other))))


def _difference(graph: wg.Graph, arrays: list[Any], want: list[Any], got: list[Any]) -> str | None:
    """Return what is wrong with results that are not close, where roundings do not explain it."""
    from fuzzing import compared

    if any(s.dtype.kind == "c" for n in graph.nodes for s in specs_of(n)):
        pairs = [(a, b) for a, b in zip(want, got) if not is_close(a, b, narrowest(graph))]
        return f"{pairs[0][1]} instead of {pairs[0][0]}"
    failure = compared(graph, arrays, got, want, "host")
    return failure.detail if failure is not None else None


# -- many of them, where one that crashes stops nothing


class Failure(NamedTuple):
    """A mutant that failed, with the reason."""

    seed: int
    word: str
    wrong: str


def checked(first: int, stop: int, counts: Counter[str]) -> Iterator[Failure]:
    """Check the mutants of some seeds in processes of their own; yield those that fail, and count the outcomes."""
    corpus()
    while first < stop:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _check_all(range(first, stop), writer)
            os._exit(0)
        os.close(writer)
        last = first - 1
        for line in _lines(reader):
            told: dict[str, Any] = json.loads(line)
            if "seed" in told:
                last = told["seed"]
                continue
            counts[told["word"]] += 1
            if told["wrong"]:
                yield Failure(last, told["word"], told["wrong"])
            first = last + 1
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if first < stop:
            counts["crash"] += 1
            yield Failure(last, "crash", f"the process ended with status {status}, or stood still")
            first = last + 1


def _check_all(seeds: range, writer: int) -> None:
    """Write, in the child, each seed before it is checked, and what came of it."""
    warnings.simplefilter("ignore")
    faulthandler.disable()  # a crash is told by what did not come
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for seed in seeds:
        os.write(writer, json.dumps({"seed": seed}).encode() + b"\n")
        try:
            outcome = check(mutant(seed), seed)
        except BaseException as e:  # of the check itself
            outcome = Outcome("check", f"{type(e).__name__}: {e}")
        os.write(writer, json.dumps({"word": outcome.word, "wrong": outcome.wrong[:2000]}).encode() + b"\n")


def _lines(reader: int) -> Iterator[bytes]:
    """Yield what a process writes, line by line, until it ends or writes nothing for long."""
    rest = b""
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], 6 * MOST_SECONDS)[0]:
            part = pipe.read(1 << 16)
            if not part:
                return
            *whole, rest = (rest + part).split(b"\n")
            yield from whole
