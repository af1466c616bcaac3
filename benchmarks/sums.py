"""Measure the errors of sums of many numbers beside PyTorch's, and write the table in docs/precision.md.

    python benchmarks/sums.py [--largest 7] [--show]

Every program is written once, by PyTorch's names, and run by `wengert.torch`, eager and compiled, and by PyTorch, of
10^3 to 10^largest numbers that are all 0.1 (of products: all just above 1). What is wanted is the same in float64. With
--show the table is printed, and nothing is written. It takes a few minutes and 2 GB of memory.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import wengert as wg
import wengert.torch

PAGE = Path(__file__).resolve().parent.parent / "docs" / "precision.md"
BEGIN, END = "<!-- begin: sums -->", "<!-- end: sums -->"
TENTH, ABOVE_ONE = 0.1, 1.0 + 2.0**-18


class Program(NamedTuple):
    """A program of a library and its tensors, the shapes of these, and the number that all of them are filled with.

    With `index`, the last argument is the index that names row 1 for each of the numbers.
    """

    name: str
    run: Callable[..., Any]
    shapes: Callable[[int], list[tuple[int, ...]]]
    number: float = TENTH
    index: bool = False


def _gradient(loss: Callable[..., Any]) -> Callable[..., Any]:
    return lambda t, *args: t.func.grad(lambda x: loss(t, x, *args[1:]))(args[0])


PROGRAMS = [
    Program("sum of a vector", lambda t, x: x.sum(), lambda n: [(n,)]),
    Program("sum over leading rows", lambda t, x: x.sum(0), lambda n: [(n, 2)]),
    Program("mean over leading rows", lambda t, x: x.mean(0), lambda n: [(n, 2)]),
    Program("norm", lambda t, x: t.linalg.vector_norm(x, dim=0), lambda n: [(n, 2)]),
    Program("product", lambda t, x: x.prod(), lambda n: [(n,)], ABOVE_ONE),
    Program("running sum", lambda t, x: x.cumsum(0), lambda n: [(n,)]),
    Program("running product", lambda t, x: x.cumprod(0), lambda n: [(n,)], ABOVE_ONE),
    Program("logsumexp", lambda t, x: x.logsumexp(0), lambda n: [(n, 2)]),
    Program("einsum `ij->j`", lambda t, x: t.einsum("ij->j", x), lambda n: [(n, 2)]),
    Program("dot product", lambda t, x, y: x @ y, lambda n: [(n,)] * 2),
    Program("product of long matrices", lambda t, x, y: x.T @ y, lambda n: [(n, 2)] * 2),
    Program("mean squared error", lambda t, x, y: t.nn.functional.mse_loss(x, 2 * y), lambda n: [(n, 2)] * 2),
    Program("gradient of a bias", _gradient(lambda t, b, x: ((x + b) * x).sum()), lambda n: [(2,), (n, 2)]),
    Program(
        "gradient of a linear layer's weight",
        _gradient(lambda t, w, x: (t.nn.functional.linear(x, w) * x).sum()),
        lambda n: [(2, 2), (n, 2)],
    ),
    Program(
        "gradient of a row of an embedding",
        _gradient(lambda t, w, x, i: (t.nn.functional.embedding(i, w) * x).sum()),
        lambda n: [(3, 2), (n, 2)],
        index=True,
    ),
    Program(
        "`index_add`", lambda t, z, x, i: t.zeros_like(z).index_add(0, i, x), lambda n: [(3, 2), (n, 2)], index=True
    ),
]


def error(found: Any, wanted: Any) -> str:
    """Return the largest error, relative to the largest number, in one digit."""
    off = float(np.max(np.abs(found.astype(np.float64) - wanted)) / np.max(np.abs(wanted)))
    return f"{off:.0e}".replace("e-0", "e-").replace("0e+00", "0")


def errors(program: Program, n: int, dtype: str) -> str:
    """Return the errors of one program: eager, compiled, PyTorch's."""
    fill = torch.tensor(program.number, dtype=getattr(torch, dtype))
    given = [torch.full(shape, fill.item(), dtype=fill.dtype) for shape in program.shapes(n)]
    index = [torch.ones(n, dtype=torch.int64)] if program.index else []
    wanted = program.run(torch, *(x.double() for x in given), *index).numpy()
    theirs = program.run(torch, *given, *index).float().numpy()
    run = lambda *args: program.run(wengert.torch, *args)
    ours = [wengert.torch.full(tuple(x.shape), fill.item(), dtype=getattr(wg, dtype)) for x in given]
    ours += [wengert.torch.ones(n, dtype=wg.int64) for _ in index]
    made = [np.asarray(f(*ours).float().numpy()) for f in (run, wg.jit(run))]
    return " · ".join(error(x, wanted) for x in (*made, theirs))


def table(sizes: list[int], dtype: str) -> str:
    """Return the Markdown table of all programs at sizes 10^k."""
    lines = [
        f"| {dtype} | " + " | ".join(f"10^{k}" for k in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for program in PROGRAMS:
        if dtype != "float32" and program.number != TENTH:
            continue
        cells = [errors(program, 10**k, dtype) for k in sizes]
        lines.append(f"| {program.name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main() -> None:
    """Measure, and write or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=7, help="the largest power of 10")
    parser.add_argument("--show", action="store_true", help="print the tables alone")
    args = parser.parse_args()
    sizes = list(range(3, args.largest + 1))
    # In float16 sums of more numbers overflow.
    halves = [("float16", [k for k in sizes if k < 6]), ("bfloat16", sizes)]
    tables = [table(sizes, "float32"), *(table(some, dtype) for dtype, some in halves)]
    if not args.show:
        text = PAGE.read_text()
        before, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n" + "\n\n".join(tables) + f"\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
