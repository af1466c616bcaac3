"""Steps outside of compiled functions as native programs, once an optimiser has repeated them often enough.

A step of NumPy's costs the time of some dozen calls for each parameter; a program makes all of them in one. Making the
program takes some milliseconds, so it is rented before it is bought (see :mod:`wengert.core.ops.kernels`): by numbers
of parameters and elements, not by measured times, so that a program does the same in every run. The program is a
compiled function's: it is checked before every step, and whatever changes (a parameter that has no gradient, another
option) leads to another trace. Where traces do not end, NumPy makes the steps again, and the next program costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.ops import kernels
from ..core.state.locks import imported
from ..core.state.refusals import OF_TRACES
from ..core.tensor import Tensor

# The estimate of NumPy's time for a parameter's step, in the nanoseconds that eager kernels are reckoned in.
PER_PARAMETER, PER_ELEMENT = 15_000, 4
# The cost of a program in the same: for all of it, and for each parameter.
PROGRAM, PROGRAM_PER_PARAMETER = 10_000_000, 1_000_000
# The prefix of the modules of this library.
_PACKAGE = __name__.partition(".")[0] + "."
# A program that was traced so often does not pay. One more trace might warn of code that no user has written.
_MOST_TRACES = 4


class Repeated:
    """The program of an optimiser's steps, or what was spent without one. `fit` is False where there can be none."""

    __slots__ = ("cost", "fit", "price", "program", "spent")

    def __init__(self, rule: type, is_elementwise: bool, params: Sequence[Tensor]) -> None:
        # A rule of users' is Python code, which runs at every step.
        self.fit = is_elementwise and rule.__module__.startswith(_PACKAGE)
        self.price = PER_PARAMETER * len(params) + PER_ELEMENT * sum(p.size for p in params)
        self.cost = PROGRAM + PROGRAM_PER_PARAMETER * len(params)
        self.spent = 0
        self.program: Any = None

    def step(self, optimizer: Any) -> bool:
        """Make a step by the program, if there is one or it pays now; return whether it was made."""
        if not self.fit:
            return False
        program = self.program
        if program is None:
            self.spent += self.price
        elif program.history.count >= _MOST_TRACES:
            self.program, self.spent, self.cost = None, 0, 2 * self.cost
            return False
        if not kernels.kernels.pays(self.price if program is None else 0, self.spent, self.cost):
            return False
        if program is None:
            jit = imported("..execute.jit.jit", __package__).jit
            program = self.program = jit(_step, name="step", engine="native")
        try:
            program(optimizer)
        except OF_TRACES:  # nothing has changed
            self.program, self.fit = None, False
            return False
        return True


def _step(optimizer: Any) -> None:
    optimizer.step_by_rule()
