"""Networks as estimators of scikit-learn: `Classifier` and `Regressor`, for pipelines, searches and cross-validation.

They keep scikit-learn's contract in whole (`sklearn.utils.estimator_checks.check_estimator`): parameters are those of
`__init__`, `fit` learns attributes that end in an underscore, and copies, pickles and worker processes are as with its
own estimators. scikit-learn (1.6 or later) is an extra: `pip install 'wengert[sklearn]'`.

>>> import numpy as np
>>> from wengert.interop.sklearn import Classifier
>>> x = np.linspace(-1.0, 1.0, 40)[:, None]
>>> model = Classifier(lr=0.05, epochs=20, random_state=0).fit(x, np.where(x[:, 0] > 0.0, "right", "left"))
>>> model.predict([[-0.8], [0.8]]).tolist()
['left', 'right']
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np

import wengert as wg

from ..core.errors import DataError, DTypeError, RangeError, ShapeError, fail
from ..core.spec import category
from ..core.state.locks import lock
from ..core.tensor import Tensor
from ..nn.module import Module
from ..optim import Optimizer

try:
    import sklearn.base
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_array, check_consistent_length, check_random_state
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    BASE: Any = None
else:
    BASE = sklearn.base


class _Missing:
    """A stand-in for scikit-learn's base class, with which the estimators can be read about, and not made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        what = f"{cls.__name__} needs the package scikit-learn, 1.6 or later"
        fail(DataError, what, "pip install 'wengert[sklearn]'")


class _NoMixin:
    """A stand-in for scikit-learn's mixins."""


BaseEstimator: Any = BASE.BaseEstimator if BASE else _Missing
ClassifierMixin: Any = BASE.ClassifierMixin if BASE else _NoMixin
RegressorMixin: Any = BASE.RegressorMixin if BASE else _NoMixin

__all__ = ["Classifier", "Regressor"]

Array = np.ndarray[Any, Any]

# Rows that a trained network is applied to at a time, which bounds the memory of its activations.
_ROWS = 4096

# A fit seeds the process's generator, from which layers draw, and puts it back: fits of several threads take turns.
_SEEDED = lock()


def _squared_error(outputs: Tensor, y: Tensor) -> Tensor:
    return wg.nn.functional.mse_loss(outputs, y, reduction="none")


def _absolute_error(outputs: Tensor, y: Tensor) -> Tensor:
    return wg.nn.functional.l1_loss(outputs, y, reduction="none")


def _huber(outputs: Tensor, y: Tensor) -> Tensor:
    return wg.nn.functional.huber_loss(outputs, y, reduction="none")


# Functions with names, which can be pickled.
_LOSSES = {"squared_error": _squared_error, "absolute_error": _absolute_error, "huber": _huber}


def _perceptron(n_features: Any, n_outputs: int, hidden: Any = (64,)) -> Module:
    """Return a perceptron with rectified hidden layers of the given widths (an int for one layer)."""
    widths = (hidden,) if isinstance(hidden, Integral) else tuple(hidden)
    layers: list[Module] = []
    for width in widths:
        layers += [wg.nn.Linear(n_features, int(width)), wg.nn.ReLU()]
        n_features = int(width)
    return wg.nn.Sequential(*layers, wg.nn.Linear(n_features, n_outputs))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw from the stream of a seed inside of the block; afterwards the default generator is where it was."""
    with _SEEDED:
        before = wg.random.get_rng_state()
        wg.random.manual_seed(seed)
        try:
            yield
        finally:
            wg.random.set_rng_state(before)


def _as_dtype(x: Array, dtype: Any) -> Array:
    """Return numbers in the network's dtype. Raises ShapeError for those that it does not hold."""
    with np.errstate(over="ignore"):
        cast = x.astype(dtype, copy=False)
    if cast is not x and not np.isfinite(cast).all():
        fail(ShapeError, f"a value is too large for the network's {dtype}", "Scale the data, or use module.double().")
    return cast


