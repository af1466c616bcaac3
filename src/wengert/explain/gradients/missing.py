"""The answer to why a gradient is None or zero: the cause, the user's line, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import DTypeError, fail
from ...core.node import Hooked, Node
from ...core.ops.op import TABLE, Linear, Op, spec_of_input
from ...core.source import Source
from ...core.spec import category
from ...core.tensor import Tensor
from ...transforms.derivatives.reverse import backward_pass, leading_to, reachable
from ..observing.arguments import tensors_of
from ..observing.events import Events, Pull, Step, observed
from ..observing.replayed import is_freed, opened, replay, restored

# The text of each cause, and how to mend it.
CAUSES: dict[str, tuple[str, str]] = {
    "present": ("nothing is missing: a gradient arrives", ""),
    "integer": ("its dtype is not floating: it has no derivative", "w = w.astype(wg.float32).requires_grad_()"),
    "not_required": ("it does not require gradients", "w.requires_grad_() before it is used, or wg.nn.Parameter(w)"),
    "required_too_late": (
        "it required gradients only after it had been used",
        "call requires_grad_() before the first operation on it",
    ),
    "non_leaf": (
        "it was computed, and .grad is kept for leaves only",
        "t.retain_grad() before backward(), or wg.autograd.grad(loss, t)",
    ),
    "not_in_optimizer": (
        "the optimiser does not hold it: whatever its gradient, step() leaves it",
        "opt.add_param_group({'params': [w]}), or make the optimiser after the parameter",
    ),
    "no_backward": ("the loss depends on it, but backward() has not run", "loss.backward()"),
    "cleared": (
        "backward() has run and the gradient was cleared afterwards",
        "call zero_grad() before backward(), and step() between backward() and the next zero_grad()",
    ),
    "unused": ("the loss does not depend on it", "check that the forward pass uses this tensor, not another"),
    "unused_result": (
        "what was computed from it here does not enter the loss",
        "add this result to the loss, or drop it",
    ),
    "copy": (
        "another tensor with the same values is used in its place (a copy, or a module that was replaced)",
        "use the tensor itself; make the optimiser and copies of a model in the right order",
    ),
    "detached": ("it is detached here", "leave out .detach(), .data or a new nn.Parameter where gradients are to flow"),
    "left_graph": (
        "its value leaves the graph here, as a number or a NumPy array",
        "stay with wengert's functions: wg.exp(w) instead of np.exp(w.detach().numpy()) or math.exp(w.item())",
    ),
    "no_grad": ("this ran under no_grad(), where nothing is recorded", "move it out of the no_grad() block"),
    "not_differentiable": (
        "an integer or boolean result has no derivative",
        "a smooth stand-in: wg.softmax for argmax, wg.sigmoid(x * k) for x > 0; keep the dtype floating",
    ),
    "stop_gradient": ("wg.stop_gradient stops it here", "leave it out"),
    "step_function": (
        "a step function: its slope is 0 everywhere",
        "a straight-through estimate: x + (wg.round(x) - x).detach()",
    ),
    "dead_relu": (
        "a dead ReLU: all its inputs are negative",
        "a smaller learning rate, another initial bias, wg.nn.functional.leaky_relu; "
        "wg.explain.dead_units(model, data) counts them",
    ),
    "clipped": ("all of it is clipped: beyond the bounds the slope is 0", "wider bounds, or wg.tanh for soft ones"),
    "saturated": (
        "a saturated activation: its slope there rounds to 0",
        "smaller inputs (normalise, smaller weights), or the loss on logits: wg.nn.functional.cross_entropy",
    ),
    "zero_factor": ("it is multiplied by 0", "check the factor: a mask, a weight or a coefficient that is 0"),
    "masked": ("wg.where chooses the other side everywhere", "check the condition"),
    "overwritten": ("its values are overwritten by an assignment", "assign to other elements, or into a copy"),
    "not_selected": ("indexing picks none of its elements that count", "check the index"),
    "not_extreme": ("the maximum (minimum) is another element", "wg.logsumexp or wg.mean reaches all of them"),
    "underflow": (
        "the gradient is below the dtype's smallest number",
        "multiply the loss by a large number and divide the gradients by it, or use a wider dtype",
    ),
    "zero_slope": ("the slope of the operation is 0 at these values", "start from other values"),
    "cancelled": ("its contributions, along several paths, add up to 0", "look for a term and its opposite"),
    "no_cotangent": (
        "the derivative rule of this operation returns None for it",
        "let the rule (bwd, backward) return a gradient for this argument",
    ),
    "no_seed": ("the loss is 0 or constant here: its own slope is 0", ""),
    "hook": ("a hook on it returns 0", "remove the hook"),
}

# The text of "detached" where the line is not that of the detaching.
_DETACHED_BEFORE = (
    "its numbers are used here without it: what detach(), .data or numpy() gave carries no gradient to it",
    "use the tensor itself",
)

# The text of "unused" for a tensor's graph, which knows nothing of what was detached before it.
_UNRECORDED = (
    "no recorded operation leads from it to the loss",
    "check that the forward pass uses this tensor, not another; wg.explain.missing(w, f) with the function that "
    "computes the loss sees detached values too",
)

_LEAVES_GRAPH = ("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__complex__")


@dataclass(frozen=True)
class Missing:
    """The reason why a gradient is missing. False where one arrives.

    `cause` is one of the words that docs/debugging.md lists; `text` says it, `source` is the user's line,
    `op` the operation there, `mend` what to write instead. `zero` tells a gradient that is 0 everywhere
    from one that is None.

    >>> import wengert as wg
    >>> w = wg.tensor(1.0, requires_grad=True)
    >>> bool(wg.explain.missing(w, lambda: w * 2.0)), wg.explain.missing(w, lambda: wg.tensor(2.0) * 2.0).cause
    (False, 'unused')
    """

    cause: str
    text: str
    mend: str
    source: Source | None = None
    op: str = ""
    zero: bool = False

    def __bool__(self) -> bool:
        return self.cause != "present"

    @property
    def line(self) -> int | None:
        """The line of the user's program."""
        return self.source.line if self.source is not None else None

    def __str__(self) -> str:
        if not self:
            return self.text
        lines = [f"the gradient is {'0' if self.zero else 'None'}: {self.text}"]
        if self.source is not None:
            lines.append(f"  {self.op + ' ' if self.op else ''}at {self.source}: {self.source.text}")
        if self.mend:
            lines.append(f"  instead: {self.mend}")
        return "\n".join(lines)


