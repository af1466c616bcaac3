"""Recorded calls of PyTorch's functions and modules: reading them, and asking the same of `wengert.torch`."""

from __future__ import annotations

import base64
import gzip
import json
import warnings
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[1] / "torch" / "data"
# Draws differ: of these calls the shape and the dtype are asked, and what does not depend on chance.
RANDOM = ("dropout", "rrelu")


def packed(x: Any) -> Any:
    """A value as JSON: arrays by their bytes, tuples and dicts by marked lists."""
    if isinstance(x, np.ndarray):
        return {"array": [x.dtype.str, list(x.shape), base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()]}
    if isinstance(x, (tuple, list)):
        return {type(x).__name__: [packed(v) for v in x]}
    if isinstance(x, dict):
        return {"dict": [[packed(k), packed(v)] for k, v in x.items()]}
    return x


def unpacked(x: Any) -> Any:
    """The value that :func:`packed` gave the JSON of."""
    if not isinstance(x, dict):
        return x
    ((kind, held),) = x.items()
    if kind == "array":
        return np.frombuffer(base64.b64decode(held[2]), held[0]).reshape(held[1]).copy()
    if kind == "dict":
        return {unpacked(k): unpacked(v) for k, v in held}
    return tuple(map(unpacked, held)) if kind == "tuple" else list(map(unpacked, held))


def write(name: str, records: dict[str, Any]) -> None:
    """Write records to a file, the same bytes each time."""
    text = json.dumps(packed(records), separators=(",", ":")).encode()
    (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


def read(name: str) -> dict[str, Any]:
    """The records of a file."""
    found: dict[str, Any] = unpacked(json.loads(gzip.decompress((DATA / f"{name}.json.gz").read_bytes())))
    return found


def tensors(x: Any, torch: Any, flags: Iterator[bool], leaves: list[Any]) -> Any:
    """Recorded arguments with tensors for arrays; those whose flag says so require gradients, and join `leaves`."""
    if isinstance(x, np.ndarray):
        t = torch.tensor(x)
        if next(flags):
            leaves.append(t.requires_grad_())
        return t
    if isinstance(x, (tuple, list)):
        return type(x)(tensors(v, torch, flags, leaves) for v in x)
    if isinstance(x, dict):
        return {k: tensors(v, torch, flags, leaves) for k, v in x.items()}
    return x


def flat(x: Any) -> list[Any]:
    """The tensors and arrays of a result, in order."""
    if isinstance(x, (tuple, list)):
        return [t for v in x for t in flat(v)]
    return [x]


def resolve(torch: Any, name: str) -> Any:
    """The function of a name such as `nn.functional.relu`."""
    return reduce(getattr, name.split("."), torch)


# PyTorch's slope of hardsigmoid is a sixth in float32.
LOOSE = {"nn.functional.hardsigmoid": 1e-7}


def check(found: Any, recorded: Any, what: str) -> None:
    """Assert that results are those recorded, their dtypes and shapes too."""
    ours, theirs = flat(found), flat(recorded)
    assert len(ours) == len(theirs), what
    for x, y in zip(ours, theirs, strict=True):
        assert type(x).__name__ == "Tensor", f"{what}: {type(x)}"
        assert type(x).__module__ == "wengert.torch.tensor", f"{what}: {type(x)}"
        got = x.detach().numpy()
        assert (got.shape, got.dtype) == (y.shape, y.dtype), what
        if y.dtype.kind in "fc":
            tolerance = LOOSE.get(what.partition(" ")[0], 1e-9) if y.dtype.itemsize >= 8 else 1e-5
            np.testing.assert_allclose(got, y, rtol=tolerance, atol=tolerance, err_msg=what)
        else:
            np.testing.assert_array_equal(got, y, err_msg=what)


def scalar(torch: Any, out: Any) -> Any:
    """A number of a result whose slopes differ from element to element, or None where nothing requires a gradient."""
    tracked = [o for o in flat(out) if o.requires_grad]
    if not tracked:
        return None
    return sum((o * torch.cos(torch.arange(o.numel(), dtype=o.dtype).reshape(o.shape))).sum() for o in tracked)


def replay(torch: Any, label: str, name: str, rows: list[Any]) -> None:
    """Assert that a function gives what was recorded of its calls, and the gradients; by chance only what is not."""
    function = resolve(torch, name)
    for i, (args, kwargs, flags, out, slopes) in enumerate(rows):
        leaves: list[Any] = []
        marks, what = iter(flags), f"{label} {i}"
        given, named = tensors(args, torch, marks, leaves), tensors(kwargs, torch, marks, leaves)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = function(*given, **named)
        if any(r in name for r in RANDOM) and named.get("training", True) and named.get("p", 0.5) not in (0.0, 1.0):
            assert [x.shape for x in flat(found)] == [y.shape for y in flat(out)], what
            continue
        check(found, out, what)
        if slopes is not None:
            total = scalar(torch, found)
            none = [None] * len(leaves)
            found_slopes = none if total is None else torch.autograd.grad(total, leaves, allow_unused=True)
            for got, wanted in zip(found_slopes, slopes, strict=True):
                if got is None or wanted is None:
                    assert got is None or not got.numpy().any(), what
                    assert wanted is None or not wanted.any(), what
                else:
                    check(got, wanted, f"{what}, gradient")
