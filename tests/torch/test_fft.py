"""Fourier transforms, short-time ones and windows of `wengert.torch`, against values recorded from PyTorch 2.13."""

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from torch_calls import inputs, recorded
from torch_comparing import check, compiled

_WIN = "dtype=torch.float64"
CALLS = [
    "torch.fft.fft(x), torch.fft.fft(c, n=5, dim=0, norm='ortho'), torch.fft.ifft(c, 3), torch.fft.fft(i)",
    "torch.fft.rfft(x, dim=1), torch.fft.rfft(row, n=7, norm='forward'), torch.fft.irfft(z, n=5), torch.fft.irfft(c)",
    "torch.fft.hfft(z), torch.fft.hfft(z, n=5, norm='ortho'), torch.fft.ihfft(row), torch.fft.ihfft(row, n=3)",
    "torch.fft.fft2(x), torch.fft.ifft2(c, s=(2, 3)), torch.fft.fftn(x, dim=(0, 2)), torch.fft.ifftn(c, norm='ortho')",
    "torch.fft.rfft2(x), torch.fft.irfft2(c, s=(3, 5)), torch.fft.rfftn(x), torch.fft.irfftn(c, dim=(0,), s=(4,))",
    "torch.fft.hfft2(c), torch.fft.hfftn(c, s=(3, 5), norm='forward'), torch.fft.ihfft2(p), torch.fft.ihfftn(x)",
    "torch.fft.fftshift(x), torch.fft.ifftshift(x, dim=(1,)), torch.fft.fftshift(p, dim=0)",
    f"torch.fft.fftfreq(5, 0.5), torch.fft.fftfreq(4, d=2.0, {_WIN}), torch.fft.rfftfreq(5)",
    "torch.fft.fft(input=p.detach(), out=torch.empty(3, 4, dtype=torch.complex128))",
    "torch.stft(x.reshape(-1), 8, return_complex=True), torch.stft(p, 4, 2, window=row.abs(), return_complex=True)",
    "torch.stft(p, 4, hop_length=1, win_length=3, normalized=True, onesided=False, return_complex=True)",
    "torch.stft(p, n_fft=4, center=False, return_complex=False), p.stft(4, pad_mode='constant', return_complex=True)",
    "torch.stft(p.repeat(1, 2), 6, pad_mode='replicate', return_complex=True), torch.stft(z, 4, 1)",
    "torch.istft(torch.stft(x.reshape(2, 12), 6, 2, return_complex=True), 6, 2), torch.istft(c[None, :, :], 4, 2)",
    "torch.istft(c, 4, 1, window=p[0], length=5), torch.istft(c, 3, 1, onesided=False, center=False)",
    "torch.istft(c, 3, 1, onesided=False, return_complex=True, normalized=True)",
    f"torch.hann_window(6, {_WIN}), torch.hann_window(5, False, {_WIN}), torch.blackman_window(4, periodic=False)",
    f"torch.hamming_window(6, True, 0.5, 0.4, {_WIN}), torch.bartlett_window(7, {_WIN}), torch.kaiser_window(5, True, 3.0)",  # noqa: E501
    "torch.hann_window(1), torch.hann_window(0), torch.hamming_window(1), torch.kaiser_window(1, False)",
    f"torch.signal.windows.hann(5, sym=False, {_WIN}), torch.signal.windows.gaussian(6, std=2.0, {_WIN})",
    f"torch.signal.windows.exponential(5, center=0, sym=False, tau=3, {_WIN}), torch.signal.windows.kaiser(7, {_WIN})",
    f"torch.signal.windows.general_cosine(6, a=[0.4, 0.3, 0.2], {_WIN}), torch.signal.windows.cosine(6, {_WIN})",
    f"torch.signal.windows.nuttall(8, {_WIN}), torch.signal.windows.general_hamming(5, alpha=0.7, {_WIN})",
    f"torch.signal.windows.bartlett(6, {_WIN}), torch.signal.windows.blackman(6, sym=False, {_WIN})",
]
RECORDED = recorded("fft")


@pytest.mark.parametrize("text", CALLS)
def test_numbers_and_derivatives_are_pytorchs(text):
    check(text, RECORDED[text])


@pytest.mark.parametrize("text", [t for t in CALLS[:15:3] if "out=" not in t])
def test_compiled_calls_give_the_same(text):
    compiled(text, RECORDED[text])


def test_transforms_are_mapped_over_examples():
    p = inputs(torch, grad=False)["p"].repeat(1, 3)
    for fn in (
        lambda v: torch.stft(v, 4, return_complex=True).abs(),
        lambda v: torch.istft(torch.stft(v, 6, 2, return_complex=True), 6, 2),
        lambda v: torch.fft.rfft(v).abs(),
    ):
        mapped = wg.vmap(fn)(p)
        assert type(mapped) is torch.Tensor
        np.testing.assert_allclose(mapped.numpy(), np.stack([fn(v).numpy() for v in p]), rtol=1e-10, atol=1e-12)


def test_a_transform_and_back_gives_the_signal():
    x = inputs(torch, grad=False)["x"].reshape(2, 12)
    there = torch.stft(x, 6, 2, window=torch.hann_window(6, dtype=torch.float64), return_complex=True)
    back = torch.istft(there, 6, 2, window=torch.hann_window(6, dtype=torch.float64), length=12)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=1e-12)


def test_what_does_not_fit_is_refused():
    x = torch.ones(12)
    for wrong in (
        lambda: torch.stft(x, 4),
        lambda: torch.stft(x, 40, center=False, return_complex=True),
        lambda: torch.stft(x, 4, window=torch.ones(3), return_complex=True),
        lambda: torch.stft(x, 40, return_complex=True),
        lambda: torch.stft(x + 0j, 4, onesided=True),
        lambda: torch.istft(x, 4),
        lambda: torch.istft(torch.stft(x, 4, return_complex=True), 4, window=torch.zeros(4)),
        lambda: torch.fft.ihfft2(torch.ones(2, 2) + 0j),
        lambda: torch.signal.windows.hann(-1),
    ):
        with pytest.raises((RuntimeError, ValueError, TypeError)):
            wrong()