def missing(param: Tensor, loss: Any = None, *args: Any, optimizer: Any = None) -> Missing:
    """Return why `param` has no gradient, or a gradient of 0.

    Parameters
    ----------
    param: the tensor whose gradient is missing.
    loss: the tensor that `backward()` was called on; or the function that computes it (with `args`),
        which is run once with every operation observed and tells most: what left the graph, what ran
        under `no_grad`. Without it only the state of `param` is looked at.
    optimizer: also look whether it holds `param`.

    Returns a :class:`Missing`, false where a gradient arrives. Nothing is added to any `.grad` by it,
    but a function that calls `backward()` itself does.

    Raises DTypeError where `param` is not a tensor.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, 2.0], requires_grad=True)
    >>> why = wg.explain.missing(w, lambda: (w.detach() * 3.0).sum())
    >>> why.cause, why.source.text
    ('detached', 'w.detach()')
    """
    if not isinstance(param, Tensor):
        fail(DTypeError, f"missing of a {type(param).__name__}, not a tensor", "Give the parameter whose .grad it is.")
    if optimizer is not None and all(p is not param for g in optimizer.param_groups for p in g["params"]):
        return _because("not_in_optimizer")
    if category(param.dtype) < 2:
        return _because("integer", param.source)
    if loss is None:
        return _by_state(param)
    if isinstance(loss, Tensor):
        return _of_tensor(param, loss)
    if not callable(loss):
        fail(DTypeError, f"missing: a loss of type {type(loss).__name__}", "Give a tensor, or a function.")
    return _of_function(param, loss, args)


def _because(cause: str, source: Source | None = None, op: str = "", zero: bool = False) -> Missing:
    return Missing(cause, *CAUSES[cause], source, op, zero)


def _by_state(param: Tensor) -> Missing:
    if not param.requires_grad:
        return _because("not_required", param.source)
    if param.grad is not None:
        return _because("present") if np.any(_plain(param.grad._array)) else _because("zero_slope", zero=True)
    return _because("no_backward") if param.is_leaf else _because("non_leaf", param.source)


# -- a loss that was computed already


