"""From a document's graphs and functions to programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor
from .demands import demands
from .errors import OnnxError, refuse, shown, title
from .program import _ABSENT, Body, Context, Program, Step
from .registry import TRAINING, Rule, find
from .schemas import check, newest
from .told import place_of, stored
from .values import Known, array_of, element_type, holds, is_floating, numpy_dtype, package

_AI = ("", "ai.onnx")
_MOST_EXPANSIONS = 200
# Functions that call each other several times are short documents and long runs.
_MOST_NODES = 1 << 20


class Builder:
    """The maker of the programs of one document, with what they have in common: versions, functions, weights."""

    def __init__(self, model: Any, folder: str | None, limit: int, external: Any) -> None:
        self.onnx = package()
        self.folder = folder
        self.limit = limit
        self.external = external
        self.opsets = _versions(model.opset_import)
        self.functions = {(_domain(f.domain), f.name, f.overload): f for f in model.functions}
        self.weights: dict[str, Known] = {}
        self.depth: list[tuple[str, str]] = []
        self.made: dict[Any, Program] = {}

    # -- graphs

    def graph(self, graph: Any, scope: _Scope | None, opsets: Mapping[str, int], bound: Mapping[str, Any]) -> Program:
        """Return the program of a GraphProto; names that it does not define are looked up in `scope`."""
        inner = _Scope(self, scope, opsets, bound, graph.name or "the graph")
        initial = {}
        for t in graph.initializer:
            initial[t.name] = self.array(t, f"initializer {shown(t.name)!r}")
        for t in graph.sparse_initializer:
            initial[t.values.name] = self.sparse(t, f"initializer {shown(t.values.name)!r}")
        inputs = [i.name for i in graph.input if scope is not None or i.name not in initial]
        kinds = {i.name: i.type.tensor_type.elem_type for i in graph.input}
        floating = [n for n in inputs if kinds[n] and is_floating(numpy_dtype(kinds[n], f"input {shown(n)!r}"))]
        return inner.build(inputs, [o.name for o in graph.output], graph.node, initial, floating=floating)

    def function(self, proto: Any, attributes: Mapping[str, Any], name: str) -> Program:
        """Return the program of a FunctionProto whose attributes are these AttributeProtos."""
        key = (_domain(proto.domain), proto.name, getattr(proto, "overload", ""))
        if key[:2] in self.depth:
            refuse(f"function {shown(proto.name)!r} calls itself")
        bound = {a.name: a for a in proto.attribute_proto}
        bound.update({n: a for n, a in attributes.items() if n in proto.attribute or n in bound})
        made_key = (*key, id(proto), tuple(sorted((n, a.SerializeToString()) for n, a in bound.items())))
        if made_key in self.made:
            return self.made[made_key]
        self.depth.append(key[:2])
        try:
            if len(self.depth) > _MOST_EXPANSIONS:
                refuse(f"function {shown(proto.name)!r} is nested too deep")
            opsets = {**self.opsets, **_versions(proto.opset_import)}
            scope = _Scope(self, None, opsets, bound, name)
            made = scope.build(list(proto.input), list(proto.output), proto.node, {}, partial=True)
        finally:
            self.depth.pop()
        self.made[made_key] = made
        return made

    # -- tensors

    def array(self, proto: Any, what: str) -> Known:
        """Return a TensorProto's array."""
        return array_of(proto, what, self.folder, self.limit, self.external)

    def sparse(self, proto: Any, what: str) -> Known:
        """Return a SparseTensorProto's array, with zeros filled in."""
        values, places = self.array(proto.values, what), self.array(proto.indices, what)
        shape = tuple(proto.dims)
        if any(n < 0 for n in shape) or math.prod(shape) * values.dtype.itemsize > self.limit:
            refuse(f"{what} of shape {shape} asks for more than {self.limit:,} bytes")
        out = np.zeros(shape, dtype=values.dtype)
        if places.ndim not in (1, 2) or places.dtype.kind not in "iu":
            refuse(f"{what} has indices of shape {places.shape}")
        try:
            if places.ndim == 1:
                out.reshape(-1)[places] = values
            else:
                out[tuple(places.T)] = values
        except (IndexError, ValueError) as e:
            refuse(f"{what} has indices that do not fit: {e}")
        return out


