"""Record what stands in PyTorch's modules, for the paths that libraries import from: needs PyTorch.

`python scripts/pytorch_paths.py` writes `src/wengert/torch/absent/names.json`: for each module the names that are
PyTorch's own, with a mark before those that are not classes or functions of that module:

- `^name` is the same object as `name` in a package above,
- `!name` is an exception.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import json
import types
import typing
import warnings
from pathlib import Path
from typing import Any

import typing_extensions

FILE = Path(__file__).parent.parent / "src/wengert/torch/absent/names.json"
# Below `torch`; the packages above each are recorded as well.
PATHS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split()


def modules() -> list[str]:
    """Return the dotted paths below `torch`, those above each before it; "" is `torch`."""
    found = {""}
    for path in PATHS:
        parts = path.split(".")
        found |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    return sorted(found)


def is_own(name: str, value: Any) -> bool:
    """Return whether a value is PyTorch's own, rather than what a module of it imports."""
    if isinstance(value, types.ModuleType):
        return value.__name__.split(".")[0] == "torch"
    if not isinstance(value, type) and not inspect.isroutine(value):  # a constant, or a name for a type
        return all(getattr(there, name, None) is not value for there in (typing, typing_extensions, collections.abc))
    home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    return home.split(".")[0] in ("torch", "builtins", "torchgen", "functorch")


def marked(path: str, name: str, value: Any, above: list[tuple[str, Any]]) -> str:
    """Return a name with the mark that says what it is."""
    for _, space in above:
        if getattr(space, name, None) is value and value is not None:
            return f"^{name}"
    if isinstance(value, type) and issubclass(value, BaseException):
        return f"!{name}"
    return name


def main() -> None:
    """Write the file."""
    import torch

    warnings.simplefilter("ignore")
    spaces: dict[str, Any] = {}
    for path in modules():
        try:
            spaces[path] = importlib.import_module(f"torch.{path}" if path else "torch")
        except ImportError as e:
            print(f"left out: torch.{path}: {e}")
    record = {}
    for path, space in spaces.items():
        parts = path.split(".") if path else []
        above = [(p, spaces[p]) for p in (".".join(parts[:i]) for i in range(len(parts) - 1, -1, -1)) if p in spaces]
        names = []
        for name in sorted(set(dir(space))):
            if name.startswith("__") and name != "__config__":
                continue
            if name in ("annotations", "TYPE_CHECKING"):
                continue
            value = getattr(space, name)
            if isinstance(value, types.ModuleType) and f"{path}.{name}".strip(".") not in spaces and path:
                continue
            if is_own(name, value):
                names.append(marked(path, name, value, above))
        record[path] = " ".join(names)
    record["Tensor"] = " ".join(n for n in sorted(dir(torch.Tensor)) if not n.startswith("__"))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
