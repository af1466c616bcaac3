"""A batch that goes through the first layers of a network part by part: the same numbers, and what parts may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

import wengert as wg
from wengert.core.graph.evaluate import run
from wengert.core.graph.graph import Graph
from wengert.execute.native.compile import compile_graph
from wengert.execute.native.rewrite import by_parts as module
from wengert.execute.native.rewrite.by_parts import by_parts
from wengert.execute.native.rewrite.canonical import canonical

F = wg.nn.functional
RNG = np.random.default_rng(11)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


KERNELS = [wg.asarray(normal(*s) / 5) for s in ((8, 3, 3, 3), (8, 8, 3, 3), (8, 1, 3, 3), (12, 8, 1, 1))]
BIAS, TABLE = wg.asarray(normal(8)), wg.asarray(normal(12, 5))
IMAGES = normal(6, 3, 10, 9)


def plain(x: Any) -> Any:
    y = F.relu(F.conv2d(x, KERNELS[0], BIAS, padding=1))
    return F.relu(F.conv2d(y, KERNELS[1], padding=1))


def residual(x: Any) -> Any:
    y = F.silu(F.conv2d(x, KERNELS[0], BIAS, padding=1))
    z = F.conv2d(F.conv2d(y, KERNELS[2], padding=1, groups=8), KERNELS[1], padding=1)
    return F.conv2d(y + z, KERNELS[3], stride=2)


def squeezed(x: Any) -> Any:
    y = F.conv2d(x, KERNELS[0], BIAS, padding=1)
    scale = wg.sigmoid(F.conv2d(y.mean((2, 3), keepdims=True), KERNELS[1][:, :, 1:2, 1:2]))
    return F.conv2d(y * scale, KERNELS[3]).mean((2, 3))


def pooled_and_classified(x: Any) -> Any:
    y = F.max_pool2d(plain(x), 2)
    return F.conv2d(y, KERNELS[3]).mean((2, 3)) @ TABLE


def concatenated(x: Any) -> Any:
    y = plain(x)
    return F.conv2d(wg.concat([y, F.conv2d(y, KERNELS[2], padding=1, groups=8)], 1)[:, 4:12], KERNELS[1])


def over_all_examples(x: Any) -> Any:
    """The middle of this mixes the examples: parts end there."""
    y = plain(x)
    y = (y - y.mean(0, keepdims=True)) / 2.0
    return F.conv2d(y, KERNELS[3])


def in_another_order(x: Any) -> Any:
    y = F.conv2d(wg.flip(plain(x), 0), KERNELS[3])
    return y[::2], y[0]


def several_results(x: Any) -> Any:
    first = F.conv2d(plain(plain(x)[:, :3]), KERNELS[2], padding=1, groups=8)
    second = F.conv2d(F.relu(first), KERNELS[1], padding=1)
    return second, first.sum(), first[:, 2], (second * 2.0).mean((2, 3))


def batch_in_one_axis_with_another(x: Any) -> Any:
    """Rows of tokens: the axis of the batch is longer than the batch."""
    y = plain(x).reshape(6 * 4, -1)
    return (y @ wg.asarray(np.linspace(-1, 1, y.shape[1] * 3, dtype=np.float32).reshape(-1, 3))).reshape(6, 4, 3)


NETS: list[Callable[[Any], Any]] = [
    plain,
    residual,
    squeezed,
    pooled_and_classified,
    concatenated,
    over_all_examples,
    in_another_order,
    several_results,
    batch_in_one_axis_with_another,
]


@pytest.fixture
def _eager_to_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every array count as one that no cache holds, so that small networks are cut, too."""
    for name, value in {
        "NEAR": 1 << 13,
        "FAR": 1 << 13,
        "LAYER": 0.0,
        "LEAST_SAVED": 1e-12,
        "LEAST_SHARE": 0.0,
    }.items():
        monkeypatch.setattr(module, name, value)


def scans(graph: Graph) -> list[Any]:
    return [n for n in graph.nodes if n.op.name == "scan"]


