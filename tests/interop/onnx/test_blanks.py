"""Nodes that leave an operand out: they run, or are refused by name, and no error is Python's own."""

from __future__ import annotations

import copy
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx_suite import node_cases, node_modules  # noqa: E402

from wengert.interop.onnx import OnnxError, load  # noqa: E402
from wengert.interop.onnx.registry import MICROSOFT, operators  # noqa: E402

# What Python says of an operand that is None, or of too few.
INTERNAL = re.compile(r"\b(\w*Error|NoneType|None)\b|positional argument|object has no attribute")
# Without a bound it goes on until its body says otherwise.
ENDLESS = {"Loop"}


def check(model: Any, feeds: dict[str, Any]) -> None:
    """Leave out each operand of a model's first node in turn."""
    for i, name in enumerate(model.graph.node[0].input):
        if not name:
            continue
        less = copy.deepcopy(model)
        node = less.graph.node[0]
        node.input[i] = ""
        if name not in node.input:
            for group in (less.graph.input, less.graph.initializer):
                for k in [k for k, v in enumerate(group) if v.name == name]:
                    del group[k]
        given = {v.name for v in less.graph.input}
        try:
            load(less.SerializeToString())(**{k: v for k, v in feeds.items() if k in given})
        except OnnxError as e:
            first = str(e).partition("\n")[0]
            assert first.startswith("node "), (node.op_type, i, first)
            assert not INTERNAL.search(first.rpartition(" (")[0]), (node.op_type, i, first)


MODULES = node_modules()
OFTEN = set(MODULES[::5])


@pytest.mark.parametrize(
    "module",
    [pytest.param(m, id=m.rpartition(".")[2], marks=() if m in OFTEN else pytest.mark.slow) for m in MODULES],
)
def test_operands_of_onnxs_operators(module: str) -> None:
    """Of each operator two cases for each number of operands."""
    seen: Counter[Any] = Counter()
    for case in node_cases([module]):
        nodes = case.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type in ENDLESS:
            continue
        key = (nodes[0].op_type, len(nodes[0].input))
        seen[key] += 1
        if seen[key] <= 2:
            check(case.model, dict(zip([v.name for v in case.model.graph.input], case.data[0][0])))


ONE = np.ones((2, 2), np.float32)


@pytest.mark.parametrize("name", sorted(n for d, n in operators() if d == MICROSOFT))
@pytest.mark.parametrize("count", [1, 4, 9, 12])
def test_operands_of_onnxruntimes_operators(name: str, count: int) -> None:
    """Whatever the operands are: most are refused."""
    names = [f"v{i}" for i in range(count)]
    node = helper.make_node(name, names, ["y"], domain=MICROSOFT)
    initial = [numpy_helper.from_array(ONE, n) for n in names[1:]]
    value = helper.make_tensor_value_info("v0", TensorProto.FLOAT, [2, 2])
    graph = helper.make_graph([node], "g", [value], [onnx.ValueInfoProto(name="y")], initial)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
    check(helper.make_model(graph, opset_imports=opsets, ir_version=10), {"v0": ONE})
