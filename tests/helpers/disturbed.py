"""A graph's results with every rounding disturbed: how far two correct ways to compute it may lie apart.

Each inexact operation's operands and results are moved by an ulp or so, at random (stochastic
arithmetic: J. Vignes, "A stochastic arithmetic for reliable scientific computation", 1993). What else
is left open is chosen at random too, or in turn:

- numbers are moved independently, or to a coarser grid: close ones may become equal, equal ones stay so;
- a composite runs its own forward, or the operations of its body, each of which rounds;
- a sum or a product adds up in any order, with products that are rounded or are not: one that
  overflows on the way may be infinite or NaN in one order and a number in another;
- intermediate results are no wider than their dtype, or are float32 or float64: what overflows or
  underflows halfway in one way to compute it need not do so in another;
- NaN and infinities as integers are undefined (C17, 6.3.1.4; NumPy gives what its loop's instruction does, which
  for uint32 depends on where in the array an element stands): any number;
- a quotient whose divisor may be 0 may be anything: disturbances seldom meet that place itself;
- the sign of a NaN is that of no number (IEEE 754-2019, 6.3), but where an operation is there for signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import wengert as wg
from fuzz_programs import words
from wengert.core.graph.evaluate import compute
from wengert.core.node import Node
from wengert.transforms.control import ops as control_ops

# What moves numbers, or works on their signs: a NaN keeps its own.
MOVES = frozenset(
    words(
        "leaf alias input parameter constant output reshape broadcast concat split stack unstack permute squeeze "
        "expand_dims flip roll tril triu diagonal embed_diagonal shift pad tile repeat slice slice_transpose "
        "slice_update index index_update gather where abs copysign negative positive copy stop_gradient real "
        "checkpoint_name"
    )
)
# What chooses numbers or asks something about them, and rounds none.
EXACT = MOVES | frozenset(
    words(
        "max min argmax argmin any all count_nonzero maximum minimum relu clip floor ceil round trunc sign equal "
        "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not isnan isinf "
        "isfinite signbit one_hot sort argsort top_k arg_top_k max_pool argmax_pool pool_select nextafter "
        "index_is_last searchsorted size"
    )
)
# What adds up, or multiplies, along axes; and products that are summed, with the axis of the second operand.
SUMS = frozenset(words("sum prod mean"))
PRODUCTS = {"matmul": -2, "vecmat": -2, "matvec": -1, "dot": -1}
# Which operand divides.
DIVISORS = {"divide": 1, "reciprocal": 0}


def uncertain(x: Any) -> bool:
    """Return whether these are numbers that operations round."""
    return isinstance(x, np.ndarray | np.generic) and (x.dtype.kind == "f" or x.dtype == ml_dtypes.bfloat16)


class Form:
    """A graph with its nodes' values for some inputs, as the interpreter computes them."""

    def __init__(self, graph: wg.Graph, feeds: Sequence[Any]) -> None:
        self.graph, self.feeds = graph, feeds
        self.values: dict[Node, Any] = dict(zip(graph.inputs, feeds, strict=True))
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                if node not in self.values:
                    self.values[node] = compute(
                        node, [self.values[e] if isinstance(e, Node) else e for e in node.inputs]
                    )


