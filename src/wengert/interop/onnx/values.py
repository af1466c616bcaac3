"""Values of a running model: tensors, known NumPy arrays, text, sequences (lists) and absent optionals (None)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg

from ...core.dims import Dim
from ...core.dtypes import DType, is_inexact
from ...core.dtypes import is_known as is_held
from ...core.node import Node
from ...core.ops.declare import SIZE
from ...core.ops.facets import Role
from ...core.ops.op import TABLE
from ...core.tensor import Tensor
from .errors import OnnxError, refuse, shown

Known = np.ndarray[Any, Any]


def package() -> Any:
    """Return the package onnx, with a helpful error where it is absent."""
    try:
        import onnx
        import onnx.defs
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        refuse("reading and writing ONNX needs the package onnx", "Install it with: pip install 'wengert[onnx]'")
    return onnx


def numpy_dtype(code: int, what: str) -> DType:
    """Return the NumPy dtype of an ONNX element type; texts are objects. Raises OnnxError."""
    onnx = package()
    try:
        found: DType = onnx.helper.tensor_dtype_to_np_dtype(code)
    except (KeyError, ValueError, TypeError):
        refuse(f"{what} has the element type {code}, which ONNX does not define")
    return found


def element_type(dtype: DType) -> int:
    """Return the ONNX element type of a NumPy dtype."""
    found: int = package().helper.np_dtype_to_tensor_dtype(dtype)
    return found


def holds(dtype: DType) -> bool:
    """Return whether tensors can hold a dtype."""
    return is_held(dtype)


def is_floating(dtype: DType) -> bool:
    """Return whether values of a dtype may be trained: floating or complex ones."""
    return is_inexact(dtype)


def tensor(value: Any) -> Tensor:
    """Return a value as a tensor; a known array is not copied."""
    if isinstance(value, Tensor):
        return value
    if has_sizes(value):
        rows = [wg.asarray(n) for n in value.ravel()]
        return wg.stack(rows).reshape(value.shape) if value.ndim else rows[0]
    if isinstance(value, np.ndarray):
        if not holds(value.dtype):
            kind = "text" if value.dtype == object else value.dtype.name
            refuse(f"this operator has no rule for {kind}")
        return wg.asarray(np.ascontiguousarray(value) if value.ndim else value, copy=False)
    if value is None:
        refuse("an operand is missing")
    refuse(f"an operand is a {type(value).__name__} and no tensor")


def known(value: Any, what: str) -> Known:
    """Return the value of an operand that decides shapes, as a NumPy array. Raises OnnxError where it is not known."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Tensor):
        refuse(f"{what} is {'missing' if value is None else 'a ' + type(value).__name__}, where a tensor is needed")
    if not value.is_abstract:
        return np.asarray(value.detach().numpy())
    if value.ndim > 1 or value.size > 64:
        _not_known(what)
    if (dim := _size_behind(value)) is not None:
        return np.full(value.shape, dim, dtype=object)
    # A compiled function takes each number as a decision, which is part of the program from then on.
    number = {"b": bool, "f": float}.get(value.dtype.kind, int)
    try:
        flat = value.reshape((-1,))
        found = [number(flat[i]) for i in range(value.size)]
    except wg.WengertError:
        _not_known(what)
    return np.array(found, dtype=value.dtype).reshape(value.shape)


def _not_known(what: str) -> None:
    refuse(
        f"{what} is not known while this is traced, and a shape depends on it",
        "Give it as a constant of the model, or call the model on values.",
    )


_HOLD_SIZES = {"int32", "int64", "uint32", "uint64", "float32", "float64"}


def _size_behind(value: Tensor) -> Any:
    """Return the size without a number that one number is, perhaps in another dtype that holds all sizes."""
    node: Any = value.node
    while value.size == 1 and isinstance(node, Node) and node.spec.dtype.name in _HOLD_SIZES:
        if node.op is SIZE:
            return node.attrs["dim"]
        if node.op is not TABLE["cast"] and node.op.role is not Role.RESHAPE:
            return None
        node = node.inputs[0]
    return None


def is_known(value: Any) -> bool:
    """Return whether a value is no tensor's: an array, nothing, or a sequence of such."""
    if isinstance(value, list):
        return all(is_known(v) for v in value)
    return not isinstance(value, Tensor)


def as_known(value: Any) -> Any:
    """Return a result of known operands as known itself."""
    if isinstance(value, Tensor):
        return value if value.is_abstract or value.requires_grad else np.asarray(value.numpy())
    if isinstance(value, list):
        return [as_known(v) for v in value]
    return value


def has_sizes(value: Any) -> bool:
    """Return whether a known array holds sizes that have names instead of numbers."""
    return isinstance(value, np.ndarray) and value.dtype == object and any(isinstance(e, Dim) for e in value.flat)


def as_sizes(value: Any) -> Any:
    """Return NumPy's result for sizes as an array: of objects if a size has no number, else of integers."""
    if isinstance(value, Tensor) or (isinstance(value, np.ndarray) and value.dtype.kind != "O"):
        return value
    out = np.empty(np.shape(value), dtype=object)
    out[...] = value
    return out if has_sizes(out) else out.astype(np.int64)


def sizes(shape: Sequence[Any]) -> Known:
    """Return a shape as the tensor that ONNX makes of it; sizes without a number make it an array of objects."""
    if any(isinstance(n, Dim) for n in shape):
        out = np.empty(len(shape), dtype=object)
        out[:] = list(shape)
        return out
    return np.array(shape, dtype=np.int64).reshape(len(shape))


def ints(value: Known) -> tuple[Any, ...]:
    """Return a known array as a tuple of ints (or of sizes without a number)."""
    return tuple(n if isinstance(n, Dim) else int(n) for n in value.ravel())


def nbytes(value: Any) -> int:
    """Return the bytes that a value takes; of unknown sizes, 0."""
    if isinstance(value, Tensor):
        shape = value.shape
        if any(isinstance(n, Dim) for n in shape):
            return 0
        return math.prod(shape) * int(value.dtype.itemsize)
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, list):
        return sum(nbytes(v) for v in value)
    return 0


def array_of(proto: Any, what: str, folder: str | None, limit: int, external: Any = None) -> Known:
    """Return a TensorProto's array. Raises OnnxError for one that is not what it says."""
    onnx = package()
    shape = tuple(proto.dims)
    if any(n < 0 for n in shape) or len(shape) > 64:
        refuse(f"{what} has the shape {shape[:8]}")
    dtype = numpy_dtype(proto.data_type, what)
    if proto.HasField("segment"):
        refuse(f"{what} is a segment of a tensor, which is not supported")
    if math.prod(shape) * max(1, dtype.itemsize) > limit:
        refuse(f"{what} of shape {shape} asks for more than {limit:,} bytes", "load(..., memory=) sets the limit.")
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        if external is None:
            refuse(f"{what} stands in another file, and this model was not read from a file")
        read: Known = external(proto, dtype, what, folder)
        return read
    try:
        array: Known = onnx.numpy_helper.to_array(proto)
    except OnnxError:
        raise
    except Exception as e:
        refuse(f"{what} does not hold what it says: {shown(str(e), 200)}")
    if array.dtype == object:
        flat = [b.decode("utf-8", "replace") if isinstance(b, bytes) else str(b) for b in array.ravel()]
        out = np.empty(len(flat), dtype=object)
        out[:] = flat
        array = out.reshape(shape)
    if tuple(array.shape) != shape:
        refuse(f"{what} says the shape {shape} and holds {array.shape}")
    return array
