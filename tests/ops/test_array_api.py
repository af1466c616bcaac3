"""The Python Array API standard, 2024.12: names, signatures, promotion, and spot checks of behaviour."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.tensor import Tensor

# The main namespace as the standard writes it: `/` ends positional-only parameters, `*` starts
# keyword-only ones.
FUNCTIONS = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
broadcast_arrays(*arrays)
broadcast_to(x, /, shape)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
broadcast_arrays(*arrays)
concat(arrays, /, *, axis=0)
expand_dims(x, /, *, axis=0)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None)
where(condition, x1, x2, /)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
clip(x, /, min=None, max=None)
__array_namespace_info__()
"""

UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_invert",
    "ceil",
    "conj",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_not",
    "negative",
    "positive",
    "real",
    "reciprocal",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]
BINARY = [
    "add",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "divide",
    "equal",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "less",
    "less_equal",
    "logaddexp",
    "logical_and",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "not_equal",
    "pow",
    "remainder",
    "subtract",
]
CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
DTYPES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
]

METHODS = [
    "__abs__",
    "__add__",
    "__and__",
    "__array_namespace__",
    "__bool__",
    "__complex__",
    "__dlpack__",
    "__dlpack_device__",
    "__eq__",
    "__float__",
    "__floordiv__",
    "__ge__",
    "__getitem__",
    "__gt__",
    "__index__",
    "__int__",
    "__invert__",
    "__le__",
    "__lshift__",
    "__lt__",
    "__matmul__",
    "__mod__",
    "__mul__",
    "__ne__",
    "__neg__",
    "__or__",
    "__pos__",
    "__pow__",
    "__rshift__",
    "__setitem__",
    "__sub__",
    "__truediv__",
    "__xor__",
    "to_device",
    "dtype",
    "device",
    "mT",
    "ndim",
    "shape",
    "size",
    "T",
    "__radd__",
    "__iadd__",
    "__rsub__",
    "__rmul__",
    "__rtruediv__",
    "__rpow__",
    "__rmatmul__",
    "__rmod__",
    "__rfloordiv__",
    "__rand__",
    "__ror__",
    "__rxor__",
    "__rlshift__",
    "__rrshift__",
]


def signature_of(text: str) -> tuple[str, inspect.Signature]:
    name, _, rest = text.partition("(")
    scope: dict[str, Any] = {}
    exec(f"def f({rest}: pass", scope)
    return name, inspect.signature(scope["f"])


WANTED = [line for line in FUNCTIONS.strip().splitlines() if line]


@pytest.mark.parametrize("name", [*UNARY, *BINARY, *CONSTANTS, *DTYPES])
def test_the_name_exists(name: str) -> None:
    assert hasattr(wg, name)


@pytest.mark.parametrize("name", METHODS)
def test_the_attribute_exists(name: str) -> None:
    assert hasattr(wg.ones((2, 2)), name) or (name.startswith("__i") and hasattr(Tensor, "__" + name[3:]))


