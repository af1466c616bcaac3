"""`torch.hub`: there for programs that mention it. Nothing is downloaded."""

from __future__ import annotations

import os

from ..absent import names_of
from ..refusing import refused

_NO_DOWNLOADS = (
    "nothing is downloaded here",
    "Download the file yourself, and read it with torch.load(path).",
)
_directory: list[str] = []


def get_dir() -> str:
    """Return the folder for what programs keep: that of `set_dir`, else `$TORCH_HOME/hub` or `~/.cache/torch/hub`."""
    if _directory:
        return _directory[-1]
    caches = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(caches, "torch"))), "hub")


def set_dir(d: str) -> None:
    """Keep files in another folder."""
    _directory[:] = [os.path.expanduser(d)]


load = refused("torch.hub.load", *_NO_DOWNLOADS)
load_state_dict_from_url = refused("torch.hub.load_state_dict_from_url", *_NO_DOWNLOADS)
download_url_to_file = refused("torch.hub.download_url_to_file", *_NO_DOWNLOADS)

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
