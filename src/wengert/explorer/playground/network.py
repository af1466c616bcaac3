"""Small networks that tell two classes of points apart, trained step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np

from ... import float32, jit
from ...core.arrays import Array
from ...core.errors import DataError, fail
from ...core.mode import no_grad
from ...core.tensor import Tensor, tensor, wrap
from ...nn import LayerNorm, Linear, Module, ModuleList
from ...nn import functional as F
from ...optim import Optimizer
from ..api import Exploration, explore
from .controls import SEED, Control, Value, method, step_size
from .points import EXAMPLE, FEATURES, REACH, SETS, features, made, read
from .run import Run, exact

ACTIVATIONS = {
    "relu": F.relu,
    "tanh": F.tanh,
    "sigmoid": F.sigmoid,
    "gelu": F.gelu,
    "leaky relu": F.leaky_relu,
}

# Standard deviations of first weights, times the square root of a layer's inputs: those that keep the size of values
# for ReLU (He et al. 2015) and near 0 for tanh (LeCun et al. 1998), and ones that are wrong on purpose.
STARTS = {"He": math.sqrt(2.0), "LeCun": 1.0, "too small": 0.4, "too large": 3.0}

DATA = Control("data", "Data", "spirals", "choice", choices=(*SETS, "own"))
OWN = Control("csv", "Own data: x, y, class", EXAMPLE, "text", longest=100_000, shown_with=("data", "own"))
POINTS = Control("points", "Points", 300, low=20, high=1000, whole=True)
NOISE = Control("noise", "Noise", 0.1, low=0.0, high=1.0)
TEST = Control("test", "Share for testing", 0.3, low=0.1, high=0.9)
# A few sizes: a training step is compiled for each.
BATCH = Control("batch", "Batch size", "32", "choice", choices=("4", "8", "16", "32", "64", "all"), restarts=False)


class Net(Module):
    """A network of linear layers with an activation between them, residual connections and normalisation on demand.

    A hidden layer is `act(norm(linear(x)))`; a residual one adds its input where the widths agree.
    """

    def __init__(
        self, widths: Sequence[int], activation: str, *, residual: bool = False, normalised: bool = False
    ) -> None:
        super().__init__()
        self.layers = ModuleList([Linear(a, b) for a, b in zip(widths, widths[1:])])
        self.norms = ModuleList([LayerNorm(b) for b in widths[1:-1]] if normalised else [])
        self.activation = ACTIVATIONS[activation]
        self.residual = residual

    @property
    def linears(self) -> list[Linear]:
        """The linear layers, the last one gives the logit."""
        return [cast(Linear, layer) for layer in self.layers]

    def hidden(self, x: Tensor) -> list[Tensor]:
        """Return the output of every hidden layer."""
        found: list[Tensor] = []
        for i, layer in enumerate(self.linears[:-1]):
            z = layer(x)
            if len(self.norms):
                z = self.norms[i](z)
            out = self.activation(z)
            x = x + out if self.residual and x.shape == out.shape else out
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit of class 1, of shape (points,)."""
        logits: Tensor = self.linears[-1](self.hidden(x)[-1])[:, 0]
        return logits


