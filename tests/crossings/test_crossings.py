"""Every idiom in every context with every kind of value: what NumPy gives, or a refusal that is in the table."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import pytest

import wengert as wg

from .contexts import COMPILES, CONTEXTS, DERIVATIVES, Crossing, difference
from .idioms import IDIOMS
from .kinds import KINDS
from .refusals import ONCE_PER_TRACE, REFUSALS, refusals


def _contexts(idiom: str, kind: str) -> dict[str, list[str]]:
    """The contexts of an idiom and a kind of value: those of every run, and those that only `-m slow` asks for.

    To compile takes most of the time. So every idiom is compiled in every context with float64, and with each other
    kind in a fifth of them (another fifth for the next kind and the next idiom) and where the table has a refusal.
    """
    parts: dict[str, list[str]] = {"every run": [], "slow": []}
    turn = [*IDIOMS].index(idiom) + [*KINDS].index(kind)
    for context in CONTEXTS:
        if context in COMPILES:
            turn += 1
        if context in ONCE_PER_TRACE.get(idiom, ()) or (context in DERIVATIVES and not KINDS[kind].differentiable):
            continue
        seldom = context in COMPILES and kind != "float64" and turn % 5 and not refusals(idiom, context, kind)
        parts["slow" if seldom else "every run"].append(context)
    return parts


CASES = [
    pytest.param(i, k, contexts, id=f"{i}-{k}-{part}", marks=[pytest.mark.slow] if part == "slow" else [])
    for i in IDIOMS
    for k in KINDS
    if IDIOMS[i].takes(KINDS[k].array(0))
    for part, contexts in _contexts(i, k).items()
    if contexts
]


def _run(context: str, crossing: Crossing) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many programs for one function
        return CONTEXTS[context](crossing)


def _error(e: Exception) -> BaseException:
    """What was raised; NumPy puts an error of its own before one of Python's that it met."""
    return e if e.__cause__ is None or isinstance(e.__cause__, wg.WengertError) else e.__cause__


@pytest.mark.parametrize(("idiom", "kind", "contexts"), CASES)
def test_a_crossing_means_what_numpy_means_or_is_refused(idiom: str, kind: str, contexts: list[str]) -> None:
    crossing = Crossing(IDIOMS[idiom], KINDS[kind])
    tolerance = 2e-3 if kind in ("float32", "uint8") else 1e-5
    for context in contexts:
        errors = {r.error for r in refusals(idiom, context, kind)}
        try:
            pairs = _run(context, crossing)
        except Exception as e:
            found = _error(e)
            assert type(found).__name__ in errors, f"{context}: {found!r}"
            if isinstance(found, wg.WengertError):
                assert ".py:" in str(found).splitlines()[0], f"{context}: no place in {found}"
            continue
        assert not errors, f"{context}: a number, where the table says {errors}"
        assert not (wrong := difference(pairs, tolerance)), f"{context}: {wrong}"


def test_every_pair_is_crossed_in_every_run() -> None:
    met = [
        (idiom, context, kind)
        for idiom in IDIOMS
        for kind in KINDS
        if IDIOMS[idiom].takes(KINDS[kind].array(0))
        for context in _contexts(idiom, kind)["every run"]
    ]
    for kind in KINDS.values():
        contexts = CONTEXTS.keys() - (() if kind.differentiable else DERIVATIVES)
        assert {(c, k) for _, c, k in met if k == kind.name} == {(c, kind.name) for c in contexts}
    for idiom in IDIOMS:
        assert {c for i, c, _ in met if i == idiom} == CONTEXTS.keys() - ONCE_PER_TRACE.get(idiom, ())


def test_the_table_names_what_there_is() -> None:
    for row in REFUSALS:
        assert set(row.idioms) <= IDIOMS.keys()
        assert set(row.contexts) <= CONTEXTS.keys()
        assert set(row.kinds) <= KINDS.keys()
        assert row.error == "TypeError" or issubclass(getattr(wg, row.error), wg.WengertError)
