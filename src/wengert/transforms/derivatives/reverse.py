"""Reverse mode: cotangents carried from results back to what they were computed from.

One engine serves three uses. In a first-order pass over eager values it runs the derivative rules
on NumPy arrays. Where the derivative is itself to be differentiated (`create_graph=True`) or the
graph is abstract, the same rules run on tensors and so record the backward graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...core.dtypes import DType
from ...core.errors import GradientError, GraphError, ShapeError, TraceError, fail, moved, user_location
from ...core.mode import RULE, Scope, get_mode, reset_mode, set_mode
from ...core.node import AROUND_STEPS, AfterStep, BeforeStep, Freed, Hooked, Node, Recomputed
from ...core.ops import kernels
from ...core.ops.op import TABLE, Linear, Missing, NoDerivative, Op, Partial, Route, Vjp
from ...core.ops.record import OUTPUT
from ...core.spec import bool_, category
from ...core.state.capture import open_variables
from ...core.state.observer import Observer, observer, observers
from ...core.tensor import Tensor, as_like, wrap
from . import squares
from .arithmetic import Arrays, Mask, Tensors, fitted, once, routed
from .custom_op import CustomOp


def backward_pass(
    roots: Sequence[tuple[Node, Any]],
    targets: Sequence[Node] | None,
    *,
    create_graph: bool,
    retain_graph: bool,
    as_tensors: bool | None = None,
    known: Reachable | None = None,
) -> dict[Node, Any]:
    """Return cotangents (arrays, or tensors with `create_graph`) of the targets, or of all leaves.

    `roots` pairs result nodes with their cotangents. Each node is visited once, after everything
    that consumes it; the walk keeps its own stack. `as_tensors` without `create_graph` asks for tensors that are
    constants: a trace records how they are computed all the same. `known` is what is reachable from the roots,
    where the caller has looked already; it is used up.
    """
    if not observers or (seen := observer()) is None:
        return _walk(pull_node, roots, targets, create_graph, retain_graph, as_tensors, known)
    seen.pass_begins(roots)
    found: dict[Node, Any] | None = None
    try:
        found = _walk(partial(_observed_pull, seen), roots, targets, create_graph, retain_graph, as_tensors, known)
    finally:
        seen.pass_ends(found)
    return found


def _walk(
    pull: Callable[..., None],
    roots: Sequence[tuple[Node, Any]],
    targets: Sequence[Node] | None,
    create_graph: bool,
    retain_graph: bool,
    as_tensors: bool | None,
    known: Reachable | None,
) -> dict[Node, Any]:
    lib: Any = Tensors if create_graph or as_tensors else Arrays
    freed = None if retain_graph else Freed(user_location())
    needed = None
    pending, ends = known if known is not None else reach([n for n, _ in roots])
    # Where everything ends in a target everything leads to one.
    if targets is not None and not ends.issubset(targets):
        needed = leading_to(targets, pending)
    results: dict[Node, Any] = {}
    wanted = set(targets) if targets is not None else None
    cts = Cotangents(wanted)
    cts.pending, cts.needed = pending, needed
    masks: dict[Node, Mask | None] = {}
    for node, ct in roots:
        _accumulate(lib, cts, masks, node, ct, None)
    ready = list(dict.fromkeys(n for n, _ in roots if pending[n] == 0))
    outer = get_mode()
    mode = outer.as_recorded(create_graph)
    token = set_mode(mode)
    outside = running.set(cts)
    # Infinite and NaN partials are values, at one setting of NumPy's for the whole pass.
    with np.errstate(all="ignore"):
        try:
            while ready:
                node = ready.pop()
                ct = cts.pop(node, None)
                mask = masks.pop(node, None)
                saved = node.saved
                hooks = None
                if type(saved) is not tuple:
                    if type(saved) is Hooked:
                        hooks = saved.hooks
                        ct = _run_hooks(saved, ct, lib)
                        saved = saved.saved
                    if type(saved) is Freed and ct is not None and (needed is None or node in needed):
                        freed_error("backward through", node, saved)
                    if isinstance(saved, Recomputed) and ct is not None and (needed is None or node in needed):
                        cts.opened.add(saved)
                        saved = saved.take(node)
                if wanted is not None and node in wanted and ct is not None:
                    results[node] = ct
                if node.op.kind == "leaf":
                    if wanted is None and ct is not None:
                        results[node] = ct
                elif ct is not None and (needed is None or node in needed):
                    if lib.recording:
                        inside = Scope("gradient", node.op.name, node.scope, node.code, node.offset)
                        set_mode(mode.within(inside))
                    try:
                        if hooks:
                            _pull_hooked(pull, hooks, lib, node, saved, ct, mask, cts, masks, needed)
                        else:
                            pull(lib, node, saved, ct, mask, cts, masks, needed)
                    except (GraphError, TraceError) as e:
                        # The rule cannot be recorded: not for what called for the derivative, but for this operation.
                        if lib.recording and e.place == user_location() and node.source is not None:
                            moved(e, str(node.source))
                        raise
                    if freed is not None and saved:
                        if type(node.saved) is Hooked:
                            node.saved.saved = freed
                        else:
                            node.saved = freed
                for entry in node.inputs:
                    if type(entry) is Node:
                        left = pending[entry] - 1
                        pending[entry] = left
                        if left == 0:
                            ready.append(entry)
        finally:
            reset_mode(token)
            running.reset(outside)
            for region in cts.opened:
                region.close()
    return results


class Cotangents(dict[Node, Any]):
    """The cotangents of a pass that have arrived so far, by node.

    `targets` are the nodes that it is asked for, None for all leaves. `sums` are the nodes whose cotangent is an array
    that the pass has made by adding: nobody else has it, so more is added in place. A parameter that a program uses at
    every step is met as often. `opened` are the checkpoints that compute values again for the pass.
    """

    __slots__ = ("__weakref__", "needed", "opened", "pending", "sums", "targets")

    def __init__(self, targets: set[Node] | None = None) -> None:
        super().__init__()
        self.targets = targets
        self.sums: set[Node] = set()
        self.opened: set[Recomputed] = set()
        self.pending: dict[Node, int] = {}
        self.needed: set[Node] | None = None

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def reaches(self, node: Node | None) -> bool:
        """Return whether the pass computes the gradient of a node's result."""
        return node in self.pending and (self.needed is None or node in self.needed)


