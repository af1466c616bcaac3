"""Copies of what training changes, to put it back exactly."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from .checkpoints import random_states, set_random_states
from .feed import SHARED


class Snapshot:
    """The present values of parameters and buffers, gradients, an optimiser's state, and the shared generators."""

    def __init__(self, model: Any, optimizer: Any = None, parameters: bool = True) -> None:
        self._random = random_states(SHARED)
        held: dict[int, Tensor] = {}
        if hasattr(model, "buffers"):
            held |= {id(b): b for b in model.buffers()}
        if parameters:
            own = list(model.parameters()) if hasattr(model, "parameters") else []
            groups = optimizer.param_groups if optimizer is not None else []
            held |= {id(p): p for p in (*own, *(p for group in groups for p in group["params"]))}
        # New arrays: an optimiser may write into those that there are.
        self._values = [(x, np.array(x.detach().numpy())) for x in held.values()]
        leaves = [x for x in held.values() if x.requires_grad]
        self._grads = [(x, None if x.grad is None else x.grad.detach().clone()) for x in leaves]
        self._optimizer = optimizer
        self._state = None if optimizer is None else copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        """Put all of it back. The snapshot can be used again."""
        for x, value in self._values:
            x.assign_(wrap(value.copy()))
        for x, grad in self._grads:
            x.grad = None if grad is None else grad.clone()
        if self._optimizer is not None:
            self._optimizer.load_state_dict(copy.deepcopy(self._state))
        set_random_states(self._random)


def copied_state(model: Any) -> dict[str, Tensor]:
    """Return a copy of a module's state, or of a mapping like one."""
    state: Mapping[str, Tensor] = model if isinstance(model, Mapping) else model.state_dict()
    return {name: value.detach().clone() for name, value in state.items()}
