"""Kernels of `stack`, which joins values: copies, without a program for each number of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .kernels import Array, Kernels, Part, Split
from .template import Template


class Joining(Kernels):
    """The parts of a template of `stack`."""

    def __init__(self, template: Template, patience: int = 0) -> None:
        self._prepare(template)
        (node,) = template.graph.find("stack")
        # With the rows in front, counted from the right as before.
        self._axis: int = node.attrs["axis"]
        # An operand that is given twice is one input.
        inputs = {n: i for i, n in enumerate(template.graph.inputs)}
        self._order = [inputs[e] for e in node.inputs]
        ct = len(template.rows) + len(template.shared)
        self._split = Split([], [], [ct], [])
        self.places = {ct: ("ct", 0)}

    def plain(self, n: int) -> Part:
        """Return what joins the inputs."""

        def run(inputs: Sequence[Array], outputs: Any) -> list[Array]:
            made: Array = np.stack([inputs[i] for i in self._order], self._axis, out=outputs[0])
            return [made]

        return run

    forward = plain

    def backward(self, n: int) -> Part:
        """Return what takes a gradient apart."""

        def run(inputs: Sequence[Array], outputs: Any) -> list[Array]:
            parts = np.moveaxis(inputs[0], self._axis, 0)
            found: dict[int, Array] = {}
            for part, i in zip(parts, self._order, strict=True):
                found[i] = found[i] + part if i in found else part
            return [found[i] for i in self.wanted_rows]

        return run
