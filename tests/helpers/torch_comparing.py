"""Comparing what `wengert.torch` gives with what was recorded from PyTorch."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import wengert as wg
import wengert.torch as torch
from torch_calls import evaluate, inputs, leaves, written


def gradient(of: Any, wanted: list[Any]) -> list[Any]:
    """Wengert's gradients, which can be differentiated again."""
    return list(wg.autograd.grad(of, wanted, create_graph=True, allow_unused=True))


def _same(found: Any, want: Any, what: str, rough: bool = False) -> None:
    if not isinstance(want, list):
        assert found == want, what
        return
    assert found[:2] == want[:2], what
    rough = rough or want[0] in ("float32", "complex64")
    rtol, atol = (2e-6, 1e-6) if rough else (1e-9, 1e-11)
    np.testing.assert_allclose(np.array(found[2], float), np.array(want[2], float), rtol, atol, err_msg=what)


def check(text: str, want: dict[str, Any]) -> None:
    """Compare a call's results and its derivatives; what has none is a derivative of 0."""
    found = evaluate(torch, text, gradient)
    rough = any(isinstance(p, list) and p[0] == "float32" for p in want["out"])
    for name, parts in want.items():
        if name != "out" and all(p is None or not any(p[2]) for p in parts):
            continue
        assert name in found, f"{text} has no {name} derivative"
        assert len(found[name]) == len(parts), text
        for mine, theirs in zip(found[name], parts, strict=True):
            if name != "out" and (mine is None or theirs is None):
                assert not any((mine or theirs or [0, 0, [0]])[2]), f"{text}: {name}"
            else:
                _same(mine, theirs, f"{text}: {name}", rough)


def compiled(text: str, want: dict[str, Any]) -> None:
    """Compare the results of the second and the sixth call of the compiled function with those recorded."""
    given = inputs(torch, grad=False)
    named = {n: v for n, v in given.items() if re.search(rf"\b{n}\b", text)}
    names = ", ".join(named)
    function = wg.jit(eval(f"lambda {names}: ({text})", {"torch": torch, "inf": float("inf")}))
    for call in range(6):
        out = function(*named.values())
        if call in (1, 5):
            for mine, theirs in zip(leaves(out), want["out"], strict=True):
                _same(written(mine), theirs, f"{text}, call {call + 1}")
                assert type(mine) is torch.Tensor or not isinstance(theirs, list)
