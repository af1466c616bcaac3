"""The checks of forward mode and its nestings that every op of the table must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from opchecks import floating, run, tensors
from wengert.core.ops.op import Call, Op
from wengert.core.spec import category
from wengert.core.tensor import wrap


def moving(op: Op, call: Call) -> list[int]:
    """Return the arguments that the sample can be differentiated in."""
    return [i for i, a in enumerate(call.args) if floating(a) and (op.joint is not None or op.fact(i).differentiable)]


def function(op: Op, call: Call, positions: list[int]) -> Any:
    """Return the op as a function of those arguments, its inexact results in a list."""

    def fn(*values: Any) -> list[Any]:
        args = tensors(call)
        for i, v in zip(positions, values, strict=True):
            args[i] = v
        return [o for o in run(op, call, args) if category(o.dtype) >= 2]

    return fn


def directions(seed: int, likes: list[Any]) -> list[Any]:
    rng = np.random.default_rng(seed)
    out = []
    for like in likes:
        value = rng.normal(size=like.shape)
        if like.dtype.kind == "c":
            value = value + 1j * rng.normal(size=like.shape)
        out.append(wrap(np.asarray(value).astype(like.dtype)))
    return out


def dot(a: list[Any], b: list[Any]) -> float:
    """Return the real inner product of two lists of tensors."""
    return sum(
        float(np.real(np.sum(np.conj(np.asarray(x._array)) * np.asarray(y._array)))) for x, y in zip(a, b, strict=True)
    )


def check_dot_product(op: Op, call: Call) -> None:
    """Check that <J t, c> == <t, J' c>: forward and reverse mode are each other's transpose."""
    positions = moving(op, call)
    if not positions or call.order < 1:
        return
    fn = function(op, call, positions)
    primals = [wrap(call.args[i]) for i in positions]
    ts = directions(3, primals)
    out, jt = wg.jvp(fn, primals, ts)
    cts = directions(5, out)
    _, pull = wg.vjp(fn, *primals)
    jc = pull(cts)
    for o, t in zip(out, jt, strict=True):
        assert t.spec == o.spec, f"{op.name}: a tangent {t.spec} for {o.spec}"
    np.testing.assert_allclose(dot(cts, jt), dot(list(jc), ts), rtol=1e-9, atol=1e-10, err_msg=op.name)


def check_recorded(op: Op, call: Call) -> None:
    """Check that a recorded forward pass, and a traced one, give what the plain one gives."""
    positions = moving(op, call)
    if not positions or call.order < 1:
        return
    fn = function(op, call, positions)
    primals = [wrap(call.args[i]) for i in positions]
    ts = directions(3, primals)
    _, plain = wg.jvp(fn, primals, ts)

    def pushed(*values: Any) -> Any:
        n = len(primals)
        return wg.jvp(fn, values[:n], values[n:])[1]

    tracked = [wg.tensor(p, requires_grad=True) for p in primals]
    for found, expected in zip(pushed(*tracked, *ts), plain, strict=True):
        same(op, found, expected)
    for found, expected in zip(wg.graph(pushed)(*primals, *ts)(*primals, *ts), plain, strict=True):
        same(op, found, expected)


def check_forward_over_reverse(op: Op, call: Call) -> None:
    """Check that forward and reverse over reverse agree on a directional derivative of the gradient."""
    positions = moving(op, call)
    if not positions or call.order < 2:
        return
    fn = function(op, call, positions)
    primals = [wrap(call.args[i]) for i in positions]
    ts = directions(3, primals)
    cts = directions(5, fn(*primals))

    def gradient(*values: Any) -> Any:
        return list(wg.vjp(fn, *values)[1](cts))

    grads, forward = wg.jvp(gradient, primals, ts)
    weights = directions(7, grads)
    _, pull = wg.vjp(gradient, *primals)
    np.testing.assert_allclose(
        dot(weights, forward), dot(list(pull(weights)), ts), rtol=1e-8, atol=1e-9, err_msg=op.name
    )


def check_reverse_over_forward(op: Op, call: Call) -> None:
    """Check that <d/dx (J t), c> by reverse over forward agrees with forward over forward."""
    positions = moving(op, call)
    if not positions or call.order < 2:
        return
    fn = function(op, call, positions)
    primals = [wrap(call.args[i]) for i in positions]
    ts, us = directions(3, primals), directions(9, primals)

    def pushed(*values: Any) -> Any:
        return wg.jvp(fn, values, ts)[1]

    jt, twice = wg.jvp(pushed, primals, us)
    cts = directions(5, jt)
    _, pull = wg.vjp(pushed, *primals)
    np.testing.assert_allclose(dot(cts, twice), dot(list(pull(cts)), us), rtol=1e-8, atol=1e-9, err_msg=op.name)


def same(op: Op, found: Any, expected: Any) -> None:
    assert found.spec == expected.spec, f"{op.name}: {found.spec}, not {expected.spec}"
    np.testing.assert_allclose(
        np.asarray(found._array), np.asarray(expected._array), rtol=1e-9, atol=1e-12, err_msg=op.name
    )
