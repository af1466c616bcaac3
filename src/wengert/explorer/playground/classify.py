"""The experiment of two classes: the network drawn neuron by neuron, each as a picture of its output over the plane."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np

from ...core.arrays import Array
from ...core.mode import no_grad
from ...core.tensor import Tensor, wrap
from ...nn import functional as F
from ..document.stats import num
from .controls import Control
from .network import ACTIVATIONS, BATCH, DATA, OWN, Net, Network, common, data_controls, feature_controls
from .points import REACH, SURFACES, features, surface
from .protocol import as_bytes
from .run import Shown

# Points a side of the picture of the result, and of those of neurons: every other one.
SURFACE, THINNED = 64, 2
# The reach of the pictures, as a multiple of that of the points.
MARGIN = 1.15


class Pictured(Network):
    """A network drawn neuron by neuron, each as a picture of its output over the plane."""

    view = "network"

    def network(self) -> Net:
        inside = [int(self.options["width"])] * int(self.options["layers"])
        return Net([len(self.features), *inside, 1], str(self.options["activation"]))

    def coloured(self, results: Array) -> Array:
        """Return results as colours say them, from -1 to 1."""
        return np.asarray(np.tanh(0.5 * results))  # 2 p - 1 for the probability p of class 1

    def scene(self) -> Shown:
        return Shown({**self.points(), "edge": MARGIN * REACH, "features": self.features}, {})

    def shown(self) -> Shown:
        plane = wrap(features(_PLANE, self.features))
        with no_grad():
            hidden = [np.asarray(h.numpy()) for h in self.net.hidden(plane)]
            results = self.net(plane).numpy()
        surface = self.coloured(results.astype(np.float64))
        neurons = np.concatenate([_thinned(h) for h in hidden])
        # Each neuron's picture has its own scale: its largest value on the plane.
        reach = np.maximum(np.abs(neurons).max(axis=(1, 2), keepdims=True), 1e-12)
        layers = self.net.linears
        return Shown(
            {
                "widths": [int(h.shape[1]) for h in hidden],
                "reaches": [num(float(f"{r:.3g}")) for r in reach.ravel()],
                "weights": [_rounded(layer.weight.detach().numpy()) for layer in layers],
                "biases": [_rounded(cast(Tensor, layer.bias).detach().numpy()) for layer in layers],
            },
            {
                "surface": as_bytes(surface.reshape(SURFACE, SURFACE)),
                "neurons": as_bytes(neurons / reach),
            },
        )


class Separate(Pictured):
    """The experiment of two classes of points, and the surface by which a network tells them apart."""

    name = "separate"
    title = "Separate two spirals"
    controls = (
        *common(rate=0.02, how="Adam"),
        DATA,
        OWN,
        *feature_controls(),
        Control("layers", "Hidden layers", 3, low=1, high=6, whole=True),
        Control("width", "Neurons in each", 8, low=1, high=8, whole=True),
        Control("activation", "Activation", "tanh", "choice", choices=tuple(ACTIVATIONS)),
        Control("l1", "L1 regularisation", 0.0, low=0.0, high=0.01, restarts=False),
        Control("l2", "L2 regularisation", 0.0, low=0.0, high=0.05, restarts=False),
        BATCH,
        *data_controls(),
    )


class Regress(Pictured):
    """The experiment of a surface over the plane, learned from its heights at some points."""

    name = "regress"
    title = "Fit a surface"
    series: ClassVar[tuple[str, ...]] = ("loss", "test")
    controls = (
        *common(rate=0.02, how="Adam"),
        Control("data", "Data", "bumps", "choice", choices=tuple(SURFACES)),
        *feature_controls(),
        Control("layers", "Hidden layers", 2, low=1, high=6, whole=True),
        Control("width", "Neurons in each", 8, low=1, high=8, whole=True),
        Control("activation", "Activation", "tanh", "choice", choices=tuple(ACTIVATIONS)),
        Control("l1", "L1 regularisation", 0.0, low=0.0, high=0.01, restarts=False),
        Control("l2", "L2 regularisation", 0.0, low=0.0, high=0.05, restarts=False),
        BATCH,
        *data_controls(),
    )

    def drawn(self) -> tuple[Array, Array]:
        return surface(str(self.options["data"]), *self._size(), self.generator)

    def loss_of(self, result: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = F.mse_loss(result, labels)
        return loss

    def measures(self, result: Tensor, labels: Tensor, test_result: Tensor, test_labels: Tensor) -> tuple[Tensor, ...]:
        return self.loss_of(result, labels), self.loss_of(test_result, test_labels)

    def coloured(self, results: Array) -> Array:
        return np.clip(results, -1.0, 1.0)


def _plane() -> Array:
    """Return the points of the picture, rows from the top."""
    side = np.linspace(-MARGIN * REACH, MARGIN * REACH, SURFACE)
    across, up = np.meshgrid(side, side[::-1])
    return np.stack([across.ravel(), up.ravel()], axis=1)


_PLANE = _plane()


def _thinned(values: Array) -> Array:
    """Return a layer's values over the plane as one small picture for each neuron."""
    pictures = values.T.reshape(-1, SURFACE, SURFACE)
    return np.asarray(pictures[:, ::THINNED, ::THINNED], np.float64)


def _rounded(values: Array) -> list[object]:
    """Return values to three decimals, for drawing; what is no number as 0, which draws nothing."""
    found: list[object] = np.round(np.nan_to_num(values.astype(np.float64), posinf=0, neginf=0), 3).tolist()
    return found
