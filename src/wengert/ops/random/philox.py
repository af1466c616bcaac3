"""Random bits as a function of a key and a position, and the numbers made of them.

The bits are those of Philox 4x64-10 (Salmon et al. 2011). Block b of a stream is the cipher of the
counter (b, 0, 0, 0) under the stream's key of two 64-bit words: four words of 64 bits. A generator is
a key and the number of its next block; drawing reserves whole blocks. The ops are sources: their
attributes name key, position, shape and dtype, and say all that there is to know about their result.

From words to numbers, in row-major order (32-bit words are the halves of 64-bit ones, low half first):

| result | word | value |
| --- | --- | --- |
| uniform float64 | 64 bits | the top 53 bits times 2**-53 |
| uniform float32, float16, bfloat16 | 32 bits | the top 24, 11, 8 bits times 2**-24, 2**-11, 2**-8 |
| normal float64 | two of 64 bits | Box-Muller: u = (top 53 bits + 1) 2**-53, v uniform; \
sqrt(-2 ln u) cos(2 pi v), then sin |
| normal, narrower | two of 32 bits | the same in float32 with u = (word + 1) 2**-32, rounded once |
| bernoulli(p), p a number | 32 bits | word < round(p 2**32) |
| integers from low, r of them | 64 bits | low + floor(word r / 2**64) |
| categorical | 64 bits | the first class with the greatest logit - ln(-ln u), u as for normal float64 |
| permutation of n | 64 bits | the low bits of the words, sorted after the bits that hold n - 1 are replaced by \
0, 1, ..., n - 1 |

A longer draw from the same place begins with the numbers of a shorter one.
"""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.dtypes import DType, record_of
from ...core.spec import Shape, bool_, float32, float64, int64

Key = tuple[int, int]

WORD = (1 << 64) - 1  # the greatest
BLOCK = 4  # words of 64 bits


# -- bits


