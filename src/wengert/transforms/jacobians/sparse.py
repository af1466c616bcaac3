"""Sparse Jacobians and Hessians: a few derivative passes, each along many directions that do not meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ...core import tree
from ...core.errors import GradientError, ShapeError, fail
from ...core.tensor import Tensor, wrap
from ..batch.vmap import vmap
from ..derivatives.functional import Argnums, grad
from .coloring import color_columns, color_symmetric, recoverable
from .dependence import sparse
from .jacobian import Flat
from .sparsity import Structure, structure_key, symmetric, traced_anywhere

SparseMode = Literal["auto", "forward", "reverse"]

# Elements of the directions and of what comes back in one batched pass, unless chunk_size is said.
_PASS_ELEMENTS = 2**22


class Plan(NamedTuple):
    """A pattern in CSC form and the colours of its columns ("forward") or rows ("reverse")."""

    pattern: Any
    colors: Any
    mode: str

    @property
    def directions(self) -> int:
        """The directions of the derivative passes, one for every colour."""
        return int(self.colors.max()) + 1 if self.pattern.nnz else 0


class _Compressed:
    """The common part of sparse Jacobians and Hessians: one plan for arguments of one structure."""

    def __init__(self, fn: Callable[..., Any], argnums: Argnums, chunk_size: int | None, pattern: Any, kind: str):
        if chunk_size is not None and chunk_size < 1:
            fail(GradientError, f"{kind}: chunk_size {chunk_size}", "At least one direction goes in one pass.")
        self._fn, self._argnums, self._chunk_size, self._kind = fn, argnums, chunk_size, kind
        self._name = getattr(fn, "__name__", type(fn).__name__)
        matrices = sparse()
        self._given = None if pattern is None else matrices.csc_array(pattern).astype(bool)
        self._plans: dict[Any, Plan] = {}
        self._last: Plan | None = None

    @property
    def pattern(self) -> Any:
        """The pattern of the last call, as :func:`wengert.sparse.jacobian_sparsity` gives it."""
        return self._plan.pattern

    @property
    def colors(self) -> Any:
        """The colour of every column (of every row in reverse mode) in the last call."""
        return self._plan.colors

    @property
    def evaluations(self) -> int:
        """The number of directions that the last call differentiated along: that of the colours."""
        return self._plan.directions

    @property
    def mode(self) -> str:
        """The mode of the last call: "forward" or "reverse"."""
        return self._plan.mode

    @property
    def _plan(self) -> Plan:
        if self._last is None:
            fail(GradientError, f"{self._kind} of {self._name} has no pattern yet", "Call it, or plan(*args), first.")
        return self._last

    def plan(self, *args: Any) -> Plan:
        """Find pattern and colours for arguments of these shapes, without a derivative."""
        traced_anywhere(args)
        key = structure_key(args)
        found = self._plans.get(key)
        if found is None:
            found = self._plans[key] = self._planned(args)
        self._last = found
        return found

    def _planned(self, args: Sequence[Any]) -> Plan:
        raise NotImplementedError

    def _known_pattern(self, args: Sequence[Any]) -> Any:
        differentiated = grad(self._fn, self._argnums) if self._kind == "sparse.hessian" else self._fn
        if self._given is None:
            return Structure(differentiated, self._argnums, args).pattern
        return self._given

    def _checked(self, pattern: Any, flat: Flat) -> None:
        if pattern.shape != (flat.rows, flat.columns):
            fail(
                ShapeError,
                f"{self._kind} of {self._name}: a pattern of shape {pattern.shape} for {flat.rows} results "
                f"and {flat.columns} arguments",
                "A pattern has a row for every element of the result, a column for every element of the arguments.",
            )

    def __repr__(self) -> str:
        return f"<{self._kind} of {self._name}>"


class SparseJacobian(_Compressed):
    """A function that gives sparse Jacobians: see :func:`jacobian`."""

    def __init__(
        self, fn: Callable[..., Any], argnums: Argnums, mode: SparseMode, pattern: Any, chunk_size: int | None
    ):
        super().__init__(fn, argnums, chunk_size, pattern, "sparse.jacobian")
        self._wanted = mode

    def _planned(self, args: Sequence[Any]) -> Plan:
        pattern = self._known_pattern(args)
        plans = []
        if self._wanted != "reverse":
            plans.append(Plan(pattern, color_columns(pattern), "forward"))
        if self._wanted != "forward":
            plans.append(Plan(pattern, color_columns(pattern.T), "reverse"))
        # A cotangent costs a little more than a tangent; of equals the forward one is taken.
        return min(plans, key=lambda p: p.directions)

    def __call__(self, *args: Any) -> Any:
        plan = self.plan(*args)
        flat = Flat(self._fn, self._argnums, False, False, self._name, args, {})
        self._checked(plan.pattern, flat)
        rows, columns = _entries(plan.pattern)
        found = _compressed(flat, plan, self._chunk_size)
        line, at = (columns, rows) if plan.mode == "forward" else (rows, columns)
        return _filled(plan.pattern, found[plan.colors[line], at])


class SparseHessian(_Compressed):
    """A function that gives sparse Hessians: see :func:`hessian`."""

    def __init__(self, fn: Callable[..., Any], argnums: Argnums, pattern: Any, chunk_size: int | None):
        super().__init__(fn, argnums, chunk_size, pattern, "sparse.hessian")

    def _planned(self, args: Sequence[Any]) -> Plan:
        found = self._known_pattern(args)
        # Of a given pattern one triangle is enough.
        pattern = symmetric(found) if self._given is None else (found + found.T).tocsc()
        return Plan(pattern, color_symmetric(pattern), "forward")

    def __call__(self, *args: Any) -> Any:
        plan = self.plan(*args)
        flat = Flat(grad(self._fn, self._argnums), self._argnums, False, False, self._name, args, {})
        self._checked(plan.pattern, flat)
        rows, columns = _entries(plan.pattern)
        found = _compressed(flat, plan, self._chunk_size)
        alone = recoverable(rows, columns, plan.colors)
        # An entry that shares its row with its colour is alone where it stands transposed.
        line, at = np.where(alone, columns, rows), np.where(alone, rows, columns)
        return _filled(plan.pattern, found[plan.colors[line], at])


def jacobian(
    fn: Callable[..., Any],
    argnums: Argnums = 0,
    mode: SparseMode = "auto",
    pattern: Any = None,
    chunk_size: int | None = None,
) -> SparseJacobian:
    """Return the Jacobian of a function as a sparse matrix, in as many passes as its structure needs.

    Parameters
    ----------
    fn: a function of pytrees of floating tensors that returns a pytree of them.
    argnums: which positional arguments to differentiate in.
    mode: "forward" (columns that share no row go together), "reverse" (rows that share no column), or
        "auto": the one with fewer colours.
    pattern: what :func:`wengert.sparse.jacobian_sparsity` would find, where it is known better: a SciPy sparse matrix
        or an array, nonzero where the Jacobian may be.
    chunk_size: directions in one batched pass, to bound memory.

    Returns a function of `fn`'s positional arguments whose result is a SciPy sparse array in CSC form,
    with an entry (perhaps 0) wherever the pattern has one; half precision becomes float32. Pattern and
    colours are found once for arguments of one structure; `.pattern`, `.colors`, `.mode` and
    `.evaluations` (directions) tell of the last call's. Arguments that are integers or booleans are
    part of the structure. Needs SciPy.

    Raises GradientError, ShapeError, DTypeError, GraphError. Source: Curtis, Powell and Reid 1974, "On the
    estimation of sparse Jacobian matrices"; Gebremedhin, Manne and Pothen 2005, "What color is your
    Jacobian?".

    >>> import wengert as wg
    >>> jac = wg.sparse.jacobian(lambda x: x[1:] * x[:-1])
    >>> jac(wg.arange(1.0, 6.0)).toarray()
    array([[2., 1., 0., 0., 0.],
           [0., 3., 2., 0., 0.],
           [0., 0., 4., 3., 0.],
           [0., 0., 0., 5., 4.]], dtype=float32)
    >>> jac.evaluations
    2
    """
    if mode not in get_args(SparseMode):
        fail(GradientError, f"sparse.jacobian: mode {mode!r}", f"It is one of {', '.join(get_args(SparseMode))}.")
    return SparseJacobian(fn, argnums, mode, pattern, chunk_size)


def hessian(
    fn: Callable[..., Any], argnums: Argnums = 0, pattern: Any = None, chunk_size: int | None = None
) -> SparseHessian:
    """Return the Hessian of a scalar function as a sparse matrix, in as many passes as its structure needs.

    Parameters and result are those of :func:`jacobian`; of a given pattern one triangle is
    enough. A pass differentiates the gradient
    along one direction, at a small multiple of the gradient's cost; there is one for every colour of
    a star colouring (Coleman and More 1984, "Estimation of sparse Hessian matrices and graph coloring
    problems").

    >>> import wengert as wg
    >>> hess = wg.sparse.hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())
    >>> hess(wg.arange(1.0, 5.0)).toarray()
    array([[4., 2., 0., 0.],
           [2., 6., 4., 0.],
           [0., 4., 8., 6.],
           [0., 0., 6., 0.]], dtype=float32)
    >>> hess.evaluations
    3
    """
    return SparseHessian(fn, argnums, pattern, chunk_size)


def _entries(pattern: Any) -> tuple[Any, Any]:
    """Return (row, column) of every entry, in the order of the data of a CSC array."""
    return pattern.indices, np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))


def _filled(pattern: Any, data: Any) -> Any:
    return sparse().csc_array((data, pattern.indices.copy(), pattern.indptr.copy()), shape=pattern.shape)


def _compressed(flat: Flat, plan: Plan, chunk: int | None) -> Any:
    """Return the Jacobian times the sum of the unit vectors of each colour; or its transpose."""
    forward = plan.mode == "forward"
    likes, results = (flat.inputs, flat.outs) if forward else (flat.outs, flat.inputs)
    width = sum(t.size for t in results)
    # SciPy has no sparse arrays of half precision.
    wide = [np.float32 if t.dtype.itemsize == 2 else t.dtype for t in flat.outs]
    found = np.zeros((plan.directions, width), np.result_type(*wide) if wide else float)
    step = chunk or max(_PASS_ELEMENTS // max(flat.rows + flat.columns, 1), 1)

    def apply(vectors: list[Tensor]) -> list[Tensor]:
        return tree.leaves(flat.recording.push([vectors])) if forward else flat.recording.pull(vectors)

    for start in range(0, plan.directions, step):
        stop = min(start + step, plan.directions)
        seeds = list(_seeds(likes, plan.colors, start, stop))
        parts = (
            [p.reshape((1, *p.shape)) for p in apply([s[0] for s in seeds])]
            if stop - start == 1
            else vmap(apply)(seeds)
        )
        at = 0
        for p, t in zip(parts, results, strict=True):
            found[start:stop, at : at + t.size] = p.detach().numpy().reshape(stop - start, t.size)
            at += t.size
    return found


def _seeds(likes: Sequence[Tensor], colors: Any, start: int, stop: int) -> Iterator[Tensor]:
    """Yield, for each colour from `start` to `stop`, ones at its elements, split as the tensors are."""
    offset = 0
    for t in likes:
        own = colors[offset : offset + t.size]
        block = np.zeros((stop - start, t.size), t.dtype)
        at = np.flatnonzero((own >= start) & (own < stop))
        block[own[at] - start, at] = 1
        yield wrap(block.reshape((stop - start, *t.shape)))
        offset += t.size
