"""Event files that TensorBoard shows: curves, histograms, pictures, text, hyperparameters, graphs.

The formats and the writing of files are those of the `tensorboard` package, which is imported when a writer is made
(`pip install 'wengert[tensorboard]'`). Names and arguments are those of `torch.utils.tensorboard`.
"""

from __future__ import annotations

import io
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.errors import DTypeError, GraphError, ShapeError, StateError, fail
from ..core.graph.graph import Graph
from ..core.tensor import Tensor, asarray
from ..transforms.tracing.trace import graph as traced
from .named_nodes import NamedNode, named_nodes

__all__ = ["SummaryWriter"]

Path = str | os.PathLike[str]

_BUCKETS = 64


def event_writer() -> Any:
    """Return TensorBoard's writer of events. Raises GraphError where the package is not installed."""
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        fail(GraphError, "TensorBoard is not installed", "Install it: pip install 'wengert[tensorboard]'.")
    return EventFileWriter


class SummaryWriter:
    """A writer of event files into a folder; `tensorboard --logdir` shows it.

    Parameters
    ----------
    log_dir: the folder of this run, made where it is missing. Runs in folders beside each other are shown together.
    purge_step: the first step of a run that goes on: TensorBoard leaves out what the folder's other files have from
        this step on.

    `global_step` places a value on the horizontal axis, `walltime` (seconds since 1970; now by default) in time. What
    was added is in the file after `flush()` or `close()`, at the end of a `with` block or of the program, and
    by itself every two minutes.

    Raises GraphError where the package `tensorboard` is not installed.
    """

    def __init__(self, log_dir: Path, purge_step: int | None = None) -> None:
        self.log_dir = os.fspath(log_dir)
        self._writers: dict[str, Any] = {}
        self._closed = False
        self._finish = weakref.finalize(self, _close_all, self._writers)
        self._writer(self.log_dir)
        if purge_step is not None:
            from tensorboard.compat.proto import event_pb2

            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._add(self.log_dir, purge_step, None, session_log=start)

    # -- what can be added

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a point of the curve `tag`. Raises ShapeError, DTypeError for anything but one real number."""
        self._add_value(self.log_dir, global_step, walltime, tag=tag, simple_value=_number(scalar_value))

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add points of several curves in one chart: each is a run of its own, in a folder inside this one's."""
        values = {key: _number(value) for key, value in tag_scalar_dict.items()}
        for key, value in values.items():
            folder = os.path.join(self.log_dir, f"{main_tag}_{key}".replace("/", "_"))
            self._add_value(folder, global_step, walltime, tag=main_tag, simple_value=value)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: int = _BUCKETS,
        walltime: float | None = None,
    ) -> None:
        """Add the distribution of a tensor's elements, in `bins` intervals of equal width; NaN and infinities are left
        out.

        Raises DTypeError for complex elements.
        """
        from tensorboard.compat.proto import summary_pb2

        histogram = summary_pb2.HistogramProto(**_distribution(_real(values).ravel(), bins))
        self._add_value(self.log_dir, global_step, walltime, tag=tag, histo=histogram)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture: bytes, or floats from 0 to 1, with 1, 3 or 4 channels.

        `dataformats` names the axes: "CHW", "HWC" or "HW".

        Raises ShapeError, DTypeError.
        """
        from PIL import Image
        from tensorboard.compat.proto import summary_pb2

        pixels = _pixels(img_tensor, dataformats)
        file = io.BytesIO()
        Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
        height, width, channels = pixels.shape
        picture = summary_pb2.Summary.Image(
            height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
        )
        self._add_value(self.log_dir, global_step, walltime, tag=tag, image=picture)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a text in Markdown."""
        from tensorboard.plugins.text import metadata
        from tensorboard.util import tensor_util

        about = metadata.create_summary_metadata(display_name=tag, description="")
        content = tensor_util.make_tensor_proto(text_string)
        self._add_value(self.log_dir, global_step, walltime, tag=tag, metadata=about, tensor=content)

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any]) -> None:
        """Add this run's hyperparameters (numbers, booleans, strings) and its metrics.

        TensorBoard compares the runs in folders beside each other. Raises DTypeError for another type.
        """
        from tensorboard.plugins.hparams import summary_v2

        values = {key: _hyperparameter(key, value) for key, value in hparam_dict.items()}
        results = {key: _number(value) for key, value in metric_dict.items()}
        configuration = summary_v2.hparams_config_pb(
            [summary_v2.HParam(key) for key in values], [summary_v2.Metric(key) for key in results]
        )
        for summary in (configuration, summary_v2.hparams_pb(values)):
            self._add(self.log_dir, None, None, summary=summary)
        for key, value in results.items():
            self.add_scalar(key, value)

    def add_graph(self, model: Graph | Callable[..., Any], *inputs: Any, **keywords: Any) -> None:
        """Add a graph, or that of a model or function for these inputs (tensors, arrays or specs), traced.

        Modules, composites and the bodies of loops are boxes to open. There is one graph in a run. Raises what
        tracing raises.
        """
        if not isinstance(model, Graph):
            model = traced(model)(*inputs, **keywords)
        elif inputs or keywords:
            fail(GraphError, "add_graph of a graph, with inputs", "A graph has its own: leave them out.")
        self._add(self.log_dir, None, None, graph_def=_graph_def(named_nodes(model)).SerializeToString())

    # -- files

    def flush(self) -> None:
        """Bring what was added so far into the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what was added and close the files. A second call does nothing."""
        self._closed = True
        self._finish()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _writer(self, folder: str) -> Any:
        if self._closed:
            fail(StateError, f"the writer of {self.log_dir} is closed", "Make another one: SummaryWriter(log_dir).")
        if folder not in self._writers:
            self._writers[folder] = event_writer()(folder)
        return self._writers[folder]

    def _add_value(self, folder: str, step: int | None, walltime: float | None, **value: Any) -> None:
        from tensorboard.compat.proto import summary_pb2

        summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(**value)])
        self._add(folder, step, walltime, summary=summary)

    def _add(self, folder: str, step: int | None, walltime: float | None, **content: Any) -> None:
        from tensorboard.compat.proto import event_pb2

        when = time.time() if walltime is None else walltime
        self._writer(folder).add_event(
            event_pb2.Event(wall_time=when, step=0 if step is None else int(step), **content)
        )


