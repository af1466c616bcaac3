"""The text of attributes, literals and constants: exact, canonical, the same in every process."""

from __future__ import annotations

import base64
import cmath
import json
import math
import textwrap
import zlib
from typing import Any

import numpy as np

from ..arrays import Array
from ..dims import Dim
from ..dtypes import is_foreign
from ..spec import Spec, category, scalar_category, short_name

# No number of a graph has more digits: Python itself reads few more.
MOST_DIGITS = 4000
_TOO_LARGE = 10**MOST_DIGITS

# Constants up to this many elements are printed as numbers, larger ones as compressed bytes.
INLINE_ELEMENTS = 16


class Subgraph:
    """A graph among a node's attributes, as the node sees it: the body of a loop, a branch."""

    __slots__ = ()

    @property
    def structural_hash(self) -> str:
        raise NotImplementedError

    def text(self, source: bool = False) -> str:
        raise NotImplementedError


def encode(value: Any) -> str:
    """Return an attribute or literal as text that `graph_text` parses back, exactly.

    What has no such text (a user's function) is shown as `<module.name>`.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, complex):
        return f"complex({encode(value.real)}, {encode(value.imag)})"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, np.dtype):
        return short_name(value)
    if isinstance(value, Dim):
        return str(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(map(encode, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Subgraph):
        return "{\n" + textwrap.indent(value.text(), "    ") + "\n  }"
    return opaque_name(value)


def shortened(value: Any) -> str:
    """Return a value's text as an error shows it, cut where it is as long as a document."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


_SHOWN = 300


def is_too_large(value: Any) -> bool:
    """Return whether an integer has more digits than a document can hold."""
    return type(value) is int and abs(value) >= _TOO_LARGE


def identity(value: Any) -> str:
    """Return an attribute's text like `encode`, in which names within a graph make no difference."""
    if isinstance(value, Subgraph):
        return f"graph {value.structural_hash}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(identity, value))})"
    return encode(value)


def opaque_name(value: Any) -> str:
    """Return the name by which a value without an exact text is shown."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"<{kind.__module__}.{kind.__qualname__}>"


def opaque(value: Any) -> tuple[Any, ...]:
    """Return the objects within an attribute that are compared by identity alone."""
    if isinstance(value, (tuple, list)):
        return tuple(o for v in value for o in opaque(v))
    plain = value is None or isinstance(value, (bool, int, float, complex, str, np.dtype, np.generic, Dim, Subgraph))
    return () if plain else (value,)


def array_bytes(value: Array) -> bytes:
    """Return the elements in C order, little-endian."""
    return np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def digest(value: Array) -> str:
    """Return a hash of a constant's shape, dtype and bytes."""
    header = f"{value.dtype.name}{value.shape}".encode()
    # Importing hashlib loads OpenSSL: only when a hash is asked for.
    import hashlib

    return hashlib.blake2b(header + array_bytes(value), digest_size=16).hexdigest()


def same_array(a: Array, b: Array) -> bool:
    """Return whether two constants hold the same bytes: NaN is equal to itself, 0.0 is not -0.0."""
    if a is b:
        return True
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return array_bytes(a) == array_bytes(b)


def pack(value: Array) -> str:
    """Return a constant's bytes, compressed, as base64."""
    raw = array_bytes(value)
    packed = zlib.compress(raw, 6)
    if len(raw) > _most_bytes(4 * len(packed) // 3):
        packed = _packed_less(raw)
    return base64.b64encode(packed).decode()


# How many bytes a character of packed text may stand for. A reader's memory is bounded by the text's length so, and
# not by what a few bytes can be made to say.
_DENSITY = 128
_FREE = 1024
_STRETCH = 1024


def _most_bytes(characters: int) -> int:
    return _FREE + _DENSITY * characters


def _packed_less(raw: bytes) -> bytes:
    """Return bytes compressed by no more than readers accept: each stretch ends in a mark of five bytes."""
    stream = zlib.compressobj(6)
    parts = []
    for start in range(0, len(raw), _STRETCH):
        parts += [stream.compress(raw[start : start + _STRETCH]), stream.flush(zlib.Z_SYNC_FLUSH)]
    return b"".join([*parts, stream.flush()])


def unpack(text: str, spec: Spec) -> Array:
    """Return the array that `pack` wrote. Raises ValueError when the text is not `spec.nbytes` packed bytes."""
    if spec.nbytes > _most_bytes(len(text)):
        raise ValueError(f"{len(text)} characters of data for {spec.nbytes} bytes")
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(text, validate=True), spec.nbytes + 1)
    except zlib.error as e:
        raise ValueError(f"the constant's data is damaged: {e}") from None
    if len(raw) != spec.nbytes:
        raise ValueError(f"the constant's data is not the {spec.nbytes} bytes of {spec}")
    return np.frombuffer(raw, _little(spec)).reshape(spec.shape).astype(spec.dtype, copy=False)


def from_numbers(numbers: Any, spec: Spec) -> Array:
    """Return a constant from nested tuples of Python numbers. Raises ValueError unless each is one of the dtype."""
    flat = [numbers]
    while any(type(n) is tuple for n in flat):
        flat = [m for n in flat for m in (n if type(n) is tuple else (n,))]
    kind = category(spec.dtype)
    for n in flat:
        if type(n) not in (bool, int, float, complex) or scalar_category(n) > kind:
            raise ValueError(f"{n!r} is no number of {spec.dtype}")
    with np.errstate(all="ignore"):
        try:
            value = np.array(numbers, spec.dtype).reshape(spec.shape)
        except OverflowError as e:
            raise ValueError(str(e)) from None
    if kind >= 2 and np.isinf(value).sum() > sum(map(cmath.isinf, flat)):
        raise ValueError(f"a number is more than {spec.dtype} holds")
    return value


def _little(spec: Spec) -> np.dtype[Any]:
    return spec.dtype.newbyteorder("<")


def encode_array(value: Array) -> str:
    """Return a constant as nested lists of numbers where it is small and they are exact, else packed."""
    if value.size <= INLINE_ELEMENTS:
        numbers = _shortest(value.astype(np.float32 if is_foreign(value.dtype) else value.dtype).tolist(), value)
        back = np.array(numbers, value.dtype).reshape(value.shape)
        if array_bytes(back) == array_bytes(value):
            return _nested(numbers)
    return f'"{pack(value)}"'


def _shortest(numbers: Any, value: Array) -> Any:
    """Return the numbers with the fewest digits that still give a narrow dtype's values; NaNs lose their payload."""
    if isinstance(numbers, list):
        return [_shortest(n, value) for n in numbers]
    if isinstance(numbers, complex):
        return complex(_shortest(numbers.real, value.real), _shortest(numbers.imag, value.real))
    if not isinstance(numbers, float) or math.isinf(numbers):
        return numbers
    if math.isnan(numbers):
        return math.nan
    return float(str(value.dtype.type(numbers))) if value.dtype.itemsize < 8 else numbers


def _nested(numbers: Any) -> str:
    return f"[{', '.join(map(_nested, numbers))}]" if isinstance(numbers, list) else encode(numbers)
