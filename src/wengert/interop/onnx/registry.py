"""The table of operators: one rule for each operator and the version since which it means what the rule says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

ML = "ai.onnx.ml"
TRAINING = "ai.onnx.preview.training"
MICROSOFT = "com.microsoft"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: the function that computes an operator, and how it takes its operands.

    Operands come by position: a tensor for each, None for one that is left out. Those in `static` come as NumPy arrays
    with their values, and a `raw` rule gets all as they are (arrays of any dtype, text, lists). Attributes come by
    keyword; `context`, where the rule names it, brings the run and what the node says.
    """

    function: Callable[..., Any]
    since: int
    static: frozenset[int]
    prefers: frozenset[int]
    raw: bool
    draws: bool
    spec_only: bool
    symbolic: Callable[..., Any] | None
    attributes: frozenset[str]
    any_attribute: bool
    wants_context: bool


_RULES: dict[tuple[str, str], list[Rule]] = {}


def operator(
    *names: str,
    since: int = 1,
    domain: str = "",
    static: tuple[int, ...] = (),
    prefers: tuple[int, ...] = (),
    raw: bool = False,
    draws: bool = False,
    spec_only: bool = False,
    symbolic: Callable[..., Any] | None = None,
    like: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Declare the function below as the rule of the named operators, from a version of their domain on.

    Parameters
    ----------
    names: the operators. A rule serves until a later one of the same name.
    static: positions of operands whose values decide shapes or structure: they must be known while tracing.
    prefers: positions of operands that are better known than computed: weights there are constants where they serve for
        nothing else.
    raw: whether the rule takes operands as they are.
    draws: whether each run gives other numbers.
    spec_only: whether the result follows from shapes and dtypes alone.
    symbolic: the same on NumPy arrays of sizes that are not known yet.
    like: the rule whose attributes this one's `**` stands for; without one it stands for any.
    """

    def declare(function: F) -> F:
        parameters = inspect.signature(function).parameters.values()
        taken = (*parameters, *(() if like is None else inspect.signature(like).parameters.values()))
        keywords = {p.name for p in taken if p.kind is p.KEYWORD_ONLY}
        rule = Rule(
            function,
            since,
            frozenset(static),
            frozenset(prefers),
            raw,
            draws,
            spec_only,
            symbolic,
            frozenset(keywords - {"context"}),
            like is None and any(p.kind is p.VAR_KEYWORD for p in parameters),
            "context" in keywords,
        )
        for name in names:
            rules = _RULES.setdefault((domain, name), [])
            rules.append(rule)
            rules.sort(key=lambda r: r.since)
        return function

    return declare


def find(domain: str, name: str, version: int) -> Rule | None:
    """Return the rule of an operator in a version of its domain, or None."""
    found = None
    for rule in _RULES.get((domain, name), ()):
        if rule.since <= version:
            found = rule
    return found


def operators() -> Mapping[tuple[str, str], list[Rule]]:
    """Return all rules by domain and name."""
    return _RULES
