"""Recording a script as `python script.py` would run it: `wengert explore script.py[:function]`."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.errors import GraphError, fail
from .names import name_leaves
from .reached import arrays, leaf_names, parameters, tensors
from .recorder import Recorder
from .recording import Recording, recorded


def record_script(
    path: str | os.PathLike[str],
    function: str | None = None,
    argv: Sequence[str] = (),
    *,
    step: int | None = None,
) -> Recording:
    """Run a script under the recorder.

    It runs as `__main__`, with its folder first on `sys.path`, `argv` behind its path in `sys.argv`, and in the
    working directory there is. With `function` the script is run as a module that is imported, and then that
    function, without arguments, is recorded. An exception, also `SystemExit` with a status, ends the recording and is
    kept in it.

    Raises GraphError for a script that cannot be read or compiled, or has no such function.
    """
    file = Path(path)
    try:
        text = file.read_bytes()
        code = compile(text, str(file), "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as e:
        fail(GraphError, f"the script cannot be run: {e}", "Give a Python file: wengert explore script.py.", str(file))
    recorder = Recorder(step)
    error: BaseException | None = None
    with _as_main(file, argv, "__main__" if function is None else file.stem) as module:
        if function is None:
            error = _recorded(recorder, lambda: exec(code, module.__dict__))
        else:
            exec(code, module.__dict__)
            called = module.__dict__.get(function)
            if not callable(called):
                fail(
                    GraphError,
                    f"the script has no function {function!r}",
                    "Give the name of one of its functions.",
                    str(file),
                )
            error = _recorded(recorder, called)
        recorder.settle(error is not None)
        variables = {**module.__dict__, **recorder.variables}
        variables = {name: value for name, value in variables.items() if not name.startswith("__")}
        reached = tensors(variables.items())
    recording = recorded(recorder)
    name_leaves(recording.rows, leaf_names(reached), arrays(variables.items()))
    recording.script = file.name
    recording.title = f"{function}()" if function is not None else file.stem
    recording.error = error
    recording.notes = recorder.notes()
    recording.parameters = parameters(reached)
    return recording


def _recorded(recorder: Recorder, run: Any) -> BaseException | None:
    """Run under the recorder, and return the error that ended it early, if any did."""
    with recorder.recording():
        try:
            run()
        except SystemExit as e:
            return None if e.code in (None, 0) else e
        except (Exception, KeyboardInterrupt) as e:
            return e
    return None


@contextmanager
def _as_main(file: Path, argv: Sequence[str], name: str) -> Iterator[ModuleType]:
    """Make a module for a script to run in, in an interpreter that looks as if it had been started with it."""
    module = ModuleType(name)
    module.__dict__.update(__file__=str(file), __builtins__=builtins)
    before = sys.argv, list(sys.path), sys.modules.get(name)
    folder = os.getcwd()
    sys.argv = [str(file), *argv]
    sys.path.insert(0, str(file.resolve().parent))
    sys.modules[name] = module
    try:
        yield module
    finally:
        # Where the script leaves the process: paths that were given, its own among them, are from here.
        with suppress(OSError):  # it may have removed it
            os.chdir(folder)
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before[2]
