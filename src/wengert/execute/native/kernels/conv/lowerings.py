"""Lowerings of convolutions: `convolve`, its data gradient and its weight gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from .....core.node import Node
from ...codegen.types import storage_type
from ...plan.lowering import Epilogue, Lowering, lowers
from ...plan.plan import View
from ..gemm.finish import plain_store
from .correlate import correlate, packed
from .depthwise import is_depthwise, side_by_side
from .geometry import SPATIAL, Axes, forward_axes, transpose_axes
from .weight import weight_gradient
from .widened import Widening, is_widening, reads_widened, widened

Result = View | tuple[View, ...] | None


def _is_supported(node: Node, *views: View) -> bool:
    """Return whether kernels exist for it: floats of one dtype, at most three dimensions, something to compute."""
    type = storage_type(views[0].dtype)
    return (
        all(v.size for v in views)
        and 1 <= len(node.attrs["stride"]) <= SPATIAL
        and type is not None
        and type.is_float
        and all(v.dtype == views[0].dtype for v in views)
    )


def _images(low: Lowering, x: View, spatial: int) -> View:
    """Return (*batch, C, *S) as (N, C, Z, Y, X)."""
    lead = len(x.shape) - spatial - 1
    shape = (prod(x.shape[:lead]), x.shape[lead], *_padded_size(x.shape[lead + 1 :]))
    found = x.reshape(shape)
    if found is None:
        found = low.copy(x).reshape(shape)
        assert found is not None
    return found


def _by_groups(w: View, groups: int) -> View:
    """Return (O, C / groups, *K) as (group, O / groups, C / groups, Z, Y, X)."""
    missing = (1,) * (SPATIAL + 2 - len(w.shape))
    out, depth, *kernel = w.shape
    return w._replace(
        shape=(groups, out // groups, depth, *missing, *kernel),
        strides=(w.strides[0] * (out // groups), w.strides[0], w.strides[1], *(0 for _ in missing), *w.strides[2:]),
    )


def _padded_size(size: Sequence[int]) -> tuple[int, ...]:
    return (1,) * (SPATIAL - len(size)) + tuple(size)


def _product(low: Lowering, node: Node, x: View, w: View, size: Sequence[int], each: Sequence[Axes]) -> Result:
    """Return the result of the correlations along `each`, which together compute all of it: channels last in memory."""
    shape, spatial = node.spec.shape, len(size)
    lead = len(shape) - spatial - 1
    order = (*range(lead), *range(lead + 1, len(shape)), lead)
    pixels = (prod(shape) // shape[lead], shape[lead])
    epilogue = low.epilogue(node, pixels, order)
    result: Result = epilogue.outputs if epilogue is not None else None
    if epilogue is None:
        made = low.temp([shape[i] for i in order], x.dtype)
        result = made.permute((*range(lead), len(shape) - 1, *range(lead, len(shape) - 1)))
        epilogue = plain_store(made._replace(shape=pixels, strides=(pixels[1], 1)))
    if len(each) == 1:
        _correlate_once(low, x, w, each[0], epilogue, _padded_size(size), node)
        return result
    for axes in each:
        correlate(low, x, w, axes, epilogue, _padded_size(size), node)
    return result


def _correlate_once(
    low: Lowering, x: View, w: View, axes: Axes, epilogue: Epilogue, size: Sequence[int], node: Node
) -> None:
    """Add the steps of a correlation that is all of a result: with one that waits for it, or later, with its reader."""
    width = low.target.lanes(x.type)
    waiting = low.taken_over(x) if is_depthwise(w) else None
    if waiting is not None:
        kernels = (waiting.w, waiting.axes, waiting.node), (side_by_side(w), axes, node)
        panels = [packed(low, kernel, along, width, of).view for kernel, along, of in kernels]
        widened(low, waiting, (panels[0], panels[1]), axes, epilogue, size, node)
        return
    steps = partial(correlate, low, x, w, axes, epilogue, size, node)
    reader = low.only_reader(node, epilogue) if is_widening(x, w, axes, epilogue) else None
    if reader is not None and _reads_widened(reader, node, epilogue):
        low.put_off(epilogue.outputs[0], Widening(x, w, axes, epilogue, node), steps)
        return
    steps()


def _reads_widened(reader: Node, node: Node, epilogue: Epilogue) -> bool:
    """Return whether the reader of a correlation's result is a depthwise one that can read it from scratch memory."""
    if reader.op is not node.op or reader.spec.dtype != node.spec.dtype or not isinstance(reader.inputs[1], Node):
        return False
    x, w = (e.spec.shape for e in reader.inputs)
    groups, spatial = reader.attrs["groups"], len(reader.attrs["stride"])
    is_each = groups > 1 and w[0] == groups and w[1] == 1 and epilogue.outputs[0].shape[-1] == groups
    return is_each and x[-spatial:] == node.spec.shape[-spatial:] and reads_widened(_axes(reader))


def _axes(node: Node) -> Axes:
    """Return the axes of a convolution."""
    x, w = (e.spec.shape for e in node.inputs)
    spatial = len(node.attrs["stride"])
    attrs = (node.attrs["stride"], node.attrs["padding"], node.attrs["dilation"])
    return forward_axes(x[-spatial:], node.spec.shape[-spatial:], w[2:], attrs)


@lowers("convolve", followed=True)
def convolve(low: Lowering, node: Node) -> Result:
    """Lower a convolution."""
    x, w = (low.view(i) for i in node.inputs)
    if not _is_supported(node, x, w):
        return None
    spatial = len(node.attrs["stride"])
    size = node.spec.shape[-spatial:]
    kernel = _by_groups(w, node.attrs["groups"])
    return _product(low, node, _images(low, x, spatial), kernel, size, [_axes(node)])


@lowers("convolve_transpose", followed=True)
def convolve_transpose(low: Lowering, node: Node) -> Result:
    """Lower the data gradient of a convolution."""
    y, w = (low.view(i) for i in node.inputs)
    stride, padding, dilation, groups = (node.attrs[n] for n in ("stride", "padding", "dilation", "groups"))
    if not _is_supported(node, y, w):
        return None
    size = node.attrs["size"]
    each = list(transpose_axes(size, y.shape[-len(stride) :], w.shape[2:], (stride, padding, dilation)))
    turned = _by_groups(w, groups).permute((0, 2, 1, 3, 4, 5))
    return _product(low, node, _images(low, y, len(stride)), turned, size, each)


@lowers("convolve_kernel")
def convolve_kernel(low: Lowering, node: Node) -> View | None:
    """Lower the weight gradient of a convolution."""
    x, y = (low.view(i) for i in node.inputs)
    stride, padding, dilation, groups = (node.attrs[n] for n in ("stride", "padding", "dilation", "groups"))
    spatial = len(stride)
    if not _is_supported(node, x, y):
        return None
    axes = forward_axes(x.shape[-spatial:], y.shape[-spatial:], node.attrs["kernel"], (stride, padding, dilation))
    w = low.temp(node.spec.shape, x.dtype)
    padded = w._replace(
        shape=(*w.shape[:2], *_padded_size(w.shape[2:])),
        strides=(*w.strides[:2], *(0,) * (SPATIAL - spatial), *w.strides[2:]),
    )
    weight_gradient(low, _images(low, x, spatial), _images(low, y, spatial), axes, groups, padded, node)
    return w
