"""Functions with a derivative rule of their own: `custom_jvp` and `custom_vjp`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, GradientError, ShapeError, WengertError, error, fail
from ...core.mode import get_mode
from ...core.spec import Spec, category
from ...core.tensor import Tensor, asarray
from ...core.tree import Structure
from ...ops.structure.shapes import as_operand
from ..derivatives.custom_op import CustomOp, definition, tensors_of, zero_tangent
from ..derivatives.reverse import as_gradient
from .flat import call_with_jvp, call_with_vjp, jvp_op, vjp_op


def _is_none(x: Any) -> bool:
    return x is None


class _Layout:
    """The layout of a call's arguments: the leaves that are tensors, and the values of the others."""

    __slots__ = ("structure", "places", "others", "owners", "kept", "key")

    def __init__(self, args: Sequence[Any], kept: frozenset[int]) -> None:
        leaves, self.structure = tree.flatten(tuple(args), is_leaf=_is_none)
        self.kept = kept  # the positions of arguments that are not differentiated in
        self.owners = [i for i, child in enumerate(self.structure.children) for _ in range(child.count)]
        self.places = [i for i, leaf in enumerate(leaves) if self._is_tensor(i, leaf)]
        tensors = set(self.places)
        self.others = {i: leaf for i, leaf in enumerate(leaves) if i not in tensors}
        self.key = (repr(self.structure), tuple((i, type(v), _exact(v)) for i, v in self.others.items()))

    def _is_tensor(self, i: int, leaf: Any) -> bool:
        return isinstance(leaf, Tensor) or (
            isinstance(leaf, (np.ndarray, np.generic)) and self.owners[i] not in self.kept
        )

    def tensors(self, args: Sequence[Any]) -> list[Tensor]:
        leaves = tree.flatten(tuple(args), is_leaf=_is_none)[0]
        return [as_operand(leaves[i]) for i in self.places]

    def arguments(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments with these tensors in their places."""
        leaves: list[Any] = [None] * self.structure.count
        for i, value in self.others.items():
            leaves[i] = value
        for i, t in zip(self.places, tensors, strict=True):
            leaves[i] = t
        found: tuple[Any, ...] = tree.unflatten(self.structure, leaves)
        return found

    def tangents(self, tensors: Sequence[Tensor], ts: Sequence[Any]) -> tuple[Any, ...]:
        """Return the arguments' pytrees with tangents in the places of values; zeros where none is given."""
        leaves: list[Any] = [None] * self.structure.count
        for i, value in self.others.items():
            leaves[i] = zero_tangent(value)
        for i, x, t in zip(self.places, tensors, ts, strict=True):
            leaves[i] = zero_tangent(x) if t is None else t
        found: tuple[Any, ...] = tree.unflatten(self.structure, leaves)
        return found

    def split(self, args: Sequence[Any]) -> tuple[list[Any], tuple[Any, ...]]:
        """Return the arguments that are not differentiated in, and those that are."""
        return [args[i] for i in sorted(self.kept)], tuple(a for i, a in enumerate(args) if i not in self.kept)


def _exact(value: Any) -> Any:
    return repr(value) if isinstance(value, (float, complex)) else value  # 0.0 and -0.0 are equal, and two values


class _Custom:
    """The common part of `custom_jvp` and `custom_vjp`: calls, and the ops that they are recorded as."""

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self._ops: dict[Any, list[tuple[Structure, Structure, CustomOp]]] = {}
        try:
            self._signature: inspect.Signature | None = inspect.signature(fn)
        except (TypeError, ValueError):
            self._signature = None

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return all arguments by position, defaults too: rules take them so."""
        if self._signature is None:
            if kwargs:
                fail(GradientError, f"{self.name} called with keyword arguments, and its signature is not known")
            return args
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            fail(
                GradientError,
                f"{self.name} has keyword-only arguments: {', '.join(bound.kwargs)}",
                f"A {type(self).__name__} rule takes arguments by position. Make them positional, or bind them first.",
            )
        return bound.args

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self._positional(args, kwargs)
        count = len(args)
        for i in self.nondiff_argnums:
            if not -count <= i < count:
                fail(GradientError, f"nondiff_argnums {i} for {self.name} called with {count} arguments")
        layout = _Layout(args, frozenset(i % count for i in self.nondiff_argnums))
        tensors = layout.tensors(args)
        if not get_mode().grad and not any(t.is_abstract for t in tensors):
            return self.fn(*args)
        self._has_rule()
        leaves, structure = self._flat_call(layout, tensors)
        return tree.unflatten(structure, leaves)

    def _has_rule(self) -> None:
        raise NotImplementedError

    def _flat_call(self, layout: _Layout, tensors: Sequence[Tensor]) -> tuple[list[Any], Structure]:
        raise NotImplementedError

    def _make_op(self, layout: _Layout, structure: Structure) -> CustomOp:
        raise NotImplementedError

    def _front(self, layout: _Layout) -> Callable[..., Any]:
        def front(*tensors: Tensor) -> Any:
            leaves, structure = self._flat_call(layout, tensors)
            return leaves[0] if structure.count == 1 else tuple(leaves)

        return front

    def _body(self, layout: _Layout) -> Callable[..., Any]:
        def body(*tensors: Tensor) -> Any:
            outs, _ = tensors_of(self.fn(*layout.arguments(tensors)), self.name)
            return tuple(outs) if len(outs) != 1 else outs[0]

        return body

    def _op(self, layout: _Layout, structure: Structure) -> CustomOp:
        """Return one op for all calls that differ in their tensors only, so that equal programs give equal graphs."""
        try:
            known = self._ops.setdefault((layout.key, repr(structure)), [])
        except TypeError:  # an argument that cannot be hashed
            return self._make_op(layout, structure)
        for given, returned, op in known:
            if given == layout.structure and returned == structure:
                return op
        if len(self._ops) > _MOST_OPS:
            self._ops.clear()
            return self._op(layout, structure)
        op = self._make_op(layout, structure)
        known.append((layout.structure, structure, op))
        return op


_MOST_OPS = 256


class custom_jvp(_Custom):
    """A function whose derivative is the rule that you give with :meth:`defjvp`.

    Parameters
    ----------
    fn: a function of pytrees of tensors that returns a pytree of tensors.
    nondiff_argnums: positions of arguments that are no variables: functions, sizes, options, also
        tensors in which the derivative is not wanted. Rules take them first, before the others.

    Forward mode uses the rule as it is; reverse mode transposes it, so it must be linear in the
    tangents. It may use the function itself and is differentiated like any other code, to any order.
    A tensor that requires gradients must be an argument: one that `fn` finds elsewhere is an error. A
    traced graph holds one node for a call, with `fn`'s graph inside; called, differentiated
    and mapped, that graph uses the rule.

    Raises GradientError, ShapeError, DTypeError, naming the rule's place where it returns what does not fit.

    >>> import wengert as wg
    >>> @wg.custom_jvp
    ... def log1pexp(x):
    ...     return wg.log(1.0 + wg.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), t * wg.sigmoid(x)
    >>> wg.grad(log1pexp)(200.0)
    tensor(1.)
    """

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fn, nondiff_argnums)
        self._rule: Callable[..., Any] | None = None
        self._given_out = False

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule: `rule(primals, tangents)` returns the value and its tangent.

        `primals` and `tangents` are tuples with a pytree for each argument; the tangent of what carries
        none is zeros, and None where the value is not floating. With `nondiff_argnums` those
        arguments come first: `rule(n, primals, tangents)`.
        """
        self._rule, self._given_out = rule, False
        self._ops.clear()
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Set a rule for each differentiated argument: `rule(tangent, out, *primals)` is its part of the tangent.

        None stands for an argument that the result does not depend on.

        >>> import wengert as wg
        >>> @wg.custom_jvp
        ... def product(x, y):
        ...     return x * y
        >>> product.defjvps(lambda t, out, x, y: t * y, lambda t, out, x, y: x * t)
        >>> wg.jvp(product, (2.0, 3.0), (1.0, 0.0))
        (tensor(6.), tensor(3.))
        """
        if self.nondiff_argnums:
            fail(GradientError, f"defjvps of {self.name}, which has nondiff_argnums", "Use defjvp.")

        def rule(primals: tuple[Any, ...], tangents: tuple[Any, ...], out: Any) -> tuple[Any, Any]:
            if len(rules) != len(primals):
                fail(GradientError, f"defjvps of {self.name}: {len(rules)} rules for {len(primals)} arguments")
            parts = [r(t, out, *primals) for r, t in zip(rules, tangents) if r is not None and t is not None]
            total = functools.reduce(_added, parts) if parts else tree.map(zero_tangent, out)
            return out, total

        first = next((r for r in rules if r is not None), None)
        if first is not None:
            rule.__wrapped__ = first  # type: ignore[attr-defined]
        self._rule, self._given_out = rule, True
        self._ops.clear()

    def _has_rule(self) -> None:
        if self._rule is None:
            fail(GradientError, f"custom_jvp {self.name} has no rule", f"Give it one: @{self.name}.defjvp.")

    def _flat_call(self, layout: _Layout, tensors: Sequence[Tensor]) -> tuple[list[Any], Structure]:
        seen: list[Structure] = []

        def body(*inner: Tensor) -> list[Tensor]:
            outs, structure = tensors_of(self.fn(*layout.arguments(inner)), self.name)
            seen.append(structure)
            return outs

        found = call_with_jvp(body, tensors, self.name, lambda: self._op(layout, seen[0]))
        return found, seen[0]

    def _make_op(self, layout: _Layout, structure: Structure) -> CustomOp:
        assert self._rule is not None
        rule, given_out = self._rule, self._given_out
        what = f"the jvp rule of {self.name}"

        def push(ts: Sequence[Any], xs: Sequence[Tensor], outs: Sequence[Tensor]) -> list[Any]:
            kept, primals = layout.split(layout.arguments(xs))
            _, tangents = layout.split(layout.tangents(xs, ts))
            extra = (tree.unflatten(structure, list(outs)),) if given_out else ()
            result = rule(*kept, primals, tangents, *extra)
            if not isinstance(result, tuple) or len(result) != 2:
                raise _wrong(rule, GradientError, f"{what} returned a {type(result).__name__}, not (out, tangent)")
            return _checked_tangents(rule, what, structure, result)

        return jvp_op(
            self.name, structure.count, self._body(layout), push, given_out, self._front(layout), definition(rule)
        )


def _added(a: Any, b: Any) -> Any:
    return tree.map(lambda x, y: x + y, a, b)


def _checked_tangents(
    rule: Callable[..., Any], what: str, structure: Structure, result: tuple[Any, Any]
) -> list[Tensor | None]:
    """Return the tangents' leaves, which must be like those of the result."""
    out, tangent = result
    leaves, found = tree.flatten(out)
    if found != structure:
        raise _wrong(rule, GradientError, f"{what} returned a value {found} where the function returns {structure}")
    places, with_none = tree.flatten(out, is_leaf=_is_none)
    ts, given = tree.flatten(tangent, is_leaf=_is_none)
    if given != with_none:
        raise _wrong(rule, GradientError, f"{what} returned a tangent {given} for a value {with_none}")
    ts = [t for t, place in zip(ts, places) if place is not None]
    return [_fitting(rule, what, t, asarray(leaf).spec, "tangent") for t, leaf in zip(ts, leaves)]


def _fitting(rule: Callable[..., Any], what: str, g: Any, spec: Spec, kind: str) -> Tensor | None:
    """Return a rule's result as a tensor of the spec that it belongs to."""
    if g is None or not spec.inexact:
        return None
    if not isinstance(g, (Tensor, np.ndarray, np.generic, int, float, complex)):
        raise _wrong(rule, GradientError, f"{what} returned a {type(g).__name__} as {kind} of a value {spec}")
    t = (
        g
        if isinstance(g, Tensor)
        else asarray(g, dtype=None if isinstance(g, (np.ndarray, np.generic)) else spec.dtype)
    )
    if t.shape != spec.shape:
        raise _wrong(rule, ShapeError, f"{what} returned a {kind} of shape {t.shape} for a value of shape {spec.shape}")
    if category(t.dtype) < 2:
        raise _wrong(rule, DTypeError, f"{what} returned a {kind} of dtype {t.dtype} for a value of dtype {spec.dtype}")
    return as_gradient(t, spec.dtype)


def _wrong(rule: Callable[..., Any], kind: type[WengertError], what: str) -> WengertError:
    return error(kind, what, where=definition(rule))


class custom_vjp(_Custom):
    """A function whose backward pass is the pair of rules that you give with :meth:`defvjp`.

    Parameters
    ----------
    fn: a function of pytrees of tensors that returns a pytree of tensors.
    nondiff_argnums: positions of arguments that are no variables. `fwd` takes them where `fn` does;
        `bwd` takes them first.

    Forward mode transposes `bwd`, which must be linear in the cotangent and made of Wengert's
    operations. Where the derivative is itself differentiated, `fwd` and `bwd` are differentiated like
    any other code. A tensor that requires gradients must be an argument. A traced graph holds one
    node for a call, with `fn`'s graph inside; called, differentiated and mapped, that graph uses
    the rules.

    Raises GradientError, ShapeError, DTypeError, naming the rule's place where it returns what does not fit.

    >>> import wengert as wg
    >>> @wg.custom_vjp
    ... def clipped(x):
    ...     return x * 10.0
    >>> clipped.defvjp(lambda x: (clipped(x), None), lambda res, ct: (wg.clip(ct * 10.0, -1.0, 1.0),))
    >>> wg.grad(clipped)(3.0)
    tensor(1.)
    """

    def __init__(self, fn: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        super().__init__(fn, nondiff_argnums)
        self._fwd: Callable[..., Any] | None = None
        self._bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rules.

        `fwd(*args)` returns the value and whatever `bwd` needs (a pytree); `bwd(residuals, ct)` returns
        a tuple with the cotangent of each differentiated argument: a pytree like it, or None for it or
        for any of its leaves. `ct` has the result's pytree, with None where it is not floating.
        """
        self._fwd, self._bwd = fwd, bwd
        self._ops.clear()

    def _has_rule(self) -> None:
        if self._fwd is None:
            fail(GradientError, f"custom_vjp {self.name} has no rules", f"Give them: {self.name}.defvjp(fwd, bwd).")

    def _forward(self, layout: _Layout, inner: Sequence[Tensor]) -> tuple[list[Tensor], Structure, Any]:
        fwd = self._fwd
        assert fwd is not None
        result = fwd(*layout.arguments(inner))
        if not isinstance(result, tuple) or len(result) != 2:
            text = f"the fwd rule of {self.name} returned a {type(result).__name__}, not (out, residuals)"
            raise _wrong(fwd, GradientError, text)
        outs, structure = tensors_of(result[0], f"the fwd rule of {self.name}")
        return outs, structure, result[1]

    def _flat_call(self, layout: _Layout, tensors: Sequence[Tensor]) -> tuple[list[Any], Structure]:
        seen: list[Structure] = []

        def body(*inner: Tensor) -> list[Tensor]:
            outs, structure = tensors_of(self.fn(*layout.arguments(inner)), self.name)
            seen.append(structure)
            return outs

        def forward(*inner: Tensor) -> tuple[list[Tensor], Any]:
            outs, structure, residuals = self._forward(layout, inner)
            seen.append(structure)
            return outs, residuals

        found = call_with_vjp(
            body, forward, self._kept_tensors(layout), tensors, self.name, lambda: self._op(layout, seen[0])
        )
        return found, seen[0]

    def _kept_tensors(self, layout: _Layout) -> list[bool]:
        """Return the tensors that `bwd` takes again, as arguments that are not differentiated in."""
        return [layout.owners[i] in layout.kept for i in layout.places]

    def _make_op(self, layout: _Layout, structure: Structure) -> CustomOp:
        bwd = self._bwd
        assert bwd is not None
        what = f"the bwd rule of {self.name}"

        def forward(*xs: Tensor) -> tuple[list[Tensor], Any]:
            outs, found, residuals = self._forward(layout, xs)
            if found != structure:
                text = f"the fwd rule of {self.name} returned a value {found} where the function returns {structure}"
                raise _wrong(self._fwd, GradientError, text)  # type: ignore[arg-type]
            return outs, residuals

        def backward(xs: Sequence[Any], residuals: Any, cts: Sequence[Any]) -> list[Any]:
            kept, _ = layout.split(layout.arguments(xs))
            result = bwd(*kept, residuals, tree.unflatten(structure, list(cts)))
            return _checked_cotangents(bwd, what, layout, result)

        def pull(xs: Sequence[Any], residuals: Any, cts: Sequence[Any], specs: Sequence[Spec]) -> list[Any]:
            grads = backward(xs, residuals, cts)
            return [_fitting(bwd, what, g, s, "cotangent") for g, s in zip(grads, specs)]

        return vjp_op(
            self.name,
            structure.count,
            self._body(layout),
            forward,
            pull,
            self._kept_tensors(layout),
            self._front(layout),
        )


def _checked_cotangents(bwd: Callable[..., Any], what: str, layout: _Layout, result: Any) -> list[Any]:
    """Return the cotangents at the places of tensors, None where there is none."""
    count = len(layout.structure.children) - len(layout.kept)
    if not isinstance(result, tuple) or len(result) != count:
        got = f"{len(result)} cotangents" if isinstance(result, tuple) else f"a {type(result).__name__}"
        text = f"{what} returned {got}, not a tuple of {count}: one for each argument that it differentiates"
        raise _wrong(bwd, GradientError, text)
    given = iter(result)
    leaves: list[Any] = []
    for i, child in enumerate(layout.structure.children):
        ct = None if i in layout.kept else next(given)
        if ct is None:
            leaves += [None] * child.count
            continue
        found, structure = tree.flatten(ct, is_leaf=_is_none)
        if structure != child:
            raise _wrong(bwd, GradientError, f"{what} returned a cotangent {structure} for argument {i}, a {child}")
        leaves += found
    return [leaves[i] for i in layout.places]
