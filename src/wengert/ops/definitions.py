"""Reference definitions of ops, one term at a time: slow, and what the ops are tested against."""

from __future__ import annotations

from collections.abc import Iterator
from math import log, prod
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.spec import Shape
from .neural.windows import Pads, output_size
from .random.philox import Key, words64


def _out(size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, groups: int = 1) -> Shape:
    return output_size(size, kernel, stride, padding, dilation)


def _terms(
    size: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    """Yield indices (into x, w, y) of every product in the sum."""
    for o in np.ndindex(*output_size(size, kernel, stride, padding, dilation)):
        for k in np.ndindex(*kernel):
            i = tuple(a * s + b * d - low for a, b, s, (low, _), d in zip(o, k, stride, padding, dilation))
            if all(0 <= a < n for a, n in zip(i, size)):
                yield (..., *i), (..., *k), (..., *o)


def _split_channels(a: Array, axis: int, groups: int) -> Array:
    axis %= a.ndim
    return a.reshape(*a.shape[:axis], groups, a.shape[axis] // groups, *a.shape[axis + 1 :])


def convolve(x: Array, w: Array, **attrs: Any) -> Array:
    """Return the convolution, one product at a time."""
    groups, n = attrs["groups"], w.ndim - 2
    y = np.zeros((*x.shape[: -n - 1], w.shape[0], *_out(x.shape[-n:], w.shape[2:], **attrs)), x.dtype)
    xs, ws, ys = _split_channels(x, -n - 1, groups), _split_channels(w, 0, groups), _split_channels(y, -n - 1, groups)
    for i, k, o in _terms(x.shape[-n:], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"]):
        ys[o] += np.einsum("...gc,goc->...go", xs[i], ws[k])
    return y


def convolve_transpose(y: Array, w: Array, *, size: Shape, **attrs: Any) -> Array:
    """Return the transposed convolution, one product at a time."""
    groups, n = attrs["groups"], w.ndim - 2
    x = np.zeros((*y.shape[: -n - 1], w.shape[1] * groups, *size), y.dtype)
    xs, ws, ys = _split_channels(x, -n - 1, groups), _split_channels(w, 0, groups), _split_channels(y, -n - 1, groups)
    for i, k, o in _terms(size, w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"]):
        xs[i] += np.einsum("...go,goc->...gc", ys[o], ws[k])
    return x


def convolve_kernel(x: Array, y: Array, *, kernel: Shape, **attrs: Any) -> Array:
    """Return the convolution's cotangent in its kernel, one product at a time."""
    groups, n = attrs["groups"], len(kernel)
    w = np.zeros((y.shape[-n - 1], x.shape[-n - 1] // groups, *kernel), x.dtype)
    xs, ws, ys = _split_channels(x, -n - 1, groups), _split_channels(w, 0, groups), _split_channels(y, -n - 1, groups)
    for i, k, o in _terms(x.shape[-n:], kernel, attrs["stride"], attrs["padding"], attrs["dilation"]):
        xi, yo = xs[i], ys[o]
        ws[k] += np.einsum("ngc,ngo->goc", xi.reshape(-1, *xi.shape[-2:]), yo.reshape(-1, *yo.shape[-2:]))
    return w


def _pooled(x: Array, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape | None = None) -> Shape:
    n = len(kernel)
    return (*x.shape[:-n], *output_size(x.shape[-n:], kernel, stride, padding, dilation or (1,) * n))


def _window(x: Array, o: Shape, kernel: Shape, stride: Shape, padding: Pads, dilation: Shape, fill: float) -> Array:
    """Return the values seen by window `o`, (*lead, prod(kernel)); `fill` outside of the input."""
    n = len(kernel)
    seen = np.full((*x.shape[:-n], *kernel), fill, x.dtype)
    for k in np.ndindex(*kernel):
        i = tuple(a * s + b * d - low for a, b, s, d, (low, _) in zip(o, k, stride, dilation, padding))
        if all(0 <= a < m for a, m in zip(i, x.shape[-n:])):
            seen[(..., *k)] = x[(..., *i)]
    return seen.reshape(*x.shape[:-n], prod(kernel))


def max_pool(x: Array, **attrs: Any) -> Array:
    """Return the maximum of each window."""
    out = np.empty(_pooled(x, **attrs), x.dtype)
    for o in np.ndindex(*out.shape[-len(attrs["kernel"]) :]):
        out[(..., *o)] = _window(x, o, **attrs, fill=-np.inf).max(-1)
    return out


def argmax_pool(x: Array, **attrs: Any) -> Array:
    """Return the number of each window's largest element."""
    out = np.empty(_pooled(x, **attrs), np.int64)
    for o in np.ndindex(*out.shape[-len(attrs["kernel"]) :]):
        out[(..., *o)] = _window(x, o, **attrs, fill=-np.inf).argmax(-1)
    return out.astype(np.min_scalar_type(prod(attrs["kernel"])))


def pool_select(x: Array, winners: Array, **attrs: Any) -> Array:
    """Return the element of each window that `winners` numbers."""
    out = np.empty(winners.shape, x.dtype)
    for o in np.ndindex(*out.shape[-len(attrs["kernel"]) :]):
        seen = _window(x, o, **attrs, fill=0.0)
        out[(..., *o)] = np.take_along_axis(seen, winners[(..., *o)][..., None], -1)[..., 0]
    return out


def pool_scatter(y: Array, winners: Array, *, size: Shape, **attrs: Any) -> Array:
    """Return the transpose of `pool_select`: each value added at the element that `winners` numbers."""
    n = len(size)
    numbers = np.arange(prod(size), dtype=float).reshape(size)
    x = np.zeros((*y.shape[:-n], prod(size)), y.dtype)
    for o in np.ndindex(*y.shape[-n:]):
        places = _window(numbers, o, **attrs, fill=np.nan)
        for lead in np.ndindex(*y.shape[:-n]):
            x[(*lead, int(places[winners[lead + o]]))] += y[lead + o]
    return x.reshape(*y.shape[:-n], *size)


def sum_pool(x: Array, **attrs: Any) -> Array:
    """Return the sum of each window."""
    out = np.empty(_pooled(x, **attrs), x.dtype)
    dilation = (1,) * len(attrs["kernel"])
    for o in np.ndindex(*out.shape[-len(dilation) :]):
        out[(..., *o)] = _window(x, o, **attrs, dilation=dilation, fill=0.0).sum(-1)
    return out


def spread_pool(y: Array, *, size: Shape, **attrs: Any) -> Array:
    """Return the transpose of a pooling op, one basis vector at a time."""
    n = len(size)
    x = np.empty((*y.shape[:-n], *size), y.dtype)
    for i in np.ndindex(*size):
        basis = np.zeros(size, y.dtype)
        basis[i] = 1
        x[(..., *i)] = (y * sum_pool(basis, **attrs)).sum(tuple(range(-n, 0)))
    return x


def random_categorical(logits: Array, *, key: Key, counter: int, shape: Shape) -> Array:
    """Return class numbers by Gumbel's trick, one row of scores at a time."""
    words = iter(words64(key, counter, prod(shape) * logits.shape[-1]).tolist())
    out = np.empty(shape, np.int64)
    for i in np.ndindex(*shape):
        row = logits[i[len(shape) - logits.ndim + 1 :]].tolist()
        scores = [logit - log(-log(((next(words) >> 11) + 1) / 2**53)) for logit in row]
        out[i] = scores.index(max(scores))
    return out


def random_multinomial(weights: Array, *, key: Key, counter: int, n: int, replacement: bool) -> Array:
    """Return draws as races of exponential times: the class that comes first, or the first n of one race."""
    rows, classes = weights.shape[:-1], weights.shape[-1]
    races = n if replacement else 1
    words = words64(key, counter, races * prod(rows) * classes).reshape(races, *rows, classes)
    out = np.empty((*rows, n), np.int64)
    for i in np.ndindex(races, *rows):
        times = [-log(((int(w) >> 11) + 1) / 2**53) / float(x) for w, x in zip(words[i], weights[i[1:]])]
        ranked = sorted(range(classes), key=times.__getitem__)
        if replacement:
            out[(*i[1:], i[0])] = ranked[0]
        else:
            out[i[1:]] = ranked[:n]
    return out
