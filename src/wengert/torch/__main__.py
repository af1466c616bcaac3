"""`python -m wengert.torch program.py ...`: run a program written for PyTorch on Wengert, without an edit.

In that process `import torch`, `import torch.nn as nn` and `from torch import ...` give `wengert.torch` and what is
below it, also in processes that `multiprocessing` starts and in workers of a `DataLoader`. Libraries that are written
for PyTorch (transformers, timm, lightning, gpytorch) run in it unedited.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from .renaming import rename


def main(arguments: Sequence[str]) -> None:
    """Run the program that the first argument names; the others are its own."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        raise SystemExit(0 if arguments else 2)
    program = Path(arguments[0])
    if not program.is_file():
        raise SystemExit(f"python -m wengert.torch: there is no file {str(program)!r}")
    rename()
    sys.argv = list(arguments)
    sys.path.insert(0, str(program.resolve().parent))
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
