"""Fourier transforms, windows of sounds, and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

from ....core.tensor import Tensor
from ..errors import refuse
from ..registry import operator
from ..values import Known, numpy_dtype
from .structure import axis_of, padded

# -- Fourier


def _complex(x: Any) -> Any:
    if x.shape[-1] not in (1, 2):
        refuse(f"the last axis of shape {tuple(x.shape)} holds neither real nor complex numbers")
    wide = x if x.dtype.itemsize >= 4 else x.astype(wg.float32)
    real = wide[..., 0]
    imaginary = wide[..., 1] if x.shape[-1] == 2 else wg.zeros_like(real)
    return wg.view_as_complex(wg.stack([real, imaginary], -1))


def _transformed(x: Any, length: int | None, axis: int, inverse: int, onesided: int) -> Any:
    whole = 2 * (int(x.shape[axis]) - 1) if inverse and onesided else int(x.shape[axis])
    n = whole if length is None else length
    if n < 1:
        refuse(f"a transform of {n} elements")
    values = _complex(x)
    have = values.shape[axis]
    if inverse and onesided:
        # One half of a spectrum gives real numbers.
        out = wg.fft.irfft(values, n=n, axis=axis)
        return wg.expand_dims(out, -1).astype(x.dtype)
    if n < have:
        values = values[(slice(None),) * axis + (slice(0, n),)]
    elif n > have:
        values = padded(
            values, (0,) * values.ndim, tuple(n - have if i == axis else 0 for i in range(values.ndim)), "constant", 0
        )
    out = wg.fft.ifft(values, axis=axis) if inverse else wg.fft.fft(values, axis=axis)
    if onesided:
        out = out[(slice(None),) * axis + (slice(0, n // 2 + 1),)]
    return wg.view_as_real(out).astype(x.dtype)


def _length(given: Known | None) -> int | None:
    return None if given is None else int(given.reshape(()))


@operator("DFT", since=17, static=(1,))
def _dft_17(x: Any, length: Any = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0, context: Any) -> Any:
    return _dft(x, length, np.array(axis), inverse=inverse, onesided=onesided, context=context)


@operator("DFT", since=20, static=(1, 2))
def _dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int = 0, onesided: int = 0, context: Any) -> Any:
    along = axis_of(-2 if axis is None else int(axis.reshape(())), x.ndim)
    if along == x.ndim - 1:
        refuse("the axis is that of real and imaginary parts")
    n = _length(length)
    context.run.room((n or 1) * x.size // max(1, x.shape[along]), 16)
    return _transformed(x, n, along, inverse, onesided)


@operator("STFT", static=(1, 3))
def _stft(x: Any, step: Known, window: Any = None, length: Any = None, *, onesided: int = 1, context: Any) -> Any:
    hop = int(step.reshape(()))
    size = _length(length) or (int(window.shape[0]) if window is not None else int(x.shape[1]))
    if x.ndim == 2:
        x = wg.expand_dims(x, -1)
    if hop < 1 or not 1 <= size <= x.shape[1] or (window is not None and window.shape[0] > size):
        refuse(f"frames of {size} every {hop} in a signal of {x.shape[1]}")
    count = (int(x.shape[1]) - size) // hop + 1
    context.run.room(count * size * max(1, x.shape[0]), 16)
    places = np.arange(count)[:, None] * hop + np.arange(size)
    frames = wg.take(x, wg.asarray(places), 1)
    if window is not None:
        frames = frames * window.reshape((1, 1, -1, 1)).astype(x.dtype)
    return _transformed(frames, size, 2, 0, onesided)


@operator("MelWeightMatrix", raw=True, static=(0, 1, 2, 3, 4))
def _mel_weights(
    bins: Known, length: Known, rate: Known, lower: Known, upper: Known, *, output_datatype: int = 1, context: Any
) -> Any:
    count, n, sample = (int(v.reshape(())) for v in (bins, length, rate))
    low, high = (float(v.reshape(())) for v in (lower, upper))
    if count < 1 or n < 1 or sample < 1 or not 0 <= low < high:
        refuse(f"{count} bins of {n} samples from {low} to {high} Hz at {sample} Hz")
    context.run.room(count * (n // 2 + 1))
    mels = 2595 * np.log10(1 + np.array([low, high]) / 700)
    edges = mels[0] + np.arange(count + 2) * (mels[1] - mels[0]) / (count + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = np.floor((n + 1) * hertz / sample).astype(np.int64)
    at = np.arange(n // 2 + 1)[:, None]
    left, centre, right = places[:-2], places[1:-1], places[2:]
    up = np.where((at >= left) & (at <= centre), (at - left) / np.maximum(centre - left, 1), 0.0)
    up = np.where((left == centre) & (at == centre), 1.0, up)
    down = np.where((at >= centre) & (at < right), (right - at) / np.maximum(right - centre, 1), 0.0)
    return np.where((at >= centre) & (at < right), down, up).astype(numpy_dtype(output_datatype, "output_datatype"))


# -- random numbers


def _generator(seed: float | None) -> dict[str, Any]:
    if seed is None or not np.isfinite(seed):
        return {}
    return {"generator": wg.random.Generator(int(np.float32(seed).view(np.uint32)))}


def _drawn(kind: str, shape: Any, first: float, second: float, dtype: Any, seed: float | None) -> Any:
    draw = wg.random.uniform if kind == "uniform" else wg.random.normal
    wide = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
    return draw(tuple(shape), first, second, dtype=wide, **_generator(seed)).astype(dtype)


@operator("RandomUniform", raw=True, draws=True)
def _random_uniform(
    *, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None, shape: Any, context: Any
) -> Any:
    context.run.room(int(np.prod([max(int(n), 0) for n in shape], dtype=object)))
    return _drawn("uniform", shape, low, high, numpy_dtype(dtype, "attribute 'dtype'"), seed)


@operator("RandomNormal", raw=True, draws=True)
def _random_normal(
    *, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None, shape: Any, context: Any
) -> Any:
    context.run.room(int(np.prod([max(int(n), 0) for n in shape], dtype=object)))
    return _drawn("normal", shape, mean, scale, numpy_dtype(dtype, "attribute 'dtype'"), seed)


def _like(x: Any, dtype: int | None) -> Any:
    return x.dtype if dtype is None else numpy_dtype(dtype, "attribute 'dtype'")


@operator("RandomUniformLike", draws=True)
def _random_uniform_like(
    x: Any, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Any:
    return _drawn("uniform", x.shape, low, high, _like(x, dtype), seed)


@operator("RandomNormalLike", draws=True)
def _random_normal_like(
    x: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    return _drawn("normal", x.shape, mean, scale, _like(x, dtype), seed)


@operator("Bernoulli", draws=True)
def _bernoulli(p: Any, *, dtype: int | None = None, seed: float | None = None) -> Any:
    drawn = wg.random.uniform(tuple(p.shape), dtype=wg.float32, **_generator(seed))
    return (drawn < p).astype(_like(p, dtype))


@operator("Multinomial", draws=True)
def _multinomial(x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None, context: Any) -> Any:
    context.run.room(sample_size * max(1, x.shape[0]))
    drawn: Tensor = wg.random.multinomial(wg.softmax(x, -1), sample_size, True, **_generator(seed))
    return drawn.astype(numpy_dtype(dtype, "attribute 'dtype'"))
