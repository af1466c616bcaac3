"""`torch.nested`, which programs import for tensors of rows of several lengths: there are none here."""

from __future__ import annotations

from ..absent import names_of
from ..refusing import refused

_ADVICE = "Pad them, nn.utils.rnn.pad_sequence(rows, batch_first=True), with a mask, or pack them, pack_sequence(rows)."
nested_tensor = refused("torch.nested.nested_tensor", "tensors have one size along an axis", _ADVICE)
as_nested_tensor = refused("torch.nested.as_nested_tensor", "tensors have one size along an axis", _ADVICE)
narrow = refused("torch.nested.narrow", "tensors have one size along an axis", _ADVICE)
to_padded_tensor = refused("torch.nested.to_padded_tensor", "tensors have one size along an axis", _ADVICE)

__all__ = ["as_nested_tensor", "narrow", "nested_tensor", "to_padded_tensor"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
