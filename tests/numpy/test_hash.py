"""Tensors of `wengert.numpy` as keys: by value without axes, as NumPy's scalars are."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import wengert as wg
import wengert.numpy as np

RESULTS: dict[str, Any] = {
    "argmax": lambda np: np.argmax(np.array([1.0, 5.0, 2.0])),
    "sum": lambda np: np.sum(np.array([1.5, 2.0])),
    "float32": lambda np: np.max(np.array([0.1, 0.7], dtype=np.float32)),
    "bool": lambda np: np.all(np.array([True, True])),
    "complex": lambda np: np.sum(np.array([1j, 2.0])),
    "element": lambda np: np.array([[3, 4], [5, 6]])[1, 0],
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_without_axes_is_the_key_that_numpys_is(name: str) -> None:
    found, want = RESULTS[name](np), RESULTS[name](numpy)
    assert hash(found) == hash(want)
    for key in (want, want.item()):
        assert {key: "here"}.get(found) == "here"
        assert {found: "here"}.get(key) == "here"
        assert {(key, "a"): "here"}.get((found, "a")) == "here"
        assert len({key, found}) == 1
    assert {want.item() + 1: "there"}.get(found) is None


def test_an_array_with_axes_does_not_hash() -> None:
    for x in (np.zeros(3), np.zeros((1, 1)), np.zeros(0)):
        with pytest.raises(TypeError, match="unhashable type: 'ndarray'"):
            hash(x)


def test_compiled_code_decides_by_the_key() -> None:
    names = {0: 1.0, 1: 10.0}
    f = wg.jit(lambda x: x.sum() * names.get(np.argmax(x), 100.0))
    for values in ([3.0, 1.0, 2.0], [1.0, 3.0, 2.0], [1.0, 2.0, 3.0]):
        at = int(numpy.argmax(values))
        assert float(f(np.array(values))) == 6 * names.get(at, 100.0)


def test_a_traced_one_is_refused() -> None:
    with pytest.raises(wg.TraceError):
        wg.graph(lambda x: x * {0: 1.0}.get(np.argmax(x), 2.0))(wg.spec(3))


def test_leaves_of_an_optimiser_and_other_tensors_are_told_apart() -> None:
    leaves = [np.array(1.0), np.array(1.0)]
    for leaf in leaves:
        leaf.requires_grad = True
    assert len({*leaves}) == 2
    optimiser = wg.optim.SGD(leaves, lr=0.5, momentum=0.9)
    for _ in range(2):
        (leaves[0] * 2 + leaves[1] * 4).backward()
        optimiser.step()
        optimiser.zero_grad()
    assert [float(leaf.detach()) for leaf in leaves] == pytest.approx([1 - 1 - 1.9, 1 - 2 - 3.8])
    assert len({wg.tensor(1.0), wg.tensor(1.0)}) == 2
