"""Discrete Fourier transforms with PyTorch's names and keywords: `torch.fft`; see :mod:`wengert.fft`.

>>> import wengert.torch as torch
>>> torch.fft.rfft(torch.tensor([1.0, 0.0, -1.0, 0.0]), dim=0)
tensor([0.+0.j, 2.+0.j, 0.+0.j])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg

from ...core.errors import DTypeError, fail
from ...core.spec import show
from ..absent import names_of
from ..namespace import as_torch, function
from ..tensor import Tensor, dtype_of, on_cpu

FFT: dict[str, Callable[..., Any]] = {}


def _listed(fn: Any, autocast: Any = None) -> Any:
    made = function(method=False, top=False, out=True, autocast=autocast)(fn)
    FFT[fn.__name__] = made
    return made


def _one_axis(name: str) -> None:
    transform = getattr(wg.fft, name)

    def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        return transform(input, n, dim, norm or "backward")  # type: ignore[no-any-return]

    _named(fft, name, transform)


def _axes(transform: Callable[..., Any], default: Any) -> Callable[..., Any]:
    def fft(input: Any, s: Any = None, dim: Any = default, norm: str | None = None) -> Tensor:
        sizes = None if s is None else tuple(s)
        axes = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        return transform(input, sizes, axes, norm or "backward")  # type: ignore[no-any-return]

    return fft


def _named(fft: Any, name: str, transform: Any) -> None:
    fft.__name__ = fft.__qualname__ = name
    fft.__doc__ = (
        f"{(transform.__doc__ or '').split(chr(10))[0]}\n\nSee :func:`wengert.fft.{name}`; `dim` are the axes."
    )
    _listed(fft, "float32")


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one_axis(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    _named(_axes(getattr(wg.fft, _name), (-2, -1)), _name, getattr(wg.fft, _name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _named(_axes(getattr(wg.fft, _name), None), _name, getattr(wg.fft, _name))

# What the opposite transform calls the same normalization.
_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _hermitian(input: Any, s: Any, dim: Any, norm: str) -> Tensor:
    return wg.fft.irfftn(wg.conj(input), s, dim, _OPPOSITE[norm])  # type: ignore[no-any-return]


def _half_of_hermitian(input: Any, s: Any, dim: Any, norm: str) -> Tensor:
    if input.is_complex():
        fail(DTypeError, f"ihfftn of {show(input.shape, input.dtype)}", "It takes real numbers.")
    return wg.conj(wg.fft.rfftn(input, s, dim, _OPPOSITE[norm]))  # type: ignore[return-value]


_hermitian.__doc__ = "Return the real spectrum of a signal with conjugate symmetry, along several axes."
_half_of_hermitian.__doc__ = (
    "Return half of a signal with conjugate symmetry from its real spectrum, along several axes."
)
for _name, _default in (("2", (-2, -1)), ("n", None)):
    _named(_axes(_hermitian, _default), f"hfft{_name}", _hermitian)
    _named(_axes(_half_of_hermitian, _default), f"ihfft{_name}", _half_of_hermitian)


def _frequencies(name: str) -> None:
    make = getattr(wg.fft, name)

    def freq(
        n: int,
        d: float = 1.0,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        on_cpu(device)
        made = as_torch(make(n, d=d, dtype=None if dtype is None else dtype_of(dtype)))
        return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]

    freq.__name__ = freq.__qualname__ = name
    freq.__doc__ = f"{(make.__doc__ or '').split(chr(10))[0]}"
    _listed(freq)


for _name in ("fftfreq", "rfftfreq"):
    _frequencies(_name)


@_listed
def fftshift(input: Any, dim: Any = None) -> Tensor:
    """Return `input` with frequency 0 moved to the middle of the axes, all of them unless some are named."""
    return wg.fft.fftshift(input, axes=dim)  # type: ignore[no-any-return]


@_listed
def ifftshift(input: Any, dim: Any = None) -> Tensor:
    """Return the inverse of :func:`fftshift`."""
    return wg.fft.ifftshift(input, axes=dim)  # type: ignore[no-any-return]


globals().update(FFT)
__all__ = sorted(FFT)


def __dir__() -> list[str]:
    return sorted(__all__)


__getattr__ = names_of(__name__)