# The pass that this thread is in.
running: ContextVar[Cotangents | None] = ContextVar("wengert_backward_pass", default=None)


class Reachable(NamedTuple):
    """The tracked nodes reachable from some roots, with the number of edges that arrive there, and the ends."""

    pending: dict[Node, int]
    ends: set[Node]


def reachable(roots: Sequence[Node]) -> dict[Node, int]:
    """Return, for every tracked node reachable from the roots, the number of edges from reachable nodes."""
    return reach(roots).pending


def reach(roots: Sequence[Node]) -> Reachable:
    """Return the part of the graph that is reachable from the roots over tracked nodes."""
    pending = dict.fromkeys(roots, 0)
    ends: set[Node] = set()
    stack = list(pending)
    while stack:
        node = stack.pop()
        ending = True
        for entry in node.inputs:
            if type(entry) is Node:
                ending = False
                if entry in pending:
                    pending[entry] += 1
                else:
                    pending[entry] = 1
                    stack.append(entry)
        if ending:
            ends.add(node)
    return Reachable(pending, ends)


def refuse_hooks(roots: Sequence[Node], name: str) -> None:
    """Raise GraphError where the roots depend on a value inside a traced function whose gradient something waits for.

    What is made of the trace has gradients of its own, which pass by the value's node.
    """
    for node in reachable(roots):
        hooked = node.saved
        if type(hooked) is not Hooked or node.op.name == "leaf":
            continue
        # A hook that retains the gradient of a transform's variable has had it: it is gone with the variable.
        retains = hooked.retain is not None and hooked.retain() is not None and node not in open_variables
        if hooked.hooks or retains:
            what = "a gradient hook" if hooked.hooks else "retain_grad()"
            fail(
                GraphError,
                f"{what} on a value inside {name}, {node.spec}, whose gradient is taken outside",
                f"{name} is traced, and gradients flow through it as a whole. Take the gradient inside it, or hook "
                "what goes in or comes out.",
            )


def leading_to(targets: Sequence[Node], pending: dict[Node, int]) -> set[Node]:
    """Return the reachable nodes from which a target is reached: no other needs to be visited."""
    consumers: dict[Node, list[Node]] = {}
    for node in pending:
        for entry in node.inputs:
            if type(entry) is Node:
                consumers.setdefault(entry, []).append(node)
    needed = {t for t in targets if t in pending}
    stack = list(needed)
    while stack:
        for node in consumers.get(stack.pop(), ()):
            if node not in needed:
                needed.add(node)
                stack.append(node)
    return needed


