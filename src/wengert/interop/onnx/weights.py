"""`Weights`: which of a document's initializers are weights to train, and which are constants of an exporter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .values import Known

# What PyTorch's exporter by graph says of the program that it exported: the parameters and the buffers, by their names.
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_TARGET = re.compile(r"^\w+: (PARAMETER|BUFFER|CONSTANT_TENSOR) target='([^']+)'", re.MULTILINE)
# The names that exporters make up: of constants, and of what they computed of weights beforehand.
_MADE_UP = re.compile(
    r"(_?val(ue)?_\d+(_\d+)?|onnx::\w+|scalar_tensor\w*|_(tensor_)?constant\w*|const_\w+|(.*[/._])?[Cc]onst(ant)?(_\w+)?|/.*_output_\d+)$"
)
# A single number of such a name, or of a private one, is part of a formula: an exponent, what keeps a root from 0.
_NUMBER = re.compile(r"(.*[Cc]onst(ant)?\w*|_\w+)$")
# The operands that are weights whatever they are called. What a norm multiplies by may be ones that a net does not
# train, and the state that a recurrent layer begins with is mostly zeros: these are not among them.
_WEIGHTS = {
    "MatMul": (0, 1),
    "Gemm": (0, 1, 2),
    "Einsum": (0, 1, 2, 3),
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "LSTM": (1, 2, 3, 7),
    "GRU": (1, 2, 3),
    "RNN": (1, 2, 3),
    "PRelu": (1,),
}
# A batch norm's means and variances are counted, not trained.
_STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}
# What moves elements, or changes their dtype.
_MOVES = {"Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Cast", "Slice", "Split", "Concat"}
# Exporters write a norm of groups as one of instances, with products and sums after it.
_NORMS = {"InstanceNormalization", "GroupNormalization"}
_AFFINE = {"Mul", "Add"}


class Weights:
    """An account of what a document says of its initializers, by how it names and uses them."""

    def __init__(self, proto: Any) -> None:
        said = [p.value for p in proto.graph.metadata_props if p.key == _SIGNATURE]
        self.tells = bool(said)
        self.told = {name: kind for text in said for kind, name in _TARGET.findall(text)}
        self.uses: dict[str, list[tuple[Any, int]]] = {}
        self.made: dict[str, Any] = {}
        for node in _nodes(proto):
            for i, name in enumerate(node.input):
                self.uses.setdefault(name, []).append((node, i))
            self.made.update((name, node) for name in node.output)

    def trains(self, name: str, array: Known) -> bool:
        """Return whether a floating initializer is a weight: what training moves in the program that was exported.

        Where the document tells of parameters, they are; other names of its maker's own are weights, too. Of what has
        a name that an exporter made up, the operands of products, convolutions and recurrent layers are, and what a
        norm of groups is multiplied by and moved by.
        """
        if name in self.told:
            return bool(self.told[name] == "PARAMETER")
        used = self._used(name)
        if used and all((node.op_type, i) in _STATISTICS for node, i in used):
            return False
        made_up = self.tells or _MADE_UP.match(name) or (array.ndim == 0 and _NUMBER.match(name))
        if not made_up:
            return True
        return array.ndim > 0 and any(
            i in _WEIGHTS.get(node.op_type, ()) or (array.size > 1 and self._is_affine(node, i)) for node, i in used
        )

    def _used(self, name: str) -> list[tuple[Any, int]]:
        """Return the nodes that read a name, through those that only move elements, each with the operand's number."""
        found, pending, seen = [], [name], {name}
        while pending:
            for node, i in self.uses.get(pending.pop(), ()):
                if node.op_type not in _MOVES:
                    found.append((node, i))
                elif i == 0 or node.op_type == "Concat":
                    after = [n for n in node.output if n not in seen]
                    seen.update(after)
                    pending += after
        return found

    def _is_affine(self, node: Any, i: int) -> bool:
        """Return whether a product or a sum is of what a norm of groups gives, moved or multiplied before at most."""
        if node.op_type not in _AFFINE:
            return False
        pending, seen = [node.input[1 - i]], set()
        while pending:
            name = pending.pop()
            before = self.made.get(name)
            if before is None or name in seen:
                continue
            seen.add(name)
            if before.op_type in _NORMS:
                return True
            if before.op_type in _MOVES or before.op_type == "Mul":
                pending += before.input
        return False


def _nodes(proto: Any) -> Iterator[Any]:
    """Yield all nodes of a document, those of graphs and functions inside too."""
    pending = [proto.graph, *proto.functions]
    while pending:
        for node in pending.pop().node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    pending.append(attribute.g)
                pending += attribute.graphs
