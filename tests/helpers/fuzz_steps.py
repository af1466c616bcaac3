"""The steps that random programs are made of, by family, and how often each is taken."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz_programs import FLOATS, Program, TooLarge, Writer, words

UNARY = words(
    "exp expm1 log log1p log2 log10 sigmoid sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh special.erf "
    "special.erfc sqrt rsqrt square abs negative reciprocal relu floor ceil round trunc sign positive special.lgamma "
    "special.digamma"
)
TAME = words("tanh sigmoid sin cos special.erf abs relu negative square atan asinh sign")
ACTIVATIONS = words("gelu silu softplus logsigmoid elu celu selu leaky_relu hardtanh hardswish mish softsign relu6")
BINARY = words("add subtract multiply divide maximum minimum add multiply subtract hypot atan2 copysign logaddexp")
RARE_BINARY = words("remainder floor_divide nextafter")
COMPARE = words("less less_equal greater greater_equal equal not_equal")
REDUCE = words("sum mean max min prod sum mean max logsumexp var std sum")
NUMBERS = ("2.0", "-1.0", "0.5", "0.0", "3", "1", "-0.25", "10.0", "-2")
WHOLE_DTYPES = ("int64", "int32", "int8", "uint8", "int16", "uint32", "uint16", "uint64")
COMPLEX_DTYPES = ("complex64", "complex128")


def unary(w: Writer) -> Any:
    return w.step(f"wg.{w.of(w.of((UNARY, TAME)))}({w.floating()})")


def activation(w: Writer) -> Any:
    return w.step(f"F.{w.of(ACTIVATIONS)}({w.floating()})")


def binary(w: Writer) -> Any:
    x = w.floating()
    y = w.fitting(x)
    x, y = (x, y) if w.chance(0.5) else (y, x)
    return w.step(f"wg.{w.of(RARE_BINARY if w.chance(0.1) else BINARY)}({x}, {y})")


def with_number(w: Writer) -> Any:
    x, c = w.floating(), w.of(NUMBERS)
    op = w.of(("+", "*", "-", "/", "+", "*"))
    return w.step(w.of((f"{x} {op} {c}", f"{c} {op} {x}", f"wg.maximum({x}, {c})", f"{x} ** {c}")))


def choose(w: Writer) -> Any:
    x = w.floating()
    y = w.fitting(x)
    mask = w.of(
        (
            f"{x} > {w.of(NUMBERS)}",
            f"wg.{w.of(COMPARE)}({x}, {y})",
            f"wg.{w.of(('isnan', 'isinf', 'isfinite', 'signbit'))}({x})",
            f"wg.logical_{w.of(('and', 'or', 'xor'))}({x} > 0, {y} < 1)",
        )
    )
    a, b = w.of(((x, y), (y, x), (x, "0.0"), ("1.0", x), (y, "-1")))
    return w.step(w.of((f"wg.where({mask}, {a}, {b})", f"wg.torch.masked_fill({x}, {mask}, {w.of(NUMBERS)})", mask)))


def clip(w: Writer) -> Any:
    return w.step(f"wg.clip({w.floating()}, {w.of(('-0.5', '0.0', 'None', '-2.0'))}, {w.of(('0.5', '1.0', '3.0'))})")


def cast(w: Writer) -> Any:
    to = w.of((*FLOATS, "float32", "float64", "bool", *WHOLE_DTYPES))
    return w.step(f"wg.astype({w.any_value()}, wg.{to})")


def whole(w: Writer) -> Any:
    """Add work on integers and booleans."""
    dtype = w.of((*WHOLE_DTYPES, "bool"))
    x = w._some(lambda x: x.dtype.kind in "iub") or w.input(w.shape(), dtype)
    y = w.like(w.values[x].shape, w.values[x].dtype.name)
    axis = w.axes(x)
    return w.step(
        w.of(
            (
                f"{x} {w.of('+-*')} {y}",
                f"{x} {w.of('&|^')} {y}",
                f"wg.{w.of(('maximum', 'minimum', 'remainder', 'floor_divide'))}({x}, {y})",
                f"wg.{w.of(('sum', 'max', 'min', 'prod', 'any', 'all', 'count_nonzero'))}({x}, axis={axis})",
                f"wg.mean({x}.astype(wg.float32), axis={axis})",
                f"wg.{w.of(COMPARE)}({x}, {y})",
                f"wg.cumulative_sum({x}, axis={w.axis(x)})",
                f"wg.where({x} > 0, {x}, {y})",
                f"~{x}",
            )
        )
    )


def complex_numbers(w: Writer) -> Any:
    """Add work on complex numbers, from real ones and back to such."""
    x = w._some(lambda x: x.dtype.kind == "c") or w.input(w.shape(), w.of(COMPLEX_DTYPES))
    y = w.like(w.values[x].shape, w.values[x].dtype.name)
    axis = w.axes(x)
    return w.step(
        w.of(
            (
                f"{x} {w.of('+-*/')} {y}",
                f"{x} {w.of('+-*/')} {w.of(NUMBERS)}",
                f"wg.{w.of(('exp', 'sin', 'tanh', 'sqrt', 'square', 'conj', 'negative'))}({x})",
                f"wg.{w.of(('real', 'imag', 'abs'))}({x})",
                f"wg.{w.of(('sum', 'mean', 'prod'))}({x}, axis={axis})",
                f"wg.where(wg.real({x}) > 0, {x}, {y})",
                f"wg.stack([{x}, {y}])",
            )
        )
    )


def reduction(w: Writer) -> Any:
    x = w.floating(0)
    how = w.of(REDUCE)
    return w.step(f"wg.{how}({x}, axis={w.axes(x)}, keepdims={w.chance(0.5)})")


def normalised(w: Writer) -> Any:
    """Add a reduction whose result is used again where it came from."""
    x = w.floating(1)
    axis = w.axes(x)
    r = w.step(f"wg.{w.of(('sum', 'mean', 'max', 'min', 'var', 'logsumexp'))}({x}, axis={axis}, keepdims=True)")
    if r is None:
        return None
    y = w.step(f"{w.of((x, w.fitting(x)))} {w.of(('-', '*', '+', '/'))} {r}")
    if y is not None and w.chance(0.5):
        z = w.step(f"wg.{w.of(TAME)}({y})") or y
        r = w.step(f"wg.{w.of(('sum', 'mean', 'max'))}({z}, axis={w.of((axis, axis, w.axes(x)))}, keepdims=True)")
        return r and w.step(f"{z} {w.of(('-', '*', '+'))} {r}")
    return y


def arg_reduction(w: Writer) -> Any:
    x = w.any_value(1)
    return w.step(f"wg.arg{w.of(('max', 'min'))}({x}, axis={w.axis(x)}, keepdims={w.chance(0.5)})")


def reshape(w: Writer) -> Any:
    x = w.any_value()
    shape = list(w.values[x].shape)
    how = w.below(4)
    if how == 0:
        shape = [-1] if 0 not in shape else [0]
    elif how == 1 and len(shape) > 1:
        i = w.below(len(shape) - 1)
        shape[i : i + 2] = [shape[i] * shape[i + 1]]
    elif how == 2 and shape:
        i = w.below(len(shape))
        divisors = [d for d in (2, 3, 4, 5, 8) if shape[i] % d == 0]
        if divisors:
            d = w.of(divisors)
            shape[i : i + 1] = [shape[i] // d, d]
    else:
        shape.insert(w.below(len(shape) + 1), 1)
    return w.step(f"wg.reshape({x}, {tuple(shape)})")


def permute(w: Writer) -> Any:
    x = w.any_value(2)
    axes = tuple(int(a) for a in w.rng.permutation(w.values[x].ndim))
    return w.step(w.of((f"wg.permute_dims({x}, {axes})", f"{x}.mT")))


def slices(w: Writer) -> Any:
    x = w.any_value(1)
    entries = []
    for n in w.values[x].shape:
        a, b = sorted((w.below(n + 1), w.below(n + 1)))
        step = w.of((1, 1, 2, 3))
        entries.append(w.of((":", ":", "::-1", f"{a}:{b}", f"{a}::{step}", f"::-{step}", f"-{a + 1}:", "None", str(b))))
    return w.step(f"{x}[{', '.join(entries)}]")


def moved(w: Writer) -> Any:
    x = w.any_value(1)
    axis = w.axis(x)
    pads = [(w.below(3), w.below(3)) for _ in w.values[x].shape]
    return w.step(
        w.of(
            (
                f"wg.flip({x}, axis={axis})",
                f"wg.roll({x}, {w.below(5) - 2}, axis={axis})",
                f"wg.pad({x}, {pads}, value={w.of(('0.0', '1.0'))})",
                f"wg.repeat({x}, {w.of((2, 3))}, axis={axis})",
                f"wg.tile({x}, {w.of((2, (2, 1), (1, 3)))})",
                f"wg.tril({x})",
                f"wg.triu({x}, {w.below(3) - 1})",
                f"wg.diagonal({x})",
                f"wg.squeeze({x}, axis={axis})",
                f"wg.expand_dims({x}, axis={axis})",
                f"wg.broadcast_to({x}, ({w.of((2, 3))}, *{x}.shape))",
            )
        )
    )


def joined(w: Writer) -> Any:
    x = w.floating(1)
    dtype = w.values[x].dtype.name
    y = w.like(w.values[x].shape, dtype)
    z = w.of(([x, y], [x, x], [x, y, x], [y, x]))
    return w.step(f"wg.{w.of(('concat', 'stack', 'concat'))}([{', '.join(z)}], axis={w.axis(x)})")


def parted(w: Writer) -> Any:
    x = w.any_value(1)
    return w.step(f"wg.{w.of(('array_split', 'torch.chunk'))}({x}, {w.of((2, 3))}, {w.axis(x)})[{w.below(2)}]")


def indexed(w: Writer) -> Any:
    x = w.floating(1)
    shape = w.values[x].shape
    if 0 in shape:
        return None
    how = w.below(6)
    axis = w.axis(x)
    if how == 0:
        return w.step(f"wg.take({x}, {w.index((w.of((1, 5, 17)),), shape[axis])}, axis={axis})")
    if how == 1:
        return w.step(f"{x}[{w.index(w.shape(1, 2), shape[0])}]")
    if how == 2:
        return w.step(f"wg.take_along_axis({x}, {w.index(shape, shape[axis])}, axis={axis})")
    if how == 3:
        i = w.index(w.shape(0, 2), 7)
        return w.step(f"wg.nn.functional.one_hot({i}, 7).astype(wg.{w.values[x].dtype.name})")
    if how == 4:
        return w.step(f"F.embedding({w.index(w.shape(1, 2), shape[0])}, {x})") if len(shape) == 2 else None
    source = w.like(shape, w.values[x].dtype.name)
    return w.step(f"wg.scatter_add({x}, {axis}, {w.index(shape, shape[axis])}, {source})")


def ordered(w: Writer) -> Any:
    x = w.floating(1)
    axis = w.axis(x)
    k = w.of((1, 2, 3))
    return w.step(
        w.of(
            (
                f"wg.sort({x}, axis={axis}, descending={w.chance(0.5)})",
                f"wg.argsort({x}, axis={axis}, descending={w.chance(0.5)})",
                # Which of equals are chosen is not said.
                f"wg.stop_gradient(wg.top_k({x}, {k}, axis={axis})[0])",
                f"wg.cumulative_sum({x}, axis={axis})",
                f"wg.cumulative_prod({x}, axis={axis})",
                f"wg.median({x}, axis={axis})",
            )
        )
    )


def product(w: Writer) -> Any:
    """Add a matrix product, often followed by what its kernel may take along."""
    x = w.floating(2, 4)
    *lead, m, k = w.values[x].shape
    n = w.of((*w.sizes, 1, 10, 17))
    if m * n * max(1, int(np.prod(lead))) > 4000:
        return None
    dtype = w.values[x].dtype.name
    how = w.below(7)
    if how == 0:
        r = w.step(f"{x} @ {w.like((k, n), dtype)}")
    elif how == 1:
        r = w.step(f"{x} @ {w.like((n, k), dtype)}.mT")
    elif how == 2:
        r = w.step(f"{x}.mT @ {w.like((*lead, m, n), dtype)}")
    elif how == 3:
        r = w.step(f"{x} @ {w.of((x, x))}.mT")
    elif how == 4:
        r = w.step(f"{x} @ {w.like((k,), dtype)}")
    elif how == 5:
        r = w.step(f"F.linear({x}, {w.like((n, k), dtype)}, {w.like((n,), dtype)})")
    else:
        r = w.step(f"wg.einsum('{w.of(('...ij,...kj->...ik', '...ij,...kj->...ki', '...ij,...ij->...j'))}', {x}, {x})")
    if r is None or w.chance(0.4):
        return r
    shape = w.values[r].shape
    if w.chance(0.6) and shape:
        r = w.step(f"{r} + {w.like(shape[-1:], dtype)}") or r
    if w.chance(0.5):
        r = w.step(f"{w.of(('wg.relu', 'wg.tanh', 'F.gelu', 'wg.sigmoid'))}({r})") or r
    if w.chance(0.3):
        r = w.step(f"{w.like(shape, dtype)} {w.of('+-*')} {r}") or r
    return r


def image(w: Writer) -> Any:
    """Add convolutions and pools of small images."""
    size = w.of((1, 3, 5, 7, 8, 12))
    x = w._some(lambda x: x.ndim == 4 and x.dtype.name in ("float32", "float64") and min(x.shape) > 0)
    dtype = "float64" if w.dtype == "float64" else "float32"
    x = x or w.input((w.of((1, 2, 3)), w.of((1, 2, 3, 8, 17)), size, w.of((size, 6))), dtype)
    dtype = w.values[x].dtype.name
    c = w.values[x].shape[1]
    if w.values[x].size > 3000:
        return None
    k = w.of((1, 2, 3, 3))
    stride, padding = w.of((1, 1, 2)), w.of((0, 0, 1))
    how = w.below(5)
    if how < 3:
        groups = c if c in (2, 3, 8) and w.chance(0.15) else 1
        out = c if groups > 1 else w.of((1, 3, 8, 16, 20))
        kernel = w.like((out, c // groups, k, k), dtype)
        bias = w.of(("None", w.like((out,), dtype)))
        r = w.step(
            f"F.conv2d({x}, {kernel}, {bias}, stride={stride}, padding={padding}, groups={groups}, "
            f"dilation={w.of((1, 1, 1, 2))})"
        )
        return r and w.chance(0.6) and w.step(f"wg.{w.of(('relu', 'tanh'))}({r})")
    return w.step(f"F.{w.of(('max', 'avg'))}_pool2d({x}, {k}, {w.of((stride, k))}, {min(padding, k // 2)})")


def composite(w: Writer) -> Any:
    x = w.floating(1)
    shape, dtype = w.values[x].shape, w.values[x].dtype.name
    n = shape[-1]
    how = w.below(10)
    if how < 2:
        return w.step(f"F.{w.of(('softmax', 'log_softmax'))}({x}, {w.axis(x)})")
    if how == 2:
        return w.step(f"F.layer_norm({x}, ({n},), {w.like((n,), dtype)}, {w.like((n,), dtype)})")
    if how == 3:
        return w.step(f"F.rms_norm({x}, ({n},), {w.like((n,), dtype)})")
    if how == 4 and len(shape) == 2 and n:
        return w.step(f"F.cross_entropy({x}, {w.index(shape[:1], n)})")
    if how == 5 and len(shape) >= 2:
        c = shape[1]
        y = w.of((x, w.like((c,), dtype)))
        return w.step(f"F.group_norm({x}, {w.of((1, c))})") if y == x else w.step(f"F.normalize({x}, {w.axis(x)})")
    if how == 6:
        return w.step(f"F.{w.of(('mse_loss', 'huber_loss', 'l1_loss', 'smooth_l1_loss'))}({x}, {w.like(shape, dtype)})")
    if how == 7:
        return w.step(f"wg.{w.of(('torch.norm', 'logsumexp', 'std'))}({x}, axis={w.axes(x)})")
    if how == 8 and len(shape) >= 3:
        key = w.like(shape, dtype)
        return w.step(f"F.scaled_dot_product_attention({x}, {key}, {key}, is_causal={w.chance(0.5)})")
    return w.step(f"wg.nn.functional.cosine_similarity({x}, {w.like(shape, dtype)}, {w.axis(x)})")


def control(w: Writer) -> Any:
    """Add loops and branches, whose bodies are programs within the program."""
    x = w.floating(1)
    shape, dtype = w.values[x].shape, w.values[x].dtype.name
    y, row = w.like(shape, dtype), w.like(shape[1:], dtype)
    inner = w.of((f"wg.sin(c) + {y}", f"c * 0.5 - wg.mean({y}, 0)", "wg.tanh(c).sum(-1, keepdims=True) - c", f"{y}"))
    return w.step(
        w.of(
            (
                f"wg.fori_loop(0, {w.of((0, 1, 3, 7))}, lambda i, c: {inner}, {x})",
                f"wg.cond(wg.sum({x}) > 0, lambda c: {inner}, lambda c: c * 2, {x})",
                f"wg.while_loop(lambda c: wg.max(wg.abs(c)) < 2, lambda c: c * 1.5 + 0.1, {x}, max_steps=9)",
                f"wg.scan(lambda c, r: (wg.tanh(c * 0.5 + r), c - r), {row}, {x})[{w.below(2)}]",
                f"wg.scan(lambda c, r: (c * 0.5 + wg.max(r), r + c), {row}, {x}, reverse=True)[1]",
            )
        )
    )


def constant(w: Writer) -> Any:
    shape = w.shape()
    return w.step(
        w.of(
            (
                f"wg.zeros({tuple(shape)}, dtype=wg.{w.dtype})",
                f"wg.full({tuple(shape)}, {w.of(NUMBERS)}, dtype=wg.{w.dtype})",
                f"wg.asarray(np.linspace(-1, 2, {int(np.prod(shape))}).reshape({tuple(shape)}), dtype=wg.{w.dtype})",
                f"wg.arange({w.of(w.sizes)}, dtype=wg.{w.dtype})",
            )
        )
    )


FAMILIES: tuple[tuple[float, Callable[[Writer], Any]], ...] = (
    (5, unary),
    (1.5, activation),
    (6, binary),
    (3, with_number),
    (2.5, choose),
    (1, clip),
    (1.5, cast),
    (2, whole),
    (0.7, complex_numbers),
    (5, reduction),
    (3, normalised),
    (0.7, arg_reduction),
    (2.5, reshape),
    (2.5, permute),
    (2.5, slices),
    (2, moved),
    (1.5, joined),
    (0.7, parted),
    (1.7, indexed),
    (1, ordered),
    (3.5, product),
    (1.2, image),
    (3, composite),
    (0.7, control),
    (0.5, constant),
)
_STEPS = [step for _, step in FAMILIES]
_WEIGHTS = np.array([weight for weight, _ in FAMILIES]) / sum(weight for weight, _ in FAMILIES)


def random_program(seed: int) -> Program:
    """Return the program of a seed."""
    w = Writer(seed)
    for _ in range(1 + w.below(3)):
        w.input(w.shape(), w.dtype)
    length = 2 + w.below(6) if w.chance(0.6) else 8 + w.below(16)
    for _ in range(3 * length):
        with contextlib.suppress(TooLarge):
            _STEPS[int(w.rng.choice(len(_STEPS), p=_WEIGHTS))](w)
        if len(w.steps) >= length:
            break
    names = list(w.values)
    outputs = [names[-1], *(w.of(names) for _ in range(w.below(4)))]
    transform = w.of(("", "", "", "grad", "jvp"))
    donated = frozenset(name for name, _ in w.inputs if w.chance(0.25))
    return Program(tuple(w.inputs), tuple(w.steps), tuple(outputs), transform, donated).pruned()
