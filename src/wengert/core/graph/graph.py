"""`Graph`: the closed, immutable snapshot of a computation between chosen inputs and outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from .. import tree
from ..errors import GraphError, fail
from ..node import Node
from ..ops.op import INPUT, Op
from ..ops.record import OUTPUT
from ..state.cached import cached_property
from ..tensor import Tensor, asarray
from .closed import NodeKind
from .compare import Signature, same_values, signature, structural_hash
from .inside import inside, splice
from .json import dump_graph, load_graph
from .numbers import Summary, saved_bytes, summarize
from .snapshot import CONSTANT, PARAMETER, Given, close, input_node, inputs_of, rebuild, topological, with_inputs
from .text import Parsed, format_graph, name_nodes, parse_graph
from .values import Subgraph

if TYPE_CHECKING:
    from ..tree import Structure


class Graph(Subgraph):
    """A computation between inputs and outputs: immutable, comparable, without values.

    Make one from a function with :func:`wengert.graph`, from tensors with :meth:`Graph.of`, from
    text with :meth:`Graph.parse`.

    `nodes` are in topological order, the inputs first; the order is a function of the graph alone.
    `inputs` holds what a run is fed: inputs proper and parameters. Two graphs are equal when they
    compute the same from the same inputs in order, op by op, whatever the names, the places in the
    source, and whether an input is called a parameter.

    Raises GraphError where a node is two of the inputs, or an output depends on a leaf that is none of them.

    >>> import wengert as wg
    >>> g = wg.graph(lambda x, y: wg.exp(x) * y)(wg.spec((2,)), wg.spec((2,)))
    >>> print(g)
    graph(x: f32[2], y: f32[2]) -> f32[2]
      a: f32[2] = exp x
      b: f32[2] = multiply a y
      return b
    >>> wg.Graph.parse(str(g)) == g
    True
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    name: str
    bound: Mapping[Node, Tensor]
    in_structure: Structure | None
    out_structure: Structure | None
    static: Mapping[int, Any]

    def __init__(
        self,
        outputs: Sequence[Node],
        inputs: Sequence[Node],
        name: str = "",
        *,
        bound: Mapping[Node, Tensor] | None = None,
        in_structure: Structure | None = None,
        out_structure: Structure | None = None,
        static: Mapping[int, Any] | None = None,
    ) -> None:
        nodes = tuple(topological(outputs, inputs))
        given = set(inputs)
        if len(given) != len(inputs):
            fail(GraphError, "a graph with one node as two of its inputs")
        for node in nodes:
            if node.op in (INPUT, PARAMETER) and node not in given:
                fail(GraphError, f"the outputs depend on {node.attrs['name'] or 'a leaf'} {node.spec}, not an input")
        set_field = self.__dict__.update
        set_field(nodes=nodes, inputs=tuple(inputs), outputs=tuple(outputs), name=name)
        set_field(bound=dict(bound or {}), static=dict(static or {}))
        set_field(in_structure=in_structure, out_structure=out_structure)

    def __setattr__(self, name: str, value: Any) -> None:
        fail(GraphError, f"a graph is immutable: {name} cannot be set")

    # -- making one

    @classmethod
    def of(
        cls, outputs: Any, inputs: Any = None, *, name: str = "", names: Mapping[str, Tensor] | None = None
    ) -> Graph:
        """Return the graph that the given tensors were computed by.

        Parameters
        ----------
        outputs: a tensor, or a pytree of tensors.
        inputs: a pytree of tensors that become the inputs, in order (a dict names them); any tensors of
            the graph do, also intermediate ones, and tensors that it does not use. None makes every
            leaf that requires gradients a parameter. Whatever else the outputs depend on becomes a constant.
        names: names for parameters, such as `dict(model.named_parameters())`.

        Eager execution records only what gradients flow through: a tensor computed without any
        input that requires gradients is a constant here.

        Raises GraphError.

        >>> import wengert as wg
        >>> x = wg.tensor([1.0, 2.0], requires_grad=True)
        >>> print(wg.Graph.of(x * x + 1.0, inputs=[x]))
        graph(x0: f32[2]) -> f32[2]
          a: f32[2] = multiply x0 x0
          b: f32[2] = add a 1.0
          return b
        """
        leaves, structure = tree.flatten(outputs)
        roots = [t if isinstance(t, Tensor) else asarray(t) for t in leaves]
        by_id = {id(t): n for n, t in (names or {}).items()}
        given = None if inputs is None else _given(inputs, by_id)
        return cls.closed(roots, given, name=name, names=by_id, out_structure=structure)

    @classmethod
    def closed(
        cls,
        outputs: Sequence[Tensor],
        given: Sequence[Given] | None,
        *,
        name: str = "",
        names: Mapping[int, str] | None = None,
        **fields: Any,
    ) -> Graph:
        """Return the graph between tensors and inputs that have names: the common part of `of` and tracing."""
        closed = close(outputs, given, names or {})
        return cls(closed.outputs, closed.inputs, name, bound=closed.bound, **fields)

    @classmethod
    def parse(cls, text: str) -> Graph:
        """Return the graph that `str(graph)` or `graph.text()` printed.

        Raises GraphError with the line and column of what is wrong.
        """
        return _made(parse_graph(text, _made))

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """Return the graph that `to_json` wrote. Raises GraphError."""
        return _made(load_graph(text, _made))

    # -- showing

    def text(self, source: bool = False) -> str:
        """Return the graph as text that parses back; with `source`, comments tell path, file, line and expression."""
        return format_graph(self, source)

    def to_json(self, indent: int | None = None) -> str:
        """Return the graph as a JSON document; see :mod:`wengert.core.graph.json` for its fields."""
        return dump_graph(self, indent)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        called = f" {self.name}" if self.name else ""
        return f"<Graph{called}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self.index

    @cached_property
    def index(self) -> Mapping[Node, int]:
        """The position of every node in `nodes`."""
        return {node: i for i, node in enumerate(self.nodes)}

    @cached_property
    def names(self) -> Mapping[Node, str]:
        """A name for every node: inputs keep theirs, the others are called a, b, ..., z, aa, ..."""
        return name_nodes(self.nodes, self.inputs)

    def node(self, name: str) -> Node:
        """Return the node called `name`. Raises GraphError."""
        found = self._by_name.get(name)
        if found is None:
            fail(GraphError, f"no node is called {name!r}", "print(graph) shows the names.")
        return found

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {name: node for node, name in self.names.items()}

    # -- what a node is

    def kind(self, node: Node) -> NodeKind:
        """Return "input", "parameter", "constant", "root" (a computation that is an output) or "computation"."""
        leaf = _LEAF_KINDS.get(node.op)
        if leaf is not None:
            return leaf
        return "root" if node in self._roots else "computation"

    @cached_property
    def _roots(self) -> frozenset[Node]:
        return frozenset(self.outputs)

    @cached_property
    def parameters(self) -> tuple[Node, ...]:
        """The inputs that are parameters."""
        return tuple(n for n in self.inputs if n.op is PARAMETER)

    @cached_property
    def constants(self) -> tuple[Node, ...]:
        """The constants, in order."""
        return tuple(n for n in self.nodes if n.op is CONSTANT)

    @cached_property
    def computations(self) -> tuple[Node, ...]:
        """The nodes that compute something, roots included, in order."""
        return tuple(n for n in self.nodes if n.op not in _LEAF_KINDS)

    def find(self, op: str) -> list[Node]:
        """Return the nodes of the op with this name, in order."""
        return [n for n in self.nodes if n.op.name == op]

    @cached_property
    def nodes_by_path(self) -> Mapping[str, list[Node]]:
        """The computations of every module path, in order; "" holds those outside modules."""
        out: dict[str, list[Node]] = {}
        for node in self.computations:
            out.setdefault(node.path, []).append(node)
        return out

    # -- how nodes hang together

    def producers(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that `node` takes its inputs from, each once, in order."""
        self._own(node)
        return tuple(dict.fromkeys(inputs_of(node)))

    def consumers(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes that take `node` as an input, each once, in order."""
        self._own(node)
        return self._consumers.get(node, ())

    @cached_property
    def _consumers(self) -> Mapping[Node, tuple[Node, ...]]:
        found: dict[Node, list[Node]] = {}
        for node in self.nodes:
            for source in dict.fromkeys(inputs_of(node)):
                found.setdefault(source, []).append(node)
        return {node: tuple(users) for node, users in found.items()}

    @cached_property
    def last_uses(self) -> Mapping[Node, tuple[Node, ...]]:
        """For each node, the nodes whose values nothing needs once it has run (results of the graph stay)."""
        last: dict[Node, Node] = {}
        for node in self.nodes:
            last[node] = node
            last.update(dict.fromkeys(inputs_of(node), node))
        found: dict[Node, list[Node]] = {}
        for node, user in last.items():
            if node not in self._roots:
                found.setdefault(user, []).append(node)
        return {node: tuple(done) for node, done in found.items()}

    def ancestors(self, node: Node) -> list[Node]:
        """Return every node that `node` depends on, in order."""
        return self._closure(node, lambda n: inputs_of(n))

    def descendants(self, node: Node) -> list[Node]:
        """Return every node that depends on `node`, in order."""
        return self._closure(node, lambda n: self._consumers.get(n, ()))

    def _closure(self, node: Node, following: Callable[[Node], Iterable[Node]]) -> list[Node]:
        self._own(node)
        found: set[Node] = set()
        stack = [node]
        while stack:
            for other in following(stack.pop()):
                if other not in found:
                    found.add(other)
                    stack.append(other)
        return sorted(found, key=self.index.__getitem__)

    def levels(self) -> list[list[Node]]:
        """Return the nodes by their longest distance from a leaf: nodes of one level may run at once."""
        level: dict[Node, int] = {}
        out: list[list[Node]] = []
        for node in self.nodes:
            depth = level[node] = 1 + max((level[e] for e in inputs_of(node)), default=-1)
            if depth == len(out):
                out.append([])
            out[depth].append(node)
        return out

    def count_paths(self, a: Node, b: Node) -> int:
        """Return the exact number of paths from `a` to `b`, without enumerating them.

        A node that takes another one twice (`x * x`) is reached from it by two paths.
        """
        self._own(a)
        self._own(b)
        count = {a: 1}
        for node in self.nodes[self.index[a] + 1 : self.index[b] + 1]:
            total = sum(count.get(e, 0) for e in inputs_of(node))
            if total:
                count[node] = total
        return count.get(b, 0)

    def paths(self, a: Node, b: Node) -> Iterator[tuple[Node, ...]]:
        """Yield every path from `a` to `b` as a tuple of nodes.

        As in `count_paths`, an input taken twice gives two (equal) paths.
        """
        self._own(a)
        self._own(b)
        leading = {b, *self.ancestors(b)}
        if a not in leading:
            return
        trail = [a]
        branches = [self._edges_within(a, b, leading)]
        while branches:
            if trail[-1] is b:
                yield tuple(trail)
            following = next(branches[-1], None)
            if following is None:
                branches.pop()
                trail.pop()
            else:
                trail.append(following)
                branches.append(self._edges_within(following, b, leading))

    def _edges_within(self, node: Node, last: Node, leading: set[Node]) -> Iterator[Node]:
        if node is last:
            return
        for user in self._consumers.get(node, ()):
            if user in leading:
                for source in inputs_of(user):
                    if source is node:
                        yield user

    def _own(self, node: Node) -> None:
        if node not in self.index:
            fail(
                GraphError, f"{node!r} is not a node of this graph", "Take nodes from graph.nodes or graph.node(name)."
            )

    # -- graphs from this one

    def subgraph(self, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
        """Return the graph between some of this graph's nodes.

        Inputs that are computations become inputs named as they are here.
        Raises GraphError when the outputs depend on an input of this graph that is not given.
        """
        replace: dict[Node, Node] = {}
        fed = []
        for node in inputs:
            self._own(node)
            leaf = node.op in (INPUT, PARAMETER)
            replace[node] = node if leaf else input_node(node.spec, self.names[node])
            fed.append(replace[node])
        for node in outputs:
            self._own(node)
        rebuild(self.nodes, replace, with_inputs)
        bound = {n: t for n, t in self.bound.items() if n in fed}
        return Graph([replace[n] for n in outputs], fed, self.name, bound=bound)

    def inner(self, node: Node) -> Graph:
        """Return the graph inside a composite node. Raises GraphError for a node that is not composite."""
        self._own(node)
        if node.op.body is None:
            fail(GraphError, f"{self.names[node]} ({node.op.name}) is not composite")
        body = inside(node)
        return Graph(body.outputs, body.inputs, node.op.name, bound=body.bound)

    def expand(self, names: Iterable[str] | None = None, recursive: bool = True) -> Graph:
        """Return the graph with composites replaced by their contents.

        `names` restricts it to composites of these ops; `recursive=False` opens one level only.
        """
        wanted = None if names is None else frozenset([names] if isinstance(names, str) else names)
        graph = self.expand_where(lambda n: wanted is None or n.op.name in wanted)
        while recursive and graph is not self:
            before, graph = graph, graph.expand_where(lambda n: wanted is None or n.op.name in wanted)
            if graph is before:
                break
        return graph

    def expand_where(self, chosen: Callable[[Node], bool]) -> Graph:
        """Return the graph with the composite nodes that `chosen` picks opened by one level."""
        opened = [n for n in self.nodes if n.op.body is not None and chosen(n)]
        if not opened:
            return self
        replace: dict[Node, Any] = {}
        results: dict[Node, list[Node]] = {}
        for node in self.nodes:
            inputs = tuple(replace[e] if e in replace else e if not isinstance(e, Node) else None for e in node.inputs)
            if node.op.body is not None and chosen(node):
                results[node] = splice(node, [replace[e] for e in inputs_of(node)])
                replace[node] = results[node][0]
            elif node.op is OUTPUT and node.inputs[0] in results:
                replace[node] = results[node.inputs[0]][node.attrs["index"]]
            elif all(a is b for a, b in zip(inputs, node.inputs)):
                replace[node] = node
            else:
                replace[node] = with_inputs(node, inputs)
        return self._with_outputs([replace[n] for n in self.outputs])

    def without_unused_inputs(self) -> Graph:
        """Return the graph of only those inputs that something uses."""
        used = {e for n in self.nodes for e in n.inputs if isinstance(e, Node)}.union(self.outputs)
        inputs = tuple(n for n in self.inputs if n in used)
        if len(inputs) == len(self.inputs):
            return self
        graph = Graph.__new__(Graph)
        bound = {n: t for n, t in self.bound.items() if n in used}
        nodes = (*inputs, *self.nodes[len(self.inputs) :])
        graph.__dict__.update(nodes=nodes, inputs=inputs, outputs=self.outputs, name=self.name, bound=bound)
        graph.__dict__.update(in_structure=None, out_structure=self.out_structure, static={})
        return graph

    def _with_outputs(self, outputs: Sequence[Node]) -> Graph:
        return Graph(
            outputs,
            self.inputs,
            self.name,
            bound=self.bound,
            in_structure=self.in_structure,
            out_structure=self.out_structure,
            static=self.static,
        )

    # -- numbers

    def saved_bytes(self, wrt: Iterable[Node] | None = None) -> int:
        """Return the bytes of computed values that a backward pass in `wrt` (None: every input) would keep.

        Inputs, parameters and constants live anyway and are not counted; a value that several
        nodes keep is counted once.
        """
        return saved_bytes(self, self.inputs if wrt is None else wrt)

    def summary(self) -> Summary:
        """Return counts and sizes of the graph; print it for a sentence."""
        return summarize(self)

    # -- equality

    @cached_property
    def _signature(self) -> Signature:
        return signature(self.nodes, len(self.inputs), self.outputs, self.index)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        if len(self.nodes) != len(other.nodes) or self._signature != other._signature:
            return False
        return all(same_values(a, b) for a, b in zip(self.nodes, other.nodes))

    @cached_property
    def structural_hash(self) -> str:
        """A hash that equal graphs share, in hexadecimal; the same in every process."""
        return structural_hash(self._signature, self.nodes)

    def __hash__(self) -> int:
        return int(self.structural_hash[:15], 16)

    # -- copying

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the graph's pickled form: JSON and the pytrees, without the tensors bound to parameters."""
        return _unpickle, (
            self.to_json(),
            _template(self.in_structure),
            _template(self.out_structure),
            dict(self.static),
        )

    if TYPE_CHECKING:
        # Attached where running and drawing are written, a layer above.
        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def to_svg(
            self, *, direction: Literal["TB", "LR"] = ..., max_nodes: int | None = ..., legend: bool = ...
        ) -> str: ...
        def save(
            self, path: str | os.PathLike[str], *, direction: Literal["TB", "LR"] = ..., max_nodes: int | None = ...
        ) -> None: ...
        def to_dot(self, *, direction: Literal["TB", "LR"] = ..., max_nodes: int | None = ...) -> str: ...
        def _repr_svg_(self) -> str: ...


_LEAF_KINDS: dict[Op, NodeKind] = {INPUT: "input", PARAMETER: "parameter", CONSTANT: "constant"}


def _made(parsed: Parsed) -> Graph:
    return Graph(parsed.outputs, parsed.inputs, parsed.name)


def _given(inputs: Any, names: Mapping[int, str]) -> list[Given]:
    out: list[Given] = []
    seen: set[int] = set()
    if isinstance(inputs, dict):
        names = {**{id(t): str(key) for key, t in inputs.items() if isinstance(t, Tensor)}, **names}
    for i, t in enumerate(tree.leaves(inputs)):
        if not isinstance(t, Tensor):
            fail(GraphError, f"Graph.of: input {i} is a {type(t).__name__}, not a tensor")
        if id(t) in seen:
            fail(GraphError, f"Graph.of: input {i} is given twice, {t.spec}")
        seen.add(id(t))
        own = t.node.attrs.get("name", "") if t.node is not None else ""
        out.append(Given(t, names.get(id(t), own), is_parameter(t)))
    return out


def is_parameter(value: Any) -> bool:
    """Return whether a tensor is a module's parameter, with a value."""
    return isinstance(value, Tensor) and value.is_parameter and not value.is_abstract


# -- pickling: pytrees are pickled as pytrees of their leaves' positions


def _template(structure: Structure | None) -> Any:
    return None if structure is None else (tree.unflatten(structure, list(range(structure.count))),)


def _unpickle(text: str, in_template: Any, out_template: Any, static: dict[int, Any]) -> Graph:
    parsed = load_graph(text, _made)
    return Graph(
        parsed.outputs,
        parsed.inputs,
        parsed.name,
        in_structure=tree.structure(in_template[0]) if in_template is not None else None,
        out_structure=tree.structure(out_template[0]) if out_template is not None else None,
        static=static,
    )