def _of_tensor(param: Tensor, loss: Tensor) -> Missing:
    if not param.requires_grad:
        return _because("not_required", param.source)
    if not loss.requires_grad or loss.node is None:
        return _because("unused")
    nodes = reachable([loss.node])
    assert param.node is not None
    if param.node not in nodes:
        return _outside(param, nodes)
    if not param.is_leaf and param.grad is None and not _retains(param.node):
        return _because("non_leaf", param.source)
    freed = is_freed(loss.node)
    whole = opened(loss, "missing")
    assert whole.node is not None
    if param.node in reachable([whole.node]):  # and is no result of what was compiled
        loss = whole
    assert loss.node is not None
    steps = replay([loss.node])
    with restored(steps, loss, "missing"), observed() as seen, np.errstate(all="ignore"):
        backward_pass([(loss.node, np.ones(loss.shape, loss.dtype))], None, create_graph=False, retain_graph=True)
    zero = _zero(param, loss.node, seen)
    if zero is not None:
        return zero
    if param.grad is None:
        return _because("cleared" if freed else "no_backward")
    return _because("present") if np.any(_plain(param.grad._array)) else _because("hook", zero=True)


def _outside(param: Tensor, nodes: dict[Node, int]) -> Missing:
    """Explain a parameter that the loss's graph does not hold: its value may stand there all the same."""
    copied = None
    for node in nodes:
        for entry in node.inputs:
            owner = entry.variable if isinstance(entry, Node) and entry.op.name == "leaf" else None
            value = entry if isinstance(entry, np.ndarray) else None if owner is None else owner._array
            if value is None or owner is param:
                continue
            if _same_buffer(value, param._array) or (owner is None and _equal(value, param._array)):
                return _detached_before(node.source, node.op.name)
            if copied is None and _equal(value, param._array):
                copied = _because("copy", node.source, node.op.name)
    return copied or Missing("unused", *_UNRECORDED)


def _detached_before(source: Source | None, op: str) -> Missing:
    """Explain a detach that nobody observed, by the operation that took what came of it."""
    return Missing("detached", *_DETACHED_BEFORE, source, op)


def _same_buffer(a: Any, b: Any) -> bool:
    return a is b or (isinstance(b, np.ndarray) and a.size > 0 and np.shares_memory(a, b))


def _equal(a: Any, b: Any) -> bool:
    """Return whether two arrays hold the same numbers, by no accident: not those of one number throughout."""
    same = a.shape == b.shape and a.dtype == b.dtype and a.size > 1 and bool(np.array_equal(a, b))
    return same and bool((a != a.reshape(-1)[0]).any())


def _retains(node: Node) -> bool:
    return type(node.saved) is Hooked and node.saved.retain is not None


# -- a function, run under observation


def _of_function(param: Tensor, fn: Callable[..., Any], args: Sequence[Any]) -> Missing:
    before, tracked, node = param._array, param.requires_grad, param.node
    with observed() as seen, np.errstate(all="ignore"):
        results = tensors_of(fn(*args))
        asked = seen.tick()
        live = [t for t in results if t.node is not None and t.requires_grad]
        for t in live:
            if not is_freed(t.node):  # type: ignore[arg-type]
                ones = np.ones(t.shape, t.dtype)
                backward_pass([(t.node, ones)], None, create_graph=False, retain_graph=True)  # type: ignore[list-item]
    flow = _Flow(seen, before)
    if not tracked:
        late = next((leak for leak in seen.leaks if leak.what == "requires_grad_" and leak.value is before), None)
        if late is not None and flow.users and flow.users[0].order < late.order:
            return _because("required_too_late", late.source)
        if late is None:
            return _because("not_required", param.source)
        node = param.node
    assert node is not None
    held = any(node in reachable([t.node]) for t in live) or any(node in p.grads for p in seen.pulls)  # type: ignore[list-item]
    if held:
        root = live[0].node if live else next((p.node for p in seen.pulls if p.node.requires_grad), None)
        zero = _zero(param, root, seen, node)
        if zero is not None:
            return zero
        if not (param.is_leaf or _retains(node)):
            return _because("non_leaf", param.source)
        ran = any(pull.order < asked for pull in seen.pulls)
        return _because("cleared") if ran and param.is_leaf and param.grad is None else _because("present")
    return flow.broken(results)


