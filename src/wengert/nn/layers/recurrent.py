"""Recurrent layers over sequences, padded or packed, and single steps of them.

A layer runs over rows that stand step after step, the sequences that still go on in each; of padded sequences all do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg

from ...core.dims import Dim
from ...core.dtypes import record_of
from ...core.errors import GraphError, RangeError, ShapeError, fail
from ...core.mode import get_mode
from ...core.tensor import asarray
from ...ops.neural.composites import dropout, linear
from ...ops.neural.gates import gru_gates, lstm_gates
from .. import init
from ..checks import probability, size
from ..module import Module
from ..parameter import Parameter
from ..utils.rnn import PackedSequence

# A step: the projected input, the state and the recurrent weights to the next state.
Step = Callable[..., Any]


def _tanh(x: Any, h: Any, weight: Any, bias: Any, _: Any) -> Any:
    return wg.tanh(x + linear(h, weight, bias))


def _relu(x: Any, h: Any, weight: Any, bias: Any, _: Any) -> Any:
    return wg.relu(x + linear(h, weight, bias))


def _lstm(x: Any, state: Any, weight: Any, bias: Any, projection: Any) -> Any:
    """Return a step of an LSTM; the gates are in the order input, forget, cell, output."""
    h, c = state
    h, c = lstm_gates(x, linear(h, weight, bias), c)
    return (h if projection is None else linear(h, projection)), c


def _gru(x: Any, h: Any, weight: Any, bias: Any, _: Any) -> Any:
    """Return a step of a GRU; the gates are in the order reset, update, new."""
    return gru_gates(x, linear(h, weight, bias), h)


# The step of each mode, and its number of gates.
_STEPS: dict[str, tuple[Step, int]] = {
    "RNN_TANH": (_tanh, 1),
    "RNN_RELU": (_relu, 1),
    "LSTM": (_lstm, 4),
    "GRU": (_gru, 3),
}


def _nonlinearity(name: Any) -> str:
    if name not in ("tanh", "relu"):
        fail(GraphError, f"nonlinearity={name!r}", 'It is "tanh" or "relu".')
    return str(name)


def _uniform(layer: Any) -> None:
    bound = 1.0 / math.sqrt(layer.hidden_size) if layer.hidden_size > 0 else 0.0
    for p in layer.parameters():
        init.uniform_(p, -bound, bound)


def _each(state: Any, fn: Callable[[Any], Any]) -> Any:
    """Return the state with a function of its parts: (h, c) of an LSTM, h of others."""
    return tuple(map(fn, state)) if isinstance(state, tuple) else fn(state)


def _output(state: Any) -> Any:
    return state[0] if isinstance(state, tuple) else state


def _both(first: Any, second: Any) -> Any:
    """Return two batches of states as one."""
    if isinstance(first, tuple):
        return tuple(_both(a, b) for a, b in zip(first, second))
    return wg.concat([first, second])


class RNNBase(Module):
    """The base of recurrent layers. `mode` is "RNN_TANH", "RNN_RELU", "LSTM" or "GRU".

    Parameters are named `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0` and with `proj_size` `weight_hr_l0`,
    with the number of the layer, and `_reverse` for the backward direction.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not 0 <= proj_size < max(hidden_size, 1):
            fail(
                RangeError,
                f"{type(self).__name__}: proj_size={proj_size} with hidden_size={hidden_size}",
                "A projection is smaller than the hidden size.",
            )
        if proj_size and mode != "LSTM":
            fail(GraphError, f"proj_size={proj_size} of a {mode}", "Only an LSTM has projections.")
        self.mode = mode
        self.input_size = size("input_size", input_size, 0)
        self.hidden_size = size("hidden_size", hidden_size)
        self.num_layers = size("num_layers", num_layers)
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = probability(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        rows = _STEPS[mode][1] * hidden_size
        out = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else out * self._directions
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}  # type: ignore[dict-item]
                shapes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}{suffix}", Parameter(wg.empty(shape, dtype=dtype, device=device)))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: self._directions]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        found = []
        for layer in range(self.num_layers):
            for suffix in self._suffixes(layer):
                given = [getattr(self, name + suffix, None) for name in names]
                found.append([p for p in given if p is not None])
        return found

    def reset_parameters(self) -> None:
        """Draw new initial values: uniform within one over the root of the hidden size."""
        _uniform(self)

    def flatten_parameters(self) -> None:
        """Do nothing: it is for layouts of memory on other devices."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Run over sequences.

        Parameters
        ----------
        input: (T, N, input_size), with `batch_first` (N, T, input_size), (T, input_size), or a packed sequence.
        hx: the initial state, (num_layers * directions, N, hidden_size) or without N, for an LSTM a pair; zeros where
            left out.

        Returns the last layer's output at every step, in the layout of the input, and the last state in that of `hx`.
        Raises ShapeError.
        """
        packed = input if isinstance(input, PackedSequence) else None
        rows: Any = asarray(input if packed is None else packed.data)
        spec = rows.spec
        if len(spec.shape) not in ((2, 3) if packed is None else (2,)) or spec.shape[-1] != self.input_size:
            fail(
                ShapeError,
                f"{type(self).__name__} of {spec} with input_size={self.input_size}",
                "It takes (T, N, input_size), (N, T, input_size) with batch_first=True, or (T, input_size).",
            )
        if packed is not None:
            return self._over_packed(packed, rows, hx)
        batched = len(spec.shape) == 3
        if not batched:
            rows = wg.expand_dims(rows, 1)
        elif self.batch_first:
            rows = wg.swapaxes(rows, 0, 1)
        steps, n = rows.spec.shape[:2]
        if steps == 0:
            fail(ShapeError, f"{type(self).__name__} of a sequence without steps, {spec}")
        out, last = self._lowered(*self._run(rows, None, self._initial(hx, n, spec.dtype, batched)))
        if not batched:
            out = wg.squeeze(out, axis=1)
        elif self.batch_first:
            out = wg.swapaxes(out, 0, 1)
        return out, self._final(last, batched)

    def _over_packed(self, packed: PackedSequence, rows: Any, hx: Any) -> Any:
        sizes = packed.steps()
        if not sizes:
            fail(ShapeError, f"{type(self).__name__} of a sequence without steps, {rows.spec}")
        states = self._initial(hx, sizes[0], rows.spec.dtype, True)
        if hx is not None:
            states = [_each(s, lambda part: _ordered(part, packed.sorted_indices)) for s in states]
        out, last = self._lowered(*self._run(rows, sizes, states))
        last = [_each(s, lambda part: _ordered(part, packed.unsorted_indices)) for s in last]
        return packed.holding(out), self._final(last, True)

    def _lowered(self, out: Any, last: list[Any]) -> tuple[Any, list[Any]]:
        """Return outputs and states in the dtype that an autocast gives them."""
        lower = self._autocast_dtype()
        return (
            (out, last) if lower is None else (out.astype(lower), [_each(s, lambda p: p.astype(lower)) for s in last])
        )

    def _autocast_dtype(self) -> Any:
        """Return the dtype that PyTorch's autocast gives the results of an LSTM without projections, else None.

        It takes the library's LSTM there, which is for bfloat16; other recurrent layers follow their operands.
        """
        found = get_mode().autocast
        applies = found is not None and found.rules == "torch" and record_of(found.dtype).name == "bfloat16"
        return found.dtype if applies and self.mode == "LSTM" and not self.proj_size else None

    def _initial(self, hx: Any, n: Any, dtype: Any, batched: bool) -> list[Any]:
        """Return the initial state of every layer and direction."""
        count = self.num_layers * self._directions
        sizes = [self.proj_size or self.hidden_size]
        if self.mode == "LSTM":
            sizes.append(self.hidden_size)
        if hx is None:
            zeros = tuple(wg.zeros((n, width), dtype=dtype) for width in sizes)
            return [zeros if len(sizes) == 2 else zeros[0]] * count
        parts = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        wanted = [(count, n, width) if batched else (count, width) for width in sizes]
        if [tuple(p.shape) for p in parts] != wanted:
            got = ", ".join(str(tuple(p.shape)) for p in parts)
            fail(
                ShapeError,
                f"{type(self).__name__}: an initial state of shape {got}, not {', '.join(map(str, wanted))}",
                "An LSTM takes a pair (h, c)." if len(wanted) > 1 else "Each layer and direction has a state.",
            )
        each = [wg.unstack(asarray(p).reshape((count, n, p.shape[-1]))) for p in parts]
        return list(zip(*each)) if len(each) == 2 else list(each[0])

    def _final(self, last: list[Any], batched: bool) -> Any:
        def stacked(parts: Sequence[Any]) -> Any:
            out = wg.stack(parts)
            return out if batched else wg.squeeze(out, axis=1)

        return tuple(map(stacked, zip(*last))) if isinstance(last[0], tuple) else stacked(last)

    def _run(self, rows: Any, sizes: list[int] | None, states: list[Any]) -> tuple[Any, list[Any]]:
        last = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                rows = dropout(rows, self.dropout, True)
            outs = []
            for reverse, suffix in enumerate(self._suffixes(layer)):
                state = states[layer * self._directions + reverse]
                out, state = self._run_direction(rows, sizes, state, suffix, bool(reverse))
                outs.append(out)
                last.append(state)
            rows = outs[0] if len(outs) == 1 else wg.concat(outs, -1)
        return rows, last

    def _run_direction(
        self, rows: Any, sizes: list[int] | None, state: Any, suffix: str, reverse: bool
    ) -> tuple[Any, Any]:
        """Return the outputs of a direction, laid out as `rows` are, and the last state of every sequence.

        Padded sequences are (T, N, inputs). Of packed ones there are as many rows for each step as `sizes` says.
        """
        step = _STEPS[self.mode][0]
        names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr")
        weight, bias, *recurrent = (getattr(self, name + suffix, None) for name in names)
        # One product projects all steps.
        projected = linear(rows, weight, bias)
        if sizes is not None:
            return _over_sizes(step, wg.split(projected, sizes), sizes, state, recurrent, reverse)
        if isinstance(rows.spec.shape[0], Dim):  # how many steps there are is not known yet

            def following(state: Any, x: Any) -> tuple[Any, Any]:
                state = step(x, state, *recurrent)
                return state, _output(state)

            last, out = wg.scan(following, state, projected, reverse=reverse)
            return out, last
        outs = []
        steps = wg.unstack(projected)
        for x in reversed(steps) if reverse else steps:
            state = step(x, state, *recurrent)
            outs.append(_output(state))
        return wg.stack(outs[::-1] if reverse else outs), state

    def extra_repr(self) -> str:
        """Return the sizes for `repr`; options only where they are not the defaults."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        usual["bidirectional"] = False
        shown += [f"{name}={getattr(self, name)}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join(shown)


def _over_sizes(
    step: Step, projected: Sequence[Any], sizes: list[int], state: Any, recurrent: list[Any], reverse: bool
) -> tuple[Any, Any]:
    """Return the outputs over packed sequences, row by row, and the last state of each."""
    outs = []
    if reverse:
        start, state = state, _each(state, lambda part: part[: sizes[-1]])
        running = sizes[-1]
        for n, x in zip(reversed(sizes), reversed(projected)):
            if n > running:  # sequences that end here come in
                begun = _each(start, lambda part, low=running, high=n: part[low:high])  # type: ignore[misc]
                state, running = _both(state, begun), n
            state = step(x, state, *recurrent)
            outs.append(_output(state))
        return wg.concat(outs[::-1]), state
    ended: Any = None
    running = sizes[0]
    for n, x in zip(sizes, projected):
        if n < running:  # sequences that have ended keep their state
            done = _each(state, lambda part, low=n: part[low:])  # type: ignore[misc]
            ended = done if ended is None else _both(done, ended)
            state, running = _each(state, lambda part, low=n: part[:low]), n  # type: ignore[misc]
        state = step(x, state, *recurrent)
        outs.append(_output(state))
    return wg.concat(outs), state if ended is None else _both(state, ended)


def _ordered(x: Any, order: Any) -> Any:
    return x if order is None else wg.take(x, order, 0)


class RNN(RNNBase):
    """A recurrent layer over a sequence: h = tanh(W_ih x + b_ih + W_hh h + b_hh).

    Parameters
    ----------
    input_size: the size of the input at one step.
    hidden_size: the size of the state.
    num_layers: layers on top of each other.
    nonlinearity: "tanh" or "relu".
    bias: whether to add biases.
    batch_first: whether the sequences stand along the first axis, the steps along the second.
    dropout: between layers, in training.
    bidirectional: also run backwards, and put the outputs beside each other.
    device: where the parameters are, as in :func:`wengert.zeros`.
    dtype: of the parameters; the default float where left out.

    Source: Elman, "Finding structure in time", 1990. Raises ShapeError, GraphError.

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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = _nonlinearity(nonlinearity)
        options = num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *options)


