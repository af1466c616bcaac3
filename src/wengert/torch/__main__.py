"""`python -m wengert.torch program.py ...`: run a program written for PyTorch on Wengert, without an edit.

In that process `import torch`, `import torch.nn as nn` and `from torch import ...` give `wengert.torch` and what is
below it. Libraries that need PyTorch itself (torchvision, lightning) do not run.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


class Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder of `torch` and the modules below it, which are those of `wengert.torch`."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Return a spec for PyTorch's modules that `wengert.torch` has; None for any other."""
        if fullname.partition(".")[0] != "torch":
            return None
        ours = f"wengert.{fullname}"
        try:
            found = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        return None if found is None else importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module of `wengert.torch` itself, under which both names are one object."""
        return importlib.import_module(f"wengert.{spec.name}")

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module was executed under its own name."""


def main(arguments: Sequence[str]) -> None:
    """Run the program that the first argument names; the others are its own."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        raise SystemExit(0 if arguments else 2)
    program = Path(arguments[0])
    if not program.is_file():
        raise SystemExit(f"python -m wengert.torch: there is no file {str(program)!r}")
    sys.meta_path.insert(0, Renamed())
    sys.argv = list(arguments)
    sys.path.insert(0, str(program.resolve().parent))
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
