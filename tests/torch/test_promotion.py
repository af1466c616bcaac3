"""The dtypes that operations of `wengert.torch` promote to, as PyTorch 2.13 gave them."""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

KINDS = {
    "b": torch.bool,
    "u": torch.uint8,
    "i": torch.int16,
    "l": torch.int64,
    "h": torch.float16,
    "f": torch.float32,
    "d": torch.float64,
    "c": torch.complex64,
    "z": torch.complex128,
}
# A tensor with one axis (1) or none (0), and the dtype of its product with each of the same and with Python numbers.
# "-" is a half-precision complex dtype, which NumPy does not have.
TABLE = [
    "b1 bbuiillhhffddcczzblfc",
    "b0 bbuiillhhffddcczzblfc",
    "u1 uuuiuluhhffddcczzuufc",
    "i1 iiiiilihhffddcczziifc",
    "i0 iiuiillhhffddcczziifc",
    "l1 lllllllhhffddcczzllfc",
    "l0 lluilllhhffddcczzllfc",
    "h1 hhhhhhhhhfhdhc-z-hhh-",
    "h0 hhhhhhhhhffddcczzhhh-",
    "f1 fffffffffffdfcczcfffc",
    "f0 fffffffhfffddcczzfffc",
    "d1 dddddddddddddzzzzdddz",
    "d0 dddddddhdfdddczzzdddz",
    "c1 ccccccccccczccczccccc",
    "c0 ccccccc-ccczzcczzcccc",
    "z1 zzzzzzzzzzzzzzzzzzzzz",
    "z0 zzzzzzz-zczzzczzzzzzz",
]
NUMBERS = [True, 2, 2.5, 1j]


def _made(name):
    return torch.ones((3,) if name[1] == "1" else (), dtype=KINDS[name[0]])


@pytest.mark.parametrize("row", TABLE)
def test_operands_promote_as_in_pytorch(row):
    x, want = _made(row[:2]), row[3:]
    others = [*(_made(line[:2]) for line in TABLE), *NUMBERS]
    for other, kind in zip(others, want, strict=True):
        if kind != "-":
            assert (x * other).dtype == (other * x).dtype == KINDS[kind], other
            assert torch.stack([x * other]).dtype == torch.where(torch.ones(3) > 0, x, other).dtype == KINDS[kind]


def test_numpy_scalars_are_numbers():
    loss = torch.tensor(2.0)
    assert (loss * np.float64(0.5)).dtype == (np.float64(0.5) * loss).dtype == torch.float32
    assert (torch.arange(3) * np.float32(0.5)).dtype == torch.float32
    assert wg.tensor(2.0).__mul__(np.float64(0.5)).dtype == wg.float64


def test_compiled_functions_promote_alike():
    x, scale = torch.ones(3), torch.tensor(2.0, dtype=torch.float64)
    step = wg.jit(lambda x, scale: x * scale + (x > 0) * (x < 2))
    for _ in range(6):
        out = step(x, scale)
        assert out.dtype == torch.float32
        assert out.tolist() == [3.0, 3.0, 3.0]


def test_sums_and_products_of_booleans_are_booleans():
    x, y = torch.tensor([True, True, False]), torch.tensor([True, False, False])
    assert [(x + y).dtype, (x * y).dtype, (x * True).dtype] == [torch.bool] * 3
    assert [(x + y).tolist(), (x * y).tolist()] == [[True, True, False], [True, False, False]]
    assert torch.maximum(x, y).tolist() == [True, True, False]
    assert torch.minimum(x, y).tolist() == [True, False, False]
    assert torch.arange(3)[x * y].tolist() == [0]
    assert (wg.asarray(x.numpy()) + wg.asarray(y.numpy())).dtype == wg.int64


def test_gradients_have_their_own_dtypes():
    x = torch.ones(3, requires_grad=True)
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (x * scale).sum().backward()
    assert (x.grad.dtype, scale.grad.dtype) == (torch.float32, torch.float64)
    assert (x.grad.tolist(), scale.grad.item()) == ([2.0, 2.0, 2.0], 3.0)
