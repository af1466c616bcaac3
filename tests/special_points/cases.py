"""The functions whose derivatives are compared with mpmath's, and where: ops by the table, composites, densities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

import wengert as wg
import wengert.numpy as wnp
import wengert.torch as torch
from wengert.core.ops.op import Op

from . import densities
from .exact import DIFFERENTIATED, exact, huber, kinks, pow_, sigmoid, softplus

F = wg.nn.functional
TF = torch.nn.functional

ORDER = 4
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e-300, -1e-300, 1e-4, -1e-4, 20.0, -20.0, 1e4, -1e4)
_PAIRS = (
    *((a, b) for a in (0.0, 1.0, 2.0) for b in (0.0, 1.0, 2.0)),
    (0.5, 0.5),
    (-1.0, 0.0),
    (-1.0, 2.0),
    (0.5, -1.0),
)


class Case(NamedTuple):
    """A function of Wengert and the same of mpmath, with the points at which they are compared.

    `as_about_1` says that errors are those of numbers about 1, as of sigmoid'(20) = s (1 - s), also where the
    derivatives are smaller. `is_slow` cases are of the slow tests.
    """

    name: str
    fn: Callable[..., Any]
    exact: Callable[..., Any]
    points: tuple[tuple[float, ...], ...]
    order: int = ORDER
    as_about_1: bool = False
    is_slow: bool = False


def _ones(*more: float) -> tuple[tuple[float, ...], ...]:
    return tuple((p,) for p in dict.fromkeys((*POINTS, *more)))


def of_the_table() -> Iterator[Case]:
    """The ops of one or two real arguments, once with each choice of attributes that the samples have."""
    for op in DIFFERENTIATED:
        known, rng = exact(op), np.random.default_rng(5)
        if known is None or op.name in ("where", "clip") or len(op.params) > 2:
            continue
        for attrs in {tuple(sorted(c.attrs.items())): c.attrs for c in op.samples(rng)}.values():
            said = ", ".join(f"{k}={v}" for k, v in attrs.items())
            points = _ones(*kinks(op, attrs)) if len(op.params) == 1 else _PAIRS
            if op.name == "binary_cross_entropy":
                points = ((0.5, 0.0), (0.5, 0.5), (0.25, 1.0))  # others are refused
            name, about_1 = f"{op.name}({said})" if said else op.name, op.name in ("sigmoid", "tanh")
            yield Case(name, partial(_front(op), **attrs), partial(known, **attrs), points, as_about_1=about_1)


def _front(op: Op) -> Callable[..., Any]:
    return lambda *args, **attrs: op.front(*args, **attrs)


def composites() -> Iterator[Case]:
    """Functions that are made of several ops: activations, losses, distances, NumPy's and PyTorch's functions."""
    one = wg.tensor(1.0, dtype="float64")

    def loss(fn: Callable[..., Any], **attrs: Any) -> Callable[[Any], Any]:
        return lambda x: fn(x, wg.zeros_like(x) + 1.0, reduction="none", **attrs)

    def row(fn: Callable[..., Any], *others: float) -> Callable[[Any], Any]:
        """Return a function of rows as one of their first element, the others being given."""

        def run(x: Any) -> Any:
            rest = [wg.zeros_like(x) + other for other in others]
            return fn(wg.stack([x, *rest], axis=-1))

        return run

    # Activations whose attributes change the formula, with the signs that they may have.
    for slope in (0.01, -0.5, -2.0, 0.0, 2.0):
        yield Case(
            f"leaky_relu by {slope}",
            partial(F.leaky_relu, negative_slope=slope),
            lambda x, s=slope: x if x > 0 else x * s,
            _ones(),
        )
    for alpha in (1.0, -0.5, 2.0):
        yield Case(
            f"elu by {alpha}", partial(F.elu, alpha=alpha), lambda x, a=alpha: x if x > 0 else a * mp.expm1(x), _ones()
        )
        yield Case(
            f"celu by {alpha}",
            partial(F.celu, alpha=alpha),
            lambda x, a=alpha: x if x > 0 else a * mp.expm1(x / a),
            _ones(),
        )
    for beta in (1.0, 0.5, -1.0):
        yield Case(
            f"softplus by {beta}", partial(F.softplus, beta=beta), lambda x, b=beta: softplus(x * b) / b, _ones()
        )
    yield Case("tanhshrink", F.tanhshrink, lambda x: x - mp.tanh(x), _ones())
    yield Case("glu", lambda x: F.glu(wg.stack([x, x], axis=-1))[..., 0], lambda x: x * sigmoid(x), _ones())
    yield Case("silu of torch", TF.silu, lambda x: x * sigmoid(x), _ones())
    yield Case("logsigmoid of torch", TF.logsigmoid, lambda x: -softplus(-x), _ones())
    yield Case("softplus of torch", TF.softplus, softplus, _ones())
    yield Case("mish of torch", TF.mish, lambda x: x * mp.tanh(softplus(x)), _ones())
    yield Case(
        "log of the sigmoid of 2 classes",
        row(lambda r: wg.log_softmax(r, axis=-1)[..., 0], 0.0),
        lambda x: -softplus(-x),
        _ones(),
        as_about_1=True,
    )
    yield Case("logsumexp", row(lambda r: wg.logsumexp(r, axis=-1), 0.0), softplus, _ones(), as_about_1=True)

    # Losses.
    yield Case(
        "binary_cross_entropy_with_logits",
        loss(F.binary_cross_entropy_with_logits),
        lambda x: softplus(-x),
        _ones(),
        as_about_1=True,
    )
    yield Case(
        "with a weight of the positive",
        loss(F.binary_cross_entropy_with_logits, pos_weight=3.0),
        lambda x: 3 * softplus(-x),
        _ones(),
    )
    yield Case("soft_margin_loss", loss(TF.soft_margin_loss), lambda x: softplus(-x), _ones())
    yield Case(
        "multilabel_soft_margin_loss",
        row(lambda r: TF.multilabel_soft_margin_loss(r, wg.zeros_like(r) + 1.0, reduction="none"), 0.0),
        lambda x: (softplus(-x) + mp.log(2)) / 2,
        _ones(),
    )
    yield Case(
        "a focal loss",
        lambda x: -((1.0 - wg.sigmoid(x)) ** 2) * F.logsigmoid(x),
        lambda x: sigmoid(-x) ** 2 * softplus(-x),
        _ones(),
        as_about_1=True,
    )
    yield Case("huber_loss", loss(F.huber_loss), lambda x: huber(x, 1), _ones())
    yield Case("smooth_l1_loss", loss(F.smooth_l1_loss, beta=0.5), lambda x: huber(x, 1, 0.5) * 2, _ones(1.5))
    yield Case("poisson_nll_loss", loss(TF.poisson_nll_loss), lambda x: mp.exp(x) - x, _ones())
    yield Case("kl_div", loss(F.kl_div), lambda x: -x, _ones())

    # Squares of what has a kink itself.
    yield Case("abs(x)**2", lambda x: wg.abs(x) ** 2, lambda x: x * x, _ones())
    yield Case("abs(x)**4", lambda x: wg.abs(x) ** 4, lambda x: x**4, _ones())
    yield Case("abs(x)**3", lambda x: wg.abs(x) ** 3, lambda x: abs(x) ** 3, _ones())
    yield Case("abs(x)*abs(x)", lambda x: _squared(wg.abs(x)), lambda x: x * x, _ones())
    yield Case("square(abs(x))", lambda x: wg.square(wg.abs(x)), lambda x: x * x, _ones())
    yield Case("norm((x, 0))**2", row(lambda r: wg.linalg.vector_norm(r, axis=-1) ** 2, 0.0), lambda x: x * x, _ones())
    yield Case("norm((x, 0))**4", row(lambda r: wg.linalg.vector_norm(r, axis=-1) ** 4, 0.0), lambda x: x**4, _ones())
    yield Case(
        "norm((x, 1))", row(lambda r: wg.linalg.vector_norm(r, axis=-1), 1.0), lambda x: mp.sqrt(x * x + 1), _ones()
    )
    yield Case(
        "norm of order 3",
        row(lambda r: wg.linalg.vector_norm(r, ord=3, axis=-1), 1.0),
        lambda x: mp.cbrt(abs(x) ** 3 + 1),
        _ones(),
    )
    yield Case(
        "norm of order 4",
        row(lambda r: wg.linalg.vector_norm(r, ord=4, axis=-1), 1.0),
        lambda x: mp.root(x**4 + 1, 4),
        _ones(),
    )
    yield Case("std of (x, 1)", row(lambda r: wg.std(r, axis=-1), 1.0), lambda x: abs(x - 1) / 2, _ones())
    yield Case("std((x, 1))**2", row(lambda r: wg.std(r, axis=-1) ** 2, 1.0), lambda x: (x - 1) ** 2 / 4, _ones())
    yield Case("hypot(x, 0)**2", lambda x: wg.hypot(x, wg.zeros_like(x)) ** 2, lambda x: x * x, _ones())

    # Distances to (0, 0) from (1, x), among few points and many.
    for p in (2.0, 4.0):
        for rows in (1, 26):
            yield Case(
                f"cdist of order {p} to {rows}",
                lambda x, p=p, rows=rows: _distances(x, p, rows),
                lambda x, p=p: mp.root(1 + x ** int(p), int(p)),
                _ones(),
            )
    yield Case(
        "pairwise_distance",
        lambda x: TF.pairwise_distance(
            torch.as_tensor(wg.stack([one + 0 * x, x], axis=-1)),
            torch.zeros((*x.shape, 2), dtype=torch.float64),
            eps=0.0,
        ),
        lambda x: mp.sqrt(1 + x * x),
        _ones(),
    )
    yield Case("pdist", _pair_distances, lambda x: mp.sqrt(1 + x * x), ((0.0,), (1.0,), (-0.5,)))
    yield Case(
        "cosine_similarity",
        row(lambda r: F.cosine_similarity(r, wg.ones_like(r), axis=-1), 1.0),
        lambda x: (x + 1) / mp.sqrt(2 * (x * x + 1)),
        _ones(),
    )

    # NumPy's and PyTorch's functions, and those of wg.special.
    sinc = lambda x: mp.sin(mp.pi * x) / (mp.pi * x)
    near = _ones(1e-8, 1e-2, 0.1, 0.25, -0.25)
    yield Case("sinc", wnp.sinc, sinc, near)
    yield Case("sinc of torch", torch.sinc, sinc, near)
    yield Case("i0", wg.special.i0, lambda x: mp.besseli(0, x), _ones(30.0, -30.0, 0.1))
    yield Case("i1", wg.special.i1, lambda x: mp.besseli(1, x), _ones(30.0, -30.0, 0.1))
    yield Case("i0e", wg.special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), _ones(30.0, -30.0, 0.1))
    yield Case("i1e", wg.special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), _ones(30.0, -30.0, 0.1))
    yield Case("logit", wg.special.logit, lambda x: mp.log(x / (1 - x)), _ones(0.25, 0.75, 0.1))
    yield Case("entr", wg.special.entr, lambda x: -x * mp.log(x), _ones(0.25))
    yield Case("expit", torch.special.expit, sigmoid, _ones(), as_about_1=True)
    yield Case(
        "logaddexp2", lambda x: wnp.logaddexp2(x, 0.0 * x), lambda x: mp.log(mp.mpf(2) ** x + 1) / mp.log(2), _ones()
    )
    yield Case("exp2", wnp.exp2, lambda x: mp.mpf(2) ** x, _ones())
    yield Case("cbrt", wnp.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), _ones())
    yield Case("erfcx", torch.special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), _ones(8.0))
    yield Case("bessel_j0", torch.special.bessel_j0, lambda x: mp.besselj(0, x), _ones(25.0))
    yield Case("bessel_j1", torch.special.bessel_j1, lambda x: mp.besselj(1, x), _ones(25.0))
    yield Case("bessel_y0", torch.special.bessel_y0, lambda x: mp.bessely(0, x), _ones(25.0), is_slow=True)
    yield Case(
        "modified_bessel_k0", torch.special.modified_bessel_k0, lambda x: mp.besselk(0, x), _ones(), is_slow=True
    )
    yield Case("spherical_bessel_j0", torch.special.spherical_bessel_j0, lambda x: mp.sin(x) / x, _ones(0.1))
    yield Case("airy_ai", torch.special.airy_ai, mp.airyai, _ones(-7.0, 2.5), is_slow=True)

    # Powers, in the base and in the exponent.
    for n in (0, 1, 2, 3, 4, 5, -1, -2):
        yield Case(f"x**{n}", lambda x, n=n: x**n, lambda x, n=n: x**n, _ones())
        yield Case(
            f"x**y at y = {n}",
            lambda x, n=n: wg.pow(x, wg.zeros_like(x) + float(n)),
            lambda x, n=n: x**n,
            tuple(p for p in _ones() if abs(p[0]) != 1e-300),  # x**-2 leaves the range there
        )
    yield Case("x**0.5", lambda x: x**0.5, mp.sqrt, _ones())
    yield Case("x**2.5", lambda x: x**2.5, lambda x: x**2 * mp.sqrt(x), _ones())
    yield Case("x**x", lambda x: x**x, lambda x: pow_(x, x), _ones(1.5))
    yield Case("2**x", lambda x: 2.0**x, lambda x: mp.mpf(2) ** x, _ones())
    yield Case("pow of two", wg.pow, pow_, _PAIRS)
    yield Case("float_power", wnp.float_power, pow_, _PAIRS)
    yield Case("Box-Cox", lambda x, y: (x**y - 1.0) / (y + 3.0), lambda x, y: (pow_(x, y) - 1) / (y + 3), _PAIRS)
    yield Case("Hill", lambda x, y: x**y / (1.0 + x**y), lambda x, y: pow_(x, y) / (1 + pow_(x, y)), _PAIRS)
    yield Case("xlogy of torch", torch.xlogy, lambda x, y: x * mp.log(y), _PAIRS)
    yield Case(
        "a squared length",
        lambda x, y: wg.linalg.vector_norm(wg.stack([x, y], axis=-1), axis=-1) ** 2,
        lambda x, y: x * x + y * y,
        _PAIRS,
    )
    yield Case(
        "logsumexp of two",
        lambda x, y: wg.logsumexp(wg.stack([x, y], axis=-1), axis=-1),
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        _PAIRS,
    )


def _squared(x: Any) -> Any:
    return x * x


def _distances(x: Any, p: float, rows: int) -> Any:
    given = torch.stack([torch.ones_like(torch.as_tensor(x)), torch.as_tensor(x)], dim=-1)
    others = torch.zeros(rows, 2, dtype=torch.float64)
    return torch.cdist(given, others, p=p)[..., 0]


def _pair_distances(x: Any) -> Any:
    one, zero = torch.ones((), dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    rows = [torch.stack([torch.stack([one, torch.as_tensor(x[i])]), zero]) for i in range(x.shape[0])]
    return wg.stack([torch.pdist(r)[0] for r in rows])


def of_distributions() -> Iterator[Case]:
    """Densities, at numbers that the parameter or the value may be."""
    for name, fn, known in densities.of_one():
        yield Case(name, fn, known, _ones(0.25))
    for name, fn, known in densities.of_two():
        yield Case(name, fn, known, _PAIRS)
