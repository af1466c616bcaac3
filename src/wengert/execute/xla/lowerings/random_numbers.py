"""Random numbers in XLA: the bits of Philox 4x64-10 by integer arithmetic, the same as everywhere else.

See :mod:`wengert.ops.random.philox` for what is made of the bits. Integers and uniform numbers are equal bit for bit;
normal ones go through XLA's logarithm and cosine, whose last bits are its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, prod
from typing import Any

import numpy as np

from ....core.node import Node
from ....ops.random.philox import BLOCK, WORD
from ..api import jnp, lax
from ..rules import Trace, lowers, narrow

_U64 = np.dtype(np.uint64)
# The multipliers and the Weyl increments of the key (Salmon et al. 2011).
_MULTIPLIERS = (0xD2E7470EE14C6C93, 0xCA5A826395121157)
_WEYL = (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
_ROUNDS = 10
_FIRST = np.uint64(0)


def _u64(value: Any) -> Any:
    return np.uint64(value & WORD) if isinstance(value, int) else narrow(value, _U64)


def _multiply(x: Any, factor: int) -> tuple[Any, Any]:
    """Return the high and the low word of a product of words, by halves."""
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    c, d = np.uint64(factor >> 32), np.uint64(factor & 0xFFFFFFFF)
    high, low = x >> half, x & low_bits
    first = low * d
    middle = high * d + (first >> half)
    other = low * c + (middle & low_bits)
    return high * c + (middle >> half) + (other >> half), x * np.uint64(factor & WORD)


def _cipher(key: Any, block: Any, beyond: Any, attempt: Any, domain: int) -> tuple[Any, ...]:
    """Return the four words of blocks (block, beyond, attempt, domain) under a key of two words."""
    zero = jnp.zeros_like(block)
    words = [block, zero + beyond, zero + attempt, zero + np.uint64(domain)]
    for i in range(_ROUNDS):
        keys = [_u64(k + i * w) if isinstance(k, int) else k + _u64(i * w) for k, w in zip(key, _WEYL, strict=True)]
        high0, low0 = _multiply(words[0], _MULTIPLIERS[0])
        high1, low1 = _multiply(words[2], _MULTIPLIERS[1])
        words = [high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0]
    return tuple(words)


class Stream:
    """A key and the number of its next block; `check` has the interpreter decide where a mask holds."""

    def __init__(self, key: Any, counter: Any, check: Callable[[Any], None]) -> None:
        self.check = check
        self.key = key if isinstance(key, tuple) else (_u64(key[0]), _u64(key[1]))
        self.counter = counter

    def words64(self, count: int, domain: int = 0, attempt: Any = _FIRST) -> Any:
        """Return so many words of 64 bits; every attempt has others."""
        blocks = lax.iota(_U64, -(-count // BLOCK))
        start = _u64(self.counter)
        block = blocks + start
        # Positions are numbers of 128 bits.
        beyond = narrow(block < start, _U64)
        if isinstance(self.counter, int):
            beyond = beyond + np.uint64(self.counter >> 64 & WORD)
        elif jnp.asarray(self.counter).dtype.kind == "i":  # two's complement
            beyond = beyond + lax.select(self.counter < 0, _u64(WORD) + jnp.zeros_like(start), jnp.zeros_like(start))
        words = _cipher(self.key, block, beyond, attempt, domain)
        return lax.reshape(jnp.stack(words, -1), (BLOCK * len(blocks),))[:count]

    def words32(self, count: int) -> Any:
        """Return so many words of 32 bits, the halves of words of 64."""
        words = self.words64((count + 1) // 2)
        halves = jnp.stack([narrow(words & np.uint64(0xFFFFFFFF), np.dtype(np.uint32)),
                            narrow(words >> np.uint64(32), np.dtype(np.uint32))], -1)  # fmt: skip
        return lax.reshape(halves, (2 * words.size,))[:count]


def draws(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare both forms of an op that draws: key and position as attributes, or as its last two inputs."""

    def register(draw: Callable[..., Any]) -> Callable[..., Any]:
        @lowers(name)
        def fixed(t: Trace, node: Node, *args: Any) -> Any:
            named = dict(node.attrs)
            stream = Stream(named.pop("key"), named.pop("counter"), t.check)
            return draw(stream, *args, **named)

        @lowers(f"{name}_at")
        def fed(t: Trace, node: Node, *args: Any) -> Any:
            *rest, key, counter = args
            return draw(Stream(key, counter, t.check), *rest, **node.attrs)

        return draw

    return register


