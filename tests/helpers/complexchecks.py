"""The checks of derivatives in complex numbers: every op's samples with an imaginary part put in."""

from __future__ import annotations

import numpy as np

import wengert as wg
from forwardchecks import directions, dot, function, moving
from opchecks import floating, run
from wengert.core.ops.op import Call, Op
from wengert.core.tensor import wrap


def complexified(call: Call) -> Call:
    """Return a sample whose floating arrays have an imaginary part, smaller than the real one."""
    rng = np.random.default_rng(17)
    args = []
    for a in call.args:
        if floating(a) and a.dtype.kind == "f":
            args.append(a + 0.3j * rng.uniform(-1, 1, a.shape))
        else:
            args.append(a)
    return Call(tuple(args), call.attrs, call.order)


# Their results are determined up to phases, which no derivative of a result on its own can know;
# tests/ops/test_linalg.py differentiates what does not depend on them.
UP_TO_PHASES = frozenset({"eig", "eigh", "svd"})


def takes_complex(op: Op, call: Call) -> bool:
    """Return whether the op runs on complex numbers; where it does not, its error is the library's."""
    changed = complexified(call)
    if not any(isinstance(a, np.ndarray) and a.dtype.kind == "c" for a in changed.args):
        return False
    if op.name in UP_TO_PHASES or op.accepts in ("real", "real_inexact", "bitwise", "logical"):
        return False
    try:
        out = run(op, changed)
    except wg.DTypeError:
        return False
    return any(o.dtype.kind in "fc" for o in out)


def check_complex(op: Op, call: Call) -> None:
    """Check forward mode against differences along a complex direction; reverse mode is its transpose."""
    call = complexified(call)
    positions = moving(op, call)
    if not positions or call.order < 1:
        return
    fn = function(op, call, positions)
    primals = [wrap(call.args[i]) for i in positions]
    ts = directions(3, primals)
    step = 1e-6
    ends = []
    for sign in (1, -1):
        ends.append(fn(*(wrap(p._array + sign * step * t._array) for p, t in zip(primals, ts, strict=True))))
    out, jt = wg.jvp(fn, primals, ts)
    for o, t, plus, minus in zip(out, jt, *ends, strict=True):
        assert t.spec == o.spec, f"{op.name}: a tangent {t.spec} for {o.spec}"
        expected = (np.asarray(plus._array) - np.asarray(minus._array)) / (2 * step)
        np.testing.assert_allclose(np.asarray(t._array), expected, rtol=2e-6, atol=1e-7, err_msg=op.name)
    cts = directions(5, out)
    _, pull = wg.vjp(fn, *primals)
    np.testing.assert_allclose(dot(cts, jt), dot(list(pull(cts)), ts), rtol=1e-8, atol=1e-9, err_msg=op.name)
