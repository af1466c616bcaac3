"""The place of compiled code in eager execution: composites, and their derivatives, as one kernel.

`core` knows nothing of what compiles: that registers itself (:func:`register`). Here stands what the front
doors of composites and reverse mode ask before they run NumPy, and when compiling begins to pay. Starting a
compiler takes as long as a short script runs, so it is rented before it is bought, as a skier rents skis
(Karlin et al. 1988, Algorithmica 3): NumPy computes until what it is reckoned to have spent on composites is
what the start costs; never does the sum exceed twice what the better choice would have been. What is reckoned
are numbers of elements, not measured times: the same program does the same in every run.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import DTypeError, fail
from ..state.observer import observers
from .op import TABLE, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..node import Node

# The estimate of NumPy's time for a composite of some ten functions, in nanoseconds: for each call, and each element.
PER_CALL, PER_ELEMENT = 20_000, 4
# The cost of loading LLVM and compiling the first kernels, in the same nanoseconds.
START = 400_000_000


class Kernels(Protocol):
    """A provider of compiled code for composites and their derivatives."""

    def forward(self, op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return the result of a composite (a tuple of several) for arrays; None to have NumPy compute it."""
        ...

    def pull(self, node: Node, ct: Any, saved: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any] | None:
        """Return the cotangents of a composite's wanted arguments, an entry for each; None to have NumPy compute them.

        `ct` is the result's cotangent: an array, or a tuple of arrays and None for several results.
        Where the fact is a mask (`Route`) the entry is None.
        """
        ...

    def pays(self, price: int, spent: int, cost: int) -> bool:
        """Return whether other code that repeats is worth a program of this cost, on which NumPy has spent so much.

        `price` is the part that it spends now. All are estimates in nanoseconds, as those of `price`.
        """
        ...


class Off:
    """The provider without kernels: NumPy computes everything."""

    def forward(self, op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return None: NumPy computes the result."""

    def pull(self, node: Node, ct: Any, saved: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any] | None:
        """Return None: NumPy computes the cotangents."""

    def pays(self, price: int, spent: int, cost: int) -> bool:
        """Return False."""
        return False


class Rented:
    """The provider that leaves everything to NumPy until that has cost as much as starting a compiler."""

    def __init__(self) -> None:
        self.spent = 0

    def forward(self, op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return None, and add up the cost, until the compiler is brought in."""
        return kernels.forward(op, values, attrs) if self._enough(price(values)) else None

    def pull(self, node: Node, ct: Any, saved: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any] | None:
        """Return None, and add up the cost, until the compiler is brought in."""
        return kernels.pull(node, ct, saved, wanted) if self._enough(price(saved)) else None

    def pays(self, price: int, spent: int, cost: int) -> bool:
        """Add up the price, and return False until the compiler is brought in."""
        return self._enough(price) and kernels.pays(price, spent, cost)

    def _enough(self, price: int) -> bool:
        self.spent += price
        if self.spent < START and "llvmlite.binding" not in sys.modules:
            return False
        if kernels is self:
            _buy(at_once=False)
        return kernels is not self


def compute(op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """Return an op's result for arrays and numbers: by a kernel where there is one, else by its forward."""
    if observers:
        return op.told(values, attrs)
    if is_fit(op) and not any(type(v) in (bool, int, float, complex) for v in values):
        found = kernels.forward(op, values, attrs)
        if found is not None:
            return found
    return op.forward(*values, **attrs)


def is_fit(op: Op) -> bool:
    """Return whether kernels may compute an op: a composite, or one whose declaration asks for them.

    A user's own rules are not: they run as Python. One that draws has its position in the stream among
    its attributes, so every call would be another kernel.
    """
    return (op.by_kernel or op.kind == "composite") and TABLE.get(op.name) is op and not op.draws


def price(values: Sequence[Any]) -> int:
    """Return an estimate of NumPy's time for a composite of these arrays, in nanoseconds."""
    return PER_CALL + PER_ELEMENT * sum([getattr(v, "size", 0) for v in values])


def register(provider: Callable[[bool], Kernels]) -> None:
    """Say what makes compiled kernels: a function that is called at the end of the rent, when a compiler may be loaded.

    Its argument says whether every call is compiled at once, or when it pays for its program.
    """
    global _provider
    _provider = provider


def _buy(at_once: bool) -> None:
    global kernels
    kernels = _provider(at_once)


def set_eager_kernels(on: bool | None) -> None:
    """Set whether composites outside `wg.jit` are computed by compiled kernels.

    Parameters
    ----------
    on: None, which holds at first, where enough has been computed to pay for compiling: first for the
        start of LLVM, then for each combination of op and shapes; True from the first call on; False
        never. Results differ within rounding: set it where every call is to give the same bits.

    `WENGERT_EAGER_KERNELS=0` in the environment is False from the start. Without llvmlite NumPy
    computes everything. Raises DTypeError for anything else.

    >>> import wengert as wg
    >>> wg.set_eager_kernels(False)
    >>> wg.set_eager_kernels(None)
    """
    global kernels
    if on not in (None, False, True):
        fail(DTypeError, f"set_eager_kernels({on!r})", "It is True, False, or None for where it pays.")
    if on:
        _buy(at_once=True)
    else:
        kernels = Rented() if on is None else Off()


# Until something that compiles has registered, NumPy does everything.
_provider: Callable[[bool], Kernels] = lambda at_once: Off()
kernels: Kernels = Rented() if os.environ.get("WENGERT_EAGER_KERNELS") != "0" else Off()