def pull_node(
    lib: Any,
    node: Node,
    saved: tuple[Any, ...],
    ct: Any,
    mask: Mask | None,
    cts: Cotangents,
    masks: dict[Node, Any],  # a dict of masks by index for a node with several results
    needed: set[Node] | None,
) -> None:
    """Pull a node's cotangent to its inputs, and add it to what has arrived there."""
    op = node.op
    if op is OUTPUT:
        source = node.inputs[0]
        parts = cts.setdefault(source, [None] * len(source.spec))
        i = node.attrs["index"]
        if parts[i] is not None:
            parts[i] = parts[i] + ct
            masks.get(source, {}).pop(i, None)
        else:
            parts[i] = ct
            if mask is not None:
                masks.setdefault(source, {})[i] = mask
        return
    if type(ct) is list:
        specs: Any = node.spec
        mask = _parts_mask(lib, ct, specs, mask)
        if op.joint is None or not op.joint.absent:
            ct = [c if c is not None or not s.inexact else lib.zeros(s) for c, s in zip(ct, specs, strict=True)]
        ct = tuple(ct)
    values = lib.saved(node, saved) if lib.recording else saved
    inputs = node.inputs
    if lib.recording and op.name in squares.POWERS and (past := squares.squared(node, cts.targets)) is not None:
        _pull_past(lib, node, saved, past, ct, mask, cts, masks, needed)
        return
    found: Sequence[Any] | None = None
    if (op.by_kernel or op.kind == "composite") and not lib.recording and kernels.is_fit(op) and not observers:
        wanted = [type(n) is Node and (needed is None or n in needed) for n in inputs]
        found = kernels.kernels.pull(node, ct, values, wanted)
    if op.joint is not None:
        pulled = op.joint.pull(ct, values, node, 0) if found is None else found
        for entry, g in zip(inputs, pulled, strict=True):
            if type(entry) is Node and g is not None and (needed is None or entry in needed):
                _accumulate(lib, cts, masks, entry, fitted(g, entry.spec), None)
        return
    # Only these kinds can leave a cotangent that is not of its argument's dtype.
    special = (ct[0] if type(ct) is tuple else ct).dtype.kind in "cV"
    for i, entry in enumerate(inputs):
        if type(entry) is not Node or (needed is not None and entry not in needed):
            continue
        fact: Any = op.fact(i)
        kind = type(fact)
        own: Mask | None = None
        if kind is Partial:
            g = lib.scale(ct, fact.pull(ct, values, node, i)) if found is None else found[i]
            if mask is not None:
                own = mask
                g = lib.select(g, mask)
        elif kind is Linear:
            g = fact.pull(ct, values, node, i) if found is None else found[i]
            if mask is not None or (fact.selects and not fact.covers):
                own = _moved_mask(lib, op, fact, ct, values, node, i, mask)
        elif kind is Route:
            passes = fact.pull(ct, values, node, i)
            g = ct if fact.weight is None else lib.scale(ct, fact.weight(ct, values, node, i))
            g = lib.where(passes, g)
            own = routed(lib, passes, entry.spec.shape, mask)
        elif kind is Vjp:
            g = fact.pull(ct, values, node, i) if found is None else found[i]
            if mask is not None and op.results == 1 and node.spec.shape == ():
                # Nothing flows into a scalar: nothing flows into what it was made of. For results of
                # more elements a rule does not say which of them an element of its argument reaches.
                own = _everywhere(lib, mask, entry.spec.shape)
                g = lib.select(g, own)
            if fact.present is not None:
                picked = once(partial(fact.present, None, values, node, i))
                own = picked if own is None else _both(lib, picked, own)
        elif kind is Missing:
            missing_error(node, i, fact)
        else:
            continue
        if special:
            g = fitted(g, entry.spec)
        _accumulate(lib, cts, masks, entry, g, own)


def _pull_past(
    lib: Any,
    node: Node,
    saved: Any,
    past: tuple[Node, int],
    ct: Any,
    mask: Mask | None,
    cts: Cotangents,
    masks: dict[Node, Any],
    needed: set[Node] | None,
) -> None:
    """Pull an even power's cotangent past its base, which has a kink, to the arguments of that."""
    base, power = past
    if isinstance(base.saved, Recomputed):
        cts.opened.add(base.saved)
    for entry, g in zip(base.inputs, squares.pull(lib, node, saved, base, power, ct), strict=True):
        if g is None or (needed is not None and entry not in needed):
            continue
        own = mask if base.op.kind == "elementwise" else None
        if mask is not None and base.spec.shape == ():
            own = _everywhere(lib, mask, entry.spec.shape)
        if own is not None:
            g = lib.select(g, own)
        _accumulate(lib, cts, masks, entry, fitted(g, entry.spec), own)


