"""What a user reads when something is wrong: the first line says what and where, the next how to mend it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import first_line


def message(fn: Callable[[], object], kind: type[BaseException]) -> str:
    """The error's text, with the place checked and cut out."""
    with pytest.raises(kind) as caught:
        fn()
    text = str(caught.value)
    first = text.split("\n")[0]
    place = re.search(r" \((\S+):(\d+)\)$", first)
    assert place, f"no place in {first!r}"
    assert Path(place[1]).name == Path(__file__).name, first
    lines, start = inspect.getsourcelines(fn)
    assert start <= int(place[2]) < start + len(lines), first
    return text.replace(place[0], "", 1)


def ones(*shape: int, **kw: object) -> wg.Tensor:
    return wg.ones(shape, **kw)


SCALAR = wg.tensor(1.0)


def test_shapes_that_do_not_broadcast() -> None:
    text = message(lambda: ones(3, 4) + ones(5), wg.ShapeError)
    assert text.startswith("add: shapes (3, 4) float32 and (5,) float32 do not broadcast")
    assert "\n" in text


def test_matmul_of_sizes_that_do_not_fit() -> None:
    text = message(lambda: ones(2, 3) @ ones(4, 5), wg.ShapeError)
    assert "(2, 3) float32" in text
    assert "(4, 5) float32" in text


def test_errors_are_also_what_python_would_raise() -> None:
    assert issubclass(wg.ShapeError, ValueError)
    assert issubclass(wg.DTypeError, TypeError)
    assert issubclass(wg.RangeError, IndexError)
    assert issubclass(wg.GradientError, RuntimeError)
    assert issubclass(wg.StateError, KeyError)


def test_backward_of_a_non_scalar() -> None:
    x = ones(3, requires_grad=True)
    text = message(lambda: (x * x).backward(), wg.GradientError)
    assert text.startswith("backward() of a tensor that is not a scalar, f32[3]")
    assert "x.sum()" in text


def test_backward_with_nothing_that_requires_gradients() -> None:
    text = message(lambda: SCALAR.backward(), wg.GradientError)
    assert text.startswith("backward() of a tensor that does not require gradients")
    assert "requires_grad=True" in text


def test_second_backward() -> None:
    x = wg.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    text = message(lambda: y.backward(), wg.GradientError)
    assert text.startswith("backward through multiply f32[] a second time, after its saved values were freed")
    line = inspect.currentframe().f_lineno - 3
    assert f"freed by the backward pass at {__file__}:{line}" in text
    assert "retain_graph=True" in text


def test_integers_have_no_gradients() -> None:
    text = message(lambda: wg.tensor([1, 2], requires_grad=True), wg.DTypeError)
    assert "int64" in text
    assert "astype(wg.float32)" in text
    text = message(lambda: wg.grad(lambda x: x * x)(3), wg.DTypeError)
    assert "3.0 instead of 3" in text


def test_writing_to_a_leaf() -> None:
    x = ones(3, requires_grad=True)

    def write() -> None:
        x[0] = 5.0

    text = message(write, wg.GradientError)
    assert "leaf" in text
    assert "no_grad" in text

    def add() -> None:
        nonlocal x
        x += 1.0

    assert "leaf" in message(add, wg.GradientError)
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_state_dict_keys() -> None:
    model = wg.nn.Linear(2, 3)
    state = model.state_dict()
    state["wieght"] = state.pop("weight")
    text = message(lambda: model.load_state_dict(state), wg.StateError)
    assert "wieght" in text
    assert "weight" in text
    text = message(lambda: wg.nn.Linear(2, 4).load_state_dict(model.state_dict()), wg.StateError)
    assert "(3, 2)" in text
    assert "(4, 2)" in text


def test_ragged_lists() -> None:
    text = message(lambda: wg.tensor([[1.0, 2.0], [3.0]]), wg.ShapeError)
    assert text.startswith("a ragged nested list: element 0 has 2 elements, element 1 has 1 elements")


@pytest.mark.parametrize(
    "data",
    [np.array([object()]), ["a", "b"], [None], np.array(["2020-01-01"], "M8[D]"), [2**80]],
    ids=["object", "str", "None", "datetime", "large"],
)
def test_data_that_is_not_numbers(data: object) -> None:
    text = message(lambda: wg.tensor(data), wg.DTypeError)
    assert "tensor" in text


def test_axes() -> None:
    text = message(lambda: ones(2, 3).sum(axis=2), wg.ShapeError)
    assert text.startswith("axis 2 does not exist in a tensor with 2 dimensions")
    assert "between -2 and 1" in text
    assert "twice" in message(lambda: ones(2, 3).sum(axis=(0, -2)), wg.ShapeError)