def agree(f: Callable[..., Any], *args: Any, is_cut: bool = True) -> Graph:
    """Compare what the pass gives, and what is compiled of it, with the graph as it was."""
    graph = canonical(wg.graph(f)(*map(wg.asarray, args)))
    cut = by_parts(graph)
    assert bool(scans(cut)) == is_cut
    arrays = [np.asarray(a) for a in args]
    expected = run(graph, arrays)
    made = compile_graph(graph)
    for results in (run(cut, arrays), made.run(arrays), made.run(arrays)):
        for got, want in zip(results, expected, strict=True):
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * float(np.abs(want).max(initial=1e-30)))
    return cut


@pytest.mark.usefixtures("_eager_to_cut")
@pytest.mark.parametrize("f", NETS, ids=lambda f: f.__name__)
def test_networks(f: Callable[[Any], Any]) -> None:
    agree(f, IMAGES)


@pytest.mark.usefixtures("_eager_to_cut")
def test_parts_that_hold_several_examples_and_batches_of_a_prime() -> None:
    for count in (3, 5, 12):
        agree(residual, normal(count, 3, 10, 9))
    agree(residual, normal(1, 3, 10, 9), is_cut=False)


@pytest.mark.usefixtures("_eager_to_cut")
def test_a_second_input_is_read_where_it_is_the_same_for_all_or_ends_the_parts() -> None:
    def shifted(x: Any, shift: Any) -> Any:
        return F.conv2d(plain(x) + shift, KERNELS[3]).mean((2, 3))

    agree(shifted, IMAGES, normal(1, 8, 1, 1))
    agree(shifted, IMAGES, normal(8, 10, 9))
    agree(shifted, IMAGES, normal(6, 8, 1, 1))
    # The larger input is what the parts are of.
    agree(shifted, IMAGES, normal(6, 8, 10, 9), is_cut=False)


@pytest.mark.usefixtures("_eager_to_cut")
def test_an_input_that_is_a_view() -> None:
    agree(plain, normal(6, 10, 9, 3).transpose(0, 3, 1, 2))
    agree(plain, normal(12, 3, 10, 18)[::-2, :, :, ::2])


@pytest.mark.usefixtures("_eager_to_cut")
def test_no_loop_without_weights_that_are_constants() -> None:
    """A training step reads them all again for its gradients."""

    def loss(w: Any, x: Any) -> Any:
        return F.relu(F.conv2d(x, w, padding=1)).sum()

    graph = wg.graph(wg.value_and_grad(loss))(KERNELS[0], wg.asarray(IMAGES))
    assert not scans(by_parts(graph))


@pytest.mark.usefixtures("_eager_to_cut")
def test_gradients_of_a_network_with_constant_weights() -> None:
    """With respect to the images: a backward pass goes by parts as far as it does the same for every example."""
    agree(wg.value_and_grad(lambda x: (residual(x) ** 2).sum()), IMAGES, is_cut=True)


@pytest.mark.usefixtures("_eager_to_cut")
def test_dropout_is_drawn_for_the_whole_batch() -> None:
    """A draw depends on where it is in the sequence: no loop repeats it."""

    def f(x: Any) -> Any:
        return F.conv2d(F.dropout(plain(x), 0.5, training=True), KERNELS[3])

    fast = wg.jit(f)
    for turn in range(6):
        wg.random.seed(turn)
        want = f(wg.asarray(IMAGES)).numpy()
        wg.random.seed(turn)
        np.testing.assert_allclose(fast(wg.asarray(IMAGES)).numpy(), want, rtol=1e-4, atol=1e-5)


def test_only_what_pays_is_cut() -> None:
    """By bytes: images that fit the caches are left as they are; large ones go by parts of a few."""
    graph = canonical(wg.graph(residual)(wg.spec((16, 3, 24, 24))))
    assert by_parts(graph) is graph
    (scan,) = scans(by_parts(canonical(wg.graph(residual)(wg.spec((16, 3, 224, 224))))))
    assert 1 < scan.attrs["length"] <= 16


@pytest.mark.usefixtures("_eager_to_cut")
def test_compiled_calls_give_new_results_each() -> None:
    """The memory of a result that somebody has is not written again."""
    fast = wg.jit(residual)
    kept = []
    for turn in range(8):
        x = IMAGES * np.float32(turn)
        kept.append((fast(wg.asarray(x)), residual(wg.asarray(x)).numpy()))
    for got, want in kept:
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)
