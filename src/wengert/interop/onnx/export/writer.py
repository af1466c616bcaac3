"""The writer of ONNX nodes, and the forms: what an op becomes where its declaration's name alone does not say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ....core.dims import Dim
from ....core.dtypes import DType, record_of
from ....core.errors import WengertError
from ....core.graph.graph import Graph
from ....core.graph.snapshot import CONSTANT, PARAMETER, specs_of
from ....core.node import Node
from ....core.ops.op import INPUT, Missing
from ....core.ops.record import OUTPUT
from ....core.spec import category
from ..errors import refuse, said, shown
from ..values import element_type, package

Form = Callable[..., Any]
F = TypeVar("F", bound=Form)

_FORMS: dict[str, tuple[Form, int]] = {}


def form(*names: str, since: int = 0) -> Callable[[F], F]:
    """Declare the function below as what the named ops become, from a version of ONNX's operators on.

    It gets the writer, the node (:class:`Call`), and the operands' names, and returns the result's name, or a tuple of
    the results'. Before that version a composite is opened, and any other op refused.
    """

    def declare(function: F) -> F:
        for name in names:
            _FORMS[name] = (function, since)
        return function

    return declare


def has_form(op: Any, opset: int) -> bool:
    """Return whether an op has a form in a version of ONNX's operators."""
    found = _FORMS.get(op.name)
    if found is not None:
        return found[1] <= opset
    return op.kind == "elementwise" and isinstance(op.onnx, str)


class Call:
    """A node as a form sees it: attributes, and the shapes and dtypes of operands and results."""

    __slots__ = ("node", "attrs")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.attrs: Mapping[str, Any] = node.attrs

    def __getitem__(self, name: str) -> Any:
        return self.attrs[name]

    @property
    def specs(self) -> tuple[Any, ...]:
        """The results' specs."""
        return specs_of(self.node)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The first result's shape."""
        return tuple(self.specs[0].shape)

    @property
    def dtype(self) -> DType:
        """The first result's dtype."""
        found: DType = self.specs[0].dtype
        return found

    @property
    def axis(self) -> Any:
        """The axis, or the axes, of an op along some of its first operand's, counted from the left.

        Versions of onnxruntime misread axes of empty arrays that are counted from the right.
        """
        rank, axis = len(self.operand(0).shape), self.attrs["axis"]
        return tuple(a + rank for a in axis) if isinstance(axis, tuple) else axis + rank

    def operand(self, i: int) -> Any:
        """Return the spec of an operand. A number has that of a scalar of the dtype that it takes on."""
        e = self.node.inputs[i]
        if isinstance(e, Node):
            return specs_of(e)[0]
        return np.empty((), literal_dtype(self.node, i))


def literal_dtype(node: Node, i: int) -> DType:
    """Return the dtype that a number among a node's operands takes on."""
    found = [e.spec for e in node.inputs if isinstance(e, Node) and not isinstance(e.spec, tuple)]
    typed = [s.dtype for s in found if s.dtype.kind != "b"] or [s.dtype for s in found]
    value = node.inputs[i]
    own: DType = specs_of(node)[0].dtype
    if not typed or (isinstance(value, float) and category(typed[-1]) < 2):
        return own
    return typed[-1]


