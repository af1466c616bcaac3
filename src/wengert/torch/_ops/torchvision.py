"""torchvision's operators that are not made of others, in place of its C++: `torch.ops.torchvision`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.state.locks import imported
from ..library import Library
from ..namespace import as_torch, tensor_of

_LIBRARY = Library("torchvision", "DEF")
# Those that are named and not there.
_ABSENT = (
    "_roi_align_backward qnms roi_pool _roi_pool_backward ps_roi_align _ps_roi_align_backward ps_roi_pool "
    "_ps_roi_pool_backward deform_conv2d _deform_conv2d_backward qroi_align box_iou_rotated"
)
for _name in _ABSENT.split():
    _LIBRARY.define(f"{_name}()")


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """Return the indices of the boxes that no kept box of a higher score overlaps by more than a threshold."""
    boxes, order = np.asarray(dets.detach()), np.argsort(-np.asarray(scores.detach()), kind="stable")
    x0, y0, x1, y1 = boxes.T if len(boxes) else np.zeros((4, 0), boxes.dtype)
    area, kept = (x1 - x0) * (y1 - y0), []
    while len(order):
        first, rest = order[0], order[1:]
        kept.append(first)
        width = np.minimum(x1[first], x1[rest]) - np.maximum(x0[first], x0[rest])
        height = np.minimum(y1[first], y1[rest]) - np.maximum(y0[first], y0[rest])
        shared = np.maximum(width, 0) * np.maximum(height, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            order = rest[~(shared / (area[first] + area[rest] - shared) > iou_threshold)]
    return as_torch(tensor_of(np.asarray(kept, np.int64)))


def roi_align(
    input: Any,
    rois: Any,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Any:
    """Return the means of regions' cells, by the formula that torchvision has in Python."""
    found = imported("torchvision.ops.roi_align")
    return found._roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


_LIBRARY.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_LIBRARY.impl("nms", nms, "CPU")
_LIBRARY.define("roi_align(Tensor input, Tensor rois, float spatial_scale) -> Tensor")
_LIBRARY.impl("roi_align", roi_align, "CompositeImplicitAutograd")
_LIBRARY.define("_cuda_version() -> int")
_LIBRARY.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
