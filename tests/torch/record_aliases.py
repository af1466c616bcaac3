"""Record random programs of views, writes and gradients as PyTorch runs them: needs PyTorch.

`python tests/torch/record_aliases.py [FIRST [COUNT]]` writes `tests/torch/data/aliases.json.gz` for
`tests/torch/test_alias_programs.py`. A program is text: what PyTorch refuses never gets into it. Left out is what is
anyone's guess: writes to memory that overlaps itself, numbers that are no integers as integers, and statistics of
nothing.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))
from alias_programs import DATA, names_of, seen

LENGTH = 16

DTYPES = {"f": "torch.float64", "s": "torch.float32", "i": "torch.int64", "b": "torch.bool"}

# By kind: expressions of a tensor `x`, an axis of it `d`, and something `o` that may broadcast to it.
VIEWS = (
    "{x}[{at}]", "{x}[{at}]", "{x}.detach()", "{x}.t()", "{x}.transpose({d}, -1)", "{x}.view(-1)", "{x}.reshape(-1)",
    "{x}.flatten()", "{x}.unsqueeze({d})", "{x}.squeeze()", "{x}.squeeze({d})", "{x}.expand(2, *{x}.shape)",
    "{x}.narrow({d}, 0, 1)", "{x}.unbind({d})[0]", "{x}.chunk(2, {d})[-1]", "{x}.split(1, {d})[0]", "{x}.diagonal()",
    "{x}.permute(*range({x}.ndim)[::-1])", "{x}.mT", "{x}.select({d}, 0)", "{x}.movedim({d}, 0)", "{x}.view_as({x})",
    "{x}.to({x}.dtype)", "{x}.swapaxes(0, {d})", "{x}.unfold({d}, 1, 1)", "{x}[None]", "{x}.view({x}.shape)",
    "{x}.as_strided({x}.shape, {x}.stride())", "{x}.unflatten({d}, (1, -1))", "{x}.squeeze().unsqueeze(0)", "{x}.data",
    "{x}.clone()",
)  # fmt: skip
WRITES = (
    "{x}.add_({o})", "{x}.mul_({o})", "{x}.sub_({o})", "{x} += {o}", "{x} *= {o}", "{x}.zero_()", "{x}.fill_({n})",
    "{x}[{at}] = {o}", "{x}[{at}] += {o}", "{x}[{at}].mul_({o})", "{x}[{x} > 0] = {n}", "{x}.clamp_(-1, 1)",
    "{x}.neg_()", "{x}.abs_()", "{x}.masked_fill_({x} < 0, 1)", "{x}.index_fill_({d}, torch.tensor([0]), 2)",
    "{x}.div_(2)", "{x}.pow_(2)", "{x}.tanh_()", "{x}.data.mul_(0.5)", "{x}.data = {x}.detach() * 2", "{x}.relu_()",
    "{x}.lerp_({o}, 0.5)", "{x}.scatter_({d}, torch.zeros_like({x}, dtype=torch.int64), 1.5)", "{x}.sign_()",
    "{x}.cumsum_({d})", "{x}.t_()", "{x}.unsqueeze_(0)", "{x} = {x}.view(-1)", "{x} = {x}.squeeze()", "del {x}",
)  # fmt: skip
RESULTS = (
    "{x} + {o}", "{x} * {o}", "torch.tanh({x})", "{x}.sum({d})", "{x}.amax({d})", "{x}.max({d})[0]", "{x}.sort({d})[0]",
    "torch.where({x} > 0, {x}, {o})", "torch.stack([{x}, {x}])", "torch.cat([{x}, {x}], {d})", "{x}.flip({d})",
    "{x} @ {x}.mT", "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))", "-{x}", "{x}.cumsum({d})",
    "{x}.index_select({d}, torch.tensor([0]))", "{x}.contiguous() * 2",
)  # fmt: skip
GRADIENTS = (
    "({x} * {x}).sum().backward()", "({x} ** 2).mean().backward()", "{t} = {x}.grad", "{x}.grad = None",
    "{x}.grad.zero_()", "{x}.grad.mul_(0.5)", "torch.optim.SGD([{x}], lr=0.1).step()", "{x}.detach_()",
    "{t} = torch.autograd.grad(({x} * {x}).sum(), {x})[0]", "{x}.requires_grad_(False)",
)  # fmt: skip


class Program:
    """A program that grows by statements which PyTorch takes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names: dict[str, Any] = {"torch": torch}
        self.lines: list[str] = []
        self.made = 0
        self.has_gradients = self.random.random() < 0.4

    def grow(self, length: int) -> list[str]:
        while len(self.lines) < length:
            line, before = self.statement(), dict(self.names)
            try:
                exec(line, self.names)
            except Exception:
                self.names = before
            else:
                self.lines.append(line)
        return self.lines

    def tensors(self, is_wanted: Any = lambda t: True) -> list[str]:
        return [n for n in names_of(self.names) if is_wanted(self.names[n])]

    def literal(self, shape: Sequence[int], kind: str) -> str:
        r, size = self.random, math.prod(shape)
        numbers: list[Any] = [round(r.uniform(-2, 2), 2) for _ in range(size)]
        if kind in "ib":
            numbers = [r.randrange(-3, 4) if kind == "i" else r.random() < 0.5 for _ in range(size)]
        return f"torch.tensor({numbers}, dtype={DTYPES[kind]}).reshape({tuple(shape)}).clone()"

    def index(self, t: Any) -> str:
        r, parts = self.random, []
        for n in t.shape:
            a, b = sorted((r.randrange(n + 1), r.randrange(n + 1)))
            forms = [":", f"{a}:{b}", "::2", "None, :", str(r.randrange(-n, n)) if n else ":"]
            if n and r.random() < 0.1:
                forms.append(str([r.randrange(-n, n) for _ in range(2)]))
            parts.append(r.choice(forms))
            if r.random() < 0.1:
                break
        return ", ".join(parts) or "..."

    def operand(self, t: Any) -> str:
        r = self.random
        if r.random() < 0.4:
            return str(round(r.uniform(-2, 2), 2) if t.is_floating_point() else r.randrange(-2, 3))
        alike = self.tensors(lambda v: v.dtype == t.dtype)
        if alike and r.random() < 0.6:
            return r.choice(alike)
        shape = list(t.shape)[r.randrange(2) :]
        if shape and r.random() < 0.5:
            shape[r.randrange(len(shape))] = 1
        return self.literal(shape, next(k for k, d in DTYPES.items() if d == str(t.dtype)))

    def statement(self) -> str:
        r = self.random
        names, way = self.tensors(), r.random()
        self.made += 1
        fresh = f"t{self.made}"
        if not names or way < 0.1:
            kind = r.choice("fffsib")
            line = f"{fresh} = {self.literal([r.choice((1, 2, 3)) for _ in range(r.randrange(4))], kind)}"
            return line + ".requires_grad_()" * (self.has_gradients and kind == "f" and r.random() < 0.6)
        x = r.choice(names)
        t = self.names[x]
        kinds = (
            (0.42, VIEWS, f"{fresh} = "),
            (0.75, WRITES, ""),
            (0.88 if self.has_gradients else 1, RESULTS, f"{fresh} = "),
        )
        texts, start = next(((texts, start) for share, texts, start in kinds if way < share), (GRADIENTS, ""))
        axis = r.randrange(-t.ndim, t.ndim) if t.ndim else 0
        words = {
            "x": x,
            "d": axis,
            "at": self.index(t),
            "o": self.operand(t),
            "n": round(r.uniform(-2, 2), 2),
            "t": fresh,
        }
        line = start + r.choice(texts).format(**words)
        # A view that is taken without recording may be a leaf in PyTorch, by the way in which it is taken.
        is_silent = texts is WRITES and " = " not in line and self.has_gradients and r.random() < 0.4
        return f"with torch.no_grad(): {line}" if is_silent else line


