"""`torch.utils.model_zoo`, an older path of :mod:`wengert.torch.hub`."""

from __future__ import annotations

from ..hub import load_state_dict_from_url

load_url = load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]
