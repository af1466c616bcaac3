"""The lowering of einsum: pairs of operands as stacks of matrix products of permuted views.

Nothing is copied that strides can say. Letters of both operands and the result make the stack, of one
operand and the result rows or columns, of both operands alone the inner axis. A sum over letters is a
product with ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .....core.node import Node
from ...plan.lowering import Lowering, lowers
from ...plan.plan import View
from .finish import plain_store
from .plan import compute_type, product
from .products import Result, merged_stacks
from .tiles import numpy_dtype


@lowers("einsum")
def _einsum(low: Lowering, node: Node) -> Result:
    xs = [low.view(n) for n in node.inputs]
    type = compute_type(xs[0].dtype)
    if type is None:
        return None
    left, _, out = node.attrs["subscripts"].partition("->")
    terms = left.split(",")
    if len(xs) == 1:
        if len(terms[0]) == len(out):
            return xs[0].permute([terms[0].index(a) for a in out])
        return _Pair(low, node, xs[0], terms[0], *_ones(low, xs[0], terms[0], out), out).result()
    for step in _path(node.attrs["subscripts"], xs):
        taken = [(xs.pop(i), terms.pop(i)) for i in sorted(step, reverse=True)]
        x, term = taken.pop()
        while taken:
            y, other = taken.pop()
            if not taken and not terms:
                return _Pair(low, node, x, term, y, other, out).result()
            wanted = set(out).union(*terms, *(t for _, t in taken))
            kept = "".join(dict.fromkeys(letter for letter in term + other if letter in wanted))
            # Half-precision numbers stay float32 between products.
            x, term = _Pair(low, node, x, term, y, other, kept).stored(numpy_dtype(type)), kept
        xs.append(x)
        terms.append(term)
    raise AssertionError("a path ends with one operand")


def _path(subscripts: str, xs: Sequence[View]) -> list[tuple[int, ...]]:
    """Return the operands to contract, step by step, from NumPy's greedy search."""
    like = [np.broadcast_to(np.float64(0), x.shape) for x in xs]
    path: list[tuple[int, ...]] = np.einsum_path(subscripts, *like, optimize="greedy")[0][1:]
    return path


def _ones(low: Lowering, x: View, term: str, out: str) -> tuple[View, str]:
    """Return ones along the letters of an operand that nothing else names."""
    lone = [(a, n) for a, n in zip(term, x.shape) if a not in out]
    one = low.constant(np.ones((), x.dtype))
    return one.broadcast([n for _, n in lone]), "".join(a for a, _ in lone)


