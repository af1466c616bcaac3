"""The experiment of dead ReLUs: units that give 0 for every training point, so that no gradient reaches them."""

from __future__ import annotations

import numpy as np

from ... import float32, jit
from ...core.arrays import Array
from ...core.mode import no_grad
from ...core.tensor import Tensor
from ..document.stats import num
from .controls import Control, Value
from .network import BATCH, DATA, Net, Network, common, data_controls
from .run import Shown


class DeadUnits(Network):
    """A ReLU network whose first biases and step size decide how many of its units live."""

    name = "dead"
    title = "Dead ReLUs"
    view = "units"
    series = (*Network.series, "dead")
    horizon = 400
    pace = 15.0
    controls = (
        *common(rate=0.3, how="momentum"),
        Control("bias", "First bias", 0.0, low=-3.0, high=1.0),
        Control("scale", "Size of first weights", 1.4, low=0.1, high=3.0),
        Control("leak", "Leak: slope 0.01 below 0", False, "switch"),
        Control("layers", "Hidden layers", 4, low=1, high=8, whole=True),
        Control("width", "Units in each", 16, low=2, high=32, whole=True),
        Control("data", "Data", "moons", "choice", choices=DATA.choices[:-1]),
        BATCH,
        *data_controls(),
    )

    def network(self) -> Net:
        inside = [int(self.options["width"])] * int(self.options["layers"])
        return Net([2, *inside, 1], "leaky relu" if self.options["leak"] else "relu")

    def first_scale(self) -> float:
        return float(self.options["scale"])

    def first_bias(self) -> float:
        return float(self.options["bias"])

    def __init__(self, options: dict[str, Value]) -> None:
        super().__init__(options)
        net = self.net

        def shares(x: Tensor) -> tuple[Tensor, ...]:
            signs = [part for h in net.hidden(x) for part in (h > 0, h <= 0)]
            return tuple(sign.astype(float32).mean(axis=0) for sign in signs)

        self._shares = jit(shares)

    def shares(self) -> tuple[list[Array], list[Array]]:
        """Return, by layer and unit, the shares of points for which it is above 0, and not (NaN is neither)."""
        with no_grad():
            found = [np.asarray(share.numpy()) for share in self._shares(self.x)]
        return found[::2], found[1::2]

    def dead(self) -> list[list[int]]:
        """Return, by layer, the units without a slope anywhere. With a leak every unit has one."""
        _, idle = self.shares()
        return [[] if self.options["leak"] else [int(i) for i in np.flatnonzero(share == 1)] for share in idle]

    def measure(self) -> tuple[float, ...]:
        dead = self.dead()
        return (*super().measure(), sum(map(len, dead)) / (len(dead) * int(self.options["width"])))

    def scene(self) -> Shown:
        return Shown(self.points(), {})

    def shown(self) -> Shown:
        active, idle = self.shares()
        told = [[num(round(float(a), 4) if a + i > 0 else np.nan) for a, i in zip(*pair)] for pair in zip(active, idle)]
        return Shown({"active": told, "dead": self.dead(), "leak": self.options["leak"]}, {})