@draws("random_bits")
def _bits(stream: Stream, shape: Any, dtype: Any) -> Any:
    words = stream.words64(prod(shape)) if dtype.itemsize == 8 else stream.words32(prod(shape))
    return lax.reshape(narrow(words, dtype), shape)


@draws("random_uniform")
def _uniform(stream: Stream, shape: Any, dtype: Any) -> Any:
    count = prod(shape)
    if dtype == np.float64:
        out = narrow(stream.words64(count) >> np.uint64(11), np.dtype(np.float64)) * 2.0**-53
        return lax.reshape(out, shape)
    bits = 24 if dtype.itemsize == 4 else 11 if dtype.kind == "f" else 8
    words = narrow(stream.words32(count) >> np.uint32(32 - bits), np.dtype(np.float32))
    return lax.reshape(narrow(words * np.float32(2.0**-bits), dtype), shape)


@draws("random_normal")
def _normal(stream: Stream, shape: Any, dtype: Any) -> Any:
    count = prod(shape)
    pairs = (count + 1) // 2
    if dtype == np.float64:
        work: np.dtype[Any] = np.dtype(np.float64)
        words = lax.reshape(stream.words64(2 * pairs), (pairs, 2)) >> np.uint64(11)
        u = (narrow(words[:, 0], work) + 1) * 2.0**-53
        v = narrow(words[:, 1], work) * 2.0**-53
    else:
        work = np.dtype(np.float32)
        words = lax.reshape(stream.words32(2 * pairs), (pairs, 2))
        u = (narrow(words[:, 0], work) + np.float32(1)) * np.float32(2.0**-32)
        v = narrow(words[:, 1] >> np.uint32(8), work) * np.float32(2.0**-24)
    u = lax.sqrt(lax.log(u) * work.type(-2))
    v = v * work.type(2 * pi)
    out = jnp.stack([u * lax.cos(v), u * lax.sin(v)], -1)
    return lax.reshape(narrow(lax.reshape(out, (2 * pairs,))[:count], dtype), shape)


@draws("random_bernoulli")
def _bernoulli(stream: Stream, shape: Any, p: float) -> Any:
    threshold = round(p * 2**32)
    if threshold >= 2**32:
        return jnp.ones(shape, bool)
    return lax.reshape(stream.words32(prod(shape)) < np.uint32(threshold), shape)


@draws("random_integers")
def _integers(stream: Stream, shape: Any, dtype: Any, low: int, high: int) -> Any:
    words, factor = stream.words64(prod(shape)), high - low
    scaled = words if factor > WORD else _multiply(words, factor)[0]
    scaled = scaled + np.uint64(low & WORD)
    if dtype.kind == "i":
        scaled = lax.bitcast_convert_type(scaled, np.int64)
    return lax.reshape(narrow(scaled, dtype), shape)


@draws("random_permutation")
def _permutation(stream: Stream, n: int) -> Any:
    low_bits = (1 << max(n - 1, 0).bit_length()) - 1
    keys = (stream.words64(n) & np.uint64(~low_bits & WORD)) | lax.iota(_U64, n)
    return narrow(lax.sort(keys) & np.uint64(low_bits), np.dtype(np.int64))


@lowers("random_key")
def _random_key(t: Trace, node: Node, key: Any, position: Any) -> Any:
    return Stream(key, position, t.check).words64(2, node.attrs["domain"])


def _gumbel(stream: Stream, shape: Any) -> Any:
    u = (narrow(stream.words64(prod(shape)) >> np.uint64(11), np.dtype(np.float64)) + 1) * 2.0**-53
    return lax.reshape(-lax.log(jnp.maximum(-lax.log(u), np.finfo(np.float64).tiny)), shape)


def _categories(stream: Stream, logits: Any, shape: Any) -> Any:
    scores = _gumbel(stream, (*shape, logits.shape[-1])) + narrow(logits, np.dtype(np.float64))
    return lax.argmax(scores, scores.ndim - 1, np.int64)


@draws("random_categorical")
def _categorical(stream: Stream, logits: Any, shape: Any) -> Any:
    return _categories(stream, logits, shape)


@draws("random_multinomial")
def _multinomial(stream: Stream, weights: Any, n: int, replacement: bool) -> Any:
    logits = lax.log(narrow(weights, np.dtype(np.float64)))
    if replacement:
        return jnp.moveaxis(_categories(stream, logits, (n, *weights.shape[:-1])), 0, -1)
    scores = logits + _gumbel(stream, weights.shape)
    return narrow(jnp.argsort(-scores, axis=-1, stable=True)[..., :n], np.dtype(np.int64))
