"""Python's `float` and `complex` as dtypes are float64 and complex128 in every function of PyTorch's namespace."""

import inspect

import pytest

import wengert.torch as torch
from wengert.core.tensor import Tensor as Plain

x, m = torch.ones(3), torch.ones(2, 2)
HOMES = {
    "": torch,
    "nn.functional.": torch.nn.functional,
    "linalg.": torch.linalg,
    "special.": torch.special,
    "fft.": torch.fft,
    "signal.windows.": torch.signal.windows,
    "sparse.": torch.sparse,
    "Tensor.": torch.Tensor,
}
# What is given beside the dtype, by the name; () for functions of sizes, a tensor for those of tensors.
ARGUMENTS = {
    "": (x,),
    "arange": (3,),
    "cumprod": (x, 0),
    "cumsum": (x, 0),
    "empty": (3,),
    "eye": (3,),
    "fft.fftfreq": (3,),
    "fft.rfftfreq": (3,),
    "full": ((3,), 1.0),
    "full_like": (x, 1.0),
    "linalg.matrix_norm": (m,),
    "linspace": (0, 1, 3),
    "log_softmax": (x, 0),
    "logspace": (0, 1, 3),
    "norm": (x, 2),
    "nn.functional.log_softmax": (x, 0),
    "nn.functional.softmax": (x, 0),
    "nn.functional.softmin": (x, 0),
    "ones": (3,),
    "rand": (3,),
    "randint": (0, 3, (3,)),
    "randint_like": (x, 3),
    "randn": (3,),
    "randperm": (3,),
    "range": (0, 3),
    "range_": (0, 3),
    "scalar_tensor": (1.0,),
    "signal.windows.general_cosine": (3, [1.0, 2.0]),
    "softmax": (x, 0),
    "sparse_coo_tensor": ([[0, 1]], [1.0, 2.0], (2,)),
    "sparse.sparse_coo_tensor": ([[0, 1]], [1.0, 2.0], (2,)),
    "sparse.sum": (torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)),),
    "special.log_softmax": (x, 0),
    "special.softmax": (x, 0),
    "tensor": ([1.0],),
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
    "zeros": (3,),
    "Tensor.cumprod": (x, 0),
    "Tensor.cumsum": (x, 0),
    "Tensor.log_softmax": (x, 0),
    "Tensor.new_empty": (x, 3),
    "Tensor.new_empty_strided": (x, (3,), (1,)),
    "empty_strided": ((3,), (1,)),
    "Tensor.new_full": (x, (3,), 1.0),
    "Tensor.new_ones": (x, 3),
    "Tensor.new_tensor": (x, [1.0]),
    "Tensor.new_zeros": (x, 3),
    "Tensor.norm": (x, 2),
    "Tensor.softmax": (x, 0),
}
# Names that are Wengert's or the class's own, where `float` is the default dtype; `type` takes names alone; indices.
OWN_WORDS = """
    astype cumulative_prod cumulative_sum isdtype placeholder spec set_autocast_cpu_dtype set_autocast_dtype frombuffer
    Tensor.astype Tensor.cumulative_prod Tensor.cumulative_sum Tensor.floats Tensor.promote_scalar Tensor.type
"""
OWN = set(OWN_WORDS.split())
REAL = ("rand", "window", "indices", "norm", "fftfreq", "softm")  # what they give or take is real

REAL = ("rand", "window", "indices", "norm", "fftfreq", "softm")  # what they give or take is real


def functions():
    for home, where in HOMES.items():
        for name in dir(where):
            found = getattr(where, name) if not name.startswith("_") else None
            if inspect.isfunction(found) and "dtype" in inspect.signature(found).parameters and home + name not in OWN:
                yield home + name


def arguments(name):
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    return (3,) if "window" in name else ARGUMENTS[""]


@pytest.mark.parametrize("name", sorted(functions()))
def test_float_is_float64(name):
    home, _, last = name.rpartition(".")
    fn = getattr(HOMES[f"{home}." if home else ""], last)
    out = fn(*arguments(name), dtype=float)
    assert out.dtype == torch.float64
    if not any(word in name for word in REAL):
        assert fn(*arguments(name), dtype=complex).dtype == torch.complex128


def layers():
    for name in dir(torch.nn):
        found = getattr(torch.nn, name)
        if not inspect.isclass(found) or not issubclass(found, torch.nn.Module):
            continue
        if name.startswith(("Lazy", "_", "RNNBase", "RNNCellBase")):
            continue
        if "dtype" in inspect.signature(found).parameters:
            yield name


SIZES = {
    "AdaptiveLogSoftmaxWithLoss": (4, 8, [2, 4]),
    "Bilinear": (2, 2, 2),
    "GroupNorm": (1, 2),
    "LinearCrossEntropyLoss": (2, 3),
    "MultiheadAttention": (4, 2),
    "PReLU": (),
    "Transformer": (4, 2, 1, 1, 4),
    "TransformerDecoderLayer": (4, 2, 4),
    "TransformerEncoderLayer": (4, 2, 4),
}


@pytest.mark.parametrize("name", sorted(layers()))
def test_layers_of_float_are_of_float64(name):
    fn = getattr(torch.nn, name)
    sizes = SIZES.get(name, (2, 2, 1) if "Conv" in name else (2,) if "Norm" in name else (2, 2))
    more = {"affine": True} if "InstanceNorm" in name else {}
    made = list(fn(*sizes, dtype=float, **more).parameters())
    assert made
    assert {p.dtype for p in made} == {torch.float64}


def test_conversions():
    assert x.to(float).dtype == x.to(dtype=float).dtype == torch.float64
    for model in (torch.nn.Linear(2, 2).to(float), torch.nn.Linear(2, 2).to(dtype=float)):
        assert model.weight.dtype == torch.float64
    assert torch.tensor([1, 2], dtype=complex).dtype == x.to(complex).dtype == torch.complex128
    assert torch.zeros(3, dtype=int).dtype == torch.int64
    assert isinstance(x.to(float), Plain)
    assert torch.finfo(float).bits == 64
    assert torch.can_cast(float, torch.float32)
    before = torch.get_default_dtype()
    torch.set_default_dtype(float)
    try:
        assert torch.zeros(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)