class LSTM(RNNBase):
    """A long short-term memory: a state (h, c) behind input, forget and output gates.

    Parameters are those of :class:`RNN` but the nonlinearity, and `proj_size`: the size that h is projected to, where
    it is not 0. Gates are stacked in the order input, forget, cell, output.

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
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        super().__init__("LSTM", input_size, hidden_size, *options)


class GRU(RNNBase):
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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__("GRU", input_size, hidden_size, *options)


class RNNCellBase(Module):
    """The base of single steps; `num_chunks` is the number of gates."""

    mode = "RNN_TANH"
    nonlinearity = "tanh"
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        rows = num_chunks * hidden_size
        self.input_size = size("input_size", input_size, 0)
        self.hidden_size = size("hidden_size", hidden_size)
        self.bias = bias
        self.weight_ih = Parameter(wg.empty((rows, input_size), dtype=dtype, device=device))
        self.weight_hh = Parameter(wg.empty((rows, hidden_size), dtype=dtype, device=device))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(wg.empty(rows, dtype=dtype, device=device)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values: uniform within one over the root of the hidden size."""
        _uniform(self)

    def forward(self, input: Any, hx: Any = None) -> Any:
        """Map (N, input_size) or (input_size,) and a state (zeros where left out) to the next state."""
        x = asarray(input)
        step, pair = _STEPS[self.mode][0], self.mode == "LSTM"
        lead = x.spec.shape[:-1]
        if len(lead) > 1 or not x.ndim or x.spec.shape[-1] != self.input_size:
            fail(
                ShapeError,
                f"{type(self).__name__} of {x.spec} with input_size={self.input_size}",
                "The input has shape (N, input_size) or (input_size,).",
            )
        if hx is None:
            zeros = wg.zeros((*lead, self.hidden_size), dtype=x.spec.dtype)
            hx = (zeros, zeros) if pair else zeros
        wanted = (*lead, self.hidden_size)
        parts = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if len(parts) != 1 + pair or any(tuple(p.shape) != wanted for p in parts):
            fail(ShapeError, f"{type(self).__name__}: a state that is not of shape {wanted}")
        state = tuple(map(asarray, parts))
        projected = linear(x, self.weight_ih, self.bias_ih)
        return step(projected, state if pair else state[0], self.weight_hh, self.bias_hh, None)

    def extra_repr(self) -> str:
        """Return the sizes for `repr`; options only where they are not the defaults."""
        shown = [f"{self.input_size}, {self.hidden_size}"]
        shown += [] if self.bias_ih is not None else ["bias=False"]
        shown += [f"nonlinearity={self.nonlinearity}"] if self.nonlinearity != "tanh" else []
        return ", ".join(shown)


class RNNCell(RNNCellBase):
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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = _nonlinearity(nonlinearity)
        self.mode = f"RNN_{nonlinearity.upper()}"
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)


class LSTMCell(RNNCellBase):
    """A single step of :class:`LSTM`: `h, c = cell(x, (h, c))`.

    >>> import wengert as wg
    >>> h, c = wg.nn.LSTMCell(3, 4)(wg.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 4), (2, 4))
    """

    mode = "LSTM"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)


class GRUCell(RNNCellBase):
    """A single step of :class:`GRU`.

    >>> import wengert as wg
    >>> wg.nn.GRUCell(3, 4)(wg.ones((2, 3))).shape
    (2, 4)
    """

    mode = "GRU"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)