class _Cipher:
    """A Philox generator of NumPy's, made once for a thread: setting its state costs a fraction of making it."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(0)
        self.state: Any = dict(self.philox.state)
        self.key, self.counter = np.zeros(2, np.uint64), np.zeros(BLOCK, np.uint64)
        self.state["state"] = {"key": self.key, "counter": self.counter}

    def words(self, key: Key, block: int, count: int, domain: int) -> Array:
        before = (block | domain << 192) - 1  # NumPy advances the counter before it enciphers
        for i in range(BLOCK):
            self.counter[i] = before >> 64 * i & WORD
        self.key[0], self.key[1] = key
        self.philox.state = self.state
        words: Array = self.philox.random_raw(count)
        return words


_thread = threading.local()


def words64(key: Key, counter: int, count: int, domain: int = 0) -> Array:
    """Return `count` words of 64 bits: the ciphers of (counter, 0, 0, domain), (counter + 1, 0, 0, domain), ..."""
    try:
        cipher = _thread.cipher
    except AttributeError:
        # Not before it is needed: importing numpy.random costs as much as the rest of this package.
        cipher = _thread.cipher = _Cipher()
    words: Array = cipher.words(key, counter, count, domain)
    return words


def words32(key: Key, counter: int, count: int) -> Array:
    """Return `count` words of 32 bits: the halves of words of 64, low half first."""
    words = words64(key, counter, (count + 1) // 2)
    return words.astype("<u8", copy=False).view("<u4")[:count]


# -- from bits to numbers


def uniform(*, key: Key, counter: int, shape: Shape, dtype: DType) -> Array:
    """Return uniform numbers in [0, 1)."""
    count = prod(shape)
    if dtype == float64:
        words = words64(key, counter, count)
        words >>= np.uint64(11)
        return (words * 2.0**-53).reshape(shape)
    bits = record_of(dtype).digits
    out = (words32(key, counter, count) >> np.uint32(32 - bits)).astype(float32)
    out *= np.float32(2.0**-bits)
    return out.reshape(shape).astype(dtype, copy=False)


def normal(*, key: Key, counter: int, shape: Shape, dtype: DType) -> Array:
    """Return standard normal numbers, by Box and Muller's method."""
    count = prod(shape)
    work = float64 if dtype == float64 else float32
    u, v = pairs(key, counter, (count + 1) // 2, work)
    np.log(u, out=u)
    u *= -2
    np.sqrt(u, out=u)
    v *= work.type(2 * np.pi)
    out = np.empty((len(u), 2), work)
    np.multiply(u, np.cos(v), out=out[:, 0])
    np.multiply(u, np.sin(v), out=out[:, 1])
    return out.reshape(-1)[:count].reshape(shape).astype(dtype, copy=False)


def pairs(key: Key, counter: int, count: int, dtype: DType) -> tuple[Array, Array]:
    """Return `count` pairs of uniform numbers, the first in (0, 1], the second in [0, 1)."""
    if dtype == float64:
        words = words64(key, counter, 2 * count).reshape(count, 2) >> np.uint64(11)
        u, v = words[:, 0].astype(float64), words[:, 1] * 2.0**-53
        u += 1
        u *= 2.0**-53
        return u, v
    words = words32(key, counter, 2 * count).reshape(count, 2)
    u, v = words[:, 0].astype(float32), (words[:, 1] >> np.uint32(8)).astype(float32)
    u += 1
    u *= float32.type(2.0**-32)
    v *= float32.type(2.0**-24)
    return u, v


def bernoulli(*, key: Key, counter: int, shape: Shape, p: float) -> Array:
    """Return booleans that are True with probability `p`."""
    threshold = round(p * 2**32)
    if threshold >= 2**32:
        return np.ones(shape, bool_)
    return (words32(key, counter, prod(shape)) < np.uint32(threshold)).reshape(shape)


def integers(*, key: Key, counter: int, shape: Shape, dtype: DType, low: int, high: int) -> Array:
    """Return integers from `low` up to, and not including, `high`."""
    scaled = _multiply_high(words64(key, counter, prod(shape)), high - low)
    # Two's complement: adding modulo 2**64 and reading the bits as signed is exact.
    scaled += np.uint64(low & WORD)
    if dtype.kind == "i":
        scaled = scaled.view(np.int64)
    return scaled.astype(dtype, copy=False).reshape(shape)


def _multiply_high(words: Array, factor: int) -> Array:
    """Return floor(words * factor / 2**64), by halves; `factor` up to 2**64."""
    if factor > WORD:
        return words.copy()
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    high, low = words >> half, words & low_bits
    c, d = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    middle = low * d
    middle >>= half
    middle += high * d
    if not c:
        middle >>= half
        return middle
    low *= c
    low += middle & low_bits
    high *= c
    high += middle >> half
    high += low >> half
    return high


def permutation(*, key: Key, counter: int, n: int) -> Array:
    """Return the integers below n in random order."""
    low_bits = np.uint64((1 << max(n - 1, 0).bit_length()) - 1)
    keys = words64(key, counter, n)
    keys &= ~low_bits
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low_bits
    return keys.astype(int64)


def bits(*, key: Key, counter: int, shape: Shape, dtype: DType) -> Array:
    """Return random bits as unsigned integers of the dtype."""
    words = words64 if dtype.itemsize == 8 else words32
    return words(key, counter, prod(shape)).astype(dtype, copy=False).reshape(shape)


def gumbel(key: Key, counter: int, shape: Shape) -> Array:
    """Return Gumbel noise, -ln(-ln u), u = (top 53 bits + 1) 2**-53: finite everywhere."""
    u = ((words64(key, counter, prod(shape)) >> np.uint64(11)).astype(float64) + 1) * 2.0**-53
    return -np.log(np.maximum(-np.log(u), np.finfo(np.float64).tiny)).reshape(shape)


def categorical(logits: Array, *, key: Key, counter: int, shape: Shape) -> Array:
    """Return classes by Gumbel's trick: the class with the greatest logit plus Gumbel noise."""
    scores = gumbel(key, counter, (*shape, logits.shape[-1])) + logits.astype(float64)
    return np.asarray(scores.argmax(-1), int64)


def multinomial(weights: Array, *, key: Key, counter: int, n: int, replacement: bool) -> Array:
    """Return classes by Gumbel's trick for each draw; the order of one row's scores is that of draws in turn."""
    with np.errstate(divide="ignore"):
        logits = np.log(weights.astype(float64))
    if replacement:
        drawn = categorical(logits, key=key, counter=counter, shape=(n, *weights.shape[:-1]))
        return np.ascontiguousarray(np.moveaxis(drawn, 0, -1))
    scores = logits + gumbel(key, counter, weights.shape)
    return np.ascontiguousarray(np.argsort(-scores, axis=-1, kind="stable")[..., :n], dtype=int64)
