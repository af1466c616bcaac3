"""The table of rules that count the operations of each op, with its conventions.

One addition, multiplication or comparison of real numbers counts 1. Other elementwise functions count
what a good implementation takes, rounded: see `WEIGHTS`. A product of matrices counts an addition
and a multiplication for each term, 2 m n k. Moving elements counts nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import GraphError
from ..core.graph.snapshot import specs_of
from ..core.node import Node
from ..core.ops.op import spec_of_input
from ..core.spec import Spec

Count = Any  # an int, or a polynomial in unknown sizes


class Flops(NamedTuple):
    """A count and the rule that gave it; it is None where `rule` says why there is none."""

    operations: Count | None
    rule: str


def _each(count: int, names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), count)


_DIVISION, _TRANSCENDENTAL, _POWER, _SPECIAL = 4, 15, 30, 60
# Operations for each element of the result. What is not listed is a special function.
WEIGHTS: dict[str, int] = {
    **dict.fromkeys(
        ("copy", "positive", "stop_gradient", "conj", "real", "imag", "straight_through", "scale_gradient"), 0
    ),
    **_each(
        1,
        "add subtract multiply negative square abs maximum minimum relu where floor ceil round trunc sign copysign "
        "nextafter equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
        "logical_not bitwise_and bitwise_or bitwise_xor bitwise_invert bitwise_left_shift bitwise_right_shift "
        "isnan isinf isfinite signbit",
    ),
    "clip": 2,
    **dict.fromkeys(("divide", "reciprocal", "sqrt", "floor_divide", "remainder"), _DIVISION),
    "rsqrt": 2 * _DIVISION,
    "hypot": 3 + _DIVISION,
    **_each(
        _TRANSCENDENTAL,
        "exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc",
    ),
    **dict.fromkeys(("xlogy", "xlog1py"), _TRANSCENDENTAL + 1),
    "sigmoid": _TRANSCENDENTAL + _DIVISION + 1,
    "logaddexp": 2 * _TRANSCENDENTAL + 3,
    "atan2": _TRANSCENDENTAL + _DIVISION,
    "pow": _POWER,
}
# Complex arithmetic in real operations: of the others 4 times as many.
_COMPLEX = {"add": 2, "subtract": 2, "negative": 2, "multiply": 6, "conj": 0, "copy": 0, "real": 0, "imag": 0}

_MOVES = frozenset(
    _each(
        0,
        "alias output size reshape broadcast cast concat split stack unstack permute squeeze expand_dims flip roll "
        "shift tril triu diagonal embed_diagonal pad tile repeat slice slice_transpose slice_update index index_update "
        "gather one_hot pool_select checkpoint_name index_is_last clip_gradient clip_gradient_norm",
    )
)
# Operations for each element of the first operand.
_PER_ELEMENT: dict[str, int] = {
    **_each(1, "sum mean prod max min argmax argmin any all count_nonzero cumulative_sum cumulative_prod sum_runs"),
    **_each(1, "index_transpose gather_transpose pool_scatter spread_pool"),
    "linear_recurrence": 2,
    "var": 4,
    "standardize": 6 + _DIVISION,
    "logsumexp": _TRANSCENDENTAL + 3,
}
# Operations for each number drawn: the counter-based generator's rounds, and the transformation.
_DRAWN = {
    "random_bits": 30,
    "random_uniform": 32,
    "random_bernoulli": 33,
    "random_integers": 33,
    "random_normal": 32 + 2 * _TRANSCENDENTAL,
    "random_permutation": 60,
    "random_categorical": 32 + 2 * _TRANSCENDENTAL,
    "random_multinomial": 32 + 3 * _TRANSCENDENTAL,
    "random_loggamma": 150,
    "random_poisson": 150,
    "random_binomial": 150,
}

Rule = Callable[[Node, Sequence[Spec], Spec], Count]


def _cube(numerator: int, denominator: int = 1) -> Rule:
    """Return the rule of a multiple of n^3 for every matrix, of an op whose first operand is square."""

    def rule(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
        x = specs[0]
        return x.size * x.shape[-1] * numerator // denominator

    return rule


def _rectangle(a: int, b: int, c: int = 1) -> Rule:
    """Return the rule (a m n^2 + b n^3) / c for every matrix, n the smaller size."""

    def rule(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
        x = specs[0]
        n = min(x.shape[-1], x.shape[-2])
        matrices = x.size // (x.shape[-1] * x.shape[-2]) if x.size else 0
        m = max(x.shape[-1], x.shape[-2])
        return matrices * (a * m * n * n + b * n * n * n) // c

    return rule


def _solve(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    a = specs[0]
    return 2 * a.size * a.shape[-1] // 3 + 2 * out.size * a.shape[-1]


def _contraction(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return 2 * out.size * specs[0].shape[-1]


def _einsum(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    """Count operands two at a time, in NumPy's greedy order: for each combination of letters a product, and a sum."""
    left, _, right = node.attrs["subscripts"].partition("->")
    terms = left.split(",")
    sizes = {letter: n for term, spec in zip(terms, specs, strict=True) for letter, n in zip(term, spec.shape)}
    if len(terms) < 3:
        return _pair_count("".join(terms), right, sizes, len(terms))
    like = [np.broadcast_to(np.float64(0), spec.shape) for spec in specs]
    total: Count = 0
    for step in np.einsum_path(node.attrs["subscripts"], *like, optimize="greedy")[0][1:]:
        taken = [terms.pop(i) for i in sorted(step, reverse=True)]
        letters = "".join(taken)
        kept = "".join(c for c in dict.fromkeys(letters) if c in right or any(c in t for t in terms))
        total = total + _pair_count(letters, kept, sizes, len(taken))
        terms.append(kept)
    return total