def _domain(domain: str) -> str:
    return "" if domain in _AI else domain


def _versions(imports: Any) -> dict[str, int]:
    return {_domain(o.domain): o.version for o in imports}


class _Scope:
    """The names of one graph while its program is made."""

    def __init__(
        self, builder: Builder, outer: _Scope | None, opsets: Mapping[str, int], bound: Mapping[str, Any], name: str
    ) -> None:
        self.builder = builder
        self.outer = outer
        self.opsets = opsets
        self.bound = bound
        self.name = name
        self.slots: dict[str, int] = {}
        self.count = 0
        self.captured: dict[str, int] = {}
        self.constants: list[tuple[int, Any]] = []
        self.constant_of: dict[int, Any] = {}
        self.steps: list[Step] = []
        self.nodes: list[Any] = []

    def new(self, name: str) -> int:
        slot = self.count
        self.count += 1
        self.slots[name] = slot
        return slot

    def slot(self, name: str) -> int | None:
        """Return the slot of a name; one of an outer graph becomes captured."""
        found = self.slots.get(name)
        if found is None and self.outer is not None:
            outside = self.outer.slot(name)
            if outside is None:
                return None
            if outside in self.outer.constant_of:
                found = self.new(name)
                self.constants.append((found, self.outer.constant_of[outside]))
                self.constant_of[found] = self.outer.constant_of[outside]
            else:
                found = self.new(name)
                self.captured[name] = found
        return found

    def build(
        self,
        inputs: Sequence[str],
        outputs: Sequence[str],
        nodes: Sequence[Any],
        initial: Mapping[str, Known],
        partial: bool = False,
        floating: Sequence[str] = (),
    ) -> Program:
        """Return the program. With `partial` an output that nothing gives is absent, as in functions' definitions.

        The inputs called `floating` have other values in every run, even where shapes depend on them.
        """
        if len(set(inputs)) != len(inputs):
            refuse(f"{shown(self.name)} names an input twice")
        entered = tuple(self.new(n) for n in inputs)
        loaded = {self.new(n): n for n in initial}
        for node in nodes:
            self.node(node)
            self.nodes.append(node)
        ends = []
        for name in outputs:
            found = self.slot(name)
            if found is None and partial:
                found = self.new(name)
            if found is None:
                refuse(f"output {shown(name)!r} of {shown(self.name)} is the result of no node")
            ends.append(found)
        captured = tuple(self.captured.values())
        asked = demands(self.steps, ends, () if partial else entered, [self.slots[n] for n in floating])
        given = frozenset((*captured, *entered))
        # What decides shapes in an operator that is expanded by its operands' dtypes is seen only when it runs.
        unseen = {s for step in self.steps if step.generic is not None for s in step.operands}
        weights: list[tuple[int, str]] = []
        for slot, name in loaded.items():
            array = initial[name]
            if (
                asked.fixes(slot, given, is_floating(array.dtype))
                or not _trains(array)
                or (slot in unseen and array.dtype.kind in "iub" and array.ndim < 2)
            ):
                self.constants.append((slot, array))
            else:
                weights.append((slot, self.weight(name, array)))
        self.release(frozenset(ends))
        called = [s.function for s in self.steps if s.function is not None]
        called += [body.program for s in self.steps for body in s.bodies.values()]
        total = len(self.steps) + sum(program.nodes for program in called)
        if total > _MOST_NODES:
            refuse(
                f"{shown(self.name)} runs {total:,} nodes with those of the functions that it calls, more than "
                f"{_MOST_NODES:,}",
                "A function runs again for each of its calls.",
            )
        return Program(
            shown(self.name),
            self.count,
            entered,
            tuple(inputs),
            captured,
            tuple(ends),
            tuple(outputs),
            self.constants,
            weights,
            self.steps,
            asked,
            total,
        )

    def weight(self, name: str, array: Known) -> str:
        key, count = name or "weight", 0
        while key in self.builder.weights:
            count += 1
            key = f"{name}_{count}"
        self.builder.weights[key] = array
        return key

    def node(self, node: Any) -> None:
        """Add the step of a node."""
        what = title(node)
        try:
            self._node(node, what)
        except OnnxError as e:
            text = str(e)
            if text.startswith(("node ", "initializer ", "function ")):
                raise
            refuse(f"{what}: {text.partition(chr(10))[0].rpartition(' (')[0]}", text.partition("\n")[2])

    def _node(self, node: Any, what: str) -> None:
        domain = _domain(node.domain)
        operands = []
        for name in node.input:
            if not name:
                operands.append(_ABSENT)
                continue
            found = self.slot(name)
            if found is None:
                refuse(f"{what} reads {shown(name)!r}, which nothing before it gives")
            operands.append(found)
        protos = self.attributes(node)
        if domain == "" and node.op_type == "Constant":
            value = self.constant(protos, what)
            slot = self.result(node.output[0], what)
            self.constants.append((slot, value))
            self.constant_of[slot] = value
            return
        local = self.builder.functions.get((domain, node.op_type, getattr(node, "overload", "")))
        if local is not None:
            program = self.builder.function(local, protos, f"function {node.op_type!r}")
            step = Step(
                what, shown(node.op_type), None, program, None, tuple(operands), self.results(node, what), {}, {}, 0,
                document=stored(node), place=place_of(node),
            )  # fmt: skip
            if len(operands) > len(program.inputs) or len(step.results) > len(program.outputs):
                refuse(f"{what} has other numbers of inputs or outputs than the function")
            self.steps.append(step)
            return
        version = self.opsets.get(domain)
        if version is None:
            refuse(f"{what} is of the domain {shown(domain)!r}, of which the model imports no version")
        most = newest(domain)
        if most is not None and version > most:
            refuse(
                f"{what} is of version {version} of the domain {domain or 'ai.onnx'!r}, after {most}, the last one "
                "that the package onnx knows",
                "What its operators mean is not known. A newer package may know it, or convert the model "
                "(onnx.version_converter).",
            )
        rule = find(domain, node.op_type, version)
        check(node, domain, version, protos, what, None if rule is None else rule.function)
        step = Step(
            what, shown(node.op_type), rule, None, None, tuple(operands), (), {}, {}, version,
            document=stored(node), place=place_of(node),
        )  # fmt: skip
        if rule is None:
            self.expand(step, node, domain, version, protos, what)
        else:
            self.values_of(step, rule, protos, what)
        if (domain, node.op_type) == (TRAINING, "Gradient"):
            step.bodies["function"] = self.body(self.between(step.attributes))
        step.results = self.results(node, what)
        self.steps.append(step)

    def between(self, attributes: Mapping[str, Any]) -> Any:
        """Return the graph from the tensors that a Gradient node names to the one that it differentiates."""
        starts = (*attributes.get("xs", ()), *attributes.get("zs", ()))
        wanted, nodes = {str(attributes.get("y"))}, []
        for node in reversed(self.nodes):
            given = set(node.output) - {""}
            if given & wanted and not given & set(starts):
                nodes.append(node)
                wanted = wanted - given | set(node.input)
        graph = self.builder.onnx.GraphProto(name="the function of a gradient")
        graph.node.extend(reversed(nodes))
        graph.input.extend(self.builder.onnx.ValueInfoProto(name=n) for n in starts)
        graph.output.extend([self.builder.onnx.ValueInfoProto(name=str(attributes.get("y")))])
        return graph

    def results(self, node: Any, what: str) -> tuple[int, ...]:
        names = list(node.output)
        while names and not names[-1]:
            names.pop()
        return tuple(self.result(n, what) if n else _ABSENT for n in names)

    def result(self, name: str, what: str) -> int:
        if name in self.slots and name not in self.captured:
            refuse(f"{what} gives {shown(name)!r}, which has a value already")
        return self.new(name)

    # -- attributes

    def attributes(self, node: Any) -> dict[str, Any]:
        """Return a node's AttributeProtos by name, with those of the function's caller put in."""
        out = {}
        for a in node.attribute:
            if a.ref_attr_name:
                given = self.bound.get(a.ref_attr_name)
                if given is None:
                    continue
                if a.name != given.name:
                    renamed = type(given)()
                    renamed.CopyFrom(given)
                    renamed.name = a.name
                    given = renamed
                out[a.name] = given
            else:
                out[a.name] = a
        return out

    def values_of(self, step: Step, rule: Rule, protos: Mapping[str, Any], what: str) -> None:
        kinds = self.builder.onnx.AttributeProto
        for name, a in protos.items():
            if name not in rule.attributes and not rule.any_attribute:
                if a.type == kinds.GRAPH:
                    step.bodies[name] = self.body(a.g)
                    continue
                refuse(f"{what} has an attribute {shown(name)!r} that its operator does not have")
            if a.type == kinds.GRAPH:
                step.bodies[name] = self.body(a.g)
                continue
            value = self.value(a, f"{what}, attribute {shown(name)!r}")
            step.attributes[name] = value
            step.reach *= _reach(value)

    def body(self, graph: Any) -> Body:
        depth, scope = 0, self.outer
        while scope is not None:
            depth, scope = depth + 1, scope.outer
        if depth > 30:
            refuse("graphs are nested more than 30 deep")
        inner = _Scope(self.builder, self, self.opsets, self.bound, graph.name or "body")
        initial = {t.name: self.builder.array(t, f"initializer {shown(t.name)!r}") for t in graph.initializer}
        program = inner.build([i.name for i in graph.input], [o.name for o in graph.output], graph.node, initial)
        return Body(program, tuple(self.slots[n] for n in inner.captured))

    def value(self, a: Any, what: str) -> Any:
        """Return an AttributeProto's value: Python's numbers and text, tuples, arrays, dtypes' protos."""
        kinds = self.builder.onnx.AttributeProto
        if a.type == kinds.FLOAT:
            return float(a.f)
        if a.type == kinds.INT:
            return int(a.i)
        if a.type == kinds.STRING:
            return a.s.decode("utf-8", "replace")
        if a.type == kinds.TENSOR:
            return self.builder.array(a.t, what)
        if a.type == kinds.SPARSE_TENSOR:
            return self.builder.sparse(a.sparse_tensor, what)
        if a.type == kinds.FLOATS:
            return tuple(a.floats)
        if a.type == kinds.INTS:
            return tuple(a.ints)
        if a.type == kinds.STRINGS:
            return tuple(s.decode("utf-8", "replace") for s in a.strings)
        if a.type == kinds.TENSORS:
            return tuple(self.builder.array(t, what) for t in a.tensors)
        if a.type == kinds.TYPE_PROTO:
            return a.tp
        refuse(f"{what} is of a kind that is not supported")

    def constant(self, protos: Mapping[str, Any], what: str) -> Any:
        if len(protos) != 1:
            refuse(f"{what} has {len(protos)} attributes instead of one")
        (name,) = protos
        value = self.value(protos[name], f"{what}, attribute {shown(name)!r}")
        if name in ("value", "sparse_value"):
            return value
        if name in ("value_int", "value_ints"):
            return np.array(value, dtype=np.int64)
        if name in ("value_float", "value_floats"):
            return np.array(value, dtype=np.float32)
        if name in ("value_string", "value_strings"):
            return np.array(value, dtype=object)
        refuse(f"{what} has no attribute {shown(name)!r}")

    # -- operators that ONNX defines by others

    def expand(self, step: Step, node: Any, domain: str, version: int, protos: Mapping[str, Any], what: str) -> None:
        """Make a step of the function by which ONNX defines an operator. Raises OnnxError where there is none."""
        onnx = self.builder.onnx
        try:
            schema = onnx.defs.get_schema(node.op_type, version, domain)
        except onnx.defs.SchemaError:
            refuse(
                f"{what}: the operator is not known in version {version} of the domain {shown(domain) or 'ai.onnx'!r}",
                "Operators of others need their definition as a function in the model.",
            )
        protos = {**{n: a.default_value for n, a in schema.attributes.items() if a.default_value.name}, **protos}
        if schema.has_function:
            number = _latest(schema.function_opset_versions, version)
            proto = onnx.FunctionProto.FromString(schema.get_function_with_opset_version(number))
            step.function = self.builder.function(proto, protos, what)
        elif schema.has_context_dependent_function:
            number = _latest(schema.context_dependent_function_opset_versions, version)
            step.generic = self.by_types(schema, node, number, protos, what)
        else:
            refuse(f"{what}: the operator has no rule")

    def by_types(
        self, schema: Any, node: Any, version: int, protos: Mapping[str, Any], what: str
    ) -> Callable[[Context, tuple[Any, ...]], Any]:
        """Return the function that runs an operator whose definition depends on its operands' dtypes and ranks."""
        onnx, builder = self.builder.onnx, self.builder
        plain = onnx.NodeProto()
        plain.CopyFrom(node)
        del plain.attribute[:]
        plain.attribute.extend(protos.values())
        programs: dict[Any, Program] = {}

        def run(context: Context, operands: tuple[Any, ...]) -> Any:
            key = tuple(_type_key(v) for v in operands)
            program = programs.get(key)
            if program is None:
                types = [_type_proto(onnx, v).SerializeToString() for v in operands if v is not None]
                try:
                    found = schema.get_context_dependent_function_with_opset_version(
                        version, plain.SerializeToString(), types
                    )
                except (RuntimeError, TypeError, ValueError) as e:  # the package's own
                    refuse(f"{what}: ONNX defines it by no function of these inputs: {str(e).partition(chr(10))[0]}")
                proto = onnx.FunctionProto.FromString(found)
                program = programs[key] = builder.function(proto, protos, what)
            given = [*operands, *[None] * (len(program.inputs) - len(operands))]
            return tuple(program.run(given, (), context.run))

        return run

    def release(self, kept: frozenset[int]) -> None:
        """Note after which step each slot is not read any more."""
        read = set(kept)
        for step in reversed(self.steps):
            used = {s for s in (*step.operands, *step.results) if s != _ABSENT}
            for body in step.bodies.values():
                used.update(body.captured)
            step.free = tuple(sorted(used - read))
            read |= used


def _trains(array: Known) -> bool:
    return holds(array.dtype)


def _latest(versions: Sequence[int], version: int) -> int:
    return max((v for v in versions if v <= version), default=min(versions))


def _reach(value: Any) -> int:
    values = value if isinstance(value, tuple) else (value,)
    return math.prod(max(1, abs(int(v))) for v in values if isinstance(v, (int, float)) and math.isfinite(v))


def _type_key(value: Any) -> Any:
    if isinstance(value, (Tensor, np.ndarray)):
        return (value.dtype, len(value.shape), tuple(value.shape))
    if isinstance(value, list):
        return ("sequence", _type_key(value[0]) if value else None)
    return None


def _type_proto(onnx: Any, value: Any) -> Any:
    if isinstance(value, list):
        inner = _type_proto(onnx, value[0]) if value else onnx.helper.make_tensor_type_proto(1, None)
        return onnx.helper.make_sequence_type_proto(inner)
    shape = [int(n) if isinstance(n, (int, np.integer)) else str(n) for n in value.shape]
    return onnx.helper.make_tensor_type_proto(element_type(value.dtype), shape)
