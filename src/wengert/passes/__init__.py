"""Passes: graph to graph, same values; but for `autocast`, which computes them in other precisions.

>>> import wengert as wg
>>> g = wg.graph(lambda x: -(-wg.sin(x)) + wg.sin(x) * 1.0)(wg.spec(()))
>>> print(wg.passes.optimize(g))
graph(x: f32[]) -> f32[]
  a: f32[] = sin x
  b: f32[] = add a a
  return b
"""

from __future__ import annotations

from .autocast import autocast
from .cse import cse
from .dce import dce
from .fold import fold
from .freeze import freeze
from .rewrite import Rule, RuleSet, rewrite
from .rules import FINITE, VALUE_SAFE
from .safer import SAFER
from .simplify import optimize, simplify

__all__ = [
    "FINITE",
    "SAFER",
    "VALUE_SAFE",
    "Rule",
    "RuleSet",
    "autocast",
    "cse",
    "dce",
    "fold",
    "freeze",
    "optimize",
    "rewrite",
    "simplify",
]


def __dir__() -> list[str]:
    return sorted(__all__)
