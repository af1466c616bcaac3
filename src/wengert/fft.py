"""Discrete Fourier transforms: `wg.fft`, the Array API's extension, differentiable to any order.

>>> import wengert as wg
>>> x = wg.tensor([1.0, 2.0, 4.0, 8.0], requires_grad=True)
>>> (wg.abs(wg.fft.fft(x, norm="ortho")) ** 2).sum().backward()  # the energy, also of x (Parseval)
>>> x.grad
tensor([ 2.,  4.,  8., 16.])
"""

from __future__ import annotations

from .ops.fourier import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return sorted(__all__)
