"""Programs of users of PyTorch's libraries, each of which gives numbers: `python run.py NAME` prints them.

The same text runs under PyTorch, and under Wengert by `python -m wengert.torch run.py NAME`.
"""

import json
import sys

import language  # noqa: F401
import science  # noqa: F401
import torch
import training  # noqa: F401
import vision  # noqa: F401
from common import PROGRAMS


def main(name):
    """Run a program, and print its numbers as JSON."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    found = {}

    def out(key, value):
        if isinstance(value, torch.Tensor):
            value = value.detach().double().reshape(-1)[:20].tolist()
        found[key] = [float(v) for v in value] if isinstance(value, (tuple, list)) else [float(value)]

    PROGRAMS[name][2](out)
    print("@@" + json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
