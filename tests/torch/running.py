"""Running the programs of `programs/`: as they stand under PyTorch, under `wengert.torch` with the imports renamed."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "programs"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "common")
# The one thing that is edited: where PyTorch comes from.
_IMPORTS = (
    (r"^import torch$", "import wengert.torch as torch"),
    (r"^import torch\.([\w.]+) as (\w+)$", r"import wengert.torch.\1 as \2"),
    (r"^import torch\.([\w.]+)$", r"import wengert.torch.\1"),
    (r"^from torch import", "from wengert.torch import"),
    (r"^from torch\.", "from wengert.torch."),
)


def edited(source: str) -> str:
    """The program's text with its imports of PyTorch renamed."""
    for pattern, by in _IMPORTS:
        source = re.sub(pattern, by, source, flags=re.MULTILINE)
    return source


def loaded(name: str, by_wengert: bool) -> Any:
    """A program as a module."""
    file = FOLDER / f"{name}.py"
    source = file.read_text(encoding="utf-8")
    module: Any = types.ModuleType(f"program_{name}_{'wengert' if by_wengert else 'torch'}")
    sys.modules[module.__name__] = module
    sys.path.insert(0, str(FOLDER))
    try:
        exec(compile(edited(source) if by_wengert else source, str(file), "exec"), vars(module))
    finally:
        sys.path.remove(str(FOLDER))
        del sys.modules[module.__name__]
    return module


def run(name: str, compiled: bool, by_wengert: bool) -> list[float]:
    """The numbers that a program gives: losses of its steps, and whatever else it returns."""
    return [float(v) for v in loaded(name, by_wengert).main(compiled)]
