"""Forward mode: tangents carried along a recorded graph, from inputs to results.

The rules are the facts that reverse mode uses. A partial multiplies the tangent; an op that is linear
in an argument is applied to the argument's tangent; a general derivative, declared as a
vector-Jacobian product, is linear in its cotangent and is transposed (Radul et al. 2023, "You only
linearize once").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.errors import GradientError, fail
from ...core.mode import Scope, get_mode, reset_mode, set_mode
from ...core.node import Freed, Hooked, Node, Recomputed
from ...core.ops.op import ALIAS, Joint, Linear, Missing, Op, Partial, Route, spec_of_input
from ...core.ops.record import OUTPUT, SCALARS, abstract_input
from ...core.spec import Spec
from ...core.tensor import Tensor, wrap
from . import squares
from .arithmetic import Arrays, Mask, Tensors, fitted, once, routed
from .custom_op import Residuals
from .reverse import backward_pass, freed_error, leading_to, missing_error, reachable


class Track:
    """The part of a recorded graph between some variables and some results, in execution order."""

    __slots__ = ("nodes", "roots")

    def __init__(self, variables: Sequence[Node], roots: Sequence[Node]) -> None:
        self.roots = tuple(roots)
        pending = reachable(self.roots)
        needed = leading_to(variables, pending)
        starts = set(variables)
        order: list[Node] = []
        ready = list(dict.fromkeys(n for n in self.roots if pending[n] == 0))
        while ready:
            node = ready.pop()
            if node in needed and node not in starts:
                order.append(node)
            for entry in node.inputs:
                if type(entry) is Node:
                    pending[entry] -= 1
                    if pending[entry] == 0:
                        ready.append(entry)
        self.nodes = tuple(reversed(order))

    def push(self, tangents: Mapping[Node, Any], record: bool) -> list[Any]:
        """Return the roots' tangents (None where nothing arrives) for tangents of the variables.

        Arrays, or tensors where the pass is itself recorded.
        """
        lib: Any = Tensors if record else Arrays
        found: dict[Node, Any] = dict(tangents)
        masks: dict[Node, Mask] = {}
        mode = get_mode().as_recorded(record)
        token = set_mode(mode)
        opened: set[Recomputed] = set()
        with np.errstate(all="ignore"):
            try:
                for node in self.nodes:
                    saved = node.saved
                    if type(saved) is not tuple:
                        if type(saved) is Hooked:
                            saved = saved.saved
                        if type(saved) is Freed:
                            freed_error("the forward derivative of", node, saved)
                        if isinstance(saved, Recomputed):
                            opened.add(saved)
                            saved = saved.take(node)
                    if record:
                        scope = Scope("gradient", node.op.name, node.scope, node.code, node.offset)
                        set_mode(mode.recording(scope))
                    push_node(lib, node, saved, found, masks)
            finally:
                reset_mode(token)
                for region in opened:
                    region.close()
        return [found.get(n) for n in self.roots]


def push_node(lib: Any, node: Node, saved: Any, tangents: dict[Node, Any], masks: dict[Node, Mask]) -> None:
    """Put the tangent of one node's result into `tangents`, from those of its inputs."""
    op = node.op
    if op is OUTPUT:
        parts = tangents.get(node.inputs[0])
        if parts is not None and parts[node.attrs["index"]] is not None:
            tangents[node] = parts[node.attrs["index"]]
            mask = masks.get(node.inputs[0])
            if mask is not None:
                masks[node] = _part(mask, node.attrs["index"])
        return
    if op is ALIAS:
        if node.inputs[0] in tangents:
            tangents[node] = tangents[node.inputs[0]]
            if node.inputs[0] in masks:
                masks[node] = masks[node.inputs[0]]
        return
    ts = {i: tangents[e] for i, e in enumerate(node.inputs) if type(e) is Node and e in tangents}
    if not ts:
        return
    if lib.recording and op.name in squares.POWERS and (past := squares.squared(node, None)) is not None:
        pushed = squares.push(lib, node, saved, *past, tangents)
        if pushed is not None:
            tangents[node] = _conformed(pushed, node.spec)
            return
    arriving = {i: masks[node.inputs[i]] for i in ts if node.inputs[i] in masks}
    values = lib.saved(node, saved) if lib.recording else saved
    if op.joint is not None:
        tangents[node] = _push_joint(lib, op.joint, ts, values, node)
        return
    total, mask = _push_facts(lib, op, ts, arriving, values, node)
    if total is not None:
        tangents[node] = total
        if mask is not None:
            masks[node] = mask


