"""RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import wengert as wg

from ..errors import refuse
from ..registry import operator

Function = Callable[[Any], Any]

_DEFAULTS = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (0.01, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, 0.0),
}

_FUNCTIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "Relu": lambda x, a, b: wg.relu(x),
    "Tanh": lambda x, a, b: wg.tanh(x),
    "Sigmoid": lambda x, a, b: wg.sigmoid(x),
    "Affine": lambda x, a, b: a * x + b,
    "LeakyRelu": lambda x, a, b: wg.where(x >= 0, x, a * x),
    "ThresholdedRelu": lambda x, a, b: wg.where(x >= a, x, wg.zeros_like(x)),
    "ScaledTanh": lambda x, a, b: a * wg.tanh(b * x),
    "HardSigmoid": lambda x, a, b: wg.clip(a * x + b, 0, 1),
    "Elu": lambda x, a, b: wg.nn.functional.elu(x, a),
    "Softsign": lambda x, a, b: wg.nn.functional.softsign(x),
    "Softplus": lambda x, a, b: wg.logaddexp(x, wg.zeros_like(x)),
}


def _activations(names: Sequence[str], alphas: Any, betas: Any, clip: float | None) -> list[Function]:
    first: Iterator[float] = iter(alphas or ())
    second: Iterator[float] = iter(betas or ())
    by_name = {n.lower(): n for n in _FUNCTIONS}
    out = []
    for name in names:
        known = by_name.get(name.lower())
        if known is None:
            refuse(f"the activation {name[:40]!r} is none of {', '.join(_FUNCTIONS)}")
        defaults = _DEFAULTS.get(known, (0.0, 0.0))
        # Only the functions that have parameters take the next ones from the lists.
        a = next(first, defaults[0]) if known in _DEFAULTS else 0.0
        b = next(second, defaults[1]) if known in ("Affine", "ScaledTanh", "HardSigmoid") else 0.0
        out.append(_bounded(_FUNCTIONS[known], a, b, clip))
    return out


def _bounded(function: Callable[[Any, float, float], Any], a: float, b: float, clip: float | None) -> Function:
    return lambda x: function(x if clip is None else wg.clip(x, -clip, clip), a, b)


Step = Callable[[int, Any, tuple[Any, ...]], tuple[Any, ...]]


def _recur(
    x: Any,
    gates: int,
    w: Any,
    r: Any,
    shifts: Sequence[Any],
    lengths: Any,
    starts: Sequence[Any],
    hidden_size: int | None,
    direction: str,
    layout: int,
    step: Step,
) -> tuple[Any, list[Any]]:
    """Run a cell over the steps in each direction, and return all hidden states and the last states.

    `shifts` are what every step adds to the operand's part of the gates, one for each direction, or nothing.
    """
    ways = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}.get(direction)
    if ways is None or layout not in (0, 1):
        refuse(f"direction is {direction!r} and layout {layout}")
    if x.ndim != 3 or w.ndim != 3 or r.ndim != 3:
        refuse(f"operands of shape {tuple(x.shape)}, {tuple(w.shape)}, {tuple(r.shape)} have not 3 axes each")
    size = r.shape[2]
    if w.shape[0] != len(ways) or r.shape[:2] != (len(ways), gates * size) or w.shape[1:] != (gates * size, x.shape[2]):
        refuse(f"weights of shape {tuple(w.shape)} and {tuple(r.shape)} do not fit an operand of {tuple(x.shape)}")
    if hidden_size is not None and hidden_size != size:
        refuse(f"hidden_size is {hidden_size}, and the weights have {size}")
    if layout:
        x = wg.swapaxes(x, 0, 1)
        starts = [None if s is None else wg.swapaxes(s, 0, 1) for s in starts]
    steps, batch = x.shape[0], x.shape[1]
    ends = None if lengths is None else lengths.reshape((1, -1, 1))
    at = wg.arange(steps).reshape((-1, 1, 1))
    hidden, last = [], []
    for d, back in enumerate(ways):
        first = tuple(wg.zeros((batch, size), dtype=x.dtype) if s is None else s[d] for s in starts)
        # The operand's part of the gates is one product for all steps.
        rows: Any = _turned(x, ends, at) if back and ends is not None else x
        parts = wg.matmul(rows, w[d].mT)
        parts = parts + shifts[d] if shifts else parts

        def always(state: tuple[Any, ...], part: Any, d: int = d) -> Any:
            new = step(d, part, state)
            return new, new[0]

        def while_alive(state: tuple[Any, ...], row: Any, d: int = d) -> Any:
            part, alive = row
            new = step(d, part, state)
            kept = tuple(wg.where(alive, n, s) for n, s in zip(new, state))
            return kept, wg.where(alive, new[0], wg.zeros_like(new[0]))

        if ends is None:
            end, ys = wg.scan(always, first, parts, reverse=bool(back))
        else:
            end, ys = wg.scan(while_alive, first, (parts, wg.less(at, ends)))
        if back and ends is not None:
            ys = _turned(ys, ends, at)
        hidden.append(ys)
        last.append(end)
    y = wg.stack(hidden, 1)
    states = [wg.stack(list(s), 0) for s in zip(*last)]
    if layout:
        y = wg.permute_dims(y, (2, 0, 1, 3))
        states = [wg.swapaxes(s, 0, 1) for s in states]
    return y, states


def _turned(x: Any, ends: Any, at: Any) -> Any:
    """Return rows in reverse within their lengths."""
    places = wg.where(at < ends, ends - 1 - at, at + wg.zeros_like(ends))
    return wg.take_along_axis(x, wg.broadcast_to(places, tuple(x.shape)), 0)


def _split(x: Any, count: int) -> list[Any]:
    size = x.shape[-1] // count
    return [x[..., i * size : (i + 1) * size] for i in range(count)]


def _both(b: Any) -> list[Any]:
    """Return for each direction the sum of the biases of the operand's products and of the state's; none without."""
    return [] if b is None else [wg.add(*_split(b[d], 2)) for d in range(b.shape[0])]


def _names(given: Any, default: tuple[str, ...], direction: str) -> tuple[str, ...]:
    ways = 2 if direction == "bidirectional" else 1
    names = tuple(given) if given else default * ways
    if len(names) != len(default) * ways:
        refuse(f"there are {len(names)} activations instead of {len(default) * ways}")
    return names


@operator("RNN")
def _rnn(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    start: Any = None,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    f = _activations(_names(activations, ("Tanh",), direction), activation_alpha, activation_beta, clip)

    def step(d: int, part: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        return (f[d](part + wg.matmul(state[0], r[d].mT)),)

    y, states = _recur(x, 1, w, r, _both(b), lengths, [start], hidden_size, direction, layout, step)
    return (y, *states)


@operator("GRU")
def _gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    start: Any = None,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 0,
) -> Any:
    f = _activations(_names(activations, ("Sigmoid", "Tanh"), direction), activation_alpha, activation_beta, clip)

    def step(d: int, part: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        (h,) = state
        size = h.shape[-1]
        pz, pr, ph = _split(part, 3)
        weights = r[d]
        sums = wg.matmul(h, weights[: 2 * size].mT)
        sz, sr = _split(sums, 2)
        z, reset = f[2 * d](pz + sz), f[2 * d](pr + sr)
        last = weights[2 * size :].mT
        inner = wg.matmul(h, last) + inside[d] if inside else wg.matmul(h if linear_before_reset else reset * h, last)
        new = f[2 * d + 1](ph + (reset * inner if linear_before_reset else inner))
        return ((1 - z) * new + z * h,)

    shifts, inside = _both(b), []
    if b is not None and linear_before_reset:
        # The last gate's own bias is scaled by the reset gate.
        own = r.shape[-1]
        inside = [b[d][5 * own :] for d in range(b.shape[0])]
        shifts = [wg.concat([s[: 2 * own], b[d][2 * own : 3 * own]]) for d, s in enumerate(shifts)]
    y, states = _recur(x, 3, w, r, shifts, lengths, [start], hidden_size, direction, layout, step)
    return (y, *states)


@operator("LSTM")
def lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    start: Any = None,
    cell: Any = None,
    peepholes: Any = None,
    seen: Function = lambda h: h,
    *,
    activation_alpha: Any = None,
    activation_beta: Any = None,
    activations: Any = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 0,
) -> Any:
    """Return LSTM's results. `seen` is not an operand: it is the part of a hidden state that the next step uses."""
    names = _names(activations, ("Sigmoid", "Tanh", "Tanh"), direction)
    f = _activations(names, activation_alpha, activation_beta, clip)

    def step(d: int, part: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        h, c = state
        i, o, forget, new = _split(part + wg.matmul(seen(h), r[d].mT), 4)
        pi, po, pf = (0, 0, 0) if peepholes is None else _split(peepholes[d], 3)
        gate, other_gate, last = f[3 * d], f[3 * d + 1], f[3 * d + 2]
        i = gate(i + pi * c if peepholes is not None else i)
        forget = 1 - i if input_forget else gate(forget + pf * c if peepholes is not None else forget)
        c = forget * c + i * other_gate(new)
        o = gate(o + po * c if peepholes is not None else o)
        return o * last(c), c

    y, states = _recur(x, 4, w, r, _both(b), lengths, [start, cell], hidden_size, direction, layout, step)
    return (y, *states)
