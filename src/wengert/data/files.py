"""Data in files: the embedded handwritten digits, and the IDX format of MNIST."""

from __future__ import annotations

import gzip
import math
import os
import zipfile
import zlib
from importlib import resources
from typing import Any

import numpy as np

from ..core.errors import DataError, fail

Array = np.ndarray[Any, Any]

_IDX_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def load_digits() -> tuple[Array, Array]:
    """Return the embedded handwritten digits: 1,797 images of 8x8 pixels and their labels.

    Returns `images`, float32 of shape (1797, 8, 8) scaled to 0..1, and `labels`, int64 of shape
    (1797,). Source: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
    doi:10.24432/C50P49, CC BY 4.0.

    Raises DataError when the installed file is damaged.

    >>> import wengert as wg
    >>> images, labels = wg.data.load_digits()
    >>> images.shape, int(labels[0])
    ((1797, 8, 8), 0)
    """
    path = resources.files(__package__) / "digits" / "digits.npz"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as e:
        fail(DataError, f"the embedded digits cannot be read: {e}", "Install wengert again: its data file is damaged.")
    if images.shape != (1797, 8, 8) or labels.shape != (1797,):
        fail(DataError, f"the embedded digits have shapes {images.shape} and {labels.shape}", "Install wengert again.")
    return images.astype(np.float32) / np.float32(16), labels.astype(np.int64)


def read_idx(path: str | os.PathLike[str]) -> Array:
    """Return the array in an IDX file, plain or gzip-compressed, in native byte order.

    The format of the MNIST files: two zero bytes, a type code, the number of dimensions, their
    sizes as big-endian 32-bit integers, then the elements. Described at
    yann.lecun.com/exdb/mnist.

    Raises DataError for a file that is missing, truncated, too long or not IDX.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            raw = file.read()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except FileNotFoundError:
        fail(DataError, f"no such file: {name}", "Give the folder or file that holds the data.")
    except (OSError, EOFError, zlib.error) as e:
        fail(DataError, f"{name} cannot be read: {e}", "The file is damaged or incomplete: fetch it again.")
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _IDX_DTYPES:
        fail(DataError, f"{name} is not an IDX file: it starts with {raw[:4].hex(' ') or 'nothing'}")
    dtype, ndim = np.dtype(_IDX_DTYPES[raw[2]]), raw[3]
    start = 4 + 4 * ndim
    if len(raw) < start:
        fail(DataError, f"{name} ends inside its header of {start} bytes, after {len(raw)}")
    shape = tuple(int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim))
    expected = math.prod(shape) * dtype.itemsize
    if len(raw) - start != expected:
        fail(
            DataError,
            f"{name} holds {len(raw) - start} bytes of data where its shape {shape} needs {expected}",
            "The file is truncated or damaged: fetch it again.",
        )
    return np.frombuffer(raw, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
