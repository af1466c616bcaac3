"""Random programs as data: lines of Python that can be dropped, replaced and printed.

A program is written line by line, each applied to values that are there, so shapes and dtypes fit.
What a line does to the values decides nothing but whether it is kept: a program full of NaNs tests little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import wengert as wg

Array = np.ndarray[Any, np.dtype[Any]]
Line = tuple[str, str]

NAMES: dict[str, Any] = {
    "np": np,
    "wg": wg,
    "F": wg.nn.functional,
    "bfloat16": ml_dtypes.bfloat16,
    "nan": np.nan,
    "inf": np.inf,
}
_NAME = re.compile(r"\bv\d+\b")
FLOATS = ("float32", "float64", "float16", "bfloat16")


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())


@dataclass(frozen=True)
class Program:
    """A program of lines `name = expression`: the arrays that go in, the steps, and the names of what comes out.

    `transform` is "", "grad" (of a weighted sum of all results) or "jvp"; `donated` names inputs
    whose memory may be written to.
    """

    inputs: tuple[Line, ...]
    steps: tuple[Line, ...]
    outputs: tuple[str, ...]
    transform: str = ""
    donated: frozenset[str] = frozenset()

    def arrays(self) -> list[Array]:
        """Return the inputs' values."""
        with np.errstate(all="ignore"):
            return [evaluate(text, {}) for _, text in self.inputs]

    def body(self) -> Callable[..., tuple[Any, ...]]:
        """Return the program without its transform."""

        def program(*args: Any) -> tuple[Any, ...]:
            values = {name: value for (name, _), value in zip(self.inputs, args, strict=True)}
            for name, text in self.steps:
                values[name] = evaluate(text, values)
            return tuple(values[name] for name in self.outputs)

        return program

    def function(self) -> Callable[..., Any]:
        """Return the program as a function of tensors."""
        return TRANSFORMS[self.transform](self.body())

    def graph(self) -> wg.Graph:
        """Return the program, traced."""
        return wg.graph(self.function())(*(wg.asarray(a) for a in self.arrays()))

    def pruned(self) -> Program:
        """Return the program without what nothing uses."""
        needed = set(self.outputs)
        steps = []
        for name, text in reversed(self.steps):
            if name in needed:
                steps.append((name, text))
                needed.update(_NAME.findall(text))
        inputs = tuple(line for line in self.inputs if line[0] in needed)
        names = frozenset(name for name, _ in inputs)
        return replace(self, inputs=inputs, steps=tuple(reversed(steps)), donated=self.donated & names)

    def __str__(self) -> str:
        """Return the program as Python that runs by itself."""
        header = [
            "import numpy as np",
            "from ml_dtypes import bfloat16",
            "import wengert as wg",
            "from wengert.core.graph.evaluate import run",
            "from wengert.execute.native.compile import compile_graph",
            "F, nan, inf = wg.nn.functional, np.nan, np.inf",
        ]
        names = ", ".join(name for name, _ in self.inputs)
        body = [f"def program({names}):", *(f"    {name} = {text}" for name, text in self.steps)]
        body.append(f"    return ({', '.join(self.outputs)},)")
        donated = [name in self.donated for name, _ in self.inputs]
        footer = [f"arrays = [{', '.join(text for _, text in self.inputs)}]"]
        if self.transform:
            footer.append(f"from fuzz_programs import {self.transform}_of")
            footer.append(f"program = {self.transform}_of(program)")
        footer += [
            "graph = wg.graph(program)(*map(wg.asarray, arrays))",
            f"compiled = compile_graph(graph, donated={donated})",
            "print(graph, compiled, sep='\\n')",
            "for got, want in zip(compiled.run([a.copy() for a in arrays]), run(graph, [a.copy() for a in arrays])):",
            "    print(got, want, sep='\\n')",
        ]
        return "\n".join([*header, *body, *footer]) + "\n"


def evaluate(text: str, values: dict[str, Any]) -> Any:
    """Return the value of an expression in the names of programs and `values`."""
    # As globals, so that functions within see them too. The text is this module's own.
    return eval(text, {**NAMES, **values})


