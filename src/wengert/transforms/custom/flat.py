"""Custom rules on flat lists of tensors: how a call is recorded, pulled back, pushed forward and mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core import tree
from ...core.errors import GradientError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Mixed, Node
from ...core.ops.op import TABLE, Joint, spec_of_input
from ...core.ops.record import filled, kept_values
from ...core.spec import Spec, spec_of
from ...core.tensor import Tensor, wrap
from ...ops.random.generator import default_generator
from ..batch.vmap import vmap
from ..derivatives.custom_op import (
    CustomOp,
    Flat,
    Residuals,
    Static,
    as_tensor,
    attached,
    attached_result,
    drawn_again,
    is_tracked,
    no_draws,
    nothing_from_outside,
    record,
    run_unwritten,
    value_of,
)
from ..derivatives.forward import transposed

# From tangents (None where there is none), values and results to the results' tangents.
Push = Callable[[Sequence[Any], Sequence[Tensor], Sequence[Tensor]], list[Any]]
# From values to results and residuals.
Forward = Callable[..., tuple[list[Tensor], Any]]
# From values (of the arguments that are not differentiated in), residuals, cotangents and the values'
# specs to the values' cotangents.
Pull = Callable[[Sequence[Any], Any, Sequence[Any], Sequence[Spec]], list[Any]]


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _cotangents(ct: Any) -> list[Any]:
    return [None if c is None else as_tensor(c) for c in _parts(ct)]


def _plain(found: Sequence[Any], recording: bool) -> list[Any]:
    """Return tensors as the engine holds them."""
    return [t if recording or t is None else t._array for t in found]


def _is_recording(*values: Any) -> bool:
    return any(isinstance(v, Tensor) for v in values)


# From values, residuals, tangents and the results' specs to the results' tangents.
PushOwn = Callable[[Sequence[Any], Any, Sequence[Any], Sequence[Spec]], list[Any]]


# -- a rule for tangents


def call_with_jvp(
    body: Callable[..., list[Tensor]], tensors: Sequence[Tensor], name: str, op: Callable[[], CustomOp]
) -> list[Any]:
    """Run a function on plain values; where a derivative may be asked for, record one node of `op()`."""
    inner = [value_of(t) for t in tensors]
    abstract = any(t.is_abstract for t in tensors)
    outs: list[Any] = run_unwritten(lambda *xs: no_draws(body, xs, name) if abstract else body(*xs), inner, name)
    nothing_from_outside(outs, inner, name)
    if not outs or not (abstract or any(map(is_tracked, tensors))):
        return outs
    made = op()
    saved = None
    if not abstract:
        data: Any = tuple(o._array for o in outs) if made.results != 1 else outs[0]._array
        saved = kept_values(made, tuple(map(is_tracked, tensors)), [t._array for t in tensors], data)
    return record(made, tensors, outs, saved)


def jvp_op(
    name: str, results: int, body: Flat, push: Push, needs_out: bool, front: Flat, place: str | None
) -> CustomOp:
    """Return an op with a rule for its results' tangents."""

    def pushed(ts: Any, xs: Any, outs: Any) -> Any:
        tensors = [as_tensor(x) for x in xs]
        given = [None if t is None else as_tensor(t) for t in ts]
        return push(given, tensors, [as_tensor(o) for o in outs])

    def forwards(ts: Any, xs: Any, outs: Any, node: Node) -> Any:
        found = pushed(ts, xs, outs)
        if results == 1:
            (t,) = found
            found = [filled(0, node.spec) if t is None else t]
        plain = _plain(found, _is_recording(*ts))
        return plain[0] if results == 1 else tuple(plain)

    def backwards(ct: Any, xs: Any, outs: Any, node: Node) -> list[Any]:
        cts = _cotangents(ct)
        recording = _is_recording(*_parts(ct))
        entries = [spec_of_input(e) if isinstance(e, Node) and e.requires_grad else None for e in node.inputs]
        specs = [s if s is not None and s.inexact else None for s in entries]
        found = transposed(lambda ts: tuple(pushed(ts, xs, outs)), specs, tuple(cts))
        if not recording and any(g is not None and g.is_abstract for g in found):
            fail(
                GradientError,
                f"the jvp rule of {name} is not linear in the tangents",
                "Reverse mode transposes it. Write the tangent as sums of products with the tangents.",
                place,
            )
        return _plain(found, recording)

    if needs_out:
        joint = Joint(
            lambda ct, xs, out, node: backwards(ct, xs, _parts(out), node),
            push=lambda ts, xs, out, node: forwards(ts, xs, _parts(out), node),
        )
    else:
        joint = Joint(
            lambda ct, xs, node: backwards(ct, xs, (), node), push=lambda ts, xs, node: forwards(ts, xs, (), node)
        )
    op = CustomOp(name, results, body, joint, front)
    op.batched = lambda mapped: _mapped_jvp(name, results, body, push, needs_out, place, mapped)
    return op


