"""Forward mode as functions of functions: `jvp`, `linearize`, `linear_transpose`; and dual tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar, Token
from typing import Any, NamedTuple

from ...core import tree
from ...core.errors import DTypeError, GradientError, ShapeError, fail
from ...core.mode import get_mode, reset_mode, set_mode
from ...core.node import Node
from ...core.ops.op import TABLE
from ...core.ops.record import abstract_input, filled, same_value
from ...core.spec import Spec, category
from ...core.standins import WeakTensor, weak
from ...core.state.capture import Writes
from ...core.tensor import Tensor, as_like, asarray, wrap
from ...ops.structure.shapes import as_operand
from .backward import seed
from .forward import Track
from .functional import pull_back
from .reverse import backward_pass
from .variables import Pytree, close, plain, reaches_others, recorded, run_once, split_aux, variable


def jvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Return the value of `fn(*primals)` and its derivative along `tangents` (a Jacobian-vector product).

    Parameters
    ----------
    fn: a function of pytrees of tensors that returns a pytree of tensors (with `has_aux` a pair of it and
        anything else).
    primals: its arguments, one pytree each.
    tangents: one pytree for each argument, of its structure, with a tangent of the leaf's shape at
        every floating leaf; None stands for a tangent of zeros, at a leaf or for a whole argument.
    has_aux: also return the second element of what `fn` returns.

    Returns `(out, tangent)`, or `(out, tangent, aux)`; the tangent has the structure of `out`, zeros
    where it does not depend on the arguments and None at leaves that are not floating. One pass
    costs about as much as the function, whatever the number of results. Nests with every other
    transform, itself included; what runs under `no_grad` is a constant.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.jvp(wg.sin, (0.0,), (2.0,))
    (tensor(0.), tensor(2.))
    >>> wg.jvp(lambda x, y: x * y, (wg.tensor([1.0, 2.0]), 3.0), (wg.tensor([1.0, 0.0]), 10.0))
    (tensor([3., 6.]), tensor([13., 20.]))
    """
    found = Recording(fn, primals, has_aux, "jvp", tangents)
    out, aux = found.out()
    tangent = found.push(tangents)
    return (out, tangent, aux) if has_aux else (out, tangent)