def _part(masks: Mask, index: int) -> Mask:
    return once(lambda: masks()[index])


def _push_facts(
    lib: Any, op: Op, ts: dict[int, Any], arriving: dict[int, Mask], values: Any, node: Node
) -> tuple[Any, Mask | None]:
    total: Any = None
    flows: list[Mask | None] = []
    general: dict[int, Any] = {}
    linear = {}
    for i, t in ts.items():
        fact: Any = op.fact(i)
        kind = type(fact)
        if kind is Partial:
            part = lib.times(t, fact.pull(None, values, node, i))
            mask = arriving.get(i)
            if mask is not None:
                part = lib.select(part, mask)
            flows.append(mask)
        elif kind is Route:
            passes = fact.pull(None, values, node, i)
            part = t if fact.weight is None else lib.times(t, fact.weight(None, values, node, i))
            part = lib.where(passes, part)
            flows.append(routed(lib, passes, node.spec.shape, arriving.get(i)))
        elif kind is Linear:
            linear[i] = t
            continue
        elif kind is Missing:
            missing_error(node, i, fact)
        elif fact.differentiable:
            general[i] = t
            continue
        else:
            continue
        part = _conformed(part, node.spec)
        total = part if total is None else total + part
    while linear:
        group = _linear_together(op, linear)
        part = _push_linear(lib, op, {i: linear[i] for i in group}, values, node)
        flows.append(_linear_mask(lib, op, group, ts, arriving, values, node))
        for i in group:
            del linear[i]
        total = part if total is None else _plus(total, part)
    if general:
        part = _transposed(lib, general, values, node)
        flows.append(None)
        if part is not None:
            total = part if total is None else _plus(total, part)
    return total, _any_of(lib, flows)


def _plus(a: Any, b: Any) -> Any:
    if type(a) is tuple:
        return tuple(y if x is None else x if y is None else x + y for x, y in zip(a, b, strict=True))
    return a + b


def _conformed(t: Any, spec: Spec) -> Any:
    """Return a tangent in the dtype and the shape of the result that it belongs to."""
    t = fitted(t, spec)
    return t if t.shape == spec.shape else t + np.zeros(spec.shape, t.dtype)


def _any_of(lib: Any, flows: list[Mask | None]) -> Mask | None:
    if not flows or None in flows:
        return None
    if len(flows) == 1:
        return flows[0]

    def united() -> Any:
        found = flows[0]()  # type: ignore[misc]
        for other in flows[1:]:
            found = lib.either(found, other())  # type: ignore[misc]
        return found

    return once(united)


# -- linear in an argument


def _linear_together(op: Op, linear: Mapping[int, Any]) -> list[int]:
    """Return the arguments that the op is jointly linear in: the derivative in one does not name another."""
    last = len(op.params) - 1
    group: list[int] = []
    for i in linear:
        param = min(i, last)
        if all(min(j, last) not in op.fact(i).needs and param not in op.fact(j).needs for j in group):
            group.append(i)
    return group


def _push_linear(lib: Any, op: Op, ts: dict[int, Any], values: Any, node: Node) -> Any:
    """Run the op itself on the tangents of some arguments and on those that it is bilinear with."""
    out = op(*_linear_arguments(lib, op, ts, values, node), **node.attrs)
    if type(out) in (tuple, list):
        return tuple(fitted(o, s) for o, s in zip(out, node.spec, strict=True))  # type: ignore[call-overload]
    return fitted(out, node.spec)


def _linear_arguments(lib: Any, op: Op, ts: dict[int, Any], values: Any, node: Node) -> list[Any]:
    last = len(op.params) - 1
    needed = {p for i in ts for p in op.fact(i).needs}
    args = []
    for j, entry in enumerate(node.inputs):
        if j in ts:
            args.append(ts[j])
        elif min(j, last) in needed:
            args.append(values[j])
        elif type(entry) in SCALARS or op.kind == "elementwise":
            args.append(0)
        else:
            args.append(lib.zeros(spec_of_input(entry)))
    return args


