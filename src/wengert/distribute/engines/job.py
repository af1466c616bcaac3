"""Jobs: functions and scripts as processes, one for each rank, started by mpiexec."""

from __future__ import annotations

import importlib.util
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.errors import GraphError, fail
from ...core.state.capture import get_capture
from ...core.state.refusals import refuse
from ...execute.xla.api import is_installed
from ...ops.collective.group import current
from ..arguments import Parameters, as_function, whole_number
from ..carrying import Uncarried, called, carried, kind_of, read, script, with_all
from ..mesh import Mesh, OnMesh, written_for
from .jax_job import FOLDER, STOPPED, Processes, not_ended
from .mpi import ENDING, FAILURE, watchdog_seconds
from .simulation import simulate


def rank() -> int:
    """Return the number of the rank that this runs on, from 0; 0 outside of a job.

    It is known to Python code. A program that is traced once for all ranks (:func:`shard_map`, a step on a mesh) has
    :func:`axis_index` instead. Raises TraceError there, and in a compiled function that simulated ranks share.

    >>> import wengert as wg
    >>> wg.distribute.rank(), wg.distribute.simulate(2).run(wg.distribute.rank)
    (0, [0, 1])
    """
    written, group = written_for(), current()
    if written is not None:
        mesh, of_one = written
        names = ", ".join(f"wg.distribute.axis_index({name!r})" for name in mesh.names)
        refuse(
            f"rank() inside a program that all ranks of {mesh} run",
            f"It is traced once, so a number would be every rank's. A rank's place is {names}, a tensor."
            if of_one
            else "It is written for one process, on whole values, and means the same on every rank. What one rank "
            f"does is for wg.distribute.shard_map, where its place is {names}.",
        )
    if not isinstance(group, OnMesh):
        return 0
    if group.transport.shares_process and get_capture() is not None:
        refuse(
            "rank() inside a compiled function, in a simulation",
            "Simulated ranks share its programs, so a number would be every rank's. Write wg.distribute.axis_index"
            f"({group.mesh.names[0]!r}), a tensor, or pass the number as an argument.",
        )
    return group.transport.rank


def size() -> int:
    """Return how many ranks the job has that this runs in; 1 outside of a job.

    In a program for a mesh it is how many ranks the mesh has.
    """
    written, group = written_for(), current()
    if written is not None:
        return written[0].size
    return group.transport.size if isinstance(group, OnMesh) else 1


def lack(engine: str = "mpi") -> str:
    """Return the name of a missing package or program that ranks as processes need; "" if none is missing."""
    if engine == "xla":
        return "" if is_installed() else "jax"
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py"
    return "" if _mpiexec() else "mpiexec"


def _mpiexec() -> str | None:
    """Return where mpiexec is: that of this Python's environment, whether it is on the path or not, else the path's."""
    own = os.path.dirname(sys.executable)
    return shutil.which("mpiexec", path=own) or shutil.which("mpiexec")


_OWN = "The keyword is run's own: functools.partial({}, engine=...) gives the function's."
_SETTINGS = {
    # Open MPI asks before it runs as root, or more ranks than cores: in containers and on laptops both are usual.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_orte_abort_print_stack": "0",
}


def start(
    ranks: int, arguments: Sequence[str], variables: Mapping[str, str], engine: str = "mpi"
) -> subprocess.Popen[bytes] | Processes:
    """Start `python -m wengert.distribute` with these arguments and variables on each rank. Raises GraphError."""
    missing = lack(engine)
    if missing:
        extra, beside = ("mpi", " beside Open MPI or MPICH") if engine == "mpi" else ("xla", "")
        fail(
            GraphError,
            f"ranks as processes need {missing}, which is not there",
            f"pip install 'wengert[{extra}]'{beside}; wg.distribute.simulate(n) needs neither.",
        )
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    # One thread for each rank, where nothing else is said: ranks share the machine's cores.
    threads = {} if "WENGERT_NUM_THREADS" in os.environ else {"WENGERT_NUM_THREADS": str(_share(ranks))}
    command = [sys.executable, "-m", "wengert.distribute", "--engine", engine, *arguments]
    env = {**os.environ, **threads, **variables, "PYTHONPATH": path}
    if engine == "xla":
        return Processes(ranks, command, env)
    command = [_mpiexec() or "mpiexec", "-n", str(ranks), *command]
    return subprocess.Popen(command, env={**_SETTINGS, **env}, stdin=subprocess.DEVNULL)


