"""The user's own training script, run step by step.

A script for the playground is a Python file that defines one of

- `step()`: trains one step and returns the loss, a number or a tensor with one element;
- `run()`: a generator that trains one step and yields the loss, again and again. The run ends where it ends.

and, if it likes, `model` (a module) or `parameters` (a list or dict of tensors), whose sizes and gradients are then
shown. The file is run once, from its first line, whenever a run begins; `wg.manual_seed`, `random.seed` and
`numpy.random.seed` are called with the chosen seed before. What a script keeps is its own, so going back in time runs
it again from the start: exact where it draws its random numbers from those generators.
"""

from __future__ import annotations

import builtins
import linecache
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

import numpy as np

from ... import manual_seed
from ...core.tensor import Tensor
from ...nn import Module
from ..api import Exploration, explore
from ..document.document import said
from ..document.stats import num
from .controls import SEED, Value
from .run import Run, Shown

# Parameters that are shown.
MOST_SHOWN = 64
_MODULE = "__playground__"


class ScriptFault(Exception):
    """An error: the user's script raised, or ended. `told` is what the page shows: error, line, and its text."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["text"])
        self.told = told


class Script(Run):
    """The base of a script's run; `script_run` makes the class for a file."""

    name = "script"
    title = "Your own script"
    view = "script"
    keeps = False
    horizon = 200
    pace = 15.0
    controls = (SEED,)
    path: Path

    def __init__(self, options: dict[str, Value]) -> None:
        super().__init__(options)
        self.restart()

    def restart(self) -> None:
        self.loss = float("nan")
        self.module = ModuleType(_MODULE)
        self._next: Callable[[], Any] | None = None
        self.failed: ScriptFault | None = None
        try:
            self._load()
        except ScriptFault as e:
            # The page shows what is wrong; stepping says it again.
            self.failed = e

    def _load(self) -> None:
        seed = int(self.options["seed"])
        manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - scripts use it
        self._watched(self._execute)
        step, run = (getattr(self.module, name, None) for name in ("step", "run"))
        if callable(step):
            self._next = step
        elif callable(run):
            made = self._watched(run)
            if not isinstance(made, Iterator):
                raise ScriptFault(_told("run() is to be a generator: it yields the loss of every step"))
            self._next = made.__next__
        else:
            raise ScriptFault(_told("the script defines neither step() nor run()"))

    def _execute(self) -> None:
        self.module.__dict__.update(__file__=str(self.path), __builtins__=builtins)
        folder = os.path.abspath(self.path.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        # Its classes and functions name their module, which is then found.
        sys.modules[_MODULE] = self.module
        linecache.checkcache(str(self.path))
        exec(compile(self.path.read_bytes(), str(self.path), "exec", dont_inherit=True), self.module.__dict__)

    def _watched(self, act: Callable[[], Any]) -> Any:
        """Run some of the script; what it raises is a fault, which says where."""
        try:
            return act()
        except StopIteration:
            raise ScriptFault(_told("the script has come to its end")) from None
        except BaseException as e:  # it has a thread of its own: whatever it raises ends its step, and no more
            raise ScriptFault(_fault(e, self.path)) from e

    def step(self) -> None:
        if self.failed is not None or self._next is None:
            raise self.failed or ScriptFault(_told("the script has not begun"))
        found = self._watched(self._next)
        try:
            self.loss = float(found.item() if isinstance(found, Tensor) else found)
        except (TypeError, ValueError, OverflowError):
            raise ScriptFault(_told(f"a step gives its loss, a number, and not {type(found).__name__}")) from None

    def measure(self) -> tuple[float, ...]:
        return (self.loss,)

    def set(self, name: str, value: Value) -> None:
        self.options[name] = value

    def shown(self) -> Shown:
        rows = []
        fault = None if self.failed is None else self.failed.told
        try:
            parameters = self._watched(self._parameters)
        except ScriptFault as e:
            parameters, fault = {}, e.told
        for name, p in list(parameters.items())[:MOST_SHOWN]:
            grad = p.grad
            rows.append(
                {
                    "name": name[:80],
                    "shape": list(p.shape),
                    "size": num(_rms(p)),
                    "gradient": None if grad is None else num(_rms(grad)),
                }
            )
        return Shown({"file": self.path.name, "parameters": rows, "count": len(parameters), "fault": fault}, {})

    def _parameters(self) -> dict[str, Tensor]:
        """Return the script's parameters, by the names that it gives them."""
        model = getattr(self.module, "model", None)
        if isinstance(model, Module):
            return dict(model.named_parameters())
        given = getattr(self.module, "parameters", None)
        if isinstance(given, Mapping):
            return {str(k): p for k, p in given.items() if isinstance(p, Tensor)}
        if isinstance(given, (list, tuple)):
            return {str(i): p for i, p in enumerate(given) if isinstance(p, Tensor)}
        return {k: v for k, v in vars(self.module).items() if isinstance(v, Tensor) and v.requires_grad}

    def look(self) -> Exploration:
        """Take the next step and record it."""
        found = explore(self.step)
        error = found.recording.error
        if isinstance(error, ScriptFault):
            raise error
        return found


def script_run(path: Path) -> type[Run]:
    """Return the experiment that a script is."""
    return type("ScriptRun", (Script,), {"path": path, "aside": path.name})


def _rms(p: Tensor) -> float:
    array = np.abs(p.detach().numpy()).astype(np.float64)
    return float(np.sqrt(np.mean(np.square(array)))) if array.size else 0.0


def _told(text: str, file: str = "", line: int = 0, code: str = "") -> dict[str, Any]:
    return {"text": text, "file": file, "line": line, "code": code}


def _fault(error: BaseException, path: Path) -> dict[str, Any]:
    """Return the error in a line, with the last place in the script that led to it."""
    text = f"{type(error).__name__}: {said(error)}".rstrip(": ")
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return _told(f"{type(error).__name__}: {error.msg}", path.name, error.lineno or 0, (error.text or "").strip())
    line = _line(error.__traceback__, str(path))
    return _told(text[:2000], path.name, line, linecache.getline(str(path), line).strip())


def _line(tb: TracebackType | None, file: str) -> int:
    own = [number for frame, number in traceback.walk_tb(tb) if frame.f_code.co_filename == file]
    return own[-1] if own else 0
