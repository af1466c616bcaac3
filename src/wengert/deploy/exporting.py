"""`wg.export`: a function as a folder of files that run without Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..core.errors import DataError, DTypeError, fail
from ..storage.files import folder_path, not_written
from ..version import __version__
from . import sources, web
from .built import Built, built
from .captured import captured
from .emission import check_llvm
from .naming import identifier
from .targets import host, named

FORMAT = "wengert.export/1"
# Targets that are files for browsers.
_WEB = ("js", "web")
_TEMPLATES = Path(__file__).with_name("templates")


class Exported(NamedTuple):
    """The result of an export: the folder, its files with their bytes, and the memory that a call needs.

    >>> import tempfile, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = wg.export(lambda x: wg.exp(x), wg.spec(3), f"{folder}/exp", target="riscv64-linux", name="exp_of")
    ...     sorted(made.files)
    ['exp_of.h', 'exp_of.o', 'load.py', 'main.c', 'manifest.json']
    """

    folder: str
    name: str
    target: str
    files: dict[str, int]
    memory: int

    def __str__(self) -> str:
        width = max(map(len, self.files))
        rows = [f"  {file:<{width}}  {size:>12,}" for file, size in sorted(self.files.items())]
        return "\n".join([f"{self.folder}: {self.name} for {self.target}, {self.memory:,} bytes of memory", *rows])


def export(
    fn: Callable[..., Any],
    specs: Any,
    folder: str | os.PathLike[str],
    *,
    target: str = "host",
    name: str | None = None,
    freeze: bool = False,
) -> Exported:
    """Write a function as a folder of files that run without Python: objects, a header, weights, a program in C.

    Parameters
    ----------
    fn: a function of tensors, a module, or a compiled function. What it finds outside and only reads (parameters) is
        its weights; what it writes (parameters in a training step, an optimiser's buffers, random generators, running
        averages) is its state.
    specs: the arguments' specs (`wg.spec((8, 784))`), or tensors and arrays like them; a tuple for several arguments,
        in pytrees like those that the function takes.
    folder: the folder to write; there is none yet, or it is empty.
    target: "host", or the name of another target; an error for an unknown one lists them. "js" is an ES module with
        WebAssembly, "web" a page that runs offline, in which inputs can be drawn and typed; arrays among the specs are
        what it begins with.
    name: what functions and files are called; None is the function's name.
    freeze: whether weights are constants: they are laid out for the processor once, by one more function, which makes
        products with few rows faster. Otherwise results are those of `wg.jit(fn)`, bit for bit on the same level of
        processor, and a file of weights with the same names, shapes and dtypes may take the place of this one.

    The [docs](https://wengert.dev/deploy) say what the files are. Raises GraphError for what only Python can do
    (decisions by values, callbacks, operations without native code) with the line that it stands in, and DataError
    for a folder that cannot be written; then nothing was written.

    >>> import tempfile, wengert as wg
    >>> model = wg.nn.Linear(4, 2)
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     made = wg.export(model, wg.spec((8, 4)), f"{parent}/model", target="aarch64-linux", name="linear")
    ...     sorted(made.files)
    ['linear.h', 'linear.o', 'load.py', 'main.c', 'manifest.json', 'weights.safetensors']
    """
    check_llvm()
    place = folder_path(folder, "wg.export")
    _check_free(place)
    if name is not None and not (isinstance(name, str) and name.isascii() and name.isidentifier()):
        fail(DTypeError, f"wg.export with the name {name!r}, which is none in C", "Give letters, digits and _.")
    platform = host() if target == "host" else named("wasm32" if target in _WEB else target, _WEB)
    program = captured(fn, specs, bool(freeze))
    made = built(program, platform, name or identifier(program.name))
    if target == "web":
        return written(made, place, {f"{made.name}.html": web.page(made, program.examples).encode()}, target)
    return written(made, place, files_of(made, target), target)


def files_of(made: Built, target: str) -> dict[str, bytes]:
    """Return the files of a program by their names, but for those that tools of the system make."""
    if target == "js":
        files = {f"{made.name}.wasm": web.module_of(made), f"{made.name}.mjs": web.script(made).encode()}
    else:
        files = {**made.objects, f"{made.name}.h": sources.header(made).encode(), "main.c": sources.main(made).encode()}
        files["load.py"] = (_TEMPLATES / "load.py").read_bytes()
    for layout, file in ((made.weights, "weights.safetensors"), (made.state, "state.safetensors")):
        if layout.nbytes:
            files[file] = layout.header + layout.data()
    files["manifest.json"] = manifest(made).encode()
    return files


def manifest(made: Built) -> str:
    """Return the manifest: what the program takes and gives, as JSON."""
    return json.dumps(
        {
            "format": FORMAT,
            "version": __version__,
            "target": made.platform.name,
            "levels": [level.name for level in made.platform.levels],
            "objects": [*made.objects],
            "digest": made.digest,
            "interface": made.interface,
        },
        indent=1,
    )


def _check_free(place: str) -> None:
    if os.path.isdir(place):
        with os.scandir(place) as found:
            if next(found, None) is not None:
                fail(DataError, f"{place} is not empty", "Give wg.export a new folder, or empty this one.")
    elif os.path.lexists(place):
        fail(DataError, f"{place} is no folder", "Give wg.export the path of a new folder.")


def written(made: Built, place: str, files: Mapping[str, bytes], target: str) -> Exported:
    """Write the files, and what the system's tools make of them, to a folder that takes its name when all are there."""
    parent, last = os.path.split(place)
    staged = os.path.join(parent, f".{last}.{uuid.uuid4().hex[:12]}.part")
    try:
        os.makedirs(staged)
        for file, content in files.items():
            with open(os.path.join(staged, file), "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
        if made.platform == host():
            _link(made, staged)
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(staged)}
        if os.path.isdir(place):
            os.rmdir(place)
        os.rename(staged, place)
    except OSError as e:
        shutil.rmtree(staged, ignore_errors=True)
        not_written(place, e)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return Exported(place, made.name, made.platform.name if target == "host" else target, sizes, made.nbytes)


def _link(made: Built, folder: str) -> None:
    """Make the shared object that `load.py` loads, where there is a C compiler: without one `load.py` says so."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        return
    library = shared_name(made)
    command = [compiler, "-shared", "-o", library, *made.objects]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode and os.path.exists(os.path.join(folder, library)):
        os.unlink(os.path.join(folder, library))


def shared_name(made: Built) -> str:
    """Return the name of the shared object."""
    ends = {"elf": "so", "macho": "dylib", "coff": "dll"}
    return f"lib{made.name}.{ends.get(made.platform.format, 'so')}"
