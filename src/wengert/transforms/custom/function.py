"""Functions whose forward and backward users write as classes: `wg.autograd.Function`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

from ...core.errors import GradientError, ShapeError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.ops.declare import PUBLIC
from ...core.ops.record import filled
from ...core.spec import Spec
from ...core.tensor import Tensor
from ...ops.random.generator import default_generator
from ..derivatives.custom_op import (
    CustomOp,
    Static,
    definition,
    is_tracked,
    no_draws,
    nothing_from_outside,
    record,
    refuse_writes,
    renamed,
    run_watched,
    value_of,
)
from ..derivatives.reverse import as_gradient
from .flat import kept_residuals, vjp_op

# From the context, the arguments that are tensors, what stood for them in `forward` as it left it, the places of those
# that it wrote to, its results and what the caller is to be given for these, to what the caller is given.
Written = Callable[
    ["Context", Sequence[Tensor], Sequence[Tensor], Collection[int], Sequence[Any], Sequence[Any]], list[Any]
]


class Context:
    """The values that `forward` leaves for `backward` and `jvp`; any attribute may be set on it too.

    >>> import wengert as wg
    >>> class Square(wg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * grad
    >>> x = wg.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    needs_input_grad: tuple[bool, ...]
    # Whether `backward` is given zeros for results that no gradient reaches, else None.
    materializes = True

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._kept: tuple[Any, ...] = ()
        self._fixed: frozenset[int] = frozenset()
        self._dirty: tuple[Tensor, ...] = ()
        # Which results are tensors, and their specs.
        self._places: tuple[bool, ...] = ()
        self._specs: tuple[Spec, ...] = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward` and `jvp`, which find them in `saved_tensors`."""
        self._kept = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors as `save_for_backward` does: both directions find the ones saved last."""
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

    Forward mode uses the static method `jvp(ctx, *tangents)`, where there is one: it takes a tangent
    for every argument of `forward` (None for one that is not a floating tensor) and returns one for
    every result. Otherwise it transposes `backward`, which must then be linear in the gradients.

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
    >>> wg.jvp(Cube.apply, (2.0,), (1.0,))
    (tensor(8.), tensor(12.))
    """

    # What `forward` and `backward` are given first: another namespace's has further methods.
    context_class: ClassVar[type[Context]] = Context
    # Where a namespace lets `forward` write to its arguments: see `Written`.
    written: ClassVar[Written | None] = None
    # Whether `forward` has been seen to write to an argument.
    writes: ClassVar[bool] = False
    # Whether `forward` may also return what is no tensor, which `backward` is given None for.
    returns_anything: ClassVar[bool] = False

    @staticmethod
    def forward(ctx: Context, *args: Any, **kwargs: Any) -> Any:
        """Return the value; overridden by subclasses."""
        fail(GradientError, "a custom Function without forward()", "Define a static method forward(ctx, ...).")

    @staticmethod
    def backward(ctx: Context, *grads: Any) -> Any:
        """Return the gradients; overridden by subclasses."""
        fail(GradientError, "a custom Function without backward()", "Define a static method backward(ctx, *grads).")

    @staticmethod
    def jvp(ctx: Context, *tangents: Any) -> Any:
        """Return the results' tangents; subclasses may override it."""
        fail(GradientError, "a custom Function without jvp()", "Define a static method jvp(ctx, *tangents).")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward` on the arguments and record one node for it."""
        call = _Call(cls, args, kwargs)
        tensors = [a for a in args if isinstance(a, Tensor)]
        tracked = get_mode().grad and any(map(is_tracked, tensors))
        abstract = any(t.is_abstract for t in tensors)
        # Inside, the arguments are plain values: what forward does is not itself recorded.
        inner = [value_of(t) for t in tensors]
        needs = tuple(map(is_tracked, args))
        state = default_generator.get_state()

        def run(*xs: Tensor) -> tuple[Any, Context]:
            return call.run(xs, needs, False)

        drawn = no_draws if abstract else _plainly

        def watched(*xs: Tensor) -> tuple[Any, Context]:
            return drawn(run, xs, cls.__name__)  # type: ignore[no-any-return]

        (result, ctx), before = run_watched(watched, inner)
        if before and cls.written is None:
            refuse_writes(cls.forward, f"{cls.__name__}.forward", before)
        # What was written to is a value of its own from then on: the rule speaks of the arguments as they were.
        after = {i: inner[i] for i in before}
        for i, t in before.items():
            inner[i], cls.writes = t, True
        outs = _tensors(result)
        found: Sequence[Any] = outs
        if (tracked or abstract) and outs:
            nothing_from_outside(outs, inner, f"{cls.__name__}.forward")
            fixed = [id(o) in ctx._fixed for o in outs]
            saved = None if abstract else (kept_residuals(_left(ctx), inner, outs, [False] * len(inner), state),)
            found = record(call.op(len(outs)), tensors, outs, saved, fixed)
            first = {id(o): i for i, o in reversed([*enumerate(outs)])}
            found = [found[first[id(o)]] for o in outs]  # a result that stands twice is one tensor
        if cls.written is not None and (after or ctx._dirty):
            inside = [after.get(i, t) for i, t in enumerate(inner)]
            found = cls.written(ctx, tensors, inside, after.keys(), outs, found)
        rest = iter(found)
        whole = tuple(next(rest) if isinstance(o, Tensor) else o for o in _several(result))
        return whole if isinstance(result, tuple) else whole[0]


def _tensors(result: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in _several(result) if isinstance(o, Tensor))


_TENSOR = object()  # stands for a tensor among the arguments of a call


class _Call:
    """A call of a Function subclass: its arguments but the tensors."""

    __slots__ = ("cls", "template", "kwargs", "plain")

    def __init__(self, cls: type[Function], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self.cls, self.kwargs = cls, kwargs
        self.template = [_TENSOR if isinstance(a, Tensor) else a for a in args]
        self.plain = not kwargs and all(a is _TENSOR for a in self.template)

    def run(self, tensors: Sequence[Tensor], needs: tuple[bool, ...], recording: bool) -> tuple[Any, Context]:
        """Return the checked result of `forward`, and the context that it leaves."""
        cls = self.cls
        ctx = cls.context_class(needs)
        token = set_mode(get_mode().with_grad(recording))
        try:
            result = cls.forward(ctx, *self.fill(tensors), **self.kwargs)
        finally:
            reset_mode(token)
        ctx._places = tuple(isinstance(o, Tensor) for o in _several(result))
        for o in _several(result):
            if not isinstance(o, Tensor) and not cls.returns_anything:
                text = f"{cls.__name__}.forward returned a {type(o).__name__}, not a tensor"
                fail(GradientError, text, where=definition(cls.forward))
        ctx._specs = tuple(o.spec for o in _tensors(result))
        return result, ctx

    def fill(self, tensors: Sequence[Any]) -> list[Any]:
        rest = iter(tensors)
        return [next(rest) if a is _TENSOR else a for a in self.template]

    def op(self, count: int) -> CustomOp:
        """Return one op for all calls with tensors only; others have their own, which knows the other arguments."""
        if not self.plain:
            return self._op(count)
        known = self.cls.__dict__.get("_ops")
        if known is None:
            known = {}
            self.cls._ops = known  # type: ignore[attr-defined]
        key = (len(self.template), count)
        if key not in known:
            known[key] = self._op(count)
        found: CustomOp = known[key]
        return found

    def _op(self, count: int) -> CustomOp:
        cls = self.cls

        def apart(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
            return [renamed(t) for t in tensors] if cls.writes else tensors

        def single(result: Any) -> Any:
            outs = _tensors(result)
            return outs[0] if count == 1 else outs

        def body(*tensors: Tensor) -> Any:
            result, _ = self.run(apart(tensors), (False,) * len(self.template), get_mode().grad)
            return single(result)

        def forward(*tensors: Tensor) -> tuple[list[Tensor], Any]:
            needs = tuple(map(is_tracked, self.fill(tensors)))
            result, ctx = self.run(apart(tensors), needs, get_mode().grad)
            return list(_tensors(result)), _left(ctx)

        def front(*tensors: Tensor) -> Any:
            return single(cls.apply(*self.fill(tensors), **self.kwargs))

        places = [i for i, a in enumerate(self.template) if a is _TENSOR]

        def pull(xs: Sequence[Any], left: Any, cts: Sequence[Any], specs: Sequence[Spec]) -> list[Any]:
            ctx = _context(cls, left)
            if ctx.materializes:
                cts = [filled(0, s) if c is None and s.inexact else c for c, s in zip(cts, ctx._specs, strict=True)]
            arrived = iter(cts)
            grads = _several(cls.backward(ctx, *[next(arrived) if there else None for there in ctx._places]))
            if len(grads) != len(self.template):
                count = f"{len(grads)} gradients for {len(self.template)} arguments of forward"
                fail(
                    GradientError,
                    f"{cls.__name__}.backward returned {count}",
                    "Return one for every argument, None where it has none.",
                    definition(cls.backward),
                )
            fitted = [_summed(grads[i], s) for i, s in zip(places, specs)]
            what = f"{cls.__name__}.backward"
            return [_fitting(cls.backward, what, g, s, i) for i, g, s in zip(places, fitted, specs)]

        def push(xs: Sequence[Any], left: Any, ts: Sequence[Any], specs: Sequence[Spec]) -> list[Any]:
            rest = iter(ts)
            given = [next(rest) if a is _TENSOR else None for a in self.template]
            ctx = _context(cls, left)
            found = _several(cls.jvp(ctx, *given))
            if len(found) == len(ctx._places):
                found = tuple(t for t, there in zip(found, ctx._places, strict=True) if there)
            what = f"{cls.__name__}.jvp"
            if len(found) != len(specs):
                text = f"{what} returned {len(found)} tangents for {len(specs)} results of forward"
                fail(GradientError, text, where=definition(cls.jvp))
            return [_fitting(cls.jvp, what, t, s, i) for i, (t, s) in enumerate(zip(found, specs))]

        own = None if cls.jvp is Function.jvp else push
        return vjp_op(cls.__name__, count, body, forward, pull, [False] * len(places), front, own, absent=True)


def _plainly(fn: Callable[..., Any], args: Sequence[Any], name: str) -> Any:
    return fn(*args)


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _left(ctx: Context) -> Any:
    """Return the contents of a context as a pytree: the tensors in it may be part of a graph."""
    attributes = {k: v for k, v in vars(ctx).items() if k not in ("_kept", "_fixed", "_dirty")}
    return ctx._kept, {k: v if isinstance(v, Tensor) else Static(v) for k, v in attributes.items()}


def _context(cls: type[Function], left: Any) -> Context:
    kept, attributes = left
    ctx = cls.context_class(())
    vars(ctx).update({k: v.value if isinstance(v, Static) else v for k, v in attributes.items()})
    ctx._kept = kept
    return ctx


def _summed(g: Any, spec: Spec) -> Any:
    """Return a gradient summed over what its argument was broadcast to, as PyTorch does; any other as it is."""
    if not isinstance(g, Tensor) or g.shape == spec.shape or len(g.shape) < len(spec.shape):
        return g
    lead = len(g.shape) - len(spec.shape)
    pairs = [*zip(g.shape[lead:], spec.shape)]
    if any(n not in (1, m) for m, n in pairs):
        return g
    axes = (*range(lead), *(lead + i for i, (m, n) in enumerate(pairs) if m != n))
    return PUBLIC["sum"](g, axis=axes, keepdims=True).reshape(spec.shape)


def _fitting(rule: Callable[..., Any], what: str, g: Any, spec: Spec, index: int) -> Any:
    """Return a rule's result for one argument or result, as a tensor of its dtype."""
    if g is None or not spec.inexact:
        return None
    if not isinstance(g, Tensor):
        text = f"{what} returned a {type(g).__name__} for argument {index}, not a tensor"
        fail(GradientError, text, where=definition(rule))
    if g.shape != spec.shape:
        text = f"{what} returned shape {g.shape} for argument {index} of shape {spec.shape}"
        fail(ShapeError, text, where=definition(rule))
    return as_gradient(g, spec.dtype)
