"""The checks that an op's declaration must pass, as functions that raise AssertionError.

`test_op_table.py` runs them over the whole table; `test_planted_facts.py` plants wrong facts and
shows that they are caught.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

import wengert as wg
import wengert.ops.collective.definitions  # (declares the collectives)
import wengert.transforms.control  # (declares the ops of control flow)
from wengert.core.ops.op import TABLE, Call, Linear, Op
from wengert.core.spec import category, spec_of
from wengert.core.tensor import wrap


def calls(op: Op) -> list[Call]:
    """Return the op's own sample calls, the same in every run."""
    assert op.samples is not None
    return list(op.samples(np.random.default_rng(sum(map(ord, op.name)))))


def checked_ops() -> list[Op]:
    return [op for op in TABLE.values() if op.samples is not None]


OPS = {op.name: op for op in checked_ops()}


def tensors(call: Call) -> list[Any]:
    return [wrap(a) if isinstance(a, np.ndarray) else a for a in call.args]


def run(op: Op, call: Call, args: list[Any] | None = None) -> tuple[Any, ...]:
    out = op.front(*(tensors(call) if args is None else args), **call.attrs)
    return out if isinstance(out, tuple) else (out,)


def floating(value: Any) -> bool:
    return isinstance(value, np.ndarray) and category(value.dtype) >= 2