def _linear_mask(
    lib: Any, op: Op, group: list[int], ts: dict[int, Any], arriving: dict[int, Mask], values: Any, node: Node
) -> Mask | None:
    """Return the mask of tangents that arrive in the result of an op that only selects."""
    if op.kind == "elementwise":
        return _any_of(lib, [arriving.get(i) for i in group])
    facts: list[Any] = [op.fact(i) for i in group]
    if not all(f.selects for f in facts):
        return None
    # Nothing is lost on the way, unless what is summed up is empty.
    if all(f.fills for f in facts) and not any(i in arriving or 0 in ts[i].shape for i in group):
        return None

    def moved() -> Any:
        patterns = {i: lib.mask_like(arriving[i](), ts[i]) if i in arriving else lib.ones_like(ts[i]) for i in group}
        out = _push_linear(lib, op, patterns, values, node)
        return tuple(map(lib.nonzero, out)) if type(out) is tuple else lib.nonzero(out)

    return once(moved)


# -- general derivatives


def _push_joint(lib: Any, joint: Joint, ts: dict[int, Any], values: Any, node: Node) -> Any:
    if joint.push is None:
        return _transposed(lib, ts, values, node)
    return joint.push(tuple(ts.get(i) for i in range(len(node.inputs))), values, node, 0)


def _transposed(lib: Any, ts: dict[int, Any], values: Any, node: Node) -> Any:
    """Return J t, of a rule that computes J' ct: the rule is recorded for an abstract ct, then pulled back."""
    several = node.op.results != 1
    specs: Any = node.spec if several else (node.spec,)
    cts = [abstract_input(s, requires_grad=True) if s.inexact else None for s in specs]
    ct = tuple(cts) if several else cts[0]
    if not lib.recording:
        values = tuple(map(_as_tensors, values))
    token = set_mode(get_mode().as_recorded(True))
    try:
        pulled = _pulled(ct, ts, values, node)
        roots: list[Any] = [
            (g.node, _in_dtype(ts[i], g))
            for i, g in pulled
            if isinstance(g, Tensor) and g.requires_grad and g.is_abstract
        ]
        found = backward_pass(roots, [c.node for c in cts if c is not None], create_graph=True, retain_graph=True)  # type: ignore[misc]
    finally:
        reset_mode(token)
    parts = []
    for c, s in zip(cts, specs, strict=True):
        part = None if c is None else found.get(c.node)  # type: ignore[arg-type]
        if part is not None and part.is_abstract and not lib.recording:
            fail(
                GradientError,
                f"{node.op.name} {node.spec}: its derivative rule is not linear in the cotangent",
                "Forward mode transposes it. Write the rule as sums of products with the cotangent.",
            )
        parts.append(None if part is None else lib.value(_conformed(part, s)))
    return tuple(parts) if several else parts[0]


def _pulled(ct: Any, ts: dict[int, Any], values: Any, node: Node) -> list[tuple[int, Any]]:
    joint = node.op.joint
    if joint is not None:
        return [(i, g) for i, g in enumerate(joint.pull(ct, values, node, 0)) if i in ts]
    return [(i, node.op.fact(i).pull(ct, values, node, i)) for i in ts]


def _in_dtype(t: Any, g: Tensor) -> Tensor:
    tangent = t if isinstance(t, Tensor) else wrap(t)
    return tangent if tangent.dtype == g.dtype else tangent.astype(g.dtype)


def _as_tensors(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_as_tensors, value))
    if isinstance(value, Residuals):
        return value.off_graph()
    return wrap(value) if isinstance(value, (np.ndarray, np.generic)) else value


def transposed(push: Callable[[tuple[Any, ...]], Any], specs: Sequence[Spec | None], ct: Any) -> tuple[Any, ...]:
    """Return the cotangents J' ct of the arguments, for a function `push` that computes J t.

    `specs` has the arguments' specs, None for one that carries no tangent; `ct` is a tensor, or a
    tuple of tensors and None where `push` returns a tuple.
    """
    ts = [None if s is None else abstract_input(s, requires_grad=True) for s in specs]
    token = set_mode(get_mode().as_recorded(True))
    try:
        pushed = push(tuple(ts))
        pairs = zip(pushed, ct, strict=True) if isinstance(pushed, tuple) else [(pushed, ct)]
        roots: list[Any] = [
            (out.node, _in_dtype(c, out))
            for out, c in pairs
            if isinstance(out, Tensor) and out.requires_grad and out.is_abstract and c is not None
        ]
        found = backward_pass(roots, [t.node for t in ts if t is not None], create_graph=True, retain_graph=True)  # type: ignore[misc]
    finally:
        reset_mode(token)
    return tuple(None if t is None else found.get(t.node) for t in ts)  # type: ignore[arg-type]
