"""Forms of composites that are an operator of ONNX. All others are opened."""

from __future__ import annotations

from typing import Any

from ..errors import refuse
from .writer import Call, Writer, form, product


@form("softmax", "log_softmax")
def _softmax(g: Writer, n: Call, x: str) -> str:
    return str(g("Softmax" if n.node.op.name == "softmax" else "LogSoftmax", x, axis=n.axis))


@form("gelu", since=20)
def _gelu(g: Writer, n: Call, x: str) -> str:
    return str(g("Gelu", x, approximate=n["approximate"]))


@form("elu", "celu")
def _elu(g: Writer, n: Call, x: str) -> str:
    return str(g("Elu" if n.node.op.name == "elu" else "Celu", x, alpha=float(n["alpha"])))


@form("leaky_relu")
def _leaky_relu(g: Writer, n: Call, x: str) -> str:
    return str(g("LeakyRelu", x, alpha=float(n["slope"])))


@form("softplus")
def _softplus(g: Writer, n: Call, x: str) -> str:
    beta = n["beta"]
    if beta == 1:
        return str(g("Softplus", x))
    return str(g("Div", g("Softplus", g("Mul", x, g.like(beta, n.dtype))), g.like(beta, n.dtype)))


@form("logsigmoid")
def _logsigmoid(g: Writer, n: Call, x: str) -> str:
    return str(g("Neg", g("Softplus", g("Neg", x))))


@form("softsign")
def _softsign(g: Writer, n: Call, x: str) -> str:
    return str(g("Softsign", x))


@form("hardswish", since=14)
def _hardswish(g: Writer, n: Call, x: str) -> str:
    return str(g("HardSwish", x))


@form("mish", since=18)
def _mish(g: Writer, n: Call, x: str) -> str:
    return str(g("Mish", x))


@form("hardtanh")
def _hardtanh(g: Writer, n: Call, x: str) -> str:
    return str(g("Clip", x, g.like(n["low"], n.dtype), g.like(n["high"], n.dtype)))


@form("silu")
def _silu(g: Writer, n: Call, x: str) -> str:
    return str(g("Mul", x, g("Sigmoid", x)))


@form("linear")
def _linear(g: Writer, n: Call, x: str, weight: str, *bias: str) -> str:
    if len(n.operand(0).shape) == 2:
        return str(g("Gemm", x, weight, *bias, transB=1))
    out = g("MatMul", x, g("Transpose", weight, perm=[1, 0]))
    return str(g("Add", out, bias[0])) if bias else out


@form("layer_norm", since=17)
def _layer_norm(g: Writer, n: Call, x: str, *params: str) -> str:
    axes = n["axes"]
    shape = n.shape[len(n.shape) - axes :]
    scale = params[0] if params else g.expand(g.like(1, n.dtype), shape)
    return str(g("LayerNormalization", x, scale, *params[1:], axis=len(n.shape) - axes, epsilon=float(n["eps"])))


@form("batch_norm_fixed")
def _batch_norm_fixed(g: Writer, n: Call, x: str, mean: str, variance: str, *params: str) -> str:
    axis = n["axis"]
    shape = n.shape
    channels = shape[axis]
    lead, tail = shape[:axis], shape[axis + 1 :] if axis != -1 else ()
    scale = params[0] if params else g.expand(g.like(1, n.dtype), (channels,))
    bias = params[1] if len(params) > 1 else g.expand(g.like(0, n.dtype), (channels,))
    plain = len(lead) == 1
    wide = x if plain else g.reshape(x, (product(lead), channels, *tail))
    out = g("BatchNormalization", wide, scale, bias, mean, variance, epsilon=float(n["eps"]))
    return out if plain else g.reshape(out, shape)


@form("dropout", "dropout_at")
def _dropout(g: Writer, n: Call, *_: Any) -> str:
    refuse("dropout draws random numbers, and ONNX's do not say which", "Export the model in model.eval().")