def test_indices() -> None:
    x = ones(3, 4)
    text = message(lambda: x[3], wg.RangeError)
    assert "3" in text
    text = message(lambda: x[0, 0, 0], wg.RangeError)
    assert "(3, 4)" in text
    message(lambda: x[0.5], wg.DTypeError)
    message(lambda: x[wg.tensor([0, 7])], wg.RangeError)
    text = message(lambda: wg.torch.embedding(x, wg.tensor([1, 9])), wg.RangeError)
    assert "9" in text


def test_cross_entropy_targets() -> None:
    logits = ones(2, 3)
    text = message(lambda: wg.nn.functional.cross_entropy(logits, wg.tensor([0, 3])), wg.RangeError)
    assert "3" in text
    message(lambda: wg.nn.functional.cross_entropy(logits, wg.tensor([0, 1, 2])), wg.ShapeError)


def test_operands_that_are_not_data() -> None:
    text = message(lambda: wg.add(ones(2), "3"), wg.DTypeError)
    assert "str" in text
    with pytest.raises(TypeError):
        ones(2) + "3"
    assert (ones(2) == "3") is False
    assert (ones(2) != None) is True  # noqa: E711


def test_truth_and_length() -> None:
    text = message(lambda: bool(ones(2)), wg.ShapeError)
    assert "wg.any" in text
    message(lambda: len(SCALAR), wg.DTypeError)
    message(lambda: ones(2).item(), wg.ShapeError)


def test_numpy_of_a_tracked_tensor() -> None:
    x = ones(2, requires_grad=True)
    assert "detach" in message(lambda: (x * x).numpy(), wg.GradientError)


def test_values_while_tracing() -> None:
    def f(x: wg.Tensor) -> wg.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(wg.TraceError, match="abstract tensor") as caught:
        wg.graph(f)(wg.spec((2,)))
    assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in str(caught.value)


def test_division_by_zero_is_a_value() -> None:
    x = wg.tensor([1.0, 0.0, -1.0]) / 0
    assert np.isposinf(x.tolist()[0])
    assert np.isnan(x.tolist()[1])
    assert wg.log(wg.tensor(0.0)).item() == -np.inf
    assert (wg.tensor([1]) / 0).tolist() == [np.inf]


def test_nan_goes_through() -> None:
    x = wg.tensor([1.0, float("nan")], requires_grad=True)
    y = wg.relu(x * 2.0).sum()
    assert np.isnan(y.item())
    y.backward()
    assert x.grad.tolist()[0] == 2.0


def test_empty_batch() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 3))
    out = model(wg.zeros((0, 4)))
    assert out.shape == (0, 3)
    out.sum().backward()
    assert all(np.all(np.asarray(p.grad) == 0) for p in model.parameters())
    assert np.isnan(wg.zeros((0,)).mean().item())
    message(lambda: wg.zeros((0,)).max(), wg.ShapeError)


def test_big_endian_and_foreign_layouts() -> None:
    big = np.arange(6, dtype=">f4").reshape(2, 3)
    assert wg.tensor(big).dtype == wg.float32
    assert wg.tensor(big).tolist() == big.tolist()
    assert wg.tensor(big[:, ::-2]).tolist() == big[:, ::-2].tolist()
    read_only = big.astype("f4")
    read_only.flags.writeable = False
    assert wg.asarray(read_only).tolist() == big.tolist()


def test_arrays_cannot_change_a_tensor_behind_its_back() -> None:
    a = np.ones(3, np.float32)
    x = wg.asarray(a)
    a[0] = 7
    assert x.tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 7


def test_data_files(tmp_path: Path) -> None:
    missing = tmp_path / "none.gz"
    assert "no such file" in message(lambda: wg.data.read_idx(missing), wg.DataError)
    corrupt = tmp_path / "corrupt"
    corrupt.write_bytes(b"\x1f\x8b not gzip")
    message(lambda: wg.data.read_idx(corrupt), wg.DataError)
    corrupt.write_bytes(b"hello")
    assert "not an IDX file" in message(lambda: wg.data.read_idx(corrupt), wg.DataError)
    corrupt.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 5, 1, 2]))
    assert "needs 5" in message(lambda: wg.data.read_idx(corrupt), wg.DataError)
    corrupt.write_bytes(bytes([0, 0, 8, 3, 0, 0]))
    assert "header" in message(lambda: wg.data.read_idx(corrupt), wg.DataError)
    corrupt.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 1, 2]))
    assert wg.data.read_idx(corrupt).tolist() == [1, 2]


