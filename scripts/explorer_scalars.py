"""Write what the engine says of single numbers: `python scripts/explorer_scalars.py FILE`.

`FILE` is explorer/src/fixtures/scalars.json. The explorer's page runs small scalar graphs again when a leaf is
dragged, with formulas of its own; its tests hold them to these values and derivatives, taken at the op table's own
samples.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.ops.op import TABLE, Call, Op
from wengert.explorer.document import document

KINDS = ("elementwise", "composite")
# Of each sample call so many elements are taken.
ELEMENTS = 3


def number(value: float) -> float | str:
    """A number as the explorer's documents write it."""
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def singles(op: Op, call: Call) -> Iterator[tuple[Any, ...]]:
    """Elements of a call's arguments that belong together, where it takes real arrays of one shape."""
    arrays = [np.asarray(a) for a in call.args]
    if not arrays or any(a.dtype.kind not in "fb" or a.shape != arrays[0].shape for a in arrays):
        return
    for i in range(min(ELEMENTS, arrays[0].size)):
        yield tuple(a.flat[i] for a in arrays)


def measured(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> dict[str, Any] | None:
    """Value and derivatives of one call; None where the result is not a single real number."""
    # One-element arrays do for reductions too.
    tensors = [wg.tensor(np.reshape(a, (1,)), requires_grad=np.asarray(a).dtype.kind == "f") for a in args]
    out = op.front(*tensors, **attrs)
    if not isinstance(out, wg.Tensor) or out.size != 1 or out.dtype.kind not in "fb":
        return None
    slopes = [0.0] * len(args)
    if out.requires_grad:
        out.sum().backward()
        slopes = [0.0 if t.grad is None else float(t.grad.numpy().item()) for t in tensors]
    return {
        "op": op.name,
        "args": [number(float(a)) for a in args],
        "attrs": attrs,
        **({"formula": formula} if (formula := document.formula(op)) is not None else {}),
        "value": number(float(out.detach().numpy().item())),
        "slopes": [number(s) for s in slopes],
    }


def scalars() -> list[dict[str, Any]]:
    rows = []
    for _, op in sorted(TABLE.items()):
        # An axis, or a layout with named ones such as (n)->(n), says that the op is about arrays.
        about_arrays = "axis" in op.attr_names or re.search(r"\w", op.layout) is not None
        if op.kind not in KINDS or op.samples is None or op.variadic or about_arrays:
            continue
        for call in op.samples(np.random.default_rng(0)):
            attrs = dict(call.attrs)
            if not all(isinstance(v, (bool, int, float, str)) for v in attrs.values()):
                continue
            for args in singles(op, call):
                row = measured(op, args, attrs)
                if row is not None:
                    rows.append(row)
    return rows


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in scalars())
    Path(sys.argv[1]).write_text(f"[\n{lines}\n]\n")
