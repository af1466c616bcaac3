"""Record PyTorch's public names, of which the page on `wengert.torch` says what becomes: needs PyTorch.

`python scripts/pytorch_names.py` writes `scripts/pytorch_names.json`, from which the page is made without it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import types
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
# The namespaces of the page, in its order.
NAMESPACES = (
    "torch",
    "torch.Tensor",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.nn.utils.rnn",
    "torch.nn.utils.parametrize",
    "torch.nn.utils.parametrizations",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.func",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.distributions",
    "torch.utils.data",
    "torch.utils.checkpoint",
    "torch.utils.tensorboard",
    "torch.amp",
)


_CLASSES = frozenset({"Generator", "GradScaler", "OutOfMemoryError", "Size"})


def names_of(path: str) -> list[str]:
    """The public names of a namespace: what its `__all__` says, or what is defined there."""
    import torch

    space: Any = torch.Tensor if path == "torch.Tensor" else importlib.import_module(path)
    listed = getattr(space, "__all__", None)
    found = []
    for name in listed if listed is not None else dir(space):
        value = getattr(space, name, None)
        if name.startswith("_") or isinstance(value, types.ModuleType) or value is None:
            continue
        home = getattr(value, "__module__", "") or ""
        foreign = inspect.isclass(value) or inspect.isfunction(value)
        if foreign and not home.startswith("torch"):
            continue
        # TorchScript's own classes stand at the top level too.
        if path == "torch" and name[0].isupper() and not name.endswith("Tensor") and name not in _CLASSES:
            continue
        if path not in ("torch", "torch.Tensor") and not callable(value):
            continue
        found.append(name)
    return sorted(set(found))


def main() -> None:
    """Write the file."""
    import torch

    names = {"version": torch.__version__.partition("+")[0], "names": {path: names_of(path) for path in NAMESPACES}}
    FILE.write_text(json.dumps(names, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
