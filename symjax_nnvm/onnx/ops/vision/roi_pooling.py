"""The ONNX form of ROIPooling; position-sensitive pooling has none."""

from __future__ import annotations

from symjax_nnvm.onnx.builder import Builder
from symjax_nnvm.onnx.forms import onnx_form, refuses
from symjax_nnvm.onnx.ops.vision.roi_align import own_images
from symjax_nnvm.onnx.tensors import Tensor
from symjax_nnvm.ops.vision import roi_pooling as ops


@onnx_form("ROIPooling")
def _roi_pooling(g: Builder, p: ops.ROIPoolingParams, data: Tensor, rois: Tensor) -> Tensor:
    number, exists = own_images(g, data, rois)
    regions = g.concat([g.cast(g.op("Unsqueeze", number, [1]), rois.dtype), g.slice(rois, 1, 1, 5)], 1)
    pooled = g.op("MaxRoiPool", data, regions, pooled_shape=list(p.pooled_size), spatial_scale=p.spatial_scale)
    return g.op("Where", exists, pooled, g.constant(0, data.dtype))


refuses(
    "_contrib_PSROIPooling",
    reason="ONNX has no position-sensitive pooling; composed of other operators it would copy the maps for each region",
    fix="Cut the network before it, with symjax_nnvm.cut(net, name).",
)
