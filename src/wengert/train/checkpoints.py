"""Checkpoints of a whole training state: written so that a good one is there at any moment, and checked when read.

A checkpoint is a folder `checkpoint-000012` in the folder that the caller names, with one safetensors file for each
part and `manifest.json`, which has the size and CRC-32 of each. It is written under another name, brought to the disk
and renamed; then `latest`, a file with its name, is replaced. Numbers only grow. What is older than the last few is
deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random as python_random
import re
import shutil
import socket
import time
import uuid
import zlib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.errors import DataError, WengertError, fail, first_line, warn
from ..ops.random.generator import get_rng_state, set_rng_state
from ..storage.files import Path, folder_path, not_written, sync
from ..storage.safetensors_files import load, save
from .pieces import Reader

FORMAT, VERSION = "wengert checkpoint", 1
# The version of checkpoints that several processes wrote: arrays in pieces, see `pieces`.
IN_PIECES = 2
MANIFEST, LATEST = "manifest.json", "latest"
_NAME = re.compile(r"checkpoint-(\d{6,18})")
_STAGED = ".staged-"
_GONE = ".gone-"
# A folder of a process that cannot be asked about is left alone for so many seconds.
_ABANDONED = 24 * 3600.0
_CHUNK = 1 << 22

# The generators that programs share, by the name under which they are asked for: how they tell and take their states.
_SHARED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "wengert": (get_rng_state, set_rng_state),
    "python": (python_random.getstate, python_random.setstate),
    "numpy": (np.random.get_state, np.random.set_state),
}
RANDOM = "random."


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was loaded: its step, its folder, the parts that are plain data, and which were passed over.

    `skipped` has the folder and the reason for each checkpoint that was newer and not good.
    """

    step: int | None
    path: str
    values: Mapping[str, Any] = field(default_factory=dict)
    skipped: tuple[tuple[str, str], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


def save_checkpoint(
    folder: Path, *, step: int | None = None, keep: int = 3, random: Iterable[str] = ("wengert",), **parts: Any
) -> str:
    """Write a checkpoint of a training state, and return its folder.

    Parameters
    ----------
    folder: where checkpoints are kept; it is made where it is missing.
    step: a number to go on from.
    keep: how many checkpoints stay; the oldest are deleted after the new one is there.
    random: the shared generators whose states are saved: "wengert" (`wg.random`), "python", "numpy".
    parts: what is saved, by name: modules, optimisers, schedules, loaders and whatever else has `state_dict()`,
        generators (Wengert's, NumPy's, Python's), and plain data (numbers, texts, tensors in dicts and lists).

    A process may be killed at any moment, the disk may be full, others may write to the same folder: the last good
    checkpoint stays. Raises DataError for a part that cannot be saved, and where the folder cannot be written to.

    >>> import tempfile, wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> optimizer = wg.optim.Adam(model.parameters())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = wg.train.save_checkpoint(folder, model=model, optimizer=optimizer, step=7)
    ...     found = wg.train.load_checkpoint(folder, model=model, optimizer=optimizer)
    >>> found.step
    7
    """
    where = folder_path(folder, "save_checkpoint")
    step, keep = checked_numbers(step, keep)
    states = {name: state_of(name, part) for name, part in parts.items()}
    states |= {RANDOM + name: state for name, state in random_states(random).items()}
    staged = staged_name(where)
    try:
        os.makedirs(where, exist_ok=True)
        try:
            os.mkdir(staged)
            _write(staged, states, step)
            path = _place(staged, where)
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
        _point(where, os.path.basename(path))
    except OSError as e:
        not_written(where, e)
    _prune(where, keep)
    return path


def checked_numbers(step: Any, keep: Any) -> tuple[int | None, int]:
    """Return the step of a checkpoint, and how many are kept. Raises DataError for what is no such number."""
    if isinstance(keep, bool) or not isinstance(keep, (int, np.integer)) or keep < 1:
        fail(DataError, f"keep={keep!r}", "At least one checkpoint is kept.")
    if step is not None and (isinstance(step, bool) or not isinstance(step, (int, np.integer))):
        fail(
            DataError,
            f"step={step!r}",
            "It is a whole number; what else is to be saved is a part, by a name of its own.",
        )
    return None if step is None else int(step), int(keep)


def random_states(names: Iterable[str]) -> dict[str, Any]:
    """Return the states of shared generators: "wengert", "python", "numpy". Raises DataError for another name."""
    found = {}
    for name in names if isinstance(names, Iterable) and not isinstance(names, str) else [names]:
        if not isinstance(name, str) or name not in _SHARED:
            fail(DataError, f"random={name!r}", f"The shared generators are: {', '.join(_SHARED)}.")
        found[name] = _SHARED[name][0]()
    return found


def set_random_states(states: Mapping[str, Any]) -> None:
    """Set shared generators to states that :func:`random_states` returned."""
    for name, state in states.items():
        _SHARED[name][1](state)


def state_of(name: str, part: Any) -> Any:
    """Return the state of a part: plain data, or what an object tells of itself. Raises DataError for its name."""
    if not name.isidentifier():
        fail(DataError, f"a part with the name {name!r}", "Names of parts are identifiers.")
    if hasattr(part, "state_dict"):
        return dict(part.state_dict())
    if hasattr(part, "get_state") and hasattr(part, "set_state"):
        return part.get_state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    if isinstance(part, python_random.Random):
        return part.getstate()
    return part


def _restore(part: Any, state: Any) -> bool:
    """Give an object its state. Return False for plain data, which has none to be given."""
    if hasattr(part, "load_state_dict"):
        part.load_state_dict(state)
    elif hasattr(part, "get_state") and hasattr(part, "set_state"):
        part.set_state(state)
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = state
    elif isinstance(part, python_random.Random):
        part.setstate(state)
    else:
        return False
    return True


# -- writing


def _write(staged: str, states: Mapping[str, Any], step: int | None) -> None:
    files = {}
    for name, state in states.items():
        file = os.path.join(staged, f"{name}.safetensors")
        save(file, state)
        nbytes, crc = checksum(file)
        files[name] = {"file": os.path.basename(file), "bytes": nbytes, "crc32": f"{crc:08x}"}
    _write_manifest(staged, {"format": FORMAT, "version": VERSION, "step": step, "parts": files})


def _write_manifest(folder: str, manifest: Mapping[str, Any]) -> None:
    """Write the manifest of a folder whose other files are there: it is a checkpoint from then on."""
    sync(folder)
    text = json.dumps(manifest, indent=1)
    body = {**manifest, "crc32": f"{zlib.crc32(text.encode()):08x}"}
    temporary = staged_name(folder)
    _write_text(temporary, json.dumps(body, indent=1))
    os.replace(temporary, os.path.join(folder, MANIFEST))
    sync(folder)


def stage(where: str, in_place: bool) -> str:
    """Make the folder that a new checkpoint is written into: under another name, or `in_place` under its own."""
    try:
        os.makedirs(where, exist_ok=True)
        if not in_place:
            made = staged_name(where)
            os.mkdir(made)
            return made
        number = max((n for n, _ in _present(where)), default=0)
        while True:
            number += 1
            made = os.path.join(where, f"checkpoint-{number:06d}")
            with contextlib.suppress(FileExistsError):
                os.mkdir(made)
                return made
    except OSError as e:
        not_written(where, e)
        raise


def commit(where: str, folder: str, index: Mapping[str, Any], keep: int, in_place: bool) -> str:
    """Make a folder of pieces a checkpoint: by its manifest, and by a rename where it is not `in_place`."""
    try:
        _write_manifest(folder, {"format": FORMAT, "version": IN_PIECES, **index})
        path = folder if in_place else _place(folder, where)
        _point(where, os.path.basename(path))
    except OSError as e:
        not_written(where, e)
        raise
    _prune(where, keep)
    return path


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def checksum(file: str) -> tuple[int, int]:
    """Return the size and the CRC-32 of a file."""
    nbytes = crc = 0
    with open(file, "rb") as opened:
        while chunk := opened.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
            nbytes += len(chunk)
    return nbytes, crc


def _place(staged: str, where: str) -> str:
    """Give a complete folder its name: the next number that no other process takes first."""
    number = max((n for n, _ in _present(where)), default=0)
    while True:
        number += 1
        path = os.path.join(where, f"checkpoint-{number:06d}")
        if os.path.exists(path):
            continue
        try:
            os.rename(staged, path)  # fails where there is a folder that has something in it
        except OSError:
            if not os.path.exists(path):
                raise
            continue
        sync(where)
        return path


def _point(where: str, name: str) -> None:
    temporary = staged_name(where)
    try:
        _write_text(temporary, name + "\n")
        os.replace(temporary, os.path.join(where, LATEST))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    sync(where)


def _present(where: str) -> list[tuple[int, str]]:
    """Return the checkpoints in a folder, oldest first."""
    with contextlib.suppress(FileNotFoundError):
        found = [(m, name) for name in os.listdir(where) if (m := _NAME.fullmatch(name))]
        return sorted((int(m[1]), name) for m, name in found)
    return []


def _pointed(where: str) -> str | None:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(os.path.join(where, LATEST), encoding="utf-8") as file:
        name = file.read(64).strip()
        return name if _NAME.fullmatch(name) else None
    return None


def _prune(where: str, keep: int) -> None:
    """Delete what is older than the last few, and what ended processes left. What cannot be deleted stays."""
    pointed = _pointed(where)
    for _, name in _present(where)[:-keep]:
        if name == pointed:
            continue
        # Under another name first: half of a checkpoint is none.
        gone = os.path.join(where, f"{_GONE}{name}-{uuid.uuid4().hex[:8]}")
        with contextlib.suppress(OSError):
            os.rename(os.path.join(where, name), gone)
            shutil.rmtree(gone, ignore_errors=True)
    with contextlib.suppress(OSError):
        for name in os.listdir(where):
            path = os.path.join(where, name)
            if name.startswith(_GONE) or (name.startswith(_STAGED) and _is_abandoned(name, path)):
                if os.path.isdir(path):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(path)


def staged_name(where: str) -> str:
    """Return a name for what is not complete, which tells whose it is."""
    return os.path.join(where, f"{_STAGED}{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())[:40]


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except OSError:
        return 0.0


def _is_abandoned(name: str, path: str) -> bool:
    host, _, rest = name.removeprefix(_STAGED).rpartition("-")[0].rpartition("-")
    if host == _host() and os.name == "posix" and rest.isdigit():
        try:
            os.kill(int(rest), 0)  # asks whether the process is there, and does nothing to it
        except ProcessLookupError:
            return True
        except OSError:
            return False
    return _age(path) > _ABANDONED


# -- reading


def load_checkpoint(folder: Path, **parts: Any) -> Checkpoint | None:
    """Give objects the states of the last good checkpoint in a folder; None where none was ever saved there.

    Parameters
    ----------
    folder: as given to :func:`save_checkpoint`, or one checkpoint in it.
    parts: the objects by the names under which they were saved; they take their states in place.

    The states of shared generators are restored too. Parts that are plain data, and those that are not given here, are
    in `values` of the result. The checkpoint is the one that the file `latest` names; where it is not good (a file is
    missing or its checksum is another) a warning says so, and the newest good one is taken.

    Raises DataError where there are checkpoints and none is good, or the good one lacks a part that is asked for;
    StateError where a state does not fit its object.

    >>> import tempfile, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     before = wg.train.load_checkpoint(folder)
    ...     _ = wg.train.save_checkpoint(folder, step=1, losses=[0.5, 0.25])
    ...     wg.train.load_checkpoint(folder)["losses"]
    [0.5, 0.25]
    """
    return restore(folder, parts)


def restore(folder: Path, parts: Mapping[str, Any], in_pieces: Container[str] = ()) -> Checkpoint | None:
    """Load a checkpoint; parts that are named `in_pieces` are in its values as a :class:`Reader` of their arrays."""
    where = folder_path(folder, "load_checkpoint")
    skipped: list[tuple[str, str]] = []
    tried: set[str] = set()
    found: tuple[dict[str, Any], dict[str, Any]] | None = None
    path = where
    # Another process may delete what it finds too old while it is read here: then there is a newer one.
    while found is None and (name := _next(where, tried)) is not None:
        tried.add(name)
        path = os.path.join(where, name) if name else where
        try:
            found = _read(path, in_pieces)
        except (WengertError, OSError, ValueError, KeyError, TypeError) as e:
            if os.path.exists(path):
                skipped.append((path, first_line(e) if isinstance(e, WengertError) else f"{type(e).__name__}: {e}"))
    told = "; ".join(f"{os.path.basename(p)}: {why}" for p, why in skipped)
    if found is None:
        if skipped:
            fail(DataError, f"{where} has no good checkpoint", told)
        return None
    manifest, states = found
    if skipped:
        warn(f"checkpoint passed over, {os.path.basename(path)} is loaded in its place: {told}")
    missing = [name for name in parts if name not in states]
    if missing:
        has = ", ".join(n for n in states if not n.startswith(RANDOM))
        fail(DataError, f"{path} has no part {', '.join(map(repr, missing))}", f"It has: {has}.")
    values = {}
    for name, state in states.items():
        if name.startswith(RANDOM):
            set_random_states({name.removeprefix(RANDOM): state})
        elif name not in parts or not _restore(parts[name], state):
            values[name] = state
    return Checkpoint(manifest["step"], path, values, tuple(skipped))


def _next(where: str, tried: set[str]) -> str | None:
    """Return the name of the checkpoint to try: the one that `latest` names, then the newest; "" for the folder."""
    if os.path.exists(os.path.join(where, MANIFEST)):
        return None if "" in tried else ""
    pointed = _pointed(where)
    names = [name for _, name in reversed(_present(where))]
    first = [pointed] if pointed in names or (pointed is not None and not names) else []
    return next((name for name in [*first, *names] if name is not None and name not in tried), None)


def _read(path: str, in_pieces: Container[str] = ()) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the manifest and the states of a checkpoint whose files are what the manifest says."""
    with open(os.path.join(path, MANIFEST), encoding="utf-8") as file:
        manifest = json.load(file)
    crc = manifest.pop("crc32", "")
    if crc != f"{zlib.crc32(json.dumps(manifest, indent=1).encode()):08x}":
        fail(DataError, f"{MANIFEST} is damaged: its checksum is another")
    if manifest["format"] != FORMAT or manifest["version"] not in (VERSION, IN_PIECES):
        fail(DataError, f"{MANIFEST} is of version {manifest['version']}, which is not known")
    if manifest["version"] == IN_PIECES:
        for name in manifest["files"]:
            if not os.path.exists(os.path.join(path, os.path.basename(name))):
                fail(DataError, f"{name} is missing")
        reader = Reader(path, manifest, lambda name: _check(path, name, manifest["files"][name]))
        parts = manifest["parts"]
        return manifest, {name: reader if name in in_pieces else reader.part(name) for name in parts}
    for entry in manifest["parts"].values():
        _check(path, entry["file"], entry)
    states = {
        name: load(os.path.join(path, os.path.basename(entry["file"]))) for name, entry in manifest["parts"].items()
    }
    return manifest, states


def _check(path: str, name: str, entry: Mapping[str, Any]) -> None:
    """Raise DataError unless a file is what the manifest says."""
    nbytes, found = checksum(os.path.join(path, os.path.basename(name)))
    if nbytes != entry["bytes"] or f"{found:08x}" != entry["crc32"]:
        what = f"{nbytes:,} bytes of {entry['bytes']:,}" if nbytes != entry["bytes"] else "another checksum"
        fail(DataError, f"{name} is damaged: it has {what}")


@dataclass(frozen=True)
class Surveyed:
    """A checkpoint in a folder: its step, its parts and bytes, and what is wrong with it."""

    name: str
    step: int | None
    parts: tuple[str, ...]
    nbytes: int
    problem: str | None


def survey(folder: Path) -> list[Surveyed]:
    """Return the checkpoints in a folder, oldest first, each read and checked."""
    where = os.path.abspath(os.fspath(folder))
    single = os.path.exists(os.path.join(where, MANIFEST))
    found = []
    for name in [os.path.basename(where)] if single else [name for _, name in _present(where)]:
        try:
            manifest, _ = _read(where if single else os.path.join(where, name))
        except (WengertError, OSError, ValueError, KeyError, TypeError) as e:
            found.append(Surveyed(name, None, (), 0, first_line(e) if isinstance(e, WengertError) else str(e)))
            continue
        parts = manifest["parts"]
        files = parts if manifest["version"] == VERSION else manifest["files"]
        found.append(Surveyed(name, manifest["step"], tuple(parts), sum(f["bytes"] for f in files.values()), None))
    return found