def linearize(fn: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `fn(*primals)` and its derivative there, a linear function.

    Returns `(out, push)` or `(out, push, aux)`. `push(*tangents)` gives the tangent of `out` as
    :func:`jvp` does, without running `fn` again, any number of times.

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> out, push = wg.linearize(lambda x: x ** 3, 2.0)
    >>> push(1.0), push(10.0)
    (tensor(12.), tensor(120.))
    """
    found = Recording(fn, primals, has_aux, "linearize", ())
    out, aux = found.out()

    def push(*tangents: Any) -> Any:
        return found.push(tangents)

    return (out, push, aux) if has_aux else (out, push)


class Recording:
    """A function recorded at a point, to carry tangents and cotangents along."""

    def __init__(
        self, fn: Callable[..., Any], primals: Sequence[Any], has_aux: bool, what: str, tangents: Sequence[Any]
    ) -> None:
        name = getattr(fn, "__name__", type(fn).__name__)
        if not isinstance(primals, (tuple, list)):
            fail(
                GradientError,
                f"{what} of {name}: the primals are a {type(primals).__name__}",
                "Give a tuple with one entry for each argument: wg.jvp(f, (x,), (t,)).",
            )
        self.what = f"{what} of {name}"
        # An argument without a tangent need not be differentiable at all.
        still = [i < len(tangents) and tangents[i] is None for i in range(len(primals))]
        self.pytrees = [
            None if s else Pytree(a, f"argument {i} of {name}") for i, (a, s) in enumerate(zip(primals, still))
        ]
        self.outer = get_mode()
        writes = Writes(is_trace=False)
        args = [a if n is None else n.tracked for a, n in zip(primals, self.pytrees)]
        self.variables = [v for n in self.pytrees if n is not None for v in n.variables]
        result, self.aux = split_aux(recorded(fn, args, {}, writes, primals, self.variables), has_aux, name)
        leaves, self.structure = tree.flatten(result)
        # Objects of its own: the caller may write to the result before it pushes on.
        self.outs = [same_value(leaf) if isinstance(leaf, Tensor) else asarray(leaf) for leaf in leaves]
        self.roots = [o for o in self.outs if o.requires_grad]
        self.connected = any(
            o.is_abstract or (self.outer.grad and reaches_others(o.node, self.variables))  # type: ignore[arg-type]
            for o in self.roots
        )
        self.abstract = any(o.is_abstract for o in self.outs)
        self.track = Track([v.node for v in self.variables], [o.node for o in self.roots])  # type: ignore[misc]
        close(self.variables, writes)

    def out(self) -> tuple[Any, Any]:
        if self.connected and self.outer.grad:
            return tree.unflatten(self.structure, list(map(same_value, self.outs))), self.aux
        return tree.unflatten(self.structure, [plain(o) for o in self.outs]), tree.map(plain, self.aux)

    def push(self, tangents: Sequence[Any]) -> Any:
        if not isinstance(tangents, (tuple, list)) or len(tangents) != len(self.pytrees):
            count = len(tangents) if isinstance(tangents, (tuple, list)) else type(tangents).__name__
            fail(GradientError, f"{self.what}: {count} tangents for {len(self.pytrees)} arguments")
        given: list[tuple[Tensor, Tensor]] = []
        for i, (pytree, ts) in enumerate(zip(self.pytrees, tangents)):
            if pytree is None:
                if ts is not None:
                    fail(GradientError, f"{self.what}: a tangent for argument {i}, which had None before")
                continue
            given += _pairs(pytree, ts, f"{self.what}: argument {i}")
        record = self.abstract or (
            get_mode().grad and (self.connected or any(t.requires_grad or t.is_abstract for _, t in given))
        )
        record = record or any(t.is_abstract for _, t in given)
        found = self.track.push({v.node: t if record else t._array for v, t in given}, record)  # type: ignore[misc]
        by_node = dict(zip(self.track.roots, found))
        leaves = [_tangent(o, by_node.get(o.node)) for o in self.outs]  # type: ignore[arg-type]
        return tree.unflatten(self.structure, leaves if get_mode().grad else list(map(plain, leaves)))

    def pull(self, cts: Sequence[Tensor]) -> list[Tensor]:
        """Return the cotangents of the variables, for those of the results' tensors."""
        pairs = [(o, ct) for o, ct in zip(self.outs, cts, strict=True) if o.requires_grad]
        record = get_mode().grad and (self.connected or any(ct.requires_grad for _, ct in pairs))
        record = record or any(ct.is_abstract for _, ct in pairs)
        found = pull_back(pairs, self.variables, record or self.abstract, retain=True)
        return found if get_mode().grad else list(map(plain, found))


def _tangent(out: Tensor, t: Any) -> Tensor | None:
    if category(out.dtype) < 2:
        return None
    found = filled(0, out.spec) if t is None else t if isinstance(t, Tensor) else wrap(t)
    return weak(found) if type(out) is WeakTensor else as_like(out, found)


def _pairs(pytree: Pytree, tangents: Any, what: str) -> list[tuple[Tensor, Tensor]]:
    """Return the variables of an argument that have a tangent, with it."""
    if tangents is None:
        return []
    return [(v, _fitting(t, v.spec, what)) for v, t in pytree.beside(tangents, what) if t is not None]


def _fitting(tangent: Any, spec: Spec, what: str) -> Tensor:
    t = tangent if isinstance(tangent, Tensor) else asarray(tangent)
    if t.shape != spec.shape:
        fail(
            ShapeError,
            f"{what}: a tangent of shape {t.shape} for a value of shape {spec.shape}",
            "A tangent has the shape of what it is the direction of.",
        )
    if category(t.dtype) == 3 and category(spec.dtype) < 3:
        fail(DTypeError, f"{what}: a complex tangent for a value of dtype {spec.dtype}")
    return t if t.dtype == spec.dtype else TABLE["cast"].front(t, dtype=spec.dtype)


def linear_transpose(fn: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """Return the transpose of a linear function: from cotangents of its result to those of its arguments.

    Parameters
    ----------
    fn: linear in all arguments together.
    primals: pytrees of tensors, arrays or specs with the arguments' shapes and dtypes; values do not matter.

    Returns `pull(ct)`, which returns a tuple with a pytree for every argument. Complex numbers follow
    the conjugate convention: it is the adjoint.

    Raises GradientError where `fn` is not linear.

    >>> import wengert as wg
    >>> pull = wg.linear_transpose(lambda x: 2.0 * x[1:], wg.spec((3,)))
    >>> pull(wg.tensor([1.0, 10.0]))
    (tensor([ 0.,  2., 20.]),)
    """
    name = getattr(fn, "__name__", type(fn).__name__)
    leaves, structure = tree.flatten(tuple(primals))
    inputs = [abstract_input(_leaf_spec(leaf), requires_grad=True) for leaf in leaves]
    given = tree.unflatten(structure, list(map(same_value, inputs)))
    token = set_mode(get_mode().with_grad(True))
    try:
        # An abstract value that is there before is of an enclosing trace, which sees to writes itself.
        result = run_once(fn, given, {}, [t.node for t in inputs], lambda node: True)
    finally:
        reset_mode(token)
    found_outs, out_structure = tree.flatten(result)
    outs = [same_value(leaf) if isinstance(leaf, Tensor) else asarray(leaf) for leaf in found_outs]

    def pull(cotangents: Any) -> Any:
        leaves, found = tree.flatten(cotangents)
        cts = tree.arranged(leaves, found, out_structure)
        if cts is None:
            fail(GradientError, f"cotangents {found} for a result {out_structure}", "They must have one structure.")
        pairs = [(o.node, seed(o, ct, f"the transpose of {name}")) for o, ct in zip(outs, cts) if o.requires_grad]
        found_cts = backward_pass(pairs, [t.node for t in inputs], create_graph=True, retain_graph=True)  # type: ignore[arg-type, misc]
        grads = [found_cts.get(t.node, None) for t in inputs]  # type: ignore[arg-type]
        for g in grads:
            if g is not None and g.is_abstract and not any(ct.is_abstract for _, ct in pairs):
                fail(
                    GradientError,
                    f"{name} is not linear: its transpose depends on its arguments",
                    "Use wg.vjp for the derivative of a function that is not linear.",
                )
        return tree.unflatten(structure, [filled(0, t.spec) if g is None else g for t, g in zip(inputs, grads)])

    return pull


def _leaf_spec(leaf: Any) -> Spec:
    return leaf if isinstance(leaf, Spec) else asarray(leaf).spec


# -- dual tensors


class UnpackedDual(NamedTuple):
    """The primal and the tangent of a dual tensor.

    >>> import wengert as wg
    >>> with wg.autograd.dual_level():
    ...     y = wg.sin(wg.autograd.make_dual(wg.tensor(0.0), wg.tensor(1.0)))
    ...     wg.autograd.unpack_dual(y).tangent
    tensor(1.)
    """

    primal: Tensor
    tangent: Tensor | None


class _Level:
    """The tangents of a `dual_level` block: given ones by variable, found ones by node."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.variables: list[Tensor] = []
        self.tangents: dict[Node, Tensor] = {}


_level: ContextVar[_Level | None] = ContextVar("wengert_dual_level", default=None)


def open_level() -> int:
    """Return the number of the innermost open :class:`dual_level`, counted from 0; -1 outside of one."""
    level = _level.get()
    return -1 if level is None else level.depth


class dual_level:
    """A block in which tensors may carry a tangent along: forward mode for eager code.

    Inside, :func:`make_dual` gives a tensor a tangent, whatever is computed from it has one too, and
    :func:`unpack_dual` reads it. Tangents are computed when they are asked for, along the recorded
    graph. Blocks nest: an inner one's tangents are differentiable in an outer one.

    >>> import wengert as wg
    >>> with wg.autograd.dual_level():
    ...     x = wg.autograd.make_dual(wg.tensor(3.0), wg.tensor(1.0))
    ...     wg.autograd.unpack_dual(x * x)
    UnpackedDual(primal=tensor(9.), tangent=tensor(6.))
    """

    def __init__(self) -> None:
        self._tokens: list[tuple[Token[_Level | None], _Level]] = []

    def __enter__(self) -> None:
        level = _Level(open_level() + 1)
        self._tokens.append((_level.set(level), level))

    def __exit__(self, *exc: object) -> None:
        token, level = self._tokens.pop()
        _level.reset(token)
        close(level.variables, Writes(is_trace=False))

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with dual_level():
                return fn(*args, **kwargs)

        return wrapper


def _current(what: str) -> _Level:
    level = _level.get()
    if level is None:
        fail(GradientError, f"{what} outside a dual_level block", "Write `with wg.autograd.dual_level():` around it.")
    return level


def make_dual(primal: Any, tangent: Any) -> Tensor:
    """Return a tensor with the value of `primal` (floating) that carries `tangent` (of its shape) along.

    Raises GradientError outside :class:`dual_level`, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> with wg.autograd.dual_level():
    ...     y = wg.autograd.make_dual(wg.tensor(3.0), wg.tensor(1.0)) ** 2
    ...     wg.autograd.unpack_dual(y).tangent
    tensor(6.)
    """
    level = _current("make_dual()")
    x = as_operand(primal)
    if category(x.dtype) < 2:
        fail(DTypeError, f"make_dual() of {x.spec}", "Only floating and complex values have tangents.")
    t = _fitting(tangent, x.spec, "make_dual()")
    out = variable(x)
    assert out.node is not None
    level.variables.append(out)
    level.tangents[out.node] = t
    return same_value(out)


def unpack_dual(x: Tensor) -> UnpackedDual:
    """Return the value and the tangent of a tensor; the tangent is None where it depends on no dual tensor.

    Raises GradientError outside :class:`dual_level`, DTypeError for a value that is no tensor.

    >>> import wengert as wg
    >>> with wg.autograd.dual_level():
    ...     y = wg.exp(wg.autograd.make_dual(wg.tensor(0.0), wg.tensor(2.0)))
    ...     wg.autograd.unpack_dual(y)
    UnpackedDual(primal=tensor(1.), tangent=tensor(2.))
    """
    level = _current("unpack_dual()")
    if not isinstance(x, Tensor):
        fail(DTypeError, f"unpack_dual() of a {type(x).__name__}, not a tensor")
    if not x.requires_grad:
        return UnpackedDual(x, None)
    assert x.node is not None
    connected = x.is_abstract or reaches_others(x.node, level.variables)
    record = connected or any(t.requires_grad or t.is_abstract for t in level.tangents.values())
    known = {n: t if record else t._array for n, t in level.tangents.items()}
    (found,) = Track(list(known), [x.node]).push(known, record)
    if found is not None:
        found = as_like(x, found if isinstance(found, Tensor) else wrap(found))
    return UnpackedDual(x if connected else plain(x), found)
