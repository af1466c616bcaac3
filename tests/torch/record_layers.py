"""Record what PyTorch gives for the calls of functions and layers that tests name: needs PyTorch.

`python tests/torch/record_layers.py [NAME ...]` writes `tests/torch/data/NAME.json.gz` for `tests/torch/test_NAME.py`,
which has the calls in `CALLS`.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
from torch_layers import Evaluation
from torch_records import DATA, write

NAMES = ("pooling", "vision", "convolution", "embedding", "transformer", "recurrent", "nn_utils")


def plain(x: Any) -> Any:
    """A tensor as an array."""
    return None if x is None else x.detach().numpy().copy()


def record(name: str) -> None:
    """Write the file of one test."""
    found = {}
    for text in importlib.import_module(f"test_{name}").CALLS:
        try:
            made = Evaluation(torch, text)
        except Exception as e:
            print(f"{name}: {text}: {type(e).__name__}: {e}")
            raise
        slopes = made.slopes()
        kept = None if slopes is None else [plain(g) for g in slopes]
        found[text] = [[plain(x) for x in made.tensors], kept, made.texts]
    write(name, found)
    print(name, len(found), (DATA / f"{name}.json.gz").stat().st_size)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for each in sys.argv[1:] or NAMES:
        record(each)
