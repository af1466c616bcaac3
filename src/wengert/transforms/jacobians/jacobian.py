"""Jacobians, Hessians and products with them, over any pytree of arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, GradientError, fail
from ...core.ops.op import TABLE
from ...core.spec import category
from ...core.tensor import Tensor, like, wrap
from ...ops.structure.shapes import as_operand
from ..batch.vmap import vmap
from ..derivatives.functional import Argnums, argument_numbers, grad, vjp
from ..derivatives.tangents import Recording, jvp
from ..derivatives.variables import describe_leaf, differentiable, of_number
from .elimination import eliminated

JacobianMode = Literal["auto", "forward", "reverse", "elimination"]


def jacobian(
    fn: Callable[..., Any],
    argnums: Argnums = 0,
    mode: JacobianMode = "auto",
    has_aux: bool = False,
    holomorphic: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return the Jacobian function of a function.

    Parameters
    ----------
    fn: a function of pytrees of floating tensors that returns a pytree of them (with `has_aux` a pair of
        it and anything else).
    argnums: which positional arguments to differentiate in.
    mode: "forward" (a tangent for each element of the arguments), "reverse" (a cotangent for each
        element of the results), or "auto": the one with fewer of them. All run in one batched pass.
        "elimination" multiplies the partials of single numbers in a cheap order instead (see
        :func:`wengert.elimination_cost`; needs SciPy): fewer multiplications, but in Python, so "auto"
        never takes it. Where the Jacobian is itself traced or differentiated it is "auto".
    holomorphic: promise that `fn` is complex differentiable; needed for complex arguments. The result
        is then the complex derivative, not its conjugate.
    chunk_size: directions in one pass, to bound memory; all where None.

    Returns a function with `fn`'s arguments. For a result of shape s and an argument of shape a it
    gives a tensor of shape s + a: in a pytree like `fn`'s result, of pytrees like the argument (of
    tuples of those over `argnums` if that is a sequence).

    Raises DTypeError, GradientError.

    >>> import wengert as wg
    >>> wg.jacobian(lambda x: x**2)(wg.tensor([1.0, 3.0]))
    tensor([[2., 0.],
            [0., 6.]])
    """
    if mode not in get_args(JacobianMode):
        fail(GradientError, f"jacobian: mode {mode!r}", f"It is one of {', '.join(get_args(JacobianMode))}.")
    if chunk_size is not None and chunk_size < 1:
        fail(GradientError, f"jacobian: chunk_size {chunk_size}", "At least one direction goes in one pass.")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn, updated=())
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        flat = Flat(fn, argnums, has_aux, holomorphic, name, args, kwargs)
        here = not (flat.recording.abstract or flat.recording.connected)
        if mode == "elimination" and here:
            blocks = _by_elimination(flat)
        elif mode == "forward" or (mode != "reverse" and flat.columns <= flat.rows):
            blocks = _forward(flat, chunk_size)
        else:
            blocks = _reverse(flat, chunk_size, holomorphic)
        blocks = [[of_number(b, x, flat.outs) for b, x in zip(row, flat.inputs, strict=True)] for row in blocks]
        found = tree.unflatten(flat.out_structure, [flat.like_arguments(row) for row in blocks])
        return (found, flat.aux) if has_aux else found

    return jacobian_of


