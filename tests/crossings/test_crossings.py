"""Every idiom in every context with every kind of value: what NumPy gives, or a refusal that is in the table."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import pytest

import wengert as wg

from .contexts import CONTEXTS, DERIVATIVES, Crossing, difference
from .idioms import IDIOMS
from .kinds import KINDS
from .refusals import ONCE_PER_TRACE, REFUSALS, refusals

CASES = [(i, k) for i in IDIOMS for k in KINDS if IDIOMS[i].takes(KINDS[k].array(0))]


def _run(context: str, crossing: Crossing) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of many programs for one function
        return CONTEXTS[context](crossing)


def _error(e: Exception) -> BaseException:
    """What was raised; NumPy puts an error of its own before one that it met."""
    return e.__cause__ or e


@pytest.mark.parametrize(("idiom", "kind"), CASES)
def test_a_crossing_means_what_numpy_means_or_is_refused(idiom: str, kind: str) -> None:
    crossing = Crossing(IDIOMS[idiom], KINDS[kind])
    tolerance = 2e-3 if kind in ("float32", "uint8") else 1e-5
    for context in CONTEXTS:
        if context in ONCE_PER_TRACE.get(idiom, ()) or (context in DERIVATIVES and not crossing.kind.differentiable):
            continue
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


def test_the_table_names_what_there_is() -> None:
    for row in REFUSALS:
        assert set(row.idioms) <= IDIOMS.keys()
        assert set(row.contexts) <= CONTEXTS.keys()
        assert set(row.kinds) <= KINDS.keys()
        assert row.error == "TypeError" or issubclass(getattr(wg, row.error), wg.WengertError)
