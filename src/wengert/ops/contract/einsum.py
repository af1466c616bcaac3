"""Sums of products by index letters: einsum, tensordot, outer, kron, trace.

The public function reduces every call to a canonical op: letters a, b, c ... in order of first
appearance, an explicit result, no ellipsis, no letter twice in one operand (a diagonal is taken
first), no broadcast axis of size 1 (it is squeezed first). The derivative of such an op in an
operand is again such an op.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ...core.dtypes import STORED
from ...core.errors import DTypeError, ShapeError, fail
from ...core.ops.costs import product_of
from ...core.ops.declare import op, public
from ...core.ops.facets import Count, Form, Role
from ...core.ops.nonfinite import OVERFLOW
from ...core.ops.op import Call, Linear, Op
from ...core.ops.operands import elementwise_general, promote_tensors
from ...core.ops.record import another, bind
from ...core.spec import Shape, Spec, float32, normalize_axis, show, spec_of
from ...core.tensor import Tensor
from ..long_sums import LONGEST, add_up
from ..long_sums import product as matrix_product
from ..pointwise.arithmetic import conj, multiply
from ..reduce.sums import sum as sum_along
from ..structure.axes import permute_op
from ..structure.diagonals import diagonal, diagonal_op
from ..structure.shapes import as_operand, broadcast, casted, reshaped

# -- the op


@lru_cache(4096)
def _terms(subscripts: str) -> tuple[tuple[str, ...], str]:
    left, _, right = subscripts.partition("->")
    return tuple(left.split(",")), right


def _sizes(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, int]:
    return {letter: n for term, shape in zip(terms, shapes) for letter, n in zip(term, shape)}


def _infer_einsum(*xs: Spec, subscripts: str) -> Spec:
    terms, out = _terms(subscripts)
    sizes = _sizes(terms, [x.shape for x in xs])
    letters = "".join(terms)
    plain = set(subscripts) <= {*string.ascii_letters, *",->"} and subscripts == f"{','.join(terms)}->{out}"
    fits = [len(t) == len(x.shape) for t, x in zip(terms, xs, strict=False)] == [True] * max(len(terms), len(xs))
    fits = fits and all(sizes[a] == n for t, x in zip(terms, xs) for a, n in zip(t, x.shape))
    if not (plain and fits and set(out) <= set(letters) and all(len(set(t)) == len(t) for t in (*terms, out))):
        fail(ShapeError, f"einsum: {subscripts!r} of {' and '.join(show(x.shape) for x in xs)}")
    return spec_of(tuple(sizes[letter] for letter in out), xs[0].dtype)


def _einsum(*xs: Any, subscripts: str) -> Any:
    dtype = xs[0].dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        # float16 would round every partial sum; NumPy has no einsum of bfloat16.
        return _einsum(*(x.astype(np.float32) for x in xs), subscripts=subscripts).astype(dtype)
    terms, out = _terms(subscripts)
    if len(xs) == 1:
        summed = math.prod(n for letter, n in zip(terms[0], xs[0].shape) if letter not in out)
        if summed <= LONGEST or dtype.kind in "biu":
            return np.einsum(subscripts, xs[0])
        return _arranged(*_summed(xs[0], terms[0], out), tuple(out))
    if len(xs) == 2:
        return _pair(xs[0], terms[0], xs[1], terms[1], out)
    return _several(list(xs), list(terms), out, _path(subscripts, tuple(x.shape for x in xs)))


@lru_cache(1024)
def _path(subscripts: str, shapes: tuple[Shape, ...]) -> list[tuple[int, ...]]:
    """Return the order in which to contract, pair by pair, from NumPy's greedy search."""
    like = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    path: list[tuple[int, ...]] = np.einsum_path(subscripts, *like, optimize="greedy")[0][1:]
    return path


def _several(xs: list[Any], terms: list[str], out: str, path: list[tuple[int, ...]]) -> Any:
    for step in path:
        taken = [(xs.pop(i), terms.pop(i)) for i in sorted(step, reverse=True)]
        x, term = taken.pop()
        while taken:
            y, other = taken.pop()
            wanted = set(out).union(*terms, *(t for _, t in taken))
            kept = "".join(dict.fromkeys(letter for letter in term + other if letter in wanted))
            if not taken and not terms:
                kept = out
            x, term = _pair(x, term, y, other, kept), kept
        xs.append(x)
        terms.append(term)
    return xs[0]