def _observed_pull(
    seen: Observer,
    lib: Any,
    node: Node,
    saved: tuple[Any, ...],
    ct: Any,
    mask: Mask | None,
    cts: Cotangents,
    masks: dict[Node, Any],
    needed: set[Node] | None,
) -> None:
    """Do a step of the pass, and tell an observer what it adds to each input's cotangent by itself."""
    start = perf_counter()
    if node.op is OUTPUT:
        pull_node(lib, node, saved, ct, mask, cts, masks, needed)
        if not seen.quiet:
            seen.pulled(node, ct, (), {node.inputs[0]: ct}, lib.recording, start)
        return
    own = Cotangents(cts.targets)
    own.opened = cts.opened
    own_masks: dict[Node, Any] = {}
    # A recorded backward pass, and a user's own rule, are made of operations: they are seen.
    is_rule = isinstance(node.op, CustomOp) and not lib.recording
    pause = 0 if lib.recording or is_rule else 1
    token = set_mode(get_mode().within(Scope("gradient", RULE, node.scope))) if is_rule else None
    seen.quiet += pause
    try:
        pull_node(lib, node, saved, ct, mask, own, own_masks, needed)
    finally:
        seen.quiet -= pause
        if token is not None:
            reset_mode(token)
    if not seen.quiet:
        seen.pulled(node, ct, saved, own, lib.recording, start)
    for entry, g in own.items():
        if entry in cts or entry in own_masks:
            _accumulate(lib, cts, masks, entry, g, own_masks.get(entry))
        else:
            cts[entry] = g


def _both(lib: Any, a: Mask, b: Mask) -> Mask:
    return once(lambda: lib.both(a(), b()))


def _everywhere(lib: Any, mask: Mask, shape: tuple[int, ...]) -> Mask:
    return once(lambda: lib.as_mask(mask(), shape))


def _parts_mask(lib: Any, parts: list[Any], specs: Any, masks: Any) -> Mask | None:
    """Return the mask of gradient in the results of an op with several: none in one that was not used."""
    if not masks and all(ct is not None for ct in parts):
        return None
    known = masks or {}

    def evaluated() -> Any:
        return tuple(
            known[i]() if i in known else (lib.zeros if ct is None else lib.ones)(spec.with_dtype(bool_))
            for i, (ct, spec) in enumerate(zip(parts, specs, strict=True))
        )

    return once(evaluated)


def _moved_mask(
    lib: Any, op: Op, fact: Linear, ct: Any, values: Any, node: Node, index: int, mask: Mask | None
) -> Mask | None:
    """Return the mask of gradient in an argument of a linear op, from that in its result."""
    if op.kind == "elementwise":
        return mask
    if not fact.selects or (mask is None and fact.covers):
        return None

    def moved() -> Any:
        if type(ct) is tuple:
            pattern: Any = tuple(map(lib.mask_like, mask(), ct)) if mask is not None else tuple(map(lib.ones_like, ct))
        else:
            pattern = lib.ones_like(ct) if mask is None else lib.mask_like(mask(), ct)
        return lib.nonzero(fact.pull(pattern, values, node, index))

    return once(moved)


def _accumulate(
    lib: Any, cts: Cotangents, masks: dict[Node, Mask | None], node: Node, ct: Any, mask: Mask | None
) -> None:
    old = cts.get(node)
    if old is None:
        cts[node] = ct
        if mask is not None:
            masks[node] = mask
        return
    if node in cts.sums and old.shape == ct.shape and old.dtype == ct.dtype:
        np.add(old, ct, out=old)
    else:
        cts[node] = made = old + ct
        if type(made) is np.ndarray:
            cts.sums.add(node)
    before = masks.pop(node, None)
    if before is not None and mask is not None:
        masks[node] = once(lambda: lib.either(before(), mask()))


def _run_hooks(hooked: Hooked, ct: Any, lib: Any) -> Any:
    if ct is None or type(ct) is list:
        return ct
    gradient = ct if isinstance(ct, Tensor) else wrap(ct)
    for hook in tuple(hooked.hooks.values()):
        if type(hook) in AROUND_STEPS:
            continue
        replaced = hook(gradient)
        if replaced is not None:
            gradient = _checked(replaced, gradient)
    owner = hooked.retain() if hooked.retain is not None else None
    if owner is not None:
        old = owner.grad
        owner.grad = as_like(owner, gradient) if old is None else old + gradient
    return gradient if lib.recording else gradient._array