def check_reference(op: Op, call: Call) -> None:
    """Check the forward against an independent implementation."""
    reference = op.reference
    assert reference is not None
    if isinstance(reference, str):
        module, name = reference.rsplit(".", 1)
        reference = getattr(importlib.import_module(module), name)
    with np.errstate(all="ignore"):
        expected = reference(*call.args, **call.attrs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = run(op, call)
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        e = np.asarray(e)
        assert f.shape == e.shape, f"{op.name}: shape {f.shape}, reference {e.shape}"
        np.testing.assert_allclose(np.asarray(f._array), e, rtol=1e-10, atol=1e-12, err_msg=op.name)


def check_shape_rule(op: Op, call: Call) -> None:
    """Check the abstract spec against the concrete result."""
    specs = [spec_of(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in call.args]
    inferred = op.infer(*specs, **call.attrs)
    inferred = inferred if isinstance(inferred, tuple) else (inferred,)
    for found, spec in zip(run(op, call), inferred, strict=True):
        assert found.spec == spec, f"{op.name}: ran to {found.spec}, inferred {spec}"


EVERY_DTYPE = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, wg.bfloat16, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip


def in_dtype(value: Any, dtype: Any) -> Any:
    """Return a sample's floating argument in another dtype, as numbers that are more than zeros there."""
    dtype = np.dtype(dtype)
    if not floating(value) or (value.dtype.kind == "c" and dtype.kind != "c"):
        return value
    if dtype.kind in "biu":
        value = np.abs(3 * value) if dtype.kind == "u" else value > 0 if dtype.kind == "b" else 3 * value
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


def check_every_dtype(op: Op, call: Call) -> None:
    """Check that the forward takes what the shape rule takes, and gives what was inferred, and refuses the rest."""
    for dtype in EVERY_DTYPE:
        args = [in_dtype(a, dtype) for a in call.args]
        specs = [spec_of(a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in args]
        if all(a is b for a, b in zip(args, call.args)):
            return
        try:
            inferred = op.infer(*specs, **call.attrs)
        except wg.DTypeError:
            continue
        try:
            with np.errstate(all="ignore"):
                found = op.forward(*args, **call.attrs)
        except wg.WengertError:
            continue  # for its values: a singular matrix, a negative power
        inferred = inferred if isinstance(inferred, tuple) else (inferred,)
        found = found if isinstance(found, tuple) else (found,)
        for f, spec in zip(found, inferred, strict=True):
            assert (np.shape(f), np.asarray(f).dtype) == (spec.shape, spec.dtype), (op.name, dtype)


def check_dtypes(op: Op, call: Call) -> None:
    """Check that results have the inferred dtype and gradients the argument's, in every floating width."""
    for dtype in (wg.float32, wg.float16, wg.bfloat16):
        cast = [a.astype(dtype) if floating(a) and a.dtype.kind == "f" else a for a in call.args]
        narrow = Call(tuple(cast), call.attrs, call.order)
        check_shape_rule(op, narrow)
        if op.differentiable:
            for g, a in _gradients(op, narrow, create_graph=False):
                assert (g.shape, g.dtype) == (a.shape, a.dtype), f"{op.name}: gradient {g.spec} for {a.shape} {a.dtype}"


def _gradients(op: Op, call: Call, create_graph: bool) -> list[tuple[Any, np.ndarray]]:
    args = tensors(call)
    leaves = [a for a in args if isinstance(a, wg.Tensor) and category(a.dtype) >= 2]
    for a in leaves:
        a.requires_grad_()
    outs = [o for o in run(op, call, args) if o.requires_grad]
    if not outs:
        return []
    rng = np.random.default_rng(7)
    seeds = [wrap(_random(rng, o)) for o in outs]
    grads = wg.autograd.grad(outs, leaves, seeds, create_graph=create_graph, allow_unused=True)
    return [(g, a._array) for g, a in zip(grads, leaves, strict=True) if g is not None]


def _random(rng: np.random.Generator, like: Any) -> np.ndarray:
    value = rng.uniform(0.5, 1.5, like.shape)
    if like.dtype.kind == "c":
        value = value + 1j * rng.uniform(0.5, 1.5, like.shape)
    return np.asarray(value).astype(like.dtype)


def check_derivatives(op: Op, call: Call) -> None:
    """Check reverse mode against differences, to the order that the sample allows."""
    positions = [
        i for i, a in enumerate(call.args) if (floating(a) and op.fact(i).differentiable) or _joint(op, call, i)
    ]
    if not positions or call.order < 1:
        return

    def fn(*moving: Any) -> Any:
        args = tensors(call)
        for i, t in zip(positions, moving, strict=True):
            args[i] = t
        return run(op, call, args)

    wg.check_grads(fn, tuple(wrap(call.args[i]) for i in positions), order=min(call.order, 2), max_elements=12)


def _joint(op: Op, call: Call, i: int) -> bool:
    return op.joint is not None and floating(call.args[i])


def check_recorded(op: Op, call: Call) -> None:
    """Check that a recorded backward pass gives what the plain one gives."""
    plain = _gradients(op, call, create_graph=False)
    recorded = _gradients(op, call, create_graph=True)
    assert len(plain) == len(recorded)
    for (p, _), (r, _) in zip(plain, recorded, strict=True):
        np.testing.assert_allclose(np.asarray(p._array), np.asarray(r._array), rtol=1e-9, atol=1e-12, err_msg=op.name)


def check_adjoint(op: Op, call: Call) -> None:
    """Check <J t, c> == <t, J' c> for an argument in which the op is linear: f(x + t) - f(x) is J t."""
    rng = np.random.default_rng(11)
    for i, a in enumerate(call.args):
        if not (floating(a) and isinstance(op.fact(i), Linear) and op.joint is None):
            continue
        t = _random(rng, wrap(a))
        args, moved, base = tensors(call), tensors(call), tensors(call)
        args[i].requires_grad_()
        moved[i], base[i] = wrap(t), wrap(np.zeros_like(a))
        outs = run(op, call, args)
        cts = [wrap(_random(rng, o)) for o in outs]
        (g,) = wg.autograd.grad(list(outs), args[i], cts)
        jt = [
            np.asarray(m._array) - np.asarray(z._array)
            for m, z in zip(run(op, call, moved), run(op, call, base), strict=True)
        ]
        left = sum(np.sum(np.conj(np.asarray(c._array)) * j) for c, j in zip(cts, jt, strict=True))
        right = np.sum(np.conj(np.asarray(g._array)) * t)
        np.testing.assert_allclose(np.real(left), np.real(right), rtol=1e-9, atol=1e-10, err_msg=op.name)


def check_graph(op: Op, call: Call) -> None:
    """Check that, traced, printed, parsed and interpreted, the op gives what eager gives."""
    arrays = [i for i, a in enumerate(call.args) if isinstance(a, np.ndarray)]

    def fn(*moving: Any) -> Any:
        args = list(call.args)
        for i, t in zip(arrays, moving, strict=True):
            args[i] = t
        return run(op, call, args)

    inputs = [wrap(call.args[i]) for i in arrays]
    graph = wg.graph(fn)(*inputs)
    assert wg.Graph.parse(str(graph)) == graph
    assert wg.Graph.from_json(graph.to_json()) == graph
    for found, eager in zip(graph(*inputs), run(op, call), strict=True):
        assert found.spec == eager.spec
        np.testing.assert_array_equal(np.asarray(found._array), np.asarray(eager._array), err_msg=op.name)
    for found, eager in zip(graph.expand()(*inputs), run(op, call), strict=True):
        np.testing.assert_allclose(
            np.asarray(found._array), np.asarray(eager._array), rtol=1e-10, atol=1e-12, err_msg=f"{op.name} expanded"
        )


def check_strides(op: Op, call: Call) -> None:
    """Check that non-contiguous and reversed inputs give the same numbers; inputs are left alone."""

    def strided(a: Any) -> Any:
        if not isinstance(a, np.ndarray) or a.ndim == 0:
            return a
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]

    before = [a.copy() if isinstance(a, np.ndarray) else a for a in call.args]
    expected = run(op, call)
    found = run(op, Call(tuple(map(strided, call.args)), call.attrs))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(f._array), np.asarray(e._array), rtol=1e-12, atol=1e-13, err_msg=op.name)
    for a, b in zip(call.args, before, strict=True):
        np.testing.assert_array_equal(a, b)
