"""`Model`: an ONNX document as a module, and `load`."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

from ...core.dims import Dim
from ...core.tensor import Tensor
from ...nn.module import Module
from ...nn.parameter import Parameter
from .build import Builder
from .document import External, read
from .errors import OnnxError, refuse, said, shown
from .program import FAULTS, Program, Run, Step, walk
from .values import Known, holds, is_floating, nbytes, numpy_dtype, package, tensor
from .weights import Weights

# A model may use this much, and this many times the bytes of its weights and inputs.
_LEAST_MEMORY = 1 << 30
_MEMORY_FACTOR = 64


class Value(NamedTuple):
    """An input or an output, as the document describes it.

    `shape` has ints, names of sizes that are not known, and None where nothing is said; it is None for any rank.
    `dtype` is None for what is no tensor; `kind` is "tensor", "sequence", "optional", "sparse" or "map".
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[int | str | None, ...] | None
    kind: str = "tensor"

    @property
    def spec(self) -> Any:
        """The spec with unknown sizes, as `wg.graph` and `wg.function` take it."""
        if self.dtype is None or self.shape is None:
            refuse(f"{shown(self.name)!r} has no shape in the document", "Write the spec: wg.spec(shape, dtype).")
        names = [f"{self.name}_{i}" if n is None else n for i, n in enumerate(self.shape)]
        return wg.spec(tuple(names), self.dtype)