class Writer:
    """A writer of one graph: nodes, constants, and names that nothing else has."""

    def __init__(self, opset: int, outer: Writer | None = None) -> None:
        self.onnx = package()
        self.opset = opset
        self.outer = outer
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: set[str] = set() if outer is None else outer.names
        self.of: dict[Node, tuple[str, ...]] = {}
        self.sized: dict[str, str] = {}
        self.constants: dict[Any, str] = {}
        self.dimensions: dict[str, tuple[str, int]] = {} if outer is None else outer.dimensions
        # For the name of each ONNX node, the node of the graph that it is a part of.
        self.origin: dict[str, Node] = {} if outer is None else outer.origin
        self.current: Node | None = None

    # -- names and constants

    def name(self, wanted: str) -> str:
        """Return a name that nothing has, like the wanted one."""
        base = wanted or "v"
        found, count = base, 0
        while found in self.names:
            count += 1
            found = f"{base}_{count}"
        self.names.add(found)
        return found

    def const(self, value: Any, dtype: Any = None, name: str = "") -> str:
        """Return the name of a constant. Equal small ones are one."""
        array = np.asarray(value, dtype=dtype)
        key = (array.dtype, array.shape, array.tobytes()) if array.nbytes <= 64 and not name else None
        if key is not None and key in self.constants:
            return self.constants[key]
        made = self.name(name or "c")
        proto = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), made)
        self.nodes.append(self.onnx.helper.make_node("Constant", [], [made], value=proto))
        if key is not None:
            self.constants[key] = made
        return made

    def parameter(self, value: Any, name: str) -> str:
        """Return the name of an initializer: what a reader may train. Constants are nodes."""
        made = self.name(name)
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), made)
        )
        return made

    def ints(self, values: Sequence[int]) -> str:
        """Return the name of a constant list of 64-bit integers."""
        return self.const(np.array(list(values), dtype=np.int64).reshape(-1))

    def like(self, value: Any, dtype: Any) -> str:
        """Return the name of a constant number of a dtype."""
        return self.const(np.asarray(value).astype(dtype))

    # -- nodes

    def __call__(self, op: str, *operands: str, results: int = 1, **attributes: Any) -> Any:
        """Add a node, and return its result's name, or a tuple of names for several. An empty name is no operand."""
        names = tuple(self.name(op.lower()) for _ in range(results))
        given = list(operands)
        while given and not given[-1]:
            given.pop()
        kept = {k: v for k, v in attributes.items() if v is not None}
        own = self.name(f"/{op}")
        made = self.onnx.helper.make_node(op, given, list(names), name=own, **kept)
        place = None if self.current is None else place_of(self.current)
        if place:
            made.metadata_props.add(key="wengert.source", value=place)
        self.nodes.append(made)
        if self.current is not None:
            self.origin[own] = self.current
        return names[0] if results == 1 else names

    def cast(self, x: str, dtype: Any) -> str:
        """Return `x` as another dtype."""
        record = record_of(np.dtype(dtype))
        # Of float8 ONNX bounds what is too large unless it is told not to.
        rule = {"saturate": int(record.largest is not None)} if record.stored else {}
        out: str = self("Cast", x, to=element_type(np.dtype(dtype)), **rule)
        return out

    def axes(self, op: str, x: str, axes: Sequence[int], keepdims: bool) -> str:
        """Return a reduction along axes, counted from the left, which are an input or an attribute by the version."""
        since = 13 if op == "ReduceSum" else 18
        if not axes:
            # ONNX takes no axes for all of them: a reduction along none is one along an axis of one element.
            return self.axes(op, self("Unsqueeze", x, self.ints([0])), (0,), False)
        if self.opset >= since:
            out: str = self(op, x, self.ints(axes), keepdims=int(keepdims))
        else:
            out = self(op, x, axes=list(axes), keepdims=int(keepdims))
        return out

    def reshape(self, x: str, shape: Sequence[Any]) -> str:
        """Return `x` in another shape; one size may be unknown, several are computed."""
        unknown = [n for n in shape if isinstance(n, Dim)]
        if not unknown:
            given = self.ints(shape)
        elif len(unknown) == 1 and all(isinstance(n, Dim) or n != 0 for n in shape):
            given = self.ints([-1 if isinstance(n, Dim) else n for n in shape])
        else:
            given = self.shape(shape)
        out: str = self(
            "Reshape",
            x,
            given,
            allowzero=1 if self.opset >= 14 and 0 in [n for n in shape if not isinstance(n, Dim)] else None,
        )
        return out

    def filled(self, x: str, shape: Sequence[Any]) -> str:
        """Return `x` in a shape that it has if sizes are as the trace supposes; if they are not, runtimes refuse it."""
        zeros = 1 if self.opset >= 14 else None
        out: str = self("Reshape", x, self.natural(*shape), allowzero=zeros)
        return out

    def expand(self, x: str, shape: Sequence[Any]) -> str:
        """Return `x` broadcast to a shape."""
        out: str = self("Expand", x, self.shape(shape))
        return out

    def shape(self, shape: Sequence[Any]) -> str:
        """Return the name of a shape, of which unknown sizes are computed."""
        if not any(isinstance(n, Dim) for n in shape):
            return self.ints(shape)
        return self.joined([self.size(n) for n in shape])

    def joined(self, parts: Sequence[str]) -> str:
        """Return the name of a list, of lists of one each."""
        out: str = self("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        return out

    def natural(self, *sizes: Any) -> str:
        """Return the name of a list of sizes. Where one would be negative the document is refused when it runs."""
        return self.joined([self._natural(n) if isinstance(n, Dim) else self.ints([n]) for n in sizes])

    def _natural(self, dim: Any) -> str:
        if dim.is_natural():
            return self.size(dim)
        key = f"{dim!r} >= 0"
        if key not in self.sized:
            # There is no tensor of a negative size; an empty one costs nothing.
            none = self("ConstantOfShape", self("Concat", self.ints([0]), self.size(dim), axis=0))
            self.sized[key] = self("Gather", self("Shape", none), self.ints([1]), axis=0)
        return self.sized[key]

    def size(self, dim: Any) -> str:
        """Return the name of an unknown size, as a list of one."""
        if not isinstance(dim, Dim):
            return self.ints([dim])
        key = repr(dim)
        if key in self.sized:
            return self.sized[key]
        total = ""
        for monomial, factor in dim.terms.items():
            part = "" if monomial and factor == 1 else self.ints([factor])
            for atom in monomial:
                part = self("Mul", part, self._atom(atom)) if part else self._atom(atom)
            total = self("Add", total, part) if total else part
        self.sized[key] = total
        return total

    def places(self, count: Any) -> str:
        """Return the whole numbers from 0 on, as many as a size says."""
        if not isinstance(count, Dim):
            return self.const(np.arange(count, dtype=np.int64))
        end = self("Squeeze", self.size(count), self.ints([0]))
        out: str = self("Range", self.const(0, np.int64), end, self.const(1, np.int64))
        return out

    def _atom(self, atom: Any) -> str:
        if atom.parts is not None:
            above, below = (self.size(Dim(dict(p))) for p in atom.parts)
            # ONNX's quotients of integers are rounded to 0, its remainders have the divisor's sign.
            whole = self("Sub", above, self("Mod", above, below))
            out: str = self("Div", whole, below)
            return out
        if atom.name in self.sized:
            return self.sized[atom.name]
        if atom.name not in self.dimensions:
            refuse(f"the size {atom.name} is that of no input")
        source, axis = self.dimensions[atom.name]
        found: str = self("Gather", self("Shape", source), self.ints([axis]), axis=0)
        self.sized[atom.name] = found
        return found

    # -- graphs

    def write(self, graph: Graph, given: Sequence[str]) -> list[str]:
        """Write a graph's nodes for these inputs, and return the names of its outputs."""
        graph = opened(graph, self.opset)
        for node, name in zip(graph.inputs, given):
            self.of[node] = (name,)
        for node in graph.nodes:
            if node in self.of:
                continue
            around, self.current = self.current, node
            try:
                self.of[node] = self._node(node, graph)
            except WengertError as e:
                text, mend = said(e, 400), str(e).partition("\n")[2]
                refuse(text if text.startswith("op ") else f"{called(node)} cannot be said in ONNX: {text}", mend)
            finally:
                self.current = around
        return [self.of[n][0] for n in graph.outputs]

    def _node(self, node: Node, graph: Graph) -> tuple[str, ...]:
        op = node.op
        if op is CONSTANT:
            value = node.attrs["value"]
            _check_dtype(value.dtype, node)
            return (self.const(value, name="" if value.size <= 8 else "constant"),)
        if op is OUTPUT:
            source = node.inputs[0]
            assert isinstance(source, Node)
            return (self.of[source][node.attrs["index"]],)
        if op is INPUT or op is PARAMETER:
            refuse(f"the graph reads {graph.names[node]!r}, which it is not given")
        for spec in specs_of(node):
            _check_dtype(spec.dtype, node)
        found = _FORMS.get(op.name)
        if found is not None and found[1] <= self.opset:
            made = found[0](self, Call(node), *self.operands(node))
        elif op.kind == "elementwise" and isinstance(op.onnx, str):
            made = self.pointwise(op.onnx, node)
        else:
            _no_form(node, self.opset)
        return made if isinstance(made, tuple) else (made,)

    def operands(self, node: Node) -> list[str]:
        """Return the names of a node's operands; numbers become constants."""
        return [
            self.of[e][0] if isinstance(e, Node) else self.like(e, literal_dtype(node, i))
            for i, e in enumerate(node.inputs)
        ]

    def narrow(self, node: Node) -> list[str]:
        """Return the operands of a node that broadcasts by itself: what was broadcast for it, as it was before."""
        names = self.operands(node)
        shape = tuple(specs_of(node)[0].shape)
        full = [
            isinstance(e, Node) and e.op.name != "broadcast" and tuple(specs_of(e)[0].shape) == shape
            for e in node.inputs
        ]
        if any(full):
            for i, e in enumerate(node.inputs):
                if isinstance(e, Node) and e.op.name == "broadcast":
                    names[i] = self.of[e.inputs[0]][0]
        return names

    def pointwise(self, op: str, node: Node) -> str:
        """Return the result of an operator that works by element."""
        out: str = self(op, *self.narrow(node))
        return out

    def body(self, graph: Graph, name: str, given: Sequence[tuple[str, Any]]) -> Any:
        """Return a graph as an attribute: its inputs are named, with their specs."""
        inner = Writer(self.opset, self)
        names = [inner.name(n) for n, _ in given]
        outputs = inner.write(graph, names)
        return self.finished(inner, name, names, [s for _, s in given], outputs, [n.spec for n in graph.outputs])

    def finished(
        self,
        inner: Writer,
        name: str,
        names: Sequence[str],
        specs: Sequence[Any],
        outputs: Sequence[str],
        results: Sequence[Any],
    ) -> Any:
        """Return the GraphProto of an inner writer."""
        ends = []
        for n in outputs:
            # An output has a name of its own, also where it is an input or stands twice.
            ends.append(inner("Identity", n))
        return self.onnx.helper.make_graph(
            inner.nodes,
            name,
            [value_info(self.onnx, n, s) for n, s in zip(names, specs)],
            [value_info(self.onnx, n, s) for n, s in zip(ends, results)],
            inner.initializers,
        )


def opened(graph: Graph, opset: int) -> Graph:
    """Return a graph with the composites opened that have no form of their own."""
    while True:
        after = graph.expand_where(lambda n: not has_form(n.op, opset))
        if after is graph:
            return graph
        graph = after


def value_info(onnx: Any, name: str, spec: Any) -> Any:
    """Return the ValueInfoProto of a name."""
    shape = [str(n) if isinstance(n, Dim) else int(n) for n in spec.shape]
    return onnx.helper.make_tensor_value_info(name, element_type(np.dtype(spec.dtype)), shape)


def place_of(node: Node) -> str:
    """Return the line of the user's that led to a node: where that is in a derivative, of what was differentiated."""
    forward = node.differentiated
    found = node.source if forward is None or forward[1] is None else forward[1]
    return "" if found is None else str(found)


def _check_dtype(dtype: DType, node: Node) -> None:
    if dtype.kind == "c":
        refuse(f"{called(node)} is of {dtype.name}, and ONNX's operators take no complex numbers")


def called(node: Node) -> str:
    """Return a node's name in errors: its op, the op whose derivative it is, and the user's line."""
    place, forward = place_of(node), node.differentiated
    of = "" if forward is None else f", in the derivative of {forward[0]!r}"
    return f"op {node.op.name!r}{of}" + (f" at {shown(place, 200)}" if place else "")


def _no_form(node: Node, opset: int) -> Any:
    op = node.op
    found = _FORMS.get(op.name)
    if found is not None:
        refuse(f"{called(node)} is an operator of ONNX since version {found[1]}, and opset={opset}")
    why = op.onnx.why if isinstance(op.onnx, Missing) else "it has no form there"
    refuse(f"{called(node)} cannot be said in ONNX: {why}", "Write it with other operations, or compute it outside.")


def product(values: Sequence[Any]) -> Any:
    """Return a product of sizes."""
    out: Any = 1
    for v in values:
        out = out * v
    return out


def is_whole(shape: Sequence[Any]) -> bool:
    """Return whether all sizes are known."""
    return not any(isinstance(n, Dim) for n in shape)


def count(shape: Sequence[Any]) -> int:
    """Return the number of elements of a known shape."""
    return math.prod(int(n) for n in shape)