def _pair(x: Any, in_x: str, y: Any, in_y: str, out: str) -> Any:
    """Return two operands contracted as one stack of matrix products."""
    x, in_x = _summed(x, in_x, in_y + out)
    y, in_y = _summed(y, in_y, in_x + out)
    stack = [a for a in in_x if a in in_y and a in out]
    inner = [a for a in in_x if a in in_y and a not in out]
    rows = [a for a in in_x if a not in in_y]
    columns = [a for a in in_y if a not in in_x]
    sizes = _sizes((in_x, in_y), (x.shape, y.shape))
    lengths = [math.prod(sizes[a] for a in group) for group in (stack, rows, inner, columns)]
    x = _arranged(x, in_x, (*stack, *rows, *inner)).reshape(lengths[0], lengths[1], lengths[2])
    y = _arranged(y, in_y, (*stack, *inner, *columns)).reshape(lengths[0], lengths[2], lengths[3])
    if not inner:
        product = x * y
    elif not rows and not columns:
        product = _dots(x[:, 0, :], y[:, :, 0])
    elif not stack:
        product = matrix_product(x[0], y[0])  # without a stack BLAS takes any strides
    else:
        product = matrix_product(x, y)
    made = (*stack, *rows, *columns)
    return _arranged(product.reshape([sizes[a] for a in made]), "".join(made), tuple(out))


def _dots(x: Any, y: Any) -> Any:
    """Return the sums of the products of two stacks' rows."""
    size = x.shape[1]
    if size <= LONGEST or x.dtype.kind in "biu":
        return np.einsum("si,si->s", x, y)
    cut = size - size % LONGEST
    x, left = x[:, :cut].reshape(len(x), -1, LONGEST), x[:, cut:]
    y, right = y[:, :cut].reshape(len(y), -1, LONGEST), y[:, cut:]
    return add_up(np.einsum("sbi,sbi->sb", x, y), 1) + np.einsum("si,si->s", left, right)


def _summed(x: Any, term: str, wanted: str) -> tuple[Any, str]:
    """Return `x` summed over the letters that nothing else names."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in wanted)
    if not axes:
        return x, term
    return add_up(x, axes, x.dtype), "".join(a for a in term if a in wanted)


def _arranged(x: Any, term: str, order: tuple[str, ...]) -> Any:
    return x.transpose([term.index(letter) for letter in order])


def _einsum_transpose(ct: Any, xs: Any, index: int, subscripts: str, xs_shape: Any) -> Any:
    """Return the cotangent of operand `index`: an einsum of the result's and the other operands."""
    terms, out = _terms(subscripts)
    target = terms[index]
    others = [i for i in range(len(terms)) if i != index]
    sources = [out, *(terms[i] for i in others)]
    found = "".join(letter for letter in target if any(letter in s for s in sources))
    values = [conj(xs[i]) if xs[i].dtype.kind == "c" else xs[i] for i in others]
    g = einsum_op(ct, *values, subscripts=_canonical(sources, found))
    shape = tuple(xs_shape[index])
    if found == target:
        return g
    # Letters that only this operand has were summed alone: all along them the cotangent is the same.
    g = g.reshape(tuple(n if letter in found else 1 for letter, n in zip(target, shape)))
    return broadcast(g, shape=shape)


def _canonical(terms: Sequence[str], out: str) -> str:
    """Return the subscripts with letters in order of first appearance."""
    names = dict(zip(dict.fromkeys("".join(terms) + out), string.ascii_letters))
    renamed = ("".join(names[letter] for letter in term) for term in (*terms, out))
    *left, right = renamed
    return f"{','.join(left)}->{right}"


_SAMPLES: list[tuple[str, tuple[Shape, ...]]] = [
    ("ab,bc->ac", ((2, 3), (3, 2))),
    ("abc,adc->bad", ((2, 2, 3), (2, 2, 3))),
    ("ab->ba", ((2, 3),)),
    ("abc->b", ((2, 3, 2),)),
    ("a,b->ab", ((2,), (3,))),
    ("ab,ab->", ((2, 3), (2, 3))),
    ("ab,c->a", ((2, 3), (2,))),
    ("ab,bc,cd->da", ((2, 3), (3, 2), (2, 2))),
    ("ab,ab->a", ((2, 3), (2, 3))),
]


