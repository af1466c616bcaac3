"""Facets: the knowledge that single concerns of the library have of an op, given beside its declaration.

`Op.facets` holds what a declaration says by keyword. Most ops say nothing about most concerns: the module that reads a
facet has one accessor with the default for each kind of op, so that what is not said is known all the same.
"""

from __future__ import annotations

from typing import TypedDict


class Facets(TypedDict, total=False):
    """The statements about an op that its declaration may make beside its facts."""