class Network(Run):
    """A network on points in the plane: the base of the experiments with networks."""

    series: ClassVar[tuple[str, ...]] = ("loss", "test", "accuracy", "test_accuracy")
    horizon = 1000
    pace = 60.0

    def __init__(self, options: dict[str, Value]) -> None:
        super().__init__(options)
        self.features = [name for name in FEATURES if options.get(f"use {name}", name in ("x", "y"))]
        if not self.features:
            fail(DataError, "the network needs at least one feature")
        x, labels = self.drawn()
        # At least two points on either side.
        held = min(len(x) - 2, max(2, round(len(x) * float(options.get("test", TEST.default)))))
        self._points = x[held:], x[:held]
        self.x, self.test_x = (wrap(features(part, self.features)) for part in self._points)
        self.labels, self.test_labels = (tensor(part, dtype=float32) for part in (labels[held:], labels[:held]))
        self.net = self.network()
        self._initialise()
        net = self.net

        def measured(x: Tensor, labels: Tensor, test_x: Tensor, test_labels: Tensor) -> tuple[Tensor, ...]:
            return self.measures(net(x), labels, net(test_x), test_labels)

        # Compiled, as training is, and not only for speed: a kernel that eager execution compiles in mid-course changes
        # last bits, and a step that is taken again must give what it gave.
        self._measured = jit(measured)
        self.begin(list(self.net.parameters()))

    # -- what an experiment may define

    def drawn(self) -> tuple[Array, Array]:
        """Return all points, of shape (points, 2), in random order, and what is to be learned of them."""
        options = self.options
        if options.get("data") == "own":
            x, labels = read(str(options["csv"]))
            order = self.generator.chosen(len(x), len(x))
            return x[order], labels[order]
        return made(str(options.get("data", DATA.default)), *self._size(), self.generator)

    def loss_of(self, result: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of the network's results."""
        loss: Tensor = F.binary_cross_entropy_with_logits(result, labels)
        return loss

    def measures(self, result: Tensor, labels: Tensor, test_result: Tensor, test_labels: Tensor) -> tuple[Tensor, ...]:
        """Return the numbers of `series` from the network's results."""
        return (
            self.loss_of(result, labels),
            self.loss_of(test_result, test_labels),
            ((result > 0) == (labels > 0.5)).astype(float32).mean(),
            ((test_result > 0) == (test_labels > 0.5)).astype(float32).mean(),
        )

    def network(self) -> Net:
        """Return the network as the options say."""
        inside = [int(self.options["width"])] * int(self.options["layers"])
        return Net([2, *inside, 1], str(self.options["activation"]))

    def first_scale(self) -> float:
        """Return the scale of the first weights: see `STARTS`."""
        return STARTS["He" if self.options.get("activation") in ("relu", "gelu") else "LeCun"]

    def first_bias(self) -> float:
        """Return the first value of every bias."""
        return 0.0

    # -- the same for all

    def _size(self) -> tuple[int, float]:
        """Return how many points there are, and their noise."""
        points, noise = (self.options.get(c.name, c.default) for c in (POINTS, NOISE))
        return int(points), float(noise)

    def _initialise(self) -> None:
        """Draw the first weights. The last layer begins as LeCun's whatever the others do."""
        for layer in self.net.linears:
            scale = self.first_scale() if layer is not self.net.linears[-1] else 1.0
            drawn = scale / math.sqrt(layer.in_features) * self.generator.normal(layer.weight.shape)
            layer.weight.data = tensor(drawn, dtype=float32)
            cast(Tensor, layer.bias).data = tensor(np.full(layer.out_features, self.first_bias()), dtype=float32)

    def penalty(self, l1: Tensor, l2: Tensor) -> Tensor:
        """Return what L1 and L2 regularisation of the weights add to the loss."""
        weights = [layer.weight for layer in self.net.linears]
        return sum((l1 * w.abs().sum() + 0.5 * l2 * (w * w).sum() for w in weights), start=tensor(0.0))

    def _optimizer(self) -> Optimizer:
        optimizer = super()._optimizer()

        def train(x: Tensor, labels: Tensor, l1: Tensor, l2: Tensor) -> None:
            loss = self.loss_of(self.net(x), labels) + self.penalty(l1, l2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        self._train = jit(train)
        return optimizer

    def _batch(self) -> tuple[Tensor, Tensor]:
        """Return the points of the next step."""
        count, given = self.x.shape[0], str(self.options["batch"])
        size = count if given == "all" else min(count, int(given))
        if size == count:
            return self.x, self.labels
        chosen = self.generator.chosen(size, count)
        return wrap(self.x.numpy()[chosen]), wrap(self.labels.numpy()[chosen])

    def step(self) -> None:
        l1, l2 = (tensor(float(self.options.get(name, 0.0)), dtype=float32) for name in ("l1", "l2"))
        self._train(*self._batch(), l1, l2)

    def measure(self) -> tuple[float, ...]:
        with no_grad():
            found = self._measured(self.x, self.labels, self.test_x, self.test_labels)
        return tuple(v.item() for v in found)

    def gradients(self) -> list[Array]:
        """Return the gradient of the loss over all training points, by layer's weights. Changes nothing."""
        # A training step leaves its own, of a batch.
        self.optimizer.zero_grad()
        self.loss_of(self.net(self.x), self.labels).backward()
        found = [np.array(cast(Tensor, layer.weight.grad).numpy()) for layer in self.net.linears]
        self.optimizer.zero_grad()
        return found

    def record(self) -> Exploration:
        drawn = self.generator.state
        x, labels = self._batch()
        self.generator.state = drawn
        net = self.net

        def loss() -> Tensor:
            return self.loss_of(net(x), labels)

        return explore(loss)

    def points(self) -> dict[str, object]:
        """Return the points, for the page."""
        return {
            "train": _listed(self._points[0], self.labels),
            "test": _listed(self._points[1], self.test_labels),
            "reach": REACH,
        }

    def told(self) -> dict[str, object]:
        """Return what a script needs, the points among it."""
        train, test = ([exact(x.astype(np.float32)), exact(y.numpy())] for x, y in self._pairs())
        return {**super().told(), "points": {"train": train, "test": test}}

    def _pairs(self) -> list[tuple[Array, Tensor]]:
        return [(self._points[0], self.labels), (self._points[1], self.test_labels)]


def _listed(x: Array, labels: Tensor) -> list[list[float]]:
    return [[round(float(a), 3), round(float(b), 3), round(float(c), 4)] for (a, b), c in zip(x, labels.numpy())]


def common(*, rate: float, how: str) -> tuple[Control, ...]:
    """Return the controls that all these experiments begin with."""
    return (step_size(rate), method(how))


def feature_controls() -> tuple[Control, ...]:
    """Return a switch for everything that a network may be given of a point."""
    return tuple(Control(f"use {name}", name, name in ("x", "y"), "switch", group="Features") for name in FEATURES)


def data_controls() -> tuple[Control, ...]:
    """Return the controls of the data, which come last."""
    return (POINTS, NOISE, TEST, SEED)
