"""The experiment of vanishing gradients: values on their way out and gradients on their way back, layer by layer."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.mode import no_grad
from ..document.stats import num
from .controls import Control
from .network import ACTIVATIONS, BATCH, DATA, STARTS, Net, Network, common, data_controls
from .run import Shown


class Vanishing(Network):
    """A deep network whose activation, first weights, residual connections and normalisation can be chosen."""

    name = "vanishing"
    title = "Vanishing gradients"
    view = "flow"
    horizon = 400
    pace = 15.0
    controls = (
        *common(rate=0.1, how="plain"),
        Control("depth", "Hidden layers", 16, low=2, high=40, whole=True),
        Control("width", "Units in each", 16, low=2, high=32, whole=True),
        Control("activation", "Activation", "sigmoid", "choice", choices=tuple(ACTIVATIONS)),
        Control("start", "First weights", "LeCun", "choice", choices=tuple(STARTS)),
        Control("residual", "Residual connections", False, "switch"),
        Control("norm", "Layer normalisation", False, "switch"),
        Control("data", "Data", "moons", "choice", choices=DATA.choices[:-1]),
        BATCH,
        *data_controls(),
    )

    def network(self) -> Net:
        inside = [int(self.options["width"])] * int(self.options["depth"])
        return Net(
            [2, *inside, 1],
            str(self.options["activation"]),
            residual=self.options["residual"] is True,
            normalised=self.options["norm"] is True,
        )

    def first_scale(self) -> float:
        return STARTS[str(self.options["start"])]

    def scene(self) -> Shown:
        return Shown(self.points(), {})

    def shown(self) -> Shown:
        with no_grad():
            values = [_rms(h.numpy()) for h in self.net.hidden(self.x)]
        gradients = [float(np.linalg.norm(g.astype(np.float64))) for g in self.gradients()]
        return Shown({"values": [num(v) for v in values], "gradients": [num(g) for g in gradients]}, {})


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values.astype(np.float64)))))
