"""Record what PyTorch gives for the calls that tests name: needs PyTorch.

`python tests/torch/record_calls.py [NAME ...]` writes `tests/torch/data/NAME.json.gz` for `tests/torch/test_NAME.py`,
which has the calls in `CALLS`.
"""

from __future__ import annotations

import gzip
import importlib
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))
from torch_calls import DATA, evaluate

NAMES = ("elementwise", "reductions", "special", "products", "linalg", "fft", "func", "compat")


def gradient(of: Any, wanted: list[Any]) -> list[Any]:
    """PyTorch's gradients, which can be differentiated again."""
    return list(torch.autograd.grad(of, wanted, create_graph=True, allow_unused=True))


def record(name: str) -> None:
    """Write the file of one test."""
    found = {}
    for text in importlib.import_module(f"test_{name}").CALLS:
        try:
            found[text] = evaluate(torch, text, gradient)
        except Exception as e:
            print(f"{name}: {text}: {type(e).__name__}: {e}")
            raise
    with gzip.GzipFile(DATA / f"{name}.json.gz", "wb", mtime=0) as file:
        file.write(json.dumps(found).encode())
    print(name, len(found), (DATA / f"{name}.json.gz").stat().st_size)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[1:] or NAMES:
        record(each)
