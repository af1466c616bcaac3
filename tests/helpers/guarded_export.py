"""Run an exported program in memory that ends before pages without any right: what reaches beyond it ends the process.

    python guarded_export.py FOLDER

The folder holds the inputs, too: `in0.npy`, `in1.npy`, ...
"""

from __future__ import annotations

import ctypes
import mmap
import runpy
import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_libc = ctypes.CDLL(None)
_kept: list[Any] = []


def guarded(nbytes: int, align: int = 64) -> Array:
    """Return bytes that begin at a multiple of `align`, as near to the end of their pages as that lets them be."""
    pages = -(-nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE)
    _kept.append(memory)
    whole = np.frombuffer(memory, np.uint8)
    for page in (0, pages + 1):
        place = ctypes.c_void_p(whole.ctypes.data + page * mmap.PAGESIZE)
        assert _libc.mprotect(place, mmap.PAGESIZE, 0) == 0
    start = ((pages + 1) * mmap.PAGESIZE - nbytes) // align * align
    return whole[start : start + nbytes]


def as_guarded(array: Array) -> Array:
    """Return a copy of an array in such memory."""
    if array.nbytes == 0:
        return array
    element = array.itemsize // 2 if array.dtype.kind == "c" else array.itemsize
    made = guarded(array.nbytes, element).view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


class GuardedNumPy:
    """NumPy as `load.py` sees it: what a program is given, and what it fills, stands in such memory."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: Any, dtype: Any) -> Array:
        return as_guarded(np.zeros(shape, dtype))

    def require(self, array: Any, requirements: Any) -> Array:
        return as_guarded(np.require(array, requirements=requirements))


def main(folder: str) -> None:
    """Run the program twice."""
    model_class = runpy.run_path(f"{folder}/load.py")["Model"]
    names = model_class.__init__.__globals__
    names["aligned"], names["np"] = guarded, GuardedNumPy()
    model = model_class(folder)
    given = [np.load(f"{folder}/in{i}.npy").view(dtype) for i, (_, dtype, _) in enumerate(model.inputs)]
    for _ in range(2):
        model(*given)


if __name__ == "__main__":
    main(sys.argv[1])
