"""Reading a document: its bytes, and weights that stand in files beside it."""

from __future__ import annotations

import math
import os
import stat
from typing import Any

import numpy as np

from ...core.dtypes import DType
from .errors import refuse, shown, unreadable
from .values import Known, package

_OLDEST_IR = 3
_LARGEST = 1 << 31


def read(source: Any) -> tuple[Any, str | None, int]:
    """Return a ModelProto, the folder of its file (None where it has none), and its bytes."""
    onnx = package()
    folder = None
    if isinstance(source, onnx.ModelProto):
        proto, size = source, source.ByteSize()
    else:
        if isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
        elif isinstance(source, (str, os.PathLike)):
            path = os.fspath(source)
            try:
                if os.path.getsize(path) > _LARGEST:
                    refuse(f"{shown(str(path))} is larger than the 2 GiB that a document may have")
                with open(path, "rb") as f:
                    data = f.read()
            except OSError as e:
                raise unreadable(str(path), e) from None
            folder = os.path.dirname(os.path.abspath(path))
        else:
            refuse(f"a model is a path, bytes or an onnx.ModelProto, not {type(source).__name__}")
        proto, size = onnx.ModelProto(), len(data)
        try:
            proto.ParseFromString(data)
        except Exception as e:
            refuse(
                f"this is no ONNX model: {shown(str(e), 120)}", "An .onnx file is a protobuf of the type ModelProto."
            )
    if not proto.HasField("graph") or not proto.opset_import:
        refuse("this is no ONNX model: it has no graph, or imports no operators")
    return proto, folder, size


class External:
    """Weights in files of the model's folder: no other folder, no links, no more than the file holds."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder

    def __call__(self, proto: Any, dtype: DType, what: str, folder: str | None) -> Known:
        """Return the array of a TensorProto that says where its bytes are. Raises OnnxError."""
        if folder is None:
            refuse(f"{what} stands in another file, and this model was not read from a file", "Give load() the path.")
        said = {e.key: e.value for e in proto.external_data}
        place = said.get("location", "")
        path = self._path(place, folder, what)
        shape = tuple(proto.dims)
        bits = _bits(dtype)
        needed = (math.prod(shape) * bits + 7) // 8
        try:
            start, length = int(said.get("offset", 0)), int(said.get("length", needed))
        except ValueError:
            refuse(f"{what} has an offset or a length that is no number")
        if start < 0 or length != needed or dtype.kind == "O":
            refuse(f"{what} of shape {shape} needs {needed:,} bytes and says {length:,}")
        if start + needed > os.path.getsize(path):
            refuse(f"{what} ends behind the end of {shown(place)!r}")
        if bits % 8 == 0:
            return (
                np.memmap(path, dtype=dtype, mode="c", offset=start, shape=shape) if needed else np.zeros(shape, dtype)
            )
        onnx = package()
        with open(path, "rb") as f:
            f.seek(start)
            raw = f.read(needed)
        inner = onnx.TensorProto(dims=shape, data_type=proto.data_type, raw_data=raw)
        found: Known = onnx.numpy_helper.to_array(inner)
        return found

    def _path(self, place: str, folder: str, what: str) -> str:
        parts = place.replace("\\", "/").split("/")
        if not place or os.path.isabs(place) or ".." in parts or ":" in parts[0] or "\0" in place:
            refuse(f"{what} stands in {shown(place)!r}, which is not inside the model's folder")
        path = folder
        for part in parts:
            path = os.path.join(path, part)
            try:
                mode = os.lstat(path).st_mode
            except OSError:
                refuse(f"{what} stands in {shown(place)!r}, which does not exist beside the model")
            if stat.S_ISLNK(mode):
                refuse(f"{what} stands in {shown(place)!r}, which is a link")
        if not stat.S_ISREG(mode):
            refuse(f"{what} stands in {shown(place)!r}, which is no file")
        return path


def _bits(dtype: DType) -> int:
    name = dtype.name
    for width in (2, 4, 6):
        if name in (f"int{width}", f"uint{width}") or name.startswith(f"float{width}_"):
            return 8 if width == 6 else width
    return dtype.itemsize * 8
