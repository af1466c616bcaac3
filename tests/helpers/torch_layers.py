"""Calls of functions and layers as texts, which PyTorch and `wengert.torch` both evaluate: see `record_layers.py`.

In a text `N(2, 3)` is a float64 tensor of that shape that requires gradients, `I(5, 2, 3)` one of integers below 5,
`B(2, 3)` one of booleans; `layer(module)` is the module in float64 with its parameters and buffers set. All values are
the same at each place in each library.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torch_records import check, flat, scalar


class Evaluation:
    """What a text gives: tensors, texts (such as `repr`s), and the leaves that it was made of."""

    def __init__(self, torch: Any, text: str, given: Any = None) -> None:
        self.torch, self.leaves, self._made = torch, [], 0
        self._given = None if given is None else iter(given)
        nn = torch.nn
        names = {"torch": torch, "nn": nn, "F": nn.functional, "rnn": nn.utils.rnn, "inf": float("inf")}
        out = eval(text, {**names, "N": self.numbers, "I": self.integers, "B": self.booleans, "layer": self.layer})
        found = flat(out)
        self.texts = [str(x) for x in found if not hasattr(x, "detach")]
        self.tensors = [x for x in found if hasattr(x, "detach")]

    def _random(self) -> Any:
        self._made += 1
        return np.random.RandomState(self._made)

    def numbers(self, *shape: int, dtype: str = "float64") -> Any:
        values = self._random().normal(size=shape).astype(dtype)
        x = self.torch.tensor(values) if self._given is None else next(self._given)
        if self._given is None:
            self.leaves.append(x.requires_grad_())
        return x

    def integers(self, high: int, *shape: int) -> Any:
        return self.torch.tensor(self._random().randint(0, high, size=shape))

    def booleans(self, *shape: int) -> Any:
        return self.torch.tensor(self._random().rand(*shape) < 0.3)

    def layer(self, module: Any) -> Any:
        module = module.double()
        random = self._random()
        with self.torch.no_grad():
            for p in module.parameters():
                p.copy_(self.torch.tensor(random.normal(size=tuple(p.shape)) * 0.5))
        self.leaves += list(module.parameters())
        return module

    def slopes(self) -> Any:
        """The gradients, in the leaves, of a number that depends on all results; None where nothing does."""
        halves = (self.torch.real, self.torch.imag)
        parts = [half(x) for x in self.tensors if x.is_complex() for half in halves]
        total = scalar(self.torch, [*parts, *(x for x in self.tensors if not x.is_complex())])
        if total is None or not self.leaves:
            return None
        return self.torch.autograd.grad(total, self.leaves, allow_unused=True)


def same(torch: Any, text: str, recorded: Any) -> None:
    """Assert that a text gives what was recorded of it, and the gradients."""
    out, slopes, texts = recorded
    found = Evaluation(torch, text)
    assert found.texts == texts
    check(found.tensors, out, text)
    got = found.slopes()
    for mine, theirs in zip(got or (), slopes or (), strict=True):
        if mine is None or theirs is None:
            assert mine is None or not mine.numpy().any(), text
            assert theirs is None or not theirs.any(), text
        else:
            check(mine, theirs, f"{text}, gradient")


def compiled(wg: Any, torch: Any, text: str, recorded: Any) -> None:
    """Assert the same of the second and the sixth call of the compiled function of the leaves."""
    leaves = [x.detach() for x in Evaluation(torch, text).leaves]
    function = wg.jit(lambda *given: tuple(Evaluation(torch, text, given).tensors))
    for call in range(6):
        out = function(*leaves)
        if call in (1, 5):
            check(out, recorded[0], f"{text}, call {call + 1}")
