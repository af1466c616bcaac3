"""Gradients of eager tensors: `backward`, and `gradients` (`wg.autograd.grad`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import in_order_of
from ...core.elsewhere import CPU, Elsewhere
from ...core.errors import DTypeError, GradientError, ShapeError, WengertError, fail, user_location
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import AfterAccumulation, AfterStep, BeforeStep, Freed, Hooked, Node, refuse_inside
from ...core.ops.op import LEAF, TABLE
from ...core.spec import category
from ...core.state.capture import fresh_leaves, get_capture, get_writes, open_variables
from ...core.state.observer import observers
from ...core.tensor import Tensor, as_like, asarray, like, new, refuse_cut, wrap
from ...ops.index.inplace import set_gradient
from ...ops.structure.shapes import placed
from .reverse import Reachable, backward_pass, before_step, reach
from .whole import whole

# NumPy's flags: elements in C order, at addresses that suit them.
PLAIN = 0x0001 | 0x0100


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def seed(out: Tensor, ct: Any, what: str) -> Any:
    """Return the starting cotangent of one result, checked."""
    if ct is None:
        if out.size != 1:
            fail(
                GradientError,
                f"{what} of a tensor that is not a scalar, {out.spec}",
                "Only a scalar has one gradient. Reduce it (x.sum(), x.mean()), "
                "or say what multiplies its Jacobian: backward(gradient=...).",
            )
        if category(out.dtype) == 3:
            fail(
                GradientError,
                f"{what} of a complex scalar, {out.spec}",
                "The loss must be real: take wg.real(x) or wg.abs(x), or pass gradient=... yourself.",
            )
        return wrap(np.ones(out.shape, out.dtype))
    ct = ct if isinstance(ct, Tensor) else asarray(ct)
    if ct.shape != out.shape:
        fail(
            ShapeError,
            f"{what}: a gradient of shape {ct.shape} for a result of shape {out.shape}",
            "The gradient has the shape of the result that it multiplies.",
        )
    if category(ct.dtype) == 3 and category(out.dtype) < 3:
        fail(DTypeError, f"{what}: a complex gradient for a result of dtype {out.dtype}")
    return ct if ct.dtype == out.dtype else TABLE["cast"].front(placed(ct, CPU), dtype=out.dtype)


def _roots(outputs: list[Any], cts: Any, what: str) -> list[tuple[Tensor, Tensor]]:
    given = _as_list(cts) if cts is not None else [None] * len(outputs)
    if len(given) != len(outputs):
        fail(GradientError, f"{what}: {len(given)} gradients for {len(outputs)} results")
    pairs = []
    for out, ct in zip(outputs, given, strict=True):
        if not isinstance(out, Tensor):
            fail(DTypeError, f"{what} of a {type(out).__name__}, not a tensor")
        if not out.requires_grad:
            fail(
                GradientError,
                f"{what} of a tensor that does not require gradients, {out.spec}",
                "Nothing it was computed from has requires_grad=True, or it was computed under "
                "no_grad() or detached. Set requires_grad=True on what you differentiate with respect to; "
                "wg.explain.missing(w, f) tells which line of f lost the gradient of w.",
            )
        pairs.append((out, seed(out, ct, what)))
    return pairs


def _run(
    pairs: list[tuple[Tensor, Tensor]],
    targets: list[Node] | None,
    create_graph: bool,
    retain_graph: bool | None,
    known: Reachable | None = None,
) -> dict[Node, Any]:
    if not create_graph:
        for out, _ in pairs:
            refuse_cut(out, "gradients without create_graph=True", _CONSTANT)
    is_abstract = any(o._array is None or c._array is None for o, c in pairs)
    if is_abstract and not create_graph and not retain_graph and (capture := get_capture()) is not None:
        capture.consume([o.node for o, _ in pairs if o.node is not None])
    as_tensors = create_graph or is_abstract
    roots: Any = [(o.node, c if as_tensors else c._array) for o, c in pairs]
    retain = as_tensors if retain_graph is None else retain_graph
    if targets is not None:
        known = reach([node for node, _ in roots])
        for target in targets:
            refuse_inside(target)
        if fresh_leaves() is not None:  # a leaf that was written to in a trace has a node for each of its values
            owners = {id(n.variable) for n in targets if n.op is LEAF}
            others = known.pending.keys() - targets
            targets = [*targets, *(n for n in others if n.op is LEAF and id(n.variable) in owners)]
        # Any tensor may lie behind what a compiled program has freed.
        targets = [*targets, *(n for n in known.ends if type(n.saved) is Freed)]
    return backward_pass(
        roots, targets, as_tensors=as_tensors, create_graph=create_graph, retain_graph=retain, known=known
    )


_CONSTANT = (
    "The gradients would be constants, and their own derivative lost: write backward(create_graph=True) or "
    "autograd.grad(..., create_graph=True). Where they are meant as constants, take them of a loss of x.detach()."
)


def backward(
    tensors: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    Parameters
    ----------
    tensors: a scalar tensor, or several.
    gradient: what multiplies the Jacobian, in each result's shape; needed unless it is a scalar.
    retain_graph: keep the saved values for another pass (default: the value of `create_graph`).
    create_graph: record the pass itself, so that gradients can be differentiated again.
    inputs: fill only these leaves' `.grad`.

    Raises GradientError, ShapeError.

    >>> import wengert as wg
    >>> x = wg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> x.grad
    tensor(6.)
    """
    known = None
    if gradient is None and inputs is None and not create_graph and isinstance(tensors, Tensor):
        known = _reached(tensors)
        if known is not None and _is_done_at_once(tensors, known, bool(retain_graph)):
            return
    pairs = _roots(_as_list(tensors), gradient, "backward()")
    targets = None
    if inputs is not None:
        targets = []
        for t in _as_list(inputs):
            if not isinstance(t, Tensor) or t.node is None:
                fail(GradientError, "backward(inputs=...): not a tensor that requires gradients")
            targets.append(t.node)
    found = _run(pairs, targets, create_graph, retain_graph, known)
    for node, ct in found.items():
        owner = node.variable if node.op.kind == "leaf" else _owner(inputs, node)
        if owner is not None and not owner.requires_grad:
            continue  # frozen since
        if owner is None and node.saved is None and (capture := get_capture()) is not None:
            capture.arrive(node)
        if owner is not None:
            steps = node.saved.hooks if type(node.saved) is Hooked and node.op.kind == "leaf" else {}
            if any(type(hook) is BeforeStep for hook in steps.values()):
                (ct,) = before_step(steps, (ct if isinstance(ct, Tensor) else wrap(ct),))
            value = _beside(owner, as_like(owner, ct if isinstance(ct, Tensor) else wrap(ct)))
            old = owner.grad
            total = value if old is None else _add(old, value, create_graph)
            if create_graph:  # a new tensor, as in PyTorch: the one before may be what somebody differentiates
                owner.grad = total
            else:
                set_gradient(owner, _lying_as(owner, total))
            if steps:
                _call_after(owner, steps, value, create_graph)


