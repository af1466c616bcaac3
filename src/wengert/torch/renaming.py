"""The name `torch` for `wengert.torch`: in this process, and in those that its `multiprocessing` starts afresh.

A process that begins by *spawn* or by the fork server imports the program's main module anew, where `import torch` has
to mean what it means here: the data that `multiprocessing` prepares such a process with bring the renaming along.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import multiprocessing.spawn
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from .version import __version__

# PyTorch's packages, and what stands for them here.
_PACKAGES = {"torch": "wengert.torch", "functorch": "wengert.torch.functorch"}


def _ours(name: str) -> str:
    package, dot, below = name.partition(".")
    return f"{_PACKAGES[package]}{dot}{below}"


class _AsTorch(Distribution):
    """The metadata of the package `torch`."""

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


class Renamed(DistributionFinder, importlib.abc.Loader):
    """A finder of `torch`, `functorch` and the modules below them, which are those of `wengert.torch`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return a spec for PyTorch's modules that `wengert.torch` has; None for any other."""
        if fullname.partition(".")[0] not in _PACKAGES:
            return None
        ours = _ours(fullname)
        # Modules that are made of others' names, as `torch.nn.modules.loss` is, are there and come from no file.
        if ours not in sys.modules:
            try:
                if importlib.util.find_spec(ours) is None:
                    return None
            except ModuleNotFoundError:
                return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Return what packages ask of PyTorch's metadata by `importlib.metadata`: its version."""
        return [_AsTorch()] if context is None or context.name in (None, "torch") else []

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of `wengert.torch` itself, under which both names are one object."""
        return importlib.import_module(_ours(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Give the modules below one that are loaded their other names; the module was executed under its own.

        An import of such a name would set an attribute of the package: `torch.autograd.gradcheck` is a function of it.
        """
        for name, below in list(sys.modules.items()):
            for package, ours in _PACKAGES.items():
                if name.startswith(f"{ours}."):
                    sys.modules.setdefault(package + name[len(ours) :], below)


class _ForChildren:
    """An object that renames where it is unpickled, which is before the process imports anything of the program."""

    def __reduce__(self) -> Any:
        # The process has not been given our path of modules at that time.
        code = f"import sys; sys.path[:] = {sys.path!r}; import wengert.torch.renaming as found; found.rename()"
        return exec, (code, {})


def rename() -> None:
    """Have `torch` mean `wengert.torch`, also in processes that `multiprocessing` starts; once is enough."""
    if any(isinstance(finder, Renamed) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, Renamed())
    sys.modules["wengert.torch"].__name__ = "torch"  # which libraries compare
    prepare: Callable[[str], dict[str, Any]] = multiprocessing.spawn.get_preparation_data

    def prepared(name: str) -> dict[str, Any]:
        return {"wengert": _ForChildren(), **prepare(name)}

    multiprocessing.spawn.get_preparation_data = prepared