class Model(Module):
    """An ONNX model as a module: its weights are parameters, other initializers buffers, under their names.

    Call it with tensors (or arrays) by position or by the inputs' names; it returns its output, or a tuple of them in
    the document's order. Initializers that decide shapes are constants; of a model that is frozen (:meth:`freeze`) all
    are. Raises OnnxError, which names the node, where an operand does not fit.

    Attributes
    ----------
    inputs, outputs: what the document says of them (:class:`Value`), by order.
    defaults: inputs that have a value in the document. They may be given by name.
    metadata: the producer, versions, texts and properties that the document brings.
    static_inputs: the names of inputs whose values decide shapes: compiled programs are made for each value.
    opsets: the versions of operators by domain.
    fingerprint: the SHA-256 of the document.
    """

    def __init__(self, proto: Any, folder: str | None, memory: int | None, size: int, zipmap: bool = True) -> None:
        super().__init__()
        self.inputs: tuple[Value, ...] = ()
        self.defaults: tuple[Value, ...] = ()
        self.outputs: tuple[Value, ...] = ()
        self.metadata = _metadata(proto)
        # What the program is made of, so that no compiled function takes one model for another.
        self.fingerprint = hashlib.sha256(proto.SerializeToString(deterministic=True)).hexdigest()
        limit = _LEAST_MEMORY + _MEMORY_FACTOR * size if memory is None else memory
        external = External(folder)
        builder = Builder(
            proto, folder, limit if memory is not None else max(limit, 1 << 36 if folder else 0), external
        )
        initial = {t.name for t in proto.graph.initializer} | {t.values.name for t in proto.graph.sparse_initializer}
        self.inputs = tuple(value_of(v) for v in proto.graph.input if v.name not in initial)
        self.outputs = tuple(value_of(v) for v in proto.graph.output)
        self.defaults = tuple(value_of(v) for v in proto.graph.input if v.name in initial)
        self._program: Program = builder.graph(proto.graph, None, builder.opsets, {})
        self._document = _without_weights(proto, builder.weights)
        self._memory = memory
        self._zipmap = zipmap
        self._size = size + sum(a.nbytes for a in builder.weights.values())
        self.opsets = dict(builder.opsets)
        self._places: dict[str, tuple[str, ...]] = {}
        self.is_frozen = False
        kinds = Weights(proto)
        for name, array in builder.weights.items():
            self._add(name, array, kinds)
        self.static_inputs = self._held()

    def __getstate__(self) -> dict[str, Any]:
        state = {k: v for k, v in super().__getstate__().items() if k != "_program"}
        return {**state, "_constants": self._program.constants_by_name()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take a state, and make the program of its document again."""
        constants = state.pop("_constants")
        super().__setstate__(state)
        proto = package().ModelProto.FromString(self._document)
        builder = Builder(proto, None, sys.maxsize, _stand_in)
        self._program = builder.graph(proto.graph, None, builder.opsets, {})
        self._program.fix(constants)

    def freeze(self) -> Model:
        """Make all weights constants, with the values that they have now, and return the model.

        It has no parameters and no buffers then, and cannot be trained. A compiled function computes once what follows
        from constants alone, and lays them out once as its products read them: this is the form for inference.

        >>> import wengert as wg
        >>> model = wg.interop.onnx.load("model.onnx").freeze()  # doctest: +SKIP
        >>> list(model.parameters())  # doctest: +SKIP
        []
        """
        digest = hashlib.sha256(self.fingerprint.encode())
        constants = {}
        for name in self._places:
            array = np.array(self.initializer(name).detach().numpy(), order="C")
            array.flags.writeable = False
            constants[name] = array
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        self._program.fix(constants)
        for path in self._places.values():
            if hasattr(self, path[0]):
                delattr(self, path[0])
        self._places = {}
        self.is_frozen = True
        self.fingerprint = digest.hexdigest()
        return self

    def _held(self) -> tuple[str, ...]:
        """Return the names of inputs that decide shapes, or of integers and truths that decide what is done."""
        asked = self._program.demands
        at = zip(self.inputs, self._program.inputs)
        exact = {slot for v, slot in at if v.dtype is not None and not is_floating(v.dtype)}
        held = asked.needed | (asked.wanted & exact)
        return tuple(n for n, slot in zip(self._program.input_names, self._program.inputs) if slot in held)

    def _add(self, name: str, array: Known, weights: Weights) -> None:
        path = [part or "_" for part in name.split(".")]
        owner: Module = self
        for i, part in enumerate(path[:-1]):
            child = getattr(owner, part) if part in owner._modules else None
            if child is None and hasattr(owner, part):
                path = [*path[:i], "_".join(path[i:])]
                break
            if child is None:
                child = Module()
                owner.register_module(part, child)
            owner = child
        last = path[-1]
        while hasattr(owner, last):
            last += "_"
        if is_floating(array.dtype) and weights.trains(name, array):
            owner.register_parameter(last, Parameter(array))
        else:
            owner.register_buffer(last, wg.tensor(array))
        self._places[name] = (*path[:-1], last)

    def initializer(self, name: str) -> Tensor:
        """Return the parameter or buffer of an initializer, by the initializer's name in the document."""
        found: Any = self
        if name not in self._places:
            refuse(f"the model has no weight {shown(name)!r}")
        for part in self._places[name]:
            found = getattr(found, part)
        out: Tensor = found
        return out

    @property
    def nodes(self) -> Sequence[Step]:
        """The nodes of the document's graph, but for those that are constants."""
        return self._program.steps

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts that stand for the classes of the document's last classifier; none where these are numbers."""
        found = (step.attributes.get("classlabels_strings") for step in reversed(self._program.steps))
        return next((tuple(texts) for texts in found if texts), ())

    def operators(self) -> list[str]:
        """Return the names of the operators of all nodes, those of graphs and functions inside too."""
        return [step.operator for program in walk(self._program) for step in program.steps]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output, or a tuple of the outputs in the document's order."""
        outputs = self._run(args, kwargs)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def named(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the outputs by their names.

        Parameters
        ----------
        args, kwargs: the inputs, as for a call of the model. Raises OnnxError as a call does.
        """
        return dict(zip(self._program.output_names, self._run(args, kwargs)))

    def told(self, tell: Callable[[Step, Sequence[Any], Sequence[Any]], None], inputs: Mapping[str, Any]) -> None:
        """Run the model, and tell of each node of the document's graph, its operands and its results."""
        self._run((), inputs, tell)

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any], tell: Any = None) -> list[Any]:
        names = [v.name for v in self.inputs]
        if len(args) > len(names):
            refuse(f"the model takes {len(names)} inputs and is given {len(args)}", f"They are: {', '.join(names)}.")
        given = dict(zip(names, args))
        others = {v.name: v for v in self.defaults}
        for name, value in kwargs.items():
            if name in others:
                continue
            if name not in names:
                refuse(f"the model has no input {shown(name)!r}", f"They are: {', '.join(names)}.")
            if name in given:
                refuse(f"input {shown(name)!r} is given twice")
            given[name] = value
        missing = [v.name for v in self.inputs if v.name not in given and v.kind != "optional"]
        if missing:
            refuse(f"the model is not given its input {shown(missing[0])!r}", f"It takes: {', '.join(names)}.")
        named: dict[str, Any] = {}
        values = [_converted(given.get(v.name), v, named) for v in self.inputs]
        weights = {n: self._at(path) for n, path in self._places.items()}
        for name in others.keys() & kwargs.keys():
            if name not in weights:
                refuse(f"input {shown(name)!r} has a value in the document that is a constant of the model by now")
            weights[name] = tensor(_converted(kwargs[name], others[name], named))
        size = self._size + sum(nbytes(v) for v in values)
        limit = _LEAST_MEMORY + _MEMORY_FACTOR * size if self._memory is None else self._memory
        outputs = self._program.run(values, (), Run(weights, limit, tell, self._zipmap))
        return [_output(v) for v in outputs]

    def _at(self, path: tuple[str, ...]) -> Any:
        found: Any = self
        for part in path:
            found = getattr(found, part)
        return found

    def __repr__(self) -> str:
        takes = ", ".join(map(_show, self.inputs))
        gives = ", ".join(map(_show, self.outputs))
        return f"Model({self.metadata.get('graph', '')!r}: {takes} -> {gives})"


