"""Dropout layers with PyTorch's constructors and looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.errors import RangeError, fail
from ....nn.layers import dropout as plain
from .. import functional as F
from ..module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    """A layer that drops at random in training."""

    p: float
    inplace: bool = False

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        Module.__init__(self)
        if not 0 <= p <= 1:
            fail(RangeError, f"a dropout probability of {p}", "It must lie between 0 and 1.")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Return the options for `repr`."""
        return f"p={self.p}, inplace={self.inplace}"


def _family(name: str, compute: Callable[..., Any], what: str) -> Any:
    """Return the class of a kind of dropout."""

    def forward(self: Any, input: Any) -> Any:
        return compute(input, self.p, self.training, self.inplace)

    forward.__doc__ = f"Return `input` with {what}, in training."
    own = getattr(plain, name, None)
    doc = f"""A layer that in training gives its input with {what}, each with probability `p`.

    `inplace` writes the result to the input. Raises RangeError for what is no probability.
    """
    members = {"__doc__": doc, "__module__": __name__, "forward": forward}
    return type(name, (_Dropout,) if own is None else (_Dropout, own), members)


Dropout = _family("Dropout", F.dropout, "elements set to 0 and the others scaled up")
Dropout1d = _family("Dropout1d", F.dropout1d, "channels of (N, C, L) set to 0 and the others scaled up")
Dropout2d = _family("Dropout2d", F.dropout2d, "channels of (N, C, H, W) set to 0 and the others scaled up")
Dropout3d = _family("Dropout3d", F.dropout3d, "channels of (N, C, D, H, W) set to 0 and the others scaled up")
AlphaDropout = _family("AlphaDropout", F.alpha_dropout, "elements set to what selu tends to")
FeatureAlphaDropout = _family("FeatureAlphaDropout", F.feature_alpha_dropout, "channels set to what selu tends to")
