"""Estimators of scikit-learn around networks: its own checks, and what they do not ask."""

from __future__ import annotations

import importlib.util
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg

HAS_SKLEARN = importlib.util.find_spec("sklearn") is not None
needs_sklearn = pytest.mark.skipif(not HAS_SKLEARN, reason="scikit-learn is not installed")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
LABELS = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + 0.5 * X[:, 1], [-0.5, 0.5])]
Y = np.stack([X[:, 0] - X[:, 1], 2.0 * X[:, 2]], axis=1)


def classifier(module: Any = None, **options: Any) -> Any:
    return wg.interop.sklearn.Classifier(module, **{"lr": 0.02, "epochs": 15, "random_state": 0, **options})


def regressor(module: Any = None, **options: Any) -> Any:
    return wg.interop.sklearn.Regressor(module, **{"lr": 0.02, "epochs": 15, "random_state": 0, **options})


class Convolution(wg.nn.Module):
    def __init__(self, shape: tuple[int, ...], n_outputs: int, channels: int = 2) -> None:
        super().__init__()
        self.conv = wg.nn.Conv2d(shape[0], channels, 3)
        self.drop = wg.nn.Dropout(0.2)
        self.out = wg.nn.Linear(channels * (shape[1] - 2) * (shape[2] - 2), n_outputs)

    def forward(self, x: Any) -> Any:
        return self.out(self.drop(wg.relu(self.conv(x)).reshape(x.shape[0], -1)))


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names are there, and making an estimator says what to install."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    file = Path(wg.interop.__file__).with_name("sklearn.py")
    spec = importlib.util.spec_from_file_location("wengert.interop.without_sklearn", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for kind in (module.Classifier, module.Regressor):
        with pytest.raises(wg.DataError, match=r"needs the package scikit-learn(.|\n)*wengert\[sklearn\]"):
            kind(lr=0.1)


@needs_sklearn
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_checks_of_scikit_learn(kind: str) -> None:
    from sklearn.utils.estimator_checks import check_estimator

    estimator = getattr(wg.interop.sklearn, kind)(lr=0.02, epochs=30, module_params={"hidden": 8})
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 50
    assert [(r["check_name"], r["exception"]) for r in results if r["status"] == "failed"] == []


@needs_sklearn
def test_pipeline_search_and_processes() -> None:
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), classifier())
    alone = cross_val_score(model, X, LABELS, cv=3)
    assert alone.min() > 0.7
    grid = {"classifier__module__hidden": [(8, 8)], "classifier__lr": [0.0, 0.05]}
    search = GridSearchCV(model, grid, cv=2, n_jobs=2).fit(X, LABELS)
    assert search.best_params_["classifier__lr"] == 0.05
    assert search.score(X, LABELS) > 0.8


@needs_sklearn
def test_copies_and_pickles_go_on_alike() -> None:
    import copy

    from sklearn.base import clone

    a = classifier(optimizer="sgd", optimizer_params={"momentum": 0.9}, warm_start=True).fit(X, LABELS)
    b, c = pickle.loads(pickle.dumps(a)), copy.deepcopy(a)
    np.testing.assert_array_equal(b.predict_proba(X), a.predict_proba(X))
    for model in (a, b, c):
        model.fit(X, LABELS)
        assert model.n_iter_ == 30
    np.testing.assert_allclose(b.predict_proba(X), a.predict_proba(X), rtol=1e-10)
    np.testing.assert_allclose(c.predict_proba(X), a.predict_proba(X), rtol=1e-10)
    fresh = clone(a)
    assert not hasattr(fresh, "module_")
    assert fresh.get_params() == a.get_params()


@needs_sklearn
def test_compiled_and_eager_training_agree() -> None:
    fits = [regressor(compile=flag, batch_size=20).fit(X, Y) for flag in (True, False)]
    assert fits[0]._training._compiled is not None
    np.testing.assert_allclose(fits[0].predict(X), fits[1].predict(X), rtol=1e-9)
    assert fits[0].score(X, Y) > 0.5


@needs_sklearn
def test_the_generator_of_the_process_is_left_alone() -> None:
    wg.manual_seed(5)
    expected = wg.random.normal((3,)).tolist()
    wg.manual_seed(5)
    classifier(epochs=1).fit(X, LABELS)
    assert wg.random.normal((3,)).tolist() == expected


@needs_sklearn
def test_modules_of_ones_own() -> None:
    images = RNG.normal(size=(24, 1, 5, 5)).astype("float32")
    classes = (images.mean(axis=(1, 2, 3)) > 0).astype(int)
    model = classifier(Convolution, module_params={"channels": 3}, epochs=3).fit(images, classes)
    assert model.predict_proba(images).shape == (24, 2)
    assert model.predict_proba(images).dtype == np.float32
    assert model.module_.conv.weight.shape == (3, 1, 3, 3)
    one = classifier(lambda n, k: wg.nn.Linear(n, 1), epochs=40, lr=0.1).fit(X, X[:, 0] > 0)
    assert one.predict_proba(X).shape == (90, 2)
    assert one.score(X, X[:, 0] > 0) > 0.9
    # A module that is made is copied: it stays as it was, and a second fit begins where the first did.
    given = wg.nn.Linear(3, 2)
    before = given.weight.tolist()
    model = regressor(given, loss=lambda out, y: (out - y) ** 4)
    first = model.fit(X, Y).predict(X)
    assert given.weight.tolist() == before
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), first)
    assert first.dtype == np.float32


