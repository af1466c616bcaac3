"""Half precision, compiled, beside float32 and beside PyTorch: operations, and training steps under autocast.

    python benchmarks/half.py                     # one thread, processor time: Markdown tables
    python benchmarks/half.py --only products --rounds 15
    python benchmarks/half.py --smoke             # small sizes; results are checked, nothing is timed

Operands are rounded to half precision first; each contender is compared with the float64 result of what it was given
before anything is timed. Everyone has one thread, and times are of the processor: a busy machine changes them little.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from harness import Case, table
from peers import torch_module

import wengert as wg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import mnist
import shakespeare
from models import torch_mnist, torch_shakespeare

F = wg.nn.functional
DTYPES = {"wengert": ml_dtypes.bfloat16, "wengert float16": np.float16, "wengert float32": np.float32}
# What a result may be off, relative to its norm: it is rounded once; gradients of a model several times, and the
# largest pixel of a pool may be another one.
ROUNDED, TRAINED = 1e-2, 0.2

# A name, a function of Wengert's, PyTorch's, the operands' shapes, and those of --smoke.
Shapes = list[tuple[int, ...]]
Row = tuple[str, Callable[..., Any], Callable[[Any], Callable[..., Any]], Shapes, Shapes]


def _torch_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of operands and a cotangent that gives result and gradients, by PyTorch."""

    def run(*operands: Any) -> Any:
        *leaves, weight = operands
        for leaf in leaves:
            leaf.grad = None
            leaf.requires_grad_()
        out = function(*leaves)
        out.backward(weight)
        return [out, *(leaf.grad for leaf in leaves)]

    return run


