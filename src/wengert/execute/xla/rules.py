"""The rules that say what an op is in XLA, by the op's name, and the state of a trace that they may add checks to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.errors import GraphError, fail
from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.ops.facets import VIEWS
from ...core.ops.op import Op, spec_of_input
from ...ops.collective.finding import collectives
from ..native.rewrite.checks import is_checked
from .api import jnp, lax

# A function of (trace, node, *operands) that gives the node's value, a tuple for several results. Operands are JAX's
# arrays; what the node holds as a Python number is one.
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
# The ops whose results are images, (N, C, *S), and whose attribute `stride` has a number for each axis of S.
IMAGES: set[str] = set()


def lowers(*names: str) -> Callable[[Rule], Rule]:
    """Declare what ops are, by their names."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def gives_images(*names: str) -> None:
    """Declare that ops, by their names, give images."""
    IMAGES.update(names)


def rule_of(op: Op) -> Rule | None:
    """Return the rule of an op of the library's table; None for others, which run on the host."""
    return None if "declaration" in op.facets else RULES.get(op.name)


class Known(NamedTuple):
    """A check of integers that a call is given, made on the host before it: `low` <= each < `high`, or `ignored`."""

    number: int
    low: int
    high: int
    ignored: int | None = None

    def holds(self, a: Array) -> bool:
        """Return whether all of an input's elements are what the program takes them to be."""
        if not a.size or (a.min() >= self.low and a.max() < self.high):
            return True
        inside = (a >= self.low) & (a < self.high)
        return self.ignored is not None and bool((inside | (a == self.ignored)).all())


class Trace:
    """The lowering of one graph: what it found out that a run has to check.

    `wrong` holds booleans that say that an operand may be refused: an index out of range, a matrix that is singular.
    Where one of them is true at the end of a run, the interpreter computes the call again: it raises what the op
    raises, in its words, or its results are taken. Indices that a call brings itself are looked at before it (`known`):
    nobody has to wait for the device to hear of them.

    `axes` are those of the mesh whose ranks run the graph, by name, with the number of ranks along each; none for a
    program of one device. On a mesh nothing is looked at before a call: ranks, each of which has its part, would not
    find the same. Without `looks` nothing is, either: what the program is given is on the device.
    """

    def __init__(
        self,
        lower: Callable[[Graph, Sequence[Any], Trace], list[Any]],
        axes: Mapping[str, int] | None = None,
        looks: bool = True,
    ) -> None:
        self.axes = dict(axes or {})
        self.looks = looks and not self.axes
        self.wrong: list[Any] = []
        self.known: list[Known] = []
        # The ops that the host is called back for, with the reasons: what they raise comes in the midst of a run.
        self.on_host: dict[str, str] = {}
        # What came in the midst of a run of Python's and is no error of it: Ctrl-C.
        self.stopped: list[BaseException] = []
        # The inputs, by number, that nodes have all their elements from.
        self.origins: dict[Node, int] = {}
        self._lower = lower

    def begin(self, inputs: Sequence[Node]) -> None:
        """Begin anew, with the inputs of the graph that a call is fed."""
        self.wrong, self.known, self.on_host = [], [], {}
        self.origins = {n: i for i, n in enumerate(inputs)} if self.looks else {}

    def follow(self, node: Node) -> None:
        """Note where a node's elements come from, if all of them are an input's."""
        origin = self.origins.get(node.inputs[0]) if node.inputs and isinstance(node.inputs[0], Node) else None
        if origin is not None and (node.op.role in VIEWS or _widens(node)):
            self.origins[node] = origin

    def check(self, mask: Any) -> None:
        """Have the interpreter decide where an element of a mask is true."""
        if mask.size:
            self.wrong.append(mask if mask.ndim == 0 else lax.reduce_or(mask, tuple(range(mask.ndim))))

    def check_integers(self, entry: Any, x: Any, low: int, high: int, ignored: int | None = None) -> None:
        """Check that `low` <= x < `high` holds, but for elements that are `ignored`."""
        if isinstance(entry, Node) and is_checked(entry, high):
            return
        origin = self.origins.get(entry) if isinstance(entry, Node) else None
        if origin is not None:
            self.known.append(Known(origin, low, high, ignored))
            return
        bounds = np.iinfo(x.dtype)
        wrong: Any = np.zeros((), bool)
        if high <= bounds.max:
            wrong = wrong | (x >= np.asarray(high, x.dtype)) if high > bounds.min else np.ones((), bool)
        if low > bounds.min:
            wrong = wrong | (x < np.asarray(low, x.dtype))
        if ignored is not None and bounds.min <= ignored <= bounds.max:
            wrong = wrong & (x != np.asarray(ignored, x.dtype))
        self.check(jnp.broadcast_to(wrong, x.shape))

    def is_wrong(self) -> Any:
        """Return one boolean of all checks; False where there are none."""
        out: Any = None
        for mask in self.wrong:
            out = mask if out is None else lax.bitwise_or(out, mask)
        return np.zeros((), bool) if out is None else out

    def axis_of(self, node: Node) -> str | None:
        """Return the mesh axis of a collective; None where one rank stands along it. Raises GraphError without it."""
        over, ranks = node.attrs["over"], node.attrs["ranks"]
        if ranks != 1 and self.axes.get(over) != ranks:
            fail(
                GraphError,
                f"{node.op.name} over {over!r}, an axis of {ranks} ranks, in a program of XLA's for one device",
                "Ranks are devices in wg.distribute.jit, partition and shard_map: compile nothing around them.",
                str(node.source) if node.source is not None else None,
            )
        return over if ranks != 1 else None

    def met(self, graphs: Sequence[Graph]) -> tuple[str, ...]:
        """Return the axes along which ranks meet inside of a loop's or a branch's graphs."""
        return tuple(sorted({n.attrs["over"] for g in graphs for n in collectives(g) if n.attrs["ranks"] != 1}))

    def agreed(self, number: Any, over: tuple[str, ...]) -> tuple[Any, Any]:
        """Return a number by which the program goes on, the same along these axes, and whether ranks differ in it.

        Ranks that meet would wait for each other without end where one of them goes another way.
        """
        whole = narrow(number, np.dtype(np.int64))
        least, most = lax.pmin(whole, over), lax.pmax(whole, over)
        return narrow(least, np.dtype(number.dtype)), least != most

    def inner(self, graph: Graph) -> Callable[..., tuple[list[Any], Any]]:
        """Return the function of a graph inside: its outputs, and whether a check found something wrong."""

        def run(*args: Any) -> tuple[list[Any], Any]:
            inside = Trace(self._lower, self.axes)
            inside.stopped = self.stopped
            outputs = self._lower(graph, args, inside)
            self.on_host |= inside.on_host
            return outputs, jnp.asarray(inside.is_wrong())

        return run


