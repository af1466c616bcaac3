"""Python code in the middle of a graph: `callback`, and the printing of `wg.debug`.

Both are ops whose forward is Python: the interpreter runs it, and a compiled program calls back for
it. Traced for many examples, they run for one after the other.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import DTypeError, GradientError, GraphError, ShapeError, fail
from ...core.node import Node
from ...core.ops.op import Joint, Linear, Op
from ...core.ops.record import bind
from ...core.spec import Spec
from ...core.state.capture import get_capture
from ...core.tensor import Tensor, asarray, wrap

# Two prints of the same are two prints, also to a pass that computes equal nodes once.
_serials = itertools.count()


# -- callbacks


def callback(fn: Callable[..., Any], result: Any, *args: Any) -> Any:
    """Call a Python function on arrays, also from within a traced or compiled function.

    Parameters
    ----------
    fn: takes read-only NumPy arrays, one for each of `args`; returns arrays (or numbers) of the
        shapes that `result` says. It should depend on its arguments only: how often it is called is
        the compiler's business.
    result: a pytree of :func:`wengert.spec`; what `fn` returns has its structure.
    args: tensors, arrays, numbers.

    No gradient flows through it; asking for one is an error (give it one with `wg.custom_vjp`). Under
    `vmap` it is called for one example after the other.

    Raises GraphError where `fn` returns something else than `result` says, DTypeError for a `result` that is no spec.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: wg.callback(lambda a: a[::-1], wg.spec((3,)), x) * 2)
    >>> f(wg.tensor([1.0, 2.0, 3.0]))
    tensor([6., 4., 2.])
    """
    specs, structure = tree.flatten(result)
    for s in specs:
        if not isinstance(s, Spec):
            fail(DTypeError, f"callback: the result is described by specs, not {type(s).__name__}", "wg.spec(shape)")
    name = getattr(fn, "__name__", type(fn).__name__)

    def run(*arrays: Any) -> Any:
        shown = [np.asarray(a).view() for a in arrays]
        for a in shown:
            a.flags.writeable = False
        leaves, found = tree.flatten(fn(*shown))
        if found != structure:
            fail(GraphError, f"callback: {name} returned {found}, not {structure}")
        return tuple(_checked(name, leaf, spec) for leaf, spec in zip(leaves, specs, strict=True))

    tensors = [asarray(a) for a in args]
    if not specs:
        fail(GraphError, "callback: no results", "Describe at least one: without, nothing would ever ask for the call.")
    outs = bind(_callback_op(len(specs)), tensors, {"fn": run, "specs": tuple(specs)})
    return tree.unflatten(structure, outs if isinstance(outs, tuple) else (outs,))


def _checked(name: str, leaf: Any, spec: Spec) -> Any:
    value = np.asarray(leaf)
    if value.shape != spec.shape:
        fail(ShapeError, f"callback: {name} returned shape {value.shape}, not {spec}")
    return value.astype(spec.dtype, copy=True)


def _no_gradient(ct: Any, node: Node) -> Any:
    made = node.source
    fail(
        GradientError,
        "callback has no derivative: a gradient reaches Python code",
        (f"It was called at {made}. " if made is not None else "")
        + "Detach its arguments if no gradient is meant to flow there, or give it a rule with wg.custom_vjp.",
    )


@cache
def _callback_op(results: int) -> Op:
    def forward(*xs: Any, fn: Callable[..., Any], specs: Sequence[Spec]) -> Any:
        found = fn(*xs)
        return found if results != 1 else found[0]

    def infer(*xs: Any, fn: Callable[..., Any], specs: Sequence[Spec]) -> Any:
        return specs if results != 1 else specs[0]

    return Op(
        "callback(*xs; fn, specs)",
        "general",
        forward,
        infer=infer,
        facts=Joint(_no_gradient),
        results=results,
        doc="A Python function called on arrays.",
        listed=False,
        calls_user=True,
    )


# -- printing


def show(text: str, *args: Any) -> Any:
    """Print values when they are there: `wg.debug.print("x = {}", x)`, also from a compiled function.

    `text` is formatted as by `str.format` with the tensors. Returns the first of them, through which
    gradients flow: in a function that `vmap` or a loop traces, what nothing uses is not computed, so write
    `x = wg.debug.print("x = {}", x)` there. Under `vmap` it prints for every example, in any order.

    >>> import wengert as wg
    >>> f = wg.jit(lambda x: wg.debug.print("x is {}, its sum {:.1f}", x, x.sum()) * 2)
    >>> f(wg.tensor([1.0, 2.0]))
    x is tensor([1., 2.]), its sum 3.0
    tensor([2., 4.])
    """
    if not isinstance(text, str):
        fail(DTypeError, f"debug.print: the text is a {type(text).__name__}", 'Write wg.debug.print("x = {}", x).')
    if not args:
        fail(DTypeError, "debug.print without a tensor", "Of a text alone, print() prints it once, when traced.")
    tensors = [asarray(a) for a in args]
    out: Tensor = bind(SHOW, tensors, {"text": text, "serial": next(_serials)})
    capture = get_capture()
    if capture is not None:
        capture.effect(out)
    return out


def _show(x: Any, *rest: Any, text: str, serial: int) -> Any:
    sys.stdout.write(text.format(*(wrap(np.asarray(a)) for a in (x, *rest))) + "\n")
    return x


SHOW = Op(
    "debug_print(x, *rest; text, serial)",
    "general",
    _show,
    infer=lambda x, *rest, text, serial: x,
    facts={"x": Linear(lambda ct: ct, True, True, True)},
    doc="The first argument, printed with the others.",
    listed=False,
)