def _reached(out: Tensor) -> Reachable | None:
    """Return the nodes reachable from a real scalar on this device; None if something observes the pass."""
    node = out.node
    if node is None or not node.requires_grad or node.spec.shape != () or out.is_weak or observers:
        return None
    if open_variables or get_writes() is not None or get_capture() is not None or fresh_leaves() is not None:
        return None
    if type(out._array) is not np.ndarray or out._array.dtype.kind != "f" or get_mode().tracing:
        return None
    return reach([node])


def _is_done_at_once(out: Tensor, known: Reachable, retain_graph: bool) -> bool:
    """Fill the gradients of all leaves by a compiled pass, if there is one; return whether that was done."""
    found = whole(out.node, known.pending)  # type: ignore[arg-type]
    if found is None:
        return False
    try:
        grads = found.compiled.program.run(
            [a if a.flags.num & PLAIN == PLAIN else np.array(a, order="C") for a in found.arrays]
        )
    except WengertError:  # reverse mode meets it too, and says so in its words
        return False
    if not retain_graph:
        freed = Freed(user_location())
        for node in found.nodes:
            if node.saved:
                node.saved = freed
    for i, g in zip(found.compiled.leaves, grads, strict=True):
        leaf = found.leaves[i]
        owner = leaf.saved()
        if owner is None or owner.node is None or not owner.node.requires_grad:
            continue  # gone, or frozen since
        value = new(owner.result_class)
        value._data, value._spec, value.node, value._share = g, leaf.spec, None, None
        try:
            old, data = owner._grad, owner._data
        except AttributeError:
            old, data = owner.grad, None
        if old is None and type(data) is np.ndarray and (g.ndim < 2 or data.flags.c_contiguous):
            owner._grad = value
            continue
        old = owner.grad
        set_gradient(owner, _lying_as(owner, value if old is None else _add(old, value, False)))
    return True


