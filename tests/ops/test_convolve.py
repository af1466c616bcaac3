"""Convolution and pooling: against SciPy and the definition, their derivatives, their errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

import wengert as wg
from wengert.core.ops.op import TABLE
from wengert.ops import definitions

rng = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def tensors(*arrays: np.ndarray) -> list[wg.Tensor]:
    return [wg.tensor(a, requires_grad=True) for a in arrays]


# -- convolution: values


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_agrees_with_scipy(ndim: int) -> None:
    conv = (wg.nn.functional.conv1d, wg.nn.functional.conv2d, wg.nn.functional.conv3d)[ndim - 1]
    x, w = array(2, 3, *(6, 5, 4)[:ndim]), array(4, 3, *(3, 2, 2)[:ndim])
    expected = np.array([[sum(signal.correlate(xc, wc, "valid") for xc, wc in zip(i, o)) for o in w] for i in x])
    np.testing.assert_allclose(conv(x, w).numpy(), expected, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    ndim=st.integers(1, 2),
    groups=st.sampled_from([1, 1, 2, 3]),
    per_in=st.integers(1, 3),
    per_out=st.integers(1, 2),
    batch=st.sampled_from([(), (0,), (1,), (3,), (2, 2)]),
)
def test_ops_agree_with_the_definition(data, ndim, groups, per_in, per_out, batch) -> None:
    kernel = tuple(data.draw(st.integers(1, 3)) for _ in range(ndim))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(ndim))
    dilation = tuple(data.draw(st.integers(1, 2)) for _ in range(ndim))
    padding = tuple((data.draw(st.integers(-1, 3)), data.draw(st.integers(-1, 3))) for _ in range(ndim))
    size = tuple(data.draw(st.integers(7, 12)) for _ in range(ndim))
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w = array(*batch, groups * per_in, *size), array(groups * per_out, per_in, *kernel)
    y = TABLE["convolve"].forward(x, w, **attrs)
    np.testing.assert_allclose(y, definitions.convolve(x, w, **attrs), atol=1e-12)
    ct = array(*y.shape)
    back = TABLE["convolve_transpose"].forward(ct, w, size=size, **attrs)
    np.testing.assert_allclose(back, definitions.convolve_transpose(ct, w, size=size, **attrs), atol=1e-12)
    weight = TABLE["convolve_kernel"].forward(x, ct, kernel=kernel, **attrs)
    np.testing.assert_allclose(weight, definitions.convolve_kernel(x, ct, kernel=kernel, **attrs), atol=1e-12)


@pytest.mark.parametrize("channels", [1, 8])
def test_memory_layout_does_not_matter(channels: int) -> None:
    x, w = array(5, channels, 9, 9), array(4, channels, 3, 3)
    expected = definitions.convolve(x, w, stride=(1, 1), padding=((1, 1), (1, 1)), dilation=(1, 1), groups=1)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    flipped = np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    for layout in (x, last, flipped):
        np.testing.assert_allclose(wg.nn.functional.conv2d(layout, w, padding=1).numpy(), expected, atol=1e-12)


def test_more_images_than_one_gather_holds() -> None:
    x, w = array(40, 16, 16, 16).astype(np.float32), array(2, 16, 3, 3).astype(np.float32)
    y = wg.nn.functional.conv2d(x, w).numpy()
    one_by_one = np.concatenate([wg.nn.functional.conv2d(x[i : i + 1], w).numpy() for i in range(40)])
    np.testing.assert_allclose(y, one_by_one, atol=1e-4)


def test_same_and_valid() -> None:
    x, w = array(1, 1, 6, 6), array(1, 1, 4, 3)
    assert wg.nn.functional.conv2d(x, w, padding="valid").shape == (1, 1, 3, 4)
    same = wg.nn.functional.conv2d(x, w, padding="same", dilation=(1, 2))
    assert same.shape == x.shape
    # An odd total leaves the extra zero at the end.
    padded = np.pad(x, ((0, 0), (0, 0), (1, 2), (2, 2)))
    np.testing.assert_allclose(same.numpy(), wg.nn.functional.conv2d(padded, w, dilation=(1, 2)).numpy(), atol=1e-12)


def test_unbatched_and_bias() -> None:
    x, w, b = array(2, 5, 5), array(3, 2, 3, 3), array(3)
    np.testing.assert_allclose(
        wg.nn.functional.conv2d(x, w, b).numpy(),
        wg.nn.functional.conv2d(x[None], w).numpy()[0] + b[:, None, None],
        atol=1e-12,
    )


def test_empty_batch() -> None:
    x, w = tensors(array(0, 2, 5, 5), array(3, 2, 3, 3))
    y = wg.nn.functional.conv2d(x, w, stride=2)
    assert y.shape == (0, 3, 2, 2)
    y.sum().backward()
    assert x.grad.shape == x.shape
    assert (w.grad.numpy() == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "complex128"])
def test_dtypes(dtype: str) -> None:
    x, w = (wg.asarray(np.round(array(*s) * 4), dtype="float64") for s in ((2, 2, 6), (3, 2, 3)))
    y = wg.nn.functional.conv1d(x.astype(dtype), w.astype(dtype))
    assert y.dtype.name == dtype
    np.testing.assert_allclose(y.astype("complex128").numpy(), wg.nn.functional.conv1d(x, w).numpy(), rtol=1e-2)


def test_half_precision_accumulates_in_single() -> None:
    # 4096 ones: in float16 a running sum sticks at 2048.
    x, w = np.ones((1, 1, 4096), np.float16), np.ones((1, 1, 4096), np.float16)
    assert wg.nn.functional.conv1d(x, w).item() == 4096


def test_dtypes_promote() -> None:
    assert wg.nn.functional.conv1d(wg.ones((1, 1, 3)), np.ones((1, 1, 2), np.float64)).dtype == np.float64


@pytest.mark.parametrize(
    ("stride", "padding", "output_padding", "dilation", "groups"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 1), (3, 2, 2, 2, 2), ((2, 1), (0, 1), (1, 0), 1, 2), (1, 2, 1, 2, 1)],
)
def test_conv_transpose_is_the_gradient_of_conv(stride, padding, output_padding, dilation, groups) -> None:
    y, w = array(2, 4, 3, 4), array(4, 2, 3, 2)
    out = wg.nn.functional.conv_transpose2d(y, w, None, stride, padding, output_padding, groups, dilation)
    (x,) = tensors(np.zeros(out.shape))
    forward = wg.nn.functional.conv2d(x, w, None, stride, padding, dilation, groups)
    assert all(a >= b for a, b in zip(forward.shape, y.shape))
    back = forward[:, :, :3, :4]
    back.backward(wg.tensor(y))
    np.testing.assert_allclose(x.grad.numpy(), out.numpy(), atol=1e-12)


# -- convolution: derivatives


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
def test_second_order(groups: int, stride: int) -> None:
    x, w, b = array(1, 2, 4, 5), array(2, 2 // groups, 2, 2), array(2)

    def f(x, w, b):
        return wg.tanh(wg.nn.functional.conv2d(x, w, b, stride=stride, padding=1, groups=groups))

    wg.check_grads(f, (wg.tensor(x), wg.tensor(w), wg.tensor(b)), order=2)


def test_third_order() -> None:
    x, w = wg.tensor(array(1, 1, 4)), wg.tensor(array(1, 1, 2))
    wg.check_grads(lambda x, w: wg.nn.functional.conv1d(x, w, stride=2, padding=1) ** 3, (x, w), order=3)


def test_conv_transpose_derivatives() -> None:
    y, w, b = wg.tensor(array(1, 2, 3)), wg.tensor(array(2, 1, 3)), wg.tensor(array(2))

    def f(y, w, b):
        return wg.sin(wg.nn.functional.conv_transpose1d(y, w, b, stride=2, padding=1, output_padding=1, groups=2))

    wg.check_grads(f, (y, w, b), order=2)


def test_complex_gradient_is_the_adjoint() -> None:
    x, w = array(1, 2, 5) + 1j * array(1, 2, 5), array(2, 2, 3) + 1j * array(2, 2, 3)
    tx, tw = tensors(x, w)
    y = wg.nn.functional.conv1d(tx, tw)
    ct = array(*y.shape) + 1j * array(*y.shape)
    y.backward(wg.tensor(ct))
    value = np.vdot(y.detach().numpy(), ct)
    # <conv(x, w), ct> = <x, conv*(ct)>: linear in each argument.
    np.testing.assert_allclose(np.vdot(x, tx.grad.numpy()), value)
    np.testing.assert_allclose(np.vdot(w, tw.grad.numpy()), value)


# -- convolution: errors


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: wg.nn.functional.conv2d(array(1, 3, 5, 5), array(4, 2, 3, 3)),
            r"\(1, 3, 5, 5\) has 3 channels.*takes 2",
        ),
        (
            lambda: wg.nn.functional.conv2d(array(1, 3, 5, 5), array(4, 2, 3, 3), groups=3),
            r"groups=3 does not divide 4",
        ),
        (lambda: wg.nn.functional.conv2d(array(1, 4, 5, 5), array(4, 1, 3, 3), groups=2), r"with groups=2 takes 2"),
        (
            lambda: wg.nn.functional.conv2d(array(1, 1, 2, 5), array(1, 1, 3, 3)),
            r"\(3, 3\) does not fit an input of size \(2, 5\)",
        ),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 4, 4), array(1, 1, 3, 3), dilation=2), r"dilated to \(5, 5\)"),
        (lambda: wg.nn.functional.conv2d(array(5, 5), array(1, 1, 3, 3)), r"shape \(5, 5\)"),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3)), r"shape \(1, 1, 3\)"),
        (
            lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(2, 1, 3, 3), array(3)),
            r"bias of shape \(3,\) for 2 output",
        ),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), stride=0), "at least 1"),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), stride=(1, 1, 1)), "3 entries for 2"),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), padding=-1), "at least 0"),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), padding="full"), '"same" or "valid"'),
        (
            lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), padding="same", stride=2),
            "stride of 1",
        ),
        (lambda: wg.nn.functional.conv2d(array(1, 1, 5, 5), array(1, 1, 3, 3), groups=0), "groups=0"),
        (lambda: wg.nn.functional.conv_transpose2d(array(1, 3, 5, 5), array(4, 2, 3, 3)), "has 3 channels.*takes 4"),
        (lambda: wg.nn.functional.conv_transpose1d(array(1, 1, 5), array(1, 1, 3), output_padding=1), "output_padding"),
        (lambda: wg.nn.functional.conv_transpose1d(array(1, 1, 1), array(1, 1, 2), padding=2), r"size \(-2,\)"),
    ],
)
def test_errors_name_the_shapes(call, text: str) -> None:
    with pytest.raises((wg.ShapeError, wg.RangeError), match=text) as caught:
        call()
    assert "test_convolve.py" in str(caught.value).splitlines()[0]


def test_booleans_and_non_integers_are_refused() -> None:
    with pytest.raises(wg.DTypeError, match="bool"):
        wg.nn.functional.conv1d(np.ones((1, 1, 3), bool), np.ones((1, 1, 2), bool))
    with pytest.raises(wg.DTypeError, match="stride must be an int"):
        wg.nn.functional.conv1d(array(1, 1, 3), array(1, 1, 2), stride=1.5)


# -- pooling: values


def windows_of(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (-2, -1))
    return view[..., ::stride, ::stride, :, :]


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 3), (3, 1), (1, 1)])
def test_pools_agree_with_windows(kernel: int, stride: int) -> None:
    x = array(2, 3, 7, 8)
    view = windows_of(x, kernel, stride)
    np.testing.assert_array_equal(wg.nn.functional.max_pool2d(x, kernel, stride).numpy(), view.max((-2, -1)))
    np.testing.assert_allclose(wg.nn.functional.avg_pool2d(x, kernel, stride).numpy(), view.mean((-2, -1)), atol=1e-12)


def test_max_pool_padding_never_wins() -> None:
    x = -np.abs(array(1, 4, 4)) - 1
    assert (wg.nn.functional.max_pool2d(x, 3, 2, padding=1).numpy() < 0).all()
    numbers = np.full((1, 4), np.iinfo(np.int64).min)
    np.testing.assert_array_equal(
        wg.nn.functional.max_pool1d(numbers, 2, padding=1).numpy(), np.full((1, 3), numbers[0, 0])
    )


def test_average_of_padding() -> None:
    x = np.ones((1, 1, 4))
    np.testing.assert_allclose(wg.nn.functional.avg_pool1d(x, 2, padding=1).numpy(), [[[0.5, 1, 0.5]]])
    np.testing.assert_allclose(
        wg.nn.functional.avg_pool1d(x, 2, padding=1, count_include_pad=False).numpy(), [[[1, 1, 1]]]
    )


def test_ceil_mode() -> None:
    x = np.arange(5.0)[None]
    np.testing.assert_array_equal(wg.nn.functional.max_pool1d(x, 2, ceil_mode=True).numpy(), [[1, 3, 4]])
    np.testing.assert_array_equal(wg.nn.functional.avg_pool1d(x, 2, ceil_mode=True).numpy(), [[0.5, 2.5, 4]])
    # A last window that would start beyond the input is left out.
    np.testing.assert_array_equal(wg.nn.functional.max_pool1d(x[:, :4], 1, 3, ceil_mode=True).numpy(), [[0, 3]])
    assert wg.nn.functional.max_pool1d(np.zeros((1, 3)), 2, 4, padding=1, ceil_mode=True).shape == (1, 1)


def test_nan_and_infinities_win() -> None:
    x = np.array([[1.0, np.nan, 2.0, np.inf, -np.inf, -np.inf]])
    np.testing.assert_array_equal(wg.nn.functional.max_pool1d(x, 2).numpy(), [[np.nan, np.inf, -np.inf]])


@pytest.mark.parametrize("out", [1, 2, 3, (3, None), (5, 7)])
def test_adaptive_average(out) -> None:
    x = array(2, 2, 5, 7)
    y = wg.nn.functional.adaptive_avg_pool2d(x, out).numpy()
    rows, columns = out if isinstance(out, tuple) else (out, out)
    rows, columns = rows or 5, columns or 7
    for i, j in itertools.product(range(rows), range(columns)):
        part = x[..., 5 * i // rows : -(-5 * (i + 1) // rows), 7 * j // columns : -(-7 * (j + 1) // columns)]
        np.testing.assert_allclose(y[..., i, j], part.mean((-2, -1)), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "uint8"])
def test_pool_dtypes(dtype: str) -> None:
    x = wg.asarray(np.arange(16).reshape(1, 4, 4)).astype(dtype)
    assert wg.nn.functional.max_pool2d(x, 2).dtype.name == dtype
    assert wg.nn.functional.max_pool2d(x, 2).astype("int64").tolist() == [[[5, 7], [13, 15]]]
    average = wg.nn.functional.avg_pool2d(x, 2)
    assert average.dtype.name == dtype
    # Means of integers are rounded towards 0.
    exact = [[2.5, 4.5], [10.5, 12.5]] if "float" in dtype else [[2.0, 4.0], [10.0, 12.0]]
    assert average.astype("float64").tolist() == [exact]


def test_empty_batch_pools() -> None:
    (x,) = tensors(array(0, 2, 4, 4))
    y = wg.nn.functional.max_pool2d(x, 2) + wg.nn.functional.avg_pool2d(x, 2)
    assert y.shape == (0, 2, 2, 2)
    y.sum().backward()
    assert x.grad.shape == x.shape


# -- pooling: derivatives


def test_max_gradient_goes_to_the_first_of_ties() -> None:
    (x,) = tensors(np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0]])[None])
    wg.nn.functional.max_pool2d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[1, 0, 0, 0], [0, 0, 0, 1]]]


def test_max_gradient_of_an_all_infinite_window() -> None:
    (x,) = tensors(np.full((1, 2), -np.inf))
    wg.nn.functional.max_pool1d(x, 2).sum().backward()
    assert x.grad.tolist() == [[1, 0]]


def test_overlapping_windows_add() -> None:
    (x,) = tensors(np.array([[0.0, 5.0, 1.0]]))
    wg.nn.functional.max_pool1d(x, 2, 1).sum().backward()
    assert x.grad.tolist() == [[0, 2, 0]]


def test_max_pool_gives_no_nan_where_nothing_flows() -> None:
    # sqrt has an infinite slope at 0; the zeros lose against the ones and take no part.
    (x,) = tensors(np.array([[0.0, 1.0, 4.0, 0.0]]))
    wg.nn.functional.max_pool1d(wg.sqrt(x), 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 0.5, 0.25, 0]])


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, 2, 0), (3, 1, 1), (2, 1, 0)])
def test_pool_derivatives(kernel: int, stride: int, padding: int) -> None:
    x = wg.tensor(rng.permutation(32).reshape(1, 2, 4, 4) * 0.1)
    wg.check_grads(lambda x: wg.nn.functional.max_pool2d(x, kernel, stride, padding) ** 3, x, order=3)
    wg.check_grads(lambda x: wg.nn.functional.avg_pool2d(x, kernel, stride, padding) ** 3, x, order=3)
    wg.check_grads(lambda x: wg.nn.functional.adaptive_avg_pool2d(x, 3) ** 3, x, order=2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: wg.nn.functional.max_pool2d(array(2, 2), 2), r"shape \(2, 2\)"),
        (lambda: wg.nn.functional.max_pool2d(array(1, 2, 2), 3), r"\(3, 3\) does not fit an input of size \(2, 2\)"),
        (lambda: wg.nn.functional.max_pool2d(array(1, 4, 4), 2, padding=2), "more than half"),
        (lambda: wg.nn.functional.avg_pool2d(array(1, 4, 4), 0), "at least 1"),
        (lambda: wg.nn.functional.adaptive_avg_pool2d(array(1, 4, 4), (1, 2, 3)), "3 entries"),
    ],
)
def test_pool_errors(call, text: str) -> None:
    with pytest.raises((wg.ShapeError, wg.RangeError), match=text):
        call()


def test_max_of_complex_numbers_is_refused() -> None:
    with pytest.raises(wg.DTypeError, match="real"):
        wg.nn.functional.max_pool1d(np.ones((1, 2), complex), 2)
