"""Rules for ops that are called back: what LAPACK and SciPy have, and Wengert has not.

The op's own `perform` computes them, on arrays. Their gradients are graphs of PyTensor's, as all are in the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
import pytensor.scalar.math as pm
from pytensor.tensor._linalg.solve.tridiagonal import LUFactorTridiagonal, SolveLUFactorTridiagonal
from pytensor.tensor.slinalg import QZ, Schur

import wengert as wg

from ...core.spec import spec_of
from .convert import Walk, dtype_of, funcify, tensor
from .scalars import scalar_function

Shape = tuple[int, ...]


@cache
def _ufunc(name: str) -> Callable[..., Any]:
    module, _, function = name.rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def by_element(op: Any, node: Any) -> Callable[..., Any]:
    """Return SciPy's function for a scalar op, which names it."""
    ufunc, dtype = _ufunc(op.nfunc_spec[0]), dtype_of(node)

    def run(*xs: Any) -> Any:
        tensors = [tensor(x) for x in xs]
        shape = np.broadcast_shapes(*(tuple(t.shape) for t in tensors))
        return wg.callback(lambda *given: np.asarray(ufunc(*given), dtype), spec_of(shape, dtype), *tensors)

    return run


for _op in (pm.Owens_t, pm.GammaIncInv, pm.GammaIncCInv, pm.BetaIncInv, pm.Hyp2F1):
    scalar_function.register(_op, by_element)


def _of_shapes(shapes: Callable[..., list[Shape]]) -> Callable[..., Any]:
    """Return the rule of an op, whose results' shapes are given by its node and those of its operands.

    Leading axes, which a stack of matrices has, belong to them.
    """

    def rule(op: Any, node: Any, walk: Walk) -> Callable[..., Any]:
        def called(*arrays: Any) -> list[Any]:
            storage: list[list[Any]] = [[None] for _ in node.outputs]
            # What is given may not be written to, as some ops do that work in place.
            node.op.perform(node, [np.array(a) for a in arrays], storage)
            return [np.asarray(cell[0], dtype_of(node, i)) for i, cell in enumerate(storage)]

        def run(*xs: Any) -> list[Any]:
            tensors = [tensor(x, v.type.dtype) for x, v in zip(xs, node.inputs, strict=True)]
            specs = [
                spec_of(s, dtype_of(node, i)) for i, s in enumerate(shapes(node, *(tuple(t.shape) for t in tensors)))
            ]
            return list(wg.callback(called, specs, *tensors))

        return run

    return rule


def _of_matrices(node: Any, x: Shape, *_: Shape) -> list[Shape]:
    return [x if v.type.ndim == len(x) else x[:-1] for v in node.outputs]


def _of_right_side(_: Any, *shapes: Shape) -> list[Shape]:
    return [shapes[-1]]


def _of_factors(_: Any, below: Shape, diagonal: Shape, above: Shape) -> list[Shape]:
    return [below, diagonal, above, (*diagonal[:-1], max(diagonal[-1] - 2, 0)), diagonal]


# Their rules take leading axes.
CALLED = (Schur, QZ, LUFactorTridiagonal, SolveLUFactorTridiagonal)
funcify.register(Schur, _of_shapes(_of_matrices))
funcify.register(QZ, _of_shapes(_of_matrices))
funcify.register(LUFactorTridiagonal, _of_shapes(_of_factors))
funcify.register(SolveLUFactorTridiagonal, _of_shapes(_of_right_side))
# Of matrices of a structure that Wengert has no solver for.
solved_by_lapack = _of_shapes(_of_right_side)
