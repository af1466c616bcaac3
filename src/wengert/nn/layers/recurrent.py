"""Recurrent layers: RNN, LSTM, GRU, over whole sequences and step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import concat, permute_dims, scan, stack, unstack, zeros
from ...core.dims import Dim
from ...core.errors import RangeError, ShapeError, fail
from ...core.tensor import Tensor
from ...ops.neural.gates import gru_gates, lstm_gates
from .. import functional as F
from .. import init
from ..checks import probability, size
from ..module import Module
from ..parameter import Parameter

State = Any
# A step: projected input, state and the recurrent weight and bias to the next state.
Step = Callable[[Tensor, State, Tensor, Tensor | None], State]


def _rnn_tanh(x: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return F.tanh(x + F.linear(h, w, b))


def _rnn_relu(x: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return F.relu(x + F.linear(h, w, b))


def _lstm(x: Tensor, state: tuple[Tensor, Tensor], w: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return a step of an LSTM; the gates are in the order input, forget, cell, output."""
    h, c = state
    return lstm_gates(x, F.linear(h, w, b), c)


def _gru(x: Tensor, h: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Return a step of a GRU; the gates are in the order reset, update, new."""
    return gru_gates(x, F.linear(h, w, b), h)


_STEPS: dict[str, tuple[Step, int]] = {
    "tanh": (_rnn_tanh, 1),
    "relu": (_rnn_relu, 1),
    "lstm": (_lstm, 4),
    "gru": (_gru, 3),
}


def _nonlinearity(name: Any) -> str:
    if name not in ("tanh", "relu"):
        fail(RangeError, f"nonlinearity must be 'tanh' or 'relu', not {name!r}")
    return str(name)


def _output(state: State) -> Tensor:
    out: Tensor = state[0] if isinstance(state, tuple) else state
    return out


class _Recurrent(Module):
    """The base of layers over sequences."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        dtype: Any,
        device: Any,
    ) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = size("input_size", input_size)
        self.hidden_size = size("hidden_size", hidden_size)
        self.num_layers = size("num_layers", num_layers)
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = probability(dropout)
        self.bidirectional = bidirectional
        _, gates = _STEPS[mode]
        rows = gates * hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self._directions
            for suffix in self._suffixes(layer):
                self.register_parameter(
                    f"weight_ih{suffix}", Parameter(zeros((rows, width), dtype=dtype, device=device))
                )
                self.register_parameter(
                    f"weight_hh{suffix}", Parameter(zeros((rows, hidden_size), dtype=dtype, device=device))
                )
                if bias:
                    self.register_parameter(f"bias_ih{suffix}", Parameter(zeros(rows, dtype=dtype, device=device)))
                    self.register_parameter(f"bias_hh{suffix}", Parameter(zeros(rows, dtype=dtype, device=device)))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    def reset_parameters(self) -> None:
        """Draw new initial values: uniform within 1/sqrt(hidden_size)."""
        _uniform_by_hidden_(self, self.hidden_size)

    def forward(self, x: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Run over a sequence.

        Parameters
        ----------
        x: (T, N, input_size), with `batch_first` (N, T, input_size), or (T, input_size) without a batch.
        hx: the initial state, (num_layers * directions, N, hidden_size) or without N (for an LSTM a pair of
            them); 0 where left out.

        Returns the last layer's output at every time, (T, N, directions * hidden_size) in the layout of
        `x`, and the last state in that of `hx`. Raises ShapeError.
        """
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            fail(
                ShapeError,
                f"{type(self).__name__} of {x.spec} with input_size={self.input_size}",
                "The input has shape (T, N, input_size), (N, T, input_size) with batch_first=True, or (T, input_size).",
            )
        batched = x.ndim == 3
        steps: Tensor = x.reshape((x.shape[0], 1, x.shape[1])) if not batched else x
        if batched and self.batch_first:
            steps = permute_dims(steps, (1, 0, 2))
        if steps.shape[0] == 0:
            fail(ShapeError, f"{type(self).__name__} of a sequence without steps, {x.spec}")
        states = self._initial(hx, steps, batched)
        out, last = self._run(steps, states)
        if not batched:
            out = out.reshape((out.shape[0], out.shape[2]))
        elif self.batch_first:
            out = permute_dims(out, (1, 0, 2))
        return out, self._final(last, batched)

    def _initial(self, hx: Any, steps: Tensor, batched: bool) -> list[State]:
        """Return the initial state of every layer and direction."""
        count, n = self.num_layers * self._directions, steps.shape[1]
        shape = (count, n, self.hidden_size)
        pair = self.mode == "lstm"
        if hx is None:
            zero = zeros((n, self.hidden_size), dtype=steps.dtype)
            return [(zero, zero) if pair else zero] * count
        parts = tuple(hx) if pair and isinstance(hx, (tuple, list)) else (hx,)
        wanted = shape if batched else (count, self.hidden_size)
        if len(parts) != 1 + pair or any(p.shape != wanted for p in parts):
            got = ", ".join(str(getattr(p, "shape", type(p).__name__)) for p in parts)
            fail(
                ShapeError,
                f"{type(self).__name__}: initial state of shape {got}, not {wanted}",
                "An LSTM takes a pair (h, c)." if pair else "The layout is (num_layers * directions, N, hidden_size).",
            )
        unstacked = [unstack(p.reshape(shape)) for p in parts]
        return list(zip(*unstacked)) if pair else list(unstacked[0])

    def _final(self, last: list[State], batched: bool) -> Any:
        def stacked(parts: list[Tensor]) -> Tensor:
            out: Tensor = stack(parts)
            return out if batched else out.reshape((out.shape[0], out.shape[2]))

        if self.mode == "lstm":
            return stacked([h for h, _ in last]), stacked([c for _, c in last])
        return stacked(last)

    def _run(self, x: Tensor, states: list[State]) -> tuple[Tensor, list[State]]:
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            outs = []
            for d, suffix in enumerate(self._suffixes(layer)):
                out, state = self._run_direction(x, states[layer * self._directions + d], suffix, reverse=d == 1)
                outs.append(out)
                last.append(state)
            x = outs[0] if len(outs) == 1 else concat(outs, -1)
        return x, last

    def _run_direction(self, x: Tensor, state: State, suffix: str, reverse: bool) -> tuple[Tensor, State]:
        held = self.__dict__
        step, _ = _STEPS[self.mode]
        weight, bias = held[f"weight_hh{suffix}"], held.get(f"bias_hh{suffix}")
        # One product projects the whole sequence.
        rows = F.linear(x, held[f"weight_ih{suffix}"], held.get(f"bias_ih{suffix}"))
        if isinstance(x.shape[0], Dim):  # how many steps there are is not known yet

            def following(state: State, x_t: Tensor) -> tuple[State, Tensor]:
                state = step(x_t, state, weight, bias)
                return state, _output(state)

            last, out = scan(following, state, rows, reverse=reverse)
            return out, last
        projected = unstack(rows)
        outs = []
        for x_t in reversed(projected) if reverse else projected:
            state = step(x_t, state, weight, bias)
            outs.append(_output(state))
        if reverse:
            outs.reverse()
        return stack(outs), state

    def extra_repr(self) -> str:
        """Return the sizes for `repr`; options only where they are not the defaults."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        if self.num_layers != 1:
            shown.append(f"num_layers={self.num_layers}")
        if not self.bias:
            shown.append("bias=False")
        if self.batch_first:
            shown.append("batch_first=True")
        if self.dropout:
            shown.append(f"dropout={self.dropout}")
        if self.bidirectional:
            shown.append("bidirectional=True")
        return ", ".join(shown)


def _uniform_by_hidden_(module: Module, hidden_size: int) -> None:
    bound = 1.0 / math.sqrt(hidden_size)
    for p in module.parameters():
        init.uniform_(p, -bound, bound)


class RNN(_Recurrent):
    """A recurrent layer over a sequence: h = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Parameters
    ----------
    input_size: the size of the input at one time.
    hidden_size: the size of the state.
    num_layers: layers on top of each other.
    nonlinearity: "tanh" or "relu".
    bias: whether to add biases.
    batch_first: whether the batch comes before the time.
    dropout: between layers, in training.
    bidirectional: also run backwards, and concatenate.
    dtype: of the parameters; the default float where left out.
    device: where they are, as in :func:`wengert.zeros`.

    Parameters are named `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, with the number of
    the layer and `_reverse` for the backward direction.

    Source: Elman, "Finding structure in time", 1990.

    >>> import wengert as wg
    >>> out, h = wg.nn.RNN(3, 5)(wg.zeros((7, 2, 3)))
    >>> out.shape, h.shape
    ((7, 2, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
        device: Any = None,
    ) -> None:

        super().__init__(
            _nonlinearity(nonlinearity),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            dtype,
            device,
        )


class LSTM(_Recurrent):
    """A long short-term memory: a state (h, c) behind input, forget and output gates.

    Parameters are those of :class:`RNN` but the nonlinearity; gates are stacked in the order input, forget,
    cell, output.

    Source: Hochreiter, Schmidhuber, "Long short-term memory", 1997; Gers et al. 2000.

    >>> import wengert as wg
    >>> out, (h, c) = wg.nn.LSTM(3, 5, batch_first=True)(wg.zeros((2, 7, 3)))
    >>> out.shape, h.shape, c.shape
    ((2, 7, 5), (1, 2, 5), (1, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(
            "lstm", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, device
        )


class GRU(_Recurrent):
    """A layer of gated recurrent units: h = (1 - z) n + z h, with reset and update gates r and z.

    Parameters are those of :class:`RNN` but the nonlinearity; gates are stacked in the order reset, update, new.

    Source: Cho et al., arXiv:1406.1078, with the reset after the product as in cuDNN.

    >>> import wengert as wg
    >>> out, h = wg.nn.GRU(3, 5, bidirectional=True)(wg.zeros((7, 2, 3)))
    >>> out.shape, h.shape
    ((7, 2, 10), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(
            "gru", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype, device
        )


class _Cell(Module):
    """The base of single steps."""

    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool, dtype: Any, device: Any) -> None:
        super().__init__()
        self.mode = mode
        self.input_size = size("input_size", input_size)
        self.hidden_size = size("hidden_size", hidden_size)
        _, gates = _STEPS[mode]
        rows = gates * hidden_size
        self.weight_ih = Parameter(zeros((rows, input_size), dtype=dtype, device=device))
        self.weight_hh = Parameter(zeros((rows, hidden_size), dtype=dtype, device=device))
        self.register_parameter("bias_ih", Parameter(zeros(rows, dtype=dtype, device=device)) if bias else None)
        self.register_parameter("bias_hh", Parameter(zeros(rows, dtype=dtype, device=device)) if bias else None)
        _uniform_by_hidden_(self, hidden_size)

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """Map (N, input_size) or (input_size,) and a state (0 where left out) to the next state."""
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            fail(
                ShapeError,
                f"{type(self).__name__} of {x.spec} with input_size={self.input_size}",
                "The input has shape (N, input_size) or (input_size,).",
            )
        if hx is None:
            zero = zeros((*x.shape[:-1], self.hidden_size), dtype=x.dtype)
            hx = (zero, zero) if self.mode == "lstm" else zero
        step, _ = _STEPS[self.mode]
        return step(F.linear(x, self.weight_ih, self.bias_ih), hx, self.weight_hh, self.bias_hh)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`."""
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias_ih is not None else ", bias=False")


class RNNCell(_Cell):
    """A single step of :class:`RNN`.

    >>> import wengert as wg
    >>> wg.nn.RNNCell(3, 4)(wg.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(_nonlinearity(nonlinearity), input_size, hidden_size, bias, dtype, device)


class LSTMCell(_Cell):
    """A single step of :class:`LSTM`: `h, c = cell(x, (h, c))`.

    >>> import wengert as wg
    >>> h, c = wg.nn.LSTMCell(3, 4)(wg.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None, device: Any = None
    ) -> None:
        super().__init__("lstm", input_size, hidden_size, bias, dtype, device)


class GRUCell(_Cell):
    """A single step of :class:`GRU`.

    >>> import wengert as wg
    >>> wg.nn.GRUCell(3, 4)(wg.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = None, device: Any = None
    ) -> None:
        super().__init__("gru", input_size, hidden_size, bias, dtype, device)
