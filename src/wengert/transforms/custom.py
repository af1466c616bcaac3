"""Functions whose forward and backward the user writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import GradientError, ShapeError, fail
from ..core.mode import get_mode, reset_mode, set_mode
from ..core.node import Node, make_node
from ..core.op import Joint, Op, spec_of_input
from ..core.record import caller, graph_input, pick
from ..core.spec import spec_of
from ..core.tensor import Tensor, abstract, wrap
from .reverse import as_gradient


class Context:
    """What `forward` leaves for `backward`; any attribute may be set on it too."""

    needs_input_grad: tuple[bool, ...]

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._kept: tuple[Any, ...] = ()
        self._fixed: frozenset[int] = frozenset()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, which finds them in `saved_tensors`."""
        self._kept = tensors

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Say that these results carry no gradient."""
        self._fixed = frozenset(id(o) for o in outputs)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to `save_for_backward`, in order."""
        return self._kept


class Function:
    """A differentiable function with a derivative of your own.

    Subclass it with static methods `forward(ctx, *args)`, which returns a tensor or a tuple of
    tensors, and `backward(ctx, *grads)`, which returns a gradient (or None) for every argument of
    `forward`; call it with `apply`. `wg.check_grads(Cube.apply, x)` compares its derivative with finite
    differences.

    >>> import wengert as wg
    >>> class Cube(wg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return g * 3.0 * x * x
    >>> x = wg.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """The value; overridden by subclasses."""
        fail(GradientError, "a custom Function without forward()", "Define a static method forward(ctx, ...).")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """The gradients; overridden by subclasses."""
        fail(GradientError, "a custom Function without backward()", "Define a static method backward(ctx, *grads).")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on the arguments and record one node for it."""
        mode = get_mode()
        needs = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        ctx = Context(needs)
        # Inside, the arguments are plain values: what forward does is not itself recorded.
        inner = [_value(a) for a in args]
        token = set_mode(mode.with_grad(False))
        try:
            result = cls.forward(ctx, *inner, **kwargs)
        finally:
            reset_mode(token)
        outs = result if isinstance(result, tuple) else (result,)
        for o in outs:
            if not isinstance(o, Tensor):
                fail(GradientError, f"{cls.__name__}.forward returned a {type(o).__name__}, not a tensor")
        if not (mode.grad and any(needs)):
            return result
        tensors = [a for a in args if isinstance(a, Tensor)]
        fixed = [id(o) in ctx._fixed for o in outs]
        node = _node(cls, ctx, args, kwargs, tensors, inner, outs)
        tracked = [o if f else _result(node, i, o, len(outs)) for i, (o, f) in enumerate(zip(outs, fixed, strict=True))]
        return tuple(tracked) if isinstance(result, tuple) else tracked[0]


def _value(arg: Any) -> Any:
    if not isinstance(arg, Tensor):
        return arg
    return abstract(arg.node) if arg._data is None else wrap(arg._data, arg._spec)  # type: ignore[arg-type]


def _node(
    cls: type[Function],
    ctx: Context,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    tensors: Sequence[Tensor],
    inner: Sequence[Any],
    outs: Sequence[Tensor],
) -> Node:
    inputs = tuple(graph_input(t) for t in tensors)
    specs = tuple(o.spec for o in outs)
    code, offset = caller()
    op = _op(cls, args, kwargs)
    node = make_node(op, inputs, {}, (), specs if len(outs) > 1 else specs[0], code, offset, get_mode().scope)
    # What was saved is an argument, a result or a value of forward's own; arguments and results are
    # put back into the graph when the backward pass is itself recorded.
    places = {id(v): ("argument", i) for i, v in enumerate(inner) if isinstance(v, Tensor)}
    places |= {id(o): ("result", i) for i, o in enumerate(outs)}
    kept = tuple((k, places.get(id(k), ("own", 0))) for k in ctx._kept)
    ctx._kept = ()
    node.saved = ((cls, ctx, kept, tuple(_entry(a) for a in args), len(outs)),)
    return node


