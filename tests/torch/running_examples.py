"""Running the examples that are written for both libraries: under `wengert.torch` as they stand, or under PyTorch.

`curve` gives an example's first losses where both libraries start from the same weights and draw the same random
numbers, in double precision; `durations` how long its steps take at their usual size.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "examples"
OURS, THEIRS = "import wengert.torch as torch", "import torch"
# What makes an example's run small, and free of random numbers that a layer draws for itself.
SMALL = {
    "cartpole": "--method actor-critic --poles 4 --rows 5 --steps 1000",
    "cartpole reinforce": "--method reinforce --poles 4 --steps 1000",
    "dates": "--batch 6 --width 6 --steps 20",
    "dcgan": "--batch 16 --width 4 --noise 4 --dropout 0",
    "ddpm": "--batch 8 --width 8 --noise-steps 10 --steps 20",
    "gcn": "--papers 60 --dropout 0",
    "resnet": "--images 40 --batch 8 --width 2 --epochs 4",
    "tree_lstm": "--batch 8 --width 6 --levels 3 --steps 20",
    "vae": "--batch 16 --width 16",
    "words": "--batch 4 --length 6 --vocabulary 30 --width 8 --depth 1 --dropout 0 --steps 20",
}
STEPS = 6


class Enough(Exception):
    """Raised out of an example whose steps have been seen."""


class Watched:
    """A library as an example sees it: `compile` gives a function that tells `see` of each training step."""

    def __init__(self, torch: Any, compiled: bool, see: Callable[[Callable[[], Any]], Any]) -> None:
        self._torch, self._compiled, self._see = torch, compiled, see

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def compile(self, fn: Any) -> Any:
        """Return the function, compiled where it is to be; watched where it is the training step."""
        run = self._torch.compile(fn) if self._compiled else fn
        if getattr(fn, "__name__", "") != "step":
            return run
        return lambda *args: self._see(lambda: run(*args))


class Equal(Watched):
    """A library whose random numbers, drawn outside of compiled functions, are NumPy's."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def randn(self, *shape: int) -> Any:
        return self._torch.tensor(self.rng.normal(size=shape))

    def randn_like(self, x: Any) -> Any:
        return self.randn(*x.shape)

    def randint(self, *bounds: Any) -> Any:
        *bounds, size = bounds
        return self._torch.tensor(self.rng.integers(*bounds, size=size))

    def randperm(self, n: int) -> Any:
        return self._torch.tensor(self.rng.permutation(n))


def load(name: str, by_wengert: bool) -> Any:
    """Return the example as a module, with its one line edited where PyTorch is to run it."""
    file = FOLDER / f"{name}.py"
    source = file.read_text(encoding="utf-8")
    assert source.count(f"\n{OURS}\n") == 1, f"{file} does not say {OURS!r} once"
    module: Any = types.ModuleType(f"example_{name}")
    sys.modules[module.__name__] = module
    text = source if by_wengert else source.replace(f"\n{OURS}\n", f"\n{THEIRS}\n")
    exec(compile(text, str(file), "exec"), vars(module))
    return module


def watch_step(module: Any, see: Callable[[Callable[[], Any]], Any]) -> None:
    """Let `see` be told of the steps of a program that does not compile them: a function of the module."""
    step = vars(module).get("step")
    if step is not None:
        module.step = lambda *args: see(lambda: step(*args))


def start(module: Any, arguments: list[str]) -> None:
    """Run an example's program until it ends or its steps have been seen."""
    before, sys.argv = sys.argv, [module.__name__, *arguments]
    try:
        module.main()
    except Enough:
        pass
    finally:
        sys.argv = before


def text_file(folder: Path) -> Path:
    """A text to learn from, of some verses in many orders."""
    verses = ["The fox, the fox is quick!", "A dog sleeps.", "How lazy dogs are;", "who jumps? The quick fox jumps."]
    order = np.random.default_rng(0).integers(0, len(verses), 400)
    file = folder / "text.txt"
    file.write_text("\n".join(verses[i] for i in order), encoding="utf-8")
    return file


@contextmanager
def equal_start(torch: Any) -> Iterator[None]:
    """Give parameters values that do not depend on the library when an optimiser gets them; shuffle by NumPy."""
    init, order = torch.optim.Optimizer.__init__, torch.utils.data.RandomSampler.__iter__
    rng = np.random.default_rng(1)

    def filled(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:
        params = list(params)
        with torch.no_grad():
            for p in params:
                fan = p.numel() // p.shape[0] if p.dim() > 1 else 4
                p.copy_(torch.tensor(rng.normal(size=tuple(p.shape)) / fan**0.5))
        init(self, params, *args, **kwargs)

    dtype = torch.get_default_dtype()
    torch.optim.Optimizer.__init__ = filled
    torch.utils.data.RandomSampler.__iter__ = lambda self: iter(rng.permutation(len(self.data_source)).tolist())
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.optim.Optimizer.__init__, torch.utils.data.RandomSampler.__iter__ = init, order
        torch.set_default_dtype(dtype)


def curve(case: str, compiled: bool, by_wengert: bool, folder: Path) -> list[float]:
    """The losses of an example's first steps, in double precision, from a start that both libraries share."""
    name = case.split()[0]
    module = load(name, by_wengert)
    losses: list[float] = []

    def see(step: Callable[[], Any]) -> Any:
        out = step()
        losses.extend(x.item() for x in (out if isinstance(out, tuple) else (out,)))
        if len(losses) >= STEPS:
            raise Enough
        return out

    data = ["--data", str(text_file(folder))] if name == "words" else []
    with equal_start(module.torch):
        module.torch = Equal(module.torch, compiled, see)
        watch_step(module, see)
        start(module, [*SMALL[case].split(), *data, "--out", str(folder / "picture.svg")])
    return losses


def durations(
    name: str, compiled: bool, by_wengert: bool, steps: int, arguments: list[str]
) -> list[tuple[float, float]]:
    """What the clock, and the processor, say of each of an example's first steps, at its own size, in seconds."""
    module = load(name, by_wengert)
    found: list[tuple[float, float]] = []

    def see(step: Callable[[], Any]) -> Any:
        began, used = time.perf_counter(), time.process_time()
        out = step()
        found.append((time.perf_counter() - began, time.process_time() - used))
        if len(found) >= steps:
            raise Enough
        return out

    module.torch = Watched(module.torch, compiled, see)
    watch_step(module, see)
    start(module, arguments)
    return found
