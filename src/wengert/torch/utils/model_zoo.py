"""`torch.utils.model_zoo`, an older path of :mod:`wengert.torch.hub`."""

from __future__ import annotations

from ..absent import names_of
from ..hub import load_state_dict_from_url, tqdm

load_url = load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url"]


__getattr__ = names_of(__name__)