def _widens(node: Node) -> bool:
    """Return whether a node is a cast of integers that keeps their values."""
    if node.op.name != "cast":
        return False
    before, after = spec_of_input(node.inputs[0]).dtype, dtype_of(node)
    return before.kind in "iu" and after.kind in "iu" and bool(np.can_cast(before, after))


def dtype_of(node: Node) -> Any:
    """Return the dtype of a node's first result."""
    return (node.spec[0] if isinstance(node.spec, tuple) else node.spec).dtype


def shape_of(node: Node) -> tuple[int, ...]:
    """Return the shape of a node's first result."""
    shape: tuple[int, ...] = (node.spec[0] if isinstance(node.spec, tuple) else node.spec).shape
    return shape


def together(node: Node, args: Sequence[Any]) -> list[Any]:
    """Return the operands of an elementwise node as arrays that fit: Python numbers in the others' dtype, all shapes.

    Operands of the role "same" have one dtype; others keep theirs.
    """
    roles = list(node.op.roles.values())
    alike = [i for i, a in enumerate(args) if roles[min(i, len(roles) - 1)] == "same" and hasattr(a, "dtype")]
    dtype = spec_of_input(node.inputs[alike[0]]).dtype if alike else dtype_of(node)
    shape = shape_of(node)
    out = []
    for a in args:
        if not hasattr(a, "dtype"):
            a = np.asarray(a, dtype)
        out.append(a if a.shape == shape else spread(a, shape))
    return out


def spread(x: Any, shape: tuple[int, ...]) -> Any:
    """Return an array broadcast to a shape."""
    lead = len(shape) - x.ndim
    if all(n == m for n, m in zip(x.shape, shape[lead:], strict=True)):
        return lax.broadcast_in_dim(x, shape, tuple(range(lead, len(shape))))
    return jnp.broadcast_to(x, shape)


def axes_of(axis: int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return axes that count from the right as JAX counts them, from the left."""
    return tuple(a % ndim for a in ((axis,) if isinstance(axis, int) else axis))


def is_half(dtype: Any) -> bool:
    """Return whether a dtype is one of half precision, whose sums are kept in float32."""
    return bool(dtype.itemsize == 2 and dtype.kind not in "iu")


def wide(x: Any) -> Any:
    """Return numbers of half precision as float32, others as they are."""
    return lax.convert_element_type(x, np.float32) if is_half(np.dtype(x.dtype)) else x


def narrow(x: Any, dtype: Any) -> Any:
    """Return an array in a dtype."""
    return x if x.dtype == dtype else lax.convert_element_type(x, dtype)


def once(x: Any) -> Any:
    """Return a floating array that XLA computes once, whoever uses it.

    It puts a step into each kernel that needs a value, and code for processors may contract a product and a sum in one
    and not in another. A window of each element and nothing beside it is in no kernel with what comes before; on other
    devices a barrier says the same.
    """
    if not x.ndim or not x.size:
        return x
    if x.dtype.kind == "c":
        return lax.complex(once(lax.real(x)), once(lax.imag(x)))
    ones, last = (1,) * (x.ndim - 1), (2,)
    holes = [(0, 0)] * (x.ndim - 1) + [(0, 1)]
    least = np.asarray(-np.inf, x.dtype)
    alone = lax.reduce_window(x, least, lax.max, (*ones, *last), (*ones, *last), holes, (*ones, *last))
    return lax.optimization_barrier(alone)
