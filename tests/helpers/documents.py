"""Mutated documents of graphs: what is read is refused with a GraphError, or runs the same in both ways.

A mutant is a function of its seed: a graph of the corpus, as text or as JSON, changed in its bytes, in its tokens, or
in its structure (attributes, operands, sizes, dtypes, the graphs inside). After a change of the structure the
specs of what follows are inferred anew, so that the document agrees with itself and much is accepted: then the
interpreter and compiled code must agree on it.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from random_graphs import random_graph
from wengert.core.dims import Dim
from wengert.core.errors import WengertError
from wengert.core.graph.checked import inferred
from wengert.core.graph.snapshot import LEAVES, PARAMETER, input_node, located
from wengert.core.node import Node
from wengert.core.ops.op import DEFERRED, TABLE, find_op
from wengert.core.ops.record import SCALARS, abstract_input, bind
from wengert.core.spec import Spec, as_dtype, spec_of
from wengert.core.tensor import Tensor

DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


# -- the corpus


def _sample_graphs() -> Iterator[tuple[str, wg.Graph]]:
    """Yield each op at its samples, whole and with floats of other widths."""
    for name in DEFERRED:
        find_op(name)
    for name, op in sorted(TABLE.items()):
        if op.samples is None or name == "attr_probe":
            continue
        for i, call in enumerate(op.samples(np.random.default_rng(0))):
            for dtype in ("float64", "float32") if i % 2 else ("float64", "bfloat16"):
                args = [_argument(a, dtype) for a in call.args]
                try:
                    out = op.front(*args, **call.attrs) if op.kind == "composite" else bind(op, args, call.attrs)
                except WengertError:  # not of this dtype
                    continue
                yield f"{name} {i} {dtype}", wg.Graph.of(out, inputs=[a for a in args if isinstance(a, Tensor)])


def _argument(value: Any, floating: str) -> Any:
    if type(value) in SCALARS or value is None:
        return value
    array = np.asarray(value)
    dtype = as_dtype(floating) if array.dtype == np.float64 else array.dtype
    return abstract_input(spec_of(array.shape, dtype))


def _programs() -> Iterator[tuple[str, wg.Graph]]:
    def traced(fn: Callable[..., Any], *specs: Any) -> tuple[str, wg.Graph]:
        return fn.__name__, wg.graph(fn)(*specs)

    vector, matrix = wg.spec((3,)), wg.spec((4, 3))

    def loss(w: Tensor, x: Tensor) -> Tensor:
        return (wg.tanh(x @ w) ** 2).mean()

    def scanned(c: Tensor, xs: Tensor) -> Any:
        return wg.scan(lambda c, x: (wg.tanh(c + x), (c * x).sum()), c, xs)

    def scanned_backwards(c: Tensor, xs: Tensor, n: Tensor) -> Any:
        return wg.scan(lambda c, x: ((c[0] * 0.5 + x, c[1] + n), c[0][:2]), (c, n), xs, reverse=True)

    def while_(x: Tensor, n: Tensor) -> Any:
        return wg.while_loop(lambda s: s[1] < 5, lambda s: (wg.sin(s[0]) * x, s[1] + 1), (x, n), max_steps=9)

    def bounded(x: Tensor) -> Tensor:
        return wg.while_loop(lambda c: c.sum() < 10, lambda c: c * 2 + 1, wg.abs(x), max_steps=6)

    def cond(p: Tensor, x: Tensor) -> Tensor:
        return wg.cond(p.sum() > 0, lambda x: wg.sin(x) * p[0], lambda x: wg.exp(-x * x), x)

    def switch(i: Tensor, x: Tensor) -> Any:
        return wg.switch(i, [lambda x: (x, x.sum()), lambda x: (x * 2, x[0]), lambda x: (-x, x.max())], x)

    def nested(c: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            inner, _ = wg.scan(lambda d, y: (d * y + c.sum(), None), x.sum(), x)
            return wg.cond(inner > 0, lambda c: c + inner, lambda c: c - inner, c), inner

        return wg.scan(step, c, xs)

    def mapped(xs: Tensor) -> Tensor:
        return wg.map(lambda x: wg.nn.functional.softmax(x, -1) @ x, xs)

    def composites(x: Tensor, w: Tensor) -> Any:
        f = wg.nn.functional
        return f.layer_norm(f.gelu(x @ w), (3,)), f.log_softmax(x, 1), wg.linalg.vector_norm(w)

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        f = wg.nn.functional
        return f.max_pool2d(f.relu(f.conv2d(x, w, padding=1)), 2)

    def picked(x: Tensor, i: Tensor) -> Any:
        return x[i], wg.take_along_axis(x[:3], i[:, None], axis=1), wg.scatter_add(x, 0, i[:, None], x), x[1:, ::-2]

    def several(x: Tensor) -> Any:
        parts = wg.split(x, [1, 2], axis=1)
        return wg.unstack(parts[1], axis=1), wg.concat(parts[::-1], axis=1), wg.sort(x), wg.top_k(x, 2)

    def drawn(x: Tensor) -> Tensor:
        g = wg.random.Generator(3)
        return wg.nn.functional.dropout(x, 0.5) + wg.randn(4, 3, generator=g)

    def complexes(z: Tensor) -> Any:
        return wg.real(wg.fft.ifft(wg.fft.fft(z) * wg.exp(z))), wg.conj(z) * z, wg.abs(z)

    def counted(i: Tensor) -> Any:
        return (i * 3 - 1) // 2, i.sum(axis=0), wg.argmax(i, axis=1), (i & 7) < 4, wg.cumulative_sum(i, axis=0)

    def attended(q: Tensor, k: Tensor) -> Tensor:
        return wg.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    def factored(a: Tensor) -> Any:
        spd = a @ a.mT + wg.eye(3)
        return wg.linalg.cholesky(spd), wg.linalg.solve(spd, a), wg.linalg.svd(a), wg.einsum("ij,kj->ik", a, a)

    yield traced(loss, wg.spec((3, 2)), matrix)
    yield "gradient", wg.graph(wg.value_and_grad(loss, argnums=(0, 1)))(wg.spec((3, 2)), matrix)
    yield traced(scanned, vector, matrix)
    yield "gradient of a scan", wg.graph(wg.grad(lambda c, xs: scanned(c, xs)[1].sum(), (0, 1)))(vector, matrix)
    yield traced(scanned_backwards, vector, matrix, wg.spec((), wg.int64))
    yield traced(while_, vector, wg.spec((), wg.int64))
    yield traced(bounded, vector)
    yield "gradient of a while_loop", wg.graph(wg.grad(lambda x: bounded(x).sum()))(vector)
    yield traced(cond, vector, matrix)
    yield traced(switch, wg.spec((), wg.int64), vector)
    yield "gradient of a switch", wg.graph(wg.grad(lambda x, i: switch(i, x)[0].sum()))(vector, wg.spec((), wg.int64))
    yield traced(nested, vector, matrix)
    yield traced(mapped, matrix)
    yield traced(composites, matrix, wg.spec((3, 3)))
    normed = wg.grad(lambda x, w: composites(x, w)[0].sum(), 1)
    yield "gradient of composites", wg.graph(normed)(matrix, wg.spec((3, 3)))
    yield traced(convolved, wg.spec((2, 3, 6, 5)), wg.spec((4, 3, 3, 3)))
    yield (
        "gradient of convolution",
        wg.graph(wg.grad(lambda x, w: convolved(x, w).sum(), (0, 1)))(wg.spec((2, 3, 6, 5)), wg.spec((4, 3, 3, 3))),
    )
    yield traced(picked, wg.spec((5, 4)), wg.spec((3,), wg.int64))
    yield (
        "gradient of picks",
        wg.graph(wg.grad(lambda x, i: (picked(x, i)[0] ** 2).sum()))(wg.spec((5, 4)), wg.spec((3,), wg.int32)),
    )
    yield traced(several, wg.spec((4, 3)))
    yield traced(drawn, matrix)
    yield traced(complexes, wg.spec((4,), wg.complex128))
    yield traced(counted, wg.spec((3, 4), wg.int32))
    yield traced(attended, wg.spec((2, 5, 4)), wg.spec((2, 5, 4)))
    yield traced(factored, wg.spec((3, 3), wg.float64))
    yield "halves", wg.graph(lambda x: (wg.exp(x) * 2).sum(-1))(wg.spec((3, 4), "bfloat16"))
    yield "nothing", wg.graph(lambda x: (x.sum(), wg.concat([x, x]), wg.matmul(x, x.mT)))(wg.spec((0, 3)))
    constant = wg.asarray(np.arange(24, dtype=np.float32).reshape(4, 6))
    yield "constants", wg.graph(lambda x: x + constant)(wg.spec((4, 6)))
    x = wg.placeholder((None, 3), wg.float32, name="x")
    out = (wg.concat([x, x], axis=0) * 2.0, x[1:, :2].sum(), wg.nn.functional.softmax(x, 0))
    yield "unknown sizes", wg.Graph.of(out, inputs=[x])


@cache
def corpus() -> tuple[tuple[str, wg.Graph], ...]:
    """Return graphs of many kinds, by name: programs several times, since there are fewer of them."""
    programs = list(_programs())
    return (*_sample_graphs(), *(programs * 8), *((f"random {i}", random_graph(i)) for i in range(60)))


# -- mutants


class Mutant(NamedTuple):
    """A document, with the way in which it came about."""

    name: str
    text: str
    is_json: bool


def mutant(seed: int) -> Mutant:
    """Return the document of a seed."""
    rng = random.Random(seed)
    name, graph = rng.choice(corpus())
    how = rng.choices(("structure", "tokens", "bytes"), (12, 5, 2))[0]
    if how == "structure":
        for _ in range(rng.choice((1, 1, 2))):
            graph = changed(graph, rng)
    is_json = rng.random() < (0.2 if how == "structure" else 0.5)
    text = graph.to_json() if is_json else str(graph)
    if how == "bytes":
        text = _other_bytes(text, rng)
    elif how == "tokens":
        text = _other_json(text, rng) if is_json else _other_tokens(text, rng)
    return Mutant(f"{name}, {how}", text, is_json)


_PIECES = (*'()[]{},=:*-"\n #09e\0é', "->", "//")


def _other_bytes(text: str, rng: random.Random) -> str:
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 1, 1, 3, 40))
        text = text[:at] + rng.choice(("", *_PIECES)) * rng.choice((1, 1, 1, 3, 60, 1000)) + text[at + cut :]
    return text


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\w.]+|->|//|\s+|.', re.DOTALL)
_NUMBERS = (
    *"012378",
    "-1",
    "64",
    "65",
    "255",
    "2147483648",
    "9223372036854775807",
    "-9223372036854775808",
    "400000000",
)
_MORE_NUMBERS = ("400000000", "99999999999999999999", "1e400", "-0.0", "nan", "inf", "0.5")
_SHORT = ("bool", "i8", "u8", "i32", "i64", "u64", "f16", "bf16", "f32", "f64", "c64", "c128")


def _other_tokens(text: str, rng: random.Random) -> str:
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.randrange(6)
        if kind == 0:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 1:
            tokens[i] = tokens[j]
        elif kind == 2:
            tokens[i] = rng.choice(("", tokens[i] * 2))
        elif kind == 3:
            lines = "".join(tokens).split("\n")
            a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[a], lines[b] = lines[b], lines[a] if rng.random() < 0.7 else lines[b]
            tokens = _TOKEN.findall("\n".join(lines)) or [""]
        else:
            # Mostly something of the same kind: a number, a dtype, the name of an op or of a node.
            places = [k for k, t in enumerate(tokens) if t[:1].isalnum()] or [i]
            at = rng.choice(places)
            word = tokens[at]
            pool: Sequence[str] = [t for t in tokens if t[:1].isalpha()]
            if word[:1].isdigit():
                pool = (*_NUMBERS, *_MORE_NUMBERS, str(int(word) + 1) if word.isdigit() else word)
            elif word in _SHORT:
                pool = _SHORT
            elif word in TABLE:
                pool = sorted(TABLE)
            tokens[at] = rng.choice(pool or [""])
    return "".join(tokens)


def _other_json(text: str, rng: random.Random) -> str:
    document = json.loads(text)
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_places(document))
        holder, key = rng.choice(places)
        value = holder[key]
        kind = rng.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            other, at = rng.choice(places)
            holder[key] = json.loads(json.dumps(_at(other, at)))
        elif kind == 2 and isinstance(holder, list):
            holder.insert(key, value)
        elif isinstance(value, bool) or value is None:
            holder[key] = rng.choice((True, False, None, 0, 1, "x", [], {}))
        elif isinstance(value, int):
            near = (value + 1, value - 1, float(value), str(value))
            holder[key] = rng.choice((0, 1, -1, 2, 64, 10**9, 2**63, 10**30, *near))
        elif isinstance(value, str):
            holder[key] = rng.choice((*DTYPES, *sorted(TABLE), value[1:], value * 2, "", "\ud800", 3, None))
        else:
            holder[key] = rng.choice(([], {}, [value], {"float": "nan"}, {"size": "n"}, {"dtype": "float32"}, 7, None))
    out = json.dumps(document)
    return out if rng.random() < 0.95 else out.replace("[", "[" * rng.choice((2, 200, 2000)), 1)


def _at(holder: Any, key: Any) -> Any:
    """Return what is at a place, which may be gone by now."""
    try:
        return holder[key]
    except (KeyError, IndexError):
        return None


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    stack = [document]
    while stack:
        holder = stack.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], (dict, list)):
                stack.append(holder[key])


# -- changes of the structure


def changed(graph: wg.Graph, rng: random.Random) -> wg.Graph:
    """Return a graph with one node other than it was, and what follows inferred anew where that can be."""
    at = rng.randrange(len(graph.nodes)) if graph.nodes else -1
    replace: dict[Node, Node] = {}
    for i, node in enumerate(graph.nodes):
        if node.op in LEAVES:
            spec = node.spec
            if i == at and node in graph.inputs:
                replace[node] = input_node(_other_spec(spec, rng), node.attrs["name"], node.op is PARAMETER)
            else:
                replace[node] = node
            continue
        op, attrs = node.op, dict(node.attrs)
        inputs = [replace[e] if isinstance(e, Node) else e for e in node.inputs]
        if i == at:
            op, inputs, attrs = _other_node(op, inputs, attrs, list(replace.values()), rng)
        try:
            spec = inferred(op, [e.spec if isinstance(e, Node) else e for e in inputs], attrs)
        except Exception:  # whether the loader finds it too is the question
            spec = node.spec
        replace[node] = located(op, tuple(inputs), attrs, spec)
    outputs = [replace[n] for n in graph.outputs]
    if rng.random() < 0.05 and outputs:
        outputs[rng.randrange(len(outputs))] = rng.choice(list(replace.values()))
    return wg.Graph(outputs, [replace[n] for n in graph.inputs], graph.name)


def _other_node(
    op: Any, inputs: list[Any], attrs: dict[str, Any], others: list[Node], rng: random.Random
) -> tuple[Any, list[Any], dict[str, Any]]:
    kind = rng.randrange(10)
    if kind < 6 and attrs:
        key = rng.choice(sorted(attrs))
        attrs[key] = _other_value(attrs[key], rng)
    elif kind < 8 and inputs:
        k = rng.randrange(len(inputs))
        number = rng.choice((1.5, 0, 2, -1, True, 1j, 10**20))
        inputs[k] = rng.choice(others) if rng.random() < 0.7 and others else number
    elif kind == 8 and inputs:
        inputs = rng.choice((inputs[1:], [*inputs, inputs[0]], inputs[::-1]))
    else:
        same = [o for o in TABLE.values() if o.kind != "leaf" and set(o.attr_names) == set(attrs) and o is not op]
        same = [o for o in same if len(o.params) == len(op.params)]
        op = rng.choice(same) if same else op
    return op, inputs, attrs


def _other_spec(spec: Spec, rng: random.Random) -> Spec:
    if rng.random() < 0.35:
        return spec.with_dtype(as_dtype(rng.choice((*DTYPES, *COMPLEX))))
    shape = list(spec.shape)
    kind = rng.randrange(5)
    if kind == 0 or not shape:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((0, 1, 2, 3)))
    elif kind == 1:
        shape.pop(rng.randrange(len(shape)))
    elif kind == 2:
        rng.shuffle(shape)
    else:
        shape[rng.randrange(len(shape))] = rng.choice((0, 1, 2, 3, 4, 5, 8, 17, Dim.named("n")))
    return spec.with_shape(tuple(shape))


def _other_value(value: Any, rng: random.Random) -> Any:
    if isinstance(value, wg.Graph):
        return changed(value, rng)
    if isinstance(value, np.dtype):
        return as_dtype(rng.choice((*DTYPES, *COMPLEX)))
    if isinstance(value, bool) or value is None:
        return rng.choice((True, False, None, 0, 1, 2, 3.0))
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, -value, 0, 1, 2, 3, 5, 64, 2**31, 2**63 - 1, 2**64, 1.0, True, None))
    if isinstance(value, float):
        return rng.choice((0.0, 1.0, -1.0, 2.5, 1, -3, float("nan"), float("inf"), 1e300, True, None))
    if isinstance(value, str):
        return rng.choice((value[1:], value[::-1], value + "a", "tanh", "none", "ortho", "forward", "ab,bc->ca", ""))
    if isinstance(value, tuple) and value:
        items, i = list(value), rng.randrange(len(value))
        kind = rng.randrange(6)
        if kind == 0:
            items.pop(i)
        elif kind == 1:
            items.insert(i, items[i])
        elif kind == 2:
            rng.shuffle(items)
        else:
            items[i] = _other_value(items[i], rng)
        return tuple(items)
    return rng.choice(((), (0,), (-1,), (1, 2), 0, (None,), ((0, 1, None),)))
