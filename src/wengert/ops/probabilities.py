"""The check of probabilities before they are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ShapeError, fail
from ..core.ops.declare import op
from ..core.ops.facets import Role
from ..core.ops.op import Call, Missing, Op, Route
from ..core.spec import show

_EVERYWHERE = np.ones((), np.bool_)
_EVERYWHERE.flags.writeable = False


def check_probabilities(of: str, what: str, x: Any, mend: str) -> None:
    """Raise ShapeError for an array with a number outside of 0..1. A NaN passes: it goes on to the result."""
    wrong = (x < 0) | (x > 1)
    if wrong.any():
        at = np.argwhere(wrong)[0].tolist()
        fail(ShapeError, f"{of}: {what} {show(x.shape, x.dtype)} holds {x[tuple(at)]} at {at}, outside 0..1", mend)


def _probability(x: Any, of: str, what: str, mend: str) -> Any:
    check_probabilities(of, what, x, mend)
    return x


probability_op: Op = op(
    "probability(x; of: text, what: text, mend: text)",
    _probability,
    accepts="real_inexact",
    infer=lambda x, **_: x,
    # Not linear: it refuses multiples of what it takes. Everything passes.
    facts={"x": Route(lambda: _EVERYWHERE)},
    doc="x, each element checked to lie in 0..1 or to be NaN (`of`, `what` and `mend` are what the error says).",
    layout="()->()",
    samples=lambda rng: [
        Call((rng.uniform(0.1, 0.9, shape),), {"of": "binary_cross_entropy", "what": "input", "mend": ""})
        for shape in ((3,), (2, 3), ())
    ],
    reference=lambda x, of, what, mend: x + 0.0,
    onnx=Missing("ONNX checks no values"),
    cost=1,
    role=Role.BY_ELEMENT,
)
