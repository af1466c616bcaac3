"""Random programs of views, writes and gradients give what PyTorch gives, eager and compiled, or are refused.

`python tests/torch/record_aliases.py` recorded them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from alias_programs import DATA, names_of, seen

PROGRAMS = json.loads(gzip.decompress(DATA.read_bytes()))
# So many programs at a time, and so many of their lines outside of what is compiled.
SHARE, OUTSIDE = 25, 6
PARTS = [PROGRAMS[i : i + SHARE] for i in range(0, len(PROGRAMS), SHARE)]


def alike(a: Any, b: Any) -> bool:
    """Whether two values, shapes or nested lists of numbers are equal, the numbers but for rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) or isinstance(b, float):
        return bool(np.isclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True))
    return bool(a == b)


def difference(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    """What differs first."""
    for name, (dtype, shape, numbers, carries, gradient) in wanted.items():
        if name not in found:
            return f"{name} is missing"
        if found[name][:2] != [dtype, shape] or not alike(found[name][2], numbers):
            return f"{name} is {found[name][:3]}, not {[dtype, shape, numbers]}"
        if carries and not found[name][3]:
            return f"{name} lost its history"
        if not alike(found[name][4], gradient):
            return f"the gradient of {name} is {found[name][4]}, not {gradient}"
    return ""


def run(lines: Sequence[str], names: dict[str, Any] | None = None) -> dict[str, Any]:
    names = {"torch": torch} if names is None else names
    for line in lines:
        exec(line, names)
    return names


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(len(PARTS)))
def test_programs(part: int) -> None:
    refused = 0
    for seed, lines, wanted in PARTS[part]:
        try:
            found = seen(run(lines))
        except wg.WengertError:
            refused += 1
        else:
            assert difference(found, wanted) == "", (seed, lines)
    assert refused <= SHARE // 5


# Compiling takes longest: the rest of them before a release.
COMPILED = [pytest.param(i, marks=[pytest.mark.slow] if i % 8 else []) for i in range(len(PARTS))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", COMPILED)
def test_compiled_programs(part: int) -> None:
    refused = 0
    for seed, lines, wanted in PARTS[part]:
        before, rest = lines[:OUTSIDE], lines[OUTSIDE:]
        rest = rest[: next((i for i, line in enumerate(rest) if re.search(r"\[t\d+ > 0\]$", line)), len(rest))]
        if len(rest) < len(lines) - OUTSIDE:
            continue
        try:
            left, given = names_of(run(lines)), names_of(run(before))
        except wg.WengertError:
            continue
        text = "\n    ".join(
            [f"def body({', '.join(given)}):", *rest, f"return {{{', '.join(f'{n!r}: {n}' for n in left)}}}"]
        )
        body: Any = wg.jit(run([text])["body"])
        for _ in range(2):
            names = run(before)
            try:
                names |= body(*(names[n] for n in given))
            except wg.WengertError:
                refused += 1
                break
            found = seen({n: t for n, t in names.items() if n in wanted})
            assert difference(found, wanted) == "", (seed, lines)
    assert refused <= SHARE // 2