@pytest.mark.parametrize("text", WANTED, ids=lambda t: t.partition("(")[0])
def test_the_standards_calls_are_accepted(text: str) -> None:
    """Whatever the standard lets one write binds to our signature too."""
    name, wanted = signature_of(text)
    ours = inspect.signature(getattr(wg, name))
    positional = [p for p in wanted.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keywords = {p.name: None for p in wanted.parameters.values() if p.kind is p.KEYWORD_ONLY}
    ours.bind(*required)
    ours.bind(*positional)
    ours.bind(*required, **keywords)
    by_name = {p.name: None for p in positional if p.kind is p.POSITIONAL_OR_KEYWORD}
    ours.bind(*(p for p in positional if p.kind is p.POSITIONAL_ONLY), **by_name, **keywords)
    for p in wanted.parameters.values():
        found = ours.parameters.get(p.name)
        if p.kind is p.KEYWORD_ONLY and found is not None and p.default is not None:
            assert found.default == p.default, p.name
    for p, o in zip(positional, ours.parameters.values()):  # the names and kinds that its own tests ask for
        assert p.kind is p.POSITIONAL_ONLY or (o.name, o.kind) == (p.name, p.kind), o


# -- dtypes

INTS = ("int8", "int16", "int32", "int64")
UINTS = ("uint8", "uint16", "uint32", "uint64")
PROMOTION = {
    **{(a, b): INTS[max(INTS.index(a), INTS.index(b))] for a in INTS for b in INTS},
    **{(a, b): UINTS[max(UINTS.index(a), UINTS.index(b))] for a in UINTS for b in UINTS},
    **{(a, b): INTS[max(INTS.index(a), UINTS.index(b) + 1)] for a in INTS for b in UINTS if b != "uint64"},
    ("float32", "float32"): "float32",
    ("float32", "float64"): "float64",
    ("float64", "float64"): "float64",
    ("complex64", "complex64"): "complex64",
    ("complex64", "complex128"): "complex128",
    ("complex128", "complex128"): "complex128",
    ("float32", "complex64"): "complex64",
    ("float32", "complex128"): "complex128",
    ("float64", "complex64"): "complex128",
    ("float64", "complex128"): "complex128",
    ("bool", "bool"): "bool",
}


@pytest.mark.parametrize(("a", "b"), PROMOTION)
def test_promotion(a: str, b: str) -> None:
    wanted = getattr(wg, PROMOTION[a, b])
    x, y = wg.ones(2, dtype=getattr(wg, a)), wg.ones(2, dtype=getattr(wg, b))
    assert wg.result_type(x.dtype, y.dtype) == wg.result_type(y, x) == wanted
    assert wg.where(wg.asarray([True, False]), x, y).dtype == wanted
    assert wg.concat([x, y]).dtype == wg.concat([y, x]).dtype == wanted
    if a != "bool":
        assert (x + y).dtype == (y * x).dtype == wanted
    assert (x == y).dtype == wg.bool


@pytest.mark.parametrize("dtype", DTYPES)
def test_python_scalars_are_weak(dtype: str) -> None:
    x = wg.ones(2, dtype=getattr(wg, dtype))
    if dtype == "bool":
        assert (x & True).dtype == wg.bool
        return
    assert (x + 1).dtype == (1 - x).dtype == (x * True).dtype == x.dtype
    if "float" in dtype or "complex" in dtype:
        assert (x * 2.5).dtype == (x / 3).dtype == x.dtype
    if "complex" in dtype:
        assert (x * 1j).dtype == x.dtype
    assert (wg.ones(2, dtype=wg.float32) * 1j).dtype == wg.complex64
    assert (wg.ones(2, dtype=wg.float64) * 1j).dtype == wg.complex128


@pytest.mark.parametrize("dtype", [*INTS, *UINTS, "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_sums_of_narrow_integers_are_wide(dtype: str, name: str) -> None:
    kind = dtype.rstrip("0123456789")
    wanted = {"int": "int64", "uint": "uint64"}.get(kind, dtype)
    fn = getattr(wg, name)
    assert fn(wg.ones(3, dtype=getattr(wg, dtype))).dtype == getattr(wg, wanted)
    assert fn(wg.ones(3, dtype=getattr(wg, dtype)), dtype=wg.complex128).dtype == wg.complex128


def test_isdtype() -> None:
    kinds = {
        "bool": ["bool"],
        "signed integer": list(INTS),
        "unsigned integer": list(UINTS),
        "integral": [*INTS, *UINTS],
        "real floating": ["float32", "float64"],
        "complex floating": ["complex64", "complex128"],
        "numeric": [*INTS, *UINTS, "float32", "float64", "complex64", "complex128"],
    }
    for kind, dtype in itertools.product(kinds, DTYPES):
        assert wg.isdtype(getattr(wg, dtype), kind) == (dtype in kinds[kind])
    assert wg.isdtype(wg.float32, ("bool", "real floating"))
    assert wg.isdtype(wg.float32, wg.float32)
    assert not wg.isdtype(wg.float32, (wg.float64, "integral"))


def test_astype_and_can_cast() -> None:
    x = wg.asarray([1.7, -2.3])
    assert wg.astype(x, wg.int32).tolist() == [1, -2]
    assert wg.astype(x, wg.float32, copy=False) is x
    assert wg.astype(x, wg.float32) is not x
    assert wg.astype(wg.asarray([0.0, 0.5]), wg.bool).tolist() == [False, True]
    assert wg.can_cast(wg.float32, wg.float64)
    assert not wg.can_cast(wg.float64, wg.float32)
    assert wg.can_cast(wg.asarray([1], dtype=wg.int8), wg.int16)


def test_finfo_and_iinfo() -> None:
    for dtype in (wg.float32, wg.float64, wg.complex64):
        info, theirs = wg.finfo(dtype), np.finfo(dtype)
        assert (info.bits, info.eps, info.max, info.min) == (theirs.bits, theirs.eps, theirs.max, theirs.min)
        assert info.smallest_normal == theirs.smallest_normal
        assert info.dtype == theirs.dtype
    info = wg.iinfo(wg.int16)
    assert (info.bits, info.max, info.min) == (16, 32767, -32768)
    assert wg.finfo(wg.ones(2)).bits == 32


def test_inspection() -> None:
    info = wg.__array_namespace_info__()
    assert info.default_device() == "cpu"
    assert info.devices() == ["cpu"]
    assert info.capabilities()["boolean indexing"] is True
    assert "max dimensions" in info.capabilities()
    defaults = info.default_dtypes()
    assert defaults["real floating"] == wg.ones(1).dtype
    assert defaults["integral"] == wg.arange(1).dtype == defaults["indexing"]
    assert defaults["complex floating"] == wg.asarray(1j).dtype
    assert set(DTYPES) <= set(info.dtypes())
    assert set(info.dtypes(kind="signed integer")) == set(INTS)
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", *UINTS}
    assert info.dtypes(device="cpu")["bool"] == wg.bool


def test_the_namespace_of_an_array() -> None:
    x = wg.ones(2)
    assert x.__array_namespace__() is wg
    assert x.__array_namespace__(api_version="2024.12") is wg
    with pytest.raises(ValueError, match="2030"):
        x.__array_namespace__(api_version="2030.12")
    assert x.to_device("cpu").tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="device"):
        x.to_device("tpu")


def test_dlpack() -> None:
    x = wg.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.__dlpack_device__() == (1, 0)
    there = np.from_dlpack(x)
    np.testing.assert_array_equal(there, x.numpy())
    back = wg.from_dlpack(there)
    assert back.tolist() == x.tolist()
    assert wg.from_dlpack(x).tolist() == x.tolist()
    there = np.array([1.0, 2.0])
    here = wg.from_dlpack(there)
    there[0] = 9.0
    assert here.tolist() == [1.0, 2.0]  # a tensor is a value


# -- behaviour


def test_sets() -> None:
    x = wg.asarray([3, 1, 3, 2, 1])
    every = wg.unique_all(x)
    assert every.values.tolist() == [1, 2, 3]
    assert every.indices.tolist() == [1, 3, 0]
    assert every.inverse_indices.tolist() == [2, 0, 2, 1, 0]
    assert every.counts.tolist() == [2, 1, 2]
    values, counts = wg.unique_counts(x)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 3], [2, 1, 2])
    inverse = wg.unique_inverse(wg.reshape(x[:4], (2, 2)))
    assert inverse.inverse_indices.shape == (2, 2)
    nan = wg.asarray([math.nan, 1.0, math.nan])
    assert wg.unique_values(nan).shape == (3,)  # a NaN differs from every NaN
    assert wg.unique_counts(nan).counts.tolist() == [1, 1, 1]


