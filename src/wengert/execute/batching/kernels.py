"""Batched kernels: a template's graph for many rows, forwards and backwards, compiled once for each number of rows.

The backward pass has two parts. The first runs for every group: it takes the gradients of the group's results and gives
those of its inputs. The second runs once for all groups of a cell: it sums the gradients of the parameters over all
rows at once, as one matrix product. What the parts need of each other is stored row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.graph.graph import Graph
from ...core.node import Node
from ...core.spec import Spec, spec_of
from ...core.state import locks
from ...core.state.cached import cached_property
from ...core.tensor import Tensor
from ...transforms.batch.rules import spread
from ...transforms.batch.vmap import run_batched
from ...transforms.derivatives.functional import vjp
from ...transforms.tracing.trace import trace
from ..jit.executor import Interpreted, executor
from .resize import resized
from .template import Template, Unfit, kind_of

Array = np.ndarray[Any, Any]

# Groups of more rows run in parts.
MOST = 256
# Numbers of rows by which a row's axis is told from others: two of them are taken, which divide no size of the cell.
_PRIMES = (61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 1009, 2003, 4001)


def padded(rows: int) -> int:
    """Return the number of rows of the kernel that so many rows run in: a power of two, or one and a half of it."""
    if rows <= 2:
        return 2
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if power >= 8 and rows <= power * 3 // 4 else power


def rounded(rows: int) -> int:
    """Return the number of rows that a sum over so many rows runs in: an eighth more at most."""
    if rows <= 8:
        return 8
    step = 1 << max((rows - 1).bit_length() - 3, 0)
    return -(-rows // step) * step


class Split(NamedTuple):
    """The division of a joint graph into its three parts, by the positions of nodes.

    Each of these is a list of positions in the joint graph's nodes. `stored` are what the forward part computes and
    the backward parts need; `kept` are what the backward part for rows gives the sum over rows.
    """

    stored: list[int]
    kept: list[int]
    back_inputs: list[int]
    sum_inputs: list[int]


_MAKING = locks.lock()

# A compiled part: it takes arrays for its inputs, and where results are to be (None: in new arrays).
Part = Callable[[Sequence[Array], "Sequence[Array | None] | None"], list[Array]]


class Kernels:
    """The compiled parts of a template.

    Inputs of the joint graph are the rows, the shared tensors, and the cotangents of the tracked outputs. Each part
    runs as often as `patience` says through the interpreter before it is compiled.
    """

    def __init__(self, template: Template, patience: int = 0) -> None:
        self._prepare(template)
        self._patience = patience
        self._model_rows = 0
        _ = self._model  # which may refuse

    def _prepare(self, template: Template) -> None:
        self.template = template
        graph = template.graph
        self.row_count = len(template.rows)
        self.row_specs = [kind_of(n.spec, False, Tensor).spec for n in graph.inputs[: self.row_count]]
        self.shared_specs = [n.spec for n in graph.inputs[self.row_count :]]
        self.tracked = [i for i, t in enumerate(template.tracked) if t]
        self.wanted_rows = [i for i, w in enumerate(template.wanted_rows) if w]
        self.wanted_shared = [i for i, w in enumerate(template.wanted_shared) if w]
        self._joint: dict[int, Graph] = {}
        self._plain: dict[int, Part] = {}
        self._forward: dict[int, Part] = {}
        self._backward: dict[int, Part] = {}
        self._sums: dict[int, Part] = {}
        self._split: Split | None = None
        # By positions in the joint graph: what a node is to the parts, and which of these.
        self.places: dict[int, tuple[str, int]] = {}

    # -- graphs

    def _batched(self, rows: Sequence[Tensor], shared: Sequence[Tensor], n: int) -> list[Tensor]:
        feeds = [*((t, True) for t in rows), *((t, False) for t in shared)]
        return [spread(b, n) for b in run_batched(self.template.graph, feeds, n, "error")]

    def _row_inputs(self, n: int) -> list[Spec]:
        return [spec_of((n, *s.shape), s.dtype) for s in self.row_specs]

    def _trace_plain(self, n: int) -> Graph:
        return trace(
            lambda rows, shared: tuple(self._batched(rows, shared, n)), (self._row_inputs(n), self.shared_specs), {}
        )

    def _trace_joint(self, n: int) -> Graph:
        specs = self.template.specs
        cotangents = [spec_of((n, *specs[i].shape), specs[i].dtype) for i in self.tracked]

        def joint(rows: list[Tensor], shared: list[Tensor], cts: list[Tensor]) -> tuple[Any, ...]:
            def forward(*variables: Tensor) -> Any:
                found = iter(variables)
                own_rows = [next(found) if i in self.wanted_rows else t for i, t in enumerate(rows)]
                own_shared = [next(found) if i in self.wanted_shared else t for i, t in enumerate(shared)]
                outs = self._batched(own_rows, own_shared, n)
                return tuple(outs[i] for i in self.tracked), tuple(outs)

            given = [*(rows[i] for i in self.wanted_rows), *(shared[i] for i in self.wanted_shared)]
            _, pull, outs = vjp(forward, *given, has_aux=True)
            return (*outs, *pull(tuple(cts)))

        return trace(joint, (self._row_inputs(n), self.shared_specs, cotangents), {})

    @cached_property
    def _model(self) -> Graph:
        """The graph for a number of rows by which the graphs for others are made.

        Raises Unfit if it is not the same for all numbers, as where examples are computed one after the other.
        """
        own = {abs(v) for n in self.template.graph.nodes for v in _sizes(n)}
        first, second = [p for p in _PRIMES if not any(v % p == 0 for v in own if v)][:2]
        trace_for = self._trace_joint if self.template.is_tracked else self._trace_plain
        model, other = trace_for(first), trace_for(second)
        if resized(model, first, second) != other:
            raise Unfit("its graph is another one for each number of examples, as that of a loop is")
        self._model_rows = first
        return model

    def _sized(self, n: int) -> Graph:
        model = self._model
        found = resized(model, self._model_rows, n)
        assert found is not None
        return found

    def joint(self, n: int) -> Graph:
        """Return the graph of outputs and gradients for so many rows."""
        found = self._joint.get(n)
        if found is None:
            found = self._joint[n] = self._sized(n)
        return found

    # -- their division

    @property
    def split(self) -> Split:
        """The division, which is the same for all numbers of rows."""
        if self._split is None:
            self._split = self._divide()
        return self._split

    def _divide(self) -> Split:
        graph = self._model
        p = self._model_rows
        index = {n: i for i, n in enumerate(graph.nodes)}
        inputs = graph.inputs
        rows, shared = set(inputs[: self.row_count]), set(inputs[self.row_count : self._first_ct])
        cts = set(inputs[self._first_ct :])
        of_rows, of_cts = set(rows) | cts, set(cts)
        for node in graph.nodes:
            entries = [e for e in node.inputs if isinstance(e, Node)]
            if any(e in of_rows for e in entries):
                of_rows.add(node)
            if any(e in of_cts for e in entries):
                of_cts.add(node)

        def is_row(node: Node) -> bool:
            return node in of_rows and not isinstance(node.spec, tuple) and node.spec.shape[:1] == (p,)

        first = len(self.template.specs)
        row_grads = graph.outputs[first : first + len(self.wanted_rows)]
        shared_grads = graph.outputs[first + len(self.wanted_rows) :]

        def ends_row(node: Node) -> bool:
            """Return whether a row is stored here: not as a view of another one."""
            return is_row(node) and not (node.op.view and all(is_row(e) for e in node.inputs if isinstance(e, Node)))

        def gather(roots: Sequence[Node], ends: Callable[[Node], bool]) -> list[Node]:
            """Return the nodes at which a walk back from some roots ends."""
            seen, found, stack = set(roots), [], list(roots)
            while stack:
                node = stack.pop()
                if node in rows or node in shared or node in cts or ends(node):
                    found.append(node)
                    continue
                for e in node.inputs:
                    if isinstance(e, Node) and e not in seen:
                        seen.add(e)
                        stack.append(e)
            return sorted(found, key=index.__getitem__)

        sum_inputs = gather(shared_grads, ends_row)
        kept = [n for n in sum_inputs if n in of_cts and n not in cts]
        back_inputs = gather(list(dict.fromkeys([*row_grads, *kept])), lambda n: n not in of_cts and ends_row(n))
        stored = [n for n in dict.fromkeys([*back_inputs, *sum_inputs]) if n not in of_cts and n not in rows | shared]
        at = index.__getitem__
        stored.sort(key=at)
        for kind, nodes, numbers in (
            ("row", inputs[: self.row_count], range(self.row_count)),
            ("shared", inputs[self.row_count : self._first_ct], range(len(self.shared_specs))),
            ("ct", inputs[self._first_ct :], self.tracked),
            ("stored", stored, range(len(stored))),
            ("kept", kept, range(len(kept))),
        ):
            self.places.update((at(node), (kind, i)) for node, i in zip(nodes, numbers, strict=True))
        positions = [list(map(at, nodes)) for nodes in (stored, kept, back_inputs, sum_inputs)]
        return Split(*positions)

    @property
    def _first_ct(self) -> int:
        return self.row_count + len(self.shared_specs)

    def spec_at(self, position: int, n: int) -> Spec:
        """Return the spec of a node of the joint graph for so many rows."""
        spec = self.joint(n).nodes[position].spec
        assert isinstance(spec, Spec)
        return spec

    # -- compiled

    def _part(self, known: dict[int, Part], n: int, graph: Callable[[int], Graph]) -> Part:
        """Return a part for so many rows, made at its first use."""
        found = known.get(n)
        if found is None:
            with _MAKING:
                found = known.get(n)
                if found is None:
                    found = known[n] = self._compiled(graph(n))
        return found

    def _compiled(self, graph: Graph) -> Part:
        return _Patient(graph, self._patience) if self._patience else _made(graph)

    def plain(self, n: int) -> Part:
        """Return what computes the outputs for so many rows."""
        return self._part(self._plain, n, self._sized)

    def forward(self, n: int) -> Part:
        """Return what computes the outputs and what is stored for so many rows."""
        return self._part(self._forward, n, self._forward_graph)

    def backward(self, n: int) -> Part:
        """Return what computes the gradients of the row inputs, and what is kept for the sum, for so many rows."""
        return self._part(self._backward, n, self._backward_graph)

    def sums(self, n: int) -> Part:
        """Return what computes the gradients of the shared tensors from so many rows."""
        return self._part(self._sums, n, self._sums_graph)

    def _forward_graph(self, n: int) -> Graph:
        graph = self.joint(n)
        outs = [*graph.outputs[: len(self.template.specs)], *(graph.nodes[i] for i in self.split.stored)]
        return Graph(outs, graph.inputs[: self._first_ct])

    def _backward_graph(self, n: int) -> Graph:
        graph, split, first = self.joint(n), self.split, len(self.template.specs)
        outs = [*graph.outputs[first : first + len(self.wanted_rows)], *(graph.nodes[i] for i in split.kept)]
        return graph.subgraph([graph.nodes[i] for i in split.back_inputs], outs)

    def _sums_graph(self, n: int) -> Graph:
        graph, first = self.joint(n), len(self.template.specs) + len(self.wanted_rows)
        return graph.subgraph([graph.nodes[i] for i in self.split.sum_inputs], graph.outputs[first:])


def _sizes(node: Node) -> Iterator[int]:
    """Yield the numbers in a node's specs and attributes."""
    specs = node.spec if isinstance(node.spec, tuple) else (node.spec,)
    waiting: list[Any] = [*node.attrs.values(), *(s.shape for s in specs)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            waiting += value
        elif type(value) is int:
            yield value


def _made(graph: Graph) -> Part:
    """Return a graph, compiled."""
    made = executor(graph)
    program = getattr(made, "program", None)
    return _interpreted(made) if program is None else program.run


class _Patient:
    """A part that is compiled when it has run some times: what runs once or twice is not worth it."""

    def __init__(self, graph: Graph, patience: int) -> None:
        self._graph = graph
        self._left = patience
        self._run = _interpreted(Interpreted(graph))

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None) -> list[Array]:
        if self._left == 0:
            self._run = _made(self._graph)
        self._left -= 1
        return self._run(inputs, outputs)


def _interpreted(made: Any) -> Part:
    """Return the run of an executor without a native program: results are copied to where they are to be."""

    def run(inputs: Sequence[Array], outputs: Sequence[Array | None] | None) -> list[Array]:
        found: list[Array] = made.run(inputs)
        for i, place in enumerate(outputs or ()):
            if place is not None:
                place[...] = found[i]
                found[i] = place
        return found

    return run
