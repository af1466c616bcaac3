"""Blocks of automatic batching, and functions of examples that run in one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from ...core import tree
from ...core.errors import is_internal
from ...core.graph.evaluate import run
from ...core.mode import get_mode
from ...core.ops.op import Op
from ...core.ops.record import caller
from ...core.source import resolve
from ...core.spec import as_dtype, float32, spec_of
from ...core.state import locks
from ...core.state.blocks import LEFT, Block, blocks, reset_block, set_block, to_come
from ...core.state.capture import get_capture
from ...core.state.observer import observers
from ...core.tensor import Tensor
from ...ops.random.generator import default_generator
from ...ops.random.philox import BLOCK
from ..jit.tracing import TRACING
from .arena import Use
from .batch import Batch
from .calls import FLAT, NESTED, Odd, arrangement, read, tensors_of
from .cells import Cell, cell_of_module, cell_of_op, exactly
from .handles import batch_of, handle, mark_views, number_of, settle
from .report import Ran, new_report
from .template import Kind, Refused, Template, Unfit, kind_of, make, refuse

# The most operands of an operation that is deferred: what joins more of them runs at once.
_JOINED = 64


class Batching(Block):
    """A block in which calls of cells are deferred, and run in groups; see :func:`batching`."""

    def __init__(self, check: bool = False) -> None:
        self.check = check
        self.report = new_report()
        self.example: int | None = None
        self._lock = locks.lock()
        self._batch = Batch(self)
        self._tokens: list[Any] = []

    # -- the block

    def __enter__(self) -> Batching:
        blocks.append(self)
        self._tokens.append(set_block(self))
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        reset_block(self._tokens.pop())
        blocks.remove(self)
        if kind is None:
            self.flush()

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs in a block of its own."""

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with Batching(self.check):
                return fn(*args, **kwargs)

        return wrapper

    def flush(self) -> None:
        """Run everything that is deferred."""
        batch = self._batch
        if batch.has_calls:
            batch.run()

    # -- what batches tell

    def ends(self, batch: Batch) -> None:
        """Note that a batch is about to run: what comes is of another."""
        with self._lock:
            if self._batch is batch:
                self._batch = Batch(self)

    def ran(self, ran: Ran) -> None:
        """Note what a batch ran."""
        self.report.runs.append(ran)

    def _leave(self, cell: Cell, why: str, code: CodeType | None, offset: int) -> None:
        """Note a call that is not deferred, with its place in the program."""
        if code is not None and is_internal(code.co_filename):
            code, offset = caller()
        self.report.left[cell.name, why, code, offset] += 1

    # -- calls

    def take_module(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], code: Any, offset: int) -> Any:
        """Return handles of a module's results; `LEFT` if the caller is to make the call."""
        cells = module._cells
        cell = cell_of_module(module) if cells is None or cells.own is None else cells.own
        return self.take(cell, args, kwargs, code, offset)

    def take(self, cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any], code: Any, offset: int) -> Any:
        """Return handles of a cell's results; `LEFT` if the caller is to make the call."""
        if cell.why is not None:
            self._leave(cell, cell.why, code, offset)
            return LEFT
        if observers or get_capture() is not None:
            return LEFT
        with self._lock:
            return self._take(cell, args, kwargs, code, offset)

    def module_changes(self) -> None:
        """Note that an attribute of a module is about to be set: what is deferred is right until now."""
        with self._lock:
            self._batch.seal()

    def take_op(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return handles of the results of an operation on handles; `LEFT` if the caller is to compute them."""
        if len(args) > _JOINED:
            return LEFT
        known = [x for x in args if type(x) in to_come]
        if not known:
            return LEFT
        try:
            cell = cell_of_op(op, *exactly(attrs))
        except TypeError:  # an attribute that is no key
            return LEFT
        found = self.take(cell, tuple(args), {}, *caller())
        if op.view and found is not LEFT and known[0].writes_through is not None:
            mark_views(found, op, args, dict(attrs))
        return found

    def _take(self, cell: Cell, args: tuple[Any, ...], kwargs: dict[str, Any], code: Any, offset: int) -> Any:
        batch, mode = self._batch, get_mode()
        is_usual = mode.floats is float32 and mode.autocast is None
        head = mode.grad if is_usual else (mode.grad, mode.floats, mode.autocast)
        key: list[Any] = [cell, head]
        numbers = [number_of(x) for x in args if type(x) in to_come and batch_of(x) is batch]
        if len(numbers) == len(args) and not kwargs:
            values = batch.values
            key += [values[i][0] for i in numbers]
        else:
            numbers = []
            depth = NESTED if cell.is_marked else FLAT
            try:
                read(batch, mode.grad, args, numbers, key, depth)
                if kwargs:
                    names = sorted(kwargs)
                    key.append(tuple(names))
                    read(batch, mode.grad, [kwargs[n] for n in names], numbers, key, depth)
            except Odd as odd:
                self._leave(cell, str(odd), code, offset)
                return LEFT
        if not numbers and not cell.is_marked:
            return LEFT
        signature = tuple(key)
        use = batch.signatures.get(signature)
        if use is None or not use.holds():
            with TRACING:  # while another thread traces, abstract values stand in tensors that all see
                use = self._use(cell, batch, signature, args, kwargs, code, offset)
            if batch is not self._batch:  # what the cell reads outside was a value to come, and is there now
                return self._take(cell, args, kwargs, code, offset)
            if use is None:
                return LEFT
            batch.signatures[signature] = use
        template: Template = use.template
        if template.blocks:
            self._draw(batch, template, numbers)
        args_of = tuple(numbers) if template.takes_all else tuple([numbers[i] for i in template.rows])
        site = code, offset, mode.scope
        place = batch.places.get(site)
        if place is None or place[2] != self.example:
            place = batch.places[site] = (code, offset, self.example, mode.scope)
        base = batch.defer(use, args_of, place)
        container = template.container
        if container is None:
            return handle(template.handles[0], batch, base, template.specs[0])
        outs = []
        for cls, spec in zip(template.handles, template.specs):
            outs.append(handle(cls, batch, base, spec))
            base += 1
        if container is dict:
            return template.build(outs, tensors_of(args, kwargs))
        return tuple(outs) if container is tuple else outs

    def _draw(self, batch: Batch, template: Template, numbers: list[int]) -> None:
        """Draw the random numbers of a call, and add them to its inputs."""
        (low, high), counter = default_generator.draw(template.blocks * BLOCK)
        if template.draws is None:
            return
        # In reverse, for the rows count them from the end.
        for drawn in reversed(run(template.draws, [np.array([low, high, counter], np.uint64)])):
            kind = kind_of(spec_of(drawn.shape, as_dtype(drawn.dtype)), False, Tensor)
            numbers.append(batch.from_outside(kind, drawn))

    def _use(
        self,
        cell: Cell,
        batch: Batch,
        key: tuple[Any, ...],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        code: Any,
        offset: int,
    ) -> Use | None:
        """Return the template for a call, made if there is none; None if the call is left to the caller."""
        known = cell.known.get(key)
        if type(known) is list:
            for template, kernels in known:
                if template.holds():
                    return batch.use_of(template, kernels)
        elif known is not None:
            self._leave(cell, str(known), code, offset)
            return None
        elif cell.waits(key):
            return None
        if cell.is_ragged:
            cell.why = "it is called with inputs of many shapes: what it calls is batched"
            return None
        kinds = [k for k in key if type(k) is Kind]
        try:
            again = functools.partial(make, cell.name, cell.fn, arrangement(args, kwargs), kinds, cell.is_op)
            template = again()
            template.again = again
            for same, kernels in known if isinstance(known, list) else ():
                if same.is_same(template):
                    same.renew(template)
                    return batch.use_of(same, kernels)
            return batch.use_of(*cell.add(key, template))
        except Unfit as why:
            cell.known[key] = why
            self._leave(cell, str(why), code, offset)
            return None
        except Refused as why:
            return refuse(cell.name, why, "" if code is None else str(resolve(code, offset)))


def batching(fn: Callable[..., Any] | None = None, *, check: bool = False) -> Any:
    """Return a context manager and decorator in which calls of cells are deferred, and run in batches.

    For programs with a graph for each example: trees, molecules, parses, ragged sequences. Inside the block a call of a
    cell gives tensors whose values are computed later. When the block ends, or when a value is asked for (`float(x)`,
    `if x > 0`, an operation that is not a cell), all calls of one cell that are ready and have inputs of the same
    shapes run as one compiled kernel, and so does their backward pass.

    Parameters
    ----------
    fn: as a decorator, the function that runs in a block.
    check: compare all values and gradients with those of one-by-one execution.

    Cells are modules, and functions that :func:`wengert.cell` marks. An unmarked module is a cell if its `forward` has
    no loop and its arguments are tensors and plain values, or tuples, lists and dicts of such. A module whose result
    depends on values (in an `if`), that prints, or that changes Python objects runs as it is written. Operations
    between cells are deferred too. :func:`wengert.explain.batching` says what ran together, what did not, and why.

    Calls with other shapes, or other plain values, run in other kernels: give numbers that differ between examples,
    such as words, as tensors or as NumPy's integers.

    Random numbers are those of one-by-one execution. Raises GraphError for a module that writes to its buffers
    (batch normalisation in training), and where `check` finds a difference.

    >>> import wengert as wg
    >>> layer = wg.nn.Linear(3, 3)
    >>> with wg.batching():
    ...     xs = [layer(wg.ones(3)) for _ in range(4)]
    ...     ys = [layer(x) for x in xs[:2]]
    >>> ys[0].shape
    (3,)
    """
    block = Batching(check)
    return block if fn is None else block(fn)


def autobatch(fn: Callable[..., Any], *, check: bool = False) -> Callable[..., list[Any]]:
    """Return the function of a list of examples that gives the list of `fn(example)`, computed in batches.

    `fn` takes an example of any kind (a tree, a graph, a sequence) and returns a pytree. Further arguments are the same
    for all examples. It runs for one example after the other inside :func:`wengert.batching`. Errors name the example
    by its number, from 0.

    >>> import wengert as wg
    >>> layer = wg.nn.Linear(3, 3)
    >>> def run(length):
    ...     x = wg.ones(3)
    ...     for _ in range(length):
    ...         x = layer(x)
    ...     return x
    >>> [y.shape for y in wg.autobatch(run)([1, 5, 2])]
    [(3,), (3,), (3,)]
    """

    @functools.wraps(fn, updated=())
    def batched(examples: Iterable[Any], *args: Any, **kwargs: Any) -> list[Any]:
        found = []
        with Batching(check) as block:
            for i, example in enumerate(examples):
                block.example = i
                try:
                    found.append(fn(example, *args, **kwargs))
                except Exception as error:
                    error.add_note(f"in example {i} of the batch")
                    raise
            block.flush()
            for leaf in tree.leaves(found):
                settle(leaf)
        return found

    return batched