def test_searching() -> None:
    x = wg.asarray([0.0, 2.0, 2.0, 4.0])
    v = wg.asarray([2.0, 5.0, -1.0])
    assert wg.searchsorted(x, v).tolist() == [1, 4, 0]
    assert wg.searchsorted(x, v, side="right").tolist() == [3, 4, 0]
    assert wg.searchsorted(wg.flip(x), v, sorter=wg.asarray([3, 2, 1, 0])).tolist() == [1, 4, 0]
    assert wg.searchsorted(x, v).dtype == wg.int64
    assert wg.count_nonzero(wg.asarray([[0, 3], [math.nan, 0.0]])).item() == 2
    assert wg.count_nonzero(wg.asarray([[0, 3], [1, 2]]), axis=0, keepdims=True).tolist() == [[1, 2]]
    assert [i.tolist() for i in wg.nonzero(wg.asarray([[0, 3], [1, 0]]))] == [[0, 1], [1, 0]]
    assert wg.argmax(wg.asarray([[1, 5], [7, 2]])).item() == 2
    assert wg.argmin(wg.asarray([[1, 5], [7, 2]]), axis=1, keepdims=True).tolist() == [[0], [1]]


def test_cumulative() -> None:
    x = wg.asarray([[1, 2], [3, 4]])
    assert wg.cumulative_sum(x, axis=0, include_initial=True).tolist() == [[0, 0], [1, 2], [4, 6]]
    assert wg.cumulative_prod(x, axis=-1, include_initial=True).tolist() == [[1, 1, 2], [1, 3, 12]]
    assert wg.cumulative_sum(wg.asarray([1, 2, 3], dtype=wg.uint8)).dtype == wg.uint64
    assert wg.cumulative_sum(wg.zeros(0), include_initial=True).tolist() == [0.0]
    with pytest.raises(ValueError, match="axis"):
        wg.cumulative_sum(x)