class _Flow:
    """The flow of a tensor's value: what it influences, and up to where gradients could follow."""

    def __init__(self, seen: Events, start: Any) -> None:
        self.seen, self.start = seen, start
        self.made = {id(part): step for step in seen.steps for part in _parts(step.out)}
        self.tainted = {id(start)}
        self.carried = {id(start)}
        self.users: list[Step] = []
        self.breaks: list[tuple[Step, str]] = []
        for step in seen.steps:
            mine = [i for i, v in enumerate(step.inputs) if self._holds(v, self.tainted)]
            if not mine or step.depth:
                continue
            self.users.append(step)
            self.tainted |= {id(part) for part in _parts(step.out)}
            carrying = [i for i in mine if self._holds(step.inputs[i], self.carried)]
            if not carrying:
                continue
            reason = _why_not(step, carrying)
            if reason:
                self.breaks.append((step, reason))
            else:
                self.carried |= {id(part) for part in _parts(step.out)}

    def _holds(self, value: Any, known: set[int]) -> bool:
        while isinstance(value, (np.ndarray, np.generic)):
            if id(value) in known:
                return True
            value = getattr(value, "base", None)
        return False

    def broken(self, results: Sequence[Tensor]) -> Missing:
        """Explain where the connection to the loss broke."""
        losses = [t._array for t in results]
        if not losses:  # the function returned nothing: its loss is what backward() was called on
            losses = [s.out for s in self.seen.steps[-1:]]
        before = self._ancestors(losses)
        if not any(self._holds(v, self.tainted) for v in losses):
            return self._apart()
        for step, reason in self.breaks:
            if step in before:
                return _because(reason, step.source, step.op.name)
        for leak in self.seen.leaks:
            if leak.what in ("detach", "data") and self._holds(leak.value, self.tainted):
                return _because("detached", leak.source, leak.what)
        user = next((step for step in self.users if step in before), None)
        return _detached_before(None, "") if user is None else _detached_before(user.source, user.op.name)

    def _apart(self) -> Missing:
        """Explain a loss whose numbers do not come from the tensor by any operation."""
        left = [k for k in self.seen.leaks if self._holds(k.value, self.tainted) and k.what in _LEAVES_GRAPH]
        if left:
            return _because("left_graph", left[0].source, left[0].what)
        if self.users:
            anew = self._taken_anew()
            if anew is not None:
                return anew
            last = self.users[-1]
            if last.op.facets.get("zero_gradient") == "overwritten" or self._overwritten(last):
                return _because("overwritten", last.source, last.op.name)
            return _because("unused_result", last.source, last.op.name)
        for step in self.seen.steps:
            for i, value in enumerate(step.inputs):
                if isinstance(value, np.ndarray) and id(value) not in self.made and _equal(value, self.start):
                    if self.seen.is_tracked(step, i):
                        return _because("copy", step.source, step.op.name)
                    return _detached_before(step.source, step.op.name)
        return _because("unused")

    def _taken_anew(self) -> Missing | None:
        """Explain a value computed from the tensor that was made a leaf of its own: `Parameter(w * 2.0)`."""
        computed = [part for step in self.users for part in _parts(step.out) if isinstance(part, np.ndarray)]
        for step in self.seen.steps:
            for value in step.inputs:
                outside = isinstance(value, np.ndarray) and id(value) not in self.made and value.size > 1
                if outside and any(_equal(value, part) for part in computed):
                    return _because("copy", step.source, step.op.name)
        return None

    def _overwritten(self, step: Step) -> bool:
        return any(leak.what == "x[...] = v" and leak.value is step.out for leak in self.seen.leaks)

    def _ancestors(self, values: Sequence[Any]) -> set[Step]:
        found: set[Step] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            step = self.made.get(id(value))
            if step is None:
                base = getattr(value, "base", None)
                if isinstance(base, np.ndarray):
                    stack.append(base)
            elif step not in found:
                found.add(step)
                stack.extend(v for v in step.inputs if isinstance(v, (np.ndarray, np.generic)))
        return found