def _einsum_by_product(*xs: Any, subscripts: str) -> Any:
    """Return the oracle's result: every operand along all letters, multiplied and summed."""
    terms, out = _terms(subscripts)
    letters = sorted(set("".join(terms)))
    total: Any = 1.0
    for x, term in zip(xs, terms, strict=True):
        order = sorted(range(len(term)), key=lambda i: letters.index(term[i]))
        shape = [x.shape[term.index(a)] if a in term else 1 for a in letters]
        total = total * x.transpose(order).reshape(shape)
    sizes = _sizes(terms, [x.shape for x in xs])
    total = np.broadcast_to(total, [sizes[a] for a in letters])
    total = total.sum(axis=tuple(i for i, a in enumerate(letters) if a not in out))
    kept = [a for a in letters if a in out]
    return total.transpose([kept.index(a) for a in out])


def _operations(node: Any, specs: Sequence[Spec], out: Spec) -> Any:
    """Count operands two at a time, in NumPy's greedy order: for each combination of letters a product, and a sum."""
    inputs, right = _terms(node.attrs["subscripts"])
    terms = list(inputs)
    sizes = {letter: n for term, spec in zip(terms, specs, strict=True) for letter, n in zip(term, spec.shape)}
    if len(terms) < 3:
        return _of_pair("".join(terms), right, sizes, len(terms))
    like = [np.broadcast_to(np.float64(0), spec.shape) for spec in specs]
    total: Any = 0
    for step in np.einsum_path(node.attrs["subscripts"], *like, optimize="greedy")[0][1:]:
        taken = [terms.pop(i) for i in sorted(step, reverse=True)]
        letters = "".join(taken)
        kept = "".join(c for c in dict.fromkeys(letters) if c in right or any(c in t for t in terms))
        total = total + _of_pair(letters, kept, sizes, len(taken))
        terms.append(kept)
    return total


def _of_pair(letters: str, kept: str, sizes: dict[str, Any], operands: int) -> Any:
    summed = any(c not in kept for c in letters)
    return product_of(sizes[c] for c in dict.fromkeys(letters)) * (operands - 1 + summed)


einsum_op: Op = op(
    "einsum(*xs; subscripts: text)",
    _einsum,
    infer=_infer_einsum,
    facts={"xs": Linear(_einsum_transpose)},
    kind="linear",
    doc="The sum of products of the operands over the letters that the result does not name.",
    samples=lambda rng: [
        Call(tuple(rng.normal(size=shape) for shape in shapes), {"subscripts": subscripts})
        for subscripts, shapes in _SAMPLES
    ],
    reference=_einsum_by_product,
    onnx="Einsum",
    role=Role.PRODUCT,
    dependence="subscripts",
    cost=Count("2 for each product of its sums, two operands at a time", _operations),
    form=Form("Σ", say="Each operand gets the gradient summed with the *others* over their letters."),
    nonfinite=OVERFLOW,
    zero_gradient="factor",
)


# -- reading subscripts


def _bad(subscripts: str, why: str, mend: str = "") -> NoReturn:
    fail(ShapeError, f"einsum {subscripts!r}: {why}", mend)


def _letters_of(term: str, x: Tensor, subscripts: str, free: Sequence[str]) -> str:
    """Return an operand's letters, one for each axis, the ellipsis spelled with the last of the `free` ones."""
    plain = term.replace("...", "", 1)
    if not plain.isascii() or not all(c.isalpha() for c in plain):
        _bad(subscripts, f"the term {term!r} holds more than letters and one '...'")
    hidden = x.ndim - len(plain)
    dots = plain != term
    if hidden < 0 or (hidden and not dots):
        mend = "" if dots else "Write '...' for axes without a letter."
        _bad(subscripts, f"the term {term!r} names {len(plain)} axes of a tensor of {show(x.shape, x.dtype)}", mend)
    return term.replace("...", "".join(free[len(free) - hidden :]) if hidden else "", 1)


