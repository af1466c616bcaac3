"""Array namespaces: thin adapters that let one text run on Wengert, PyTorch and JAX.

The names are the Array API's where it has one. Everything is float64.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

# Names that mean the same in all three, taken as they are.
COMMON = (
    "abs acos asin atan atan2 concat conj cos cosh einsum exp expm1 floor imag isfinite log log1p matmul outer "
    "real reshape sign sin sinh sqrt square stack tan tanh tril triu"
)


def _named(module: Any, names: str) -> dict[str, Any]:
    return {name: getattr(module, name) for name in names.split()}


def wengert() -> Any:
    import wengert as wg

    def put(x: Any, index: Any, value: Any) -> Any:
        out = x.clone()
        out[index] = value
        return out

    names = (
        "asarray broadcast_to clip diagonal flip grad log_softmax logaddexp logsumexp max maximum mean min minimum "
        "moveaxis prod relu roll sigmoid softmax sort sum take tensordot trace where"
    )
    return SimpleNamespace(
        name="wengert",
        **_named(wg, COMMON),
        **_named(wg, names),
        **_named(wg.special, "digamma erf erfc lgamma"),
        **_named(wg.nn.functional, "conv2d elu gelu silu softplus"),
        cumprod=wg.cumulative_prod,
        cumsum=wg.cumulative_sum,
        arange=lambda n: wg.arange(n, dtype=wg.float64),
        eye=lambda n: wg.eye(n, dtype=wg.float64),
        ones=lambda *shape: wg.ones(shape, dtype=wg.float64),
        zeros=lambda *shape: wg.zeros(shape, dtype=wg.float64),
        layer_norm=lambda x: wg.nn.functional.layer_norm(x, x.shape[-1]),
        put=put,
        cond=wg.cond,
        expm=wg.linalg.expm,
        fft=wg.fft,
        hessian=wg.hessian,
        jacobian=wg.jacobian,
        jvp=wg.jvp,
        linalg=wg.linalg,
        scan=wg.scan,
        stop=wg.stop_gradient,
        triangular=lambda a, b: wg.linalg.solve_triangular(a, b, upper=False),
        vmap=wg.vmap,
        pi=wg.pi,
    )


def torch() -> Any:
    t = importlib.import_module("torch")
    functional = t.nn.functional

    def tensor(a: Any) -> Any:
        return a if isinstance(a, t.Tensor) else t.tensor(a, dtype=t.float64)

    def reduced(over_all: Any, over_axis: Any) -> Any:
        def reduce(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
            return over_all(x) if axis is None else over_axis(x, axis, keepdims)

        return reduce

    def put(x: Any, index: Any, value: Any) -> Any:
        out = x.clone()
        out[index] = value
        return out

    def scan(fn: Any, carry: Any, xs: Any) -> Any:
        outs = []
        for i in range(xs.shape[0]):
            carry, out = fn(carry, xs[i])
            outs.append(out)
        return carry, t.stack(outs)

    def all_axes(x: Any) -> tuple[int, ...]:
        return tuple(range(x.ndim))

    return SimpleNamespace(
        name="torch",
        **_named(t, COMMON),
        asarray=lambda a: t.tensor(np.asarray(a)),
        arange=lambda n: t.arange(n, dtype=t.float64),
        broadcast_to=t.broadcast_to,
        clip=t.clip,
        conv2d=functional.conv2d,
        cumprod=lambda x, axis: t.cumprod(x, axis),
        cumsum=lambda x, axis: t.cumsum(x, axis),
        diagonal=t.diagonal,
        digamma=t.digamma,
        elu=functional.elu,
        erf=t.erf,
        erfc=t.erfc,
        eye=lambda n: t.eye(n, dtype=t.float64),
        flip=lambda x, axis: t.flip(x, (axis,)),
        gelu=functional.gelu,
        grad=t.func.grad,
        layer_norm=lambda x: functional.layer_norm(x, (x.shape[-1],)),
        lgamma=t.lgamma,
        log_softmax=lambda x, axis=-1: t.log_softmax(x, axis),
        logaddexp=t.logaddexp,
        logsumexp=reduced(lambda x: t.logsumexp(x, all_axes(x)), t.logsumexp),
        max=reduced(t.amax, t.amax),
        maximum=lambda a, b: t.maximum(tensor(a), tensor(b)),
        mean=reduced(t.mean, t.mean),
        min=reduced(t.amin, t.amin),
        minimum=lambda a, b: t.minimum(tensor(a), tensor(b)),
        moveaxis=t.moveaxis,
        ones=lambda *shape: t.ones(shape, dtype=t.float64),
        prod=reduced(t.prod, t.prod),
        put=put,
        cond=lambda pred, yes, no, *operands: yes(*operands) if bool(pred) else no(*operands),
        expm=t.linalg.matrix_exp,
        fft=t.fft,
        hessian=t.func.hessian,
        jacobian=t.func.jacrev,
        jvp=t.func.jvp,
        linalg=t.linalg,
        relu=t.relu,
        roll=t.roll,
        scan=scan,
        triangular=lambda a, b: t.linalg.solve_triangular(a, b, upper=False),
        vmap=t.func.vmap,
        sigmoid=t.sigmoid,
        silu=functional.silu,
        softmax=lambda x, axis=-1: t.softmax(x, axis),
        softplus=lambda x: t.logaddexp(x, t.zeros_like(x)),  # torch's own is linear above a threshold
        sort=lambda x: t.sort(x).values,
        stop=lambda x: x.detach(),
        sum=reduced(t.sum, t.sum),
        take=lambda x, indices, axis: t.index_select(x, axis, indices),
        tensordot=lambda x, y, axes: t.tensordot(x, y, dims=axes),
        trace=t.trace,
        where=t.where,
        zeros=lambda *shape: t.zeros(shape, dtype=t.float64),
        pi=float(np.pi),
    )


def jax() -> Any:
    j = importlib.import_module("jax")
    j.config.update("jax_enable_x64", True)
    np_ = j.numpy
    special = j.scipy.special
    names = (
        "asarray broadcast_to clip cumprod cumsum diagonal flip logaddexp max maximum mean min minimum moveaxis "
        "prod roll sort sum take tensordot trace where"
    )
    return SimpleNamespace(
        name="jax",
        **_named(np_, COMMON),
        **_named(np_, names),
        arange=lambda n: np_.arange(n, dtype=np_.float64),
        conv2d=lambda x, w: j.lax.conv_general_dilated(x, w, (1, 1), "VALID"),
        digamma=special.digamma,
        elu=j.nn.elu,
        erf=special.erf,
        erfc=special.erfc,
        eye=lambda n: np_.eye(n, dtype=np_.float64),
        gelu=lambda x: j.nn.gelu(x, approximate=False),
        grad=j.grad,
        cond=j.lax.cond,
        expm=j.scipy.linalg.expm,
        fft=np_.fft,
        hessian=j.hessian,
        jacobian=j.jacrev,
        jvp=j.jvp,
        linalg=np_.linalg,
        scan=j.lax.scan,
        triangular=lambda a, b: j.scipy.linalg.solve_triangular(a, b, lower=True),
        vmap=j.vmap,
        layer_norm=lambda x: (
            (x - np_.mean(x, axis=-1, keepdims=True)) / np_.sqrt(np_.var(x, axis=-1, keepdims=True) + 1e-5)
        ),
        lgamma=special.gammaln,
        log_softmax=j.nn.log_softmax,
        logsumexp=special.logsumexp,
        ones=lambda *shape: np_.ones(shape, np_.float64),
        put=lambda x, index, value: x.at[index].set(value),
        relu=j.nn.relu,
        sigmoid=j.nn.sigmoid,
        silu=j.nn.silu,
        softmax=j.nn.softmax,
        softplus=j.nn.softplus,
        stop=j.lax.stop_gradient,
        zeros=lambda *shape: np_.zeros(shape, np_.float64),
        pi=float(np.pi),
    )


def torch_derivatives(case: Any) -> list[tuple[float, Any, Any]]:
    """Value, gradient and Hessian-vector product at each point, by PyTorch (reverse over reverse)."""
    t = importlib.import_module("torch")
    f = case.on(torch())
    found = []
    for x, v in zip(case.points(), case.directions(), strict=True):
        x, v = t.tensor(x), t.tensor(v)
        gradient = t.func.grad(f)
        product = t.func.grad(lambda y, g=gradient, v=v: (g(y) * v).sum())(x)
        found.append((float(f(x)), gradient(x).numpy(), product.numpy()))
    return found


def jax_derivatives(case: Any) -> list[tuple[float, Any, Any]]:
    """Value, gradient and Hessian-vector product at each point, by JAX (forward over reverse)."""
    j = importlib.import_module("jax")
    f = case.on(jax())
    found = []
    for x, v in zip(case.points(), case.directions(), strict=True):
        gradient, product = j.jvp(j.grad(f), (j.numpy.asarray(x),), (j.numpy.asarray(v),))
        found.append((float(f(x)), np.asarray(gradient), np.asarray(product)))
    return found
