"""`linear_solve`: A x = b for dense matrices, sparse ones and functions, differentiable in A and b."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

from .. import linalg
from ..core import tree
from ..core.errors import DTypeError, GraphError, ShapeError, fail
from ..core.spec import category, default_float, float32, float64, promote
from ..core.tensor import Tensor, asarray
from .common import Closed, Packing
from .implicit import info_of
from .linear_rules import LinearSystem, krylov_system
from .sparse import SparseMatrix

Method = Literal["auto", "dense", "sparse", "cg", "gmres", "bicgstab"]


def linear_solve(
    a: Any,
    b: Any,
    method: Method = "auto",
    *,
    symmetric: bool = False,
    preconditioner: Callable[[Any], Any] | None = None,
    tol: float | None = None,
    max_steps: int | None = None,
    error: bool = True,
    info: bool = False,
) -> Any:
    """Return the solution x of `a x = b`, differentiable in `a` and `b`.

    Parameters
    ----------
    a: a tensor (..., n, n); a :class:`SparseMatrix` or `scipy.sparse` matrix (n, n); or a linear
        function, from a pytree like `b` to a pytree like `b`. Tensors that the function uses from outside
        get derivatives too.
    b: for a matrix a tensor (n,) or (n, k) (for a tensor `a` all that `wg.linalg.solve` takes), for a
        function any pytree.
    method: "dense" (elimination; of a function by its matrix), "sparse" (SuperLU, by SciPy; factored once for
        the solution and its derivatives), "cg" (symmetric or Hermitian, positive definite), "gmres"
        (restarted after 30), "bicgstab"; "auto" is "dense" for a tensor, "sparse" for a sparse matrix,
        "gmres" for a function, "cg" if it is said to be symmetric.
    symmetric: a promise that `a` is symmetric (complex: Hermitian), so that the function need not be
        transposed; "cg" takes it as promised.
    preconditioner: a linear function, from a pytree like `b` to one, that is near the inverse of `a`. It
        does not change the solution, so no derivative flows to it.
    tol: for the Krylov methods, |a x - b| / |b|; by default the dtype's rounding error to the power 2/3.
    max_steps: of a Krylov method, products with `a`; by default 10 n, at least 100.
    error, info: as for :func:`wengert.solve.root`; not for dense tensors, whose solution is direct.

    The residual is computed from the solution, not taken from the method's recurrence. The adjoint
    system is solved by the same method with the transposed function (`wg.linear_transpose`).

    Raises ConvergenceError, LinAlgError (a singular matrix), ShapeError, DTypeError, GraphError.

    >>> import wengert as wg
    >>> d = wg.tensor([2.0, 4.0])
    >>> wg.solve.linear_solve(lambda x: d * x, wg.tensor([2.0, 8.0]), "cg")
    tensor([1., 2.])
    """
    if method not in get_args(Method):
        fail(GraphError, f"linear_solve: method {method!r}", f"It is one of {', '.join(get_args(Method))}.")
    if hasattr(a, "tocoo"):
        a = SparseMatrix.from_scipy(a)
    if callable(a):
        fn, kind = a, "gmres"
    elif isinstance(a, SparseMatrix):
        if a.shape[0] != a.shape[1]:
            fail(ShapeError, f"linear_solve with a sparse matrix {a.shape}", "It is square.")
        fn, kind = (lambda x: a @ x), "sparse"
    else:
        a = a if isinstance(a, Tensor) else asarray(a)
        fn, kind = (lambda x: a @ x), "dense"
    if method == "auto":
        method = "cg" if kind == "gmres" and symmetric else kind  # type: ignore[assignment]
    if method == "dense" and kind == "dense":
        if info or preconditioner is not None:
            fail(GraphError, "linear_solve of a dense matrix with info or a preconditioner", 'Say method="gmres".')
        return linalg.solve(a, b)
    if method == "sparse":
        if kind != "sparse":
            fail(GraphError, 'linear_solve: method "sparse" of a matrix that is not', "Make it a SparseMatrix.")
        return _sparse(a, b, info)
    if kind != "gmres" and not isinstance(b, Tensor):
        b = asarray(b)
    if kind == "dense" and a.ndim != 2:
        fail(ShapeError, f"linear_solve of {a.spec} by {method}", "A Krylov method takes one matrix; wg.vmap many.")
    settings = {"symmetric": symmetric or method == "cg", "tol": tol, "max_steps": max_steps, "strict": error}
    matrix_dtype = None if kind == "gmres" else a.dtype
    return _matrix_free(fn, b, method, preconditioner, matrix_dtype, settings, info)


def _sparse(a: SparseMatrix, b: Any, info: bool) -> Any:
    b = b if isinstance(b, Tensor) else asarray(b)
    if b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        fail(ShapeError, f"linear_solve: a sparse matrix {a.shape} and {b.spec}", f"b is ({a.shape[0]},) or a matrix.")
    dtype = promote(a.dtype, b.dtype)
    found = a.system().solved(b.astype(dtype), [a.data.astype(dtype)])
    return (found.solution, info_of(found)) if info else found.solution


def _matrix_free(
    fn: Callable[[Any], Any],
    b: Any,
    method: str,
    preconditioner: Callable[[Any], Any] | None,
    dtype: Any,
    settings: dict[str, Any],
    info: bool,
) -> Any:
    leaves, structure = tree.flatten(b)
    given = [x if isinstance(x, Tensor) else asarray(x) for x in leaves]
    for x in given:
        dtype = x.dtype if dtype is None else promote(dtype, x.dtype)
    dtype = default_float() if dtype is None else dtype
    while True:
        if category(dtype) < 2 or (category(dtype) == 2 and dtype not in (float32, float64)):
            fail(DTypeError, f"linear_solve by {method} in {dtype}", "Solve in float32, float64 or a complex dtype.")
        given = [x.astype(dtype) for x in given]
        closed = _closed(fn, given, structure, "linear_solve")
        wider = dtype
        for s in closed.specs:
            wider = promote(wider, s.dtype)
        if wider == dtype:
            break
        dtype = wider
    packing = Packing([x.shape for x in given])
    tensors = closed.tensors
    own = len(tensors)

    def apply(v: Tensor, *a: Tensor) -> Tensor:
        return packing.pack(closed(packing.unpack(v), a[:own]), dtype)

    precondition = None
    if preconditioner is not None:
        near = _closed(preconditioner, given, structure, "the preconditioner")
        tensors = [*tensors, *(t.detach() for t in near.tensors)]

        def precondition(v: Tensor, *a: Tensor) -> Tensor:
            return packing.pack(near(packing.unpack(v), a[own:]), dtype)

    system: LinearSystem = krylov_system("linear_solve", method, apply, precondition=precondition, **settings)
    found = system.solved(packing.pack(given, dtype), tensors)
    x = tree.unflatten(structure, packing.unpack(found.solution))
    return (x, info_of(found)) if info else x


def _closed(fn: Callable[[Any], Any], given: Sequence[Tensor], structure: Any, what: str) -> Closed:
    closed = Closed(fn, given, structure, (), what)
    if closed.structure != structure or [s.shape for s in closed.specs] != [x.shape for x in given]:
        fail(
            ShapeError,
            f"{what}: the function takes {[x.shape for x in given]} and returns {[s.shape for s in closed.specs]}",
            "It returns a pytree like b, of the same shapes.",
        )
    return closed