def ran(lines: Sequence[str]) -> dict[str, Any] | None:
    """What a program leaves behind; None for one whose outcome is anyone's guess."""
    names: dict[str, Any] = {"torch": torch}
    for line in lines:
        exec(line, names)
        if not all(torch.isfinite(names[n].detach().double()).all() for n in names_of(names)) or overlaps(line, names):
            return None
    return seen(names)


def overlaps(line: str, names: dict[str, Any]) -> bool:
    """Whether a statement reads another window of the memory that it writes to."""
    first, *others = [names[n] for n in re.findall(r"\bt\d+\b", line) if torch.is_tensor(names.get(n))] or [None]
    places = {t.untyped_storage().data_ptr() for t in others if t.shape != first.shape and t.numel()}
    return first is not None and "_(" in line and first.untyped_storage().data_ptr() in places


def main(first: int = 0, count: int = 400) -> None:
    found = []
    for seed in range(first, first + count):
        lines = Program(seed).grow(LENGTH)
        try:
            left = ran(lines)
        except RuntimeError:  # of one of several views of a statement: PyTorch looks at these late
            continue
        if left is not None:
            found.append([seed, lines, left])
    with gzip.GzipFile(DATA, "wb", mtime=0) as file:
        file.write(json.dumps(found, separators=(",", ":")).encode())
    print(f"{len(found)} programs of {count}, PyTorch {torch.__version__}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*map(int, sys.argv[1:]))
