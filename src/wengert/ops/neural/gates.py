"""The gates of recurrent layers: what a step does beside its matrix products, as one composite each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.errors import ShapeError, fail
from ...core.ops.declare import composite
from ...core.ops.facets import Form
from ...core.ops.op import Call, Joint, Missing
from ...core.ops.operands import promote_tensors
from ...core.spec import Spec, show
from ...core.tensor import Tensor
from ..pointwise.arithmetic import sigmoid
from ..pointwise.trigonometry import tanh
from ..structure.assemble import concat_op, split_op


def _split(x: Any, count: int) -> Any:
    return split_op(x, sizes=(x.shape[-1] // count,) * count, axis=-1)


def _fits(name: str, gates: int) -> Callable[..., None]:
    def check(x: Spec, projected: Spec, state: Spec) -> None:
        wanted = (*state.shape[:-1], gates * state.shape[-1]) if state.shape else ()
        if not state.shape or x.shape != wanted or projected.shape != wanted:
            shown = " and ".join(show(s.shape, s.dtype) for s in (x, projected))
            fail(
                ShapeError,
                f"{name}: projections {shown} for a state {show(state.shape, state.dtype)}",
                f"They have {gates} parts of the state's size along the last axis, and are otherwise of its shape.",
            )

    return check


def _samples(gates: int) -> Callable[[Any], list[Call]]:
    def samples(rng: Any) -> list[Call]:
        return [
            Call(
                (rng.normal(size=(*lead, gates * n)), rng.normal(size=(*lead, gates * n)), rng.normal(size=(*lead, n)))
            )
            for lead, n in (((3,), 2), ((), 3), ((2, 1), 1))
        ]

    return samples


# -- LSTM


def _lstm_numpy(x: Any, projected: Any, c: Any) -> Any:
    i, f, g, o = _split(x + projected, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def _lstm_pull(ct: Sequence[Any], x: Any, projected: Any, c: Any) -> Any:
    dh, dc = ct
    i, f, g, o = _split(x + projected, 4)
    i, f, g, o = sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)
    t = tanh(f * c + i * g)
    dc = dc + dh * o * (1.0 - t * t)
    parts = (dc * g * i * (1.0 - i), dc * c * f * (1.0 - f), dc * i * (1.0 - g * g), dh * t * o * (1.0 - o))
    found = concat_op(*parts, axis=-1)
    return found, found, dc * f


def _lstm_reference(x: Any, projected: Any, c: Any) -> Any:
    i, f, g, o = np.split(x + projected, 4, -1)
    new = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    return np.tanh(new) / (1 + np.exp(-o)), new


@composite(
    "lstm_gates(x, projected, c)",
    accepts="real_inexact",
    forward=_lstm_numpy,
    fits=_fits("lstm", 4),
    facts=Joint(_lstm_pull),
    results=2,
    doc="The next hidden state and cell of an LSTM, of the projections of its input and of its hidden state.",
    source="Hochreiter and Schmidhuber 1997; Gers et al. 2000, doi:10.1162/089976600300015015",
    layout="(n),(n),(m)->(m),(m)",
    samples=_samples(4),
    reference=_lstm_reference,
    onnx=Missing("LSTM is of whole sequences; its gates are exported one by one"),
    batching="body",
    form=Form("lstm", say="Gates decide what of the cell's gradient goes back in time, and what to the projections."),
)
def lstm_op(x: Any, projected: Any, c: Any) -> Any:
    """Return the next hidden state and cell; the gates are in the order input, forget, cell, output."""
    return _lstm_numpy(x, projected, c)


def lstm_gates(x: Any, projected: Any, c: Any) -> tuple[Tensor, Tensor]:
    """Return the next hidden state and cell of an LSTM.

    Parameters
    ----------
    x: (..., 4 n), the input's projection: the parts for the input, forget, cell and output gates.
    projected: (..., 4 n), the hidden state's projection.
    c: (..., n), the cell.

    Raises ShapeError, DTypeError.
    """
    found: tuple[Tensor, Tensor] = lstm_op.front(*promote_tensors("lstm", x, projected, c))
    return found


# -- GRU


def _gru_numpy(x: Any, projected: Any, h: Any) -> Any:
    (x_r, x_z, x_n), (p_r, p_z, p_n) = _split(x, 3), _split(projected, 3)
    n = tanh(x_n + sigmoid(x_r + p_r) * p_n)
    return n + sigmoid(x_z + p_z) * (h - n)


def _gru_pull(ct: Any, x: Any, projected: Any, h: Any) -> Any:
    (x_r, x_z, x_n), (p_r, p_z, p_n) = _split(x, 3), _split(projected, 3)
    r, z = sigmoid(x_r + p_r), sigmoid(x_z + p_z)
    n = tanh(x_n + r * p_n)
    dn = ct * (1.0 - z) * (1.0 - n * n)
    dr, dz = dn * p_n * r * (1.0 - r), ct * (h - n) * z * (1.0 - z)
    return concat_op(dr, dz, dn, axis=-1), concat_op(dr, dz, dn * r, axis=-1), ct * z


def _gru_reference(x: Any, projected: Any, h: Any) -> Any:
    (x_r, x_z, x_n), (p_r, p_z, p_n) = np.split(x, 3, -1), np.split(projected, 3, -1)
    z = 1 / (1 + np.exp(-x_z - p_z))
    return (1 - z) * np.tanh(x_n + p_n / (1 + np.exp(-x_r - p_r))) + z * h


@composite(
    "gru_gates(x, projected, h)",
    accepts="real_inexact",
    forward=_gru_numpy,
    fits=_fits("gru", 3),
    facts=Joint(_gru_pull),
    doc="The next state of a GRU, of the projections of its input and of its state.",
    source="Cho et al. 2014, arXiv:1406.1078",
    layout="(n),(n),(m)->(m)",
    samples=_samples(3),
    reference=_gru_reference,
    onnx=Missing("GRU is of whole sequences; its gates are exported one by one"),
    batching="body",
    form=Form("gru", say="Gates decide what of the state's gradient goes back in time, and what to the projections."),
)
def gru_op(x: Any, projected: Any, h: Any) -> Any:
    """Return the next state; the gates are in the order reset, update, new."""
    return _gru_numpy(x, projected, h)


def gru_gates(x: Any, projected: Any, h: Any) -> Tensor:
    """Return the next state of a GRU.

    Parameters
    ----------
    x: (..., 3 n), the input's projection: the parts for the reset, update and new gates.
    projected: (..., 3 n), the state's projection.
    h: (..., n), the state.

    Raises ShapeError, DTypeError.
    """
    found: Tensor = gru_op.front(*promote_tensors("gru", x, projected, h))
    return found
