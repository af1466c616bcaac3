"""Programs that make tensors by sizes which are not known while they are traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
import wengert.numpy as wnp
import wengert.torch as torch

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
reference = pytest.importorskip("onnx.reference", reason="the package onnx is not installed")

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

F = wg.nn.functional

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "arange": lambda x: x + wg.arange(x.shape[0]),
    "arange from 1": lambda x: x + wg.arange(1, x.shape[0] + 1),
    "arange by 2": lambda x: wg.arange(0, 2 * x.shape[0] - 1, 2),
    "arange by 3": lambda x: wg.arange(2, 4 * x.shape[0], 3),
    "arange down": lambda x: wg.arange(x.shape[0], 0, -1),
    "arange down by 2": lambda x: wg.arange(x.shape[0] - 1, -1, -2),
    "arange of floats": lambda x: wg.arange(0.5, x.shape[0], 1.5),
    "arange of a dtype": lambda x: wg.arange(x.shape[0], dtype=wg.float64),
    "zeros": lambda x: (wg.zeros(x.shape[0]), wg.zeros(shape=x.shape[0]), x.new_zeros(x.shape[0])),
    "ones": lambda x: x + wg.ones((x.shape[0], 1)),
    "full": lambda x: (wg.full(x.shape[0], 3.0), wg.full((2,), x.shape[0]), wg.full_like(x, x.shape[0])),
    "eye": lambda x: (wg.eye(x.shape[0]) @ x, wg.eye(x.shape[0], 3, k=1), wg.eye(2, x.shape[0], k=-1)),
    "linspace": lambda x: wg.linspace(0.5, 3.0, x.shape[0]),
    "linspace without its end": lambda x: wg.linspace(0, 1, x.shape[0], endpoint=False),
    "linspace to a size": lambda x: wg.linspace(0, x.shape[0], 5),
    "linspace between tensors": lambda x: wg.linspace(x[0], x[-1], x.shape[0]),
    "logspace": lambda x: wg.logspace(0, 2, x.shape[0]),
    "numpy": lambda x: (
        wnp.arange(x.shape[0]) * 2,
        wnp.arange(1.0, x.shape[0]),
        wnp.zeros(x.shape),
        wnp.ones((x.shape[0], 2)),
        wnp.full(x.shape, 2.0),
        wnp.eye(x.shape[0], k=1),
        wnp.identity(x.shape[0]),
        wnp.tri(x.shape[0]),
        wnp.linspace(0, 1, x.shape[0]),
        wnp.logspace(0, 1, x.shape[0]),
    ),
    "torch": lambda x: (
        torch.arange(x.shape[0]),
        torch.zeros(x.shape[0]),
        torch.full((x.shape[0],), 2.0),
        torch.eye(x.shape[0]),
        torch.linspace(0, 1, x.shape[0]),
        torch.logspace(0, 1, x.shape[0]),
    ),
    "tile": lambda x: (wg.tile(x, 2), wg.tile(x, x.shape[0]), wg.tile(x, (x.shape[0], 1))),
    "repeat": lambda x: (wg.repeat(x, 2), wg.repeat(x, x.shape[0]), wg.repeat(x[:, None] * x, 3, axis=0)),
    "broadcast": lambda x: (wg.broadcast_to(x, (3, x.shape[0])), x[0].expand(x.shape[0])),
    "reshape": lambda x: (x.reshape(x.shape[0], 1), wg.tile(x, 2).reshape(2, x.shape[0])),
    "one_hot": lambda x: F.one_hot(wg.asarray([0, 1]), x.shape[0]),
    "diagonals": lambda x: (wg.diagonal(x[:, None] * x), wg.diagonal(x[:, None] * x, 1), wg.trace(x[:, None] * x)),
    "matrices of diagonals": lambda x: (wg.diag(x), wg.diag(x, -1)),
    "slices": lambda x: (x[1:], x[:-1], x[::-1], x[-2:], x[:2], x[1:-1], x[-1], x[None, 1, None], x[x.shape[0] // 2 :]),
    "slices of nothing": lambda x: (x[4:2], wg.sum(x[-2:-4]), x[2:4:-1], wg.grad(lambda v: wg.sum(v[4:2]) + v[0])(x)),
    "slices by steps": lambda x: (x[::2], x[1::3], x[:-2:-1], x[::-2]),
    "comparisons with a size": lambda x: (
        wg.arange(5) < x.shape[0],
        x.shape[0] <= wg.arange(5),
        wg.asarray([4]) == x.shape[0],
        wg.asarray(4) != x.shape[0],
        x.shape[0] > x,
    ),
    "roll": lambda x: (wg.roll(x, 1), wg.roll(x, 3), wg.roll(x, -5)),
    "split": lambda x: wg.split(wg.tile(x, 2), x.shape[0]),
    "a size as an index": lambda x: x[x.shape[0] - 1],
    "a size as a number": lambda x: (x * x.shape[0], x / wg.sqrt(x.shape[0]), wg.asarray(x.shape[0])),
    "a size in int8": lambda x: x.astype(wg.int8) * x.shape[0],
    "a size in float16": lambda x: x.astype(wg.float16) / x.shape[0],
    "powers and remainders": lambda x: x * (x.shape[0] ** 2 + x.shape[0] % 3 + divmod(x.shape[0], 2)[0]),
    "half, rounded up": lambda x: x[: -(-x.shape[0] // 2)],
    "a negative quotient": lambda x: x * 0 + (x.shape[0] - 10) // 3,
    "a negative remainder": lambda x: x * 0 + (1 - x.shape[0]) % 3,
    "a mask": lambda x: wg.where(wg.arange(x.shape[0]) > 2, x, 0.0),
    "a causal mask": lambda x: wg.tril(wg.ones(x.shape[0], x.shape[0])) @ x,
    "gradients": lambda x: wg.grad(
        lambda v: (
            (wg.repeat(v, 2) * wg.arange(2 * v.shape[0])).sum()
            + wg.diagonal(v[:, None] * wg.eye(v.shape[0])).sum()
            + (wg.diag(v) ** 2).sum()
        )
    )(x),
}

# What needs, or supposes, two elements.
_FROM_TWO = {"one_hot", "eye", "torch", "numpy", "slices", "slices by steps"}


def values(found: Any) -> list[Any]:
    return [np.asarray(v.detach().numpy()) for v in wg.tree.leaves(found)]


def same(want: list[Any], got: list[Any]) -> None:
    assert len(want) == len(got)
    for a, b in zip(want, got, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(b, a, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize("name", PROGRAMS)
def test_static_functions(name: str) -> None:
    x = wg.placeholder(("n",), name="x")
    compiled = wg.function([x], PROGRAMS[name](x))
    for n in (1, 4, 7) if name not in _FROM_TWO else (2, 4, 7):
        given = wg.asarray(np.linspace(0.5, 2, n, dtype=np.float32))
        same(values(PROGRAMS[name](given)), values(compiled(given)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_onnx(name: str) -> None:
    document = wg.interop.onnx.save(PROGRAMS[name], wg.spec(("n",)), None)
    (key,) = (i.name for i in document.graph.input)
    for n in (2, 4, 7):
        given = np.linspace(0.5, 2, n, dtype=np.float32)
        want = values(PROGRAMS[name](wg.asarray(given)))
        same(want, values(wg.interop.onnx.load(document)(given)))
        if name != "a size in float16":  # the evaluator has another rounding
            same(want, reference.ReferenceEvaluator(document).run(None, {key: given}))
        if onnxruntime is not None:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(document.SerializeToString(), options)
            same(want, session.run(None, {key: given}))


@pytest.mark.parametrize("layer", [wg.nn.LSTM, wg.nn.GRU, wg.nn.RNN])
def test_recurrent_layers_over_a_length_that_is_open(layer: Any) -> None:
    m = layer(3, 4, num_layers=2, bidirectional=True).eval()
    x = wg.placeholder(("t", "b", 3), name="x")
    compiled = wg.function([x], m(x))
    document = wg.interop.onnx.save(m, x.spec, None)
    for shape in ((5, 2, 3), (1, 4, 3)):
        given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = values(m(wg.asarray(given)))
        same(want, values(compiled(given)))
        same(want, values(wg.interop.onnx.load(document)(given)))  # the evaluator takes no rows backwards
        if onnxruntime is not None:
            same(want, onnxruntime.InferenceSession(document.SerializeToString()).run(None, {"x": given}))


LOOPS: dict[str, Callable[[Any], Any]] = {
    "while_loop": lambda x: wg.while_loop(lambda s: wg.sum(s) < 100, lambda s: 2 * s + 1, x),
    "cond": lambda x: wg.cond(wg.sum(x) > 0, lambda a: a * 2, lambda a: -a, x),
    "scan": lambda x: wg.scan(lambda c, r: (c * r + wg.sin(r), c), wg.ones(x.shape[1]), x),
    "space to depth": lambda x: x.reshape(x.shape[0] // 2, 2, x.shape[1]).sum(1),
    "a size to be worked out": lambda x: x.reshape(-1, 2, x.shape[1]).sum(1),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_shapes_of_what_is_open(name: str) -> None:
    f = LOOPS[name]
    x = wg.placeholder(("t", "b"), name="x")
    compiled, document = wg.function([x], f(x)), wg.interop.onnx.save(f, x.spec, None)
    for shape in ((4, 2), (2, 3)):
        given = np.random.default_rng(0).uniform(0.1, 1, shape).astype(np.float32)
        want = values(f(wg.asarray(given)))
        same(want, values(compiled(given)))
        same(want, reference.ReferenceEvaluator(document).run(None, {"x": given}))


def test_elements_that_do_not_fill_a_shape() -> None:
    x = wg.placeholder(("n",), name="x")
    compiled = wg.function([x], x.reshape(x.shape[0] // 2, 2))
    with pytest.raises(wg.ShapeError, match="3 elements do not fill 2"):
        compiled(wg.ones(3))
    for shape in ((3, 2), (x.shape[0] + 1,), (x.shape[0], 2)):
        with pytest.raises(wg.ShapeError, match="do not fill"):
            x.reshape(shape)


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: wg.arange(0, x.shape[0], 0.1), "arange: the step is 0.1 where a size is not known"),
        (lambda x: wg.arange(0, 9, x.shape[0]), "arange in steps of n"),
        (lambda x: wg.arange(0, x.shape[0], 0), "has no end"),
        (lambda x: wg.split(x, 2), "how many there are is not known"),
        (lambda x: x.shape[0] ** 0.5, "the size n is not known"),
        (lambda x: math.sqrt(x.shape[0]), "the size n is not known"),
        (lambda x: wnp.geomspace(1, 2, x.shape[0]), "the size n is not known"),
        (lambda x: torch.hann_window(x.shape[0]), "n is not known|n - 1 is not known"),
    ],
)
def test_what_needs_the_number_is_refused(f: Any, text: str) -> None:
    with pytest.raises(wg.WengertError, match=text):
        wg.graph(f)(wg.spec(("n",)))


def runtimes(document: Any) -> list[Callable[[Any], Any]]:
    (key,) = (i.name for i in document.graph.input)
    model = wg.interop.onnx.load(document)
    found = [lambda x: values(model(wg.asarray(x))), lambda x: values(wg.jit(lambda v: model(v))(wg.asarray(x)))]
    found.append(lambda x: reference.ReferenceEvaluator(document).run(None, {key: x}))
    if onnxruntime is not None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(document.SerializeToString(), options)
        found.append(lambda x: session.run(None, {key: x}))
    return found


# Slices that suppose an axis of so many elements.
SUPPOSED: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "the last three": (3, lambda x: x[-3:]),
    "the last three, by a NumPy integer": (3, lambda x: x[np.int64(-3) :]),
    "the first five": (5, lambda x: x[:5]),
    "backwards": (3, lambda x: x[:-4:-1]),
    "inside": (4, lambda x: x[2:-2]),
    "up to a size": (5, lambda x: x[: x.shape[0] - 5]),
    "from a size": (4, lambda x: x[x.shape[0] // 2 - 2 :]),
    "one of the last": (3, lambda x: x[-3]),
    "one of the first": (3, lambda x: x[2]),
    "one row": (3, lambda x: (x[:, None] * x)[2]),
    "a number of elements": (5, lambda x: wg.sum(x[:5]) / x[:5].shape[0]),
    "the gradient of the last three": (3, wg.grad(lambda x: wg.sum(x[-3:] ** 2))),
    "the gradient of the first five": (5, wg.grad(lambda x: wg.sum(x[:5] ** 2))),
    "the gradient inside": (4, wg.grad(lambda x: wg.sum(x[2:-2] ** 2))),
    "the gradient of a sum inside": (4, wg.grad(lambda x: wg.sum(x[2:-2]))),
}


@pytest.mark.parametrize("name", SUPPOSED)
def test_a_slice_that_does_not_lie_in_a_shorter_axis_is_refused(name: str) -> None:
    least, f = SUPPOSED[name]
    for opset in (13, 20):
        for run in runtimes(wg.interop.onnx.save(f, wg.spec(("n",)), None, opset=opset)):
            for n in range(9):
                x = np.arange(1, n + 1, dtype=np.float32)
                if n >= least:
                    same(values(f(wg.asarray(x))), run(x))
                else:
                    with pytest.raises(Exception, match=r"."):  # of every runtime another
                        run(x)


def test_a_slice_of_nothing_has_no_elements() -> None:
    for index in (slice(4, 2), slice(-2, -4), slice(2, 4, -1), slice(-4, -2, -1)):
        assert wg.graph(lambda x, index=index: x[index])(wg.spec(("n",))).outputs[0].spec.shape == (0,)


def test_a_range_that_would_have_less_than_no_elements_is_refused() -> None:
    x = wg.placeholder(("n",), name="x")
    compiled = wg.function([x], wg.arange(x.shape[0] - 1))
    with pytest.raises(wg.WengertError):
        compiled(wg.zeros(0))


# -- documents that compute with sizes

_ROWS = [("Shape", ["x"], ["s"], {}), ("Gather", ["s", "c0"], ["n"], {}), ("Gather", ["s", "c1"], ["m"], {})]
_TIMES = [("Cast", ["r0"], ["r"], {"to": 1}), ("Mul", ["x", "r"], ["y"], {})]
_COLUMN = [("Cast", ["q"], ["qf"], {"to": 1}), ("Unsqueeze", ["qf", "v1"], ["r"], {}), ("Mul", ["x", "r"], ["y"], {})]
_SQUARE = [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("MatMul", ["x", "t"], ["xx"], {})]
DOCUMENTS: dict[str, list[Any]] = {
    "ratio": [
        *_ROWS,
        ("Cast", ["n"], ["nf"], {"to": 1}),
        ("Cast", ["m"], ["mf"], {"to": 1}),
        ("Div", ["nf", "mf"], ["r0"], {}),
        *_TIMES,
    ],
    "root": [*_ROWS, ("Cast", ["n"], ["nf"], {"to": 1}), ("Sqrt", ["nf"], ["r0"], {}), *_TIMES],
    "negative quotient": [*_ROWS, ("Neg", ["n"], ["k"], {}), ("Div", ["k", "c2"], ["r0"], {}), *_TIMES],
    "negative remainder": [*_ROWS, ("Neg", ["n"], ["k"], {}), ("Mod", ["k", "c2"], ["r0"], {}), *_TIMES],
    "remainder": [*_ROWS, ("Mod", ["n", "c2"], ["r0"], {}), *_TIMES],
    "comparison": [*_ROWS, ("Less", ["m", "n"], ["r0"], {}), *_TIMES],
    "maximum": [*_ROWS, ("Max", ["m", "n"], ["r0"], {}), *_TIMES],
    "int32": [*_ROWS, ("Cast", ["n"], ["r0"], {"to": 6}), *_TIMES],
    "count": [("Size", ["x"], ["r0"], {}), *_TIMES],
    "range": [*_ROWS, ("Range", ["c0", "n", "c1"], ["q"], {}), *_COLUMN],
    "range of floats": [
        *_ROWS,
        ("Cast", ["n"], ["nf"], {"to": 1}),
        ("Range", ["f0", "nf", "f1"], ["q"], {}),
        *_COLUMN,
    ],
    "EyeLike": [*_SQUARE, ("EyeLike", ["xx"], ["e"], {}), ("MatMul", ["e", "x"], ["y"], {})],
    "Trilu": [*_SQUARE, ("Trilu", ["xx"], ["e"], {}), ("MatMul", ["e", "x"], ["y"], {})],
    "Resize of another axis": [
        ("Unsqueeze", ["x", "v01"], ["w"], {}),
        ("Resize", ["w", "", "scales"], ["z"], {"mode": "nearest"}),
        ("ReduceSum", ["z", "v1"], ["u"], {"keepdims": 0}),
        ("Squeeze", ["u", "v0"], ["y"], {}),
    ],
}
_CONSTANTS: dict[str, Any] = {
    **{f"c{i}": np.int64(i) for i in range(3)},
    "f0": np.float32(0),
    "f1": np.float32(1),
    "v0": np.array([0]),
    "v1": np.array([1]),
    "v01": np.array([0, 1]),
    "scales": np.array([1, 3, 1, 1], np.float32),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_that_compute_with_sizes(name: str) -> None:
    helper = onnx.helper
    read = {i for _, operands, _, _ in DOCUMENTS[name] for i in operands}
    constants = [
        helper.make_node("Constant", [], [key], value=onnx.numpy_helper.from_array(np.asarray(value)))
        for key, value in _CONSTANTS.items()
        if key in read
    ]
    nodes = [helper.make_node(op, given, made, **attrs) for op, given, made, attrs in DOCUMENTS[name]]
    ends = [helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, ["n", "m"]) for v in ("x", "y")]
    graph = helper.make_graph([*constants, *nodes], "sizes", ends[:1], ends[1:])
    document = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    model = wg.interop.onnx.load(document)
    x = wg.placeholder(("n", "m"), name="x")
    compiled = wg.function([x], model(x))
    for shape in ((5, 3), (2, 4), (3, 3)):
        given = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = reference.ReferenceEvaluator(document).run(None, {"x": given})
        same(want, values(model(given)))
        same(want, values(compiled(given)))


def test_an_open_axis_that_is_resized_is_refused() -> None:
    helper = onnx.helper
    ends = [helper.make_tensor_value_info(v, onnx.TensorProto.FLOAT, [1, 1, None, 3]) for v in ("x", "y")]
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 2, 1], np.float32))
    nodes = [
        helper.make_node("Constant", [], ["s"], value=scales),
        helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear"),
    ]
    document = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    with pytest.raises(wg.interop.onnx.OnnxError, match="axis 2, of the open size h, is resized"):
        wg.graph(wg.interop.onnx.load(document))(wg.spec((1, 1, "h", 3)))


def test_known_places_outside_of_an_axis_that_turns_out_shorter_are_refused() -> None:
    document = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, m] x, float[1, 1] u) => (float[2, m] y) '
        "{ i = Constant <value = int64[1, 1] {4}> () y = ScatterElements <axis = 1> (x, i, u) }"
    )
    x = wg.placeholder((2, "m"), name="x")
    compiled = wg.function([x], wg.interop.onnx.load(document)(x, wg.ones((1, 1))))
    assert compiled(wg.zeros((2, 5))).tolist() == [[0, 0, 0, 0, 1], [0] * 5]
    with pytest.raises(wg.RangeError):
        compiled(wg.zeros((2, 3)))
