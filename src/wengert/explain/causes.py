"""The cause of a NaN or an infinity, and what to write instead, by the declarations of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.ops.facets import Cause, Nonfinite
from ..core.ops.nonfinite import ABSORB, INFINITIES, WIDER
from ..core.ops.op import Op

_UNKNOWN_INFINITE = Cause("an infinity among its inputs became NaN", INFINITIES)
_UNKNOWN_FORWARD = Cause("the result is beyond the dtype's range, or outside the function's domain", WIDER)
_UNKNOWN_BACKWARD = Cause("the slope is not finite at these numbers", ABSORB)
INPUT = Cause("it was there before anything ran", "look at where the data come from: wg.isnan(x).any() finds the rows")

UPDATE = Cause(
    "the step times a finite gradient is beyond the range, or it was assigned",
    "a smaller learning rate, or wg.nn.utils.clip_grad_norm_ before opt.step()",
)


def diagnose(op: Op | None, numbers: Sequence[Any], out: Any, backward: bool, infinite: bool = False) -> Cause:
    """Return the cause for an op whose inputs at the culprit are `numbers` and whose result there is `out`.

    `infinite` says that there are infinities among its inputs; of None, an op of the user's own, nothing is known.
    """
    known = op.facets.get("nonfinite", Nonfinite()) if op is not None else Nonfinite()
    if backward:
        return known.backward or _UNKNOWN_BACKWARD
    if infinite and known.infinite is not None:
        return known.infinite
    for rule, cause in known.forward:
        try:
            if rule(numbers, out):
                return cause
        except TypeError:  # complex numbers have no order
            continue
    return _UNKNOWN_INFINITE if infinite else _UNKNOWN_FORWARD