def _entry(arg: Any) -> Any:
    return graph_input(arg) if isinstance(arg, Tensor) else None


def _result(node: Node, index: int, out: Tensor, count: int) -> Tensor:
    if not out.spec.inexact:
        return out
    if count > 1:
        return pick(node, index, out._data)
    if out._data is None:
        return abstract(node)
    made = wrap(out._data, out._spec)
    made.node = node
    return made


def _op(cls: type[Function], args: Sequence[Any], kwargs: dict[str, Any]) -> Op:
    """The op of a call of a Function subclass; it stays out of the table.

    One for all calls with tensors only; others have their own, which knows the other arguments.
    """
    plain = not kwargs and all(isinstance(a, Tensor) for a in args)
    found = cls.__dict__.get("_op") if plain else None
    if found is None:
        found = Op.unlisted(f"{cls.__name__}(*xs)", _forward(cls, None if plain else args, kwargs), Joint(_pull))
        if plain:
            cls._op = found  # type: ignore[attr-defined]
    return found


def _forward(cls: type[Function], args: Sequence[Any] | None, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """The class's forward on arrays in the tensors' places; `args` where there are other arguments too."""
    template = None if args is None else [_TENSOR if isinstance(a, Tensor) else a for a in args]

    def forward(*values: Any) -> Any:
        found = iter([wrap(np.asarray(v)) for v in values])
        full = list(found) if template is None else [next(found) if a is _TENSOR else a for a in template]
        ctx = Context((False,) * len(full))
        result = cls.forward(ctx, *full, **kwargs)
        return tuple(r._data for r in result) if isinstance(result, tuple) else result._data

    return forward


_TENSOR = object()  # stands for a tensor among the arguments of a call


def _pull(ct: Any, node: Any) -> tuple[Any, ...]:
    cls, ctx, kept, entries, count = node.saved[0] if type(node.saved) is tuple else node.saved.saved[0]
    cts = ct if isinstance(ct, tuple) else (ct,)
    recording = any(isinstance(c, Tensor) for c in cts)
    ctx._kept = tuple(_restored(k, place, entries, node, count) if recording else k for k, place in kept)
    given = [c if isinstance(c, Tensor) or c is None else wrap(np.asarray(c)) for c in cts]
    token = set_mode(get_mode().with_grad(recording))
    try:
        found = cls.backward(ctx, *given)
    finally:
        reset_mode(token)
    grads = found if isinstance(found, tuple) else (found,)
    if len(grads) != len(entries):
        fail(
            GradientError,
            f"{cls.__name__}.backward returned {len(grads)} gradients for {len(entries)} arguments of forward",
            "Return one for every argument, None where it has none.",
        )
    out: list[Any] = []
    for i, (g, entry) in enumerate(zip(grads, entries, strict=True)):
        if entry is None:
            continue
        if g is None:
            out.append(None)
            continue
        want = spec_of_input(entry)
        if not isinstance(g, Tensor):
            fail(GradientError, f"{cls.__name__}.backward returned a {type(g).__name__} for argument {i}, not a tensor")
        if g.shape != want.shape:
            fail(ShapeError, f"{cls.__name__}.backward returned shape {g.shape} for argument {i} of shape {want.shape}")
        g = as_gradient(g, want.dtype) if want.inexact else g
        out.append(g if recording else g._data)
    return tuple(out)


def _restored(kept: Any, place: tuple[str, int], entries: Sequence[Any], node: Node, count: int) -> Any:
    """A saved tensor hanging in the graph where it hung in the forward pass."""
    kind, i = place
    if kept is None or kind == "own":
        return kept
    source: Any = entries[i] if kind == "argument" else node
    if not isinstance(source, Node):
        return kept
    if kind == "result" and count > 1:
        return pick(node, i, kept._data)
    if kept._data is None:
        return abstract(source)
    out = wrap(kept._data, spec_of(kept.shape, kept.dtype))
    if source.requires_grad:
        out.node = source
    return out
