"""`torch.hub`: there for programs that mention it. Nothing is downloaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlparse

from ...core.errors import GraphError, fail
from .. import serialization
from ..absent import names_of
from ..refusing import refused

_NO_DOWNLOADS = (
    "nothing is downloaded here",
    "Download the file yourself, and read it with torch.load(path).",
)
_directory: list[str] = []


# In the name of a file, the first digits of its hash: "resnet18-5c106cde.pth".
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


class tqdm:
    """A bar of progress that shows nothing: what it is given passes through."""

    def __init__(self, iterable: Iterable[Any] = (), **options: Any) -> None:
        self.iterable, self.total = iterable, options.get("total")

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterable)

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def update(self, n: int = 1) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _get_torch_home() -> str:
    """Return the folder above that of :func:`get_dir`: `$TORCH_HOME` or `~/.cache/torch`."""
    caches = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(caches, "torch")))


def get_dir() -> str:
    """Return the folder for what programs keep: that of `set_dir`, else `$TORCH_HOME/hub` or `~/.cache/torch/hub`."""
    return _directory[-1] if _directory else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str) -> None:
    """Keep files in another folder."""
    _directory[:] = [os.path.expanduser(d)]


load = refused("torch.hub.load", *_NO_DOWNLOADS)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Return what the file of an address holds that lies in `model_dir`, else in `checkpoints` of :func:`get_dir`.

    Raises GraphError where it does not lie there: nothing is downloaded.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    path = os.path.join(folder, file_name or os.path.basename(urlparse(url).path))
    if not os.path.isfile(path):
        fail(GraphError, f"torch.hub.load_state_dict_from_url({url!r}): {_NO_DOWNLOADS[0]}", f"Put the file at {path}.")
    return serialization.load(path, map_location=map_location, weights_only=weights_only)


download_url_to_file = refused("torch.hub.download_url_to_file", *_NO_DOWNLOADS)

__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
