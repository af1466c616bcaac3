"""Run the program of this folder from Python, with NumPy alone: `Model("folder")(x)`.

python load.py           print what the program takes, gives and keeps, and run it once on zeros
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from typing import Any

import numpy as np

FORMAT = "wengert.export/1"
ALIGN = 64
# Dtypes that NumPy alone has not: their elements are held as integers.
_HELD = {"bfloat16": "uint16", **{f"float8_{e}": "uint8" for e in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")}}
_ENDS = {"win32": "dll", "darwin": "dylib"}


class Error(Exception):
    """An error of a program's files, or of its inputs."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype of arrays by its name in the manifest."""
    return np.dtype(_HELD.get(name, name))


def aligned(nbytes: int) -> np.ndarray[Any, Any]:
    """Return bytes of memory that start on a boundary, zeros at first."""
    memory = np.zeros(nbytes + ALIGN, np.uint8)
    start = -memory.ctypes.data % ALIGN
    return memory[start : start + nbytes]


class Block:
    """The arrays of a safetensors file in one block of memory: `arrays` by name, over its bytes."""

    def __init__(self, path: str, told: dict[str, Any]) -> None:
        self.path = path
        self.memory = aligned(told["bytes"])
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        for one in told["arrays"]:
            dtype, shape, place = dtype_of(one["dtype"]), tuple(one["shape"]), one["place"]
            nbytes = dtype.itemsize * math.prod(shape)
            self.arrays[one["name"]] = self.memory[place : place + nbytes].view(dtype).reshape(shape)
        self.read(path)

    def read(self, path: str) -> None:
        """Read the values from a file with the same arrays at the same places."""
        with open(path, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            if not 0 < size <= os.path.getsize(path):
                raise Error(f"{path} is no safetensors file")
            self.header = file.read(size)
            data = file.read()
        header = json.loads(self.header)
        names = {name for name in header if name != "__metadata__"}
        if names != set(self.arrays) or len(data) != self.memory.nbytes:
            raise Error(f"{path} has other arrays than this program")
        places = {n: a.ctypes.data - self.memory.ctypes.data for n, a in self.arrays.items() if a.size}
        for name, place in places.items():
            begin, end = header[name]["data_offsets"]
            pairs = [2] if self.arrays[name].dtype.kind == "c" else []
            if (
                begin != place
                or end - begin != self.arrays[name].nbytes
                or header[name]["shape"]
                != [
                    *self.arrays[name].shape,
                    *pairs,
                ]
            ):
                raise Error(f"{path}: {name} has another shape, or stands elsewhere, than in this program")
        self.memory[:] = np.frombuffer(data, np.uint8)

    def save(self, path: str) -> None:
        """Write the values to a safetensors file."""
        with open(path, "wb") as file:
            file.write(len(self.header).to_bytes(8, "little") + self.header + self.memory.tobytes())


class Model:
    """A program: called with its inputs, it returns its outputs, one array or a tuple.

    `weights` and `state` are arrays by name, which may be read and written between calls; None where there are none.
    """

    def __init__(self, folder: str = os.path.dirname(os.path.abspath(__file__))) -> None:
        try:
            with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
                manifest = json.load(file)
            if manifest["format"] != FORMAT:
                raise Error(f"the manifest is of the format {manifest['format']!r}, not {FORMAT!r}")
            told = manifest["interface"]
            library = ctypes.CDLL(_library(folder, manifest, str(told["name"])))
            # The object knows the hash of all that is relied on here: another manifest is not its own.
            known = bytes((ctypes.c_ubyte * 32).in_dll(library, f"{told['name']}_interface"))
            if hashlib.sha256(json.dumps(told, sort_keys=True).encode()).digest() != known:
                raise Error("the manifest is not that of the object: one of them was changed")
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise Error(f"{folder} holds no program that can be run: {type(e).__name__}: {e}") from e
        self.folder, self.interface = folder, told
        try:
            self._open(told)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as e:
            raise Error(f"{folder} holds weights that cannot be read: {type(e).__name__}: {e}") from e
        self._run = getattr(library, f"{told['name']}_run")
        if told["ready"]:
            self._stop_on(getattr(library, f"{told['name']}_prepare")(self._call(self._fixed)))

    def _open(self, told: dict[str, Any]) -> None:
        def block(name: str) -> Block | None:
            return Block(os.path.join(self.folder, f"{name}.safetensors"), told[name]) if told[name]["bytes"] else None

        self._weights, self._state = block("weights"), block("state")
        self.weights = None if self._weights is None else self._weights.arrays
        self.state = None if self._state is None else self._state.arrays
        self._memory, self._ready = aligned(told["memory"]), aligned(told["ready"])
        fixed = {
            "weights": self._weights and self._weights.memory,
            "state": self._state and self._state.memory,
            "ready": self._ready,
            "memory": self._memory,
        }
        self._fixed = [fixed.get(f["role"]) for f in told["fields"]]
        self.inputs = [(f["name"], dtype_of(f["dtype"]), tuple(f["shape"])) for f in self._of("input")]
        self.outputs = [(f["name"], dtype_of(f["dtype"]), tuple(f["shape"])) for f in self._of("output")]

    def _of(self, role: str) -> list[dict[str, Any]]:
        return [f for f in self.interface["fields"] if f["role"] == role]

    @staticmethod
    def _call(arrays: list[Any]) -> Any:
        return (ctypes.c_void_p * len(arrays))(*(None if a is None else a.ctypes.data for a in arrays))

    def _stop_on(self, code: int) -> None:
        if code > 0:
            raise Error(self.interface["errors"][code - 1])
        if code < 0:
            raise Error(f"the program returned {code}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on arrays of the inputs' shapes and dtypes, by position or by name. Raises Error for others."""
        names = [name for name, _, _ in self.inputs]
        if len(args) > len(names) or not {*kwargs} <= {*names[len(args) :]}:
            raise Error(f"the program takes {', '.join(names) or 'nothing'}")
        given = dict(zip(names, args)) | kwargs
        arrays: list[Any] = []
        for name, dtype, shape in self.inputs:
            if name not in given:
                raise Error(f"the input {name} is missing")
            array = np.asarray(given[name])
            if array.shape != shape or array.dtype != dtype:
                raise Error(f"{name} is {array.dtype}{list(array.shape)}, and the program takes {dtype}{list(shape)}")
            arrays.append(np.require(array, requirements=("C", "A")))
        results = [np.empty(shape, dtype) for _, dtype, shape in self.outputs]
        left = iter([*arrays, *results])
        call = [f if f is not None else next(left) for f in self._fixed]
        self._stop_on(self._run(self._call(call)))
        return results[0] if len(results) == 1 else tuple(results)

    def save_state(self, path: str) -> None:
        """Write the state to a safetensors file, which `load_state` and programs in C read."""
        if self._state is not None:
            self._state.save(path)

    def load_state(self, path: str) -> None:
        """Read the state from a file that `save_state` wrote."""
        if self._state is not None:
            self._state.read(path)


def _library(folder: str, manifest: dict[str, Any], name: str) -> str:
    """Return the path of the shared object, made by the C compiler where there is none yet."""
    path = os.path.join(os.path.abspath(folder), f"lib{name}.{_ENDS.get(sys.platform, 'so')}")
    if not os.path.exists(path):
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        objects = [os.path.basename(str(o)) for o in manifest["objects"]]
        command = [compiler or "cc", "-shared", "-o", os.path.basename(path), *objects]
        if compiler is None or subprocess.run(command, cwd=folder, check=False).returncode:
            raise Error(f"there is no {os.path.basename(path)}. Make it in the folder: {' '.join(command)}")
    return path


if __name__ == "__main__":
    model = Model()
    for what, values in (("takes", model.inputs), ("gives", model.outputs)):
        print(what, ", ".join(f"{name}: {dtype}{list(shape)}" for name, dtype, shape in values))
    for what, arrays in (("weights", model.weights), ("state", model.state)):
        print(what, ", ".join(arrays or ["none"]))
    print(model(*(np.zeros(shape, dtype) for _, dtype, shape in model.inputs)))
