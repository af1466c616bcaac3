"""Record what PyTorch gives for calls of shapes and indices, and for programs that write to views: needs PyTorch.

`python tests/torch/record_shapes.py` writes `tests/torch/data/shapes.json.gz`: for each call its text, the values,
shapes and dtypes of its results, and the first and second derivatives of a sum of them; for each program what it shows.
The texts lie in `shapes/`: calls one on a line, under a name; programs as functions, which are compiled too.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import torch
from shapes import calls, views

FOLDER = Path(__file__).parent


def shown(out: Any) -> list[dict[str, Any]]:
    """Return the tensors and numbers in a result as plain data."""
    if isinstance(out, (tuple, list)) and not isinstance(out, torch.Size):
        return [e for o in out for e in shown(o)]
    if isinstance(out, torch.Tensor):
        value = torch.view_as_real(out.detach().resolve_conj()) if out.is_complex() else out.detach()
        return [{"value": value.tolist(), "shape": list(out.shape), "dtype": str(out.dtype).removeprefix("torch.")}]
    return [{"value": list(out) if isinstance(out, torch.Size) else out}]


def main() -> None:
    """Run all and write the file."""
    found: dict[str, Any] = {"calls": {}, "views": {}}
    for family, lines in calls.CALLS.items():
        for line in lines:
            inputs = calls.inputs(torch)
            out = eval(line, {"torch": torch, **inputs})
            entry = {"family": family, "out": shown(out)}
            try:
                gradients = calls.derivatives(torch, out, inputs["x"])
            except RuntimeError:  # PyTorch has no derivative of it
                gradients = None
            if gradients is not None:
                entry["grad"], entry["second"] = (g.tolist() for g in gradients)
            found["calls"][line] = entry
    for name, program in views.EAGER.items():
        found["views"][name] = program(torch)
    for name, program in views.TRACED.items():
        found["views"][name] = views.traced(torch, program)
    (FOLDER / "data" / "shapes.json.gz").write_bytes(gzip.compress(json.dumps(found).encode(), mtime=0))


if __name__ == "__main__":
    main()
