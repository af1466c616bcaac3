"""Derivatives of incomplete gamma and beta functions in their parameters.

PyTensor takes them by series whose terms alternate, some far larger than the sum, in loops of elements: of Q(40, 30)
its derivative has no right digit. Wengert has rules of its own, so a graph in which PyTensor wrote its series is given
ops for those, before anything else is rewritten.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as pm
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply
from pytensor.graph.features import ReplaceValidate
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import BinaryScalarOp, ScalarOp
from pytensor.scalar.loop import ScalarLoop
from pytensor.tensor.basic import cast
from pytensor.tensor.elemwise import Elemwise

import wengert as wg

from ...ops.special.incomplete_beta import betainc_slope
from ...ops.special.incomplete_gamma import slope_of_upper
from .convert import dtype_of, tensor
from .scalars import scalar_function


class GammaIncCSlope(BinaryScalarOp):  # type: ignore[misc]
    """The derivative of the upper incomplete gamma function Q(k, x) in k."""

    def impl(self, k: Any, x: Any) -> Any:
        """Return it for two numbers."""
        return slope_of_upper(*(wg.asarray(np.float64(v)) for v in (k, x))).numpy()[()]


class BetaIncSlope(ScalarOp):  # type: ignore[misc]
    """The derivative of the incomplete beta function I_x(a, b), in the parameter `i` times a and `j` times b."""

    nin = 3
    __props__ = ("i", "j")

    def __init__(self, i: int, j: int) -> None:
        self.i, self.j = i, j
        super().__init__(ps.upgrade_to_float, name=f"betainc_slope_{i}_{j}")

    def impl(self, a: Any, b: Any, x: Any) -> Any:
        """Return it for three numbers."""
        return betainc_slope(*(wg.asarray(np.float64(v)) for v in (a, b, x)), i=self.i, j=self.j).numpy()[()]


_UPPER = Elemwise(GammaIncCSlope(ps.upgrade_to_float, name="gammaincc_slope"))
_BETA = {"beta_a": Elemwise(BetaIncSlope(1, 0)), "beta_b": Elemwise(BetaIncSlope(0, 1))}


@scalar_function.register(GammaIncCSlope)
def _upper(op: Any, node: Any) -> Any:
    return lambda k, x: slope_of_upper(*(tensor(v, dtype_of(node)) for v in (k, x)))


@scalar_function.register(BetaIncSlope)
def _beta(op: Any, node: Any) -> Any:
    return lambda *xs: betainc_slope(*(tensor(v, dtype_of(node)) for v in xs), i=op.i, j=op.j)


@cache
def _series(dtype: str) -> dict[ScalarOp, str]:
    """Return the loops of PyTensor's series for a dtype, and what each is of."""
    a, b, x = (ps.get_scalar_type(dtype)() for _ in range(3))
    found: dict[ScalarOp, str] = {}
    for name, slope in (
        ("upper", pm.gammaincc_grad(a, x)),
        ("lower", pm.gammainc_grad(a, x)),  # which has the upper one's, too
        # Below the mean, and above it.
        ("beta_a", pm.betainc_grad(a, b, x, True).owner.inputs[2].owner.inputs[2]),
        ("beta_b", pm.betainc_grad(a, b, x, True).owner.inputs[2].owner.inputs[1]),
    ):
        loops = {v.owner.op for v in ancestors([slope]) if v.owner and isinstance(v.owner.op, ScalarLoop)}
        for op in loops - set(found):
            # The upper function's are one of a fixed number of terms, and one that ends.
            found[op] = name if name != "upper" else "upper_ends" if op.is_while else "upper_fixed"
    return found


def _loop(node: Apply) -> str:
    """Return the name of the series whose loop a node is; "" for any other node."""
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else None
    dtype = str(node.outputs[0].type.dtype)
    return _series(dtype).get(op, "") if isinstance(op, ScalarLoop) and dtype in ("float32", "float64") else ""


class WithoutSeries(GraphRewriter):  # type: ignore[misc]
    """The rewrite of PyTensor's series, each of which is a choice between two ways to sum it."""

    def add_requirements(self, fgraph: FunctionGraph) -> None:
        """Let a graph's variables be replaced."""
        fgraph.attach_feature(ReplaceValidate())

    def apply(self, fgraph: FunctionGraph) -> None:
        """Replace the series of a graph."""
        if not any(map(_loop, fgraph.apply_nodes)):
            return
        nodes = fgraph.toposort()
        # The loops that each node's results depend on.
        behind: dict[Apply, frozenset[Apply]] = {}
        for node in nodes:
            found = [behind[v.owner] for v in node.inputs if v.owner is not None]
            behind[node] = frozenset().union(*found, [node] if _loop(node) else [])
        for node in reversed(nodes):
            if node in fgraph.apply_nodes and _is(node.outputs[0], ps.Switch):
                made = self._replaced(node, behind)
                if made is not None:
                    fgraph.replace_validate(node.outputs[0], cast(made, node.outputs[0].type.dtype), reason="series")

    def _replaced(self, node: Apply, behind: dict[Apply, frozenset[Apply]]) -> Any:
        """Return the replacement of a choice between two sums; None for any other choice."""
        condition, *ways = node.inputs
        loops = [{_loop(n): n for n in behind.get(v.owner, ())} for v in ways]
        names = [sorted(map(_loop, behind.get(v.owner, ()))) for v in ways]
        first, second = loops
        if names == [["upper_fixed"], ["upper_ends"]]:
            return _UPPER(second["upper_ends"].inputs[-2], first["upper_fixed"].inputs[-1])
        if names == [["upper_ends", "upper_fixed"], ["lower", "lower"]]:
            return -_UPPER(first["upper_ends"].inputs[-2], first["upper_fixed"].inputs[-1])
        # The second is of x below the mean, the first of 1 - x.
        if names in ([["beta_b"], ["beta_a"]], [["beta_a"], ["beta_b"]]) and _is(condition, ps.GT):
            ((name, loop),) = second.items()
            return _BETA[name](*loop.inputs[-4:-2], condition.owner.inputs[0])
        return None


def _is(variable: Any, kind: type) -> bool:
    """Return whether a variable is the result of a scalar op of a kind, element by element."""
    return variable.owner is not None and isinstance(getattr(variable.owner.op, "scalar_op", None), kind)


TAG = "wengert"
if "wengert_without_series" not in optdb:
    # Right after equal nodes are merged: all later rewrites change how a series looks.
    optdb.register("wengert_without_series", WithoutSeries(), TAG, position=0.01)
