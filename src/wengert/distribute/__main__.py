"""One rank of a job: `mpiexec -n N python -m wengert.distribute script train.py`."""

from __future__ import annotations

import pickle
import runpy
import sys
import time
import traceback
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core.errors import GraphError, WengertError, fail, is_own, trimmed
from ..execute.engines import XLA
from ..execute.engines import engine as default_engine
from ..ops.collective.group import entered
from .carrying import IMPORTED, read, result_of
from .engines.jax_job import ProcessTransport
from .engines.job import end_with_launcher, rank
from .engines.mpi import MPITransport
from .mesh import Mesh, OnMesh


def on_this_rank(engine: str, work: Callable[[], Any], mesh: Mesh | None, told: Path | None) -> None:
    """Do a rank's work; an exception ends the job, and is shown by the first rank that has one."""
    transport: MPITransport | ProcessTransport = ProcessTransport() if engine == XLA else MPITransport()
    status = 1
    try:
        group = entered(OnMesh(mesh or Mesh(ranks=transport.size), transport), process=True)
        with group, default_engine(XLA) if engine == XLA else nullcontext():
            work()
        transport.end()
        return
    except SystemExit as e:
        if not e.code:
            transport.end()
            return
        status = e.code if isinstance(e.code, int) else 1
        if transport.is_first_to_fail():
            ended = f"rank {transport.rank} ended by sys.exit({e.code!r})"
            if told is not None and not told.exists():
                told.write_text(ended)
            transport.tell(f"{ended}, of {transport.size} ranks\n" if isinstance(e.code, int) else f"{e.code}\n")
        else:
            time.sleep(5.0)  # the first one ends the job
    except BaseException as e:
        if transport.is_first_to_fail():
            shown = trimmed(e) if isinstance(e, WengertError) else e.with_traceback(_from_the_user_on(e.__traceback__))
            text = "".join(traceback.format_exception(shown))
            sys.stdout.flush()
            if told is not None and not told.exists():
                told.write_text(f"rank {transport.rank} raised {_text(e)}")
            transport.tell(f"rank {transport.rank} of {transport.size}:\n{text}")
        else:
            time.sleep(5.0)  # the first one ends the job
    sys.stdout.flush()
    transport.abort(status)


def _text(e: BaseException) -> str:
    """Return an exception's type and first line; of errors of Wengert's, and what to write instead."""
    try:
        text = str(e)
    except Exception:
        text = "its text cannot be made"
    return f"{type(e).__name__}: {text if isinstance(e, WengertError) else text.partition(chr(10))[0]}"


def _from_the_user_on(tb: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames that lead to the user's code; all of it where it does not come there."""
    at = tb
    while at is not None and (is_own(at.tb_frame) or at.tb_frame.f_code.co_filename == runpy.__file__):
        at = at.tb_next
    return at or tb


def main(arguments: list[str]) -> None:
    """Run this rank's part of a job."""
    end_with_launcher()
    engine = "mpi"
    if arguments[:1] == ["--engine"]:
        _, engine, *arguments = arguments
    kind, target, *rest = arguments
    if kind == "script":
        sys.argv = [target, *rest]
        sys.path[0] = str(Path(target).resolve().parent)
        on_this_rank(engine, lambda: runpy.run_path(target, run_name="__main__"), None, None)
        return
    folder = Path(target)
    payload = pickle.loads((folder / "job").read_bytes())

    def call() -> None:
        sys.path[:] = payload["path"]
        if payload["main"]:  # as multiprocessing has it: the script's functions, without what it runs as a program
            module = types.ModuleType(IMPORTED)
            module.__dict__.update(runpy.run_path(payload["main"], run_name=IMPORTED))
            sys.modules["__main__"] = sys.modules[IMPORTED] = module
        try:
            fn, args, kwargs = read(payload["call"])
        except AttributeError as e:
            fail(
                GraphError,
                f"run of a function that a rank does not find: {e}",
                "A rank imports the script, and finds by their names what stands at its top, not what is defined under "
                '`if __name__ == "__main__":`.',
            )
        except Exception as e:
            fail(
                GraphError,
                f"run of what rank {rank()} cannot read: {type(e).__name__}: {e}",
                "Functions and arguments are pickled. Make in the function what cannot be.",
            )
        (folder / f"result-{rank()}").write_bytes(result_of(fn, fn(*args, **kwargs), rank()))

    on_this_rank(engine, call, Mesh(payload["mesh"]), folder / "error")


if __name__ == "__main__":
    main(sys.argv[1:])
