"""Who takes part, and how a contender makes a problem ready. A library is imported when it is first asked for."""

from __future__ import annotations

import importlib.util
from typing import Any

import by_hand
import calls
import numpy as np
import training
from library import Library, Program
from problem import Arrays, Data, Problem, Sizes, as_double, error, start_of

PROBLEMS: dict[str, Problem] = {p.name: p for p in (*training.PROBLEMS, *calls.PROBLEMS)}
# Each contender, and the module that must be installed for it.
CONTENDERS = {
    "wengert": "wengert",
    "wengert.xla": "jax",
    "torch": "torch",
    "torch.compile": "torch",
    "jax": "jax",
    "numpy": "numpy",
}


def installed(contender: str) -> bool:
    """Whether its library is there."""
    return importlib.util.find_spec(CONTENDERS[contender]) is not None


def left_out(contender: str, problem: Problem) -> str | None:
    """Why the contender does not do the problem, or None where it does."""
    if contender == "numpy" and problem.name not in by_hand.PROGRAMS:
        return "not written by hand"
    return problem.without.get(contender)


def library(contender: str, dtype: str) -> Library:
    """The library of that name, ready for the dtype."""
    made: Library
    if contender.startswith("torch"):
        module = importlib.import_module("with_torch")
        made = module.CompiledTorch() if contender == "torch.compile" else module.Torch()
    elif contender == "jax":
        module = importlib.import_module("with_jax")
        module.jax.config.update("jax_enable_x64", dtype == "float64")
        made = module.Jax()
    else:
        engine = "xla" if contender == "wengert.xla" else "native"
        made = importlib.import_module("with_wengert").Wengert(contender.startswith("wengert"), engine)
    return made


def prepare(contender: str, problem: Problem, data: Data, sizes: Sizes) -> Program:
    """The problem made ready by a contender."""
    if contender == "numpy":
        return by_hand.PROGRAMS[problem.name](problem, data, sizes)
    return library(contender, problem.dtype).program(problem, data, sizes)


def reference(problem: Problem, data: Data, sizes: Sizes) -> Arrays:
    """The results by Wengert's interpreter, operation by operation in float64.

    The tests check its derivatives against differences; the peers check the formulas.
    """
    found = library("interpreter", "float64").program(problem, as_double(data), sizes).results()
    return {k: np.asarray(v, np.float64) for k, v in found.items()}


def check(problem: Problem, program: Program, reference: Any, data: Data) -> float:
    """How far the program is from the reference; raises where that is further than allowed."""
    off = error(program.results(), dict(reference), start_of(data))
    if not off <= problem.tolerance:
        raise AssertionError(f"{problem.name} is off by {off:.2e}, allowed are {problem.tolerance:.0e}")
    return off
