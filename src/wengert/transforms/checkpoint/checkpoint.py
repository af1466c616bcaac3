"""Checkpointing: parts of a program whose values are computed again when a derivative needs them.

The part runs and is recorded as ever. Then what its nodes saved is let go, and a stand-in computes
it again, forward through the recorded nodes, when the first of them is asked for. (Griewank and
Walther, "Algorithm 799: revolve", 2000; Chen et al., "Training deep nets with sublinear memory
cost", 2016.)
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, ShapeError, fail
from ...core.mode import Scope, get_mode, reset_mode, set_mode
from ...core.node import Hooked, Node, Recomputed
from ...core.ops import kernels
from ...core.ops.op import ALIAS, spec_of_input
from ...core.ops.record import OUTPUT, caller, kept_values
from ...core.state.capture import Writes
from ...core.state.observer import observer, observers
from ...core.tensor import Tensor
from ..derivatives.custom_op import CustomOp, Residuals
from ..derivatives.variables import run_apart
from . import checkpoint_policies as checkpoint_policies
from .checkpoint_policies import Policy, Selection


def checkpoint(fn: Callable[..., Any] | None = None, *, policy: Policy | Selection | None = None) -> Any:
    """Return the same function, recorded so that derivatives compute its inner values again instead of keeping them.

    Parameters
    ----------
    fn: a function (a module) of pytrees of tensors, with any arguments.
    policy: what to keep nevertheless, from :mod:`wengert.checkpoint_policies`: `save_ops("matmul")`,
        `save_names("a")` with :func:`wengert.checkpoint_name`, `save_bytes(limit)`, or any function
        of a node that says whether to keep its result. Where nothing needs a result itself, what
        follows from it is kept in its place.

    Values and derivatives are the same, bit for bit, in every mode and order (unless kernels take
    over from NumPy in between, see :func:`wengert.set_eager_kernels`); a pass computes each part
    once more. What is computed again is the recorded graph, not `fn`: random numbers, module states
    and Python variables are those of the first time. Values that carry no gradient (a mask that a
    comparison made) are constants of the graph and stay; what depends on a tensor whose value the
    call cannot find again (an intermediate value from outside that is neither an argument nor a
    variable of `fn`) is kept as usual. In a traced graph the nodes' scopes say what was marked.

    Raises DTypeError.

    >>> import wengert as wg
    >>> layer = wg.checkpoint(lambda x: wg.sin(wg.exp(x)))
    >>> wg.grad(lambda x: layer(layer(x)))(0.5)
    tensor(0.3159)
    """
    if fn is None:
        return functools.partial(checkpoint, policy=policy)
    if not callable(fn):
        fail(DTypeError, f"checkpoint of a {type(fn).__name__}", "Write wg.checkpoint(f)(*args).")
    if policy is not None and not callable(policy) and not isinstance(policy, Selection):
        fail(DTypeError, f"checkpoint with a policy of type {type(policy).__name__}", "See wg.checkpoint_policies.")
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn, updated=())
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        outer = get_mode()
        mark = Scope("checkpoint", name, outer.scope, *caller())
        # Values before the function may write to what they are of.
        before = {t.node: t._array for t in _reached(fn, (args, kwargs)) if t.node is not None}
        writes = Writes(is_trace=False)
        token = set_mode(outer.within(mark))
        try:
            result = run_apart(fn, args, kwargs, writes, (args, kwargs))
        finally:
            reset_mode(token)
        if outer.grad and policy is not checkpoint_policies.everything_saveable:
            _let_go(before, writes, result, mark, policy)
        return result

    return checkpointed


def checkpoint_sequential(
    functions: Iterable[Callable[[Any], Any]], segments: int, x: Any, *, policy: Policy | Selection | None = None
) -> Any:
    """Apply functions one after another, in checkpointed segments of about equal length.

    Parameters
    ----------
    functions: a list of functions of one pytree, or an `nn.Sequential`.
    segments: how many; the root of the number of functions keeps the least. The last segment is not
        checkpointed: its backward pass comes first.
    x: the first one's argument.
    policy: as for :func:`checkpoint`.

    Raises ShapeError, DTypeError.

    >>> import wengert as wg
    >>> wg.grad(lambda x: wg.checkpoint_sequential([wg.sin] * 9, 3, x))(1.0)
    tensor(0.0895)
    """
    steps = list(functions)
    if isinstance(segments, bool) or not isinstance(segments, int) or not 1 <= segments <= max(len(steps), 1):
        fail(ShapeError, f"checkpoint_sequential: {segments!r} segments of {len(steps)} functions")
    bounds = [round(i * len(steps) / segments) for i in range(segments + 1)]
    for start, end in zip(bounds[:-2], bounds[1:-1]):
        x = checkpoint(functools.partial(_in_turn, steps[start:end]), policy=policy)(x)
    return _in_turn(steps[bounds[-2] :], x)


def _in_turn(steps: Sequence[Callable[[Any], Any]], x: Any) -> Any:
    for step in steps:
        x = step(x)
    return x


# -- what is let go


def _let_go(
    before: Mapping[Node, Any], writes: Writes, result: Any, mark: Scope, policy: Policy | Selection | None
) -> None:
    outs = [t for t in tree.leaves(result) if isinstance(t, Tensor) and t.requires_grad]
    if any(t.is_abstract for t in outs):
        return
    order = _recorded_under(mark, [t.node for t in outs])  # type: ignore[misc]
    if not order:
        return
    known = _values_outside(before, writes, order)
    inner: dict[Node, Any] = {t.node: t._array for t in outs}  # type: ignore[misc]
    _values_saved(order, inner)
    kept = _kept(order, _selected(policy, order, inner), inner)
    region = _Region()
    for node in order:
        if node in kept:
            region.held[id(node)] = kept[node]
        _admit(region, node, known)
    region.roots = [weakref.ref(n) for n in dict.fromkeys(t.node for t in outs) if n is not None]
    for child in region.children:
        child.belong_to(region)


def _recorded_under(mark: Scope, roots: Sequence[Node]) -> list[Node]:
    """Return the tracked nodes made inside the mark, each after its inputs."""
    scopes: dict[int, bool] = {}
    return _ordered(roots, lambda n: _is_under(n.scope, mark, scopes))


def _is_under(scope: Scope | None, mark: Scope, known: dict[int, bool]) -> bool:
    chain = []
    while scope is not None and scope is not mark and id(scope) not in known:
        chain.append(scope)
        scope = scope.parent
    found = scope is mark or (scope is not None and known[id(scope)])
    known.update((id(s), found) for s in chain)
    return found


def _ordered(roots: Iterable[Node], belongs: Callable[[Node], bool]) -> list[Node]:
    """Return the nodes that belong and are reached from the roots through such nodes, each after its inputs."""
    order: list[Node] = []
    seen: set[Node] = set()
    for root in roots:
        if root in seen or not belongs(root):
            continue
        seen.add(root)
        stack: list[tuple[Node, Iterator[Any]]] = [(root, iter(root.inputs))]
        while stack:
            node, waiting = stack[-1]
            for entry in waiting:
                if isinstance(entry, Node) and entry not in seen and belongs(entry):
                    seen.add(entry)
                    stack.append((entry, iter(entry.inputs)))
                    break
            else:
                stack.pop()
                order.append(node)
    return order


def _values_outside(before: Mapping[Node, Any], writes: Writes, order: Sequence[Node]) -> dict[Node, Any]:
    """Return the values of nodes outside that the nodes inside take: arguments, leaves, and variables of the function.

    Not those of leaves that the function wrote to, of which some nodes may have taken the old value, some the new.
    """
    inside = set(order)
    wanted = {e for n in order for e in n.inputs if isinstance(e, Node) and e not in inside}
    rewritten = {w.node for w in writes.found.values() if w.node is not None and w.node.op.kind == "leaf"}
    known = {node: before[node] for node in wanted if node in before and node not in rewritten}
    for node in wanted:
        if node not in known and node.op.kind == "leaf" and node not in rewritten:
            owner = node.variable
            if owner is not None:
                known[node] = owner._array
    found: dict[Node, Any] = {}
    _values_saved(order, found)
    for node in order:
        saved = _own_saved(node)
        if isinstance(saved, _Region):
            found.update((e, saved.held[id(e)]) for e in node.inputs if isinstance(e, Node) and id(e) in saved.held)
    return {n: v for n, v in (found | known).items() if n in wanted and v is not None}


def _reached(fn: Any, arguments: Any) -> Iterator[Tensor]:
    """Yield the tensors among a function's arguments and among the values that it closes over."""
    for leaf in (*tree.leaves(arguments), *_variables(fn)):
        if isinstance(leaf, Tensor):
            yield leaf


