"""Record which results of PyTorch's functions share memory with an argument, and their strides: needs PyTorch.

`python tests/torch/record_sharing.py` writes `tests/torch/data/sharing.json.gz` for `test_sharing.py`. Calls
are made by putting each name of `wengert.torch` into all patterns of `tests/helpers/torch_sharing.py`; those that
PyTorch takes are kept, where they give tensors.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))
import wengert.torch as ours
from torch_sharing import FUNCTIONS, LAYOUTS, METHODS, TEXTS, seen

DATA = Path(__file__).parent / "data" / "sharing.json.gz"
MODULES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
# Names that do more than compute, and those whose results' layout is LAPACK's or a matter of chance.
LEFT_OUT = ("set_", "load", "save", "compile", "import", "vmap", "numpy", "dlpack", "from_file", "seed", "is_", "apply")


def texts() -> list[str]:
    """All calls that could be made."""
    found = list(TEXTS)
    for module in MODULES:
        place = ours
        for part in module.split(".")[1:]:
            place = getattr(place, part)
        real = eval(module)
        for name in sorted(dir(place)):
            if (
                not name.startswith("_")
                and callable(getattr(real, name, None))
                and not isinstance(getattr(real, name), type)
            ):
                found += [pattern.format(m=module, f=name) for pattern in FUNCTIONS]
    for name in sorted(dir(ours.Tensor)):
        if not name.startswith("_") and callable(getattr(torch.Tensor, name, None)):
            found += [pattern.format(f=name) for pattern in METHODS]
    return [t for t in found if not any(f".{word}" in t for word in LEFT_OUT)]


def main() -> None:
    """Run all and write the file."""
    found: dict[str, Any] = {}
    for text in dict.fromkeys(texts()):
        try:
            told = [seen(torch, text, layout) for layout in LAYOUTS[:3]]
        except Exception:
            if text in TEXTS:
                print("not taken:", text)
            continue
        with contextlib.suppress(Exception):  # it writes to what is repeated
            told.append(seen(torch, text, LAYOUTS[3]))
        if any(told):
            found[text] = told
    with gzip.GzipFile(DATA, "wb", mtime=0) as file:
        file.write(json.dumps(found, separators=(",", ":")).encode())
    print(len(found), "calls,", DATA.stat().st_size, "bytes, PyTorch", torch.__version__)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