@needs_sklearn
def test_modules_of_pytorchs_namespace() -> None:
    torch = wg.torch
    model = classifier(lambda n, k: torch.nn.Sequential(torch.nn.Linear(n, 8), torch.nn.Tanh(), torch.nn.Linear(8, k)))
    assert model.fit(X, LABELS).score(X, LABELS) > 0.7


@needs_sklearn
def test_early_stopping_keeps_the_best() -> None:
    noise = RNG.normal(size=200)
    inputs = RNG.normal(size=(200, 20))
    model = regressor(epochs=200, lr=0.05, early_stopping=True, n_iter_no_change=5).fit(inputs, noise)
    assert model.n_iter_ < 200
    assert len(model.validation_curve_) == len(model.loss_curve_) == model.n_iter_
    assert model.best_loss_ == min(model.validation_curve_) < model.validation_curve_[-1]
    classifier(early_stopping=True, epochs=2).fit(X, LABELS, sample_weight=np.ones(90))


@needs_sklearn
def test_weights() -> None:
    labels = (X[:, 0] > 1.0).astype(int)
    plain, balanced = (classifier(class_weight=w).fit(X, labels) for w in (None, "balanced"))
    assert balanced.predict(X).sum() > plain.predict(X).sum()
    dict_weight = classifier(class_weight={0: 1.0, 1: 5.0}).fit(X, labels)
    by_sample = classifier().fit(X, labels, sample_weight=np.where(labels, 5.0, 1.0))
    np.testing.assert_allclose(dict_weight.predict_proba(X), by_sample.predict_proba(X), rtol=1e-9)
    with pytest.raises(ValueError, match="is negative"):
        classifier().fit(X, labels, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match="all weights of samples are zero"):
        regressor().fit(X, Y, sample_weight=np.zeros(90))
    with pytest.raises(ValueError, match="one number for a batch"):
        regressor(loss=lambda out, y: ((out - y) ** 2).mean()).fit(X, Y, sample_weight=np.ones(90))


@needs_sklearn
def test_partial_fit() -> None:
    model = classifier(lr=0.05)
    for start in range(0, 90, 30):
        for _ in range(15):
            rows = slice(start, start + 30)
            model.partial_fit(X[rows], LABELS[rows], classes=["low", "mid", "high"])
    assert model.n_iter_ == 45
    assert model.score(X, LABELS) > 0.7
    with pytest.raises(ValueError, match="first call did not name: strange"):
        model.partial_fit(X[:1], ["strange"])
    with pytest.raises(ValueError, match="without classes"):
        classifier().partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="balanced"):
        classifier(class_weight="balanced").partial_fit(X, LABELS, classes=["low", "mid", "high"])
    other = regressor().partial_fit(X, Y).partial_fit(X[:7], Y[:7], sample_weight=np.zeros(7))
    assert other.n_iter_ == 1
    with pytest.raises(ValueError, match="targets of the shape"):
        other.partial_fit(X, Y[:, 0])


@needs_sklearn
def test_warm_start_goes_on() -> None:
    model = regressor(warm_start=True).fit(X, Y)
    first = model.loss_
    assert model.fit(X, Y).loss_ < first
    assert len(model.loss_curve_) == 30
    with pytest.raises(ValueError, match="features"):
        model.fit(X[:, :2], Y)


@needs_sklearn
@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"epochs": 0}, ValueError, "epochs=0"),
        ({"batch_size": 2.5}, TypeError, "not an int"),
        ({"lr": -1.0}, ValueError, "out of range"),
        ({"lr": "fast"}, TypeError, "not a number"),
        ({"validation_fraction": 1.0}, ValueError, "out of range"),
        ({"optimizer": "newton"}, ValueError, "adamw"),
        ({"optimizer": 3}, TypeError, "neither a name nor a class"),
        ({"loss": "l5"}, ValueError, "squared_error"),
        ({"module": 3}, TypeError, "neither a module nor a function"),
        ({"module": lambda n, k: None}, TypeError, "returned a NoneType"),
        ({"module": wg.nn.Linear(3, 2), "module_params": {"a": 1}}, TypeError, "module_params"),
        ({"module": wg.nn.Linear(3, 5)}, ValueError, r"outputs have the shape \(64, 5\)|outputs have the shape"),
    ],
)
def test_bad_parameters(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        regressor(**options).fit(X, Y)


@needs_sklearn
def test_divergence_is_an_error() -> None:
    with pytest.raises(wg.DataError, match=r"training diverged: the loss is (nan|inf) in epoch"):
        regressor(optimizer="sgd", lr=1e3, epochs=50, module=lambda n, k: wg.nn.Linear(n, k)).fit(1e10 * X, Y)


@needs_sklearn
def test_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    regressor(epochs=2, verbose=1).fit(X, Y)
    assert capsys.readouterr().out.splitlines()[1].startswith("[Regressor] epoch 2: loss ")
