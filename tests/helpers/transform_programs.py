"""Random programs whose functions are differentiated, batched, traced and looped over inside one another.

A program is a list of steps over earlier values; a step may apply a transform to a function of its
own, whose body may use every value computed before it, at any level. The same program runs on
Wengert (`Library`) and on nilpotent numbers (`jets.Oracle`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import wengert as wg


class _Own(wg.autograd.Function):
    """x sin x with its derivative written by hand."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return wg.sin(x) * x

    @staticmethod
    def backward(ctx, ct):
        (x,) = ctx.saved_tensors
        return ct * (wg.cos(x) * x + wg.sin(x))


@wg.custom_jvp
def _by_jvp(x):
    return wg.sin(x) * x


@_by_jvp.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return _by_jvp(x), t * (wg.cos(x) * x + wg.sin(x))


@wg.custom_vjp
def _by_vjp(x):
    return wg.sin(x) * x


_by_vjp.defvjp(lambda x: (_by_vjp(x), x), lambda x, ct: (ct * (wg.cos(x) * x + wg.sin(x)),))


class Library:
    """The same functions as `Oracle`'s, from `wg`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(wg, name)

    def norm(self, x: Any) -> Any:
        return wg.linalg.vector_norm(x)

    def less(self, a: Any, b: Any) -> Any:
        return a < b

    def count(self, x: Any) -> Any:
        return (x > 0).sum()

    def number(self, n: Any) -> Any:
        return wg.asarray(n).astype(wg.float64)

    def update(self, x: Any, key: Any, v: Any) -> Any:
        y = x + 0.0
        y[key] = v
        return y

    def constant(self, x: Any) -> Any:
        return wg.tensor(x)

    def own_rule(self, x: Any, kind: int) -> Any:
        return (_by_jvp, _by_vjp, _Own.apply)[kind](x)

    def no_grad(self, fn: Any, *args: Any) -> Any:
        with wg.no_grad():
            return fn(*args)

    def traced(self, fn: Any, *args: Any) -> Any:
        return wg.graph(fn)(*args)(*args)

    def jvp(self, fn: Any, args: Sequence[Any], i: int, tangent: Any) -> Any:
        tangents = [None] * len(args)
        tangents[i] = tangent
        return wg.jvp(fn, args, tangents)

    def linearize(self, fn: Any, args: Sequence[Any], i: int, tangent: Any) -> Any:
        out, push = wg.linearize(lambda x: fn(*args[:i], x, *args[i + 1 :]), args[i])
        push(tangent + 1.0)
        return out, push(tangent)

    def grad(self, fn: Any, args: Sequence[Any], i: int) -> Any:
        return wg.grad(fn, argnums=i)(*args)

    def value_and_grad(self, fn: Any, args: Sequence[Any], i: int) -> Any:
        return wg.value_and_grad(fn, argnums=i)(*args)

    def autograd(self, fn: Any, args: Sequence[Any], i: int) -> Any:
        if not args[i].requires_grad:
            return wg.grad(fn, argnums=i)(*args)
        inner = list(args)
        with wg.enable_grad():
            inner[i] = inner[i] * 1.0
            out = fn(*inner)
            if not out.requires_grad:
                return wg.zeros_like(args[i])
            (g,) = wg.autograd.grad(out, [inner[i]], create_graph=True, allow_unused=True)
        return wg.zeros_like(args[i]) if g is None else g

    def vjp(self, fn: Any, args: Sequence[Any], i: int, ct: Any) -> Any:
        return wg.vjp(fn, *args)[1](ct)[i]

    def jacobian(self, fn: Any, args: Sequence[Any], i: int, mode: str) -> Any:
        return wg.jacobian(fn, i, mode)(*args)

    def hessian(self, fn: Any, args: Sequence[Any], i: int) -> Any:
        return wg.hessian(fn, i)(*args)

    def hvp(self, fn: Any, args: Sequence[Any], i: int, tangent: Any) -> Any:
        return wg.hvp(lambda x: fn(*args[:i], x, *args[i + 1 :]), (args[i],), (tangent,))

    def vmap(self, fn: Any, in_axes: Sequence[int | None], out_axis: int, args: Sequence[Any]) -> Any:
        return wg.vmap(fn, tuple(in_axes), out_axis)(*args)

    def branch(self, pred: Any, yes: Any, no: Any, *args: Any) -> Any:
        if pred.is_abstract:
            return wg.cond(pred, yes, no, *args)
        return yes(*args) if pred else no(*args)

    def scan(self, fn: Any, init: Any, xs: Any, reverse: bool) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = fn(c, x)
            return c, c * 0.5

        return wg.scan(step, init, xs, reverse=reverse)

    def repeat(self, fn: Any, init: Any, limit: Any) -> Any:
        start = (wg.tensor(0), init)
        return wg.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, fn(s[1])), start, max_steps=3)[1]

    def fori(self, fn: Any, init: Any) -> Any:
        return wg.fori_loop(0, 2, lambda j, x: fn(x * (1.0 + self.number(j))), init)


# -- programs

Shape = tuple[int, ...]
SHAPES: tuple[Shape, ...] = ((), (2,), (3,), (2, 3), (3, 2), (2, 2), (1, 3))


@dataclass
class Step:
    """A step, which gives one value: an operation on earlier ones (by number), with parameters and functions."""

    name: str
    ids: tuple[int, ...]
    shape: Shape
    params: tuple[Any, ...] = ()


@dataclass
class Fn:
    """A function: its arguments and steps are numbered from `start`, after what it sees from outside."""

    start: int
    args: tuple[Shape, ...]
    steps: list[Step] = field(default_factory=list)
    cost: float = 1.0
    order: int = 0

    @property
    def shape(self) -> Shape:
        return self.steps[-1].shape

    def show(self, indent: str = "") -> str:
        lines = []
        for k, s in enumerate(self.steps):
            given = ", ".join([f"v{i}" for i in s.ids] + [repr(p) for p in s.params if not _functions(p)])
            lines.append(f"{indent}v{self.start + len(self.args) + k} = {s.name}({given})  # {s.shape}")
            for f in _functions(s.params):
                inside = ", ".join(f"v{f.start + j}" for j in range(len(f.args)))
                lines += [f"{indent}    of ({inside}):", f.show(indent + "        ")]
        return "\n".join(lines)


def _functions(params: Any) -> list[Fn]:
    if isinstance(params, Fn):
        return [params]
    return [f for p in params for f in _functions(p)] if isinstance(params, (tuple, list)) else []


def bound(xp: Any, fn: Fn, env: list[Any]) -> Callable[..., Any]:
    """Return the function as a Python one, over what it sees."""
    seen = env[: fn.start]

    def call(*args: Any) -> Any:
        inner = [*seen, *args]
        for s in fn.steps:
            inner.append(evaluate(xp, s, inner))
        return inner[-1]

    return call


def evaluate(xp: Any, s: Step, env: list[Any]) -> Any:
    args = [env[i] for i in s.ids]
    fns = [bound(xp, f, env) for f in _functions(s.params)]
    p = s.params
    match s.name:
        case "constant":
            return xp.constant(p[0])
        case "add":
            return args[0] + args[1]
        case "multiply":
            return args[0] * args[1]
        case "divide":
            return args[0] / (xp.square(args[1]) + 1.0)
        case "scaled":
            return 1.5 - args[0] * p[0]
        case "power":
            return args[0] ** 3 * 0.1
        case "exp":
            return xp.exp(args[0] * 0.3)
        case "masked_log":
            x = args[0]
            return xp.where(xp.less(p[0], x), xp.log(x - p[0]), 0.0)
        case "masked_sqrt":
            x = args[0]
            return xp.where(xp.less(x, p[0]), 0.0, xp.sqrt(x - p[0]))
        case "pick":
            return xp.where(xp.less(args[0], args[1]), args[1], args[2])
        case "integers":
            return xp.number(xp.count(args[0])) * 0.3 + args[1]
        case "peak":
            return args[0][xp.argmax(args[0])]
        case "index":
            return args[0][p[0]]
        case "update":
            return xp.update(args[0], p[0], args[1])
        case "stack":
            return xp.stack(args)
        case "concat":
            return xp.concat(args)
        case "norm":
            return xp.norm(args[0] + 0.7)
        case "fit":
            x, like = args[0], np.asarray(np.linspace(0.5, 1.5, math.prod(s.shape))).reshape(s.shape)
            return xp.tanh(x) if x.shape == s.shape else xp.tanh(xp.mean(x)) * xp.constant(like)
        case "mix":
            return sum((xp.mean(a) * 0.3 for a in args[1:]), args[0])
        case "einsum":
            return xp.einsum(p[0], *args)
        case "grad" | "hessian" | "autograd":
            return getattr(xp, s.name)(fns[0], args, p[1])
        case "value_and_grad":
            value, g = xp.value_and_grad(fns[0], args, p[1])
            return value * g
        case "jvp" | "linearize":
            out, tangent = getattr(xp, s.name)(fns[0], args[1:], p[1], args[0])
            return out * tangent
        case "hvp" | "vjp":
            return getattr(xp, s.name)(fns[0], args[1:], p[1], args[0])
        case "jacobian":
            return xp.jacobian(fns[0], args, p[1], p[2])
        case "vmap":
            return xp.vmap(fns[0], p[1], p[2], args)
        case "cond" | "branch":
            return getattr(xp, s.name)(xp.less(args[0], args[1]), *fns, *args[2:])
        case "switch":
            return xp.switch(xp.count(args[0]), fns, *args[1:])
        case "scan":
            carry, ys = xp.scan(fns[0], *args, p[1])
            return xp.sum(ys, axis=0) + carry
        case "repeat":
            return xp.repeat(fns[0], args[0], xp.count(args[1]))
        case "fori":
            return xp.fori(fns[0], args[0])
        case "checkpoint":
            return xp.checkpoint(fns[0])(*args)
        case "no_grad":
            return xp.no_grad(fns[0], *args)
        case "traced":
            return xp.traced(fns[0], *args)
    return getattr(xp, s.name)(*args, *p)


UNARY = ("sin", "cos", "tanh", "sigmoid", "square", "exp", "power", "scaled", "masked_log", "masked_sqrt", "own_rule")
DERIVATIVES = ("grad", "value_and_grad", "autograd", "hessian", "hvp", "vjp", "jvp", "linearize", "jacobian")
CONTROL = ("cond", "branch", "switch", "scan", "repeat", "fori", "checkpoint", "no_grad", "traced")


class Maker:
    """A maker of random programs, from a seed."""

    def __init__(self, seed: int, max_cost: float = 200.0, max_order: int = 4) -> None:
        self.rng = np.random.default_rng(seed)
        self.max_cost, self.max_order = max_cost, max_order

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def choose(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def array(self, shape: Shape) -> Any:
        return np.asarray(self.rng.uniform(-1.3, 1.3, shape))

    def function(
        self,
        outside: list[Shape],
        args: Sequence[Shape],
        depth: int,
        factor: float,
        order: int,
        out: Shape | None = None,
        length: int | None = None,
    ) -> Fn:
        """Return a function of `args` that sees `outside`; `factor` is how often it runs, `order` its derivatives."""
        fn = Fn(len(outside), tuple(args))
        shapes = [*outside, *args]
        for _ in range(length or int(self.rng.integers(1, 4))):
            step, cost, above = self.step(shapes, fn.start, depth, factor, order)
            fn.steps.append(step)
            shapes.append(step.shape)
            fn.cost += cost
            fn.order = max(fn.order, above)
        own = tuple(range(fn.start, len(shapes)))
        fn.steps.append(Step("mix", (own[-1], *own[:-1]), shapes[-1]))
        shapes.append(shapes[-1])
        if out is not None and shapes[-1] != out:
            fn.steps.append(Step("fit", (len(shapes) - 1,), out))
        return fn

    def operand(self, shapes: list[Shape], start: int, ok: Callable[[Shape], bool] = lambda s: True) -> int | None:
        """Return a value of a fitting shape: most often one of the function's own, sometimes one from outside."""
        own = [i for i in range(start, len(shapes)) if ok(shapes[i])]
        any_ = [i for i in range(len(shapes)) if ok(shapes[i])]
        if own and self.chance(0.75):
            return int(own[-1] if self.chance(0.5) else self.choose(own))
        return int(self.choose(any_)) if any_ else None

    def step(self, shapes: list[Shape], start: int, depth: int, factor: float, order: int) -> tuple[Step, float, int]:
        if depth and self.chance(0.55):
            made = self.transform(shapes, start, depth, factor, order)
            if made is not None:
                return made
        for _ in range(20):
            plain = self.plain(shapes, start)
            if plain is not None and math.prod(plain.shape) <= 40:
                return plain, 1.0, 0
        return Step("constant", (), (2,), (self.array((2,)),)), 1.0, 0

    def plain(self, shapes: list[Shape], start: int) -> Step | None:
        i = self.operand(shapes, start)
        assert i is not None
        s = shapes[i]
        n = len(s)
        match int(self.rng.integers(14)):
            case 0 | 1 | 2:
                name = self.choose(UNARY)
                params: tuple[Any, ...] = ()
                if name in ("scaled", "masked_log", "masked_sqrt"):
                    params = (round(float(self.rng.uniform(-0.8, 0.8)), 3),)
                elif name == "own_rule":
                    params = (int(self.rng.integers(3)),)
                return Step(name, (i,), s, params)
            case 3 | 4 | 5:
                j = self.operand(shapes, start, lambda t: _broadcast(s, t) is not None)
                shape = _broadcast(s, shapes[j])  # type: ignore[index]
                return Step(self.choose(("add", "multiply", "divide", "minimum")), (i, j), shape)  # type: ignore[arg-type]
            case 6 | 7:
                axis = None if not n or self.chance(0.5) else int(self.rng.integers(n))
                kind = self.choose(("sum", "mean", "max", "prod", "logsumexp", "softmax", "norm", "cumulative_sum"))
                if kind == "norm":
                    return Step("norm", (i,), ())
                if axis is None:
                    return Step(self.choose(("sum", "mean")), (i,), (), (None,))
                left = s[:axis] + s[axis + 1 :]
                return Step(kind, (i,), s if kind in ("softmax", "cumulative_sum") else left, (axis,))
            case 8:
                j = self.operand(shapes, start, lambda t: _product(s, t) is not None) if n else None
                return None if j is None else Step("matmul", (i, j), _product(s, shapes[j]))  # type: ignore[arg-type]
            case 9:
                if n != 1:
                    return Step("permute_dims", (i,), s[::-1], (tuple(reversed(range(n))),))
                j = self.operand(shapes, start, lambda t: len(t) == 1)
                return Step("einsum", (i, j), s + shapes[j], ("i,j->ij",))  # type: ignore[arg-type, index]
            case 10:
                keys = [0, -1, slice(1, None), slice(None, None, -1), np.array([1, 0, 1]), slice(0, 1)]
                key = self.choose(keys) if n and s[0] > 1 else ...
                if n and self.chance(0.3):
                    v = self.operand(shapes, start, lambda t: _broadcast(t, np.zeros(s)[key].shape) == _as(s, key))
                    return None if v is None else Step("update", (i, v), s, (key,)) if _unique(key) else None
                if n == 1 and self.chance(0.3):
                    return Step("peak", (i,), ())
                return Step("index", (i,), _as(s, key), (key,))
            case 11:
                j = self.operand(shapes, start, lambda t: t == s)
                if n and self.chance(0.5):
                    return Step("concat", (i, j), (2 * s[0], *s[1:]))  # type: ignore[arg-type]
                return Step("stack", (i, j), (2, *s)) if n < 2 else None  # type: ignore[arg-type]
            case 12:
                j = self.operand(shapes, start, lambda t: t == s)
                k = self.operand(shapes, start, lambda t: t == s)
                if self.chance(0.3):
                    return Step("integers", (i, j), s)  # type: ignore[arg-type]
                return Step("pick", (i, j, k), s)  # type: ignore[arg-type]
        if self.chance(0.3):
            return Step("stop_gradient", (i,), s)
        shape = (math.prod(s),)
        return Step("reshape", (i,), shape, (shape,)) if s else Step("broadcast_to", (i,), (2,), ((2,),))

    def transform(
        self, shapes: list[Shape], start: int, depth: int, factor: float, order: int
    ) -> tuple[Step, float, int] | None:
        ids = [self.operand(shapes, start) for _ in range(self.choose((1, 1, 2)))]
        args: list[Shape] = [shapes[i] for i in ids]  # type: ignore[index]
        kind = self.choose(("derivative", "derivative", "vmap", "control"))
        if kind == "vmap":
            return self.vmap(shapes, ids, args, depth, factor, order)  # type: ignore[arg-type]
        if kind == "derivative":
            return self.derivative(shapes, start, ids, args, depth, factor, order)  # type: ignore[arg-type]
        return self.control(shapes, start, ids, args, depth, factor, order)  # type: ignore[arg-type]

    def derivative(
        self, shapes: list[Shape], start: int, ids: list[int], args: list[Shape], depth: int, factor: float, order: int
    ) -> tuple[Step, float, int] | None:
        name = self.choose(DERIVATIVES)
        at = int(self.rng.integers(len(ids)))
        taken = 2 if name in ("hessian", "hvp") else 1
        often = math.prod(args[at]) ** (2 if name == "hessian" else 0 if name in ("jvp", "linearize") else 1)
        weight = often * 2**taken  # nilpotent numbers have twice the parts in every derivative
        if order + taken > self.max_order or factor * weight > self.max_cost:
            return None
        out = None if name in ("jvp", "linearize", "jacobian", "vjp") else ()
        fn = self.function(shapes, args, depth - 1, factor * max(weight, 1), order + taken, out)
        shape = args[at]
        extra: tuple[int, ...] = ()
        if name in ("jvp", "linearize", "hvp"):
            extra = (self._like(shapes, start, args[at]),)
        if name == "vjp":
            extra = (self._like(shapes, start, fn.shape),)
        if -1 in extra:
            return None
        params: tuple[Any, ...] = (fn, at)
        if name in ("jvp", "linearize"):
            shape = fn.shape
        elif name == "jacobian":
            shape, params = fn.shape + args[at], (fn, at, self.choose(("auto", "forward", "reverse")))
        elif name == "hessian":
            shape = args[at] * 2
        if len(shape) > 4 or math.prod(shape) > 40:
            return None
        return Step(name, (*extra, *ids), shape, params), often * fn.cost, taken + fn.order

    def _like(self, shapes: list[Shape], start: int, shape: Shape) -> int:
        found = self.operand(shapes, start, lambda t: t == shape)
        return -1 if found is None else found

    def vmap(
        self, shapes: list[Shape], ids: list[int], args: list[Shape], depth: int, factor: float, order: int
    ) -> tuple[Step, float, int] | None:
        axes: list[int | None] = [int(self.rng.integers(len(s))) if s else None for s in args]
        if len(ids) == 2 and self.chance(0.3):
            axes[int(self.rng.integers(2))] = None
        sizes = {s[a] for s, a in zip(args, axes, strict=True) if a is not None}
        if len(sizes) != 1:
            return None
        (size,) = sizes
        inner = [s if a is None else s[:a] + s[a + 1 :] for s, a in zip(args, axes, strict=True)]
        if factor * size > self.max_cost:
            return None
        fn = self.function(shapes, inner, depth - 1, factor * size, order)
        out = int(self.rng.integers(len(fn.shape) + 1))
        shape = (*fn.shape[:out], size, *fn.shape[out:])
        if math.prod(shape) > 40:
            return None
        return Step("vmap", tuple(ids), shape, (fn, tuple(axes), out)), size * fn.cost, fn.order

    def control(
        self, shapes: list[Shape], start: int, ids: list[int], args: list[Shape], depth: int, factor: float, order: int
    ) -> tuple[Step, float, int] | None:
        name = self.choose(CONTROL)

        def made(arguments: Sequence[Shape], out: Shape | None = None, often: int = 1, sees: Any = shapes) -> Fn:
            return self.function(sees, arguments, depth - 1, factor * often, order, out)

        if name in ("cond", "branch", "switch"):
            first = made(args)
            fns = [first, made(args, first.shape)]
            tests = [self.operand(shapes, start, lambda s: s == ()) for _ in range(2)]
            if name == "switch":
                fns.append(made(args, first.shape))
                tests = [self.operand(shapes, start)]
            if None in tests:
                return None
            cost, above = max(f.cost for f in fns), max(f.order for f in fns)
            return Step(name, (*tests, *ids), first.shape, (tuple(fns),)), cost, above  # type: ignore[arg-type]
        if name == "scan":
            xs = self.operand(shapes, start, lambda s: len(s) > 0)
            if xs is None:
                return None
            length = shapes[xs][0]
            fn = made([args[0], shapes[xs][1:]], args[0], length)
            return Step(name, (ids[0], xs), args[0], (fn, self.chance(0.3))), length * fn.cost, fn.order
        if name in ("repeat", "fori"):
            fn = made(args[:1], args[0], 3)
            used = (ids[0], self.operand(shapes, start)) if name == "repeat" else (ids[0],)
            return Step(name, used, args[0], (fn,)), 3 * fn.cost, fn.order  # type: ignore[arg-type]
        if name == "traced":
            # A traced function takes abstract tensors from around it only as arguments.
            fn = self.function([], args, depth - 1, factor, order)
            return Step(name, tuple(ids), fn.shape, (fn,)), fn.cost, fn.order
        fn = made(args)
        return Step(name, tuple(ids), fn.shape, (fn,)), fn.cost, fn.order


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _product(a: Shape, b: Shape) -> Shape | None:
    try:
        return (np.zeros(a) @ np.zeros(b)).shape
    except ValueError:
        return None


def _as(shape: Shape, key: Any) -> Shape:
    return np.zeros(shape)[key].shape


def _unique(key: Any) -> bool:
    return not isinstance(key, np.ndarray)