class Flat:
    """A function of lists of tensors, recorded at the arguments."""

    def __init__(
        self,
        fn: Callable[..., Any],
        argnums: Argnums,
        has_aux: bool,
        holomorphic: bool,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.single = isinstance(argnums, int)
        numbers = argument_numbers(argnums, len(args), name)
        leaves, self.structure = tree.flatten([args[i] for i in numbers])
        self.inputs = [_argument(leaf, holomorphic, name) for leaf in leaves]

        def inner(values: list[Tensor]) -> Any:
            replaced = list(args)
            for i, pytree in zip(numbers, tree.unflatten(self.structure, values), strict=True):
                replaced[i] = pytree
            return fn(*replaced, **kwargs)

        inner.__name__ = name
        self.recording = Recording(inner, (self.inputs,), has_aux, f"the Jacobian of {name}", ())
        self.out_structure = self.recording.structure
        self.outs = self.recording.outs
        _, self.aux = self.recording.out()
        for o in self.outs:
            if category(o.dtype) < 2:
                fail(DTypeError, f"the Jacobian of {name}, which returned {o.spec}", "Only floating results have one.")
            if category(o.dtype) == 3 and not holomorphic:
                fail(
                    DTypeError,
                    f"the Jacobian of {name}, which returned {o.spec}",
                    "Say holomorphic=True for a complex differentiable function of complex numbers, "
                    "or return the real and the imaginary part.",
                )

    @property
    def columns(self) -> int:
        return sum(t.size for t in self.inputs)

    @property
    def rows(self) -> int:
        return sum(o.size for o in self.outs)

    def like_arguments(self, row: Sequence[Tensor]) -> Any:
        pytrees = tree.unflatten(self.structure, row)
        return pytrees[0] if self.single else tuple(pytrees)


def _argument(leaf: Any, holomorphic: bool, name: str) -> Tensor:
    if not differentiable(leaf):
        fail(
            DTypeError,
            f"the Jacobian of {name} in a {describe_leaf(leaf)}",
            "Jacobians exist for floating values: write 3.0 instead of 3, or choose other arguments with argnums=.",
        )
    t = as_operand(leaf)
    if category(t.dtype) == 3 and not holomorphic:
        fail(
            DTypeError,
            f"the Jacobian of {name} in a complex argument, {t.spec}",
            "A function of complex numbers has one complex derivative only where it is holomorphic: "
            "say so with holomorphic=True, or differentiate in the real and the imaginary part.",
        )
    if holomorphic and category(t.dtype) != 3:
        fail(DTypeError, f"the holomorphic derivative of {name} in a real argument, {t.spec}", "Make it complex first.")
    return t


class _Basis(NamedTuple):
    """A set of unit vectors of the space of some tensors, `number` of them from `start`, split as the tensors are."""

    likes: Sequence[Tensor]
    start: int
    number: int

    def vectors(self) -> list[Tensor]:
        out, offset = [], 0
        for t in self.likes:
            block = np.zeros((self.number, t.size), t.dtype)
            first, last = max(self.start, offset), min(self.start + self.number, offset + t.size)
            at = np.arange(first, last)
            block[at - self.start, at - offset] = 1
            out.append(like(t, wrap(block.reshape((self.number, *t.shape)))))
            offset += t.size
        return out


def _directions(apply: Callable[[list[Tensor]], list[Tensor]], likes: Sequence[Tensor], chunk: int | None) -> Any:
    """Return a linear function's values at every unit vector, along a leading axis."""
    total = sum(t.size for t in likes)
    step = max(min(total, chunk or total), 1)
    parts = []
    for start in range(0, max(total, 1), step):
        vectors = _Basis(likes, start, min(step, total - start)).vectors()
        if total == 1:
            parts.append([r.reshape((1, *r.shape)) for r in apply([v[0] for v in vectors])])
        else:
            parts.append(vmap(apply)(vectors))
    if len(parts) == 1:
        return parts[0]
    return [TABLE["concat"].front(*column, axis=-column[0].ndim) for column in zip(*parts, strict=True)]


def _forward(flat: Flat, chunk: int | None) -> list[list[Tensor]]:
    def push(tangents: list[Tensor]) -> list[Tensor]:
        return tree.leaves(flat.recording.push([tangents]))

    found = _directions(push, flat.inputs, chunk)
    blocks = []
    for o, columns in zip(flat.outs, found, strict=True):
        matrix = columns.reshape((columns.shape[0], o.size)).mT
        row, offset = [], 0
        for x in flat.inputs:
            row.append(matrix[:, offset : offset + x.size].reshape((*o.shape, *x.shape)))
            offset += x.size
        blocks.append(row)
    return blocks


def _reverse(flat: Flat, chunk: int | None, holomorphic: bool) -> list[list[Tensor]]:
    found = _directions(flat.recording.pull, flat.outs, chunk)
    blocks: list[list[Tensor]] = []
    offset = 0
    for o in flat.outs:
        row = []
        for x, rows in zip(flat.inputs, found, strict=True):
            block = rows[offset : offset + o.size].reshape((*o.shape, *x.shape))
            row.append(block.conj() if holomorphic else block)
        blocks.append(row)
        offset += o.size
    return blocks


def _by_elimination(flat: Flat) -> list[list[Tensor]]:
    matrix = eliminated(flat.recording)
    blocks: list[list[Tensor]] = []
    first = 0
    for o in flat.outs:
        rows, row, offset = matrix[first : first + o.size], [], 0
        for x in flat.inputs:
            block = rows[:, offset : offset + x.size].reshape((*o.shape, *x.shape))
            row.append(like(o, wrap(block.astype(o.dtype, order="C"))))
            offset += x.size
        blocks.append(row)
        first += o.size
    return blocks


def hessian(
    fn: Callable[..., Any],
    argnums: Argnums = 0,
    mode: JacobianMode = "forward",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return the Hessian function of a scalar function.

    Parameters are those of :func:`jacobian`; `mode` is how the gradient is differentiated again.

    Returns a function with `fn`'s arguments: for arguments of shapes a and b a tensor of shape a + b,
    in a pytree like the argument of pytrees like the argument (of tuples over `argnums`).

    Raises GradientError, DTypeError.

    >>> import wengert as wg
    >>> wg.hessian(lambda x: x[0] ** 2 * x[1])(wg.tensor([1.0, 3.0]))
    tensor([[6., 2.],
            [2., 0.]])
    """
    return jacobian(grad(fn, argnums), argnums, mode, chunk_size=chunk_size)


def hvp(fn: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Return the Hessian of a scalar function times a vector, without the Hessian.

    Parameters
    ----------
    fn: returns a real scalar.
    primals, tangents: as for :func:`wengert.jvp`: one pytree for each argument.

    Returns a pytree like the argument, a tuple of them for several. Forward over reverse mode: a small
    multiple of the cost of a gradient (Pearlmutter 1994, "Fast exact multiplication by the Hessian").

    Raises GradientError, ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.hvp(lambda x: (x**3).sum(), (wg.tensor([1.0, 2.0]),), (wg.tensor([1.0, 10.0]),))
    tensor([  6., 120.])
    """
    numbers = range(len(primals))
    _, found = jvp(grad(fn, tuple(numbers)), primals, tangents)
    return found[0] if len(primals) == 1 else found


def gauss_newton_product(
    fn: Callable[..., Any], loss: Callable[[Any], Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """Return the generalised Gauss-Newton matrix of `loss(fn(...))` times a vector: J' H J t.

    Parameters
    ----------
    fn: the model, any result; J is its Jacobian.
    loss: a scalar function of the model's result; H is its Hessian there.
    primals, tangents: as for :func:`wengert.jvp`.

    Positive semi-definite where `loss` is convex (Schraudolph 2002, "Fast curvature matrix-vector
    products for second-order gradient descent"). Returns what :func:`hvp` does.

    >>> import wengert as wg
    >>> wg.gauss_newton_product(wg.sin, lambda z: (z**2).sum(), (wg.tensor([0.0]),), (wg.tensor([3.0]),))
    tensor([6.])
    """
    out, along = jvp(fn, primals, tangents)
    _, curved = jvp(grad(loss), (out,), (along,))
    _, pull = vjp(fn, *primals)
    found = pull(curved)
    return found[0] if len(primals) == 1 else found


def laplacian(fn: Callable[[Any], Any], chunk_size: int | None = None) -> Callable[[Any], Any]:
    """Return the sum of the unmixed second derivatives of a function of one tensor.

    `fn` may return a tensor of any shape (or a pytree): each of its elements has a Laplacian. Forward
    mode twice along every axis, batched; the Hessian is never formed.

    >>> import wengert as wg
    >>> wg.laplacian(lambda x: x[0] ** 2 * x[1] + x[1] ** 3)(wg.tensor([1.0, 2.0]))
    tensor(16.)
    """

    def laplacian_of(x: Any) -> Any:
        point = _argument(x, False, getattr(fn, "__name__", type(fn).__name__))
        structure: list[Any] = []

        def second(vector: list[Tensor]) -> list[Tensor]:
            def along(y: Tensor) -> Any:
                return jvp(fn, (y,), (vector[0],))[1]

            leaves, found = tree.flatten(jvp(along, (point,), (vector[0],))[1])
            structure.append(found)
            return leaves

        sums = [s.sum(axis=0) for s in _directions(second, [point], chunk_size)]
        return tree.unflatten(structure[0], sums)

    return laplacian_of