def _variables(fn: Any) -> Iterator[Any]:
    """Yield the values that a function closes over, leaf by leaf."""
    inner = fn.func if isinstance(fn, functools.partial) else fn
    cells = getattr(inner, "__closure__", None) or ()
    for cell in cells:
        try:
            yield from tree.leaves(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue


def _own_saved(node: Node) -> Any:
    return node.saved.saved if type(node.saved) is Hooked else node.saved


def _values_saved(order: Sequence[Node], found: dict[Node, Any]) -> None:
    """Add the values that nodes happen to have saved, of themselves and of their inputs."""
    for node in order:
        saved = _own_saved(node)
        if type(saved) is not tuple or len(saved) != len(node.inputs) + 1:
            continue
        for owner, value in zip((*node.inputs, node), saved):
            if (
                isinstance(owner, Node)
                and isinstance(value, (np.ndarray, np.generic))
                and not isinstance(owner.spec, tuple)
            ):
                fits = value.shape == owner.spec.shape and value.dtype == owner.spec.dtype
                if fits and owner not in found:
                    found[owner] = value


def _selected(policy: Policy | Selection | None, order: Sequence[Node], values: Mapping[Node, Any]) -> list[Node]:
    if policy is None:
        return []
    if isinstance(policy, Selection):
        chosen = set(policy.select([n for n in order if n in values]))
        return [n for n in order if n in chosen]
    return [n for n in order if policy(n)]


def _kept(order: Sequence[Node], selected: Sequence[Node], values: Mapping[Node, Any]) -> dict[Node, Any]:
    """Return the values kept for the selected nodes: their own, or where those are gone the ones computed from them."""
    if not selected:
        return {}
    consumers: dict[Node, list[Node]] = {}
    for node in order:
        for entry in node.inputs:
            if isinstance(entry, Node):
                consumers.setdefault(entry, []).append(node)
    kept: dict[Node, Any] = {}
    seen: set[Node] = set()
    stack = list(selected)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in values:
            kept[node] = values[node]
            if node.op.name == "checkpoint_name":  # the same value
                kept[node.inputs[0]] = values[node]
        else:
            stack += consumers.get(node, [])
    return kept


def _admit(region: _Region, node: Node, known: Mapping[Node, Any]) -> None:
    """Forget the values that a node saved, where it can compute them again."""
    for entry in node.inputs:
        if isinstance(entry, Node) and id(entry) not in region.members and id(entry) not in region.held:
            if entry not in known:
                return
            region.held[id(entry)] = known[entry]
    if isinstance(node.op, CustomOp) and node.op.remake is not None and not _can_remake(node):
        return
    region.members.add(id(node))
    saved = _own_saved(node)
    if isinstance(saved, _Region):
        if saved.parent is None and saved not in region.children:
            region.children.append(saved)
        return
    if type(saved) is not tuple or not saved:
        return
    if isinstance(node.op, CustomOp) and node.op.remake is not None:
        region.remakes[id(node)] = (saved[0].emptied(),)
    elif len(saved) != len(node.inputs) + 1:
        return
    for entry, value in zip(node.inputs, saved):
        if isinstance(entry, Node) and isinstance(value, (np.ndarray, np.generic)) and value.shape != entry.spec.shape:
            region.narrow.add((id(node), id(entry)))
    region.waiting.add(id(node))
    if type(node.saved) is Hooked:
        node.saved.saved = region
    else:
        node.saved = region


def _can_remake(node: Node) -> bool:
    saved = _own_saved(node)
    return isinstance(saved, Recomputed) or (
        type(saved) is tuple and len(saved) == 1 and isinstance(saved[0], Residuals)
    )


# -- computed again


class _Region(Recomputed):
    """A checkpointed part: the values kept of it, and those that a pass is about to take.

    Nodes are known by their ids, and only results by (weak) reference: a node refers to its
    region, and a cycle would keep the values until the collector comes by. What a region has ids of
    is alive as long as one of its nodes is, which is what refers to the region.
    """

    __slots__ = ("children", "held", "lent", "members", "narrow", "parent", "ready", "remakes", "roots", "waiting")

    def __init__(self) -> None:
        self.held: dict[int, Any] = {}  # the values to start from
        self.lent: set[int] = set()  # those of them that the checkpoint around this one computes
        self.members: set[int] = set()  # the nodes that can be computed
        self.waiting: set[int] = set()  # those whose saved values are asked for here
        self.narrow: set[tuple[int, int]] = set()  # nodes, and operands that they take as before a broadcast
        self.remakes: dict[int, Any] = {}  # what a user's rule needs to be run again
        self.roots: list[weakref.ref[Node]] = []
        self.ready: dict[int, tuple[Any, ...]] = {}
        self.children: list[_Region] = []  # checkpoints inside, which get what they hold from here
        self.parent: _Region | None = None

    def belong_to(self, parent: _Region) -> None:
        """Forget the values held too, where the outer checkpoint computes them."""
        self.parent = parent
        for key in self.held:
            if key in parent.held:
                self.held[key] = parent.held[key]
            elif key in parent.members:
                self.held[key] = None
                self.lent.add(key)

    def take(self, node: Node) -> tuple[Any, ...]:
        if id(node) not in self.ready:
            self._compute(node)
        found = self.ready.pop(id(node))
        if not self.ready:
            self._forget_lent()
        return found

    def kept(self) -> tuple[Any, ...]:
        return tuple(v for v in self.held.values() if v is not None)

    def _forget_lent(self) -> None:
        self.held.update(dict.fromkeys(self.lent))

    def close(self) -> None:
        self.ready.clear()
        self._forget_lent()
        if self.parent is not None:
            self.parent.close()

    def _compute(self, node: Node) -> None:
        """Compute the values that the nodes saved: those that lead to live results, and `node`."""
        if self.parent is not None and any(self.held[key] is None for key in self.lent):
            self.parent._compute(node)
        roots = [n for n in (r() for r in self.roots) if n is not None]
        lent = {key for child in self.children for key in child.lent}
        everything = _ordered([*roots, node], lambda n: id(n) in self.members)
        order, computed = self._needed(everything, lent)
        last = _last_uses(order)
        values: dict[int, Any] = {}
        token = set_mode(get_mode().as_recorded(False))
        try:
            with np.errstate(all="ignore"):
                for current in order:
                    self._run(current, values, id(current) in computed)
                    for child in self.children:
                        if id(current) in child.lent:
                            child.held[id(current)] = values[id(current)]
                    for entry in (*current.inputs, current):
                        if isinstance(entry, Node) and last.get(id(entry)) is current:
                            values.pop(id(entry), None)
        finally:
            reset_mode(token)

    def _needed(self, order: Sequence[Node], lent: set[int]) -> tuple[list[Node], set[int]]:
        """Return the nodes to run through, in order, and those of them whose result must be computed."""
        computed = {key for key in lent if key not in self.held}
        for node in reversed(order):
            key = id(node)
            if key in self.remakes:
                computed.add(key)
            elif key in self.waiting:
                needs, needs_out = node.op.save_plan(_tracked(node))
                if needs_out and key not in self.held:
                    computed.add(key)
                taken = [node.inputs[i] for i in needs]
                computed.update(id(e) for e in taken if isinstance(e, Node) and id(e) not in self.held)
            if key in computed:
                computed.update(id(e) for e in node.inputs if isinstance(e, Node) and id(e) not in self.held)
        return [n for n in order if id(n) in computed or id(n) in self.waiting], computed

    def _run(self, node: Node, values: dict[int, Any], computed: bool) -> None:
        if observers and (seen := observer()) is not None:
            outer = seen.enter(node)
            try:
                self._run_node(node, values, computed)
            finally:
                seen.leave(outer)
        else:
            self._run_node(node, values, computed)

    def _run_node(self, node: Node, values: dict[int, Any], computed: bool) -> None:
        inputs = [self._input(node, e, values) for e in node.inputs]
        op = node.op
        key = id(node)
        saved: Any = ()
        data: Any = self.held.get(key)
        if op is OUTPUT:
            data = inputs[0][node.attrs["index"]]
        elif op is ALIAS:
            data = inputs[0]
        elif key in self.remakes:
            data, saved = op.remake(inputs, self.remakes[key])  # type: ignore[attr-defined]
        else:
            if computed:
                data = kernels.compute(op, inputs, node.attrs)
            if key in self.waiting:
                saved = kept_values(op, _tracked(node), inputs, data)
        if computed:
            values[key] = data
        if key in self.waiting:
            self.ready[key] = saved

    def _input(self, node: Node, entry: Any, values: Mapping[int, Any]) -> Any:
        if not isinstance(entry, Node):
            return entry._array if isinstance(entry, Tensor) else entry
        value = values[id(entry)] if id(entry) in values else self.held.get(id(entry))
        if value is not None and (id(node), id(entry)) in self.narrow:
            return _before_broadcast(value, spec_of_input(entry.inputs[0]).shape)
        return value


def _before_broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    if value.size == 0 and 0 not in shape:
        return np.zeros(shape, value.dtype)  # which number it was shows nowhere in what has no elements
    value = value[(0,) * (value.ndim - len(shape))]
    return value[tuple(slice(0, 1) if n == 1 else slice(None) for n in shape)]


def _tracked(node: Node) -> tuple[bool, ...]:
    return tuple(isinstance(e, Node) and e.requires_grad for e in node.inputs)


def _last_uses(order: Sequence[Node]) -> dict[int, Node]:
    """Return the last node that takes each value (its own, where none does)."""
    last: dict[int, Node] = {}
    for node in order:
        last[id(node)] = node
        for entry in node.inputs:
            if isinstance(entry, Node):
                last[id(entry)] = node
    return last
