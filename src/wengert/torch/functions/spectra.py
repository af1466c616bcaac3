"""Short-time Fourier transforms, and the windows that they take."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ...core.errors import GraphError, ShapeError, fail
from ...core.spec import default_float, show
from ...core.tensor import asarray
from ..namespace import as_torch, function
from ..signal.windows import WINDOWS
from ..tensor import Tensor, dtype_of, on_cpu


def _window(name: str) -> None:
    make = WINDOWS[name]

    def window(
        window_length: int,
        periodic: bool = True,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> Tensor:
        return make(window_length, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad)  # type: ignore[no-any-return]

    window.__name__ = window.__qualname__ = f"{name}_window"
    window.__doc__ = f"{make.__doc__}\n\nIt has one period of `window_length`, or with `periodic=False` is symmetric."
    function(method=False)(window)


for _name in ("hann", "blackman", "bartlett"):
    _window(_name)


@function(method=False)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return Hamming's window, `alpha` less `beta` times a cosine."""
    on_cpu(device)
    steps = window_length if periodic else window_length - 1
    values = alpha - beta * np.cos(2 * np.pi * np.arange(window_length) / max(steps, 1))
    if window_length == 1:
        values = np.ones(1)
    made = as_torch(asarray(values, dtype=default_float() if dtype is None else dtype_of(dtype)))
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]


@function(method=False)
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return Kaiser's window, of Bessel functions."""
    make = WINDOWS["kaiser"]
    return make(window_length, beta=beta, sym=not periodic, dtype=dtype, device=device, requires_grad=requires_grad)  # type: ignore[no-any-return]


def _frame_window(name: str, x: Any, n_fft: int, win_length: int, window: Any) -> Any:
    """Return the window of a frame, ones where none is given, with zeros on both sides up to the frame's length."""
    if not 0 < win_length <= n_fft:
        fail(ShapeError, f"{name}: win_length={win_length} of frames of {n_fft}")
    if window is None:
        window = wg.ones(win_length, dtype=x.real.dtype if x.is_complex() else x.dtype)
    elif tuple(window.shape) != (win_length,):
        fail(ShapeError, f"{name}: a window of shape {tuple(window.shape)}", f"It has {win_length} elements.")
    left = (n_fft - win_length) // 2
    return wg.pad(window, (left, n_fft - win_length - left)) if win_length < n_fft else window


def _frame_indices(count: int, hop: int, n_fft: int) -> Any:
    return np.arange(count)[:, None] * hop + np.arange(n_fft)


@function(autocast="float32")
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the Fourier transforms of overlapping frames of a signal, (..., frequencies, frames).

    Parameters
    ----------
    input: (time,) or (batch, time).
    n_fft: the length of a frame; `hop_length` (a quarter of it) lies between two.
    window: `win_length` factors, in the middle of a frame; ones where it is left out.
    center: frames lie around their time; the signal is padded with `pad_mode` at both ends.
    normalized: divide by the root of `n_fft`.
    onesided: leave out the frequencies that are conjugates of others (so unless something is complex).
    return_complex: False gives real and imaginary parts along a last axis. Real signals must say it.

    Raises ShapeError, GraphError.
    """
    if input.ndim not in (1, 2):
        fail(ShapeError, f"stft of {show(input.shape, input.dtype)}", "Give (time,) or (batch, time).")
    hop = n_fft // 4 if hop_length is None else hop_length
    complex_in = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_in:
            fail(GraphError, "stft of a real signal without return_complex", "Say return_complex=True, or False.")
        return_complex = True
    if align_to_window is not None and center:
        fail(GraphError, "stft: align_to_window is for center=False")
    x = input if input.ndim == 2 else input[None]
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    factors = _frame_window("stft", x, n_fft, n_fft if win_length is None else win_length, window)
    length = x.shape[-1]
    if hop < 1 or not 0 < n_fft <= length:
        fail(ShapeError, f"stft: frames of {n_fft} with steps of {hop} of {length} samples")
    frames = x[:, _frame_indices(1 + (length - n_fft) // hop, hop, n_fft)] * factors
    scale = "ortho" if normalized else "backward"
    half = not complex_in if onesided is None else onesided
    if half and complex_in:
        fail(GraphError, "stft: onesided=True of a complex signal", "Its frequencies are no conjugates of each other.")
    found = wg.fft.rfft(frames, norm=scale) if half else wg.fft.fft(frames, norm=scale)
    found = found.mT
    found = found if input.ndim == 2 else found[0]
    return found if return_complex else wg.view_as_real(found)  # type: ignore[return-value]


def _padded(x: Any, by: int, mode: str) -> Any:
    if mode == "constant":
        return wg.pad(x, ((0, 0), (by, by)))
    n = x.shape[-1]
    if mode == "reflect" and by >= n:
        fail(ShapeError, f"stft: {n} samples padded by {by} reflections", 'Say center=False, or pad_mode="constant".')
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    if mode not in modes:
        fail(GraphError, f"stft: pad_mode={mode!r}", 'It is "reflect", "constant", "replicate" or "circular".')
    return x[:, np.pad(np.arange(n), by, mode=modes[mode])]  # type: ignore[call-overload]


@function()
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal whose frames' transforms come nearest to `input`, the inverse of :func:`stft`.

    Parameters are those of :func:`stft`; `length` is that of the signal. Raises ShapeError, GraphError where windows
    leave a sample out.
    """
    if not input.is_complex() or input.ndim not in (2, 3):
        fail(ShapeError, f"istft of {show(input.shape, input.dtype)}", "Give complex (..., frequencies, frames).")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    x = input if input.ndim == 3 else input[None]
    half = x.shape[-2] != n_fft if onesided is None else onesided
    if x.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        fail(ShapeError, f"istft of {x.shape[-2]} frequencies, n_fft={n_fft}, onesided={half}")
    if half and return_complex:
        fail(GraphError, "istft: return_complex=True of one side of the frequencies", "Say onesided=False.")
    scale = "ortho" if normalized else "backward"
    factors = _frame_window("istft", x.real, n_fft, width, window)
    if return_complex:
        frames = wg.fft.ifft(x.mT, norm=scale)
    else:  # of a real signal the other frequencies are conjugates of these
        frames = wg.fft.irfft(x[:, : n_fft // 2 + 1].mT, n=n_fft, norm=scale)
    count = x.shape[-1]
    total = n_fft + hop * (count - 1)
    places = _frame_indices(count, hop, n_fft).reshape(-1)
    weighted = (frames * factors).reshape((x.shape[0], count * n_fft))
    squares = wg.broadcast_to(factors * factors, (count, n_fft)).reshape((count * n_fft,))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    summed = _overlapped(weighted, places, total)[:, start : min(end, total)]
    envelope = _overlapped(squares[None], places, total)[0, start : min(end, total)]
    if not envelope.is_abstract and bool((wg.abs(envelope) < 1e-11).any()):
        fail(GraphError, "istft: the windows leave samples out", "Choose a smaller hop_length, or another window.")
    found = summed / envelope
    if end > total:
        found = wg.pad(found, ((0, 0), (0, end - total)))
    return found if input.ndim == 3 else found[0]  # type: ignore[no-any-return]


def _overlapped(frames: Any, places: Any, total: int) -> Any:
    """Return the sums of what stands at each place of a signal."""
    out = wg.zeros((total, frames.shape[0]), dtype=frames.dtype)
    return wg.index_add(out, 0, asarray(places), frames.T).T