class _Pair:
    """A pair of operands, with their letters, contracted to the letters `out`."""

    def __init__(self, low: Lowering, node: Node, x: View, in_x: str, y: View, in_y: str, out: str) -> None:
        self.low, self.node, self.out = low, node, out
        x, in_x = self._summed(x, in_x, in_y + out)
        y, in_y = self._summed(y, in_y, in_x + out)
        sizes = dict(zip(in_x + in_y, x.shape + y.shape))
        if out and (out[-1] in in_x) != (out[-1] in in_y):
            # Columns of the result lie side by side: its last axis is theirs, if that suits who reads it.
            is_last, others = (in_x, in_y) if out[-1] in in_x else (in_y, in_x)
            rows_size = math.prod(sizes[a] for a in out if a in others and a not in is_last)
            is_turned = out == node.attrs["subscripts"].partition("->")[2] and low.is_better_turned(node, rows_size)
            if (is_last is in_x) != is_turned:
                x, in_x, y, in_y = y, in_y, x, in_x
        stack = [a for a in out if a in in_x and a in in_y]
        rows = [a for a in out if a in in_x and a not in in_y]
        columns = [a for a in out if a in in_y and a not in in_x]
        inner = [a for a in in_x if a in in_y and a not in out]
        x, y, inner_size = self._inner(x, in_x, y, in_y, inner)
        in_x = "".join(a for a in in_x if a not in inner)
        in_y = "".join(a for a in in_y if a not in inner)
        more_rows, rows = _split(x, in_x, rows)
        more_columns, columns = _split(y, in_y, columns)
        stack = [*stack, *more_rows, *more_columns]
        self.letters = "".join([*stack, *rows, *columns])
        self.sizes = [sizes[a] for a in self.letters]
        lengths = [math.prod(sizes[a] for a in group) for group in (rows, columns)]
        leading = [sizes[a] for a in stack]
        a = _arranged(x, in_x, (*stack, *rows), sizes).reshape((*leading, lengths[0], inner_size))
        b = _arranged(y, in_y, (*stack, *columns), sizes).reshape((*leading, lengths[1], inner_size))
        assert a is not None
        assert b is not None
        self.is_outer = not inner
        self.a, self.b = merged_stacks(a, b.permute((*range(len(stack)), -1, -2)))
        self.shape = (*self.a.shape[:-1], self.b.shape[-1])

    def _summed(self, x: View, term: str, wanted: str) -> tuple[View, str]:
        """Return an operand summed over the letters that nothing else names."""
        kept = "".join(a for a in term if a in wanted)
        if kept == term:
            return x, term
        type = compute_type(x.dtype)
        assert type is not None
        pair = _Pair(self.low, self.node, x, term, *_ones(self.low, x, term, wanted), kept)
        return pair.stored(numpy_dtype(type)), kept

    def _inner(self, x: View, in_x: str, y: View, in_y: str, inner: list[str]) -> tuple[View, View, int]:
        """Return both with the summed letters as one last axis, in an order that suits the larger one's strides."""
        larger, letters = (x, in_x) if x.size >= y.size else (y, in_y)
        inner.sort(key=lambda a: -abs(larger.strides[letters.index(a)]))
        made = []
        for view, term in ((x, in_x), (y, in_y)):
            order = [*(a for a in term if a not in inner), *inner]
            moved = view.permute([term.index(a) for a in order])
            shape = (*moved.shape[: len(order) - len(inner)], math.prod(moved.shape[len(order) - len(inner) :]))
            made.append(moved.reshape(shape) or self.low.copy(moved).reshape(shape))
        a, b = made
        assert a is not None
        assert b is not None
        return a, b, a.shape[-1]

    def stored(self, dtype: np.dtype[np.generic]) -> View:
        """Return the result, its axes in the order asked for."""
        out = self.low.temp(self.shape, dtype)
        product(self.low, self.a, self.b, plain_store(out), [self.node], is_outer=self.is_outer)
        made = out.reshape(self.sizes)
        assert made is not None
        return made.permute([self.letters.index(a) for a in self.out])

    def result(self) -> Result:
        """Return the node's result, with its epilogue where the product has the node's own order."""
        follows = self.low.epilogue(self.node, self.shape) if self.letters == self.out else None
        if follows is None:
            return self.stored(self.node.spec.dtype)
        product(self.low, self.a, self.b, follows, [self.node], is_outer=self.is_outer)
        return follows.outputs


def _split(x: View, term: str, letters: list[str]) -> tuple[list[str], list[str]]:
    """Split letters, in order, where strides make no single axis of the last ones: the first ones go to the stack."""
    for start in range(len(letters)):
        axes = [term.index(a) for a in letters[start:]]
        if x.permute(axes).reshape((math.prod(x.shape[i] for i in axes),)) is not None:
            return letters[:start], letters[start:]
    return [], []


def _arranged(x: View, term: str, order: Sequence[str], sizes: dict[str, int]) -> View:
    """Return the axes in this order, the merged inner one last; letters that the operand lacks repeat it."""
    shape = [sizes[a] for a in order]
    strides = [x.strides[term.index(a)] if a in term else 0 for a in order]
    return x._replace(shape=(*shape, x.shape[-1]), strides=(*strides, x.strides[-1]))
