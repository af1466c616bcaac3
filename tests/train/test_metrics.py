"""Metrics agree with scikit-learn, whatever the batches, by themselves and inside compiled functions."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch
from wengert.core.errors import DataError, DTypeError, RangeError, ShapeError
from wengert.train import metrics

# Values of scikit-learn, on data that are rounded, so that scores tie.
RECORDED = json.loads((Path(__file__).parent / "data" / "sklearn.json").read_text())["cases"]


def recorded(case: dict[str, Any]) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray]:
    values, shape = case["value"]
    expected = np.array([float(v) for v in values]).reshape(shape)
    return (
        getattr(metrics, case["metric"])(**case["options"]),
        *map(np.array, (case["output"], case["target"])),
        expected,
    )


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_scikit_learns_values(size: int) -> None:
    wrong = []
    for case in RECORDED:
        metric, output, target, expected = recorded(case)
        for start in range(0, len(target), size):
            metric.update(output[start : start + size], target[start : start + size])
        found = metric.compute()
        if not np.allclose(found, expected, rtol=1e-12, atol=0):
            wrong.append((case["name"], case["metric"], case["options"], found, expected))
    assert wrong == []


def test_inside_compiled_functions() -> None:
    for case in {case["metric"]: case for case in RECORDED}.values():
        metric, output, target, expected = recorded(case)
        measure = wg.jit(metric.measure)
        for rows in np.array_split(np.arange(len(target)), 3):
            metric.add(measure(wg.asarray(output[rows]), wg.asarray(target[rows])))
        np.testing.assert_allclose(metric.compute(), expected, rtol=1e-12, err_msg=str(case["metric"]))


def test_the_state_goes_on() -> None:
    for case in RECORDED:
        metric, output, target, expected = recorded(case)
        other = recorded(case)[0]
        other.update(output[:2], target[:2])
        metric.load_state_dict(other.state_dict())
        other.update(output[:1], target[:1])  # no part of the state
        metric.update(output[2:], target[2:])
        np.testing.assert_allclose(metric.compute(), expected, rtol=1e-12, err_msg=str(case["metric"]))
        metric.reset()
        metric.update(output, target)
        np.testing.assert_allclose(metric.compute(), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["Accuracy", "TopK", "Precision", "Recall", "F1", "AUROC", "R2", "Perplexity"])
def test_nothing_is_nan(name: str) -> None:
    metric = getattr(metrics, name)()
    assert math.isnan(metric.compute())
    metric.load_state_dict(metric.state_dict())
    assert math.isnan(metric.compute())


def test_no_targets() -> None:
    for metric in (metrics.Accuracy(), metrics.F1(), metrics.MeanSquaredError(), metrics.AUROC(), metrics.R2()):
        metric.update(np.zeros(0), np.zeros(0, np.int64))
        assert math.isnan(metric.compute()), metric
    assert metrics.ConfusionMatrix(2).compute().tolist() == [[0, 0], [0, 0]]
    assert math.isnan(metrics.Mean().compute())
    one = metrics.R2()
    one.update([1.0], [1.0])
    assert math.isnan(one.compute())
    only = metrics.AUROC()
    only.update([0.1, 0.2], [1, 1])
    assert math.isnan(only.compute())
    assert np.isnan(metrics.AUROC(average=None).compute())


def test_absent_classes() -> None:
    recall = metrics.Recall(average=None, classes=4)
    recall.update([0, 0, 1], [0, 0, 0])
    # Class 1 was predicted and is of no target; 2 and 3 are neither.
    np.testing.assert_array_equal(recall.compute(), [2 / 3, 0, np.nan, np.nan])
    area = metrics.AUROC(average=None)
    area.update([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]], [0, 1])
    np.testing.assert_array_equal(area.compute(), [1, 1, np.nan])
    grown = metrics.ConfusionMatrix()
    grown.update([0], [0])
    grown.update([2], [1])
    assert grown.compute().tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_scores_thresholds_and_padding() -> None:
    accuracy = metrics.Accuracy()
    accuracy.update([[[1.0, 0.0], [0.0, 2.0]]], [[0, 1]])  # classes along axis 1 of (n, classes, positions)
    accuracy.update([[3.0, 1.0]], [-100])
    assert accuracy.compute() == 1.0
    assert accuracy.sums["count"] == 2
    logits = metrics.Accuracy(threshold=0.0)
    logits.update([0.3, -0.3], [1, 1])
    assert logits.compute() == 0.5
    probabilities = metrics.Accuracy()
    probabilities.update([0.3, 0.7], [False, True])
    assert probabilities.compute() == 1.0
    perplexity = metrics.Perplexity(ignore_index=9)
    perplexity.update(wg.zeros((2, 4, 3)), [[0, 1, 9], [9, 9, 3]])
    assert perplexity.compute() == pytest.approx(4)
    perplexity.update([[-2000.0, 0.0]], [0])
    assert perplexity.compute() > 1e200


def test_tensors_of_the_torch_namespace() -> None:
    accuracy = metrics.Accuracy()
    accuracy.update(torch.tensor([[2.0, 1.0], [0.0, 3.0]], requires_grad=True), torch.tensor([0, 0]))
    assert accuracy.compute() == 0.5
    top = metrics.TopK(1)
    top.update(torch.tensor([[2.0, 1.0]]), torch.tensor([0]))
    assert top.compute() == 1.0


def test_sums_of_half_precision_lose_nothing() -> None:
    error = metrics.MeanSquaredError()
    for _ in range(3):
        error.update(wg.ones(70_000).astype(wg.float16), wg.zeros(70_000).astype(wg.float16))
    assert error.compute() == 1.0
    mean = metrics.Mean()
    mean.update(np.ones(70_000, np.float16))
    assert mean.compute() == 1.0


def test_far_means() -> None:
    rng = np.random.default_rng(0)
    target = 1e8 + rng.standard_normal(1000)
    output = target + 0.1 * rng.standard_normal(1000)
    r2 = metrics.R2()
    for rows in np.array_split(np.arange(1000), 17):
        r2.update(output[rows], target[rows])
    expected = 1 - ((output - target) ** 2).sum() / ((target - target.mean()) ** 2).sum()
    assert r2.compute() == pytest.approx(expected, rel=1e-9)


def test_errors() -> None:
    here = r"\(.*test_metrics\.py:\d+\)\n"
    with pytest.raises(ShapeError, match=r"output of shape \(3, 1\) and a target of shape \(3,\) " + here):
        metrics.MeanSquaredError().update(np.zeros((3, 1)), np.zeros(3))
    with pytest.raises(ShapeError, match=r"classes from an output of shape \(3, 2\) for a target of shape \(2,\)"):
        metrics.Accuracy().update(np.zeros((3, 2)), np.zeros(2, int))
    with pytest.raises(ShapeError, match=r"TopK\(5\) of an output of shape \(3, 2\)"):
        metrics.TopK().update(np.zeros((3, 2)), np.zeros(3, int))
    with pytest.raises(RangeError, match=r"TopK\(k=0\)"):
        metrics.TopK(0)
    with pytest.raises(RangeError, match=r"class 3 for a confusion matrix of 3 classes " + here):
        metrics.ConfusionMatrix(3).update([0], [3])
    with pytest.raises(RangeError, match=r"class -1 for"):
        metrics.ConfusionMatrix(3).update([0], [-1])
    with pytest.raises(DTypeError, match=r"classes of dtype float32"):
        metrics.F1().update([0], [1.0])
    three = metrics.F1(average="binary")
    three.update([2], [2])
    with pytest.raises(DataError, match=r'average="binary" of 3 classes'):
        three.compute()
    with pytest.raises(DataError, match="average='mean'"):
        metrics.F1(average="mean")
    with pytest.raises(DataError, match="AUROC of a score that is NaN"):
        metrics.AUROC().update([math.nan], [1])
    with pytest.raises(DataError, match="AUROC of a target of 2 for 2 classes"):
        metrics.AUROC().update([0.1], [2])
    with pytest.raises(ShapeError, match=r"a weight of -1\.0"):
        metrics.Mean().update(1.0, -1)
    with pytest.raises(DTypeError, match=r"Metric defines no measure\(output, target\)"):
        metrics.Metric().update(1.0, 1.0)
    with pytest.raises(DataError, match="normalize='rows'"):
        metrics.ConfusionMatrix(normalize="rows")