def _read(subscripts: str, operands: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return the letters of every operand and of the result, without ellipses."""
    text = "".join(subscripts.split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        _bad(subscripts, f"{len(terms)} terms for {len(operands)} operands", "Separate the terms by commas.")
    unused = [c for c in string.ascii_letters if c not in text]
    hidden = max((x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands) if "..." in t), default=0)
    free = unused[: max(hidden, 0)]
    full = [_letters_of(t, x, subscripts, free) for t, x in zip(terms, operands)]
    every = "".join(full)
    if not arrow:
        named = "".join(t.replace("...", "", 1) for t in terms)
        return full, "".join(free) + "".join(sorted(c for c in set(named) if named.count(c) == 1))
    if free and "..." not in right:
        _bad(subscripts, "the result has no '...' for the axes that the operands hide in theirs")
    out = right.replace("...", "".join(free), 1)
    for c in out:
        if not c.isalpha() or c not in every:
            _bad(subscripts, f"the result names {c!r}, which no operand has")
        if out.count(c) > 1:
            _bad(subscripts, f"the result names {c!r} twice", "Use wg.torch.diag_embed for a diagonal.")
    return full, out


def _common_sizes(terms: Sequence[str], operands: Sequence[Tensor], subscripts: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands):
        for letter, n in zip(term, x.shape):
            known = sizes.setdefault(letter, n)
            if known == 1:
                sizes[letter] = n
            elif n not in (1, known):
                named = f"letter {letter!r}" if letter in subscripts else "an axis in '...'"
                shapes = ", ".join(show(o.shape) for o in operands)
                _bad(subscripts, f"{named} has sizes {known} and {n}: operands of shapes {shapes}")
    return sizes


def _take_diagonals(x: Tensor, term: str, subscripts: str) -> tuple[Tensor, str]:
    """Return an operand with letters that stand twice in it replaced by its diagonal."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            if x.shape[i] != x.shape[j]:
                _bad(subscripts, f"the diagonal {letter + letter!r} of axes of sizes {x.shape[i]} and {x.shape[j]}")
            rest = [k for k in range(x.ndim) if k not in (i, j)]
            axes = tuple(k - x.ndim for k in (*rest, i, j))
            x = bind(diagonal_op, (bind(permute_op, (x,), {"axes": axes}),), {"offset": 0})
            term = "".join(term[k] for k in rest) + letter
    return x, term


def _squeeze_broadcast(x: Tensor, term: str, sizes: dict[str, int]) -> tuple[Tensor, str]:
    """Return an operand without axes of size 1 that stand for a larger size: it does not depend on them."""
    kept = [(letter, n) for letter, n in zip(term, x.shape) if n == sizes[letter]]
    if len(kept) == len(term):
        return x, term
    return reshaped(x, tuple(n for _, n in kept)), "".join(letter for letter, _ in kept)


def operands_of(name: str, *operands: Any) -> list[Tensor]:
    """Return the operands of a product in one dtype; those that are for storage (float8) in float32."""
    if STORED:
        stored = [isinstance(a, Tensor) and a.spec.dtype in STORED for a in operands]
        operands = tuple([casted(a, float32) if s else a for a, s in zip(operands, stored)])
    return promote_tensors(name, *operands)


@public
def einsum(subscripts: str, *operands: Any) -> Tensor:
    """Return a sum of products over index letters, by Einstein's convention (NumPy).

    Parameters
    ----------
    subscripts: a term of letters for each operand, separated by commas, and after `->` those of
        the result; without it, the letters that stand once, in alphabetical order. A letter twice
        in a term takes a diagonal; `...` stands for axes that broadcast.
    operands: tensors, promoted to one dtype.

    Raises ShapeError for terms that do not fit, DTypeError.

    >>> import wengert as wg
    >>> x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> wg.einsum("ij,kj->ik", x, x)
    tensor([[ 5., 11.],
            [11., 25.]])
    >>> wg.einsum("ii", x)
    tensor(5.)
    """
    if not isinstance(subscripts, str):
        fail(
            DTypeError,
            f"einsum: subscripts of type {type(subscripts).__name__}",
            "The first argument is a string such as 'ij,jk->ik'.",
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        fail(ShapeError, f"einsum {subscripts!r} without operands")
    tensors = operands_of("einsum", *operands)
    terms, out = _read(subscripts, tensors)
    for i, term in enumerate(terms):
        if len(set(term)) < len(term):
            tensors[i], terms[i] = _take_diagonals(tensors[i], term, subscripts)
    sizes = _common_sizes(terms, tensors, subscripts)
    for i, term in enumerate(terms):
        tensors[i], terms[i] = _squeeze_broadcast(tensors[i], term, sizes)
    return _contract(tensors, terms, out)


def _contract(tensors: Sequence[Tensor], terms: Sequence[str], out: str) -> Tensor:
    if len(tensors) == 1 and terms[0] == out:
        return another(tensors[0])
    made: Tensor = bind(einsum_op, tensors, {"subscripts": _canonical(terms, out)})
    return made


# -- written with it


@public
def tensordot(x: Any, y: Any, /, *, axes: Any = 2) -> Tensor:
    """Return the sum of products over several axes of each (Array API, NumPy).

    Parameters
    ----------
    axes: how many of the last axes of `x` and first axes of `y`, or two sequences that pair axes.

    Raises ShapeError where paired axes differ in size.

    >>> import wengert as wg
    >>> wg.tensordot(wg.ones((2, 3)), wg.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    x, y = operands_of("tensordot", x, y)
    in_x, in_y = _paired_axes(axes, x, y)
    if [x.shape[i] for i in in_x] != [y.shape[j] for j in in_y]:
        fail(
            ShapeError,
            f"tensordot: axes {in_x} of {show(x.shape, x.dtype)} and {in_y} of {show(y.shape, y.dtype)}",
            "Paired axes have the same size.",
        )
    letters = string.ascii_letters
    x_term = list(letters[: x.ndim])
    y_term = list(letters[x.ndim : x.ndim + y.ndim])
    for i, j in zip(in_x, in_y):
        y_term[j] = x_term[i]
    out = [c for i, c in enumerate(x_term) if i - x.ndim not in in_x]
    out += [c for j, c in enumerate(y_term) if j - y.ndim not in in_y]
    return _contract((x, y), ("".join(x_term), "".join(y_term)), "".join(out))


def _paired_axes(axes: Any, x: Tensor, y: Tensor) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        n = int(axes)
        if not 0 <= n <= min(x.ndim, y.ndim):
            fail(
                ShapeError,
                f"tensordot over {n} axes of {show(x.shape, x.dtype)} and {show(y.shape, y.dtype)}",
                f"Between 0 and {min(x.ndim, y.ndim)} axes can be summed.",
            )
        return list(range(-n, 0)), list(range(-y.ndim, n - y.ndim))
    try:
        first, second = ([a] if isinstance(a, int) else list(a) for a in axes)
    except (TypeError, ValueError):
        fail(DTypeError, f"tensordot: axes {axes!r}", "Give an int, or two sequences of ints.")
    in_x = [normalize_axis(a, x.ndim) for a in first]
    in_y = [normalize_axis(a, y.ndim) for a in second]
    if len(in_x) != len(in_y) or len(set(in_x)) < len(in_x) or len(set(in_y)) < len(in_y):
        fail(ShapeError, f"tensordot: axes {axes!r}", "Both sequences have one length and name no axis twice.")
    return in_x, in_y


@public(method=True)
def outer(x: Any, y: Any) -> Tensor:
    """Return all products of an element of `x` and one of `y`, which are flattened (NumPy).

    >>> import wengert as wg
    >>> wg.outer(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = promote_tensors("outer", x, y)
    return elementwise_general(multiply, (reshaped(x, (x.size, 1)), reshaped(y, (y.size,))))


@public
def kron(x: Any, y: Any) -> Tensor:
    """Return the Kronecker product: every element of `x` times all of `y` (NumPy).

    >>> import wengert as wg
    >>> wg.kron(wg.tensor([1.0, 10.0]), wg.tensor([1.0, 2.0]))
    tensor([ 1.,  2., 10., 20.])
    """
    x, y = promote_tensors("kron", x, y)
    ndim = max(x.ndim, y.ndim)
    a, b = (((1,) * (ndim - t.ndim)) + t.shape for t in (x, y))
    left = reshaped(x, tuple(n for size in a for n in (size, 1)))
    right = reshaped(y, tuple(n for size in b for n in (1, size)))
    return reshaped(elementwise_general(multiply, (left, right)), tuple(m * n for m, n in zip(a, b)))


@public(method=True)
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: Any = None) -> Tensor:
    """Return the sum of a diagonal of the matrices in two axes (NumPy, PyTorch).

    `dtype` is that of the sum, as in :func:`wengert.sum`: else that of `x`, but booleans and small integers
    widen to 64 bits. Raises ShapeError.

    >>> import wengert as wg
    >>> wg.trace(wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    return sum_along(diagonal(as_operand(x), offset, axis1, axis2), axis=-1, dtype=dtype)
