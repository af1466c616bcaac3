"""Graphs from outside: what a document says is checked before anything is printed or run by it."""

from __future__ import annotations

import contextlib
import json
import random
import re
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from document_checks import check, checked
from documents import Mutant, corpus, mutant
from wengert.core.dims import Dim
from wengert.core.graph.checked import inferred
from wengert.core.graph.values import pack, unpack
from wengert.core.ops.attributes import KINDS, is_kind, is_role
from wengert.core.ops.op import DEFERRED, TABLE, Call, Op, find_op
from wengert.core.ops.record import SCALARS
from wengert.core.spec import spec_of

# -- control flow: the graphs inside


def scan(body: str, header: str = "(c: f32[3], x: f32[4,3])", given: str = "c x", **attrs: Any) -> str:
    attrs = {"carries": 1, "sequences": 1, "length": 4, "reverse": False, "keeps": False, **attrs}
    inner = ", ".join(f"{k}={v}" for k, v in attrs.items())
    return f"""graph{header} -> f32[3]
      s: (f32[3], f32[4]) = scan[body={{ graph{body} }}, {inner}] {given}
      o: f32[3] = output[index=0] s
      return o"""


GIVES = "-> (f32[3], f32[]) a: f32[] = sum[axis=(-1,), keepdims=False] x\nreturn c, a"
WRONG_LOOPS = {
    "rows that are larger": (scan(f"(c: f32[3], x: f32[40]) {GIVES}"), "takes f32[40] as number 1 and is given f32[3]"),
    "rows of another dtype": (scan(f"(c: f32[3], x: f64[3]) {GIVES.replace('f32[]', 'f64[]')}"), "takes f64[3]"),
    "a state that is larger": (scan(f"(c: f32[4], x: f32[3]) {GIVES.replace('f32[3]', 'f32[4]')}"), "takes f32[4]"),
    "a state that grows": (
        scan("(c: f32[3], x: f32[3]) -> (f32[4], f32[]) a: f32[] = sum[axis=(-1,), keepdims=False] x\n"
             "b: f32[4] = pad[widths=((0, 1),)] c\nreturn b, a"),
        "gives f32[4] as number 0 and takes f32[3]",
    ),
    "fewer rows than steps": (scan(f"(c: f32[3], x: f32[3]) {GIVES}", length=5), "over 5 rows of f32[4,3]"),
    "more sequences than inputs": (scan(f"(c: f32[3], x: f32[3]) {GIVES}", sequences=2), "2 sequences and 1 inputs"),
    "a sequence without axes": (
        scan(f"(c: f32[3], x: f32[3]) {GIVES}", "(c: f32[3], x: f32[])"), "over 4 rows of f32[]"
    ),
    "states that are not kept": (scan(f"(c: f32[3], x: f32[3]) {GIVES}", keeps=True), "does not give the state"),
    "a negative count": (scan(f"(c: f32[3], x: f32[3]) {GIVES}", carries=-1), "carries=-1"),
    "a condition of another size": (
        """graph(x: f32[3]) -> f32[3]
          w: (f32[3],) = while_loop[cond={ graph(x: f32[1]) -> bool[1]
            a: bool[1] = less x 3.0
            return a }, body={ graph(x: f32[3]) -> f32[3]
            a: f32[3] = add x 1.0
            return a }, carries=1, max_steps=None] x
          o: f32[3] = output[index=0] w
          return o""",
        "the condition takes f32[1] as number 0 and is given f32[3]",
    ),
    "a condition that is no scalar": (
        """graph(x: f32[3]) -> f32[3]
          w: (f32[3],) = while_loop[cond={ graph(x: f32[3]) -> bool[3]
            a: bool[3] = less x 3.0
            return a }, body={ graph(x: f32[3]) -> f32[3]
            return x }, carries=1, max_steps=3] x
          o: f32[3] = output[index=0] w
          return o""",
        "gives (bool[3],), not a scalar",
    ),
    "branches of other results": (
        """graph(i: i64[], x: f32[3]) -> f32[3]
          s: (f32[3],) = switch[branches=({ graph(x: f32[3]) -> f32[3] return x },
                                          { graph(x: f32[3]) -> f32[] a: f32[] = sum[axis=(-1,), keepdims=False] x
                                            return a })] i x
          o: f32[3] = output[index=0] s
          return o""",
        "branch 1 gives f32[] as number 0 and branch 0 gives f32[3]",
    ),
    "a branch that takes more": (
        """graph(i: i64[], x: f32[3]) -> f32[3]
          s: (f32[3],) = switch[branches=({ graph(x: f32[3], y: f32[3]) -> f32[3] return y },)] i x
          o: f32[3] = output[index=0] s
          return o""",
        "branch 0 takes 2 values and is given 1",
    ),
    "an index that is no number": (
        """graph(i: f32[], x: f32[3]) -> f32[3]
          s: (f32[3],) = switch[branches=({ graph(x: f32[3]) -> f32[3] return x },)] i x
          o: f32[3] = output[index=0] s
          return o""",
        "switch on f32[], not on an i64[]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_LOOPS)
def test_graphs_inside_fit_the_node_that_holds_them(name: str) -> None:
    text, words = WRONG_LOOPS[name]
    with pytest.raises(wg.GraphError, match=re.escape(words)) as caught:
        wg.Graph.parse(text)
    assert "line " in str(caught.value)


def test_the_loops_that_are_changed_above_are_read() -> None:
    graph = wg.Graph.parse(scan(f"(c: f32[3], x: f32[3]) {GIVES}"))
    assert graph(np.ones(3, "f"), np.ones((4, 3), "f")).shape == (3,)


def test_traces_are_under_the_same_rules() -> None:
    body = wg.Graph.parse(f"graph(c: f32[3], x: f32[40]) {GIVES}")
    attrs = {"body": body, "carries": 1, "sequences": 1, "length": 4, "reverse": False, "keeps": False}
    with pytest.raises(wg.GraphError, match="takes f32"):
        wg.graph(lambda c, x: TABLE["scan"].front(c, x, **attrs))(wg.spec((3,)), wg.spec((4, 3)))


# -- nodes


def node(line: str, inputs: str = "x: f32[4,3], y: f32[3], i: i64[4]") -> str:
    spec = line.partition("=")[0].partition(":")[2].strip()
    return f"graph({inputs}) -> {spec}\n  {line}\n  return a"


WRONG_NODES = {
    "a: f32[4,3] = add x y": "a broadcast is a node of its own",
    "a: i64[4] = add i 1.5": "the literal 1.5",
    "a: i64[4] = add i 9223372036854775808": "does not fit int64",
    f"a: f32[3] = add y {10**400}": "does not fit float32",
    "a: f32[3] = reshape[shape=(3,)] 1.0": "at least one node",
    "a: f32[3] = matvec x 1.0": "matvec does not take the literal 1.0",
    "a: f32[3] = add y complex(0.0, 1.0)": "make it a constant, or cast",
    "a: f32[3] = add y None": "does not take the literal None",
    'a: f32[3] = add y "1"': "does not take the literal '1'",
    "a: f32[3] = sum[axis=(-1,), keepdims=False] 1.0": "at least one node",
    "a: f32[4] = sum[axis=(-1,), keepdims=0] x": "keepdims=0",
    "a: f32[4] = sum[axis=-1, keepdims=False] x": "axis=-1",
    "a: f32[4] = sum[axis=(1,), keepdims=False] x": "axis=(1,)",
    "a: f32[4] = sum[axis=(-3,), keepdims=False] x": "axis=(-3,), of f32[4,3]",
    "a: f32[] = sum[axis=(-1, -2), keepdims=False] x": "a sorted tuple of axes",
    "a: f32[4,3] = softmax[axis=1] x": "counted from the right",
    "a: f32[3,4] = permute[axes=(-1, -1)] x": "an order of the last axes",
    "a: f32[4,3] = roll[shift=(1, 2), axis=(-1,)] x": "2 shifts for 1 axes",
    "a: f32[4,3] = cast[dtype=3] x": "it takes a dtype",
    'a: f32[4,3] = gelu[approximate="sigmoid"] x': "'none' or 'tanh'",
    "a: f32[4,3] = layer_norm[axes=2147483648, eps=0.1] x": "a number of the last axes",
    "a: f32[4,3] = layer_norm[axes=2, eps=0.1] x y": "a norm of",
    "a: f32[3] = slice[entries=(-1, (None, None, None))] x": "out of range",
    "a: f32[3] = slice[entries=(4, (None, None, None))] x": "out of range",
    "a: f32[4,3] = slice_update[entries=((0, 2, None), (None, None, None))] x x": "an update of (2, 3)",
    "a: f32[5,5] = embed_diagonal[offset=2, rows=6, columns=6] y": "at 2",
    'a: f32[3] = einsum[subscripts="ab,b->a"] x x': "einsum",
    'a: f32[3] = einsum[subscripts="ab->c"] x': "einsum",
    "a: f32[4] = gather[axis=-1] x i": "gather of",
    "a: f32[4,3] = gather[axis=-1] x x": "has integers",
    "a: f32[3] = where y y y": "has booleans",
    "a: f32[4,3] = index_update[axis=-2] x y y": "has integers",
    "a: f32[3] = concat[axis=-1] y i": "cast one of them",
    "a: i64[4] = exp i": "exp does not take i64[4]",
    "a: i64[] = mean[axis=(-1,), keepdims=False] i": "mean does not take i64[4]",
    "a: f32[3] = polygamma[n=1000000] y": "an order of a derivative",
    "a: f32[4,3] = linear x x y": "linear of",
    "a: f32[4] = unstack[axis=-1] x": "gives (f32[4], f32[4], f32[4])",
    "a: f32[3] = output[index=0] y": "several results",
    "a: u64[3] = random_bits[key=(1, 2), counter=-1, shape=(3,), dtype=u64]": "a position in a stream",
    "a: f32[3] = random_uniform[key=(1, 2, 3), counter=0, shape=(3,), dtype=f32]": "a pair of 64-bit words",
    "a: f32[3] = random_bits[key=(1, 2), counter=0, shape=(3,), dtype=f32]": "uint32 or uint64",
    "a: u8[3] = random_integers[key=(1, 2), counter=0, shape=(3,), dtype=u8, low=0, high=300]": "from 0 to 300",
    "a: f32[3] = conv3d y": "not an op of the table",
    "a: f32[3] = constant [1.0, 2.0, None]": "None is no number of float32",
    "a: i64[3] = constant [1, 2, 2.5]": "2.5 is no number of int64",
    "a: u8[3] = constant [1, 2, 256]": "not a constant of u8[3]",
    "a: f16[3] = constant [1.0, 2.0, 100000.0]": "more than float16 holds",
    "a: f32[3] = constant [1.0, 2.0, 1e400]": "more than a float holds",
    'a: f32[3] = constant ["1", 2.0, 3.0]': "'1' is no number",
    "a: f32[n] = constant [1.0]": "a constant of f32[n]",
    "a: (f32[3], f32[3]) = constant [1.0]": "a constant of (f32[3], f32[3])",
    "a: f32[3] = exp[k=1, k=2] y": "stands here twice",
    "a: f32[4,3] = multiply x x\n  b: f32[4,3] = split[sizes=(1, 1), axis=-1] a": "split of",
}


@pytest.mark.parametrize("line", WRONG_NODES)
def test_a_node_is_what_its_op_could_have_recorded(line: str) -> None:
    with pytest.raises(wg.GraphError, match=re.escape(WRONG_NODES[line])) as caught:
        wg.Graph.parse(node(line))
    assert "line " in str(caught.value).splitlines()[0]


def test_literals_are_read_in_the_category_of_what_stands_beside_them() -> None:
    graph = wg.Graph.parse("graph(x: f32[2]) -> f32[2]\n  a: f32[2] = multiply x 2\n  return a")
    assert graph == wg.graph(lambda x: x * 2)(wg.spec((2,)))
    assert "multiply x 2.0" in str(graph)


FLOATS = (1.0, -1.0, 0.5, 0.0)
NUMBERS = {"int8": (1, 0, 2), "float16": FLOATS, "float32": FLOATS, "complex64": (1j, 0j)}


@pytest.mark.parametrize("name", sorted(n for n, op in TABLE.items() if op.kind == "elementwise" and not op.attr_names))
def test_a_number_beside_a_tensor_changes_no_dtype(name: str) -> None:
    op = TABLE[name]
    for dtype, numbers in NUMBERS.items():
        spec = spec_of((3,), np.dtype(dtype))
        for i, role in enumerate(op.roles.values()):
            if len(op.roles) == 1 or role != "same" or not getattr(spec, op.accepts):
                continue
            for number in numbers:
                boolean = np.array([True, False, True])
                args: list[Any] = [np.array([1, 2, 3], dtype) if r == "same" else boolean for r in op.roles.values()]
                args[i] = number
                specs = [a if type(a) in SCALARS else spec_of(a.shape, a.dtype) for a in args]
                with np.errstate(all="ignore"):
                    out = op.forward(*args)
                assert spec_of(out.shape, out.dtype) == inferred(op, specs, {})


def _tables() -> list[str]:
    for name in DEFERRED:
        find_op(name)
    return sorted(n for n, op in TABLE.items() if op.kind != "leaf")


@pytest.mark.parametrize("name", _tables())
def test_what_is_declared_holds_at_the_samples(name: str) -> None:
    op = TABLE[name]
    assert all(is_kind(kind) for kind in op.kinds.values())
    assert all(is_role(role) for role in op.roles.values())
    assert ":" not in op.signature
    for call in op.samples(np.random.default_rng(0)) if op.samples is not None else ():
        operands = [a if type(a) in SCALARS else spec_of(np.shape(a), np.asarray(a).dtype) for a in call.args]
        specs = inferred(op, operands, call.attrs)
        results = op.forward(*(np.asarray(a) if type(a) not in SCALARS else a for a in call.args), **call.attrs)
        several = results if isinstance(results, tuple) else (results,)
        assert [(s.shape, s.dtype) for s in (specs if isinstance(specs, tuple) else (specs,))] == [
            (r.shape, r.dtype) for r in several
        ]


def test_an_op_says_what_its_attributes_are() -> None:
    with pytest.raises(ValueError, match="what these are is not known"):
        Op("probe_of_kinds(x; unheard_of)", "general", lambda x, unheard_of: x, infer=lambda x, unheard_of: x)
    TABLE.pop("probe_of_kinds", None)
    assert set(KINDS) >= {"axis", "shape", "flag"}


# -- loaders raise one error

CONTROL = "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp x\n  return a"
BAD_TEXTS = {
    "deep brackets": f"graph f(x: f32[{'(' * 100_000}1{')' * 100_000}]) -> f32[1]\n  return x",
    "deep lists": "graph f() -> f32[1]\n  a: f32[1] = constant " + "[" * 100_000 + "]" * 100_000 + "\n  return a",
    "deep attributes": "graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = exp[k=" + "(" * 100_000 + "] x\n  return a",
    "deep graphs": "graph(x: f32[2]) -> f32[2]\n  a: f32[2] = exp[k={" * 5_000,
    "many digits": f"graph f(x: f32[{'9' * 5_000}]) -> f32[1]\n  return x",
    "a size beyond memory": f"graph f(x: f32[{10**30}]) -> f32[{10**30}]\n  return x",
    "sizes beyond memory with a zero": f"graph f(x: f32[0,{10**30}]) -> f32[0,{10**30}]\n  return x",
    "many axes": f"graph f(x: f32[{','.join('1' * 65)}]) -> f32[1]\n  return x",
    "a quotient by 0": "graph f(x: f32[n // (m - m)]) -> f32[1]\n  return x",
    "a quotient by what may be 0": "graph f(x: f32[n // (m - 100003), 3]) -> f32[3]\n"
    "  a: f32[3] = max[axis=(-2,), keepdims=False] x\n  return a\n  b",
    "numbers that only grow": f"graph f(x: f32[{'*'.join(['9' * 3000] * 2)}*n]) -> f32[1]\n  return x",
    "no string": 'graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = checkpoint_name[name="\\q"] x\n  return a',
    "a string without an end": 'graph f(x: f32[2]) -> f32[2]\n  a: f32[2] = checkpoint_name[name="',
    "a nul": "graph f(x: f32[2]\0) -> f32[2]\n  return x",
    "several results returned": "graph(x: f32[2]) -> (f32[], f32[])\n  a: (f32[], f32[]) = unstack[axis=-1] x\n"
    "  return a",
    "the same results taken": "graph(x: f32[2]) -> f32[2]\n  a: (f32[], f32[]) = unstack[axis=-1] x\n"
    "  b: f32[2] = exp a\n  return b",
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_texts_raise_nothing_but_graph_errors(name: str) -> None:
    with pytest.raises(wg.GraphError, match=r"^line \d+, column \d+: "):
        wg.Graph.parse(BAD_TEXTS[name])


def changed(change: Callable[[Any], Any], graph: wg.Graph | None = None) -> str:
    document = json.loads((graph or wg.Graph.parse(CONTROL)).to_json())
    return json.dumps(change(document) or document)


PAIR = wg.Graph.parse(
    "graph(x: f32[2]) -> f32[]\n  a: (f32[], f32[]) = unstack[axis=-1] x\n  b: f32[] = output[index=0] a\n  return b"
)
SIZES = {"size": "*".join(f"(a{i} + b{i})" for i in range(14))}
BAD_JSONS = {
    "deep": "[" * 100_000,
    "deep values": changed(lambda d: d["nodes"][1]["inputs"].append("HERE")).replace('"HERE"', "[" * 900 + "]" * 900),
    "many digits": changed(lambda d: None).replace('"version": 1', f'"version": {"9" * 5_000}'),
    "no document": "7",
    "an input that is computed": changed(lambda d: d.update(inputs=[1])),
    "an output with several results": changed(lambda d: d.update(outputs=[1]), PAIR),
    "another kind": changed(lambda d: d["nodes"][0].update(kind="parameter")),
    "a kind for a computation": changed(lambda d: d["nodes"][1].update(kind="constant")),
    "a version that is true": changed(lambda d: d.update(version=True)),
    "a name that is none": changed(lambda d: d.update(name="a b(")),
    "a path that is none": changed(lambda d: d["nodes"][1].update(path=[1])),
    "a name of an input that is none": changed(lambda d: d["nodes"][0].update(attrs={"name": 3})),
    "no operands": changed(lambda d: d["nodes"][1].pop("inputs")),
    "an operand that says two things": changed(
        lambda d: d["nodes"][1].update(inputs=[{"literal": 1.0, "graph": {}}])
    ),
    "a constant without bytes": changed(lambda d: d["nodes"][0].update(op="constant", kind="constant", attrs={})),
    "a constant of other bytes": changed(
        lambda d: d["nodes"][0].update(op="constant", kind="constant", attrs={"value": {"zlib": "é"}})
    ),
    "a size that is none": changed(lambda d: d["nodes"][0].update(shape=[True])),
    "a size below 0": changed(lambda d: d["nodes"][0].update(shape=[{"size": "n"}, -1])),
    "a size without an end": changed(lambda d: d["nodes"][0].update(shape=[SIZES])),
    "a dtype by another name": changed(lambda d: d["nodes"][0].update(dtype="f4,")),
    "an infinity": changed(lambda d: d["nodes"][1].update(inputs=[{"literal": float("inf")}])),
    "a float in words": changed(lambda d: d["nodes"][1].update(attrs={"k": {"float": "1_0"}})),
    "half a complex number": changed(lambda d: d["nodes"][1].update(attrs={"k": {"complex": [1.0]}})),
    "a graph that is none": changed(lambda d: d["nodes"][1].update(attrs={"k": {"graph": 7}})),
    "another line": changed(
        lambda d: d["nodes"][1].update(source={"file": "a", "line": "1", "function": "", "text": ""})
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_JSONS)
def test_jsons_raise_nothing_but_graph_errors(name: str) -> None:
    with pytest.raises(wg.GraphError) as caught:
        wg.Graph.from_json(BAD_JSONS[name])
    assert len(str(caught.value).splitlines()[0]) < 1000


@pytest.mark.parametrize("value", [None, 7, b"graph() ->", ["graph"]])
def test_documents_are_strings(value: Any) -> None:
    for read in (wg.Graph.parse, wg.Graph.from_json):
        with pytest.raises(wg.GraphError, match="is a string, not a"):
            read(value)


def test_a_stack_that_is_almost_full_is_a_graph_error() -> None:
    text = scan(f"(c: f32[3], x: f32[3]) {GIVES}")

    def read_at(depth: int) -> str:
        if depth:
            return read_at(depth - 1)
        try:
            return str(wg.Graph.parse(text) and "")
        except wg.GraphError as e:
            return str(e)

    told = set()
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit()):
        try:
            told.add(read_at(depth).partition(": ")[2][:15])
        except RecursionError:  # not even the call was possible
            break
    assert told == {"", "nested too deep"}


# -- time and memory

BOMBS = {
    "factors": lambda: "graph(x: f32[" + "*".join(f"(a{i} + b{i})" for i in range(14)) + "]) -> f32[1]\n  return x",
    "many products": lambda: "graph(" + ", ".join(
        f"x{i}: f32[(a + 1)*(b + 1)*(c + 1)*(d + 1)*(a - 1)]" for i in range(1_000)
    ) + ") -> f32[1]\n  return x0",
    "one long line": lambda: "graph(x: f32[2]) -> f32[100000]\n  a: f32[100000] = concat[axis=-1]" + " x" * 50_000
    + "\n  return a",
    "one long list": lambda: "graph() -> f32[50000]\n  a: f32[50000] = constant [" + "1.0, " * 50_000
    + "]\n  return a",
    "many results": lambda: f"graph(x: f32[{1 << 40}]) -> f32[]\n  a: (f32[],) = unstack[axis=-1] x\n  return x",
    "a dropout to be drawn": lambda: f"graph(x: f32[{1 << 40}]) -> f32[{1 << 40}]\n"
    f"  a: f32[{1 << 40}] = dropout[p=0.5, key=(1, 2), counter=0] x\n  return a",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_reading_takes_time_and_memory_by_the_length(name: str) -> None:
    text = BOMBS[name]()
    begin = time.process_time()
    with contextlib.suppress(wg.GraphError):
        wg.Graph.parse(text)
    assert time.process_time() - begin < 1 + 40e-6 * len(text)
    tracemalloc.start()
    with contextlib.suppress(wg.GraphError):
        wg.Graph.parse(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (1 << 20) + 500 * len(text)


def test_a_few_bytes_do_not_become_many() -> None:
    import base64
    import zlib

    packed = base64.b64encode(zlib.compress(bytes(1 << 27), 9)).decode()
    document = wg.graph(lambda: wg.asarray(np.arange(100.0)))().to_json()
    small = json.loads(document)
    small["nodes"][0].update(shape=[1 << 27], dtype="uint8", attrs={"value": {"zlib": packed}})
    tracemalloc.start()
    with pytest.raises(wg.GraphError, match="characters of data for"):
        wg.Graph.from_json(json.dumps(small))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40 * len(packed)


@pytest.mark.parametrize("size", [1, 17, 1000, 5000, 100_000])
def test_what_is_written_is_read_however_well_it_compresses(size: int) -> None:
    rng = np.random.default_rng(size)
    arrays = [np.zeros(size), np.ones(size, "i1"), np.eye(int(size**0.5), dtype="f"), rng.random(size) < 0.001]
    for value in (*arrays, np.arange(size), rng.normal(size=size), np.tile([1.5, -2.0], size // 2 + 1)):
        text = pack(value)
        assert value.nbytes <= 1024 + 128 * len(text)
        assert unpack(text, spec_of(value.shape, value.dtype)).tobytes() == value.tobytes()


def test_long_errors_are_cut() -> None:
    header = ", ".join(f"x{i}: f32[{i}]" for i in range(3_000))
    with pytest.raises(wg.GraphError) as caught:
        wg.Graph.parse(f"graph({header}) -> f32[1]\n  return {', '.join(f'x{i}' for i in range(3_000))}")
    assert len(str(caught.value)) < 2_000


# -- sizes that are not known


def test_formulas_have_an_end() -> None:
    n: Any = Dim.named("n")
    for step in (lambda size: size * n, lambda size: (size - 1) // 2):

        def grown(step: Callable[[Any], Any] = step) -> Any:
            size = n
            for _ in range(1000):
                size = step(size)
            return size

        with pytest.raises(wg.GraphError, match="more than 1,000 characters"):
            grown()
    terms: Any = sum(Dim.named(f"a{i}") for i in range(30))
    with pytest.raises(wg.GraphError, match="a product of sums"):
        terms * terms
    with pytest.raises(wg.GraphError, match="divided by 0"):
        terms // 0
    with pytest.raises(wg.GraphError, match="a quotient by 0"):
        (Dim.named("n") // (Dim.named("m") - 3)).bind({"n": 4, "m": 3})


def test_sizes_that_come_later_are_checked_too() -> None:
    x = wg.placeholder((None, 3), wg.float32, name="x")
    f = wg.function([x], x[4])
    assert f(wg.ones((5, 3))).shape == (3,)
    with pytest.raises(wg.RangeError, match="out of range"):
        f(wg.ones((4, 3)))


# -- mutants


def test_the_corpus_itself_is_read_and_run() -> None:
    counts: Counter[str] = Counter()
    for seed, (name, graph) in enumerate(random.Random(0).sample(corpus(), 60)):
        for is_json in (False, True):
            outcome = check(Mutant(name, graph.to_json() if is_json else str(graph), is_json), seed)
            counts[outcome.word] += 1
            assert not outcome.wrong, (name, outcome)
    assert counts["the same both ways"] + counts["interpreted"] > 100


def test_mutants_are_functions_of_their_seeds() -> None:
    assert [mutant(i) for i in range(20)] == [mutant(i) for i in range(20)]


@pytest.mark.parametrize("first", range(0, 1200, 300))
def test_mutants_are_refused_or_run_the_same_both_ways(first: int) -> None:
    counts: Counter[str] = Counter()
    failures = list(checked(first, first + 300, counts))
    assert failures == []
    assert counts["refused"] > 100
    assert counts["the same both ways"] + counts["interpreted"] > 60


def test_a_crash_is_found_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import document_checks

    def crashes(document: Mutant, seed: int) -> Any:
        if seed == 5:
            import ctypes

            ctypes.string_at(0)
        return document_checks.Outcome("refused")

    monkeypatch.setattr(document_checks, "check", crashes)
    counts: Counter[str] = Counter()
    (failure,) = checked(0, 10, counts)
    assert (failure.seed, failure.word) == (5, "crash")
    assert counts == {"refused": 9, "crash": 1}


def test_the_script_runs() -> None:
    script = str(Path(__file__).parents[2] / "scripts" / "fuzz_documents.py")
    found = subprocess.run([sys.executable, script, "--count", "20"], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "20 documents, 0 failed" in found.stdout
    assert Call is not None