def _axes(mapped: Sequence[bool]) -> tuple[int | None, ...]:
    return tuple(0 if m else None for m in mapped)


def _mapped_jvp(
    name: str, results: int, body: Flat, push: Push, needs_out: bool, place: str | None, mapped: tuple[bool, ...]
) -> Flat:
    axes = _axes(mapped)
    many = vmap(body, in_axes=axes)

    def push_many(ts: Sequence[Any], xs: Sequence[Tensor], outs: Sequence[Tensor]) -> list[Any]:
        given = [i for i, t in enumerate(ts) if t is not None]
        flows: list[bool] = []

        def one(some: Any, values: Any, results: Any) -> Any:
            full: list[Any] = [None] * len(ts)
            for i, t in zip(given, some, strict=True):
                full[i] = t
            found = push(full, values, results)
            flows[:] = [t is not None for t in found]
            return [t for t in found if t is not None]

        in_axes = (tuple(axes[i] for i in given), axes, (0,) * len(outs))
        some = iter(vmap(one, in_axes=in_axes)(tuple(ts[i] for i in given), tuple(xs), tuple(outs)))
        return [next(some) if flow else None for flow in flows]

    return _on_its_own(many, name, lambda front: jvp_op(name, results, many, push_many, needs_out, front, place))


def _on_its_own(many: Flat, name: str, make: Callable[[Flat], CustomOp]) -> Flat:
    """Return a function of tensors that is recorded as a node of an op made for it."""

    def front(*tensors: Tensor) -> Any:
        found = call_with_jvp(lambda *xs: list(_parts(many(*xs))), tensors, name, lambda: op)
        return found[0] if op.results == 1 else tuple(found)

    op = make(front)
    return front


# -- rules for a forward and a backward pass


def call_with_vjp(
    body: Callable[..., list[Tensor]],
    forward: Forward,
    kept: Sequence[bool],
    tensors: Sequence[Tensor],
    name: str,
    op: Callable[[], CustomOp],
) -> list[Any]:
    """Run a function on plain values, by its forward rule where a derivative may be asked for."""
    if any(t.is_abstract for t in tensors) or not any(map(is_tracked, tensors)):
        return call_with_jvp(body, tensors, name, op)
    inner = [value_of(t) for t in tensors]
    state = default_generator.get_state()
    found: tuple[list[Any], Any] = run_unwritten(forward, inner, name)
    outs, residuals = found
    nothing_from_outside(outs, inner, name)
    if not outs:
        return outs
    return record(op(), tensors, outs, (kept_residuals(residuals, inner, outs, kept, state),))


def kept_residuals(
    residuals: Any, inner: Sequence[Tensor], outs: Sequence[Tensor], kept: Sequence[bool], state: Tensor
) -> Residuals:
    """Return the residuals of a forward rule as a node keeps them."""
    leaves, structure = tree.flatten(residuals)
    known = {id(o): ("result", i) for i, o in enumerate(outs)} | {id(x): ("argument", i) for i, x in enumerate(inner)}
    places = [known.get(id(leaf), ("own", 0)) for leaf in leaves]
    redone = any(
        p[0] == "own" and isinstance(leaf, Tensor) and leaf.spec.inexact for leaf, p in zip(leaves, places, strict=True)
    )
    held = [leaf._array if isinstance(leaf, Tensor) and p[0] != "own" else leaf for leaf, p in zip(leaves, places)]
    values = [x._array if k or redone else None for x, k in zip(inner, kept, strict=True)]
    return Residuals(held, structure, places, values, redone, state)


def vjp_op(
    name: str,
    results: int,
    body: Flat,
    forward: Forward,
    pull: Pull,
    kept: Sequence[bool],
    front: Flat,
    push: PushOwn | None = None,
    absent: bool = False,
) -> CustomOp:
    """Return an op with a forward and a backward rule; forward mode transposes that, unless it is given `push`.

    With `absent`, `pull` is given None for results that no cotangent reaches, else zeros.
    """

    def pulled(ct: Any, saved: Any, node: Node) -> list[Any]:
        recording = _is_recording(*_parts(ct))
        xs, residuals = _found(forward, saved, node, recording)
        specs = [spec_of_input(e) for e in node.inputs]
        token = set_mode(get_mode().with_grad(recording))
        try:
            grads = pull(xs, residuals, _cotangents(ct), specs)
        finally:
            reset_mode(token)
        return _plain(grads, recording)

    def pushed(ts: Any, saved: Any, node: Node) -> Any:
        recording = _is_recording(*ts)
        xs, residuals = _found(forward, saved, node, recording)
        specs = [spec_of_input(e) for e in node.inputs]
        given = [
            as_tensor(t) if t is not None else filled(0, s) if s.inexact else None
            for t, s in zip(ts, specs, strict=True)
        ]
        outs: Any = (node.spec,) if results == 1 else node.spec
        assert push is not None
        found = push(xs, residuals, given, outs)
        if results == 1 and found[0] is None:
            found = [filled(0, node.spec)]
        plain = _plain(found, recording)
        return tuple(plain) if results != 1 else plain[0]

    def remake(values: Sequence[Any], saved: Any) -> tuple[Any, Any]:
        inner = [wrap(v) for v in values]
        (before,) = saved
        outs, residuals = drawn_again(forward, inner, before.state)
        data = tuple(o._array for o in outs)
        return data if results != 1 else data[0], (kept_residuals(residuals, inner, outs, kept, before.state),)

    op = CustomOp(name, results, body, Joint(pulled, push=pushed if push is not None else None, absent=absent), front)
    op.remake = remake
    op.batched = lambda mapped: _mapped_vjp(name, results, body, forward, pull, kept, absent, mapped)
    return op