class Disturbed:
    """An interpreter of graphs with disturbances of up to so many ulp.

    Intermediate results are of the dtype `width` where their own is narrower; None: their own.
    """

    def __init__(self, form: Form, rng: np.random.Generator, ulps: int, width: Any) -> None:
        self.form = form
        self.rng = rng
        self.ulps = ulps
        self.width = width

    def run(self) -> list[Any]:
        """Return the outputs."""
        graph, feeds = self.form.graph, self.form.feeds
        values: dict[Node, Any] = {n: self._widened(x) for n, x in zip(graph.inputs, feeds, strict=True)}
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                if node not in values:
                    values[node] = self._value(node, [values[e] if isinstance(e, Node) else e for e in node.inputs])
        return [values[n] for n in graph.outputs]

    def _value(self, node: Node, args: list[Any]) -> Any:
        name = node.op.name
        if name in MOVES:
            return self._widened(compute(node, args))
        if name == "cast" and node.spec.dtype.kind in "iu" and uncertain(args[0]):
            out = compute(node, args)
            info = np.iinfo(out.dtype)
            ends = np.where(self.rng.random(out.shape) < 0.5, out.dtype.type(info.min), out.dtype.type(info.max))
            return np.where(np.isfinite(args[0]), out, ends)
        if name in EXACT or (name == "cast" and _to_or_from_integers(node)):
            return self._signed(self._widened(compute(node, args)))
        args = [self._shaken(a) if isinstance(e, Node) else a for a, e in zip(args, node.inputs, strict=True)]
        if name in SUMS:
            out = compute(node, [self._reordered(args[0], node.attrs["axis"])])
        elif name in PRODUCTS:
            out = self._product(node, *args)
        elif name == "scan":
            out = self._loop(node, args)
        else:
            out = compute(node, args)
        if name in DIVISORS:
            out = self._unbounded(node, args, out)
        return self._signed(self._shaken(self._widened(out)))

    def _loop(self, node: Node, args: list[Any]) -> Any:
        """Run a scan, every iteration of which is disturbed."""
        attrs = {name: value for name, value in node.attrs.items() if name not in ("body", "keeps", "carries")}
        body, carries = node.attrs["body"], node.attrs["carries"]

        def turn(feeds: list[Any]) -> list[Any]:
            return Disturbed(Form(body, feeds), self.rng, self.ulps, self.width).run()

        specs = [n.spec for n in body.outputs[carries:]]
        return control_ops._scan(args, turn, control_ops._stack_arrays, specs, carries, **attrs)

    def _unbounded(self, node: Node, args: list[Any], out: Any) -> Any:
        """Return a quotient, infinite where the divisor has another sign than it should: 0 lies between."""
        divisor = node.inputs[DIVISORS[node.op.name]]
        if not isinstance(divisor, Node):
            return out
        crossed = np.sign(args[DIVISORS[node.op.name]]) * np.sign(self.form.values[divisor]) < 0
        return np.where(crossed, out.dtype.type(np.inf), out)

    def _widened(self, x: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(map(self._widened, x))
        narrow = self.width is not None and uncertain(x) and x.dtype.itemsize < np.dtype(self.width).itemsize
        return x.astype(self.width) if narrow else x

    def _shaken(self, x: Any) -> Any:
        """Return an array with every number moved by up to so many ulp."""
        if isinstance(x, tuple):
            return tuple(map(self._shaken, x))
        if isinstance(x, np.ndarray | np.generic) and x.dtype.kind == "c":
            out = np.empty_like(x, subok=False)
            out.real, out.imag = self._shaken(np.real(x)), self._shaken(np.imag(x))
            # A part much smaller than the other is what rounding errors of that one leave.
            turn = 1 + 1j * np.finfo(out.dtype).eps * self.rng.integers(-self.ulps, self.ulps + 1, out.shape)
            return np.where(np.isfinite(out), out * turn, out).astype(x.dtype)
        if not uncertain(x) or x.size == 0:
            return x
        array = np.array(x)
        width = 2 * self.ulps + 1
        whole = np.dtype(f"i{array.itemsize}")
        bits = np.ascontiguousarray(array).view(whole).reshape(array.shape)
        if self.rng.random() < 0.5:
            steps = self.rng.integers(width, size=array.shape)
        else:
            steps = width - 1 - (bits % width + self.rng.integers(width)) % width
        moved = (bits + (steps - self.ulps).astype(whole)).view(array.dtype)
        # Not into zero, infinity or the other sign.
        keep = (array == 0) | ~np.isfinite(array) | ~np.isfinite(moved) | (np.sign(moved) != np.sign(array))
        return np.where(keep, array, moved)

    def _signed(self, x: Any) -> Any:
        """Return an array whose NaNs have any sign."""
        if isinstance(x, tuple):
            return tuple(map(self._signed, x))
        if not uncertain(x) or not np.isnan(x).any():
            return x
        return np.where(np.isnan(x) & (self.rng.random(x.shape) < 0.5), -x, x)

    def _reordered(self, x: Any, axes: Sequence[int]) -> Any:
        for axis in axes:
            x = np.take(x, self.rng.permutation(x.shape[axis]), axis)
        return x

    def _product(self, node: Node, x: Any, y: Any) -> Any:
        """Return a sum of products: in any order, each of them rounded or as the op's forward does it."""
        order = self.rng.permutation(x.shape[-1])
        x, y = np.take(x, order, -1), np.take(y, order, PRODUCTS[node.op.name])
        if self.rng.random() < 0.5:
            return compute(node, [x, y])
        assert callable(node.op.reference)
        wide = [a.astype(np.float32) if a.itemsize == 2 else a for a in (x, y)]
        return node.op.reference(*wide).astype(x.dtype)


def _to_or_from_integers(node: Node) -> bool:
    source = node.inputs[0]
    return isinstance(source, Node) and (source.spec.dtype.kind in "iub" or node.spec.dtype.kind in "iub")


WIDTHS = (None, np.float32, np.float64)


def samples(graph: wg.Graph, feeds: Sequence[Any], count: int) -> list[list[Any]]:
    """Return the outputs as computed in `count` ways.

    Disturbances are small and larger ones: some errors grow faster than linearly.
    """
    rng = np.random.default_rng(count)
    forms = [Form(g, feeds) for g in (graph, _opened(graph))] if count else []
    return [Disturbed(forms[i % 2], rng, 1 << (i % 5), WIDTHS[i % 3]).run() for i in range(count)]


def _opened(graph: wg.Graph) -> wg.Graph:
    """Return the graph with the bodies of its composites in their place."""
    before = None
    while graph is not before:
        before, graph = graph, graph.expand_where(lambda node: True)
    return graph