def _pulled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of operands and a cotangent that gives the result and the gradients of all operands."""

    def run(*operands: Any) -> Any:
        *given, weight = operands
        out, pull = wg.vjp(function, *given)
        return [out, *wg.tree.leaves(pull(weight))]

    return run


def _conv(stride: int) -> Callable[..., Any]:
    return lambda x, w: F.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)


def _torch_conv(torch: Any, stride: int) -> Callable[..., Any]:
    return lambda x, w: torch.nn.functional.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)


def _attend(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _torch_attend(torch: Any) -> Callable[..., Any]:
    return lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _products() -> list[Row]:
    sizes = ((512, 512, 512), (1024, 1024, 1024), (768, 128, 512), (64, 784, 256), (8, 1024, 1024), (1, 1024, 1024))
    small = [(9, 7), (7, 5)]
    plain = lambda x, y: x @ y
    rows: list[Row] = [
        (f"{m} x {k} by {k} x {n}", plain, lambda t: plain, [(m, k), (k, n)], small) for m, k, n in sizes
    ]
    right, left = lambda x, y: x @ y.mT, lambda x, y: x.mT @ y
    every = [(768, 512), (768, 512)]
    rows.append(("768 x 512 by (768 x 512) transposed", right, lambda t: right, every, [(9, 7), (5, 7)]))
    rows.append(("(768 x 512) transposed by 768 x 512", left, lambda t: left, every, [(9, 7), (9, 5)]))
    stacks = [(32, 128, 64), (32, 64, 128)]
    rows.append(("32 of 128 x 64 by 64 x 128", plain, lambda t: plain, stacks, [(2, 9, 7), (2, 7, 5)]))
    return rows


def _convolutions() -> list[Row]:
    rows: list[Row] = []
    for name, x, w, stride in (
        ("3x3, 32 to 64, 8 x 28 x 28", (8, 32, 28, 28), (64, 32, 3, 3), 1),
        ("3x3, 64 to 128, stride 2, 8 x 28 x 28", (8, 64, 28, 28), (128, 64, 3, 3), 2),
        ("1x1, 128 to 256, 8 x 14 x 14", (8, 128, 14, 14), (256, 128, 1, 1), 1),
        ("3x3, 1 to 16, 64 x 28 x 28", (64, 1, 28, 28), (16, 1, 3, 3), 1),
    ):
        out = (x[0], w[0], *(-(-n // stride) for n in x[2:]))
        small_x, small_w = (2, 3, 6, 6), (4, 3, 3, 3)
        small = (2, 4, -(-6 // stride), -(-6 // stride))
        rows.append((name, _conv(stride), lambda t, s=stride: _torch_conv(t, s), [x, w], [small_x, small_w]))
        rows.append(
            (
                f"{name}, and gradients",
                _pulled(_conv(stride)),
                lambda t, s=stride: _torch_gradients(_torch_conv(t, s)),
                [x, w, out],
                [small_x, small_w, small],
            )
        )
    return rows


def _attention() -> list[Row]:
    rows: list[Row] = []
    for shape in ((8, 4, 256, 64), (12, 4, 64, 32)):
        name = " x ".join(map(str, shape))
        rows.append((name, _attend, _torch_attend, [shape] * 3, [(1, 2, 9, 8)] * 3))
        rows.append(
            (
                f"{name}, and gradients",
                _pulled(_attend),
                lambda t: _torch_gradients(_torch_attend(t)),
                [shape] * 4,
                [(1, 2, 9, 8)] * 4,
            )
        )
    return rows


def _loops() -> list[Row]:
    def seven(x: Any, y: Any) -> Any:
        return ((x + y) * x + y) * (x - y) + x * y

    gelu = lambda x, y: F.gelu(x, approximate="tanh") * y + x
    torch_gelu = lambda t: lambda x, y: t.nn.functional.gelu(x, approximate="tanh") * y + x
    once = lambda x, y: x * y + x
    softmax = lambda x: F.softmax(x, -1)
    large, small = [(1 << 20,)] * 2, [(50,)] * 2
    return [
        ("a * b + a, 1M numbers", once, lambda t: once, large, small),
        ("gelu(a) * b + a, 1M numbers", gelu, torch_gelu, large, small),
        ("seven sums and products, 1M numbers", seven, lambda t: seven, large, small),
        ("softmax of 4096 rows of 256", softmax, lambda t: lambda x: t.softmax(x, -1), [(4096, 256)], [(5, 9)]),
    ]


def _case(row: Row, smoke: bool) -> Case:
    """Return the case of a row: the same numbers in every dtype, and in PyTorch."""
    name, function, peer, shapes, small = row
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in (small if smoke else shapes)]
    contenders, results = {}, {}

    def add(name: str, run: Callable[[], Any], result: Callable[[Any], np.ndarray]) -> None:
        contenders[name] = run
        results[name] = lambda: [result(r) for r in wg.tree.leaves(run())]

    for contender, dtype in DTYPES.items():
        compiled, given = wg.jit(function), [wg.tensor(a.astype(dtype)) for a in arrays]
        for _ in range(4):
            compiled(*given)
        add(contender, lambda c=compiled, g=given: c(*g), lambda r: r.numpy().astype(np.float64))
    torch = torch_module()
    if torch is not None:
        for contender, dtype in (("torch", torch.bfloat16), ("torch float32", torch.float32)):
            given = [torch.tensor(a.astype(np.float32)).to(dtype) for a in arrays]
            run = peer(torch)
            add(contender, lambda r=run, g=given: r(*g), lambda r: r.detach().double().numpy())
    reference = wg.tree.leaves(function(*(wg.tensor(a.astype(np.float64)) for a in arrays)))
    return Case(name, contenders, results, [r.numpy() for r in reference], tolerance=ROUNDED, clock=time.process_time)


def _step(name: str, model: Any, peer: Callable[[], Any], x: np.ndarray, y: np.ndarray, classes: int) -> Case:
    """Return the case of a training step under autocast: forward, loss, gradients and AdamW."""
    start = {k: np.asarray(v).copy() for k, v in model.state_dict().items()}
    contenders: dict[str, Callable[[], Any]] = {}
    results: dict[str, Callable[[], list[np.ndarray]]] = {}
    labels = wg.asarray(y.reshape(-1))

    def loss_of(inputs: Any) -> Any:
        return F.cross_entropy(model(inputs).reshape(-1, classes), labels)

    def begin(dtype: Any) -> None:
        model.to(dtype)
        model.load_state_dict({k: wg.tensor(v.astype(dtype.name)) for k, v in start.items()})

    begin(wg.float64)
    loss = loss_of(wg.asarray(x.astype(np.float64)) if x.dtype.kind == "f" else wg.asarray(x))
    reference = [np.asarray(v) for v in (loss.detach(), *wg.autograd.grad(loss, list(model.parameters())))]
    begin(wg.float32)
    inputs = wg.asarray(x)
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-4)
    for contender, dtype in DTYPES.items():
        cast = wg.autocast(np.dtype(dtype).name) if dtype is not np.float32 else contextlib.nullcontext()

        @wg.jit
        def step(inputs: Any, cast: Any = cast) -> Any:
            optimizer.zero_grad()
            with cast:
                loss = loss_of(inputs)
            loss.backward()
            optimizer.step()
            return loss

        @wg.jit
        def gradients(inputs: Any, cast: Any = cast) -> list[Any]:
            with cast:
                loss = loss_of(inputs)
            return [loss, *wg.autograd.grad(loss, list(model.parameters()))]

        def checked(gradients: Any = gradients) -> list[np.ndarray]:
            begin(wg.float32)
            return [g.detach().numpy() for g in gradients(inputs)]

        contenders[contender] = lambda step=step: step(inputs)
        results[contender] = checked
    torch = torch_module()
    if torch is not None:
        _add_peers(torch, peer, start, (x, y, classes), contenders, results)
    return Case(name, contenders, results, reference, tolerance=TRAINED, clock=time.process_time)


def _add_peers(
    torch: Any,
    peer: Callable[[], Any],
    start: dict[str, np.ndarray],
    batch: tuple[np.ndarray, np.ndarray, int],
    contenders: dict[str, Callable[[], Any]],
    results: dict[str, Callable[[], list[np.ndarray]]],
) -> None:
    """Add PyTorch's steps: eager, images channels-last, a fused optimiser."""
    x, y, classes = batch
    inputs, labels = torch.tensor(x), torch.tensor(y.reshape(-1))
    if inputs.ndim == 4:
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    for contender, is_half in (("torch", True), ("torch float32", False)):
        model = peer()
        model.load_state_dict({k: torch.tensor(v) for k, v in start.items()})
        if inputs.ndim == 4:
            model = model.to(memory_format=torch.channels_last)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def loss_of(model: Any = model, is_half: bool = is_half) -> Any:
            with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
                return torch.nn.functional.cross_entropy(model(inputs).reshape(-1, classes), labels)

        def step(model: Any = model, optimizer: Any = optimizer, loss_of: Any = loss_of) -> None:
            optimizer.zero_grad()
            loss_of().backward()
            optimizer.step()

        def checked(model: Any = model, loss_of: Any = loss_of) -> list[np.ndarray]:
            loss = loss_of()
            found = torch.autograd.grad(loss, list(model.parameters()))
            return [v.detach().double().numpy() for v in (loss, *found)]

        contenders[contender] = step
        results[contender] = checked