def _checked(replaced: Any, gradient: Tensor) -> Tensor:
    """Return a hook's result as a gradient. Raises ShapeError if it has another shape."""
    if not isinstance(replaced, Tensor) or replaced.shape != gradient.shape:
        got = replaced.shape if isinstance(replaced, Tensor) else type(replaced).__name__
        fail(ShapeError, f"a gradient hook returned {got} for a gradient of shape {gradient.shape}")
    return as_gradient(replaced, gradient.dtype)


def _replaced(hook: Any, given: tuple[Any, ...], *others: Any) -> tuple[Any, ...]:
    """Return gradients, None for those that there are not, as a hook of a step leaves them. Raises GradientError."""
    replaced = hook(given, *others)
    if replaced is None:
        return given
    new = replaced if isinstance(replaced, tuple) else (replaced,)
    if len(new) != len(given):
        fail(GradientError, f"a hook of a backward step returned {len(new)} gradients for {len(given)}")
    return tuple(n if n is None or g is None else _checked(n, g) for n, g in zip(new, given))


def before_step(hooks: dict[int, Any], gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the gradients of a node's results as the hooks before its step leave them."""
    for hook in tuple(hooks.values()):
        if type(hook) is BeforeStep:
            gradients = _replaced(hook, gradients)
    return gradients


def _pull_hooked(
    pull: Callable[..., None],
    hooks: dict[int, Any],
    lib: Any,
    node: Node,
    saved: tuple[Any, ...],
    ct: Any,
    mask: Mask | None,
    cts: Cotangents,
    masks: dict[Node, Any],
    needed: set[Node] | None,
) -> None:
    """Do a step of the pass among the hooks of the node, where something behind it is asked for."""
    kinds = {type(hook) for hook in hooks.values()}
    goes_on = any(type(n) is Node and (needed is None or n in needed) for n in node.inputs)
    if not goes_on or not kinds & {BeforeStep, AfterStep}:
        return pull(lib, node, saved, ct, mask, cts, masks, needed)

    def shown(g: Any) -> Any:
        return g if g is None or isinstance(g, Tensor) else wrap(g)

    def taken(g: Any) -> Any:
        return g if g is None or lib.recording else g._array

    several = type(ct) is list
    given = tuple(map(shown, ct)) if several else (shown(ct),)
    outputs = before_step(hooks, given)
    if outputs is not given:
        mask = None
    ct = list(map(taken, outputs)) if several else taken(outputs[0])
    own = Cotangents(cts.targets)
    own_masks: dict[Node, Any] = {}
    own.opened = cts.opened
    pull(lib, node, saved, ct, mask, own, own_masks, needed)
    entries = list(dict.fromkeys(n for n in node.inputs if type(n) is Node))
    first = {n: node.inputs.index(n) for n in entries}
    found = tuple(shown(own.get(n)) if type(n) is Node and first[n] == i else None for i, n in enumerate(node.inputs))
    inputs = found
    for hook in tuple(hooks.values()):
        if type(hook) is AfterStep:
            inputs = _replaced(hook, inputs, outputs)
    for n in entries:
        new, old = inputs[first[n]], found[first[n]]
        if new is not None and new is not old:
            own[n], own_masks[n] = taken(new), None
        if n in own:
            _accumulate(lib, cts, masks, n, own[n], own_masks.get(n))
    return None


def as_gradient(g: Tensor, dtype: DType) -> Tensor:
    """Return a user's gradient in the dtype of the tensor that it belongs to."""
    if g.dtype == dtype:
        return g
    if category(g.dtype) == 3 and category(dtype) < 3:
        g = TABLE["real"].front(g)
    return TABLE["cast"].front(g, dtype=dtype)  # type: ignore[no-any-return]


def freed_error(what: str, node: Node, freed: Freed) -> None:
    """Raise GradientError for a node whose saved values a backward pass has freed."""
    made = node.source
    fail(
        GradientError,
        f"{what} {node.op.name} {node.spec} a second time, after its saved values were freed",
        f"They were freed by the backward pass at {freed.where}"
        + (f"; {node.op.name} ran at {made}" if made is not None else "")
        + ". Keep them with backward(retain_graph=True) in the first pass, or compute the result again.",
    )


def missing_error(node: Node, index: int, fact: NoDerivative) -> None:
    """Raise GradientError for an argument in which an op has no derivative."""
    param = node.op.params[min(index, len(node.op.params) - 1)]
    made = node.source
    fail(
        GradientError,
        f"{node.op.name} has no derivative in its argument {param!r}: {fact.why}",
        (f"It ran at {made}. " if made is not None else "")
        + "Detach the argument (x.detach()) if no gradient is meant to flow there.",
    )
