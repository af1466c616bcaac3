"""Files as datasets: objects with a length, whose sample `i` is `d[i]`, for any loader and any number of processes.

A file is opened where it is first read, so that workers each open it themselves; a dataset can be pickled.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import DataError, RangeError, fail
from .rows import rows_of

Path = str | os.PathLike[str]

_IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")


def _place(index: Any, count: int) -> int:
    at = int(index)
    if not -count <= at < count:
        fail(RangeError, f"sample {at} of {count}")
    return at % count if count else at


class NumpyFiles:
    """The rows of NumPy's files: `.npy` files side by side, or the arrays of one `.npz` file.

    A `.npy` file is mapped into memory: of a file larger than the memory only the rows that are asked for are read.

    Parameters
    ----------
    paths: files. Of one `.npy` file a sample is a row, of several the tuple of their rows, of a `.npz` file the dict.

    Raises DataError for files that cannot be read, and for arrays of different lengths.

    >>> import os, tempfile
    >>> import numpy as np, wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.npy")
    ...     np.save(path, np.arange(6.0).reshape(3, 2))
    ...     wg.data.NumpyFiles(path)[1]
    array([2., 3.])
    """

    def __init__(self, *paths: Path) -> None:
        self.paths = [os.fspath(p) for p in paths]
        if not paths or (len(paths) > 1 and any(p.endswith(".npz") for p in self.paths)):
            fail(DataError, f"NumpyFiles of {len(paths)} paths", "Give .npy files, or one .npz file.")
        self._arrays: Any = None
        lengths = {len(a) if a.ndim else None for a in self._each()}
        if len(lengths) != 1 or None in lengths:
            fail(DataError, f"arrays of shapes {', '.join(str(a.shape) for a in self._each())} in {self.paths}")
        self._length = lengths.pop() or 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_arrays": None}

    @property
    def arrays(self) -> Any:
        """The content of the files: an array, a tuple of them, or a dict."""
        if self._arrays is None:
            try:
                loaded = [np.load(p, mmap_mode="r", allow_pickle=False) for p in self.paths]
            except (OSError, ValueError, EOFError) as e:
                fail(DataError, f"{', '.join(self.paths)} cannot be read: {e}")
            # As plain arrays: each row of a memmap would be one too, which takes longer to make than to read.
            if self.paths[0].endswith(".npz"):
                with loaded[0] as archive:
                    self._arrays = {name: archive[name] for name in archive.files}
            elif len(loaded) == 1:
                self._arrays = np.asarray(loaded[0])
            else:
                self._arrays = tuple(np.asarray(a) for a in loaded)
        return self._arrays

    def _each(self) -> list[Array]:
        return list(_parts(self.arrays))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        at = _place(index, self._length)
        return _like(self.arrays, [np.array(a[at]) for a in self._each()])

    def gathered(self, indices: Any) -> Any:
        """Return the rows at indices of every array."""
        return _like(self.arrays, [rows_of(a, indices) for a in self._each()])


def _parts(arrays: Any) -> Iterable[Array]:
    if isinstance(arrays, dict):
        return arrays.values()
    return arrays if isinstance(arrays, tuple) else (arrays,)


def _like(arrays: Any, parts: list[Any]) -> Any:
    """Return parts in the structure of arrays: alone, as a tuple or as a dict."""
    if isinstance(arrays, dict):
        return dict(zip(arrays, parts))
    return tuple(parts) if isinstance(arrays, tuple) else parts[0]


class Csv:
    """The rows of a CSV file, as dicts of numbers, and of texts where a column is not all numbers.

    Parameters
    ----------
    path: the file, with the columns' names in its first line.
    target: a column; then a sample is a pair of the others, side by side as float32, and of it.
    columns: the columns to take; all by default.
    delimiter: what is between two fields.

    A whole number is int64, another float64; an empty field NaN. The file is read at once.

    Raises DataError for a file that cannot be read, rows of different lengths and columns that are not there.

    >>> import os, tempfile
    >>> import wengert as wg
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b,kind\\n1,0.5,2\\n3,1.5,0\\n")
    ...     wg.data.Csv(path, target="kind")[0]
    (array([1. , 0.5], dtype=float32), 2)
    """

    def __init__(
        self, path: Path, target: str | None = None, columns: Sequence[str] | None = None, delimiter: str = ","
    ) -> None:
        self.path = os.fspath(path)
        try:
            with open(self.path, newline="", encoding="utf-8-sig") as file:
                names, *rows = [row for row in csv.reader(file, delimiter=delimiter) if row]
        except (OSError, ValueError, csv.Error) as e:
            fail(DataError, f"{self.path} cannot be read: {e}", "It begins with a line of the columns' names.")
        for number, row in enumerate(rows, 1):
            if len(row) != len(names):
                fail(DataError, f"{self.path}: row {number} has {len(row)} fields, not {len(names)}: {row}")
        wanted = list(names if columns is None else columns)
        missing = [n for n in [*wanted, *([target] if target else [])] if n not in names]
        if missing:
            fail(DataError, f"{self.path} has no column {', '.join(missing)}", f"It has {', '.join(names)}.")
        self.target, self._length = target, len(rows)
        self.columns = {n: _column([row[names.index(n)] for row in rows]) for n in dict.fromkeys(wanted)}
        if target is None:
            return
        self.targets = _column([row[names.index(target)] for row in rows])
        self.columns.pop(target, None)
        texts = [n for n, c in self.columns.items() if c.dtype.kind == "U"]
        if texts:
            fail(
                DataError, f"{self.path}: the columns {', '.join(texts)} are not numbers", "Leave them out by columns=."
            )
        self.features = np.stack([c.astype(np.float32) for c in self.columns.values()], 1)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        at = _place(index, self._length)
        if self.target is None:
            return {name: column[at].item() for name, column in self.columns.items()}
        return self.features[at].copy(), self.targets[at].item()

    def gathered(self, indices: Any) -> Any:
        """Return the rows at indices."""
        if self.target is None:
            return {name: rows_of(column, indices) for name, column in self.columns.items()}
        return rows_of(self.features, indices), rows_of(self.targets, indices)


def _column(fields: list[str]) -> Array:
    for kind in (np.int64, np.float64):
        try:
            return np.array([kind(f) if f.strip() or kind is np.int64 else np.nan for f in fields], kind)
        except (ValueError, OverflowError):
            continue
    return np.array(fields, np.str_)


class Parquet:
    """The rows of Parquet files, as dicts, by the package `pyarrow`.

    Parameters
    ----------
    paths: files, whose rows come one after the other.
    columns: the columns to take; all by default.

    A group of rows is read when one of them is asked for, and the last one is kept: an order in which rows of one group
    follow each other reads each group once.

    Raises DataError where `pyarrow` is not installed, and for files that it cannot read.
    """

    def __init__(self, *paths: Path, columns: Sequence[str] | None = None) -> None:
        self.paths, self.columns = [os.fspath(p) for p in paths], columns
        self._files: Any = None
        self._kept: tuple[int, Any] = -1, None
        counts, self._groups = [], []
        for which, file in enumerate(self._opened()):
            for group in range(file.num_row_groups):
                self._groups.append((which, group))
                counts.append(file.metadata.row_group(group).num_rows)
        self._ends = np.cumsum(counts, dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": None, "_kept": (-1, None)}

    def _opened(self) -> list[Any]:
        if self._files is None or self._files[0] != os.getpid():
            try:
                from pyarrow import ArrowException
                from pyarrow.parquet import ParquetFile
            except ImportError:
                fail(DataError, "Parquet files need the package pyarrow", "Install it with: pip install pyarrow")
            try:
                self._files = os.getpid(), [ParquetFile(p) for p in self.paths]
            except (OSError, ArrowException) as e:
                fail(DataError, f"{', '.join(self.paths)} cannot be read: {e}")
        files: list[Any] = self._files[1]
        return files

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def __getitem__(self, index: Any) -> dict[str, Any]:
        at = _place(index, len(self))
        number = int(np.searchsorted(self._ends, at, "right"))
        if self._kept[0] != number:
            which, group = self._groups[number]
            # One thread: a process that forks in the midst of others would wait for them for ever.
            table = self._opened()[which].read_row_group(group, columns=self.columns, use_threads=False)
            self._kept = number, {name: _plain(table[name]) for name in table.column_names}
        row = at - (int(self._ends[number - 1]) if number else 0)
        return {name: _scalar(column[row]) for name, column in self._kept[1].items()}


def _plain(column: Any) -> Any:
    """Return a column of Arrow's as an array where that has its numbers, else as a list."""
    values = column.to_numpy()
    return values if values.dtype.kind in "biufc" else column.to_pylist()


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        fail(DataError, "images need the package Pillow", "Install it with: pip install pillow")
    return Image