def _pair_count(letters: str, kept: str, sizes: dict[str, Any], operands: int) -> Count:
    summed = any(c not in kept for c in letters)
    return _product(sizes[c] for c in dict.fromkeys(letters)) * (operands - 1 + summed)


def _convolve(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return 2 * out.size * _product(specs[1].shape[1:])


def _convolve_transpose(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return 2 * specs[0].size * _product(specs[1].shape[1:])


def _convolve_kernel(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return 2 * specs[1].size * _product(out.shape[1:])


def _pool(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return out.size * _product(node.attrs["kernel"])


def _fft(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    length = _product(specs[0].shape[a] for a in node.attrs["axes"])
    return _rounded(5 * specs[0].size * _log2(length))


def _real_fft(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    real = specs[0] if node.op.name == "rfft" else out
    return _rounded(2.5 * real.size * _log2(real.shape[node.attrs["axis"]]))


def _sorting(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    axis = node.attrs.get("axis", -1)
    return _rounded(specs[0].size * _log2(specs[0].shape[axis]))


def _searching(node: Node, specs: Sequence[Spec], out: Spec) -> Count:
    return _rounded(out.size * (1 + _log2(specs[0].shape[-1])))


_MATRIX_PRODUCT = "2 m n k", _contraction
# A rule in words, and the rule.
_RULES: dict[str, tuple[str, Rule]] = {
    **dict.fromkeys(("matmul", "matvec", "vecmat", "dot"), _MATRIX_PRODUCT),
    "einsum": ("2 for each product of its sums, two operands at a time", _einsum),
    "convolve": ("2 for each result, channel and kernel element", _convolve),
    "convolve_transpose": ("2 for each input, channel and kernel element", _convolve_transpose),
    "convolve_kernel": ("2 for each result, channel and kernel element", _convolve_kernel),
    **dict.fromkeys(("max_pool", "sum_pool", "argmax_pool"), ("1 for each window element", _pool)),
    **dict.fromkeys(("fft", "ifft"), ("5 n log2 n", _fft)),
    **dict.fromkeys(("rfft", "irfft"), ("2.5 n log2 n", _real_fft)),
    **dict.fromkeys(("argsort", "arg_top_k"), ("n log2 n comparisons", _sorting)),
    "searchsorted": ("log2 n comparisons each", _searching),
    "solve": ("2/3 n^3 + 2 n^2 for each column", _solve),
    "solve_triangular": ("n^2 for each column", lambda node, specs, out: out.size * specs[0].shape[-1]),
    "inv": ("2 n^3", _cube(2)),
    "cholesky": ("n^3 / 3", _cube(1, 3)),
    "det": ("2/3 n^3", _cube(2, 3)),
    "slogdet": ("2/3 n^3", _cube(2, 3)),
    "adjugate": ("21 n^3, by singular values", _cube(21)),
    "qr": ("4 (m n^2 - n^3 / 3), with Q", _rectangle(12, -4, 3)),
    "svd": ("4 m n^2 + 22 n^3", _rectangle(4, 22)),
    "svdvals": ("4 m n^2 - 4/3 n^3", _rectangle(12, -4, 3)),
    "pinv": ("6 m n^2 + 22 n^3, by singular values", _rectangle(6, 22)),
    "lstsq": ("4 m n^2 + 22 n^3, by singular values", _rectangle(4, 22)),
    "eigh": ("9 n^3", _cube(9)),
    "eigvalsh": ("4/3 n^3", _cube(4, 3)),
    "eig": ("25 n^3", _cube(25)),
    "expm": ("30 n^3, at a norm of about 1", _cube(30)),
    "expm_frechet": ("60 n^3, at a norm of about 1", _cube(60)),
}


def flops(node: Node) -> Flops:
    """Return the operations of a node that is not composite."""
    out = specs_of(node)[0]
    specs = [spec_of_input(e) for e in node.inputs]
    name = node.op.name
    try:
        if name in _MOVES:
            return Flops(0, "moves elements")
        if node.op.kind == "elementwise":
            return _elementwise(name, specs, out)
        if name in _PER_ELEMENT:
            n = _PER_ELEMENT[name]
            return Flops(specs[0].size * n * _parts(specs[0]), f"{n} for each element of its operand")
        if (drawing := name.removesuffix("_at")) in _DRAWN:
            return Flops(out.size * _DRAWN[drawing], f"{_DRAWN[drawing]} for each number drawn")
        if name in _RULES:
            words, rule = _RULES[name]
            # A complex product is four real ones and two sums for one.
            factor = 4 if out.dtype.kind == "c" and specs[0].dtype.kind == "c" else 1
            return Flops(rule(node, specs, out) * factor, words)
        size = sum(s.size for s in [*specs, *specs_of(node)])
    except GraphError:
        return Flops(None, "needs sizes that are not known until the graph is fed")
    return Flops(size, "no rule for this op: 1 for each element read or written")


def _elementwise(name: str, specs: Sequence[Spec], out: Spec) -> Flops:
    weight = WEIGHTS.get(name, _SPECIAL)
    words = f"{weight} for each element" if name in WEIGHTS else f"a special function, {weight} for each element"
    if any(s.dtype.kind == "c" for s in specs):
        weight = _COMPLEX.get(name, 4 * weight)
        words = f"{weight} for each complex element"
    return Flops(out.size * weight, words)


def _parts(spec: Spec) -> int:
    return 2 if spec.dtype.kind == "c" else 1


def _product(sizes: Any) -> Count:
    out: Count = 1
    for n in sizes:
        out = out * n
    return out


def _log2(n: Any) -> float:
    return math.log2(float(n) or 1.0)


def _rounded(x: float) -> int:
    return round(x)
