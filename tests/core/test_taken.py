"""Values taken from tensors: writes that NumPy and PyTorch would let reach the tensor do so, or are refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

MODES = ["eager", "tracked", "jit", "vmap", "graph", "grad", "second call"]


def run(mode: str, f: Callable[[wg.Tensor], Any], x: wg.Tensor) -> Any:
    """`f` of a tensor of which it makes one of its own, in a mode."""

    def own(x: wg.Tensor) -> Any:
        return f(x.clone())

    if mode == "eager":
        return own(x)
    if mode == "tracked":
        return own(x.detach().requires_grad_())
    if mode == "jit":
        return wg.jit(own)(x)
    if mode == "second call":
        compiled = wg.jit(own)
        for _ in range(5):
            compiled(x)
        return compiled(x)
    if mode == "vmap":
        return wg.vmap(own)(x.unsqueeze(0))[0]
    if mode == "graph":
        return wg.graph(own)(x)(x)
    return wg.vjp(own, x)[0]


def start() -> wg.Tensor:
    return wg.arange(6.0).reshape(2, 3).clone()


def numpy_start() -> np.ndarray:
    return np.arange(6, dtype=np.float32).reshape(2, 3)


# Text that means the same in NumPy and here: the tensor itself is written to.


def rows(x: Any) -> Any:
    x[0] += 10
    return x


def slices(x: Any) -> Any:
    x[:, 1:] *= x[:, :2]
    return x


def one_number(x: Any) -> Any:
    x[1, 2] -= 0.5
    return x


def masked(x: Any) -> Any:
    x[x > 2] *= -1
    return x


def picked(x: Any) -> Any:
    x[[0, 1], [1, 2]] += 7
    return x


def all_of_it(x: Any) -> Any:
    y = x
    y += 1
    y *= 2
    y -= 0.5
    y /= 4
    y **= 2
    return x


def in_a_list(x: Any) -> Any:
    held = [x, x * 2]
    held[0] += 1
    held[1] -= x
    return held[0] + held[1]


def in_a_dict(x: Any) -> Any:
    held = {"a": x}
    held["a"] /= 2
    held["a"][0] += 1
    return x


def on_an_object(x: Any) -> Any:
    class Thing:
        pass

    thing = Thing()
    thing.x = x  # type: ignore[attr-defined]
    thing.x *= 3  # type: ignore[attr-defined]
    thing.x[0, 1:] += 1  # type: ignore[attr-defined]
    return x


def by_a_helper(x: Any) -> Any:
    def bump(t: Any) -> None:
        t += 1

    bump(x)
    return x


def in_a_loop(x: Any) -> Any:
    for i in range(2):
        x[i] += x[1 - i] * 2
    return x


MEANT = (
    rows,
    slices,
    one_number,
    masked,
    picked,
    all_of_it,
    in_a_list,
    in_a_dict,
    on_an_object,
    by_a_helper,
    in_a_loop,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", MEANT, ids=lambda f: f.__name__)
def test_text_that_writes_to_the_tensor_itself(f: Callable[[Any], Any], mode: str) -> None:
    if f is masked and mode not in ("eager", "tracked", "grad"):
        with pytest.raises(wg.TraceError, match="an abstract mask"):  # picks a number of elements that no graph knows
            run(mode, f, start())
        return
    expected = f(numpy_start())
    np.testing.assert_allclose(np.asarray(run(mode, f, start()).detach()), expected, rtol=1e-6)


# Text that in NumPy or PyTorch would change `x`: refused, in every mode.


def element_of_a_row(x: Any) -> Any:
    x[0][1] = 5.0
    return x


def a_row_by_name(x: Any) -> Any:
    row = x[0]
    row += 1
    return x


def method_of_a_row(x: Any) -> Any:
    x[0].zero_()
    return x


def flat_view(x: Any) -> Any:
    x.view(-1)[2] = 5.0
    return x


def transposed(x: Any) -> Any:
    x.T[0] = 5.0
    return x


def property_in_place(x: Any) -> Any:
    y = x.mT
    y *= 2
    return x


def detached(x: Any) -> Any:
    x.detach().zero_()
    return x


def iterated(x: Any) -> Any:
    for row in x:
        row *= 2
    return x


def listed(x: Any) -> Any:
    rows = list(x)
    rows[0] += 1
    return x


def chunked(x: Any) -> Any:
    a, _ = x.chunk(2)
    a.add_(1.0)
    return x


def unbound(x: Any) -> Any:
    first, *_ = wg.unstack(x)
    first.fill_(1.0)
    return x


def split_columns(x: Any) -> Any:
    left, _ = x.split([1, 2], 1)
    left[0] = 9.0
    return x


def diagonal(x: Any) -> Any:
    d = wg.diagonal(x)
    d += 1
    return x


def view_of_a_view(x: Any) -> Any:
    v = x.reshape(3, 2)[1:]
    v += 1
    return x


def squeezed(x: Any) -> Any:
    v = x[None].squeeze(0)
    v += 1
    return x


def expanded(x: Any) -> Any:
    v = x[:1].expand(2, 3)
    v += 1
    return x


def flattened(x: Any) -> Any:
    v = x.flatten()
    v -= 1
    return x


def whole_slice(x: Any) -> Any:
    v = x[...]
    v -= 1
    return x


def by_the_operator_module(x: Any) -> Any:
    operator.iadd(x[0], 1)
    return x


def in_a_call(x: Any) -> Any:
    def bump(t: Any) -> None:
        t += 1

    bump(x[0])
    return x


REFUSED = (
    element_of_a_row,
    a_row_by_name,
    method_of_a_row,
    flat_view,
    transposed,
    property_in_place,
    detached,
    iterated,
    listed,
    chunked,
    unbound,
    split_columns,
    diagonal,
    view_of_a_view,
    squeezed,
    expanded,
    flattened,
    whole_slice,
    by_the_operator_module,
    in_a_call,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_text_whose_write_would_be_lost(f: Callable[[Any], Any], mode: str) -> None:
    with pytest.raises(wg.WriteError) as e:
        run(mode, f, start())
    first, mend = str(e.value).split("\n")
    assert "on a value that was taken at" in first
    assert first.count("test_taken.py:") == 2  # where it was taken, and where the write stands
    assert "clone()" in mend


def test_the_error_names_the_line_that_took_the_value() -> None:
    x = start()
    row = x[1]
    with pytest.raises(wg.WriteError, match=r"\+= on a value that was taken at .*test_taken.py:\d+ \(x\[1\]\)") as e:
        row += 1
    assert "from a tensor of (2, 3) float32, (3,) float32" in str(e.value)


def test_a_value_whose_tensor_is_gone_is_its_own() -> None:
    y = (start() * 2)[0]
    y += 1
    assert y.tolist() == [1.0, 3.0, 5.0]
    x = start()
    x = x[1:]
    x -= 3
    assert x.tolist() == [[0.0, 1.0, 2.0]]
    z = start().detach().view(-1)
    z[0] = 7.0
    assert z[0].item() == 7.0


def test_a_copy_is_its_own() -> None:
    x = start()
    for take in (lambda: x[0].clone(), lambda: x[[0]][0] * 1, lambda: x[x > -1], lambda: x.astype(x.dtype), lambda: +x):
        y = take()
        y += 100
        assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    y = x[0].clone()
    y[0] = 5.0
    v = y[1:]
    del y
    v += 1  # the copy is gone


def test_what_the_library_gives_back_unchanged_is_the_same_tensor() -> None:
    x = start()
    for same in (
        wg.asarray(x),
        x.to(wg.float32),
        x.float(),
        wg.atleast_1d(x),
        wg.broadcast_to(x, (2, 3)),
        x.expand(-1, 3),
    ):
        assert same is x


def test_a_value_that_was_written_to_is_its_own() -> None:
    x = start()
    y = (x + 1)[0]
    y += 1
    y[0] = 0.0  # again: it has memory of its own
    assert y.tolist() == [0.0, 3.0, 4.0]


def test_arguments_of_compiled_functions_may_not_be_values_taken_from_others() -> None:
    @wg.jit
    def bump(t: wg.Tensor) -> wg.Tensor:
        t += 1
        return t * 2

    own = start()
    for k in range(6):
        assert bump(own).tolist() == ((numpy_start() + k + 1) * 2).tolist()
    x = start()
    with pytest.raises(wg.WriteError, match=r"a compiled function's write to an argument \(bump\)"):
        bump(x[:])
    assert x.tolist() == numpy_start().tolist()
    assert bump(start()[:]).tolist() == ((numpy_start() + 1) * 2).tolist()


def test_data_and_its_owner_are_one() -> None:
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    d = w.data
    d += 1
    d[0] = 10.0
    w.data[1] -= 0.5
    w.data *= 2
    assert w.tolist() == d.tolist() == [20.0, 5.0]
    with wg.no_grad():
        w.copy_(wg.tensor([7.0, 8.0]))
    assert d.tolist() == [7.0, 8.0]
    assert w.is_leaf
    assert w.requires_grad
    assert not d.requires_grad
    with pytest.raises(wg.WriteError):
        w.data[:1].zero_()
    with pytest.raises(wg.WriteError):
        w.data.view(-1)[0] = 1.0
    assert (d.data + 0).tolist() == [7.0, 8.0]

    @wg.jit
    def decay() -> wg.Tensor:
        w.data.mul_(0.5)
        w.data[0] += 1
        return w.data.sum()

    for _ in range(6):
        decay()
    np.testing.assert_allclose(w.detach().numpy(), [7.0 / 64 + 2 * (1 - 1 / 64), 8.0 / 64], rtol=1e-6)


def test_an_average_of_weights_by_state_dicts() -> None:
    model, average = wg.nn.Linear(2, 2), wg.nn.Linear(2, 2)
    expected = {k: v.clone() for k, v in average.state_dict().items()}

    def update() -> None:
        with wg.no_grad():
            for k, v in average.state_dict().items():
                v.copy_(v * 0.9 + model.state_dict()[k] * 0.1)

    compiled = wg.jit(update)
    for _ in range(6):
        compiled()
        for k, v in model.state_dict().items():
            expected[k] = expected[k] * 0.9 + v * 0.1
    for k, v in average.state_dict().items():
        np.testing.assert_allclose(v.numpy(), expected[k].numpy(), rtol=1e-5)


def test_gradients_through_augmented_assignment() -> None:
    x = wg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1.0
    z = (y * y).sum()
    y += x
    y[0] *= x[2]
    y[1:] -= 1
    (z + (y * y).sum()).backward()
    # y = (2 x0 x2, 2 x1 - 1, 2 x2 - 1), z of the first version
    expected = [2 * 1 + 2 * 6 * 6, 4 + 2 * 3 * 2, 6 + 2 * 5 * 2 + 2 * 6 * 2]
    assert x.grad.tolist() == expected


def test_a_python_number_is_bound_anew() -> None:
    @wg.jit
    def f(x: wg.Tensor, lr: float) -> wg.Tensor:
        step = lr
        step *= 0.5
        return x * lr + step

    for k in range(6):
        assert f(wg.ones(1), float(k)).item() == k * 1.5


def test_python_falls_back_to_a_refusal_where_it_does_not_show_the_assignment() -> None:
    x = start()
    with pytest.raises(wg.WriteError):
        x[0].__iadd__(1)
    assert x.tolist() == numpy_start().tolist()


def test_real_and_imaginary_parts() -> None:
    z = wg.tensor([1.0 + 2.0j, 3.0 + 4.0j])
    for f in (lambda z: z.real.zero_(), lambda z: wg.imag(z).mul_(2.0), lambda z: wg.view_as_real(z).add_(1.0)):
        for run_it in (f, wg.jit(f), wg.graph(f)):
            with pytest.raises(wg.WriteError):
                run_it(z)
    part = wg.real(z + 0)
    part += 1
    assert part.tolist() == [2.0, 4.0]
    assert z.tolist() == [1.0 + 2.0j, 3.0 + 4.0j]


def test_an_element_that_is_stored_back_is_written_by_the_operators_function_too() -> None:
    def update(x: wg.Tensor, index: Any, op: Any, y: Any) -> None:
        x[index] = op(x[index], y)

    def elsewhere(x: wg.Tensor, y: wg.Tensor) -> None:
        y[0:2] = operator.iadd(x[0:2], 1.0)

    for _ in range(100):  # Python specialises what runs often
        x = wg.ones(3)
        update(x, slice(0, 2), operator.itruediv, 2.0)
        assert x.tolist() == [0.5, 0.5, 1.0]
        with pytest.raises(wg.WriteError):
            elsewhere(x, wg.zeros(3))
        with pytest.raises(wg.WriteError):
            operator.iadd(x[0:2], 1.0)