def test_printed_tracebacks_show_no_internal_frames() -> None:
    program = textwrap.dedent(
        """
        import wengert as wg
        wg.debug.short_tracebacks()
        def outer():
            return wg.ones((2, 3)) @ wg.ones((4, 5))
        outer()
        """
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert out.returncode == 1
    assert "wengert/" not in out.stderr.split("ShapeError")[0]
    assert "in outer" in out.stderr
    assert "ShapeError: matmul" in out.stderr


def test_layers_blame_the_users_line() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU())
    text = message(lambda: model(ones(2, 5)), wg.ShapeError)
    assert "(2, 5)" in text


def test_errors_point_to_the_answers() -> None:
    """Where an explanation would help, the error says which."""
    traced = message(lambda: wg.graph(lambda x: 1.0 if x > 0 else 2.0)(wg.spec(())), wg.TraceError)
    assert all(name in traced for name in ("wg.cond", "wg.where", "wg.while_loop"))
    w = wg.tensor([1.0], requires_grad=True)
    w.grad = wg.tensor([float("nan")])
    clipped = message(lambda: wg.nn.clip_grad_norm_([w], 1.0, error_if_nonfinite=True), wg.GradientError)
    assert "wg.explain.nonfinite" in clipped
    u = wg.tensor([2.0], requires_grad=True)
    assert "wg.explain.missing" in message(lambda: wg.autograd.grad((w * 2.0).sum(), u), wg.GradientError)
    assert "wg.explain.missing" in message(lambda: wg.ones(()).backward(), wg.GradientError)
    singular = message(lambda: wg.linalg.eigh(wg.full((2, 2), wg.nan)), wg.linalg.LinAlgError)
    assert "wg.explain.nonfinite" in singular


def test_the_general_path_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An AttributeError from inside of it is not taken for an operand that is no tensor."""
    calls = []

    def general(op: Any, args: Any) -> Any:
        calls.append(args)
        raise AttributeError("from inside")

    monkeypatch.setitem(wg.add.__globals__, "general", general)
    with pytest.raises(AttributeError, match="from inside") as caught:
        wg.add(wg.ones(2), wg.ones(3, 2))
    assert len(calls) == 1
    assert caught.value.__context__ is None


@pytest.mark.parametrize("n", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_very_long_chain(n: int) -> None:
    x = wg.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(n):
        y = y * 1.0
    assert "multiply" in str(y.grad_fn).lower()
    graph = wg.Graph.of(y)
    assert len(graph.nodes) == n + 1
    assert len(str(graph).splitlines()) >= n
    assert wg.Graph.parse(str(graph)) == graph
    y.backward()
    assert x.grad.item() == 1.0
    del y, graph  # frees a long chain of nodes


def test_a_very_long_chain_differentiates_twice() -> None:
    x = wg.tensor(1.0, dtype=wg.float64, requires_grad=True)
    y = x
    for _ in range(2000):
        y = y * x
    (g,) = wg.autograd.grad(y, x, create_graph=True)
    (h,) = wg.autograd.grad(g, x)
    assert (g.item(), h.item()) == (2001.0, 2001.0 * 2000.0)


def test_frozen_modules_are_nobodys() -> None:
    code = "def raised(f):\n    return f()\n"
    space: dict[str, Any] = {}
    exec(compile(code, "<frozen runpy>", "exec"), space)
    with pytest.raises(wg.ShapeError) as e:
        space["raised"](lambda: wg.ones(2).reshape(3))
    assert "<frozen" not in str(e.value)
    place = sys._getframe().f_code.co_filename
    assert str(e.value.place).startswith(place)
    with pytest.raises(wg.ShapeError) as e:
        space["raised"](partial(wg.reshape, wg.ones(2), (3,)))
    assert str(e.value.place).startswith(place)
    assert f"{first_line(e.value)} ({e.value.place})" == str(e.value).partition("\n")[0]


def test_the_users_line_is_told_through_decorators_and_numpy() -> None:
    with pytest.raises(wg.ShapeError) as caught:
        np.sum(wg.ones(3), axis=7)
    assert (caught.value.place or "").startswith(f"{__file__}:")
    with pytest.raises(wg.GraphError) as caught:
        wg.jit(lambda x: x * 2, memory=10)(wg.ones(3))  # whose plan is a cached property
    assert (caught.value.place or "").startswith(f"{__file__}:")


def test_open_sizes_are_not_compiled_ahead_of_time() -> None:
    lowered = wg.jit(lambda x: (x * x).sum()).lower(wg.spec(("n",)))
    with pytest.raises(wg.GraphError, match=r"lowered for an open size, n, and is compiled for known ones") as caught:
        lowered.compile()
    assert (caught.value.place or "").startswith(f"{__file__}:")