def target_of(seed: int) -> str:
    """Return the processor that a seed's program is compiled for: mostly the one that is there."""
    return {3: "avx2", 7: "sse2"}.get(seed % 10, "host")


def _is_float(x: Any) -> bool:
    return bool(x.dtype.kind == "f" or x.dtype.name == "bfloat16")


def grad_of(program: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Return the gradients of a weighted sum of the results by all inputs that are floats."""

    def gradients(*args: Any) -> Any:
        floats = [i for i, a in enumerate(args) if _is_float(a)]

        def loss(*leaves: Any) -> Any:
            given = list(args)
            for i, leaf in zip(floats, leaves, strict=True):
                given[i] = leaf
            total = wg.zeros(())
            for out in program(*given):
                if _is_float(out):
                    weight = wg.asarray(np.linspace(-1.0, 1.5, out.size).reshape(out.shape), dtype=wg.float32)
                    total = total + wg.sum(out.astype(wg.float32) * weight)
            return total

        return wg.grad(loss, argnums=tuple(range(len(floats))))(*(args[i] for i in floats)) if floats else (args[0],)

    return gradients


def jvp_of(program: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    """Return the results and their derivatives along a direction that depends on the inputs."""

    def derivative(*args: Any) -> Any:
        floats = [i for i, a in enumerate(args) if _is_float(a)]

        def part(*leaves: Any) -> Any:
            given = list(args)
            for i, leaf in zip(floats, leaves, strict=True):
                given[i] = leaf
            return tuple(out for out in program(*given) if _is_float(out))

        primals = tuple(args[i] for i in floats)
        out, tangent = wg.jvp(part, primals, tuple(p * 0.5 + 1.0 for p in primals))
        return (*out, *tangent)

    return derivative


TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {"": lambda f: f, "grad": grad_of, "jvp": jvp_of}


# -- writing programs

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 129)
LARGEST, LARGE = 6000, (257, 1000, 4097)
SPECIAL = "[nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-40, -1e-42, 3e38, -65504.0, 7.0]"


class TooLarge(Exception):
    """A step would need an input that is too large."""


class Writer:
    """Writes a program, one line after another."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[str, Any] = {}
        self.inputs: list[Line] = []
        self.steps: list[Line] = []
        rng = self.rng
        self.sizes = [int(n) for n in rng.choice(SIZES, 4)]
        if rng.random() < 0.1:
            self.sizes[0] = int(rng.choice(LARGE))
        if rng.random() < 0.06:
            self.sizes[1] = 0
        self.special = rng.random() < 0.2
        self.dtype = str(rng.choice(FLOATS, p=(0.62, 0.22, 0.08, 0.08)))

    # -- choices

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def of(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """Return a shape of few sizes, so that shapes go together."""
        while True:
            n = min(most, max(least, self.of((0, 1, 1, 2, 2, 2, 2, 3, 3, 4))))
            shape = tuple(1 if self.chance(0.1) else int(self.of(self.sizes)) for _ in range(n))
            if np.prod(shape) <= LARGEST:
                return shape

    def floating(self, least: int = 0, most: int = 9) -> str:
        """Return a value of floats, of a number of axes; a new input where there is none."""
        return self._some(lambda x: _is_float(x) and least <= x.ndim <= most) or self.input(
            self.shape(least, min(most, 4)), self.dtype
        )

    def any_value(self, least: int = 0) -> str:
        return self._some(lambda x: x.ndim >= least) or self.input(self.shape(least), self.dtype)

    def _some(self, fits: Callable[[Any], bool]) -> str | None:
        names = [name for name, x in self.values.items() if fits(x)]
        if not names or self.chance(0.05):
            return None
        # Later ones more often, so that programs get deep.
        return names[max(self.below(len(names)), self.below(len(names)))]

    def like(self, shape: tuple[int, ...], dtype: str | None = None) -> str:
        """Return a value of just this shape and, if given, dtype."""
        found = self._some(lambda x: x.shape == shape and (x.dtype.name == dtype if dtype else _is_float(x)))
        return found or self.input(shape, dtype or self.dtype)

    def fitting(self, name: str) -> str:
        """Return a value that broadcasts with another one, in either direction."""
        shape = self.values[name].shape

        def fits(x: Any) -> bool:
            return _is_float(x) and all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], shape[::-1]))

        if self.chance(0.7):
            found = self._some(fits)
            if found:
                return found
        spread = [1 if self.chance(0.3) else n for n in shape[self.below(len(shape) + 1) :]]
        if self.chance(0.15) and np.prod(shape) < 300:
            spread = [self.of((2, 3)), *spread] if len(spread) == len(shape) else spread
        return self.input(tuple(spread), self.dtype)

    def axis(self, name: str) -> int:
        n = self.values[name].ndim
        return self.below(2 * n) - n if n else -1

    def axes(self, name: str) -> tuple[int, ...] | int | None:
        n = self.values[name].ndim
        chosen = tuple(a for a in range(n) if self.chance(0.5))
        return self.of((None, chosen, chosen, self.below(n))) if chosen and n else None

    # -- lines

    def new_name(self) -> str:
        return f"v{len(self.inputs) + len(self.steps)}"

    def input(self, shape: tuple[int, ...], dtype: str) -> str:
        """Add an input, and return its name."""
        seed = self.below(1 << 30)
        rng = f"np.random.default_rng({seed})"
        kind = self.of(("normal", "normal", "normal", "positive", "whole", "special" if self.special else "normal"))
        if dtype == "bool":
            text = f"np.asarray({rng}.random({tuple(shape)}) < 0.5)"
        elif dtype.startswith(("int", "uint")):
            low = 0 if dtype.startswith("u") else -20
            text = f"np.asarray({rng}.integers({low}, 21, {tuple(shape)})).astype('{dtype}')"
        elif dtype.startswith("complex"):
            parts = f"{rng}.standard_normal({tuple(shape)}) + 1j * {rng}.random({tuple(shape)})"
            text = f"np.asarray({parts}).astype('{dtype}')"
        elif kind == "special":
            text = f"np.asarray({rng}.choice({SPECIAL}, {tuple(shape)}))"
        elif kind == "whole":
            text = f"np.asarray({rng}.integers(-3, 4, {tuple(shape)})) * 1.0"
        elif kind == "positive":
            text = f"np.asarray({rng}.random({tuple(shape)}) + 0.5)"
        else:
            text = f"np.asarray({rng}.standard_normal({tuple(shape)}))"
        if dtype in FLOATS:
            text = f"np.asarray({text}).astype({dtype if dtype == 'bfloat16' else repr(dtype)})"
        return self._given(text)

    def index(self, shape: tuple[int, ...], below: int) -> str:
        """Add an input of indices, and return its name."""
        rng = f"np.random.default_rng({self.below(1 << 30)})"
        dtype = self.of(("int64", "int32"))
        return self._given(f"np.asarray({rng}.integers(0, {below}, {tuple(shape)})).astype('{dtype}')")

    def _given(self, text: str) -> str:
        name = self._add(text, self.inputs)
        if name is None:
            raise TooLarge
        return name

    def step(self, text: str) -> str | None:
        """Add a step, where it can be done and its values are worth having, and return its name."""
        return self._add(text, self.steps)

    def _add(self, text: str, to: list[Line]) -> str | None:
        name = self.new_name()
        with np.errstate(all="ignore"):
            try:
                value = wg.asarray(evaluate(text, self.values))
            except (wg.WengertError, ValueError, TypeError, IndexError, OverflowError, ZeroDivisionError):
                assert to is self.steps, text
                return None
            array = np.asarray(value)
            if array.size > 4 * LARGEST:
                return None
            if to is self.steps and array.size and _is_float(array):
                wild = ~np.isfinite(array.astype(np.float64))
                if wild.mean() > (0.7 if self.special else 0.1) and not self.chance(0.05):
                    return None
        self.values[name] = value
        to.append((name, text))
        return name