def test_differences() -> None:
    x = wg.asarray([1, 4, 9, 16])
    assert wg.diff(x).tolist() == [3, 5, 7]
    assert wg.diff(x, n=2).tolist() == [2, 2]
    assert wg.diff(x, n=0).tolist() == x.tolist()
    assert wg.diff(x, prepend=wg.asarray([0]), append=wg.asarray([25])).tolist() == [1, 3, 5, 7, 9]
    assert wg.diff(wg.asarray([[1, 2], [5, 9]]), axis=0).tolist() == [[4, 7]]


def test_taking() -> None:
    x = wg.asarray([[10, 20, 30], [40, 50, 60]])
    assert wg.take(x, wg.asarray([2, 0]), axis=1).tolist() == [[30, 10], [60, 40]]
    assert wg.take(x[0], wg.asarray([-1])).tolist() == [30]
    assert wg.take_along_axis(x, wg.asarray([[2, 1], [0, 0]])).tolist() == [[30, 20], [40, 40]]
    assert wg.take_along_axis(x, wg.asarray([[1, 0, 1]]), axis=0).tolist() == [[40, 20, 60]]


def test_elementwise_corners() -> None:
    assert wg.nextafter(wg.asarray(1.0), wg.asarray(2.0)).item() == np.nextafter(np.float32(1), np.float32(2))
    assert wg.reciprocal(wg.asarray([2.0, 4.0])).tolist() == [0.5, 0.25]
    assert wg.bitwise_and(wg.asarray([True, True]), wg.asarray([True, False])).tolist() == [True, False]
    assert wg.bitwise_invert(wg.asarray([True, False])).tolist() == [False, True]
    assert (~wg.asarray([True])).tolist() == [False]
    assert (wg.asarray([1, 2]) ^ 3).tolist() == [2, 1]
    assert wg.bitwise_left_shift(wg.asarray([1]), wg.asarray([3])).tolist() == [8]
    assert wg.round(wg.asarray([0.5, 1.5, 2.5, -0.5])).tolist() == [0.0, 2.0, 2.0, -0.0]
    assert wg.round(wg.asarray([1, 2])).dtype == wg.int64
    assert wg.floor_divide(wg.asarray([-7, 7]), 2).tolist() == [-4, 3]
    assert wg.remainder(wg.asarray([-7, 7]), wg.asarray([3, -3])).tolist() == [2, -2]
    assert wg.sign(wg.asarray([-2.0, 0.0, 3.0])).tolist() == [-1.0, 0.0, 1.0]
    np.testing.assert_allclose(wg.sign(wg.asarray([3 + 4j, 0j])).numpy(), [0.6 + 0.8j, 0.0], rtol=1e-6)
    assert wg.abs(wg.asarray([3 + 4j])).dtype == wg.float32
    assert wg.signbit(wg.asarray([-0.0, 0.0])).tolist() == [True, False]
    assert wg.copysign(wg.asarray([1.0, 1.0]), wg.asarray([-0.0, 2.0])).tolist() == [-1.0, 1.0]
    assert wg.hypot(wg.asarray(3.0), wg.asarray(4.0)).item() == 5.0
    assert wg.logaddexp(wg.asarray(-math.inf), wg.asarray(-math.inf)).item() == -math.inf
    assert wg.clip(wg.asarray([1, 5, 9]), 2, 6).tolist() == [2, 5, 6]
    assert wg.clip(wg.asarray([1.0, 5.0, 9.0]), max=6).tolist() == [1.0, 5.0, 6.0]
    assert wg.clip(wg.asarray([1, 5]), min=wg.asarray([3, 3])).tolist() == [3, 5]
    assert wg.conj(wg.asarray([1.0])).tolist() == [1.0]
    assert wg.real(wg.asarray([1 + 2j])).tolist() == [1.0]
    assert wg.imag(wg.asarray([1 + 2j])).tolist() == [2.0]
    assert wg.maximum(wg.asarray([1.0, math.nan]), 2.0).tolist()[0] == 2.0
    assert math.isnan(wg.maximum(wg.asarray([math.nan]), 2.0).item())
    assert wg.pow(2, wg.asarray([1, 3])).tolist() == [2, 8]
    assert wg.where(wg.asarray([True, False]), 1.0, wg.asarray([5, 6], dtype=wg.int32)).dtype == wg.float32


