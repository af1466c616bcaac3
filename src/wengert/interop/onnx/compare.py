"""The values of a document's nodes beside those of another runtime."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ...core.errors import WengertError
from ...core.tensor import Tensor
from .document import External, read
from .errors import OnnxError, refuse, shown
from .inputs import OTHERS, Made, Wanted, bounds_of, make
from .model import Model, made_of
from .program import Step
from .values import array_of, element_type, package


class Difference(NamedTuple):
    """The first value that differs: the ONNX node, the op and the user's line, and by how much.

    `whole` is true of an output that differs only where the runtime may rewrite the model: no node does by itself.
    """

    node: str
    op: str
    source: str
    largest: float
    whole: bool = False

    def __str__(self) -> str:
        end = ", where the model runs as a whole, though no node does" if self.whole else ""
        return f"{self.node} ({self.op}, {self.source or 'no source'}) differs by {self.largest:.3g}{end}"


def compare_model(source: Any, wanted: Wanted, rtol: float, atol: float, runtime: str) -> Difference | None:
    """Return the first node of a document whose result another runtime computes differently; None where all agree.

    A node differs where it does so on equal operands: what rounding adds up over many nodes is no difference.
    """
    if runtime == "onnxruntime":
        _onnxruntime()
    proto, folder, size = read(source)
    model = made_of(proto, folder, size, None)
    steps = _steps(model, proto, wanted)
    whole = package().ModelProto()
    whole.CopyFrom(proto)
    _bring_in(whole.graph, folder)
    ends = [o.name for o in whole.graph.output]
    names = [name for step in steps.found for name in step.names if name and name not in ends]
    whole.graph.output.extend(package().ValueInfoProto(name=n) for n in dict.fromkeys(names))
    feeds = {name: _array(v) if _compares(v) else v for name, v in steps.inputs.values.items()}
    theirs = run_by(whole, feeds, [*dict.fromkeys(names), *ends], runtime)
    for step in steps.found:
        for i, (name, ours) in enumerate(zip(step.names, step.results)):
            if not name or not _compares(ours) or not _compares(theirs[name]):
                continue
            off = differs(_array(ours), theirs[name], rtol, atol)
            if off is None:
                continue
            # What a graph inside reads of the one around it is not among the operands.
            if not any(a.HasField("g") for a in _proto(step.step).attribute):
                off = _alone(step, whole, i, rtol, atol, runtime)
            if off is not None:
                return _difference(step, name, off)
    found = as_a_whole(whole, feeds, {n: theirs[n] for n in ends}, rtol, atol, runtime)
    if found is None:
        return None
    name, off = found
    for step in steps.found:
        if name in step.names:
            return _difference(step, name, off)._replace(whole=True)
    return Difference(shown(name), "output", "", off, True)


def as_a_whole(
    proto: Any, feeds: Mapping[str, Any], wanted: Mapping[str, Any], rtol: float, atol: float, runtime: str
) -> tuple[str, float] | None:
    """Return the first output that changes where a runtime gives no other value, as users run it, and by how much.

    A value that is asked for is computed; of the others an optimiser makes what it likes.
    """
    plain = package().ModelProto()
    plain.CopyFrom(proto)
    del plain.graph.output[len(wanted) :]
    found = run_by(plain, feeds, list(wanted), runtime)
    for name, value in wanted.items():
        if not _compares(value) or not _compares(found[name]):
            continue
        # Fused nodes round differently, each a little.
        scale = np.abs(np.asarray(value, np.float64)).max(initial=0) if np.asarray(value).dtype.kind == "f" else 0.0
        off = differs(np.asarray(found[name]), value, rtol, atol + rtol * (scale if np.isfinite(scale) else 0.0))
        if off is not None:
            return name, off
    return None


class _Done(NamedTuple):
    """A node that ran: what the document says of it, its operands and results."""

    step: Step
    names: list[str]
    operands: list[Any]
    results: list[Any]


class _Steps(NamedTuple):
    found: list[_Done]
    inputs: Made


def _steps(model: Model, proto: Any, wanted: Wanted) -> _Steps:
    """Run a model on inputs that are given or made, with other sizes where the usual ones do not fit."""
    bounds = bounds_of(proto.graph)
    error: WengertError | None = None
    for other in OTHERS:
        made = make(model.inputs, bounds, wanted, other)
        found: list[_Done] = []

        def tell(step: Step, operands: Sequence[Any], results: Sequence[Any], found: list[_Done] = found) -> None:
            found.append(_Done(step, list(_proto(step).output), list(operands), list(results)))

        try:
            with wg.no_grad():
                model.told(tell, made.values)
            return _Steps(found, made)
        except OnnxError as e:
            error = error or e
            if not made.guessed:
                break
    assert error is not None
    raise error


def _proto(step: Step) -> Any:
    return package().NodeProto.FromString(step.document)


def _bring_in(graph: Any, folder: str | None) -> None:
    """Put weights that stand in other files into the document, for runtimes that get its bytes."""
    onnx = package()
    external = External(folder)
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            what = f"initializer {shown(tensor.name)!r}"
            array = array_of(tensor, what, folder, 1 << 36, external)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.asarray(array), tensor.name))


def _alone(step: _Done, whole: Any, index: int, rtol: float, atol: float, runtime: str) -> float | None:
    """Return by how much a node differs on the operands that it had here; None where it agrees on them."""
    onnx = package()
    node = next(n for n in whole.graph.node if step.names[index] in n.output)
    given = {name: value for name, value in zip(node.input, step.operands) if name}
    if not all(map(_compares, given.values())):
        return float("inf")
    feeds = {name: _array(value) for name, value in given.items()}
    inputs = [onnx.helper.make_tensor_value_info(n, element_type(a.dtype), a.shape) for n, a in feeds.items()]
    graph = onnx.helper.make_graph([node], "alone", inputs, [onnx.ValueInfoProto(name=step.names[index])])
    small = onnx.ModelProto(ir_version=whole.ir_version, graph=graph)
    small.opset_import.extend(whole.opset_import)
    small.functions.extend(whole.functions)
    theirs = run_by(small, feeds, [step.names[index]], runtime)[step.names[index]]
    return differs(_array(step.results[index]), theirs, rtol, atol)


def _difference(step: _Done, name: str, off: float) -> Difference:
    told = step.step.told()
    place = "" if told.program is None else f"{told.program['file']}:{told.program['line']}"
    return Difference(told.name or shown(name), told.operator, place, off)


def _compares(value: Any) -> bool:
    """Return whether a value is an array of numbers: no text, no sequence, nothing that is absent."""
    if isinstance(value, Tensor):
        return True
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufcV"


def _array(value: Any) -> Any:
    return np.asarray(value.detach().numpy()) if isinstance(value, Tensor) else np.asarray(value)


# -- another runtime


def _onnxruntime() -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ImportError:
        refuse("the comparison needs the package onnxruntime", "Install it with: pip install onnxruntime")


def run_by(proto: Any, feeds: Mapping[str, Any], names: Sequence[str], runtime: str) -> dict[str, Any]:
    """Return the values of a document by another runtime: "onnxruntime", or "reference", the package's own."""
    if runtime == "reference":
        import onnx.reference

        try:
            with np.errstate(all="ignore"):
                found = onnx.reference.ReferenceEvaluator(proto).run(list(names), dict(feeds))
        except Exception as e:
            refuse(f"the evaluator of the package onnx refuses the model: {shown(str(e), 400)}")
        return dict(zip(names, found))
    if runtime != "onnxruntime":
        refuse(f"runtime is {runtime!r}, and neither 'onnxruntime' nor 'reference'")
    onnxruntime = _onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    # With several threads it chooses the scales of a quantised LSTM by those rows of a batch that one of them has.
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = session.run(list(names), dict(feeds))
    except Exception as e:
        refuse(f"onnxruntime refuses the model: {shown(str(e), 400)}")
    return dict(zip(names, found))


def differs(ours: Any, theirs: Any, rtol: float, atol: float) -> float | None:
    """Return by how much two arrays differ at most, where that is more than allowed; else None."""
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        return float("inf")
    if ours.dtype.kind not in "fcV":
        return None if (ours == theirs).all() else float(np.abs(ours.astype(float) - theirs.astype(float)).max())
    wide = np.complex128 if "c" in (ours.dtype.kind, theirs.dtype.kind) else np.float64
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(all="ignore"):
        off = np.where(same, 0, np.abs(ours - theirs))
        # An infinite value is within no distance of another one.
        bad = ~same & ~((off <= atol + rtol * np.abs(theirs)) & np.isfinite(off))
    return None if not bad.any() else float("inf") if np.isnan(off[bad]).any() else float(off[bad].max())