def load(source: Any, *, memory: int | None = None, zipmap: bool = True) -> Model:
    """Return an ONNX model as a module that runs, differentiates, compiles and trains.

    Parameters
    ----------
    source: a path, the file's bytes, or an `onnx.ModelProto`. Weights in other files are read from the model's folder
        and from nowhere else.
    memory: the bytes that the values of a run may take together; by default 1 GiB and 64 times the bytes of the
        weights and inputs.
    zipmap: whether classifiers give dictionaries of scores (`ZipMap`) and texts as labels, as the document says.
        Otherwise they give the scores as a tensor, and for texts their places in `model.labels`, as compiled
        functions need.

    Raises OnnxError for what is no model, or has an operator that is not supported; its first line names the node.
    Needs the package onnx: `pip install 'wengert[onnx]'`. The format is that of https://onnx.ai, operators of
    versions 7 to the newest that the package knows.

    >>> import wengert as wg
    >>> model = wg.interop.onnx.load("model.onnx")  # doctest: +SKIP
    >>> model(wg.ones((1, 3, 224, 224))).shape  # doctest: +SKIP
    (1, 1000)
    """
    return made_of(*read(source), memory, zipmap)


def made_of(proto: Any, folder: str | None, size: int, memory: int | None, zipmap: bool = True) -> Model:
    """Return the model of a document that was read: see :func:`load`."""
    try:
        return Model(proto, folder, memory, size, zipmap)
    except OnnxError:
        raise
    except FAULTS as e:
        refuse(f"this ONNX model is not well formed: {type(e).__name__}: {said(e)}")


# -- inputs and outputs


def _converted(value: Any, declared: Value, named: dict[str, Any]) -> Any:
    try:
        return _input(value, declared, named)
    except OnnxError:
        raise
    except (ValueError, TypeError, OverflowError) as e:
        refuse(f"input {shown(declared.name)!r} is nothing that the model takes: {said(e)}")