class _Step:
    """A step of training by a module, its optimiser and a loss; all that it has decides what is compiled."""

    def __init__(self, module: Module, optimizer: Any, criterion: Any) -> None:
        self.module, self.optimizer, self.criterion = module, optimizer, criterion

    def loss(self, x: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """Return the mean loss of a batch, or of its weighted examples."""
        losses: Tensor = self.criterion(self.module(x), y)
        if losses.ndim == 0:
            if w is not None:
                fail(ShapeError, "the loss is one number for a batch", "Weights need one loss for each sample.")
            return losses
        if losses.shape[0] != x.shape[0]:
            fail(ShapeError, f"the loss has the shape {losses.shape} for a batch of {x.shape[0]} samples")
        if losses.ndim > 1:
            losses = losses.mean(axis=tuple(range(1, losses.ndim)))
        return (losses if w is None else losses * w).mean()

    def __call__(self, x: Tensor, y: Tensor, w: Tensor | None) -> Tensor:
        """Take one step, and return the loss before it."""
        self.optimizer.zero_grad()
        loss = self.loss(x, y, w)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class _Training:
    """A network in training, whose steps are compiled for the sizes of batches that come again."""

    def __init__(self, step: _Step, compiles: bool) -> None:
        self.step, self.compiles = step, compiles
        self.module = step.module
        self.dtype = next((p.dtype for p in step.module.parameters() if category(p.dtype) == 2), np.dtype("float32"))
        self._compiled: Any = None
        self._sizes: set[int] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None, "_sizes": set()}

    def _batch(self, *arrays: Array | None) -> float:
        run: Callable[..., Tensor] = self.step
        if self.compiles:
            size = len(arrays[0]) if arrays[0] is not None else 0
            # What comes once, such as an odd chunk of a stream, would cost more to compile than to run.
            if size in self._sizes:
                if self._compiled is None:
                    self._compiled = wg.jit(self.step)
                run = self._compiled
            self._sizes.add(size)
        return float(run(*(None if a is None else wg.asarray(a) for a in arrays)))

    def epoch(self, x: Array, y: Array, w: Array | None, size: int, order: Array | None) -> float:
        """Make one pass over the data in an order, in batches of `size` or one less; return the mean loss."""
        self.module.train()
        if len(x) <= size:
            return self._batch(x, y, w)
        total = 0.0
        for rows in np.array_split(np.arange(len(x)) if order is None else order, -(-len(x) // size)):
            total += len(rows) * self._batch(x[rows], y[rows], None if w is None else w[rows])
        return total / len(x)

    def applied(self, x: Array) -> Array:
        """Return the network's outputs, without gradients and in evaluation mode."""
        if any(m.training for m in self.module.modules()):
            self.module.eval()
        with wg.no_grad():
            parts = [np.array(self.module(wg.asarray(x[at : at + _ROWS]))) for at in range(0, len(x), _ROWS)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def validation(self, x: Array, y: Array, w: Array | None) -> float:
        """Return the mean loss over data that is not trained on."""
        self.module.eval()
        with wg.no_grad():
            total = 0.0
            for at in range(0, len(x), _ROWS):
                rows = slice(at, at + _ROWS)
                weights = None if w is None else wg.asarray(w[rows])
                total += len(x[rows]) * float(self.step.loss(wg.asarray(x[rows]), wg.asarray(y[rows]), weights))
        return total / len(x)


class _Network(BaseEstimator):  # type: ignore[misc]
    """The part that both estimators share: parameters, the module, and the training loop."""

    def __init__(
        self,
        module: Any = None,
        *,
        module_params: Any = None,
        loss: Any = None,
        optimizer: Any = "adam",
        optimizer_params: Any = None,
        lr: float = 0.001,
        epochs: int = 100,
        batch_size: int = 64,
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        random_state: Any = None,
        warm_start: bool = False,
        compile: bool = True,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.module_params = module_params
        self.loss = loss
        self.optimizer = optimizer
        self.optimizer_params = optimizer_params
        self.lr = lr
        self.epochs = epochs
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.warm_start = warm_start
        self.compile = compile
        self.verbose = verbose

    # -- parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep` the entries of `module_params` too, as `module__hidden`."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep:
            for part in ("module", "optimizer"):
                given = found[f"{part}_params"]
                if isinstance(given, Mapping):
                    found |= {f"{part}__{name}": value for name, value in given.items()}
        return found

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; `module__hidden=32` sets an entry of `module_params`. Returns the estimator."""
        inner = {name: value for name, value in params.items() if name.startswith(("module__", "optimizer__"))}
        super().set_params(**{name: value for name, value in params.items() if name not in inner})
        for name, value in inner.items():
            part, _, key = name.partition("__")
            setattr(self, f"{part}_params", {**(getattr(self, f"{part}_params") or {}), key: value})
        return self

    def _check_params(self) -> None:
        """Raise ShapeError or DTypeError for a parameter that makes no sense."""
        own = type(self).__name__
        counts = {"epochs": 1, "batch_size": 1, "n_iter_no_change": 1}
        for name, least in counts.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral):
                fail(DTypeError, f"{own}: {name}={value!r} is a {type(value).__name__}, not an int")
            if int(value) < least:
                fail(RangeError, f"{own}: {name}={value!r}", f"It must be at least {least}.")
        for name in ("lr", "tol", "validation_fraction"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                fail(DTypeError, f"{own}: {name}={value!r} is a {type(value).__name__}, not a number")
            number = float(value)
            if not 0.0 <= number < math.inf or (name == "validation_fraction" and not 0.0 < number < 1.0):
                fail(RangeError, f"{own}: {name}={value!r} is out of range")

    # -- what is made anew for each fit

    def _module_of(self, features: Any, n_outputs: int, dtype: Any) -> Module:
        given = dict(self.module_params or {})
        own = type(self).__name__
        if self.module is None:
            return _perceptron(features, n_outputs, **given).to(dtype)
        if isinstance(self.module, Module):
            if given:
                fail(DTypeError, f"{own}: module_params with a module that is made", "Give the class, or a function.")
            return copy.deepcopy(self.module)
        if not callable(self.module):
            what = f"{own}: module={self.module!r} is neither a module nor a function that makes one"
            fail(DTypeError, what, "Give a wg.nn.Module, its class, or a function of (n_features, n_outputs).")
        made = self.module(features, n_outputs, **given)
        if not isinstance(made, Module):
            fail(DTypeError, f"{own}: module() returned a {type(made).__name__}, not a wg.nn.Module")
        return made

    def _optimizer_of(self, module: Module) -> Any:
        kind = self.optimizer
        if isinstance(kind, str):
            known = {
                name.lower(): value
                for name in wg.optim.__all__
                if isinstance(value := getattr(wg.optim, name), type) and value not in (Optimizer, wg.optim.LBFGS)
            }
            if kind.lower() not in known:
                what = f"{type(self).__name__}: optimizer={kind!r} is none that trains by batches"
                fail(ShapeError, what, f"There are {', '.join(sorted(known))}; or give a class of wg.optim.")
            kind = known[kind.lower()]
        if not callable(kind):
            fail(DTypeError, f"{type(self).__name__}: optimizer={kind!r} is neither a name nor a class of wg.optim")
        return kind(list(module.parameters()), lr=self.lr, **(self.optimizer_params or {}))

    def _criterion(self) -> Callable[[Tensor, Tensor], Tensor]:
        raise NotImplementedError

    # -- data

    def _inputs(self, x: Any, reset: bool) -> Array:
        # Images and series have more axes than two, which the module has to know of.
        found: Array = validate_data(
            self, x, reset=reset, dtype=[np.float64, np.float32], allow_nd=self.module is not None, order="C"
        )
        return found

    def _weights(self, x: Array, sample_weight: Any) -> Array | None:
        """Return weights, one for each sample, as float64."""
        if sample_weight is None:
            return None
        if isinstance(sample_weight, Real):
            sample_weight = np.full(len(x), sample_weight)
        given: Array = check_array(
            sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight", order="C", copy=True
        )
        if given.ndim != 1:
            fail(
                ShapeError,
                f"sample_weight has the shape {given.shape}",
                "It must have one axis, a weight for a sample.",
            )
        check_consistent_length(x, given)
        if (given < 0).any():
            fail(ShapeError, "a weight in sample_weight is negative")
        return given

    # -- training

    def _begin(self, x: Array, n_outputs: int) -> None:
        """Make the module and the optimiser, inside of the seeded stream."""
        features = x.shape[1] if x.ndim == 2 else x.shape[1:]
        module = self._module_of(features, n_outputs, x.dtype)
        self.module_, self.optimizer_ = module, self._optimizer_of(module)
        self._training = _Training(_Step(module, self.optimizer_, self._criterion()), bool(self.compile))
        self.n_iter_ = 0
        self.loss_curve_: list[float] = []
        self.validation_curve_: list[float] = []

    def _record(self, loss: float) -> None:
        if not math.isfinite(loss):
            what = f"training diverged: the loss is {loss} in epoch {self.n_iter_ + 1}"
            fail(DataError, what, "Scale the inputs (StandardScaler), or lower lr.")
        self.n_iter_ += 1
        self.loss_ = loss
        self.loss_curve_.append(loss)

    def _fit(self, x: Array, y: Array, w: Array | None, n_outputs: int, strata: Array | None) -> Any:
        self._check_params()
        goes_on = bool(self.warm_start) and hasattr(self, "_training")
        if not goes_on:
            self._random = check_random_state(self.random_state)
        if w is not None:
            if not w.any():
                fail(ShapeError, "all weights of samples are zero")
            # Weights are relative; those of zero are the same as no sample, in the sizes of batches too.
            kept = w > 0.0
            x, y, w = x[kept], y[kept], w[kept]
            strata = None if strata is None else strata[kept]
            w = w / w.mean()
        with _seeded(int(self._random.randint(2**31 - 1))):
            if not goes_on:
                self._begin(x, n_outputs)
            held: tuple[Any, ...] | None = None
            training = self._training
            x = _as_dtype(x, training.dtype)
            y = _as_dtype(y, training.dtype) if y.dtype.kind == "f" else y
            w = None if w is None else w.astype(training.dtype)
            if self.early_stopping:
                x, y, w, held = self._split(x, y, w, strata)
            self._train(x, y, w, held)
        self._finish()
        return self

    def _split(self, x: Array, y: Array, w: Array | None, strata: Array | None) -> tuple[Any, ...]:
        parts = train_test_split(
            *(x, y) if w is None else (x, y, w),
            test_size=self.validation_fraction,
            random_state=self._random,
            stratify=strata,
        )
        mine, held = parts[0::2], parts[1::2]
        return (*mine, *[None] * (3 - len(mine)), (*held, *[None] * (3 - len(held))))

    def _train(self, x: Array, y: Array, w: Array | None, held: tuple[Any, ...] | None) -> None:
        training, size = self._training, int(self.batch_size)
        best, waited, kept = math.inf, 0, None
        for _ in range(self.epochs):
            order = self._random.permutation(len(x)) if self.shuffle and len(x) > size else None
            self._record(training.epoch(x, y, w, size, order))
            text = f"epoch {self.n_iter_}: loss {self.loss_:.6g}"
            if held is not None:
                found = training.validation(*held)
                self.validation_curve_.append(found)
                text += f", validation {found:.6g}"
            if self.verbose:
                print(f"[{type(self).__name__}] {text}")
            if held is not None:
                waited = 0 if found < best - self.tol else waited + 1
                if found < best:
                    best = found
                    kept = {name: np.array(value) for name, value in training.module.state_dict().items()}
                if waited >= self.n_iter_no_change:
                    break
        if kept is not None:
            training.module.load_state_dict(kept)
            self.best_loss_ = best

    def _finish(self) -> None:
        # Predictions must find the module as they leave it: nothing of an estimator changes after its fit.
        self.module_.eval()

    def _pass_over(self, x: Array, y: Array, w: Array | None, n_outputs: int) -> Any:
        """Make one pass over a chunk of data (`partial_fit`)."""
        self._check_params()
        if self.early_stopping:
            fail(ShapeError, "partial_fit with early_stopping=True", "A chunk of a stream has nothing to be held out.")
        if w is not None:
            kept = w > 0.0
            x, y, w = x[kept], y[kept], w[kept]
        if not hasattr(self, "_training"):
            self._random = check_random_state(self.random_state)
        with _seeded(int(self._random.randint(2**31 - 1))):
            if not hasattr(self, "_training"):
                self._begin(x, n_outputs)
            if len(x):
                dtype = self._training.dtype
                x = _as_dtype(x, dtype)
                y = _as_dtype(y, dtype) if y.dtype.kind == "f" else y
                order = self._random.permutation(len(x)) if self.shuffle else None
                w = None if w is None else w.astype(dtype)
                self._record(self._training.epoch(x, y, w, int(self.batch_size), order))
        self._finish()
        return self

    def _outputs(self, x: Any) -> Array:
        check_is_fitted(self)
        x = self._inputs(x, reset=False)
        return self._training.applied(_as_dtype(x, self._training.dtype))


class Classifier(ClassifierMixin, _Network):  # type: ignore[misc]
    """A classifier of scikit-learn's around a network whose outputs are logits, one for each class.

    Parameters
    ----------
    module: a :class:`wengert.nn.Module`, of which every fit trains a copy from the values that it has; or its class or
        a function, called as `module(n_features, n_classes, **module_params)` at each fit. Left out, it is a
        perceptron with one rectified layer of 64, or those of `module_params={"hidden": (64, 32)}`. Inputs of more
        than two axes are for modules that take them; `n_features` is then the shape of a sample. For two classes one
        logit does too.
    module_params, optimizer_params: what the function and the optimiser are called with beside that, dicts. Searches
        set their entries by `module__hidden`, `optimizer__momentum`.
    loss: "cross_entropy" (by default), or a function of (logits, class indices) that gives one loss for each sample,
        or one number for all, which cannot be weighted.
    optimizer: the name of an optimiser of `wg.optim`, as "adam", or a class, called with the parameters and `lr=`.
    lr, epochs, batch_size: the rate, passes over the data, and samples in a step at most; the batches of an epoch
        differ by one sample.
    shuffle: whether every epoch has an order of its own.
    early_stopping: whether `validation_fraction` of the data (by class) is held out, training ends when its loss has
        not fallen by `tol` for `n_iter_no_change` epochs, and the parameters with the lowest are taken.
    class_weight: None, "balanced", or a dict of classes to weights, which multiply `sample_weight`.
    random_state: what decides initial values, orders, dropout: an int, a NumPy RandomState, None. The process's own
        generator is left alone.
    warm_start: whether `fit` goes on from what it has learnt.
    compile: whether steps are compiled (`wg.jit`), once a size of batch comes again.
    verbose: 1 prints a line for each epoch.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ (for data frames), module_, optimizer_, n_iter_ (epochs), loss_,
    loss_curve_, validation_curve_, best_loss_ (both with early stopping).

    Computation is in the dtype of the module's parameters; the default network takes that of X. Raises ValueError and
    TypeError for data and parameters that do not fit, DataError where training diverges.

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from wengert.interop.sklearn import Classifier
    >>> x = np.array([[0.0, 100.0], [1.0, 0.0]] * 20)
    >>> model = make_pipeline(StandardScaler(), Classifier(lr=0.05, epochs=10, random_state=0))
    >>> model.fit(x, ["a", "b"] * 20).score(x, ["a", "b"] * 20)
    1.0
    """

    def __init__(
        self,
        module: Any = None,
        *,
        module_params: Any = None,
        loss: Any = None,
        optimizer: Any = "adam",
        optimizer_params: Any = None,
        lr: float = 0.001,
        epochs: int = 100,
        batch_size: int = 64,
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
        compile: bool = True,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            module,
            module_params=module_params,
            loss=loss,
            optimizer=optimizer,
            optimizer_params=optimizer_params,
            lr=lr,
            epochs=epochs,
            batch_size=batch_size,
            shuffle=shuffle,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            random_state=random_state,
            warm_start=warm_start,
            compile=compile,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def _criterion(self) -> Callable[[Tensor, Tensor], Tensor]:
        return _OnLogits(_classes_loss if self.loss in (None, "cross_entropy") else self.loss, len(self.classes_))

    def _targets(self, x: Array, y: Any) -> Array:
        labels: Array = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        check_consistent_length(x, labels)
        return labels

    def _weighted(self, x: Array, labels: Array, sample_weight: Any) -> Array | None:
        weights = self._weights(x, sample_weight)
        if self.class_weight is None:
            return weights
        by_class: Array = compute_sample_weight(self.class_weight, labels)
        return by_class if weights is None else weights * by_class

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train the network anew (with `warm_start`, further) on inputs and labels. Returns the estimator.

        Parameters
        ----------
        X: (samples, features), numbers; a data frame's names are remembered.
        y: (samples,), labels of any type.
        sample_weight: (samples,), at least 0; a weight of 2 is a sample twice, of 0 is none.
        """
        goes_on = bool(self.warm_start) and hasattr(self, "_training")
        x = self._inputs(X, reset=not goes_on)
        labels = self._targets(x, y)
        classes, indices = np.unique(labels, return_inverse=True)
        if goes_on:
            indices = self._indices(labels)
        else:
            self.classes_ = classes
        weights = self._weighted(x, labels, sample_weight)
        return self._fit(x, indices, weights, len(self.classes_), indices)

    def _indices(self, labels: Array) -> Array:
        places = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        strange = self.classes_[places] != labels
        if strange.any():
            some = sorted({str(label) for label in labels[strange]})[:5]
            fail(ShapeError, f"labels that the first call did not name: {', '.join(some)}", "Give it classes=[...].")
        return places

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Make one pass over a chunk of data. Returns the estimator.

        `classes`, all labels that any chunk may have, is for the first call. Weights count as they are: what a chunk
        weighs is not taken relative to the rest of it.
        """
        first = not hasattr(self, "_training")
        x = self._inputs(X, reset=first)
        labels = self._targets(x, y)
        if isinstance(self.class_weight, str):
            fail(ShapeError, "partial_fit with class_weight='balanced'", "Give a dict, from counts of all the data.")
        if first:
            if classes is None:
                fail(ShapeError, "the first call of partial_fit without classes", "Pass classes=np.unique(all labels).")
            self.classes_ = np.unique(column_or_1d(classes))
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            fail(ShapeError, "partial_fit with other classes than the first call's")
        return self._pass_over(x, self._indices(labels), self._weighted(x, labels, sample_weight), len(self.classes_))

    def _logits(self, x: Any) -> Tensor:
        outputs = wg.asarray(self._outputs(x))
        return _both(outputs, len(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, (samples, classes), in the order of `classes_`."""
        return np.array(wg.nn.functional.softmax(self._logits(X), dim=-1))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`, without rounding to log(0)."""
        return np.array(wg.nn.functional.log_softmax(self._logits(X), dim=-1))

    def predict(self, X: Any) -> Array:
        """Return the most probable class of each sample, (samples,)."""
        places = np.array(self._logits(X)).argmax(axis=1)
        found: Array = self.classes_[places]
        return found


def _classes_loss(logits: Tensor, y: Tensor) -> Tensor:
    return wg.nn.functional.cross_entropy(logits, y, reduction="none")


def _both(logits: Tensor, count: int) -> Tensor:
    """Return logits for every class: of two classes one is enough, the log-odds of the second."""
    if logits.ndim == 2 and logits.shape[1] == count:
        return logits
    if count == 2 and logits.shape in ((logits.shape[0],), (logits.shape[0], 1)):
        logits = logits.reshape((logits.shape[0], 1))
        return wg.concat([wg.zeros_like(logits), logits], axis=1)
    fail(ShapeError, f"the module's outputs have the shape {logits.shape}", f"Expected ({logits.shape[0]}, {count}).")


class _OnLogits:
    """A loss of a network's outputs, held to logits of the classes."""

    def __init__(self, loss: Any, count: int) -> None:
        if not callable(loss):
            fail(RangeError, f"Classifier: loss={loss!r}", "It is 'cross_entropy' or a function.")
        self.loss, self.count = loss, count

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.loss(_both(outputs, self.count), y)
        return found


class _OnNumbers:
    """A loss of a network's outputs, held to the shape of the targets."""

    def __init__(self, loss: Any) -> None:
        if not callable(loss):
            fail(RangeError, f"Regressor: loss={loss!r}", f"It is one of {', '.join(_LOSSES)}, or a function.")
        self.loss = loss

    def __call__(self, outputs: Tensor, y: Tensor) -> Tensor:
        if y.ndim == 1 and outputs.shape == (y.shape[0], 1):
            outputs = outputs.reshape(y.shape)
        if outputs.shape != y.shape:
            fail(ShapeError, f"the module's outputs have the shape {outputs.shape}, the targets {y.shape}")
        found: Tensor = self.loss(outputs, y)
        return found


class Regressor(RegressorMixin, _Network):  # type: ignore[misc]
    """A regressor of scikit-learn's around a network, for one target or several.

    The module has one output for each target; `loss` is "squared_error" (by default), "absolute_error", "huber", or a
    function of (outputs, targets) that gives one loss for each sample or element, or one number for all, which cannot
    be weighted. The other parameters and the attributes are those of :class:`Classifier`. Targets are taken as they
    are: scale them (`sklearn.compose.TransformedTargetRegressor`) where they are far from the size of 1.

    >>> import numpy as np
    >>> from wengert.interop.sklearn import Regressor
    >>> x = np.linspace(-1.0, 1.0, 50)[:, None]
    >>> model = Regressor(lr=0.02, random_state=0).fit(x, np.sin(3.0 * x[:, 0]))
    >>> bool(model.score(x, np.sin(3.0 * x[:, 0])) > 0.9)
    True
    """

    def _criterion(self) -> Callable[[Tensor, Tensor], Tensor]:
        loss = "squared_error" if self.loss is None else self.loss
        return _OnNumbers(_LOSSES.get(loss, loss) if isinstance(loss, str) else loss)

    def _data(self, x: Any, y: Any, reset: bool) -> tuple[Array, Array]:
        if y is None:
            fail(ShapeError, "Regressor requires y to be passed, but the target y is None")
        x = self._inputs(x, reset=reset)
        targets = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", order="C")
        if targets.ndim not in (1, 2):
            fail(ShapeError, f"y has the shape {targets.shape}", "Expected (samples,) or (samples, targets).")
        check_consistent_length(x, targets)
        shape = targets.shape[1:]
        if reset:
            self._shape = shape
        elif shape != self._shape:
            fail(ShapeError, f"targets of the shape {shape} for a sample, after targets of {self._shape}")
        return x, targets

    def _count(self) -> int:
        return int(self._shape[0]) if self._shape else 1

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Train the network anew (with `warm_start`, further) on inputs and targets. Returns the estimator.

        Parameters
        ----------
        X: (samples, features), numbers; a data frame's names are remembered.
        y: (samples,) or (samples, targets), numbers.
        sample_weight: (samples,), at least 0; a weight of 2 is a sample twice, of 0 is none.
        """
        x, targets = self._array(X, y, reset=not (self.warm_start and hasattr(self, "_training")))
        return self._fit(x, targets, self._weights(x, sample_weight), self._count(), None)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Make one pass over a chunk of data. Returns the estimator. Weights count as they are."""
        x, targets = self._array(X, y, reset=not hasattr(self, "_training"))
        return self._pass_over(x, targets, self._weights(x, sample_weight), self._count())

    def predict(self, X: Any) -> Array:
        """Return the outputs, (samples,) or (samples, targets) as the targets were."""
        outputs = self._outputs(X)
        return outputs.reshape((len(outputs), *self._shape))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