def _training(smoke: bool) -> list[Case]:
    """Return the steps of a transformer, a convolutional network and a perceptron."""
    rng = np.random.default_rng(0)
    wg.manual_seed(0)
    batch, length, sizes = (2, 7, (65, 7, 8, 2, 1)) if smoke else (12, 64, (65, 64, 128, 4, 4))
    ids = rng.integers(0, 65, (batch, length + 1))
    pixels, classes = rng.random((3 if smoke else 64, 1, 28, 28), np.float32), rng.integers(0, 10, 3 if smoke else 64)
    transformer = shakespeare.Model(*sizes)
    found = [
        _step(
            f"transformer, {sizes[-1]} layers of {sizes[2]}, {batch} x {length}",
            transformer,
            lambda: torch_shakespeare(*sizes),
            ids[:, :-1].copy(),
            ids[:, 1:].copy(),
            65,
        )
    ]
    for kind in ("cnn", "mlp"):
        name = f"mnist {kind}, batch {len(pixels)}"
        found.append(_step(name, mnist.make_model(kind), lambda kind=kind: torch_mnist(kind), pixels, classes, 10))
    return found


GROUPS: dict[str, Callable[[bool], list[Case]]] = {
    "products": lambda smoke: [_case(row, smoke) for row in _products()],
    "convolutions": lambda smoke: [_case(row, smoke) for row in _convolutions()],
    "attention": lambda smoke: [_case(row, smoke) for row in _attention()],
    "loops": lambda smoke: [_case(row, smoke) for row in _loops()],
    "training": _training,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=GROUPS, action="append", help="one part (may be repeated)")
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each contender (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.05, help="length of a burst (default %(default)s)")
    parser.add_argument("--smoke", action="store_true", help="small sizes, check results, time nothing")
    given = parser.parse_args(arguments)
    wg.set_num_threads(1)
    torch = torch_module()
    if torch is not None:
        torch.set_num_threads(1)
    for name in given.only or GROUPS:
        cases = GROUPS[name](given.smoke)
        for case in cases:
            case.check()
            if not given.smoke:
                case.measure(given.rounds, given.seconds)
        print(f"## {name.capitalize()}: bfloat16 (wengert, torch) and others\n")
        print(f"{len(cases)} cases checked\n" if given.smoke else table(cases, 1e-6, "µs") + "\n", flush=True)


if __name__ == "__main__":
    main()
