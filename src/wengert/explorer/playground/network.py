"""Small networks that tell two classes of points apart, trained step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, cast

import numpy as np

from ... import float32, jit
from ...core.arrays import Array
from ...core.mode import no_grad
from ...core.tensor import Tensor, tensor, wrap
from ...nn import LayerNorm, Linear, Module, ModuleList
from ...nn import functional as F
from ...optim import Optimizer
from ..api import Exploration, explore
from .controls import SEED, Control, Value, method, step_size
from .points import EXAMPLE, REACH, SETS, made, read
from .run import Run

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
        if options.get("data") == "own":
            x, labels = read(str(options["csv"]))
            order = self.generator.permutation(len(x))
            x, labels = x[order], labels[order]
        else:
            x, labels = made(
                str(options.get("data", DATA.default)),
                int(options.get("points", POINTS.default)),
                float(options.get("noise", NOISE.default)),
                self.generator,
            )
        # At least two points on either side.
        held = min(len(x) - 2, max(2, round(len(x) * float(options.get("test", TEST.default)))))
        self.x, self.labels = _tensors(x[held:], labels[held:])
        self.test_x, self.test_labels = _tensors(x[:held], labels[:held])
        self.net = self.network()
        self._initialise()
        net = self.net

        def losses(x: Tensor, labels: Tensor, test_x: Tensor, test_labels: Tensor) -> tuple[Tensor, ...]:
            logits, test_logits = net(x), net(test_x)
            return (
                F.binary_cross_entropy_with_logits(logits, labels),
                F.binary_cross_entropy_with_logits(test_logits, test_labels),
                ((logits > 0) == (labels > 0.5)).astype(float32).mean(),
                ((test_logits > 0) == (test_labels > 0.5)).astype(float32).mean(),
            )

        # Compiled, as training is, and not only for speed: a kernel that eager execution compiles in mid-course changes
        # last bits, and a step that is taken again must give what it gave.
        self._measured = jit(losses)
        self.begin(list(self.net.parameters()))

    # -- what an experiment may define

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

    def _initialise(self) -> None:
        """Draw the first weights. The last layer begins as LeCun's whatever the others do."""
        for layer in self.net.linears:
            scale = self.first_scale() if layer is not self.net.linears[-1] else 1.0
            drawn = self.generator.normal(0.0, scale / math.sqrt(layer.in_features), layer.weight.shape)
            layer.weight.data = tensor(drawn, dtype=float32)
            cast(Tensor, layer.bias).data = tensor(np.full(layer.out_features, self.first_bias()), dtype=float32)

    def penalty(self, l1: Tensor, l2: Tensor) -> Tensor:
        """Return what L1 and L2 regularisation of the weights add to the loss."""
        weights = [layer.weight for layer in self.net.linears]
        return sum((l1 * w.abs().sum() + 0.5 * l2 * (w * w).sum() for w in weights), start=tensor(0.0))

    def _optimizer(self) -> Optimizer:
        optimizer = super()._optimizer()

        def train(x: Tensor, labels: Tensor, l1: Tensor, l2: Tensor) -> None:
            loss = F.binary_cross_entropy_with_logits(self.net(x), labels) + self.penalty(l1, l2)
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
        chosen = self.generator.choice(count, size, replace=False)
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
        F.binary_cross_entropy_with_logits(self.net(self.x), self.labels).backward()
        found = [np.array(cast(Tensor, layer.weight.grad).numpy()) for layer in self.net.linears]
        self.optimizer.zero_grad()
        return found

    def record(self) -> Exploration:
        generator = self.generator.bit_generator.state
        x, labels = self._batch()
        self.generator.bit_generator.state = generator
        net = self.net

        def loss() -> Tensor:
            return F.binary_cross_entropy_with_logits(net(x), labels)

        return explore(loss)

    def points(self) -> dict[str, object]:
        """Return the points, for the page."""
        return {
            "train": _listed(self.x, self.labels),
            "test": _listed(self.test_x, self.test_labels),
            "reach": REACH,
        }


def _tensors(x: Array, labels: Array) -> tuple[Tensor, Tensor]:
    return tensor(x, dtype=float32), tensor(labels, dtype=float32)


def _listed(x: Tensor, labels: Tensor) -> list[list[float]]:
    return [[round(float(a), 3), round(float(b), 3), float(c)] for (a, b), c in zip(x.numpy(), labels.numpy())]


def common(*, rate: float, how: str) -> tuple[Control, ...]:
    """Return the controls that all these experiments begin with."""
    return (step_size(rate), method(how))


def data_controls() -> tuple[Control, ...]:
    """Return the controls of the data, which come last."""
    return (POINTS, NOISE, TEST, SEED)