class ImageFolder:
    """Images in folders, one folder for each class, by the package Pillow.

    Parameters
    ----------
    root: the folder that holds the classes' folders.
    transform: called with each image (of Pillow's, in RGB); without one an image is a float32 array of
        shape (3, height, width), from 0 to 1.
    target_transform: called with each class's number.
    extensions: the ends of names that images have.

    A sample is a pair of an image and the number of its class; `classes` are the names in alphabetical order,
    `samples` the paths with the numbers.

    Raises DataError for a folder without images, and where Pillow is not installed.
    """

    def __init__(
        self,
        root: Path,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
        extensions: Sequence[str] = _IMAGES,
    ) -> None:
        self.root, self.transform, self.target_transform = os.fspath(root), transform, target_transform
        _pillow()
        try:
            self.classes = sorted(e.name for e in os.scandir(self.root) if e.is_dir())
        except OSError as e:
            fail(DataError, f"{self.root} cannot be read: {e}")
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        self.samples: list[tuple[str, int]] = []
        for name, number in self.class_to_idx.items():
            for folder, inner, files in os.walk(os.path.join(self.root, name)):
                inner.sort()
                found = sorted(f for f in files if f.lower().endswith(tuple(extensions)))
                self.samples += [(os.path.join(folder, f), number) for f in found]
        if not self.samples:
            fail(DataError, f"{self.root} holds no images", "Each class has a folder with images in it.")
        self.targets = [number for _, number in self.samples]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        path, number = self.samples[_place(index, len(self.samples))]
        pillow = _pillow()
        try:
            with open(path, "rb") as file:
                image: Any = pillow.open(file).convert("RGB")
        except (OSError, pillow.UnidentifiedImageError) as e:
            fail(DataError, f"{path} cannot be read: {e}")
        if self.transform is not None:
            image = self.transform(image)
        else:
            image = np.ascontiguousarray(np.asarray(image, np.float32).transpose(2, 0, 1) / np.float32(255))
        return image, number if self.target_transform is None else self.target_transform(number)
