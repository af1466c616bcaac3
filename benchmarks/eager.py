"""The cost of single operations on 8 elements: forward, with and without recording, and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from harness import Case
from peers import autograd_module, torch_module

import wengert as wg

CHAIN = 40

# A step of a chain: from the running value and a constant to the next value.
Step = Callable[[Any, Any], Any]


def functions(lib: Any) -> dict[str, Step]:
    """The steps, written in a library's own functions."""
    add, multiply, tanh, sin = lib.add, lib.multiply, lib.tanh, lib.sin
    where, matmul = lib.where, lib.matmul
    return {
        "x + c": lambda x, c: x + c,
        "x * c": lambda x, c: x * c,
        "x * 1.01": lambda x, c: x * 1.01,
        "-x": lambda x, c: -x,
        "add(x, c)": lambda x, c: add(x, c),
        "multiply(x, c)": lambda x, c: multiply(x, c),
        "tanh(x)": lambda x, c: tanh(x),
        "sin(x)": lambda x, c: sin(x),
        "where(c > 0, x, c)": lambda x, c: where(c > 0, x, c),
        "x.reshape((8,))": lambda x, c: x.reshape((8,)),
        "x[1:7]": lambda x, c: (x[1:7], x)[1],
        "matmul(x, m)": lambda x, c: matmul(x, c),
    }


def chain(step: Step, x: Any, c: Any) -> Any:
    for _ in range(CHAIN):
        x = step(x, c)
    return x


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.0, 8)
    c = rng.uniform(0.9, 1.05, 8)
    m = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    return x, c, m


def forward_cases(recording: bool) -> list[Case]:
    """Chains of 40 operations; the time is for one. NumPy never records: it is the bare cost."""
    x64, c64, m64 = data()
    torch, hips = torch_module(), autograd_module()
    cases = []
    steps = functions(wg)
    for name, step in steps.items():
        other = m64 if "matmul" in name else c64
        x32, c32 = x64.astype(np.float32), other.astype(np.float32)
        numpy_step = functions(np)[name]
        reference = chain(numpy_step, x64, other)
        xw, cw = wg.tensor(x32, requires_grad=recording), wg.tensor(c32)
        contenders: dict[str, Any] = {"wengert": lambda s=step, x=xw, c=cw: chain(s, x, c)}
        contenders["numpy"] = lambda s=numpy_step, x=x32, c=c32: chain(s, x, c)
        if torch is not None:
            xt, ct = torch.tensor(x32, requires_grad=recording), torch.tensor(c32)
            contenders["torch"] = lambda s=functions(torch)[name], x=xt, c=ct: chain(s, x, c)
        if hips is not None and recording:
            import autograd.numpy as anp

            box_step = functions(anp)[name]
            make_vjp = hips.make_vjp
            contenders["autograd"] = lambda s=box_step, x=x32, c=c32: make_vjp(lambda v: chain(s, v, c))(x)[1]
        results = {n: (lambda f=f: [_array(f())]) for n, f in contenders.items()}
        cases.append(Case(name, contenders, results, [reference], per=CHAIN))
    return cases


def backward_cases() -> list[Case]:
    """Backward through kept chains of 40 operations; the time is for one."""
    x64, c64, m64 = data()
    torch = torch_module()
    cases = []
    for name in ("x + c", "x * c", "tanh(x)", "sin(x)", "matmul(x, m)"):
        other = m64 if "matmul" in name else c64
        x32, c32 = x64.astype(np.float32), other.astype(np.float32)
        ones = np.ones(8, np.float32)
        step = functions(wg)[name]
        xw, cw, gw = wg.tensor(x32, requires_grad=True), wg.tensor(c32), wg.tensor(ones)
        kept = chain(step, xw, cw)
        contenders: dict[str, Any] = {
            "wengert": lambda y=kept, x=xw, g=gw: wg.autograd.grad(y, x, g, retain_graph=True)[0]
        }
        if torch is not None:
            xt, ct = torch.tensor(x32, requires_grad=True), torch.tensor(c32)
            yt = chain(functions(torch)[name], xt, ct)
            contenders["torch"] = lambda y=yt, x=xt, g=torch.tensor(ones): torch.autograd.grad(
                y, x, g, retain_graph=True
            )[0]
        x_double, c_double = wg.tensor(x64, requires_grad=True), wg.tensor(other)
        reference = wg.autograd.grad(chain(step, x_double, c_double), x_double, wg.tensor(np.ones(8)))[0]
        results = {n: (lambda f=f: [_array(f())]) for n, f in contenders.items()}
        cases.append(Case(name, contenders, results, [np.asarray(reference)], per=CHAIN))
    return cases


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach() if hasattr(value, "detach") else value)