def _input(value: Any, declared: Value, named: dict[str, Any]) -> Any:
    what = f"input {shown(declared.name)!r}"
    if declared.kind == "optional" and value is None:
        return None
    if isinstance(value, (list, tuple)) and declared.kind in ("sequence", "optional"):
        return [_input(v, Value(declared.name, declared.dtype, None), {}) for v in value]
    if isinstance(value, np.ndarray) and not holds(value.dtype):
        if value.dtype.kind in "US":
            value = value.astype(object)
        if declared.dtype is not None and value.dtype != declared.dtype:
            refuse(f"{what} is {value.dtype.name}, and the model takes {declared.dtype.name}")
        return value
    if declared.kind == "map":
        return value
    if declared.dtype is not None and not holds(declared.dtype):
        value = np.asarray(value, dtype=declared.dtype)
    elif isinstance(value, (bool, int, float, complex, list, tuple, np.generic)):
        value = wg.asarray(value, dtype=declared.dtype)
    else:
        value = wg.asarray(value)
    if declared.dtype is not None and value.dtype != declared.dtype:
        refuse(
            f"{what} is {value.dtype.name}, and the model takes {declared.dtype.name}",
            f"Convert it first: x.astype(wg.{declared.dtype.name}).",
        )
    if declared.shape is not None and declared.kind == "tensor":
        shape = tuple(value.shape)
        fits = len(shape) == len(declared.shape)
        for have, want in zip(shape, declared.shape):
            if isinstance(want, str) and want:
                size, first = named.setdefault(want, (have, declared.name))
                if fits and size != have and not isinstance(have, Dim):
                    refuse(
                        f"{what} has the shape {shape}, and its open size {shown(want)!r} is {size} in input "
                        f"{shown(first)!r}: inputs share a size of one name",
                        "Sizes that differ need names that do: wg.spec(('n',)), wg.spec(('m',)).",
                    )
                continue
            fits = fits and (want is None or want == "" or have == want or isinstance(have, Dim))
        if not fits:
            refuse(f"{what} has the shape {shape}, and the model takes {_shape(declared.shape)}")
    return value


def _output(value: Any) -> Any:
    if isinstance(value, np.ndarray) and holds(value.dtype):
        return tensor(value)
    if isinstance(value, list):
        return [_output(v) for v in value]
    return value


def value_of(proto: Any) -> Value:
    """Return the `Value` that a ValueInfoProto describes. Raises OnnxError if its type is not ONNX's."""
    kind = proto.type.WhichOneof("value") or "tensor_type"
    held = proto.type
    name = kind.removesuffix("_type")
    while kind in ("optional_type", "sequence_type"):
        held = getattr(held, kind).elem_type
        kind = held.WhichOneof("value") or "tensor_type"
        if name == "optional":
            break
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return Value(proto.name, None, None, name)
    inner = getattr(held, kind)
    if not inner.elem_type:
        return Value(proto.name, None, None, name)
    dtype = numpy_dtype(inner.elem_type, f"value {shown(proto.name)!r}")
    shape: tuple[int | str | None, ...] | None = None
    if inner.HasField("shape") and name == "tensor":
        shape = tuple(map(_size, inner.shape.dim))
    return Value(proto.name, dtype, shape, name.removesuffix("_tensor"))


def _size(dim: Any) -> int | str | None:
    """Return a size, its name, or None where it is open; some exporters write open sizes as negative numbers."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def _shape(shape: tuple[Any, ...]) -> str:
    inner = ", ".join("?" if n is None else shown(str(n)) for n in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _show(value: Value) -> str:
    dtype = "" if value.dtype is None else f" {value.dtype.name}"
    return f"{shown(value.name)}{dtype}" + ("" if value.shape is None else _shape(value.shape))


def _without_weights(proto: Any, weights: Mapping[str, Known]) -> bytes:
    """Return a document without the numbers of its weights, which a module holds."""
    out = package().ModelProto()
    out.CopyFrom(proto)
    for stored in out.graph.initializer:
        if stored.name in weights:
            kept = type(stored)(name=stored.name, data_type=stored.data_type, dims=stored.dims)
            kept.data_location = kept.EXTERNAL
            stored.CopyFrom(kept)
    found: bytes = out.SerializeToString()
    return found


def _stand_in(proto: Any, dtype: np.dtype[Any], what: str, folder: str | None) -> Known:
    """Return an array in the place of a weight that a module holds."""
    return np.broadcast_to(np.zeros((), dtype), tuple(proto.dims))


def _metadata(proto: Any) -> dict[str, Any]:
    found = {
        "ir_version": proto.ir_version,
        "producer": proto.producer_name,
        "producer_version": proto.producer_version,
        "domain": proto.domain,
        "model_version": proto.model_version,
        "doc": proto.doc_string,
        "graph": proto.graph.name,
    }
    return {**{k: v for k, v in found.items() if v}, **{p.key: p.value for p in proto.metadata_props}}