def _call_after(owner: Tensor, hooks: dict[int, Any], gradient: Tensor, create_graph: bool) -> None:
    """Call the hooks of a leaf whose `.grad` is there, without recording what they do unless the pass is recorded."""
    token = set_mode(get_mode().as_recorded(create_graph))
    try:
        for hook in tuple(hooks.values()):
            if type(hook) is AfterAccumulation and hook(owner) is not None:
                fail(GradientError, "a hook after accumulation returned a value", "Such hooks should return None.")
        for hook in tuple(hooks.values()):
            if type(hook) is AfterStep:
                hook((), (gradient,))
    finally:
        reset_mode(token)


def _beside(owner: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient where its tensor is: of the host's numbers in a program on a device, on the host."""
    is_apart = isinstance(gradient._array, Elsewhere) and type(owner._array) is np.ndarray
    return placed(gradient, CPU) if is_apart else gradient


def _lying_as(owner: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient that lies in memory as its tensor does: what is a view of the one is a view of the other."""
    data, lies = gradient._array, owner._array
    if type(data) is not np.ndarray or type(lies) is not np.ndarray or data.ndim < 2:
        return gradient
    if data.flags.c_contiguous and lies.flags.c_contiguous:
        return gradient
    if 0 in data.strides:  # repeated elements; in PyTorch's namespace views of a gradient are written to
        if owner.result_class is Tensor:
            return gradient
        data = data.copy()
    turned = in_order_of(data, (lies,))
    return gradient if turned is gradient._array else like(gradient, wrap(turned))


def _owner(inputs: Any, node: Node) -> Tensor | None:
    return next((t for t in _as_list(inputs) if t.node is node), None)


def _add(a: Tensor, b: Tensor, create_graph: bool) -> Tensor:
    if isinstance(a._array, Elsewhere) and isinstance(b._array, Elsewhere) and not create_graph:
        return like(a, wrap(a._array + b._array))
    token = set_mode(get_mode().as_recorded(create_graph))
    try:
        return a + b
    finally:
        reset_mode(token)


def _sum(a: Any, b: Any, create_graph: bool) -> Tensor:
    first, second = (c if isinstance(c, Tensor) else wrap(c) for c in (a, b))
    return _add(first, second, create_graph)


def gradients(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `outputs` (their sum, weighted by `grad_outputs`) in each of `inputs`.

    Parameters are those of :func:`backward`; `allow_unused` gives None for an input that the
    outputs do not depend on instead of raising. Nothing is added to any `.grad`.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> (g,) = wg.autograd.grad(x ** 3, x, create_graph=True)
    >>> wg.autograd.grad(g, x)
    (tensor(12.),)
    """
    wanted = _as_list(inputs)
    targets = []
    for t in wanted:
        if not isinstance(t, Tensor):
            fail(DTypeError, f"grad() in a {type(t).__name__}, not a tensor")
        if not t.requires_grad:
            fail(
                GradientError,
                f"grad() in a tensor that does not require gradients, {t.spec}",
                "Set requires_grad=True on it before computing the outputs.",
            )
        targets.append(t.node)
    pairs = _roots(_as_list(outputs), grad_outputs, "grad()")
    found = _run(pairs, targets, create_graph, retain_graph)  # type: ignore[arg-type]
    results: list[Tensor | None] = []
    for i, t in enumerate(wanted):
        ct = found.get(t.node)
        if fresh_leaves() is not None and t.node is not None and t.node.op is LEAF:
            for node, other in found.items():
                if node is not t.node and node.op is LEAF and node.variable is t:
                    ct = other if ct is None else _sum(ct, other, create_graph)
        if ct is None and not allow_unused:
            fail(
                GradientError,
                f"the outputs do not depend on input {i}, {t.spec}",
                "Pass allow_unused=True to get None for it; wg.explain.missing(x, f) tells why.",
            )
        results.append(None if ct is None else _beside(t, as_like(t, ct if isinstance(ct, Tensor) else wrap(ct))))
    return tuple(results)