def test_creation() -> None:
    assert wg.arange(5).dtype == wg.int64
    assert wg.arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert wg.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert wg.linspace(0, 1, 5).dtype == wg.float32
    assert wg.linspace(0, 1, num=4, endpoint=False).tolist() == [0.0, 0.25, 0.5, 0.75]
    assert wg.linspace(0, 4, 3, dtype=wg.int32).tolist() == [0, 2, 4]
    assert wg.eye(2, 3, k=1).tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    x, y = wg.meshgrid(wg.asarray([1, 2, 3]), wg.asarray([4, 5]))
    assert x.shape == y.shape == (2, 3)
    x, y = wg.meshgrid(wg.asarray([1, 2, 3]), wg.asarray([4, 5]), indexing="ij")
    assert x.shape == (3, 2)
    assert y.tolist() == [[4, 5]] * 3
    assert wg.full((2,), True).dtype == wg.bool
    assert wg.full((2,), 3).dtype == wg.int64
    assert wg.empty((2, 0), dtype=wg.int8).shape == (2, 0)
    assert wg.tril(wg.ones((2, 3)), k=-1).tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    assert wg.asarray([1, 2.5]).dtype == wg.float32
    assert wg.asarray([True, 2]).dtype == wg.int64


def test_statistics() -> None:
    x = wg.asarray([[1.0, 2.0], [3.0, 6.0]])
    assert wg.std(x, correction=1.0).item() == pytest.approx(np.std([1, 2, 3, 6], ddof=1))
    assert wg.var(x, axis=(0, 1)).item() == 3.5
    assert wg.mean(x, axis=1, keepdims=True).shape == (2, 1)
    assert wg.sum(wg.zeros((0, 3)), axis=0).tolist() == [0.0] * 3
    assert wg.prod(wg.zeros((0,))).item() == 1.0
    assert wg.sum(x, axis=()).tolist() == x.tolist()
    assert wg.all(wg.zeros((0,))).item() is True
    assert wg.any(wg.asarray([0.0, math.nan])).item() is True
    with pytest.raises(ValueError, match="size 0"):
        wg.max(wg.zeros((0,)))