def _share(ranks: int) -> int:
    return max(1, len(os.sched_getaffinity(0)) // ranks) if hasattr(os, "sched_getaffinity") else 1


def launch(ranks: int, script: str, arguments: Sequence[str] = (), engine: str = "mpi") -> int:
    """Run a Python script on each rank, as `wengert launch -n RANKS SCRIPT` does. Returns the exit status.

    Inside, collectives and programs on meshes are those of the job. With `engine="xla"` the processes are JAX's, each
    with a device, and what names no engine runs on XLA. An exception on one rank ends all. Raises GraphError where
    mpi4py or mpiexec (for "xla", jax) is not there, or the script is not.
    """
    if engine not in ("mpi", "xla"):
        fail(GraphError, f"launch with engine={engine!r}", 'It is "mpi" or "xla".')
    ranks = whole_number(ranks, f"a job of {ranks!r} ranks", "It has one or more.")
    if not isinstance(script, (str, os.PathLike)) or not Path(script).is_file():
        fail(GraphError, f"launch of {script!r}: there is no such file", "It takes the path of a Python script.")
    if not isinstance(arguments, (tuple, list)) or not all(isinstance(a, str) for a in arguments):
        fail(GraphError, f"launch with arguments={arguments!r}", 'It is a list of texts: ["--steps", "100"].')
    return _ended(ranks, ["script", os.fspath(script), *arguments], engine)


def _ended(ranks: int, arguments: Sequence[str], engine: str) -> int:
    """Start a job, and return its exit status when it has ended.

    Where all ranks have come to their end and one does not go (it is frozen), nobody of the job is there to tell: it is
    ended here.
    """
    with (
        _stopped_by_signals(),
        tempfile.TemporaryDirectory(prefix="wengert-ending-") as folder,
        _lifeline(Path(folder)),
    ):
        ending, failure = Path(folder) / "ending", Path(folder) / "failure"
        told = {ENDING: str(ending), FAILURE: str(failure), FOLDER: folder}
        job = start(ranks, arguments, told, engine)
        try:
            while True:
                try:
                    return job.wait(0.1)
                except subprocess.TimeoutExpired:
                    if failure.exists():
                        status = int(failure.read_text())
                        _stop(job)
                        return status
                    limit = watchdog_seconds()
                    if ending.exists() and time.time() - ending.stat().st_mtime > limit:
                        break
        except BaseException:
            _stop(job)
            raise
        _stop(job)
        print(not_ended(limit), file=sys.stderr)
        return STOPPED


# A pipe in a job's folder, which what has started the job holds open: its ranks end when it is closed.
LIFELINE = "lifeline"
# The exit status of a rank whose job has lost what has started it.
_LOST = 128 + signal.SIGTERM


@contextmanager
def _lifeline(folder: Path) -> Iterator[None]:
    """Hold a pipe open, which the system closes whatever ends this process."""
    if not hasattr(os, "mkfifo"):
        yield
        return
    os.mkfifo(folder / LIFELINE, 0o600)
    held = os.open(folder / LIFELINE, os.O_RDWR)
    try:
        yield
    finally:
        os.close(held)


def end_with_launcher() -> None:
    """End this rank when what has started its job has ended, by a signal that it cannot handle, say."""
    folder = os.environ.get(FOLDER)
    try:
        if folder is None or not hasattr(select, "poll"):
            return
        pipe = os.open(Path(folder) / LIFELINE, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:  # the job has begun on another machine
        return

    def wait() -> None:
        poll = select.poll()
        poll.register(pipe, 0)  # the end of a pipe is told in any case
        poll.poll()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(_LOST)

    threading.Thread(target=wait, name="wengert lifeline", daemon=True).start()


class _Stopped(BaseException):
    """A signal that ends this process, while it has a job."""


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let signals that would end this process at once end its job first."""
    found = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    is_main = threading.current_thread() is threading.main_thread()
    ours = [s for s in found if s is not None and is_main and signal.getsignal(s) is signal.SIG_DFL]
    caught: list[int] = []

    def stop(number: int, frame: Any) -> None:
        for s in ours:
            signal.signal(s, signal.SIG_IGN)  # the job is being ended
        caught.append(number)
        raise _Stopped

    for s in ours:
        signal.signal(s, stop)
    try:
        yield
    except _Stopped:
        pass
    finally:
        for s in ours:
            signal.signal(s, signal.SIG_DFL)
    if caught:
        os.kill(os.getpid(), caught[0])
        raise SystemExit(128 + caught[0])  # the first process of a container is not ended by it


def _stop(job: subprocess.Popen[bytes] | Processes) -> None:
    job.terminate()  # mpiexec ends the ranks
    try:
        job.wait(10)
    except subprocess.TimeoutExpired:
        job.kill()
        job.wait()


def run(
    fn: Callable[..., Any], ranks: int | Mesh, /, *args: Any, engine: str | None = None, **kwargs: Any
) -> list[Any]:
    """Run a function on each of so many ranks, and return what it returns on each, in order.

    Parameters
    ----------
    fn: called as `fn(*args, **kwargs)` on every rank. For processes of their own it, its arguments and its results are
        pickled, with functions and classes that no module has a name for.
    ranks: their number, along an axis called "ranks", or the mesh that they stand on. It and `fn` are given by position
        alone: all keywords but `engine` are those of `fn`.
    args, kwargs: what `fn` is given. Its own `engine`, where it has one, `functools.partial(fn, engine=...)` gives it.
    engine: "mpi" for a process each, "simulate" for all ranks in this process; None for "mpi" where mpi4py and mpiexec
        are there. Both give the same bits. "xla" for processes of JAX's, each with a device, where what names no
        engine runs on XLA.

    The first exception ends all ranks. Raises GraphError where a rank raised, with what it printed above, for results
    that cannot be sent, and for arguments that cannot be or that `fn` does not take, before a rank is started.

    >>> import wengert as wg
    >>> def work(x):
    ...     return wg.distribute.all_reduce(x, "ranks").tolist()
    >>> wg.distribute.run(work, 2, x=wg.ones(2), engine="simulate")
    [[2.0, 2.0], [2.0, 2.0]]
    """
    as_function(fn, "run")
    mesh = ranks if isinstance(ranks, Mesh) else Mesh(ranks=ranks)
    known = Parameters(fn)
    own = f" {_OWN.format(called(fn))}" if known.takes("engine") else ""
    if engine not in (None, "mpi", "simulate", "xla"):
        fail(GraphError, f"run with engine={engine!r}", f'It is "mpi", "xla", "simulate" or None.{own}')
    known.check(args, kwargs, "run", own if engine is not None else "")
    if engine == "simulate" or (engine is None and lack()):
        return simulate(mesh).run(fn, *args, **kwargs)
    if isinstance(current(), OnMesh):
        fail(
            GraphError,
            f"run of {called(fn)} on {mesh} inside of a job, whose ranks would each start another one",
            "Where a script starts ranks, each of them imports it: write what starts them under "
            '`if __name__ == "__main__":`.',
        )
    with tempfile.TemporaryDirectory(prefix="wengert-job-") as folder:
        call, main = _carried(fn, args, kwargs)
        payload = {"mesh": mesh.axes, "path": sys.path, "main": main, "call": call}
        (Path(folder) / "job").write_bytes(pickle.dumps(payload))
        status = _ended(mesh.size, ["call", folder], engine or "mpi")
        if status:
            told = Path(folder) / "error"
            found = told.read_text() if told.exists() else f"a rank ended with status {status}"
            what, _, mend = found.partition("\n")
            fail(GraphError, f"run of {called(fn)} on {mesh}: {what}", mend)
        return [_result(fn, i, (Path(folder) / f"result-{i}").read_bytes()) for i in range(mesh.size)]


def _result(fn: Callable[..., Any], rank: int, data: bytes) -> Any:
    try:
        return read(data)
    except Exception as e:
        fail(
            GraphError,
            f"the result of {called(fn)} on rank {rank} cannot be read here: {type(e).__name__}: {e}",
            "Return what it holds: tensors, arrays, numbers, texts, and containers of them.",
        )


def _carried(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, str | None]:
    """Return a call as bytes, and the script that ranks import before they read it, where it names what is there.

    What a session or another function has made has no name that a rank could find it by: it is taken along.
    Raises GraphError for what cannot be.
    """
    call, found = (fn, args, kwargs), script()
    try:
        dumped = pickle.dumps(call)
        names_main = b"__main__" in dumped
        if not names_main or found is not None:
            return dumped, found if names_main else None
    except Exception:  # what cannot be pickled may be taken along
        pass
    try:
        return with_all(call), None
    except Uncarried as e:
        why, mend = e.why, e.mend
    given = [*((f"argument {i}", x) for i, x in enumerate(args)), *((f"{k}=", x) for k, x in kwargs.items())]
    for name, x in given:
        try:
            carried(x)
        except Uncarried as e:
            fail(
                GraphError,
                f"run of {called(fn)}: {name}, {kind_of(x)}, cannot be sent to the ranks: {e.why}",
                f'{e.mend or "Make it in the function"}; or use engine="simulate".',
            )
    fail(
        GraphError,
        f"run of a function that cannot be pickled: {why}",
        f'{mend or "Define it at the top of a module"}; or use engine="simulate".',
    )
