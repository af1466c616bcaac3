"""`torch.dtype`: PyTorch's attributes, and NumPy's dtype wherever one is asked for."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

# Recorded from PyTorch 2.13: name, is_floating_point, is_complex, is_signed, itemsize, to_real(), to_complex().
RECORDED = [
    ("bool", False, False, False, 1),
    ("uint8", False, False, False, 1),
    ("int8", False, False, True, 1),
    ("int16", False, False, True, 2),
    ("int32", False, False, True, 4),
    ("int64", False, False, True, 8),
    ("float16", True, False, True, 2),
    ("bfloat16", True, False, True, 2),
    ("float32", True, False, True, 4),
    ("float64", True, False, True, 8),
    ("complex64", False, True, True, 8),
    ("complex128", False, True, True, 16),
]


@pytest.mark.parametrize(("name", "floating", "imaginary", "signed", "size"), RECORDED)
def test_attributes(name: str, floating: bool, imaginary: bool, signed: bool, size: int) -> None:
    dtype = getattr(torch, name)
    assert (dtype.is_floating_point, dtype.is_complex, dtype.is_signed, dtype.itemsize) == (
        floating,
        imaginary,
        signed,
        size,
    )
    assert repr(dtype) == str(dtype) == f"{dtype}" == f"torch.{name}"
    assert isinstance(dtype, torch.dtype)
    assert torch.zeros(2, dtype=dtype).dtype is dtype
    assert torch.zeros(2).to(dtype).dtype is dtype
    for same in (copy.copy(dtype), copy.deepcopy([dtype])[0], pickle.loads(pickle.dumps(dtype))):
        assert same is dtype


def test_parts_of_complex_numbers() -> None:
    assert torch.complex64.to_real() is torch.float32
    assert torch.float64.to_complex() is torch.complex128
    assert torch.int32.to_real() is torch.int32
    assert torch.complex64.to_complex() is torch.complex64


def test_it_counts_as_numpys() -> None:
    x = torch.zeros(2)
    plain = np.dtype("float32")
    assert x.dtype == plain
    assert plain == x.dtype
    assert x.dtype == np.float32
    assert x.dtype != np.float64
    assert x.dtype != None  # noqa: E711
    assert hash(x.dtype) == hash(plain)
    assert {plain: 1}[x.dtype] == {x.dtype: 1}[plain] == 1
    assert np.dtype(x.dtype) is plain
    assert np.zeros(2, x.dtype).dtype == np.ones(2).astype(x.dtype).dtype == plain
    assert np.result_type(x.dtype, np.float16) == plain
    assert np.issubdtype(x.dtype, np.floating)
    assert np.finfo(x.dtype).bits == torch.finfo(x.dtype).bits == 32
    assert wg.zeros(2, dtype=torch.int8).dtype == np.int8
    assert isinstance(wg.zeros(2, dtype=torch.int8).dtype, np.dtype)
    assert (wg.zeros(2) + x).dtype is torch.float32
    assert (x.dtype.kind, x.dtype.name, x.dtype.str) == ("f", "float32", plain.str)


def test_functions_of_dtypes() -> None:
    assert torch.get_default_dtype() is torch.float32
    assert torch.promote_types(torch.int8, torch.float16) is torch.float16
    assert torch.result_type(torch.ones(2, dtype=torch.int32), 1.5) is torch.float32
    assert torch.can_cast(torch.float32, torch.float64)
    assert torch.long is torch.int64
    assert torch.float is torch.float32
    assert torch.half is torch.float16
    assert torch.nn.Linear(2, 2, dtype=torch.float64).weight.dtype is torch.float64
    assert repr(torch.tensor([1, 2], dtype=torch.int8)) == "tensor([1, 2], dtype=torch.int8)"
    with pytest.raises(TypeError, match=r"cannot create 'torch\.dtype'"):
        torch.dtype("float32")


def test_types_of_tensors() -> None:
    x, i = torch.ones(2), torch.tensor([1, 2])
    assert isinstance(x, torch.FloatTensor)
    assert isinstance(torch.nn.Parameter(x), torch.FloatTensor)
    assert not isinstance(i, torch.FloatTensor)
    assert isinstance(i, torch.LongTensor)
    assert not isinstance(2, torch.LongTensor)
    assert torch.DoubleTensor([1, 2]).dtype is torch.float64
    assert torch.IntTensor(2, 3).shape == (2, 3)
    assert x.type(torch.LongTensor).tolist() == [1, 1]


def test_in_compiled_functions() -> None:
    wanted = torch.float64
    of_closure = wg.jit(lambda x: x.to(wanted))
    of_argument = wg.jit(lambda x, dtype: x.to(dtype))
    by_kind = wg.jit(lambda x: x / 2 if x.dtype.is_floating_point else x * 2)
    for _ in range(6):
        assert of_closure(torch.ones(2)).dtype is torch.float64
        assert of_argument(torch.ones(2), torch.float16).dtype is torch.float16
        assert of_argument(torch.ones(2), torch.int32).dtype is torch.int32
        assert by_kind(torch.ones(2)).tolist() == [0.5, 0.5]
        assert by_kind(torch.ones(2, dtype=torch.long)).tolist() == [2, 2]
    wanted = torch.float16
    assert of_closure(torch.ones(2)).dtype is torch.float16


def test_a_module_becomes_complex() -> None:
    layer = torch.nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    assert layer.to(torch.cfloat).weight.dtype is torch.cfloat
    assert torch.equal(layer.weight.real, before)
    assert layer(torch.ones(1, 2, dtype=torch.cfloat)).dtype is torch.cfloat