def test_manipulation() -> None:
    x = wg.reshape(wg.arange(6), (2, 3))
    assert wg.moveaxis(wg.zeros((2, 3, 4)), 0, -1).shape == (3, 4, 2)
    assert wg.roll(x, 1).tolist() == [[5, 0, 1], [2, 3, 4]]
    assert wg.roll(x, (1, -1), axis=(0, 1)).tolist() == [[4, 5, 3], [1, 2, 0]]
    assert wg.repeat(x, 2, axis=1).shape == (2, 6)
    assert wg.repeat(wg.asarray([1, 2]), wg.asarray([2, 1])).tolist() == [1, 1, 2]
    assert wg.tile(wg.asarray([1, 2]), (2, 2)).tolist() == [[1, 2, 1, 2]] * 2
    assert [t.tolist() for t in wg.unstack(x)] == [[0, 1, 2], [3, 4, 5]]
    assert wg.concat([x, x], axis=None).shape == (12,)
    assert wg.squeeze(wg.zeros((1, 3, 1)), 0).shape == (3, 1)
    with pytest.raises(ValueError, match="squeeze"):
        wg.squeeze(x, 0)
    assert wg.flip(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert wg.reshape(x, (-1,), copy=True).shape == (6,)
    assert wg.sort(wg.asarray([3, 1, 2]), descending=True).tolist() == [3, 2, 1]
    assert wg.argsort(wg.asarray([1, 0, 1, 0]), descending=True, stable=True).tolist() == [0, 2, 1, 3]
    assert wg.broadcast_arrays(wg.ones((2, 1)), wg.ones(3))[0].shape == (2, 3)


def test_linear_algebra() -> None:
    x, y = wg.asarray([[1 + 1j, 2.0]]), wg.asarray([[1j, 1.0]])
    assert wg.vecdot(x, y).tolist() == [(1 - 1j) * 1j + 2.0]
    a = wg.reshape(wg.arange(24), (2, 3, 4))
    assert wg.matmul(a, wg.ones((2, 4, 5), dtype=wg.int64)).shape == (2, 3, 5)
    assert wg.tensordot(a, a, axes=((0, 1), (0, 1))).shape == (4, 4)
    assert wg.matrix_transpose(a).shape == a.mT.shape == (2, 4, 3)
    with pytest.raises(ValueError, match="matmul"):
        wg.matmul(wg.asarray(1.0), wg.ones(2))


def test_indexing() -> None:
    x = wg.reshape(wg.arange(12), (3, 4))
    assert x[..., 0].tolist() == [0, 4, 8]
    assert x[None, 1, ::-1].tolist() == [[7, 6, 5, 4]]
    assert x[wg.asarray([2, 0]), wg.asarray([1, 1])].tolist() == [9, 1]
    assert x[x > 8].tolist() == [9, 10, 11]
    x[x > 8] = 0
    assert wg.sum(x).item() == 36
    assert x[wg.asarray(1)].tolist() == [4, 5, 6, 7]


# What gives a value of the same shape and dtype may share its buffer, never its identity: writing
# to the result must leave the argument.
SAME = {
    "reshape": lambda x: wg.reshape(x, (3,)),
    "broadcast_to": lambda x: wg.broadcast_to(x, (3,)),
    "broadcast_arrays": lambda x: wg.broadcast_arrays(x, wg.ones(1))[0],
    "permute_dims": lambda x: wg.permute_dims(x, (0,)),
    "squeeze": lambda x: wg.squeeze(x, ()),
    "roll": lambda x: wg.roll(x, 0),
    "tile": lambda x: wg.tile(x, (1,)),
    "repeat": lambda x: wg.repeat(x, 1),
    "flip": lambda x: wg.flip(x, axis=()),
    "moveaxis": lambda x: wg.moveaxis(x, 0, 0),
    "concat": lambda x: wg.concat([x]),
    "astype": lambda x: wg.astype(x, wg.float32),
    "positive": wg.positive,
    "conj": wg.conj,
    "real": wg.real,
    "clip": wg.clip,
    "sum": lambda x: wg.sum(x, axis=()),
    "diff": lambda x: wg.diff(x, n=0),
    "einsum": lambda x: wg.einsum("i->i", x),
    "T": lambda x: x.T,
    "slice": lambda x: x[:],
    "atleast_1d": wg.atleast_1d,
    "expand": lambda x: x.expand(3),
    "detach": lambda x: x.detach(),
    "clone": lambda x: x.clone(),
}


# Where NumPy and PyTorch give a view: a write to it would have to reach the argument, and is refused.
TAKEN = {*("detach", "flip", "moveaxis", "permute_dims"), *("real", "reshape", "slice", "squeeze")}
# Where there is nothing to do: the argument itself, so that a write does reach it.
ITSELF = {"T", "atleast_1d", "broadcast_arrays", "broadcast_to", "expand"}


@pytest.mark.parametrize("name", SAME)
def test_writing_to_a_result_leaves_the_argument(name: str) -> None:
    x = wg.asarray([1.0, 2.0, 3.0])
    y = SAME[name](x)
    if name in ITSELF:
        y[0] = 9.0
        assert x.tolist() == y.tolist() == [9.0, 2.0, 3.0]
        return
    if name in TAKEN:
        with pytest.raises(wg.WriteError, match="taken at"):
            y[0] = 9.0
        y = y.clone()
    y[0] = 9.0
    assert x.tolist() == [1.0, 2.0, 3.0]
    x[1] = 7.0
    assert y.tolist() == [9.0, 2.0, 3.0]


@pytest.mark.parametrize("name", [n for n in SAME if n != "detach"])
def test_gradients_flow_through_what_changes_nothing(name: str) -> None:
    x = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = SAME[name](x)
    assert (y is x) == (name in ITSELF)
    assert y is x or not y.is_leaf
    y = y.clone() if name in TAKEN | ITSELF else y
    y[0] = 9.0
    (y * y).sum().backward()
    assert x.grad.tolist() == [0.0, 4.0, 6.0]
    with wg.no_grad():
        assert name in ITSELF or not SAME[name](x).requires_grad
