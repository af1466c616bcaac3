"""Facets: what single concerns of the library know of an op, said beside its declaration.

`Op.facets` holds what a declaration says by keyword. Most ops say nothing about most concerns: the module that reads a
facet has one accessor with the default for each kind of op, so that what is not said is known all the same.
"""

from __future__ import annotations

from typing import TypedDict


class Facets(TypedDict, total=False):
    """What a declaration may say of an op beside its facts."""
