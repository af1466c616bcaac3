"""What users do to tensors: about a hundred idioms, each with what NumPy makes of it.

An idiom is a function of `(xp, x)`. With `xp` NumPy and `x` an array of its own it is its own reference, unless it has
another one; with `xp` Wengert it is what the crossings run. Where it keeps something between calls, `state` makes that
anew: it is then a function of `(xp, x, state)`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import math
import operator
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

Function = Callable[..., Any]


class Idiom(NamedTuple):
    """An idiom, the function that says in NumPy what it means, and its state.

    `size` is the least number of elements of the axis that `x` has to have; None: it takes a number too. `slope` is
    the derivative, element for element, where what it detaches makes that another than NumPy's numbers have.
    """

    name: str
    group: str
    run: Function
    reference: Function
    state: Callable[[Any], Any] | None
    size: int | None
    slope: Callable[[np.ndarray], np.ndarray] | None

    def takes(self, x: np.ndarray) -> bool:
        """Whether it means anything for an array of this shape."""
        return self.size is None or (x.ndim > 0 and x.size >= self.size)


IDIOMS: dict[str, Idiom] = {}


def idiom(
    group: str,
    reference: Function | None = None,
    state: Callable[[Any], Any] | None = None,
    size: int | None = None,
    slope: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Callable[[Function], Function]:
    """Enter a function in the table."""

    def enter(run: Function) -> Function:
        name = run.__name__
        assert name not in IDIOMS
        IDIOMS[name] = Idiom(name, group, run, reference or run, state, size, slope)
        return run

    return enter


def copy(xp: Any, x: Any) -> Any:
    return x.copy() if xp is np else x.clone()


# -- write


@idiom("write", size=1)
def write_an_element_of_the_argument(xp: Any, x: Any) -> Any:
    x[0] = x[0] * 5
    return x * x


@idiom("write", size=2)
def write_a_slice(xp: Any, x: Any) -> Any:
    y = copy(xp, x)
    y[1:] = x[:-1] * 2
    return y * x


@idiom("write", size=0)
def write_where_a_mask_holds(xp: Any, x: Any) -> Any:
    y = copy(xp, x)
    y[abs(x) > 0.5] = 0
    return y * x


@idiom("write", size=2)
def write_at_a_list_of_places(xp: Any, x: Any) -> Any:
    y = copy(xp, x)
    y[[0, -1]] = x.sum()
    return y


@idiom("write", size=2)
def add_at_a_list_of_places(xp: Any, x: Any) -> Any:
    y = x * 1
    y[[0, 1]] += x[[1, 0]] * 2
    return y


@idiom("write", size=0)
def write_everything(xp: Any, x: Any) -> Any:
    y = copy(xp, x)
    y[...] = x * 2
    return y


@idiom("write", size=0)
def augmented_assignment(xp: Any, x: Any) -> Any:
    y = x * 1
    y *= 3
    y += x
    y -= 1
    return y


@idiom("write", size=0)
def augmented_assignment_to_the_argument(xp: Any, x: Any) -> Any:
    x += 1
    x *= x
    return x + 1


@idiom("write", size=0)
def augmented_assignment_seen_by_another_name(xp: Any, x: Any) -> Any:
    y = x * 1
    z = y
    y += 2
    return z * x


@idiom("write", size=0)
def augmented_assignment_to_an_element_of_a_list(xp: Any, x: Any) -> Any:
    parts = [x * 1, x * 2]
    first = parts[0]
    parts[0] += 1
    parts[1] *= parts[0]
    return parts[1] + first


@idiom("write", size=1)
def write_an_entry_of_a_dict(xp: Any, x: Any) -> Any:
    d = {"a": x * 1, "b": x * 2}
    d["a"][0] = 7
    d["b"] = d["b"] + d["a"]
    return d["b"]


@idiom("write", reference=lambda xp, x: x * 2 + 1)
def methods_with_an_underscore(xp: Any, x: Any) -> Any:
    y = x.clone()
    y.mul_(2).add_(1)
    return y


@idiom("write", reference=lambda xp, x: x * x * 2, size=0)
def a_method_with_an_underscore_on_the_argument(xp: Any, x: Any) -> Any:
    before = x * 1
    x.mul_(2)
    return before * x


@idiom("write", reference=lambda xp, x: x * 0 + 3 + x)
def fill_and_zero(xp: Any, x: Any) -> Any:
    y = x.clone()
    y.fill_(3)
    z = x.clone()
    z.zero_()
    return y + z + x


@idiom("write", reference=lambda xp, x: x * 2 * x)
def copy_into(xp: Any, x: Any) -> Any:
    y = wg.zeros_like(x)
    y.copy_(x * 2)
    return y * x


@idiom("write", size=1)
def write_element_by_element(xp: Any, x: Any) -> Any:
    y = xp.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[i] * x[i] * i
    return y


@idiom("write", size=2)
def swap_two_elements(xp: Any, x: Any) -> Any:
    y = x * 1
    if xp is np:
        y[[0, -1]] = y[[-1, 0]]
    else:
        y[0], y[-1] = y[-1], y[0]
    return y * xp.arange(len(x))


@idiom("write", size=2)
def add_a_shifted_slice(xp: Any, x: Any) -> Any:
    y = x * 1
    y[1:] += y[:-1]
    return y


@idiom("write", size=1)
def write_back_by_the_operators_function(xp: Any, x: Any) -> Any:
    y = x * 1
    y[:1] = operator.iadd(y[:1], 2)
    return y


@idiom("write", size=1)
def write_into_a_column(xp: Any, x: Any) -> Any:
    y = xp.zeros_like(xp.stack([x, x]))
    y[1] = x * 2
    y[0, :] = x
    return (y * y).sum(axis=0)


@idiom("write", size=1)
def write_after_reading(xp: Any, x: Any) -> Any:
    y = x * 1
    early = y * y
    y[0] = 0
    return early + y


@idiom("write", reference=lambda xp, x: np.where(abs(x) > 0.5, 1, x * 1))
def masked_fill(xp: Any, x: Any) -> Any:
    y = x * 1
    y.masked_fill_(abs(x) > 0.5, 1)
    return y


# -- view


def _zeroed_tail(xp: Any, x: Any) -> Any:
    y = x * 1
    y[1:] = 0
    return y


@idiom("view", reference=_zeroed_tail, size=1)
def write_to_a_slice_of_a_tensor(xp: Any, x: Any) -> Any:
    y = x * 1
    part = y[1:]
    part.zero_()
    return y


@idiom("view", reference=_zeroed_tail, size=1)
def augmented_assignment_to_a_slice_under_a_name(xp: Any, x: Any) -> Any:
    y = x * 1
    part = y[1:]
    part *= 0
    return y


@idiom("view", size=1)
def write_to_a_reshaped_tensor(xp: Any, x: Any) -> Any:
    y = x * 1
    y.reshape(-1)[0] = 9
    return y


@idiom("view", size=1)
def write_while_iterating(xp: Any, x: Any) -> Any:
    y = xp.stack([x, x * 2])
    for row in y:
        row *= 2
    return y.sum(axis=0)


@idiom("view", reference=lambda xp, x: x * 0, size=0)
def write_to_what_detach_gives(xp: Any, x: Any) -> Any:
    y = x * 1
    y.detach().zero_()
    return y


def _nine_first(xp: Any, x: Any) -> Any:
    y = x * 1
    y[0] = 9
    return y


@idiom("view", reference=_nine_first, size=1, slope=lambda x: x * 0 + 1)
def write_through_data(xp: Any, x: Any) -> Any:
    y = x.detach() * 1
    y.data[0] = 9
    return y + (x - x.detach())


@idiom("view", size=1)
def write_to_a_copy_of_a_slice(xp: Any, x: Any) -> Any:
    part = copy(xp, x[:1])
    part[0] = 4
    return part + x


@idiom("view", size=1)
def read_backwards(xp: Any, x: Any) -> Any:
    return x[::-1] * xp.arange(len(x)) + x


@idiom("view")
def read_through_views(xp: Any, x: Any) -> Any:
    return (x[None] * x[..., None]).T.reshape(-1)


# -- shapes


@idiom("shape", reference=lambda xp, x: np.pad(x, [(1, 2)] * x.ndim) ** 2, size=0)
def pad_around(xp: Any, x: Any) -> Any:
    return wg.pad(x, (1, 2)) ** 2


@idiom("shape", reference=lambda xp, x: np.pad(x[1:], ((0, 1),)) ** 2, size=1)
def pad_as_pytorch_does(xp: Any, x: Any) -> Any:
    return wg.nn.functional.pad(x, (-1, 1)) ** 2


@idiom("shape")
def concatenate_and_stack(xp: Any, x: Any) -> Any:
    y = xp.stack([x, x * 2, x * x])
    return xp.concat([y, y * 3], axis=0)


@idiom("shape", size=4, reference=lambda xp, x: x[:2] * x[2:4])
def split_in_two(xp: Any, x: Any) -> Any:
    a, b = wg.split(x[:4], 2)
    return a * b


@idiom("shape")
def broadcast_a_row_over_a_column(xp: Any, x: Any) -> Any:
    y = x.reshape(-1)
    return y[:, None] * y[None, :] + y


@idiom("shape", size=1)
def sizes_in_arithmetic(xp: Any, x: Any) -> Any:
    return x * x.shape[0] / len(x) + x.size


@idiom("shape", reference=lambda xp, x: np.sin(x) + np.sum(x) + np.mean(x * x), size=1)
def numpys_functions(xp: Any, x: Any) -> Any:
    return np.sin(x) + np.sum(x) + np.mean(x * x)


@idiom("shape", size=1)
def numpys_functions_of_lists(xp: Any, x: Any) -> Any:
    return np.stack([x, x * 2]).sum(axis=0) + np.where(abs(x) > 0.5, x, x * 3) + np.concatenate([x, x])[: len(x)]


# -- hooks


@idiom("hook", reference=lambda xp, x: 4 * x * x, slope=lambda x: 4 * x)
def hook_on_a_value_inside(xp: Any, x: Any) -> Any:
    y = x.detach().requires_grad_()
    h = y * y
    h.register_hook(lambda g: g * 2)
    h.sum().backward()
    return y.grad * x


@idiom("hook", reference=lambda xp, x: 3 * x, state=lambda xp: wg.tensor(2.0, dtype=wg.float64, requires_grad=True))
def hook_on_a_parameter_for_the_time_of_a_call(xp: Any, x: Any, w: Any) -> Any:
    handle = w.register_hook(lambda g: g * 3)
    (g,) = wg.autograd.grad((w * x.detach()).sum(), w)
    handle.remove()
    return g * (x / x.detach().sum())


def _hooked(xp: Any) -> Any:
    w = wg.tensor(2.0, dtype=wg.float64, requires_grad=True)
    w.register_hook(lambda g: g * 0.5)
    return w


@idiom("hook", reference=lambda xp, x: 0.5 * x.sum() + 0 * x, state=_hooked)
def hook_on_a_parameter(xp: Any, x: Any, w: Any) -> Any:
    (g,) = wg.autograd.grad((w * x).sum(), w, create_graph=True)
    return g + 0 * x


@idiom("hook", reference=lambda xp, x: 2 * x * x * x, slope=lambda x: 4 * x * x)
def retain_a_gradient(xp: Any, x: Any) -> Any:
    y = x.detach().requires_grad_()
    h = y * 1
    h.retain_grad()
    (h * h).sum().backward()
    return h.grad * x * x


# -- masks


@idiom("mask", size=1)
def choose_by_a_mask(xp: Any, x: Any) -> Any:
    return x[abs(x) > 0.5].sum() * x


@idiom("mask", state=lambda xp: xp.asarray([True, False, True, True]), size=4)
def choose_by_a_mask_from_outside(xp: Any, x: Any, keep: Any) -> Any:
    y = xp.zeros_like(x[:4])
    y[keep] = x[:4][keep] * 2
    return y * x[:4]


@idiom("mask")
def choose_by_where(xp: Any, x: Any) -> Any:
    return xp.where(abs(x) > 0.5, x * x, 0.25)


@idiom("mask", size=1)
def mean_over_a_mask(xp: Any, x: Any) -> Any:
    m = xp.where(abs(x) > 0.25, 1.0, 0.0)
    return (x * m).sum() / (m.sum() + 1)


@idiom("mask", size=1)
def places_that_hold(xp: Any, x: Any) -> Any:
    (found,) = xp.nonzero(abs(x) > 0.5)
    return x[found].sum() + x


@idiom("mask", state=lambda xp: xp.asarray([1, 0, 2, 1]), size=4)
def repeat_by_counts_from_outside(xp: Any, x: Any, counts: Any) -> Any:
    return xp.repeat(x[:4], counts) ** 2


# -- branches


@idiom("branch")
def branch_on_a_sum(xp: Any, x: Any) -> Any:
    if abs(x.sum()) > 1:
        return x * 2
    return x * x


@idiom("branch", size=1)
def branch_on_all_and_any(xp: Any, x: Any) -> Any:
    if xp.all(abs(x) > 10) or xp.any(abs(x) > 1):
        return x + 1
    return x * 3


@idiom("branch", size=2)
def the_larger_of_two(xp: Any, x: Any) -> Any:
    return max(x[0] * x[0].conj() if x.dtype.kind == "c" else x[0], x[1], key=lambda v: float(abs(v))) * x


@idiom("branch", size=1)
def loop_until_a_value_is_small(xp: Any, x: Any) -> Any:
    y = x * 1
    while abs(y).sum() > 1:
        y = y / 2
    return y


@idiom("branch")
def branch_on_shape_and_dtype(xp: Any, x: Any) -> Any:
    if x.ndim and x.shape[0] > 2 and x.dtype != xp.int32:
        return x * 2
    return x * 3


@idiom("branch", reference=lambda xp, x: np.where(abs(x.sum()) > 1, x * 2, x * x))
def branch_by_cond(xp: Any, x: Any) -> Any:
    return wg.cond(abs(x.sum()) > 1, lambda v: v * 2, lambda v: v * v, x)


def _halved(xp: Any, x: Any) -> Any:
    y = x * 1.0 if x.dtype.kind in "fc" else x / 1
    while abs(y).sum() > 1:
        y = y / 2
    return y


@idiom("branch", reference=_halved, size=1)
def loop_by_while_loop(xp: Any, x: Any) -> Any:
    y = x * 1.0 if x.is_floating_point() or x.is_complex() else x / 1
    return wg.while_loop(lambda v: abs(v).sum() > 1, lambda v: v / 2, y, max_steps=30)


# -- loops


@idiom("loop", size=1)
def loop_over_elements(xp: Any, x: Any) -> Any:
    total = 0
    for i, v in enumerate(x):
        total = total + v * v * i
    return total


@idiom("loop", size=1)
def pythons_sum_and_zip(xp: Any, x: Any) -> Any:
    return sum(a * b for a, b in zip(x, x[::-1], strict=True)) + x


@idiom("loop", size=1)
def a_list_that_is_stacked(xp: Any, x: Any) -> Any:
    return xp.stack([v * v for v in x])


def _running(xp: Any, x: Any) -> Any:
    return np.cumsum(x * x, dtype=(x * x).dtype)


@idiom("loop", reference=_running, size=1)
def loop_by_scan(xp: Any, x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c = c + v * v
        return c, c

    return wg.scan(step, wg.zeros_like(x[0]), x)[1]


@idiom("loop", reference=_running, size=1)
def loop_by_scan_that_writes_to_its_state(xp: Any, x: Any) -> Any:
    def step(c: Any, v: Any) -> Any:
        c += v * v
        return c, c * 1

    return wg.scan(step, wg.zeros_like(x[0]), x)[1]


@idiom("loop")
def recursion(xp: Any, x: Any) -> Any:
    def power(v: Any, n: int) -> Any:
        return v if n == 1 else v * power(v, n - 1)

    return power(x, 4)


@idiom("loop")
def a_generator(xp: Any, x: Any) -> Any:
    def powers(v: Any) -> Iterator[Any]:
        y = v
        for _ in range(3):
            y = y * v
            yield y

    return sum(powers(x))


@idiom("loop", size=1)
def horner(xp: Any, x: Any) -> Any:
    return functools.reduce(lambda acc, c: acc * x + c, [1.0, -2.0, 0.5], xp.zeros_like(x))


# -- conversions


@idiom("convert")
def a_float_of_a_tensor(xp: Any, x: Any) -> Any:
    return x * float(abs(x).sum())


@idiom("convert", size=1)
def an_index_from_a_tensor(xp: Any, x: Any) -> Any:
    return x[int(abs(x).argmax())] * x


@idiom("convert")
def numbers_in_a_list(xp: Any, x: Any) -> Any:
    return x * len(x.reshape(-1).tolist())


@idiom("convert", reference=lambda xp, x: x + x, slope=lambda x: x * 0 + 1)
def an_array_of_a_detached_tensor(xp: Any, x: Any) -> Any:
    return x + wg.asarray(x.detach().numpy())


@idiom("convert")
def numpys_asarray(xp: Any, x: Any) -> Any:
    return x * np.asarray(x)


@idiom("convert", size=2)
def a_tensor_of_a_list(xp: Any, x: Any) -> Any:
    return xp.asarray([x[0] * x[0], x[0] * x[1]])


@idiom("convert", size=2)
def a_tensor_of_a_nest(xp: Any, x: Any) -> Any:
    return xp.asarray([[x[0], 1.0], [x[1] * x[0], x[1]]]).sum(axis=0)


@idiom("convert", reference=lambda xp, x: x * x)
def a_tensor_of_a_tensor(xp: Any, x: Any) -> Any:
    return wg.tensor(x) * wg.asarray(x)


@idiom("convert")
def to_another_dtype_and_back(xp: Any, x: Any) -> Any:
    return x.astype(xp.complex128).real * x if x.dtype.kind != "c" else x.astype(xp.complex128) * x


@idiom("convert", size=1)
def mathematics_from_python(xp: Any, x: Any) -> Any:
    return x * math.sin(x.reshape(-1)[0])


@idiom("convert", state=lambda xp: xp.zeros(2, dtype=xp.float64), size=1)
def a_number_in_an_array_from_outside(xp: Any, x: Any, kept: Any) -> Any:
    kept[0] = x.sum()
    return kept * 2


@idiom("convert", size=1)
def a_number_in_a_new_numpy_array(xp: Any, x: Any) -> Any:
    kept = np.zeros(2)
    kept[0] = x.reshape(-1)[0]
    return x * kept[0]


# -- logs


@idiom("log", state=lambda xp: [])
def a_float_in_a_log(xp: Any, x: Any, log: list[Any]) -> Any:
    y = x * x
    log.append(float(abs(y).sum()) if xp is np else y.detach().abs().sum().item())
    return y


@idiom("log", state=lambda xp: [])
def a_tensor_in_a_log(xp: Any, x: Any, log: list[Any]) -> Any:
    y = x * x
    log.append(y if xp is np else y.detach())
    return y


@idiom("log")
def a_value_in_a_text(xp: Any, x: Any) -> Any:
    y = x * x
    assert f"{y}"
    return y


@idiom("log")
def a_shape_in_a_text(xp: Any, x: Any) -> Any:
    y = x * x
    assert f"{y.shape} {y.dtype}"
    return y


@idiom("log", reference=lambda xp, x: x * x)
def printed_by_debug(xp: Any, x: Any) -> Any:
    y = x * x
    with contextlib.redirect_stdout(io.StringIO()):
        wg.debug.print("{}", y)
    return y


# -- what is outside


@idiom("outside", state=lambda xp: xp.asarray(3.0, dtype=xp.float64))
def a_tensor_from_outside(xp: Any, x: Any, c: Any) -> Any:
    return x * c + c


@idiom("outside", state=lambda xp: np.asarray([2.0]))
def an_array_from_outside(xp: Any, x: Any, c: Any) -> Any:
    return x * c


@idiom("outside", state=lambda xp: types.SimpleNamespace(scale=2.0, shift=xp.asarray(1.0, dtype=xp.float64)))
def attributes_from_outside(xp: Any, x: Any, settings: Any) -> Any:
    return x * settings.scale + settings.shift


@idiom("outside", state=lambda xp: xp.zeros(1, dtype=xp.float64))
def a_state_that_is_written(xp: Any, x: Any, c: Any) -> Any:
    c[...] = c + abs(x).sum()
    return x * c


@idiom("outside", state=lambda xp: xp.zeros(1, dtype=xp.float64))
def a_state_that_is_added_to(xp: Any, x: Any, c: Any) -> Any:
    c += 1
    return x * c


@idiom("outside", state=lambda xp: types.SimpleNamespace(last=xp.zeros(1, dtype=xp.float64)))
def an_attribute_that_is_replaced(xp: Any, x: Any, o: Any) -> Any:
    y = x * 2 + o.last
    o.last = abs(x).sum().reshape(1)
    return y


@idiom("outside", state=lambda xp: {"calls": 0})
def a_count_of_calls(xp: Any, x: Any, d: dict[str, int]) -> Any:
    d["calls"] += 1
    return x * d["calls"]


@idiom("outside")
def a_default_and_a_partial(xp: Any, x: Any) -> Any:
    def scaled(v: Any, by: float = 2.0, shift: float = 0.0) -> Any:
        return v * by + shift

    return functools.partial(scaled, shift=1.0)(x)


# -- errors


@idiom("raise")
def an_error_that_is_caught(xp: Any, x: Any) -> Any:
    try:
        return x @ xp.zeros((17, 17))
    except (ValueError, TypeError):
        return x * 2


@idiom("raise")
def an_error_for_a_bad_value(xp: Any, x: Any) -> Any:
    if not xp.all(xp.isfinite(x)):
        raise ValueError("not finite")
    return x * x


@idiom("raise")
def a_finally_that_writes(xp: Any, x: Any) -> Any:
    y = x * 1
    try:
        y += 1
        if x.ndim > 100:
            raise ValueError
    finally:
        y *= 2
    return y


# -- threads


@idiom("thread")
def a_thread_inside(xp: Any, x: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: x * x + 1).result() * x


# -- results that are used again


@idiom("reuse")
def the_argument_itself(xp: Any, x: Any) -> Any:
    return x


@idiom("reuse")
def one_result_twice(xp: Any, x: Any) -> Any:
    y = x * 2
    return (y, y, x)


@idiom("reuse")
def a_nest_of_results(xp: Any, x: Any) -> Any:
    return {"b": x * 2, "a": [x, (x * x, x + 1)]}


@idiom("reuse", state=lambda xp: xp.asarray([1.0, 2.0], dtype=xp.float64))
def something_from_outside(xp: Any, x: Any, c: Any) -> Any:
    return c


@idiom("reuse")
def a_result_as_the_next_argument(xp: Any, x: Any) -> Any:
    def f(v: Any) -> Any:
        return v * v + 0.5

    return f(f(f(x) / 4) / 4)


@idiom("reuse")
def a_result_that_is_written_after_another_has_it(xp: Any, x: Any) -> Any:
    y = x * 2
    z = y * x
    y *= 5
    return z + y


# -- derivatives inside


@idiom("derivative", reference=lambda xp, x: 3 * x * x * x)
def a_gradient_inside(xp: Any, x: Any) -> Any:
    return wg.grad(lambda v: wg.real((v * v * v).sum()))(x).conj() * x


@idiom("derivative", reference=lambda xp, x: 2 * x * x, slope=lambda x: 2 * x)
def a_leaf_inside(xp: Any, x: Any) -> Any:
    y = x.detach().requires_grad_()
    wg.real((y * y).sum()).backward()
    return y.grad.conj() * x


@idiom("derivative", reference=lambda xp, x: 9 * x * x)
def a_gradient_penalty(xp: Any, x: Any) -> Any:
    y = x.clone().requires_grad_()
    (g,) = wg.autograd.grad((y * y).sum(), y, create_graph=True)
    return (g * 1.5) ** 2


@idiom("derivative", reference=lambda xp, x: x * x + x)
def stop_a_gradient(xp: Any, x: Any) -> Any:
    with wg.no_grad():
        flag = (x.abs() * 0).sum()
    return x * x + x + flag.detach()


@idiom("derivative", reference=lambda xp, x: x * x * x)
def a_checkpoint_inside(xp: Any, x: Any) -> Any:
    return wg.checkpoint(lambda v: v * v * v)(x)


@idiom("derivative", reference=lambda xp, x: x * x + 1)
def compiled_inside(xp: Any, x: Any) -> Any:
    return wg.jit(lambda v: v * v + 1)(x)


@idiom("derivative", reference=lambda xp, x: x * x, size=1)
def mapped_inside(xp: Any, x: Any) -> Any:
    return wg.vmap(lambda v: v * v)(x)


# -- dtypes


@idiom("dtype")
def numbers_of_many_kinds(xp: Any, x: Any) -> Any:
    return x * 2 + np.float64(0.5) * x + x * True + 1.5 * x


@idiom("dtype", reference=lambda xp, x: x * np.exp(-0.1) + np.sqrt(2.0))
def functions_of_python_numbers(xp: Any, x: Any) -> Any:
    return x * wg.exp(-0.1) + wg.sqrt(2.0)


@idiom("dtype", reference=lambda xp, x: x * np.where(x.real > 0, 0.1, 0.2))
def a_choice_of_python_numbers(xp: Any, x: Any) -> Any:
    return x * wg.where(wg.real(x) > 0, 0.1, 0.2)


@idiom("dtype")
def powers_of_python_numbers(xp: Any, x: Any) -> Any:
    return x**2 + x**3


@idiom("dtype")
def a_mean_and_a_variance(xp: Any, x: Any) -> Any:
    return (x - x.mean()) ** 2 + x.var()


@idiom("dtype", size=1)
def a_maximum_and_its_place(xp: Any, x: Any) -> Any:
    y = abs(x)
    return x * y.max() + y.argmax()