def _parts(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _why_not(step: Step, carrying: Sequence[int]) -> str:
    """Return why no gradient follows through a step from these arguments; "" where one does."""
    if step.op is TABLE["stop_gradient"]:
        return "stop_gradient"
    if step.op.joint is None and not any(_differentiable(step.op, i) for i in carrying):
        return "not_differentiable"
    if all(np.asarray(part).dtype.kind in "iub" for part in _parts(step.out)):
        return "not_differentiable"
    return "" if step.recording else "no_grad"


def _differentiable(op: Op, index: int) -> bool:
    if not op.differentiable and op.body is not None:
        return True  # a composite that runs as its body
    return op.fact(index).differentiable


# -- a gradient that arrives, and is 0


def _zero(param: Tensor, root: Node | None, seen: Events, node: Node | None = None) -> Missing | None:
    """Explain where, on its way from the loss, the gradient became 0 everywhere; None where it did not."""
    target = node if node is not None else param.node
    assert target is not None
    onto: dict[Node, list[Pull]] = {}
    for pull in seen.pulls:
        for entry in pull.grads:
            onto.setdefault(entry, []).append(pull)
    if target not in onto:
        if target is root:
            return None
        return (_without_rule(target, root, seen) if root is not None else None) or _because("unused")
    arriving = onto[target]
    if any(np.any(_plain(p.grads[target])) for p in arriving):
        total = sum(
            np.asarray(_plain(p.grads[target]), np.result_type(float, _plain(p.grads[target]))) for p in arriving
        )
        return None if np.any(total) else _because("cancelled", zero=True)
    everything = np.ones(target.spec.shape, bool)
    stack: list[tuple[Pull, Node, Any]] = [(p, target, everything) for p in arriving]
    visited: set[tuple[Pull, Node]] = set()
    while stack:
        pull, entry, mine = stack.pop()
        if (pull, entry) in visited:
            continue
        visited.add((pull, entry))
        if sum(e is entry for e in pull.node.inputs) > 1 and _any(pull.ct):
            return _because("cancelled", pull.source, pull.name, zero=True)
        if not _several(pull.node) and pull.node.spec.size == 0:
            return _because("not_selected", pull.source, pull.name, zero=True)
        reached = _reached(pull.node, entry, mine)
        if _any(pull.ct) if reached is None else np.any(_plain(pull.ct)[reached]):
            return _because(_zero_cause(pull, entry), pull.source, pull.name, zero=True)
        whole = np.ones(pull.node.spec.shape, bool) if reached is None and not _several(pull.node) else reached
        before = onto.get(pull.node, [])
        if whole is not None and any(np.any(_plain(b.grads[pull.node])[whole]) for b in before):
            return _because("cancelled", pull.source, pull.name, zero=True)
        stack += [(b, pull.node, whole) for b in before]
    return _because("no_seed", zero=True)


def _without_rule(target: Node, root: Node, seen: Events) -> Missing | None:
    """Explain an operation whose rule gave an arriving gradient nothing for what depends on the target."""
    below = leading_to([target], reachable([root]))
    for pull in seen.pulls:
        for entry in pull.node.inputs:
            if isinstance(entry, Node) and entry in below and entry not in pull.grads and entry.requires_grad:
                return _because("no_cotangent", pull.source, pull.name)
    return None


def _several(node: Node) -> bool:
    return isinstance(node.spec, tuple)


def _reached(node: Node, entry: Node, mine: Any) -> Any:
    """Return which elements of a result these elements of an input reach, where the op tells; else None."""
    if mine is None or _several(node):
        return None
    if node.op.kind == "elementwise":
        return mine if mine.shape == node.spec.shape else None
    i = next(i for i, e in enumerate(node.inputs) if e is entry)
    fact = node.op.fact(i)
    if node.op.joint is not None or not (isinstance(fact, Linear) and fact.covers):
        return None
    inputs = [
        mine.astype(np.float32) if k == i else np.zeros(spec_of_input(e).shape, np.float32)
        for k, e in enumerate(node.inputs)
    ]
    return np.asarray(node.op.forward(*inputs, **node.attrs)) != 0


def _zero_cause(pull: Pull, entry: Node) -> str:
    node, values = pull.node, pull.saved
    cause = node.op.facets.get("zero_gradient", "zero_slope")
    if cause != "factor":
        return cause
    others = [v for v, e in zip(values or (), node.inputs, strict=False) if e is not entry and v is not None]
    if others and not any(np.any(_plain(v)) for v in others):
        return "zero_factor"
    return "underflow" if others else "zero_slope"


def _any(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(_any(v) for v in value)
    return value is not None and bool(np.any(_plain(value)))


def _plain(value: Any) -> Any:
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.kind == "V" else array