def _found(forward: Forward, saved: Any, node: Node, recording: bool) -> tuple[list[Any], Any]:
    """Return the arguments' values that the backward rule may take, and the residuals."""
    if type(saved) is Mixed or saved == ():
        values = [None] * len(node.inputs) if saved == () else [x._array for x in saved]
        xs: list[Any] = [attached(v if isinstance(e, Node) else e, e) for v, e in zip(values, node.inputs, strict=True)]
        return xs, forward(*xs)[1]
    (held,) = saved
    if held.alone:
        leaves = [wrap(v) if p[0] != "own" else v for v, p in zip(held.leaves, held.places)]
        return [None if v is None else wrap(v) for v in held.values], tree.unflatten(held.structure, leaves)
    if not recording:  # a rule may record what it computes, and differentiate that in what the function was given
        leaves = [_saved(v, p, node) for v, p in zip(held.leaves, held.places)]
        return [None if v is None else wrap(v) for v in held.values], tree.unflatten(held.structure, leaves)
    xs = [None if v is None else attached(v, e) for v, e in zip(held.values, node.inputs, strict=True)]
    if held.redone:
        return xs, drawn_again(forward, xs, held.state)[1]
    leaves = [_saved(v, p, node) for v, p in zip(held.leaves, held.places)]
    return xs, tree.unflatten(held.structure, leaves)


def _saved(value: Any, place: tuple[str, int], node: Node) -> Any:
    """Return a residual: an argument or a result as the part of the graph that it is, others as they are."""
    kind, i = place
    if kind == "own":
        return value
    return attached(value, node.inputs[i]) if kind == "argument" else attached_result(value, node, i)


def _mapped_vjp(
    name: str,
    results: int,
    body: Flat,
    forward: Forward,
    pull: Pull,
    kept: Sequence[bool],
    absent: bool,
    mapped: tuple[bool, ...],
) -> Flat:
    axes = _axes(mapped)
    many = vmap(body, in_axes=axes)

    def forward_many(*xs: Tensor) -> tuple[list[Tensor], Any]:
        others: list[Any] = []

        def one(*values: Tensor) -> Any:
            outs, residuals = forward(*values)
            leaves, structure = tree.flatten(residuals)
            others[:] = [structure, [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]]
            return outs, [leaf for leaf in leaves if isinstance(leaf, Tensor)]

        outs, tensors = vmap(one, in_axes=axes)(*xs)
        return outs, (tensors, Static(others))

    def pull_many(xs: Sequence[Any], residuals: Any, cts: Sequence[Any], specs: Sequence[Spec]) -> list[Any]:
        tensors, static = residuals
        structure, leaves = static.value
        of_one = [s if not m else spec_of(s.shape[1:], s.dtype) for s, m in zip(specs, mapped)]
        flows: list[bool] = []

        def one(kept_values: Any, some: Any, given: Any) -> Any:
            rest, values, arriving = iter(some), iter(kept_values), iter(given)
            full = tree.unflatten(structure, [next(rest) if leaf is None else leaf for leaf in leaves])
            inner = [None if x is None else next(values) for x in xs]
            grads = pull(inner, full, [None if c is None else next(arriving) for c in cts], of_one)
            flows[:] = [g is not None for g in grads]
            return [g for g in grads if g is not None]

        present = [i for i, x in enumerate(xs) if x is not None]
        given = tuple(c for c in cts if c is not None)
        in_axes = (tuple(axes[i] for i in present), (0,) * len(tensors), (0,) * len(given))
        found = iter(vmap(one, in_axes=in_axes)(tuple(xs[i] for i in present), tuple(tensors), given))
        grads = [next(found) if flow else None for flow in flows]
        return [g if g is None or m else _summed(g) for g, m in zip(grads, mapped)]

    def front(*tensors: Tensor) -> Any:
        found = call_with_vjp(lambda *xs: list(_parts(many(*xs))), forward_many, kept, tensors, name, lambda: op)
        return found[0] if results == 1 else tuple(found)

    op = vjp_op(name, results, many, forward_many, pull_many, kept, front, absent=absent)
    return front


def _summed(g: Tensor) -> Tensor:
    return TABLE["sum"].front(g, axis=(-g.ndim,), keepdims=False)  # type: ignore[no-any-return]
