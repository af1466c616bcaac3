"""Compiled functions called again and again, with the same values from other places.

A warm call reads its arguments without Python: what it may take for granted about them (where their elements
lie, who else has them, what they were computed by) is what goes wrong. So a random program is called eight times,
and every call has to give the same bits, and to leave all that it is given, and all that it gave before, as it was.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg
from fuzz_programs import Array, Program
from fuzzing import Failure, bits, compared
from wengert.core.graph.evaluate import run


def _fresh(a: Array) -> Any:
    return wg.asarray(a.copy())


def _computed(a: Array) -> Any:
    return wg.flip(wg.asarray(np.flip(a).copy()))


def _picked(a: Array) -> Any:
    """Return a row of a larger tensor; of a single number, what indexing gives."""
    return wg.asarray(np.stack([a, a]))[1]


def _sliced(a: Array) -> Any:
    """Return elements apart from one another, in an array that stays NumPy's."""
    wide = np.empty((*a.shape, 2), a.dtype)
    wide[...] = a[..., None]
    return wide[..., 1]


def _foreign(a: Array) -> Any:
    """Return an array of the other byte order, or in the other order of axes, read-only."""
    other = a.astype(a.dtype.newbyteorder()) if a.dtype.kind in "iufc" else np.asfortranarray(a)
    other.flags.writeable = False
    return other


def _plain(a: Array) -> Any:
    return a.copy()


def _held(a: Array) -> Any:
    """Return a tensor that a dict of state dicts has, too, and that has been written to."""
    t = wg.zeros(a.shape, dtype=wg.asarray(a).dtype)
    t[...] = wg.asarray(a)
    return t


ORIGINS: tuple[Callable[[Array], Any], ...] = (_fresh, _computed, _picked, _sliced, _foreign, _plain, _held, _fresh)


def _arrays(results: Sequence[Any]) -> list[Array]:
    return [np.asarray(r) for r in results]


def _different(results: Sequence[Any], first: Sequence[bytes]) -> int | None:
    return next((i for i, (r, b) in enumerate(zip(_arrays(results), first, strict=True)) if bits(r) != b), None)


def check_calls(program: Program, target: str = "host") -> Failure | None:
    """Check that a program, compiled, gives in each of eight calls what it gave in the first one."""
    try:
        function, arrays = program.function(), program.arrays()
        graph = program.graph()
        expected = run(graph, [a.copy() for a in arrays])
    except Exception:  # refusals are not what is looked for
        return None
    compiled = wg.jit(function)
    kept: list[tuple[Any, list[bytes]]] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k, origin in enumerate(ORIGINS):
                given = [origin(a) for a in arrays]
                before = [bits(np.asarray(x)) for x in given]
                results = compiled(*given)
                found = [bits(r) for r in _arrays(results)]
                if k == 0 and (wrong := compared(graph, arrays, _arrays(results), expected, target)) is not None:
                    return wrong
                if kept and (i := _different(results, kept[0][1])) is not None:
                    return Failure("origin", f"output {i} of call {k} ({origin.__name__}) is not what it was")
                if any(bits(np.asarray(x)) != b for x, b in zip(given, before, strict=True)):
                    return Failure("argument", f"call {k} ({origin.__name__}) writes to an argument")
                kept.append((results, found))
                for j, (old, was) in enumerate(kept):
                    if (i := _different(old, was)) is not None:
                        return Failure("kept", f"output {i} of call {j} changes in call {k} ({origin.__name__})")
            return _fed_back(compiled, arrays, kept)
    except Exception as error:
        return Failure(f"raises {type(error).__name__}", re.sub(r"0x[0-9a-f]+", "", str(error))[:400])


def _fed_back(compiled: Any, arrays: list[Array], kept: list[tuple[Any, list[bytes]]]) -> Failure | None:
    """Check results of earlier calls as arguments, where one has the shape and dtype of an argument."""
    results, was = kept[-1]
    of_kind = {(r.shape, r.dtype): r for r in results if isinstance(r, wg.Tensor)}
    given = [of_kind.get((x.shape, x.dtype), x) for x in map(wg.asarray, arrays)]
    want = [bits(r) for r in _arrays(compiled(*(wg.asarray(np.array(x)) for x in given)))]
    for _ in range(2):
        if (i := _different(compiled(*given), want)) is not None:
            return Failure("fed back", f"output {i} of a call that is given results of an earlier one")
    if (i := _different(results, was)) is not None:
        return Failure("kept", f"output {i}, given to a later call, changes in it")
    return None
