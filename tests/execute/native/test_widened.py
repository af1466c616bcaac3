"""A depthwise convolution that computes the wide image it reads: the numbers of the two layers one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from processors import on_processors
from wengert.execute.native.codegen import machine
from wengert.execute.native.compile import Compiled, compile_graph

F = wg.nn.functional


class Case(NamedTuple):
    batch: int
    narrow: int
    wide: int
    size: tuple[int, ...]
    kernel: tuple[int, ...] = (3, 3)
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    activation: str = "relu6"
    dtype: Any = np.float32


CASES = [
    Case(2, 16, 96, (14, 13)),
    Case(1, 5, 33, (9, 8), (5, 5), (2, 2), (2, 2), activation="silu"),
    Case(3, 24, 17, (7, 7), (3, 3), (2, 2), activation="none"),
    # Rows that come in many steps, and a width of several tiles.
    Case(1, 3, 40, (120, 67), (3, 3), (1, 1)),
    Case(1, 8, 32, (41, 112), (5, 5), (2, 2), (2, 2), activation="hardswish"),
    # No padding, more than a tap reaches, taps apart, images lower than the taps.
    Case(2, 4, 20, (12, 11), padding=(0, 0)),
    Case(2, 4, 20, (6, 5), padding=(2, 2)),
    Case(1, 7, 19, (13, 12), dilation=(2, 3), padding=(2, 3)),
    Case(1, 6, 18, (1, 2)),
    Case(4, 6, 18, (2, 1), (5, 5), padding=(2, 2)),
    # Uneven strides, one of which steps over pixels.
    Case(1, 6, 18, (11, 9), stride=(1, 2)),
    Case(1, 6, 18, (11, 9), stride=(4, 1)),
    Case(2, 6, 20, (40,), (7,), (2,), (3,), (1,)),
    Case(1, 9, 24, (10, 9), dtype=np.float64, activation="silu"),
]
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda y: y,
    "relu6": lambda y: wg.clip(y, 0.0, 6.0),
    "silu": F.silu,
    "hardswish": F.hardswish,
}


def weights(case: Case) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    n = len(case.size)
    made = {
        "narrow": rng.standard_normal((case.wide, case.narrow, *(1,) * n)) / case.narrow**0.5,
        "bias": rng.standard_normal(case.wide),
        "each": rng.standard_normal((case.wide, 1, *case.kernel)),
        "each_bias": rng.standard_normal(case.wide),
    }
    return {name: value.astype(np.float32) for name, value in made.items()}


def block(case: Case, dtype: Any) -> Callable[[Any], Any]:
    """A convolution of one tap, an activation, the depthwise convolution, and another activation."""
    given = {name: wg.asarray(value.astype(dtype)) for name, value in weights(case).items()}
    conv = F.conv2d if len(case.size) == 2 else F.conv1d
    act = ACTIVATIONS[case.activation]
    rest = {"stride": case.stride, "padding": case.padding, "dilation": case.dilation, "groups": case.wide}

    def f(x: Any) -> Any:
        wide = act(conv(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]))
        return act(conv(wide, given["each"], given["each_bias"], **rest))

    return f


def image(case: Case) -> Any:
    """Images with channels last, as those between layers are."""
    x = np.random.default_rng(2).standard_normal((case.batch, *case.size, case.narrow))
    return x.astype(np.float32)


def compiled(f: Callable[..., Any], *args: Any, level: str = "host") -> Compiled:
    return compile_graph(wg.graph(f)(*map(wg.asarray, args)), target=machine.level(level) if level != "host" else None)


def is_widened(made: Compiled) -> bool:
    return any("widened" in step.label for step in made.plan.steps)


def close(got: Any, want: Any, dtype: Any = np.float32) -> None:
    scale = np.abs(want).max()
    np.testing.assert_allclose(got / scale, want / scale, rtol=0, atol=32 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("case", "level"), on_processors(CASES))
def test_blocks(case: Case, level: str) -> None:
    x = image(case)
    made = compiled(block(case, case.dtype), x.astype(case.dtype), level=level)
    want = block(case, np.float64)(wg.asarray(x.astype(np.float64))).numpy()
    reaches_all = all(d * (k - 1) + 1 >= s for k, s, d in zip(case.kernel, case.stride, case.dilation))
    assert is_widened(made) == reaches_all
    for _ in range(2):
        (got,) = made.run([x.astype(case.dtype)])
        close(got, want, case.dtype)


def test_the_wide_image_is_no_array() -> None:
    case = CASES[0]
    made = compiled(block(case, np.float32), image(case))
    wide = case.batch * case.wide * case.size[0] * case.size[1] * 4
    assert not any(b.nbytes >= wide and b.kind == "temp" for s in made.plan.steps for b in s.writes)


def test_a_wide_image_that_others_read_is_stored() -> None:
    case = CASES[0]
    given = {name: wg.asarray(value) for name, value in weights(case).items()}

    def parts(x: Any) -> tuple[Any, Any]:
        wide = wg.clip(F.conv2d(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]), 0.0, 6.0)
        return wide, F.conv2d(wide, given["each"], given["each_bias"], padding=case.padding, groups=case.wide)

    def result_too(x: Any) -> Any:
        return parts(x)

    def mean_too(x: Any) -> Any:
        wide, each = parts(x)
        return each, wide.mean((2, 3))

    def sum_too(x: Any) -> Any:
        wide, each = parts(x)
        return wide + each

    x = image(case)
    for f in (result_too, mean_too, sum_too):
        made = compiled(f, x)
        assert not is_widened(made)
        for got, want in zip(made.run([x]), wg.tree.leaves(f(wg.asarray(x))), strict=True):
            close(got, want.numpy())


def test_other_readers_than_the_depthwise_one() -> None:
    """A product of pixels alone, read by something else, is an ordinary convolution."""
    case = CASES[0]
    given = {name: wg.asarray(value) for name, value in weights(case).items()}
    x = image(case)
    for read in (
        lambda y: F.max_pool2d(y, 2),
        lambda y: wg.flip(y, 2),
        lambda y: F.conv2d(wg.flip(y, 3), given["each"], padding=1, groups=case.wide),
        lambda y: F.conv2d(y[:, :, 1:, :], given["each"], padding=1, groups=case.wide),
        lambda y: F.conv2d(y, wg.tile(given["each"], (1, 2, 1, 1)), padding=1, groups=case.wide // 2),
    ):

        def f(x: Any, read: Any = read) -> Any:
            return read(wg.clip(F.conv2d(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]), 0.0, 6.0))

        made = compiled(f, x)
        close(made.run([x])[0], f(wg.asarray(x)).numpy())


def test_what_is_around_an_image_is_zero_whatever_the_activation_gives_for_zero() -> None:
    """Padding lies around the wide image; the bias and the activation are not computed there."""
    case = Case(1, 4, 16, (5, 6), activation="none")
    given = {name: wg.asarray(value) for name, value in weights(case).items()}

    def f(x: Any) -> Any:
        wide = wg.exp(F.conv2d(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]))
        return F.conv2d(wide, given["each"], padding=1, groups=case.wide)

    x = image(case)
    made = compiled(f, x)
    assert is_widened(made)
    close(made.run([x])[0], f(wg.asarray(x)).numpy())


@pytest.mark.parametrize("level", ["host", "sse2"])
def test_nonfinite(level: str) -> None:
    """NaN and infinities stay in the windows that hold them; a bound that is an array may be NaN itself."""
    case = Case(1, 4, 20, (9, 8))
    x = image(case)
    x[0, 2, 3] = np.nan
    x[0, 7, 6, 1] = np.inf
    made = compiled(block(case, np.float32), x, level=level)
    assert is_widened(made)
    want = block(case, np.float32)(wg.asarray(x)).numpy()
    (got,) = made.run([x])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    assert 0 < np.isnan(want).sum() < want.size
    given = {name: wg.asarray(value) for name, value in weights(case).items()}

    def bounded(x: Any, bound: Any) -> Any:
        wide = wg.minimum(wg.maximum(F.conv2d(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]), 0.0), bound)
        return F.conv2d(wide, given["each"], padding=1, groups=case.wide)

    bound = np.full(case.wide, 6.0, np.float32).reshape(1, -1, 1, 1)
    bound[0, 3] = np.nan
    x = image(case)
    made = compiled(bounded, x, bound, level=level)
    (got,) = made.run([x, bound])
    assert np.isnan(got[:, 3]).all()
    assert not np.isnan(np.delete(got, 3, 1)).any()


def test_weights_that_are_no_constants() -> None:
    """Also for weights that come with the call, and their gradients."""
    case = CASES[0]
    x, given = image(case), weights(case)

    def f(x: Any, given: dict[str, Any]) -> Any:
        wide = wg.clip(F.conv2d(wg.moveaxis(x, -1, 1), given["narrow"], given["bias"]), 0.0, 6.0)
        return F.conv2d(wide, given["each"], given["each_bias"], padding=1, groups=case.wide)

    given = {name: wg.asarray(value) for name, value in given.items()}
    fast = wg.jit(f)
    for turn in range(6):
        here = wg.asarray(x * np.float32(turn + 1))
        close(fast(here, given).numpy(), f(here, given).numpy())
    gradient = wg.grad(lambda given: (f(wg.asarray(x), given) ** 2).mean())
    for got, want in zip(wg.tree.leaves(wg.jit(gradient)(given)), wg.tree.leaves(gradient(given)), strict=True):
        close(got.numpy(), want.numpy())
