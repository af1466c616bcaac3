"""The document of an answer about batching: which calls ran together, in which kernels, and which did not."""

from __future__ import annotations

from typing import Any

from ...explain.batching import Batching
from ..recording import spans
from .document import Indexed, sources

# Places that are shown of the calls that were left out for one reason.
_PLACES = 3


def batched(answer: Batching) -> dict[str, Any]:
    """Return the `batching` table of a document, with the places in the program that it names."""
    spans.read_again()
    cells, places = Indexed(), Indexed()
    kernels = [(run, group) for run, ran in enumerate(answer.runs) for group in ran.groups]
    left = []
    for entry in answer.left:
        found = [spans.span(source, 0) for source in entry.places[:_PLACES]]
        left.append(
            {
                "name": entry.name,
                "why": entry.why,
                "calls": entry.calls,
                "places": len(entry.places),
                "spans": [places[where] for where in found if where is not None],
            }
        )
    table = {
        "ways": [ran.way for ran in answer.runs],
        "run": [run for run, _ in kernels],
        "cell": [cells[group.cell] for _, group in kernels],
        "cells": cells.items,
        "calls": [group.calls for _, group in kernels],
        "rows": [group.rows for _, group in kernels],
        "gathered": [group.gathered for _, group in kernels],
        "sliced": [group.sliced for _, group in kernels],
        "left": left,
    }
    where, files = sources(places.items)
    return {"batching": table, "spans": where, "files": files}