def _close_all(writers: dict[str, Any]) -> None:
    while writers:
        writers.popitem()[1].close()


def _real(value: Any) -> Array:
    """Return a tensor, array or pytree of numbers as an array of float64."""
    x = value if isinstance(value, Tensor) else asarray(value)
    if x.is_complex():
        fail(DTypeError, f"complex numbers for TensorBoard, {x.spec}", "Take wg.abs, wg.real or wg.imag of them.")
    return np.asarray(x.detach().numpy()).astype(np.float64)


def _distribution(values: Array, bins: int) -> dict[str, Any]:
    """Return the fields of a histogram: one interval where floats cannot tell `bins` of them apart."""
    flat = values[np.isfinite(values)]
    low, high = (float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            found, limits = np.histogram(flat, bins)
            counts, edges = found.tolist(), limits.tolist()
        except ValueError:
            counts, edges = [flat.size], [low, high]
        # Buckets are told by their upper limits: an empty one below the least value goes before.
        buckets = {"bucket_limit": edges, "bucket": [0.0, *counts]}
        return {"min": low, "max": high, "num": flat.size, "sum": flat.sum(), "sum_squares": flat @ flat, **buckets}


def _number(value: Any) -> float:
    array = _real(value)
    if array.size != 1:
        fail(ShapeError, f"a scalar of shape {array.shape} for TensorBoard", "Reduce it first: its mean, its norm.")
    return float(array.item())


def _hyperparameter(key: str, value: Any) -> bool | int | float | str:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return _number(value)
    fail(DTypeError, f"the hyperparameter {key!r} is a {type(value).__name__}", "Give a number, a boolean or a string.")


def _pixels(value: Any, axes: str) -> Array:
    """Return a picture as bytes, (height, width, channels)."""
    x = value if isinstance(value, Tensor) else asarray(value)
    if axes not in ("CHW", "HWC", "HW"):
        fail(ShapeError, f"dataformats={axes!r} of a picture", 'Give "CHW", "HWC" or "HW".')
    array = _real(x) if x.dtype != np.uint8 else np.asarray(x.numpy())
    if array.ndim != len(axes):
        fail(ShapeError, f"a picture of shape {array.shape}, whose axes are {axes}")
    array = array[..., None] if axes == "HW" else np.moveaxis(array, axes.index("C"), -1)
    if array.shape[-1] not in (1, 3, 4):
        fail(ShapeError, f"a picture with {array.shape[-1]} channels", "It has 1, 3 or 4.")
    if array.dtype != np.uint8:
        array = np.round(np.nan_to_num(np.clip(array, 0.0, 1.0)) * 255).astype(np.uint8)
    return np.ascontiguousarray(array)


def _graph_def(nodes: list[NamedNode]) -> Any:
    from tensorboard.compat.proto import attr_value_pb2, graph_pb2, node_def_pb2, tensor_shape_pb2, versions_pb2

    def shape(sizes: tuple[int | None, ...]) -> Any:
        dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=-1 if n is None else n) for n in sizes]
        return tensor_shape_pb2.TensorShapeProto(dim=dims)

    def attributes(node: NamedNode) -> dict[str, Any]:
        found = {k: attr_value_pb2.AttrValue(s=v.encode()) for k, v in node.attributes.items()}
        shapes = attr_value_pb2.AttrValue.ListValue(shape=map(shape, node.shapes))
        return {**found, "_output_shapes": attr_value_pb2.AttrValue(list=shapes)}

    return graph_pb2.GraphDef(
        node=[node_def_pb2.NodeDef(name=n.name, op=n.op, input=n.inputs, attr=attributes(n)) for n in nodes],
        versions=versions_pb2.VersionDef(producer=22),  # of the format; any that TensorBoard reads
    )


def __dir__() -> list[str]:
    return sorted(__all__)
